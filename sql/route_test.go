package sql_test

import (
	"errors"
	"fmt"
	"testing"

	"rollcall/reconcile"
)

// routing asks for reports; what judge was told is kept.
func routing(seen *[]reconcile.RouteFacts, reports ...string) reconcile.Routing {
	none := &reconcile.PolicyVersion{BoundaryID: reconcile.NoPolicyID, SpecMAC: "m", Policy: reconcile.Policy{
		ID: reconcile.NoPolicyID, Version: 1, Authority: reconcile.HighestApplied, Review: reconcile.Review{DueSeconds: 60, OnDue: reconcile.DueUnclassified},
		Boundary: reconcile.Boundary{Processor: "none", Account: "none", Host: "none", Region: "none"}}}
	return reconcile.Routing{Reports: reports, Actor: "anna", Reason: "r", NoPolicy: none,
		WorkID: func(report string, revision int64) string { return fmt.Sprint("w-", report, "-", revision) },
		Judge: func(f reconcile.RouteFacts) reconcile.RouteVerdict {
			*seen = append(*seen, f)
			return reconcile.JudgeRoute(f)
		}}
}

// Every report of a sound ledger may be routed, whatever it waits for; those
// that are done stay as they are, and the ledger stays sound.
func TestRouteEveryReportOfASoundLedger(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.exec("DELETE FROM policy_decisions")
		p.exec("DELETE FROM policy_versions")
		p.healthy()
		p.report("held", 3)
		p.insert("holds", row{"report_id": "held", "revision": 3})
		var seen []reconcile.RouteFacts
		reports := p.strings("SELECT report_id FROM reports")
		for _, again := range []bool{false, true} {
			got, err := p.RouteReports(t.Context(), p.Clock.Now(), routing(&seen, reports...))
			if err != nil {
				t.Fatal(err)
			}
			for report, want := range map[string]reconcile.RouteResult{
				"pending": {Verdict: reconcile.RouteOpen, RouteFacts: reconcile.RouteFacts{WorkID: "w-pending", Revision: 1}},
				"planned": {Verdict: reconcile.RouteOpen, RouteFacts: reconcile.RouteFacts{WorkID: "w-planned", Revision: 1}},
				"ready":   {Verdict: reconcile.RouteOpen, RouteFacts: reconcile.RouteFacts{WorkID: "w-ready", Revision: 1}},
				"sent":    {Verdict: reconcile.RouteOpen, RouteFacts: reconcile.RouteFacts{WorkID: "w-sent", Revision: 1}},
				"ended":   {Verdict: reconcile.RouteOpen, RouteFacts: reconcile.RouteFacts{WorkID: "w-ended", Revision: 1}},
				"editing": {Verdict: reconcile.RouteOpen, RouteFacts: reconcile.RouteFacts{WorkID: "w-editing-2", Revision: 2}},
				"held":    {Verdict: reconcile.RouteHeld, RouteFacts: reconcile.RouteFacts{WorkID: "w-held-3", Revision: 3}},

				"extracted": {Verdict: reconcile.RouteKnown, RouteFacts: reconcile.RouteFacts{WorkID: "w-extracted", Revision: 1}},
				"done":      {Verdict: reconcile.RouteRecorded, RouteFacts: reconcile.RouteFacts{WorkID: "w-done", Revision: 1}},
				"overdue":   {Verdict: reconcile.RouteRecorded, RouteFacts: reconcile.RouteFacts{WorkID: "w-overdue", Revision: 1}},
				"decided":   {Verdict: reconcile.RouteRecorded, RouteFacts: reconcile.RouteFacts{WorkID: "w-decided-2", Revision: 2}},
			} {
				if again && (want.Verdict == reconcile.RouteOpen || want.Verdict == reconcile.RouteHeld) {
					want.Verdict = reconcile.RouteAgain
				}
				if g := got[report]; g.Verdict != want.Verdict || g.WorkID != want.WorkID || g.Revision != want.Revision {
					t.Errorf("%s: %+v, want %+v", report, g, want)
				}
			}
			if len(got) != len(reports) {
				t.Errorf("%d results of %d reports", len(got), len(reports))
			}
			wantSound(t, p)
		}
		if got := p.strings("SELECT work_id || ' ' || stage FROM works WHERE reason = 'routed' ORDER BY work_id"); fmt.Sprint(got) !=
			"[w-editing-2 extracted w-ended extracted w-held-3 extracted w-pending extracted w-planned extracted w-ready extracted w-sent extracted]" {
			t.Errorf("routed %v", got)
		}
		if got := p.strings("SELECT report_id FROM holds"); len(got) > 0 {
			t.Errorf("still held: %v", got)
		}
		if got := p.strings("SELECT subject FROM audit_events WHERE kind = 'route'"); len(got) != 7 {
			t.Errorf("audit: %v", got)
		}
	})
}

// wantSound calls the roll.
func wantSound(t *testing.T, p *planner) {
	t.Helper()
	invariants := reconcile.Invariants(p.Clock.Now(), reconcile.DefaultSettings())
	roll, offenders, err := p.CallRoll(t.Context(), invariants, 10)
	if err != nil || roll.Unaccounted != 0 {
		t.Errorf("the roll: %+v, %v", roll, err)
	}
	for i, o := range offenders {
		if o.Total > 0 && invariants[i].Name != "policy_pending" {
			t.Errorf("%s: %+v", invariants[i].Name, o.Breaches)
		}
	}
}

func TestRouteOfAnUnknownReportRoutesNone(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.pending("a", nil)
		var seen []reconcile.RouteFacts
		if _, err := p.RouteReports(t.Context(), p.Clock.Now(), routing(&seen, "r-a", "nobody")); !errors.Is(err, reconcile.ErrNotFound) {
			t.Errorf("error %v", err)
		}
		if got := p.strings("SELECT stage FROM works"); fmt.Sprint(got) != "[pending]" {
			t.Errorf("works %v", got)
		}
	})
}

// On PostgreSQL a request waits for whoever is changing the report or its work,
// and then sees what came of it.
func TestRouteWaitsForWhatIsBeingDone(t *testing.T) {
	for name, lock := range map[string]string{
		"an edit":    "SELECT 1 FROM reports WHERE report_id = 'r-a' FOR NO KEY UPDATE",
		"a judgment": "SELECT 1 FROM works WHERE work_id = 'a' FOR NO KEY UPDATE",
	} {
		t.Run(name, func(t *testing.T) {
			eachPlanner(t, func(t *testing.T, p *planner) {
				if !p.postgres {
					t.Skip("SQLite has one writer at a time")
				}
				p.pending("a", nil)
				other := p.db.MustBegin()
				other.MustExec(lock)
				done := make(chan error, 1)
				var seen []reconcile.RouteFacts
				go func() {
					_, err := p.RouteReports(t.Context(), p.Clock.Now(), routing(&seen, "r-a"))
					done <- err
				}()
				for waiting := 0; waiting == 0; { // until the request is at the lock
					if err := other.Get(&waiting, "SELECT COUNT(*) FROM pg_locks WHERE NOT granted"); err != nil {
						t.Fatal(err)
					}
				}
				other.MustExec("UPDATE works SET stage = 'extracted', reason = 'too_large' WHERE work_id = 'a'")
				if err := other.Commit(); err != nil {
					t.Fatal(err)
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if len(seen) != 1 || seen[0].Reason != reconcile.TooLarge {
					t.Errorf("it saw %+v", seen)
				}
				if got := p.strings("SELECT reason FROM works"); fmt.Sprint(got) != "[too_large]" {
					t.Errorf("reason %v", got)
				}
			})
		})
	}
}
