package main

import (
	"strings"
	"testing"

	"rollcall/reconcile"
)

// TestMoneyFromEstimateToCost: what a job may take is told before it is sent,
// what it took behind it, and a budget that does not hold it pauses its policy.
func TestMoneyFromEstimateToCost(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.edit("rollcall.yaml", "    limits:", "    prices: [{model: gpt-4.1-mini-2025-04-14, input: \"0.20\", output: \"0.80\", currency: EUR}]\n    limits:")
	o.edit("policies/patient-community.yaml", "version: 1", "version: 2", "budget: none", `budget: {per_day: "0.000001", currency: USD}`)
	if r := o.must(exitUsage, "config", "check"); !strings.Contains(r.err, "policy patient-community/2: budget.currency: is USD, but account sandbox has the price") {
		t.Errorf("config check says %s", r.err)
	}
	o.edit("policies/patient-community.yaml", "currency: USD", "currency: EUR")
	o.must(exitDone, "config", "check")
	o.must(exitDone, "policy", "approve", "patient-community", "--by", "anna", "--reason", "r")
	o.must(exitDone, "intake", o.file("in.jsonl", threeReports))
	o.must(exitDone, "run", "collect")

	dry := asJSON[struct {
		Ready []readyJob `json:"ready_jobs"`
	}](o, exitDone, "run", "submit", "--dry-run")
	if len(dry.Ready) != 1 || dry.Ready[0].Estimate == nil || dry.Ready[0].Estimate.Estimate == nil || *dry.Ready[0].Estimate.Estimate < 1 {
		t.Fatalf("the dry run says %+v", dry)
	}
	before := *dry.Ready[0].Estimate.Estimate
	if r := o.must(exitDone, "job", "show", dry.Ready[0].JobID); !strings.Contains(r.out, before.String()+" EUR") {
		t.Errorf("job show says %s", r.out)
	}
	o.must(exitDecision, "run", "submit")
	status := asJSON[reconcile.Overview](o, exitDecision, "status")
	if len(status.Pauses) != 1 || status.Pauses[0].Scope != "policy:patient-community" || status.Pauses[0].Reason != "budget_spent" || len(status.Spend) != 0 {
		t.Errorf("status %+v", status)
	}

	o.edit("policies/patient-community.yaml", "version: 2", "version: 3", "0.000001", "5.00")
	o.must(exitDone, "policy", "approve", "patient-community", "--by", "anna", "--reason", "r")
	o.must(exitDone, "resume", "--scope", "policy:patient-community", "--reason", "raised")
	o.must(exitDone, "run", "--until-idle")
	status = asJSON[reconcile.Overview](o, exitDone, "status")
	if len(status.Spend) != 1 || status.Spend[0].Currency != "EUR" || status.Spend[0].Total.Cost < 1 || status.Spend[0].Total.Estimate != before {
		t.Errorf("spend %+v", status.Spend)
	}
	if r := o.must(exitDone, "status"); !strings.Contains(r.out, "spend by policy") || !strings.Contains(r.out, before.String()) {
		t.Errorf("status says %s", r.out)
	}
	h := asJSON[reconcile.JobHistory](o, exitDone, "job", "show", dry.Ready[0].JobID)
	if len(h.Submissions) != 1 || h.Submissions[0].Money.Cost == nil || *h.Submissions[0].Money.Cost != status.Spend[0].Total.Cost || h.Estimate != nil {
		t.Errorf("job show says %+v", h)
	}
}
