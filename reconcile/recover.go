package reconcile

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"rollcall/batch"
)

// Adoption is a provider job that the ledger does not know, with the requests
// that it was made of.
type Adoption struct {
	Account       string // fingerprint
	ProviderJobID string
	Status        string
	Expires       time.Time
	Created       time.Time // by the provider's clock
	JobID         string    // as the job was called when it was sent
	SubmissionID  string
	Manifest      string
	FileID        string
	Works         []string // by line, in order; "" for a line that is not of this ledger
	// WithoutUnknown adopts the job although some of its works are unknown.
	WithoutUnknown bool
	// FromOlder adopts it although some of its works have no outcome yet in an
	// older job, which they leave. One that has ended, or that the provider shows,
	// keeps them: it has answers, or will have.
	FromOlder bool
	// Listed are the jobs that the provider shows, by its ids and those of their
	// submissions.
	Listed map[string]bool
}

// Adopted is what became of an adoption.
type Adopted struct {
	JobID   string // "" when nothing was written
	Members int64  // works that are members now
	Done    int64  // works that need no result any more
	Unknown int64  // works of reports that the ledger does not know; nothing was written unless they were to be left out
	// Elsewhere counts works that have no outcome yet in an older job; nothing was
	// written then.
	Elsewhere int64
	Freed     []string
}

// RecoverOptions steer Recover.
type RecoverOptions struct {
	// WithoutUnknown leaves reports out that the ledger does not know: it adopts
	// the jobs with the members that it has, and gives up those that have none.
	WithoutUnknown bool
	// WithoutUnreadable gives up jobs whose requests can be read nowhere any more:
	// their works may be sent again. It does not wait either for an older job of works
	// that were sent again, of which the provider knows nothing: they belong to the
	// newer one then.
	WithoutUnreadable bool
	Actor, Reason     string
}

// RecoveredJob is what Recover found out about one provider job.
type RecoveredJob struct {
	Account       string `json:"account"`
	ProviderJobID string `json:"provider_job_id"`
	JobID         string `json:"job_id,omitempty"`
	SubmissionID  string `json:"submission_id"`
	Status        string `json:"provider_status"`
	Lines         int64  `json:"lines"`
	Members       int64  `json:"members"`
	Done          int64  `json:"done"`
	Unknown       int64  `json:"unknown"`
	Became        string `json:"became"` // found, adopted, incomplete, waiting, surplus, unreadable
}

// What Recover does with a job.
const (
	RecoveredFound      = "found"      // the ledger has a submission of it without an outcome, which has its job now
	RecoveredAdopted    = "adopted"    // the ledger has it
	RecoveredIncomplete = "incomplete" // it holds works of reports that must be delivered again first, or that were sent meanwhile: run it again
	RecoveredWaiting    = "waiting"    // it holds works that are members of an older job, whose results must be read first
	RecoveredSurplus    = "surplus"    // nothing of it is needed; sweep cancels and deletes it
	RecoveredUnreadable = "unreadable" // its requests could not be read, or are no requests of this ledger
)

// Recovery is what Recover found and did.
type Recovery struct {
	LedgerID   string         `json:"ledger_id"`
	Generation int64          `json:"generation"` // after it
	Jobs       []RecoveredJob `json:"jobs"`       // those that the ledger did not know, or not as the jobs of their submissions
	Complete   bool           `json:"complete"`   // nothing is left that must be recovered
}

// Recover makes a ledger that was put back whole again, from what its accounts
// hold: jobs that the ledger does not know are adopted by the ids of their
// requests, and nothing is sent. Dispatch and apply stay paused until a person
// resumes them. It may be run again after any interruption: what is adopted is
// known then. ErrHeld while another one is at it.
func (r *Reconciler) Recover(ctx context.Context, now time.Time, o RecoverOptions) (out Recovery, err error) {
	err = r.withLease(ctx, "recover", func(ctx context.Context, _ time.Time) error {
		out, err = r.recoverAll(ctx, now, o)
		return err
	})
	return out, err
}

func (r *Reconciler) recoverAll(ctx context.Context, now time.Time, o RecoverOptions) (Recovery, error) {
	id, err := r.Store.LedgerIdentity(ctx)
	if err != nil {
		return Recovery{}, err
	}
	out := Recovery{LedgerID: id.LedgerID, Generation: id.Generation, Jobs: []RecoveredJob{}, Complete: true}
	if err := r.pauseForRecovery(ctx, now); err != nil {
		return out, err
	}
	// A report that the copy held for want of a policy has its work once that is
	// approved again, and its job needs the work.
	if _, err := r.bindHeld(ctx, now); err != nil {
		return out, fmt.Errorf("bind held reports: %w", err)
	}
	for _, account := range r.Accounts {
		inv, ok := account.(batch.Inventory)
		if !ok || account.Capabilities().Settlement != batch.SettleByListing {
			continue
		}
		v := &recovering{r: r, now: now, id: id, inv: inv, options: o}
		jobs, err := v.run(ctx)
		out.Jobs = append(out.Jobs, jobs...)
		if err != nil {
			return out, fmt.Errorf("recover from account %s: %w", account.Account().Name, err)
		}
	}
	out.Complete = !slices.ContainsFunc(out.Jobs, func(j RecoveredJob) bool {
		return j.Became == RecoveredIncomplete || j.Became == RecoveredWaiting || j.Became == RecoveredUnreadable
	})
	if !out.Complete {
		return out, nil
	}
	if err := r.Store.RaiseGeneration(ctx, now, id.Generation, o.Actor, o.Reason); err != nil {
		return out, err
	}
	out.Generation++
	return out, nil
}

// pauseForRecovery holds that nothing is sent while the accounts are read.
func (r *Reconciler) pauseForRecovery(ctx context.Context, now time.Time) error {
	return r.rewound(ctx, now, "rollcall recover reads what the accounts hold")
}

// recovering is one account's turn.
type recovering struct {
	r       *Reconciler
	now     time.Time
	id      LedgerIdentity
	inv     batch.Inventory
	options RecoverOptions
	listed  map[string]bool // what the account shows, by its ids and those of submissions
}

// deleteLoose deletes request files that no job uses and that the ledger does not
// stand for: a submission that it does not know, or has no body of, looks as if
// nothing had been sent. A request for its job that is still on its way finds no
// file then. A job that was made since the list was read loses its file, and is
// read from its results.
func (v *recovering) deleteLoose(ctx context.Context, s *sweeping, since time.Time) error {
	list, err := v.r.listJobs(ctx, v.inv, since)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, j := range list.jobs {
		used[j.FileID] = true
	}
	return s.eachFile(ctx, func(ctx context.Context, f batch.ListedFile, ref ObjectRef, st Standing) error {
		known := st.SubmissionID != "" && (st.Outcome != "" || st.InputFileID != "")
		if job, _, _ := v.id.fileOf(f.Name); known || used[f.ID] || job == probeJob || !f.Created.IsZero() && f.Created.Before(since) {
			return nil
		}
		return s.deleteFile(ctx, ref, st, "a recovery found no job that uses it")
	})
}

func (v *recovering) run(ctx context.Context) ([]RecoveredJob, error) {
	since := v.now.Add(-v.r.Settings.SweepWindow)
	s := &sweeping{r: v.r, now: v.now, id: v.id, inv: v.inv, account: v.inv.Account()}
	if err := v.deleteLoose(ctx, s, since); err != nil {
		return nil, err
	}
	list, err := v.r.listJobs(ctx, v.inv, since)
	if err != nil {
		return nil, err
	}
	v.listed = map[string]bool{}
	for _, j := range list.jobs {
		v.listed[j.ID] = true
		if s := j.Metadata[metaSubmission]; s != "" {
			v.listed[s] = true
		}
	}
	// Newest first: a work that was sent again failed before, and belongs to the
	// last job that has it. A list promises no order.
	slices.SortStableFunc(list.jobs, func(a, b batch.ListedJob) int { return b.Created.Compare(a.Created) })
	jobs, refs := s.ourJobs(list.jobs)
	var out []RecoveredJob
	err = s.each(ctx, refs, func(ctx context.Context, i int, st Standing) error {
		verdict, _ := judgeJob(st)
		var done RecoveredJob
		var err error
		switch {
		case verdict == sweepUnknown:
			done, err = v.job(ctx, jobs[i])
		case verdict == sweepKeep && !st.Known && st.SubmissionID == jobs[i].Metadata[metaSubmission] && (st.InputFileID == "" || st.InputFileID == jobs[i].FileID):
			done, err = v.found(ctx, jobs[i], st)
		default:
			return nil
		}
		out = append(out, done)
		v.r.progress(PassSweep, int64(i+1), int64(len(refs)))
		return err
	})
	return out, err
}

// job adopts one job.
func (v *recovering) job(ctx context.Context, j batch.ListedJob) (RecoveredJob, error) {
	account := v.inv.Account()
	out := RecoveredJob{Account: account.Name, ProviderJobID: j.ID, SubmissionID: j.Metadata[metaSubmission], Status: j.Status, Became: RecoveredUnreadable}
	if out.SubmissionID == "" || j.Metadata[metaJob] == "" || j.Metadata[metaManifest] == "" {
		return out, nil
	}
	if j.Phase == batch.PhaseInvalid {
		return out, v.surplus(ctx, &out, account.Fingerprint, "the provider refused it as a whole")
	}
	works, err := v.works(ctx, j, out.SubmissionID)
	if err != nil || len(works) == 0 {
		v.r.Log.Warn().Str("provider_job_id", j.ID).Str("evidence", evidenceOf(err)).Msg("the requests of a job could not be read")
		// What cannot be read for the moment is not given up for good, and a job that
		// runs will tell by its results.
		if gone := err == nil || batch.KindOf(err) == batch.NotFound; gone && j.Phase != batch.PhaseRunning && v.options.WithoutUnreadable && ctx.Err() == nil {
			return out, v.surplus(ctx, &out, account.Fingerprint, "its requests could not be read, and an operator gave it up")
		}
		return out, ctx.Err()
	}
	out.Lines = int64(len(works))
	adopted, err := v.r.Store.AdoptJob(ctx, v.now, Adoption{
		Account: account.Fingerprint, ProviderJobID: j.ID, Status: j.Status, Expires: j.Expires, Created: j.Created,
		JobID: j.Metadata[metaJob], SubmissionID: out.SubmissionID, Manifest: j.Metadata[metaManifest], FileID: j.FileID,
		Works: works, WithoutUnknown: v.options.WithoutUnknown, FromOlder: v.options.WithoutUnreadable, Listed: v.listed,
	})
	if errors.Is(err, ErrRefused) {
		v.r.Log.Warn().Err(err).Str("provider_job_id", j.ID).Msg("a job cannot be adopted")
		return out, nil
	}
	if errors.Is(err, ErrMoved) {
		out.Became = RecoveredIncomplete // it is found again by the next run
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.JobID, out.Members, out.Done, out.Unknown = adopted.JobID, adopted.Members, adopted.Done, adopted.Unknown
	switch {
	case adopted.JobID != "":
		out.Became = RecoveredAdopted
		v.r.Log.Info().Str("job_id", adopted.JobID).Str("provider_job_id", j.ID).Int64("members", adopted.Members).Strs("gave_up", adopted.Freed).Msg("a job that the ledger did not know is adopted")
	case adopted.Unknown > 0 && !v.options.WithoutUnknown:
		out.Became = RecoveredIncomplete
	case adopted.Elsewhere > 0:
		out.Became = RecoveredWaiting
	default:
		return out, v.surplus(ctx, &out, account.Fingerprint, "nothing of it is needed")
	}
	return out, nil
}

// found records the job of a submission that has no outcome. In a copy from before
// its upload such a submission looks as if nothing had been sent, which no later
// pass would doubt.
func (v *recovering) found(ctx context.Context, j batch.ListedJob, st Standing) (RecoveredJob, error) {
	out := RecoveredJob{Account: v.inv.Account().Name, ProviderJobID: j.ID, JobID: j.Metadata[metaJob], SubmissionID: st.SubmissionID, Status: j.Status, Became: RecoveredFound}
	err := v.r.Store.RecordAccepted(ctx, v.now, Acceptance{
		SubmissionID: st.SubmissionID, ProviderJobID: j.ID, Status: j.Status, Expires: j.Expires, NextPoll: v.now, Evidence: "job " + j.ID + ", found by a recovery", FileID: j.FileID,
	})
	if errors.Is(err, ErrMoved) {
		out.Became = RecoveredIncomplete // it is another job's meanwhile: the next run sees what this one is
		return out, nil
	}
	return out, err
}

// surplus leaves a job to sweep, which cancels and deletes it.
func (v *recovering) surplus(ctx context.Context, j *RecoveredJob, account, why string) error {
	e := EventSurplusJob.event("submission:"+j.SubmissionID, fmt.Sprintf("job %s at account %s: %s", j.ProviderJobID, j.Account, why))
	v.r.logEvents(e)
	err := v.r.Store.NoteSurplus(ctx, v.now, Surplus{Account: account, Kind: ObjectJob, ID: j.ProviderJobID, SubmissionID: j.SubmissionID, Why: why}, e)
	if err == nil {
		j.Became = RecoveredSurplus
	}
	return err
}

// works reads which works a job was made of: from its request body, or, where
// that is gone or was never a file, from the results of a job that has ended.
// Nothing else is kept.
func (v *recovering) works(ctx context.Context, j batch.ListedJob, submissionID string) ([]string, error) {
	var works []string
	err := error(&batch.Error{Op: "download", Kind: batch.NotFound}) // of a body that came with its create
	if j.FileID != "" {
		works, err = v.worksIn(ctx, j.FileID, submissionID, v.inv.RequestID)
	}
	if batch.KindOf(err) != batch.NotFound || j.Phase != batch.PhaseEnded {
		return works, err
	}
	return v.worksOfResults(ctx, j, submissionID)
}

// worksOfResults reads them from the results, each once. A line that names no work
// is no request that somebody knows of: it may be damaged, or have strayed in. But
// works whose lines are cut off would be sent again, although they are answered.
func (v *recovering) worksOfResults(ctx context.Context, j batch.ListedJob, submissionID string) ([]string, error) {
	var works []string
	var damaged int64
	for _, f := range j.Files {
		more, err := v.worksIn(ctx, f.ID, submissionID, func(line []byte) (string, bool) {
			id := v.inv.DecodeResult(line).CustomID
			if id == "" {
				damaged++
			}
			return id, id != ""
		})
		if err != nil {
			return nil, err
		}
		works = append(works, more...)
	}
	slices.Sort(works)
	works = slices.DeleteFunc(slices.Compact(works), func(work string) bool { return work == "" })
	if told := j.Counts.Completed + j.Counts.Failed; int64(len(works))+damaged < told && !v.options.WithoutUnreadable {
		return nil, &batch.Error{Op: "download", Kind: batch.Temporary, Code: "fewer_lines_than_counted"}
	}
	return works, nil
}

func (v *recovering) worksIn(ctx context.Context, fileID, submissionID string, idOf func(line []byte) (string, bool)) ([]string, error) {
	body, _, err := v.inv.Download(ctx, fileID)
	if err != nil {
		return nil, err
	}
	works, err := v.readWorks(io.LimitReader(body, v.r.Settings.SetBytes), submissionID, idOf)
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, &batch.Error{Op: "download", Kind: batch.Temporary}
	}
	return works, nil
}

// maxRequestLines is more than any processor takes in one job.
const maxRequestLines = 1_000_000

func (v *recovering) readWorks(body io.Reader, submissionID string, idOf func(line []byte) (string, bool)) ([]string, error) {
	var works []string
	lines := newLineReader(body, v.r.Settings.LineBytes, sha256.New)
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return works, nil
		}
		if err != nil {
			return nil, err
		}
		if len(works) == maxRequestLines {
			return nil, errors.New("more lines than a job may have")
		}
		work := ""
		id, ok := idOf(line.body)
		if line.cut && !ok && !v.options.WithoutUnreadable {
			return nil, errTorn // the rest of it may be there at the next look
		}
		if ok && !line.long {
			// Only what may have been sent: a database takes no other string for an id.
			work, _ = workOf(id, submissionID)
		}
		works = append(works, work)
	}
}
