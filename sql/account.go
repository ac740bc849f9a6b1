package sql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"rollcall/reconcile"
)

//go:embed query/submission_list_uncertain.sql
var submissionListUncertainSQL string

//go:embed query/submission_uncertain.sql
var submissionUncertainSQL string

//go:embed query/submission_look.sql
var submissionLookSQL string

//go:embed query/submission_fence.sql
var submissionFenceSQL string

//go:embed query/landmark_list.sql
var landmarkListSQL string

//go:embed query/probe_insert.sql
var probeInsertSQL string

//go:embed query/standing_job.sql
var standingSQL string

//go:embed query/surplus_insert.sql
var surplusInsertSQL string

//go:embed query/surplus_open.sql
var surplusOpenSQL string

//go:embed query/surplus_gone.sql
var surplusGoneSQL string

//go:embed query/ledger_raise.sql
var ledgerRaiseSQL string

// LedgerIdentity implements reconcile.AccountStore.
func (s *Store) LedgerIdentity(ctx context.Context) (reconcile.LedgerIdentity, error) {
	var row struct {
		LedgerID   string `db:"ledger_id"`
		Generation int64  `db:"generation"`
		KeyCheck   string `db:"key_check"`
	}
	if err := s.ro.GetContext(ctx, &row, ledgerGetSQL); err != nil {
		return reconcile.LedgerIdentity{}, fmt.Errorf("read the ledger's identity: %w", scrub(err))
	}
	return reconcile.LedgerIdentity{LedgerID: row.LedgerID, Generation: row.Generation}, nil
}

type uncertainRow struct {
	ID            string  `db:"submission_id"`
	JobID         string  `db:"job_id"`
	Attempt       int64   `db:"attempt"`
	Lines         int64   `db:"line_count"`
	Manifest      string  `db:"manifest_mac"`
	IntentUS      int64   `db:"intent_us"`
	DeadlineUS    int64   `db:"send_deadline_us"`
	Account       string  `db:"account"`
	FileID        *string `db:"input_file_id"`
	BodyBytes     *int64  `db:"body_bytes"`
	BodyMAC       *string `db:"body_mac"`
	Looks         int64   `db:"looks"`
	FencedUS      *int64  `db:"fenced_us"`
	Obstacle      *string `db:"obstacle"`
	PolicyID      string  `db:"policy_id"`
	PolicyVersion int64   `db:"policy_version"`
}

func (r uncertainRow) uncertain() reconcile.Uncertain {
	return reconcile.Uncertain{
		Submission: reconcile.Submission{ID: r.ID, JobID: r.JobID, Attempt: r.Attempt, Lines: r.Lines, Manifest: r.Manifest,
			IntentAt: fromMicros(r.IntentUS), SendBy: fromMicros(r.DeadlineUS)},
		Policy:  reconcile.PolicyKey{ID: r.PolicyID, Version: r.PolicyVersion},
		Account: r.Account, FileID: orEmpty(r.FileID), BodyMAC: orEmpty(r.BodyMAC), BodyBytes: orZero(r.BodyBytes), Looks: r.Looks, FencedAt: fromNull(r.FencedUS), Obstacle: orEmpty(r.Obstacle),
	}
}

// DueUncertain implements reconcile.AccountStore.
func (s *Store) DueUncertain(ctx context.Context, now time.Time, limit int) ([]reconcile.Uncertain, error) {
	var rows []uncertainRow
	if err := s.ro.SelectContext(ctx, &rows, submissionListUncertainSQL, micros(now), limit); err != nil {
		return nil, fmt.Errorf("list uncertain submissions: %w", scrub(err))
	}
	out := make([]reconcile.Uncertain, 0, len(rows))
	for _, r := range rows {
		out = append(out, r.uncertain())
	}
	return out, nil
}

// Uncertain implements reconcile.AccountStore.
func (s *Store) Uncertain(ctx context.Context, jobID string) (reconcile.Uncertain, error) {
	var r uncertainRow
	err := s.ro.GetContext(ctx, &r, submissionUncertainSQL, jobID)
	if errors.Is(err, errNoRows) {
		return reconcile.Uncertain{}, fmt.Errorf("open submission of job %s: %w", jobID, reconcile.ErrNotFound)
	}
	if err != nil {
		return reconcile.Uncertain{}, fmt.Errorf("read open submission: %w", scrub(err))
	}
	return r.uncertain(), nil
}

// Landmarks implements reconcile.AccountStore.
func (s *Store) Landmarks(ctx context.Context, account string, since time.Time) ([]reconcile.Landmark, error) {
	var rows []struct {
		ID     string `db:"provider_job_id"`
		MadeUS int64  `db:"made_us"`
		Probe  int64  `db:"probe"`
	}
	if err := s.ro.SelectContext(ctx, &rows, landmarkListSQL, account, micros(since)); err != nil {
		return nil, fmt.Errorf("list landmarks: %w", scrub(err))
	}
	out := make([]reconcile.Landmark, 0, len(rows))
	for _, r := range rows {
		out = append(out, reconcile.Landmark{ProviderJobID: r.ID, MadeAt: fromMicros(r.MadeUS), Probe: r.Probe == 1})
	}
	return out, nil
}

// RecordProbe implements reconcile.AccountStore.
func (s *Store) RecordProbe(ctx context.Context, account, providerJobID string, made time.Time) error {
	return s.write(ctx, "record probe", func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, probeInsertSQL, account, providerJobID, micros(made))
		return err
	})
}

// RecordLook implements reconcile.AccountStore.
func (s *Store) RecordLook(ctx context.Context, l reconcile.Look) error {
	return s.write(ctx, "record look", func(ctx context.Context, t *tx) error {
		return t.noteLook(ctx, l)
	})
}

func (t *tx) noteLook(ctx context.Context, l reconcile.Look) error {
	return changedOne(t.ExecContext(ctx, submissionLookSQL, flag(l.Complete), micros(l.At), micros(l.Next), nullIfEmpty(l.Obstacle), l.SubmissionID))
}

// CommitRepeat implements reconcile.AccountStore.
func (s *Store) CommitRepeat(ctx context.Context, l reconcile.Look, account string, policy reconcile.PolicyKey) error {
	return s.write(ctx, "commit repeat", func(ctx context.Context, t *tx) error {
		if err := t.gate(ctx, reconcile.PauseDispatch, "account:"+account, "policy:"+policy.ID); err != nil {
			return err
		}
		if _, err := t.approvedPolicy(ctx, policy); err != nil {
			return err
		}
		return t.noteLook(ctx, l)
	})
}

// RecordFence implements reconcile.AccountStore.
func (s *Store) RecordFence(ctx context.Context, now time.Time, submissionID string, next time.Time) error {
	return s.write(ctx, "record fence", func(ctx context.Context, t *tx) error {
		t.audit("submission_fence", "submission:"+submissionID, "its input file is deleted")
		return changedOne(t.ExecContext(ctx, submissionFenceSQL, micros(now), micros(next), submissionID))
	})
}

// RecordAbsent implements reconcile.AccountStore.
func (s *Store) RecordAbsent(ctx context.Context, now time.Time, a reconcile.Absence) error {
	outcome := reconcile.SubmissionProvenAbsent
	if a.Abandoned {
		outcome = reconcile.SubmissionAbandoned
	}
	return s.write(ctx, "record absent", func(ctx context.Context, t *tx) error {
		row, job, closed, err := t.closeSubmission(ctx, now, closing{a.SubmissionID, string(outcome), a.Evidence, true, ""})
		if err != nil {
			return err
		}
		if !closed {
			if *row.Outcome == string(outcome) {
				return nil // recorded before
			}
			return fmt.Errorf("submission %s is %s already: %w", a.SubmissionID, *row.Outcome, reconcile.ErrMoved)
		}
		t.audit("submission_absent", "job:"+job.ID, fmt.Sprintf("submission %s: %s", a.SubmissionID, a.Evidence))
		return changedOne(t.ExecContext(ctx, jobDelaySubmitSQL, micros(a.NextSubmit), job.ID))
	})
}

// Standings implements reconcile.AccountStore.
func (s *Store) Standings(ctx context.Context, refs []reconcile.ObjectRef) ([]reconcile.Standing, error) {
	out := make([]reconcile.Standing, 0, len(refs))
	err := s.read(ctx, "standings", func(ctx context.Context, tx *sqlx.Tx) error {
		for _, ref := range refs {
			var r struct {
				Known        int64   `db:"known"`
				SubmissionID *string `db:"submission_id"`
				Outcome      *string `db:"outcome"`
				InputFileID  *string `db:"input_file_id"`
				JobState     *string `db:"job_state"`
				FoundUS      *int64  `db:"found_us"`
				GoneUS       *int64  `db:"gone_us"`
			}
			if err := tx.GetContext(ctx, &r, standingSQL, ref.ID, ref.SubmissionID, ref.FileID, ref.Account, string(ref.Kind)); err != nil {
				return err
			}
			out = append(out, reconcile.Standing{
				Known: ref.Kind == reconcile.ObjectJob && r.Known > 0, SubmissionID: orEmpty(r.SubmissionID),
				Outcome: reconcile.SubmissionOutcome(orEmpty(r.Outcome)), JobState: reconcile.JobState(orEmpty(r.JobState)),
				InputFileID: orEmpty(r.InputFileID), NotedSurplus: r.FoundUS != nil, Gone: r.GoneUS != nil,
			})
		}
		return nil
	})
	return out, err
}

// NoteSurplus implements reconcile.AccountStore.
func (s *Store) NoteSurplus(ctx context.Context, now time.Time, o reconcile.Surplus, finding reconcile.Event) error {
	return s.write(ctx, "note surplus", func(ctx context.Context, t *tx) error {
		res, err := t.ExecContext(ctx, surplusInsertSQL, o.Account, string(o.Kind), o.ID, nullIfEmpty(o.SubmissionID), o.Why, micros(now))
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err // noted before
		}
		t.audit("surplus", string(o.Kind)+":"+o.ID, o.Why)
		return t.openFinding(ctx, now, finding)
	})
}

// OpenSurplus implements reconcile.AccountStore.
func (s *Store) OpenSurplus(ctx context.Context, account string, kind reconcile.ObjectKind) ([]string, error) {
	var ids []string
	if err := s.ro.SelectContext(ctx, &ids, surplusOpenSQL, account, string(kind)); err != nil {
		return nil, fmt.Errorf("list surplus objects: %w", scrub(err))
	}
	return ids, nil
}

// MarkGone implements reconcile.AccountStore.
func (s *Store) MarkGone(ctx context.Context, now time.Time, account string, kind reconcile.ObjectKind, id string) error {
	return s.write(ctx, "mark gone", func(ctx context.Context, t *tx) error {
		res, err := t.ExecContext(ctx, surplusGoneSQL, micros(now), account, string(kind), id)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		t.audit("surplus_gone", string(kind)+":"+id, "deleted at the provider")
		return nil
	})
}

// RaiseGeneration implements reconcile.AccountStore.
func (s *Store) RaiseGeneration(ctx context.Context, now time.Time, from int64, actor, reason string) error {
	return s.write(ctx, "raise generation", func(ctx context.Context, t *tx) error {
		t.audit("generation", fmt.Sprintf("generation:%d", from+1), fmt.Sprintf("by %s: %s", actor, reason))
		return changedOne(t.ExecContext(ctx, ledgerRaiseSQL, from))
	})
}
