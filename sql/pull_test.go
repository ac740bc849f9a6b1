package sql_test

import (
	"fmt"
	"testing"
	"time"

	"rollcall/reconcile"
)

const pollsSQL = "SELECT job_id || ' ' || state || ' ' || COALESCE(CAST(next_poll_us AS TEXT), '-') FROM jobs ORDER BY job_id"

func TestPullPollMovesNothingElse(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		b := p.policy.BoundaryID
		submitted := func(id string, set row) {
			full := row{"boundary_id": b, "provider_job_id": "prov-" + id, "next_poll_us": startUS + hour, "pull_from_us": startUS - minute}
			for column, value := range set {
				full[column] = value
			}
			p.job(id, "submitted", full)
		}
		submitted("asked", nil)
		submitted("asked-lately", row{"pull_from_us": startUS + minute})
		submitted("asked-now", row{"pull_from_us": startUS})
		submitted("due", row{"next_poll_us": startUS - minute})
		submitted("due-now", row{"next_poll_us": startUS})
		submitted("due-at-the-earliest", row{"next_poll_us": startUS + minute, "pull_from_us": startUS + minute})
		submitted("due-before", row{"next_poll_us": startUS + minute, "pull_from_us": startUS + 2*minute})
		submitted("never-asked", row{"pull_from_us": nil})
		submitted("elsewhere", row{"account": "other-account"})
		p.job("ended", "ended", row{"boundary_id": b, "provider_job_id": "prov-ended", "pull_from_us": startUS - minute})
		p.job("consumed", "consumed", row{"boundary_id": b, "provider_job_id": "prov-consumed", "pull_from_us": startUS - minute})
		p.job("ready", "ready", row{"boundary_id": b})
		want := p.strings(pollsSQL)
		for id, to := range map[string]int64{"asked": startUS, "asked-lately": startUS + minute, "asked-now": startUS,
			"due": 0, "due-now": 0, "due-at-the-earliest": 0, "due-before": 0, "never-asked": 0, "elsewhere": 0, "ended": 0, "consumed": 0, "ready": 0, "nobody": 0} {
			for again := range 3 {
				pulled, err := p.PullPoll(t.Context(), p.Clock.Now(), "acct", "prov-"+id)
				if err != nil {
					t.Fatal(err)
				}
				if moved := again == 0 && to != 0; moved != (pulled == id) || !moved && pulled != "" {
					t.Errorf("%s, time %d: pulled %q", id, again+1, pulled)
				}
			}
			for i, line := range want {
				if to != 0 && line == fmt.Sprintf("%s submitted %d", id, startUS+hour) {
					want[i] = fmt.Sprintf("%s submitted %d", id, to)
				}
			}
		}
		p.want(fmt.Sprint(want), pollsSQL)
		if id, err := p.PullPoll(t.Context(), p.Clock.Now().Add(-time.Hour), "acct", "prov-due"); id != "" || err != nil {
			t.Errorf("by a clock that is behind: %q, %v", id, err)
		}
	})
}

// TestPullMeetsClaim: whichever comes first, the job is asked about once.
func TestPullMeetsClaim(t *testing.T) {
	pull := func(got *string) func(q *planner) error {
		return func(q *planner) (err error) {
			*got, err = q.PullPoll(q.t.Context(), q.Clock.Now(), "acct", "prov-j00")
			return err
		}
	}
	claim := func(got *[]reconcile.Job) func(q *planner) error {
		return func(q *planner) (err error) {
			now := q.Clock.Now()
			*got, err = q.ClaimDueJobs(q.t.Context(), now, now.Add(time.Hour), now.Add(24*time.Hour), 5)
			return err
		}
	}
	// prepared is a job that was answered about, its next poll due in so many
	// microseconds.
	prepared := func(p *planner, in int64) {
		p.submitted(1)
		p.exec("UPDATE jobs SET pull_from_us = $1, next_poll_us = $2", startUS-minute, startUS+in)
	}
	meetings(t, map[string]func(p *planner) meeting{
		"a pull first": func(p *planner) meeting {
			prepared(p, minute)
			var pulled string
			var claimed []reconcile.Job
			return meeting{first: pull(&pulled), second: claim(&claimed), then: func() {
				// On PostgreSQL the claimer looked before the pull's commit.
				if pulled != "j00" || p.postgres != (len(claimed) == 0) {
					p.t.Errorf("pulled %q, claimed %d", pulled, len(claimed))
				}
				p.must(claim(&claimed)(p))
				p.want(fmt.Sprintf("[j00 submitted %d]", startUS+hour), pollsSQL)
			}}
		},
		"a claim first": func(p *planner) meeting {
			prepared(p, 0)
			var pulled string
			var claimed []reconcile.Job
			return meeting{first: claim(&claimed), second: pull(&pulled), then: func() {
				if pulled != "" || len(claimed) != 1 {
					p.t.Errorf("pulled %q, claimed %d", pulled, len(claimed))
				}
				p.want(fmt.Sprintf("[j00 submitted %d]", startUS+hour), pollsSQL)
			}}
		},
		"two pulls": func(p *planner) meeting {
			prepared(p, minute)
			var one, two string
			return meeting{first: pull(&one), second: pull(&two), waits: "UPDATE jobs", then: func() {
				if one != "j00" || two != "" {
					p.t.Errorf("pulled %q and %q", one, two)
				}
				p.want(fmt.Sprintf("[j00 submitted %d]", startUS), pollsSQL)
			}}
		},
	})
}
