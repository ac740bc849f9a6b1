package reconcile

import (
	"context"
	"fmt"
	"time"

	"rollcall/reconcile/crashpoint"
)

// CheckReport is what calling the roll found.
type CheckReport struct {
	At         time.Time          `json:"at"`
	Roll       Roll               `json:"roll"`
	Invariants []CheckedInvariant `json:"invariants"`
	Overdue    int64              `json:"overdue"` // works that were given to a person because they were due
	Opened     int64              `json:"findings_opened"`
	Resolved   int64              `json:"findings_resolved"`
	Events     []Finding          `json:"events"` // open ones, newest first
}

// CheckedInvariant is an invariant with its offenders.
type CheckedInvariant struct {
	Invariant
	Offenders
}

// Broken counts the offenders of invariants that an operator's decision alone
// does not mend.
func (c CheckReport) Broken() int64 {
	return c.count(func(i CheckedInvariant) bool { return !i.Decision })
}

// Decisions counts what waits for an operator's decision: offenders of such
// invariants, and open events of at least warning severity.
func (c CheckReport) Decisions() int64 {
	n := c.count(func(i CheckedInvariant) bool { return i.Decision })
	for _, e := range c.Events {
		if e.Severity != Notice {
			n++
		}
	}
	return n
}

func (c CheckReport) count(of func(CheckedInvariant) bool) int64 {
	var n int64
	for _, i := range c.Invariants {
		if of(i) {
			n += i.Total
		}
	}
	return n
}

// Check calls the roll. Seen counts accepted reports, Moved what changed in
// the ledger, Failed the offenders.
func (r *Reconciler) Check(ctx context.Context, now time.Time) (Tally, error) {
	c, err := r.CallRoll(ctx, now)
	return c.tally(), err
}

func (c CheckReport) tally() Tally {
	return Tally{Seen: c.Roll.Accepted, Moved: c.Overdue + c.Opened + c.Resolved, Failed: c.Broken() + c.Decisions()}
}

// CallRoll gives overdue reports to a person, asks of every accepted report
// where it is, and opens and resolves findings accordingly. It may run at any
// time, twice at once, and while every other pass is paused.
func (r *Reconciler) CallRoll(ctx context.Context, now time.Time) (CheckReport, error) {
	c := CheckReport{At: now.UTC()}
	var err error
	if c.Overdue, err = r.closeOverdue(ctx, now); err != nil {
		return c, err
	}
	invariants := Invariants(now, r.Settings)
	roll, offenders, err := r.Store.CallRoll(ctx, invariants, r.Settings.BreachLimit)
	if err != nil {
		return c, err
	}
	c.Roll = roll
	for i, inv := range invariants {
		c.Invariants = append(c.Invariants, CheckedInvariant{inv, offenders[i]})
	}
	for i, inv := range c.Invariants {
		if err := r.saveBreaches(ctx, now, &c, inv); err != nil {
			return c, err
		}
		r.progress(PassCheck, int64(i+1), int64(len(c.Invariants)))
	}
	c.Events, err = r.Store.OpenEvents(ctx, r.Settings.BreachLimit)
	return c, err
}

// closeOverdue ends the works that are due, and applies them in the same pass:
// apply ran before check, and the person is not to wait for the next one.
func (r *Reconciler) closeOverdue(ctx context.Context, now time.Time) (int64, error) {
	var closed int64
	for {
		n, err := r.Store.CloseOverdue(ctx, now, r.Settings.Chunk)
		if err != nil {
			return closed, err
		}
		closed += int64(n)
		// n works are extracted with reason overdue; apply picks them up, here
		// or in its next run.
		if n < r.Settings.Chunk {
			break
		}
	}
	if closed == 0 {
		return 0, nil
	}
	if _, err := r.Apply(ctx, now); err != nil {
		return closed, fmt.Errorf("apply overdue reports: %w", err)
	}
	return closed, nil
}

func (r *Reconciler) saveBreaches(ctx context.Context, now time.Time, c *CheckReport, inv CheckedInvariant) error {
	complete := inv.Total == int64(len(inv.Breaches))
	opened, resolved, err := r.Store.SaveBreaches(ctx, now, inv.Invariant, inv.Breaches, complete)
	if err != nil {
		return err
	}
	// The findings of this invariant are as the ledger was; those of the next
	// ones are saved by the next run.
	r.step(crashpoint.CheckFindingsOpen)
	c.Opened += int64(opened)
	c.Resolved += int64(resolved)
	if inv.Total > 0 {
		r.Log.Warn().Str("invariant", inv.Name).Int64("offenders", inv.Total).Msg(inv.Means)
	}
	return nil
}
