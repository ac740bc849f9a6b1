package batch

import "fmt"

// Text is report text on its way to a processor. It cannot print itself: every
// way in which fmt, encoding/json, a logger or a debugger's %#v could show it
// yields its length only. Reveal is the one way in, so a search for Reveal
// finds every place where text is read.
type Text struct {
	// A pointer, because fmt does not call String on unexported fields: a
	// plain string inside somebody's struct would leak under %+v.
	s *string
}

// NewText wraps report text.
func NewText(s string) Text { return Text{s: &s} }

// Reveal returns the text itself. The caller must not log it, put it into an
// error, or keep it longer than one request line.
func (t Text) Reveal() string {
	if t.s == nil {
		return ""
	}
	return *t.s
}

// Len is the length of the text in bytes.
func (t Text) Len() int { return len(t.Reveal()) }

func (t Text) String() string               { return fmt.Sprintf("[text, %d bytes]", t.Len()) }
func (t Text) GoString() string             { return t.String() }
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
