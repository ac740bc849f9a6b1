package sql

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"rollcall/reconcile"
)

//go:embed query/apply_due.sql
var applyDueSQL string

//go:embed query/apply_lock_reports.sql
var applyLockReportsSQL string

//go:embed query/apply_facts.sql
var applyFactsSQL string

//go:embed query/record_demote.sql
var recordDemoteSQL string

//go:embed query/record_insert.sql
var recordInsertSQL string

//go:embed query/marker_insert.sql
var markerInsertSQL string

//go:embed query/apply_works_done.sql
var applyWorksDoneSQL string

type candidateRow struct {
	WorkID              string  `db:"work_id"`
	ReportID            string  `db:"report_id"`
	Revision            int64   `db:"revision"`
	Disposition         string  `db:"disposition"`
	Authority           string  `db:"authority"`
	CurrentRevision     int64   `db:"current_revision"`
	StandingRevision    *int64  `db:"standing_revision"`
	StandingHumanState  *string `db:"standing_human_state"`
	StandingDisposition *string `db:"standing_disposition"`
}

func (r candidateRow) candidate() reconcile.Candidate {
	c := reconcile.Candidate{WorkID: r.WorkID, ReportID: r.ReportID, Revision: r.Revision, Disposition: reconcile.Disposition(r.Disposition),
		Authority: reconcile.AuthorityRule(r.Authority), CurrentRevision: r.CurrentRevision}
	if r.StandingRevision != nil {
		c.HasStanding, c.StandingRevision = true, *r.StandingRevision
		c.StandingDecided = orEmpty(r.StandingHumanState) == "decided"
		c.StandingWork = reconcile.Disposition(orEmpty(r.StandingDisposition))
	}
	return c
}

// applied is a candidate and what was decided about it.
type applied struct {
	reconcile.Candidate
	decision reconcile.MarkerDecision
}

func (a applied) count(chunk *reconcile.AppliedChunk) {
	chunk.Seen++
	if a.decision == reconcile.MarkAuthoritative {
		chunk.Authoritative++
		return
	}
	chunk.History++
	if a.StandingDecided && a.Revision > a.StandingRevision {
		chunk.AfterDecision = append(chunk.AfterDecision, a.ReportID)
	}
}

// ApplyExtracted implements reconcile.ApplyStore.
func (s *Store) ApplyExtracted(ctx context.Context, now time.Time, limit int, decide func(reconcile.Candidate) reconcile.MarkerDecision) (reconcile.AppliedChunk, error) {
	var chunk reconcile.AppliedChunk
	err := s.write(ctx, "apply extracted", func(ctx context.Context, t *tx) error {
		chunk = reconcile.AppliedChunk{}
		if err := t.gate(ctx, reconcile.PauseApply); err != nil {
			return err
		}
		candidates, err := t.candidates(ctx, limit)
		if err != nil || len(candidates) == 0 {
			return err
		}
		works := make([]applied, 0, len(candidates))
		for _, c := range candidates {
			a := applied{c, decide(c)}
			a.count(&chunk)
			works = append(works, a)
		}
		if err := t.writeRecords(ctx, now, works); err != nil {
			return err
		}
		if err := t.openFindings(ctx, now, chunk.Events()); err != nil {
			return err
		}
		t.audit("applied", "", fmt.Sprintf("%d works: %d authoritative, %d history", chunk.Seen, chunk.Authoritative, chunk.History))
		return nil
	})
	if err != nil {
		return reconcile.AppliedChunk{}, err
	}
	return chunk, nil
}

// candidates locks the reports of the oldest extracted works and gives the
// work with the lowest revision of each. The others of a report are left to the
// next transaction, which sees what this one made of the first.
func (t *tx) candidates(ctx context.Context, limit int) ([]reconcile.Candidate, error) {
	var due []string
	if err := t.SelectContext(ctx, &due, applyDueSQL, limit); err != nil || len(due) == 0 {
		return nil, err
	}
	slices.Sort(due)
	due = slices.Compact(due)
	d := t.store.dialect
	if err := d.temporary(ctx, t.Tx, "apply_reports", "report_id TEXT PRIMARY KEY"); err != nil {
		return nil, err
	}
	if err := d.load(ctx, t.Tx, "apply_reports", []string{"report_id"}, len(due), func(i int) []any { return []any{due[i]} }); err != nil {
		return nil, err
	}
	if err := t.lockRows(ctx, forUpdate, applyLockReportsSQL); err != nil {
		return nil, err
	}
	var rows []candidateRow
	if err := t.SelectContext(ctx, &rows, applyFactsSQL); err != nil {
		return nil, err
	}
	rows = slices.CompactFunc(rows, func(a, b candidateRow) bool { return a.ReportID == b.ReportID })
	candidates := make([]reconcile.Candidate, 0, len(rows))
	for _, r := range rows {
		candidates = append(candidates, r.candidate())
	}
	return candidates, nil
}

// writeRecords writes records and markers. What stood before is demoted by a
// statement of its own: within one statement the index would see two
// authoritative records of a report.
func (t *tx) writeRecords(ctx context.Context, now time.Time, works []applied) error {
	d := t.store.dialect
	if err := d.temporary(ctx, t.Tx, "apply_works", "work_id TEXT PRIMARY KEY, report_id TEXT, decision TEXT"); err != nil {
		return err
	}
	if err := d.load(ctx, t.Tx, "apply_works", []string{"work_id", "report_id", "decision"}, len(works), func(i int) []any {
		return []any{works[i].WorkID, works[i].ReportID, string(works[i].decision)}
	}); err != nil {
		return err
	}
	for _, step := range []struct {
		name, query string
		args        []any
	}{
		{"demote", recordDemoteSQL, nil},
		{"records", recordInsertSQL, []any{micros(now)}},
		{"markers", markerInsertSQL, []any{fence(ctx), micros(now)}},
		{"works", applyWorksDoneSQL, nil},
	} {
		if _, err := t.ExecContext(ctx, step.query, step.args...); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}
