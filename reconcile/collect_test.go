package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// members are the works of each job in the order of their positions.
func (b *bench) members() (jobs [][]string) {
	b.t.Helper()
	for _, id := range b.rows("SELECT job_id FROM jobs ORDER BY created_us, job_id") {
		jobs = append(jobs, b.rows("SELECT work_id FROM items WHERE job_id = $1 ORDER BY position", id))
	}
	return jobs
}

func TestCollectTakesUrgentOnesFirstThenTheOldest(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		works := b.reports(5)
		b.Clock.Advance(time.Minute)
		urgent := b.delivery("u", 1, reportText("u", 1))
		urgent.Urgent = true
		works = append(b.accept(urgent), works...)
		b.wantTally("collect", b.collect(), reconcile.Tally{Seen: 6, Moved: 6})
		if got := b.members(); len(got) != 1 || !slices.Equal(got[0], works) {
			t.Errorf("members %v, want %v", got, works)
		}
		b.wantJobs("ready")
		b.want("counts", "SELECT CAST(item_count AS TEXT) || ' ' || CAST(content_bytes - 6 * 2 AS TEXT) FROM jobs",
			fmt.Sprintf("6 %d", 6*len(reportText("u", 1))+5))
		b.wantTally("again", b.collect(), reconcile.Tally{})
	})
}

func TestCollectStaysWithinTheLimits(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		works := b.reports(8)
		b.r.Settings.JobItems = 3
		b.wantTally("collect", b.collect(), reconcile.Tally{Seen: 8, Moved: 8})
		if got := b.members(); fmt.Sprint(got) != fmt.Sprint([][]string{works[:3], works[3:6], works[6:]}) {
			t.Errorf("members %v of %v", got, works)
		}
		b.wantJobs("ready", "ready", "ready")
	})
}

func TestCollectMakesNoMoreJobsThanARunMay(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(5)
		b.r.Settings.JobItems, b.r.Settings.JobsPerRun = 1, 2
		b.wantTally("first run", b.collect(), reconcile.Tally{Seen: 2, Moved: 2})
		b.wantTally("second run", b.collect(), reconcile.Tally{Seen: 2, Moved: 2})
		b.wantTally("third run", b.collect(), reconcile.Tally{Seen: 1, Moved: 1})
	})
}

func TestCollectClosesWhatIsTooLargeAndTheRestGoesOn(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.fake = fake.New(fake.Options{Account: b.fake.Account(), Limits: batch.Limits{ItemBytes: 600}})
		b.r.Accounts = []batch.Provider{b.fake}
		works := b.reports(4)
		works = append(works, b.accept(b.delivery("long", 1, strings.Repeat(textMarker, 60)))...)
		works = append(works, b.reports(1)...)
		b.wantTally("collect", b.collect(), reconcile.Tally{Seen: 6, Moved: 6})
		if got := b.members(); len(got) != 1 || !slices.Equal(got[0], slices.Delete(slices.Clone(works), 4, 5)) {
			t.Errorf("members %v of %v", got, works)
		}
		b.want("the long one", "SELECT work_id || ' ' || stage FROM works WHERE reason = 'too_large'", works[4]+" extracted")
	})
}

// A text that only just fits as it is counted must fit as it is rendered.
func TestPlannedJobsAreNeverTooLongToBeSent(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.fake = fake.New(fake.Options{Account: b.fake.Account(), Limits: batch.Limits{Bytes: 2000}, Now: b.Clock.Now})
		b.r.Accounts = []batch.Provider{b.fake}
		for i := range 12 {
			nasty := textMarker + strings.Repeat("\"\n\\\u2028", 20+i)
			d := b.delivery(fmt.Sprint("n", i), 1, nasty)
			d.ContentBytes = int64(len(textMarker) + 2 + (2+2+2+6)*(20+i)) // as a JSON string
			b.accept(d)
		}
		b.collect()
		if tally := b.submit(); tally.Failed > 0 || tally.Moved < 2 {
			t.Errorf("submit %+v; %s", tally, b.log)
		}
	})
}

// F11: the job is committed and the process died.
func TestF11_JobThatWasBeingPlannedIsFilledOn(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		works := b.reports(5)
		job, err := b.AddItems(t.Context(), b.Clock.Now(), reconcile.PlanStep{JobID: "0-left-behind", Policy: b.policy, Works: works[:2]})
		if err != nil || job.Items != 2 || job.State != reconcile.JobPlanning {
			t.Fatalf("job %+v, %v", job, err)
		}
		b.r.Settings.JobItems = 4
		b.collect()
		if got := b.members(); fmt.Sprint(got) != fmt.Sprint([][]string{works[:4], works[4:]}) {
			t.Errorf("members %v of %v", got, works)
		}
		b.wantJobs("ready", "ready")
	})
}

func TestF11_FullJobThatWasBeingPlannedBecomesReady(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		works := b.reports(2)
		if _, err := b.AddItems(t.Context(), b.Clock.Now(), reconcile.PlanStep{JobID: "0-left-behind", Policy: b.policy, Works: works}); err != nil {
			t.Fatal(err)
		}
		b.collect()
		b.wantJobs("ready")
	})
}

func TestF09_DiesBeforeTheCommit(t *testing.T) {
	onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
		b.reports(2)
		c.lose["add items"] = before
		b.wantTally("collect", b.collect(), reconcile.Tally{Failed: 1})
		b.wantJobs()
		b.want("stages", "SELECT DISTINCT stage FROM works", "pending")
		b.wantTally("again", b.collect(), reconcile.Tally{Seen: 2, Moved: 2})
		b.wantJobs("ready")
	})
}

func TestF09_AnswerOfTheCommitIsLost(t *testing.T) {
	onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
		b.reports(2)
		c.lose["add items"] = after
		b.wantTally("collect", b.collect(), reconcile.Tally{Seen: 2, Moved: 2})
		b.wantJobs("ready")
	})
}

func TestF10_ManyCollectors(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		works := b.reports(40)
		b.r.Settings.JobItems = 7
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				r := b.reconciler(b.Store)
				r.Settings = b.r.Settings
				if _, err := r.Collect(context.WithoutCancel(t.Context()), b.Clock.Now()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		b.collect()
		got := slices.Concat(b.members()...)
		slices.Sort(got)
		slices.Sort(works)
		if !slices.Equal(got, works) {
			t.Errorf("%d members of %d works", len(got), len(works))
		}
		b.want("jobs over the limit", "SELECT job_id FROM jobs WHERE item_count > 7 OR state <> 'ready'")
		b.want("wrong counts", "SELECT job_id FROM jobs j WHERE item_count <> (SELECT COUNT(*) FROM items i WHERE i.job_id = j.job_id)")
	})
}

func TestCollectLeavesAPausedPolicyAndGoesOn(t *testing.T) {
	for name, scope := range map[string]string{"policy": "policy:a", "account": "account:other"} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				first := sqltest.Policy("a", 1) // comes before policy p
				first.Boundary.Account = "other"
				other := fake.New(fake.Options{Account: batch.Account{Processor: "fake", Name: "other", Host: "fake.test", Region: "test", Fingerprint: "fp-other"}})
				b.r.Accounts = append(b.r.Accounts, other)
				usual := b.policy
				b.policy = b.Approve(t, first)
				b.accept(b.delivery("other", 1, reportText("other", 1)))
				b.policy = usual
				works := b.reports(1)
				pause := reconcile.Pause{Scope: scope, Stage: reconcile.PauseDispatch, Actor: "anna", Reason: "a test"}
				if _, err := b.Pause(t.Context(), b.Clock.Now(), pause); err != nil {
					t.Fatal(err)
				}
				b.wantTally("paused", b.collect(), reconcile.Tally{Seen: 1, Moved: 1, Failed: 1})
				if got := b.members(); len(got) != 1 || !slices.Equal(got[0], works) {
					t.Errorf("members %v", got)
				}
				if err := b.Resume(t.Context(), b.Clock.Now(), scope, reconcile.PauseDispatch, "anna", "done"); err != nil {
					t.Fatal(err)
				}
				b.wantTally("resumed", b.collect(), reconcile.Tally{Seen: 1, Moved: 1})
			})
		})
	}
}

func TestF44_CollectUnderARevokedPolicy(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		works := b.reports(1)
		b.change("UPDATE policy_versions SET state = 'revoked'")
		b.wantTally("collect", b.collect(), reconcile.Tally{})
		_, err := b.AddItems(t.Context(), b.Clock.Now(), reconcile.PlanStep{JobID: "j", Policy: b.policy, Works: works})
		if !errors.Is(err, reconcile.ErrNotApproved) {
			t.Errorf("add items: %v", err)
		}
		b.wantJobs()
	})
}

func TestCollectKeepsToTheBoundary(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(1)
		elsewhere := b.fake.Account()
		elsewhere.Host = "other.test"
		b.r.Accounts = []batch.Provider{fake.New(fake.Options{Account: elsewhere})}
		b.wantTally("collect", b.collect(), reconcile.Tally{Failed: 1})
		b.wantJobs()
		b.wantFindings("boundary_mismatch")
	})
}

func TestF07_HeldReportsGetTheirWorkOnceAPolicyIsApproved(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		const n = 8 // over two pages
		for i := range n {
			d := b.delivery(fmt.Sprint("h", i), 1, reportText("h", int64(i)))
			d.Policy, d.WorkID = nil, nil
			if i == 2 {
				d.Text, d.Reason, d.Media = b.delivery("h2", 1, "").Text, reconcile.AudioOnly, "audio"
			}
			b.Clock.Advance(time.Second)
			b.accept(d)
		}
		other := b.delivery("x", 1, reportText("x", 1))
		other.Identity.System, other.ReportID = "elsewhere", b.Keys.ReportID("acme", "elsewhere", "x")
		other.Policy, other.WorkID = nil, nil
		b.accept(other)
		b.r.PolicyFor = func(string, string) (string, bool) { return "", false }
		b.wantTally("no policy for the source", b.collect(), reconcile.Tally{Seen: n + 1})
		b.r.PolicyFor = b.reconciler(b.Store).PolicyFor
		newer := b.Approve(t, sqltest.Policy("p", 2))
		got := b.collect()
		if got.Failed != 0 || got.Moved != n+n-1 { // all get a work, and all but the one without text go into a job
			t.Errorf("collect %+v; %s", got, b.log)
		}
		b.want("versions", "SELECT DISTINCT CAST(policy_version AS TEXT) FROM works", fmt.Sprint(newer.Version))
		b.want("works", "SELECT CAST(COUNT(*) AS TEXT) FROM works", fmt.Sprint(n))
		b.want("without text", "SELECT reason || ' ' || stage FROM works WHERE reason IS NOT NULL", "audio_only extracted")
		b.want("still held", "SELECT report_id FROM holds", other.ReportID)
	})
}
