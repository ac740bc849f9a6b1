package main

import (
	"strings"
	"testing"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

const threeReports = `{"tenant":"t","system":"s","id":"a","text":"The nurse was kind."}
{"tenant":"t","system":"s","id":"b","text":"Buy now, discount pills."}
{"tenant":"t","system":"s","id":"c","text":"Thank you all."}
`

// resolveSoon sets the times of an uncertain submission to fractions of a second.
func (o *operator) resolveSoon() {
	o.edit("rollcall.yaml", "send_within: 30s", "send_within: 300ms", "absent_after: 5s", "absent_after: 300ms")
}

// F16: the provider took the job and the answer was lost. It is found and used.
func TestF16_LostAnswerIsFound(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database, "drop_after:op=create,times=1")
			o.resolveSoon()
			o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
			o.must(exitDone, "run", "--until-idle")
			b, err := o.box.Books()
			if err != nil || b.AcceptedJobs != 1 || b.Requests["create"] != 1 {
				t.Errorf("the sandbox has %d jobs after %d creates, %v", b.AcceptedJobs, b.Requests["create"], err)
			}
			if c := asJSON[reconcile.CheckReport](o, exitDone, "check"); c.Roll.Authoritative != 3 {
				t.Errorf("authoritative %d, want 3", c.Roll.Authoritative)
			}
		})
	}
}

// F16: the same, and the provider's list is not complete: however often the
// passes run, nothing is sent, and the operator is told what to decide.
func TestF16_LostAnswerIsShownAndNotSentAgain(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database, "drop_after:op=create,times=1", "listing_lag:op=list_batches,seconds=100000000")
			o.resolveSoon()
			o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
			for range 2 {
				o.must(exitDecision, "run", "--until-idle")
			}
			b, err := o.box.Books()
			if err != nil || b.AcceptedJobs != 1 {
				t.Errorf("the sandbox has %d jobs, %v", b.AcceptedJobs, err)
			}
			view := asJSON[reconcile.Overview](o, exitDecision, "status")
			if len(view.Uncertain) != 1 || view.Uncertain[0].Obstacle == "" {
				t.Fatalf("status shows %+v", view.Uncertain)
			}
			if r := o.must(exitDecision, "status"); !strings.Contains(r.out, view.Uncertain[0].SubmissionID) {
				t.Errorf("status does not name submission %s:\n%s", view.Uncertain[0].SubmissionID, r.out)
			}
			h := asJSON[[]reconcile.ReportHistory](o, exitDone, "explain", "a")
			if sent := h[0].Works[0].Sent; len(sent) != 1 || sent[0].LeftAt == nil || sent[0].Submission != "uncertain" {
				t.Errorf("explain says %+v", sent)
			}
			if !strings.Contains(h[0].Next, "rollcall job resolve "+view.Uncertain[0].JobID) {
				t.Errorf("explain says next: %s", h[0].Next)
			}
		})
	}
}

// TestRefusedKeyStopsTheAccountUntilResumed: nothing is lost, nothing is sent
// while the brake holds, and everything is sent once afterwards.
func TestRefusedKeyStopsTheAccountUntilResumed(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database, "unauthorized:op=create,times=1")
			o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
			r := o.must(exitDecision, "run", "--until-idle")
			status := o.must(exitDecision, "status")
			if !strings.Contains(status.out, "rollcall resume --scope account:sandbox --stage dispatch") {
				t.Errorf("status does not say how to go on:\n%s%s", status.out, r.err)
			}
			o.must(exitDone, "resume", "--scope", "account:sandbox", "--stage", "dispatch", "--reason", "key mended")
			o.run(nil, "run", "--until-idle") // 4: the finding is still open
			for _, f := range asJSON[[]reconcile.Finding](o, exitDone, "findings") {
				o.must(exitDone, "findings", "resolve", f.ID, "--reason", "key mended")
			}
			c := asJSON[reconcile.CheckReport](o, exitDone, "check")
			if c.Roll.Authoritative != 3 {
				t.Errorf("authoritative %d, want 3", c.Roll.Authoritative)
			}
			if b, err := o.box.Books(); err != nil || b.Works.InMoreThanOneJob != 0 || b.Works.Distinct != 3 {
				t.Errorf("books %+v, %v", b.Works, err)
			}
		})
	}
}
