package sql_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// planner is a ledger with an approved policy, and rows made by hand.
type planner struct {
	*sqltest.Ledger
	raw
	policy *reconcile.PolicyVersion
}

func eachPlanner(t *testing.T, test func(t *testing.T, p *planner)) {
	t.Helper()
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		test(t, &planner{Ledger: l, raw: openRaw(t, l.Address), policy: l.Approve(t, sqltest.Policy("p", 1))})
	})
}

// pending makes a report "r-<work>" and its pending work under the policy.
func (p *planner) pending(work string, set row) {
	p.t.Helper()
	full := row{"boundary_id": p.policy.BoundaryID}
	for k, v := range set {
		full[k] = v
	}
	p.work("r-"+work, work, full)
}

func (p *planner) strings(query string, args ...any) (out []string) {
	p.t.Helper()
	if err := p.db.Select(&out, query, args...); err != nil {
		p.t.Fatalf("%s: %v", query, err)
	}
	return out
}

func (p *planner) add(job string, ready bool, works ...string) (reconcile.Job, error) {
	step := reconcile.PlanStep{JobID: job, Policy: p.policy, Works: works, Ready: ready}
	if j, err := p.PlanningJob(p.t.Context(), p.policy.Key()); err == nil && j.ID == job {
		step.Had = j.Items
	}
	return p.AddItems(p.t.Context(), p.Clock.Now(), step)
}

func TestDueWorksInPages(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.pending("b-young", row{"created_us": startUS - 1})
		p.pending("c-old", row{"created_us": startUS - 9})
		p.pending("a-old", row{"created_us": startUS - 9})
		p.pending("z-urgent-young", row{"created_us": startUS - 1, "urgent": 1})
		p.pending("y-urgent-old", row{"created_us": startUS - 9, "urgent": 1})
		p.pending("later", row{"created_us": startUS - 9, "eligible_us": startUS + 1})
		p.pending("superseded", row{"disposition": "superseded"})
		p.pending("collected", row{"stage": "collected"})
		want := []string{"y-urgent-old", "z-urgent-young", "a-old", "c-old", "b-young"}
		for limit := 1; limit <= 6; limit++ {
			var got []string
			var after *reconcile.DueWork
			for {
				due, err := p.DueWorks(t.Context(), p.Clock.Now(), p.policy.Key(), after, limit)
				if err != nil {
					t.Fatal(err)
				}
				if len(due) == 0 {
					break
				}
				for _, w := range due {
					got = append(got, w.WorkID)
				}
				after = &due[len(due)-1]
			}
			if !slices.Equal(got, want) {
				t.Errorf("in pages of %d: %v, want %v", limit, got, want)
			}
		}
		if due, err := p.DueWorks(t.Context(), p.Clock.Now(), reconcile.PolicyKey{ID: "p", Version: 2}, nil, 9); err != nil || len(due) > 0 {
			t.Errorf("under another version: %v, %v", due, err)
		}
	})
}

func TestLoadedPolicies(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		other := p.Approve(t, sqltest.Policy("q", 1))
		loaded := func() (keys []string) {
			all, err := p.LoadedPolicies(t.Context(), p.Clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range all {
				keys = append(keys, v.Key().String())
			}
			return keys
		}
		if got := loaded(); len(got) > 0 {
			t.Errorf("nothing is due, and %v", got)
		}
		p.pending("w", row{"eligible_us": startUS + 1})
		p.job("j", "planning", row{"policy_id": "q", "boundary_id": other.BoundaryID})
		if got := loaded(); fmt.Sprint(got) != "[q/1]" {
			t.Errorf("a planning job: %v", got)
		}
		p.exec("UPDATE works SET eligible_us = $1", startUS)
		if got := loaded(); fmt.Sprint(got) != "[p/1 q/1]" {
			t.Errorf("a work as well: %v", got)
		}
		p.exec("UPDATE policy_versions SET state = 'revoked'")
		if got := loaded(); len(got) > 0 {
			t.Errorf("revoked: %v", got)
		}
	})
}

func TestF10_WorkThatIsGoneMovesNothing(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.pending("good", nil)
		for name, set := range map[string]row{
			"collected": {"stage": "collected"}, "superseded": {"disposition": "superseded"}, "later": {"eligible_us": startUS + 1},
		} {
			p.pending(name, set)
			if _, err := p.add("j", true, "good", name); !errors.Is(err, reconcile.ErrMoved) {
				t.Errorf("a work that is %s: %v", name, err)
			}
		}
		if _, err := p.add("j", true, "good", "nobody"); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("a work that is not there: %v", err)
		}
		if _, err := p.add("j", true, "good", "good"); err == nil {
			t.Error("a work twice in one step")
		}
		if got := p.strings("SELECT job_id FROM jobs"); len(got) > 0 {
			t.Errorf("jobs %v", got)
		}
		if got := p.strings("SELECT stage FROM works WHERE work_id = 'good'"); got[0] != "pending" {
			t.Errorf("the good one is %v", got)
		}
	})
}

func TestAddItemsInSteps(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		for _, w := range []string{"d", "c", "b", "a"} {
			p.pending(w, nil)
		}
		if _, err := p.add("j", true); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("a ready job without members: %v", err)
		}
		for i, step := range [][]string{{"d", "b"}, {"c"}} {
			job, err := p.add("j", false, step...)
			if err != nil || job.State != reconcile.JobPlanning || job.Items != int64(i+2) || job.ContentBytes != int64(i+2)*10 {
				t.Fatalf("job %+v, %v", job, err)
			}
		}
		if _, err := p.add("other", false, "a"); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("a second planning job: %v", err)
		}
		job, err := p.add("j", true)
		if err != nil || job.State != reconcile.JobReady {
			t.Fatalf("job %+v, %v", job, err)
		}
		if _, err := p.add("j", true, "a"); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("a member for a ready job: %v", err)
		}
		if got := p.strings("SELECT work_id || CAST(position AS TEXT) FROM items ORDER BY position"); fmt.Sprint(got) != "[d1 b2 c3]" {
			t.Errorf("items %v", got)
		}
		if _, err := p.PlanningJob(t.Context(), p.policy.Key()); !errors.Is(err, reconcile.ErrNotFound) {
			t.Errorf("planning job: %v", err)
		}
		if _, err := p.add("other", false, "a"); err != nil {
			t.Errorf("the next job: %v", err)
		}
	})
}

func TestF10_CollectorsOfOneWork(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		for round := range 5 {
			work := fmt.Sprint("w", round)
			p.pending(work, nil)
			p.pending(work+"-other", nil)
			var group sync.WaitGroup
			var mu sync.Mutex
			won := 0
			for i := range 8 {
				group.Go(func() {
					works := []string{work, work + "-other"}
					if i%2 == 1 {
						slices.Reverse(works)
					}
					_, err := p.AddItems(context.WithoutCancel(t.Context()), p.Clock.Now(),
						reconcile.PlanStep{JobID: fmt.Sprint("j", round, "-", i), Policy: p.policy, Works: works, Ready: true})
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						won++
					} else if !errors.Is(err, reconcile.ErrMoved) {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if won != 1 {
				t.Errorf("%d collectors took the same works", won)
			}
		}
	})
}

func TestCloseWorksOnce(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.pending("long", nil)
		p.pending("collected", row{"stage": "collected"})
		closings := []reconcile.Closing{{WorkID: "long", Reason: reconcile.TooLarge}, {WorkID: "collected", Reason: reconcile.TooLarge}, {WorkID: "nobody", Reason: reconcile.TooLarge}}
		for _, want := range []int{1, 0} {
			if n, err := p.CloseWorks(t.Context(), p.Clock.Now(), closings); err != nil || n != want {
				t.Errorf("closed %d, %v; want %d", n, err, want)
			}
		}
		if got := p.strings("SELECT work_id || ' ' || stage || ' ' || COALESCE(reason, '-') FROM works ORDER BY work_id"); fmt.Sprint(got) != "[collected collected - long extracted too_large]" {
			t.Errorf("works %v", got)
		}
	})
}

func TestPausedOrRevokedPlansNothing(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.pending("w", nil)
		for _, scope := range []string{"all", "account:main", "policy:p"} {
			pause := reconcile.Pause{Scope: scope, Stage: reconcile.PauseDispatch, Actor: "a", Reason: "r"}
			if _, err := p.Pause(t.Context(), p.Clock.Now(), pause); err != nil {
				t.Fatal(err)
			}
			if _, err := p.add("j", true, "w"); !errors.Is(err, reconcile.ErrPaused) {
				t.Errorf("%s is paused: %v", scope, err)
			}
			if err := p.Resume(t.Context(), p.Clock.Now(), scope, reconcile.PauseDispatch, "a", "r"); err != nil {
				t.Fatal(err)
			}
		}
		p.exec("UPDATE policy_versions SET state = 'draft'")
		if _, err := p.add("j", true, "w"); !errors.Is(err, reconcile.ErrNotApproved) {
			t.Errorf("not approved: %v", err)
		}
		if got := p.strings("SELECT stage FROM works"); got[0] != "pending" {
			t.Errorf("work is %v", got)
		}
	})
}

// A lease is proven in the same transaction.
func TestCollectorWithoutItsLease(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.pending("w", nil)
		ctx := reconcile.WithLease(t.Context(), reconcile.Lease{Name: "pass:collect", Holder: "a", Fence: 3})
		_, err := p.AddItems(ctx, p.Clock.Now().Add(time.Hour), reconcile.PlanStep{JobID: "j", Policy: p.policy, Works: []string{"w"}})
		if !errors.Is(err, reconcile.ErrLeaseLost) {
			t.Errorf("error %v", err)
		}
	})
}
