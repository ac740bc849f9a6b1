package main

import (
	"strings"
	"testing"

	"rollcall/reconcile"
)

// TestPauseSaysWhatIsAlreadyOut: a pause stops what is to come, and names what
// has left.
func TestPauseSaysWhatIsAlreadyOut(t *testing.T) {
	o := newOperator(t, "sqlite", "drop_after:op=create,times=1")
	pause := []string{"pause", "--by", "anna", "--reason", "an incident"}
	if r := o.must(exitDone, "pause", "--scope", "policy:patient-community", "--reason", "early"); !strings.Contains(r.out, "nothing of it is out") {
		t.Errorf("nothing was sent yet: %s", r.out)
	}
	o.must(exitDone, "resume", "--scope", "policy:patient-community", "--reason", "r")
	o.must(exitDone, "intake", o.file("lost.jsonl", threeReports))
	o.must(exitAny, "run", "collect", "submit") // the answer of this create is lost
	o.must(exitDone, "intake", o.file("sent.jsonl", strings.ReplaceAll(threeReports, `"id":"`, `"id":"more-`)))
	o.must(exitAny, "run", "collect", "submit")

	r := o.must(exitDone, pause...)
	var open, sent reconcile.JobView
	for _, j := range asJSON[[]reconcile.JobView](o, exitDone, "jobs") {
		if j.State == reconcile.JobSubmitted {
			sent = j
		} else {
			open = j
		}
	}
	for _, want := range []string{"dispatch of all is paused\n", "of job " + open.JobID + ", begun ", "it may still make a job until ",
		"job " + sent.JobID + " is at the provider as " + sent.ProviderJobID, "with 3 items", "nothing is cancelled", "rollcall job show JOB"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("pause does not say %q:\n%s", want, r.out)
		}
	}
	if r := o.must(exitDone, "pause", "--by", "ben", "--reason", "again"); !strings.Contains(r.out, "has been paused since ") || !strings.Contains(r.out, " by anna: an incident") ||
		!strings.Contains(r.out, sent.ProviderJobID) {
		t.Errorf("a second pause says %s", r.out)
	}
	p := asJSON[reconcile.Paused](o, exitDone, pause...)
	if !p.Already || p.Actor != "anna" || p.OutTotal != 1 || p.Out[0].JobID != open.JobID || p.AtProviderTotal != 1 || p.AtProvider[0].JobID != sent.JobID {
		t.Errorf("as JSON %+v", p)
	}
	if r := o.must(exitDone, "pause", "--stage", "apply", "--reason", "r"); strings.Contains(r.out, "out") {
		t.Errorf("a pause of apply says %s", r.out)
	}
}
