package openai

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/loose"
)

type wireIncomplete struct {
	Reason loose.Str `json:"reason"`
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
	Type    loose.Str `json:"type"`
	Role    loose.Str `json:"role"`
	Status  loose.Str `json:"status"`
	Content parts     `json:"content"`
}

// parts are the contents of a message.
type parts struct {
	text    strings.Builder
	refused bool
	odd     bool
}

type wirePart struct {
	Type    loose.Str `json:"type"`
	Text    loose.Str `json:"text"`
	Refusal loose.Str `json:"refusal"`
}

func (o *output) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var item loose.Obj[wireItem] // one for all: an answer may have many
	return loose.EachElement(dec, func(i int) error {
		if i == loose.MaxList {
			o.odd = true
		}
		if i >= loose.MaxList {
			return dec.SkipValue()
		}
		item = loose.Obj[wireItem]{}
		if err := json.UnmarshalDecode(dec, &item); err != nil {
			return err
		}
		o.add(&item.V)
		return nil
	})
}

func (o *output) add(item *wireItem) {
	switch item.Type.V {
	case "reasoning":
	case "message":
		o.messages++
		o.text.WriteString(item.Content.text.String())
		o.refused = o.refused || item.Content.refused
		o.truncated = o.truncated || item.Status.V == "incomplete"
		o.odd = o.odd || item.Content.odd || item.Role.Odd || item.Role.Set && item.Role.V != "assistant"
	case "":
		o.odd = true
	default:
		o.other = item.Type.V
	}
}

func (p *parts) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	p.odd = dec.PeekKind() != jsontext.KindBeginArray
	var part loose.Obj[wirePart]
	return loose.EachElement(dec, func(i int) error {
		p.odd = p.odd || i >= loose.MaxList
		if i >= loose.MaxList {
			return dec.SkipValue()
		}
		part = loose.Obj[wirePart]{}
		if err := json.UnmarshalDecode(dec, &part); err != nil {
			return err
		}
		switch w := &part.V; {
		case w.Type.V == "output_text" && w.Text.Set:
			p.text.WriteString(w.Text.V)
		case w.Type.V == "refusal" && w.Refusal.Set:
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
	if body.Object.V != "response" {
		return
	}
	switch body.Status.V {
	case "completed":
		decodeOutput(r, body)
	case "incomplete":
		decodeIncomplete(r, body.Incomplete.V.Reason.V)
	case "failed":
		decodeFailed(r, &body.Error.V)
	default: // not at an end, whatever the line says
		r.Code = batch.SafeCode(body.Status.V)
	}
}

func decodeOutput(r *batch.Result, body *wireBody) {
	switch o := &body.Output; {
	case body.Error.Set, body.Error.Odd, body.Incomplete.Set, body.Incomplete.Odd:
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
	f := fault{code: w.Code.V, typ: w.Type.V}
	r.Code = f.word()
	switch {
	case f.outOfCredit():
		r.Outcome = batch.ItemOutOfCredit
	case filtered(w):
		r.Outcome = batch.Blocked
	case w.Code.V == "data_residency_mismatch":
		r.Outcome = batch.ItemDenied
	case strings.HasPrefix(w.Code.V, "invalid_"):
		r.Outcome = batch.ItemRejected
	default:
		r.Outcome = batch.ItemFailed
	}
}
