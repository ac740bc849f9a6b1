package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Witness remembers, outside of the ledger and its backups, what the ledger must
// hold: so that one that was put back is noticed before it sends a text again.
type Witness interface {
	// NoteIntent remembers an intent before anything is sent under it. An intent
	// that cannot be noted is not sent.
	NoteIntent(ctx context.Context, id LedgerIdentity, s Submission) error
	// Verify compares the ledger with what is remembered, and remembers it as it
	// is now. ErrRewound, with what is missing, when the ledger lacks something
	// that it once held; then nothing new is remembered.
	Verify(ctx context.Context) error
}

// ErrRewound: the ledger lacks what it once held.
var ErrRewound = errors.New("the ledger is older than its witness")

// VerifyWitness compares the ledger with its witness. When the ledger was put
// back, dispatch and apply are paused durably, with a finding, and ErrRewound is
// returned. It may be called at any time.
func (r *Reconciler) VerifyWitness(ctx context.Context, now time.Time) error {
	if r.Witness == nil {
		return nil
	}
	err := r.Witness.Verify(ctx)
	if errors.Is(err, ErrRewound) {
		return errors.Join(err, r.rewound(ctx, now, err.Error()))
	}
	return err
}

// rewound pauses what could send a text again or put an older record in the
// place of a newer one, until a person resumes.
func (r *Reconciler) rewound(ctx context.Context, now time.Time, detail string) error {
	for _, stage := range []PausedStage{PauseDispatch, PauseApply} {
		if _, err := r.Store.Pause(ctx, now, Pause{Scope: ScopeAll, Stage: stage, Actor: "rollcall", Reason: EventLedgerRewound.Name}); err != nil {
			return fmt.Errorf("pause %s: %w", stage, err)
		}
	}
	return r.raise(ctx, now, EventLedgerRewound, ScopeAll, detail)
}
