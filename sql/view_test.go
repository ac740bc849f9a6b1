package sql_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

func TestOverviewCounts(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		r := openRaw(t, l.Address)
		r.healthy()
		r.report("held", 1)
		r.insert("holds", row{"report_id": "held"})
		r.insert("submissions", row{"submission_id": "old", "job_id": "j-ready", "send_deadline_us": startUS - minute, "input_file_id": "file", "body_mac": "mac"})
		r.insert("submissions", row{"submission_id": "new", "job_id": "j-planning", "send_deadline_us": startUS + minute})
		for _, e := range []reconcile.Event{
			{Name: "job_vanished", Subject: "job:j", Severity: reconcile.Critical},
			{Name: "late_result", Subject: "report:r", Severity: reconcile.Notice},
		} {
			if err := l.OpenFinding(t.Context(), l.Clock.Now(), e); err != nil {
				t.Fatal(err)
			}
		}
		for name, expires := range map[string]int64{"pass:poll": startUS + minute, "pass:apply": startUS} {
			r.insert("leases", row{"name": name, "holder": "host:1", "expires_us": expires})
		}
		got, err := l.Overview(t.Context(), l.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		if got.LedgerID == "" || len(got.NeedsDecision) != 1 || got.NeedsDecision[0].Name != "job_vanished" {
			t.Errorf("ledger %q, decisions %+v", got.LedgerID, got.NeedsDecision)
		}
		waits, err := l.Decisions(t.Context(), l.Clock.Now())
		if diff := cmp.Diff(got.Decisions, waits); err != nil || diff != "" {
			t.Errorf("decisions by themselves: %v (-overview +decisions):\n%s", err, diff)
		}
		got.LedgerID, got.NeedsDecision = "", nil
		poll := sqltest.Start.Add(time.Minute)
		want := reconcile.Overview{
			At: sqltest.Start, Reports: 13,
			Works: map[reconcile.Stage]int64{reconcile.StagePending: 2, reconcile.StageCollected: 4, reconcile.StageExtracted: 1, reconcile.StageRecorded: 5},
			Jobs: map[reconcile.JobState]int64{reconcile.JobPlanning: 1, reconcile.JobReady: 1, reconcile.JobSubmitted: 1,
				reconcile.JobEnded: 1, reconcile.JobConsumed: 1},
			Records: map[string]int64{"spam": 3, "refused": 1, "overdue": 1},
			Decisions: reconcile.Decisions{
				Held:      1,
				Uncertain: []reconcile.UncertainView{{SubmissionID: "old", JobID: "j-ready", IntentAt: sqltest.Start, SendBy: sqltest.Start.Add(-time.Minute), InputFileID: "file"}},
				Open:      []reconcile.UncertainView{{SubmissionID: "new", JobID: "j-planning", IntentAt: sqltest.Start, SendBy: poll}},
				Pauses:    []reconcile.Pause{},
			},
			Leases:       []reconcile.LeaseView{{Name: "pass:poll", Holder: "host:1", Until: poll}},
			OpenFindings: 2, NextPoll: &poll, Schedules: []reconcile.ScheduleView{},
			WaitingJobs: map[reconcile.LimitWord]int64{},
			Spend:       []reconcile.SpendView{{Policy: "p", Today: reconcile.Spend{Submissions: 5}, Total: reconcile.Spend{Submissions: 5}}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("overview (-want +got):\n%s", diff)
		}
	})
}

// What `status --json` prints has these fields for ever.
func TestOverviewKeepsItsFields(t *testing.T) {
	text, err := json.Marshal(reconcile.Overview{NextPoll: &sqltest.Start})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	want := []string{"at", "authoritative_records", "held", "jobs", "leases", "ledger_id", "needs_decision", "next_poll", "open_findings",
		"open_submissions", "pauses", "reports", "schedules", "spend", "uncertain_submissions", "waiting_jobs", "works"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(fields))); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func TestOverviewOfAnEmptyLedger(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		got, err := l.Overview(t.Context(), l.Clock.Now())
		if err != nil || got.Reports != 0 || got.NextPoll != nil || got.Works == nil || got.Uncertain == nil ||
			got.Open == nil || got.Leases == nil || got.NeedsDecision == nil {
			t.Errorf("%+v, %v", got, err)
		}
		load, err := l.Workload(t.Context(), l.Clock.Now(), unsentMargin)
		if err != nil || load.Next != nil || load.Plan == nil {
			t.Errorf("%+v, %v", load, err)
		}
	})
}

// An operator must see a broken invariant as well as an event, and the one
// among many of the other.
func TestOverviewListsFindingsOfBothKinds(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		ctx, now := t.Context(), l.Clock.Now()
		r := openRaw(t, l.Address)
		for i := range 200 {
			r.insert("findings", row{"finding_id": fmt.Sprintf("f%03d", i), "name": "report_missing_record", "kind": "invariant",
				"subject": fmt.Sprint("report:", i), "severity": "critical", "opened_us": startUS + int64(i)})
		}
		for _, inv := range []reconcile.Invariant{{Name: "policy_pending", Severity: reconcile.Warning}, {Name: "told", Severity: reconcile.Notice}} {
			if _, _, err := l.SaveBreaches(ctx, now, inv, []reconcile.Breach{{Subject: "source:a/b"}}, true); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.OpenFinding(ctx, now, reconcile.Event{Name: "job_vanished", Subject: "job:j", Severity: reconcile.Critical}); err != nil {
			t.Fatal(err)
		}
		o, err := l.Overview(ctx, now)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range o.NeedsDecision {
			got = append(got, f.Name+" "+f.Subject)
		}
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprint("report_missing_record report:", 199-i))
		}
		want = append(want, "job_vanished job:j", "policy_pending source:a/b")
		if diff := cmp.Diff(want, got); diff != "" || o.OpenFindings != 203 {
			t.Errorf("%d open; decisions (-want +got):\n%s", o.OpenFindings, diff)
		}
	})
}

func TestFindReportByEveryID(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		r := openRaw(t, l.Address)
		r.policies()
		r.work("r1", "work1", nil)
		r.work("r2", "work2", nil)
		r.insert("reports", row{"report_id": "r3", "external_id": "ext-r1", "source_system": "shop"})
		for id, want := range map[string][]string{
			"r1": {"r1"}, "work2": {"r2"}, reconcile.CustomID("work2", "sub"): {"r2"}, "ext-r2": {"r2"},
			"ext-r1": {"r1", "r3"}, "ext-r": {}, "R1": {}, "": {}, "-": {}, "%": {},
		} {
			got, err := l.FindReport(t.Context(), id, 10)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", id, diff)
			}
		}
		if got, err := l.FindReport(t.Context(), "ext-r1", 1); err != nil || len(got) != 1 {
			t.Errorf("at most one: %v, %v", got, err)
		}
	})
}

func TestReportHistorySaysStageAndNext(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		r := openRaw(t, l.Address)
		r.healthy()
		r.report("held", 1)
		r.insert("holds", row{"report_id": "held"})
		for id, want := range map[string]string{
			"held":      "held: waits for an operator: no policy of its source is approved",
			"pending":   "accepted: collect adds it to a job, not before 2026-03-02T01:00:00Z",
			"planned":   "collected: collect completes job j-planning, and then submit sends it",
			"ready":     "collected: submit sends job j-ready at 2026-03-02T01:00:00Z",
			"sent":      "submitted: poll asks about job j-submitted at 2026-03-02T01:01:00Z",
			"ended":     "ended: consume reads the results of job j-ended at 2026-03-02T01:00:00Z",
			"extracted": "extracted: apply writes its record",
			"done":      "recorded: a person reviews it",
			"overdue":   "recorded: a person reviews it",
			"edited":    "recorded: a person reviews it",
			"decided":   "recorded: nothing: another record stands for the report",
			"editing":   "accepted: collect adds it to a job, not before 2026-03-02T01:00:00Z",
		} {
			h, err := l.ReportHistory(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if got := h.Stage + ": " + h.Next; got != want {
				t.Errorf("%s: %s; want %s", id, got, want)
			}
		}
		if _, err := l.ReportHistory(t.Context(), "nobody"); !errors.Is(err, reconcile.ErrNotFound) {
			t.Errorf("an unknown report: %v", err)
		}
	})
}

// A text that was sent three times: refused, expired, and answered.
func TestReportHistoryShowsEachTimeTheTextLeft(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		r := openRaw(t, l.Address)
		r.policies()
		r.work("r", "w", row{"stage": "recorded"})
		r.job("j1", "consumed", row{"created_us": startUS - 2*hour})
		r.exec("UPDATE submissions SET attempt = 2, intent_us = $1 WHERE job_id = 'j1'", startUS-hour)
		r.insert("submissions", row{"submission_id": "refused", "job_id": "j1", "intent_us": startUS - 2*hour, "outcome": "rejected",
			"evidence": "create rejected 400", "closed_us": startUS})
		r.member("j1", "w", 1, "expired")
		r.job("j2", "abandoned", row{"created_us": startUS - minute})
		r.insert("submissions", row{"submission_id": "earlier", "job_id": "j2", "intent_us": startUS + minute, "outcome": "rejected",
			"evidence": "e", "closed_us": startUS})
		r.member("j2", "w", 1, "not_sent") // decided before j2's only intent
		r.job("j3", "consumed", nil)
		r.member("j3", "w", 1, "succeeded")
		r.classified("r", "w", 1, "j3", "authoritative", nil)
		if err := l.OpenFinding(t.Context(), l.Clock.Now(), reconcile.Event{Name: "late_result", Subject: "work:w", Severity: reconcile.Notice}); err != nil {
			t.Fatal(err)
		}
		h, err := l.ReportHistory(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		w := h.Works[0]
		var got []string
		for _, s := range w.Sent {
			left := "never left"
			if s.LeftAt != nil {
				left = s.LeftAt.Format(time.TimeOnly)
			}
			got = append(got, strings.Join([]string{s.JobID, s.SubmissionID, s.Submission, string(s.Outcome), left, s.Host}, " "))
		}
		want := []string{
			"j1 refused rejected  23:00:00 fake.test", "j1 sub-j1 accepted expired 00:00:00 fake.test",
			"j2   not_sent never left fake.test", "j3 sub-j3 accepted succeeded 01:00:00 fake.test",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		if w.Attempts != 1 || w.Record == nil || w.Record.Label != "spam" || !w.Record.Authoritative || w.Policy != "p/1" || len(h.Findings) != 1 {
			t.Errorf("%+v, record %+v, findings %v", w, w.Record, h.Findings)
		}
	})
}

func TestJobsAndJobHistory(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		ctx, r := t.Context(), openRaw(t, l.Address)
		r.healthy()
		r.insert("submissions", row{"submission_id": "open", "job_id": "j-ready", "send_deadline_us": startUS, "input_file_id": "file", "body_mac": "mac"})
		r.insert("submissions", row{"submission_id": "unsent", "job_id": "j-planning", "send_deadline_us": startUS})
		r.insert("result_lines", row{"job_id": "j-consumed", "work_id": "w-done", "disposition": "accepted", "outcome": "succeeded", "label": "spam", "payload_mac": "m"})
		r.insert("result_lines", row{"job_id": "j-consumed", "line": 2, "disposition": "malformed"})
		if err := l.OpenFinding(ctx, l.Clock.Now(), reconcile.Event{Name: "malformed_results", Subject: "job:j-consumed", Severity: reconcile.Warning}); err != nil {
			t.Fatal(err)
		}
		jobs := func(states ...reconcile.JobState) []string {
			list, err := l.Jobs(ctx, states, 10)
			if err != nil {
				t.Fatal(err)
			}
			ids := []string{}
			for _, j := range list {
				if j.Uncertain != (j.JobID == "j-ready") {
					t.Errorf("%s: uncertain %v", j.JobID, j.Uncertain)
				}
				ids = append(ids, j.JobID)
			}
			slices.Sort(ids)
			return ids
		}
		if got := jobs(); len(got) != 5 {
			t.Errorf("all: %v", got)
		}
		if diff := cmp.Diff([]string{"j-ended", "j-ready"}, jobs(reconcile.JobEnded, reconcile.JobReady)); diff != "" {
			t.Error(diff)
		}
		if got := jobs(reconcile.JobAbandoned); len(got) != 0 {
			t.Errorf("abandoned: %v", got)
		}
		h, err := l.JobHistory(ctx, "prov-j-consumed")
		if err != nil {
			t.Fatal(err)
		}
		want := reconcile.JobHistory{
			ContentBytes: 10,
			Submissions: []reconcile.SubmissionView{{SubmissionID: "sub-j-consumed", Attempt: 1, Lines: 1, IntentAt: sqltest.Start,
				SendBy: sqltest.Start.Add(15 * time.Minute), Outcome: "accepted", Evidence: "id j-consumed", ClosedAt: &sqltest.Start}},
			Sets:     []reconcile.SetView{{Channel: "output", State: "whole", FileID: "f", Lines: 6, Became: map[string]int64{"accepted": 1, "malformed": 1}}},
			Outcomes: map[reconcile.ItemOutcome]int64{reconcile.ItemSucceeded: 6, reconcile.ItemRefused: 1},
		}
		want.JobView, want.Findings = h.JobView, h.Findings
		if diff := cmp.Diff(want, h); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		if h.JobID != "j-consumed" || h.Items != 6 || h.Policy != "p/1" || len(h.Findings) != 1 {
			t.Errorf("%+v", h)
		}
		if _, err := l.JobHistory(ctx, "nobody"); !errors.Is(err, reconcile.ErrNotFound) || err.Error() != `job "nobody": not found` {
			t.Errorf("an unknown job: %v", err)
		}
	})
}

func TestWorkloadAndPlan(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		r := openRaw(t, l.Address)
		r.healthy()
		r.work("later", "w-later", row{"eligible_us": startUS + hour, "due_us": startUS - 1})
		got, err := l.Workload(t.Context(), l.Clock.Now(), unsentMargin)
		if err != nil {
			t.Fatal(err)
		}
		want := reconcile.Workload{
			Pending: 2, Later: 1, Planning: 1, Ready: 1, Submitted: 1, EndedDue: 1, Ended: 1, Extracted: 1, Overdue: 1, Next: &sqltest.Start,
			Plan: []reconcile.PolicyLoad{{Policy: "p/1", Account: "main", Host: "fake.test", Region: "test", Works: 4, Bytes: 40}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("workload (-want +got):\n%s", diff)
		}
	})
}

func after(d time.Duration) *time.Time {
	t := sqltest.Start.Add(d)
	return &t
}

func pause(scope, stage string) row {
	return row{"pause_id": scope + stage, "scope": scope, "stage": stage}
}

// stopped makes a job in a state, and a finding about it.
func stopped(state, finding string, set row) func(r raw) {
	return func(r raw) {
		r.job("j", state, nil)
		full := row{"finding_id": "f", "name": finding, "subject": "job:j"}
		maps.Copy(full, set)
		r.insert("findings", full)
	}
}

const unsentMargin = 70 * time.Second

// workloadCases are ledgers, and the instant at which a pass can go on.
var workloadCases = map[string]struct {
	fill func(r raw)
	want *time.Time
}{
	"nothing":              {func(r raw) {}, nil},
	"a pending work":       {func(r raw) { r.work("r", "w", row{"eligible_us": startUS + hour}) }, after(time.Hour)},
	"an old pending work":  {func(r raw) { r.work("r", "w", row{"eligible_us": startUS - hour}) }, after(0)},
	"a superseded work":    {func(r raw) { r.work("r", "w", row{"disposition": "superseded"}) }, nil},
	"policy revoked":       {func(r raw) { r.work("r", "w", nil); r.exec("UPDATE policy_versions SET state = 'revoked'") }, nil},
	"account paused":       {func(r raw) { r.work("r", "w", nil); r.insert("pauses", pause("account:main", "dispatch")) }, nil},
	"policy paused":        {func(r raw) { r.job("j", "ready", nil); r.insert("pauses", pause("policy:p", "dispatch")) }, nil},
	"all paused":           {func(r raw) { r.job("j", "planning", nil); r.insert("pauses", pause("all", "dispatch")) }, nil},
	"other account paused": {func(r raw) { r.work("r", "w", nil); r.insert("pauses", pause("account:other", "dispatch")) }, after(0)},
	"a ready job":          {func(r raw) { r.job("j", "ready", row{"next_submit_us": startUS + hour}) }, after(time.Hour)},
	"an open submission": {func(r raw) {
		r.job("j", "ready", nil)
		r.insert("submissions", row{"submission_id": "s", "job_id": "j", "input_file_id": "f", "body_mac": "mac"})
	}, after(15 * time.Minute)},
	"an open submission for an operator": {func(r raw) {
		r.job("j", "ready", nil)
		r.insert("submissions", row{"submission_id": "s", "job_id": "j", "input_file_id": "f", "body_mac": "mac", "obstacle": "o"})
	}, nil},
	"an open submission without an upload": {func(r raw) {
		r.job("j", "ready", nil)
		r.insert("submissions", row{"submission_id": "s", "job_id": "j"})
		r.insert("pauses", pause("account:main", "dispatch"))
	}, after(15*time.Minute + unsentMargin)},
	"one of them, and nothing may be sent": {func(r raw) {
		r.job("j", "ready", nil)
		r.insert("submissions", row{"submission_id": "s", "job_id": "j"})
		r.insert("pauses", pause("all", "dispatch"))
	}, nil},
	"a submitted job": {func(r raw) { r.job("j", "submitted", nil) }, after(time.Minute)},
	"poll paused":     {func(r raw) { r.job("j", "submitted", nil); r.insert("pauses", pause("all", "poll")) }, nil},
	"account's poll paused": {func(r raw) {
		r.job("j", "submitted", nil)
		r.insert("pauses", pause("account:main", "poll"))
	}, nil},
	"policy's poll paused": {func(r raw) {
		r.job("j", "submitted", nil)
		r.insert("pauses", pause("policy:p", "poll"))
	}, nil},
	"other account's poll paused": {func(r raw) {
		r.job("j", "submitted", nil)
		r.insert("pauses", pause("account:acct", "poll")) // a fingerprint is no name
	}, after(time.Minute)},
	"account's dispatch paused": {func(r raw) {
		r.job("j", "submitted", nil)
		r.insert("pauses", pause("account:main", "dispatch"))
	}, after(time.Minute)},
	"a vanished job":        {stopped("submitted", "job_vanished", nil), nil},
	"a vanished job, ended": {stopped("ended", "job_vanished", nil), after(0)},
	"a job of no account":   {stopped("submitted", "account_mismatch", nil), nil},
	"results of no account": {stopped("ended", "account_mismatch", nil), nil},
	"unreadable results":    {stopped("ended", "results_unreadable", nil), nil},
	"an unreadable text":    {stopped("ready", "text_unreadable", nil), nil},
	"another boundary":      {stopped("ready", "boundary_mismatch", nil), nil},
	"an unknown status":     {stopped("submitted", "unknown_status", nil), after(time.Minute)},
	"resolved": {stopped("submitted", "job_vanished", row{"resolved_us": startUS, "resolved_by": "anna", "resolution": "r"}),
		after(time.Minute)},
	"another job vanished": {func(r raw) {
		stopped("submitted", "job_vanished", nil)(r)
		r.job("j2", "submitted", row{"next_poll_us": startUS + hour})
	}, after(time.Hour)},
	"an ended job":      {func(r raw) { r.job("j", "ended", row{"next_consume_us": startUS + minute}) }, after(time.Minute)},
	"an extracted work": {func(r raw) { r.work("r", "w", row{"stage": "extracted", "reason": "no_text"}) }, after(0)},
	"apply paused": {func(r raw) {
		r.work("r", "w", row{"stage": "extracted", "reason": "no_text"})
		r.insert("pauses", pause("all", "apply"))
	}, nil},
}

// Next is the first thing that can go on by itself: what a pause, an open
// submission, a finding or a policy holds back does not count.
func TestWorkloadNext(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		r := openLawless(t, l.Address)
		for name, c := range workloadCases {
			t.Run(name, func(t *testing.T) {
				r.clear()
				r.policies()
				c.fill(r)
				got, err := l.Workload(t.Context(), l.Clock.Now(), unsentMargin)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got.Next); diff != "" {
					t.Errorf("next (-want +got):\n%s", diff)
				}
				next, err := l.Next(t.Context(), l.Clock.Now(), unsentMargin)
				if diff := cmp.Diff(reconcile.NextWork{At: got.Next, Overdue: got.Overdue}, next); err != nil || diff != "" {
					t.Errorf("next by itself: %v (-workload +next):\n%s", err, diff)
				}
			})
		}
	})
}

// What stops the job or the policy of a report is told with the report, until
// it is resolved or the report has moved on.
func TestReportHistoryNamesWhatStopsItsJobOrPolicy(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		ctx, r := t.Context(), openRaw(t, l.Address)
		r.healthy()
		r.insert("submissions", row{"submission_id": "open", "job_id": "j-ready", "send_deadline_us": startUS + minute})
		for _, e := range []reconcile.Event{
			{Name: "account_mismatch", Subject: "job:j-submitted", Severity: reconcile.Critical},
			{Name: "results_unreadable", Subject: "job:j-ended", Severity: reconcile.Critical},
			{Name: "boundary_mismatch", Subject: "policy:p/1", Severity: reconcile.Critical},
		} {
			if err := l.OpenFinding(ctx, l.Clock.Now(), e); err != nil {
				t.Fatal(err)
			}
		}
		stopped := map[string]string{
			"pending": "waits for an operator: boundary_mismatch of policy:p/1, see rollcall findings",
			"ready": "a submission of job j-ready is open until 2026-03-02T01:01:00Z; " +
				"without an outcome by then, the job is sent again if no upload was noted, and is looked for at the provider otherwise",
			"sent":      "waits for an operator: account_mismatch of job:j-submitted, see rollcall findings",
			"ended":     "waits for an operator: results_unreadable of job:j-ended, see rollcall findings",
			"extracted": "apply writes its record",
			"overdue":   "a person reviews it",
		}
		for id, next := range stopped {
			if h := history(t, l, id); h.Next != next {
				t.Errorf("%s: %s; want %s", id, h.Next, next)
			}
		}
		for id, want := range map[string][]string{"sent": {"account_mismatch", "boundary_mismatch"}, "pending": {"boundary_mismatch"}, "overdue": nil, "done": nil} {
			if got := findingNames(history(t, l, id).Findings); !slices.Equal(got, want) {
				t.Errorf("findings of %s: %v, want %v", id, got, want)
			}
		}
		for _, f := range findings(t, l, true) {
			if err := l.ResolveFinding(ctx, l.Clock.Now(), f.ID, "anna", "mended"); err != nil {
				t.Fatal(err)
			}
		}
		if h := history(t, l, "sent"); len(h.Findings) != 0 || h.Next != "poll asks about job j-submitted at 2026-03-02T01:01:00Z" {
			t.Errorf("after the findings were resolved: %s, %v", h.Next, h.Findings)
		}
	})
}

func history(t *testing.T, l *sqltest.Ledger, id string) reconcile.ReportHistory {
	t.Helper()
	h, err := l.ReportHistory(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// findingNames are the names of findings, sorted.
func findingNames(found []reconcile.Finding) []string {
	var out []string
	for _, f := range found {
		out = append(out, f.Name)
	}
	slices.Sort(out)
	return out
}
