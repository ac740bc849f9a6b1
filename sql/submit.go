package sql

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
)

//go:embed query/job_list_ready.sql
var jobListReadySQL string

//go:embed query/job_delay_submit.sql
var jobDelaySubmitSQL string

//go:embed query/job_abandon.sql
var jobAbandonSQL string

//go:embed query/job_submit.sql
var jobSubmitSQL string

//go:embed query/report_lock_job.sql
var reportLockJobSQL string

//go:embed query/item_drop_unwanted.sql
var itemDropUnwantedSQL string

//go:embed query/work_uncollect.sql
var workUncollectSQL string

//go:embed query/item_count_open.sql
var itemCountOpenSQL string

//go:embed query/item_clear_lines.sql
var itemClearLinesSQL string

//go:embed query/item_number_lines.sql
var itemNumberLinesSQL string

//go:embed query/item_manifest.sql
var itemManifestSQL string

//go:embed query/item_request_page.sql
var itemRequestPageSQL string

//go:embed query/submission_count.sql
var submissionCountSQL string

//go:embed query/submission_count_account.sql
var submissionCountAccountSQL string

//go:embed query/submission_insert.sql
var submissionInsertSQL string

//go:embed query/submission_get.sql
var submissionGetSQL string

//go:embed query/submission_upload.sql
var submissionUploadSQL string

//go:embed query/submission_close.sql
var submissionCloseSQL string

//go:embed query/submission_list_unsent.sql
var submissionListUnsentSQL string

//go:embed query/submission_last_unsent.sql
var submissionLastUnsentSQL string

//go:embed query/submission_close_unsent.sql
var submissionCloseUnsentSQL string

//go:embed query/job_resend.sql
var jobResendSQL string

// CloseUnsent implements reconcile.SubmitStore.
func (s *Store) CloseUnsent(ctx context.Context, now, before time.Time, account, evidence string, limit int) ([]string, error) {
	var closed []string
	err := s.write(ctx, "close unsent", func(ctx context.Context, t *tx) error {
		closed = nil
		if account == "" {
			// A recovery may be under way, which alone knows what was sent.
			if err := t.gate(ctx, reconcile.PauseDispatch); err != nil {
				return err
			}
		}
		var due []string
		query := s.dialect.locked(submissionListUnsentSQL, forUpdate+" OF j")
		if err := t.SelectContext(ctx, &due, query, micros(before), limit, account); err != nil || len(due) == 0 {
			return err
		}
		if err := s.dialect.temporary(ctx, t.Tx, "unsent_jobs", "job_id TEXT PRIMARY KEY"); err != nil {
			return err
		}
		if err := s.dialect.load(ctx, t.Tx, "unsent_jobs", []string{"job_id"}, len(due), func(i int) []any { return []any{due[i]} }); err != nil {
			return err
		}
		if err := t.SelectContext(ctx, &closed, submissionCloseUnsentSQL, evidence, micros(now), micros(before)); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, jobResendSQL, micros(now)); err != nil {
			return err
		}
		for _, id := range closed {
			t.audit("submission_absent", "job:"+id, evidence)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return closed, nil
}

// LastUnsent implements reconcile.SubmitStore.
func (s *Store) LastUnsent(ctx context.Context, account string) (time.Time, error) {
	var last *int64
	if err := s.ro.GetContext(ctx, &last, submissionLastUnsentSQL, account); err != nil {
		return time.Time{}, fmt.Errorf("read open submissions: %w", scrub(err))
	}
	return fromNull(last), nil
}

// ReadyJobs implements reconcile.SubmitStore.
func (s *Store) ReadyJobs(ctx context.Context, now time.Time, limit int) ([]reconcile.Job, error) {
	var rows []jobRow
	if err := s.ro.SelectContext(ctx, &rows, jobListReadySQL, micros(now), limit); err != nil {
		return nil, fmt.Errorf("list ready jobs: %w", scrub(err))
	}
	return jobsOf(rows), nil
}

// DelaySubmit implements reconcile.SubmitStore.
func (s *Store) DelaySubmit(ctx context.Context, jobID string, next time.Time) error {
	return s.write(ctx, "delay submit", func(ctx context.Context, t *tx) error {
		return changedOne(t.ExecContext(ctx, jobDelaySubmitSQL, micros(next), jobID))
	})
}

// CommitIntent implements reconcile.SubmitStore. The reports are locked before
// their works are looked at, so an edit that was accepted before is seen, and
// one that comes later waits until the intent stands.
func (s *Store) CommitIntent(ctx context.Context, now time.Time, in reconcile.Intent) (reconcile.Submission, error) {
	sub := reconcile.Submission{ID: in.SubmissionID, JobID: in.JobID, IntentAt: fromMicros(micros(now)), SendBy: fromMicros(micros(in.SendBy))}
	err := s.write(ctx, "commit intent", func(ctx context.Context, t *tx) error {
		var r jobRow // read for the names of what to lock first; they never change
		if err := t.GetContext(ctx, &r, jobGetSQL, in.JobID); errors.Is(err, errNoRows) {
			return fmt.Errorf("job %s: %w", in.JobID, reconcile.ErrNotFound)
		} else if err != nil {
			return err
		}
		key := r.job().Policy
		if err := t.gate(ctx, reconcile.PauseDispatch, "account:"+in.Account.Name, "policy:"+key.ID); err != nil {
			return err
		}
		if _, err := t.approvedPolicy(ctx, key); err != nil {
			return err
		}
		if _, err := t.lockJob(ctx, in.JobID, reconcile.JobReady); err != nil {
			return err
		}
		var had struct{ Attempts, Open int64 }
		if err := t.GetContext(ctx, &had, submissionCountSQL, in.JobID); err != nil {
			return err
		}
		if had.Open > 0 {
			return fmt.Errorf("job %s has a submission of unknown outcome: %w", in.JobID, reconcile.ErrMoved)
		}
		sub.Attempt = had.Attempts + 1
		if err := t.alone(ctx, in); err != nil {
			return err
		}
		// Most jobs that are kept back are so before their members are read.
		if err := t.admit(ctx, in, key.ID, reconcile.Estimate{}); err != nil {
			return err
		}
		var err error
		if sub.Lines, err = t.settleLines(ctx, now, in.JobID); err != nil {
			return err
		}
		if sub.Lines == 0 {
			t.audit("job_abandon", "job:"+in.JobID, "no member is wanted any more")
			if err := t.answerNotSent(ctx, now, in.JobID, "the job was given up"); err != nil {
				return err
			}
			return changedOne(t.ExecContext(ctx, jobAbandonSQL, in.JobID))
		}
		return t.insertIntent(ctx, in, key.ID, &sub)
	})
	if err != nil {
		return reconcile.Submission{}, err
	}
	if sub.Lines == 0 {
		return reconcile.Submission{}, fmt.Errorf("job %s: %w", in.JobID, reconcile.ErrAbandoned)
	}
	return sub, nil
}

// alone refuses an intent that must be its account's only open one while there
// is another. Such intents wait for each other at a gate row of their own.
func (t *tx) alone(ctx context.Context, in reconcile.Intent) error {
	if !in.Alone {
		return nil
	}
	var f int64
	if err := t.GetContext(ctx, &f, t.store.dialect.locked(gateReadSQL, forUpdate), "gate:alone"); err != nil {
		return err
	}
	var open int
	if err := t.GetContext(ctx, &open, submissionCountAccountSQL, in.Account.Fingerprint); err != nil {
		return err
	}
	if open > 0 {
		return fmt.Errorf("account %s: %w", in.Account.Name, reconcile.ErrOccupied)
	}
	return nil
}

// settleLines drops the members that are not wanted any more and numbers the
// others. It returns how many there are.
func (t *tx) settleLines(ctx context.Context, now time.Time, jobID string) (int64, error) {
	if err := t.lockRows(ctx, forShare, reportLockJobSQL, jobID); err != nil {
		return 0, err
	}
	res, err := t.ExecContext(ctx, itemDropUnwantedSQL, micros(now), jobID)
	if err != nil {
		return 0, err
	}
	dropped, err := res.RowsAffected()
	if err != nil {
		return 0, err
	}
	if dropped > 0 {
		t.audit("items_not_sent", "job:"+jobID, fmt.Sprintf("%d members are not wanted any more", dropped))
		if _, err := t.ExecContext(ctx, workUncollectSQL, jobID); err != nil {
			return 0, err
		}
	}
	var count struct{ Open, Unnumbered int64 }
	if err := t.GetContext(ctx, &count, itemCountOpenSQL, jobID); err != nil {
		return 0, err
	}
	if dropped == 0 && count.Unnumbered == 0 {
		return count.Open, nil // numbered by an earlier attempt
	}
	for _, query := range []string{itemClearLinesSQL, itemNumberLinesSQL} {
		if _, err := t.ExecContext(ctx, query, jobID); err != nil {
			return 0, err
		}
	}
	return count.Open, nil
}

// insertIntent writes the intent, and fills in the submission's manifest.
func (t *tx) insertIntent(ctx context.Context, in reconcile.Intent, policyID string, sub *reconcile.Submission) error {
	rows, err := t.QueryxContext(ctx, itemManifestSQL, in.JobID)
	if err != nil {
		return err
	}
	defer rows.Close()
	manifest := in.Manifest()
	var lines, content int64
	for ; rows.Next(); lines++ {
		var workID string
		var revision, bytes int64
		if err := rows.Scan(&workID, &revision, &bytes); err != nil {
			return err
		}
		content += bytes
		fmt.Fprintf(manifest, "%s\n%d\n", workID, revision)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	if lines != sub.Lines {
		return fmt.Errorf("job %s has %d members and %d lines", in.JobID, sub.Lines, lines)
	}
	var estimate *reconcile.Estimate
	if in.Estimate != nil {
		e := in.Estimate(lines, content)
		if err := t.admit(ctx, in, policyID, e); err != nil {
			return err
		}
		estimate = &e
	}
	if _, err := t.ExecContext(ctx, limitDoneSQL, in.JobID); err != nil {
		return err
	}
	sub.Manifest = hex.EncodeToString(manifest.Sum(nil))
	t.audit("submission_intent", "job:"+in.JobID, fmt.Sprintf("submission %s, attempt %d, %d lines", sub.ID, sub.Attempt, sub.Lines))
	args := []any{sub.ID, in.JobID, sub.Attempt, in.Account.Fingerprint, fence(ctx), sub.Manifest, sub.Lines, micros(sub.IntentAt), micros(sub.SendBy)}
	_, err = t.ExecContext(ctx, submissionInsertSQL, append(args, estimateColumns(estimate)...)...)
	return err
}

// pageBytes bounds the text of one page of request lines, so that memory stays
// flat however long single texts are.
const pageBytes = 2 << 20

type requestItemRow struct {
	Line       int64  `db:"line"`
	WorkID     string `db:"work_id"`
	ReportID   string `db:"report_id"`
	ContentMAC string `db:"content_mac"`
	Encrypted  []byte `db:"encrypted"`
	KeyID      string `db:"key_id"`
}

func (r requestItemRow) item() reconcile.RequestItem {
	return reconcile.RequestItem{Line: r.Line, WorkID: r.WorkID, ReportID: r.ReportID, ContentMAC: r.ContentMAC,
		Text: keyring.Encrypted{KeyID: r.KeyID, Bytes: r.Encrypted}}
}

// RequestItems implements reconcile.SubmitStore.
func (s *Store) RequestItems(ctx context.Context, jobID string, afterLine int64, limit int) ([]reconcile.RequestItem, error) {
	var rows []requestItemRow
	if err := s.ro.SelectContext(ctx, &rows, itemRequestPageSQL, jobID, afterLine, limit, pageBytes); err != nil {
		return nil, fmt.Errorf("read request lines of job %s: %w", jobID, scrub(err))
	}
	out := make([]reconcile.RequestItem, 0, len(rows))
	for _, r := range rows {
		out = append(out, r.item())
	}
	return out, nil
}

type submissionRow struct {
	JobID       string  `db:"job_id"`
	Account     string  `db:"account"`
	Outcome     *string `db:"outcome"`
	InputFileID *string `db:"input_file_id"`
}

// RecordUpload implements reconcile.SubmitStore.
func (s *Store) RecordUpload(ctx context.Context, up reconcile.Upload) error {
	return s.write(ctx, "record upload", func(ctx context.Context, t *tx) error {
		err := changedOne(t.ExecContext(ctx, submissionUploadSQL, nullIfEmpty(up.FileID), up.Bytes, up.BodyMAC, up.SubmissionID))
		if err != nil {
			return fmt.Errorf("submission %s: %w", up.SubmissionID, err)
		}
		t.audit("submission_upload", "submission:"+up.SubmissionID, strings.TrimSpace(fmt.Sprintf("%d bytes %s", up.Bytes, up.FileID)))
		return nil
	})
}

// closing is how a submission ends.
type closing struct {
	id, outcome, evidence string
	textLeft              bool
	file                  string // the input file, if it is known only now
}

// closeSubmission locks the job of a submission and closes the submission, if
// it is open. It says whether it was.
func (t *tx) closeSubmission(ctx context.Context, now time.Time, c closing) (row submissionRow, job reconcile.Job, closed bool, err error) {
	if err = t.GetContext(ctx, &row, submissionGetSQL, c.id); errors.Is(err, errNoRows) {
		return row, job, false, fmt.Errorf("submission %s: %w", c.id, reconcile.ErrNotFound)
	} else if err != nil {
		return row, job, false, err
	}
	job, jobErr := t.lockJob(ctx, row.JobID, reconcile.JobReady)
	if jobErr != nil && !errors.Is(jobErr, reconcile.ErrMoved) {
		return row, job, false, jobErr
	}
	if err = t.GetContext(ctx, &row, submissionGetSQL, c.id); err != nil || row.Outcome != nil {
		return row, job, false, err
	}
	if jobErr != nil {
		return row, job, false, jobErr
	}
	return row, job, true, changedOne(t.ExecContext(ctx, submissionCloseSQL, c.outcome, c.evidence, micros(now), flag(c.textLeft), nullIfEmpty(c.file), c.id))
}

// RecordAccepted implements reconcile.SubmitStore.
func (s *Store) RecordAccepted(ctx context.Context, now time.Time, a reconcile.Acceptance) error {
	return s.write(ctx, "record accepted", func(ctx context.Context, t *tx) error {
		row, job, closed, err := t.closeSubmission(ctx, now, closing{a.SubmissionID, "accepted", cmp.Or(a.Evidence, "job "+a.ProviderJobID), true, a.FileID})
		if err != nil {
			return err
		}
		if !closed {
			if *row.Outcome == "accepted" && job.ProviderJobID == a.ProviderJobID {
				return nil // recorded before
			}
			return fmt.Errorf("submission %s is %s with provider job %q, and the provider also made %q: %w",
				a.SubmissionID, *row.Outcome, job.ProviderJobID, a.ProviderJobID, reconcile.ErrMoved)
		}
		err = changedOne(t.ExecContext(ctx, jobSubmitSQL, row.Account, a.ProviderJobID, a.Status, micros(now), micros(a.NextPoll), microsOrNull(a.Expires), flag(a.Calls), job.ID))
		if isUnique(err) {
			return fmt.Errorf("provider job %s belongs to another job than %s: %w", a.ProviderJobID, job.ID, reconcile.ErrMoved)
		}
		if err != nil {
			return err
		}
		if a.Calls {
			if _, err := t.ExecContext(ctx, callInsertSQL, micros(a.NextPoll), job.ID); err != nil {
				return err
			}
		}
		t.audit("submission_accepted", "job:"+job.ID, fmt.Sprintf("submission %s is provider job %s", a.SubmissionID, a.ProviderJobID))
		return t.answerNotSent(ctx, now, job.ID, "a later submission was accepted")
	})
}

// answerNotSent closes the finding that a job could not be sent. It belongs to the
// transaction after which that is no longer so: a process that died in between
// would leave a person with a finding that nothing closes.
func (t *tx) answerNotSent(ctx context.Context, now time.Time, jobID, why string) error {
	return t.answerFindings(ctx, now, []reconcile.EventKind{reconcile.EventJobNotSent}, "job:"+jobID, t.store.opts.Actor, why)
}

// RecordRejected implements reconcile.SubmitStore.
func (s *Store) RecordRejected(ctx context.Context, now time.Time, r reconcile.Rejection) error {
	return s.write(ctx, "record rejected", func(ctx context.Context, t *tx) error {
		row, job, closed, err := t.closeSubmission(ctx, now, closing{r.SubmissionID, "rejected", r.Evidence, r.TextLeft, ""})
		if err != nil {
			return err
		}
		if !closed {
			if *row.Outcome == "rejected" {
				return nil // recorded before
			}
			return fmt.Errorf("submission %s is %s already: %w", r.SubmissionID, *row.Outcome, reconcile.ErrMoved)
		}
		t.audit("submission_rejected", "job:"+job.ID, fmt.Sprintf("submission %s: %s", r.SubmissionID, r.Evidence))
		if err := t.openFindings(ctx, now, r.Findings); err != nil {
			return err
		}
		return changedOne(t.ExecContext(ctx, jobDelaySubmitSQL, micros(r.NextSubmit), job.ID))
	})
}
