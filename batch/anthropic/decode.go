package anthropic

import (
	"bytes"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
)

// wireLine is a line of the results.
type wireLine struct {
	CustomID str             `json:"custom_id"`
	Result   obj[wireResult] `json:"result"`
}

type wireResult struct {
	Type    str               `json:"type"`
	Message obj[wireMessage]  `json:"message"`
	Error   obj[wireEnvelope] `json:"error"` // an envelope: the class is at error.error.type
}

// wireMessage is a message, in a result or as the answer to a request.
type wireMessage struct {
	Type        str            `json:"type"`
	Role        str            `json:"role"`
	Model       str            `json:"model"`
	Content     blocks         `json:"content"`
	StopReason  str            `json:"stop_reason"`
	StopDetails obj[wireStop]  `json:"stop_details"`
	Usage       obj[wireUsage] `json:"usage"`
}

type wireStop struct {
	Category str `json:"category"`
}

type wireUsage struct {
	Input      num `json:"input_tokens"`
	CacheMade  num `json:"cache_creation_input_tokens"`
	CacheRead  num `json:"cache_read_input_tokens"`
	OutputUsed num `json:"output_tokens"`
}

// wireBlock is a block of content.
type wireBlock struct {
	Type  str  `json:"type"`
	Text  str  `json:"text"`
	Name  str  `json:"name"`
	Input tree `json:"input"`
}

// blocks is the content of a message: its text, and the calls of tools. Thinking
// may stand before either, and is passed over like every type that is not known.
type blocks struct {
	text  []byte
	calls int
	tool  string // of the last call
	input []byte
	odd   bool // there is a block that cannot be read
}

func (b *blocks) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != jsontext.KindBeginArray {
		b.odd = true
	}
	return eachElement(dec, func(int) error {
		var w obj[wireBlock]
		if err := json.UnmarshalDecode(dec, &w); err != nil {
			return err
		}
		switch w.v.Type.v {
		case "":
			b.odd = true
		case "text":
			b.odd = b.odd || !w.v.Text.set
			b.text = append(b.text, w.v.Text.v...)
		case "tool_use":
			b.calls, b.tool, b.input = b.calls+1, w.v.Name.v, w.v.Input.v
		}
		return nil
	})
}

// DecodeResult reads one line, in one parse.
func (c *Client) DecodeResult(line []byte) batch.Result {
	var w wireLine
	if json.Unmarshal(line, &w) != nil {
		return batch.Result{CustomID: recoverID(line), Outcome: batch.Unreadable}
	}
	r := batch.Result{CustomID: w.CustomID.v}
	switch kind := w.Result.v.Type.v; {
	case r.CustomID == "", !w.Result.set:
		r.Outcome = batch.Unreadable
	case kind == "succeeded":
		decodeMessage(&r, &w.Result.v.Message)
	case kind == "errored":
		decodeFault(&r, w.Result.v.Error.v.fault())
	case kind == "canceled":
		r.Outcome = batch.Cancelled
	case kind == "expired":
		r.Outcome = batch.Expired
	default: // what happened is not known, not even whether it ran
		r.Outcome, r.Code = batch.Unreadable, batch.SafeCode(kind)
	}
	return r
}

// decodeFault follows the documented classes. One that is not documented is taken
// for permanent, so that a person sees it.
func decodeFault(r *batch.Result, f fault) {
	r.Code = f.word()
	switch {
	case f.outOfCredit():
		r.Outcome = batch.ItemOutOfCredit
	case f.onHold():
		r.Outcome = batch.ItemDenied
	case f.class == "authentication_error", f.class == "permission_error", f.class == "not_found_error":
		r.Outcome = batch.ItemDenied
	case f.class == "api_error", f.class == "overloaded_error", f.class == "rate_limit_error", f.class == "timeout_error":
		r.Outcome = batch.ItemFailed
	default: // invalid_request_error and what is not known
		r.Outcome = batch.ItemRejected
	}
}

// decodeMessage asks why the model stopped before it looks at what it said: an
// answer that was cut may still be good JSON, and one to a refused text may look
// like any other.
func decodeMessage(r *batch.Result, message *obj[wireMessage]) {
	m := &message.v
	r.Outcome = batch.BadShape
	r.Model = batch.SafeName(m.Model.v)
	r.InputTokens = plus(plus(plus(0, m.Usage.v.Input.v), m.Usage.v.CacheMade.v), m.Usage.v.CacheRead.v)
	r.OutputTokens = plus(0, m.Usage.v.OutputUsed.v)
	if m.Type.v != "message" || m.Role.v != "assistant" || m.Model.v == "" {
		return
	}
	switch reason := m.StopReason.v; reason {
	case "end_turn", "tool_use":
		decodeContent(r, reason, &m.Content)
	case "max_tokens", "model_context_window_exceeded":
		r.Outcome, r.Code = batch.Truncated, reason
	case "refusal":
		r.Outcome, r.Code = batch.Refused, batch.SafeCode(m.StopDetails.v.Category.v)
	default:
		r.Code = batch.SafeCode(reason)
	}
}

// decodeContent takes the text of a turn that ended, or the one call of our own
// tool. Which of them was asked for is not asked again: a job may outlive a
// change of the configuration, and nothing but a request of ours names the tool.
func decodeContent(r *batch.Result, reason string, b *blocks) {
	switch {
	case b.odd:
	case reason == "end_turn" && b.calls == 0 && strings.TrimSpace(string(b.text)) != "":
		r.Outcome, r.Content = batch.Answered, b.text
	case reason == "tool_use" && b.calls == 1 && b.tool == toolName && len(b.input) > 0:
		r.Outcome, r.Content = batch.Answered, b.input
	default:
		r.Code = reason
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
