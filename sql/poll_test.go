package sql_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/reconcile"
)

func (p *planner) submitted(n int) {
	p.t.Helper()
	for i := range n {
		id := fmt.Sprintf("j%02d", i)
		p.job(id, "submitted", row{"boundary_id": p.policy.BoundaryID, "provider_job_id": "prov-" + id, "next_poll_us": startUS - int64(i%7)})
	}
}

func TestEachDueJobIsClaimedOnce(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		const jobs, claimers = 60, 8
		p.submitted(jobs)
		now := p.Clock.Now()
		var group sync.WaitGroup
		var mu sync.Mutex
		claimed := map[string]int{}
		for range claimers {
			group.Go(func() {
				for {
					page, err := p.ClaimDueJobs(context.WithoutCancel(t.Context()), now, now.Add(time.Minute), now.Add(time.Hour), 5)
					if err != nil {
						t.Error(err)
						return
					}
					if len(page) == 0 {
						return
					}
					mu.Lock()
					for _, j := range page {
						claimed[j.ID]++
					}
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if len(claimed) != jobs || slices.Max(slices.Collect(maps.Values(claimed))) > 1 {
			t.Errorf("%d jobs are claimed: %v", len(claimed), claimed)
		}
		if got := p.strings("SELECT job_id FROM jobs WHERE next_poll_us <> $1", startUS+minute); len(got) > 0 {
			t.Errorf("not moved forward: %v", got)
		}
	})
}

func TestClaimTakesWhatIsDueOldestFirst(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		b := p.policy.BoundaryID
		p.job("later", "submitted", row{"boundary_id": b, "next_poll_us": startUS + 1})
		p.job("second", "submitted", row{"boundary_id": b, "next_poll_us": startUS})
		p.job("first", "submitted", row{"boundary_id": b, "next_poll_us": startUS - hour})
		p.job("wrong-clock", "submitted", row{"boundary_id": b, "next_poll_us": startUS + 1000*hour})
		p.job("ended", "ended", row{"boundary_id": b})
		now := p.Clock.Now()
		var got []string
		for range 4 {
			page, err := p.ClaimDueJobs(t.Context(), now, now.Add(time.Minute), now.Add(time.Hour), 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range page {
				got = append(got, j.ID+" "+j.ProviderJobID+" "+j.Account)
			}
		}
		if want := "[first prov-first acct second prov-second acct wrong-clock prov-wrong-clock acct]"; fmt.Sprint(got) != want {
			t.Errorf("claimed %v", got)
		}
	})
}

func TestF25_MissesInARow(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.submitted(1)
		first := p.Clock.Now()
		for i := range 3 {
			p.Clock.Advance(time.Minute)
			job, err := p.RecordMiss(t.Context(), p.Clock.Now(), "j00", p.Clock.Now().Add(time.Hour))
			if err != nil || job.Misses != int64(i+1) || !job.FirstMiss.Equal(first.Add(time.Minute)) {
				t.Fatalf("job %+v, %v", job, err)
			}
		}
		answer := reconcile.JobAnswer{JobID: "j00", Status: "in_progress", Counts: batch.Counts{Total: 3}, NextPoll: p.Clock.Now(), Expires: first.Add(24 * time.Hour)}
		if err := p.RecordAnswer(t.Context(), p.Clock.Now(), answer); err != nil {
			t.Fatal(err)
		}
		answer.Expires = time.Time{} // not told this time
		if err := p.RecordAnswer(t.Context(), p.Clock.Now(), answer); err != nil {
			t.Fatal(err)
		}
		job, err := p.RecordMiss(t.Context(), p.Clock.Now(), "j00", p.Clock.Now())
		if err != nil || job.Misses != 1 || !job.FirstMiss.Equal(p.Clock.Now()) || !job.Expires.Equal(first.Add(24*time.Hour)) {
			t.Errorf("job %+v, %v", job, err)
		}
	})
}

func TestF36_IncompleteSince(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.submitted(1)
		since := p.Clock.Now()
		incomplete := func(now time.Time, yes bool) reconcile.Job {
			a := reconcile.JobAnswer{JobID: "j00", Status: "completed", NextPoll: now, Incomplete: yes}
			if err := p.RecordAnswer(t.Context(), now, a); err != nil {
				t.Fatal(err)
			}
			jobs, err := p.ClaimDueJobs(t.Context(), now, now, now.Add(time.Hour), 1)
			if err != nil || len(jobs) != 1 {
				t.Fatalf("jobs %v, %v", jobs, err)
			}
			return jobs[0]
		}
		incomplete(since, true)
		if job := incomplete(since.Add(time.Hour), true); !job.Incomplete.Equal(since) {
			t.Errorf("incomplete since %s", job.Incomplete)
		}
		if job := incomplete(since.Add(2*time.Hour), false); !job.Incomplete.IsZero() {
			t.Errorf("incomplete since %s", job.Incomplete)
		}
	})
}

func TestEndedJobNamesItsSets(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.submitted(2)
		files := []batch.ResultFile{{Channel: batch.ChannelError, ID: "e"}, {Channel: batch.ChannelOutput, ID: "o"}}
		for id, end := range map[string]reconcile.JobEnd{
			"j00": {Phase: batch.PhaseEnded, Status: "completed", Counts: batch.Counts{Total: 3, Completed: 2, Failed: 1}, Files: files},
			"j01": {Phase: batch.PhaseInvalid, Status: "failed"},
		} {
			end.JobID = id
			if err := p.EndJob(t.Context(), p.Clock.Now(), end); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.strings("SELECT job_id || ' ' || channel || ' ' || state || ' ' || COALESCE(file_id, '-') FROM result_sets ORDER BY job_id, channel"); fmt.Sprint(got) !=
			"[j00 error staging e j00 output staging o j01 faults staging -]" {
			t.Errorf("sets %v", got)
		}
		twice := reconcile.JobEnd{JobID: "j00", Phase: batch.PhaseEnded, Files: files}
		if err := p.EndJob(t.Context(), p.Clock.Now(), twice); err != nil {
			t.Errorf("again: %v", err)
		}
		p.exec("UPDATE jobs SET state = 'consumed', next_consume_us = NULL, consumed_us = 1 WHERE job_id = 'j00'")
		if err := p.EndJob(t.Context(), p.Clock.Now(), twice); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("after it was consumed: %v", err)
		}
	})
}
