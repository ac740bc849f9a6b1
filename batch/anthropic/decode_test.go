package anthropic_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall/batch"
)

// message is a line of a message with these members.
func message(members string) string {
	return `{"custom_id":"a","result":{"type":"succeeded","message":{"type":"message","role":"assistant","model":"m-1",` + members + `}}}`
}

const ending = `"stop_reason":"end_turn"`

func TestDecodeResult(t *testing.T) {
	text := func(s string) string { return `"content":[{"type":"text","text":` + s + `}]` }
	tool := func(name, input string) string {
		return `"content":[{"type":"tool_use","id":"toolu_1","name":"` + name + `","input":` + input + `}],"stop_reason":"tool_use"`
	}
	answered := func(content string) batch.Result {
		return batch.Result{CustomID: "a", Outcome: batch.Answered, Content: []byte(content), Model: "m-1"}
	}
	bad := func(code string) batch.Result {
		return batch.Result{CustomID: "a", Outcome: batch.BadShape, Code: code, Model: "m-1"}
	}
	outcome := func(o batch.Outcome, code string) batch.Result {
		return batch.Result{CustomID: "a", Outcome: o, Code: code}
	}
	c := newClient(t, "http://127.0.0.1:1")
	for line, want := range map[string]batch.Result{
		message(text(`"{}"`) + "," + ending): answered("{}"),
		message(`"content":[{"type":"text","text":"{\"a\""},{"type":"text","text":":1}"}],` + ending):                                                                                 answered(`{"a":1}`),
		message(`"content":[{"type":"thinking","thinking":"{}","signature":"x"},{"type":"redacted_thinking","data":"x"},{"type":"a_new_one"},{"type":"text","text":"{}"}],` + ending): answered("{}"),
		message(text(`"{}"`) + `,` + ending + `,"usage":{"input_tokens":5,"cache_creation_input_tokens":7,"cache_read_input_tokens":11,"output_tokens":3,"service_tier":"batch"}`): {
			CustomID: "a", Outcome: batch.Answered, Content: []byte("{}"), Model: "m-1", InputTokens: 23, OutputTokens: 3},
		message(text(`"{}"`) + `,` + ending + `,"usage":{"input_tokens":-5,"output_tokens":"x"}`): answered("{}"),
		message(tool("record_classification", ` { "a" : 1 } `)):                                   answered(`{"a":1}`),

		// Not the documented shape, or no answer in it.
		message(text(`" \n"`) + "," + ending):                                                                bad("end_turn"),
		message(`"content":[],` + ending):                                                                    bad("end_turn"),
		message(ending):                                                                                      bad("end_turn"),
		message(`"content":"{}",` + ending):                                                                  bad(""),
		message(`"content":{"type":"text","text":"{}"},` + ending):                                           bad(""),
		message(`"content":[null,{"type":"text","text":"{}"}],` + ending):                                    bad(""),
		message(`"content":["{}"],` + ending):                                                                bad(""),
		message(`"content":[{"type":"text"},{"type":"text","text":"{}"}],` + ending):                         bad(""),
		message(`"content":[{"text":"{}"}],` + ending):                                                       bad(""),
		message(text(`"{}"`) + `,"stop_reason":null`):                                                        bad(""),
		message(text(`"{}"`)):                                                                                bad(""),
		message(text(`"{}"`) + `,"stop_reason":"End_Turn"`):                                                  bad("End_Turn"),
		message(text(`"{}"`) + `,"stop_reason":"tool_use"`):                                                  bad("tool_use"),
		message(tool("another_tool", `{"a":1}`)):                                                             bad("tool_use"),
		message(tool("record_classification", `"{}"`)):                                                       bad("tool_use"),
		message(tool("record_classification", `null`)):                                                       bad("tool_use"),
		strings.Replace(message(tool("record_classification", `{}`)), `"stop_reason":"tool_use"`, ending, 1): bad("end_turn"),
		strings.Replace(message(text(`"{}"`)+","+ending), `"role":"assistant"`, `"role":"user"`, 1):          bad(""),
		strings.Replace(message(text(`"{}"`)+","+ending), `"type":"message"`, `"type":"completion"`, 1):      bad(""),
		strings.Replace(message(text(`"{}"`)+","+ending), `"model":"m-1",`, ``, 1):                           outcome(batch.BadShape, ""),
		`{"custom_id":"a","result":{"type":"succeeded"}}`:                                                    outcome(batch.BadShape, ""),
		`{"custom_id":"a","result":{"type":"succeeded","message":"{}"}}`:                                     outcome(batch.BadShape, ""),

		message(`"content":[{"type":"text","text":"{}"},{"type":"tool_use","name":"record_classification","input":{}}],` + ending): bad("end_turn"),

		// Cut and declined, whatever is said.
		message(text(`"{}"`) + `,"stop_reason":"max_tokens"`): {CustomID: "a", Outcome: batch.Truncated, Code: "max_tokens", Model: "m-1"},
		message(text(`"{}"`) + `,"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"about ` + marker + `"}`): {
			CustomID: "a", Outcome: batch.Refused, Code: "cyber", Model: "m-1"},
		message(text(`"{}"`) + `,"stop_reason":"refusal","stop_details":{"category":null}`): {CustomID: "a", Outcome: batch.Refused, Model: "m-1"},
		message(text(`"{}"`) + `,"stop_reason":"about ` + marker + `"`):                     bad("unprintable"),

		// Not run, or not to the end.
		`{"custom_id":"a","result":{"type":"canceled"}}`: outcome(batch.Cancelled, ""),
		`{"custom_id":"a","result":{"type":"expired"}}`:  outcome(batch.Expired, ""),
		`{"custom_id":"a","result":{"type":"errored","error":{"type":"error","error":{"type":"api_error","message":"about ` + marker + `","details":{"error_visibility":"user_facing"}},"request_id":null}}}`: outcome(batch.ItemFailed, "api_error"),
		// The class is one level deeper than it looks.
		`{"custom_id":"a","result":{"type":"errored","error":{"type":"api_error"}}}`:                      outcome(batch.ItemRejected, ""),
		`{"custom_id":"a","result":{"type":"errored"}}`:                                                   outcome(batch.ItemRejected, ""),
		`{"custom_id":"a","result":{"type":"errored","error":{"error":{"type":"about ` + marker + `"}}}}`: outcome(batch.ItemRejected, "unprintable"),

		// No result line.
		`{"custom_id":"a","result":{"type":"a_new_one"}}`:                            outcome(batch.Unreadable, "a_new_one"),
		`{"custom_id":"a","result":{}}`:                                              outcome(batch.Unreadable, ""),
		`{"custom_id":"a","result":null}`:                                            outcome(batch.Unreadable, ""),
		`{"custom_id":"a"}`:                                                          outcome(batch.Unreadable, ""),
		`{"custom_id":"a","result":{"type":"canceled"},"result":{"type":"expired"}}`: outcome(batch.Unreadable, ""),
		`{"result":{"type":"expired"}}`:                                              {Outcome: batch.Unreadable},
		`{"custom_id":7,"result":{"type":"expired"}}`:                                {Outcome: batch.Unreadable},
		`{"custom_id":"a","custom_id":"b","result":{"type":"expired"}}`:              {Outcome: batch.Unreadable},
	} {
		if diff := cmp.Diff(want, c.DecodeResult([]byte(line))); diff != "" {
			t.Errorf("%s\n%s", line, diff)
		}
	}
}
