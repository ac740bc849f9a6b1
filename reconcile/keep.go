package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// withLease runs do under a lease, which is prolonged while do runs and given up
// behind it. The context of do ends with ErrLeaseLost when the lease is lost.
// ErrHeld.
func (r *Reconciler) withLease(ctx context.Context, name string, do func(ctx context.Context, now time.Time) error) (err error) {
	now, err := r.Now(ctx)
	if err != nil {
		return err
	}
	lease, err := r.Store.AcquireLease(ctx, name, r.Holder, now, now.Add(r.LeaseFor))
	if err != nil {
		return err
	}
	began := r.Uptime()
	lease.Clock = func() time.Time { return now.Add(r.Uptime() - began) }
	kept, stop := r.keep(ctx, lease)
	defer func() {
		stop()
		// The lease is given up even when ctx was cancelled or do panics, so that the next run need not wait.
		if rerr := r.Store.ReleaseLease(withoutLease(context.WithoutCancel(ctx)), lease); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}()
	err = do(kept, now)
	if cause := context.Cause(kept); err != nil && errors.Is(cause, ErrLeaseLost) {
		return cause // and not that something was cancelled
	}
	return err
}

// keep prolongs a lease every third of its life, however long the pass does
// without a write of its own. It goes on when ctx is cancelled: what is under
// way then is still finished under the lease. stop ends it and waits until it
// has ended.
func (r *Reconciler) keep(ctx context.Context, l Lease) (kept context.Context, stop func()) {
	kept, cancel := context.WithCancelCause(WithLease(ctx, l))
	ticks, stopTicks := r.ticker(max(r.LeaseFor/3, time.Millisecond))
	stopped, ended := make(chan struct{}), make(chan struct{})
	until := l.Clock().Add(r.LeaseFor)
	go func() {
		defer close(ended)
		for {
			select {
			case <-stopped:
				return
			case <-ticks:
			}
			if err := r.keepOnce(context.WithoutCancel(ctx), l, &until); err != nil {
				cancel(err)
				return
			}
		}
	}()
	return kept, func() {
		stopTicks()
		close(stopped)
		<-ended
		cancel(nil)
	}
}

// keepOnce prolongs a lease. A ledger that cannot be reached is asked again at
// the next tick, as long as nobody else can have the lease yet.
func (r *Reconciler) keepOnce(ctx context.Context, l Lease, until *time.Time) error {
	now := l.Clock()
	err := r.Store.KeepLease(ctx, l)
	switch {
	case err == nil:
		*until = now.Add(r.LeaseFor)
		return nil
	case errors.Is(err, ErrLeaseLost):
	case l.Clock().Before(*until):
		r.Log.Warn().Err(err).Str("lease", l.Name).Msg("the lease could not be prolonged; it is tried again")
		return nil
	default:
		err = fmt.Errorf("%w: it could not be prolonged in time: %w", ErrLeaseLost, err)
	}
	r.Log.Error().Err(err).Str("lease", l.Name).Msg("the lease is lost; what runs under it is stopped")
	return fmt.Errorf("lease %s: %w", l.Name, err)
}

// ticker is r.Tick, or else the process's clock.
func (r *Reconciler) ticker(every time.Duration) (ticks <-chan time.Time, stop func()) {
	if r.Tick != nil {
		return r.Tick(every)
	}
	t := time.NewTicker(every)
	return t.C, t.Stop
}
