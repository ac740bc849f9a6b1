package reconcile_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
)

// used is the result line of an outcome, with what it used.
func (j sentJob) used(work string, o batch.Outcome, input, output int64) string {
	r := batch.Result{CustomID: work + "-" + j.submission, Outcome: o, Model: "fake-1", InputTokens: input, OutputTokens: output}
	if o == batch.Answered {
		r.Content = []byte(`{"label":"ok","evidence":[]}`)
	}
	return string(fake.Result(batch.ChannelOutput, r).Raw)
}

// priced makes a million tokens in cost 1 and out 2.
func (x *resultTest) priced() {
	x.r.Prices = func(string, string) (reconcile.Price, bool) {
		return reconcile.Price{Input: 1_000_000, Output: 2_000_000, Currency: "EUR"}, true
	}
}

// wantCost compares the submission's sums, and holds that its items add up to them.
func (x *resultTest) wantCost(j sentJob, want string) {
	x.t.Helper()
	got := x.strings(`SELECT CAST(input_tokens AS TEXT) || ' in, ' || CAST(output_tokens AS TEXT) || ' out, cost ' || CAST(cost_micros AS TEXT)
		|| ' ' || COALESCE(currency, '-') || ', ' || CAST(cost_unknown AS TEXT) || ' unknown' FROM submissions WHERE submission_id = $1`, j.submission)
	if len(got) != 1 || got[0] != want {
		x.t.Errorf("cost %q, want %q", got, want)
	}
	if off := x.strings(`SELECT s.submission_id FROM submissions s WHERE s.submission_id = $1 AND s.cost_micros <>
		(SELECT COALESCE(SUM(i.cost_micros), 0) FROM items i WHERE i.job_id = s.job_id)`, j.submission); len(off) > 0 {
		x.t.Errorf("the items of %v do not add up to its cost", off)
	}
}

// Whatever became of an item, what it used is charged: refusals, cut answers and
// bad ones cost as much as good ones.
func TestEveryOutcomeIsCharged(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		x.priced()
		j, works := x.prepare(7)
		x.end(j, []string{
			j.used(works[0], batch.Answered, 100, 10),
			j.used(works[1], batch.Refused, 200, 20),
			j.used(works[2], batch.Truncated, 300, 30),
			j.used(works[3], batch.BadShape, 400, 40),
			j.used(works[4], batch.Blocked, 500, 0),
		}, []string{
			j.failed(works[5], batch.ItemRejected, "no"),
			j.failed(works[6], batch.Expired, "batch_expired"),
		})
		x.consume(oneDone)
		x.wantCost(j, "1500 in, 100 out, cost 1700 EUR, 0 unknown")
	})
}

// An item that may have run, and of which nobody says what it used, is counted
// as that. It is not taken for free.
func TestUnknownUsageIsNotFree(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		x.priced()
		j, works := x.prepare(6)
		x.end(j, []string{
			j.used(works[0], batch.Answered, 100, 10),
			j.used(works[1], batch.Answered, 0, 0),
			j.used(works[2], batch.Refused, 0, 0),
			j.used(works[3], batch.Answered, -7, math.MinInt64),
			j.used(works[4], batch.Answered, math.MaxInt64, math.MaxInt64),
		}, nil) // and nothing of the sixth
		x.consume(oneDone)
		x.wantCost(j, "100 in, 10 out, cost 120 EUR, 5 unknown")
		if got := x.strings("SELECT COUNT(*) || '' FROM items WHERE cost_micros IS NULL"); got[0] != "5" {
			x.t.Errorf("%v items are of unknown cost", got)
		}
	})
}

// An item ran once, however often the files tell of it.
func TestF31_ASecondLineIsNotChargedAgain(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		x.priced()
		j, works := x.prepare(3)
		same := j.used(works[0], batch.Answered, 100, 10)
		x.end(j, []string{same, same, j.used(works[1], batch.Answered, 100, 10), j.used(works[1], batch.Answered, 700, 10), j.used(works[2], batch.Answered, 100, 10)},
			[]string{same, j.used("notours", batch.Answered, 5000, 5000)})
		x.consume(oneDone)
		x.wantCost(j, "900 in, 30 out, cost 960 EUR, 0 unknown") // of two that differ, the dearer
	})
}

// A job that is read again from its first byte, as after a file that was cut, is
// charged once.
func TestF29_AFileThatIsReadAgainIsChargedOnce(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		x.priced()
		j, works := x.prepare(5)
		x.counts = batch.Counts{Total: 5, Completed: 5}
		lines := []string{}
		for _, w := range works {
			lines = append(lines, j.used(w, batch.Answered, 100, 10))
		}
		x.end(j, lines[:3], nil)
		x.exec("UPDATE jobs SET provider_completed = 5, provider_total = 5")
		x.consume(onePutOff)
		x.wantCost(j, "0 in, 0 out, cost 0 -, 0 unknown")
		x.provider.body["output-"+j.id] = joined(lines)
		x.Clock.Advance(time.Hour)
		x.consume(oneDone)
		x.wantCost(j, "500 in, 50 out, cost 600 EUR, 0 unknown")
		x.Clock.Advance(time.Hour)
		x.consume(nothing)
		x.wantCost(j, "500 in, 50 out, cost 600 EUR, 0 unknown")
	})
}

// lyingJudge commits a chunk and says that nobody knows.
type lyingJudge struct {
	reconcile.Store
	left int
}

func (l *lyingJudge) JudgeItems(ctx context.Context, now time.Time, jobID string, after int64, limit int, judge func(reconcile.ItemFacts) reconcile.Ruling) (reconcile.JudgedChunk, error) {
	chunk, err := l.Store.JudgeItems(ctx, now, jobID, after, limit, judge)
	if l.left--; err == nil && l.left == 0 {
		return reconcile.JudgedChunk{}, fmt.Errorf("judge items: %w", reconcile.ErrUnknownCommit)
	}
	return chunk, err
}

// F38: whichever chunk's COMMIT lies, or is the last before the process dies,
// each item is charged once.
func TestF38_CommitThatLiesChargesOnce(t *testing.T) {
	for nth := 1; nth <= 3; nth++ {
		t.Run(fmt.Sprint("chunk ", nth), func(t *testing.T) {
			eachResults(t, func(x *resultTest) {
				x.priced()
				j, works := x.prepare(7) // three chunks
				var lines []string
				for _, w := range works {
					lines = append(lines, j.used(w, batch.Answered, 100, 10))
				}
				x.end(j, lines, nil)
				x.r.Store = &lyingJudge{Store: x.Ledger.Store, left: nth}
				x.consume(onePutOff)
				x.r.Store = x.Ledger.Store
				// The price has changed meanwhile. The job keeps its own.
				x.r.Prices = func(string, string) (reconcile.Price, bool) {
					return reconcile.Price{Input: 9_000_000, Output: 9_000_000, Currency: "USD"}, true
				}
				x.Clock.Advance(time.Hour)
				x.consume(oneDone)
				x.wantCost(j, "700 in, 70 out, cost 840 EUR, 0 unknown")
			})
		})
	}
}

// What was judged without a price stays without: half a sum would look like a
// whole one.
func TestPriceThatComesTooLateIsNotUsed(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(5)
		var lines []string
		for _, w := range works {
			lines = append(lines, j.used(w, batch.Answered, 100, 10))
		}
		x.end(j, lines, nil)
		x.r.Store = &lyingJudge{Store: x.Ledger.Store, left: 1}
		x.consume(onePutOff)
		x.r.Store = x.Ledger.Store
		x.priced()
		x.Clock.Advance(time.Hour)
		x.consume(oneDone)
		x.wantCost(j, "500 in, 50 out, cost 0 -, 0 unknown")
	})
}
