package anthropic_test

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
)

// FuzzDecodeResult: it never panics, and takes for an answer only what another
// reader of JSON finds in the documented shape as well.
func FuzzDecodeResult(f *testing.F) {
	for _, line := range []string{
		message(`"content":[{"type":"text","text":"{\"label\":\"ok\"}"}],` + ending),
		message(`"content":[{"type":"thinking","thinking":"x"},{"type":"text","text":"{}"}],` + ending),
		message(`"content":[{"type":"tool_use","name":"record_classification","input":{"label":"ok"}}],"stop_reason":"tool_use"`),
		message(`"content":[{"type":"text","text":"{}"}],"stop_reason":"max_tokens"`),
		message(`"content":[{"type":"text","text":"no"}],"stop_reason":"refusal","stop_details":{"category":"bio"}`),
		`{"custom_id":"a","result":{"type":"errored","error":{"type":"error","error":{"type":"api_error","message":"x"},"request_id":null}}}`,
		`{"custom_id":"a","result":{"type":"canceled"}}`,
		`{"custom_id":"a","result":{"type":"expired"}}`,
		`{"custom_id":"a","result":{"type":"a_new_one"}}`,
		`{}`, `junk`,
	} {
		f.Add([]byte(line))
	}
	c := newClient(f, "http://127.0.0.1:1")
	f.Fuzz(func(t *testing.T, line []byte) {
		r := c.DecodeResult(line)
		if r.Outcome == "" || (r.Outcome == batch.Answered) != (len(r.Content) > 0) || r.InputTokens < 0 || r.OutputTokens < 0 ||
			r.Code != batch.SafeCode(r.Code) || r.Model != batch.SafeName(r.Model) {
			t.Fatalf("%+v", r)
		}
		if r.Outcome != batch.Answered {
			return
		}
		var w struct {
			CustomID string `json:"custom_id"`
			Result   struct {
				Type    string `json:"type"`
				Message struct {
					Type       string           `json:"type"`
					Role       string           `json:"role"`
					StopReason string           `json:"stop_reason"`
					Content    []jsontext.Value `json:"content"`
				} `json:"message"`
			} `json:"result"`
		}
		if err := json.Unmarshal(line, &w); err != nil {
			t.Fatalf("an answer in what is no JSON: %v", err)
		}
		m := w.Result.Message
		if w.CustomID != r.CustomID || w.CustomID == "" || w.Result.Type != "succeeded" || m.Type != "message" || m.Role != "assistant" ||
			m.StopReason != "end_turn" && m.StopReason != "tool_use" {
			t.Fatalf("%+v", w)
		}
		var said []byte
		for _, raw := range m.Content {
			var b struct {
				Type  jsontext.Value `json:"type"`
				Text  jsontext.Value `json:"text"`
				Input jsontext.Value `json:"input"`
			}
			if err := json.Unmarshal(raw, &b); err != nil {
				t.Fatalf("an answer beside %s: %v", raw, err)
			}
			var kind, text string
			switch json.Unmarshal(b.Type, &kind); {
			case kind == "text" && json.Unmarshal(b.Text, &text) != nil:
				t.Fatalf("an answer beside %s", raw)
			case kind == "text" && m.StopReason == "end_turn":
				said = append(said, text...)
			case kind == "tool_use" && m.StopReason == "tool_use" && b.Input.Compact() == nil:
				said = b.Input
			}
		}
		if !bytes.Equal(said, r.Content) {
			t.Fatalf("%q, want %q", r.Content, said)
		}
	})
}
