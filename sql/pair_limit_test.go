package sql_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/reconcile"
)

// intentOf commits the intent to send a job of the account fp, of one line that
// may cost 10.
func (p *planner) intentOf(job, id string, a *reconcile.Admission) error {
	_, err := p.CommitIntent(context.WithoutCancel(p.t.Context()), p.Clock.Now(), reconcile.Intent{SubmissionID: id, JobID: job,
		Account: batch.Account{Name: "main", Fingerprint: "fp"}, SendBy: p.Clock.Now().Add(time.Minute), Manifest: func() hash.Hash { return sha256.New() },
		Estimate: func(lines, content int64) reconcile.Estimate {
			return reconcile.Estimate{InputTokens: content, OutputTokens: 3 * lines, Cost: reconcile.Micros(10 * lines), Price: &reconcile.Price{Input: 1, Output: 2, Currency: "EUR"}}
		}, Admission: a})
	return err
}

// twoReadyReports makes ready jobs j and k of one report each.
func (p *planner) twoReadyReports() {
	p.t.Helper()
	p.readyReports("a")
	_, err := p.add("k", true, accept(p.t, p.Ledger, p.delivery("b", 1))[0].WorkID)
	p.must(err)
}

// admissionOf is one that admits by a rule, as of the day of the clock.
func (p *planner) admissionOf(full func(reconcile.AccountLoad, reconcile.DaySpend, reconcile.Estimate) error) *reconcile.Admission {
	now := p.Clock.Now()
	return &reconcile.Admission{CreatesSince: now.Add(-time.Minute), Day: reconcile.DayOf(now), Currency: "EUR", Admit: full}
}

// TestIntentMeetsIntentAtTheLimit: of two processes that would each be the last
// one to fit, one sends. The rule is asked with what the other has committed.
func TestIntentMeetsIntentAtTheLimit(t *testing.T) {
	rules := map[string]struct {
		rule    func(reconcile.AccountLoad, reconcile.DaySpend, reconcile.Estimate) error
		refused error
	}{
		"open jobs": {func(l reconcile.AccountLoad, _ reconcile.DaySpend, _ reconcile.Estimate) error {
			if l.OpenJobs >= 1 {
				return reconcile.ErrLimited
			}
			return nil
		}, reconcile.ErrLimited},
		"enqueued tokens": {func(l reconcile.AccountLoad, _ reconcile.DaySpend, e reconcile.Estimate) error {
			if l.EnqueuedTokens > 0 && l.EnqueuedTokens+e.InputTokens > 0 {
				return reconcile.ErrLimited
			}
			return nil
		}, reconcile.ErrLimited},
		"creates per minute": {func(l reconcile.AccountLoad, _ reconcile.DaySpend, _ reconcile.Estimate) error {
			if l.Creates >= 1 && !l.FirstCreate.IsZero() {
				return reconcile.ErrLimited
			}
			return nil
		}, reconcile.ErrLimited},
		"budget of the day": {func(_ reconcile.AccountLoad, s reconcile.DaySpend, e reconcile.Estimate) error {
			if s.Spent+e.Cost > 19 { // it holds one of 10, and not two
				return reconcile.ErrBudget
			}
			return nil
		}, reconcile.ErrBudget},
	}
	all := map[string]func(p *planner) meeting{}
	for name, r := range rules {
		all[name] = func(p *planner) meeting {
			p.twoReadyReports()
			a := p.admissionOf(r.rule)
			return meeting{
				first:  func(q *planner) error { return q.intentOf("j", "s1", a) },
				second: func(q *planner) error { return q.intentOf("k", "s2", a) },
				waits:  "FROM leases", refused: r.refused,
				then: func() {
					p.want("[s1]", "SELECT submission_id FROM submissions")
					p.want("[ready ready]", "SELECT state FROM jobs")
				},
			}
		}
	}
	meetings(t, all)
}

// TestWhatAnAdmissionIsTold: what counts against limits and budget, and what does
// not. It is asked before the members are read, and once the estimate is known.
func TestWhatAnAdmissionIsTold(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		day := reconcile.DayOf(p.Clock.Now()).UnixMicro()
		b := row{"boundary_id": p.policy.BoundaryID, "item_count": 1}
		with := func(set row) row {
			out := row{}
			for _, m := range []row{b, set} {
				for k, v := range m {
					out[k] = v
				}
			}
			return out
		}
		p.readyJob("a")
		p.job("at", "submitted", with(row{"account": "fp"}))
		p.exec("UPDATE submissions SET account = 'fp', estimated_input_tokens = 7, estimated_micros = 100, currency = 'EUR' WHERE job_id = 'at'")
		p.job("elsewhere", "submitted", with(row{"account": "other"}))
		p.exec("UPDATE submissions SET account = 'other', intent_us = $1 WHERE job_id = 'elsewhere'", day-1) // the day before
		p.job("open", "ready", with(nil))
		p.insert("submissions", row{"submission_id": "open", "job_id": "open", "account": "fp", "estimated_input_tokens": 5, "estimated_micros": 30, "currency": "EUR", "intent_us": day})
		p.job("done", "consumed", with(row{"account": "fp"}))
		p.exec("UPDATE submissions SET account = 'fp', estimated_micros = 1000, currency = 'EUR', line_count = 3, cost_micros = 8, cost_unknown = 1, intent_us = $1 WHERE job_id = 'done'", day)
		p.job("over", "ended", with(row{"account": "fp"})) // half judged, and dearer than its estimate
		p.exec("UPDATE submissions SET account = 'fp', estimated_micros = 1, currency = 'EUR', cost_micros = 2, intent_us = $1 WHERE job_id = 'over'", day)
		p.job("refused", "ready", with(nil))
		for i, outcome := range []string{"rejected", "proven_absent"} {
			p.insert("submissions", row{"submission_id": outcome, "job_id": "refused", "attempt": i + 1, "account": "fp", "estimated_micros": 5000, "currency": "EUR",
				"outcome": outcome, "evidence": "e", "closed_us": startUS, "intent_us": day})
		}
		p.insert("submissions", row{"submission_id": "given-up", "job_id": "refused", "attempt": 3, "account": "fp", "estimated_micros": 4, "currency": "EUR",
			"outcome": "abandoned", "evidence": "e", "closed_us": startUS, "intent_us": day})
		for i, currency := range []any{"USD", nil} {
			job := fmt.Sprint("odd", i)
			p.job(job, "consumed", with(row{"account": "fp"}))
			p.exec("UPDATE submissions SET account = 'fp', currency = $1, cost_micros = 77, intent_us = $2 WHERE job_id = $3", currency, day, job)
		}
		var load reconcile.AccountLoad
		var spend reconcile.DaySpend
		var asked []reconcile.Estimate
		stop := errors.New("stop")
		a := p.admissionOf(func(l reconcile.AccountLoad, s reconcile.DaySpend, e reconcile.Estimate) error {
			load, spend, asked = l, s, append(asked, e)
			if e.Cost > 0 {
				return stop
			}
			return nil
		})
		if err := p.intentOf("j", "s", a); !errors.Is(err, stop) {
			t.Fatal(err)
		}
		if want := (reconcile.AccountLoad{OpenJobs: 2, EnqueuedTokens: 12, Creates: 1, FirstCreate: p.Clock.Now()}); load != want {
			t.Errorf("load %+v, want %+v", load, want)
		}
		if want := (reconcile.DaySpend{Spent: 100 + 30 + (8 + 334) + 2 + 4, Uncounted: 2}); spend != want {
			t.Errorf("spend %+v, want %+v", spend, want)
		}
		if len(asked) != 2 || asked[0] != (reconcile.Estimate{}) || asked[1].InputTokens != 10 {
			t.Errorf("asked about %+v", asked)
		}
		if got := p.strings("SELECT submission_id FROM submissions WHERE job_id = 'j'"); len(got) > 0 {
			t.Errorf("an intent stands: %v", got)
		}
	})
}
