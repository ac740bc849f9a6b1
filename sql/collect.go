package sql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"rollcall/reconcile"
)

//go:embed query/policy_loaded.sql
var policyLoadedSQL string

//go:embed query/job_planning.sql
var jobPlanningSQL string

//go:embed query/work_due.sql
var workDueSQL string

//go:embed query/job_insert.sql
var jobInsertSQL string

//go:embed query/work_lock_step.sql
var workLockStepSQL string

//go:embed query/work_collect.sql
var workCollectSQL string

//go:embed query/item_insert.sql
var itemInsertSQL string

//go:embed query/job_add_items.sql
var jobAddItemsSQL string

//go:embed query/job_ready.sql
var jobReadySQL string

//go:embed query/work_close.sql
var workCloseSQL string

// LoadedPolicies implements reconcile.CollectStore.
func (s *Store) LoadedPolicies(ctx context.Context, now time.Time) ([]reconcile.PolicyVersion, error) {
	return s.policyVersions(ctx, policyLoadedSQL, micros(now))
}

// PlanningJob implements reconcile.CollectStore.
func (s *Store) PlanningJob(ctx context.Context, key reconcile.PolicyKey) (reconcile.Job, error) {
	var r jobRow
	err := s.ro.GetContext(ctx, &r, jobPlanningSQL, key.ID, key.Version)
	if errors.Is(err, errNoRows) {
		return reconcile.Job{}, fmt.Errorf("planning job of policy %s: %w", key, reconcile.ErrNotFound)
	}
	if err != nil {
		return reconcile.Job{}, fmt.Errorf("planning job of policy %s: %w", key, scrub(err))
	}
	return r.job(), nil
}

type dueWorkRow struct {
	WorkID       string `db:"work_id"`
	Urgent       int64  `db:"urgent"`
	CreatedUS    int64  `db:"created_us"`
	ContentBytes int64  `db:"content_bytes"`
}

// DueWorks implements reconcile.CollectStore. Urgent works and the others are
// two reads of one index, since it cannot be read downwards in one column and
// upwards in the next.
func (s *Store) DueWorks(ctx context.Context, now time.Time, key reconcile.PolicyKey, after *reconcile.DueWork, limit int) ([]reconcile.DueWork, error) {
	var out []reconcile.DueWork
	for _, urgent := range []bool{true, false} {
		if len(out) == limit || after != nil && !after.Urgent && urgent {
			continue
		}
		createdUS, workID := int64(-1), ""
		if after != nil && after.Urgent == urgent {
			createdUS, workID = micros(after.CreatedAt), after.WorkID
		}
		var rows []dueWorkRow
		if err := s.ro.SelectContext(ctx, &rows, workDueSQL, key.ID, key.Version, flag(urgent), createdUS, workID, micros(now), limit-len(out)); err != nil {
			return nil, fmt.Errorf("list due works: %w", scrub(err))
		}
		for _, r := range rows {
			out = append(out, reconcile.DueWork{WorkID: r.WorkID, Urgent: r.Urgent == 1, CreatedAt: fromMicros(r.CreatedUS), ContentBytes: r.ContentBytes})
		}
	}
	return out, nil
}

// AddItems implements reconcile.CollectStore.
func (s *Store) AddItems(ctx context.Context, now time.Time, step reconcile.PlanStep) (reconcile.Job, error) {
	var job reconcile.Job
	err := s.write(ctx, "add items", func(ctx context.Context, t *tx) error {
		p := step.Policy
		if err := t.gate(ctx, reconcile.PauseDispatch, "account:"+p.Boundary.Account, "policy:"+p.ID); err != nil {
			return err
		}
		if _, err := t.approvedPolicy(ctx, p.Key()); err != nil {
			return err
		}
		if len(step.Works) > 0 {
			// No row if the job is there already, or if another collector is
			// planning one for this policy; the lock below tells.
			if _, err := t.ExecContext(ctx, jobInsertSQL, step.JobID, p.ID, p.Version, p.BoundaryID, micros(now)); err != nil {
				return err
			}
		}
		var err error
		if job, err = t.lockJob(ctx, step.JobID, reconcile.JobPlanning); errors.Is(err, reconcile.ErrNotFound) {
			return fmt.Errorf("another job is being planned: %w", reconcile.ErrMoved)
		} else if err != nil {
			return err
		}
		if job.Items != step.Had {
			// Somebody filled it meanwhile: the works were chosen to fit a job
			// that is not this one any more.
			return fmt.Errorf("job %s has %d members, not %d: %w", job.ID, job.Items, step.Had, reconcile.ErrMoved)
		}
		if err := t.addMembers(ctx, now, job, step); err != nil {
			return err
		}
		if step.Ready {
			if err := changedOne(t.ExecContext(ctx, jobReadySQL, micros(now), job.ID)); err != nil {
				return err
			}
			t.audit("job_ready", "job:"+job.ID, "")
		}
		var r jobRow
		if err := t.GetContext(ctx, &r, jobGetSQL, job.ID); err != nil {
			return err
		}
		job = r.job()
		return nil
	})
	if err != nil {
		return reconcile.Job{}, err
	}
	return job, nil
}

// addMembers takes all works of a step or, if one of them is gone, none.
func (t *tx) addMembers(ctx context.Context, now time.Time, job reconcile.Job, step reconcile.PlanStep) error {
	if len(step.Works) == 0 {
		return nil
	}
	d := t.store.dialect
	if err := d.temporary(ctx, t.Tx, "step_works", "work_id TEXT PRIMARY KEY, position BIGINT NOT NULL"); err != nil {
		return err
	}
	err := d.load(ctx, t.Tx, "step_works", []string{"work_id", "position"}, len(step.Works), func(i int) []any {
		return []any{step.Works[i], job.Items + int64(i) + 1}
	})
	if err != nil {
		return err
	}
	if err := t.lockRows(ctx, forUpdate, workLockStepSQL); err != nil {
		return err
	}
	for _, st := range []struct {
		query string
		args  []any
	}{
		{workCollectSQL, []any{micros(now), step.Policy.ID, step.Policy.Version}},
		{itemInsertSQL, []any{job.ID}},
	} {
		res, err := t.ExecContext(ctx, st.query, st.args...)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n != int64(len(step.Works)) {
			return fmt.Errorf("%d of %d works can be taken: %w", n, len(step.Works), reconcile.ErrMoved)
		}
	}
	if err := changedOne(t.ExecContext(ctx, jobAddItemsSQL, len(step.Works), job.ID)); err != nil {
		return err
	}
	t.audit("job_plan", "job:"+job.ID, fmt.Sprintf("%d items of policy %s, %d before", len(step.Works), step.Policy.Key(), job.Items))
	return nil
}

// CloseWorks implements reconcile.CollectStore.
func (s *Store) CloseWorks(ctx context.Context, now time.Time, closings []reconcile.Closing) (int, error) {
	if len(closings) == 0 {
		return 0, nil
	}
	var closed int64
	err := s.write(ctx, "close works", func(ctx context.Context, t *tx) error {
		if err := s.dialect.temporary(ctx, t.Tx, "step_closings", "work_id TEXT PRIMARY KEY, reason TEXT NOT NULL"); err != nil {
			return err
		}
		err := s.dialect.load(ctx, t.Tx, "step_closings", []string{"work_id", "reason"}, len(closings), func(i int) []any {
			return []any{closings[i].WorkID, string(closings[i].Reason)}
		})
		if err != nil {
			return err
		}
		res, err := t.ExecContext(ctx, workCloseSQL)
		if err != nil {
			return err
		}
		if closed, err = res.RowsAffected(); err != nil || closed == 0 {
			return err
		}
		for _, c := range closings {
			t.audit("work_close", "work:"+c.WorkID, string(c.Reason))
		}
		return nil
	})
	return int(closed), err
}
