package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rollcall/reconcile"
)

// limited gives the bench's account limits.
func (b *bench) limited(l reconcile.AccountLimits) {
	b.r.Limits = func(account string) reconcile.AccountLimits {
		if account != "main" {
			return reconcile.AccountLimits{}
		}
		return l
	}
}

// wantWaiting compares what the ready jobs wait for, and how long until they are
// tried again.
func (b *bench) wantWaiting(want ...string) {
	b.t.Helper()
	b.want("waiting jobs", fmt.Sprintf("SELECT COALESCE(waits_for, '-') || ' ' || CAST((next_submit_us - %d) / 1000000 AS TEXT) FROM jobs WHERE state = 'ready' ORDER BY job_id",
		b.Clock.Now().UnixMicro()), want...)
}

func TestLimitOfOpenJobs(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.limited(reconcile.AccountLimits{OpenJobs: 1})
		b.plan(2)
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 2, Moved: 1})
		b.wantWaiting("open_jobs 300")
		b.wantFindings()
		b.wantCreates(1)
		if log := b.log.String(); strings.Contains(log, `"level":"warn"`) || !strings.Contains(log, `"waits_for":"open_jobs","has":1,"limit":1`) {
			t.Errorf("log: %s", log)
		}
		jobs, err := b.Jobs(t.Context(), []reconcile.JobState{reconcile.JobReady}, 10)
		if err != nil || len(jobs) != 1 || jobs[0].WaitsFor != reconcile.LimitOpenJobs {
			t.Errorf("jobs %+v, %v", jobs, err)
		}
		h, err := b.ReportHistory(t.Context(), b.Keys.ReportID("acme", "forum", "r2"))
		if err != nil {
			t.Fatal(err)
		}
		h.Conclude(nil)
		if want := "once its account is within its limit (open_jobs)"; !strings.Contains(h.Next, want) {
			t.Errorf("next: %s", h.Next)
		}
		o, err := b.Overview(t.Context(), b.Clock.Now())
		if err != nil || o.WaitingJobs[reconcile.LimitOpenJobs] != 1 {
			t.Errorf("waiting %v, %v", o.WaitingJobs, err)
		}
		// The wait goes on from when it began, and ends with the job that was in its way.
		b.Clock.Advance(b.r.Settings.SubmitRetry)
		b.wantTally("still", b.submit(), reconcile.Tally{Seen: 1})
		b.want("since", "SELECT CAST((next_submit_us - waits_since_us) / 1000000 AS TEXT) FROM jobs WHERE state = 'ready'", "600")
		b.fake.EndAll()
		b.due()
		b.poll()
		b.Clock.Advance(b.r.Settings.SubmitRetry)
		b.wantTally("then", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
		b.want("nothing waits", "SELECT job_id FROM jobs WHERE waits_for IS NOT NULL OR waits_since_us IS NOT NULL")
	})
}

// A submission whose outcome nobody knows may have made a job.
func TestLimitCountsUncertainSubmissions(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(1, false)
		b.limited(reconcile.AccountLimits{OpenJobs: 1})
		b.reports(1)
		b.collect()
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1})
		b.want("what it waits for", "SELECT waits_for FROM jobs WHERE waits_for IS NOT NULL", "open_jobs")
	})
}

func TestLimitOfCreatesPerMinute(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.limited(reconcile.AccountLimits{CreatesPerMinute: 2})
		b.plan(3)
		b.r.Settings.JobsPerRun = 1
		b.wantTally("first", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
		b.Clock.Advance(40 * time.Second)
		b.wantTally("second", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
		b.wantTally("third", b.submit(), reconcile.Tally{Seen: 1})
		b.wantWaiting("creates_per_minute 20") // until the first is a minute old
		b.Clock.Advance(20*time.Second - time.Microsecond)
		b.wantTally("too early", b.submit(), reconcile.Tally{})
		b.Clock.Advance(time.Microsecond)
		b.wantTally("in time", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
		b.wantCreates(3)
	})
}

// Jobs are planned so that each fits by itself, and sent while they fit beside
// what is enqueued.
func TestLimitOfEnqueuedTokens(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		one := b.tokensOfOne()
		b.limited(reconcile.AccountLimits{EnqueuedTokens: 3*one + 2})
		b.reports(5)
		b.collect()
		b.want("members", "SELECT CAST(item_count AS TEXT) FROM jobs ORDER BY job_id", "3", "2")
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 2, Moved: 1})
		b.wantWaiting("enqueued_tokens 300")
		b.fake.EndAll()
		b.due()
		b.poll()
		b.Clock.Advance(b.r.Settings.SubmitRetry)
		b.wantTally("then", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
	})
}

// A job that was planned before the limit was lowered goes by itself, or it
// would never go.
func TestJobAboveTheLimitOfTokensGoesAlone(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(3)
		b.collect()
		b.limited(reconcile.AccountLimits{EnqueuedTokens: 1})
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
	})
}

// tokensOfOne is the estimate of a job of one report.
func (b *bench) tokensOfOne() int64 {
	b.t.Helper()
	e, err := b.r.EstimateJob(b.t.Context(), b.policy.Key(), 1, int64(len(reportText("r1", 1)))+2)
	if err != nil {
		b.t.Fatal(err)
	}
	return e.InputTokens
}

func TestLimitThatLastsIsAFinding(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.limited(reconcile.AccountLimits{OpenJobs: 1})
		b.r.Settings.JobOverdue = 1000 * time.Hour
		b.plan(2)
		b.submit()
		b.Clock.Advance(b.r.Settings.LimitAfter - time.Microsecond)
		_, got := b.callRoll()
		b.wantOffenders(got, map[string]int64{})
		b.Clock.Advance(time.Microsecond)
		_, got = b.callRoll()
		b.wantOffenders(got, map[string]int64{"job_waits_for_limit": 1})
	})
}

// A job that nobody wants any more is given up, also under a limit that is not
// reached.
func TestLimitLeavesUnwantedJobsToBeGivenUp(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(1)
		b.limited(reconcile.AccountLimits{OpenJobs: 1, EnqueuedTokens: 1, CreatesPerMinute: 1})
		b.edit(1, 2)
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
		b.wantJobs("abandoned")
	})
}
