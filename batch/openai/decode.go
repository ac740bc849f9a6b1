package openai

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"rollcall/batch"
	"rollcall/batch/line"
	"rollcall/batch/loose"
)

// wireLine is a line of an output or error file; both have one shape, and
// which file a line is in says nothing about it.
type wireLine struct {
	CustomID loose.Str            `json:"custom_id"`
	Response loose.Obj[wireReply] `json:"response"`
	Error    loose.Obj[wireFault] `json:"error"`
}

type wireReply struct {
	StatusCode loose.Num           `json:"status_code"`
	Body       loose.Obj[wireBody] `json:"body"`
}

// wireBody is the answer of any endpoint or, with another status than 200, an
// error. Which members count is for the endpoint to say.
type wireBody struct {
	Object loose.Str            `json:"object"`
	Model  loose.Str            `json:"model"`
	Usage  loose.Obj[wireUsage] `json:"usage"`
	Error  loose.Obj[wireFault] `json:"error"`

	Choices loose.Sole[loose.Obj[wireChoice]] `json:"choices"` // of a chat completion

	Status     loose.Str                 `json:"status"` // of a response
	Incomplete loose.Obj[wireIncomplete] `json:"incomplete_details"`
	Output     output                    `json:"output"`

	Results loose.Sole[loose.Obj[wireScores]] `json:"results"` // of a moderation
}

type wireChoice struct {
	FinishReason loose.Str              `json:"finish_reason"`
	Message      loose.Obj[wireMessage] `json:"message"`
}

type wireMessage struct {
	Content loose.Str `json:"content"`
	Refusal loose.Str `json:"refusal"`
}

type wireUsage struct {
	PromptTokens     loose.Num `json:"prompt_tokens"` // of a chat completion
	CompletionTokens loose.Num `json:"completion_tokens"`
	InputTokens      loose.Num `json:"input_tokens"` // of a response
	OutputTokens     loose.Num `json:"output_tokens"`
}

// DecodeResult reads one line, in one parse.
func (c *Client) DecodeResult(raw []byte) batch.Result {
	var w wireLine
	if json.Unmarshal(raw, &w) != nil {
		return batch.Result{CustomID: line.RecoverID(raw), Outcome: batch.Unreadable}
	}
	r := batch.Result{CustomID: w.CustomID.V}
	switch {
	case r.CustomID == "", w.Error.Odd && !w.Response.Set:
		r.Outcome = batch.Unreadable
	case w.Response.Set && w.Response.V.StatusCode.Set:
		c.decodeReply(&r, &w.Response.V)
	case w.Error.Set:
		decodeFault(&r, &w.Error.V)
	case w.Response.Set, w.Response.Odd:
		r.Outcome = batch.BadShape
	default: // neither: nothing says that it ran
		r.Outcome = batch.NotRun
	}
	return r
}

// decodeReply looks at the status before anything else: a line with an HTTP
// error has a null "error", and its reason is in the body.
func (c *Client) decodeReply(r *batch.Result, reply *wireReply) {
	body := &reply.Body.V
	usage := &body.Usage.V
	r.Model = batch.SafeName(body.Model.V)
	r.InputTokens = max(usage.PromptTokens.V, usage.InputTokens.V, 0)
	r.OutputTokens = max(usage.CompletionTokens.V, usage.OutputTokens.V, 0)

	if reply.StatusCode.V == http.StatusOK {
		switch c.cfg.Endpoint {
		case EndpointResponses:
			decodeResponse(r, body)
		case EndpointModerations:
			decodeModeration(r, body)
		default:
			decodeCompletion(r, body)
		}
		return
	}
	status := int(reply.StatusCode.V)
	w := &body.Error.V
	f := fault{code: w.Code.V, typ: w.Type.V}
	r.Code = f.word()
	switch {
	case status < 400 || status > 599:
		r.Outcome = batch.BadShape
	case f.outOfCredit(), status == http.StatusPaymentRequired:
		r.Outcome = batch.ItemOutOfCredit
	case filtered(w):
		r.Outcome = batch.Blocked
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound:
		r.Outcome = batch.ItemDenied
	case retriable(status):
		r.Outcome = batch.ItemFailed
	default:
		r.Outcome = batch.ItemRejected
	}
}

// filtered knows the content filter by its code, on the error or inside it.
func filtered(w *wireFault) bool {
	for _, code := range []string{w.Code.V, w.Inner1.V.Code.V, w.Inner2.V.Code.V} {
		switch strings.ToLower(code) {
		case "content_filter", "content_policy_violation", "responsibleaipolicyviolation":
			return true
		}
	}
	return false
}

// decodeCompletion asks why the model stopped before it looks at what it said:
// an answer that was cut may still be good JSON. An empty answer is none.
func decodeCompletion(r *batch.Result, body *wireBody) {
	r.Outcome = batch.BadShape
	if body.Object.V != "chat.completion" || body.Choices.N != 1 {
		return
	}
	choice := &body.Choices.V.V
	message := &choice.Message.V
	switch reason := choice.FinishReason.V; {
	case reason == "content_filter":
		r.Outcome = batch.Blocked
	case reason == "length":
		r.Outcome = batch.Truncated
	case reason != "stop":
		r.Code = batch.SafeCode(reason)
	case message.Refusal.V != "":
		r.Outcome = batch.Refused
	case message.Refusal.Odd, strings.TrimSpace(message.Content.V) == "":
	default:
		r.Outcome = batch.Answered
		r.Content = []byte(message.Content.V)
	}
}

// decodeFault reads the error of a line without a response: it was not run.
func decodeFault(r *batch.Result, w *wireFault) {
	f := fault{code: w.Code.V, typ: w.Type.V}
	r.Code = f.word()
	switch {
	case f.outOfCredit():
		r.Outcome = batch.ItemOutOfCredit
	case w.Code.V == "batch_expired":
		r.Outcome = batch.Expired
	case w.Code.V == "batch_cancelled", w.Code.V == "batch_canceled":
		r.Outcome = batch.Cancelled
	default:
		r.Outcome = batch.NotRun
	}
}
