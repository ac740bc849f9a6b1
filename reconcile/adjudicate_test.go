package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rollcall/batch"
)

var testCaps = Caps{Attempts: 3, Runs: 5, Retry: 10 * time.Minute}

func line(channel batch.Channel, n int64, mac string, o ItemOutcome) LineFact {
	return LineFact{Channel: channel, Line: n, LineMAC: mac, Outcome: o, Code: "c"}
}

func TestAdjudicateEachOutcome(t *testing.T) {
	type want struct {
		outcome ItemOutcome
		rest    LineDisposition
		reason  Reason        // "" for a retry or a success
		last    Reason        // at the cap
		retry   time.Duration // the first time
	}
	const wait = 10 * time.Minute
	for outcome, w := range map[ItemOutcome]want{
		ItemSucceeded:   {ItemSucceeded, LineDupSame, "", "", 0},
		ItemRefused:     {ItemRefused, LineItemError, Refused, Refused, 0},
		ItemBlocked:     {ItemBlocked, LineItemError, BlockedByProvider, BlockedByProvider, 0},
		ItemRejected:    {ItemRejected, LineItemError, RejectedByProvider, RejectedByProvider, 0},
		ItemTruncated:   {ItemTruncated, LineItemError, "", Truncated, wait},
		ItemInvalid:     {ItemInvalid, LineItemError, "", InvalidOutput, wait},
		ItemFailed:      {ItemFailed, LineItemError, "", AttemptsUsedUp, wait},
		ItemExpired:     {ItemExpired, LineItemError, "", AttemptsUsedUp, wait},
		ItemCancelled:   {ItemCancelled, LineItemError, "", AttemptsUsedUp, wait},
		ItemNotRun:      {ItemNotRun, LineItemError, "", AttemptsUsedUp, wait},
		ItemDenied:      {ItemDenied, LineItemError, "", AttemptsUsedUp, wait},
		ItemOutOfCredit: {ItemOutOfCredit, LineItemError, "", AttemptsUsedUp, wait},
		lineUnreadable:  {ItemInvalid, LineItemError, "", InvalidOutput, wait},
	} {
		t.Run(string(outcome), func(t *testing.T) {
			facts := ItemFacts{WorkID: "w", Lines: []LineFact{line("output", 7, "m", outcome)}}
			got := Adjudicate(facts, testCaps, batch.PhaseEnded)
			if got.Outcome != w.outcome || got.Rest != w.rest || got.Reason != w.reason || got.RetryAfter != w.retry || got.Code != "c" {
				t.Errorf("%+v", got)
			}
			if accepted := got.Accepted != nil; accepted != (outcome == ItemSucceeded) {
				t.Errorf("accepted: %v", accepted)
			}
			facts.Counted, facts.Uncounted = testCaps.Attempts-1, testCaps.Runs-1
			if got := Adjudicate(facts, testCaps, batch.PhaseEnded); got.Reason != w.last || got.RetryAfter != 0 {
				t.Errorf("at the cap: %+v", got)
			}
		})
	}
}

func TestF33_MemberWithoutALine(t *testing.T) {
	got := Adjudicate(ItemFacts{WorkID: "w"}, testCaps, batch.PhaseEnded)
	if got.Outcome != ItemMissing || got.Reason != "" || got.RetryAfter == 0 {
		t.Errorf("first time: %+v", got)
	}
	if got := Adjudicate(ItemFacts{WorkID: "w", Counted: 2}, testCaps, batch.PhaseEnded); got.Reason != AttemptsUsedUp {
		t.Errorf("last time: %+v", got)
	}
	if got := Adjudicate(ItemFacts{WorkID: "w", Uncounted: 4}, testCaps, batch.PhaseEnded); got.Reason != "" {
		t.Errorf("runs that never counted used up an attempt: %+v", got)
	}
	if got := Adjudicate(ItemFacts{WorkID: "w", Counted: 2}, testCaps, batch.PhaseInvalid); got.Outcome != ItemNotRun || got.Reason != "" {
		t.Errorf("of a job that was refused as a whole: %+v", got)
	}
}

func TestF31_DuplicateLineSameBody(t *testing.T) {
	lines := []LineFact{line("output", 9, "m", ItemSucceeded), line("error", 12, "m", ItemSucceeded), line("output", 3, "m", ItemSucceeded)}
	got := Adjudicate(ItemFacts{WorkID: "w", Lines: lines}, testCaps, batch.PhaseEnded)
	if got.Outcome != ItemSucceeded || got.Accepted.Channel != "error" || got.Accepted.Line != 12 || got.Rest != LineDupSame {
		t.Errorf("%+v", got)
	}
}

func TestF32_DuplicateLineOtherBody(t *testing.T) {
	lines := []LineFact{line("output", 3, "m", ItemSucceeded), line("output", 9, "m", ItemSucceeded), line("error", 1, "n", ItemFailed)}
	got := Adjudicate(ItemFacts{WorkID: "w", Lines: lines}, testCaps, batch.PhaseEnded)
	if got.Outcome != ItemConflict || got.Accepted != nil || got.Rest != LineDupConflict || got.Reason != ConflictingResults {
		t.Errorf("%+v", got)
	}
}

func TestRetriesWaitLongerAndLonger(t *testing.T) {
	last := time.Duration(0)
	for tried := range int64(100) {
		got := Adjudicate(ItemFacts{WorkID: "w", Uncounted: tried}, Caps{Attempts: 1, Runs: 200, Retry: time.Minute}, batch.PhaseInvalid)
		if got.RetryAfter < last || got.RetryAfter > longestRetry || got.RetryAfter < time.Minute {
			t.Fatalf("after %d tries: %v, before %v", tried, got.RetryAfter, last)
		}
		last = got.RetryAfter
	}
	if last != longestRetry {
		t.Errorf("the wait ends at %v", last)
	}
}

func TestEveryOutcomeIsCappedOrFinal(t *testing.T) {
	final := []ItemOutcome{ItemSucceeded, ItemRefused, ItemBlocked, ItemRejected, ItemConflict, ItemNotSent, ItemUnapproved}
	for _, o := range ItemOutcomes() {
		ways := 0
		for _, way := range []bool{o.UsesAttempt(), o.UsesRun(), slices.Contains(final, o)} {
			if way {
				ways++
			}
		}
		if ways != 1 {
			t.Errorf("%s is of %d kinds", o, ways)
		}
	}
}

// The order of the lines, and so the split of a file into chunks and lines
// into files, must not matter.
func TestAdjudicateDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := ItemFacts{WorkID: "w", Counted: rapid.Int64Range(0, 4).Draw(t, "counted"), Uncounted: rapid.Int64Range(0, 6).Draw(t, "uncounted")}
		n := rapid.IntRange(0, 5).Draw(t, "lines")
		for i := range n {
			body := rapid.IntRange(0, 2).Draw(t, "body") // equal bodies have equal outcomes
			facts.Lines = append(facts.Lines, LineFact{
				Channel: rapid.SampledFrom([]batch.Channel{"output", "error"}).Draw(t, "channel"), Line: int64(i + 1),
				LineMAC: fmt.Sprint(body), Outcome: []ItemOutcome{ItemSucceeded, ItemRefused, ItemFailed}[body],
			})
		}
		phase := rapid.SampledFrom([]batch.Phase{batch.PhaseEnded, batch.PhaseInvalid}).Draw(t, "phase")
		want := Adjudicate(facts, testCaps, phase)
		shuffled := facts
		shuffled.Lines = rapid.Permutation(facts.Lines).Draw(t, "order")
		if diff := cmp.Diff(want, Adjudicate(shuffled, testCaps, phase)); diff != "" {
			t.Fatal(diff)
		}
		// Exactly one bucket: an artifact, a reason, or another try.
		ways := 0
		for _, way := range []bool{want.Accepted != nil, want.Reason != "", want.RetryAfter > 0} {
			if way {
				ways++
			}
		}
		if ways != 1 || !slices.Contains(ItemOutcomes(), want.Outcome) {
			t.Fatalf("%d ways on: %+v", ways, want)
		}
	})
}
