package reconcile

import (
	"context"
	"errors"
	"time"
)

// ErrStuck: work is left that no pass can move; an operator must decide.
var ErrStuck = errors.New("work is left that no pass can move")

const (
	// idleLook is how often RunUntilIdle looks again at the latest, since
	// another process may have made work.
	idleLook = time.Minute
	// idleShortest keeps it from spinning.
	idleShortest = 20 * time.Millisecond
	// stuckRounds without a move, though something is due, are enough.
	stuckRounds = 5
)

// RunUntilIdle runs the passes again and again until nothing is left to do now
// or later, and then calls the roll once if check is among them. wait is
// called between rounds. ErrStuck when work is due and nothing moves.
func (r *Reconciler) RunUntilIdle(ctx context.Context, passes []PassName, wait func(context.Context, time.Duration) error) (map[PassName]Tally, error) {
	total := map[PassName]Tally{}
	still := 0
	for {
		moved, err := r.round(ctx, passes, total)
		if err != nil {
			return total, err
		}
		now, err := r.Now(ctx)
		if err != nil {
			return total, err
		}
		load, err := r.Store.Workload(ctx, now)
		if err != nil {
			return total, err
		}
		if load.Next == nil {
			break
		}
		pause := min(max(load.Next.Sub(now), idleShortest), idleLook)
		if still++; moved > 0 || load.Next.After(now) {
			still = 0
		}
		if still >= stuckRounds {
			return total, ErrStuck
		}
		if err := wait(ctx, pause*time.Duration(1<<still)); err != nil {
			return total, err
		}
	}
	for _, p := range passes {
		if p == PassCheck {
			tally, err := r.Run(ctx, p)
			total[p] = tally
			return total, err
		}
	}
	return total, nil
}

// round runs each pass but check once. A pass that another process is running
// is left to it.
func (r *Reconciler) round(ctx context.Context, passes []PassName, total map[PassName]Tally) (moved int64, err error) {
	for _, p := range passes {
		if p == PassCheck {
			continue
		}
		tally, err := r.Run(ctx, p)
		sum := total[p]
		sum.Add(tally)
		total[p] = sum
		moved += tally.Moved
		if err != nil && !errors.Is(err, ErrHeld) {
			return moved, err
		}
	}
	return moved, nil
}

// Sleep waits, or returns early with ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
