package sql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"rollcall/batch"
	"rollcall/reconcile"
)

//go:embed query/job_get.sql
var jobGetSQL string

// jobRow is a job's row, less what only views show.
type jobRow struct {
	ID            string  `db:"job_id"`
	PolicyID      string  `db:"policy_id"`
	PolicyVersion int64   `db:"policy_version"`
	BoundaryID    string  `db:"boundary_id"`
	State         string  `db:"state"`
	Items         int64   `db:"item_count"`
	ContentBytes  int64   `db:"content_bytes"`
	Account       *string `db:"account"`
	ProviderJobID *string `db:"provider_job_id"`
	Status        *string `db:"provider_status"`
	Phase         *string `db:"phase"`
	SubmittedUS   *int64  `db:"submitted_us"`
	ExpiresUS     *int64  `db:"expires_us"`
	EndedUS       *int64  `db:"ended_us"`
	Misses        int64   `db:"poll_misses"`
	FirstMissUS   *int64  `db:"first_miss_us"`
	IncompleteUS  *int64  `db:"incomplete_us"`
}

func (r jobRow) job() reconcile.Job {
	return reconcile.Job{
		ID: r.ID, Policy: reconcile.PolicyKey{ID: r.PolicyID, Version: r.PolicyVersion}, BoundaryID: r.BoundaryID,
		State: reconcile.JobState(r.State), Items: r.Items, ContentBytes: r.ContentBytes,
		Account: orEmpty(r.Account), ProviderJobID: orEmpty(r.ProviderJobID), Status: orEmpty(r.Status), Phase: batch.Phase(orEmpty(r.Phase)),
		SubmittedAt: fromNull(r.SubmittedUS), Expires: fromNull(r.ExpiresUS), EndedAt: fromNull(r.EndedUS),
		Misses: r.Misses, FirstMiss: fromNull(r.FirstMissUS), Incomplete: fromNull(r.IncompleteUS),
	}
}

func jobsOf(rows []jobRow) []reconcile.Job {
	out := make([]reconcile.Job, 0, len(rows))
	for _, r := range rows {
		out = append(out, r.job())
	}
	return out
}

// lockJob reads a job and keeps others from changing it until the transaction
// ends. A job in another state than the change starts from is ErrMoved.
func (t *tx) lockJob(ctx context.Context, jobID string, state reconcile.JobState) (reconcile.Job, error) {
	var r jobRow
	err := t.GetContext(ctx, &r, t.store.dialect.locked(jobGetSQL, forUpdate), jobID)
	if errors.Is(err, errNoRows) {
		return reconcile.Job{}, fmt.Errorf("job %s: %w", jobID, reconcile.ErrNotFound)
	}
	if err != nil {
		return reconcile.Job{}, fmt.Errorf("lock job %s: %w", jobID, err)
	}
	if r.State != string(state) {
		return r.job(), fmt.Errorf("job %s is %s, not %s: %w", jobID, r.State, state, reconcile.ErrMoved)
	}
	return r.job(), nil
}

// lockRows locks the rows that a query selects, in its order, until the
// transaction ends. On SQLite nobody else writes meanwhile.
func (t *tx) lockRows(ctx context.Context, lock, query string, args ...any) error {
	if t.store.dialect != postgres {
		return nil
	}
	_, err := t.ExecContext(ctx, t.store.dialect.locked(query, lock), args...)
	return err
}

// approvedPolicy proves that a policy version is approved, and keeps it so
// until the transaction ends.
func (t *tx) approvedPolicy(ctx context.Context, key reconcile.PolicyKey) (policyRow, error) {
	var r policyRow
	err := t.GetContext(ctx, &r, t.store.dialect.locked(policyGetSQL, forShare), key.ID, key.Version)
	if errors.Is(err, errNoRows) {
		return r, fmt.Errorf("policy %s: %w", key, reconcile.ErrNotApproved)
	}
	if err != nil {
		return r, fmt.Errorf("lock policy %s: %w", key, err)
	}
	if r.State != string(reconcile.PolicyApproved) {
		return r, fmt.Errorf("policy %s is %s: %w", key, r.State, reconcile.ErrNotApproved)
	}
	return r, nil
}
