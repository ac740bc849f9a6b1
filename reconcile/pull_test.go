package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/reconcile"
)

// accountName is the name of the bench's account.
func (b *bench) accountName() string { return b.fake.Account().Name }

func (b *bench) pull(account, providerJobID string) string {
	b.t.Helper()
	jobID, err := b.r.PullPoll(b.t.Context(), account, providerJobID)
	if err != nil {
		b.t.Fatal(err)
	}
	return jobID
}

// aged has the submitted job asked about until it is asked seldom, and leaves the
// clock at its last answer.
func (b *bench) aged() {
	b.t.Helper()
	b.wantTally("running", b.poll(), wentOn)
	for b.nextPoll() < b.r.Settings.PollMax/2 {
		b.due()
		b.wantTally("running", b.poll(), wentOn)
	}
}

func TestPullPoll(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.sent(1)
		job, theirs, name := b.rows("SELECT job_id FROM jobs")[0], b.rows("SELECT provider_job_id FROM jobs")[0], b.accountName()
		first := b.r.Settings.PollFirst
		if got := b.pull(name, theirs); got != "" {
			t.Errorf("a job that was never asked about: %q", got)
		}
		b.aged()
		for who, jobOfIt := range map[string]string{name: "job-of-nobody", "other-account": theirs} {
			if got := b.pull(who, jobOfIt); got != "" {
				t.Errorf("%s at %s: pulled %q", jobOfIt, who, got)
			}
		}
		if got := b.pull(name, theirs); got != job || b.nextPoll() != first {
			t.Errorf("right behind an answer: %q, due in %s", got, b.nextPoll())
		}
		b.due()
		b.wantTally("running", b.poll(), wentOn)
		for b.nextPoll() < 3*first {
			b.due()
			b.wantTally("running", b.poll(), wentOn)
		}
		b.Clock.Advance(2 * first)
		if got := b.pull(name, theirs); got != job || b.nextPoll() != 0 {
			t.Errorf("some time behind an answer: %q, due in %s", got, b.nextPoll())
		}
		if got := b.pull(name, theirs); got != "" {
			t.Errorf("again: %q", got)
		}
		b.wantJobs("submitted")
		b.fake.EndAll()
		b.wantTally("at the regular pass", b.poll(), itMove)
		if got := b.pull(name, theirs); got != "" {
			t.Errorf("a job that has ended: %q", got)
		}
		b.wantJobs("ended")
		b.change("UPDATE jobs SET state = 'consumed', next_consume_us = NULL, consumed_us = ended_us")
		if got := b.pull(name, theirs); got != "" {
			t.Errorf("a job that was consumed: %q", got)
		}
		b.wantJobs("consumed")
		b.wantFindings()
	})
}

// However much a provider says, or somebody repeats, a job is asked about no more
// often than once in PollFirst, and at its end at once.
func TestStormOfPulls(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		p := b.sent(1)
		theirs, name := b.rows("SELECT provider_job_id FROM jobs")[0], b.accountName()
		var asked []time.Time
		p.status = func(id string) (batch.Job, error) {
			asked = append(asked, b.Clock.Now())
			return p.Provider.Status(t.Context(), id)
		}
		const step, length = 7 * time.Second, 15 * time.Minute
		for began := b.Clock.Now(); b.Clock.Now().Sub(began) < length; b.Clock.Advance(step) {
			b.pull(name, theirs)
			b.poll()
			b.pull(name, theirs)
		}
		for i := 1; i < len(asked); i++ {
			if apart := asked[i].Sub(asked[i-1]); apart < b.r.Settings.PollFirst || apart >= b.r.Settings.PollFirst+step {
				t.Errorf("asked again after %s", apart)
			}
		}
		if most := int(length/b.r.Settings.PollFirst) + 1; len(asked) > most || len(asked) < most/2 {
			t.Errorf("asked %d times, want at most %d and early ones among them", len(asked), most)
		}
		b.fake.EndAll()
		b.Clock.Advance(b.r.Settings.PollFirst)
		b.pull(name, theirs)
		b.wantTally("ended", b.poll(), itMove)
	})
}

// A provider that asked for a wait gets it, whatever its events say; and nothing
// is hurried while it is being asked.
func TestPullHurriesNoLookThatFailedOrIsUnderWay(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		p := b.sent(1)
		theirs, name := b.rows("SELECT provider_job_id FROM jobs")[0], b.accountName()
		b.aged()
		for what, err := range map[string]error{
			"rate limited": &batch.Error{Op: "status", Kind: batch.RateLimited, RetryAfter: 30 * time.Minute},
			"temporary":    answer("status", batch.Temporary, 502, ""),
			"missed":       answer("status", batch.NotFound, 404, ""),
		} {
			p.status = func(string) (batch.Job, error) {
				if got := b.pull(name, theirs); got != "" {
					t.Errorf("%s: pulled while it is asked about", what)
				}
				return batch.Job{}, err
			}
			b.due()
			b.wantTally(what, b.poll(), putOff)
			wait := b.nextPoll()
			if got := b.pull(name, theirs); got != "" || b.nextPoll() != wait || wait < b.r.Settings.PollFirst {
				t.Errorf("%s: pulled %q, due in %s instead of %s", what, got, b.nextPoll(), wait)
			}
		}
		p.status = nil
		b.due()
		b.wantTally("a good answer", b.poll(), wentOn)
		if got := b.pull(name, theirs); got == "" || b.nextPoll() != b.r.Settings.PollFirst {
			t.Errorf("behind a good answer: pulled %q, due in %s", got, b.nextPoll())
		}
	})
}

// A pull whose commit is lost, or done and not acknowledged, may be repeated.
func TestLostCommitOfAPull(t *testing.T) {
	onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
		b.sent(1)
		theirs, name := b.rows("SELECT provider_job_id FROM jobs")[0], b.accountName()
		b.aged()
		wait := b.nextPoll()
		for _, at := range []loss{before, after} {
			c.lose["pull poll"] = at
			if _, err := b.r.PullPoll(t.Context(), name, theirs); !errors.Is(err, reconcile.ErrUnknownCommit) {
				t.Errorf("lost: %v", err)
			}
			if at == before && b.nextPoll() != wait {
				t.Errorf("moved without a commit, to %s", b.nextPoll())
			}
		}
		if got := b.pull(name, theirs); got != "" || b.nextPoll() != b.r.Settings.PollFirst {
			t.Errorf("pulled %q a second time, due in %s", got, b.nextPoll())
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := b.r.PullPoll(ended, name, theirs); !errors.Is(err, context.Canceled) {
			t.Errorf("nobody waits for it any more: %v", err)
		}
	})
}
