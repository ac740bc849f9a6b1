package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"
)

// ErrStuck: work is left that no pass can move; an operator must decide.
var ErrStuck = errors.New("work is left that no pass can move; an operator must look at it")

const (
	// idleLook is how often RunUntilIdle looks again at the latest, since
	// another process may have made work.
	idleLook = time.Minute
	// idleShortest keeps it from spinning.
	idleShortest = 20 * time.Millisecond
	// heldWait is how long it leaves a pass to another process before it asks again.
	heldWait = time.Second
	// stuckRounds without a move, though something is due, are enough. The waits
	// between them double, to ten seconds in all.
	stuckRounds = 9
)

// RunUntilIdle runs the passes again and again until nothing is left to do now
// or later, and then calls the roll once if check is among them; also before,
// when a report becomes due. wait is called between rounds. ErrStuck when work is due, nothing moves, and no other
// process is at it.
func (r *Reconciler) RunUntilIdle(ctx context.Context, passes []PassName, wait func(context.Context, time.Duration) error) (map[PassName]Tally, error) {
	total := map[PassName]Tally{}
	// Sweep and check look at everything, so they come once, at the end.
	moving := slices.DeleteFunc(slices.Clone(passes), func(p PassName) bool { return p == PassCheck || p == PassSweep })
	for still := 0; ; {
		moved, held, err := r.round(ctx, moving, total)
		if err != nil {
			return total, err
		}
		now, err := r.Now(ctx)
		if err != nil {
			return total, err
		}
		next, err := r.Store.Next(ctx, now, r.Settings.UnsentMargin)
		if err != nil {
			return total, err
		}
		if next.Overdue > 0 && slices.Contains(passes, PassCheck) {
			// A provider that keeps everybody waiting must not keep a person from
			// getting a report that is due.
			if _, err := r.Run(ctx, PassCheck); err != nil && !errors.Is(err, ErrHeld) {
				return total, err
			}
		}
		if next.At == nil {
			break
		}
		pause := min(max(next.At.Sub(now), idleShortest), idleLook)
		switch {
		case held:
			still, pause = 0, max(pause, heldWait)
		case moved > 0 || next.At.After(now):
			still = 0
		default:
			still++
			pause <<= still
		}
		if still >= stuckRounds {
			return total, ErrStuck
		}
		if err := wait(ctx, pause); err != nil {
			return total, err
		}
	}
	for _, p := range []PassName{PassSweep, PassCheck} {
		if slices.Contains(passes, p) {
			if err := r.runAtEnd(ctx, p, total, wait); err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// runAtEnd runs a pass, once another process that is at it is done.
func (r *Reconciler) runAtEnd(ctx context.Context, pass PassName, total map[PassName]Tally, wait func(context.Context, time.Duration) error) error {
	for {
		tally, err := r.Run(ctx, pass)
		if !errors.Is(err, ErrHeld) {
			total[pass] = tally
			return err
		}
		if err := wait(ctx, heldWait); err != nil {
			return err
		}
	}
}

// round runs each pass once. held says that another process is running one of
// them, which is left to it.
func (r *Reconciler) round(ctx context.Context, passes []PassName, total map[PassName]Tally) (moved int64, held bool, err error) {
	for _, p := range passes {
		tally, err := r.Run(ctx, p)
		sum := total[p]
		sum.Add(tally)
		total[p] = sum
		moved += tally.Moved
		switch {
		case errors.Is(err, ErrHeld):
			held = true
		case err != nil:
			return moved, held, err
		}
	}
	return moved, held, nil
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
