package reconcile_test

import (
	"context"
	"errors"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
)

// watched tells when a lease was prolonged, or could not be.
type watched struct {
	reconcile.Store
	kept  chan error
	fails error // in place of asking the ledger
}

func (w *watched) KeepLease(ctx context.Context, l reconcile.Lease) error {
	err := w.fails
	if err == nil {
		err = w.Store.KeepLease(ctx, l)
	}
	w.kept <- err
	return err
}

// slow is a processor whose look-ups take as long as a test says.
type slow struct {
	*fake.Provider
	during func(ctx context.Context)
}

func (s *slow) Status(ctx context.Context, jobID string) (batch.Job, error) {
	s.during(ctx)
	if err := ctx.Err(); err != nil {
		return batch.Job{}, err
	}
	return s.Provider.Status(ctx, jobID)
}

// keeping runs poll over one job that takes as long as during does; tick lets
// the keeper of the lease look, and returns what came of it.
func (b *bench) keeping(during func(ctx context.Context, w *watched, tick func() error)) (tally reconcile.Tally, every time.Duration, err error) {
	b.t.Helper()
	b.ready(1)
	b.submit()
	b.Clock.Advance(b.r.Settings.PollFirst)
	w := &watched{Store: b.Store, kept: make(chan error)}
	ticks := make(chan time.Time)
	b.r.Store = w
	b.r.Tick = func(d time.Duration) (<-chan time.Time, func()) {
		every = d
		return ticks, func() {}
	}
	tick := func() error {
		ticks <- b.Clock.Now()
		return <-w.kept
	}
	b.r.Accounts = []batch.Provider{&slow{b.fake, func(ctx context.Context) { during(ctx, w, tick) }}}
	tally, err = b.r.Run(b.t.Context(), reconcile.PassPoll)
	return tally, every, err
}

// another process tries to have the lease of poll.
func (b *bench) takePoll() error {
	now := b.Clock.Now()
	_, err := b.Store.AcquireLease(b.t.Context(), "pass:poll", "another process", now, now.Add(time.Hour))
	return err
}

func TestF45_LeaseIsKeptWhileAPassWaits(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		tally, every, err := b.keeping(func(ctx context.Context, _ *watched, tick func() error) {
			for range 5 { // far longer than the lease's life
				b.Clock.Advance(50 * time.Second)
				if err := tick(); err != nil {
					t.Error(err)
				}
				if err := b.takePoll(); !errors.Is(err, reconcile.ErrHeld) {
					t.Errorf("the lease was given away: %v", err)
				}
			}
		})
		if err != nil || tally.Seen != 1 || tally.Failed != 0 || every != 20*time.Second {
			t.Errorf("%+v, %v; kept every %s", tally, err, every)
		}
		noKeeper(t)
		if err := b.takePoll(); err != nil {
			t.Errorf("the lease was not given up: %v", err)
		}
	})
}

func TestF45_PassEndsWhenItsLeaseIsLost(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		_, _, err := b.keeping(func(ctx context.Context, _ *watched, tick func() error) {
			b.Clock.Advance(2 * time.Minute) // as of a process that was stopped
			if err := b.takePoll(); err != nil {
				t.Error(err)
			}
			if err := tick(); !errors.Is(err, reconcile.ErrLeaseLost) {
				t.Errorf("the keeper got %v", err)
			}
			<-ctx.Done()
		})
		if !errors.Is(err, reconcile.ErrLeaseLost) || errors.Is(err, context.Canceled) {
			t.Errorf("the pass ends with %v", err)
		}
		noKeeper(t)
		b.want("holder", "SELECT holder FROM leases WHERE name = 'pass:poll'", "another process")
	})
}

// A ledger that does not answer for a moment is asked again; once nobody can
// know who has the lease, the pass ends.
func TestF45_LeaseThatCannotBeProlonged(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		_, _, err := b.keeping(func(ctx context.Context, w *watched, tick func() error) {
			w.fails = errors.New("the connection broke")
			b.Clock.Advance(40 * time.Second)
			_ = tick()
			if ctx.Err() != nil {
				t.Error("the pass was stopped although nobody can have its lease")
			}
			w.fails = nil
			if err := tick(); err != nil {
				t.Error(err)
			}
			w.fails = errors.New("the connection broke")
			b.Clock.Advance(61 * time.Second)
			_ = tick()
			<-ctx.Done()
		})
		if !errors.Is(err, reconcile.ErrLeaseLost) || !strings.Contains(err.Error(), "the connection broke") {
			t.Errorf("the pass ends with %v", err)
		}
		noKeeper(t)
	})
}

// What is told to end still ends under its lease.
func TestLeaseIsKeptWhileAPassEnds(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		ctx, cancel := context.WithCancel(t.Context())
		kept := 0
		b.r.Tick = func(time.Duration) (<-chan time.Time, func()) {
			ticks := make(chan time.Time, 1)
			ticks <- b.Clock.Now()
			return ticks, func() {}
		}
		w := &watched{Store: b.Store, kept: make(chan error)}
		b.r.Store = w
		b.ready(1)
		b.fake.Hooks.Create = func(batch.Creation) (bool, error) {
			cancel()
			if err := <-w.kept; err != nil {
				t.Error(err)
			}
			kept++
			return true, nil
		}
		if _, err := b.r.Run(ctx, reconcile.PassSubmit); err != nil || kept != 1 {
			t.Errorf("kept %d times, %v", kept, err)
		}
		b.wantJobs("submitted")
		noKeeper(t)
	})
}

// noKeeper fails the test unless every goroutine that kept a lease has ended.
func noKeeper(t *testing.T) {
	t.Helper()
	var dump strings.Builder
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		dump.Reset()
		if err := pprof.Lookup("goroutine").WriteTo(&dump, 1); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(dump.String(), "(*Reconciler).keep.") {
			return
		}
	}
	t.Errorf("a keeper is left:\n%s", dump.String())
}
