package inhouse

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/post"
)

// wireAnswer is a chat completion.
type wireAnswer struct {
	Object  jsontext.Value `json:"object"`
	Model   jsontext.Value `json:"model"`
	Choices jsontext.Value `json:"choices"`
	Usage   jsontext.Value `json:"usage"`
}

type wireChoice struct {
	Finish  jsontext.Value `json:"finish_reason"`
	Message jsontext.Value `json:"message"`
}

type wireMessage struct {
	Content jsontext.Value `json:"content"`
	Refusal jsontext.Value `json:"refusal"`
}

type wireUsage struct {
	Prompt     jsontext.Value `json:"prompt_tokens"`
	Completion jsontext.Value `json:"completion_tokens"`
}

// decode is the Result of an answer with status 200. It asks why the model
// stopped before it looks at what it said: an answer that was cut may still be
// good JSON, and white space up to the limit is none.
func decode(body []byte) batch.Result {
	r := batch.Result{Outcome: batch.BadShape}
	var w wireAnswer
	if json.Unmarshal(body, &w) != nil {
		return r
	}
	model, _ := post.Text(w.Model)
	r.Model = batch.SafeName(model)
	var usage wireUsage
	if w.Usage.Kind() == jsontext.KindBeginObject && json.Unmarshal(w.Usage, &usage) == nil {
		r.InputTokens, r.OutputTokens = count(usage.Prompt), count(usage.Completion)
	}
	object, _ := post.Text(w.Object)
	choice, ok := sole(w.Choices)
	if object != "chat.completion" || !ok || choice.Message.Kind() != jsontext.KindBeginObject {
		return r
	}
	var m wireMessage
	if json.Unmarshal(choice.Message, &m) != nil {
		return r
	}
	content, _ := post.Text(m.Content)
	refusal, isText := post.Text(m.Refusal)
	switch reason, _ := post.Text(choice.Finish); {
	case reason == "content_filter":
		r.Outcome = batch.Blocked
	case reason == "length":
		r.Outcome = batch.Truncated
	case reason != "stop":
		r.Code = batch.SafeCode(reason)
	case refusal != "":
		r.Outcome = batch.Refused
	case !isText && !post.Absent(m.Refusal), strings.TrimSpace(content) == "":
	default:
		r.Outcome, r.Content = batch.Answered, []byte(content)
	}
	return r
}

// sole is the one choice of an answer.
func sole(raw jsontext.Value) (choice wireChoice, ok bool) {
	var all []jsontext.Value
	if raw.Kind() != jsontext.KindBeginArray || json.Unmarshal(raw, &all) != nil || len(all) != 1 || all[0].Kind() != jsontext.KindBeginObject {
		return choice, false
	}
	return choice, json.Unmarshal(all[0], &choice) == nil
}

func count(v jsontext.Value) int64 {
	n, _ := post.Whole(v)
	return max(n, 0)
}
