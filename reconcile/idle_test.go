package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
)

// untilIdle runs every pass until idle. The clock moves by what is waited for,
// and each job ends at the provider while it is waited for.
func (b *bench) untilIdle(during func(waits int)) (map[reconcile.PassName]reconcile.Tally, error) {
	waits := 0
	return b.r.RunUntilIdle(b.t.Context(), reconcile.Passes(), func(ctx context.Context, d time.Duration) error {
		if waits++; waits > 200 {
			return errors.New("waited 200 times")
		}
		b.Clock.Advance(d)
		b.fake.EndAll()
		if during != nil {
			during(waits)
		}
		return ctx.Err()
	})
}

func TestRunUntilIdleEndsWithOneRecordEach(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(7)
		tallies, err := b.untilIdle(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := tallies[reconcile.PassApply].Moved; got != 7 {
			t.Errorf("apply moved %d, want 7", got)
		}
		report, err := b.r.RunCheck(t.Context())
		if err != nil || report.Roll.Accepted != 7 || report.Roll.Authoritative != 7 || report.Broken() != 0 {
			t.Errorf("roll %+v, broken %d, %v", report.Roll, report.Broken(), err)
		}
		if again, err := b.untilIdle(nil); err != nil || again[reconcile.PassApply].Moved != 0 {
			t.Errorf("a second run moved %+v, %v", again, err)
		}
	})
}

func TestRunUntilIdleLeavesAPassToItsHolder(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(2)
		now := b.Clock.Now()
		lease, err := b.Store.AcquireLease(t.Context(), "pass:collect", "another process", now, now.Add(24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		released := false
		tallies, err := b.untilIdle(func(waits int) {
			if waits == 30 { // far more rounds than make a stuck run
				released = true
				if err := b.Store.ReleaseLease(t.Context(), lease); err != nil {
					t.Error(err)
				}
			}
		})
		if err != nil || !released || tallies[reconcile.PassApply].Moved != 2 {
			t.Errorf("tallies %+v, released %v, %v", tallies, released, err)
		}
	})
}

// A submission of which nothing can be found out is nothing that a pass can
// move: the run ends, and nothing was sent twice.
func TestF15_RunUntilIdleEndsAtAnUncertainSubmission(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(2)
		b.fake.Hooks.Create = func(batch.Creation) (bool, error) {
			return true, &batch.Error{Op: "create", Kind: batch.UnknownOutcome}
		}
		b.fake.Hooks.List = func(string) (bool, error) {
			return false, &batch.Error{Op: "list jobs", Kind: batch.Temporary}
		}
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		if b.jobsWithItems() != 1 {
			t.Errorf("%d jobs with items", b.jobsWithItems())
		}
		b.wantJobs("ready")
		o, err := b.Store.Overview(t.Context(), b.Clock.Now().Add(b.r.Settings.SendWithin+time.Second))
		if err != nil || len(o.Uncertain) != 1 {
			t.Errorf("uncertain %+v, %v", o.Uncertain, err)
		}
	})
}

// F15: what died before its upload was noted is waited for and sent.
func TestF15_RunUntilIdleWaitsForAnUnsentSubmission(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(1)
		b.fake.Hooks.Upload = func(string) (bool, error) { panic(dies("in the upload")) }
		b.submitUntil("in the upload")
		b.fake.Hooks = fake.Hooks{}
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		b.want("first submissions", "SELECT outcome FROM submissions WHERE submission_id IN (SELECT submission_id FROM submissions ORDER BY intent_us LIMIT 2) ORDER BY attempt",
			"proven_absent", "accepted")
	})
}

func TestRunUntilIdleEndsWhileApplyIsPaused(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(3)
		pause := reconcile.Pause{Scope: reconcile.ScopeAll, Stage: reconcile.PauseApply, Actor: "anna", Reason: "a test"}
		if _, err := b.Pause(t.Context(), b.Clock.Now(), pause); err != nil {
			t.Fatal(err)
		}
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		b.want("stages", "SELECT DISTINCT stage FROM works", "extracted")
		if err := b.Resume(t.Context(), b.Clock.Now(), pause.Scope, pause.Stage, "anna", "done"); err != nil {
			t.Fatal(err)
		}
		if tallies, err := b.untilIdle(nil); err != nil || tallies[reconcile.PassApply].Moved != 3 {
			t.Errorf("resumed: tallies %+v, %v", tallies, err)
		}
	})
}

func TestRunUntilIdleStopsWhenTold(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(2)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := b.r.RunUntilIdle(ctx, reconcile.Passes(), func(ctx context.Context, _ time.Duration) error {
			cancel()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
		if leases := b.rows("SELECT name FROM leases WHERE holder <> ''"); len(leases) > 0 {
			t.Errorf("leases %v are still held", leases)
		}
	})
}
