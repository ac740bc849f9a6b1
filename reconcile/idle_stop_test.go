package reconcile_test

import (
	"testing"

	"rollcall/batch"
	"rollcall/reconcile"
)

// A job that the provider no longer knows cannot move: the run ends once a
// person is told, and the job is not asked about for ever.
func TestRunUntilIdleEndsAtAVanishedJob(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(2)
		b.fake.Hooks.Status = func(string) (bool, error) {
			return false, &batch.Error{Op: "status", Kind: batch.NotFound}
		}
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		b.wantJobs("submitted")
		d, err := b.Store.Decisions(t.Context(), b.Clock.Now())
		if err != nil || len(d.NeedsDecision) != 1 || d.NeedsDecision[0].Name != reconcile.EventJobVanished.Name {
			t.Errorf("decisions %+v, %v", d.NeedsDecision, err)
		}
	})
}

// The jobs of an account that poll leaves alone do not keep a run going.
func TestRunUntilIdleEndsWhileAnAccountsPollIsPaused(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(2)
		pause := reconcile.Pause{Scope: "account:main", Stage: reconcile.PausePoll, Actor: "anna", Reason: "a test"}
		if _, err := b.Pause(t.Context(), b.Clock.Now(), pause); err != nil {
			t.Fatal(err)
		}
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		b.wantJobs("submitted")
		if err := b.Resume(t.Context(), b.Clock.Now(), pause.Scope, pause.Stage, "anna", "done"); err != nil {
			t.Fatal(err)
		}
		if tallies, err := b.untilIdle(nil); err != nil || tallies[reconcile.PassApply].Moved != 2 {
			t.Errorf("resumed: tallies %+v, %v", tallies, err)
		}
	})
}
