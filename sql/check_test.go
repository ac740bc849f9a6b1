package sql_test

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// offences calls the roll and lists the subjects that offend, by invariant.
func offences(t *testing.T, l *sqltest.Ledger) map[string][]string {
	t.Helper()
	invariants := reconcile.Invariants(l.Clock.Now(), reconcile.DefaultSettings())
	_, all, err := l.CallRoll(t.Context(), invariants, 1000)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for i, inv := range invariants {
		for _, b := range all[i].Breaches {
			if b.Detail == "" {
				t.Errorf("%s: %s without a detail", inv.Name, b.Subject)
			}
			out[inv.Name] = append(out[inv.Name], b.Subject)
		}
		if int(all[i].Total) != len(all[i].Breaches) {
			t.Errorf("%s: %d breaches listed of %d", inv.Name, len(all[i].Breaches), all[i].Total)
		}
	}
	return out
}

// broken are ways to break a healthy ledger, with the invariant that must see
// it; no other may.
var broken = []struct {
	invariant string
	how       string
	break_    []string
	subject   string
}{
	{"report_unaccounted", "its work is gone", []string{"DELETE FROM works WHERE work_id = 'w-pending'"}, "report:pending"},
	{"report_unaccounted", "its only work is withdrawn", []string{"UPDATE works SET disposition = 'withdrawn' WHERE work_id = 'w-pending'"}, "report:pending"},
	{"report_missing_record", "pending past its due time", []string{"UPDATE works SET due_us = 1 WHERE work_id = 'w-pending'"}, "report:pending"},
	{"report_missing_record", "at the provider past its due time", []string{"UPDATE works SET due_us = 1 WHERE work_id = 'w-sent'"}, "report:sent"},
	{"report_missing_record", "the newer revision is past its due time", []string{"UPDATE works SET due_us = 1 WHERE work_id = 'w-editing-2'"}, "report:editing"},
	{"report_missing_record", "recorded, and nothing stands", []string{"UPDATE works SET due_us = 1 WHERE work_id = 'w-done'",
		"UPDATE review_records SET authoritative = 0 WHERE work_id = 'w-done'", "UPDATE processed_markers SET decision = 'history' WHERE work_id = 'w-done'"}, "report:done"},
	{"report_duplicate_authoritative", "both revisions stand", []string{"UPDATE review_records SET authoritative = 1 WHERE report_id = 'edited'"}, "report:edited"},
	{"marker_without_record", "the record is gone", []string{"DELETE FROM review_records WHERE work_id = 'w-done'"}, "work:w-done"},
	{"record_without_marker", "the marker is gone", []string{"DELETE FROM processed_markers WHERE work_id = 'w-done'",
		"UPDATE works SET stage = 'extracted' WHERE work_id = 'w-done'"}, "work:w-done"},
	{"authority_moved_back", "the older revision stands again", []string{"UPDATE review_records SET authoritative = 1 - authoritative WHERE report_id = 'edited'"}, "report:edited"},
	{"authority_moved_back", "history, though nobody decided", []string{"UPDATE review_records SET human_state = 'queued' WHERE report_id = 'decided'"}, "report:decided"},
	{"authority_against_marker", "applied as history, and stands", []string{"UPDATE processed_markers SET decision = 'history' WHERE work_id = 'w-done'"}, "work:w-done"},
	{"authority_against_marker", "applied to stand, and nothing does", []string{"UPDATE review_records SET authoritative = 0 WHERE work_id = 'w-done'"}, "work:w-done"},
	{"artifact_of_non_member", "the item is gone", []string{"DELETE FROM items WHERE work_id = 'w-done'"}, "work:w-done"},
	{"artifact_of_non_member", "the item was refused", []string{"UPDATE items SET outcome = 'refused' WHERE work_id = 'w-done'"}, "work:w-done"},
	{"success_without_artifact", "the artifact is gone", []string{"DELETE FROM artifacts WHERE work_id = 'w-done'"}, "work:w-done"},
	{"work_in_two_open_jobs", "a second open membership",
		[]string{"INSERT INTO items (job_id, work_id, boundary_id, position) VALUES ('j-planning', 'w-sent', 'b1', 9)"}, "work:w-sent"},
	{"send_outside_boundary", "the work is under another policy",
		[]string{"UPDATE works SET policy_version = 2, boundary_id = 'b2' WHERE work_id = 'w-sent'"}, "work:w-sent"},
	{"send_outside_boundary", "the job is under another boundary", []string{"UPDATE jobs SET boundary_id = 'b2' WHERE job_id = 'j-ready'"}, "work:w-ready"},
	{"job_against_submissions", "at the provider without a submission", []string{"DELETE FROM submissions WHERE job_id = 'j-submitted'"}, "job:j-submitted"},
	{"job_against_submissions", "accepted and still ready", []string{"UPDATE submissions SET job_id = 'j-ready' WHERE job_id = 'j-submitted'",
		"UPDATE jobs SET state = 'ready' WHERE job_id = 'j-submitted'"}, "job:j-ready"},
	{"job_closed_with_open_items", "consumed too early", []string{"UPDATE jobs SET state = 'consumed' WHERE job_id = 'j-submitted'"}, "job:j-submitted"},
	{"stage_against_facts", "pending, and a member", []string{"UPDATE works SET stage = 'pending' WHERE work_id = 'w-sent'"}, "work:w-sent"},
	{"stage_against_facts", "collected, and no member", []string{"UPDATE works SET stage = 'collected' WHERE work_id = 'w-pending'"}, "work:w-pending"},
	{"stage_against_facts", "extracted, and neither artifact nor reason", []string{"UPDATE works SET stage = 'extracted' WHERE work_id = 'w-pending'"}, "work:w-pending"},
	{"stage_against_facts", "extracted, and an open member", []string{"UPDATE works SET stage = 'extracted' WHERE work_id = 'w-sent'"}, "work:w-sent"},
	{"stage_against_facts", "extracted, and applied", []string{"UPDATE works SET stage = 'extracted' WHERE work_id = 'w-done'"}, "work:w-done"},
	{"stage_against_facts", "pending, and an answer", []string{"UPDATE works SET stage = 'pending' WHERE work_id = 'w-extracted'"}, "work:w-extracted"},
	{"stage_against_facts", "recorded, and not applied", []string{"UPDATE works SET stage = 'recorded' WHERE work_id = 'w-extracted'"}, "work:w-extracted"},
	{"stage_against_facts", "recorded, and an open member",
		[]string{"INSERT INTO items (job_id, work_id, boundary_id, position) VALUES ('j-submitted', 'w-done', 'b1', 9)"}, "work:w-done"},
	{"work_unapplied", "answered hours ago", []string{fmt.Sprintf("UPDATE artifacts SET created_us = %d WHERE work_id = 'w-extracted'", startUS-3*hour)}, "work:w-extracted"},
	{"submission_uncertain", "nobody knows", []string{fmt.Sprintf(`INSERT INTO submissions
		(submission_id, job_id, attempt, account, fence, manifest_mac, line_count, intent_us, send_deadline_us, input_file_id, body_mac)
		VALUES ('sub', 'j-ready', 1, 'a', 1, 'm', 1, %[1]d, %[1]d, 'f', 'mac')`, startUS-2*hour)}, "submission:sub"},
	{"job_overdue", "too long at the provider", []string{fmt.Sprintf("UPDATE jobs SET submitted_us = %d WHERE job_id = 'j-submitted'", startUS-27*hour)}, "job:j-submitted"},
	{"job_stuck_ended", "ended hours ago", []string{fmt.Sprintf("UPDATE jobs SET ended_us = %d WHERE job_id = 'j-ended'", startUS-3*hour)}, "job:j-ended"},
	{"result_set_unread", "unread for days", []string{fmt.Sprintf("UPDATE jobs SET submitted_us = %d WHERE job_id = 'j-ended'", startUS-85*hour)}, "job:j-ended"},
	{"job_waits_for_limit", "for a day", []string{fmt.Sprintf("UPDATE jobs SET waits_for = 'open_jobs', waits_since_us = %d WHERE job_id = 'j-ready'", startUS-25*hour)}, "job:j-ready"},
	{"policy_pending", "a held report", []string{
		"UPDATE works SET disposition = 'withdrawn' WHERE work_id = 'w-pending'",
		"INSERT INTO holds (report_id, revision, reason, held_us) VALUES ('pending', 1, 'policy_pending', 1)"}, "source:acme/forum"},
}

func TestInvariantsSeeWhatIsBroken(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		r := openLawless(t, l.Address)
		r.healthy()
		// Submit closes this one by itself.
		r.insert("submissions", row{"submission_id": "unsent", "job_id": "j-ready", "send_deadline_us": startUS - 2*hour})
		if got := offences(t, l); len(got) != 0 {
			t.Fatalf("a healthy ledger offends: %v", got)
		}
		for _, b := range broken {
			t.Run(b.invariant+"/"+b.how, func(t *testing.T) {
				r.clear()
				r.healthy()
				for _, s := range b.break_ {
					r.exec(s)
				}
				want := map[string][]string{b.invariant: {b.subject}}
				if diff := cmp.Diff(want, offences(t, l)); diff != "" {
					t.Errorf("offences (-want +got):\n%s", diff)
				}
			})
		}
	})
}

// TestEveryInvariantHasAFileAndABreach holds the Go list, the SQL files and the
// breaking test together.
func TestEveryInvariantHasAFileAndABreach(t *testing.T) {
	names, err := fs.Glob(os.DirFS("check"), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	var files, listed, tried []string
	for _, n := range names {
		files = append(files, strings.TrimSuffix(n, ".sql"))
	}
	for _, inv := range reconcile.Invariants(sqltest.Start, reconcile.DefaultSettings()) {
		listed = append(listed, inv.Name)
		if inv.Severity == "" || inv.Means == "" || inv.Remedy == "" {
			t.Errorf("%s: severity, meaning and remedy must be told", inv.Name)
		}
	}
	for _, b := range broken {
		tried = append(tried, b.invariant)
	}
	slices.Sort(listed)
	slices.Sort(tried)
	if diff := cmp.Diff(files, listed); diff != "" {
		t.Errorf("files and invariants (-files +listed):\n%s", diff)
	}
	if diff := cmp.Diff(files, slices.Compact(tried)); diff != "" {
		t.Errorf("files and breaking tests (-files +tried):\n%s", diff)
	}
}

func TestRollAddsUp(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		r := openRaw(t, l.Address)
		r.healthy()
		r.report("held", 1)
		r.insert("holds", row{"report_id": "held"})
		r.report("lost", 1)
		got, _, err := l.CallRoll(t.Context(), nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		want := reconcile.Roll{
			Accepted: 14, Authoritative: 5, Held: 1, InFlight: 7, Unaccounted: 1, Records: 5,
			Classified: map[string]int64{"spam": 3}, Unclassified: map[reconcile.Reason]int64{reconcile.Refused: 1, reconcile.Overdue: 1},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("roll (-want +got):\n%s", diff)
		}
	})
}

func TestCloseOverdueTakesWhatThePolicyGivesToAPerson(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		r := openRaw(t, l.Address)
		r.healthy()
		r.exec("UPDATE policy_versions SET on_due = 'wait' WHERE version = 2")
		r.work("waits", "w-waits", row{"policy_version": 2, "boundary_id": "b2", "due_us": 1})
		r.exec("UPDATE works SET due_us = 1 WHERE work_id IN ('w-pending', 'w-sent', 'w-editing-1', 'w-extracted', 'w-done')")
		for i, want := range []int{1, 1, 0} {
			if n, err := l.CloseOverdue(t.Context(), l.Clock.Now(), 1); err != nil || n != want {
				t.Fatalf("chunk %d closed %d: %v", i+1, n, err)
			}
		}
		var got []string
		if err := r.db.Select(&got, "SELECT work_id || ' ' || stage FROM works WHERE reason = 'overdue' AND work_id <> 'w-overdue' ORDER BY work_id"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"w-pending extracted", "w-sent extracted"}, got); diff != "" {
			t.Errorf("closed (-want +got):\n%s", diff)
		}
	})
}

func TestBreachesOpenCountResolveAndReopen(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		inv := reconcile.Invariant{Name: "job_overdue", Severity: reconcile.Warning}
		a, b := reconcile.Breach{Subject: "job:a", Detail: "1"}, reconcile.Breach{Subject: "job:b", Detail: "1"}
		if err := l.OpenFinding(t.Context(), l.Clock.Now(), reconcile.Event{Name: "job_vanished", Subject: "job:a", Severity: reconcile.Critical}); err != nil {
			t.Fatal(err)
		}
		for i, step := range []struct {
			breaches         []reconcile.Breach
			complete         bool
			opened, resolved int
			open             []string
		}{
			{[]reconcile.Breach{a, b, a}, true, 2, 0, []string{"job:a 1", "job:b 1"}},
			{[]reconcile.Breach{a, b}, true, 0, 0, []string{"job:a 2", "job:b 2"}},
			{[]reconcile.Breach{b}, false, 0, 0, []string{"job:a 2", "job:b 3"}}, // a may be behind the limit
			{[]reconcile.Breach{b}, true, 0, 1, []string{"job:b 4"}},
			{nil, true, 0, 1, nil},
			{[]reconcile.Breach{a}, true, 1, 0, []string{"job:a 1"}},
		} {
			l.Clock.Advance(time.Minute)
			opened, resolved, err := l.SaveBreaches(t.Context(), l.Clock.Now(), inv, step.breaches, step.complete)
			if err != nil {
				t.Fatal(err)
			}
			if opened != step.opened || resolved != step.resolved {
				t.Errorf("step %d: opened %d, resolved %d", i+1, opened, resolved)
			}
			var open []string
			for _, f := range findings(t, l, true) {
				if f.Kind == "invariant" {
					open = append(open, fmt.Sprint(f.Subject, " ", f.Seen))
				}
			}
			slices.Sort(open)
			if diff := cmp.Diff(step.open, open); diff != "" {
				t.Errorf("step %d (-want +got):\n%s", i+1, diff)
			}
		}
		events, err := l.OpenEvents(t.Context(), 10)
		if err != nil || len(events) != 1 || events[0].Name != "job_vanished" {
			t.Errorf("events: %+v, %v", events, err)
		}
		for _, f := range findings(t, l, true) {
			err := l.ResolveFinding(t.Context(), l.Clock.Now(), f.ID, "anna", "because")
			if (err == nil) != (f.Kind == "event") {
				t.Errorf("resolve %s %s: %v", f.Kind, f.Name, err)
			}
		}
	})
}
