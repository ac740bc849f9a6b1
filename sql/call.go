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

//go:embed query/call_insert.sql
var callInsertSQL string

//go:embed query/call_insert_segment.sql
var callInsertSegmentSQL string

//go:embed query/call_accounts.sql
var callAccountsSQL string

//go:embed query/call_jobs.sql
var callJobsSQL string

//go:embed query/call_jobs_unwanted.sql
var callJobsUnwantedSQL string

//go:embed query/call_candidates.sql
var callCandidatesSQL string

//go:embed query/call_lock_reports.sql
var callLockReportsSQL string

//go:embed query/call_unwanted.sql
var callUnwantedSQL string

//go:embed query/call_drop_items.sql
var callDropItemsSQL string

//go:embed query/call_drop.sql
var callDropSQL string

//go:embed query/call_claim.sql
var callClaimSQL string

//go:embed query/call_count_out.sql
var callCountOutSQL string

//go:embed query/call_answer.sql
var callAnswerSQL string

//go:embed query/call_put_off.sql
var callPutOffSQL string

//go:embed query/call_next.sql
var callNextSQL string

//go:embed query/boundary_account.sql
var boundaryAccountSQL string

//go:embed query/rate_insert.sql
var rateInsertSQL string

//go:embed query/rate_get.sql
var rateGetSQL string

//go:embed query/rate_update.sql
var rateUpdateSQL string

// CalledAccounts implements reconcile.CallStore.
func (s *Store) CalledAccounts(ctx context.Context) ([]string, error) {
	var accounts []string
	if err := s.ro.SelectContext(ctx, &accounts, callAccountsSQL); err != nil {
		return nil, fmt.Errorf("list called accounts: %w", scrub(err))
	}
	return accounts, nil
}

// CalledJobs implements reconcile.CallStore.
func (s *Store) CalledJobs(ctx context.Context, now, horizon time.Time, account string, limit int) ([]reconcile.Job, error) {
	var rows []struct {
		jobRow
		SubmissionID string `db:"submission_id"`
	}
	if err := s.ro.SelectContext(ctx, &rows, callJobsSQL, account, micros(now), micros(horizon), limit); err != nil {
		return nil, fmt.Errorf("list called jobs: %w", scrub(err))
	}
	out := make([]reconcile.Job, 0, len(rows))
	for _, r := range rows {
		job := r.job()
		job.SubmissionID = r.SubmissionID
		out = append(out, job)
	}
	return out, nil
}

// UnwantedCalls implements reconcile.CallStore.
func (s *Store) UnwantedCalls(ctx context.Context, account string, limit int) ([]string, error) {
	var jobs []string
	if err := s.ro.SelectContext(ctx, &jobs, callJobsUnwantedSQL, account, limit); err != nil {
		return nil, fmt.Errorf("list jobs with unwanted calls: %w", scrub(err))
	}
	return jobs, nil
}

// DropUncalled implements reconcile.CallStore. Nothing is locked but the job: a
// work that is not wanted any more is never wanted again.
func (s *Store) DropUncalled(ctx context.Context, now time.Time, jobID string, limit int) (int, error) {
	var dropped int
	err := s.write(ctx, "drop uncalled", func(ctx context.Context, t *tx) error {
		dropped = 0
		if _, err := t.lockJob(ctx, jobID, reconcile.JobSubmitted); err != nil {
			return err
		}
		var works []string
		if err := t.SelectContext(ctx, &works, callUnwantedSQL, jobID, limit); err != nil {
			return err
		}
		dropped = len(works)
		return t.dropUncalled(ctx, now, jobID, works)
	})
	return dropped, err
}

// dropUncalled ends the calls of works that are not wanted any more.
func (t *tx) dropUncalled(ctx context.Context, now time.Time, jobID string, works []string) error {
	if len(works) == 0 {
		return nil
	}
	d := t.store.dialect
	if err := d.temporary(ctx, t.Tx, "uncalled", "work_id TEXT PRIMARY KEY"); err != nil {
		return err
	}
	if err := d.load(ctx, t.Tx, "uncalled", []string{"work_id"}, len(works), func(i int) []any { return []any{works[i]} }); err != nil {
		return err
	}
	for _, step := range []struct {
		query string
		args  []any
	}{
		{callDropItemsSQL, []any{micros(now), jobID}},
		{workUncollectSQL, []any{jobID}},
		{callDropSQL, []any{jobID}},
	} {
		if _, err := t.ExecContext(ctx, step.query, step.args...); err != nil {
			return err
		}
	}
	t.audit("items_not_called", "job:"+jobID, fmt.Sprintf("%d members are not wanted any more", len(works)))
	return nil
}

// ClaimCalls implements reconcile.CallStore. Job, rate and reports are locked in
// this order. As for an intent, the reports are locked before their works are
// looked at: an edit that was accepted before is seen.
func (s *Store) ClaimCalls(ctx context.Context, now time.Time, c reconcile.CallClaim) (reconcile.CallGrant, error) {
	var grant reconcile.CallGrant
	err := s.write(ctx, "claim calls", func(ctx context.Context, t *tx) error {
		grant = reconcile.CallGrant{}
		var r jobRow // read for its policy and the boundary of that, which never change
		if err := t.GetContext(ctx, &r, jobGetSQL, c.JobID); errors.Is(err, errNoRows) {
			return fmt.Errorf("job %s: %w", c.JobID, reconcile.ErrNotFound)
		} else if err != nil {
			return err
		}
		key := r.job().Policy
		var account string // as the policy names it: a host may have several names
		if err := t.GetContext(ctx, &account, boundaryAccountSQL, r.BoundaryID); err != nil {
			return err
		}
		err := t.gate(ctx, reconcile.PauseDispatch, "account:"+account, "policy:"+key.ID)
		if err == nil {
			_, err = t.approvedPolicy(ctx, key)
		}
		if errors.Is(err, reconcile.ErrPaused) || errors.Is(err, reconcile.ErrNotApproved) {
			grant.Stopped = err
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := t.lockJob(ctx, c.JobID, reconcile.JobSubmitted); err != nil {
			return err
		}
		return t.claimCalls(ctx, now, c, &grant)
	})
	if err != nil {
		return reconcile.CallGrant{}, err
	}
	return grant, nil
}

// claimCalls takes from the account's bucket, and claims as many calls.
func (t *tx) claimCalls(ctx context.Context, now time.Time, c reconcile.CallClaim, grant *reconcile.CallGrant) error {
	had, err := t.bucket(ctx, c.Account.Fingerprint)
	if err != nil {
		return err
	}
	if err := t.GetContext(ctx, &had.Out, callCountOutSQL, micros(now), micros(c.Horizon), c.Account.Fingerprint); err != nil {
		return err
	}
	left, n, next := c.Take(had)
	if n == 0 {
		grant.Next = next
		return t.setBucket(ctx, c.Account.Fingerprint, had, left)
	}
	if err := t.claimDue(ctx, now, c, n, grant); err != nil {
		return err
	}
	left.Tokens += n - int64(len(grant.Calls)) // what was not used
	return t.setBucket(ctx, c.Account.Fingerprint, had, left)
}

// claimDue claims the next n calls that are due, or drops those of them that are
// not wanted any more. Which ones they are does not change meanwhile: whoever
// changes a call holds its job.
func (t *tx) claimDue(ctx context.Context, now time.Time, c reconcile.CallClaim, n int64, grant *reconcile.CallGrant) error {
	due := []any{c.JobID, micros(now), micros(c.Horizon), n}
	if err := t.lockRows(ctx, forShare, callLockReportsSQL, due...); err != nil {
		return err
	}
	var rows []struct {
		requestItemRow
		Segment  int64   `db:"segment"`
		Segments int64   `db:"segments"`
		Faults   int64   `db:"faults"`
		KeyID    *string `db:"key_id"` // none for a text that was purged
		Wanted   bool    `db:"wanted"`
	}
	if err := t.SelectContext(ctx, &rows, callCandidatesSQL, due...); err != nil {
		return err
	}
	var unwanted []string
	for _, r := range rows {
		if !r.Wanted && !slices.Contains(unwanted, r.WorkID) {
			unwanted = append(unwanted, r.WorkID)
		}
	}
	if grant.Dropped = len(unwanted); grant.Dropped > 0 || len(rows) == 0 {
		return t.dropUncalled(ctx, now, c.JobID, unwanted)
	}
	if _, err := t.ExecContext(ctx, callClaimSQL, append([]any{micros(c.Until)}, due...)...); err != nil {
		return err
	}
	for _, r := range rows {
		r.requestItemRow.KeyID = orEmpty(r.KeyID)
		grant.Calls = append(grant.Calls, reconcile.ClaimedCall{Segment: r.Segment, Segments: r.Segments, Faults: r.Faults, Until: c.Until, Item: r.item()})
	}
	return nil
}

type rateRow struct {
	Tokens      int64  `db:"tokens"`
	RefilledUS  int64  `db:"refilled_us"`
	NotBeforeUS *int64 `db:"not_before_us"`
	Refusals    int64  `db:"refusals"`
}

// bucket reads and locks how fast an account may be called.
func (t *tx) bucket(ctx context.Context, account string) (reconcile.Bucket, error) {
	if _, err := t.ExecContext(ctx, rateInsertSQL, account); err != nil {
		return reconcile.Bucket{}, err
	}
	var r rateRow
	if err := t.GetContext(ctx, &r, t.store.dialect.locked(rateGetSQL, forUpdate), account); err != nil {
		return reconcile.Bucket{}, err
	}
	return reconcile.Bucket{Tokens: r.Tokens, RefilledAt: fromMicros(r.RefilledUS), NotBefore: fromNull(r.NotBeforeUS), Refusals: r.Refusals}, nil
}

// setBucket writes what has changed.
func (t *tx) setBucket(ctx context.Context, account string, had, b reconcile.Bucket) error {
	had.Out = b.Out
	if had == b {
		return nil
	}
	return changedOne(t.ExecContext(ctx, rateUpdateSQL, b.Tokens, micros(b.RefilledAt), microsOrNull(b.NotBefore), b.Refusals, account))
}

// RecordCalls implements reconcile.CallStore.
func (s *Store) RecordCalls(ctx context.Context, now time.Time, rec reconcile.CallRecord) error {
	return s.write(ctx, "record calls", func(ctx context.Context, t *tx) error {
		if _, err := t.lockJob(ctx, rec.JobID, reconcile.JobSubmitted); err != nil {
			return err
		}
		if rec.Adjust != nil {
			had, err := t.bucket(ctx, rec.Account)
			if err != nil {
				return err
			}
			if b, changed := rec.Adjust(had); changed {
				if err := t.setBucket(ctx, rec.Account, had, b); err != nil {
					return err
				}
			}
		}
		var answers int
		for i := range rec.Ends {
			done, err := t.endCall(ctx, now, rec.JobID, &rec.Ends[i])
			if err != nil {
				return err
			}
			if done {
				answers++
			}
		}
		if answers > 0 {
			t.audit("calls_answered", "job:"+rec.JobID, fmt.Sprintf("%d calls", answers))
		}
		return t.openFindings(ctx, now, rec.Findings)
	})
}

// endCall writes what became of one call, and says whether it has its answer by that.
func (t *tx) endCall(ctx context.Context, now time.Time, jobID string, e *reconcile.CallEnd) (done bool, err error) {
	if e.Result == nil {
		_, err := t.ExecContext(ctx, callPutOffSQL, micros(e.Next), flag(e.Fault), flag(e.Unmade), e.Code, jobID, e.WorkID, e.Segment, micros(e.Until))
		return false, err
	}
	var encrypted any // a nil slice would be an empty value, not NULL
	if e.Content.KeyID != "" {
		encrypted = e.Content.Bytes
	}
	r := e.Result
	err = changedOne(t.ExecContext(ctx, callAnswerSQL, e.Segments, string(r.Outcome), r.Code, r.Model, encrypted, nullIfEmpty(e.Content.KeyID),
		r.InputTokens, r.OutputTokens, micros(now), jobID, e.WorkID, e.Segment))
	if errors.Is(err, reconcile.ErrMoved) {
		return false, nil // it has one already, and that one counts
	}
	if err != nil {
		return false, err
	}
	for n := int64(2); e.Segment == 1 && n <= e.Segments; n++ {
		if _, err := t.ExecContext(ctx, callInsertSegmentSQL, n, micros(now), jobID, e.WorkID); err != nil {
			return false, err
		}
	}
	return true, nil
}

// SettleCalls implements reconcile.CallStore.
func (s *Store) SettleCalls(ctx context.Context, now, floor time.Time, jobID string) (reconcile.CallsLeft, error) {
	var left reconcile.CallsLeft
	err := s.write(ctx, "settle calls", func(ctx context.Context, t *tx) error {
		if _, err := t.lockJob(ctx, jobID, reconcile.JobSubmitted); err != nil {
			return err
		}
		first, err := t.firstCall(ctx, jobID)
		if err != nil {
			return err
		}
		left = reconcile.CallsLeft{Open: first != nil, Next: now}
		if first != nil {
			left.Next = fromMicros(max(*first, micros(now)))
			if floor.After(left.Next) {
				left.Next = floor
			}
		}
		return changedOne(t.ExecContext(ctx, jobDelayPollSQL, micros(left.Next), jobID))
	})
	if err != nil {
		return reconcile.CallsLeft{}, err
	}
	return left, nil
}

// firstCall is when the first call of a job that has no answer is due; nil when
// each has one.
func (t *tx) firstCall(ctx context.Context, jobID string) (us *int64, err error) {
	return us, t.GetContext(ctx, &us, callNextSQL, jobID)
}
