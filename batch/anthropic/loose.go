package anthropic

import (
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The types in this file decode members that a provider documents with one
// type and servers send with another. JSON itself is read strictly (no
// duplicate names, exact case, valid UTF-8, no trailing data); a member of
// another type is noted and passed over, so that one odd member does not hide
// the others. For each, set means: given, in the documented type.

// str is a string.
type str struct {
	v   string
	set bool
	odd bool // given, not null, and not a string
}

func (s *str) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case jsontext.KindString:
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		s.v, s.set = tok.String(), true
		return nil
	case jsontext.KindNull:
	default:
		s.odd = true
	}
	return dec.SkipValue()
}

// num is a whole number; 200.0 is one.
type num struct {
	v   int64
	set bool
}

func (n *num) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil || raw.Kind() != jsontext.KindNumber {
		return err
	}
	n.v, n.set = whole(string(raw))
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

// instant is a time in RFC 3339. What is not in the years 1970 to 9999 is no
// time: no output in JSON could hold it.
type instant struct {
	t   time.Time
	set bool
}

// endOfTime is the first second of the year 10000.
const endOfTime = 253402300800

func (i *instant) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var s str
	if err := s.UnmarshalJSONFrom(dec); err != nil {
		return err
	}
	if t, err := time.Parse(time.RFC3339, s.v); err == nil && t.Unix() > 0 && t.Unix() < endOfTime {
		i.t, i.set = t.UTC(), true
	}
	return nil
}

// obj is an object.
type obj[T any] struct {
	v   T
	set bool
	odd bool // given, not null, and not an object
}

func (o *obj[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case jsontext.KindBeginObject:
		o.set = true
		return json.UnmarshalDecode(dec, &o.v)
	case jsontext.KindNull:
	default:
		o.odd = true
	}
	return dec.SkipValue()
}

// eachElement has read take in every element of an array, in order; another
// value is passed over.
func eachElement(dec *jsontext.Decoder, read func(i int) error) error {
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

// flag is true or false.
type flag struct {
	v   bool
	set bool
	odd bool // given, not null, and neither
}

func (f *flag) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case jsontext.KindTrue:
		f.v, f.set = true, true
	case jsontext.KindFalse:
		f.set = true
	case jsontext.KindNull:
	default:
		f.odd = true
	}
	return dec.SkipValue()
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
