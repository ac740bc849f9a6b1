package sqltest

import (
	"testing"

	"rollcall/reconcile"
)

// AnswerSchema is the JSON Schema of the answers of Policy's classifier.
const AnswerSchema = `{"type":"object","properties":{"label":{"type":"string","enum":["unsafe_advice","harassment","self_harm","spam","ok"]},` +
	`"evidence":{"type":"array","items":{"type":"string"}}},"required":["label","evidence"],"additionalProperties":false}`

// Policy is a valid policy for the account "main" of processor "fake" at host
// "fake.test" in region "test".
func Policy(id string, version int64) reconcile.Policy {
	return reconcile.Policy{
		ID: id, Version: version,
		Boundary: reconcile.Boundary{Processor: "fake", Account: "main", Host: "fake.test", Region: "test", Terms: reconcile.Terms{
			DataClass: "synthetic", Retention: "none", Deletion: "none", Subprocessors: "none", Training: "none"}},
		Classifier: reconcile.Classifier{
			Name: "test/1", Model: "fake-1", Instructions: "Classify the report.", Schema: []byte(AnswerSchema), MaxOutputTokens: 200,
			Labels: []reconcile.Label{{Name: "unsafe_advice", EvidenceRequired: true}, {Name: "harassment", EvidenceRequired: true},
				{Name: "self_harm", EvidenceRequired: true}, {Name: "spam", EvidenceRequired: true}, {Name: "ok"}},
		},
		Authority: reconcile.HighestAccepted, Attempts: 3, Runs: 10,
		Review: reconcile.Review{DueSeconds: 48 * 3600, OnDue: reconcile.DueUnclassified},
	}
}

// Approve puts a policy into the ledger, approved.
func (l *Ledger) Approve(t testing.TB, p reconcile.Policy) *reconcile.PolicyVersion {
	t.Helper()
	v, err := reconcile.NewPolicyVersion(p, l.Keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.ApprovePolicy(t.Context(), l.Clock.Now(), v, "test", "a test", "none"); err != nil {
		t.Fatal(err)
	}
	v.State = reconcile.PolicyApproved
	return &v
}
