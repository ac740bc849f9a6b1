package sql

import (
	"context"
	_ "embed"
	"time"

	"rollcall/reconcile"
)

//go:embed query/limit_load.sql
var limitLoadSQL string

//go:embed query/limit_keep_back.sql
var limitKeepBackSQL string

//go:embed query/limit_done.sql
var limitDoneSQL string

//go:embed query/budget_day.sql
var budgetDaySQL string

// gateLimit is the row at which intents that must keep within something wait for
// each other: what the one counts, the other has not added to yet.
const gateLimit = "gate:limit"

// admit asks whether a job of a policy may be sent, by what the ledger counts.
func (t *tx) admit(ctx context.Context, in reconcile.Intent, policyID string, e reconcile.Estimate) error {
	if in.Admission == nil {
		return nil
	}
	var f int64
	if err := t.GetContext(ctx, &f, t.store.dialect.locked(gateReadSQL, forUpdate), gateLimit); err != nil {
		return err
	}
	load, err := t.accountLoad(ctx, in.Account.Fingerprint, in.Admission.CreatesSince)
	if err != nil {
		return err
	}
	spend, err := t.daySpend(ctx, policyID, in.Admission)
	if err != nil {
		return err
	}
	return in.Admission.Admit(load, spend, e)
}

func (t *tx) accountLoad(ctx context.Context, fingerprint string, since time.Time) (reconcile.AccountLoad, error) {
	var r struct {
		OpenJobs int64  `db:"open_jobs"`
		Tokens   int64  `db:"enqueued_tokens"`
		Creates  int64  `db:"creates"`
		FirstUS  *int64 `db:"first_us"`
	}
	err := t.GetContext(ctx, &r, limitLoadSQL, fingerprint, micros(since))
	return reconcile.AccountLoad{OpenJobs: r.OpenJobs, EnqueuedTokens: r.Tokens, Creates: r.Creates, FirstCreate: fromNull(r.FirstUS)}, err
}

// daySpend is what a policy's submissions of the day come to, if it has a budget.
func (t *tx) daySpend(ctx context.Context, policyID string, a *reconcile.Admission) (reconcile.DaySpend, error) {
	if a.Day.IsZero() {
		return reconcile.DaySpend{}, nil
	}
	var r struct {
		Spent     int64 `db:"spent"`
		Uncounted int64 `db:"uncounted"`
	}
	err := t.GetContext(ctx, &r, budgetDaySQL, policyID, micros(a.Day), micros(a.Day.Add(24*time.Hour)), a.Currency)
	return reconcile.DaySpend{Spent: reconcile.Micros(r.Spent), Uncounted: r.Uncounted}, err
}

// KeepBack implements reconcile.SubmitStore.
func (s *Store) KeepBack(ctx context.Context, now time.Time, jobID string, next time.Time, limit reconcile.LimitWord) error {
	return s.write(ctx, "keep back", func(ctx context.Context, t *tx) error {
		return changedOne(t.ExecContext(ctx, limitKeepBackSQL, micros(next), string(limit), micros(now), jobID))
	})
}
