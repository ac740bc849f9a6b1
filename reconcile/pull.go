package reconcile

import (
	"context"
	"slices"

	"rollcall/batch"
)

// PullPoll pulls the next poll of a job forward because its provider sent word of
// it: to now, but never nearer to the last answer than PollFirst. It gives the
// job's id, or "" where nothing was moved. The word decides nothing else and is
// not kept: poll asks the provider itself, at the schedule's next run.
//
// It may be called any number of times. However often a provider sends the same
// word or another one, or somebody repeats it, a job is asked about no more often
// than once in PollFirst, which is what the regular schedule does in the first
// minutes of each job. A word that comes too early, too late or not at all costs
// time only: the regular poll comes within PollMax.
//
// The account is named as in the configuration, and the job must have been sent
// to exactly that one, as the fingerprint tells. A look that is under way or has
// failed is not hurried: its provider may have asked for the wait.
func (r *Reconciler) PullPoll(ctx context.Context, account, providerJobID string) (jobID string, err error) {
	i := slices.IndexFunc(r.Accounts, func(p batch.Provider) bool { return p.Account().Name == account })
	if i < 0 {
		return "", nil
	}
	now, err := r.Now(ctx)
	if err != nil {
		return "", err
	}
	return r.Store.PullPoll(ctx, now, r.Accounts[i].Account().Fingerprint, providerJobID)
}
