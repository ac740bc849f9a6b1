package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rollcall/batch"
)

// recovering is one account's turn.
type recovering struct {
	r       *Reconciler
	now     time.Time
	id      LedgerIdentity
	account batch.Provider
	inv     batch.Inventory
	options RecoverOptions
	since   time.Time // how far back the account's lists are read
	jobs    []batch.ListedJob
	listed  map[string]time.Time // when what the account shows was made, by its ids and those of submissions
	ours    bool                 // the account holds something of this ledger
	doubts  []string             // why something may have been sent that is not found
}

// run reads the account and acts on it. What was sent and is in no list yet must
// come to nothing: so the request files that no job uses are deleted, a probe is
// made, and only a list that shows the probe says what there is.
func (v *recovering) run(ctx context.Context) ([]RecoveredJob, error) {
	v.since = v.now.Add(-v.r.Settings.SweepWindow)
	until, err := v.sendingUntil(ctx)
	if err != nil {
		return nil, err
	}
	if err := v.fence(ctx, !until.IsZero()); err != nil {
		return nil, err
	}
	if err := v.read(ctx); err != nil {
		return nil, err
	}
	out, err := v.each(ctx, v.find)
	if err != nil {
		return out, err
	}
	if until, err = v.sendingUntil(ctx); err != nil {
		return out, err
	}
	if !until.IsZero() {
		v.doubt("a submission may be sent until %s", until.UTC().Format(time.RFC3339))
	}
	if len(v.doubts) == 0 {
		// Under these nothing was sent: their jobs may be sent, or give their works
		// to one that is adopted.
		if err := v.r.closeUnsent(ctx, v.now, v.account.Account().Fingerprint); err != nil {
			return out, err
		}
	}
	adopted, err := v.each(ctx, v.adopt)
	return append(out, adopted...), err
}

func (v *recovering) doubt(format string, args ...any) {
	v.doubts = append(v.doubts, "account "+v.account.Account().Name+": "+fmt.Sprintf(format, args...))
}

// sendingUntil is until when somebody may be about to send under a submission that
// has no body yet; zero for nobody.
func (v *recovering) sendingUntil(ctx context.Context) (time.Time, error) {
	by, err := v.r.Store.LastUnsent(ctx, v.account.Account().Fingerprint)
	if until := by.Add(v.r.Settings.UnsentMargin); err == nil && !by.IsZero() && !until.Before(v.now) {
		return until, nil
	}
	return time.Time{}, err
}

// fence deletes request files that no job uses and that the ledger does not stand
// for: a submission that it does not know, or has no body of, looks as if nothing
// had been sent, and a request for its job may still be on its way. A job that was
// made since the list was read loses its file, and is read from its results.
func (v *recovering) fence(ctx context.Context, sending bool) error {
	list, err := v.r.listJobs(ctx, v.inv, v.since)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, j := range list.jobs {
		used[j.FileID] = true
		v.ours = v.ours || j.Metadata[metaLedger] == v.id.LedgerID
		if j.FileID == "" {
			used[j.Metadata[metaSubmission]] = true
		}
	}
	s := v.sweeping()
	var loose []ObjectRef
	err = s.eachFile(ctx, func(_ context.Context, f batch.ListedFile, ref ObjectRef, st Standing) error {
		v.ours = true
		job, _, _ := v.id.fileOf(f.Name)
		// The job of an older one may be in no list that is read. Without a submission it
		// would be met by each sweep, and be taken for one that the ledger lost.
		old := st.SubmissionID != "" && !f.Created.IsZero() && f.Created.Before(v.since.Add(-listSkew))
		if !standsFor(st, sending) && !used[f.ID] && !used[ref.SubmissionID] && job != probeJob && !old {
			loose = append(loose, ref)
		}
		return nil
	})
	if err != nil {
		return v.unfenced(ctx, "its request files could not be listed", err)
	}
	for _, ref := range loose { // not while they are listed: a cursor may be the id of one of them
		if err := v.deleteLoose(ctx, s, ref, sending); err != nil {
			return err
		}
	}
	return nil
}

// standsFor says whether the ledger knows what became of a file's submission, or
// will find it out.
func standsFor(st Standing, sending bool) bool {
	return st.InputFileID != "" || st.Outcome == SubmissionAccepted || sending && st.SubmissionID != "" && st.Outcome == ""
}

func (v *recovering) deleteLoose(ctx context.Context, s *sweeping, ref ObjectRef, sending bool) error {
	standings, err := v.r.Store.Standings(ctx, []ObjectRef{ref}) // once more: its sender may have noted it meanwhile
	if err != nil || standsFor(standings[0], sending) {
		return err
	}
	if err := s.deleteFile(ctx, ref, standings[0], "a recovery found no job that uses it"); err != nil {
		return v.unfenced(ctx, "file "+ref.ID+", which no job uses, could not be deleted", err)
	}
	return nil
}

// unfenced notes that a request that is on its way may still find its file, and
// returns an error only when nothing else may be done either.
func (v *recovering) unfenced(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil || !isProviderError(err) {
		return err
	}
	v.doubt("%s: %s", what, evidenceOf(err))
	return nil
}

// read reads the list that counts.
func (v *recovering) read(ctx context.Context) error {
	from, err := v.r.Now(ctx)
	if err != nil {
		return err
	}
	probing := &resolution{r: v.r, now: v.now, id: v.id, account: v.account, inv: v.inv}
	probes, err := v.probes(ctx)
	if err != nil {
		return err
	}
	if probes {
		probing.probe(ctx, v.account.Account().Fingerprint)
	}
	list, err := v.r.listJobs(ctx, v.inv, v.since)
	if err != nil {
		return err
	}
	switch {
	case probes && len(probing.known) == 0:
		v.doubt("no job without texts could be made there, which its list would have to show; the log says why")
	case probes && !list.reaches(from, probing.known):
		v.doubt("its list of jobs does not show yet what was made just now, so what it lacks may exist")
	}
	v.listed = map[string]time.Time{}
	for _, j := range list.jobs {
		v.listed[j.ID] = j.Created
		if s := j.Metadata[metaSubmission]; s != "" {
			v.listed[s] = j.Created
		}
	}
	// Newest first: a work that was sent again failed before, and belongs to the
	// last job that has it. A list promises no order.
	slices.SortStableFunc(list.jobs, func(a, b batch.ListedJob) int { return b.Created.Compare(a.Created) })
	v.jobs = list.jobs
	return nil
}

// probes says whether the account is to be probed: it takes files, and something of
// this ledger went there, or may have gone by a policy.
func (v *recovering) probes(ctx context.Context) (bool, error) {
	if v.account.Capabilities().Handover != batch.HandoverFile {
		return false, nil
	}
	policies, err := v.r.Store.Policies(ctx)
	return v.ours || slices.ContainsFunc(policies, func(p PolicyVersion) bool {
		return p.State == PolicyApproved && p.Boundary.Account == v.account.Account().Name
	}), err
}

func (v *recovering) sweeping() *sweeping {
	return &sweeping{r: v.r, now: v.now, id: v.id, inv: v.inv, account: v.account.Account()}
}

// each acts on the listed jobs of this ledger. An act that has nothing to tell
// returns nil.
func (v *recovering) each(ctx context.Context, act func(context.Context, batch.ListedJob, Standing) (*RecoveredJob, error)) (out []RecoveredJob, err error) {
	s := v.sweeping()
	jobs, refs := s.ourJobs(v.jobs)
	err = s.each(ctx, refs, func(ctx context.Context, i int, st Standing) error {
		done, err := act(ctx, jobs[i], st)
		if done != nil {
			out = append(out, *done)
		}
		v.r.progress(PassSweep, int64(i+1), int64(len(refs)))
		return err
	})
	return out, err
}

// find records the job of a submission that has no outcome. In a copy from before
// its upload such a submission looks as if nothing had been sent, which no later
// pass would doubt.
func (v *recovering) find(ctx context.Context, j batch.ListedJob, st Standing) (*RecoveredJob, error) {
	submission := j.Metadata[metaSubmission]
	if verdict, _ := judgeJob(st); verdict != sweepKeep || st.Known || st.SubmissionID != submission || st.InputFileID != "" && st.InputFileID != j.FileID {
		return nil, nil
	}
	if best, _ := furthest(v.jobsOf(submission)); best.ID != j.ID {
		return nil, nil // a repeat of the request made it: sweep finds it
	}
	out := &RecoveredJob{Account: v.account.Account().Name, ProviderJobID: j.ID, JobID: j.Metadata[metaJob], SubmissionID: submission, Status: j.Status, Became: RecoveredFound}
	err := v.r.Store.RecordAccepted(ctx, v.now, Acceptance{
		SubmissionID: submission, ProviderJobID: j.ID, Status: j.Status, Expires: j.Expires, NextPoll: v.now, Evidence: "job " + j.ID + ", found by a recovery", FileID: j.FileID,
	})
	if errors.Is(err, ErrMoved) {
		out.Became = RecoveredIncomplete // it is another job's meanwhile: the next run sees what this one is
		return out, nil
	}
	return out, err
}

// jobsOf are the listed jobs of a submission, without those that ran over nothing
// if there is another.
func (v *recovering) jobsOf(submission string) []batch.ListedJob {
	var all, ran []batch.ListedJob
	for _, j := range v.jobs {
		if j.Metadata[metaSubmission] != submission || j.Metadata[metaLedger] != v.id.LedgerID {
			continue
		}
		all = append(all, j)
		if j.Phase != batch.PhaseInvalid {
			ran = append(ran, j)
		}
	}
	if len(ran) > 0 {
		return ran
	}
	return all
}

// adopt makes a job of the ledger of one that it does not know.
func (v *recovering) adopt(ctx context.Context, j batch.ListedJob, st Standing) (*RecoveredJob, error) {
	if verdict, _ := judgeJob(st); verdict != sweepUnknown {
		return nil, nil
	}
	done, err := v.job(ctx, j)
	return &done, err
}
