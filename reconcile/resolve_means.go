package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/batch"
)

// The means of settling besides a list with references.

// byRepeat gives up a submission to a processor that keeps no job.
func (v *resolution) byRepeat(ctx context.Context, s Uncertain) (settled bool, err error) {
	return v.absent(ctx, s, Absence{Evidence: "the processor keeps no job, so a repeat does no harm", Abandoned: true})
}

// RepeatWithin is how long after its intent a request is repeated under its key,
// where the processor takes the key for the same request for a window.
func RepeatWithin(window time.Duration) time.Duration { return window - keyMargin(window) }

// keyMargin is how much of a key's window is left unused: a repeat that arrives
// behind its end would make a second job.
func keyMargin(window time.Duration) time.Duration { return min(4*time.Hour, window/4) }

// byKey repeats the same request under the same key, which gives the same job.
// It is the one repeat of a create that there is.
func (v *resolution) byKey(ctx context.Context, s Uncertain) (settled bool, err error) {
	end := s.IntentAt.Add(RepeatWithin(v.account.Capabilities().Limits.KeyWindow))
	over := &obstacle{"the time is over in which the same key is the same job", true}
	if !v.now.Before(end) {
		return false, v.putOff(ctx, s, over)
	}
	again, err := v.sendingOf(ctx, s)
	if err != nil {
		return false, err
	}
	// From here on what its sender says of its own create proves nothing any more,
	// so the ledger takes no refusal of it. It must know before the repeat leaves.
	look := Look{SubmissionID: s.ID, At: v.now, Next: v.now.Add(v.r.Settings.ResolveFirst)}
	switch err := v.r.Store.CommitRepeat(ctx, look, again.policy.Boundary.Account, s.Policy); {
	case errors.Is(err, ErrPaused), errors.Is(err, ErrNotApproved):
		return false, v.putOff(ctx, s, &obstacle{why: "it may not be repeated now: " + err.Error()})
	case err != nil:
		return false, ignoreMoved(err)
	}
	if now, err := v.r.Now(ctx); err != nil || !now.Before(end) { // it stood still meanwhile
		return false, errors.Join(err, v.putOff(ctx, s, over))
	}
	calling, cancel := context.WithTimeout(ctx, v.r.Settings.SendWithin)
	defer cancel()
	c, fault := again.creation(calling)
	job, err := v.account.Create(calling, c)
	if ours := fault(); ours != nil {
		return false, v.putOff(ctx, s, &obstacle{"the body of the request could not be made again: " + evidenceOf(ours), true})
	}
	switch {
	case err != nil && job.ID != "":
		return false, v.putOff(ctx, s, &obstacle{"the repeat under the same key was answered with job " + batch.SafeName(job.ID) + ", of which something is wrong: " + evidenceOf(err), true})
	case err == nil && job.ID != "":
		return v.found(ctx, s, batch.ListedJob{Job: job}, "given again for the same key")
	case err == nil || batch.KindOf(err) == batch.UnknownOutcome || batch.KindOf(err) == batch.Temporary || batch.KindOf(err) == batch.RateLimited:
		return false, v.putOff(ctx, s, &obstacle{why: "the repeat under the same key had no answer"})
	default:
		// Refused, and yet the first one may have been accepted: a key that is
		// known is answered, so this is for an operator.
		return false, v.putOff(ctx, s, &obstacle{"the repeat under the same key was refused: " + evidenceOf(err), true})
	}
}

// sendingOf is a submission on its way once more: the same body, under its key.
func (v *resolution) sendingOf(ctx context.Context, s Uncertain) (*sending, error) {
	policy, err := v.r.Store.Policy(ctx, s.Policy)
	if err != nil {
		return nil, err
	}
	id, err := v.r.Store.LedgerIdentity(ctx)
	if err != nil {
		return nil, err
	}
	return &sending{
		r: v.r, job: Job{ID: s.JobID}, policy: &policy, account: v.account, ledger: id, sub: s.Submission,
		size: s.BodyBytes, bodyMAC: s.BodyMAC, fileID: s.FileID,
	}, nil
}

// byResults looks for a job whose results are the submission's. Before a job has
// ended nothing tells whose it is; how many requests it has proves nothing.
func (v *resolution) byResults(ctx context.Context, s Uncertain) (settled bool, err error) {
	waiting, mixed := 0, ""
	var odd *obstacle // of one that proves nothing; another one may be proven
	for _, j := range v.candidates(s) {
		if j.Phase == batch.PhaseRunning {
			waiting++
			continue
		}
		whose, err := v.r.whoseResults(ctx, v.account, j.Job, s.ID)
		switch {
		case err != nil && ctx.Err() != nil:
			return false, err
		case err != nil:
			odd = &obstacle{why: "the results of job " + j.ID + " could not be read: " + evidenceOf(err)}
		case whose == resultsOurs:
			return v.found(ctx, s, j, "proven by the ids of its results")
		case whose == resultsNone:
			odd = &obstacle{"job " + j.ID + " ended without a result that tells whose it is", true}
		case whose == resultsMixed:
			mixed = j.ID
		}
	}
	switch {
	case odd != nil:
		return false, v.putOff(ctx, s, odd)
	case mixed != "":
		return false, v.putOff(ctx, s, &obstacle{"job " + mixed + " has results of the submission among as many or more of something else", true})
	case waiting > 0:
		// A job without results proves nothing yet, so this look does not count.
		return false, ignoreMoved(v.r.Store.RecordLook(ctx, Look{SubmissionID: s.ID, At: v.now, Next: v.now.Add(v.r.Settings.PollMax)}))
	case !v.decides(s):
		return false, v.lookAgain(ctx, s)
	}
	return v.absent(ctx, s, Absence{Evidence: fmt.Sprintf("%d complete lists show no job that could be its", s.Looks+1)})
}

// candidates are the listed jobs that may have been made while the submission was
// sent, by whichever clock, and that nobody knows.
func (v *resolution) candidates(s Uncertain) []batch.ListedJob {
	from, to := s.IntentAt.Add(-listSkew), s.SendBy.Add(v.r.Settings.AbsentAfter+listSkew)
	var out []batch.ListedJob
	for _, j := range v.list.jobs {
		if !v.ours[j.ID] && (j.Created.IsZero() || !j.Created.Before(from) && !j.Created.After(to)) {
			out = append(out, j)
		}
	}
	return out
}
