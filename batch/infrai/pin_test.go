package infrai_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/infrai"
)

func testdata(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func documents(t testing.TB) [][]byte {
	return [][]byte{testdata(t, "ai.batch.submit.json"), testdata(t, "ai.batch.status.json"), testdata(t, "ai.batch.results.json")}
}

// The pin in testdata is what its documents and its reading make.
func TestMakePin(t *testing.T) {
	fetched := time.Date(2026, 3, 1, 0, 0, 0, 7, time.UTC)
	p, err := infrai.MakePin(fetched, append(documents(t), testdata(t, "reading.json"))...)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := p.Encode()
	if err != nil || string(raw) != string(testdata(t, "assumed.pin.json")) {
		t.Errorf("%v, or another pin than the one in testdata", err)
	}
	again, err := infrai.ParsePin(raw)
	if err != nil || !again.Assumed || len(again.Documents) != 3 || !again.Fetched.Equal(fetched.Truncate(time.Second)) || !strings.Contains(again.String(), "ai.batch.results") {
		t.Errorf("%v, %s", err, again)
	}
}

func TestMakePinRefuses(t *testing.T) {
	reading, docs := testdata(t, "reading.json"), documents(t)
	edit := func(from, to string) []byte {
		out := strings.Replace(string(reading), from, to, 1)
		if out == string(reading) {
			t.Fatalf("nothing to edit: %s", from)
		}
		return []byte(out)
	}
	for name, files := range map[string][][]byte{
		"nothing":                {},
		"no reading":             docs,
		"no documents":           {reading},
		"two readings":           append([][]byte{reading, reading}, docs...),
		"a document missing":     {reading, docs[0], docs[1]},
		"a document twice":       append([][]byte{reading, docs[0]}, docs...),
		"no JSON":                append([][]byte{reading, []byte("{")}, docs...),
		"no id":                  append([][]byte{reading, []byte(`{"name":"x"}`)}, docs...),
		"an unknown member":      append([][]byte{edit(`"assumed"`, `"asumed"`)}, docs...),
		"a made-up state":        append([][]byte{edit(`"success": ["completed"]`, `"success": ["done"]`)}, docs...),
		"a state in two sets":    append([][]byte{edit(`"failed": ["failed"]`, `"failed": ["completed"]`)}, docs...),
		"a made-up item state":   append([][]byte{edit(`"succeeded"`, `"ok"`)}, docs...),
		"another item id":        append([][]byte{edit(`"item_id_path": "ref"`, `"item_id_path": "custom_id"`)}, docs...),
		"an item id in body":     append([][]byte{edit(`"item_id_path": "ref"`, `"item_id_path": "body"`)}, docs...),
		"another state path":     append([][]byte{edit(`"state_path": "state"`, `"state_path": "status"`)}, docs...),
		"no evidence":            append([][]byte{edit(`"idempotent": "ai.batch.submit#/idempotency/supported",`, ``)}, docs...),
		"evidence elsewhere":     append([][]byte{edit(`ai.batch.submit#/idempotency/supported`, `ai.batch.cancel#/idempotency/supported`)}, docs...),
		"evidence of nothing":    append([][]byte{edit(`ai.batch.submit#/idempotency/supported`, `ai.batch.submit#/idempotent`)}, docs...),
		"evidence of a name":     append([][]byte{edit(`ai.batch.submit#/idempotency/supported`, `ai.batch.submit#/idempotency/header`)}, docs...),
		"evidence of members":    append([][]byte{edit(`ai.batch.submit#/idempotency/supported`, `ai.batch.submit#/idempotency`)}, docs...),
		"evidence without claim": append([][]byte{edit(`"idempotent": true`, `"idempotent": false`)}, docs...),
		"model auto":             append([][]byte{edit(`"models": ["gpt-4.1-mini"]`, `"models": ["auto"]`)}, docs...),
		"a model of no document": append([][]byte{edit(`"models": ["gpt-4.1-mini"]`, `"models": ["gpt-9"]`)}, docs...),
		"a route to money":       append([][]byte{edit(`"submit_route": "/v1/ai/batch/submit"`, `"submit_route": "/v1/account/topup"`)}, docs...),
		"a route upwards":        append([][]byte{edit(`"submit_route": "/v1/ai/batch/submit"`, `"submit_route": "/v1/ai/../account"`)}, docs...),
		"another shape":          append([][]byte{edit(`"shape": "paged"`, `"shape": "csv"`)}, docs...),
		"array with pages":       append([][]byte{edit(`"shape": "paged"`, `"shape": "array"`)}, docs...),
		"an option of ours":      append([][]byte{edit(`"cache_strategy": "none"`, `"model": "auto"`)}, docs...),
		"an option in parts":     append([][]byte{edit(`"cache_strategy": "none"`, `"cache_strategy": 0.5`)}, docs...),
		"health texts":           append([][]byte{edit(`["synthetic"]`, `["health"]`)}, docs...),
		"a made-up class":        append([][]byte{edit(`["synthetic"]`, `["public"]`)}, docs...),
	} {
		if p, err := infrai.MakePin(start, files...); err == nil {
			t.Errorf("%s: taken: %s", name, p)
		} else if !strings.HasPrefix(err.Error(), "infrai: pin: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	agreed := append([][]byte{edit(`["synthetic"],`, `["synthetic","health"], "agreement": "contract of 2026-02-11",`)}, docs...)
	if p, err := infrai.MakePin(start, agreed...); err != nil || len(p.Classes) != 2 || p.Classes[1] != batch.DataHealth {
		t.Errorf("%v, %v", p.Classes, err)
	}
}

// A repeat under a key is sent when the documents say in so many words that it is
// the same job (F15): everything else is an outcome that nobody knows.
func TestIdempotencyIsDeclaredByTrueAlone(t *testing.T) {
	reading, docs := testdata(t, "reading.json"), documents(t)
	for declared, ok := range map[string]bool{
		`{"supported":true}`: true, `{"supported":false}`: false, `{"supported":"true"}`: false, `{"supported":1}`: false,
		`{"supported":{"mode":"none"}}`: false, `{"supported":{"required":false}}`: false, `{"supported":[true]}`: false, `{"required":false,"mode":"none"}`: false,
	} {
		files := [][]byte{reading}
		for _, d := range docs {
			files = append(files, []byte(strings.Replace(string(d), `{"supported":true,"header":"Idempotency-Key","parameter":"idempotency_key"}`, declared, 1)))
		}
		if _, err := infrai.MakePin(start, files...); (err == nil) != ok {
			t.Errorf("%s: %v", declared, err)
		}
	}
	for declared, ok := range map[string]bool{`true`: true, `false`: false, `{"supported":false}`: false, `{"required":false,"mode":"none"}`: false, `{}`: false, `"true"`: false} {
		files := [][]byte{[]byte(strings.Replace(string(reading), "#/idempotency/supported", "#/idempotency", 1))}
		for _, d := range docs {
			files = append(files, []byte(strings.Replace(string(d), `{"supported":true,"header":"Idempotency-Key","parameter":"idempotency_key"}`, declared, 1)))
		}
		if _, err := infrai.MakePin(start, files...); (err == nil) != ok {
			t.Errorf("%s: %v", declared, err)
		}
	}
}

// A pin that was edited by hand is not the one that was made.
func TestParsePinRefuses(t *testing.T) {
	pin := string(testdata(t, "assumed.pin.json"))
	for name, edit := range map[string][2]string{
		"another document":  {`\"available\":true`, `\"available\":false`},
		"another hash":      {`"sha256": "`, `"sha256": "0`},
		"a reading":         {"rollcall-infrai-pin/1", "rollcall-infrai-reading/1"},
		"another format":    {"rollcall-infrai-pin/1", "rollcall-infrai-pin/2"},
		"no time":           {`"fetched_at": "2026-03-01T00:00:00Z"`, `"fetched_at": null`},
		"a name twice":      {`"state_path"`, `"state_path": "state", "state_path"`},
		"a document of two": {`"id": "ai.batch.status"`, `"id": "ai.batch.submit"`},
	} {
		changed := strings.Replace(pin, edit[0], edit[1], 1)
		if changed == pin {
			t.Fatalf("%s: nothing to edit", name)
		}
		if _, err := infrai.ParsePin([]byte(changed)); err == nil {
			t.Errorf("%s: taken", name)
		} else if strings.Contains(err.Error(), "made up for a sandbox; not") {
			t.Errorf("%s: the error quotes a document: %v", name, err)
		}
	}
	for _, raw := range []string{"", "null", "[]", pin + pin, strings.Repeat(" ", 9<<20)} {
		if _, err := infrai.ParsePin([]byte(raw)); err == nil {
			t.Errorf("%.20q: taken", raw)
		}
	}
}
