package sql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"rollcall/reconcile"
)

//go:embed query/schedule_put.sql
var schedulePutSQL string

//go:embed query/schedule_get.sql
var scheduleGetSQL string

//go:embed query/schedule_move.sql
var scheduleMoveSQL string

//go:embed query/schedule_list.sql
var scheduleListSQL string

//go:embed query/slot_open.sql
var slotOpenSQL string

//go:embed query/slot_begin.sql
var slotBeginSQL string

//go:embed query/slot_again.sql
var slotAgainSQL string

//go:embed query/slot_end.sql
var slotEndSQL string

//go:embed query/slot_finish.sql
var slotFinishSQL string

//go:embed query/slot_forget.sql
var slotForgetSQL string

// slotsKept is how long slots that are over are kept: one a minute is 43,200.
const slotsKept = 30 * 24 * time.Hour

type scheduleRow struct {
	Name       string  `db:"schedule"`
	Expression string  `db:"expression"`
	Zone       string  `db:"zone"`
	NextDueUS  int64   `db:"next_due_us"`
	Holder     *string `db:"holder"` // of its lease
}

func (r scheduleRow) view() reconcile.ScheduleView {
	return reconcile.ScheduleView{Name: r.Name, Cron: r.Expression, Zone: r.Zone, NextDue: fromMicros(r.NextDueUS)}
}

type slotRow struct {
	SlotUS     int64   `db:"slot_us"`
	Fence      int64   `db:"fence"`
	Missed     int64   `db:"missed"`
	Begun      int64   `db:"begun"`
	StartedUS  int64   `db:"started_us"`
	RetryUS    *int64  `db:"retry_us"`
	FinishedUS *int64  `db:"finished_us"`
	Outcome    *string `db:"outcome"`
}

func (r slotRow) slot(schedule string) *reconcile.Slot {
	return &reconcile.Slot{
		Schedule: schedule, Fence: r.Fence, At: fromMicros(r.SlotUS), Missed: r.Missed, Begun: r.Begun, StartedAt: fromMicros(r.StartedUS),
		RetryAt: timePointer(r.RetryUS), FinishedAt: timePointer(r.FinishedUS), Outcome: reconcile.SlotOutcome(orEmpty(r.Outcome)),
	}
}

// PutSchedule implements reconcile.ScheduleStore.
func (s *Store) PutSchedule(ctx context.Context, now time.Time, p reconcile.SchedulePlan) (changed bool, err error) {
	err = s.write(ctx, "put schedule", func(ctx context.Context, t *tx) error {
		res, err := t.ExecContext(ctx, schedulePutSQL, p.Name, p.Expression, p.Zone, micros(p.NextDue), micros(now))
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if changed = n > 0; changed {
			t.audit("schedule", "schedule:"+p.Name, p.Expression+" in "+p.Zone)
		}
		return err
	})
	return changed && err == nil, err
}

// ClaimSlot implements reconcile.ScheduleStore. The schedule's row is locked
// first, so that its slots are read as they are behind another claim.
func (s *Store) ClaimSlot(ctx context.Context, now time.Time, name string, decide func(reconcile.ScheduleView) (reconcile.SlotRuling, error)) (*reconcile.Slot, error) {
	var slot *reconcile.Slot
	err := s.write(ctx, "claim slot", func(ctx context.Context, t *tx) error {
		slot = nil
		view, err := t.lockSchedule(ctx, name)
		if err != nil {
			return err
		}
		ruling, err := decide(view)
		if err != nil {
			return err
		}
		if !ruling.NextDue.Equal(view.NextDue) {
			if err := changedOne(t.ExecContext(ctx, scheduleMoveSQL, micros(ruling.NextDue), name)); err != nil {
				return err
			}
		}
		slot, err = t.beginSlot(ctx, now, name, ruling)
		return err
	})
	if err != nil {
		return nil, err
	}
	return slot, nil
}

// lockSchedule locks a schedule's row and reads it with the slot that is not over.
func (t *tx) lockSchedule(ctx context.Context, name string) (reconcile.ScheduleView, error) {
	var row scheduleRow
	if err := t.GetContext(ctx, &row, t.store.dialect.locked(scheduleGetSQL, forUpdate), name); err != nil {
		return reconcile.ScheduleView{}, notFound("schedule", name, err)
	}
	view := row.view()
	var open slotRow
	switch err := t.GetContext(ctx, &open, slotOpenSQL, name); {
	case err == nil:
		view.Last = open.slot(name)
	case !errors.Is(err, errNoRows):
		return view, err
	}
	return view, nil
}

// beginSlot begins the slot that a ruling names, if it does name one.
func (t *tx) beginSlot(ctx context.Context, now time.Time, name string, r reconcile.SlotRuling) (*reconcile.Slot, error) {
	var row slotRow
	var err error
	switch {
	case r.Again:
		err = t.GetContext(ctx, &row, slotAgainSQL, fence(ctx), micros(now), name)
	case r.Begin.IsZero():
		return nil, nil
	default:
		if r.End != "" {
			if err := changedOne(t.ExecContext(ctx, slotEndSQL, micros(now), string(r.End), name)); err != nil {
				return nil, err
			}
		}
		if _, err := t.ExecContext(ctx, slotForgetSQL, name, micros(now.Add(-slotsKept))); err != nil {
			return nil, err
		}
		err = t.GetContext(ctx, &row, slotBeginSQL, name, micros(r.Begin), fence(ctx), r.Missed, micros(now))
		if errors.Is(err, errNoRows) {
			return nil, nil // a clock that was ahead has run it
		}
	}
	if err != nil {
		return nil, fmt.Errorf("begin a slot of %s: %w", name, err)
	}
	return row.slot(name), nil
}

// FinishSlot implements reconcile.ScheduleStore.
func (s *Store) FinishSlot(ctx context.Context, now time.Time, slot reconcile.Slot, outcome reconcile.SlotOutcome, retry *time.Time) error {
	return s.write(ctx, "finish slot", func(ctx context.Context, t *tx) error {
		finished, again := new(micros(now)), (*int64)(nil)
		if retry != nil {
			finished, again = nil, new(micros(*retry))
		}
		return changedOne(t.ExecContext(ctx, slotFinishSQL, finished, again, string(outcome), slot.Schedule, micros(slot.At), slot.Fence, slot.Begun))
	})
}

// KeepLease implements reconcile.ScheduleStore. Every transaction under a lease
// proves and prolongs it; this one does nothing else.
func (s *Store) KeepLease(ctx context.Context, l reconcile.Lease) error {
	ctx = reconcile.WithLease(ctx, l)
	return s.write(ctx, "keep lease", func(context.Context, *tx) error { return nil })
}

// Schedules implements reconcile.ScheduleStore.
func (s *Store) Schedules(ctx context.Context, now time.Time) ([]reconcile.ScheduleView, error) {
	var views []reconcile.ScheduleView
	err := s.read(ctx, "list schedules", func(ctx context.Context, tx *sqlx.Tx) (err error) {
		views, err = readSchedules(ctx, tx, now)
		return err
	})
	return views, err
}

func readSchedules(ctx context.Context, tx *sqlx.Tx, now time.Time) ([]reconcile.ScheduleView, error) {
	var rows []struct {
		scheduleRow
		SlotUS     *int64  `db:"slot_us"` // NULL, as what follows, before the first slot
		Fence      *int64  `db:"fence"`
		Missed     *int64  `db:"missed"`
		Begun      *int64  `db:"begun"`
		StartedUS  *int64  `db:"started_us"`
		RetryUS    *int64  `db:"retry_us"`
		FinishedUS *int64  `db:"finished_us"`
		Outcome    *string `db:"outcome"`
		FailedRuns int64   `db:"failed_runs"`
	}
	if err := tx.SelectContext(ctx, &rows, scheduleListSQL, micros(now)); err != nil {
		return nil, err
	}
	views := make([]reconcile.ScheduleView, 0, len(rows))
	for _, r := range rows {
		v := r.view()
		v.FailedRuns = r.FailedRuns
		if r.SlotUS != nil {
			v.Last = slotRow{*r.SlotUS, *r.Fence, *r.Missed, *r.Begun, *r.StartedUS, r.RetryUS, r.FinishedUS, r.Outcome}.slot(r.Name)
			if r.Holder != nil && v.Last.Outcome == "" {
				v.RunningSince, v.RunningAt = &v.Last.StartedAt, *r.Holder
			}
		}
		views = append(views, v)
	}
	return views, nil
}
