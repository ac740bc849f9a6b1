// Package line writes request lines for the adapters whose bodies are lines of
// JSON, and reads whose a line is.
package line

import (
	"bytes"
	"slices"
	"sync/atomic"

	"rollcall/batch"
)

// Codes of refused lines, in the place of a provider's code.
const (
	CodeCustomID   = "invalid_custom_id"
	CodeClassifier = "invalid_classifier"
)

// Refused is the error of a line that is not written.
func Refused(code string) *batch.Error {
	return &batch.Error{Op: "render", Kind: batch.Rejected, Code: code}
}

// Marks stand in a template for what differs from one line to the next. They are
// bytes that JSON holds nowhere, so that nothing in a template is taken for one.
const (
	CustomID = "\x01"
	Text     = "\x02" // inside of a JSON string

	token  = "\x03" // batch.EchoToken of the custom id
	nested = "\x04" // the text, inside of a JSON string that stands inside another
)

// Report is the content of the user message, for a JSON string of a template: the
// text stands inside a JSON object, {"report":"…"}, so that the model can tell
// where it begins and ends whatever is in it. With Echo the object has a member
// token before it.
func Report(c *batch.Classifier) string {
	if c.Echo {
		return `{\"` + batch.TokenMember + `\":\"` + token + `\",\"report\":\"` + nested + `\"}`
	}
	return `{\"report\":\"` + nested + `\"}`
}

// Frame is a request line without what differs from one line to the next. A line
// is put together and not marshalled, because all else in it is the same.
type Frame struct {
	pieces []piece
}

// piece is what is the same, and the mark behind it; 0 at the end.
type piece struct {
	same []byte
	mark byte
}

// NewFrame cuts a template at its marks.
func NewFrame(template string) *Frame {
	f := &Frame{}
	for rest := []byte(template); ; {
		i := bytes.IndexAny(rest, CustomID+Text+token+nested)
		if i < 0 {
			f.pieces = append(f.pieces, piece{same: rest})
			return f
		}
		f.pieces = append(f.pieces, piece{rest[:i], rest[i]})
		rest = rest[i+1:]
	}
}

// Append appends the line of one text.
func (f *Frame) Append(dst []byte, customID string, text batch.Text) []byte {
	for _, p := range f.pieces {
		dst = append(dst, p.same...)
		switch p.mark {
		case CustomID[0]:
			dst = append(dst, customID...)
		case token[0]:
			dst = append(dst, batch.EchoToken(customID)...)
		case Text[0]:
			dst = appendInside(dst, text.Reveal(), 1)
		case nested[0]:
			dst = appendInside(dst, text.Reveal(), 2)
		}
	}
	return dst
}

// Frames keeps the frame of the classifier that was rendered last. Its zero value
// is ready, and it may be used by several goroutines.
type Frames struct{ last atomic.Pointer[kept] }

type kept struct {
	of    batch.Classifier // a copy, to compare with
	frame *Frame
}

// Append appends a line as batch.Provider wants it of AppendRequest. template is
// asked when another classifier than the one before is rendered; what it refuses
// is not kept.
func (f *Frames) Append(dst []byte, c *batch.Classifier, customID string, text batch.Text, template func(*batch.Classifier) (string, error)) ([]byte, error) {
	if !batch.ValidCustomID(customID) {
		return dst, Refused(CodeCustomID)
	}
	k := f.last.Load()
	if k == nil || !same(&k.of, c) {
		t, err := template(c)
		if err != nil {
			return dst, err
		}
		k = &kept{of: *c, frame: NewFrame(t)}
		// The caller's may change in place.
		k.of.Schema, k.of.Thresholds, k.of.AnswersAs = bytes.Clone(c.Schema), slices.Clone(c.Thresholds), slices.Clone(c.AnswersAs)
		if t := c.Temperature; t != nil {
			k.of.Temperature = new(*t)
		}
		f.last.Store(k)
	}
	return k.frame.Append(dst, customID, text), nil
}

func same(a, b *batch.Classifier) bool {
	return a.Name == b.Name && a.Model == b.Model && a.Instructions == b.Instructions && bytes.Equal(a.Schema, b.Schema) &&
		a.MaxOutputTokens == b.MaxOutputTokens && sameNumber(a.Temperature, b.Temperature) &&
		slices.Equal(a.Thresholds, b.Thresholds) && slices.Equal(a.AnswersAs, b.AnswersAs) && a.Otherwise == b.Otherwise && a.Echo == b.Echo
}

func sameNumber(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
