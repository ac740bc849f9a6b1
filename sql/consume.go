package sql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
)

//go:embed query/set_claim_jobs.sql
var setClaimJobsSQL string

//go:embed query/set_submission.sql
var setSubmissionSQL string

//go:embed query/set_list.sql
var setListSQL string

//go:embed query/set_get.sql
var setGetSQL string

//go:embed query/set_finish.sql
var setFinishSQL string

//go:embed query/set_miss.sql
var setMissSQL string

//go:embed query/set_lose.sql
var setLoseSQL string

//go:embed query/set_counts.sql
var setCountsSQL string

//go:embed query/set_reopen.sql
var setReopenSQL string

//go:embed query/line_drop_job.sql
var lineDropJobSQL string

//go:embed query/job_reread.sql
var jobRereadSQL string

//go:embed query/line_drop.sql
var lineDropSQL string

//go:embed query/line_count.sql
var lineCountSQL string

//go:embed query/line_texts.postgres.sql
var lineTextsPostgresSQL string

//go:embed query/line_texts.sqlite.sql
var lineTextsSQLiteSQL string

//go:embed query/line_members.postgres.sql
var lineMembersPostgresSQL string

//go:embed query/line_members.sqlite.sql
var lineMembersSQLiteSQL string

//go:embed query/set_found.sql
var setFoundSQL string

// ClaimEndedJobs implements reconcile.ConsumeStore.
func (s *Store) ClaimEndedJobs(ctx context.Context, now, next time.Time, limit int) ([]reconcile.Job, error) {
	var jobs []reconcile.Job
	err := s.write(ctx, "claim ended jobs", func(ctx context.Context, t *tx) error {
		var rows []jobRow
		if err := t.SelectContext(ctx, &rows, setClaimJobsSQL, micros(next), micros(now), limit); err != nil {
			return err
		}
		jobs = jobsOf(rows)
		for i := range jobs {
			var sent struct {
				ID string `db:"submission_id"`
				priceRow
			}
			if err := t.GetContext(ctx, &sent, setSubmissionSQL, jobs[i].ID); err != nil && !errors.Is(err, errNoRows) {
				return fmt.Errorf("accepted submission of job %s: %w", jobs[i].ID, err)
			}
			jobs[i].SubmissionID, jobs[i].Price = sent.ID, sent.price()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

type setRow struct {
	JobID   string  `db:"job_id"`
	Channel string  `db:"channel"`
	State   string  `db:"state"`
	FileID  *string `db:"file_id"`
	Lines   *int64  `db:"line_count"`
	MAC     *string `db:"mac"`
}

// ResultSets implements reconcile.ConsumeStore.
func (s *Store) ResultSets(ctx context.Context, jobID string) ([]reconcile.ResultSet, error) {
	var rows []setRow
	if err := s.ro.SelectContext(ctx, &rows, setListSQL, jobID); err != nil {
		return nil, fmt.Errorf("result sets of job %s: %w", jobID, scrub(err))
	}
	sets := make([]reconcile.ResultSet, 0, len(rows))
	for _, r := range rows {
		sets = append(sets, reconcile.ResultSet{JobID: r.JobID, Channel: batch.Channel(r.Channel), State: r.State, FileID: orEmpty(r.FileID)})
	}
	return sets, nil
}

// lockSet reads a set and keeps others from changing it. A set that is not
// being read any more is ErrMoved.
func (t *tx) lockSet(ctx context.Context, jobID string, channel batch.Channel) (setRow, error) {
	var r setRow
	err := t.GetContext(ctx, &r, t.store.dialect.locked(setGetSQL, forUpdate), jobID, string(channel))
	if errors.Is(err, errNoRows) {
		return r, fmt.Errorf("set %s of job %s: %w", channel, jobID, reconcile.ErrNotFound)
	}
	if err != nil {
		return r, fmt.Errorf("lock set %s of job %s: %w", channel, jobID, err)
	}
	if r.State != "staging" {
		return r, fmt.Errorf("set %s of job %s is %s: %w", channel, jobID, r.State, reconcile.ErrMoved)
	}
	return r, nil
}

// RestartResultSet implements reconcile.ConsumeStore.
func (s *Store) RestartResultSet(ctx context.Context, jobID string, channel batch.Channel) error {
	return s.write(ctx, "restart result set", func(ctx context.Context, t *tx) error {
		if _, err := t.lockSet(ctx, jobID, channel); err != nil {
			return err
		}
		_, err := t.ExecContext(ctx, lineDropSQL, jobID, string(channel))
		return err
	})
}

type textRow struct {
	WorkID     string  `db:"work_id"`
	Line       int64   `db:"line"`
	ReportID   string  `db:"report_id"`
	ContentMAC string  `db:"content_mac"`
	Encrypted  []byte  `db:"encrypted"`
	KeyID      *string `db:"key_id"`
}

// MemberTexts implements reconcile.ConsumeStore. A member whose text was
// purged has none.
func (s *Store) MemberTexts(ctx context.Context, jobID string, works []string) (map[string]reconcile.RequestItem, error) {
	list, err := json.Marshal(works)
	if err != nil {
		return nil, fmt.Errorf("member texts of job %s: %w", jobID, err)
	}
	query := lineTextsPostgresSQL
	if s.dialect != postgres {
		query = lineTextsSQLiteSQL
	}
	var rows []textRow
	if err := s.ro.SelectContext(ctx, &rows, query, jobID, string(list)); err != nil {
		return nil, fmt.Errorf("member texts of job %s: %w", jobID, scrub(err))
	}
	members := make(map[string]reconcile.RequestItem, len(rows))
	for _, r := range rows {
		members[r.WorkID] = reconcile.RequestItem{Line: r.Line, WorkID: r.WorkID, ReportID: r.ReportID, ContentMAC: r.ContentMAC,
			Text: keyring.Encrypted{KeyID: orEmpty(r.KeyID), Bytes: r.Encrypted}}
	}
	return members, nil
}

// MemberLines implements reconcile.ConsumeStore.
func (s *Store) MemberLines(ctx context.Context, jobID string, lines []int64) (map[int64]string, error) {
	list, err := json.Marshal(lines)
	if err != nil {
		return nil, fmt.Errorf("member lines of job %s: %w", jobID, err)
	}
	query := lineMembersPostgresSQL
	if s.dialect != postgres {
		query = lineMembersSQLiteSQL
	}
	var rows []struct {
		Line   int64  `db:"line"`
		WorkID string `db:"work_id"`
	}
	if err := s.ro.SelectContext(ctx, &rows, query, jobID, string(list)); err != nil {
		return nil, fmt.Errorf("member lines of job %s: %w", jobID, scrub(err))
	}
	members := make(map[int64]string, len(rows))
	for _, r := range rows {
		members[r.Line] = r.WorkID
	}
	return members, nil
}

var resultLineColumns = []string{"job_id", "channel", "line", "work_id", "line_mac", "byte_count", "outcome", "code", "label", "evidence",
	"model", "vendor", "input_tokens", "output_tokens", "encrypted", "key_id", "payload_mac", "disposition"}

// StageLines implements reconcile.ConsumeStore.
func (s *Store) StageLines(ctx context.Context, jobID string, channel batch.Channel, lines []reconcile.ResultLine) error {
	return s.write(ctx, "stage lines", func(ctx context.Context, t *tx) error {
		if _, err := t.lockSet(ctx, jobID, channel); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, setFoundSQL, jobID, string(channel)); err != nil {
			return err
		}
		err := s.dialect.load(ctx, t.Tx, "result_lines", resultLineColumns, len(lines), func(i int) []any {
			l := &lines[i]
			var encrypted any // a nil slice would be an empty value, not NULL
			if l.Content.KeyID != "" {
				encrypted = l.Content.Bytes
			}
			return []any{jobID, string(channel), l.Line, nullIfEmpty(l.WorkID), l.LineMAC, l.Bytes, string(l.Outcome), l.Code,
				nullIfEmpty(l.Label), nullIfEmpty(l.Evidence), l.Model, l.Vendor, l.InputTokens, l.OutputTokens,
				encrypted, nullIfEmpty(l.Content.KeyID), nullIfEmpty(l.PayloadMAC), string(l.Disposition)}
		})
		if isUnique(err) {
			return fmt.Errorf("set %s of job %s is being read by somebody else: %w", channel, jobID, reconcile.ErrMoved)
		}
		return err
	})
}

// FinishResultSet implements reconcile.ConsumeStore.
func (s *Store) FinishResultSet(ctx context.Context, now time.Time, w reconcile.WholeSet) error {
	return s.write(ctx, "finish result set", func(ctx context.Context, t *tx) error {
		set, err := t.lockSet(ctx, w.JobID, w.Channel)
		if set.State == "whole" && orEmpty(set.MAC) == w.MAC && *set.Lines == w.Lines {
			return nil // done before
		}
		if err != nil {
			return err
		}
		var staged int64
		if err := t.GetContext(ctx, &staged, lineCountSQL, w.JobID, string(w.Channel)); err != nil {
			return err
		}
		if staged != w.Lines {
			return fmt.Errorf("set %s of job %s has %d lines, of which %d are staged: %w", w.Channel, w.JobID, w.Lines, staged, reconcile.ErrMoved)
		}
		if err := changedOne(t.ExecContext(ctx, setFinishSQL, w.Lines, w.Bytes, w.MAC, micros(now), w.JobID, string(w.Channel))); err != nil {
			return err
		}
		t.audit("result_set_whole", "job:"+w.JobID, fmt.Sprintf("%s: %d lines, %d bytes", w.Channel, w.Lines, w.Bytes))
		return nil
	})
}

// MissResultSet implements reconcile.ConsumeStore.
func (s *Store) MissResultSet(ctx context.Context, now time.Time, jobID string, channel batch.Channel) (since time.Time, misses int64, err error) {
	var r struct {
		MissingUS int64 `db:"missing_us"`
		Misses    int64
	}
	err = s.write(ctx, "miss result set", func(ctx context.Context, t *tx) error {
		err := t.GetContext(ctx, &r, setMissSQL, micros(now), jobID, string(channel))
		if errors.Is(err, errNoRows) {
			return fmt.Errorf("set %s of job %s: %w", channel, jobID, reconcile.ErrMoved)
		}
		return err
	})
	if err != nil {
		return time.Time{}, 0, err
	}
	return fromMicros(r.MissingUS), r.Misses, nil
}

// LoseResultSet implements reconcile.ConsumeStore.
func (s *Store) LoseResultSet(ctx context.Context, _ time.Time, jobID string, channel batch.Channel) error {
	return s.write(ctx, "lose result set", func(ctx context.Context, t *tx) error {
		set, err := t.lockSet(ctx, jobID, channel)
		if set.State == "lost" {
			return nil // done before
		}
		if err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, lineDropSQL, jobID, string(channel)); err != nil {
			return err
		}
		if err := changedOne(t.ExecContext(ctx, setLoseSQL, jobID, string(channel))); err != nil {
			return err
		}
		t.audit("result_set_lost", "job:"+jobID, string(channel))
		return nil
	})
}

type countsRow struct {
	Lines   int64 `db:"lines"`
	Told    int64 `db:"told"`
	Lost    int64 `db:"lost"`
	Shorter int64 `db:"shorter"`
	Judged  int64 `db:"judged"`
}

// ResultCounts implements reconcile.ConsumeStore.
func (s *Store) ResultCounts(ctx context.Context, jobID string) (reconcile.ResultCounts, error) {
	var r countsRow
	if err := s.ro.GetContext(ctx, &r, setCountsSQL, jobID); err != nil {
		return reconcile.ResultCounts{}, fmt.Errorf("count results of job %s: %w", jobID, scrub(err))
	}
	return reconcile.ResultCounts(r), nil
}

// ReopenResultSets implements reconcile.ConsumeStore. The job is locked as for
// judging, so that of the two one finds what the other did.
func (s *Store) ReopenResultSets(ctx context.Context, now time.Time, jobID string, next time.Time, finding reconcile.Event) error {
	return s.write(ctx, "reopen result sets", func(ctx context.Context, t *tx) error {
		if _, err := t.lockJob(ctx, jobID, reconcile.JobEnded); err != nil {
			return err
		}
		var had countsRow
		if err := t.GetContext(ctx, &had, setCountsSQL, jobID); err != nil {
			return err
		}
		if had.Judged > 0 {
			return fmt.Errorf("job %s has %d members with an outcome: %w", jobID, had.Judged, reconcile.ErrMoved)
		}
		for _, query := range []string{lineDropJobSQL, setReopenSQL} {
			if _, err := t.ExecContext(ctx, query, jobID); err != nil {
				return err
			}
		}
		if err := changedOne(t.ExecContext(ctx, jobRereadSQL, micros(next), micros(now), jobID)); err != nil {
			return err
		}
		t.audit("result_sets_reopened", "job:"+jobID, fmt.Sprintf("%d lines, the provider counts %d", had.Lines, had.Told))
		return t.openFinding(ctx, now, finding)
	})
}
