package reconcile

import (
	"cmp"
	"context"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"rollcall/batch"
	"rollcall/reconcile/crashpoint"
	"rollcall/reconcile/keyring"
)

// Submit sends every job that is ready and due. A job that cannot be sent is
// put off and counted; the others go on.
//
// Whatever happens, a job has at most one submission without a known outcome,
// and while it has one, nothing is sent for it.
func (r *Reconciler) Submit(ctx context.Context, now time.Time) (Tally, error) {
	if err := r.closeUnsent(ctx, now); err != nil {
		return Tally{}, err
	}
	// Before anything is sent: a ledger that was put back takes for unsent what was sent.
	if err := r.VerifyWitness(ctx, now); err != nil {
		return Tally{}, err
	}
	jobs, err := r.Store.ReadyJobs(ctx, now, r.Settings.JobsPerRun)
	if err != nil {
		return Tally{}, err
	}
	var tally Tally
	for _, job := range jobs {
		tally.Seen++
		moved, err := r.submitJob(ctx, job)
		switch {
		case stops(ctx, err):
			return tally, fmt.Errorf("submit job %s: %w", job.ID, errors.Join(ctx.Err(), err))
		case errors.Is(err, ErrAbandoned):
			tally.Moved++
			r.Log.Info().Str("pass", string(PassSubmit)).Str("job_id", job.ID).Msg("job was given up: none of its members is wanted any more")
		case err != nil:
			tally.Failed++
			r.Log.Warn().Err(err).Str("pass", string(PassSubmit)).Str("job_id", job.ID).Msg(notSent(err))
		case moved:
			tally.Moved++
		}
	}
	return tally, nil
}

// closeUnsent gives the jobs back of senders that died, or were stopped, before
// they noted an input file. A job is asked for only after that, so there is none.
// What makes closing safe is RecordUpload, which refuses a closed submission; the
// margin keeps a sender whose clock is a little behind from losing a job that it
// is about to send.
func (r *Reconciler) closeUnsent(ctx context.Context, now time.Time) error {
	jobs, err := r.Store.CloseUnsent(ctx, now, now.Add(-r.Settings.UnsentMargin), evidenceUnsent, r.Settings.JobsPerRun)
	if err != nil {
		return fmt.Errorf("close submissions without a body: %w", err)
	}
	// The jobs are ready. If the process dies here, the next run sends them.
	for _, id := range jobs {
		r.Log.Info().Str("pass", string(PassSubmit)).Str("job_id", id).Msg("a submission ended before its body was noted; its job may be sent again")
	}
	return nil
}

const evidenceUnsent = "no body was noted before the send deadline, so no job was asked for"

// notSent says what an error means for the job.
func notSent(err error) string {
	if errors.Is(err, errUncertain) {
		return "nobody knows whether the job was sent; nothing is sent again until that is settled"
	}
	return "job was not sent"
}

// stops says whether a pass cannot go on to the next row: it has lost its
// lease, is told to end, or the ledger does not work. What is wrong with one
// row only is one of the errors that the store and the passes name.
func stops(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	if ctx.Err() != nil || errors.Is(err, ErrUnwritable) {
		return true
	}
	for _, known := range []error{ErrMoved, ErrNotFound, ErrPaused, ErrNotApproved, ErrAbandoned, ErrUnknownCommit, ErrOccupied, errBoundary, errUnpriced, errQuestion, errNotSent, errUncertain, errLaneClosed} {
		if errors.Is(err, known) {
			return false
		}
	}
	return true
}

var (
	// errNotSent means that no job exists at the provider for a submission, and
	// that the ledger says so.
	errNotSent = errors.New("provably not sent")
	// errUncertain means that a job may exist for a submission that is open in
	// the ledger. It stays open until somebody finds out.
	errUncertain = errors.New("the submission stays open, since its outcome is unknown; nothing is sent again")
)

// unsent is why we did not ask for a job ourselves.
type unsent string

func (u unsent) Error() string { return string(u) }

const errToldToEnd = unsent("rollcall was told to end")

// sending is one submission on its way.
type sending struct {
	r       *Reconciler
	job     Job
	policy  *PolicyVersion
	account batch.Provider // nil for one that is called text by text
	called  batch.Caller   // nil for one with jobs
	ledger  LedgerIdentity
	sub     Submission
	began   time.Duration // by the monotonic clock: the wall clock may be set back meanwhile
	size    int64         // of the body, once it was rendered
	bodyMAC string        // likewise
	fileID  string        // the uploaded input, once there is one
	left    atomic.Bool   // some of the text was taken to be sent; set by the adapter's own goroutine
}

// submitJob takes one job through a submission.
func (r *Reconciler) submitJob(ctx context.Context, job Job) (moved bool, err error) {
	// Sending a job may take minutes, so each has its own now.
	now, err := r.Now(ctx)
	if err != nil {
		return false, err
	}
	s, err := r.begin(ctx, now, job)
	switch {
	case errors.Is(err, ErrLimited), errors.Is(err, ErrBudget):
		return false, r.keepBack(ctx, now, job, err)
	case errors.Is(err, errBoundary), errors.Is(err, ErrNotApproved), errors.Is(err, ErrOccupied), errors.Is(err, errUnpriced):
		return false, errors.Join(err, r.Store.DelaySubmit(ctx, job.ID, now.Add(r.Settings.SubmitRetry)))
	case err != nil:
		return false, err
	}
	// The intent is committed and nothing has left. If the process dies here,
	// closeUnsent closes the submission once its deadline has passed.
	r.step(crashpoint.SubmitIntent)
	if err := s.witness(ctx); err != nil {
		return false, err
	}
	if s.called != nil {
		return true, s.acceptCalls(ctx)
	}
	if err := s.handOver(ctx); err != nil {
		return false, err
	}
	// The body's MAC, and the file's id if it is one, are committed, and no job was
	// asked for. If the process dies here, the submission is open and must be
	// resolved before anything is sent: the ledger cannot tell this from a create
	// that was cut.
	r.step(crashpoint.SubmitFileNoted)
	if err := s.create(ctx); err != nil {
		return false, err
	}
	// The job's id is committed, and poll picks the job up.
	r.step(crashpoint.SubmitAccepted)
	return true, nil
}

// refusalsTold is how many submissions of one job in a row are refused before a
// person is told. Up to then the ordinary waits may well be enough.
const refusalsTold = 3

// begin commits the intent to send a job.
func (r *Reconciler) begin(ctx context.Context, now time.Time, job Job) (*sending, error) {
	policy, err := r.Store.Policy(ctx, job.Policy)
	if err != nil {
		return nil, err
	}
	account, err := r.accountFor(&policy)
	if err != nil {
		return nil, errors.Join(err, r.raise(ctx, now, EventBoundaryMismatch, "job:"+job.ID, err.Error()))
	}
	budget, err := r.budgetOf(ctx, &policy)
	if err != nil {
		return nil, err
	}
	estimate, err := r.estimator(account, &policy, budget)
	if errors.Is(err, errUnpriced) {
		return nil, errors.Join(err, r.raise(ctx, now, EventBudgetUnpriced, "policy:"+policy.Key().String(), err.Error()))
	}
	if err != nil {
		return nil, err
	}
	id, err := newSubmissionID(r.Rand)
	if err != nil {
		return nil, err
	}
	ledger, err := r.Store.LedgerIdentity(ctx)
	if err != nil {
		return nil, err
	}
	s := &sending{r: r, job: job, policy: &policy, ledger: ledger, began: r.Uptime()}
	s.account, _ = account.(batch.Provider)
	s.called, _ = account.(batch.Caller)
	manifest := func() hash.Hash {
		h := r.Keys.NewMAC(keyring.Manifest)
		fmt.Fprintf(h, "%s\n", policy.SpecMAC) // what is asked, then about what
		return h
	}
	s.sub, err = r.Store.CommitIntent(ctx, now, Intent{
		SubmissionID: id, JobID: job.ID, Account: account.Account(), SendBy: now.Add(r.Settings.SendWithin), Manifest: manifest,
		// Where a job carries no reference, two that are looked for at once could not be told apart.
		Alone:    account.Capabilities().Settlement == batch.SettleByResults,
		Estimate: estimate, Admission: r.admission(now, account, budget),
	})
	if err != nil {
		return nil, err // also when the commit is unknown: only a committed intent permits to send
	}
	return s, nil
}

// witness notes the intent outside of the ledger, before anything leaves: a copy
// of the ledger from before it is then known to be one.
func (s *sending) witness(ctx context.Context) error {
	if s.r.Witness == nil {
		return nil
	}
	if err := s.r.Witness.NoteIntent(ctx, s.ledger, s.sub); err != nil {
		s.r.Log.Error().Err(err).Str("job_id", s.job.ID).Msg("the witness file could not be written, so nothing is sent")
		return s.refuse(ctx, unsent("the witness file could not be written"))
	}
	return nil
}

// handOver hands the request body over where it goes first, and notes it. No job
// exists after it, whatever happened, so any fault here is a proven refusal.
func (s *sending) handOver(ctx context.Context) error {
	body := s.r.Keys.NewMAC(keyring.Body)
	size, err := s.render(ctx, body, nil)
	if err != nil {
		return s.refuse(ctx, err)
	}
	can := s.account.Capabilities()
	if limit := can.Limits.Bytes; limit > 0 && size > limit {
		return s.refuse(ctx, unsent(fmt.Sprintf("the body of %d bytes is over the provider's limit of %d", size, limit)))
	}
	s.size, s.bodyMAC = size, hex.EncodeToString(body.Sum(nil))
	if can.Handover == batch.HandoverFile {
		if err := s.upload(ctx); err != nil {
			return err
		}
	}
	return s.noteUpload(ctx)
}

func (s *sending) upload(ctx context.Context) error {
	uploading, cancel := context.WithTimeout(ctx, s.remaining())
	defer cancel()
	in, fault := s.input(uploading)
	in.Expiry = s.r.Settings.InputExpiry
	var err error
	s.fileID, err = s.account.Upload(uploading, in)
	if err := cmp.Or(fault(), err); err != nil {
		return s.refuse(ctx, err)
	}
	// The provider has the text and no job was asked for.
	s.r.step(crashpoint.SubmitUploaded)
	return nil
}

// input is the body as an adapter takes it, and a function that tells, once it
// is taken, what was wrong with it: a fault of ours explains the provider's
// error, and not the other way round.
func (s *sending) input(ctx context.Context) (in batch.Input, fault func() error) {
	var renderErr error
	body := s.r.Keys.NewMAC(keyring.Body)
	write := func(w io.Writer) error {
		_, renderErr = s.render(ctx, io.MultiWriter(leaving{w, &s.left}, body), func(lines int64) { s.r.progress(PassSubmit, lines, s.sub.Lines) })
		if renderErr == nil && hex.EncodeToString(body.Sum(nil)) != s.bodyMAC {
			renderErr = &renderFault{cause: errors.New("the body is not the one that was noted")}
		}
		return renderErr
	}
	return batch.Input{Name: s.ledger.fileName(s.job.ID, s.sub.ID), Size: s.size, Write: write}, func() error {
		if fault := (*renderFault)(nil); errors.As(renderErr, &fault) {
			return fault
		}
		return nil
	}
}

// leaving notes the first byte that an adapter takes. That Write is called says
// nothing yet: an adapter may call it before it has a connection.
type leaving struct {
	w    io.Writer
	left *atomic.Bool
}

func (l leaving) Write(p []byte) (int, error) {
	n, err := l.w.Write(p)
	if n > 0 {
		l.left.Store(true)
	}
	return n, err
}

func (s *sending) noteUpload(ctx context.Context) error {
	err := s.r.Store.RecordUpload(ctx, Upload{SubmissionID: s.sub.ID, FileID: s.fileID, Bytes: s.size, BodyMAC: s.bodyMAC})
	if err == nil {
		// A copy of the ledger from before this commit has the intent, and takes for
		// unsent what a job is about to be asked for: it must be known to be a copy.
		return s.witness(ctx)
	}
	// Without it in the ledger an interrupted create could not be found again, so
	// none is made.
	s.r.Log.Warn().Err(err).Str("job_id", s.job.ID).Msg("the body could not be noted")
	return s.refuse(ctx, unsent("the body could not be noted"))
}

// create asks for the job: once, before the send deadline, by the wall clock
// and by the monotonic one.
func (s *sending) create(ctx context.Context) error {
	if err := s.mayCreate(ctx); err != nil {
		return s.refuse(ctx, err)
	}
	// From here on a told end is ignored until the outcome is recorded: a cut
	// request would have to be looked for at the provider.
	ctx = context.WithoutCancel(ctx)
	creating, cancel := context.WithTimeout(ctx, s.remaining())
	defer cancel()
	c, fault := s.creation(creating)
	answer, err := s.account.Create(creating, c)
	// The provider may have the job, and the ledger does not know its id.
	s.r.step(crashpoint.SubmitCreated)
	if err == nil && answer.ID == "" {
		err = &batch.Error{Op: "create", Kind: batch.UnknownOutcome}
	}
	if err != nil {
		// A body that was not written to its end made no job, if the adapter says so.
		if ours := fault(); ours != nil && batch.KindOf(err) != batch.UnknownOutcome {
			return s.refuse(ctx, ours)
		}
		return s.refuseOrLeave(ctx, err)
	}
	return s.accept(ctx, answer)
}

// creation asks for the job of this submission, in the same bytes each time.
func (s *sending) creation(ctx context.Context) (c batch.Creation, fault func() error) {
	c = batch.Creation{FileID: s.fileID, Key: s.sub.ID, Metadata: s.ledger.metadata(s.sub), OutputExpiry: s.r.Settings.OutputExpiry}
	if s.account.Capabilities().Handover == batch.HandoverFile {
		return c, func() error { return nil }
	}
	in, fault := s.input(ctx)
	c.Body = &in
	return c, fault
}

func (s *sending) mayCreate(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return errToldToEnd
	}
	now, err := s.r.Now(ctx)
	if err != nil {
		return unsent("the clock could not be read")
	}
	// A create that is begun at the last moment would be cut off by the deadline,
	// with an outcome that nobody knows.
	if s.remaining() < s.r.Settings.SendWithin/10 || now.After(s.sub.SendBy) {
		return unsent("the send deadline has passed")
	}
	return nil
}

// remaining is how long this submission may still be sent.
func (s *sending) remaining() time.Duration {
	return s.r.Settings.SendWithin - (s.r.Uptime() - s.began)
}

// acceptCalls takes over a job whose texts are called one by one: nothing is
// rendered, and its id is one of ours. The calls are made by the pass call.
func (s *sending) acceptCalls(ctx context.Context) error {
	if ctx.Err() != nil {
		return s.refuse(ctx, errToldToEnd)
	}
	now, err := s.r.Now(ctx)
	if err != nil {
		return err
	}
	err = s.r.Store.RecordAccepted(ctx, now, Acceptance{SubmissionID: s.sub.ID, ProviderJobID: callsPrefix + s.job.ID, Status: "calling", NextPoll: now,
		Evidence: "its texts are called one by one", Calls: true})
	if err != nil {
		return fmt.Errorf("submission %s: %w", s.sub.ID, err)
	}
	// Its calls are committed as due. If the process dies here, call makes them.
	s.r.step(crashpoint.SubmitAccepted)
	return nil
}

// callsPrefix begins the id of a job that exists in the ledger only.
const callsPrefix = "calls-"

// refuseOrLeave judges a create that did not succeed. Every kind but
// UnknownOutcome proves that there is no job.
func (s *sending) refuseOrLeave(ctx context.Context, err error) error {
	switch batch.KindOf(err) {
	case batch.Temporary, batch.RateLimited, batch.Rejected, batch.Denied, batch.OutOfCredit, batch.NotFound:
		return s.refuse(ctx, err)
	default:
		return fmt.Errorf("submission %s: %s: %w", s.sub.ID, evidenceOf(err), errUncertain)
	}
}

// accept records the provider's job. It does not depend on the lease: the job
// exists, whoever runs the pass by now.
func (s *sending) accept(ctx context.Context, answer batch.Job) error {
	ctx = withoutLease(ctx)
	a := Acceptance{SubmissionID: s.sub.ID, ProviderJobID: answer.ID, Status: answer.Status, Expires: answer.Expires}
	var err error
	for range 2 { // a broken connection is replaced at the second try; recording again changes nothing
		var now time.Time
		if now, err = s.r.Now(ctx); err != nil {
			continue
		}
		a.NextPoll = now.Add(s.r.Settings.PollFirst)
		if err = s.r.Store.RecordAccepted(ctx, now, a); err == nil || errors.Is(err, ErrMoved) {
			break
		}
	}
	if err == nil {
		return nil
	}
	// The id is worth a log line: with it an operator need not search.
	s.r.Log.Error().Err(err).Str("job_id", s.job.ID).Str("provider_job_id", answer.ID).Msg("the provider has the job, and the ledger could not note it")
	if errors.Is(err, ErrMoved) {
		return err // somebody resolved this submission meanwhile; the job is surplus
	}
	return fmt.Errorf("submission %s is provider job %s: %w: %w", s.sub.ID, answer.ID, errUncertain, err)
}

// refuse records that no job exists for this submission, so that the job may be
// sent again later, deletes what was uploaded, and stops dispatch to an account
// that would refuse the next job as well.
func (s *sending) refuse(ctx context.Context, cause error) error {
	wait := submitWait(&s.r.Settings, s.sub.Attempt, batch.RetryAfter(cause))
	if ctx.Err() != nil {
		cause, wait = errToldToEnd, 0 // a call that was cut says nothing, and nothing is wrong with the job
	}
	ctx = withoutLease(context.WithoutCancel(ctx))
	now, err := s.r.Now(ctx)
	if err != nil {
		return fmt.Errorf("submission %s: %s: %w: %w", s.sub.ID, evidenceOf(cause), errUncertain, err)
	}
	rejection := Rejection{SubmissionID: s.sub.ID, Evidence: evidenceOf(cause), TextLeft: s.left.Load(), NextSubmit: now.Add(wait)}
	if s.sub.Attempt >= refusalsTold && !errors.Is(cause, errToldToEnd) {
		rejection.Findings = []Event{EventJobNotSent.event("job:"+s.job.ID, fmt.Sprintf("%d submissions; the last one: %s", s.sub.Attempt, evidenceOf(cause)))}
	}
	s.r.logEvents(rejection.Findings...)
	err = s.r.Store.RecordRejected(ctx, now, rejection)
	switch {
	case err == nil:
		err = fmt.Errorf("submission %s: %s: %w", s.sub.ID, evidenceOf(cause), errNotSent)
	case errors.Is(err, ErrMoved): // closed by somebody else, who found the same
		err = fmt.Errorf("submission %s: %s: %w", s.sub.ID, evidenceOf(cause), err)
	default:
		err = fmt.Errorf("submission %s: %s: %w: %w", s.sub.ID, evidenceOf(cause), errUncertain, err)
	}
	s.deleteUpload(ctx)
	return errors.Join(err, s.alarm(ctx, now, cause))
}

// alarm raises what a person must look at before the next try can succeed.
func (s *sending) alarm(ctx context.Context, now time.Time, cause error) error {
	var fault *renderFault
	if errors.As(cause, &fault) && fault.unreadable {
		return s.setAside(ctx, now, fault)
	}
	var answer *batch.Error
	if !errors.As(cause, &answer) {
		return nil
	}
	switch answer.Kind {
	case batch.Denied:
		return s.r.brake(ctx, now, EventAccountDenied, s.account.Account().Name, evidenceOf(cause))
	case batch.Rejected:
		return s.r.raise(ctx, now, EventJobRefused, "job:"+s.job.ID, evidenceOf(cause))
	case batch.OutOfCredit:
		return s.r.brake(ctx, now, EventOutOfCredit, s.account.Account().Name, evidenceOf(cause))
	}
	return nil
}

// deleteUpload tries once to delete the input file of a submission that was
// refused: it holds report text, and nothing will use it. Where that does not
// succeed, the provider deletes it after InputExpiry.
func (s *sending) deleteUpload(ctx context.Context) {
	if s.fileID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deleteWithin)
	defer cancel()
	if err := s.account.DeleteFile(ctx, s.fileID); err != nil {
		s.r.Log.Warn().Str("job_id", s.job.ID).Str("file_id", s.fileID).Str("evidence", evidenceOf(err)).Msg("an input file that is not used could not be deleted")
	}
}

// deleteWithin bounds the deletion of a file, which must not hold up the jobs behind.
const deleteWithin = time.Minute

// evidenceOf puts an error into words that may be stored and shown: what was
// called, its kind, status and code. Of an error that is neither a provider's
// nor ours nothing is shown, since nobody vouches for what it holds.
func evidenceOf(err error) string {
	var fault *renderFault
	var own unsent
	var answer *batch.Error
	switch {
	case errors.As(err, &fault):
		return "not sent: " + fault.Error()
	case errors.As(err, &own):
		return "not sent: " + own.Error()
	case !errors.As(err, &answer):
		return "unrecognised error"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", answer.Op, answer.Kind)
	if answer.HTTPStatus != 0 {
		fmt.Fprintf(&b, ", HTTP %d", answer.HTTPStatus)
	}
	if answer.Code != "" {
		fmt.Fprintf(&b, ", code %s", answer.Code)
	}
	return b.String()
}

// withoutLease makes writes independent of the pass's lease: what is already
// true outside must be recorded, whoever holds the lease by now.
func withoutLease(ctx context.Context) context.Context {
	return context.WithValue(ctx, leaseKey{}, nil)
}

// submissionIDLength keeps custom ids within 64 characters: a work's id has 26.
const submissionIDLength = 10

var submissionIDs = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newSubmissionID makes the second half of custom ids: 50 random bits, which
// only have to tell the few attempts of one work apart.
func newSubmissionID(random io.Reader) (string, error) {
	var b [7]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("make a submission id: %w", err)
	}
	return submissionIDs.EncodeToString(b[:])[:submissionIDLength], nil
}
