package anthropic

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/line"
	"rollcall/batch/loose"
)

// wireLine is a line of the results.
type wireLine struct {
	CustomID loose.Str             `json:"custom_id"`
	Result   loose.Obj[wireResult] `json:"result"`
}

type wireResult struct {
	Type    loose.Str               `json:"type"`
	Message loose.Obj[wireMessage]  `json:"message"`
	Error   loose.Obj[wireEnvelope] `json:"error"` // an envelope: the class is at error.error.type
}

// wireMessage is a message, in a result or as the answer to a request.
type wireMessage struct {
	Type        loose.Str            `json:"type"`
	Role        loose.Str            `json:"role"`
	Model       loose.Str            `json:"model"`
	Content     blocks               `json:"content"`
	StopReason  loose.Str            `json:"stop_reason"`
	StopDetails loose.Obj[wireStop]  `json:"stop_details"`
	Usage       loose.Obj[wireUsage] `json:"usage"`
}

type wireStop struct {
	Category loose.Str `json:"category"`
}

type wireUsage struct {
	Input      loose.Num `json:"input_tokens"`
	CacheMade  loose.Num `json:"cache_creation_input_tokens"`
	CacheRead  loose.Num `json:"cache_read_input_tokens"`
	OutputUsed loose.Num `json:"output_tokens"`
}

// wireBlock is a block of content.
type wireBlock struct {
	Type  loose.Str `json:"type"`
	Text  loose.Str `json:"text"`
	Name  loose.Str `json:"name"`
	Input tree      `json:"input"`
}

// tree is an object as it came, without the space between its tokens.
type tree struct{ v []byte }

func (t *tree) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil || raw.Kind() != jsontext.KindBeginObject {
		return err
	}
	c := raw.Clone()
	if err := c.Compact(); err != nil {
		return err
	}
	t.v = c
	return nil
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
	return loose.EachElement(dec, func(int) error {
		var w loose.Obj[wireBlock]
		if err := json.UnmarshalDecode(dec, &w); err != nil {
			return err
		}
		switch w.V.Type.V {
		case "":
			b.odd = true
		case "text":
			b.odd = b.odd || !w.V.Text.Set
			b.text = append(b.text, w.V.Text.V...)
		case "tool_use":
			b.calls, b.tool, b.input = b.calls+1, w.V.Name.V, w.V.Input.v
		}
		return nil
	})
}

// DecodeResult reads one line, in one parse.
func (c *Client) DecodeResult(raw []byte) batch.Result {
	var w wireLine
	if json.Unmarshal(raw, &w) != nil {
		return batch.Result{CustomID: line.RecoverID(raw), Outcome: batch.Unreadable}
	}
	r := batch.Result{CustomID: w.CustomID.V}
	switch kind := w.Result.V.Type.V; {
	case r.CustomID == "", !w.Result.Set:
		r.Outcome = batch.Unreadable
	case kind == "succeeded":
		decodeMessage(&r, &w.Result.V.Message)
	case kind == "errored":
		decodeFault(&r, w.Result.V.Error.V.fault())
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
func decodeMessage(r *batch.Result, message *loose.Obj[wireMessage]) {
	m := &message.V
	r.Outcome = batch.BadShape
	r.Model = batch.SafeName(m.Model.V)
	r.InputTokens = plus(plus(plus(0, m.Usage.V.Input.V), m.Usage.V.CacheMade.V), m.Usage.V.CacheRead.V)
	r.OutputTokens = plus(0, m.Usage.V.OutputUsed.V)
	if m.Type.V != "message" || m.Role.V != "assistant" || m.Model.V == "" {
		return
	}
	switch reason := m.StopReason.V; reason {
	case "end_turn", "tool_use":
		decodeContent(r, reason, &m.Content)
	case "max_tokens", "model_context_window_exceeded":
		r.Outcome, r.Code = batch.Truncated, reason
	case "refusal":
		r.Outcome, r.Code = batch.Refused, batch.SafeCode(m.StopDetails.V.Category.V)
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
