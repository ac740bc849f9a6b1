package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/batch"
	"rollcall/reconcile/crashpoint"
)

// errPutOff marks a job that waits for its next turn, for a reason that a
// finding tells.
var errPutOff = errors.New("put off")

// Consume reads the results of ended jobs, judges each member once, and closes
// the jobs. Everything that a provider returns is first staged, whole file by
// whole file, and only then judged: a file that is cut short is fetched again
// from its first byte, and no member is missing before all files are read.
//
// Jobs are claimed one at a time, so that a process that dies holds up one.
func (r *Reconciler) Consume(ctx context.Context, now time.Time) (Tally, error) {
	var t Tally
	pass := consuming{Reconciler: r, now: now, checks: map[PolicyKey]*answerCheck{}, proof: newKeyProof(r)}
	for range r.Settings.JobsPerRun {
		jobs, err := r.Store.ClaimEndedJobs(ctx, now, now.Add(r.Settings.ConsumeRetry), 1)
		if err != nil {
			return t, fmt.Errorf("claim ended jobs: %w", err)
		}
		// The job is ours until its next turn. If the process dies from here on,
		// the job is consumed at that turn, from what is committed by then.
		if len(jobs) == 0 {
			break
		}
		t.Seen++
		switch err := pass.job(ctx, &jobs[0]); {
		case err == nil:
			t.Moved++
		case ctx.Err() != nil, errors.Is(err, ErrLeaseLost), errors.Is(err, ErrUnwritable):
			return t, err
		case errors.Is(err, ErrMoved): // somebody else is at it
			r.Log.Debug().Str("job_id", jobs[0].ID).Err(err).Msg("job left to another process")
		default:
			t.Failed++
			r.Log.Warn().Str("pass", string(PassConsume)).Str("job_id", jobs[0].ID).Str("provider_job_id", jobs[0].ProviderJobID).
				Err(err).Msg("job put off")
		}
	}
	return t, nil
}

// consuming is one run of the pass.
type consuming struct {
	*Reconciler
	now         time.Time
	checks      map[PolicyKey]*answerCheck
	proof       *keyProof
	done, total int64 // lines, for progress
}

// jobReading is one job in a run.
type jobReading struct {
	*consuming
	job      *Job
	account  batch.Account
	provider batch.Provider // nil for a job whose texts were called one by one
	policy   *PolicyVersion
	question *batch.Classifier // as it was asked
	check    *answerCheck
}

func (c *consuming) job(ctx context.Context, job *Job) error {
	provider, ok := c.accountOf(job.Account)
	var account batch.Account
	if ok {
		account = provider.Account()
	} else if caller, called := c.callerOf(job.Account); called {
		account, ok = caller.Account(), true // its results are in the ledger
	}
	if !ok {
		return errors.Join(fmt.Errorf("no configured account is the one of the job: %w", errPutOff),
			c.raise(ctx, c.now, EventAccountMismatch, "job:"+job.ID, "its results cannot be read"))
	}
	if job.SubmissionID == "" {
		return errors.New("the ledger holds no accepted submission of the job")
	}
	policy, err := c.Store.Policy(ctx, job.Policy)
	if err != nil {
		return err
	}
	j := jobReading{consuming: c, job: job, account: account, provider: provider, policy: &policy, question: policy.Question()}
	if j.check, err = c.checkOf(&policy); err != nil {
		return err
	}
	c.total += job.Items
	sets, err := c.Store.ResultSets(ctx, job.ID)
	if err != nil {
		return err
	}
	for _, set := range sets {
		if set.State != "staging" {
			continue
		}
		if err := j.read(ctx, set); err != nil {
			return fmt.Errorf("read %s: %w", set.Channel, err)
		}
		// The set is whole or lost for good. If the process dies here, the next
		// turn goes on with the job's other sets, or with judging.
		c.step(crashpoint.ConsumeWhole)
	}
	if err := j.lookAgain(ctx); err != nil {
		return err
	}
	return j.judge(ctx)
}

// lookAgain puts a job off whose files hold fewer lines than its provider
// counts, and has them read again: a file that is cut at the end of a line looks
// like a whole one, and the items behind the cut would be bought twice. Counts
// may also be wrong, so that after FilesGrace what is there is judged; but not a
// reading that has fewer lines than an earlier one, for as long again.
func (j *jobReading) lookAgain(ctx context.Context) error {
	if j.job.Phase != batch.PhaseEnded || j.provider == nil {
		return nil // nothing ran, or nothing is to be read
	}
	c, err := j.Store.ResultCounts(ctx, j.job.ID)
	if err != nil {
		return err
	}
	subject, again := "job:"+j.job.ID, !j.job.Incomplete.IsZero()
	var age time.Duration // since the first reading that was not complete
	if again {
		age = j.now.Sub(j.job.Incomplete)
	}
	switch {
	case c.Judged > 0: // an earlier turn began to judge
		return nil
	case c.Lines >= c.Told && again:
		return j.settle(ctx, j.now, EventResultsIncomplete, subject, "a later reading was complete")
	case c.Lines >= c.Told:
		return nil
	case c.Lost > 0, again && age >= j.Settings.FilesGrace && c.Shorter == 0, again && age >= 2*j.Settings.FilesGrace:
		return nil // lines are missing, and no further look will find them
	}
	finding := EventResultsIncomplete.event(subject, fmt.Sprintf("%d lines, the provider counts %d", c.Lines, c.Told))
	next := j.now.Add(max(j.Settings.ConsumeRetry, age/4)) // a large file is not fetched all the time
	if err := j.Store.ReopenResultSets(ctx, j.now, j.job.ID, next, finding); err != nil {
		return err
	}
	// Nothing is staged and the job waits. Its next turn reads every set from its
	// first byte, whether this process lives or not.
	j.logEvents(finding)
	return fmt.Errorf("%d result lines, the provider counts %d: %w", c.Lines, c.Told, errPutOff)
}

// checkOf compiles a policy's schema once in a run.
func (c *consuming) checkOf(p *PolicyVersion) (*answerCheck, error) {
	if check, ok := c.checks[p.Key()]; ok {
		return check, nil
	}
	check, err := newAnswerCheck(&p.Classifier)
	if err != nil {
		return nil, fmt.Errorf("schema of policy %s: %w", p.Key(), err)
	}
	c.checks[p.Key()] = check
	return check, nil
}

// read reads one set from its beginning, until it is whole or known to be lost.
func (j *jobReading) read(ctx context.Context, set ResultSet) error {
	if j.provider == nil {
		return fmt.Errorf("the job's results are not whole, and no configured account can give them: %w", errPutOff)
	}
	if err := j.Store.RestartResultSet(ctx, j.job.ID, set.Channel); err != nil {
		return err
	}
	var err error
	if set.Channel == batch.ChannelFaults {
		err = j.readFaults(ctx)
	} else {
		err = j.readFile(ctx, set)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTooLarge):
		return errors.Join(err, j.raise(ctx, j.now, EventResultsUnreadable, "job:"+j.job.ID,
			fmt.Sprintf("%s has more than %d bytes, or far more lines than %d members", set.Channel, j.Settings.SetBytes, j.job.Items)))
	}
	var told *batch.Error
	if !errors.As(err, &told) {
		return err
	}
	switch told.Kind {
	case batch.NotFound:
		return j.missed(ctx, set.Channel, err)
	case batch.Denied:
		return errors.Join(err, j.brake(ctx, j.now, EventAccountDenied, j.account.Name, "results of a job cannot be read"))
	}
	return err
}

// missed puts a job off whose results the provider does not know. One answer of
// that kind proves nothing, and two at any distance hardly more; after several
// in a row, over some time, the results are lost.
func (j *jobReading) missed(ctx context.Context, channel batch.Channel, cause error) error {
	since, misses, err := j.Store.MissResultSet(ctx, j.now, j.job.ID, channel)
	if err != nil {
		return errors.Join(cause, err)
	}
	if misses < j.Settings.MissCount || j.now.Sub(since) < j.Settings.LostGrace {
		return cause
	}
	// The finding comes first: a loss that nobody is told of would look like a
	// provider that skipped some items.
	detail := fmt.Sprintf("%s, unknown to the provider %d times since %s", channel, misses, since.Format(time.RFC3339))
	if err := j.raise(ctx, j.now, EventResultsLost, "job:"+j.job.ID, detail); err != nil {
		return errors.Join(cause, err)
	}
	return j.Store.LoseResultSet(ctx, j.now, j.job.ID, channel)
}

// judge decides about every member, and closes the job. It begins where an
// earlier turn ended: a member that has its outcome is not judged again.
func (j *jobReading) judge(ctx context.Context) error {
	caps := Caps{Attempts: j.policy.Attempts, Runs: j.policy.Runs, Retry: j.Settings.ItemRetry}
	price, err := j.price(ctx)
	if err != nil {
		return err
	}
	decide := func(f ItemFacts) Ruling {
		r := Adjudicate(f, caps, j.job.Phase)
		r.Charge = chargeFor(r.Outcome, f.Lines, price, j.provider == nil)
		return r
	}
	for after := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		chunk, err := j.Store.JudgeItems(ctx, j.now, j.job.ID, after, j.Settings.Chunk, decide)
		if err != nil {
			return err
		}
		// These members have their outcome, and their works have moved on. If the
		// process dies here, the next turn judges the others.
		j.step(crashpoint.ConsumeJudged)
		if err := j.tell(ctx, chunk); err != nil {
			return err
		}
		if chunk.Done {
			break
		}
		after = chunk.After
	}
	if err := j.Store.FinishJob(ctx, j.now, j.job.ID); err != nil {
		return err
	}
	// The job is consumed; its works are extracted or pending again.
	j.step(crashpoint.ConsumeFinished)
	return nil
}

// tell logs the findings of a chunk, and stops dispatch to an account that would
// refuse the next job as well. If the process dies before that, the next
// submission is refused and stops it.
func (j *jobReading) tell(ctx context.Context, chunk JudgedChunk) error {
	var errs []error
	j.logEvents(chunk.Events(j.job.ID)...)
	account := j.account.Name
	if n := chunk.Outcomes[ItemDenied]; n > 0 {
		errs = append(errs, j.brake(ctx, j.now, EventAccountDenied, account, fmt.Sprintf("%d items of job %s", n, j.job.ID)))
	}
	if n := chunk.Outcomes[ItemOutOfCredit]; n > 0 {
		errs = append(errs, j.brake(ctx, j.now, EventOutOfCredit, account, fmt.Sprintf("%d items of job %s", n, j.job.ID)))
	}
	if chunk.Outcomes[ItemUnapproved] > 0 { // the next texts would go there as well
		errs = append(errs, j.pauseAccount(ctx, j.now, account, string(UnapprovedProcessor)))
	}
	return errors.Join(errs...)
}
