package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/reconcile"
)

// failingStore fails collect when told to.
type failingStore struct {
	reconcile.Store
	fail func() error
}

func (s *failingStore) LoadedPolicies(ctx context.Context, now time.Time) ([]reconcile.PolicyVersion, error) {
	if s.fail != nil {
		if err := s.fail(); err != nil {
			return nil, err
		}
	}
	return s.Store.LoadedPolicies(ctx, now)
}

// A pass that fails keeps none behind it from running, and its night does not
// wait for the next one.
func TestFailedNightIsTriedAgain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		s := b.nightly()
		b.ready(1) // for submit
		b.reports(1)
		store := &failingStore{Store: b.Store, fail: func() error { return errors.New("permission denied") }}
		b.r.Store = store
		b.Clock.Advance(24 * time.Hour)
		if ran, err := b.r.RunDue(t.Context(), s); !ran || err == nil || !strings.Contains(err.Error(), "schedule nightly: collect: permission denied") {
			t.Errorf("ran %v, %v", ran, err)
		}
		b.wantJobs("submitted")
		b.wantSlots("3 01:00 begun 1 missed 0 failed open")
		b.Clock.Advance(time.Minute - time.Microsecond)
		b.wantRun("before the wait is over", s, false)
		b.Clock.Advance(time.Microsecond)
		if ran, err := b.r.RunDue(t.Context(), s); !ran || err == nil {
			t.Errorf("the second time: %v, %v", ran, err)
		}
		b.Clock.Advance(time.Minute)
		b.wantRun("the wait grows", s, false)
		b.Clock.Advance(time.Minute)
		store.fail = nil
		b.wantRun("the cause is gone", s, true)
		b.wantSlots("3 01:00 begun 3 missed 0 done")
		b.want("jobs", "SELECT state FROM jobs", "submitted", "submitted")
	})
}

// A pass that another process runs, or that one ran which died, is left alone
// for now; the others run.
func TestNightWhosePassIsHeldIsTriedAgain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		s := b.nightly()
		b.ready(1)
		b.reports(1)
		b.Clock.Advance(24 * time.Hour)
		now := b.Clock.Now()
		if _, err := b.Store.AcquireLease(t.Context(), "pass:collect", "a process that dies", now, now.Add(2*time.Minute)); err != nil {
			t.Fatal(err)
		}
		b.wantRun("held", s, true)
		b.wantJobs("submitted")
		b.wantSlots("3 01:00 begun 1 missed 0 held open")
		b.Clock.Advance(time.Minute)
		b.wantRun("still held", s, true)
		b.Clock.Advance(2 * time.Minute)
		b.wantRun("expired", s, true)
		b.wantSlots("3 01:00 begun 3 missed 0 done")
		b.want("jobs", "SELECT state FROM jobs", "submitted", "submitted")
	})
}

// An orderly stop leaves the night to the next process, which need not wait.
// The create that is under way is finished.
func TestStoppedNightIsTakenUpAtOnce(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		s := b.nightly()
		s.Passes = append(s.Passes, reconcile.PassPoll)
		b.reports(1)
		b.Clock.Advance(24 * time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		b.fake.Hooks.Create = func(batch.Creation) (bool, error) { stop(); return true, nil }
		if ran, err := b.r.RunDue(ctx, s); !ran || err != nil {
			t.Errorf("ran %v, %v", ran, err)
		}
		b.wantJobs("submitted")
		b.wantSlots("3 01:00 begun 1 missed 0 interrupted open")
		b.wantRun("the next process", s, true)
		b.wantSlots("3 01:00 begun 2 missed 0 done")
		b.wantCreates(1)
	})
}

// thrown is something that a pass must never tell what it holds.
type thrown struct{ text string }

func TestPanicOfAPassTellsNothingOfAText(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		s := b.nightly()
		b.ready(1)
		store := &failingStore{Store: b.Store, fail: func() error { panic(thrown{textMarker}) }}
		b.r.Store = store
		b.Clock.Advance(24 * time.Hour)
		ran, err := b.r.RunDue(t.Context(), s)
		if !ran || err == nil || strings.Contains(err.Error(), textMarker) {
			t.Errorf("ran %v, %v", ran, err)
		}
		b.wantJobs("submitted") // by the pass behind it
		b.wantSlots("3 01:00 begun 1 missed 0 failed open")
		for _, want := range []string{`"type":"reconcile_test.thrown"`, "(*failingStore).LoadedPolicies:", "(*Reconciler).Collect:"} {
			if !strings.Contains(b.log.String(), want) {
				t.Errorf("the log does not hold %s: %s", want, b.log)
			}
		}
		b.want("leases", "SELECT name FROM leases WHERE holder <> ''")
		store.fail = nil
		b.Clock.Advance(time.Minute)
		b.wantRun("without the panic", s, true)
	})
}

// Whose lease was taken over must neither go on nor write how the slot ended.
func TestF45_RunEndsWhenTheSchedulesLeaseIsLost(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		s := scheduled(t, "polls", "0 1 * * *", reconcile.PassPoll, reconcile.PassApply)
		b.put(s)
		b.ready(1)
		b.submit()
		b.Clock.Advance(24 * time.Hour)
		ticks := make(chan time.Time)
		leases := 0
		b.r.Tick = func(time.Duration) (<-chan time.Time, func()) {
			if leases++; leases == 1 { // the schedule's, and not that of a pass
				return ticks, func() {}
			}
			return nil, func() {}
		}
		b.r.Accounts = []batch.Provider{&slow{b.fake, func(ctx context.Context) {
			b.Clock.Advance(2 * time.Minute)
			b.beginAgain(s)
			ticks <- b.Clock.Now()
			<-ctx.Done()
		}}}
		if ran, err := b.r.RunDue(t.Context(), s); !ran || !errors.Is(err, reconcile.ErrLeaseLost) {
			t.Errorf("ran %v, %v", ran, err)
		}
		b.wantSlots("3 01:00 begun 2 missed 0 runs open")
		b.want("leases", "SELECT holder FROM leases WHERE holder <> ''", "another process")
		if strings.Contains(b.log.String(), `"pass":"apply"`) {
			t.Error("the next pass was begun")
		}
	})
}

// beginAgain takes a schedule over, as another process.
func (b *bench) beginAgain(s reconcile.Scheduled) {
	b.t.Helper()
	ctx, now := b.t.Context(), b.Clock.Now()
	lease, err := b.Store.AcquireLease(ctx, "schedule:"+s.Name, "another process", now, now.Add(b.r.LeaseFor))
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.Store.ClaimSlot(reconcile.WithLease(ctx, lease), now, s.Name, func(v reconcile.ScheduleView) (reconcile.SlotRuling, error) {
		return reconcile.SlotRuling{NextDue: v.NextDue, Again: true}, nil
	}); err != nil {
		b.t.Fatal(err)
	}
}

// A COMMIT whose answer is lost never makes a slot run that was not begun, and
// never loses one.
func TestLostCommitsOfSlots(t *testing.T) {
	for tx, how := range map[string]map[loss]string{
		"claim slot":  {before: "3 01:00 begun 1 missed 0 done", after: "3 01:00 begun 2 missed 0 done"},
		"finish slot": {before: "3 01:00 begun 2 missed 0 done", after: "3 01:00 begun 1 missed 0 done"},
	} {
		for _, lost := range slices.Sorted(maps.Keys(how)) {
			t.Run(fmt.Sprint(tx, "/", lost), func(t *testing.T) {
				onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
					s := b.nightly()
					b.reports(1)
					b.Clock.Advance(24 * time.Hour)
					c.lose[tx] = lost
					if _, err := b.r.RunDue(t.Context(), s); !errors.Is(err, reconcile.ErrUnknownCommit) {
						t.Errorf("lost: %v", err)
					}
					if _, err := b.r.RunDue(t.Context(), s); err != nil {
						t.Errorf("the next look: %v", err)
					}
					b.wantSlots(how[lost])
					b.wantJobs("submitted")
					b.wantCreates(1)
				})
			})
		}
	}
}

// F48: that no commit succeeds must not look like another process at work.
func TestF48_LostCommitOfALeaseIsNoOtherProcess(t *testing.T) {
	onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
		s := b.nightly()
		b.Clock.Advance(24 * time.Hour)
		c.lose["acquire lease"] = before
		if ran, err := b.r.RunDue(t.Context(), s); ran || !errors.Is(err, reconcile.ErrUnknownCommit) || !errors.Is(err, reconcile.ErrHeld) {
			t.Errorf("ran %v, %v", ran, err)
		}
		b.r.Store = &leaseLosing{b.Store, "pass:collect"}
		if ran, err := b.r.RunDue(t.Context(), s); !ran || !errors.Is(err, reconcile.ErrUnknownCommit) {
			t.Errorf("the lease of a pass: ran %v, %v", ran, err)
		}
		b.wantSlots("3 01:00 begun 1 missed 0 failed open")
	})
}

// leaseLosing cannot tell whether it has a lease.
type leaseLosing struct {
	reconcile.Store
	name string
}

func (s *leaseLosing) AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (reconcile.Lease, error) {
	if name == s.name {
		return reconcile.Lease{}, fmt.Errorf("%w: %w", reconcile.ErrHeld, reconcile.ErrUnknownCommit)
	}
	return s.Store.AcquireLease(ctx, name, holder, now, until)
}

// A schedule fails when its last runs all did, over one slot or several.
func TestScheduleIsFailingWhileItsRunsFail(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		s := b.nightly()
		store := &failingStore{Store: b.Store}
		b.r.Store = store
		run := func(what string, fail error, runs int64, failing bool) {
			t.Helper()
			store.fail = func() error { return fail }
			if ran, _ := b.r.RunDue(t.Context(), s); !ran {
				t.Fatalf("%s: it did not run", what)
			}
			views, err := b.Store.Schedules(t.Context(), b.Clock.Now())
			if err != nil || views[0].FailedRuns != runs || views[0].Failing() != failing {
				t.Errorf("%s: %d runs failed, failing %v, %v", what, views[0].FailedRuns, views[0].Failing(), err)
			}
		}
		denied := errors.New("permission denied")
		for night, want := range []bool{false, false, true, true} {
			b.Clock.Advance(24 * time.Hour)
			run(fmt.Sprint("night ", night), denied, int64(night+1), want)
		}
		b.Clock.Advance(24 * time.Hour)
		run("a good night", nil, 0, false)
		b.Clock.Advance(24 * time.Hour)
		run("one run", denied, 1, false)
		b.Clock.Advance(time.Minute)
		run("the second of this night", denied, 2, false)
		b.Clock.Advance(2 * time.Minute)
		run("the third of this night", denied, 3, true)
		b.Clock.Advance(time.Hour)
		b.beginAgain(s)
		if views, err := b.Store.Schedules(t.Context(), b.Clock.Now()); err != nil || views[0].RunningSince == nil || !views[0].Failing() {
			t.Errorf("while it is tried again: %+v, %v", views, err)
		}
	})
}
