// Package loose decodes members that a provider documents with one type and
// servers send with another. JSON itself is read strictly (no duplicate names,
// exact case, valid UTF-8, no trailing data); a member of another type is noted
// and passed over, so that one odd member does not hide the others. For each type,
// Set means: given, in the documented type.
package loose

import (
	"io"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Str is a string.
type Str struct {
	V   string
	Set bool
	Odd bool // given, not null, and not a string
}

func (s *Str) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case jsontext.KindString:
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		s.V, s.Set = tok.String(), true
		return nil
	case jsontext.KindNull:
	default:
		s.Odd = true
	}
	return dec.SkipValue()
}

// Num is a whole number; 200.0 is one.
type Num struct {
	V   int64
	Set bool
}

func (n *Num) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil || raw.Kind() != jsontext.KindNumber {
		return err
	}
	n.V, n.Set = whole(string(raw))
	return nil
}

func whole(s string) (int64, bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Instant is a time as Unix seconds or, as some servers send it, RFC 3339. What
// is not in the years 1970 to 9999 is no time: no output in JSON could hold it.
type Instant struct {
	T   time.Time
	Set bool
}

// endOfTime is the first second of the year 10000.
const endOfTime = 253402300800

func (i *Instant) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	switch raw.Kind() {
	case jsontext.KindNumber:
		if n, ok := whole(string(raw)); ok && n > 0 && n < endOfTime {
			i.T, i.Set = time.Unix(n, 0).UTC(), true
		}
	case jsontext.KindString:
		if s, err := jsontext.AppendUnquote(nil, raw); err == nil {
			if t, err := time.Parse(time.RFC3339, string(s)); err == nil && t.Unix() > 0 && t.Unix() < endOfTime {
				i.T, i.Set = t.UTC(), true
			}
		}
	}
	return nil
}

// Obj is an object.
type Obj[T any] struct {
	V   T
	Set bool
	Odd bool // given, not null, and not an object
}

func (o *Obj[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case jsontext.KindBeginObject:
		o.Set = true
		return json.UnmarshalDecode(dec, &o.V)
	case jsontext.KindNull:
	default:
		o.Odd = true
	}
	return dec.SkipValue()
}

// MaxList is how many elements a List keeps. A provider's answer is not trusted
// to be short: two bytes of it can stand for an element of a hundred.
const MaxList = 1000

// List is the beginning of an array; what lies beyond MaxList is read past.
type List[T any] struct{ V []T }

func (l *List[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return EachElement(dec, func(i int) error {
		if i >= MaxList {
			return dec.SkipValue()
		}
		l.V = append(l.V, *new(T))
		return json.UnmarshalDecode(dec, &l.V[i])
	})
}

// Sole is an array that should have one element: the first, and how many
// there are.
type Sole[T any] struct {
	V T
	N int
}

func (s *Sole[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return EachElement(dec, func(i int) error {
		s.N = i + 1
		if i > 0 {
			return dec.SkipValue()
		}
		return json.UnmarshalDecode(dec, &s.V)
	})
}

// EachElement has read take in every element of an array, in order; another
// value is passed over.
func EachElement(dec *jsontext.Decoder, read func(i int) error) error {
	if dec.PeekKind() != jsontext.KindBeginArray {
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for i := 0; dec.PeekKind() != jsontext.KindEndArray; i++ {
		if err := read(i); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// EachMember has read take in the value of every member of an object, in order;
// another value is passed over.
func EachMember(dec *jsontext.Decoder, read func(name string) error) (isObject bool, err error) {
	if dec.PeekKind() != jsontext.KindBeginObject {
		return false, dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return false, err
	}
	for dec.PeekKind() != jsontext.KindEndObject {
		name, err := dec.ReadToken()
		if err != nil {
			return false, err
		}
		if err := read(name.String()); err != nil {
			return false, err
		}
	}
	_, err = dec.ReadToken()
	return err == nil, err
}

// Flag is true or false.
type Flag struct {
	V   bool
	Set bool
	Odd bool // given, not null, and neither
}

func (f *Flag) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case jsontext.KindTrue:
		f.V, f.Set = true, true
	case jsontext.KindFalse:
		f.Set = true
	case jsontext.KindNull:
	default:
		f.Odd = true
	}
	return dec.SkipValue()
}

// Yes is true for the literal true and nothing else.
type Yes bool

func (y *Yes) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*y = dec.PeekKind() == jsontext.KindTrue
	return dec.SkipValue()
}

// Tap remembers why reading ended early: a decoder's error does not tell a
// broken connection from broken JSON.
type Tap struct {
	R   io.Reader
	N   int64 // bytes that were read
	Err error // nil at the end of what R has
}

func (t *Tap) Read(p []byte) (int, error) {
	n, err := t.R.Read(p)
	t.N += int64(n)
	if err != nil && err != io.EOF {
		t.Err = err
	}
	return n, err
}
