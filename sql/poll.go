package sql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"rollcall/batch"
	"rollcall/reconcile"
)

//go:embed query/job_list_due_poll.sql
var jobListDuePollSQL string

//go:embed query/job_claim_poll.sql
var jobClaimPollSQL string

//go:embed query/job_delay_poll.sql
var jobDelayPollSQL string

//go:embed query/job_pull_poll.sql
var jobPullPollSQL string

//go:embed query/job_answer.sql
var jobAnswerSQL string

//go:embed query/job_miss.sql
var jobMissSQL string

//go:embed query/job_end.sql
var jobEndSQL string

//go:embed query/result_set_insert.sql
var resultSetInsertSQL string

// ClaimDueJobs implements reconcile.PollStore. A page is small, so each row is
// claimed by its own UPDATE: locked in one order, two claimers never wait for
// each other in a circle, and the guard on the UPDATE lets one of them have a
// row.
func (s *Store) ClaimDueJobs(ctx context.Context, now, next, horizon time.Time, limit int) ([]reconcile.Job, error) {
	var rows []jobRow
	err := s.write(ctx, "claim due jobs", func(ctx context.Context, t *tx) error {
		if err := t.gate(ctx, reconcile.PausePoll); err != nil {
			return err
		}
		rows = nil
		var due []string
		query := s.dialect.locked(jobListDuePollSQL, forUpdate+" OF j")
		if err := t.SelectContext(ctx, &due, query, micros(now), micros(horizon), limit); err != nil {
			return err
		}
		for _, id := range due {
			var r jobRow
			err := t.GetContext(ctx, &r, jobClaimPollSQL, micros(next), id, micros(now), micros(horizon))
			if errors.Is(err, errNoRows) {
				continue // another claimer has it
			}
			if err != nil {
				return err
			}
			rows = append(rows, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return jobsOf(rows), nil
}

// DelayPoll implements reconcile.PollStore.
func (s *Store) DelayPoll(ctx context.Context, jobID string, next time.Time) error {
	return s.write(ctx, "delay poll", func(ctx context.Context, t *tx) error {
		return changedOne(t.ExecContext(ctx, jobDelayPollSQL, micros(next), jobID))
	})
}

// PullPoll implements reconcile.PollStore.
func (s *Store) PullPoll(ctx context.Context, to time.Time, account, providerJobID string) (string, error) {
	var jobID string
	err := s.write(ctx, "pull poll", func(ctx context.Context, t *tx) error {
		jobID = ""
		err := t.GetContext(ctx, &jobID, jobPullPollSQL, micros(to), account, providerJobID)
		if errors.Is(err, errNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return jobID, nil
}

// RecordAnswer implements reconcile.PollStore.
func (s *Store) RecordAnswer(ctx context.Context, now time.Time, a reconcile.JobAnswer) error {
	return s.write(ctx, "record answer", func(ctx context.Context, t *tx) error {
		err := changedOne(t.ExecContext(ctx, jobAnswerSQL, a.Status, a.Counts.Total, a.Counts.Completed, a.Counts.Failed,
			micros(a.NextPoll), microsOrNull(a.Expires), flag(a.Incomplete), micros(now), microsOrNull(a.PullFrom), a.JobID))
		if err != nil {
			return fmt.Errorf("job %s: %w", a.JobID, err)
		}
		return nil
	})
}

// RecordMiss implements reconcile.PollStore.
func (s *Store) RecordMiss(ctx context.Context, now time.Time, jobID string, next time.Time) (reconcile.Job, error) {
	var r jobRow
	err := s.write(ctx, "record miss", func(ctx context.Context, t *tx) error {
		err := t.GetContext(ctx, &r, jobMissSQL, micros(now), micros(next), jobID)
		if errors.Is(err, errNoRows) {
			return fmt.Errorf("job %s: %w", jobID, reconcile.ErrMoved)
		}
		if err != nil {
			return err
		}
		t.audit("job_miss", "job:"+jobID, fmt.Sprintf("miss %d", r.Misses))
		return nil
	})
	if err != nil {
		return reconcile.Job{}, err
	}
	return r.job(), nil
}

// EndJob implements reconcile.PollStore.
func (s *Store) EndJob(ctx context.Context, now time.Time, e reconcile.JobEnd) error {
	return s.write(ctx, "end job", func(ctx context.Context, t *tx) error {
		job, err := t.lockJob(ctx, e.JobID, reconcile.JobSubmitted)
		if errors.Is(err, reconcile.ErrMoved) && job.State == reconcile.JobEnded {
			return nil // recorded before
		}
		if err != nil {
			return err
		}
		err = changedOne(t.ExecContext(ctx, jobEndSQL, string(e.Phase), e.Status, e.Counts.Total, e.Counts.Completed, e.Counts.Failed, micros(now), e.JobID))
		if err != nil {
			return err
		}
		sets := e.Files
		if e.Phase == batch.PhaseInvalid {
			// The faults are in the job's status; consume reads them like a file.
			sets = append(sets[:len(sets):len(sets)], batch.ResultFile{Channel: batch.ChannelFaults})
		}
		for _, f := range sets {
			if _, err := t.ExecContext(ctx, resultSetInsertSQL, e.JobID, string(f.Channel), nullIfEmpty(f.ID)); err != nil {
				return err
			}
		}
		t.audit("job_end", "job:"+e.JobID, fmt.Sprintf("%s, %d sets to read", e.Phase, len(sets)))
		return nil
	})
}
