package sql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"rollcall/reconcile"
)

//go:embed query/adopt_unsent_jobs.sql
var adoptUnsentJobsSQL string

//go:embed query/adopt_drop_items.sql
var adoptDropItemsSQL string

//go:embed query/adopt_abandon.sql
var adoptAbandonSQL string

//go:embed query/adopt_lock_works.sql
var adoptLockWorksSQL string

//go:embed query/adopt_known.sql
var adoptKnownSQL string

//go:embed query/adopt_count.sql
var adoptCountSQL string

//go:embed query/adopt_elsewhere.sql
var adoptElsewhereSQL string

//go:embed query/adopt_take_over.sql
var adoptTakeOverSQL string

//go:embed query/adopt_free.sql
var adoptFreeSQL string

//go:embed query/adopt_job.sql
var adoptJobSQL string

//go:embed query/adopt_items.sql
var adoptItemsSQL string

//go:embed query/adopt_collect.sql
var adoptCollectSQL string

//go:embed query/adopt_submission.sql
var adoptSubmissionSQL string

type adoptedWork struct {
	ID            string `db:"work_id"`
	PolicyID      string `db:"policy_id"`
	PolicyVersion int64  `db:"policy_version"`
	BoundaryID    string `db:"boundary_id"`
	Bytes         int64  `db:"content_bytes"`
}

// errNothingToAdopt ends the transaction of an adoption without a change.
var errNothingToAdopt = errors.New("nothing to adopt")

// AdoptJob implements reconcile.AccountStore.
func (s *Store) AdoptJob(ctx context.Context, now time.Time, a reconcile.Adoption) (reconcile.Adopted, error) {
	var out reconcile.Adopted
	err := s.write(ctx, "adopt job", func(ctx context.Context, t *tx) error {
		out = reconcile.Adopted{}
		if err := t.loadAdopted(ctx, a.Works); err != nil {
			return err
		}
		var jobs int
		if err := t.GetContext(ctx, &jobs, adoptKnownSQL, a.ProviderJobID, a.SubmissionID); err != nil {
			return err
		}
		if jobs > 0 {
			return fmt.Errorf("provider job %s is known by now: %w", a.ProviderJobID, reconcile.ErrMoved)
		}
		var known int64
		if err := t.GetContext(ctx, &known, adoptCountSQL); err != nil {
			return err
		}
		out.Unknown = int64(len(a.Works)) - known
		if out.Unknown > 0 && !a.WithoutUnknown {
			return errNothingToAdopt
		}
		var err error
		if out.Freed, err = t.freeUnsent(ctx, now); err != nil {
			return err
		}
		older, err := t.olderJobs(ctx, a)
		if err != nil {
			return err
		}
		out.Elsewhere = worksOf(older)
		if out.Elsewhere > 0 && a.FromOlder {
			if out.Elsewhere, err = t.takeOver(ctx, now, a, older); err != nil {
				return err
			}
		}
		if out.Elsewhere > 0 {
			return errNothingToAdopt
		}
		var works []adoptedWork
		if err := t.SelectContext(ctx, &works, s.dialect.locked(adoptLockWorksSQL, forUpdate)); err != nil {
			return err
		}
		out.Members, out.Done = int64(len(works)), known-int64(len(works))
		if len(works) == 0 {
			return errNothingToAdopt // and the unsent jobs stay as they are
		}
		out.JobID, err = t.insertAdopted(ctx, now, a, works)
		return err
	})
	if errors.Is(err, errNothingToAdopt) {
		return reconcile.Adopted{Done: out.Done, Unknown: out.Unknown, Elsewhere: out.Elsewhere}, nil
	}
	if err != nil {
		return reconcile.Adopted{}, err
	}
	return out, nil
}

// loadAdopted puts the works of a request body into a temporary table, by line.
func (t *tx) loadAdopted(ctx context.Context, works []string) error {
	if err := t.store.dialect.temporary(ctx, t.Tx, "adopted_works", "work_id TEXT PRIMARY KEY, line BIGINT NOT NULL"); err != nil {
		return err
	}
	var lines []int
	seen := map[string]bool{"": true}
	for i, w := range works {
		if !seen[w] {
			seen[w] = true
			lines = append(lines, i)
		}
	}
	row := func(i int) []any { return []any{works[lines[i]], lines[i] + 1} }
	return t.store.dialect.load(ctx, t.Tx, "adopted_works", []string{"work_id", "line"}, len(lines), row)
}

// freeUnsent gives up the unsent jobs that hold works of the adopted one, so
// that these can be members of it. The others of their works are pending again.
func (t *tx) freeUnsent(ctx context.Context, now time.Time) ([]string, error) {
	var jobs []string
	if err := t.SelectContext(ctx, &jobs, t.store.dialect.locked(adoptUnsentJobsSQL, forUpdate+" OF j")); err != nil {
		return nil, err
	}
	for _, id := range jobs {
		if _, err := t.ExecContext(ctx, adoptDropItemsSQL, micros(now), id); err != nil {
			return nil, err
		}
		if _, err := t.ExecContext(ctx, workUncollectSQL, id); err != nil {
			return nil, err
		}
		if err := changedOne(t.ExecContext(ctx, adoptAbandonSQL, id)); err != nil {
			return nil, err
		}
		if err := t.answerNotSent(ctx, now, id, "the job was given up"); err != nil {
			return nil, err
		}
		t.audit("job_abandon", "job:"+id, "its members were sent by another job, which is adopted")
	}
	return jobs, nil
}

// otherJob is a job that has works of an adopted one without an outcome.
type otherJob struct {
	JobID         string `db:"job_id"`
	State         string `db:"state"`
	ProviderJobID string `db:"provider_job_id"`
	SubmissionID  string `db:"submission_id"`
	Works         int64  `db:"works"`
}

// listed is when the provider made the job, by its own clock; zero for one that it
// does not show, or of which it does not tell.
func (j otherJob) listed(a reconcile.Adoption) (made time.Time, ok bool) {
	if made, ok = a.Listed[j.ProviderJobID]; !ok {
		made, ok = a.Listed[j.SubmissionID]
	}
	return made, ok
}

// olderJobs are the others that have works of an adopted one, in the order in which
// they are locked: the ledger does not know yet why these were sent again. What a
// ledger knew before its recovery is older than what it did not know, so only the
// provider's clock can tell that one is newer.
func (t *tx) olderJobs(ctx context.Context, a reconcile.Adoption) ([]otherJob, error) {
	var jobs []otherJob
	if err := t.SelectContext(ctx, &jobs, t.store.dialect.locked(adoptElsewhereSQL, forUpdate+" OF j")); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(jobs, func(j otherJob) bool {
		made, _ := j.listed(a)
		return !a.Created.IsZero() && made.After(a.Created)
	}), nil
}

func worksOf(jobs []otherJob) (n int64) {
	for _, j := range jobs {
		n += j.Works
	}
	return n
}

// takeOver has the works of an adopted job leave the older ones of which nothing
// more will be learned: they were sent again, so the newer job is theirs. It returns
// how many are left in jobs that have ended, or that the provider shows: these have
// answers, or will have.
func (t *tx) takeOver(ctx context.Context, now time.Time, a reconcile.Adoption, older []otherJob) (left int64, err error) {
	for _, j := range older {
		if _, shown := j.listed(a); shown || j.State == string(reconcile.JobEnded) {
			continue
		}
		if _, err := t.ExecContext(ctx, adoptTakeOverSQL, micros(now), j.JobID); err != nil {
			return 0, err
		}
	}
	if _, err := t.ExecContext(ctx, adoptFreeSQL); err != nil {
		return 0, err
	}
	if older, err = t.olderJobs(ctx, a); err != nil {
		return 0, err
	}
	return worksOf(older), nil
}

// insertAdopted makes the job, under its own id where the ledger has no other by
// that id.
func (t *tx) insertAdopted(ctx context.Context, now time.Time, a reconcile.Adoption, works []adoptedWork) (jobID string, err error) {
	jobID = a.JobID
	var r jobRow
	switch err := t.GetContext(ctx, &r, jobGetSQL, jobID); {
	case err == nil:
		jobID = t.store.newID()
	case !errors.Is(err, errNoRows):
		return "", err
	}
	first, bytes := works[0], int64(0)
	for _, w := range works {
		if w.PolicyID != first.PolicyID || w.PolicyVersion != first.PolicyVersion || w.BoundaryID != first.BoundaryID {
			return "", fmt.Errorf("provider job %s holds works of several policy versions: %w", a.ProviderJobID, reconcile.ErrRefused)
		}
		bytes += w.Bytes
	}
	created := a.Created
	if created.IsZero() || created.After(now) {
		created = now
	}
	_, err = t.ExecContext(ctx, adoptJobSQL, jobID, first.PolicyID, first.PolicyVersion, first.BoundaryID, len(works), bytes,
		a.Account, a.ProviderJobID, a.Status, micros(created), micros(now), microsOrNull(a.Expires))
	if err != nil {
		return "", err
	}
	if _, err := t.ExecContext(ctx, adoptItemsSQL, jobID); err != nil {
		return "", err
	}
	if _, err := t.ExecContext(ctx, adoptCollectSQL, jobID); err != nil {
		return "", err
	}
	evidence := "job " + a.ProviderJobID + ", adopted by the ids of its requests"
	_, err = t.ExecContext(ctx, adoptSubmissionSQL, a.SubmissionID, jobID, a.Account, fence(ctx), a.Manifest, len(a.Works), micros(created), nullIfEmpty(a.FileID), evidence, micros(now))
	t.audit("job_adopted", "job:"+jobID, fmt.Sprintf("submission %s is provider job %s, %d of %d lines are members", a.SubmissionID, a.ProviderJobID, len(works), len(a.Works)))
	return jobID, err
}
