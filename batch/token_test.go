package batch_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"rollcall/batch"
)

const labelSchema = `{"type":"object","properties":{"label":{"enum":["ok","spam"]}},"required":["label"],"additionalProperties":false}`

func TestEchoToken(t *testing.T) {
	seen := map[string]bool{}
	for i := range 10_000 {
		token := batch.EchoToken(fmt.Sprintf("w%d-s1", i))
		if len(token) != 8 || strings.Trim(token, "abcdefghijklmnopqrstuvwxyz234567") != "" || seen[token] {
			t.Fatalf("token %q", token)
		}
		seen[token] = true
	}
	// Requests that are on their way when a new version starts are read by it.
	if got := batch.EchoToken("w0001-s1"); got != "layk75a7" {
		t.Errorf("the token of a request changed to %q", got)
	}
}

func TestAddToken(t *testing.T) {
	for _, tc := range []struct{ schema, required string }{
		{labelSchema, `["token","label"]`},
		{" {\n\"required\" : [ \n ] ,\"type\":\"object\", \"properties\": { } }\n", `["token"]`},
	} {
		got, err := batch.AddToken([]byte(tc.schema))
		if err != nil {
			t.Fatal(err)
		}
		var was, is map[string]json.RawMessage
		if json.Unmarshal([]byte(tc.schema), &was) != nil || json.Unmarshal(got, &is) != nil {
			t.Fatalf("no object: %s", got)
		}
		var properties map[string]any
		if err := json.Unmarshal(is["properties"], &properties); err != nil || properties["token"].(map[string]any)["type"] != "string" {
			t.Errorf("properties %s", is["properties"])
		}
		var required bytes.Buffer
		if err := json.Compact(&required, is["required"]); err != nil || required.String() != tc.required || len(is) != len(was) {
			t.Errorf("required %s in %s", is["required"], got)
		}
		if !bytes.Contains(got, []byte(`{"token":`)) {
			t.Errorf("token is not the first property: %s", got)
		}
	}
	for _, schema := range []string{
		"", "null", "[]", "{", `{"properties":{},"required":[]}x`, `{"type":"object"}`, `{"properties":{}}`, `{"required":[]}`,
		`{"properties":[],"required":[]}`, `{"properties":{},"required":{}}`, `{"properties":{"Token":{}},"required":[]}`,
		`{"properties":{},"properties":{},"required":[]}`,
	} {
		if got, err := batch.AddToken([]byte(schema)); err == nil {
			t.Errorf("%s became %s", schema, got)
		}
	}
}

// An answer to another text must not be taken for one to this.
func TestCheckTokenOfCrossedAnswers(t *testing.T) {
	const id = "w0001-s1"
	token, other := batch.EchoToken(id), batch.EchoToken("w0002-s1")
	for content, want := range map[string]string{
		`{"token":"` + token + `","label":"ok"}`:                                  `{"label":"ok"}`,
		` { "label" : "a \u0022" , "token" : "` + token + `" } `:                  `{"label":"a \u0022"}`,
		`{"token":"` + token + `"}`:                                               `{}`,
		`{"to\u006ben":"` + token + `","a":1}`:                                    `{"a":1}`,
		`{"a":1,"token":"` + token + `","a":2}`:                                   `{"a":1,"a":2}`, // for the schema check to refuse
		`{"a":{"token":"` + other + `"},"token":"` + token + `","b":[ 1 , "x" ]}`: `{"a":{"token":"` + other + `"},"b":[ 1 , "x" ]}`,
	} {
		if rest, ok := batch.CheckToken([]byte(content), id); !ok || string(rest) != want {
			t.Errorf("%s: %q, %v", content, rest, ok)
		}
	}
	for _, content := range []string{
		"", "x", "null", `"` + token + `"`, `["` + token + `"]`, "{}", `{"label":"ok"}`, `{"token":null}`, `{"token":7}`, `{"token":["` + token + `"]}`,
		`{"token":"` + other + `"}`, `{"token":"` + strings.ToUpper(token) + `"}`, `{"token":" ` + token + `"}`, `{"Token":"` + token + `"}`,
		`{"token":"` + token + `","token":"` + other + `"}`, `{"token":"` + token + `","TOKEN":"` + token + `"}`, `{"a":{"token":"` + token + `"}}`,
		`{"token":"` + token + `"`, `{"token":"` + token + `"}{}`, "\ufeff" + `{"token":"` + token + `"}`,
	} {
		if rest, ok := batch.CheckToken([]byte(content), id); ok || rest != nil {
			t.Errorf("%s passed, with the rest %q", content, rest)
		}
	}
}

func TestJudgeToken(t *testing.T) {
	const id = "w0001-s1"
	answered := func(content string) batch.Result {
		return batch.Result{CustomID: id, Outcome: batch.Answered, Content: []byte(content), Model: "m", InputTokens: 7}
	}
	whole := `{"token":"` + batch.EchoToken(id) + `","label":"ok"}`
	for _, tc := range []struct {
		echo          bool
		in            batch.Result
		outcome       batch.Outcome
		code, content string
	}{
		{true, answered(whole), batch.Answered, "", `{"label":"ok"}`},
		{true, answered(`{"label":"ok"}`), batch.BadShape, "crossed_answer", ""},
		{true, answered(`{"token":"` + batch.EchoToken("w0002-s1") + `","label":"ok"}`), batch.BadShape, "crossed_answer", ""},
		{true, answered(`["` + batch.EchoToken(id) + `"]`), batch.BadShape, "crossed_answer", ""},
		{true, answered(whole[:9]), batch.BadShape, "invalid_json", ""},
		{true, answered("As an AI"), batch.BadShape, "invalid_json", ""},
		{false, answered(whole), batch.Answered, "", whole},
		{true, batch.Result{CustomID: id, Outcome: batch.Refused, Model: "m", InputTokens: 7}, batch.Refused, "", ""},
	} {
		before := string(tc.in.Content)
		got := batch.Judge(&batch.Classifier{Echo: tc.echo}, tc.in)
		if got.Outcome != tc.outcome || got.Code != tc.code || string(got.Content) != tc.content || got.CustomID != id || got.Model != "m" || got.InputTokens != 7 {
			t.Errorf("%s, echo %v: %+v with %q", before, tc.echo, got, got.Content)
		}
		if string(tc.in.Content) != before {
			t.Errorf("%s was changed into %s", before, tc.in.Content)
		}
	}
}

// FuzzCheckToken: what passes holds the token for every reader, and what is left
// is what another reader finds besides it.
func FuzzCheckToken(f *testing.F) {
	const id = "w0001-s1"
	token := batch.EchoToken(id)
	for _, s := range []string{`{"token":"TOKEN","label":"ok"}`, `{"token":"TOKEN"}`, `{"token":"TOKEN","token":"TOKEN"}`, `{"a":"\ud800","token":"TOKEN"}`,
		"{\"\xff\":1,\"token\":\"TOKEN\"}", `{"token":"TOKEN","a":1e999}`, `[]`, ``, `{"token":"TOKEN"} `} {
		f.Add([]byte(strings.ReplaceAll(s, "TOKEN", token)))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		rest, ok := batch.CheckToken(bytes.Clone(content), id)
		if !ok {
			return
		}
		var whole, left map[string]json.RawMessage
		if json.Unmarshal(content, &whole) != nil || json.Unmarshal(rest, &left) != nil {
			t.Fatalf("%q passed and is no JSON for another reader, or %q is not", content, rest)
		}
		var got string
		if json.Unmarshal(whole["token"], &got) != nil || got != token {
			t.Errorf("another reader finds the token %q", got)
		}
		delete(whole, "token")
		if len(whole) != len(left) {
			t.Errorf("%q became %q", content, rest)
		}
		for name, value := range whole {
			if !bytes.Equal(left[name], value) {
				t.Errorf("%q is %q, was %q", name, left[name], value)
			}
		}
	})
}

func BenchmarkCheckToken(b *testing.B) {
	content := []byte(`{"token":"` + batch.EchoToken("w0001-s1") + `","label":"spam","evidence":["` + strings.Repeat("Get a discount ", 8) + `"],"severity":2}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := batch.CheckToken(content, "w0001-s1"); !ok {
			b.Fatal("not ok")
		}
	}
}
