package openai

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
)

// wireLine is a line of an output or error file; both have one shape, and
// which file a line is in says nothing about it.
type wireLine struct {
	CustomID str            `json:"custom_id"`
	Response obj[wireReply] `json:"response"`
	Error    obj[wireFault] `json:"error"`
}

type wireReply struct {
	StatusCode num           `json:"status_code"`
	Body       obj[wireBody] `json:"body"`
}

// wireBody is the answer of any endpoint or, with another status than 200, an
// error. Which members count is for the endpoint to say.
type wireBody struct {
	Object str            `json:"object"`
	Model  str            `json:"model"`
	Usage  obj[wireUsage] `json:"usage"`
	Error  obj[wireFault] `json:"error"`

	Choices sole[obj[wireChoice]] `json:"choices"` // of a chat completion

	Status     str                 `json:"status"` // of a response
	Incomplete obj[wireIncomplete] `json:"incomplete_details"`
	Output     output              `json:"output"`

	Results sole[obj[wireScores]] `json:"results"` // of a moderation
}

type wireChoice struct {
	FinishReason str              `json:"finish_reason"`
	Message      obj[wireMessage] `json:"message"`
}

type wireMessage struct {
	Content str `json:"content"`
	Refusal str `json:"refusal"`
}

type wireUsage struct {
	PromptTokens     num `json:"prompt_tokens"` // of a chat completion
	CompletionTokens num `json:"completion_tokens"`
	InputTokens      num `json:"input_tokens"` // of a response
	OutputTokens     num `json:"output_tokens"`
}

// DecodeResult reads one line, in one parse.
func (c *Client) DecodeResult(line []byte) batch.Result {
	var w wireLine
	if json.Unmarshal(line, &w) != nil {
		return batch.Result{CustomID: recoverID(line), Outcome: batch.Unreadable}
	}
	r := batch.Result{CustomID: w.CustomID.v}
	switch {
	case r.CustomID == "", w.Error.odd && !w.Response.set:
		r.Outcome = batch.Unreadable
	case w.Response.set && w.Response.v.StatusCode.set:
		c.decodeReply(&r, &w.Response.v)
	case w.Error.set:
		decodeFault(&r, &w.Error.v)
	case w.Response.set, w.Response.odd:
		r.Outcome = batch.BadShape
	default: // neither: nothing says that it ran
		r.Outcome = batch.NotRun
	}
	return r
}

// decodeReply looks at the status before anything else: a line with an HTTP
// error has a null "error", and its reason is in the body.
func (c *Client) decodeReply(r *batch.Result, reply *wireReply) {
	body := &reply.Body.v
	usage := &body.Usage.v
	r.Model = batch.SafeName(body.Model.v)
	r.InputTokens = max(usage.PromptTokens.v, usage.InputTokens.v, 0)
	r.OutputTokens = max(usage.CompletionTokens.v, usage.OutputTokens.v, 0)

	if reply.StatusCode.v == http.StatusOK {
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
	status := int(reply.StatusCode.v)
	w := &body.Error.v
	f := fault{code: w.Code.v, typ: w.Type.v}
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
	for _, code := range []string{w.Code.v, w.Inner1.v.Code.v, w.Inner2.v.Code.v} {
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
	if body.Object.v != "chat.completion" || body.Choices.n != 1 {
		return
	}
	choice := &body.Choices.v.v
	message := &choice.Message.v
	switch reason := choice.FinishReason.v; {
	case reason == "content_filter":
		r.Outcome = batch.Blocked
	case reason == "length":
		r.Outcome = batch.Truncated
	case reason != "stop":
		r.Code = batch.SafeCode(reason)
	case message.Refusal.v != "":
		r.Outcome = batch.Refused
	case message.Refusal.odd, strings.TrimSpace(message.Content.v) == "":
	default:
		r.Outcome = batch.Answered
		r.Content = []byte(message.Content.v)
	}
}

// decodeFault reads the error of a line without a response: it was not run.
func decodeFault(r *batch.Result, w *wireFault) {
	f := fault{code: w.Code.v, typ: w.Type.v}
	r.Code = f.word()
	switch {
	case f.outOfCredit():
		r.Outcome = batch.ItemOutOfCredit
	case w.Code.v == "batch_expired":
		r.Outcome = batch.Expired
	case w.Code.v == "batch_cancelled", w.Code.v == "batch_canceled":
		r.Outcome = batch.Cancelled
	default:
		r.Outcome = batch.NotRun
	}
}

// recoverID finds the custom_id of a line that strict reading refused, so that
// the item can be named as the one that failed. The line must still be one
// whole JSON object with exactly one custom_id at the top: nothing is guessed.
func recoverID(line []byte) string {
	dec := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != jsontext.KindBeginObject {
		return ""
	}
	var id str
	seen := 0
	for dec.PeekKind() == jsontext.KindString {
		name, err := dec.ReadToken()
		if err != nil {
			return ""
		}
		if name.String() == "custom_id" {
			seen++
			err = id.UnmarshalJSONFrom(dec)
		} else {
			err = dec.SkipValue()
		}
		if err != nil {
			return ""
		}
	}
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != jsontext.KindEndObject {
		return ""
	}
	if _, err := dec.ReadToken(); err != io.EOF || seen != 1 || !validCustomID(id.v) {
		return ""
	}
	return id.v
}
