package sql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall/reconcile"
)

//go:embed query/lease_insert.sql
var leaseInsertSQL string

//go:embed query/lease_take.sql
var leaseTakeSQL string

//go:embed query/lease_get.sql
var leaseGetSQL string

//go:embed query/lease_hold.sql
var leaseHoldSQL string

//go:embed query/lease_release.sql
var leaseReleaseSQL string

//go:embed query/lease_touch.sql
var leaseTouchSQL string

//go:embed query/gate_read.sql
var gateReadSQL string

//go:embed query/pause_active.sql
var pauseActiveSQL string

//go:embed query/pause_insert.sql
var pauseInsertSQL string

//go:embed query/pause_get.sql
var pauseGetSQL string

//go:embed query/pause_out.sql
var pauseOutSQL string

//go:embed query/pause_replace.sql
var pauseReplaceSQL string

//go:embed query/pause_lift.sql
var pauseLiftSQL string

//go:embed query/pause_list.sql
var pauseListSQL string

// AcquireLease implements reconcile.GuardStore.
func (s *Store) AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (reconcile.Lease, error) {
	l := reconcile.Lease{Name: name, Holder: holder}
	err := s.write(ctx, "acquire lease", func(ctx context.Context, t *tx) error {
		if _, err := t.ExecContext(ctx, leaseInsertSQL, name); err != nil {
			return err
		}
		err := t.GetContext(ctx, &l.Fence, leaseTakeSQL, holder, micros(until), name, micros(now))
		if errors.Is(err, errNoRows) {
			return t.heldBy(ctx, name)
		}
		return err
	})
	if errors.Is(err, reconcile.ErrUnknownCommit) && !errors.Is(err, reconcile.ErrUnwritable) {
		// Nobody knows whether we hold it, so we do not; it expires by itself. The
		// error is both, so that no commit at all is not taken for another holder.
		return reconcile.Lease{}, fmt.Errorf("%w: %w", reconcile.ErrHeld, err)
	}
	if err != nil {
		return reconcile.Lease{}, err
	}
	return l, nil
}

// writeProbe is the lease that nobody takes, to find out about writes.
const writeProbe = "probe:write"

// errOnlyTried takes a probe back.
var errOnlyTried = errors.New("the probe is taken back")

// CheckWrite commits one small write, which nobody needs. A database whose disk
// is full reads on, and only this tells. It may be called at any time.
func (s *Store) CheckWrite(ctx context.Context) error {
	return s.write(ctx, "write probe", touch)
}

// TryWrite makes a small write and takes it back: it finds a file or a role that
// may not write, and changes nothing.
func (s *Store) TryWrite(ctx context.Context) error {
	err := s.write(ctx, "write probe", func(ctx context.Context, t *tx) error {
		if err := touch(ctx, t); err != nil {
			return err
		}
		return errOnlyTried
	})
	if errors.Is(err, errOnlyTried) {
		return nil
	}
	return err
}

func touch(ctx context.Context, t *tx) error {
	if _, err := t.ExecContext(ctx, leaseInsertSQL, writeProbe); err != nil {
		return err
	}
	return changedOne(t.ExecContext(ctx, leaseTouchSQL, writeProbe))
}

type leaseRow struct {
	Name      string `db:"name"`
	Holder    string `db:"holder"`
	ExpiresUS int64  `db:"expires_us"`
}

// heldBy is ErrHeld with the holder's name, for the person who waits for it.
func (t *tx) heldBy(ctx context.Context, name string) error {
	var r leaseRow
	if err := t.GetContext(ctx, &r, leaseGetSQL, name); err != nil {
		return err
	}
	if r.Holder == "" { // it was given up between the two statements
		return fmt.Errorf("%s: %w", name, reconcile.ErrHeld)
	}
	return fmt.Errorf("%s is held by %s until %s: %w", name, r.Holder, fromMicros(r.ExpiresUS).Format(time.RFC3339), reconcile.ErrHeld)
}

// ReleaseLease implements reconcile.GuardStore.
func (s *Store) ReleaseLease(ctx context.Context, l reconcile.Lease) error {
	return s.write(ctx, "release lease", func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, leaseReleaseSQL, l.Name, l.Fence)
		return err
	})
}

// holdLease makes the transaction depend on the lease and prolongs it. A
// take-over waits for this transaction; after one, the old holder finds no row.
func (t *tx) holdLease(ctx context.Context, l reconcile.Lease) error {
	now := t.store.opts.Now
	if l.Clock != nil {
		now = l.Clock
	}
	until := micros(now().Add(t.store.opts.LeaseFor))
	err := changedOne(t.ExecContext(ctx, leaseHoldSQL, until, l.Name, l.Fence))
	if errors.Is(err, reconcile.ErrMoved) {
		return fmt.Errorf("lease %s: %w", l.Name, reconcile.ErrLeaseLost)
	}
	return err
}

// fence is the fence of the lease that ctx runs under, 0 without one.
func fence(ctx context.Context) int64 {
	l, _ := reconcile.LeaseFrom(ctx)
	return l.Fence
}

// gate lets a transaction of a stage pass unless a pause holds for one of the
// scopes; the scope of everything is always asked for. A pause that is being
// set waits for this transaction, or this one waits for it and sees it.
func (t *tx) gate(ctx context.Context, stage reconcile.PausedStage, scopes ...string) error {
	var f int64
	if err := t.GetContext(ctx, &f, t.store.dialect.locked(gateReadSQL, forShare), "gate:"+string(stage)); err != nil {
		return fmt.Errorf("gate %s: %w", stage, err)
	}
	for _, scope := range append([]string{reconcile.ScopeAll}, scopes...) {
		var n int
		if err := t.GetContext(ctx, &n, pauseActiveSQL, scope, string(stage)); err != nil {
			return fmt.Errorf("gate %s: %w", stage, err)
		}
		if n > 0 {
			return fmt.Errorf("%s of %s: %w", stage, scope, reconcile.ErrPaused)
		}
	}
	return nil
}

// pauseListed is how many submissions, and how many jobs, a pause lists.
const pauseListed = 10

// Pause implements reconcile.GuardStore. Once the gate is locked, every intent
// of the stage is committed and seen, or waits and will see the pause: what is
// read behind it is exact.
func (s *Store) Pause(ctx context.Context, now time.Time, p reconcile.Pause) (reconcile.Paused, error) {
	kind, _, _ := strings.Cut(p.Scope, ":")
	if !slices.Contains(reconcile.PauseScopes(p.Stage), kind) {
		return reconcile.Paused{}, fmt.Errorf("a pause of %s for %q would stop nothing: %w", p.Stage, p.Scope, reconcile.ErrRefused)
	}
	var paused reconcile.Paused
	err := s.write(ctx, "pause", func(ctx context.Context, t *tx) error {
		if err := t.lockGate(ctx, p.Stage); err != nil {
			return err
		}
		if p.TakesPlace {
			why := "another pause takes its place: " + p.Reason
			switch err := changedOne(t.ExecContext(ctx, pauseReplaceSQL, p.Actor, why, micros(now), p.Scope, string(p.Stage), p.Reason)); {
			case err == nil:
				t.audit("resume", p.Scope+" "+string(p.Stage), fmt.Sprintf("by %s: %s", p.Actor, why))
			case !errors.Is(err, reconcile.ErrMoved):
				return err
			}
		}
		res, err := t.ExecContext(ctx, pauseInsertSQL, s.newID(), p.Scope, string(p.Stage), p.Actor, p.Reason, micros(now))
		if err != nil {
			return err
		}
		set, err := res.RowsAffected()
		if err != nil {
			return err
		}
		if set > 0 {
			t.audit("pause", p.Scope+" "+string(p.Stage), fmt.Sprintf("by %s: %s", p.Actor, p.Reason))
		}
		if paused, err = t.paused(ctx, now, p.Scope, p.Stage); err != nil {
			return err
		}
		paused.Already = set == 0
		return nil
	})
	if err != nil {
		return reconcile.Paused{}, err
	}
	return paused, nil
}

// lockGate keeps every other pause of a stage, and whatever passes its gate,
// waiting until the transaction ends.
func (t *tx) lockGate(ctx context.Context, stage reconcile.PausedStage) error {
	var f int64
	if err := t.GetContext(ctx, &f, t.store.dialect.locked(gateReadSQL, forUpdate), "gate:"+string(stage)); err != nil {
		return fmt.Errorf("gate %s: %w", stage, err)
	}
	return nil
}

type outRow struct {
	Sent          int64   `db:"sent"`
	JobID         string  `db:"job_id"`
	Items         int64   `db:"item_count"`
	ProviderJobID *string `db:"provider_job_id"`
	SubmissionID  *string `db:"submission_id"`
	SinceUS       int64   `db:"since_us"`
	DeadlineUS    *int64  `db:"send_deadline_us"`
	FileID        *string `db:"input_file_id"`
	Total         int64   `db:"total"`
}

// paused reads the active pause of a scope and stage, and what is out in it.
func (t *tx) paused(ctx context.Context, now time.Time, scope string, stage reconcile.PausedStage) (reconcile.Paused, error) {
	p := reconcile.Paused{Out: []reconcile.UncertainView{}, AtProvider: []reconcile.SentJob{}}
	var row pauseRow
	if err := t.GetContext(ctx, &row, pauseGetSQL, scope, string(stage)); err != nil {
		return p, err
	}
	p.Pause = pausesOf([]pauseRow{row})[0]
	if stage != reconcile.PauseDispatch {
		return p, nil
	}
	var out []outRow
	if err := t.SelectContext(ctx, &out, pauseOutSQL, scope, pauseListed, micros(now)); err != nil {
		return p, err
	}
	for _, r := range out {
		if r.Sent == 1 {
			p.AtProviderTotal = r.Total
			p.AtProvider = append(p.AtProvider, reconcile.SentJob{JobID: r.JobID, ProviderJobID: orEmpty(r.ProviderJobID), Items: r.Items, SubmittedAt: fromMicros(r.SinceUS)})
			continue
		}
		p.OutTotal = r.Total
		p.Out = append(p.Out, reconcile.UncertainView{SubmissionID: orEmpty(r.SubmissionID), JobID: r.JobID,
			IntentAt: fromMicros(r.SinceUS), SendBy: fromNull(r.DeadlineUS), InputFileID: orEmpty(r.FileID)})
	}
	return p, nil
}

// Resume implements reconcile.GuardStore. It waits for a pause that is being
// set, which would otherwise say that it stands while it is lifted.
func (s *Store) Resume(ctx context.Context, now time.Time, scope string, stage reconcile.PausedStage, actor, reason string) error {
	return s.write(ctx, "resume", func(ctx context.Context, t *tx) error {
		if err := t.lockGate(ctx, stage); err != nil {
			return err
		}
		err := changedOne(t.ExecContext(ctx, pauseLiftSQL, actor, reason, micros(now), scope, string(stage)))
		if errors.Is(err, reconcile.ErrMoved) {
			return fmt.Errorf("pause of %s for %s: %w", stage, scope, reconcile.ErrNotFound)
		}
		if err != nil {
			return err
		}
		t.audit("resume", scope+" "+string(stage), fmt.Sprintf("by %s: %s", actor, reason))
		if stage != reconcile.PauseDispatch {
			return nil
		}
		return t.answerFindings(ctx, now, reconcile.BrakeKinds(), scope, actor, reason)
	})
}

type pauseRow struct {
	ID     string `db:"pause_id"`
	Scope  string `db:"scope"`
	Stage  string `db:"stage"`
	SetBy  string `db:"set_by"`
	Reason string `db:"reason"`
	SetUS  int64  `db:"set_us"`
}

// Pauses implements reconcile.GuardStore.
func (s *Store) Pauses(ctx context.Context) ([]reconcile.Pause, error) {
	var rows []pauseRow
	if err := s.ro.SelectContext(ctx, &rows, pauseListSQL); err != nil {
		return nil, fmt.Errorf("list pauses: %w", scrub(err))
	}
	return pausesOf(rows), nil
}

func pausesOf(rows []pauseRow) []reconcile.Pause {
	out := make([]reconcile.Pause, 0, len(rows))
	for _, r := range rows {
		out = append(out, reconcile.Pause{ID: r.ID, Scope: r.Scope, Stage: reconcile.PausedStage(r.Stage), Actor: r.SetBy, Reason: r.Reason, SetAt: fromMicros(r.SetUS)})
	}
	return out
}
