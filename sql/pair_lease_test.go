package sql_test

import (
	"errors"
	"testing"
	"time"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// TestF45_TakeOverMeetsOldHolder: a take-over waits for what the holder has
// begun, and the holder writes nothing once it is taken over.
func TestF45_TakeOverMeetsOldHolder(t *testing.T) {
	const name = "pass:collect"
	// Where a take-over waits: even an INSERT that does nothing waits for
	// whoever changes the row that it finds.
	const takeOver = "INTO leases"
	in := sqltest.Start.Add
	// lease gives a the lease for a minute; write and take are the two sides.
	lease := func(p *planner) reconcile.Lease {
		p.pending("a", nil)
		p.pending("b", nil)
		l, err := p.AcquireLease(p.t.Context(), name, "a", in(0), in(time.Minute))
		p.must(err)
		return l
	}
	write := func(l reconcile.Lease, job, work string) func(q *planner) error {
		return func(q *planner) error {
			_, err := q.AddItems(reconcile.WithLease(q.t.Context(), l), q.Clock.Now(),
				reconcile.PlanStep{JobID: job, Policy: q.policy, Works: []string{work}, Ready: true})
			return err
		}
	}
	take := func(holder string, at time.Duration, got *reconcile.Lease) func(q *planner) error {
		return func(q *planner) (err error) {
			*got, err = q.AcquireLease(q.t.Context(), name, holder, in(at), in(at+time.Minute))
			return err
		}
	}
	meetings(t, map[string]func(p *planner) meeting{
		"a write first, and the lease is over all the same": func(p *planner) meeting {
			old, taken := lease(p), reconcile.Lease{}
			return meeting{
				first: write(old, "j1", "a"), second: take("b", time.Hour, &taken), waits: takeOver,
				then: func() {
					if taken.Fence <= old.Fence {
						p.t.Errorf("fence went from %d to %d", old.Fence, taken.Fence)
					}
					if err := write(old, "j2", "b")(p); !errors.Is(err, reconcile.ErrLeaseLost) {
						p.t.Errorf("the old holder's next write: %v", err)
					}
					p.must(write(taken, "j3", "b")(p))
					p.want("[j1 a j3 b]", itemsSQL)
				},
			}
		},
		// It was over when the write began, which nobody had noticed.
		"a write first, which prolongs the lease": func(p *planner) meeting {
			old := lease(p)
			return meeting{
				first: write(old, "j1", "a"), second: take("b", 90*time.Second, &reconcile.Lease{}), waits: takeOver, refused: reconcile.ErrHeld,
				then: func() {
					p.must(write(old, "j2", "b")(p))
					p.want("[j1 a j2 b]", itemsSQL)
				},
			}
		},
		"the take-over first": func(p *planner) meeting {
			old, taken := lease(p), reconcile.Lease{}
			return meeting{
				first: take("b", time.Hour, &taken), second: write(old, "j1", "a"), waits: "UPDATE leases", refused: reconcile.ErrLeaseLost,
				then: func() {
					p.want("[]", itemsSQL)
					p.must(write(taken, "j2", "a")(p))
				},
			}
		},
		"two who take it over": func(p *planner) meeting {
			lease(p)
			return meeting{
				first: take("b", time.Hour, &reconcile.Lease{}), second: take("c", time.Hour, &reconcile.Lease{}),
				waits: takeOver, refused: reconcile.ErrHeld,
				then: func() { p.want("[b]", "SELECT holder FROM leases WHERE name = '"+name+"'") },
			}
		},
		"two who take it for the first time": func(p *planner) meeting {
			return meeting{
				first: take("b", 0, &reconcile.Lease{}), second: take("c", 0, &reconcile.Lease{}),
				waits: takeOver, refused: reconcile.ErrHeld,
				then: func() { p.want("[b]", "SELECT holder FROM leases WHERE name = '"+name+"'") },
			}
		},
	})
}
