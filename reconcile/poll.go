package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/batch"
	"rollcall/reconcile/crashpoint"
)

// pollPage is how many jobs are claimed at a time: few enough that a process
// which dies leaves few of them waiting for their next regular poll.
const pollPage = 20

// Poll asks the provider about every submitted job whose next poll is due. A
// job that cannot be asked about is put off and counted; the others go on. A
// look that failed never changes a job's state, and never permits to send it again.
func (r *Reconciler) Poll(ctx context.Context, now time.Time) (Tally, error) {
	var tally Tally
	for tally.Seen < int64(r.Settings.JobsPerRun) {
		limit := min(pollPage, r.Settings.JobsPerRun-int(tally.Seen))
		jobs, err := r.Store.ClaimDueJobs(ctx, now, now.Add(r.Settings.PollMax), now.Add(pollHorizon(&r.Settings)), limit)
		if errors.Is(err, ErrPaused) {
			r.Log.Info().Str("pass", string(PassPoll)).Msg("paused")
			return tally, nil
		}
		if err != nil || len(jobs) == 0 {
			return tally, err
		}
		// Their next poll is committed and nothing was asked. If the process
		// dies here, they are asked about at that time.
		r.step(crashpoint.PollClaimed)
		for _, job := range jobs {
			t, err := r.pollJob(ctx, now, job)
			tally.Add(t)
			if err != nil {
				return tally, fmt.Errorf("poll job %s: %w", job.ID, err)
			}
			r.progress(PassPoll, tally.Seen, tally.Seen)
		}
	}
	return tally, nil
}

// pollJob asks about one job and records the answer.
func (r *Reconciler) pollJob(ctx context.Context, now time.Time, job Job) (Tally, error) {
	seen, failed := Tally{Seen: 1}, Tally{Seen: 1, Failed: 1}
	account, ok := r.accountOf(job.Account)
	if !ok {
		// Its next poll is PollMax away, as it was claimed.
		return failed, r.raise(ctx, now, EventAccountMismatch, "job:"+job.ID, "account fingerprint "+job.Account)
	}
	answer, err := account.Status(ctx, job.ProviderJobID)
	// The answer is not noted. If the process dies here, the job is asked about again.
	r.step(crashpoint.PollAnswered)
	if err == nil {
		err = checkAnswer(job, answer)
	}
	if err != nil {
		if ctx.Err() != nil {
			return failed, ctx.Err() // the call was cut, and says nothing about the job
		}
		return failed, r.pollFailed(ctx, now, job, account, err)
	}
	switch answer.Phase {
	case batch.PhaseEnded, batch.PhaseInvalid:
		return r.jobOver(ctx, now, job, answer)
	default:
		return seen, r.jobGoesOn(ctx, now, job, answer, false)
	}
}

// checkAnswer refuses an answer that the contract does not allow.
func checkAnswer(job Job, answer batch.Job) error {
	bad := func(code string) error { return &batch.Error{Op: "status", Kind: batch.BadAnswer, Code: code} }
	if answer.ID != job.ProviderJobID {
		return bad("other_job")
	}
	switch answer.Phase {
	case batch.PhaseRunning, batch.PhaseEnded, batch.PhaseInvalid:
	default:
		return bad("unknown_phase")
	}
	seen := map[batch.Channel]bool{}
	for _, f := range answer.Files {
		if f.ID == "" || seen[f.Channel] || f.Channel != batch.ChannelOutput && f.Channel != batch.ChannelError {
			return bad("files")
		}
		seen[f.Channel] = true
	}
	return nil
}

// pollFailed puts a job off about which nothing was learned.
func (r *Reconciler) pollFailed(ctx context.Context, now time.Time, job Job, account batch.Provider, cause error) error {
	r.Log.Warn().Str("pass", string(PassPoll)).Str("job_id", job.ID).Str("provider_job_id", job.ProviderJobID).
		Str("evidence", evidenceOf(cause)).Msg("job could not be asked about")
	switch batch.KindOf(cause) {
	case batch.NotFound:
		return r.jobMissed(ctx, now, job)
	case batch.Denied:
		// No other call of this account will fare better, so nothing more is
		// sent there. The jobs that it has are asked about again.
		if err := r.brake(ctx, now, EventAccountDenied, account.Account().Name, evidenceOf(cause)); err != nil {
			return err
		}
	}
	wait := delayedPollWait(&r.Settings, now.Sub(job.SubmittedAt), batch.RetryAfter(cause), r.Rand)
	return ignoreMoved(r.Store.DelayPoll(ctx, job.ID, now.Add(wait)))
}

// jobMissed counts an answer that the provider does not know a job. That
// happens for a while right after a job is made, and with another account's
// key; a job that stays unknown is a person's to decide about.
func (r *Reconciler) jobMissed(ctx context.Context, now time.Time, job Job) error {
	next := now.Add(r.Settings.PollMax)
	if job.Misses+1 < r.Settings.MissCount {
		next = now.Add(pollWait(&r.Settings, now.Sub(job.SubmittedAt), r.Rand))
	}
	job, err := r.Store.RecordMiss(ctx, now, job.ID, next)
	if err != nil {
		return ignoreMoved(err)
	}
	if job.Misses < r.Settings.MissCount || now.Sub(job.FirstMiss) < r.Settings.MissGrace {
		return nil
	}
	return r.raise(ctx, now, EventJobVanished, "job:"+job.ID,
		fmt.Sprintf("provider job %s, %d misses since %s", job.ProviderJobID, job.Misses, job.FirstMiss.Format(time.RFC3339)))
}

// jobGoesOn notes what was told and when to look again.
func (r *Reconciler) jobGoesOn(ctx context.Context, now time.Time, job Job, answer batch.Job, incomplete bool) error {
	if !answer.Known {
		if err := r.raise(ctx, now, EventUnknownStatus, "job:"+job.ID, "status "+answer.Status); err != nil {
			return err
		}
	}
	return ignoreMoved(r.Store.RecordAnswer(ctx, now, JobAnswer{
		JobID: job.ID, Status: answer.Status, Counts: answer.Counts, Expires: answer.Expires, Incomplete: incomplete,
		NextPoll: now.Add(pollWait(&r.Settings, now.Sub(job.SubmittedAt), r.Rand)), PullFrom: now.Add(r.Settings.PollFirst),
	}))
}

// jobOver ends a job, unless it lacks files that may still appear.
func (r *Reconciler) jobOver(ctx context.Context, now time.Time, job Job, answer batch.Job) (Tally, error) {
	if lacksFiles(answer) {
		detail := fmt.Sprintf("%d completed, %d failed, %d files", answer.Counts.Completed, answer.Counts.Failed, len(answer.Files))
		if err := r.raise(ctx, now, EventResultsIncomplete, "job:"+job.ID, detail); err != nil {
			return Tally{Seen: 1, Failed: 1}, err
		}
		if job.Incomplete.IsZero() || now.Sub(job.Incomplete) < r.Settings.FilesGrace {
			return Tally{Seen: 1, Failed: 1}, r.jobGoesOn(ctx, now, job, answer, true)
		}
	}
	end := JobEnd{JobID: job.ID, Phase: answer.Phase, Status: answer.Status, Counts: answer.Counts, Files: answer.Files}
	if answer.Phase == batch.PhaseInvalid {
		end.Files = nil // nothing ran
	}
	if err := r.Store.EndJob(ctx, now, end); err != nil {
		return Tally{Seen: 1}, ignoreMoved(err)
	}
	// The job and what is to be read are committed, and consume picks it up.
	r.step(crashpoint.PollEnded)
	moved := Tally{Seen: 1, Moved: 1}
	if answer.Phase == batch.PhaseInvalid {
		return moved, r.raise(ctx, now, EventJobRefused, "job:"+job.ID, fmt.Sprintf("provider job %s, %d faults", job.ProviderJobID, len(answer.Faults)))
	}
	return moved, nil
}

// lacksFiles says whether a job has ended without files that its counts
// promise. Counts are never trusted further than this: a job whose requests all
// failed has no output, an expired one may count none of those that it did not
// run, and some providers put failures into the output, so a missing error file
// beside an output is no reason to wait.
func lacksFiles(answer batch.Job) bool {
	if answer.Phase != batch.PhaseEnded {
		return false
	}
	output := false
	for _, f := range answer.Files {
		output = output || f.Channel == batch.ChannelOutput
	}
	return answer.Counts.Completed > 0 && !output || answer.Counts.Failed > 0 && len(answer.Files) == 0
}

// ignoreMoved drops the error of a change that somebody else has made already,
// or of one whose commit is unknown: the job is asked about again either way. A
// ledger that takes no writes is another matter.
func ignoreMoved(err error) error {
	if errors.Is(err, ErrMoved) || errors.Is(err, ErrUnknownCommit) && !errors.Is(err, ErrUnwritable) {
		return nil
	}
	return err
}
