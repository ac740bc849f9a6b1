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

//go:embed query/policy_list.sql
var policyListSQL string

//go:embed query/policy_get.sql
var policyGetSQL string

//go:embed query/policy_newest.sql
var policyNewestSQL string

//go:embed query/policy_insert.sql
var policyInsertSQL string

//go:embed query/policy_approve.sql
var policyApproveSQL string

//go:embed query/boundary_insert.sql
var boundaryInsertSQL string

//go:embed query/policy_decision_insert.sql
var policyDecisionInsertSQL string

type policyRow struct {
	BoundaryID string `db:"boundary_id"`
	Spec       string `db:"spec"`
	SpecMAC    string `db:"spec_mac"`
	State      string `db:"state"`
}

func (r policyRow) version() (reconcile.PolicyVersion, error) {
	p, err := reconcile.ParseSpec([]byte(r.Spec))
	if err != nil {
		return reconcile.PolicyVersion{}, err
	}
	return reconcile.PolicyVersion{Policy: p, BoundaryID: r.BoundaryID, State: reconcile.PolicyState(r.State), SpecMAC: r.SpecMAC}, nil
}

// Policies implements reconcile.PolicyStore.
func (s *Store) Policies(ctx context.Context) ([]reconcile.PolicyVersion, error) {
	return s.policyVersions(ctx, policyListSQL)
}

// policyVersions reads the versions that a query selects.
func (s *Store) policyVersions(ctx context.Context, query string, args ...any) ([]reconcile.PolicyVersion, error) {
	var rows []policyRow
	if err := s.ro.SelectContext(ctx, &rows, query, args...); err != nil {
		return nil, fmt.Errorf("list policies: %w", scrub(err))
	}
	out := make([]reconcile.PolicyVersion, 0, len(rows))
	for _, r := range rows {
		v, err := r.version()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// Policy implements reconcile.PolicyStore.
func (s *Store) Policy(ctx context.Context, key reconcile.PolicyKey) (reconcile.PolicyVersion, error) {
	var r policyRow
	err := s.ro.GetContext(ctx, &r, policyGetSQL, key.ID, key.Version)
	if errors.Is(err, errNoRows) {
		return reconcile.PolicyVersion{}, fmt.Errorf("policy %s: %w", key, reconcile.ErrNotFound)
	}
	if err != nil {
		return reconcile.PolicyVersion{}, fmt.Errorf("policy %s: %w", key, scrub(err))
	}
	return r.version()
}

// ApprovePolicy implements reconcile.PolicyStore.
func (s *Store) ApprovePolicy(ctx context.Context, now time.Time, p reconcile.PolicyVersion, actor, reason, evidenceRef string) error {
	spec, err := p.Spec()
	if err != nil {
		return err
	}
	b := p.Boundary
	terms, err := json.Marshal(b.Terms, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("terms of policy %s: %w", p.Key(), err)
	}
	return s.write(ctx, "approve policy", func(ctx context.Context, t *tx) error {
		if _, err := t.ExecContext(ctx, boundaryInsertSQL, p.BoundaryID, b.Processor, b.Account, b.Host, b.Region, string(terms), micros(now)); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, policyInsertSQL, p.ID, p.Version, p.BoundaryID, string(spec), p.SpecMAC,
			string(p.Authority), string(p.Review.OnDue), micros(now)); err != nil {
			return err
		}
		if err := t.approvable(ctx, p); err != nil {
			return err
		}
		res, err := t.ExecContext(ctx, policyDecisionInsertSQL, p.ID, p.Version, "approve", actor, reason, evidenceRef, p.SpecMAC, micros(now))
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err // this actor has approved it before
		}
		if _, err := t.ExecContext(ctx, policyApproveSQL, p.ID, p.Version); err != nil {
			return err
		}
		t.audit("policy_approve", "policy:"+p.Key().String(), fmt.Sprintf("by %s: %s", actor, reason))
		return nil
	})
}

// approvable is ErrRefused for a version that must not be approved.
func (t *tx) approvable(ctx context.Context, p reconcile.PolicyVersion) error {
	var stored policyRow
	if err := t.GetContext(ctx, &stored, t.store.dialect.locked(policyGetSQL, forUpdate), p.ID, p.Version); err != nil {
		return err
	}
	var of struct {
		Newest   int64 `db:"newest"`
		Approved int64 `db:"approved"`
	}
	if err := t.GetContext(ctx, &of, policyNewestSQL, p.ID); err != nil {
		return err
	}
	switch {
	case of.Approved > p.Version:
		return fmt.Errorf("%w: policy %s: %s is approved and stays in force; give the old text a new version, %d",
			reconcile.ErrRefused, p.Key(), policyName(p.ID, of.Approved), of.Newest+1)
	case stored.SpecMAC != p.SpecMAC:
		return fmt.Errorf("%w: policy %s is in the ledger with another text; give the changed one a new version, %d", reconcile.ErrRefused, p.Key(), of.Newest+1)
	case stored.State == string(reconcile.PolicyRevoked):
		return fmt.Errorf("%w: policy %s was revoked; give it a new version, %d, to approve it again", reconcile.ErrRefused, p.Key(), of.Newest+1)
	}
	return nil
}
