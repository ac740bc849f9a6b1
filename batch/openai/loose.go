package openai

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

// instant is a time as Unix seconds or, as some servers send it, RFC 3339. What
// is not in the years 1970 to 9999 is no time: no output in JSON could hold it.
type instant struct{ t time.Time }

// endOfTime is the first second of the year 10000.
const endOfTime = 253402300800

func (i *instant) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	switch raw.Kind() {
	case jsontext.KindNumber:
		if n, ok := whole(string(raw)); ok && n > 0 && n < endOfTime {
			i.t = time.Unix(n, 0).UTC()
		}
	case jsontext.KindString:
		if s, err := jsontext.AppendUnquote(nil, raw); err == nil {
			if t, err := time.Parse(time.RFC3339, string(s)); err == nil && t.Unix() > 0 && t.Unix() < endOfTime {
				i.t = t.UTC()
			}
		}
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

// maxList is how many elements a list keeps. A provider's answer is not trusted
// to be short: two bytes of it can stand for an element of a hundred.
const maxList = 1000

// list is the beginning of an array; what lies beyond maxList is read past.
type list[T any] struct{ v []T }

func (l *list[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return eachElement(dec, func(i int) error {
		if i >= maxList {
			return dec.SkipValue()
		}
		l.v = append(l.v, *new(T))
		return json.UnmarshalDecode(dec, &l.v[i])
	})
}

// sole is an array that should have one element: the first, and how many
// there are.
type sole[T any] struct {
	v T
	n int
}

func (s *sole[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return eachElement(dec, func(i int) error {
		s.n = i + 1
		if i > 0 {
			return dec.SkipValue()
		}
		return json.UnmarshalDecode(dec, &s.v)
	})
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

// pairs are the first members of an object of strings, no more than a request
// may have.
type pairs struct{ v map[string]str }

func (p *pairs) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	_, err := eachMember(dec, func(name string) error {
		if len(p.v) == maxMetadata {
			return dec.SkipValue()
		}
		if p.v == nil {
			p.v = make(map[string]str, maxMetadata)
		}
		var value str
		err := value.UnmarshalJSONFrom(dec)
		p.v[name] = value
		return err
	})
	return err
}

// eachMember has read take in the value of every member of an object, in order;
// another value is passed over.
func eachMember(dec *jsontext.Decoder, read func(name string) error) (isObject bool, err error) {
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

// yes is true for the literal true and nothing else.
type yes bool

func (y *yes) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*y = dec.PeekKind() == jsontext.KindTrue
	return dec.SkipValue()
}
