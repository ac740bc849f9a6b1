package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// Witness remembers, outside of the ledger and its backups, what the ledger must
// hold: so that one that was put back is noticed before it sends a text again.
type Witness interface {
	// NoteIntent remembers an intent, and what was committed last, before anything
	// is sent under it. An intent that cannot be noted is not sent. It may be called
	// again.
	NoteIntent(ctx context.Context, id LedgerIdentity, s Submission) error
	// Verify compares the ledger with what is remembered, and remembers it as it
	// is now. ErrRewound, with what is missing, when the ledger lacks something
	// that it once held; then nothing new is remembered.
	Verify(ctx context.Context) error
	// Compare only compares.
	Compare(ctx context.Context) (Comparison, error)
	// Renew remembers the ledger as it is now and forgets what it lacks. Only a
	// recovery may end so.
	Renew(ctx context.Context) error
}

// Comparison is a ledger beside what is remembered of it.
type Comparison struct {
	File             string    `json:"file"`
	NotedAt          time.Time `json:"noted_at"` // zero when nothing was remembered yet
	Generation       int64     `json:"generation"`
	LedgerGeneration int64     `json:"ledger_generation"`
	AuditHigh        int64     `json:"audit_high"`
	LedgerAuditHigh  int64     `json:"ledger_audit_high"`
	MissingCommits   []string  `json:"missing_commits"` // acknowledged transactions, by their tokens
	MissingIntents   []string  `json:"missing_intents"` // submissions that may have been sent
}

// Rewound says what the ledger lacks, or "" when it lacks nothing.
func (c Comparison) Rewound() string {
	var lacks []string
	if c.LedgerGeneration < c.Generation {
		lacks = append(lacks, fmt.Sprintf("it is of generation %d, and %d was seen", c.LedgerGeneration, c.Generation))
	}
	if c.LedgerGeneration == c.Generation && c.LedgerAuditHigh < c.AuditHigh {
		lacks = append(lacks, fmt.Sprintf("its audit ends at %d, and %d was seen", c.LedgerAuditHigh, c.AuditHigh))
	}
	if n := len(c.MissingIntents); n > 0 {
		lacks = append(lacks, fmt.Sprintf("%d intents to send are missing, the first one is submission %s", n, c.MissingIntents[0]))
	}
	if n := len(c.MissingCommits); n > 0 {
		lacks = append(lacks, fmt.Sprintf("%d acknowledged transactions are missing", n))
	}
	return strings.Join(lacks, "; ")
}

// ErrRewound: the ledger lacks what it once held.
var ErrRewound = errors.New("the ledger is older than its witness")

// VerifyWitness compares the ledger with its witness. When the ledger was put
// back, dispatch and apply are paused durably, with a finding, and ErrRewound is
// returned. A witness that cannot be used is a finding, which closes by itself. It
// may be called at any time.
func (r *Reconciler) VerifyWitness(ctx context.Context, now time.Time) error {
	if r.Witness == nil {
		return nil
	}
	err := r.Witness.Verify(ctx)
	switch {
	case err == nil:
		return r.witnessUsable(ctx, now)
	case errors.Is(err, ErrRewound):
		return errors.Join(err, r.rewound(ctx, now, err.Error()))
	case ctx.Err() != nil, errors.Is(err, context.Canceled):
		return err
	}
	return errors.Join(err, r.witnessUnusable(ctx, now, err.Error()))
}

// What the last comparison in this process came to. The zero value: there was
// none, so a process before this one may have left the finding open.
const (
	witnessUsed   int32 = 1
	witnessFailed int32 = 2
)

// witnessSubject is the subject of findings about the witness.
const witnessSubject = "witness"

// witnessUsable settles the finding, where there may be one: a comparison that
// follows a good one costs no write.
func (r *Reconciler) witnessUsable(ctx context.Context, now time.Time) error {
	if atomic.LoadInt32(&r.witnessSaid) == witnessUsed {
		return nil
	}
	if err := r.settle(ctx, now, EventWitnessUnusable, witnessSubject, "the witness can be used again"); err != nil {
		return err
	}
	atomic.StoreInt32(&r.witnessSaid, witnessUsed)
	return nil
}

// witnessUnusable raises the finding, once for as long as it lasts.
func (r *Reconciler) witnessUnusable(ctx context.Context, now time.Time, detail string) error {
	if atomic.LoadInt32(&r.witnessSaid) == witnessFailed {
		return nil
	}
	if err := r.raise(ctx, now, EventWitnessUnusable, witnessSubject, detail); err != nil {
		return err
	}
	atomic.StoreInt32(&r.witnessSaid, witnessFailed)
	return nil
}

// RenewWitness ends a recovery: the witness remembers the ledger as it is now.
func (r *Reconciler) RenewWitness(ctx context.Context) error {
	if r.Witness == nil {
		return nil
	}
	return r.Witness.Renew(ctx)
}

// rewound pauses what could send a text again or put an older record in the
// place of a newer one, until a person resumes.
func (r *Reconciler) rewound(ctx context.Context, now time.Time, detail string) error {
	for _, stage := range []PausedStage{PauseDispatch, PauseApply} {
		if _, err := r.Store.Pause(ctx, now, Pause{Scope: ScopeAll, Stage: stage, Actor: "rollcall", Reason: EventLedgerRewound.Name, TakesPlace: true}); err != nil {
			return fmt.Errorf("pause %s: %w", stage, err)
		}
	}
	return r.raise(ctx, now, EventLedgerRewound, ScopeAll, detail)
}
