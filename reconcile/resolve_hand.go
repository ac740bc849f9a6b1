package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rollcall/batch"
)

// Statement is an operator's word about the open submission of a job. It stands
// in the ledger as the evidence of what is recorded.
type Statement struct {
	JobID         string
	Actor, Reason string
}

func (s Statement) evidence() string { return fmt.Sprintf("operator %s: %s", s.Actor, s.Reason) }

// Proof is what a statement was compared with.
type Proof string

// The proofs, from the strongest.
const (
	ProofReference Proof = "the account's list shows that it names the submission, or runs over its input file"
	ProofResults   Proof = "the ids of its results are the submission's"
	ProofNone      Proof = "it exists, and nothing that could be asked tells whose it is"
)

// StateFound records that a provider job is that of a job's open submission. The
// job must exist, and nothing about it may say that it is another one's:
// ErrRefused. It says what the statement was compared with. Again changes nothing.
func (r *Reconciler) StateFound(ctx context.Context, now time.Time, s Statement, providerJobID string) (Proof, error) {
	u, account, err := r.stated(ctx, s.JobID)
	if err != nil {
		return "", r.foundBefore(ctx, s.JobID, providerJobID, err)
	}
	if account == nil {
		return "", fmt.Errorf("no configured account is the one that submission %s was sent to, so nobody can be asked whether job %s exists: %w", u.ID, providerJobID, ErrRefused)
	}
	job, err := account.Status(ctx, providerJobID)
	if batch.KindOf(err) == batch.NotFound {
		return "", fmt.Errorf("account %s has no job %s: %w", account.Account().Name, providerJobID, ErrRefused)
	}
	if err != nil {
		return "", fmt.Errorf("job %s could not be looked up, and nothing was recorded: %w", providerJobID, err)
	}
	proof, err := r.proveFound(ctx, now, account, u, job)
	if err != nil {
		return "", err
	}
	if proof == ProofNone && now.Before(u.SendBy) {
		return "", fmt.Errorf("submission %s may still make a job until %s, and nothing tells whether %s is it: %w", u.ID, at(&u.SendBy), providerJobID, ErrRefused)
	}
	err = r.Store.RecordAccepted(ctx, now, Acceptance{
		SubmissionID: u.ID, ProviderJobID: job.ID, Status: job.Status, Expires: job.Expires, NextPoll: now, Evidence: s.evidence(),
	})
	if errors.Is(err, ErrMoved) {
		return "", r.foundMoved(ctx, s.JobID, providerJobID, err)
	}
	return proof, err
}

// foundBefore is nil when the very statement was recorded before.
func (r *Reconciler) foundBefore(ctx context.Context, jobID, providerJobID string, err error) error {
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	h, herr := r.Store.JobHistory(ctx, jobID)
	if herr != nil {
		return herr
	}
	if h.JobID == jobID && h.ProviderJobID == providerJobID {
		return nil
	}
	return notOpen(h)
}

// foundMoved says in words why an acceptance was not recorded.
func (r *Reconciler) foundMoved(ctx context.Context, jobID, providerJobID string, err error) error {
	_, open := r.Store.Uncertain(ctx, jobID)
	if open != nil {
		return r.foundBefore(ctx, jobID, providerJobID, open)
	}
	if other, herr := r.Store.JobHistory(ctx, providerJobID); herr == nil {
		return fmt.Errorf("provider job %s is that of job %s already: %w", providerJobID, other.JobID, ErrRefused)
	}
	return fmt.Errorf("provider job %s is that of another job already: %w: %w", providerJobID, ErrRefused, err)
}

// notOpen says how the last submission of a job ended.
func notOpen(h JobHistory) error {
	if len(h.Submissions) == 0 {
		return fmt.Errorf("job %s was never sent: %w", h.JobID, ErrRefused)
	}
	last := h.Submissions[len(h.Submissions)-1]
	return fmt.Errorf("job %s has no open submission; the last one, %s, is %s: %s: %w", h.JobID, last.SubmissionID, last.Outcome, last.Evidence, ErrRefused)
}

// stated is the open submission that a statement is about, and its account; nil
// for one that is not configured.
func (r *Reconciler) stated(ctx context.Context, jobID string) (Uncertain, batch.Provider, error) {
	u, err := r.Store.Uncertain(ctx, jobID)
	if err != nil {
		return Uncertain{}, nil, err
	}
	account, _ := r.accountOf(u.Account)
	return u, account, nil
}

// proveFound compares a job that exists with what its account tells of its
// origin.
func (r *Reconciler) proveFound(ctx context.Context, now time.Time, account batch.Provider, u Uncertain, job batch.Job) (Proof, error) {
	v, live, err := r.lookNow(ctx, now, account, u, false)
	if err != nil {
		return "", err
	}
	if v != nil {
		if i := slices.IndexFunc(v.list.jobs, func(j batch.ListedJob) bool { return j.ID == job.ID }); i >= 0 {
			if known, err := r.compareReference(ctx, u, v.list.jobs[i]); known || err != nil {
				return ProofReference, err
			}
		}
	}
	if job.Phase == batch.PhaseEnded {
		switch of, err := r.whoseResults(ctx, account, job, u.ID); {
		case err != nil && batch.KindOf(err) != batch.NotFound:
			return "", fmt.Errorf("the results of job %s could not be read, and nothing was recorded: %w", job.ID, err)
		case of == resultsOurs:
			return ProofResults, nil
		case of == resultsOthers:
			return "", fmt.Errorf("job %s has results that are not of submission %s: %w", job.ID, u.ID, ErrRefused)
		}
	}
	if v != nil && !live.Read {
		return "", fmt.Errorf("the list of jobs of account %s could not be compared with the statement, and nothing was recorded: %s", account.Account().Name, live.Doubt)
	}
	return ProofNone, nil
}

// compareReference says whether a listed job is known to be the submission's;
// ErrRefused when it is known to be another one's.
func (r *Reconciler) compareReference(ctx context.Context, u Uncertain, j batch.ListedJob) (known bool, err error) {
	id, err := r.Store.LedgerIdentity(ctx)
	if err != nil {
		return false, err
	}
	ledger, hasLedger := j.Metadata[metaLedger]
	named, hasName := j.Metadata[metaSubmission]
	other := func(format string, args ...any) (bool, error) {
		return false, fmt.Errorf("job %s %s, and not submission %s: %w", j.ID, fmt.Sprintf(format, args...), u.ID, ErrRefused)
	}
	switch {
	case j.Metadata[metaProbe] != "":
		return other("is a landmark that rollcall made")
	case hasLedger && ledger != id.LedgerID:
		return other("names another ledger")
	case hasName && named != u.ID:
		return other("names submission %s", named)
	case hasName:
		return true, nil
	case j.FileID == "" || u.FileID == "":
		return false, nil
	case j.FileID != u.FileID:
		return other("runs over file %s and not over %s", j.FileID, u.FileID)
	}
	return true, nil
}

// StateAbsent records that no job of a job's open submission exists, or will
// come; the job is ready, and its texts are sent again. The input file is deleted
// first, so that a request which is still on its way makes a job that fails at
// once. As long as a text would be sent again, the word is not believed alone:
// ErrRefused while a request may be on its way, when the account shows a job, and
// when its list does not prove that there is none. Again changes nothing.
func (r *Reconciler) StateAbsent(ctx context.Context, now time.Time, s Statement) error {
	u, account, err := r.stated(ctx, s.JobID)
	if err != nil {
		return r.absentBefore(ctx, s.JobID, err)
	}
	if now.Before(u.SendBy) {
		return fmt.Errorf("submission %s may still make a job until %s: %w", u.ID, at(&u.SendBy), ErrRefused)
	}
	wanted, err := r.eachWaiting(ctx, now, s, RouteKnown, nil)
	if err != nil {
		return err
	}
	switch {
	case account != nil:
		err = r.fenceByHand(ctx, now, account, u, wanted > 0)
	case wanted > 0:
		// It may be the configuration that is wrong.
		err = fmt.Errorf("no configured account is the one that submission %s was sent to, and %d reports wait for its job: configure that account again, or give the job up: %w", u.ID, wanted, ErrRefused)
	}
	if err != nil {
		return r.absentBefore(ctx, s.JobID, err)
	}
	if now, err = r.Now(ctx); err != nil {
		return err
	}
	err = r.Store.RecordAbsent(ctx, now, Absence{SubmissionID: u.ID, Evidence: s.evidence(), Abandoned: true, NextSubmit: now})
	return r.absentBefore(ctx, s.JobID, err)
}

// absentBefore is nil when it is recorded already that there is no job, and says
// what is recorded otherwise.
func (r *Reconciler) absentBefore(ctx context.Context, jobID string, err error) error {
	if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrMoved) {
		return err
	}
	h, herr := r.Store.JobHistory(ctx, jobID)
	if herr != nil {
		return herr
	}
	if n := len(h.Submissions); n > 0 {
		last := SubmissionOutcome(h.Submissions[n-1].Outcome)
		if last == SubmissionProvenAbsent || last == SubmissionAbandoned {
			return nil
		}
	}
	return notOpen(h)
}

// fenceByHand deletes the input file of a submission between two lists that show
// no job of it: a job that was made meanwhile is in the second one. wanted: a
// text would be sent again.
func (r *Reconciler) fenceByHand(ctx context.Context, now time.Time, account batch.Provider, u Uncertain, wanted bool) error {
	err := r.noneSeen(ctx, now, account, u, wanted)
	if err != nil || u.FileID == "" || !u.FencedAt.IsZero() {
		return err
	}
	deleting, cancel := context.WithTimeout(ctx, deleteWithin)
	defer cancel()
	if err := account.DeleteFile(deleting, u.FileID); err != nil {
		return fmt.Errorf("the input file of submission %s could not be deleted, so a late request might still make a job, and nothing was recorded: %w", u.ID, err)
	}
	// The file is gone. If the process dies here, the submission is open, and the
	// file is deleted again.
	if now, err = r.Now(ctx); err != nil {
		return err
	}
	if err := r.Store.RecordFence(ctx, now, u.ID, now.Add(r.Settings.ResolveFirst)); err != nil {
		return err
	}
	u.FencedAt = now
	return r.noneSeen(ctx, now, account, u, wanted)
}

// noneSeen is nil when the account's list shows no job of a submission and, if a
// text would be sent again, proves by what resolve demands that there is none.
func (r *Reconciler) noneSeen(ctx context.Context, now time.Time, account batch.Provider, u Uncertain, wanted bool) error {
	settles := account.Capabilities().Settlement
	wanted = wanted && settles != batch.SettleByRepeat // a repeat does no harm there
	decisive := u.SendBy.Add(r.Settings.AbsentAfter)
	early := now.Before(decisive)
	v, e, err := r.lookNow(ctx, now, account, u, wanted && !early && settles == batch.SettleByListing)
	switch {
	case err != nil:
		return err
	case v == nil && wanted && settles == batch.SettleByOperator:
		return fmt.Errorf("nothing at account %s can prove that no job of submission %s exists, and resolve never will: if you know its job, name it with --found; otherwise give the reports to people: rollcall job resolve %s --give-up: %w",
			account.Account().Name, u.ID, u.JobID, ErrRefused)
	case v == nil && wanted:
		return unproven(u, "account "+account.Account().Name+" lists no jobs")
	case v == nil:
		return nil
	case !e.Read:
		return fmt.Errorf("the list of jobs of account %s could not be compared with the statement, and nothing was recorded: %s", account.Account().Name, e.Doubt)
	case len(e.Matching) > 0:
		return fmt.Errorf("account %s has the job of submission %s: %s: %w", account.Account().Name, u.ID, e.Matching[0].ProviderJobID, ErrRefused)
	case wanted && early:
		return fmt.Errorf("a request for the job of submission %s may be on its way until %s: %w", u.ID, at(&decisive), ErrRefused)
	case wanted && (!e.Complete || settles == batch.SettleByListing && e.Doubt != ""):
		return unproven(u, e.Doubt)
	case settles == batch.SettleByResults:
		return r.noneByResults(ctx, v, u, wanted)
	}
	return nil
}

// unproven refuses a word that would send texts again and that nothing proves.
func unproven(u Uncertain, doubt string) error {
	return fmt.Errorf("the list cannot prove that no job of submission %s exists: %s; wait for resolve, or give the reports to people: rollcall job resolve %s --give-up: %w", u.ID, doubt, u.JobID, ErrRefused)
}

// noneByResults is nil when no job that may be the submission's has results of
// it, and none is left to have some. What has ended without a result tells
// nothing any more, and there the operator's word stands.
func (r *Reconciler) noneByResults(ctx context.Context, v *resolution, u Uncertain, wanted bool) error {
	for _, j := range v.candidates(u) {
		if j.Phase == batch.PhaseRunning {
			if wanted {
				return unproven(u, "job "+j.ID+" was made while it was sent, and only its results will tell whose it is")
			}
			continue
		}
		switch of, err := r.whoseResults(ctx, v.account, j.Job, u.ID); {
		case err != nil:
			return fmt.Errorf("the results of job %s could not be compared with the statement, and nothing was recorded: %w", j.ID, err)
		case of == resultsOurs:
			return fmt.Errorf("the results of job %s are those of submission %s: %w", j.ID, u.ID, ErrRefused)
		case of == resultsMixed:
			return fmt.Errorf("some results of job %s are those of submission %s: %w", j.ID, u.ID, ErrRefused)
		}
	}
	return nil
}

// GiveUp gives the reports of a job with an open submission to a person, and
// makes their records. The submission stays open, so that its job is still
// recognised: it is looked for as before, and an answer that comes is kept as
// late. A job that turns out absent has no member left to be sent. It returns how
// many reports it gave; again gives none.
func (r *Reconciler) GiveUp(ctx context.Context, now time.Time, s Statement) (int, error) {
	if _, err := r.Store.Uncertain(ctx, s.JobID); err != nil {
		return 0, err
	}
	return r.eachWaiting(ctx, now, s, RouteOpen, func() error {
		// The works are extracted with their reason. If the process dies here, the
		// next run of apply makes their records.
		if _, err := r.Apply(ctx, now); err != nil {
			return fmt.Errorf("the reports of job %s are given to a person, and apply is to write their records: %w", s.JobID, err)
		}
		return nil
	})
}

// eachWaiting reaches a verdict about the reports that wait for a job, page by
// page, and returns how many there are. then, if any, follows each page.
func (r *Reconciler) eachWaiting(ctx context.Context, now time.Time, s Statement, v RouteVerdict, then func() error) (int, error) {
	waiting, after := 0, int64(0)
	for {
		items, err := r.Store.RequestItems(ctx, s.JobID, after, max(r.Settings.Chunk, 1))
		if err != nil || len(items) == 0 {
			return waiting, err
		}
		after = items[len(items)-1].Line
		results, err := r.Store.RouteReports(ctx, now, waitingOnly(s, items, v))
		if err != nil {
			return waiting, fmt.Errorf("reports of job %s: %w", s.JobID, err)
		}
		for _, result := range results {
			if result.Verdict == v {
				waiting++
			}
		}
		if then != nil {
			if err := then(); err != nil {
				return waiting, err
			}
		}
	}
}

// waitingOnly asks for a verdict about those reports whose current work is a
// member of this job and not done. One that was edited since waits for another
// job.
func waitingOnly(s Statement, items []RequestItem, v RouteVerdict) Routing {
	member := map[string]bool{}
	ask := Routing{Actor: s.Actor, Reason: s.Reason, Judge: func(f RouteFacts) RouteVerdict {
		if f.Stage == StageCollected && member[f.WorkID] {
			return v
		}
		return RouteRecorded
	}}
	for _, item := range items {
		member[item.WorkID] = true
		ask.Reports = append(ask.Reports, item.ReportID)
	}
	return ask
}
