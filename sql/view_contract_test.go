package sql_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall/sql/sqltest"
)

// TestReviewQueueHoldsEachWaitingReportOnce reads the queue as a reviewer's
// system does.
func TestReviewQueueHoldsEachWaitingReportOnce(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		r := openRaw(t, l.Address)
		r.healthy()
		r.exec("UPDATE review_records SET created_us = created_us + 1 WHERE work_id = 'w-done'")
		got := r.lines(`SELECT report_id || ' ' || revision || ' ' || stale || ' ' || kind || ' ' || COALESCE(label, '-') || ' ' || COALESCE(reason, '-')
			|| ' ' || COALESCE(CAST(evidence AS TEXT), '-') FROM v_review_queue ORDER BY waiting_since, report_id`)
		evidence := `[{"start":0,"end":4}]`
		if r.postgres {
			evidence = `[{"end": 4, "start": 0}]` // as jsonb prints it
		}
		want := []string{
			"edited 2 0 classified spam - " + evidence,
			"overdue 1 0 unclassified - overdue -",
			"refused 1 0 unclassified - refused -",
			"done 1 0 classified spam - " + evidence,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("queue (-want +got):\n%s", diff)
		}
	})
}

func TestViewsShowStagesAndRealTimes(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		r := openRaw(t, l.Address)
		r.healthy()
		r.report("held", 1)
		r.insert("holds", row{"report_id": "held"})
		r.report("lost", 1)
		r.exec("UPDATE reports SET created_us = $1 WHERE report_id = 'held'", startUS+7)
		r.insert("submissions", row{"submission_id": "open", "job_id": "j-ready"})
		r.insert("findings", row{"finding_id": "f"})
		got := r.lines(`SELECT report_id || ' ' || stage || ' ' || COALESCE(job_id, '-') || ' ' || COALESCE(label, reason, '-') FROM v_reports ORDER BY report_id`)
		want := []string{
			"decided recorded - spam", "done recorded - spam", "edited recorded - spam", "editing accepted - -", "ended ended j-ended -",
			"extracted extracted - -", "held held - -", "lost unaccounted - -", "overdue recorded j-submitted overdue", "pending accepted - -",
			"planned collected j-planning -", "ready collected j-ready -", "refused recorded - refused", "sent submitted j-submitted -",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
		got = r.lines("SELECT job_id || ' ' || state || ' ' || submissions || ' ' || open_submissions FROM v_jobs ORDER BY job_id")
		want = []string{"j-consumed consumed 1 0", "j-ended ended 1 0", "j-planning planning 0 0", "j-ready ready 1 1", "j-submitted submitted 1 0"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("jobs (-want +got):\n%s", diff)
		}
		for query, want := range map[string]time.Time{
			"SELECT first_accepted_at FROM v_reports WHERE report_id = 'held'": sqltest.Start.Add(7 * time.Microsecond),
			"SELECT next_poll_at FROM v_jobs WHERE job_id = 'j-submitted'":     sqltest.Start.Add(time.Minute),
			"SELECT opened_at FROM v_findings":                                 sqltest.Start,
		} {
			if got := r.time(query); !got.Equal(want) {
				t.Errorf("%s: %s, want %s", query, got, want)
			}
		}
		if got := r.lines("SELECT finding_id FROM v_findings WHERE resolved_at IS NULL"); len(got) != 1 {
			t.Errorf("open findings: %v", got)
		}
	})
}

// time reads one timestamp: PostgreSQL's own, or ISO 8601 text.
func (r raw) time(query string) time.Time {
	r.t.Helper()
	if r.postgres {
		var at time.Time
		if err := r.db.Get(&at, query); err != nil {
			r.t.Fatalf("%s: %v", query, err)
		}
		return at
	}
	at, err := time.Parse(time.RFC3339Nano, r.lines(query)[0])
	if err != nil {
		r.t.Fatalf("%s: %v", query, err)
	}
	return at
}
