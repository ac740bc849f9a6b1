package contentsafety

import (
	"unicode"
	"unicode/utf8"

	"rollcall/batch"
)

// A text that is too long for one call is never cut off: each call takes a piece,
// and what stands across a cut stands whole in the next piece.
const (
	// overlap is how many code points two pieces share at least. A passage that
	// is no longer stands whole in one of them, wherever it is.
	overlap = 200
	// slack is how many code points a cut may move to come after white space.
	slack = 100
)

// Split cuts a text into pieces of at most Segment code points. A byte that is
// not UTF-8 counts as one, as it does when it is sent.
func (c *Client) Split(_ *batch.Classifier, text batch.Text) ([]batch.Text, error) {
	s := text.Reveal()
	var out []batch.Text
	for start := 0; ; {
		end := forward(s, start, c.cfg.Segment)
		if start == 0 && end == len(s) {
			return []batch.Text{text}, nil
		}
		if end == len(s) {
			return append(out, batch.NewText(s[start:])), nil
		}
		end = afterSpace(s, end)
		out = append(out, batch.NewText(s[start:end]))
		// The smallest segment is longer than both moves and the overlap, so
		// that the next piece begins later than this one.
		start = afterSpace(s, backward(s, end, overlap))
	}
}

// forward is n code points after i, or the end of s.
func forward(s string, i, n int) int {
	if len(s)-i <= n { // no code point is shorter than a byte
		return len(s)
	}
	for ; n > 0 && i < len(s); n-- {
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return i
}

// backward is n code points before i, or the beginning of s.
func backward(s string, i, n int) int {
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return i
}

// afterSpace is the last place after white space at i or within slack before it,
// or i when there is none.
func afterSpace(s string, i int) int {
	at := i
	for range slack {
		r, size := utf8.DecodeLastRuneInString(s[:at])
		if size == 0 || unicode.IsSpace(r) {
			return at
		}
		at -= size
	}
	return i
}
