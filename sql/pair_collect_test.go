package sql_test

import (
	"errors"
	"testing"

	"rollcall/reconcile"
)

// collect is the side of a meeting that adds the last works to a job which, when
// they were chosen, had so many members.
func collect(job string, had int64, works ...string) func(q *planner) error {
	return planStep(reconcile.PlanStep{JobID: job, Had: had, Works: works, Ready: true})
}

func planStep(step reconcile.PlanStep) func(q *planner) error {
	return func(q *planner) error {
		step.Policy = q.policy
		_, err := q.AddItems(q.t.Context(), q.Clock.Now(), step)
		return err
	}
}

const itemsSQL = "SELECT job_id || ' ' || work_id FROM items ORDER BY job_id, position"

// TestF10_CollectMeetsCollect: a work is a member once, and the loser leaves
// nothing of its step.
func TestF10_CollectMeetsCollect(t *testing.T) {
	pending := func(p *planner) {
		for _, work := range []string{"a", "b", "c"} {
			p.pending(work, nil)
		}
	}
	// fill makes job j, being planned, with member a.
	fill := func(p *planner) {
		pending(p)
		_, err := p.add("j", false, "a")
		p.must(err)
	}
	filled := func(p *planner, job, items, works string) {
		p.t.Helper()
		p.want(items, itemsSQL)
		p.want("["+job+"]", "SELECT state FROM jobs")
		p.want(works, "SELECT work_id || ' ' || stage FROM works ORDER BY work_id")
	}
	meetings(t, map[string]func(p *planner) meeting{
		"in a job of its own": func(p *planner) meeting {
			pending(p)
			return meeting{
				first: collect("j1", 0, "a", "b"), second: collect("j2", 0, "c", "b"), waits: "INTO jobs", refused: reconcile.ErrMoved,
				then: func() { filled(p, "ready", "[j1 a j1 b]", "[a collected b collected c pending]") },
			}
		},
		"in the job that both fill": func(p *planner) meeting {
			fill(p)
			return meeting{ // the second one's work is free, but was chosen for a smaller job
				first:  planStep(reconcile.PlanStep{JobID: "j", Had: 1, Works: []string{"b"}}),
				second: collect("j", 1, "c"), waits: "INTO jobs", refused: reconcile.ErrMoved,
				then: func() { filled(p, "planning", "[j a j b]", "[a collected b collected c pending]") },
			}
		},
		"a step first, then the end of planning": func(p *planner) meeting {
			fill(p)
			return meeting{
				first: collect("j", 1, "b"), second: collect("j", 1), waits: "FROM jobs", refused: reconcile.ErrMoved,
				then: func() { filled(p, "ready", "[j a j b]", "[a collected b collected c pending]") },
			}
		},
		"the end of planning first": func(p *planner) meeting {
			fill(p)
			return meeting{
				first: collect("j", 1), second: collect("j", 1, "b"), waits: "INTO jobs", refused: reconcile.ErrMoved,
				then: func() { filled(p, "ready", "[j a]", "[a collected b pending c pending]") },
			}
		},
	})
}

// TestF12_EditMeetsCollect: what an edit replaces is not collected any more, or
// its job is given up before it is sent.
func TestF12_EditMeetsCollect(t *testing.T) {
	works := "SELECT CAST(revision AS TEXT) || ' ' || disposition || ' ' || stage FROM works ORDER BY revision"
	meetings(t, map[string]func(p *planner) meeting{
		"the edit first": func(p *planner) meeting {
			work := accept(p.t, p.Ledger, p.delivery("a", 1))[0].WorkID
			return meeting{
				first: takeIn(p.delivery("a", 2)), second: collect("j", 0, work), waits: "FROM works", refused: reconcile.ErrMoved,
				then: func() {
					p.want("[]", "SELECT job_id FROM jobs")
					p.want("[1 superseded pending 2 live pending]", works)
				},
			}
		},
		"the collector first": func(p *planner) meeting {
			work := accept(p.t, p.Ledger, p.delivery("a", 1))[0].WorkID
			return meeting{
				first: collect("j", 0, work), second: takeIn(p.delivery("a", 2)), waits: "FROM works",
				then: func() {
					p.want("[1 superseded collected 2 live pending]", works)
					if _, _, err := p.intent("s1"); !errors.Is(err, reconcile.ErrAbandoned) {
						p.t.Errorf("the intent: %v", err)
					}
				},
			}
		},
	})
}
