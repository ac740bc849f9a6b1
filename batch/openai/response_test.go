package openai

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall/batch"
)

// lineOf is a result line with this body, of status 200.
func lineOf(body string) []byte {
	return []byte(`{"id":"batch_req_1","custom_id":"w1-s1","response":{"status_code":200,"request_id":"9f1c","body":` + body + `},"error":null}`)
}

const (
	thinking = `{"type":"reasoning","id":"rs_1","summary":[]}`
	message  = `{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"{\"label\":\"ok\"}","annotations":[]}]}`
)

func responseOf(status, rest, output string) []byte {
	return lineOf(`{"id":"resp_1","object":"response","model":"gpt-4.1-mini-2025-04-14","status":"` + status + `"` + rest +
		`,"output":[` + output + `],"usage":{"input_tokens":90,"output_tokens":40,"total_tokens":130}}`)
}

func messageOf(parts string) string {
	return `{"type":"message","role":"assistant","status":"completed","content":[` + parts + `]}`
}

func TestDecodeResponse(t *testing.T) {
	text := func(s string) string { return `{"type":"output_text","text":"` + s + `"}` }
	const null = `,"error":null,"incomplete_details":null`
	for name, tc := range map[string]struct {
		line          []byte
		outcome       batch.Outcome
		code, content string
	}{
		"answered":             {responseOf("completed", null, message), batch.Answered, "", `{"label":"ok"}`},
		"thinking first":       {responseOf("completed", null, thinking+","+thinking+","+message), batch.Answered, "", `{"label":"ok"}`},
		"in two parts":         {responseOf("completed", null, messageOf(text("{\\\"a\\\":")+","+text("1}"))), batch.Answered, "", `{"a":1}`},
		"refused":              {responseOf("completed", null, messageOf(`{"type":"refusal","refusal":"I can't."}`)), batch.Refused, "", ""},
		"refused after text":   {responseOf("completed", null, messageOf(text("{}")+`,{"type":"refusal","refusal":""}`)), batch.Refused, "", ""},
		"at its limit":         {responseOf("incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`, message), batch.Truncated, "", ""},
		"limit, nothing said":  {responseOf("incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`, thinking), batch.Truncated, "", ""},
		"filtered":             {responseOf("incomplete", `,"incomplete_details":{"reason":"content_filter"}`, message), batch.Blocked, "", ""},
		"incomplete otherwise": {responseOf("incomplete", `,"incomplete_details":{"reason":"tired"}`, message), batch.BadShape, "tired", ""},
		"incomplete, untold":   {responseOf("incomplete", `,"incomplete_details":null`, message), batch.BadShape, "", ""},
		"message incomplete":   {responseOf("completed", null, strings.Replace(message, `"completed"`, `"incomplete"`, 1)), batch.Truncated, "", ""},
		"failed":               {responseOf("failed", `,"error":{"code":"server_error","message":"m"}`, ""), batch.ItemFailed, "server_error", ""},
		"failed by a limit":    {responseOf("failed", `,"error":{"code":"rate_limit_exceeded"}`, ""), batch.ItemFailed, "rate_limit_exceeded", ""},
		"failed by money":      {responseOf("failed", `,"error":{"code":"insufficient_quota"}`, ""), batch.ItemOutOfCredit, "insufficient_quota", ""},
		"failed by region":     {responseOf("failed", `,"error":{"code":"data_residency_mismatch"}`, ""), batch.ItemDenied, "data_residency_mismatch", ""},
		"failed by the prompt": {responseOf("failed", `,"error":{"code":"invalid_prompt"}`, ""), batch.ItemRejected, "invalid_prompt", ""},
		"failed by a filter":   {responseOf("failed", `,"error":{"code":"content_filter"}`, ""), batch.Blocked, "content_filter", ""},
		"failed with a text":   {responseOf("failed", `,"error":{"code":"about a report"}`, message), batch.ItemFailed, "unprintable", ""},
		"still running":        {responseOf("in_progress", null, message), batch.BadShape, "in_progress", ""},
		"cancelled":            {responseOf("cancelled", null, message), batch.BadShape, "cancelled", ""},
		"no output":            {responseOf("completed", null, ""), batch.BadShape, "", ""},
		"thinking only":        {responseOf("completed", null, thinking), batch.BadShape, "", ""},
		"two messages":         {responseOf("completed", null, message+","+message), batch.BadShape, "", ""},
		"blank":                {responseOf("completed", null, messageOf(text(" \\n"))), batch.BadShape, "", ""},
		"no part":              {responseOf("completed", null, messageOf("")), batch.BadShape, "", ""},
		"another part":         {responseOf("completed", null, messageOf(text("{}")+`,{"type":"output_image","text":"x"}`)), batch.BadShape, "", ""},
		"content a text":       {responseOf("completed", null, `{"type":"message","content":"{}"}`), batch.BadShape, "", ""},
		"text a number":        {responseOf("completed", null, messageOf(`{"type":"output_text","text":7}`)), batch.BadShape, "", ""},
		"of the user":          {responseOf("completed", null, strings.Replace(message, "assistant", "user", 1)), batch.BadShape, "", ""},
		"an item of no type":   {responseOf("completed", null, message+`,{"role":"assistant"}`), batch.BadShape, "", ""},
		"a call of a tool":     {responseOf("completed", null, `{"type":"function_call","name":"f"},`+message), batch.BadShape, "function_call", ""},
		"error and completed":  {responseOf("completed", `,"error":{"code":"server_error"}`, message), batch.BadShape, "", ""},
		"completed in part":    {responseOf("completed", `,"incomplete_details":{"reason":"x"}`, message), batch.BadShape, "", ""},
		"a chat completion": {lineOf(`{"object":"chat.completion","model":"gpt-4.1-mini-2025-04-14","choices":[{"finish_reason":"stop","message":{"content":"{}"}}],"usage":{"prompt_tokens":90,"completion_tokens":40}}`),
			batch.BadShape, "", ""},
	} {
		got := speaking(EndpointResponses).DecodeResult(tc.line)
		want := batch.Result{CustomID: "w1-s1", Outcome: tc.outcome, Code: tc.code, Model: "gpt-4.1-mini-2025-04-14", InputTokens: 90, OutputTokens: 40}
		if tc.content != "" {
			want.Content = []byte(tc.content)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// What is not about the answer is the same for each endpoint.
	for name, line := range golden(t, "line") {
		for _, e := range []Endpoint{EndpointResponses, EndpointModerations} {
			got, chat := speaking(e).DecodeResult(line), speaking(EndpointChat).DecodeResult(line)
			if bytes.Contains(line, []byte(`"status_code":200`)) {
				if name != "shape_responses_api" && name != "shape_moderation" && got.Outcome == batch.Answered {
					t.Errorf("%s is answered, as %s", name, e)
				}
				continue
			}
			if diff := cmp.Diff(chat, got); diff != "" {
				t.Errorf("%s, as %s:\n%s", name, e, diff)
			}
		}
	}
}

const thirteen = `"harassment":HOLE,"harassment/threatening":0.1,"hate":0.0002,"hate/threatening":0,"illicit":null,"illicit/violent":null,"self-harm":0.5,` +
	`"self-harm/instructions":0,"self-harm/intent":1,"sexual":1e-7,"sexual/minors":0,"violence":0.3,"violence/graphic":0`

func moderationOf(flagged, categories, scores string) []byte {
	return lineOf(`{"id":"modr-1","model":"omni-moderation-2024-09-26","results":[{"flagged":` + flagged + `,"categories":` + categories + `,"category_scores":` + scores + `,"category_applied_input_types":{"hate":["text"]}}]}`)
}

func TestDecodeModeration(t *testing.T) {
	const model = "omni-moderation-2024-09-26"
	c := speaking(EndpointModerations)
	all := "{" + strings.Replace(thirteen, "HOLE", "0.75", 1) + "}"
	got := c.DecodeResult(moderationOf("true", `{"self-harm/intent":true,"harassment":true,"hate":false,"illicit":null}`, all))
	want := batch.Result{CustomID: "w1-s1", Outcome: batch.Answered, Model: model, Content: []byte(
		`{"scores":{"harassment":0.75,"harassment/threatening":0.1,"hate":0.0002,"hate/threatening":0,"self-harm":0.5,"self-harm/instructions":0,"self-harm/intent":1,` +
			`"sexual":1e-7,"sexual/minors":0,"violence":0.3,"violence/graphic":0},"flagged":["harassment","self-harm/intent"]}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// A category without a score is not one with a score of 0.
	question := scoring()
	question.Thresholds[0].Category = "illicit"
	if got := batch.Judge(question, got); got.Outcome != batch.BadShape || got.Code != batch.CodeCategoryMissing {
		t.Errorf("with a threshold of a category without a score: %+v", got)
	}
	if got := batch.Judge(scoring(), got); !bytes.HasPrefix(got.Content, []byte(`{"label":"self_harm","not_assessed":["spam"],`)) {
		t.Errorf("judged as %s", got.Content)
	}
	for name, line := range map[string][]byte{
		"not flagged either way": moderationOf("null", "{}", all),
		"flagged is a text":      moderationOf(`"false"`, "{}", all),
		"no categories":          moderationOf("false", "null", all),
		"categories are a list":  moderationOf("false", "[]", all),
		"a category is a number": moderationOf("false", `{"hate":0}`, all),
		"no scores":              moderationOf("false", "{}", "null"),
		"empty scores":           moderationOf("false", "{}", "{}"),
		"only null scores":       moderationOf("false", "{}", `{"illicit":null}`),
		"a score is a text":      moderationOf("false", "{}", `{"hate":"0.1"}`),
		"a score above 1":        moderationOf("false", "{}", `{"hate":1.01}`),
		"a score below 0":        moderationOf("false", "{}", `{"hate":-0.01}`),
		"a score without end":    moderationOf("false", "{}", `{"hate":1e999}`),
		"a name of prose":        moderationOf("false", "{}", `{"hate of a report":0.1}`),
		"an empty name":          moderationOf("false", "{}", `{"":0.1}`),
		"no result":              lineOf(`{"model":"` + model + `","results":[]}`),
		"two results":            lineOf(`{"model":"` + model + `","results":[{"flagged":false,"categories":{},"category_scores":{"hate":0}},{"flagged":false,"categories":{},"category_scores":{"hate":0}}]}`),
		"with an error":          lineOf(`{"model":"` + model + `","error":{"code":"x"},"results":[{"flagged":false,"categories":{},"category_scores":{"hate":0}}]}`),
	} {
		got := c.DecodeResult(line)
		if diff := cmp.Diff(batch.Result{CustomID: "w1-s1", Outcome: batch.BadShape, Model: model}, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// scoring is a question for the moderations endpoint.
func scoring() *batch.Classifier {
	return &batch.Classifier{
		Name: "moderation/1", Model: "omni-moderation-latest", Instructions: "Sent to nobody.", MaxOutputTokens: 1,
		Schema:     []byte(`{"type":"object","properties":{"label":{"enum":["self_harm","harassment","spam","ok"]}},"required":["label"]}`),
		Thresholds: []batch.Threshold{{Category: "self-harm", Score: 0.4, Label: "self_harm"}, {Category: "harassment", Score: 0.8, Label: "harassment"}},
		Otherwise:  "ok",
	}
}

// FuzzDecodeOther: the decoders of the other endpoints never take for an answer
// what another reader of the line would not.
func FuzzDecodeOther(f *testing.F) {
	around(f, string(responseOf("completed", `,"error":HOLE,"incomplete_details":HOLE`, message)))
	around(f, string(responseOf("incomplete", `,"incomplete_details":{"reason":HOLE}`, message)))
	around(f, string(responseOf("failed", `,"error":{"code":HOLE}`, "")))
	around(f, string(responseOf("completed", "", thinking+`,{"type":HOLE,"role":HOLE,"content":[{"type":"output_text","text":HOLE}]}`)))
	around(f, string(responseOf("completed", "", messageOf(`{"type":"output_text","text":"x"},{"type":HOLE,"refusal":HOLE}`))))
	around(f, string(moderationOf("HOLE", `{"hate":HOLE,"x":true}`, `{"hate":0.5}`)))
	around(f, string(moderationOf("false", `{}`, `{`+thirteen+`}`)))
	around(f, string(moderationOf("false", `HOLE`, `HOLE`)))
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		for _, e := range []Endpoint{EndpointResponses, EndpointModerations} {
			r := speaking(e).DecodeResult(line)
			if (r.Outcome == batch.Answered) != (len(r.Content) > 0) || r.Outcome == "" || r.CustomID == "" && r.Outcome != batch.Unreadable {
				t.Errorf("%s for %q with %d bytes of content", r.Outcome, r.CustomID, len(r.Content))
			}
			if r.Code != batch.SafeCode(r.Code) || r.Model != batch.SafeName(r.Model) || r.InputTokens < 0 || r.OutputTokens < 0 {
				t.Errorf("unsafe result %+v", r)
			}
			if r.Outcome != batch.Answered {
				continue
			}
			body := member(otherwise(t, line), "response", "body")
			if e == EndpointResponses {
				checkResponse(t, body, string(r.Content))
			} else {
				checkModeration(t, body, r)
			}
		}
		if !bytes.Equal(line, before) {
			t.Error("the line was changed")
		}
	})
}

// checkResponse holds that another reader finds this text, whole, and no refusal.
func checkResponse(t *testing.T, body any, content string) {
	t.Helper()
	items, _ := member(body, "output").([]any)
	var text strings.Builder
	messages := 0
	for _, item := range items {
		if member(item, "type") != "message" {
			continue
		}
		messages++
		contents, _ := member(item, "content").([]any)
		for _, part := range contents {
			s, ok := member(part, "text").(string)
			if member(part, "type") != "output_text" || !ok {
				t.Errorf("a part %v was taken for text", part)
			}
			text.WriteString(s)
		}
	}
	if member(body, "object") != "response" || member(body, "status") != "completed" || messages != 1 || text.String() != content {
		t.Errorf("another reader does not find this answer in %d messages", messages)
	}
}

// checkModeration holds that scores are those that another reader finds.
func checkModeration(t *testing.T, body any, r batch.Result) {
	t.Helper()
	results, _ := member(body, "results").([]any)
	if len(results) != 1 {
		t.Fatalf("%d results", len(results))
	}
	theirs, _ := member(results[0], "category_scores").(map[string]any)
	ours, _ := member(otherwise(t, r.Content), "scores").(map[string]any)
	if len(ours) == 0 {
		t.Error("no scores")
	}
	for name := range ours {
		if theirs[name] == nil {
			t.Errorf("another reader finds no score for %q", name)
		}
	}
	if _, ok := member(results[0], "flagged").(bool); !ok {
		t.Error("another reader does not find whether it is flagged")
	}
}
