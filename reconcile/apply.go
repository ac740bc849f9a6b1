package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/reconcile/crashpoint"
)

// appliesPerRun bounds one run of apply, in transactions.
const appliesPerRun = 1000

// Apply makes the review records of extracted works. It needs the ledger only:
// no provider is asked, and a second run finds nothing to do. While apply is
// paused it does nothing.
func (r *Reconciler) Apply(ctx context.Context, now time.Time) (Tally, error) {
	var t Tally
	for range appliesPerRun {
		if err := ctx.Err(); err != nil {
			return t, err
		}
		chunk, err := r.Store.ApplyExtracted(ctx, now, r.Settings.Chunk, Authority)
		if errors.Is(err, ErrPaused) {
			r.Log.Info().Str("pass", string(PassApply)).Msg("paused")
			return t, nil
		}
		if err != nil {
			return t, r.applyFailed(ctx, now, err)
		}
		// These records, their markers and findings are committed together. If the process
		// dies here, the next run goes on with the works still extracted.
		r.step(crashpoint.ApplyRecorded)
		t.Seen += int64(chunk.Seen)
		t.Moved += int64(chunk.Authoritative + chunk.History)
		r.logEvents(chunk.Events()...)
		if chunk.Seen == 0 {
			break
		}
		r.progress(PassApply, t.Seen, t.Seen)
	}
	return t, nil
}

// applyFailed notes that the ledger refused to be written. A lost lease is told
// by the error alone.
func (r *Reconciler) applyFailed(ctx context.Context, now time.Time, err error) error {
	err = fmt.Errorf("apply extracted works: %w", err)
	for _, expected := range []error{ErrLeaseLost, ErrUnknownCommit, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, expected) {
			return err
		}
	}
	return errors.Join(err, r.raise(ctx, now, EventApplyFailed, "pass:"+string(PassApply), "see the log of the pass"))
}

// Authority decides whether the record of an extracted work stands for its
// report. Authority never moves to a lower revision, and never past a person's
// decision, whatever the order in which results arrive.
func Authority(c Candidate) MarkerDecision {
	switch {
	case c.HasStanding && c.StandingDecided:
		return MarkHistory
	case c.Authority == HighestAccepted && c.Revision != c.CurrentRevision:
		return MarkHistory
	case !c.HasStanding, c.Revision > c.StandingRevision:
		return MarkAuthoritative
	case c.Revision == c.StandingRevision && c.Disposition == Live && c.StandingWork == Withdrawn:
		return MarkAuthoritative
	}
	return MarkHistory
}
