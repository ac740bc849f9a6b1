package sql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"rollcall/reconcile"
)

//go:embed query/finding_open.sql
var findingOpenSQL string

//go:embed query/finding_resolve.sql
var findingResolveSQL string

//go:embed query/finding_answer.sql
var findingAnswerSQL string

//go:embed query/finding_get.sql
var findingGetSQL string

//go:embed query/finding_list.sql
var findingListSQL string

//go:embed query/finding_list_open.sql
var findingListOpenSQL string

//go:embed query/finding_list_events.sql
var findingListEventsSQL string

type findingRow struct {
	ID         string  `db:"finding_id"`
	Name       string  `db:"name"`
	Kind       string  `db:"kind"`
	Subject    string  `db:"subject"`
	Severity   string  `db:"severity"`
	Detail     string  `db:"detail"`
	OpenedUS   int64   `db:"opened_us"`
	LastSeenUS int64   `db:"last_seen_us"`
	Seen       int64   `db:"seen"`
	ResolvedUS *int64  `db:"resolved_us"`
	ResolvedBy *string `db:"resolved_by"`
	Resolution *string `db:"resolution"`
}

func (r findingRow) finding() reconcile.Finding {
	return reconcile.Finding{
		ID: r.ID, Name: r.Name, Kind: r.Kind, Subject: r.Subject, Severity: reconcile.Severity(r.Severity), Detail: r.Detail,
		OpenedAt: fromMicros(r.OpenedUS), LastSeenAt: fromMicros(r.LastSeenUS), Seen: r.Seen,
		ResolvedAt: timePointer(r.ResolvedUS), ResolvedBy: orEmpty(r.ResolvedBy), Resolution: orEmpty(r.Resolution),
	}
}

func findings(rows []findingRow) []reconcile.Finding {
	out := make([]reconcile.Finding, 0, len(rows))
	for _, r := range rows {
		out = append(out, r.finding())
	}
	return out
}

// openFinding notes an event within a transaction that has more to do. While
// one is open for the same name and subject, it is only counted.
func (t *tx) openFinding(ctx context.Context, now time.Time, e reconcile.Event) error {
	var seen int64
	err := t.GetContext(ctx, &seen, findingOpenSQL, t.store.newID(), e.Name, "event", e.Subject, string(e.Severity), e.Detail, micros(now))
	if err != nil {
		return fmt.Errorf("open finding %s: %w", e.Name, err)
	}
	if seen == 1 {
		t.audit("finding_open", e.Subject, e.Name)
	}
	return nil
}

func (t *tx) openFindings(ctx context.Context, now time.Time, events []reconcile.Event) error {
	for _, e := range events {
		if err := t.openFinding(ctx, now, e); err != nil {
			return err
		}
	}
	return nil
}

// answerFindings closes the open events about a subject that what the
// transaction does is the answer to.
func (t *tx) answerFindings(ctx context.Context, now time.Time, kinds []reconcile.EventKind, subject, actor, reason string) error {
	for _, k := range kinds {
		err := changedOne(t.ExecContext(ctx, findingAnswerSQL, micros(now), actor, reason, k.Name, subject))
		if errors.Is(err, reconcile.ErrMoved) {
			continue // none is open
		}
		if err != nil {
			return fmt.Errorf("resolve finding %s: %w", k.Name, err)
		}
		t.auditResolved(k.Name, subject, actor, reason)
	}
	return nil
}

func (t *tx) auditResolved(name, subject, actor, reason string) {
	t.audit("finding_resolve", subject, fmt.Sprintf("%s by %s: %s", name, actor, reason))
}

// OpenFinding implements reconcile.CheckStore.
func (s *Store) OpenFinding(ctx context.Context, now time.Time, e reconcile.Event) error {
	return s.write(ctx, "open finding", func(ctx context.Context, t *tx) error { return t.openFinding(ctx, now, e) })
}

// Findings implements reconcile.CheckStore.
func (s *Store) Findings(ctx context.Context, openOnly bool, limit int) ([]reconcile.Finding, error) {
	if openOnly {
		return s.listFindings(ctx, findingListOpenSQL, limit)
	}
	return s.listFindings(ctx, findingListSQL, limit)
}

// OpenEvents implements reconcile.CheckStore.
func (s *Store) OpenEvents(ctx context.Context, limit int) ([]reconcile.Finding, error) {
	return s.listFindings(ctx, findingListEventsSQL, limit)
}

func (s *Store) listFindings(ctx context.Context, query string, limit int) ([]reconcile.Finding, error) {
	var rows []findingRow
	if err := s.ro.SelectContext(ctx, &rows, query, limit); err != nil {
		return nil, fmt.Errorf("list findings: %w", scrub(err))
	}
	return findings(rows), nil
}

// ResolveFinding implements reconcile.CheckStore.
func (s *Store) ResolveFinding(ctx context.Context, now time.Time, id, actor, reason string) error {
	return s.write(ctx, "resolve finding", func(ctx context.Context, t *tx) error {
		var f findingRow
		err := t.GetContext(ctx, &f, s.dialect.locked(findingGetSQL, forUpdate), id)
		if errors.Is(err, errNoRows) {
			return fmt.Errorf("finding %q: %w", id, reconcile.ErrNotFound)
		}
		if err != nil {
			return err
		}
		switch {
		case f.ResolvedUS != nil:
			return fmt.Errorf("%w: finding %s, %s, was resolved at %s by %s", reconcile.ErrRefused, id, f.Name, fromMicros(*f.ResolvedUS).Format(time.RFC3339), orEmpty(f.ResolvedBy))
		case f.Kind == "invariant":
			return fmt.Errorf("%w: finding %s, %s, is a broken invariant; it closes by itself when the check no longer sees it", reconcile.ErrRefused, id, f.Name)
		}
		if err := changedOne(t.ExecContext(ctx, findingResolveSQL, micros(now), actor, reason, id)); err != nil {
			return fmt.Errorf("finding %s: %w", id, err)
		}
		t.auditResolved(f.Name, f.Subject, actor, reason)
		return nil
	})
}

// SettleEvent implements reconcile.CheckStore.
func (s *Store) SettleEvent(ctx context.Context, now time.Time, name, subject, resolution string) (settled bool, err error) {
	err = s.write(ctx, "settle event", func(ctx context.Context, t *tx) error {
		err := changedOne(t.ExecContext(ctx, findingAnswerSQL, micros(now), s.opts.Actor, resolution, name, subject))
		if errors.Is(err, reconcile.ErrMoved) {
			return nil // none is open
		}
		if err != nil {
			return err
		}
		settled = true
		t.auditResolved(name, subject, s.opts.Actor, resolution)
		return nil
	})
	return settled && err == nil, err
}
