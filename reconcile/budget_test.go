package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// priced gives the bench's account one price for every model.
func (b *bench) priced(currency string) {
	b.r.Prices = func(account, model string) (reconcile.Price, bool) {
		return reconcile.Price{Input: 1_000_000, Output: 2_000_000, Currency: currency}, account == "main" && model == "fake-1"
	}
}

// budgeted approves the bench's policy again, with a budget for a day.
func (b *bench) budgeted(version int64, budget reconcile.Micros, currency string) {
	b.t.Helper()
	p := sqltest.Policy("p", version)
	p.Budget = reconcile.Budget{PerDay: budget, Currency: currency}
	b.policy = b.Approve(b.t, p)
}

// plan makes n ready jobs of one report each, whose texts are as long as each
// other's, and returns what each may take.
func (b *bench) plan(n int) reconcile.Estimate {
	b.t.Helper()
	b.r.Settings.JobItems = 1
	b.reports(n)
	b.collect()
	e, err := b.r.EstimateJob(b.t.Context(), b.policy.Key(), 1, int64(len(reportText("r1", 1)))+2)
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

// estimateOfOne is what a job of one report of a policy will take.
func (b *bench) estimateOfOne() reconcile.Micros {
	b.t.Helper()
	e, err := b.r.EstimateJob(b.t.Context(), b.policy.Key(), 1, int64(len(reportText("r1", 1)))+2)
	if err != nil || e.Cost < 400 {
		b.t.Fatalf("estimate %+v, %v", e, err)
	}
	return e.Cost
}

func (b *bench) wantPauses(want ...string) {
	b.t.Helper()
	b.want("pauses", "SELECT scope || ' ' || stage || ' ' || reason || ' ' || set_by FROM pauses WHERE lifted_us IS NULL", want...)
}

func (b *bench) resumePolicy() {
	b.t.Helper()
	if err := b.Resume(b.t.Context(), b.Clock.Now(), "policy:p", reconcile.PauseDispatch, "anna", "a test"); err != nil {
		b.t.Fatal(err)
	}
}

const spentPause = "policy:p dispatch budget_spent rollcall"

func TestBudgetHoldsExactlyWhatItSays(t *testing.T) {
	for name, tc := range map[string]struct {
		less reconcile.Micros
		sent int64
	}{"to the edge": {0, 2}, "a millionth less": {1, 1}} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.priced("EUR")
				one := b.estimateOfOne()
				b.budgeted(2, 2*one-tc.less, "EUR")
				b.plan(3)
				b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 3, Moved: tc.sent, Failed: 2 - tc.sent})
				b.wantCreates(int(tc.sent))
				b.wantPauses(spentPause)
				b.wantFindings("budget_spent")
				b.want("numbers", "SELECT detail FROM findings", fmt.Sprintf("2026-03-02 UTC: %s of %s EUR are spent, the job may take %s",
					one*reconcile.Micros(tc.sent), 2*one-tc.less, one))
				b.want("notes", "SELECT DISTINCT CAST(estimated_micros AS TEXT) || ' ' || currency || ' ' || CAST(max_output_tokens AS TEXT) FROM submissions",
					fmt.Sprintf("%d EUR 200", int64(one)))
				b.wantTally("paused", b.submit(), reconcile.Tally{})
			})
		})
	}
}

// A day ends at midnight in UTC, wherever the process is, and nothing but a
// person resumes a policy.
func TestBudgetIsOfAUTCDay(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.priced("EUR")
		b.budgeted(2, b.estimateOfOne(), "EUR")
		midnight := sqltest.Start.Truncate(24 * time.Hour).Add(24 * time.Hour)
		b.plan(3)
		b.Clock.Advance(midnight.Add(-time.Microsecond).Sub(b.Clock.Now()))
		local := time.FixedZone("far east", 14*3600)
		b.r.Settings.JobsPerRun = 1
		if _, err := b.r.Submit(t.Context(), b.Clock.Now().In(local)); err != nil {
			t.Fatal(err)
		}
		b.wantCreates(1)
		b.wantTally("at the end of the day", b.submit(), reconcile.Tally{Seen: 1})
		b.wantPauses(spentPause)
		b.Clock.Advance(time.Microsecond)
		b.wantTally("a new day", b.submit(), reconcile.Tally{})
		b.wantPauses(spentPause)
		b.resumePolicy()
		b.wantFindings()
		b.wantTally("resumed", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
		b.wantTally("the new day's is spent", b.submit(), reconcile.Tally{Seen: 1})
		b.wantCreates(2)
		b.wantPauses(spentPause)
	})
}

func TestRaisedBudgetIsForJobsThatWaitForIt(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.priced("EUR")
		b.budgeted(2, 1, "EUR")
		b.plan(1)
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1})
		b.wantCreates(0)
		b.want("jobs", "SELECT state FROM jobs", "ready")
		b.want("submissions", "SELECT submission_id FROM submissions")
		b.budgeted(3, 1_000_000, "EUR")
		b.resumePolicy()
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
	})
}

func TestBudgetWithoutItsPriceSendsNothing(t *testing.T) {
	for name, price := range map[string]func(b *bench){
		"another currency": func(b *bench) { b.priced("USD") },
		"no price": func(b *bench) {
			b.r.Prices = func(string, string) (reconcile.Price, bool) { return reconcile.Price{}, false }
		},
		"no prices at all": func(b *bench) { b.r.Prices = nil },
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				price(b)
				b.budgeted(2, 1_000_000, "EUR")
				b.plan(1)
				b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
				b.wantCreates(0)
				b.wantFindings("budget_unpriced")
				b.wantPauses()
				b.wantTally("at once", b.submit(), reconcile.Tally{}) // it is put off
				b.priced("EUR")
				b.Clock.Advance(b.r.Settings.SubmitRetry)
				b.wantTally("priced", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
			})
		})
	}
}

// What the day's earlier submissions cost in another currency cannot be added
// up, so that nobody can say that the budget holds the next one.
func TestBudgetAfterAChangeOfCurrency(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.priced("USD")
		b.plan(1)
		b.submit()
		b.wantCreates(1)
		b.priced("EUR")
		b.budgeted(2, 1_000_000, "EUR")
		b.reports(1)
		b.collect()
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1})
		b.wantCreates(1)
		b.wantPauses(spentPause)
		if detail := b.rows("SELECT detail FROM findings")[0]; !strings.Contains(detail, "of 1 submissions nobody knows in EUR") {
			t.Errorf("told: %s", detail)
		}
	})
}

// A refused job costs nothing. One whose outcome nobody knows may cost all of
// its estimate.
func TestBudgetCountsWhatMayHaveRun(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.priced("EUR")
		b.budgeted(2, b.estimateOfOne(), "EUR")
		b.plan(1)
		b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return false, answer("create", batch.Rejected, 400, "no") }
		b.submit()
		b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return true, errLost }
		b.Clock.Advance(time.Hour)
		b.wantTally("again", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		b.wantSubmissions("rejected: create: rejected, HTTP 400, code no", "open")
		b.reports(1)
		b.collect()
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1})
		b.wantPauses(spentPause)
	})
}

// Once a job is consumed its cost counts, which is less than the estimate.
func TestBudgetCountsTheCostOnceItIsKnown(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.priced("EUR")
		one := b.estimateOfOne()
		b.budgeted(2, one+120, "EUR") // of one answer: 100 tokens in and 10 out
		b.plan(1)
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		b.want("cost", "SELECT CAST(cost_micros AS TEXT) || ' ' || CAST(cost_unknown AS TEXT) FROM submissions", "120 0")
		b.reports(1)
		b.collect()
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
		b.reports(1)
		b.collect()
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1})
		o, err := b.Overview(t.Context(), b.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		sum := reconcile.Spend{Submissions: 2, Estimate: 2 * one, Cost: 120, Counted: one + 120}
		if want := (reconcile.SpendView{Policy: "p", Currency: "EUR", Today: sum, Total: sum}); len(o.Spend) != 1 || o.Spend[0] != want {
			t.Errorf("spend %+v, want %+v", o.Spend, want)
		}
	})
}

// Who dies between the finding and the pause, or cannot tell whether the pause
// stands, leaves it to the next run. Nothing is sent meanwhile.
func TestBudgetPauseSurvivesLyingCommits(t *testing.T) {
	for _, name := range []string{"pause", "open finding", "commit intent"} {
		for how, l := range map[string]loss{"before": before, "after": after} {
			t.Run(name+"/"+how, func(t *testing.T) {
				onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
					b.priced("EUR")
					one := b.estimateOfOne()
					b.budgeted(2, one, "EUR")
					b.plan(2)
					b.r.Settings.JobsPerRun = 1
					c.lose[name] = l
					for range 4 {
						_, _ = b.r.Submit(t.Context(), b.Clock.Now())
						b.Clock.Advance(time.Second)
					}
					b.wantLied(t, c, name)
					b.wantCreates(1)
					b.wantPauses(spentPause)
					b.wantFindings("budget_spent")
					b.want("submissions", "SELECT CAST(COUNT(*) AS TEXT) FROM submissions", "1")
				})
			})
		}
	}
}
