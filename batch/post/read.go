package post

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
)

// The functions in this file read members that are documented with one type and
// sent with another: an adapter takes a member as a jsontext.Value, so that one
// odd member does not hide the others. JSON itself is read strictly.

// Text is v when it is a string.
func Text(v jsontext.Value) (s string, ok bool) {
	if v.Kind() != jsontext.KindString {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err == nil
}

// Whole is v when it is a whole number of at most 2^53; 3.0 is one.
func Whole(v jsontext.Value) (n int64, ok bool) {
	if v.Kind() != jsontext.KindNumber {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Absent is true for a member that is not there, or null.
func Absent(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == jsontext.KindNull }

// envelope is an error in any of the forms in which these servers write it:
// {"error":{"code":…,"type":…}}, the same without the outer member, and
// {"error":"code"}.
type envelope struct {
	Error jsontext.Value `json:"error"`
	Code  jsontext.Value `json:"code"`
	Type  jsontext.Value `json:"type"`
}

// codeOf is the code of an error, cleaned by batch.SafeCode; "" for none.
func codeOf(body []byte) string {
	var e envelope
	if json.Unmarshal(body, &e) != nil {
		return ""
	}
	if word, ok := Text(e.Error); ok {
		return batch.SafeCode(word)
	}
	if e.Error.Kind() == jsontext.KindBeginObject {
		inner := e.Error
		e = envelope{}
		if json.Unmarshal(inner, &e) != nil {
			return ""
		}
	}
	for _, v := range []jsontext.Value{e.Code, e.Type} {
		if word, ok := Text(v); ok && word != "" {
			return batch.SafeCode(word)
		}
	}
	return ""
}

// Valid is s with U+FFFD in the place of each byte that is not UTF-8, so that it
// can stand in JSON. It has as many code points as s.
func Valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
