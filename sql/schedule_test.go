package sql_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// put makes schedule s known, due at an instant.
func put(t *testing.T, l *sqltest.Ledger, expression string, due time.Time) (changed bool) {
	t.Helper()
	changed, err := l.PutSchedule(t.Context(), l.Clock.Now(), reconcile.SchedulePlan{Name: "s", Expression: expression, Zone: "UTC", NextDue: due})
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// scheduled is schedule s as the ledger shows it.
func scheduled(t *testing.T, l *sqltest.Ledger) reconcile.ScheduleView {
	t.Helper()
	views, err := l.Schedules(t.Context(), l.Clock.Now())
	if err != nil || len(views) != 1 {
		t.Fatalf("%d schedules, %v", len(views), err)
	}
	return views[0]
}

// claim claims a slot of s as a ruling says, and returns what it was decided on.
func claim(t *testing.T, ctx context.Context, l *sqltest.Ledger, r reconcile.SlotRuling) (*reconcile.Slot, reconcile.ScheduleView) {
	t.Helper()
	var seen reconcile.ScheduleView
	slot, err := l.ClaimSlot(ctx, l.Clock.Now(), "s", func(v reconcile.ScheduleView) (reconcile.SlotRuling, error) {
		seen = v
		return r, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slot, seen
}

func TestPutScheduleKeepsWhatIsDue(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		now := l.Clock.Now()
		later, first := now.Add(time.Hour), now.Add(time.Minute)
		for i, step := range []struct {
			expression string
			due        time.Time
			changed    bool
			want       time.Time
		}{
			{"0 1 * * *", first, true, first},
			{"0 1 * * *", later, false, first}, // the same again
			{"0 2 * * *", later, true, later},
		} {
			if got := put(t, l, step.expression, step.due); got != step.changed {
				t.Errorf("step %d: changed is %v", i, got)
			}
			if v := scheduled(t, l); !v.NextDue.Equal(step.want) || v.Cron != step.expression || v.Zone != "UTC" {
				t.Errorf("step %d: %+v, want due at %s", i, v, step.want)
			}
		}
		l.Clock.Advance(2 * time.Hour) // nobody ran it
		put(t, l, "0 3 * * *", now.Add(3*time.Hour))
		if v := scheduled(t, l); !v.NextDue.Equal(later) {
			t.Errorf("a missed run is lost with a change: due at %s, want %s", v.NextDue, later)
		}
		got := openRaw(t, l.Address).lines("SELECT subject || ' ' || detail FROM audit_events WHERE kind = 'schedule' ORDER BY seq")
		if diff := cmp.Diff([]string{"schedule:s 0 1 * * * in UTC", "schedule:s 0 2 * * * in UTC", "schedule:s 0 3 * * * in UTC"}, got); diff != "" {
			t.Errorf("audit (-want +got):\n%s", diff)
		}
	})
}

// TestSlotIsBegunAndEnds follows slots through every state.
func TestSlotIsBegunAndEnds(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		now := l.Clock.Now()
		due := []time.Time{now.Add(-time.Hour), now, now.Add(time.Hour), now.Add(2 * time.Hour)}
		put(t, l, "@hourly", due[0])
		lease, err := l.AcquireLease(t.Context(), "schedule:s", "host:1", now, now.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		ctx := reconcile.WithLease(t.Context(), lease)

		if slot, seen := claim(t, ctx, l, reconcile.SlotRuling{NextDue: due[0]}); slot != nil || seen.Last != nil || !seen.NextDue.Equal(due[0]) {
			t.Errorf("nothing to do: slot %+v, seen %+v", slot, seen)
		}
		first, _ := claim(t, ctx, l, reconcile.SlotRuling{NextDue: due[2], Begin: due[1], Missed: 1})
		want := &reconcile.Slot{Schedule: "s", Fence: lease.Fence, At: due[1], Missed: 1, Begun: 1, StartedAt: now}
		if diff := cmp.Diff(want, first); diff != "" {
			t.Fatalf("begun (-want +got):\n%s", diff)
		}
		if v := scheduled(t, l); v.RunningSince == nil || !v.RunningSince.Equal(now) || v.RunningAt != "host:1" || !v.NextDue.Equal(due[2]) {
			t.Errorf("while it runs: %+v", v)
		}
		retry := now.Add(time.Minute)
		if err := l.FinishSlot(ctx, now, *first, reconcile.SlotFailed, &retry); err != nil {
			t.Fatal(err)
		}
		want.Outcome, want.RetryAt = reconcile.SlotFailed, &retry
		if v := scheduled(t, l); v.RunningSince != nil || !cmp.Equal(want, v.Last) {
			t.Errorf("failed: %+v %s", v, cmp.Diff(want, v.Last))
		}
		l.Clock.Advance(2 * time.Minute)
		again, seen := claim(t, ctx, l, reconcile.SlotRuling{NextDue: due[2], Again: true})
		if diff := cmp.Diff(want, seen.Last); diff != "" {
			t.Errorf("decided on (-want +got):\n%s", diff)
		}
		want.Outcome, want.RetryAt, want.Begun, want.StartedAt = "", nil, 2, l.Clock.Now()
		if diff := cmp.Diff(want, again); diff != "" {
			t.Errorf("begun again (-want +got):\n%s", diff)
		}
		if err := l.FinishSlot(ctx, now, *first, reconcile.SlotDone, nil); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("the end of a run that is not the last one: %v", err)
		}
		second, _ := claim(t, ctx, l, reconcile.SlotRuling{NextDue: due[3], Begin: due[2], End: reconcile.SlotInterrupted})
		if err := l.FinishSlot(ctx, now, *again, reconcile.SlotDone, nil); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("the end of a slot that is over: %v", err)
		}
		if err := l.FinishSlot(ctx, l.Clock.Now(), *second, reconcile.SlotDone, nil); err != nil {
			t.Fatal(err)
		}
		if v := scheduled(t, l); v.Last.FinishedAt == nil || v.Last.Outcome != reconcile.SlotDone || v.RunningSince != nil {
			t.Errorf("done: %+v %+v", v, v.Last)
		}
		got := openRaw(t, l.Address).lines("SELECT begun || ' ' || missed || ' ' || outcome FROM slots ORDER BY slot_us")
		if diff := cmp.Diff([]string{"2 1 interrupted", "1 0 done"}, got); diff != "" {
			t.Errorf("slots (-want +got):\n%s", diff)
		}
	})
}

// A clock that was ahead has run instants that come only now.
func TestSlotOfAnInstantIsNotBegunTwice(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		now := l.Clock.Now()
		put(t, l, "@hourly", now)
		r := openRaw(t, l.Address)
		r.insert("slots", row{"schedule": "s", "slot_us": startUS, "finished_us": startUS, "outcome": "done"})
		if slot, _ := claim(t, t.Context(), l, reconcile.SlotRuling{NextDue: now.Add(time.Hour), Begin: now}); slot != nil {
			t.Errorf("%+v was begun a second time", slot)
		}
		if v := scheduled(t, l); !v.NextDue.Equal(now.Add(time.Hour)) || v.Last.Begun != 1 {
			t.Errorf("%+v %+v", v, v.Last)
		}
	})
}

func TestClaimSlotRefuses(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		now := l.Clock.Now()
		begin := func(reconcile.ScheduleView) (reconcile.SlotRuling, error) {
			return reconcile.SlotRuling{NextDue: now.Add(time.Hour), Begin: now}, nil
		}
		if _, err := l.ClaimSlot(t.Context(), now, "nobody", begin); !errors.Is(err, reconcile.ErrNotFound) {
			t.Errorf("a schedule that is not there: %v", err)
		}
		put(t, l, "@hourly", now)
		no := errors.New("no")
		if _, err := l.ClaimSlot(t.Context(), now, "s", func(reconcile.ScheduleView) (reconcile.SlotRuling, error) {
			return reconcile.SlotRuling{NextDue: now.Add(time.Hour), Begin: now}, no
		}); !errors.Is(err, no) {
			t.Errorf("decide said no: %v", err)
		}
		lease, err := l.AcquireLease(t.Context(), "schedule:s", "a", now, now)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.AcquireLease(t.Context(), "schedule:s", "b", now, now.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := l.ClaimSlot(reconcile.WithLease(t.Context(), lease), now, "s", begin); !errors.Is(err, reconcile.ErrLeaseLost) {
			t.Errorf("without the lease: %v", err)
		}
		if v := scheduled(t, l); v.Last != nil || !v.NextDue.Equal(now) {
			t.Errorf("something was written: %+v", v)
		}
	})
}

func TestOldSlotsAreForgotten(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		now := l.Clock.Now()
		put(t, l, "@hourly", now)
		r := openRaw(t, l.Address)
		r.insert("schedules", row{"schedule": "other"})
		for i, days := range []int64{29, 31, 90} {
			at := startUS - days*24*hour
			r.insert("slots", row{"schedule": "s", "slot_us": at, "finished_us": at, "outcome": "done", "missed": i})
			r.insert("slots", row{"schedule": "other", "slot_us": at, "finished_us": at, "outcome": "done", "missed": i})
		}
		claim(t, t.Context(), l, reconcile.SlotRuling{NextDue: now.Add(time.Hour), Begin: now, Missed: 7})
		got := r.lines("SELECT schedule || ' ' || missed FROM slots ORDER BY schedule, slot_us")
		if diff := cmp.Diff([]string{"other 2", "other 1", "other 0", "s 0", "s 7"}, got); diff != "" {
			t.Errorf("slots (-want +got):\n%s", diff)
		}
	})
}

func TestKeepLease(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		ctx, now := t.Context(), l.Clock.Now()
		lease, err := l.AcquireLease(ctx, "pass:poll", "a", now, now.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		lease.Clock = func() time.Time { return now.Add(time.Hour) } // the ledger's time, not the process's
		if err := l.KeepLease(ctx, lease); err != nil {
			t.Fatal(err)
		}
		later := now.Add(time.Hour + time.Minute)
		if _, err := l.AcquireLease(ctx, "pass:poll", "b", later, later.Add(time.Minute)); !errors.Is(err, reconcile.ErrHeld) {
			t.Errorf("a lease that was kept was given away: %v", err)
		}
		later = later.Add(time.Hour)
		if _, err := l.AcquireLease(ctx, "pass:poll", "b", later, later.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := l.KeepLease(ctx, lease); !errors.Is(err, reconcile.ErrLeaseLost) {
			t.Errorf("a lease that is lost was kept: %v", err)
		}
		if got := openRaw(t, l.Address).lines(fmt.Sprintf("SELECT holder FROM leases WHERE name = 'pass:poll' AND expires_us = %d", later.Add(time.Minute).UnixMicro())); len(got) != 1 || got[0] != "b" {
			t.Errorf("the new holder's lease was changed: %v", got)
		}
	})
}
