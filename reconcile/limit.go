package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/batch"
)

// AccountLimits bound what one account has at once. Zero is no bound. What is
// counted are rows of the ledger, so that all its processes share them.
type AccountLimits struct {
	OpenJobs         int64 // jobs at the provider, and submissions without an outcome
	EnqueuedTokens   int64 // input tokens of those, estimated
	CreatesPerMinute int64 // intents of the last minute, whatever became of them
}

// LimitWord names the limit that a job waits for.
type LimitWord string

// The limits.
const (
	LimitOpenJobs         LimitWord = "open_jobs"
	LimitEnqueuedTokens   LimitWord = "enqueued_tokens"
	LimitCreatesPerMinute LimitWord = "creates_per_minute"
)

// LimitWords lists every limit.
func LimitWords() []LimitWord {
	return []LimitWord{LimitOpenJobs, LimitEnqueuedTokens, LimitCreatesPerMinute}
}

// ErrLimited: a limit of the account is reached. It is no failure: the job
// stays ready and is sent later.
var ErrLimited = errors.New("the account's limit is reached")

// limitReached is ErrLimited, with what is counted.
type limitReached struct {
	word        LimitWord
	has, limit  int64
	wants       int64
	againBefore time.Time // when it may be over at the earliest; zero when nobody knows
}

func (l *limitReached) Error() string {
	return fmt.Sprintf("%v: %s %d of %d, and the job takes %d", ErrLimited, l.word, l.has, l.limit, l.wants)
}

func (l *limitReached) Is(target error) bool { return target == ErrLimited }

// AccountLoad is what an account has, by the ledger.
type AccountLoad struct {
	OpenJobs       int64
	EnqueuedTokens int64     // of submissions whose estimate is known
	Creates        int64     // intents behind Admission.CreatesSince
	FirstCreate    time.Time // the oldest of these; zero without one
}

// DaySpend is what the submissions of a policy on one day come to.
type DaySpend struct {
	Spent     Micros // what they cost where that is known, otherwise their estimate
	Uncounted int64  // submissions that may cost something nobody knows in this currency
}

// Admission is what an intent must keep within. The store reads the facts under
// a lock that makes two intents wait for each other, and asks Admit.
type Admission struct {
	CreatesSince time.Time // intents behind it count as creates of now
	// Day is the beginning of the policy's day, whose spend in Currency is asked
	// for; zero for a policy without a budget.
	Day      time.Time
	Currency string
	// Admit says whether a job of this size may be sent. With no size at all it
	// says whether any job may. It may be called more than once.
	Admit func(AccountLoad, DaySpend, Estimate) error
}

// createsWindow is the minute of CreatesPerMinute.
const createsWindow = time.Minute

// admission is what an intent must keep within, nil for nothing.
func (r *Reconciler) admission(now time.Time, account processor, budget Budget) *Admission {
	limits := r.limitsOf(account)
	if limits == (AccountLimits{}) && budget == (Budget{}) {
		return nil
	}
	a := &Admission{CreatesSince: now.Add(-createsWindow)}
	if budget != (Budget{}) {
		a.Day, a.Currency = DayOf(now), budget.Currency
	}
	a.Admit = func(load AccountLoad, spend DaySpend, e Estimate) error {
		if err := limits.admit(load, e); err != nil {
			return err
		}
		return budget.admit(a.Day, spend, e)
	}
	return a
}

// limitsOf are the limits of an account. One that is called text by text has no
// jobs at the processor, and its rate bounds it.
func (r *Reconciler) limitsOf(account processor) AccountLimits {
	if _, called := account.(batch.Caller); called || r.Limits == nil {
		return AccountLimits{}
	}
	return r.Limits(account.Account().Name)
}

// admit is ErrLimited for a job that does not fit beside what the account has.
// A job that is larger than EnqueuedTokens by itself, since the limit was lower
// when it was planned, goes when nothing else is there: else it would never go.
func (l AccountLimits) admit(load AccountLoad, e Estimate) error {
	switch {
	case l.CreatesPerMinute > 0 && load.Creates >= l.CreatesPerMinute:
		return &limitReached{LimitCreatesPerMinute, load.Creates, l.CreatesPerMinute, 1, load.FirstCreate.Add(createsWindow)}
	case l.OpenJobs > 0 && load.OpenJobs >= l.OpenJobs:
		return &limitReached{word: LimitOpenJobs, has: load.OpenJobs, limit: l.OpenJobs, wants: 1}
	case l.EnqueuedTokens > 0 && load.EnqueuedTokens > 0 && e.InputTokens > l.EnqueuedTokens-load.EnqueuedTokens:
		return &limitReached{word: LimitEnqueuedTokens, has: load.EnqueuedTokens, limit: l.EnqueuedTokens, wants: e.InputTokens}
	}
	return nil
}

// keepBack puts a job off that must not be sent now, for a reason that is not
// the job's. Nothing was written and nothing has failed.
func (r *Reconciler) keepBack(ctx context.Context, now time.Time, job Job, cause error) error {
	var limit *limitReached
	if !errors.As(cause, &limit) {
		return r.stopSpending(ctx, now, job, cause)
	}
	next := now.Add(r.Settings.SubmitRetry)
	if t := limit.againBefore; t.After(now) && t.Before(next) {
		next = t
	}
	r.Log.Info().Str("pass", string(PassSubmit)).Str("job_id", job.ID).Str("waits_for", string(limit.word)).
		Int64("has", limit.has).Int64("limit", limit.limit).Int64("wants", limit.wants).Time("next_submit", next).Msg("job waits for a limit of its account")
	// The job is put off, and says what it waits for. A later run sends it.
	return r.Store.KeepBack(ctx, now, job.ID, next, limit.word)
}
