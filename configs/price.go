package configs

import (
	"errors"
	"fmt"

	"rollcall/reconcile"
)

// Amount is a sum of money, written as "25.00". It is read as it is written and
// never as a floating-point number.
type Amount reconcile.Micros

func (a *Amount) parseScalar(s string) error {
	m, err := reconcile.ParseMicros(s)
	*a = Amount(m)
	return err
}

// Price is what one model costs at an account, for a million tokens. Batch jobs
// often have a price of their own.
type Price struct {
	Model    string  `yaml:"model"` // as the classifiers name it
	Input    *Amount `yaml:"input"`
	Output   *Amount `yaml:"output"`
	Currency string  `yaml:"currency"`
}

// Limits bound what an account has at once, by the ledger's count. Each is 0 for
// none; one that is left out has its default.
type Limits struct {
	OpenJobs         *int64 `yaml:"open_jobs"`          // jobs at the provider, or on their way to it
	EnqueuedTokens   *int64 `yaml:"enqueued_tokens"`    // their input tokens, estimated
	CreatesPerMinute *int64 `yaml:"creates_per_minute"` // jobs made
}

// isSet says whether any limit was written.
func (l *Limits) isSet() bool {
	return l.OpenJobs != nil || l.EnqueuedTokens != nil || l.CreatesPerMinute != nil
}

// defaultLimits are those of accounts of a kind. OpenAI permits 2,000 jobs in an
// hour; the tokens are a limit of the account and the model there, and 2,000,000
// is a low one. Anthropic's least tier has 50 requests in a minute, looks at jobs
// among them, and counts no tokens. Infrai documents no limit, so that a few jobs
// and one in two seconds are what it is asked for.
func defaultLimits(k Kind) reconcile.AccountLimits {
	switch k {
	case KindOpenAI:
		return reconcile.AccountLimits{OpenJobs: 100, EnqueuedTokens: 2_000_000, CreatesPerMinute: 30}
	case KindInfrai:
		return reconcile.AccountLimits{OpenJobs: 3, CreatesPerMinute: 30}
	}
	return reconcile.AccountLimits{OpenJobs: 100, CreatesPerMinute: 30}
}

// fillIn sets what was left out.
func (l *Limits) fillIn(k Kind) {
	def := defaultLimits(k)
	for _, f := range []struct {
		field **int64
		value int64
	}{{&l.OpenJobs, def.OpenJobs}, {&l.EnqueuedTokens, def.EnqueuedTokens}, {&l.CreatesPerMinute, def.CreatesPerMinute}} {
		if *f.field == nil {
			*f.field = &f.value
		}
	}
}

func (l *Limits) check(at string, fail failFunc) {
	for _, f := range []struct {
		field string
		value *int64
		up    int64
	}{{"open_jobs", l.OpenJobs, 1_000_000}, {"enqueued_tokens", l.EnqueuedTokens, 1 << 40}, {"creates_per_minute", l.CreatesPerMinute, 1_000_000}} {
		if f.value != nil && (*f.value < 0 || *f.value > f.up) {
			fail(at+"."+f.field, "must be between 0, which is none, and %d", f.up)
		}
	}
}

// AccountLimits are the limits of a loaded account, by its name.
func (c *Config) AccountLimits(name string) reconcile.AccountLimits {
	a, _ := c.Account(name)
	or := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	return reconcile.AccountLimits{OpenJobs: or(a.Limits.OpenJobs), EnqueuedTokens: or(a.Limits.EnqueuedTokens), CreatesPerMinute: or(a.Limits.CreatesPerMinute)}
}

func (a *Account) checkPrices(at string, fail failFunc) {
	seen := map[string]int{}
	for i, p := range a.Prices {
		at := fmt.Sprintf("%s.prices[%d]", at, i)
		if first, twice := seen[p.Model]; twice && p.Model != "" {
			fail(at+".model", "has its price in prices[%d] already; keep one", first)
		}
		seen[p.Model] = i
		p.check(at, fail)
	}
}

func (p *Price) check(at string, fail failFunc) {
	if p.Model == "" {
		fail(at+".model", "is missing; write the model as the classifiers name it")
	}
	for field, v := range map[string]*Amount{"input": p.Input, "output": p.Output} {
		switch {
		case v == nil:
			fail(at+"."+field, `is missing; write the price of a million tokens, such as "0.40"`)
		case *v < 0 || *v > Amount(reconcile.MaxPrice):
			fail(at+"."+field, "must be at most %s for a million tokens", reconcile.MaxPrice)
		}
	}
	if !reconcile.CurrencyPattern.MatchString(p.Currency) {
		fail(at+".currency", "must be three capital letters, such as EUR")
	}
}

// Price is what a model costs at an account.
func (c *Config) Price(account, model string) (reconcile.Price, bool) {
	a, _ := c.Account(account)
	for _, p := range a.Prices {
		if p.Model == model && p.Input != nil && p.Output != nil {
			return reconcile.Price{Input: reconcile.Micros(*p.Input), Output: reconcile.Micros(*p.Output), Currency: p.Currency}, true
		}
	}
	return reconcile.Price{}, false
}

// checkBudget says why a policy's budget could not be kept at its account.
func (c *Config) checkBudget(p reconcile.Policy) error {
	if p.Budget == (reconcile.Budget{}) {
		return nil
	}
	key := reconcile.PolicyKey{ID: p.ID, Version: p.Version}
	price, ok := c.Price(p.Boundary.Account, p.Classifier.Model)
	switch {
	case !ok:
		return fmt.Errorf("policy %s: budget: account %s has no price of model %q; add it to prices of the account, or write budget: none", key, p.Boundary.Account, p.Classifier.Model)
	case price.Currency != p.Budget.Currency:
		return fmt.Errorf("policy %s: budget.currency: is %s, but account %s has the price of model %q in %s; a budget and its prices need the same currency",
			key, p.Budget.Currency, p.Boundary.Account, p.Classifier.Model, price.Currency)
	}
	return nil
}

// budgetFile is a policy's budget as it is written: {per_day: "25.00", currency:
// EUR}, or the word none.
type budgetFile struct {
	PerDay   *Amount `yaml:"per_day"`
	Currency string  `yaml:"currency"`
	none     bool
}

var errBudgetWord = errors.New(`must be {per_day: "25.00", currency: EUR}, or none`)

func (b *budgetFile) parseScalar(s string) error {
	if s != "none" {
		return errBudgetWord
	}
	b.none = true
	return nil
}

func (b *budgetFile) check(fail failFunc) {
	switch {
	case b.none:
	case b.PerDay == nil && b.Currency == "":
		fail("budget", `is missing; write {per_day: "25.00", currency: EUR}, or none`)
	case b.PerDay == nil:
		fail("budget.per_day", `is missing; write an amount such as "25.00", or budget: none`)
	case *b.PerDay == 0:
		fail("budget.per_day", "is 0, so that nothing could be sent; to stop a policy, run: rollcall pause")
	case b.Currency == "":
		fail("budget.currency", "is missing; write three capital letters, such as EUR")
	}
}

func (b *budgetFile) budget() reconcile.Budget {
	if b.none || b.PerDay == nil {
		return reconcile.Budget{}
	}
	return reconcile.Budget{PerDay: reconcile.Micros(*b.PerDay), Currency: b.Currency}
}
