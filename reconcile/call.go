package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"rollcall/batch"
)

// Call asks about the texts of jobs whose processor has no jobs, each in a call
// of its own, and ends the jobs that have all their answers.
//
// An answer is committed before it counts, once, and its text is not sent again.
// A call whose answer was not committed is repeated, which costs money and has
// no other effect.
//
// A run begins calls for CallFor at the most. It waits within that for an account
// that may be called again soon, and leaves what comes later to the next run.
func (r *Reconciler) Call(ctx context.Context, now time.Time) (Tally, error) {
	tally, err := r.stranded(ctx, now)
	if err != nil || len(r.Callers) == 0 {
		return tally, err
	}
	// Before anything is sent: a ledger that was put back takes for uncalled what was called.
	if err := r.VerifyWitness(ctx, now); err != nil {
		return tally, err
	}
	began, dropped := r.Uptime(), map[string]bool{}
	for {
		var wake time.Time
		for _, caller := range r.Callers {
			l := &lane{r: r, caller: caller, account: caller.Account(), rate: r.rateOf(caller.Account().Name), until: began + r.Settings.CallFor, dropped: dropped}
			next, err := l.turn(ctx)
			tally.Add(l.tally)
			if err != nil {
				return tally, fmt.Errorf("call account %s: %w", l.account.Name, err)
			}
			wake = earlier(wake, next)
		}
		now, err := r.Now(ctx)
		if err != nil || wake.IsZero() {
			return tally, err
		}
		pause := max(wake.Sub(now), idleShortest)
		if pause > callPause || r.Uptime()-began+pause >= r.Settings.CallFor {
			return tally, nil
		}
		if err := r.wait(ctx, pause); err != nil {
			return tally, err
		}
	}
}

// callPause is the longest wait within a run.
const callPause = 5 * time.Second

// stranded tells of jobs whose account is not configured any more. They wait for it.
func (r *Reconciler) stranded(ctx context.Context, now time.Time) (tally Tally, err error) {
	accounts, err := r.Store.CalledAccounts(ctx)
	if err != nil {
		return tally, err
	}
	for _, account := range accounts {
		if _, ok := r.callerOf(account); ok {
			continue
		}
		jobs, err := r.Store.CalledJobs(ctx, now, now.Add(callHorizon(&r.Settings)), account, r.Settings.JobsPerRun)
		if err != nil {
			return tally, err
		}
		for _, job := range jobs {
			tally.Add(Tally{Seen: 1, Failed: 1})
			err := r.raise(ctx, now, EventAccountMismatch, "job:"+job.ID, "account fingerprint "+account)
			if err == nil {
				_, err = r.Store.SettleCalls(ctx, now, now.Add(r.Settings.PollMax), job.ID)
			}
			if stops(ctx, err) {
				return tally, err
			}
		}
	}
	return tally, nil
}

// rateOf is how fast an account may be called.
func (r *Reconciler) rateOf(account string) Rate {
	if rate, ok := r.Rates[account]; ok {
		return rate
	}
	return r.Settings.CallRate
}

// wait waits within a pass.
func (r *Reconciler) wait(ctx context.Context, d time.Duration) error {
	if r.Wait != nil {
		return r.Wait(ctx, d)
	}
	return Sleep(ctx, d)
}

// beside makes a call beside the others.
func (r *Reconciler) beside(call func()) {
	if r.Go != nil {
		r.Go(call)
		return
	}
	go call()
}

// earlier is the earlier of two instants, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lane is one account's turn in a run.
type lane struct {
	r       *Reconciler
	caller  batch.Caller
	account batch.Account
	rate    Rate
	until   time.Duration   // by Uptime: no call is begun behind it
	dropped map[string]bool // accounts, by fingerprint, whose unwanted members were dropped in this run
	tally   Tally

	shut  bool      // no call to this account is begun any more in this turn
	floor time.Time // the account may not be called before; zero for none
	// How long behind the floor a job is looked at that had no call, so that these
	// keep their order, and one that had: so jobs share an account by turns.
	place, end time.Duration
}

// turn makes the calls of the account that are due. next is when there is more
// to do, zero for nothing that goes on by itself.
func (l *lane) turn(ctx context.Context) (next time.Time, err error) {
	now, err := l.r.Now(ctx)
	if err != nil {
		return next, err
	}
	if err := l.drop(ctx, now); err != nil {
		return next, err
	}
	jobs, err := l.r.Store.CalledJobs(ctx, now, now.Add(callHorizon(&l.r.Settings)), l.account.Fingerprint, l.r.Settings.JobsPerRun)
	if err != nil {
		return next, err
	}
	l.place, l.end = 0, time.Duration(len(jobs)-1)*time.Microsecond
	for i := range jobs {
		if l.r.Uptime() >= l.until && i > 0 { // as they are, they come before those that had their turn
			return earlier(next, now), nil
		}
		again, err := l.job(ctx, &jobs[i])
		switch {
		case stops(ctx, err):
			return next, errors.Join(ctx.Err(), err)
		case errors.Is(err, ErrPaused), errors.Is(err, ErrNotApproved):
			l.r.Log.Info().Str("pass", string(PassCall)).Str("job_id", jobs[i].ID).Str("why", err.Error()).Msg("no call is begun")
		case err != nil:
			l.tally.Failed++
			l.r.Log.Warn().Err(err).Str("pass", string(PassCall)).Str("job_id", jobs[i].ID).Msg("job put off")
		default:
			next = earlier(next, again)
		}
	}
	if l.shut {
		return time.Time{}, nil
	}
	return next, nil
}

// job makes the calls of one job that are due, and ends it when it has all answers.
func (l *lane) job(ctx context.Context, job *Job) (next time.Time, err error) {
	now, err := l.r.Now(ctx)
	if err != nil {
		return next, err
	}
	policy, err := l.r.Store.Policy(ctx, job.Policy)
	if err != nil {
		return next, err
	}
	named, unmatched := l.r.accountFor(&policy)
	if unmatched == nil && named.Account().Name != l.account.Name {
		if named.Account().Fingerprint == l.account.Fingerprint {
			return next, nil // another lane's: one host may have several names
		}
		unmatched = fmt.Errorf("job %s was taken to account %s, and policy %s names %s: %w", job.ID, l.account.Name, policy.Key(), named.Account().Name, errBoundary)
	}
	c := &calling{lane: l, job: job, policy: &policy, question: policy.Question(), ends: make(chan callMade, max(l.rate.AtOnce, 1)), proof: newKeyProof(l.r)}
	var halt error
	if unmatched != nil {
		halt = errors.Join(unmatched, l.r.raise(ctx, now, EventBoundaryMismatch, "job:"+job.ID, unmatched.Error()))
		c.rest = now.Add(l.r.Settings.SubmitRetry)
	} else {
		halt = c.run(ctx)
	}
	if stops(ctx, halt) {
		return next, halt
	}
	if now, err = l.r.Now(ctx); err != nil {
		return next, err
	}
	place := l.end
	if !c.served {
		place = l.place
		l.place += time.Microsecond
	}
	left, err := l.r.Store.SettleCalls(ctx, now, later(later(l.floor, c.rest), now).Add(place), job.ID)
	if err != nil {
		return next, errors.Join(halt, err)
	}
	if left.Open {
		return left.Next, halt
	}
	// Each call has its answer. If the process dies here, the next run ends the job.
	if err := c.end(ctx, now); err != nil {
		return next, l.notEnded(ctx, now, job.ID, err)
	}
	l.tally.Seen++
	l.tally.Moved++
	return time.Time{}, nil
}

// errNotEnded means that a job has all its answers, and that they could not be
// put together. It is tried again.
var errNotEnded = errors.New("its answers are kept, and it is ended later")

// notEnded puts a job off that could not be ended, so that it does not hold up
// the others. What stops the pass stays as it is.
func (l *lane) notEnded(ctx context.Context, now time.Time, jobID string, err error) error {
	if ctx.Err() != nil || errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrUnwritable) {
		return err
	}
	if unsaid := ignoreMoved(l.r.Store.DelayPoll(ctx, jobID, now.Add(l.r.Settings.SubmitRetry))); unsaid != nil {
		return errors.Join(err, unsaid)
	}
	return fmt.Errorf("%w; %w", err, errNotEnded)
}

// drop ends the calls of members that are not wanted any more, also while
// nothing may be called. It looks at all open calls of the account, so it is done
// once in a run; those that are about to be made are looked at again with their claim.
func (l *lane) drop(ctx context.Context, now time.Time) error {
	for !l.dropped[l.account.Fingerprint] {
		jobs, err := l.r.Store.UnwantedCalls(ctx, l.account.Fingerprint, l.r.Settings.JobsPerRun)
		if err != nil {
			return err
		}
		for _, job := range jobs {
			n, err := l.r.Store.DropUncalled(ctx, now, job, l.r.Settings.Chunk)
			if err != nil { // what moved, or may be committed, is looked at in the next turn
				return ignoreMoved(err)
			}
			l.tally.Add(Tally{Seen: int64(n), Moved: int64(n)})
		}
		l.dropped[l.account.Fingerprint] = len(jobs) == 0
	}
	return nil
}

// probing guards what this process knows about accounts: see Reconciler.probed.
var probing sync.Mutex

// question is what an account is probed for: a policy's classifier.
type question struct {
	account string // fingerprint
	policy  PolicyKey
}

// probe asks, with a made-up text, whether the account answers as the lane needs
// it, once in a process for each question until something makes it doubtful.
// Anything but nil keeps the lane closed.
func (c *calling) probe(ctx context.Context, now time.Time) error {
	asked := question{c.account.Fingerprint, c.policy.Key()}
	probing.Lock()
	known := c.r.probed[asked]
	probing.Unlock()
	if known {
		return nil
	}
	probeCtx, cancel := context.WithTimeout(ctx, c.r.Settings.CallWithin)
	defer cancel()
	if err := c.caller.Probe(probeCtx, c.question); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return c.notAnswered(ctx, now, err)
	}
	if err := c.r.settle(ctx, now, EventLaneClosed, c.subject(), "a made-up text was answered as it must be"); err != nil {
		return err
	}
	c.fresh = true
	probing.Lock()
	defer probing.Unlock()
	if c.r.probed == nil {
		c.r.probed = map[question]bool{}
	}
	c.r.probed[asked] = true
	return nil
}

// notAnswered says what follows from a probe that failed: what is wrong with the
// account stops all that is called there, and what may be wrong with this
// policy's classifier only its jobs.
func (c *calling) notAnswered(ctx context.Context, now time.Time, err error) error {
	again := now.Add(max(c.r.Settings.SubmitRetry, min(batch.RetryAfter(err), c.r.Settings.RetryCap)))
	if kind := batch.KindOf(err); kind == batch.Rejected || kind == batch.BadAnswer {
		c.rest = again
		return closedLane(c.close(ctx, now, err))
	}
	c.shut, c.floor = true, again
	if kind, ok := brakeOf(err); ok {
		return closedLane(c.r.brake(ctx, now, kind, c.account.Name, evidenceOf(err)))
	}
	return fmt.Errorf("%w: %w", errLaneClosed, err) // of the moment: the next run asks again, and nobody has to decide
}

// doubt forgets that the account has answered its probes, so that the next text
// waits for another.
func (c *calling) doubt() {
	probing.Lock()
	defer probing.Unlock()
	maps.DeleteFunc(c.r.probed, func(q question, _ bool) bool { return q.account == c.account.Fingerprint })
}

// rejectedMost is after how many rejections in a row a made-up text is asked
// about again: they may be about how is asked, and not about the texts.
const rejectedMost = 5

// rejects notes whether a call was rejected.
func (c *calling) rejects(rejected bool) {
	asked := question{c.account.Fingerprint, c.policy.Key()}
	probing.Lock()
	defer probing.Unlock()
	if c.r.rejected == nil {
		c.r.rejected = map[question]int{}
	}
	c.r.rejected[asked]++
	if !rejected {
		c.r.rejected[asked] = 0
	}
	if c.r.rejected[asked] >= rejectedMost {
		c.r.rejected[asked] = 0
		delete(c.r.probed, asked)
	}
}

// close tells that nothing of the policy is called until a probe is answered.
func (c *calling) close(ctx context.Context, now time.Time, cause error) error {
	return c.r.raise(ctx, now, EventLaneClosed, c.subject(), fmt.Sprintf("account %s, %s", c.account.Name, evidenceOf(cause)))
}

// subject is that of findings about what the policy asks the account: another
// policy's probe says nothing about it.
func (c *calling) subject() string { return "policy:" + c.policy.Key().String() }

// errLaneClosed: nothing is called until the made-up text is answered. A finding
// says why, unless it was a fault of the moment.
var errLaneClosed = errors.New("the account does not answer as it must, so no text is sent to it")

// closedLane is errLaneClosed once what closes the lane is in the ledger, and what
// went wrong with that otherwise: a brake that failed is no fault of one row.
func closedLane(braked error) error {
	if braked != nil {
		return braked
	}
	return errLaneClosed
}

// brakeOf is the event with which an account is paused that would refuse every
// other call as well.
func brakeOf(err error) (EventKind, bool) {
	switch batch.KindOf(err) {
	case batch.Denied, batch.NotFound:
		return EventAccountDenied, true
	case batch.OutOfCredit:
		return EventOutOfCredit, true
	}
	return EventKind{}, false
}
