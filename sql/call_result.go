package sql

import (
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"time"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
)

//go:embed query/call_answers.sql
var callAnswersSQL string

//go:embed query/call_set_insert.sql
var callSetInsertSQL string

//go:embed query/call_staged.sql
var callStagedSQL string

//go:embed query/call_line_macs.sql
var callLineMACsSQL string

type stagedRow struct {
	Last      int64 `db:"last"`
	Lines     int64 `db:"lines"`
	Bytes     int64 `db:"bytes"`
	Succeeded int64 `db:"succeeded"`
}

// answeredJob locks a job all of whose calls have an answer, and says what of
// them is staged.
func (t *tx) answeredJob(ctx context.Context, jobID string) (reconcile.Job, stagedRow, error) {
	var staged stagedRow
	job, err := t.lockJob(ctx, jobID, reconcile.JobSubmitted)
	if err != nil {
		return job, staged, err
	}
	first, err := t.firstCall(ctx, jobID)
	if err != nil {
		return job, staged, err
	}
	if first != nil {
		return job, staged, fmt.Errorf("job %s has calls without an answer: %w", jobID, reconcile.ErrMoved)
	}
	return job, staged, t.GetContext(ctx, &staged, callStagedSQL, jobID, string(batch.ChannelOutput))
}

// BeginCallResults implements reconcile.CallStore.
func (s *Store) BeginCallResults(ctx context.Context, jobID string) (after int64, err error) {
	err = s.write(ctx, "begin call results", func(ctx context.Context, t *tx) error {
		_, staged, err := t.answeredJob(ctx, jobID)
		if err != nil {
			return err
		}
		after = staged.Last
		_, err = t.ExecContext(ctx, callSetInsertSQL, jobID, string(batch.ChannelOutput))
		return err
	})
	return after, err
}

// CallAnswers implements reconcile.CallStore.
func (s *Store) CallAnswers(ctx context.Context, jobID string, after int64, limit int) ([]reconcile.CalledMember, error) {
	var rows []struct {
		WorkID       string  `db:"work_id"`
		Line         int64   `db:"line"`
		Segment      int64   `db:"segment"`
		Segments     int64   `db:"segments"`
		Outcome      string  `db:"outcome"`
		Code         string  `db:"code"`
		Model        string  `db:"model"`
		Encrypted    []byte  `db:"encrypted"`
		KeyID        *string `db:"key_id"`
		InputTokens  int64   `db:"input_tokens"`
		OutputTokens int64   `db:"output_tokens"`
	}
	if err := s.ro.SelectContext(ctx, &rows, callAnswersSQL, jobID, after, limit); err != nil {
		return nil, fmt.Errorf("answers of job %s: %w", jobID, scrub(err))
	}
	var out []reconcile.CalledMember
	for _, r := range rows {
		if len(out) == 0 || out[len(out)-1].WorkID != r.WorkID {
			out = append(out, reconcile.CalledMember{WorkID: r.WorkID, Line: r.Line})
		}
		m := &out[len(out)-1]
		m.Segments = append(m.Segments, reconcile.CallAnswer{
			Segments: r.Segments, Content: keyring.Encrypted{KeyID: orEmpty(r.KeyID), Bytes: r.Encrypted},
			Result: batch.Result{Outcome: batch.Outcome(r.Outcome), Code: r.Code, Model: r.Model, InputTokens: r.InputTokens, OutputTokens: r.OutputTokens},
		})
	}
	return out, nil
}

// EndCalls implements reconcile.CallStore.
func (s *Store) EndCalls(ctx context.Context, now time.Time, jobID string, mac func() hash.Hash) error {
	return s.write(ctx, "end calls", func(ctx context.Context, t *tx) error {
		job, staged, err := t.answeredJob(ctx, jobID)
		if errors.Is(err, reconcile.ErrMoved) && job.State == reconcile.JobEnded {
			return nil // done before
		}
		if err != nil {
			return err
		}
		var members struct{ Open, Unnumbered int64 }
		if err := t.GetContext(ctx, &members, itemCountOpenSQL, jobID); err != nil {
			return err
		}
		if members.Open != staged.Lines {
			return fmt.Errorf("job %s has %d open members, of which %d are staged: %w", jobID, members.Open, staged.Lines, reconcile.ErrMoved)
		}
		sum, err := t.digestLines(ctx, jobID, mac())
		if err != nil {
			return err
		}
		if err := changedOne(t.ExecContext(ctx, setFinishSQL, staged.Lines, staged.Bytes, sum, micros(now), jobID, string(batch.ChannelOutput))); err != nil {
			return err
		}
		err = changedOne(t.ExecContext(ctx, jobEndSQL, string(batch.PhaseEnded), "called", staged.Lines, staged.Succeeded, staged.Lines-staged.Succeeded, micros(now), jobID))
		if err != nil {
			return err
		}
		t.audit("job_end", "job:"+jobID, fmt.Sprintf("all calls have an answer, %d lines", staged.Lines))
		return nil
	})
}

// digestLines is the digest of all staged lines of a job.
func (t *tx) digestLines(ctx context.Context, jobID string, mac hash.Hash) (string, error) {
	rows, err := t.QueryxContext(ctx, callLineMACsSQL, jobID, string(batch.ChannelOutput))
	if err != nil {
		return "", err
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return "", err
		}
		fmt.Fprintln(mac, line)
	}
	return hex.EncodeToString(mac.Sum(nil)), errors.Join(rows.Err(), rows.Close())
}
