package sql

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"rollcall/reconcile"
)

//go:embed query/judge_charge.sql
var judgeChargeSQL string

//go:embed query/submission_price.sql
var submissionPriceSQL string

//go:embed query/overview_spend.sql
var overviewSpendSQL string

//go:embed query/overview_waiting.sql
var overviewWaitingSQL string

// priceRow is the price that a submission was made at.
type priceRow struct {
	Input    *int64  `db:"input_price_micros"`
	Output   *int64  `db:"output_price_micros"`
	Currency *string `db:"currency"`
}

func (r priceRow) price() *reconcile.Price {
	if r.Currency == nil {
		return nil
	}
	return &reconcile.Price{Input: reconcile.Micros(orZero(r.Input)), Output: reconcile.Micros(orZero(r.Output)), Currency: *r.Currency}
}

// estimateColumns are what an intent notes of an estimate: its tokens and, at a
// price, its cost.
func estimateColumns(e *reconcile.Estimate) []any {
	if e == nil {
		return []any{nil, nil, nil, nil, nil, nil}
	}
	if e.Price == nil {
		return []any{e.InputTokens, e.OutputTokens, nil, nil, nil, nil}
	}
	return []any{e.InputTokens, e.OutputTokens, int64(e.Cost), int64(e.Price.Input), int64(e.Price.Output), e.Price.Currency}
}

// PriceJob implements reconcile.ConsumeStore.
func (s *Store) PriceJob(ctx context.Context, jobID string, p reconcile.Price) (noted bool, err error) {
	err = s.write(ctx, "price job", func(ctx context.Context, t *tx) error {
		if _, err := t.lockJob(ctx, jobID, reconcile.JobEnded); err != nil {
			return err
		}
		res, err := t.ExecContext(ctx, submissionPriceSQL, int64(p.Input), int64(p.Output), p.Currency, jobID)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if noted = n > 0; noted {
			t.audit("job_priced", "job:"+jobID, fmt.Sprintf("%s and %s %s for a million tokens", p.Input, p.Output, p.Currency))
		}
		return err
	})
	return noted && err == nil, err
}

// cost is what stands on the item: NULL where nobody knows it.
func (r ruling) cost() *int64 {
	if !r.Charge.Known {
		return nil
	}
	cost := int64(r.Charge.Cost)
	return &cost
}

// charge adds what the items of a chunk cost to their job's submission. Their
// outcomes are written in the same transaction, and an item gets one only once.
func (t *tx) charge(ctx context.Context, jobID string, rulings []ruling) error {
	var in, out, unknown int64
	var cost reconcile.Micros
	for _, r := range rulings {
		in, out = in+r.Charge.InputTokens, out+r.Charge.OutputTokens
		cost = min(cost+r.Charge.Cost, reconcile.MaxMicros)
		if r.Charge.Unknown {
			unknown++
		}
	}
	_, err := t.ExecContext(ctx, judgeChargeSQL, in, out, int64(cost), unknown, int64(reconcile.MaxMicros), jobID)
	return err
}

// readSpend is what the submissions of each policy may cost and do cost.
func readSpend(ctx context.Context, tx *sqlx.Tx, now time.Time) ([]reconcile.SpendView, error) {
	var rows []struct {
		PolicyID string `db:"policy_id"`
		Currency string `db:"currency"`
		Today    sums   `db:"today"`
		Total    sums   `db:"total"`
	}
	if err := tx.SelectContext(ctx, &rows, overviewSpendSQL, micros(reconcile.DayOf(now))); err != nil {
		return nil, err
	}
	out := make([]reconcile.SpendView, 0, len(rows))
	for _, r := range rows {
		out = append(out, reconcile.SpendView{Policy: r.PolicyID, Currency: r.Currency, Today: r.Today.view(), Total: r.Total.view()})
	}
	return out, nil
}

type sums struct {
	Submissions int64 `db:"submissions"`
	Estimate    int64 `db:"estimate"`
	Cost        int64 `db:"cost"`
	Counted     int64 `db:"counted"`
	Unknown     int64 `db:"unknown"`
}

func (s sums) view() reconcile.Spend {
	return reconcile.Spend{Submissions: s.Submissions, Estimate: reconcile.Micros(s.Estimate), Cost: reconcile.Micros(s.Cost),
		Counted: reconcile.Micros(s.Counted), UnknownItems: s.Unknown}
}

// costRow is what a submission may take, and what it took.
type costRow struct {
	EstimatedInput *int64  `db:"estimated_input_tokens"`
	MaxOutput      *int64  `db:"max_output_tokens"`
	Estimate       *int64  `db:"estimated_micros"`
	Currency       *string `db:"currency"`
	InputTokens    int64   `db:"input_tokens"`
	OutputTokens   int64   `db:"output_tokens"`
	Cost           int64   `db:"cost_micros"`
	Unknown        int64   `db:"cost_unknown"`
}

func (r costRow) view() reconcile.CostView {
	v := reconcile.CostView{EstimatedInput: r.EstimatedInput, MaxOutput: r.MaxOutput, Currency: orEmpty(r.Currency),
		InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, UnknownItems: r.Unknown}
	if r.Estimate != nil {
		e := reconcile.Micros(*r.Estimate)
		v.Estimate = &e
	}
	if r.Currency != nil {
		c := reconcile.Micros(r.Cost)
		v.Cost = &c
	}
	return v
}
