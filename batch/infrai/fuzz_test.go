package infrai_test

import (
	"bytes"
	"testing"

	"rollcall/batch"
	"rollcall/batch/infrai"
)

// FuzzParsePin: whatever an operator writes, a pin that is taken can be written,
// is taken again, and keeps every route below the AI extension.
func FuzzParsePin(f *testing.F) {
	pin := testdata(f, "assumed.pin.json")
	for _, edit := range [][2]string{{"", ""}, {`"paged"`, `"array"`}, {`"/v1/ai/batch/submit"`, `"/v1/ai/../account/topup"`}, {`{"`, `[`}, {"ai.batch.status#", "#"}, {`"none"`, `1e3`}} {
		f.Add(bytes.Replace(pin, []byte(edit[0]), []byte(edit[1]), 1))
	}
	f.Add(testdata(f, "reading.json"))
	f.Add([]byte(`{"format":"rollcall-infrai-pin/1"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := infrai.ParsePin(raw)
		if err != nil {
			return
		}
		again, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := infrai.ParsePin(again); err != nil {
			t.Errorf("its own encoding is refused: %v", err)
		}
		c := p.Contract
		routes := []string{c.SubmitRoute, c.StatusRoute}
		if c.Results != nil {
			routes = append(routes, c.Results.Route)
		}
		for _, route := range routes {
			if !bytes.HasPrefix([]byte(route), []byte("/v1/ai/")) || bytes.Contains([]byte(route), []byte("..")) {
				t.Errorf("route %q", route)
			}
		}
	})
}

// FuzzDecodeResult: never a panic, and never an answer without an id, the word
// for success, and a vendor that is allowed.
func FuzzDecodeResult(f *testing.F) {
	c := newClient(f, "http://127.0.0.1:1")
	f.Add([]byte(`{"ref":"w1","outcome":"succeeded","served_by":{"vendor":"openai","cache_hit":false},"response":{"choices":[{"finish_reason":"stop","message":{"content":"{}","refusal":null}}]}}`))
	f.Add([]byte(`{"ref":"w1","outcome":"failed","error":{"code":"INSUFFICIENT_CREDIT","retryable":false},"served_by":{"vendor":"deepseek"}}`))
	f.Add([]byte(`{"ref":"w1","outcome":["succeeded"],"served_by":{"vendor":null,"cache_hit":{}},"response":{"choices":{}}}`))
	f.Add([]byte(`{"ref":{"ref":[]},"served_by":[],"response":"","usage":1e400}`))
	f.Add([]byte("{\"ref\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, line []byte) {
		r := c.DecodeResult(line)
		if (r.Outcome == batch.Answered) != (len(r.Content) > 0) {
			t.Errorf("%s with %d bytes", r.Outcome, len(r.Content))
		}
		if r.Outcome == batch.Answered && (r.CustomID == "" || r.Vendor != "openai" || !bytes.Contains(line, []byte("openai")) && !bytes.Contains(line, []byte(`\u`))) {
			t.Errorf("%+v", r)
		}
		if r.Code != batch.SafeCode(r.Code) || r.Vendor != batch.SafeName(r.Vendor) || r.Model != batch.SafeName(r.Model) {
			t.Errorf("%+v", r)
		}
	})
}
