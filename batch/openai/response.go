package openai

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
)

type wireIncomplete struct {
	Reason str `json:"reason"`
}

// output is what a response consists of: items of thinking, which are passed
// over, and one message. Only its text is kept.
type output struct {
	messages  int
	text      strings.Builder // of all parts, in order
	refused   bool
	truncated bool   // a message that says so itself
	odd       bool   // a part that is neither text nor a refusal
	other     string // the type of an item that is neither thinking nor a message
}

type wireItem struct {
	Type    str   `json:"type"`
	Role    str   `json:"role"`
	Status  str   `json:"status"`
	Content parts `json:"content"`
}

// parts are the contents of a message.
type parts struct {
	text    strings.Builder
	refused bool
	odd     bool
}

type wirePart struct {
	Type    str `json:"type"`
	Text    str `json:"text"`
	Refusal str `json:"refusal"`
}

func (o *output) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var item obj[wireItem] // one for all: an answer may have many
	return eachElement(dec, func(i int) error {
		if i == maxList {
			o.odd = true
		}
		if i >= maxList {
			return dec.SkipValue()
		}
		item = obj[wireItem]{}
		if err := json.UnmarshalDecode(dec, &item); err != nil {
			return err
		}
		o.add(&item.v)
		return nil
	})
}

func (o *output) add(item *wireItem) {
	switch item.Type.v {
	case "reasoning":
	case "message":
		o.messages++
		o.text.WriteString(item.Content.text.String())
		o.refused = o.refused || item.Content.refused
		o.truncated = o.truncated || item.Status.v == "incomplete"
		o.odd = o.odd || item.Content.odd || item.Role.odd || item.Role.set && item.Role.v != "assistant"
	case "":
		o.odd = true
	default:
		o.other = item.Type.v
	}
}

func (p *parts) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	p.odd = dec.PeekKind() != jsontext.KindBeginArray
	var part obj[wirePart]
	return eachElement(dec, func(i int) error {
		p.odd = p.odd || i >= maxList
		if i >= maxList {
			return dec.SkipValue()
		}
		part = obj[wirePart]{}
		if err := json.UnmarshalDecode(dec, &part); err != nil {
			return err
		}
		switch w := &part.v; {
		case w.Type.v == "output_text" && w.Text.set:
			p.text.WriteString(w.Text.v)
		case w.Type.v == "refusal" && w.Refusal.set:
			p.refused = true
		default:
			p.odd = true
		}
		return nil
	})
}

// decodeResponse asks how the response ended before it looks at what it says,
// as decodeCompletion does.
func decodeResponse(r *batch.Result, body *wireBody) {
	r.Outcome = batch.BadShape
	if body.Object.v != "response" {
		return
	}
	switch body.Status.v {
	case "completed":
		decodeOutput(r, body)
	case "incomplete":
		decodeIncomplete(r, body.Incomplete.v.Reason.v)
	case "failed":
		decodeFailed(r, &body.Error.v)
	default: // not at an end, whatever the line says
		r.Code = batch.SafeCode(body.Status.v)
	}
}

func decodeOutput(r *batch.Result, body *wireBody) {
	switch o := &body.Output; {
	case body.Error.set, body.Error.odd, body.Incomplete.set, body.Incomplete.odd:
	case o.other != "": // it wants something done, and does not answer
		r.Code = batch.SafeCode(o.other)
	case o.messages != 1:
	case o.truncated:
		r.Outcome = batch.Truncated
	case o.refused:
		r.Outcome = batch.Refused
	case o.odd, strings.TrimSpace(o.text.String()) == "":
	default:
		r.Outcome = batch.Answered
		r.Content = []byte(o.text.String())
	}
}

func decodeIncomplete(r *batch.Result, reason string) {
	switch reason {
	case "max_output_tokens":
		r.Outcome = batch.Truncated
	case "content_filter":
		r.Outcome = batch.Blocked
	default:
		r.Code = batch.SafeCode(reason)
	}
}

// decodeFailed reads the error of a response that failed in an answer of status
// 200. A code that is not about the request is about the moment.
func decodeFailed(r *batch.Result, w *wireFault) {
	f := fault{code: w.Code.v, typ: w.Type.v}
	r.Code = f.word()
	switch {
	case f.outOfCredit():
		r.Outcome = batch.ItemOutOfCredit
	case filtered(w):
		r.Outcome = batch.Blocked
	case w.Code.v == "data_residency_mismatch":
		r.Outcome = batch.ItemDenied
	case strings.HasPrefix(w.Code.v, "invalid_"):
		r.Outcome = batch.ItemRejected
	default:
		r.Outcome = batch.ItemFailed
	}
}
