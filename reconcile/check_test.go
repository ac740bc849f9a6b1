package reconcile_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// callRoll calls the roll and lists how many offend, by invariant.
func (b *bench) callRoll() (reconcile.CheckReport, map[string]int64) {
	b.t.Helper()
	c, err := b.r.CallRoll(b.t.Context(), b.Clock.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	offenders := map[string]int64{}
	for _, inv := range c.Invariants {
		if inv.Total > 0 {
			offenders[inv.Name] = inv.Total
		}
	}
	return c, offenders
}

func (b *bench) wantOffenders(got, want map[string]int64) {
	b.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("offenders (-want +got):\n%s", diff)
	}
}

func TestCheckGivesOverdueReportsToAPersonInTheSamePass(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(7) // more than two chunks
		b.collect()
		b.submit()
		b.reports(1)
		c, offenders := b.callRoll()
		b.wantOffenders(offenders, map[string]int64{})
		if c.Overdue != 0 || c.Roll.Accepted != 8 || c.Roll.InFlight != 8 || c.Roll.Authoritative != 0 {
			t.Errorf("before they are due: %+v", c)
		}
		b.Clock.Advance(49 * time.Hour)
		c, offenders = b.callRoll()
		b.wantOffenders(offenders, map[string]int64{"job_overdue": 1})
		want := reconcile.Roll{Accepted: 8, Authoritative: 8, Records: 8, Classified: map[string]int64{}, Unclassified: map[reconcile.Reason]int64{reconcile.Overdue: 8}}
		if diff := cmp.Diff(want, c.Roll); diff != "" {
			t.Errorf("roll (-want +got):\n%s", diff)
		}
		if c.Overdue != 8 || c.Opened != 1 || c.Broken() != 1 || c.Decisions() != 0 {
			t.Errorf("closed %d, opened %d, broken %d, decisions %d", c.Overdue, c.Opened, c.Broken(), c.Decisions())
		}
		b.wantTally("again", b.pass(b.r.Check), reconcile.Tally{Seen: 8, Failed: 1})
		b.want("markers", "SELECT decision FROM processed_markers GROUP BY decision", "authoritative")
	})
}

func TestCheckOpensResolvesAndReopens(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		p := sqltest.Policy("p", 2)
		p.Review.OnDue = reconcile.DueWait
		b.policy = b.Approve(t, p)
		b.reports(5)
		b.r.Settings.BreachLimit = 2
		b.Clock.Advance(49 * time.Hour)

		c, offenders := b.callRoll()
		b.wantOffenders(offenders, map[string]int64{"report_missing_record": 5})
		if c.Opened != 2 || c.Resolved != 0 {
			t.Errorf("opened %d, resolved %d", c.Opened, c.Resolved)
		}
		// The listed ones go; the finding of one that is not listed any more may
		// only close once the list is complete.
		b.change("UPDATE works SET due_us = due_us + $1 WHERE report_id IN (SELECT MIN(report_id) FROM reports)", int64(200*time.Hour/time.Microsecond))
		c, offenders = b.callRoll()
		b.wantOffenders(offenders, map[string]int64{"report_missing_record": 4})
		if c.Opened != 1 || c.Resolved != 0 {
			t.Errorf("opened %d, resolved %d", c.Opened, c.Resolved)
		}
		b.change("UPDATE works SET due_us = due_us + $1", int64(100*time.Hour/time.Microsecond))
		c, offenders = b.callRoll()
		b.wantOffenders(offenders, map[string]int64{})
		if c.Opened != 0 || c.Resolved != 3 {
			t.Errorf("opened %d, resolved %d", c.Opened, c.Resolved)
		}
		b.wantFindings()
		b.Clock.Advance(100 * time.Hour)
		if c, _ = b.callRoll(); c.Opened != 2 {
			t.Errorf("opened %d", c.Opened)
		}
	})
}

func TestCheckGoesOnWhileApplyIsPaused(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(2)
		if _, err := b.Pause(t.Context(), b.Clock.Now(), reconcile.Pause{Scope: reconcile.ScopeAll, Stage: reconcile.PauseApply, Actor: "anna", Reason: "r"}); err != nil {
			t.Fatal(err)
		}
		b.Clock.Advance(49 * time.Hour)
		c, offenders := b.callRoll()
		// Their outcome counts from when they were made, since no item was decided.
		b.wantOffenders(offenders, map[string]int64{"report_missing_record": 2, "work_unapplied": 2})
		if c.Overdue != 2 || c.Opened != 4 {
			t.Errorf("closed %d, opened %d", c.Overdue, c.Opened)
		}
		if err := b.Resume(t.Context(), b.Clock.Now(), reconcile.ScopeAll, reconcile.PauseApply, "anna", "r"); err != nil {
			t.Fatal(err)
		}
		b.pass(b.r.Apply)
		if c, _ = b.callRoll(); c.Resolved != 4 || c.Roll.Unclassified[reconcile.Overdue] != 2 {
			t.Errorf("resolved %d, roll %+v", c.Resolved, c.Roll)
		}
	})
}

func TestCheckCountsWhatAnOperatorMustDecide(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		d := b.delivery("held", 1, reportText("held", 1))
		d.Policy = nil
		b.accept(d)
		for _, e := range []reconcile.Event{
			{Name: "job_vanished", Subject: "job:j", Severity: reconcile.Critical},
			{Name: "late_result", Subject: "report:r", Severity: reconcile.Notice},
		} {
			if err := b.OpenFinding(t.Context(), b.Clock.Now(), e); err != nil {
				t.Fatal(err)
			}
		}
		c, offenders := b.callRoll()
		b.wantOffenders(offenders, map[string]int64{"policy_pending": 1})
		if c.Broken() != 0 || c.Decisions() != 2 || len(c.Events) != 2 || c.Roll.Held != 1 {
			t.Errorf("broken %d, decisions %d, events %v, held %d", c.Broken(), c.Decisions(), c.Events, c.Roll.Held)
		}
	})
}

// TestF45_TwoCallTheRollAtOnce: both see the same breaches, and a finding opens once.
func TestF45_TwoCallTheRollAtOnce(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(6)
		b.Clock.Advance(49 * time.Hour)
		now := b.Clock.Now()
		type result struct {
			reconcile.CheckReport
			err error
		}
		results := make(chan result, 2)
		for range 2 {
			r := b.reconciler(b.Store)
			go func() {
				c, err := r.CallRoll(t.Context(), now)
				results <- result{c, err}
			}()
		}
		var closed int64
		for range 2 {
			got := <-results
			if got.err != nil {
				t.Fatal(got.err)
			}
			closed += got.Overdue
		}
		if closed != 6 {
			t.Errorf("%d works closed, of 6", closed)
		}
		b.pass(b.r.Apply)
		b.pass(b.r.Check)
		b.want("records", "SELECT CAST(COUNT(*) AS TEXT) || ' ' || CAST(SUM(authoritative) AS TEXT) FROM review_records", "6 6")
		b.wantFindings()
	})
}

func TestHistoryNamesWhatHappensNext(t *testing.T) {
	at := time.Date(2026, 3, 2, 1, 0, 0, 0, time.UTC)
	work := func(stage reconcile.Stage, change func(w *reconcile.WorkView)) reconcile.ReportHistory {
		w := reconcile.WorkView{WorkID: "w", Revision: 2, Policy: "p/1", PolicyState: reconcile.PolicyApproved, Account: "main",
			Disposition: reconcile.Live, Stage: stage, EligibleAt: at}
		if change != nil {
			change(&w)
		}
		old := reconcile.WorkView{Revision: 1, Disposition: reconcile.Superseded, Stage: reconcile.StageRecorded}
		return reconcile.ReportHistory{CurrentRevision: 2, Revisions: []reconcile.RevisionView{{Revision: 1}, {Revision: 2}}, Works: []reconcile.WorkView{old, w}}
	}
	inJob := func(state reconcile.JobState, submission string) reconcile.ReportHistory {
		return work(reconcile.StageCollected, func(w *reconcile.WorkView) {
			w.Sent = []reconcile.SendView{{JobID: "old", JobState: reconcile.JobConsumed, Outcome: reconcile.ItemExpired},
				{JobID: "j", JobState: state, SubmissionID: "s", Submission: submission, SendBy: &at, NextSubmit: &at, NextPoll: &at, NextConsume: &at}}
		})
	}
	obstructed := func(h reconcile.ReportHistory) reconcile.ReportHistory {
		h.Works[1].Sent[1].Obstacle = "the list is cut"
		return h
	}
	record := func(r *reconcile.RecordView) reconcile.ReportHistory {
		return work(reconcile.StageRecorded, func(w *reconcile.WorkView) { w.Record = r })
	}
	pause := func(stage reconcile.PausedStage, scope string) []reconcile.Pause {
		return []reconcile.Pause{{Stage: stage, Scope: scope, Reason: "account_denied"}}
	}
	with := func(h reconcile.ReportHistory, kind reconcile.EventKind, subject string) reconcile.ReportHistory {
		h.Findings = []reconcile.Finding{{Name: "other", Subject: subject}, {Name: kind.Name, Subject: subject}}
		return h
	}
	resolved := func(h reconcile.ReportHistory) reconcile.ReportHistory {
		h.Findings[1].ResolvedAt = &at
		return h
	}
	for name, c := range map[string]struct {
		h      reconcile.ReportHistory
		pauses []reconcile.Pause
		stage  string
		next   string
	}{
		"held": {reconcile.ReportHistory{CurrentRevision: 2, Revisions: []reconcile.RevisionView{{Revision: 2, Held: true}}}, nil,
			"held", "waits for an operator: no policy of its source is approved"},
		"nothing": {reconcile.ReportHistory{CurrentRevision: 2}, nil,
			"unaccounted", "waits for an operator: the ledger holds neither a work nor a hold for its current revision"},
		"pending": {work(reconcile.StagePending, nil), pause(reconcile.PauseApply, "all"), "accepted", "collect adds it to a job, not before 2026-03-02T01:00:00Z"},
		"pending, account paused": {work(reconcile.StagePending, nil), pause(reconcile.PauseDispatch, "account:main"),
			"accepted", "waits for an operator: dispatch is paused for account:main (account_denied)"},
		"pending, policy paused": {work(reconcile.StagePending, nil), pause(reconcile.PauseDispatch, "policy:p"),
			"accepted", "waits for an operator: dispatch is paused for policy:p (account_denied)"},
		"pending, another account paused": {work(reconcile.StagePending, nil), pause(reconcile.PauseDispatch, "account:other"),
			"accepted", "collect adds it to a job, not before 2026-03-02T01:00:00Z"},
		"pending, policy revoked": {work(reconcile.StagePending, func(w *reconcile.WorkView) { w.PolicyState = reconcile.PolicyRevoked }), nil,
			"accepted", "waits for an operator: policy p/1 is revoked"},
		"pending, boundary mismatch": {with(work(reconcile.StagePending, nil), reconcile.EventBoundaryMismatch, "policy:p/1"), nil,
			"accepted", "waits for an operator: boundary_mismatch of policy:p/1, see rollcall findings"},
		"pending, boundary mismatch of another version": {with(work(reconcile.StagePending, nil), reconcile.EventBoundaryMismatch, "policy:p/2"), nil,
			"accepted", "collect adds it to a job, not before 2026-03-02T01:00:00Z"},
		"pending, boundary mismatch resolved": {resolved(with(work(reconcile.StagePending, nil), reconcile.EventBoundaryMismatch, "policy:p/1")), nil,
			"accepted", "collect adds it to a job, not before 2026-03-02T01:00:00Z"},
		"ready, boundary mismatch": {with(inJob(reconcile.JobReady, ""), reconcile.EventBoundaryMismatch, "job:j"), nil,
			"collected", "waits for an operator: boundary_mismatch of job:j, see rollcall findings"},
		"ready, text unreadable": {with(inJob(reconcile.JobReady, "rejected"), reconcile.EventTextUnreadable, "job:j"), nil,
			"collected", "waits for an operator: text_unreadable of job:j, see rollcall findings"},
		"submitted, account mismatch": {with(inJob(reconcile.JobSubmitted, "accepted"), reconcile.EventAccountMismatch, "job:j"), nil,
			"submitted", "waits for an operator: account_mismatch of job:j, see rollcall findings"},
		"submitted, vanished": {with(inJob(reconcile.JobSubmitted, "accepted"), reconcile.EventJobVanished, "job:j"), nil,
			"submitted", "waits for an operator: job_vanished of job:j, see rollcall findings"},
		"submitted, an earlier job vanished": {with(inJob(reconcile.JobSubmitted, "accepted"), reconcile.EventJobVanished, "job:old"), nil,
			"submitted", "poll asks about job j at 2026-03-02T01:00:00Z"},
		"submitted, unknown status": {with(inJob(reconcile.JobSubmitted, "accepted"), reconcile.EventUnknownStatus, "job:j"), nil,
			"submitted", "poll asks about job j at 2026-03-02T01:00:00Z"},
		"submitted, policy's boundary mismatch": {with(inJob(reconcile.JobSubmitted, "accepted"), reconcile.EventBoundaryMismatch, "policy:p/1"), nil,
			"submitted", "poll asks about job j at 2026-03-02T01:00:00Z"},
		"ended, account mismatch": {with(inJob(reconcile.JobEnded, "accepted"), reconcile.EventAccountMismatch, "job:j"), nil,
			"ended", "waits for an operator: account_mismatch of job:j, see rollcall findings"},
		"ended, results unreadable": {with(inJob(reconcile.JobEnded, "accepted"), reconcile.EventResultsUnreadable, "job:j"), nil,
			"ended", "waits for an operator: results_unreadable of job:j, see rollcall findings"},
		"planning": {inJob(reconcile.JobPlanning, ""), nil, "collected", "collect completes job j, and then submit sends it"},
		"ready":    {inJob(reconcile.JobReady, ""), nil, "collected", "submit sends job j at 2026-03-02T01:00:00Z"},
		"refused":  {inJob(reconcile.JobReady, "rejected"), nil, "collected", "submit sends job j at 2026-03-02T01:00:00Z"},
		"on its way": {inJob(reconcile.JobReady, reconcile.SubmissionOpen), nil, "collected",
			"a submission of job j is open until 2026-03-02T01:00:00Z; without an outcome by then, the job is sent again if no upload was noted, and is looked for at the provider otherwise"},
		"uncertain": {inJob(reconcile.JobReady, reconcile.SubmissionUncertain), nil,
			"collected", "nobody knows yet whether the provider has job j; resolve looks for it there at 2026-03-02T01:00:00Z, and nothing is sent before that is settled"},
		"uncertain, with an obstacle": {obstructed(inJob(reconcile.JobReady, reconcile.SubmissionUncertain)), nil,
			"collected", "waits for an operator: nobody knows whether the provider has job j: the list is cut (rollcall job resolve j)"},
		"ready, all paused": {inJob(reconcile.JobReady, ""), pause(reconcile.PauseDispatch, "all"),
			"collected", "waits for an operator: dispatch is paused for all (account_denied)"},
		"submitted":              {inJob(reconcile.JobSubmitted, "accepted"), nil, "submitted", "poll asks about job j at 2026-03-02T01:00:00Z"},
		"submitted, poll paused": {inJob(reconcile.JobSubmitted, "accepted"), pause(reconcile.PausePoll, "all"), "submitted", "waits for an operator: poll is paused for all (account_denied)"},
		"ended":                  {inJob(reconcile.JobEnded, "accepted"), nil, "ended", "consume reads the results of job j at 2026-03-02T01:00:00Z"},
		"in a job that is over":  {inJob(reconcile.JobConsumed, "accepted"), nil, "collected", "waits for an operator: job j is consumed and the work has no outcome"},
		"in no job": {work(reconcile.StageCollected, nil), nil,
			"collected", "waits for an operator: the ledger calls it a member of a job and holds no such job"},
		"extracted":               {work(reconcile.StageExtracted, nil), nil, "extracted", "apply writes its record"},
		"extracted, apply paused": {work(reconcile.StageExtracted, nil), pause(reconcile.PauseApply, "all"), "extracted", "waits for an operator: apply is paused for all (account_denied)"},
		"recorded":                {record(&reconcile.RecordView{Authoritative: true, HumanState: "queued"}), nil, "recorded", "a person reviews it"},
		"decided":                 {record(&reconcile.RecordView{Authoritative: true, HumanState: "decided"}), nil, "recorded", "nothing: a person has decided"},
		"history":                 {record(&reconcile.RecordView{HumanState: "queued"}), nil, "recorded", "nothing: another record stands for the report"},
		"no record":               {record(nil), nil, "recorded", "waits for an operator: the ledger calls it recorded and holds no record"},
	} {
		t.Run(name, func(t *testing.T) {
			c.h.Conclude(c.pauses)
			if c.h.Stage != c.stage || c.h.Next != c.next {
				t.Errorf("%s: %q\nwant %s: %q", c.h.Stage, c.h.Next, c.stage, c.next)
			}
			checkCommands(t, c.h.Next)
		})
	}
}
