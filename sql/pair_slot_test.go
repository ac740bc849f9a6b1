package sql_test

import (
	"fmt"
	"testing"
	"time"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// claimDue is the side of a meeting that begins what schedule s is due for or,
// if it may, begins its open slot again. In life only the lease lets it.
func claimDue(slot **reconcile.Slot, again bool) func(q *planner) error {
	return func(q *planner) (err error) {
		now := q.Clock.Now()
		*slot, err = q.ClaimSlot(q.t.Context(), now, "s", func(v reconcile.ScheduleView) (reconcile.SlotRuling, error) {
			if v.NextDue.After(now) {
				return reconcile.SlotRuling{NextDue: v.NextDue, Again: again && v.Last != nil}, nil
			}
			return reconcile.SlotRuling{NextDue: now.Add(time.Hour), Begin: v.NextDue}, nil
		})
		return err
	}
}

const slotsSQL = "SELECT CAST(begun AS TEXT) || ' ' || COALESCE(outcome, 'open') FROM slots"

// TestF45_ClaimMeetsClaim: an instant that has come is begun once, also when
// another expression comes with it.
func TestF45_ClaimMeetsClaim(t *testing.T) {
	due := func(p *planner) {
		_, err := p.PutSchedule(p.t.Context(), p.Clock.Now(), reconcile.SchedulePlan{Name: "s", Expression: "@daily", Zone: "UTC", NextDue: sqltest.Start})
		p.must(err)
	}
	replan := func(q *planner) error {
		_, err := q.PutSchedule(q.t.Context(), q.Clock.Now(), reconcile.SchedulePlan{Name: "s", Expression: "@hourly", Zone: "UTC", NextDue: sqltest.Start.Add(time.Minute)})
		return err
	}
	// next is how many minutes later the schedule is due again.
	begun := func(p *planner, expression string, next int) {
		p.t.Helper()
		p.want("[1 open]", slotsSQL)
		p.want(fmt.Sprintf("[%s %d]", expression, next), fmt.Sprintf("SELECT expression || ' ' || CAST((next_due_us - %d) / %d AS TEXT) FROM schedules", startUS, minute))
	}
	meetings(t, map[string]func(p *planner) meeting{
		"of the same instant": func(p *planner) meeting {
			var first, second *reconcile.Slot
			due(p)
			return meeting{
				first: claimDue(&first, false), second: claimDue(&second, false), waits: "FROM schedules",
				then: func() {
					if first == nil || second != nil {
						p.t.Errorf("begun %+v and %+v", first, second)
					}
					begun(p, "@daily", 60)
				},
			}
		},
		"a claim first, then another expression": func(p *planner) meeting {
			var slot *reconcile.Slot
			due(p)
			return meeting{first: claimDue(&slot, false), second: replan, waits: "INTO schedules", then: func() { begun(p, "@hourly", 1) }}
		},
		// What is due stays due.
		"another expression first": func(p *planner) meeting {
			var slot *reconcile.Slot
			due(p)
			return meeting{first: replan, second: claimDue(&slot, false), waits: "FROM schedules", then: func() { begun(p, "@hourly", 60) }}
		},
	})
}

// TestF45_EndOfARunMeetsTakeOver: a slot whose run has ended is not begun
// again, and a run that was taken over does not end it.
func TestF45_EndOfARunMeetsTakeOver(t *testing.T) {
	const name = "schedule:s"
	lease := func(q *planner, holder string, at time.Duration) (reconcile.Lease, error) {
		from := sqltest.Start.Add(at)
		return q.AcquireLease(q.t.Context(), name, holder, from, from.Add(time.Minute))
	}
	// running begins a slot under a lease, and gives what ends its run.
	running := func(p *planner) (end func(q *planner) error) {
		p.insert("schedules", row{"schedule": "s"})
		old, err := lease(p, "a", 0)
		p.must(err)
		var slot *reconcile.Slot
		p.must(claimDue(&slot, false)(p))
		return func(q *planner) error {
			return q.FinishSlot(reconcile.WithLease(q.t.Context(), old), q.Clock.Now(), *slot, reconcile.SlotDone, nil)
		}
	}
	meetings(t, map[string]func(p *planner) meeting{
		"the end first": func(p *planner) meeting {
			var again *reconcile.Slot
			return meeting{
				first: running(p),
				second: func(q *planner) error {
					if _, err := lease(q, "b", time.Hour); err != nil {
						return err
					}
					return claimDue(&again, true)(q)
				},
				waits: "INTO leases",
				then: func() {
					if again != nil {
						p.t.Errorf("begun again: %+v", again)
					}
					p.want("[1 done]", slotsSQL)
				},
			}
		},
		"the take-over first": func(p *planner) meeting {
			end := running(p)
			return meeting{
				first: func(q *planner) error {
					_, err := lease(q, "b", time.Hour)
					return err
				},
				second: end, waits: "UPDATE leases", refused: reconcile.ErrLeaseLost,
				then: func() {
					var again *reconcile.Slot
					p.want("[1 open]", slotsSQL)
					p.must(claimDue(&again, true)(p))
					p.want("[2 open]", slotsSQL)
				},
			}
		},
	})
}
