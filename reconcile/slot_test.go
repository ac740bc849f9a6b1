package reconcile_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/reconcile"
	"rollcall/reconcile/schedule"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// scheduled is a schedule as the configuration would give it.
func scheduled(t *testing.T, name, expression string, passes ...reconcile.PassName) reconcile.Scheduled {
	t.Helper()
	plan, err := schedule.Parse(expression, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	return reconcile.Scheduled{Name: name, Expression: expression, Zone: "UTC", Passes: passes, Plan: plan}
}

// nightly is put into the ledger; it is due at 01:00 tomorrow, and collects and submits.
func (b *bench) nightly() reconcile.Scheduled {
	b.t.Helper()
	s := scheduled(b.t.(*testing.T), "nightly", "0 1 * * *", reconcile.PassCollect, reconcile.PassSubmit)
	b.put(s)
	return s
}

func (b *bench) put(s reconcile.Scheduled) {
	b.t.Helper()
	if _, err := b.r.PutSchedule(b.t.Context(), s); err != nil {
		b.t.Fatal(err)
	}
}

// wantRun runs what is due of a schedule; Due must have said the same before.
func (b *bench) wantRun(what string, s reconcile.Scheduled, want bool) {
	b.t.Helper()
	due, err := b.r.Due(b.t.Context(), []reconcile.Scheduled{s})
	if err != nil || len(due) == 1 != want {
		b.t.Errorf("%s: %d due, %v; want %v", what, len(due), err, want)
	}
	ran, err := b.r.RunDue(b.t.Context(), s)
	if ran != want || err != nil {
		b.t.Errorf("%s: ran %v, %v; want %v", what, ran, err, want)
	}
}

// wantSlots compares the slots, oldest first: the night, how often it was begun,
// how many were missed, the outcome, and whether it is over.
func (b *bench) wantSlots(want ...string) {
	b.t.Helper()
	var got []string
	views, err := b.Store.Schedules(b.t.Context(), b.Clock.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, row := range b.rows(`SELECT CAST(slot_us AS TEXT) || ' begun ' || begun || ' missed ' || missed || ' ' || COALESCE(outcome, 'runs')
		|| CASE WHEN finished_us IS NULL THEN ' open' ELSE '' END FROM slots ORDER BY slot_us`) {
		var us int64
		at, rest, _ := strings.Cut(row, " ")
		fmt.Sscan(at, &us)
		got = append(got, time.UnixMicro(us).UTC().Format("2 15:04 ")+rest)
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("slots %q, want %q; %+v", got, want, views)
	}
}

func TestMissedNightsAreOneRun(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		s := b.nightly()
		b.reports(2)
		b.wantRun("before the first night", s, false)
		b.Clock.Advance(24 * time.Hour)
		b.wantRun("the first night", s, true)
		b.wantRun("at once again", s, false)
		b.wantJobs("submitted")
		b.wantSlots("3 01:00 begun 1 missed 0 done")
		b.Clock.Advance(76 * time.Hour)
		b.r = b.reconciler(b.Store) // the process was down and is started again
		b.put(s)
		b.wantRun("three nights later", s, true)
		b.wantRun("at once again", s, false)
		b.wantSlots("3 01:00 begun 1 missed 0 done", "6 01:00 begun 1 missed 2 done")
		if !strings.Contains(b.log.String(), `"missed":2`) {
			t.Error("the log does not say how many were missed")
		}
	})
}

// A restart more often than the interval must not keep a schedule from coming.
func TestRestartsDoNotPutAScheduleOff(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		s := b.nightly()
		for range 3 {
			b.Clock.Advance(9 * time.Hour)
			b.r = b.reconciler(b.Store)
			b.put(s)
		}
		b.wantRun("after three restarts", s, true)
	})
}

// A run whose process died is taken up again by the next process that looks,
// once the lease has expired.
func TestF45_SlotOfADeadProcessIsTakenUp(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		s := b.nightly()
		b.reports(2)
		b.Clock.Advance(24 * time.Hour)
		b.beginAndDie(s)
		b.wantRun("while its lease lasts", s, false)
		b.wantSlots("3 01:00 begun 1 missed 0 runs open")
		b.Clock.Advance(3 * time.Minute)
		b.wantRun("once it has expired", s, true)
		b.wantSlots("3 01:00 begun 2 missed 0 done")
		b.wantJobs("submitted")

		b.Clock.Advance(24 * time.Hour)
		b.beginAndDie(s)
		b.Clock.Advance(24 * time.Hour)
		b.wantRun("the next night takes its place", s, true)
		b.wantSlots("3 01:00 begun 2 missed 0 done", "4 01:00 begun 1 missed 0 interrupted", "5 01:00 begun 1 missed 0 done")
	})
}

// beginAndDie leaves what a process leaves that dies at the first pass.
func (b *bench) beginAndDie(s reconcile.Scheduled) {
	b.t.Helper()
	ctx, now := b.t.Context(), b.Clock.Now()
	lease, err := b.Store.AcquireLease(ctx, "schedule:"+s.Name, "a process that dies", now, now.Add(b.r.LeaseFor))
	if err != nil {
		b.t.Fatal(err)
	}
	slot, err := b.Store.ClaimSlot(reconcile.WithLease(ctx, lease), now, s.Name, func(v reconcile.ScheduleView) (reconcile.SlotRuling, error) {
		return reconcile.SlotRuling{NextDue: s.Plan.Next(now), Begin: now.Truncate(time.Hour)}, nil
	})
	if err != nil || slot == nil {
		b.t.Fatalf("slot %+v, %v", slot, err)
	}
}

// wantNoRun runs what is due of a schedule, which is none of its passes.
func (b *bench) wantNoRun(what string, s reconcile.Scheduled) {
	b.t.Helper()
	if ran, err := b.r.RunDue(b.t.Context(), s); ran || err != nil {
		b.t.Errorf("%s: ran %v, %v", what, ran, err)
	}
}

func (b *bench) wantNextDue(what string, want time.Time) {
	b.t.Helper()
	views, err := b.Store.Schedules(b.t.Context(), b.Clock.Now())
	if err != nil || len(views) != 1 || !views[0].NextDue.Equal(want) {
		b.t.Errorf("%s: %+v, %v; want it due at %s", what, views, err, want)
	}
}

func TestF26_ClockIsSetBack(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		s := b.nightly()
		night := b.Clock.Now().Add(24 * time.Hour)
		b.Clock.Advance(24 * time.Hour)
		b.wantRun("on time", s, true)
		b.Clock.Advance(-time.Hour)
		b.wantNoRun("set back", s)
		b.wantNextDue("set back", night)
		b.Clock.Advance(time.Hour)
		b.wantNoRun("the same night once more", s)
		b.Clock.Advance(24 * time.Hour)
		b.wantRun("the next night", s, true)
		b.wantSlots("3 01:00 begun 1 missed 0 done", "4 01:00 begun 1 missed 0 done")
	})
}

// A clock that was years ahead has planned the next run by that time. Once it
// is set right the nights come again.
func TestF26_ClockWasAhead(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		s := b.nightly()
		const years = 1000 * 24 * time.Hour
		b.Clock.Advance(years)
		b.wantRun("by the wrong clock", s, true)
		b.Clock.Advance(-years)
		b.wantNoRun("by the right one", s)
		b.wantNextDue("by the right one", b.Clock.Now().Add(24*time.Hour))
		b.Clock.Advance(24 * time.Hour)
		b.wantRun("the first night", s, true)
	})
}

// While two configurations run side by side, the one that came last is heeded.
func TestScheduleOfAnotherConfigurationIsLeftAlone(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		old := b.nightly()
		changed := scheduled(t, "nightly", "0 2 * * *", reconcile.PassCollect)
		b.put(changed)
		b.Clock.Advance(25 * time.Hour)
		if due, err := b.r.Due(t.Context(), []reconcile.Scheduled{old}); err != nil || len(due) > 0 {
			t.Errorf("due %v, %v", due, err)
		}
		if ran, err := b.r.RunDue(t.Context(), old); ran || !errors.Is(err, reconcile.ErrOtherPlan) {
			t.Errorf("ran %v, %v", ran, err)
		}
		b.wantRun("the newer one", changed, true)
		b.wantSlots("3 02:00 begun 1 missed 1 done")
	})
}

// A change of the expression must not lose the night that was missed before it.
func TestMissedNightOutlivesAChange(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.nightly()
		b.Clock.Advance(30 * time.Hour)
		changed := scheduled(t, "nightly", "0 2 * * *", reconcile.PassCollect)
		b.put(changed)
		b.wantRun("changed", changed, true)
		b.wantNoRun("again", changed)
		b.wantSlots("3 02:00 begun 1 missed 1 done")
	})
}

// A schedule whose row is gone is made known again.
func TestLostScheduleIsPutAgain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		s := b.nightly()
		b.change("DELETE FROM schedules")
		if due, err := b.r.Due(t.Context(), []reconcile.Scheduled{s}); err != nil || len(due) != 1 {
			t.Errorf("due %v, %v", due, err)
		}
		b.wantNoRun("lost", s)
		b.wantNextDue("put again", b.Clock.Now().Add(24*time.Hour))
	})
}

func TestRefusedScheduleIsAFinding(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for range 2 {
			if err := b.r.RefuseSchedule(t.Context(), "nightly", "the hour is not understood"); err != nil {
				t.Fatal(err)
			}
		}
		b.want("finding", "SELECT name || ' ' || subject || ' ' || detail || ' ' || seen FROM findings",
			"schedule_refused schedule:nightly the hour is not understood 2")
		b.nightly()
		b.wantFindings()
	})
}

// Replicas see the same instants come and each is run once, by one of them.
func TestF45_ManyReplicasRunEachSlotOnce(t *testing.T) {
	const replicas, instants = 4, 30
	b := newBench(t, sqltest.Open(t, "postgres"))
	s := scheduled(t, "minutely", "* * * * *", reconcile.PassApply)
	b.put(s)
	var rs []*reconcile.Reconciler
	var passes, claims atomic.Int64
	for i := range replicas {
		store, err := sql.Open(t.Context(), sql.Options{Address: b.Address, Now: b.Clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		r := b.reconciler(store)
		r.Holder = fmt.Sprint("replica ", i)
		r.Ran = func(reconcile.PassName, reconcile.Tally) { passes.Add(1) }
		rs = append(rs, r)
	}
	for range instants {
		b.Clock.Advance(time.Minute)
		var start, done sync.WaitGroup
		start.Add(1)
		for _, r := range rs {
			done.Go(func() {
				start.Wait()
				ran, err := r.RunDue(t.Context(), s)
				if err != nil {
					t.Error(err)
				}
				if ran {
					claims.Add(1)
				}
			})
		}
		start.Done()
		done.Wait()
	}
	if claims.Load() != instants || passes.Load() != instants {
		t.Errorf("%d slots were claimed and %d passes run, want %d", claims.Load(), passes.Load(), instants)
	}
	b.want("slots", "SELECT COUNT(*) || ' ' || SUM(begun) || ' ' || SUM(missed) || ' ' || MIN(outcome) || ' ' || MAX(outcome) FROM slots",
		fmt.Sprintf("%d %d 0 done done", instants, instants))
}
