package sql

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"rollcall/reconcile"
)

// checks hold one statement an invariant, by name.
//
//go:embed check/*.sql
var checks embed.FS

//go:embed query/overdue_find.sql
var overdueFindSQL string

//go:embed query/overdue_lock.sql
var overdueLockSQL string

//go:embed query/overdue_close.sql
var overdueCloseSQL string

//go:embed query/breach_open.sql
var breachOpenSQL string

//go:embed query/breach_resolve_absent.sql
var breachResolveAbsentSQL string

//go:embed query/overview_roll.sql
var overviewRollSQL string

//go:embed query/overview_records.sql
var overviewRecordsSQL string

// wholeLedgerReads is how many times longer than a statement a snapshot may be
// read: the roll is called over millions of rows.
const wholeLedgerReads = 12

// read runs fn in one snapshot.
func (s *Store) read(ctx context.Context, name string, fn func(ctx context.Context, tx *sqlx.Tx) error) error {
	whole := s.ro
	whole.limit *= wholeLedgerReads
	ctx, cancel := whole.bound(ctx)
	defer cancel()
	inner, err := s.ro.BeginTxx(ctx, s.dialect.snapshot())
	if err != nil {
		return fmt.Errorf("%s: begin: %w", name, scrub(err))
	}
	defer func() { _ = inner.Rollback() }() // it wrote nothing
	err = fn(ctx, inner)
	if err == nil || errors.Is(err, reconcile.ErrNotFound) {
		return err // which says what is not there
	}
	return fmt.Errorf("%s: %w", name, scrub(err))
}

// CloseOverdue implements reconcile.CheckStore.
func (s *Store) CloseOverdue(ctx context.Context, now time.Time, limit int) (int, error) {
	var closed int64
	err := s.write(ctx, "close overdue works", func(ctx context.Context, t *tx) error {
		var works []string
		if err := t.SelectContext(ctx, &works, overdueFindSQL, micros(now), limit); err != nil || len(works) == 0 {
			return err
		}
		if err := s.dialect.temporary(ctx, t.Tx, "overdue", "work_id TEXT PRIMARY KEY"); err != nil {
			return err
		}
		row := func(i int) []any { return []any{works[i]} }
		if err := s.dialect.load(ctx, t.Tx, "overdue", []string{"work_id"}, len(works), row); err != nil {
			return err
		}
		// Locked in the order that every transaction takes works in; an UPDATE
		// takes them in whichever order its plan finds them.
		if err := t.SelectContext(ctx, &works, s.dialect.locked(overdueLockSQL, forUpdate)); err != nil {
			return err
		}
		res, err := t.ExecContext(ctx, overdueCloseSQL)
		if err != nil {
			return err
		}
		if closed, err = res.RowsAffected(); err != nil || closed == 0 {
			return err
		}
		t.audit("works_overdue", "works", fmt.Sprintf("%d given to a person", closed))
		return nil
	})
	if err != nil {
		return 0, err
	}
	return int(closed), nil
}

// CallRoll implements reconcile.CheckStore.
func (s *Store) CallRoll(ctx context.Context, invariants []reconcile.Invariant, limit int) (reconcile.Roll, []reconcile.Offenders, error) {
	var roll reconcile.Roll
	all := make([]reconcile.Offenders, 0, len(invariants))
	err := s.read(ctx, "call the roll", func(ctx context.Context, tx *sqlx.Tx) (err error) {
		if err := s.dialect.wholeLedger(ctx, tx); err != nil {
			return err
		}
		if roll, err = countRoll(ctx, tx); err != nil {
			return err
		}
		for _, inv := range invariants {
			o, err := offenders(ctx, tx, inv, limit)
			if err != nil {
				return fmt.Errorf("%s: %w", inv.Name, err)
			}
			all = append(all, o)
		}
		return nil
	})
	if err != nil {
		return reconcile.Roll{}, nil, err
	}
	return roll, all, nil
}

func countRoll(ctx context.Context, tx *sqlx.Tx) (reconcile.Roll, error) {
	var n struct {
		Accepted int64 `db:"accepted"`
		Without  int64 `db:"without_record"`
		Held     int64 `db:"held"`
		InFlight int64 `db:"in_flight"`
	}
	if err := tx.GetContext(ctx, &n, overviewRollSQL); err != nil {
		return reconcile.Roll{}, err
	}
	roll := reconcile.Roll{
		Accepted: n.Accepted, Authoritative: n.Accepted - n.Without, Held: n.Held, InFlight: n.InFlight,
		Unaccounted: n.Without - n.Held - n.InFlight,
		Classified:  map[string]int64{}, Unclassified: map[reconcile.Reason]int64{},
	}
	records, err := countRecords(ctx, tx)
	if err != nil {
		return reconcile.Roll{}, err
	}
	for _, r := range records {
		roll.Records += r.N
		if r.Kind == "classified" {
			roll.Classified[orEmpty(r.What)] = r.N
		} else {
			roll.Unclassified[reconcile.Reason(orEmpty(r.What))] = r.N
		}
	}
	return roll, nil
}

type recordCount struct {
	Kind string  `db:"kind"`
	What *string `db:"what"`
	N    int64   `db:"n"`
}

func countRecords(ctx context.Context, tx *sqlx.Tx) ([]recordCount, error) {
	var rows []recordCount
	err := tx.SelectContext(ctx, &rows, overviewRecordsSQL)
	return rows, err
}

func offenders(ctx context.Context, tx *sqlx.Tx, inv reconcile.Invariant, limit int) (reconcile.Offenders, error) {
	query, err := checks.ReadFile("check/" + inv.Name + ".sql")
	if err != nil {
		return reconcile.Offenders{}, err
	}
	args := []any{limit}
	if !inv.Before.IsZero() {
		args = append(args, micros(inv.Before))
	}
	// In a ledger that is broken any column may be NULL.
	var rows []struct {
		Subject *string `db:"subject"`
		Detail  *string `db:"detail"`
		Total   int64   `db:"total"`
	}
	if err := tx.SelectContext(ctx, &rows, string(query), args...); err != nil {
		return reconcile.Offenders{}, err
	}
	o := reconcile.Offenders{Breaches: make([]reconcile.Breach, 0, len(rows))}
	for _, r := range rows {
		o.Total = r.Total
		o.Breaches = append(o.Breaches, reconcile.Breach{Subject: orEmpty(r.Subject), Detail: orEmpty(r.Detail)})
	}
	return o, nil
}

// SaveBreaches implements reconcile.CheckStore.
func (s *Store) SaveBreaches(ctx context.Context, now time.Time, inv reconcile.Invariant, breaches []reconcile.Breach, complete bool) (opened, resolved int, err error) {
	// One finding cannot be counted twice by one statement.
	breaches = slices.Clone(breaches)
	slices.SortStableFunc(breaches, func(a, b reconcile.Breach) int { return cmp.Compare(a.Subject, b.Subject) })
	breaches = slices.CompactFunc(breaches, func(a, b reconcile.Breach) bool { return a.Subject == b.Subject })
	err = s.write(ctx, "save breaches of "+inv.Name, func(ctx context.Context, t *tx) error {
		opened, resolved = 0, 0
		const columns = "finding_id TEXT NOT NULL, subject TEXT PRIMARY KEY, detail TEXT NOT NULL"
		if err := s.dialect.temporary(ctx, t.Tx, "new_breaches", columns); err != nil {
			return err
		}
		row := func(i int) []any { return []any{s.newID(), breaches[i].Subject, breaches[i].Detail} }
		if err := s.dialect.load(ctx, t.Tx, "new_breaches", []string{"finding_id", "subject", "detail"}, len(breaches), row); err != nil {
			return err
		}
		var seen []int64
		if err := t.SelectContext(ctx, &seen, breachOpenSQL, inv.Name, string(inv.Severity), micros(now)); err != nil {
			return err
		}
		for _, n := range seen {
			if n == 1 {
				opened++
			}
		}
		if complete {
			res, err := t.ExecContext(ctx, breachResolveAbsentSQL, micros(now), s.opts.Actor, inv.Name)
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return err
			}
			resolved = int(n)
		}
		if opened+resolved > 0 {
			t.audit("findings", inv.Name, fmt.Sprintf("%d opened, %d resolved", opened, resolved))
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	return opened, resolved, nil
}
