package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
)

// route routes reports by hand, and lists what is said about each id.
func (b *bench) route(ids ...string) (said []string) {
	b.t.Helper()
	err := b.r.Route(b.t.Context(), ids, "anna", "on the phone", func(a reconcile.RouteAnswer) {
		said = append(said, fmt.Sprintf("%s %v: %s", a.ID, a.Given, a.Says))
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return said
}

func (b *bench) wantRouted(ids []string, want ...string) {
	b.t.Helper()
	if got := b.route(ids...); !slices.Equal(got, want) {
		b.t.Errorf("routed %v: %q, want %q", ids, got, want)
	}
	_, offenders := b.callRoll()
	b.wantOffenders(offenders, map[string]int64{})
}

// wantRecords compares the records of the report with an external id, lowest
// revision first.
func (b *bench) wantRecords(id string, want ...string) {
	b.t.Helper()
	got := b.rows(`SELECT CAST(revision AS TEXT) || ' ' || kind || ' ' || COALESCE(label, reason) || CASE authoritative WHEN 1 THEN ' *' ELSE '' END
		FROM review_records WHERE report_id = $1 ORDER BY revision`, b.Keys.ReportID("acme", "forum", id))
	if !slices.Equal(got, want) {
		b.t.Errorf("records of %s: %q, want %q", id, got, want)
	}
}

// answering makes a processor that answers well.
func (b *bench) answering() {
	b.fake = fake.New(fake.Options{Account: b.fake.Account(), Now: b.Clock.Now, Breach: func(rule string) { b.t.Errorf("the processor saw a broken rule: %s", rule) },
		Answer: func(string, string) []byte { return []byte(okAnswer) }})
	b.r.Accounts = []batch.Provider{b.fake}
}

// Whatever its work waits for, a person gets the report now, and the passes go on
// as if nothing had happened.
func TestRouteEndsWorkThatIsNotDone(t *testing.T) {
	for name, tc := range map[string]struct {
		until func(b *bench)
		sent  int // times that the text leaves
		late  bool
	}{
		"pending": {func(*bench) {}, 0, false},
		"in a job that is being planned": {func(b *bench) {
			if _, err := b.AddItems(b.t.Context(), b.Clock.Now(), reconcile.PlanStep{JobID: "0-planning", Policy: b.policy, Works: b.rows("SELECT work_id FROM works")}); err != nil {
				b.t.Fatal(err)
			}
		}, 0, false},
		"in a job that is ready": {func(b *bench) { b.collect() }, 0, false},
		"in a job of an uncertain submission": {func(b *bench) {
			b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return true, answer("create", batch.UnknownOutcome, 0, "") }
			b.collect()
			b.submit()
			b.Clock.Advance(b.r.Settings.SendWithin)
		}, 1, true}, // resolve finds the job
		"in a job at the provider": {func(b *bench) { b.collect(); b.submit() }, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.answering()
				b.reports(2)
				tc.until(b)
				b.wantRouted([]string{"r1"}, "r1 true: given to a person, and recorded")
				b.wantRecords("r1", "1 unclassified routed *")
				b.wantRouted([]string{"r1"}, "r1 true: given to a person before, and recorded")
				if _, err := b.untilIdle(nil); err != nil {
					t.Fatal(err)
				}
				b.wantRecords("r1", "1 unclassified routed *")
				if n := b.fake.Uploaded(reportText("r1", 1)); n != tc.sent {
					t.Errorf("its text left %d times, want %d", n, tc.sent)
				}
				if n := b.fake.Uploaded(reportText("r2", 1)); n != 1 {
					t.Errorf("the other text left %d times", n)
				}
				_, offenders := b.callRoll()
				b.wantOffenders(offenders, map[string]int64{})
				if b.wantFindings(map[bool][]string{true: {"late_result"}}[tc.late]...); tc.late {
					b.wantRecords("r2", "1 classified ok *")
					b.want("answers", "SELECT label FROM artifacts", "ok", "ok")
				}
			})
		})
	}
}

// held accepts a report while its source has no approved policy.
func (b *bench) held(id string, revision int64) {
	b.t.Helper()
	d := b.delivery(id, revision, reportText(id, revision))
	d.Policy, d.WorkID = nil, nil
	b.accept(d)
}

// A held report has no policy to be recorded under. What stands in its place is
// no policy: nobody sees it in a list, and nothing is sent under it.
func TestRouteOfAHeldReport(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.answering()
		b.held("h", 1)
		stale, err := b.HeldReports(t.Context(), "", 9)
		if err != nil || len(stale) != 1 {
			t.Fatalf("held: %v, %v", stale, err)
		}
		b.wantRouted([]string{"h"}, "h true: given to a person, and recorded")
		c, _ := b.callRoll()
		if c.Roll.Held != 0 || c.Roll.Authoritative != 1 || c.Roll.Unclassified[reconcile.Routed] != 1 {
			t.Errorf("the roll: %+v", c.Roll)
		}
		if p, err := b.Policies(t.Context()); err != nil || len(p) != 1 || p[0].ID != "p" {
			t.Errorf("policies: %+v, %v", p, err)
		}
		b.want("what stands in the place of a policy", "SELECT policy_id || ' ' || state FROM policy_versions ORDER BY policy_id", "(none) draft", "p approved")

		// The source has a policy by now, and a collector that read the list before.
		works := []reconcile.NewWork{{WorkID: b.Keys.WorkID(stale[0].ReportID, 1, "p", 1), Held: stale[0], Policy: b.policy}}
		if n, err := b.BindWorks(t.Context(), b.Clock.Now(), works); err != nil || n != 0 {
			t.Errorf("%d works were made of a routed report, %v", n, err)
		}
		b.wantTally("collect", b.collect(), reconcile.Tally{})

		// Delivered again, it is the same report, with the same record.
		none := b.rows("SELECT work_id FROM works")
		if again := b.accept(b.delivery("h", 1, reportText("h", 1))); !slices.Equal(again, none) {
			t.Errorf("delivered again, its work is %v, not %v", again, none)
		}
		b.wantRouted([]string{"h", none[0]}, "h true: given to a person before, and recorded", none[0]+" true: given to a person before, and recorded")
		b.wantRecords("h", "1 unclassified routed *")
		b.wantJobs()
	})
}

// An edit of a routed report is work as ever. The routed record stands until
// that of the edit is there.
func TestEditOfARoutedReport(t *testing.T) {
	for name, hold := range map[string]bool{"held": true, "pending": false} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.answering()
				if hold {
					b.held("x", 1)
				} else {
					b.accept(b.delivery("x", 1, reportText("x", 1)))
				}
				b.wantRouted([]string{"x"}, "x true: given to a person, and recorded")
				edit := b.accept(b.delivery("x", 2, reportText("x", 2)))
				b.want("the new work", "SELECT work_id || ' ' || policy_id FROM works WHERE disposition = 'live'", edit[0]+" p")
				b.wantRecords("x", "1 unclassified routed *")
				_, offenders := b.callRoll()
				b.wantOffenders(offenders, map[string]int64{})
				if _, err := b.untilIdle(nil); err != nil {
					t.Fatal(err)
				}
				b.wantRecords("x", "1 unclassified routed", "2 classified ok *")
				b.wantRouted([]string{"x"}, "x false: there is nothing to route: the record of its current revision is there")
			})
		})
	}
}

// Edited before its record could be written, a routed revision still reaches a
// person: the edit is held, and nothing else would.
func TestRoutedRevisionStandsWhileItsEditIsHeld(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		pause := reconcile.Pause{Scope: reconcile.ScopeAll, Stage: reconcile.PauseApply, Actor: "anna", Reason: "a drill"}
		if _, err := b.Pause(t.Context(), b.Clock.Now(), pause); err != nil {
			t.Fatal(err)
		}
		b.held("h", 1)
		b.wantRouted([]string{"h"}, "h true: given to a person; recorded once apply goes on (waits for an operator: apply is paused for all (a drill))")
		b.wantRecords("h")
		b.held("h", 2)
		if err := b.Resume(t.Context(), b.Clock.Now(), reconcile.ScopeAll, reconcile.PauseApply, "anna", "r"); err != nil {
			t.Fatal(err)
		}
		b.pass(b.r.Apply)
		b.wantRecords("h", "1 unclassified routed *")
		b.wantRouted([]string{"h"}, "h true: given to a person, and recorded") // the edit
		b.wantRecords("h", "1 unclassified routed", "2 unclassified routed *")
	})
}

// One id that cannot be routed does not keep the others from it.
func TestRouteTellsAboutEachID(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(3)
		blank := b.delivery("blank", 1, "")
		blank.Reason = reconcile.NoText
		b.accept(blank)
		gone := b.Keys.ReportID("acme", "forum", "r3")
		b.change("UPDATE works SET disposition = 'withdrawn' WHERE report_id = $1", gone)
		var twins []string
		for _, system := range []string{"forum", "blog"} {
			d := b.delivery("twin", 1, reportText("twin", 1))
			d.Identity.System, d.ReportID = system, b.Keys.ReportID("acme", system, "twin")
			text, err := b.Keys.Encrypt([]byte("x"), "text", d.ReportID, d.ContentMAC)
			if err != nil {
				t.Fatal(err)
			}
			d.Text, d.WorkID = text, func(revision int64) string { return b.Keys.WorkID(d.ReportID, revision, "p", 1) }
			b.accept(d)
			twins = append(twins, d.ReportID)
		}
		slices.Reverse(twins) // by source
		got := b.route("r1", "nobody", "blank", "r2", "twin", gone, twins[0], "r2")
		want := []string{
			"r1 true: given to a person, and recorded",
			"nobody false: no report, work or external id of this name is in this ledger",
			"blank false: there is nothing to route: its outcome is known, and apply writes its record",
			"r2 true: given to a person, and recorded",
			"twin false: several reports have this external id; name one of them: " + strings.Join(twins, ", "),
			gone + " false: the ledger holds neither a work nor a hold for its current revision",
			twins[0] + " true: given to a person, and recorded",
			"r2 true: given to a person before, and recorded", // in a chunk of its own
		}
		if !slices.Equal(got, want) {
			t.Errorf("said %q\nwant %q", got, want)
		}
		b.want("audit", "SELECT subject || ' ' || detail FROM audit_events WHERE kind = 'route' ORDER BY subject", slices.Sorted(slices.Values([]string{
			"report:" + b.Keys.ReportID("acme", "forum", "r1") + " revision 1, by anna: on the phone",
			"report:" + b.Keys.ReportID("acme", "forum", "r2") + " revision 1, by anna: on the phone",
			"report:" + twins[0] + " revision 1, by anna: on the phone",
		}))...)
	})
}

// Of which revision a person has decided, and which a newer one follows, is for
// apply to weigh: routing is no way around it.
func TestRouteBehindAPersonsDecision(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(1)
		b.route("r1")
		b.change("UPDATE review_records SET human_state = 'decided'")
		b.edit(1, 2)
		b.wantRouted([]string{"r1"}, "r1 true: given to a person, and recorded")
		b.wantRecords("r1", "1 unclassified routed *", "2 unclassified routed")
		b.wantFindings("edited_after_decision")
	})
}

func TestRouteWhoseCommitIsUnknown(t *testing.T) {
	onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
		b.held("h", 1)
		b.reports(1)
		c.lose["route reports"] = before
		err := b.r.Route(t.Context(), []string{"h", "r1"}, "anna", "r", func(reconcile.RouteAnswer) { t.Error("something was said") })
		if err == nil {
			t.Fatal("nobody was told")
		}
		b.want("works", "SELECT stage FROM works", "pending")
		c.lose["route reports"] = after
		b.wantRouted([]string{"h", "r1"}, "h true: given to a person, and recorded", "r1 true: given to a person, and recorded")
		b.Clock.Advance(time.Hour)
		b.wantRouted([]string{"h", "r1"}, "h true: given to a person before, and recorded", "r1 true: given to a person before, and recorded")
	})
}

func TestNoPolicyCannotBeWrittenByAnyone(t *testing.T) {
	p := reconcile.Policy{ID: reconcile.NoPolicyID, Version: 1}
	keys, err := keyring.Generate()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reconcile.NewPolicyVersion(p, keys); err == nil || !strings.Contains(err.Error(), "policy: must be a name") {
		t.Errorf("a policy of this name: %v", err)
	}
}
