package reconcile

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func dueWorks(bytes ...int64) []DueWork {
	due := make([]DueWork, len(bytes))
	for i, n := range bytes {
		due[i] = DueWork{WorkID: fmt.Sprint("w", i+1), ContentBytes: n}
	}
	return due
}

func TestPlanTakesInOrderUntilOneDoesNotFit(t *testing.T) {
	for name, tc := range map[string]struct {
		limits   jobLimits
		before   jobPlan // what the job holds already
		due      []DueWork
		taken    []string
		tooLarge []string
		seen     int
	}{
		"everything fits":                 {due: dueWorks(10, 10), taken: []string{"w1", "w2"}, seen: 2},
		"nothing is due":                  {},
		"items":                           {limits: jobLimits{items: 2}, due: dueWorks(1, 1, 1), taken: []string{"w1", "w2"}, seen: 2},
		"bytes, with each line's own":     {limits: jobLimits{bytes: 240}, due: dueWorks(20, 20, 1), taken: []string{"w1", "w2"}, seen: 2},
		"bytes, for the worst text":       {limits: jobLimits{bytes: 240, stretch: 2}, due: dueWorks(20, 20, 1), taken: []string{"w1"}, seen: 1},
		"tokens, with the instructions":   {limits: jobLimits{tokens: 60, bytesPerToken: 4}, due: dueWorks(20, 20, 1), taken: []string{"w1", "w2"}, seen: 2},
		"tokens are not for the worst":    {limits: jobLimits{tokens: 60, bytesPerToken: 4, stretch: 2}, due: dueWorks(20, 20), taken: []string{"w1", "w2"}, seen: 2},
		"one is too long, the rest go on": {limits: jobLimits{itemBytes: 150}, due: dueWorks(10, 51, 50), taken: []string{"w1", "w3"}, tooLarge: []string{"w2"}, seen: 3},
		"one has too many tokens":         {limits: jobLimits{itemTokens: 30, bytesPerToken: 5}, due: dueWorks(51, 50), taken: []string{"w2"}, tooLarge: []string{"w1"}, seen: 2},
		"one fits into no job":            {limits: jobLimits{bytes: 150}, due: dueWorks(51, 50), taken: []string{"w2"}, tooLarge: []string{"w1"}, seen: 2},
		"all are too long":                {limits: jobLimits{itemBytes: 1}, due: dueWorks(1, 2), tooLarge: []string{"w1", "w2"}, seen: 2},
		"a job that a crash left behind":  {limits: jobLimits{items: 3}, before: jobPlan{items: 2, content: 10}, due: dueWorks(1, 1), taken: []string{"w1"}, seen: 1},
		"a job that is full already":      {limits: jobLimits{items: 2}, before: jobPlan{items: 2, content: 10}, due: dueWorks(1), seen: 0},
	} {
		t.Run(name, func(t *testing.T) {
			plan := tc.before
			plan.line, plan.limits = 100, tc.limits
			plan.limits.stretch, plan.limits.bytesPerToken = max(tc.limits.stretch, 1), max(tc.limits.bytesPerToken, 1)
			taken, closings, seen := plan.take(tc.due)
			var tooLarge []string
			for _, c := range closings {
				tooLarge = append(tooLarge, c.WorkID)
				if c.Reason != TooLarge {
					t.Errorf("%s is closed as %s", c.WorkID, c.Reason)
				}
			}
			if !slices.Equal(taken, tc.taken) || !slices.Equal(tooLarge, tc.tooLarge) || seen != tc.seen {
				t.Errorf("took %v, too large %v, saw %d; want %v, %v, %d", taken, tooLarge, seen, tc.taken, tc.tooLarge, tc.seen)
			}
			if plan.items != tc.before.items+int64(len(taken)) {
				t.Errorf("the plan counts %d items", plan.items)
			}
		})
	}
}

// Whatever the texts and limits are, every work ends in exactly one job or is
// too large, no job is over a limit, and planning in any chunks gives the jobs
// that planning in one go gives.
func TestPlanLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := jobLimits{
			items: rapid.Int64Range(1, 5).Draw(t, "items"), bytes: rapid.Int64Range(1, 900).Draw(t, "bytes"),
			tokens: rapid.Int64Range(1, 300).Draw(t, "tokens"), itemTokens: rapid.Int64Range(1, 100).Draw(t, "itemTokens"),
			bytesPerToken: rapid.Int64Range(1, 4).Draw(t, "bytesPerToken"), stretch: rapid.Int64Range(1, 2).Draw(t, "stretch"),
		}
		due := dueWorks(rapid.SliceOfN(rapid.Int64Range(0, 200), 0, 40).Draw(t, "texts")...)
		jobs := func(chunk int) (jobs [][]string, tooLarge []string) {
			rest := due
			for len(rest) > 0 {
				plan := jobPlan{limits: limits, line: 50}
				var members []string
				for {
					page := rest[:min(chunk, len(rest))]
					taken, closings, seen := plan.take(page)
					rest = rest[seen:]
					members = append(members, taken...)
					for _, c := range closings {
						tooLarge = append(tooLarge, c.WorkID)
					}
					if seen < len(page) || len(rest) == 0 {
						break
					}
				}
				if !limits.hold(50, plan.items, plan.content) && plan.items > 0 {
					t.Fatalf("a job of %d items and %d bytes is over %+v", plan.items, plan.content, limits)
				}
				if len(members) == 0 && len(rest) > 0 {
					t.Fatalf("planning stands still at %v", rest[0])
				}
				if len(members) > 0 {
					jobs = append(jobs, members)
				}
			}
			return jobs, tooLarge
		}
		whole, tooLarge := jobs(len(due) + 1)
		chunked, tooLargeChunked := jobs(rapid.IntRange(1, 5).Draw(t, "chunk"))
		if fmt.Sprint(whole, tooLarge) != fmt.Sprint(chunked, tooLargeChunked) {
			t.Fatalf("in one go %v %v, in chunks %v %v", whole, tooLarge, chunked, tooLargeChunked)
		}
		if n := len(slices.Concat(whole...)) + len(tooLarge); n != len(due) {
			t.Fatalf("%d of %d works came out", n, len(due))
		}
	})
}

func TestTighterBound(t *testing.T) {
	for _, tc := range [][3]int64{{0, 0, 0}, {5, 0, 5}, {0, 5, 5}, {5, 4, 4}, {4, 5, 4}} {
		if got := tighter(tc[0], tc[1]); got != tc[2] {
			t.Errorf("tighter(%d, %d) = %d", tc[0], tc[1], got)
		}
	}
}
