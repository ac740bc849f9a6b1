package contentsafety

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/transport"
)

// hostile are forms that readers of JSON fall over, put in the place of a value.
var hostile = []string{
	`""`, `null`, `true`, `-0`, `-1`, `7`, `8`, `3.0`, `3.5`, `1e400`, `-1e-400`, `3e0`, `99999999999999999999`, `"3"`, `[]`, `{}`, `[[[[[]]]]]`, `{"severity":1}`,
	`"hate"`, `"Hate"`, `"HATE"`, `"\u0048ate"`, `"\ud800"`, "\"\xff\"", "\"a\nb\"", `"MARKER of a report"`,
}

// FuzzDecode: nothing is an answer that another reader of the JSON does not find
// the same severities in, and a severity that is not there is not 0.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"blocklistsMatch":[],"categoriesAnalysis":[{"category":HOLE,"severity":2},{"category":"Violence","severity":HOLE}]}`,
		`{"blocklistsMatch":HOLE,"categoriesAnalysis":[{"category":"Hate","severity":4}]}`,
		`{"categoriesAnalysis":HOLE}`, `{"categoriesAnalysis":[HOLE,{"category":"Hate","severity":4}]}`,
		`{"categoriesAnalysis":[{"category":"Hate","severity":6},{"category":"Hate","severity":HOLE}]}`, `HOLE`, `<html>HOLE</html>`,
		`{"categoriesAnalysis":[{"category":"Hate"}],"error":HOLE}`, `{"categoriesAnalysis":[{"category":"Hate","severity":1}],"categoriesAnalysis":HOLE}`,
	} {
		for _, v := range hostile {
			f.Add([]byte(strings.ReplaceAll(text, "HOLE", v)))
		}
		whole := strings.ReplaceAll(text, "HOLE", "1")
		f.Add([]byte(whole[:len(whole)/2]))
		f.Add([]byte("\xef\xbb\xbf" + whole))
		f.Add([]byte(whole + whole))
	}
	f.Add([]byte(`{"categoriesAnalysis":` + strings.Repeat("[", 20_000)))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := decode(body)
		if r.Outcome != batch.Answered {
			if r.Outcome != batch.BadShape || len(r.Content) != 0 || r.Code != batch.SafeCode(r.Code) {
				t.Fatalf("%s, code %q, %d bytes", r.Outcome, r.Code, len(r.Content))
			}
			return
		}
		var got batch.Scores
		if err := json.Unmarshal(r.Content, &got); err != nil || len(got.Scores) == 0 {
			t.Fatalf("content %s: %v", r.Content, err)
		}
		var other map[string]any
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber() // a number may be too large for anything else
		if err := dec.Decode(&other); err != nil {
			t.Fatalf("taken, and no JSON: %v", err)
		}
		hits, _ := other["blocklistsMatch"].([]any)
		grades, _ := other["categoriesAnalysis"].([]any)
		if len(hits) != 0 {
			t.Errorf("another reader finds %d hits", len(hits))
		}
		for category, score := range got.Scores {
			found := 0
			for _, e := range grades {
				m, _ := e.(map[string]any)
				if m["category"] != category {
					continue
				}
				found++
				number, _ := m["severity"].(json.Number)
				if n, err := number.Float64(); err != nil || n != score || score < 0 || score > MaxSeverity {
					t.Errorf("%s is %v, another reader finds %v", category, score, m["severity"])
				}
			}
			if found != 1 {
				t.Errorf("%s stands %d times", category, found)
			}
		}
	})
}

// FuzzReadToken: a token that is taken can stand in a header and has a life, and
// is replaced before its end.
func FuzzReadToken(f *testing.F) {
	for _, text := range []string{
		`{"token_type":"Bearer","expires_in":HOLE,"access_token":"abc"}`, `{"token_type":"Bearer","expires_in":3599,"access_token":HOLE}`,
		`{"token_type":HOLE,"expires_in":3599,"access_token":"abc"}`, `HOLE`, `{"error":HOLE}`,
	} {
		for _, v := range append(hostile, `"3599"`, `3599`, `1`, `0`, `"bearer"`, `"a b"`, `"a\r\nX-Header: b"`, `86401`) {
			f.Add([]byte(strings.ReplaceAll(text, "HOLE", v)))
		}
	}
	asked := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, body []byte) {
		tok, ok := readToken(body, asked)
		if !ok {
			return
		}
		if !transport.HeaderSafe(tok.value) || len(tok.value) > maxToken {
			t.Error("a token that cannot stand in a header")
		}
		if !tok.renew.After(asked) || !tok.renew.Before(tok.end) || tok.end.Sub(asked) > maxLife {
			t.Errorf("from %v, renewed at %v, until %v", asked, tok.renew, tok.end)
		}
	})
}
