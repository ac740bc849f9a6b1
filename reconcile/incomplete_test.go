package reconcile_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/reconcile"
)

// F36: a file that is cut at the end of a line looks whole. The provider's counts
// are a reason to read it again, and the answers behind the cut are not bought twice.
func TestF36_FewerLinesThanCountedAreReadAgain(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(7)
		x.counts = batch.Counts{Total: 7, Completed: 6, Failed: 1}
		x.end(j, j.answers(works[:6]), []string{j.failed(works[6], batch.Refused, "")})
		whole := x.provider.body["output-"+j.id]
		cut := j.answers(works[:3])
		x.provider.body["output-"+j.id] = joined(append(cut, cut...)) // duplicates hide nothing
		x.consume(onePutOff)
		x.events("results_incomplete job:job1: 4 lines, the provider counts 7")
		x.items(j, repeat("-", 7)...)
		x.lines(j)
		if sets := x.strings("SELECT channel || ' ' || state FROM result_sets ORDER BY channel"); !slices.Equal(sets, []string{"error staging", "output staging"}) {
			t.Errorf("sets: %v", sets)
		}
		x.consume(nothing) // not before its next turn
		x.Clock.Advance(x.r.Settings.ConsumeRetry)
		x.provider.body["output-"+j.id] = whole
		x.consume(oneDone)
		x.items(j, "succeeded", "succeeded", "succeeded", "succeeded", "succeeded", "succeeded", "refused")
		x.lines(j, "accepted 6", "item_error 1")
		x.events()
		if due, err := x.DueWorks(t.Context(), x.Clock.Now().Add(24*time.Hour), x.policy.Key(), nil, 10); err != nil || len(due) > 0 {
			t.Errorf("to be sent again: %v, %v", due, err)
		}
	})
}

// Counts that are wrong for ever hold a job up for a time only. While it waits,
// its files are read less and less often.
func TestF36_WrongCountsAreNoOutcome(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(3)
		x.counts = batch.Counts{Total: 3, Completed: 9}
		x.end(j, j.answers(works[:2]), nil)
		x.Clock.Advance(2 * x.r.Settings.FilesGrace) // rollcall was away: one reading still proves nothing
		x.consume(onePutOff)
		until := x.Clock.Now().Add(x.r.Settings.FilesGrace)
		for x.Clock.Advance(x.r.Settings.ConsumeRetry); x.Clock.Now().Before(until); x.Clock.Advance(x.r.Settings.ConsumeRetry) {
			if tally, err := x.r.Consume(t.Context(), x.Clock.Now()); err != nil || tally.Moved > 0 {
				t.Fatalf("%+v, %v", tally, err)
			}
		}
		if x.provider.downloads > 25 {
			t.Errorf("the file was fetched %d times", x.provider.downloads)
		}
		x.Clock.Advance(x.r.Settings.FilesGrace / 4)
		x.consume(oneDone)
		x.items(j, "succeeded", "succeeded", "missing")
		x.events("results_incomplete job:job1: 2 lines, the provider counts 9")
	})
}

// A reading with fewer lines than an earlier one is cut short, also when the time
// to wait for more is over: the items behind the cut were answered.
func TestF36_ShorterReadingThanBeforeIsNotJudged(t *testing.T) {
	for name, comesBack := range map[string]bool{"the lines come back": true, "they do not": false} {
		t.Run(name, func(t *testing.T) {
			eachResults(t, func(x *resultTest) {
				j, works := x.prepare(3)
				x.counts = batch.Counts{Total: 3, Completed: 3}
				x.end(j, j.answers(works[:2]), nil)
				whole := x.provider.body["output-"+j.id]
				x.consume(onePutOff)
				x.Clock.Advance(x.r.Settings.FilesGrace + time.Minute)
				x.exec("UPDATE works SET due_us = due_us + $1", int64(48*time.Hour/time.Microsecond))
				x.provider.body["output-"+j.id] = whole[:strings.Index(whole, "\n")+1]
				x.consume(onePutOff)
				x.Clock.Advance(x.r.Settings.FilesGrace)
				if comesBack {
					x.provider.body["output-"+j.id] = whole
				}
				x.consume(oneDone)
				want := []string{"succeeded", "missing", "missing"}
				if comesBack {
					want[1] = "succeeded"
				}
				x.items(j, want...)
			})
		})
	}
}

// A member that left for the job in which it was sent again says nothing of the
// results of the others: what is missing of these is waited for.
func TestF36_MemberThatWasSentAgainIsNotJudged(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(3)
		x.counts = batch.Counts{Total: 3, Completed: 3}
		x.end(j, j.answers(works[:1]), nil)
		whole := x.provider.body["output-"+j.id]
		x.exec("UPDATE items SET outcome = 'not_run', code = 'sent_again', decided_us = 1 WHERE line = 3")
		x.exec("UPDATE works SET stage = 'pending' WHERE work_id = $1", works[2])
		x.consume(onePutOff)
		x.provider.body["output-"+j.id] = whole + strings.Join(j.answers(works[1:]), "\n") + "\n"
		x.Clock.Advance(x.r.Settings.FilesGrace / 4)
		x.consume(oneDone)
		x.items(j, "succeeded", "succeeded", "not_run sent_again")
	})
}

// What is judged is never taken back, and what is lost is not waited for.
func TestF36_NoSecondLook(t *testing.T) {
	for name, prepare := range map[string]func(x *resultTest){
		"a member is judged": func(x *resultTest) {
			x.r.Store = &failAfter{Store: x.Store, judge: 1, err: errors.New("the process died")}
			x.consume(onePutOff)
			x.r.Store = x.Store
			x.exec("UPDATE jobs SET provider_completed = 9")
			if err := x.ReopenResultSets(x.t.Context(), x.Clock.Now(), "job1", x.Clock.Now(), reconcile.Event{}); !errors.Is(err, reconcile.ErrMoved) {
				x.t.Errorf("judged results were reopened: %v", err)
			}
			x.Clock.Advance(x.r.Settings.ConsumeRetry)
		},
		"a set is lost": func(x *resultTest) {
			x.exec("UPDATE jobs SET provider_completed = 9")
			x.exec("UPDATE result_sets SET state = 'lost' WHERE channel = 'error'")
		},
		"poll has waited already": func(x *resultTest) {
			x.exec("UPDATE jobs SET provider_completed = 9, incomplete_us = $1", x.Clock.Now().Add(-x.r.Settings.FilesGrace).UnixMicro())
		},
	} {
		t.Run(name, func(t *testing.T) {
			variantResults(t, name == "a member is judged", func(x *resultTest) {
				j, works := x.prepare(5)
				x.end(j, j.answers(works), []string{})
				prepare(x)
				x.consume(oneDone)
				x.items(j, repeat("succeeded", 5)...)
			})
		})
	}
}
