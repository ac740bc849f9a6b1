package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Budget is what the submissions of a policy, of all its versions, may come to
// on one UTC day. The zero Budget is none.
type Budget struct {
	PerDay   Micros `json:"per_day"`
	Currency string `json:"currency"`
}

func (b Budget) validate(fail func(field, format string, args ...any)) {
	if b == (Budget{}) {
		return
	}
	if b.PerDay < 1 || b.PerDay > MaxMicros {
		fail("budget.per_day", "must be above 0 and at most %s", MaxMicros)
	}
	if !CurrencyPattern.MatchString(b.Currency) {
		fail("budget.currency", "must be three capital letters, such as EUR")
	}
}

// ErrBudget: the policy's budget of the day does not hold the job.
var ErrBudget = errors.New("the budget of the day does not hold the job")

// budgetSpent is ErrBudget, with the numbers.
type budgetSpent struct {
	budget Budget
	day    time.Time
	spend  DaySpend
	wants  Micros
}

func (b *budgetSpent) Error() string { return fmt.Sprintf("%v: %s", ErrBudget, b.detail()) }

func (b *budgetSpent) Is(target error) bool { return target == ErrBudget }

// detail names the numbers.
func (b *budgetSpent) detail() string {
	s := fmt.Sprintf("%s UTC: %s of %s %s are spent, the job may take %s", b.day.Format(time.DateOnly),
		b.spend.Spent, b.budget.PerDay, b.budget.Currency, b.wants)
	if n := b.spend.Uncounted; n > 0 {
		s += fmt.Sprintf("; of %d submissions nobody knows in %s what they may cost", n, b.budget.Currency)
	}
	return s
}

// admit is ErrBudget for a job that the rest of the day's budget does not hold.
// A submission of the day that nobody can price leaves no rest that is known.
func (b Budget) admit(day time.Time, spend DaySpend, e Estimate) error {
	if b == (Budget{}) || spend.Uncounted == 0 && e.Cost <= b.PerDay-min(spend.Spent, MaxMicros) {
		return nil
	}
	return &budgetSpent{budget: b, day: day, spend: spend, wants: e.Cost}
}

// DayOf is the beginning of the UTC day of an instant.
func DayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// Estimate is what a job may take, before it is sent.
type Estimate struct {
	InputTokens  int64  // estimated
	OutputTokens int64  // the most that the classifier permits
	Cost         Micros // at Price; 0 without one
	Price        *Price // nil where the configuration has none
}

// errUnpriced means that a policy has a budget, and what its jobs cost is not
// known in the budget's currency.
var errUnpriced = errors.New("a policy with a budget needs a price of its model in the budget's currency")

// priceOf is what a policy's model costs at its account, nil where the
// configuration does not say.
func (r *Reconciler) priceOf(p *PolicyVersion) *Price {
	if r.Prices == nil {
		return nil
	}
	price, ok := r.Prices(p.Boundary.Account, p.Classifier.Model)
	if !ok {
		return nil
	}
	return &price
}

// budgetOf is the budget that is in force for a policy: that of its newest
// approved version, whichever version a job is of. A person who raises it means
// the jobs that wait for it too.
func (r *Reconciler) budgetOf(ctx context.Context, p *PolicyVersion) (Budget, error) {
	newest, err := r.approvedPolicies(ctx)
	if err != nil {
		return Budget{}, err
	}
	if v := newest[p.ID]; v != nil {
		return v.Budget, nil
	}
	return p.Budget, nil
}

// estimator estimates jobs of a policy, from the lines of a job and the bytes of
// their texts. It counts tokens as collect does when it plans. errUnpriced where
// the budget could not be kept.
func (r *Reconciler) estimator(account processor, p *PolicyVersion, b Budget) (func(lines, content int64) Estimate, error) {
	price := r.priceOf(p)
	if b != (Budget{}) && (price == nil || price.Currency != b.Currency) {
		return nil, fmt.Errorf("policy %s, model %s at account %s, budget in %s: %w", p.Key(), p.Classifier.Model, p.Boundary.Account, b.Currency, errUnpriced)
	}
	limits, line, err := r.jobLimits(account, p)
	if err != nil {
		return nil, err
	}
	output := int64(p.Classifier.MaxOutputTokens)
	return func(lines, content int64) Estimate {
		e := Estimate{InputTokens: limits.tokensOf(line, lines, content), OutputTokens: times(lines, output), Price: price}
		if price != nil {
			e.Cost = price.Cost(e.InputTokens, e.OutputTokens)
		}
		return e
	}, nil
}

// ErrNoEstimate: the configuration does not offer what a job would be sent by.
var ErrNoEstimate = errors.New("no estimate")

// EstimateJob is what a job that is not sent yet may take: the same as its
// intent will note, as long as all its members are still wanted. ErrNoEstimate.
func (r *Reconciler) EstimateJob(ctx context.Context, key PolicyKey, items, content int64) (Estimate, error) {
	policy, err := r.Store.Policy(ctx, key)
	if err != nil {
		return Estimate{}, err
	}
	account, err := r.accountFor(&policy)
	if err != nil {
		return Estimate{}, fmt.Errorf("%w: %w", ErrNoEstimate, err)
	}
	estimate, err := r.estimator(account, &policy, Budget{})
	if err != nil {
		return Estimate{}, fmt.Errorf("%w: %w", ErrNoEstimate, err)
	}
	return estimate(items, content), nil
}

// stopSpending pauses dispatch of a policy whose budget of the day does not hold
// its next job. Nothing resumes it but a person. The finding comes first: a
// pause keeps the job from being looked at, so that nobody would open it later.
func (r *Reconciler) stopSpending(ctx context.Context, now time.Time, job Job, cause error) error {
	var spent *budgetSpent
	if !errors.As(cause, &spent) {
		return cause
	}
	scope := "policy:" + job.Policy.ID
	if err := r.raise(ctx, now, EventBudgetSpent, scope, spent.detail()); err != nil {
		return err
	}
	// If the process dies here, the next run meets the same budget.
	_, err := r.Store.Pause(ctx, now, Pause{Scope: scope, Stage: PauseDispatch, Actor: "rollcall", Reason: EventBudgetSpent.Name})
	return err
}

// Charge is what a provider bills for one item, by its own usage.
type Charge struct {
	Known        bool // Cost is what it cost
	Unknown      bool // it may have run, and nobody told what it used
	InputTokens  int64
	OutputTokens int64
	Cost         Micros // 0 without a price
}

// chargeFor is what an item costs, from all lines that the job's files hold for
// it. An item ran once, however many lines tell of it: the dearest one counts.
// called: its text was called by itself.
func chargeFor(o ItemOutcome, lines []LineFact, price *Price, called bool) Charge {
	var c Charge
	for _, l := range lines {
		var cost Micros
		if price != nil {
			cost = price.Cost(l.InputTokens, l.OutputTokens)
		}
		if cost > c.Cost || cost == c.Cost && l.InputTokens+l.OutputTokens > c.InputTokens+c.OutputTokens {
			c = Charge{InputTokens: l.InputTokens, OutputTokens: l.OutputTokens, Cost: cost}
		}
	}
	c.Unknown = c.InputTokens == 0 && c.OutputTokens == 0 && (mayHaveRun(o) || called && mayHaveBeenAnswered(o))
	c.Known = price != nil && !c.Unknown
	return c
}

// mayHaveRun says whether a provider bills for an item of this outcome. For the
// others it ran nothing, or refused the request before any model saw it.
func mayHaveRun(o ItemOutcome) bool {
	switch o {
	case ItemSucceeded, ItemRefused, ItemTruncated, ItemInvalid, ItemMissing, ItemConflict, ItemUnapproved:
		return true
	}
	return false
}

// mayHaveBeenAnswered says whether a processor without jobs may bill for a text of
// this outcome all the same: what was asked and not heard looks like a failure,
// and a member that was withdrawn has a line only if it had been asked about.
func mayHaveBeenAnswered(o ItemOutcome) bool { return o == ItemFailed || o == ItemCancelled }

// maxTokens bounds what one line may say that it used. More is no count of
// tokens, and would make the sum of a job wrong.
const maxTokens = 1 << 32

// boundedTokens is a provider's count as it is stored: 0 for what is none.
func boundedTokens(n int64) int64 {
	if n < 0 || n > maxTokens {
		return 0
	}
	return n
}

// price is what the members of the job are charged at: what it was sent at, or
// else, for a job that was sent or adopted without one, what holds now.
func (j *jobReading) price(ctx context.Context) (*Price, error) {
	now := j.priceOf(j.policy)
	if j.job.Price != nil || now == nil {
		return j.job.Price, nil
	}
	noted, err := j.Store.PriceJob(ctx, j.job.ID, *now)
	if err != nil || !noted {
		return nil, err // members were charged without one, and the others are too
	}
	return now, nil
}
