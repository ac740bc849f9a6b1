package anthropic_test

import (
	"os"
	"strings"
	"testing"

	"rollcall/batch"
)

// Bounds would have every request of a batch refused. They are told to the model
// in words instead, and nothing else of a schema is touched.
func TestSchemaIsSendable(t *testing.T) {
	c := newClient(t, "http://127.0.0.1:1")
	for in, want := range map[string]string{
		schema: schema,
		`{"$schema":"x","type":"object","properties":{"a":{"type":"array","description":"Quotes.","items":{"type":"string","maxLength":9},"maxItems":3,"minItems":1}},"default":{}}`: `{"type":"object","properties":{"a":{"type":"array","description":"Quotes. (maxItems: 3)","items":{"type":"string","description":"(maxLength: 9)"},"minItems":1}}}`,
		`{"properties":{"minimum":{"type":"integer","minimum":1,"exclusiveMaximum":5.5},"default":{"minItems":2}},"required":["minimum"]}`:                                           `{"properties":{"minimum":{"type":"integer","description":"(minimum: 1, exclusiveMaximum: 5.5)"},"default":{"description":"(minItems: 2)"}},"required":["minimum"]}`,
		`{"anyOf":[{"minimum":1},true,{"enum":["minimum"]}],"$defs":{"x":{"multipleOf":2}},"additionalProperties":false,"const":{"minimum":1}}`:                                      `{"anyOf":[{"description":"(minimum: 1)"},true,{"enum":["minimum"]}],"$defs":{"x":{"description":"(multipleOf: 2)"}},"additionalProperties":false,"const":{"minimum":1}}`,
		"{\"description\":\"two\u2028lines\",\"maximum\":1}": `{"description":"two\u2028lines (maximum: 1)"}`,
	} {
		cl := asked()
		cl.Schema = []byte(in)
		for range 2 {
			line, err := c.AppendRequest(nil, cl, "a", batch.NewText("x"))
			if err != nil || !strings.Contains(string(line), `"schema":`+want+`}}}}`) {
				t.Errorf("%s\n%s, %v", in, line, err)
			}
		}
	}
	for _, odd := range []string{`{"description":7,"maximum":1}`, `{"anyOf":[1,]}`} {
		cl := asked()
		cl.Schema = []byte(odd)
		if _, err := c.AppendRequest(nil, cl, "a", batch.NewText("x")); batch.KindOf(err) != batch.Rejected {
			t.Errorf("%s: %v", odd, err)
		}
	}
}

// The schema that comes with the program, with its bound, passes.
func TestOwnSchemaPasses(t *testing.T) {
	own, err := os.ReadFile("../../configs/classifiers/patient-community/answer.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	cl := question()
	cl.Schema = own
	if err := r.Check(t.Context(), cl); err != nil {
		t.Error(err)
	}
}
