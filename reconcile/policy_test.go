package reconcile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
