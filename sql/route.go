package sql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"rollcall/reconcile"
)

//go:embed query/route_lock_reports.sql
var routeLockReportsSQL string

//go:embed query/route_lock_works.sql
var routeLockWorksSQL string

//go:embed query/route_facts.sql
var routeFactsSQL string

//go:embed query/route_end_works.sql
var routeEndWorksSQL string

//go:embed query/route_make_works.sql
var routeMakeWorksSQL string

//go:embed query/route_drop_holds.sql
var routeDropHoldsSQL string

type routeRow struct {
	ReportID string  `db:"report_id"`
	Revision int64   `db:"current_revision"`
	WorkID   *string `db:"work_id"`
	Stage    *string `db:"stage"`
	Reason   *string `db:"reason"`
	HeldUS   *int64  `db:"held_us"`
}

func (r routeRow) facts() reconcile.RouteFacts {
	return reconcile.RouteFacts{ReportID: r.ReportID, Revision: r.Revision, Held: r.HeldUS != nil, WorkID: orEmpty(r.WorkID),
		Stage: reconcile.Stage(orEmpty(r.Stage)), Reason: reconcile.Reason(orEmpty(r.Reason))}
}

// RouteReports implements reconcile.RouteStore.
func (s *Store) RouteReports(ctx context.Context, now time.Time, r reconcile.Routing) (map[string]reconcile.RouteResult, error) {
	var results map[string]reconcile.RouteResult
	err := s.write(ctx, "route reports", func(ctx context.Context, t *tx) error {
		rows, err := t.lockToRoute(ctx, r.Reports)
		if err != nil {
			return err
		}
		results = make(map[string]reconcile.RouteResult, len(rows))
		var ended, made []reconcile.RouteResult
		for _, row := range rows {
			result := reconcile.RouteResult{RouteFacts: row.facts(), Verdict: r.Judge(row.facts())}
			switch result.Verdict {
			case reconcile.RouteOpen:
				ended = append(ended, result)
			case reconcile.RouteHeld:
				result.WorkID = r.WorkID(result.ReportID, result.Revision)
				made = append(made, result)
			}
			results[result.ReportID] = result
		}
		return t.writeRouted(ctx, now, r, ended, made)
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// lockToRoute locks reports and then their works, as intake does, and reads
// where they are.
func (t *tx) lockToRoute(ctx context.Context, reports []string) ([]routeRow, error) {
	d := t.store.dialect
	if err := d.temporary(ctx, t.Tx, "route_reports", "report_id TEXT PRIMARY KEY"); err != nil {
		return nil, err
	}
	if err := d.load(ctx, t.Tx, "route_reports", []string{"report_id"}, len(reports), func(i int) []any { return []any{reports[i]} }); err != nil {
		return nil, err
	}
	if err := t.lockRows(ctx, forUpdate, routeLockReportsSQL); err != nil {
		return nil, fmt.Errorf("lock reports: %w", err)
	}
	if err := t.lockRows(ctx, forUpdate, routeLockWorksSQL); err != nil {
		return nil, fmt.Errorf("lock works: %w", err)
	}
	var rows []routeRow
	if err := t.SelectContext(ctx, &rows, routeFactsSQL); err != nil {
		return nil, err
	}
	if len(rows) != len(reports) {
		return nil, fmt.Errorf("%d of %d reports: %w", len(reports)-len(rows), len(reports), reconcile.ErrNotFound)
	}
	return rows, nil
}

// writeRouted ends works, makes those of held revisions, and notes who asked
// for it.
func (t *tx) writeRouted(ctx context.Context, now time.Time, r reconcile.Routing, ended, made []reconcile.RouteResult) error {
	given := append(ended, made...)
	if len(given) == 0 {
		return nil
	}
	const columns = "work_id TEXT PRIMARY KEY, report_id TEXT NOT NULL, revision BIGINT NOT NULL, made BIGINT NOT NULL"
	if err := t.store.dialect.temporary(ctx, t.Tx, "route_works", columns); err != nil {
		return err
	}
	err := t.store.dialect.load(ctx, t.Tx, "route_works", []string{"work_id", "report_id", "revision", "made"}, len(given), func(i int) []any {
		return []any{given[i].WorkID, given[i].ReportID, given[i].Revision, flag(i >= len(ended))}
	})
	if err != nil {
		return err
	}
	if err := t.changed(ctx, len(ended), routeEndWorksSQL); err != nil {
		return fmt.Errorf("end works: %w", err)
	}
	if len(made) > 0 {
		if err := t.makeRouted(ctx, now, r.NoPolicy, len(made)); err != nil {
			return err
		}
	}
	for _, g := range given {
		t.audit("route", "report:"+g.ReportID, fmt.Sprintf("revision %d, by %s: %s", g.Revision, r.Actor, r.Reason))
	}
	return nil
}

// makeRouted turns holds into works under a version that is not a policy, which
// it stores at the first need.
func (t *tx) makeRouted(ctx context.Context, now time.Time, none *reconcile.PolicyVersion, n int) error {
	spec, err := none.Spec()
	if err != nil {
		return err
	}
	terms, err := json.Marshal(none.Boundary.Terms, json.Deterministic(true))
	if err != nil {
		return err
	}
	b := none.Boundary
	if _, err := t.ExecContext(ctx, boundaryInsertSQL, none.BoundaryID, b.Processor, b.Account, b.Host, b.Region, string(terms), micros(now)); err != nil {
		return err
	}
	if _, err := t.ExecContext(ctx, policyInsertSQL, none.ID, none.Version, none.BoundaryID, string(spec), none.SpecMAC,
		string(none.Authority), string(none.Review.OnDue), micros(now)); err != nil {
		return err
	}
	if err := t.changed(ctx, n, routeMakeWorksSQL, none.ID, none.Version, none.BoundaryID, micros(now), micros(now.Add(none.Review.Due()))); err != nil {
		return fmt.Errorf("make works: %w", err)
	}
	if err := t.changed(ctx, n, routeDropHoldsSQL); err != nil {
		return fmt.Errorf("drop holds: %w", err)
	}
	return nil
}

// changed runs a statement that must change so many rows.
func (t *tx) changed(ctx context.Context, want int, query string, args ...any) error {
	res, err := t.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != int64(want) {
		return fmt.Errorf("%d rows were to change, %d did: %w", want, n, errors.Join(err, reconcile.ErrMoved))
	}
	return nil
}
