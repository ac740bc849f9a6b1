package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/batch"
)

// refuseOrLeave judges a create that did not succeed. Every kind but
// UnknownOutcome proves that there is no job.
func (s *sending) refuseOrLeave(ctx context.Context, err error) error {
	switch batch.KindOf(err) {
	case batch.Temporary, batch.RateLimited, batch.Rejected, batch.Denied, batch.OutOfCredit, batch.NotFound:
		return s.refuse(ctx, err)
	default:
		return fmt.Errorf("submission %s: %s: %w", s.sub.ID, evidenceOf(err), errUncertain)
	}
}

// accept records the provider's job. It does not depend on the lease: the job
// exists, whoever runs the pass by now.
func (s *sending) accept(ctx context.Context, answer batch.Job) error {
	ctx = withoutLease(ctx)
	a := Acceptance{SubmissionID: s.sub.ID, ProviderJobID: answer.ID, Status: answer.Status, Expires: answer.Expires}
	var err error
	for range 2 { // a broken connection is replaced at the second try; recording again changes nothing
		var now time.Time
		if now, err = s.r.Now(ctx); err != nil {
			continue
		}
		a.NextPoll = now.Add(s.r.Settings.PollFirst)
		if err = s.r.Store.RecordAccepted(ctx, now, a); err == nil || errors.Is(err, ErrMoved) {
			break
		}
	}
	if err == nil {
		return nil
	}
	// The id is worth a log line: with it an operator need not search.
	s.r.Log.Error().Err(err).Str("job_id", s.job.ID).Str("provider_job_id", answer.ID).Msg("the provider has the job, and the ledger could not note it")
	if errors.Is(err, ErrMoved) {
		return err // somebody resolved this submission meanwhile; the job is surplus
	}
	return fmt.Errorf("submission %s is provider job %s: %w: %w", s.sub.ID, answer.ID, errUncertain, err)
}

// refuse records that no job exists for this submission, so that the job may be
// sent again later, deletes what was uploaded, and stops dispatch to an account
// that would refuse the next job as well.
func (s *sending) refuse(ctx context.Context, cause error) error {
	wait := submitWait(&s.r.Settings, s.sub.Attempt, batch.RetryAfter(cause))
	if ctx.Err() != nil {
		cause, wait = errToldToEnd, 0 // a call that was cut says nothing, and nothing is wrong with the job
	}
	ctx = withoutLease(context.WithoutCancel(ctx))
	now, err := s.r.Now(ctx)
	if err != nil {
		return fmt.Errorf("submission %s: %s: %w: %w", s.sub.ID, evidenceOf(cause), errUncertain, err)
	}
	rejection := Rejection{SubmissionID: s.sub.ID, Evidence: evidenceOf(cause), TextLeft: s.left.Load(), NextSubmit: now.Add(wait)}
	if s.sub.Attempt >= refusalsTold && !errors.Is(cause, errToldToEnd) {
		rejection.Findings = []Event{EventJobNotSent.event("job:"+s.job.ID, fmt.Sprintf("%d submissions; the last one: %s", s.sub.Attempt, evidenceOf(cause)))}
	}
	s.r.logEvents(rejection.Findings...)
	err = s.r.Store.RecordRejected(ctx, now, rejection)
	switch {
	case err == nil:
		err = fmt.Errorf("submission %s: %s: %w", s.sub.ID, evidenceOf(cause), errNotSent)
	case errors.Is(err, ErrMoved): // closed by somebody else, who found the same
		err = fmt.Errorf("submission %s: %s: %w", s.sub.ID, evidenceOf(cause), err)
	default:
		err = fmt.Errorf("submission %s: %s: %w: %w", s.sub.ID, evidenceOf(cause), errUncertain, err)
	}
	s.deleteUpload(ctx)
	return errors.Join(err, s.alarm(ctx, now, cause))
}

// alarm raises what a person must look at before the next try can succeed.
func (s *sending) alarm(ctx context.Context, now time.Time, cause error) error {
	var fault *renderFault
	if errors.As(cause, &fault) && fault.unreadable {
		return s.setAside(ctx, now, fault)
	}
	var answer *batch.Error
	if !errors.As(cause, &answer) {
		return nil
	}
	switch answer.Kind {
	case batch.Denied:
		return s.r.brake(ctx, now, EventAccountDenied, s.account.Account().Name, evidenceOf(cause))
	case batch.Rejected:
		return s.r.raise(ctx, now, EventJobRefused, "job:"+s.job.ID, evidenceOf(cause))
	case batch.OutOfCredit:
		return s.r.brake(ctx, now, EventOutOfCredit, s.account.Account().Name, evidenceOf(cause))
	}
	return nil
}

// deleteUpload tries once to delete the input file of a submission that was
// refused: it holds report text, and nothing will use it. Where that does not
// succeed, the provider deletes it after InputExpiry.
func (s *sending) deleteUpload(ctx context.Context) {
	if s.fileID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deleteWithin)
	defer cancel()
	if err := s.account.DeleteFile(ctx, s.fileID); err != nil {
		s.r.Log.Warn().Str("job_id", s.job.ID).Str("file_id", s.fileID).Str("evidence", evidenceOf(err)).Msg("an input file that is not used could not be deleted")
	}
}

// deleteWithin bounds the deletion of a file, which must not hold up the jobs behind.
const deleteWithin = time.Minute
