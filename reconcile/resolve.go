package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/batch"
	"rollcall/reconcile/crashpoint"
)

// Uncertain is an open submission past its send deadline for which a job may
// have been asked for.
type Uncertain struct {
	Submission
	Policy    PolicyKey
	Account   string // fingerprint
	FileID    string // "" for a body that went with the request for the job
	BodyMAC   string
	BodyBytes int64
	Looks     int64     // complete lists that showed no job of it
	FencedAt  time.Time // when its input file was deleted; zero before
	Obstacle  string    // why the last look proved nothing, once an operator should know
}

// Look is one look for a job that settled nothing.
type Look struct {
	SubmissionID string
	At, Next     time.Time
	Complete     bool   // a complete list showed no job
	Obstacle     string // why nothing more can be learned without an operator; "" while it may be
}

// Absence closes a submission of which no job is left to come.
type Absence struct {
	SubmissionID string
	Evidence     string
	Abandoned    bool // not proven: it is given up, since a repeat does no harm or an operator says so
	NextSubmit   time.Time
}

// Resolve finds out what became of submissions whose outcome is unknown, by the
// means that their account offers. It never asks for a job where one may be
// asked for already, except where the same request under the same key is the
// same job. What cannot be found out is left to an operator, with the reason.
func (r *Reconciler) Resolve(ctx context.Context, now time.Time) (Tally, error) {
	due, err := r.Store.DueUncertain(ctx, now, r.Settings.JobsPerRun)
	if err != nil {
		return Tally{}, err
	}
	var tally Tally
	for _, group := range byAccount(due) {
		t, err := r.resolveAccount(ctx, now, group)
		tally.Add(t)
		if err != nil {
			return tally, err
		}
	}
	return tally, nil
}

// byAccount groups submissions, so that one list of an account serves them all.
func byAccount(subs []Uncertain) [][]Uncertain {
	index := map[string]int{}
	var out [][]Uncertain
	for _, s := range subs {
		i, ok := index[s.Account]
		if !ok {
			i = len(out)
			index[s.Account] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], s)
	}
	return out
}

// resolution is the look of one run at one account.
type resolution struct {
	r       *Reconciler
	now     time.Time
	id      LedgerIdentity
	account batch.Provider
	inv     batch.Inventory // nil for an account that lists nothing
	known   []Landmark      // those since the first of the submissions, which the list must show
	ours    map[string]bool // jobs that are known, by the provider's id, as far back as the list is read
	list    listing
}

func (r *Reconciler) resolveAccount(ctx context.Context, now time.Time, subs []Uncertain) (Tally, error) {
	v := &resolution{r: r, now: now}
	account, ok := r.accountOf(subs[0].Account)
	if ok {
		v.account = account
		v.inv, _ = account.(batch.Inventory)
	}
	look, obstacle := v.means(ctx, subs)
	var tally Tally
	for _, s := range subs {
		tally.Seen++
		var settled bool
		var err error
		if obstacle != nil {
			err = v.putOff(ctx, s, obstacle)
		} else {
			settled, err = look(ctx, s)
		}
		switch {
		case stops(ctx, err):
			return tally, fmt.Errorf("resolve submission %s: %w", s.ID, errors.Join(ctx.Err(), err))
		case err != nil:
			tally.Failed++
			r.Log.Warn().Err(err).Str("pass", string(PassResolve)).Str("job_id", s.JobID).Msg("the submission could not be resolved")
		case settled:
			tally.Moved++
		}
	}
	return tally, nil
}

// obstacle is why a look proves nothing.
type obstacle struct {
	why string
	// lasting: waiting does not help, so an operator is told at once.
	lasting bool
}

// means chooses how submissions of this account are looked for, and prepares it.
func (v *resolution) means(ctx context.Context, subs []Uncertain) (func(context.Context, Uncertain) (bool, error), *obstacle) {
	if v.account == nil {
		return nil, &obstacle{"no configured account is the one that it was sent to", true}
	}
	switch s := v.account.Capabilities().Settlement; {
	case s == batch.SettleByListing && v.inv != nil:
		return v.byListing, v.read(ctx, subs, true)
	case s == batch.SettleByResults && v.inv != nil:
		return v.byResults, v.read(ctx, subs, false)
	case s == batch.SettleByKey:
		return v.byKey, nil
	case s == batch.SettleByRepeat:
		return v.byRepeat, nil
	default:
		return nil, &obstacle{"the processor offers no means to find out", true}
	}
}

// read reads the account's list, once for all its submissions. Where one of them
// could be proven absent by it, the list must first be given something to show.
func (v *resolution) read(ctx context.Context, subs []Uncertain, probe bool) *obstacle {
	since := v.now
	var reach time.Time // the latest instant to which the list must reach
	for _, s := range subs {
		if s.IntentAt.Before(since) {
			since = s.IntentAt
		}
		if at := v.reach(s); probe && v.decides(s) && at.After(reach) {
			reach = at
		}
	}
	var err error
	if v.id, err = v.r.Store.LedgerIdentity(ctx); err != nil {
		return &obstacle{why: "the ledger could not be read"}
	}
	// As far back as the list is read, by the provider's clock and by ours.
	marks, err := v.r.Store.Landmarks(ctx, subs[0].Account, since.Add(-2*listSkew))
	if err != nil {
		return &obstacle{why: "the ledger could not be read"}
	}
	v.ours = map[string]bool{}
	for _, m := range marks {
		v.ours[m.ProviderJobID] = true
		if !m.MadeAt.Before(since) {
			v.known = append(v.known, m)
		}
	}
	if !reach.IsZero() && !madeSince(v.known, reach) {
		v.probe(ctx, subs[0].Account)
	}
	if v.list, err = v.r.listJobs(ctx, v.inv, since); err != nil {
		return &obstacle{why: "the account's list of jobs could not be read: " + evidenceOf(err)}
	}
	if n := v.list.lacks(v.known); n > 0 {
		return &obstacle{why: fmt.Sprintf("the account's list of jobs is not complete: it lacks %d that the provider has accepted", n)}
	}
	return nil
}

func madeSince(known []Landmark, at time.Time) bool {
	for _, k := range known {
		if !k.MadeAt.Before(at) {
			return true
		}
	}
	return false
}

// decides says whether a complete list may now prove that there is no job: the
// last request to make one has had the time that a request may take, and an
// earlier list has shown none.
func (v *resolution) decides(s Uncertain) bool {
	return s.Looks >= 1 && !v.now.Before(s.SendBy.Add(v.r.Settings.AbsentAfter))
}

// reach is the instant to which a list must reach in order to prove absence.
func (v *resolution) reach(s Uncertain) time.Time {
	at := s.SendBy.Add(v.r.Settings.AbsentAfter)
	if s.FencedAt.After(at) {
		return s.FencedAt
	}
	return at
}

// byListing looks for the job that carries the submission's id, or runs over its
// input file.
func (v *resolution) byListing(ctx context.Context, s Uncertain) (settled bool, err error) {
	jobs, odd := v.matching(s)
	if odd {
		return false, v.putOff(ctx, s, &obstacle{"a job in the account's list names it and contradicts it: by its ledger, or by the file that it runs over", true})
	}
	if job, ok := furthest(jobs); ok {
		return v.found(ctx, s, job, "found in the account's list of jobs")
	}
	switch {
	case !v.decides(s):
		return false, v.lookAgain(ctx, s)
	case !v.list.reaches(v.reach(s), v.known):
		return false, v.putOff(ctx, s, &obstacle{why: "the account's list of jobs does not show what was made since the send deadline, so what it lacks may exist"})
	case s.FileID == "": // nothing can be deleted that a late request would miss
		return v.absent(ctx, s, Absence{Evidence: fmt.Sprintf("%d complete lists show no job of it", s.Looks+1)})
	case s.FencedAt.IsZero():
		return false, v.fence(ctx, s)
	}
	return v.absent(ctx, s, Absence{Evidence: fmt.Sprintf("%d complete lists show no job of it, the last one after its input file was deleted", s.Looks+1)})
}

// matching are the listed jobs of a submission. One that names another
// submission is not ours, whatever its file. odd says that one names this
// submission and cannot be its job all the same.
func (v *resolution) matching(s Uncertain) (jobs []batch.ListedJob, odd bool) {
	for _, j := range v.list.jobs {
		named, ok := j.Metadata[metaSubmission]
		ledger, tells := j.Metadata[metaLedger]
		switch {
		case ok && named != s.ID, !ok && (s.FileID == "" || j.FileID != s.FileID):
		case tells && ledger != v.id.LedgerID, j.Metadata[metaProbe] != "", j.FileID != "" && j.FileID != s.FileID:
			odd = true
		default:
			jobs = append(jobs, j)
		}
	}
	return jobs, odd
}

// furthest chooses among several jobs of one submission, which only a proxy that
// repeats requests can make: the one that is done, then the oldest. Sweep finds
// the others.
func furthest(jobs []batch.ListedJob) (batch.ListedJob, bool) {
	if len(jobs) == 0 {
		return batch.ListedJob{}, false
	}
	best := jobs[0]
	for _, j := range jobs[1:] {
		jDone, bestDone := j.Phase == batch.PhaseEnded, best.Phase == batch.PhaseEnded
		if jDone != bestDone && jDone || jDone == bestDone && j.Created.Before(best.Created) {
			best = j
		}
	}
	return best, true
}

// found records the job of a submission: nothing is sent, and poll goes on with it.
func (v *resolution) found(ctx context.Context, s Uncertain, job batch.ListedJob, evidence string) (settled bool, err error) {
	v.r.step(crashpoint.ResolveFound)
	err = v.r.Store.RecordAccepted(ctx, v.now, Acceptance{
		SubmissionID: s.ID, ProviderJobID: job.ID, Status: job.Status, Expires: job.Expires, NextPoll: v.now, Evidence: "job " + job.ID + ", " + evidence,
	})
	// The job's id is committed, and poll picks the job up.
	v.r.step(crashpoint.ResolveAccepted)
	if errors.Is(err, ErrMoved) {
		return false, nil // its sender recorded it meanwhile, or the job is another one's: sweep will see
	}
	if err == nil {
		v.r.Log.Info().Str("pass", string(PassResolve)).Str("job_id", s.JobID).Str("provider_job_id", job.ID).Msg("the provider has the job of an uncertain submission")
	}
	return err == nil, err
}

// fence deletes the input file, so that a create which is still on its way makes
// a job that fails at once.
func (v *resolution) fence(ctx context.Context, s Uncertain) error {
	deleting, cancel := context.WithTimeout(ctx, deleteWithin)
	defer cancel()
	if err := v.account.DeleteFile(deleting, s.FileID); err != nil {
		return v.putOff(ctx, s, &obstacle{why: "its input file could not be deleted: " + evidenceOf(err)})
	}
	// The file is gone. If the process dies here, it is deleted again, which changes nothing.
	v.r.step(crashpoint.ResolveFenced)
	now, err := v.r.Now(ctx) // the next list must reach to after the deletion
	if err != nil {
		return err
	}
	return ignoreMoved(v.r.Store.RecordFence(ctx, now, s.ID, now.Add(v.r.Settings.ResolveFirst)))
}

func (v *resolution) absent(ctx context.Context, s Uncertain, a Absence) (settled bool, err error) {
	a.SubmissionID, a.NextSubmit = s.ID, v.now
	err = v.r.Store.RecordAbsent(ctx, v.now, a)
	// The job is ready again. If the process dies here, submit sends it.
	v.r.step(crashpoint.ResolveAbsent)
	if err == nil {
		v.r.Log.Info().Str("pass", string(PassResolve)).Str("job_id", s.JobID).Str("evidence", a.Evidence).Msg("the provider has no job of an uncertain submission; it may be sent again")
	}
	return err == nil, ignoreMoved(err)
}

// lookAgain notes a complete list without a job of the submission.
func (v *resolution) lookAgain(ctx context.Context, s Uncertain) error {
	return ignoreMoved(v.r.Store.RecordLook(ctx, Look{SubmissionID: s.ID, At: v.now, Next: v.next(s), Complete: true}))
}

// next is when to look again: at growing distance, and as soon as absence can
// be proven.
func (v *resolution) next(s Uncertain) time.Time {
	next := v.now.Add(lookWait(&v.r.Settings, v.now.Sub(s.SendBy)))
	if decisive := s.SendBy.Add(v.r.Settings.AbsentAfter); v.now.Before(decisive) && next.After(decisive) {
		return decisive
	}
	return next
}

// putOff notes a look that proved nothing. An operator is told once waiting has
// had its chance.
func (v *resolution) putOff(ctx context.Context, s Uncertain, o *obstacle) error {
	l := Look{SubmissionID: s.ID, At: v.now, Next: v.now.Add(lookWait(&v.r.Settings, v.now.Sub(s.SendBy)))}
	if o.lasting || v.now.After(s.SendBy.Add(2*v.r.Settings.AbsentAfter)) {
		l.Obstacle = o.why
	}
	v.r.Log.Warn().Str("pass", string(PassResolve)).Str("job_id", s.JobID).Msg("an uncertain submission stays open: " + o.why)
	return ignoreMoved(v.r.Store.RecordLook(ctx, l))
}
