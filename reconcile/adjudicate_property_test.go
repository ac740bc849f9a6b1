package reconcile

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rollcall/batch"
)

// thoroughly checks a property of pure functions: with ROLLCALL_TEST_LONG=1 on
// 100,000 cases.
func thoroughly(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	if os.Getenv("ROLLCALL_TEST_LONG") != "" {
		checks := flag.Lookup("rapid.checks").Value
		before := checks.String()
		t.Cleanup(func() { _ = checks.Set(before) })
		if err := checks.Set("100000"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, property)
}

// bodies are what a line can say, by its bytes: lines with one digest say one thing.
var bodies = []LineFact{
	{LineMAC: "a", Outcome: ItemSucceeded}, {LineMAC: "b", Outcome: ItemSucceeded}, {LineMAC: "c", Outcome: ItemFailed, Code: "server_error"}, {LineMAC: "d", Outcome: ItemExpired},
	{LineMAC: "e", Outcome: ItemInvalid, Code: string(faultText)}, {LineMAC: "f", Outcome: ItemInvalid, Code: "schema"}, {LineMAC: "g", Outcome: lineUnreadable, Code: codeUnreadable},
	{LineMAC: "h", Outcome: ItemRefused}, {LineMAC: "i", Outcome: ItemTruncated}, {LineMAC: "j", Outcome: ItemDenied}, {LineMAC: "k", Outcome: ItemOutOfCredit},
}

// drawLines puts lines at places of their own in the two files.
func drawLines(t *rapid.T, what []LineFact, label string) []LineFact {
	out := rapid.Permutation(what).Draw(t, label+" order")
	places := rapid.SliceOfNDistinct(rapid.Int64Range(1, 1000), len(out), len(out), rapid.ID).Draw(t, label+" lines")
	for i := range out {
		out[i].Line = places[i]
		out[i].Channel = rapid.SampledFrom([]batch.Channel{batch.ChannelOutput, batch.ChannelError}).Draw(t, label+" file")
	}
	return out
}

// TestAdjudicateDoesNotDependOnPlaces: only what the lines say counts, not in
// which file or where in it they stand, nor how often the same line came again.
func TestAdjudicateDoesNotDependOnPlaces(t *testing.T) {
	thoroughly(t, func(t *rapid.T) {
		caps := Caps{Attempts: rapid.Int64Range(1, 4).Draw(t, "attempts"), Runs: rapid.Int64Range(1, 4).Draw(t, "runs"), Retry: time.Duration(rapid.Int64Range(1, 1<<44).Draw(t, "retry"))}
		facts := ItemFacts{WorkID: "w", Counted: rapid.Int64Range(0, 4).Draw(t, "counted"), Uncounted: rapid.Int64Range(0, 4).Draw(t, "uncounted")}
		phase := rapid.SampledFrom([]batch.Phase{batch.PhaseEnded, batch.PhaseInvalid}).Draw(t, "phase")
		// Often of one outcome and yet different, which is what is easily overlooked.
		among := rapid.SampledFrom([][]LineFact{bodies, bodies[:2], bodies[4:7]}).Draw(t, "among")
		said := rapid.SliceOfN(rapid.SampledFrom(among), 0, 4).Draw(t, "bodies")
		rule := func(lines []LineFact) Ruling {
			f := facts
			f.Lines = slices.Clone(lines)
			r := Adjudicate(f, caps, phase)
			if diff := cmp.Diff(lines, f.Lines); diff != "" {
				t.Fatalf("the facts were changed: %s", diff)
			}
			if a := r.Accepted; a != nil {
				if !slices.Contains(lines, *a) || a.Outcome != ItemSucceeded {
					t.Fatalf("accepted %+v of %+v", *a, lines)
				}
				r.Accepted = &LineFact{LineMAC: a.LineMAC}
			}
			return r
		}
		want := rule(drawLines(t, said, "first"))
		if diff := cmp.Diff(want, rule(drawLines(t, said, "second"))); diff != "" {
			t.Fatalf("%v, at other places: %s", said, diff)
		}
		if len(said) > 0 {
			again := append(slices.Clone(said), rapid.SliceOfN(rapid.SampledFrom(said), 1, 3).Draw(t, "again")...)
			if diff := cmp.Diff(want, rule(drawLines(t, again, "third"))); diff != "" {
				t.Fatalf("%v, some of them again: %s", said, diff)
			}
		}
		distinct := map[string]bool{}
		for _, l := range said {
			distinct[l.LineMAC] = true
		}
		if conflict := want.Outcome == ItemConflict; conflict != (len(distinct) > 1) || conflict && (want.Accepted != nil || want.Reason != ConflictingResults) {
			t.Fatalf("%d different lines: %+v", len(distinct), want)
		}
	})
}

// TestAdjudicateComesToAnEnd: however the tries of a work end, after as many as
// the caps allow it is a person's, and no wait between them shrinks or exceeds
// the longest.
func TestAdjudicateComesToAnEnd(t *testing.T) {
	thoroughly(t, func(t *rapid.T) {
		caps := Caps{Attempts: rapid.Int64Range(1, 20).Draw(t, "attempts"), Runs: rapid.Int64Range(1, 100).Draw(t, "runs"), Retry: time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "retry"))}
		f := ItemFacts{WorkID: "w"}
		last := time.Duration(0)
		for tries := int64(1); ; tries++ {
			f.Lines = drawLines(t, rapid.SliceOfN(rapid.SampledFrom(bodies), 0, 2).Draw(t, fmt.Sprint("try ", tries)), "try")
			r := Adjudicate(f, caps, batch.PhaseEnded)
			if r.Outcome == ItemSucceeded || r.Reason != "" {
				if r.RetryAfter != 0 {
					t.Fatalf("ended, and tried again: %+v", r)
				}
				return
			}
			if r.RetryAfter < last || r.RetryAfter > max(longestRetry, caps.Retry) || r.RetryAfter <= 0 {
				t.Fatalf("try %d waits %v, the one before %v", tries, r.RetryAfter, last)
			}
			last = r.RetryAfter
			if r.Outcome.UsesAttempt() {
				f.Counted++
			} else {
				f.Uncounted++
			}
			if f.Counted >= caps.Attempts || f.Uncounted >= caps.Runs {
				t.Fatalf("try %d of %+v was not the last", tries, caps)
			}
		}
	})
}

// TestAuthorityDoesNotDependOnTheOrderOfResults: once the results of all
// revisions have arrived, the highest stands, in whatever order they came, and
// on the way the one that stands never went down.
func TestAuthorityDoesNotDependOnTheOrderOfResults(t *testing.T) {
	thoroughly(t, func(t *rapid.T) {
		rule := rapid.SampledFrom([]AuthorityRule{HighestAccepted, HighestApplied}).Draw(t, "rule")
		revisions := rapid.SliceOfNDistinct(rapid.Int64Range(0, 1<<62), 1, 8, rapid.ID).Draw(t, "revisions")
		highest := slices.Max(revisions)
		stands, at := false, int64(0)
		for _, revision := range rapid.Permutation(append(slices.Clone(revisions), rapid.SampledFrom(revisions).Draw(t, "again"))).Draw(t, "order") {
			c := Candidate{Revision: revision, CurrentRevision: highest, Authority: rule, Disposition: Superseded, HasStanding: stands, StandingRevision: at, StandingWork: Superseded}
			if revision == highest {
				c.Disposition = Live
			}
			if at == highest && stands {
				c.StandingWork = Live
			}
			switch Authority(c) {
			case MarkAuthoritative:
				if stands && revision <= at || rule == HighestAccepted && revision != highest {
					t.Fatalf("%d took the place of %d: %+v", revision, at, c)
				}
				stands, at = true, revision
			case MarkHistory:
				if !stands && (rule == HighestApplied || revision == highest) || stands && revision > at {
					t.Fatalf("%d did not take the place of %d: %+v", revision, at, c)
				}
			}
		}
		if !stands || at != highest {
			t.Fatalf("%d stands, of %v", at, revisions)
		}
	})
}
