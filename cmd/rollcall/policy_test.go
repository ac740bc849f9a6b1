package main

import (
	"strings"
	"testing"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// TestPolicyVersions: an unknown answer keeps the door closed, a changed text
// needs a new version, and an older version does not come back by itself.
func TestPolicyVersions(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			const file = "policies/patient-community.yaml"
			o.edit(file, "training: none", "training: unknown", "version: 1", "version: 2")
			if r := o.must(exitDecision, "policy", "approve", "patient-community", "--reason", "r"); !strings.Contains(r.err, "training") {
				t.Errorf("the unknown answer is not named: %s", r.err)
			}
			o.edit(file, "training: unknown", "training: never", "version: 2", "version: 1")
			if r := o.must(exitUsage, "policy", "approve", "patient-community", "--reason", "r"); !strings.Contains(r.err, "version") {
				t.Errorf("a changed text under version 1: %s", r.err)
			}
			states := func() (out []string) {
				for _, v := range asJSON[[]policyView](o, exitDone, "policy", "list") {
					out = append(out, v.State)
				}
				return out
			}
			if got := strings.Join(states(), " "); got != "approved changed" {
				t.Errorf("states %q", got)
			}
			o.edit(file, "version: 1", "version: 2")
			o.must(exitDone, "policy", "approve", "patient-community", "--reason", "r")
			o.edit(file, "training: never", "training: none", "version: 2", "version: 1")
			if r := o.must(exitUsage, "policy", "approve", "patient-community", "--reason", "r"); !strings.Contains(r.err, "2") {
				t.Errorf("an older version was approved again: %s", r.err)
			}
			o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
			o.must(exitDone, "run", "--until-idle")
			h := asJSON[[]reconcile.ReportHistory](o, exitDone, "explain", "a")
			if got := h[0].Works[0].Policy; got != "patient-community/2" {
				t.Errorf("a new report is bound to %s", got)
			}
		})
	}
}

// TestHeldReportsWaitForAPolicy: nothing is sent, status says so, and approval
// sets them free.
func TestHeldReportsWaitForAPolicy(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.edit("rollcall.yaml", "policy: patient-community", "policy: other-policy")
	r := o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
	if !strings.Contains(r.out, "3 held") {
		t.Errorf("intake says %s", r.out)
	}
	o.must(exitDecision, "run", "--until-idle")
	o.must(exitDecision, "status")
	if b, err := o.box.Books(); err != nil || len(b.Jobs) > 0 {
		t.Errorf("jobs %v were made of held reports, %v", b.Jobs, err)
	}
	o.edit("rollcall.yaml", "policy: other-policy", "policy: patient-community")
	o.must(exitDone, "run", "--until-idle")
	if c := asJSON[reconcile.CheckReport](o, exitDone, "check"); c.Roll.Authoritative != 3 {
		t.Errorf("authoritative %d, want 3", c.Roll.Authoritative)
	}
}
