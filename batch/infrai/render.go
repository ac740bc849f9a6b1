package infrai

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"rollcall/batch"
)

// The body of a submit is canonical JSON: keys sorted, no spaces, a line feed at
// the end. A repeat must be the same bytes, so that nothing in it may depend on
// the order of a map, on the time, or on how a fraction is written.

// frame is a request line without its custom id and its text.
type frame struct {
	of      batch.Classifier // a copy, to compare with
	parts   [3][]byte        // what stands before, between and behind the two
	idFirst bool             // the custom id stands before the text
}

// Two bytes that no JSON holds stand for the custom id and the text while a
// frame is put together.
const (
	idHere   = "\x01"
	textHere = "\x02"
)

// AppendRequest appends an item whose body is a chat completion. The text stands
// inside a JSON object inside the user message, {"report":"…"}, so that the
// model can tell where it begins and ends whatever is in it. With Echo the object
// has a member token before it, see batch.EchoToken: what the message says and
// what the schema asks for are ours, so that this needs no member which the
// provider does not document. Bytes that are not UTF-8 become U+FFFD here, and not
// silently in an encoder. Denied while a gate
// is closed; Rejected for a model that is not one of the pin's by name.
func (c *Client) AppendRequest(dst []byte, cl *batch.Classifier, customID string, text batch.Text) ([]byte, error) {
	const op = "render"
	if err := c.admit(op); err != nil {
		return dst, err
	}
	if !validToken(customID) {
		return dst, &batch.Error{Op: op, Kind: batch.Rejected, Code: codeInvalidCustomID}
	}
	f := c.frame.Load()
	if f == nil || !same(&f.of, cl) {
		built, code := c.newFrame(cl)
		if code != "" {
			return dst, &batch.Error{Op: op, Kind: batch.Rejected, Code: code}
		}
		c.frame.Store(built)
		f = built
	}
	dst = append(dst, f.parts[0]...)
	if f.idFirst {
		dst = append(dst, customID...)
	} else {
		dst = appendReport(dst, cl.Echo, customID, text)
	}
	dst = append(dst, f.parts[1]...)
	if f.idFirst {
		dst = appendReport(dst, cl.Echo, customID, text)
	} else {
		dst = append(dst, customID...)
	}
	return append(dst, f.parts[2]...), nil
}

// appendReport appends the user's message, a JSON string with an object in it.
func appendReport(dst []byte, echo bool, customID string, text batch.Text) []byte {
	s := strings.ToValidUTF8(text.Reveal(), "\uFFFD")
	inner := append(make([]byte, 0, len(s)+len(s)/8+32), '{')
	if echo {
		inner = append(appendQuoted(append(inner, `"token":`...), batch.EchoToken(customID)), ',')
	}
	inner = appendQuoted(append(inner, `"report":`...), s)
	return appendQuoted(dst, append(inner, '}'))
}

func same(a, b *batch.Classifier) bool {
	return a.Name == b.Name && a.Model == b.Model && a.Instructions == b.Instructions && a.Echo == b.Echo &&
		a.MaxOutputTokens == b.MaxOutputTokens && sameNumber(a.Temperature, b.Temperature) && bytes.Equal(a.Schema, b.Schema)
}

func sameNumber(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func (c *Client) newFrame(cl *batch.Classifier) (f *frame, code string) {
	switch {
	case !explicitModel(cl.Model):
		return nil, codeModel
	case !slices.Contains(c.contract.Models, cl.Model):
		return nil, codeModelNotPinned
	case cl.MaxOutputTokens <= 0 || !utf8.ValidString(cl.Instructions):
		return nil, codeInvalidClassifier
	}
	asked := cl.Schema
	if cl.Echo {
		var err error
		if asked, err = batch.AddToken(asked); err != nil {
			return nil, codeInvalidClassifier
		}
	}
	schema, ok := canonical(asked)
	if !ok || schema[0] != '{' {
		return nil, codeInvalidClassifier
	}
	body := map[string]string{
		c.contract.MaxTokensPath: strconv.Itoa(cl.MaxOutputTokens),
		"messages": `[{"content":` + quoted(cl.Instructions) + `,"role":"system"},` +
			`{"content":` + textHere + `,"role":"user"}]`,
		"model": quoted(cl.Model),
		"response_format": `{"json_schema":{"name":` + quoted(schemaName(cl.Name)) + `,"schema":` + string(schema) + `,"strict":true},` +
			`"type":"json_schema"}`,
	}
	for name, value := range c.contract.BodyOptions {
		v, _ := canonical(value) // the pin was checked
		body[name] = string(v)
	}
	f = &frame{of: *cl}
	f.of.Schema = bytes.Clone(cl.Schema)
	if t := cl.Temperature; t != nil {
		if !(*t >= 0) || *t != math.Trunc(*t) || *t > 2 { // NaN is not >= 0
			return nil, codeInvalidClassifier
		}
		body["temperature"] = strconv.Itoa(int(*t))
		f.of.Temperature = new(*t)
	}
	item := object(map[string]string{
		"body": object(body), "capability": quoted(c.contract.Capability), c.contract.ItemIDPath: `"` + idHere + `"`,
	})
	f.idFirst = strings.Index(item, idHere) < strings.Index(item, textHere)
	for i, part := range strings.FieldsFunc(item, func(r rune) bool { return r == rune(idHere[0]) || r == rune(textHere[0]) }) {
		f.parts[i] = []byte(part)
	}
	f.parts[2] = append(f.parts[2], '\n')
	return f, ""
}

// object is members with values that are JSON already, sorted.
func object(members map[string]string) string {
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(members)) {
		out = append(appendQuoted(append(out, ','), name), ':')
		out = append(out, members[name]...)
	}
	return "{" + string(out[1:]) + "}"
}

// canonical is a value with its keys sorted and no spaces. False for what cannot
// be written in one way only: fractions, keys beyond ASCII, a name twice.
func canonical(raw []byte) ([]byte, bool) {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil, false
	}
	return appendCanonical(nil, v)
}

func appendCanonical(dst []byte, v any) (out []byte, ok bool) {
	switch v := v.(type) {
	case string:
		return appendQuoted(dst, v), true
	case float64:
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			return nil, false
		}
		return strconv.AppendInt(dst, int64(v), 10), true
	case map[string]any:
		dst = append(dst, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			if !printable(name) {
				return nil, false
			}
			if dst, ok = appendCanonical(append(appendQuoted(dst, name), ':'), v[name]); !ok {
				return nil, false
			}
		}
		return append(dst, '}'), true
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, ok = appendCanonical(dst, e); !ok {
				return nil, false
			}
		}
		return append(dst, ']'), true
	}
	b, err := json.Marshal(v) // true, false, null
	return append(dst, b...), err == nil
}

// schemaName is name within the alphabet and length of OpenAI's API, which the
// provider's follows.
func schemaName(name string) string {
	b := []byte(name)
	for i := range b {
		if !plainToken(string(b[i:i+1]), "_-") {
			b[i] = '_'
		}
	}
	if len(b) == 0 {
		return "classification"
	}
	return string(b[:min(len(b), 64)])
}

func quoted(s string) string { return string(appendQuoted(nil, s)) }

// appendQuoted appends s, which is valid UTF-8, as a JSON string without a
// control character and without U+2028 and U+2029, at which some readers of
// lines break a line.
func appendQuoted[S string | []byte](dst []byte, s S) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		size := 1
		switch c := s[i]; {
		case c == separator[0] && i+2 < len(s) && s[i+1] == separator[1] && (s[i+2] == separator[2] || s[i+2] == separator[2]+1):
			size = 3
		case c >= ' ' && c != '"' && c != '\\':
			continue
		}
		dst = append(append(dst, s[start:i]...), '\\')
		switch c := s[i]; c {
		case '"', '\\':
			dst = append(dst, c)
		case '\n':
			dst = append(dst, 'n')
		case '\r':
			dst = append(dst, 'r')
		case '\t':
			dst = append(dst, 't')
		case '\b':
			dst = append(dst, 'b')
		case '\f':
			dst = append(dst, 'f')
		case separator[0]:
			dst = append(dst, 'u', '2', '0', '2', s[i+2]-separator[2]+'8')
		default:
			dst = append(dst, 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i += size - 1
		start = i + 1
	}
	return append(append(dst, s[start:]...), '"')
}

// separator is U+2028; the last byte of U+2029 is one more.
const separator = "\u2028"
