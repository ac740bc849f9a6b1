package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"rollcall/batch"
)

// Evidence is what is known about the job of an open submission: by the ledger,
// and by its account.
type Evidence struct {
	JobID      string           `json:"job_id"`
	Policy     string           `json:"policy"`
	Submission SubmissionView   `json:"submission"`
	Account    string           `json:"account"` // as it is configured; "" when no configured account is the one that it was sent to
	Settlement batch.Settlement `json:"settlement,omitempty"`
	Live       *LiveEvidence    `json:"live,omitempty"` // nil when the account was not asked, or lists nothing
}

// LiveEvidence is what an account's list of jobs shows now.
type LiveEvidence struct {
	Read       bool      `json:"read"`            // whether the list could be read at all
	Listed     int       `json:"listed"`          // jobs of the time since the intent, whoever made them
	Complete   bool      `json:"complete"`        // it lacks none of the jobs that the provider has accepted
	Doubt      string    `json:"doubt,omitempty"` // why a job that the list lacks may exist all the same
	Matching   []SeenJob `json:"matching"`        // jobs that name the submission, or run over its input file
	Candidates []SeenJob `json:"candidates"`      // jobs that were made while it was sent, and of which nothing tells whose they are: some
	More       int       `json:"more_candidates"` // how many more there are
}

// SeenJob is one job of a list.
type SeenJob struct {
	ProviderJobID string    `json:"provider_job_id"`
	Status        string    `json:"provider_status"`
	Total         int64     `json:"provider_total"`
	Created       time.Time `json:"created_at"`              // by the provider's clock; zero when not told
	FileID        string    `json:"input_file_id,omitempty"` // "" when not told
	Submission    string    `json:"rc_submission,omitempty"` // the submission that it names
}

// candidatesShown is how many candidates evidence names.
const candidatesShown = 10

// Evidence collects what is known about the open submission of a job; ErrNotFound
// when there is none. live asks the account as well, which changes nothing there.
func (r *Reconciler) Evidence(ctx context.Context, now time.Time, jobID string, live bool) (Evidence, error) {
	u, err := r.Store.Uncertain(ctx, jobID)
	if err != nil {
		return Evidence{}, err
	}
	h, err := r.Store.JobHistory(ctx, jobID)
	if err != nil {
		return Evidence{}, err
	}
	e := Evidence{JobID: jobID, Policy: h.Policy}
	i := slices.IndexFunc(h.Submissions, func(s SubmissionView) bool { return s.SubmissionID == u.ID })
	if i < 0 {
		return Evidence{}, fmt.Errorf("submission %s of job %s: %w", u.ID, jobID, ErrMoved)
	}
	e.Submission = h.Submissions[i]
	account, ok := r.accountOf(u.Account)
	if !ok {
		return e, nil
	}
	e.Account, e.Settlement = account.Account().Name, account.Capabilities().Settlement
	if live {
		_, e.Live, err = r.lookNow(ctx, now, account, u, false)
	}
	return e, err
}

// lookNow reads the list of jobs of a submission's account; nil for an account
// that lists nothing. A list that cannot be read is no error: it is evidence of
// nothing, and nothing is seen in it. prove: the list is first given something to
// show that was made since the send deadline.
func (r *Reconciler) lookNow(ctx context.Context, now time.Time, account batch.Provider, u Uncertain, prove bool) (*resolution, *LiveEvidence, error) {
	inv, ok := account.(batch.Inventory)
	if s := account.Capabilities().Settlement; !ok || s != batch.SettleByListing && s != batch.SettleByResults {
		return nil, nil, nil
	}
	id, err := r.Store.LedgerIdentity(ctx)
	if err != nil {
		return nil, nil, err
	}
	known, err := r.Store.Landmarks(ctx, u.Account, u.IntentAt)
	if err != nil {
		return nil, nil, err
	}
	v := &resolution{r: r, now: now, id: id, account: account, inv: inv, known: known}
	if prove && !madeSince(known, v.reach(u)) {
		v.probe(ctx, u.Account)
	}
	e := &LiveEvidence{}
	if v.list, err = r.listJobs(ctx, inv, u.IntentAt); err != nil {
		e.Doubt = "it could not be read: " + evidenceOf(err)
		return v, e, ctx.Err()
	}
	e.Read, e.Listed = true, len(v.list.jobs)
	lacks := v.list.lacks(v.known)
	e.Complete = lacks == 0
	matching, odd := v.matching(u)
	switch {
	case odd:
		e.Doubt = "a job in it names the submission and contradicts it: by its ledger, or by the file that it runs over"
	case lacks > 0:
		e.Doubt = fmt.Sprintf("it lacks %d of the jobs that the provider has accepted", lacks)
	case !v.list.reaches(v.reach(u), v.known):
		e.Doubt = "it shows nothing that was certainly made since the send deadline, so it may not show the newest jobs yet"
	}
	for _, j := range matching {
		e.Matching = append(e.Matching, seen(j))
	}
	return v, e, v.addCandidates(ctx, u, e)
}

// addCandidates names the jobs that could be the submission's and carry nothing
// that tells.
func (v *resolution) addCandidates(ctx context.Context, u Uncertain, e *LiveEvidence) error {
	var jobs []batch.ListedJob
	var refs []ObjectRef
	for _, j := range v.candidates(u) {
		over := u.FileID != "" && j.FileID == u.FileID // it is matching
		if over || j.Metadata[metaSubmission] != "" || j.Metadata[metaProbe] != "" {
			continue
		}
		jobs = append(jobs, j)
		refs = append(refs, ObjectRef{Kind: ObjectJob, Account: u.Account, ID: j.ID, FileID: j.FileID})
	}
	standings, err := v.r.Store.Standings(ctx, refs)
	if err != nil {
		return err
	}
	for i, st := range standings {
		switch {
		case st.Known || st.SubmissionID != "": // the ledger knows whose it is
		case len(e.Candidates) == candidatesShown:
			e.More++
		default:
			e.Candidates = append(e.Candidates, seen(jobs[i]))
		}
	}
	return nil
}

func seen(j batch.ListedJob) SeenJob {
	return SeenJob{ProviderJobID: j.ID, Status: j.Status, Total: j.Counts.Total, Created: j.Created, FileID: j.FileID, Submission: j.Metadata[metaSubmission]}
}
