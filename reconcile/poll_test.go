package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
)

// told is a processor that answers look-ups as a test says.
type told struct {
	*fake.Provider
	status func(jobID string) (batch.Job, error)
}

func (p *told) Status(ctx context.Context, jobID string) (batch.Job, error) {
	if p.status == nil {
		return p.Provider.Status(ctx, jobID)
	}
	return p.status(jobID)
}

// sent submits one job of n reports, due for a poll now, and returns who
// answers for the processor.
func (b *bench) sent(n int) *told {
	b.t.Helper()
	p := &told{Provider: b.fake}
	b.r.Accounts = []batch.Provider{p}
	b.ready(n)
	b.submit()
	b.wantJobs("submitted")
	b.Clock.Advance(b.r.Settings.PollFirst)
	return p
}

// nextPoll is how long the one submitted job still waits.
func (b *bench) nextPoll() time.Duration {
	b.t.Helper()
	var us int64
	for _, s := range b.rows("SELECT CAST(next_poll_us AS TEXT) FROM jobs WHERE state = 'submitted'") {
		fmt.Sscan(s, &us)
	}
	return time.UnixMicro(us).Sub(b.Clock.Now())
}

// due moves the clock to the next poll.
func (b *bench) due() { b.Clock.Advance(max(b.nextPoll(), 0)) }

func (b *bench) wantSets(want ...string) {
	b.t.Helper()
	b.want("result sets", "SELECT channel || ' ' || state || ' ' || COALESCE(file_id, '-') FROM result_sets ORDER BY channel", want...)
}

var (
	wentOn = reconcile.Tally{Seen: 1}
	putOff = reconcile.Tally{Seen: 1, Failed: 1}
	itMove = reconcile.Tally{Seen: 1, Moved: 1}
)

func TestPollUntilTheJobEnds(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.sent(2)
		b.Clock.Advance(-time.Second)
		b.wantTally("too early", b.poll(), reconcile.Tally{})
		b.Clock.Advance(time.Second)
		b.wantTally("running", b.poll(), wentOn)
		b.want("status", "SELECT provider_status FROM jobs", "validating")
		var waits []time.Duration
		for range 12 {
			waits = append(waits, b.nextPoll())
			b.due()
			b.wantTally("running", b.poll(), wentOn)
		}
		if waits[0] != b.r.Settings.PollFirst || slices.Max(waits) > b.r.Settings.PollMax || waits[11] < b.r.Settings.PollMax/2 {
			t.Errorf("waits %v", waits)
		}
		b.fake.EndAll()
		b.due()
		b.wantTally("ended", b.poll(), itMove)
		b.wantJobs("ended")
		b.wantSets("output staging file-000002")
		b.want("counts", "SELECT provider_status || ' ' || phase || ' ' || CAST(provider_total AS TEXT) || ' ' || CAST(provider_completed AS TEXT) FROM jobs", "completed ended 2 2")
		b.want("due for consume", "SELECT state FROM jobs WHERE next_consume_us = ended_us", "ended")
		b.wantTally("again", b.poll(), reconcile.Tally{})
		b.wantFindings()
	})
}

func TestF24_DiesAroundTheLookUp(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		p := b.sent(1)
		ctx, die := context.WithCancel(t.Context())
		p.status = func(string) (batch.Job, error) {
			die()
			return batch.Job{}, answer("status", batch.Temporary, 0, "")
		}
		if _, err := b.r.Poll(ctx, b.Clock.Now()); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		b.wantJobs("submitted")
		p.status = nil
		b.wantTally("claimed", b.poll(), reconcile.Tally{})
		if got := b.nextPoll(); got != b.r.Settings.PollMax {
			t.Errorf("claimed for %s", got)
		}
		b.fake.EndAll()
		b.due()
		b.wantTally("when due", b.poll(), itMove)
		b.wantCreates(1)
	})
}

func TestF24_LookUpThatFailsChangesNothing(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		p := b.sent(1)
		good, err := b.fake.Status(t.Context(), "job-000001")
		if err != nil {
			t.Fatal(err)
		}
		otherJob, odd, twice, nameless := good, good, good, good
		otherJob.ID = "job-other"
		odd.Phase = "paused"
		twice.Phase, twice.Files = batch.PhaseEnded, []batch.ResultFile{{Channel: batch.ChannelOutput, ID: "a"}, {Channel: batch.ChannelOutput, ID: "b"}}
		nameless.Phase, nameless.Files = batch.PhaseEnded, []batch.ResultFile{{Channel: batch.ChannelOutput}}
		for name, tc := range map[string]struct {
			answer batch.Job
			err    error
			atMost time.Duration // 0: the longest regular wait
			least  time.Duration
		}{
			"temporary":            {err: answer("status", batch.Temporary, 502, "")},
			"bad answer":           {err: answer("status", batch.BadAnswer, 200, "")},
			"unknown outcome":      {err: answer("status", batch.UnknownOutcome, 0, "")},
			"rejected":             {err: answer("status", batch.Rejected, 400, "")},
			"out of credit":        {err: answer("status", batch.OutOfCredit, 429, "")},
			"unrecognised":         {err: errors.New("an adapter's own error, with " + textMarker)},
			"of another job":       {answer: otherJob},
			"in no phase":          {answer: odd},
			"two outputs":          {answer: twice},
			"a file without an id": {answer: nameless},
			"rate limited":         {err: &batch.Error{Op: "status", Kind: batch.RateLimited, RetryAfter: 30 * time.Minute}, least: 30 * time.Minute, atMost: 30 * time.Minute},
			"for very long":        {err: &batch.Error{Op: "status", Kind: batch.RateLimited, RetryAfter: 300 * time.Hour}, least: time.Hour, atMost: time.Hour},
		} {
			p.status = func(string) (batch.Job, error) { return tc.answer, tc.err }
			b.wantTally(name, b.poll(), putOff)
			b.wantJobs("submitted")
			if got, most := b.nextPoll(), max(tc.atMost, b.r.Settings.PollMax); got < max(tc.least, b.r.Settings.PollFirst) || got > most {
				t.Errorf("%s: next poll after %s", name, got)
			}
			b.due()
		}
		b.wantFindings()
		b.wantSets()
		b.wantTally("nothing to send", b.submit(), reconcile.Tally{})
		b.wantCreates(1)
		p.status = nil
		b.wantTally("a good answer", b.poll(), wentOn)
	})
}

func TestF25_JobThatTheProviderDoesNotKnow(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		p := b.sent(1)
		p.status = func(string) (batch.Job, error) { return batch.Job{}, answer("status", batch.NotFound, 404, "") }
		began := b.Clock.Now()
		for range 40 {
			b.wantTally("missed", b.poll(), putOff)
			if vanished := len(b.rows("SELECT name FROM findings")) > 0; vanished != (b.Clock.Now().Sub(began) >= b.r.Settings.MissGrace) {
				t.Fatalf("%s after the first miss: vanished is %t", b.Clock.Now().Sub(began), vanished)
			}
			b.due()
		}
		b.wantFindings("job_vanished")
		b.wantJobs("submitted")
		b.wantTally("nothing to send", b.submit(), reconcile.Tally{})
		b.wantCreates(1)

		p.status = nil // it was only hidden
		b.wantTally("found again", b.poll(), wentOn)
		b.want("misses", "SELECT CAST(poll_misses AS TEXT) || COALESCE(CAST(first_miss_us AS TEXT), '') FROM jobs", "0")
		b.fake.EndAll()
		b.due()
		b.wantTally("ended", b.poll(), itMove)
	})
}

// A few misses within the grace time are what some providers answer right after
// a job was made.
func TestF25_MissesAreCountedInARow(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		p := b.sent(1)
		for i := range 6 {
			p.status = nil
			if i%3 > 0 {
				p.status = func(string) (batch.Job, error) { return batch.Job{}, answer("status", batch.NotFound, 404, "") }
			}
			b.poll()
			b.Clock.Advance(2 * time.Hour)
		}
		b.wantFindings()
	})
}

func TestF26_PollPlannedByAWrongClock(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.sent(1)
		b.Clock.Advance(1000 * time.Hour) // the clock jumps ahead, a poll is planned, and it is set right
		b.wantTally("by the wrong clock", b.poll(), wentOn)
		b.Clock.Advance(-1000 * time.Hour)
		b.wantTally("by the right one", b.poll(), wentOn)
		if got := b.nextPoll(); got < b.r.Settings.PollFirst || got > b.r.Settings.PollMax {
			t.Errorf("next poll after %s", got)
		}
		b.wantTally("again", b.poll(), reconcile.Tally{})
	})
}

func TestF27_ExpiredJobHasPartialResults(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.sent(3)
		b.fake.EndAs("job-000001", "expired", func(i fake.Item) []fake.Line {
			if i.Line == 1 {
				return nil // as usual
			}
			return []fake.Line{{Channel: batch.ChannelError, Raw: []byte("{}")}}
		})
		b.wantTally("poll", b.poll(), itMove)
		b.wantJobs("ended")
		b.wantSets("error staging file-000003", "output staging file-000002")
		b.wantFindings()
	})
}

func TestF27_CancelledJobWithoutAnyResult(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.sent(2)
		b.fake.EndAs("job-000001", "cancelled", func(fake.Item) []fake.Line { return []fake.Line{} })
		b.wantTally("poll", b.poll(), itMove)
		b.wantJobs("ended")
		b.wantSets()
	})
}

func TestF28_BodyIsRefused(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.sent(2)
		b.fake.Refuse("job-000001", batch.Fault{Line: 2, Code: "invalid_json_line"})
		b.wantTally("poll", b.poll(), itMove)
		b.want("job", "SELECT state || ' ' || phase FROM jobs", "ended invalid")
		b.wantSets("faults staging -")
		b.wantFindings("job_refused")
	})
}

func TestF36_EndedWithoutThePromisedFiles(t *testing.T) {
	output, failures := batch.ResultFile{Channel: batch.ChannelOutput, ID: "out"}, batch.ResultFile{Channel: batch.ChannelError, ID: "err"}
	cases := map[string]struct {
		counts batch.Counts
		files  []batch.ResultFile
		waits  bool
	}{
		"no output though some completed":   {batch.Counts{Total: 2, Completed: 2}, nil, true},
		"failures alone though some worked": {batch.Counts{Total: 2, Completed: 1, Failed: 1}, []batch.ResultFile{failures}, true},
		"nothing though all failed":         {batch.Counts{Total: 2, Failed: 2}, nil, true},
		"all failed":                        {batch.Counts{Total: 2, Failed: 2}, []batch.ResultFile{failures}, false},
		"failures within the output":        {batch.Counts{Total: 2, Completed: 1, Failed: 1}, []batch.ResultFile{output}, false},
		"nothing ran":                       {batch.Counts{Total: 2}, nil, false},
		"counts that are too low":           {batch.Counts{}, []batch.ResultFile{output, failures}, false},
	}
	onBench(t, func(t *testing.T, b *bench) {
		p := &told{Provider: b.fake}
		b.r.Accounts = []batch.Provider{p}
		for name, tc := range cases {
			b.reports(2)
			b.collect()
			b.submit()
			b.Clock.Advance(b.r.Settings.PollFirst)
			p.status = func(id string) (batch.Job, error) {
				return batch.Job{ID: id, Phase: batch.PhaseEnded, Status: "completed", Known: true, Counts: tc.counts, Files: tc.files}, nil
			}
			began := b.Clock.Now()
			for tc.waits && b.Clock.Now().Sub(began) < b.r.Settings.FilesGrace {
				b.wantTally(name+": asked again", b.poll(), putOff)
				b.want(name, "SELECT f.name FROM findings f JOIN jobs j ON f.subject = 'job:' || j.job_id WHERE j.state = 'submitted'", "results_incomplete")
				b.due()
			}
			b.wantTally(name+": ended", b.poll(), itMove)
			var want []string
			for _, f := range tc.files {
				want = append(want, fmt.Sprintf("%s %s", f.Channel, f.ID))
			}
			slices.Sort(want)
			b.want(name, `SELECT channel || ' ' || file_id FROM result_sets
				WHERE job_id = (SELECT job_id FROM jobs WHERE state = 'ended' ORDER BY ended_us DESC LIMIT 1) ORDER BY channel`, want...)
		}
	})
}

func TestF36_FilesThatAppearLate(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		p := b.sent(1)
		done := batch.Job{ID: "job-000001", Phase: batch.PhaseEnded, Status: "completed", Known: true, Counts: batch.Counts{Total: 1, Completed: 1}}
		p.status = func(string) (batch.Job, error) { return done, nil }
		b.wantTally("without", b.poll(), putOff)
		done.Files = []batch.ResultFile{{Channel: batch.ChannelOutput, ID: "late"}}
		b.due()
		b.wantTally("with", b.poll(), itMove)
		b.wantSets("output staging late")
	})
}

func TestUnknownStatusIsPolledOn(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.sent(1)
		b.fake.SetStatus("job-000001", "defragmenting", false)
		b.wantTally("poll", b.poll(), wentOn)
		b.want("finding", "SELECT name || ' ' || detail FROM findings", "unknown_status status defragmenting")
		b.fake.EndAll()
		b.due()
		b.wantTally("ended", b.poll(), itMove)
	})
}

func TestJobOfAnotherAccountIsNotAskedAbout(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.sent(1)
		account := b.fake.Account()
		account.Fingerprint = "fp-other" // the key was changed to one of another project
		other := fake.New(fake.Options{Account: account})
		b.r.Accounts = []batch.Provider{other}
		b.wantTally("poll", b.poll(), putOff)
		b.wantJobs("submitted")
		b.wantFindings("account_mismatch")
		if other.Calls(fake.OpStatus) > 0 || b.nextPoll() != b.r.Settings.PollMax {
			t.Errorf("%d look-ups, next after %s", other.Calls(fake.OpStatus), b.nextPoll())
		}
		b.r.Accounts = []batch.Provider{other, b.fake}
		b.due()
		b.wantTally("with both accounts", b.poll(), wentOn)
	})
}

func TestDeniedLookUpPausesDispatchAndPollsOn(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		p := b.sent(1)
		p.status = func(string) (batch.Job, error) {
			return batch.Job{}, answer("status", batch.Denied, 401, "invalid_api_key")
		}
		b.wantTally("poll", b.poll(), putOff)
		b.wantFindings("account_denied")
		b.want("pause", "SELECT scope || ' ' || stage FROM pauses", "account:main dispatch")
		p.status = nil
		b.fake.EndAll()
		b.due()
		b.wantTally("with the right key", b.poll(), itMove)
	})
}

func TestPollWaitsForAPauseToBeLifted(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.sent(1)
		for _, scope := range []string{"all", "account:main", "policy:p"} {
			pause := reconcile.Pause{Scope: scope, Stage: reconcile.PausePoll, Actor: "anna", Reason: "a test"}
			if _, err := b.Pause(t.Context(), b.Clock.Now(), pause); err != nil {
				t.Fatal(err)
			}
			b.wantTally(scope, b.poll(), reconcile.Tally{})
			if err := b.Resume(t.Context(), b.Clock.Now(), scope, reconcile.PausePoll, "anna", "done"); err != nil {
				t.Fatal(err)
			}
		}
		b.wantTally("resumed", b.poll(), wentOn)
	})
}

// More jobs than one page, and fewer than are due: a run is bounded, and the
// jobs that wait longest come first.
func TestPollIsBounded(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(30)
		b.r.Settings.JobItems = 1
		b.collect()
		b.submit()
		b.Clock.Advance(b.r.Settings.PollFirst)
		b.r.Settings.JobsPerRun = 25
		b.wantTally("first", b.poll(), reconcile.Tally{Seen: 25})
		b.wantTally("second", b.poll(), reconcile.Tally{Seen: 5})
		b.wantTally("third", b.poll(), reconcile.Tally{})
	})
}

func TestLateAnswersAboutAJobThatWentOn(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.sent(1)
		job, now := b.rows("SELECT job_id FROM jobs")[0], b.Clock.Now()
		end := reconcile.JobEnd{JobID: job, Phase: batch.PhaseEnded, Status: "completed", Files: []batch.ResultFile{{Channel: batch.ChannelOutput, ID: "f"}}}
		for range 2 { // again changes nothing
			if err := b.EndJob(t.Context(), now, end); err != nil {
				t.Fatal(err)
			}
		}
		b.wantSets("output staging f")
		for name, err := range map[string]error{
			"answer": b.RecordAnswer(t.Context(), now, reconcile.JobAnswer{JobID: job, Status: "running", NextPoll: now}),
			"delay":  b.DelayPoll(t.Context(), job, now),
			"submit": b.DelaySubmit(t.Context(), job, now),
		} {
			if !errors.Is(err, reconcile.ErrMoved) {
				t.Errorf("%s about an ended job: %v", name, err)
			}
		}
		if _, err := b.RecordMiss(t.Context(), now, job, now); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("miss about an ended job: %v", err)
		}
		b.change("UPDATE jobs SET state = 'consumed', next_consume_us = NULL, consumed_us = ended_us")
		if err := b.EndJob(t.Context(), now, end); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("a late end of a consumed job: %v", err)
		}
		b.want("job", "SELECT state || ' ' || provider_status FROM jobs", "consumed completed")
		if err := b.EndJob(t.Context(), now, reconcile.JobEnd{JobID: "nobody"}); !errors.Is(err, reconcile.ErrNotFound) {
			t.Errorf("end of a job that is not there: %v", err)
		}
	})
}

func TestLostCommitsOfPoll(t *testing.T) {
	onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
		p := b.sent(1)
		for tx, status := range map[string]func(string) (batch.Job, error){
			"claim due jobs": nil,
			"record answer":  nil,
			"delay poll":     func(string) (batch.Job, error) { return batch.Job{}, answer("status", batch.Temporary, 0, "") },
			"record miss":    func(string) (batch.Job, error) { return batch.Job{}, answer("status", batch.NotFound, 0, "") },
		} {
			p.status = status
			c.lose[tx] = before
			_, err := b.r.Poll(t.Context(), b.Clock.Now())
			if tx == "claim due jobs" != (err != nil) || len(c.lose) > 0 {
				t.Errorf("%s: error %v, not lost %v", tx, err, c.lose)
			}
			b.wantJobs("submitted")
			b.due()
		}
		p.status = nil
		b.fake.EndAll()
		c.lose["end job"] = before
		b.poll()
		b.wantJobs("submitted")
		b.due()
		b.wantTally("at last", b.poll(), itMove)
	})
}
