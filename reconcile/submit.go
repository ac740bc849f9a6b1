package reconcile

import (
	"context"
	"encoding/base32"
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
	// A ledger that was put back takes for unsent what was sent.
	if err := r.VerifyWitness(ctx, now); err != nil {
		return Tally{}, err
	}
	if err := r.closeUnsent(ctx, now, ""); err != nil && !errors.Is(err, ErrPaused) {
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
//
// In a recovery, of one account, it is what the fence makes safe.
func (r *Reconciler) closeUnsent(ctx context.Context, now time.Time, account string) error {
	for n := r.Settings.JobsPerRun; n == r.Settings.JobsPerRun; {
		jobs, err := r.Store.CloseUnsent(ctx, now, now.Add(-r.Settings.UnsentMargin), account, evidenceUnsent, r.Settings.JobsPerRun)
		if err != nil {
			return fmt.Errorf("close submissions without a body: %w", err)
		}
		// The jobs are ready. If the process dies here, the next run sends them.
		for _, id := range jobs {
			r.Log.Info().Str("pass", string(PassSubmit)).Str("job_id", id).Msg("a submission ended before its body was noted; its job may be sent again")
		}
		n = len(jobs)
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
	for _, known := range []error{ErrMoved, ErrNotFound, ErrPaused, ErrNotApproved, ErrAbandoned, ErrUnknownCommit, ErrOccupied, errBoundary, errUnpriced, errQuestion, errNotSent, errUncertain, errLaneClosed, errNotEnded} {
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
