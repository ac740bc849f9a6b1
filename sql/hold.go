package sql

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"rollcall/reconcile"
)

//go:embed query/hold_position.sql
var holdPositionSQL string

//go:embed query/hold_list.sql
var holdListSQL string

//go:embed query/hold_lock_reports.sql
var holdLockReportsSQL string

//go:embed query/hold_bind.sql
var holdBindSQL string

//go:embed query/hold_release.sql
var holdReleaseSQL string

type heldRow struct {
	ReportID     string `db:"report_id"`
	TenantID     string `db:"tenant_id"`
	SourceSystem string `db:"source_system"`
	ExternalID   string `db:"external_id"`
	Revision     int64  `db:"revision"`
	ContentBytes int64  `db:"content_bytes"`
	Urgent       int64  `db:"urgent"`
	Media        string `db:"media"`
	NoText       int64  `db:"no_text"`
	AcceptedUS   int64  `db:"accepted_us"`
}

// HeldReports implements reconcile.CollectStore. A report that has left the
// list meanwhile is still a place in it: a hold is as old as its revision.
func (s *Store) HeldReports(ctx context.Context, after string, limit int) ([]reconcile.HeldReport, error) {
	position := int64(-1)
	if after != "" {
		err := s.ro.GetContext(ctx, &position, holdPositionSQL, after)
		if errors.Is(err, errNoRows) {
			return nil, fmt.Errorf("held reports behind %s: %w", after, reconcile.ErrNotFound)
		}
		if err != nil {
			return nil, fmt.Errorf("held reports: %w", scrub(err))
		}
	}
	var rows []heldRow
	if err := s.ro.SelectContext(ctx, &rows, holdListSQL, position, after, limit); err != nil {
		return nil, fmt.Errorf("held reports: %w", scrub(err))
	}
	out := make([]reconcile.HeldReport, 0, len(rows))
	for _, r := range rows {
		out = append(out, reconcile.HeldReport{
			ReportID: r.ReportID, Identity: reconcile.Identity{Tenant: r.TenantID, System: r.SourceSystem, ExternalID: r.ExternalID},
			Revision: r.Revision, ContentBytes: r.ContentBytes, Urgent: r.Urgent == 1, Media: r.Media, NoText: r.NoText == 1,
			AcceptedAt: fromMicros(r.AcceptedUS),
		})
	}
	return out, nil
}

// BindWorks implements reconcile.CollectStore. What is not held any more, or
// not the current revision, gets no work; a hold whose policy version is not
// approved stays.
func (s *Store) BindWorks(ctx context.Context, now time.Time, works []reconcile.NewWork) (int, error) {
	var bound int64
	err := s.write(ctx, "bind works", func(ctx context.Context, t *tx) (err error) {
		bound, err = t.bind(ctx, now, works)
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(bound), nil
}

func (t *tx) bind(ctx context.Context, now time.Time, works []reconcile.NewWork) (int64, error) {
	keys := map[reconcile.PolicyKey]bool{}
	for _, w := range works {
		keys[w.Policy.Key()] = true
	}
	approved, err := t.approvedPolicies(ctx, keys)
	if err != nil {
		return 0, err
	}
	works = slices.DeleteFunc(slices.Clone(works), func(w reconcile.NewWork) bool { return !approved[w.Policy.Key()] })
	if len(works) == 0 {
		return 0, nil
	}
	if err := t.loadBindings(ctx, works); err != nil {
		return 0, err
	}
	var locked []struct {
		ReportID        string `db:"report_id"`
		CurrentRevision int64  `db:"current_revision"`
	}
	if err := t.SelectContext(ctx, &locked, t.store.dialect.locked(holdLockReportsSQL, forUpdate)); err != nil {
		return 0, fmt.Errorf("lock reports: %w", err)
	}
	res, err := t.ExecContext(ctx, holdBindSQL, micros(now))
	if err != nil {
		return 0, err
	}
	bound, err := res.RowsAffected()
	if err != nil {
		return 0, err
	}
	if _, err := t.ExecContext(ctx, holdReleaseSQL); err != nil {
		return 0, fmt.Errorf("release holds: %w", err)
	}
	if bound > 0 {
		t.audit("bind", "reports", fmt.Sprintf("made works of %d held reports", bound))
	}
	return bound, nil
}

func (t *tx) loadBindings(ctx context.Context, works []reconcile.NewWork) error {
	err := t.store.dialect.temporary(ctx, t.Tx, "intake_bindings", "report_id TEXT NOT NULL, revision BIGINT NOT NULL, work_id TEXT NOT NULL, "+
		"policy_id TEXT NOT NULL, policy_version BIGINT NOT NULL, boundary_id TEXT NOT NULL, reason TEXT, review_us BIGINT NOT NULL, PRIMARY KEY (report_id, revision)")
	if err != nil {
		return err
	}
	slices.SortFunc(works, func(a, b reconcile.NewWork) int { return cmp.Compare(a.Held.ReportID, b.Held.ReportID) })
	return t.store.dialect.load(ctx, t.Tx, "intake_bindings",
		[]string{"report_id", "revision", "work_id", "policy_id", "policy_version", "boundary_id", "reason", "review_us"}, len(works), func(i int) []any {
			w := works[i]
			return []any{w.Held.ReportID, w.Held.Revision, w.WorkID, w.Policy.ID, w.Policy.Version, w.Policy.BoundaryID,
				nullIfEmpty(string(w.Reason)), w.Policy.Review.Due().Microseconds()}
		})
}
