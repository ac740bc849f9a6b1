package sql_test

import (
	"errors"
	"fmt"
	"testing"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// TestF12_EditMeetsIntent: what an edit replaces is not sent any more, or it was
// sent before the edit was taken in; its answer never stands beside the edit's.
func TestF12_EditMeetsIntent(t *testing.T) {
	intent := func(fed *string) func(q *planner) error {
		return func(q *planner) (err error) {
			_, *fed, err = q.intent("s1")
			return err
		}
	}
	meetings(t, map[string]func(p *planner) meeting{
		"the edit first": func(p *planner) meeting {
			works, fed := p.readyReports("a", "b"), ""
			return meeting{
				first: takeIn(p.delivery("a", 2)), second: intent(&fed), waits: "FROM reports",
				then: func() {
					if want := works[1] + "\n1\n"; fed != want {
						p.t.Errorf("sent %q, want %q", fed, want)
					}
					p.wantRecords("a 2 stands", "b 1 stands")
				},
			}
		},
		"the intent first": func(p *planner) meeting {
			works, fed := p.readyReports("a", "b"), ""
			return meeting{
				first: intent(&fed), second: takeIn(p.delivery("a", 2)), waits: "FROM reports",
				then: func() {
					if want := works[0] + "\n1\n" + works[1] + "\n1\n"; fed != want {
						p.t.Errorf("sent %q, want %q", fed, want)
					}
					p.wantRecords("a 1 history", "a 2 stands", "b 1 stands")
				},
			}
		},
	})
}

// TestPauseMeetsIntent: a pause lists every intent that was committed before
// it, and none follows.
func TestPauseMeetsIntent(t *testing.T) {
	intent := func(q *planner) error {
		_, _, err := q.intent("s1")
		return err
	}
	pause := func(paused *reconcile.Paused) func(q *planner) error {
		return func(q *planner) (err error) {
			*paused, err = q.Pause(q.t.Context(), q.Clock.Now(),
				reconcile.Pause{Scope: "account:main", Stage: reconcile.PauseDispatch, Actor: "anna", Reason: "r"})
			return err
		}
	}
	meetings(t, map[string]func(p *planner) meeting{
		"the pause first": func(p *planner) meeting {
			p.readyJob("a")
			var paused reconcile.Paused
			return meeting{
				first: pause(&paused), second: intent, waits: "FROM leases", refused: reconcile.ErrPaused,
				then: func() {
					if paused.OutTotal > 0 {
						p.t.Errorf("the pause lists %+v", paused.Out)
					}
					p.want("[]", "SELECT submission_id FROM submissions")
					p.want("[ready]", "SELECT state FROM jobs")
				},
			}
		},
		"the intent first": func(p *planner) meeting {
			p.readyJob("a")
			var paused reconcile.Paused
			return meeting{
				first: intent, second: pause(&paused), waits: "FROM leases",
				then: func() {
					if paused.OutTotal != 1 || paused.Out[0].SubmissionID != "s1" {
						p.t.Errorf("the pause lists %+v", paused.Out)
					}
					p.must(p.RecordRejected(p.t.Context(), p.Clock.Now(), reconcile.Rejection{SubmissionID: "s1", Evidence: "e", NextSubmit: p.Clock.Now()}))
					if _, _, err := p.intent("s2"); !errors.Is(err, reconcile.ErrPaused) {
						p.t.Errorf("the next intent: %v", err)
					}
				},
			}
		},
	})
}

// TestF7_ApprovalMeetsIntake: a delivery is under an approved version or held,
// and gets one work in either case.
func TestF7_ApprovalMeetsIntake(t *testing.T) {
	// newer is version 2 of the policy, a draft so far.
	newer := func(p *planner) *reconcile.PolicyVersion {
		v, err := reconcile.NewPolicyVersion(sqltest.Policy("p", 2), p.Keys)
		spec, specErr := v.Spec()
		p.must(err, specErr)
		p.insert("policy_versions", row{"version": 2, "boundary_id": v.BoundaryID, "spec": string(spec), "spec_mac": v.SpecMAC, "state": "draft"})
		return &v
	}
	approve := func(v *reconcile.PolicyVersion) func(q *planner) error {
		return func(q *planner) error {
			return q.ApprovePolicy(q.t.Context(), q.Clock.Now(), *v, "anna", "r", "")
		}
	}
	works := "SELECT CAST(policy_version AS TEXT) || ' ' || disposition FROM works"
	meetings(t, map[string]func(p *planner) meeting{
		"approval of the version first": func(p *planner) meeting {
			v := newer(p)
			return meeting{
				first: approve(v), second: takeIn(delivered(p.t, p.Keys, v, "a", 1, "text")), waits: "FROM policy_versions",
				then: func() {
					p.want("[2 live]", works)
					p.want("[]", "SELECT report_id FROM holds")
				},
			}
		},
		"intake under the version first": func(p *planner) meeting {
			v := newer(p)
			d := delivered(p.t, p.Keys, v, "a", 1, "text")
			return meeting{
				first: takeIn(d), second: approve(v), waits: "FROM policy_versions",
				then: func() {
					p.want("[]", works)
					held, err := p.HeldReports(p.t.Context(), "", 9)
					if err != nil || len(held) != 1 {
						p.t.Fatalf("held %v, %v", held, err)
					}
					for _, want := range []int{1, 0} {
						n, err := p.BindWorks(p.t.Context(), p.Clock.Now(), []reconcile.NewWork{{WorkID: d.WorkID(1), Held: held[0], Policy: v}})
						if err != nil || n != want {
							p.t.Errorf("bound %d works, want %d: %v", n, want, err)
						}
					}
					p.want("[2 live]", works)
				},
			}
		},
		// The older version stays approved, so neither has to wait.
		"approval of a newer version first": func(p *planner) meeting {
			return meeting{first: approve(newer(p)), second: takeIn(p.delivery("a", 1)), then: func() { p.want("[1 live]", works) }}
		},
		"intake under the older version first": func(p *planner) meeting {
			return meeting{first: takeIn(p.delivery("a", 1)), second: approve(newer(p)), then: func() { p.want("[1 live]", works) }}
		},
	})
}

// readyReports takes reports in, makes them the members of ready job j, and
// returns their works.
func (p *planner) readyReports(ids ...string) (works []string) {
	p.t.Helper()
	for _, id := range ids {
		works = append(works, accept(p.t, p.Ledger, p.delivery(id, 1))[0].WorkID)
	}
	_, err := p.add("j", true, works...)
	p.must(err)
	return works
}

// wantRecords takes job j and submission s1 to their end, with a refusal for
// every member, gives what is pending to a person, and compares all records.
func (p *planner) wantRecords(want ...string) {
	p.t.Helper()
	ctx, now := p.t.Context(), p.Clock.Now()
	p.must(p.RecordAccepted(ctx, now, reconcile.Acceptance{SubmissionID: "s1", ProviderJobID: "batch_1", Status: "validating", NextPoll: now}))
	p.must(p.EndJob(ctx, now, reconcile.JobEnd{JobID: "j", Phase: batch.PhaseEnded, Status: "completed"}))
	_, err := p.JudgeItems(ctx, now, "j", 0, 100, func(reconcile.ItemFacts) reconcile.Ruling {
		return reconcile.Ruling{Outcome: reconcile.ItemRefused, Rest: reconcile.LineItemError, Reason: reconcile.Refused}
	})
	p.must(err, p.FinishJob(ctx, now, "j"))
	var closings []reconcile.Closing
	for _, w := range p.strings("SELECT work_id FROM works WHERE stage = 'pending' AND disposition = 'live'") {
		closings = append(closings, reconcile.Closing{WorkID: w, Reason: reconcile.TooLarge})
	}
	_, err = p.CloseWorks(ctx, now, closings)
	p.must(err)
	p.applyAll()
	p.want(fmt.Sprint(want), `SELECT p.external_id || ' ' || CAST(v.revision AS TEXT) || CASE v.authoritative WHEN 1 THEN ' stands' ELSE ' history' END
		FROM review_records v JOIN reports p ON p.report_id = v.report_id ORDER BY p.external_id, v.revision`)
}
