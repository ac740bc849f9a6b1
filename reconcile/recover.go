package reconcile

import (
	"context"
	"errors"
	"fmt"
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
	// Listed is when the jobs that the provider shows were made, by its ids and
	// those of their submissions; zero where it does not tell.
	Listed map[string]time.Time
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
	Doubts     []string       `json:"doubts"`     // why more may have been sent than was found, for now: run it again
	Complete   bool           `json:"complete"`   // nothing is left that must be recovered, and nothing is in doubt
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
	out := Recovery{LedgerID: id.LedgerID, Generation: id.Generation, Jobs: []RecoveredJob{}, Doubts: []string{}, Complete: true}
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
		v := &recovering{r: r, now: now, id: id, account: account, inv: inv, options: o}
		jobs, err := v.run(ctx)
		out.Jobs, out.Doubts = append(out.Jobs, jobs...), append(out.Doubts, v.doubts...)
		if err != nil {
			return out, fmt.Errorf("recover from account %s: %w", account.Account().Name, err)
		}
	}
	out.Complete = len(out.Doubts) == 0 && !slices.ContainsFunc(out.Jobs, func(j RecoveredJob) bool {
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

// job adopts one job.
func (v *recovering) job(ctx context.Context, j batch.ListedJob) (RecoveredJob, error) {
	account := v.account.Account()
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
