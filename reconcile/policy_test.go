package reconcile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// A temperature that is not sent and a temperature of 0 are two policies, in
// the spec that is approved and in the question that is asked.
func TestSpecKeepsWhetherATemperatureIsSent(t *testing.T) {
	for spec, temperature := range map[string]*float64{
		"":                   nil,
		`"temperature":0`:    new(0.0),
		`"temperature":0.25`: new(0.25),
	} {
		p := sqltest.Policy("posts", 1)
		p.Classifier.Temperature = temperature
		text, err := p.Spec()
		if err != nil {
			t.Fatal(err)
		}
		if spec == "" && strings.Contains(string(text), "temperature") || !strings.Contains(string(text), spec) {
			t.Errorf("want %q in %s", spec, text)
		}
		back, err := reconcile.ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, back); diff != "" {
			t.Errorf("spec read back (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(temperature, back.Question().Temperature); diff != "" {
			t.Errorf("question (-want +got):\n%s", diff)
		}
	}
}

// Thresholds and echo are part of what is approved, and reach the question; a
// policy without them has the text that it had before they were known.
func TestSpecKeepsThresholdsAndEcho(t *testing.T) {
	plain := sqltest.Policy("posts", 1)
	text, err := plain.Spec()
	if err != nil || strings.Contains(string(text), "threshold") || strings.Contains(string(text), "otherwise") || strings.Contains(string(text), "echo") {
		t.Errorf("%v in %s", err, text)
	}
	echo, scores := sqltest.Policy("posts", 1), sqltest.Policy("posts", 1)
	echo.Classifier.Echo = true
	scores.Classifier.Thresholds = []reconcile.Threshold{{Category: "Hate", Score: 4, Label: "harassment"}, {Category: "SelfHarm", Score: 0.5, Label: "self_harm"}}
	scores.Classifier.Otherwise = "ok"
	seen := map[string]bool{string(text): true}
	for want, p := range map[string]reconcile.Policy{
		`"echo":true`: echo,
		`"thresholds":[{"category":"Hate","score":4,"label":"harassment"},{"category":"SelfHarm","score":0.5,"label":"self_harm"}],"otherwise":"ok"`: scores,
	} {
		text, err := p.Spec()
		if err != nil || !strings.Contains(string(text), want) || seen[string(text)] {
			t.Errorf("%v, want %q in %s", err, want, text)
		}
		seen[string(text)] = true
		back, err := reconcile.ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, back); diff != "" {
			t.Errorf("spec read back (-want +got):\n%s", diff)
		}
	}
	if !echo.Question().Echo || plain.Question().Echo {
		t.Error("echo does not reach the question")
	}
	question := scores.Question()
	want := []batch.Threshold{{Category: "Hate", Score: 4, Label: "harassment"}, {Category: "SelfHarm", Score: 0.5, Label: "self_harm"}}
	if diff := cmp.Diff(want, question.Thresholds); diff != "" || question.Otherwise != "ok" {
		t.Errorf("question: %s%s", question.Otherwise, diff)
	}
}
