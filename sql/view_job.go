package sql

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"rollcall/reconcile"
)

//go:embed query/view_jobs.sql
var viewJobsSQL string

//go:embed query/view_job.sql
var viewJobSQL string

//go:embed query/view_job_submissions.sql
var viewJobSubmissionsSQL string

//go:embed query/view_job_sets.sql
var viewJobSetsSQL string

//go:embed query/view_job_lines.sql
var viewJobLinesSQL string

//go:embed query/view_job_outcomes.sql
var viewJobOutcomesSQL string

//go:embed query/view_job_findings.sql
var viewJobFindingsSQL string

type jobViewRow struct {
	JobID         string  `db:"job_id"`
	State         string  `db:"state"`
	PolicyID      string  `db:"policy_id"`
	PolicyVersion int64   `db:"policy_version"`
	Processor     string  `db:"processor"`
	Account       string  `db:"account"`
	Host          string  `db:"host"`
	Region        string  `db:"region"`
	Items         int64   `db:"item_count"`
	ProviderJobID *string `db:"provider_job_id"`
	Status        *string `db:"provider_status"`
	Called        int64   `db:"called"`
	Total         *int64  `db:"provider_total"`
	Completed     *int64  `db:"provider_completed"`
	Failed        *int64  `db:"provider_failed"`
	CreatedUS     int64   `db:"created_us"`
	SubmittedUS   *int64  `db:"submitted_us"`
	NextSubmitUS  *int64  `db:"next_submit_us"`
	WaitsFor      *string `db:"waits_for"`
	NextPollUS    *int64  `db:"next_poll_us"`
	EndedUS       *int64  `db:"ended_us"`
	ConsumedUS    *int64  `db:"consumed_us"`
	Uncertain     int64   `db:"uncertain"`
	ContentBytes  int64   `db:"content_bytes"`
}

func (r jobViewRow) view() reconcile.JobView {
	return reconcile.JobView{
		JobID: r.JobID, State: reconcile.JobState(r.State), Uncertain: r.Uncertain > 0, Policy: policyName(r.PolicyID, r.PolicyVersion),
		Processor: r.Processor, Account: r.Account, Host: r.Host, Region: r.Region, Items: r.Items,
		ProviderJobID: orEmpty(r.ProviderJobID), Called: r.Called == 1, Status: orEmpty(r.Status), Total: orZero(r.Total), Completed: orZero(r.Completed), Failed: orZero(r.Failed),
		CreatedAt: fromMicros(r.CreatedUS), SubmittedAt: timePointer(r.SubmittedUS), NextSubmit: timePointer(r.NextSubmitUS), WaitsFor: reconcile.LimitWord(orEmpty(r.WaitsFor)),
		NextPoll: timePointer(r.NextPollUS), EndedAt: timePointer(r.EndedUS), ConsumedAt: timePointer(r.ConsumedUS),
	}
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// Jobs implements reconcile.ViewStore.
func (s *Store) Jobs(ctx context.Context, states []reconcile.JobState, limit int) ([]reconcile.JobView, error) {
	names := make([]string, len(states))
	for i, state := range states {
		names[i] = string(state)
	}
	var rows []jobViewRow
	if err := s.ro.SelectContext(ctx, &rows, viewJobsSQL, strings.Join(names, ","), micros(s.opts.Now()), limit); err != nil {
		return nil, fmt.Errorf("list jobs: %w", scrub(err))
	}
	out := make([]reconcile.JobView, 0, len(rows))
	for _, r := range rows {
		out = append(out, r.view())
	}
	return out, nil
}

// JobHistory implements reconcile.ViewStore.
func (s *Store) JobHistory(ctx context.Context, id string) (reconcile.JobHistory, error) {
	var h reconcile.JobHistory
	err := s.read(ctx, "job history", func(ctx context.Context, tx *sqlx.Tx) error {
		now := s.opts.Now()
		var r jobViewRow
		if err := tx.GetContext(ctx, &r, viewJobSQL, id, micros(now)); err != nil {
			return notFound("job", id, err)
		}
		h.JobView, h.ContentBytes = r.view(), r.ContentBytes
		var err error
		if h.Submissions, err = readSubmissions(ctx, tx, r.JobID, now); err != nil {
			return err
		}
		if h.Sets, err = readSets(ctx, tx, r.JobID); err != nil {
			return err
		}
		if h.Outcomes, err = countBy[reconcile.ItemOutcome](ctx, tx, viewJobOutcomesSQL, r.JobID); err != nil {
			return err
		}
		var found []findingRow
		if err := tx.SelectContext(ctx, &found, viewJobFindingsSQL, r.JobID); err != nil {
			return err
		}
		h.Findings = findings(found)
		return nil
	})
	return h, err
}

func readSubmissions(ctx context.Context, tx *sqlx.Tx, jobID string, now time.Time) ([]reconcile.SubmissionView, error) {
	var rows []struct {
		ID         string  `db:"submission_id"`
		Attempt    int64   `db:"attempt"`
		Lines      int64   `db:"line_count"`
		Bytes      *int64  `db:"body_bytes"`
		IntentUS   int64   `db:"intent_us"`
		DeadlineUS int64   `db:"send_deadline_us"`
		FileID     *string `db:"input_file_id"`
		Outcome    *string `db:"outcome"`
		Evidence   *string `db:"evidence"`
		ClosedUS   *int64  `db:"closed_us"`
		LastLookUS *int64  `db:"last_look_us"`
		FencedUS   *int64  `db:"fenced_us"`
		lookRow
		costRow
	}
	if err := tx.SelectContext(ctx, &rows, viewJobSubmissionsSQL, jobID); err != nil {
		return nil, err
	}
	out := make([]reconcile.SubmissionView, 0, len(rows))
	for _, r := range rows {
		out = append(out, reconcile.SubmissionView{
			SubmissionID: r.ID, Attempt: r.Attempt, Lines: r.Lines, Bytes: orZero(r.Bytes), IntentAt: fromMicros(r.IntentUS), SendBy: fromMicros(r.DeadlineUS),
			InputFileID: orEmpty(r.FileID), Outcome: submissionOutcome(r.Outcome, r.FileID, r.DeadlineUS, micros(now)), Evidence: orEmpty(r.Evidence), ClosedAt: timePointer(r.ClosedUS),
			LookView: r.lookRow.view(), LastLook: timePointer(r.LastLookUS), FencedAt: timePointer(r.FencedUS), Money: r.costRow.view(),
		})
	}
	return out, nil
}

func readSets(ctx context.Context, tx *sqlx.Tx, jobID string) ([]reconcile.SetView, error) {
	var sets []struct {
		Channel string  `db:"channel"`
		State   string  `db:"state"`
		FileID  *string `db:"file_id"`
		Lines   *int64  `db:"line_count"`
		Bytes   *int64  `db:"byte_count"`
	}
	if err := tx.SelectContext(ctx, &sets, viewJobSetsSQL, jobID); err != nil {
		return nil, err
	}
	var lines []struct {
		Channel string `db:"channel"`
		nameCount
	}
	if err := tx.SelectContext(ctx, &lines, viewJobLinesSQL, jobID); err != nil {
		return nil, err
	}
	out := make([]reconcile.SetView, 0, len(sets))
	for _, r := range sets {
		v := reconcile.SetView{Channel: r.Channel, State: r.State, FileID: orEmpty(r.FileID), Lines: orZero(r.Lines), Bytes: orZero(r.Bytes), Became: map[string]int64{}}
		for _, l := range lines {
			if l.Channel == r.Channel {
				v.Became[l.Name] = l.N
			}
		}
		out = append(out, v)
	}
	return out, nil
}
