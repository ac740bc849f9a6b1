package openai

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
)

// frame is a request line without what differs from one line to the next: head,
// custom_id, middle, text, tail; with Echo: head, custom_id, middle, token, joint,
// text, tail. It depends on the account and the classifier alone.
type frame struct {
	of                        batch.Classifier // a copy, to compare with
	head, middle, joint, tail []byte
	depth                     int // how many JSON strings the text stands in
}

// AppendRequest appends a request for the account's endpoint. In one that a model
// answers, the text stands inside a JSON object inside the user message,
// {"report":"…"}, so that the model can tell where it begins and ends whatever is
// in it. With Echo the object has a member token before it, see batch.EchoToken.
//
// The line is put together and not marshalled: only the text differs from one
// line to the next.
func (c *Client) AppendRequest(dst []byte, cl *batch.Classifier, customID string, text batch.Text) ([]byte, error) {
	if !validCustomID(customID) {
		return dst, &batch.Error{Op: "render", Kind: batch.Rejected, Code: codeInvalidCustomID}
	}
	f := c.frame.Load()
	if f == nil || !same(&f.of, cl) {
		built, err := c.newFrame(cl)
		if err != nil {
			return dst, err
		}
		c.frame.Store(built)
		f = built
	}
	dst = append(dst, f.head...)
	dst = append(dst, customID...)
	dst = append(dst, f.middle...)
	if cl.Echo {
		dst = append(dst, batch.EchoToken(customID)...)
		dst = append(dst, f.joint...)
	}
	dst = appendInside(dst, text.Reveal(), f.depth)
	return append(dst, f.tail...), nil
}

func same(a, b *batch.Classifier) bool {
	return a.Name == b.Name && a.Model == b.Model && a.Instructions == b.Instructions && a.Echo == b.Echo &&
		a.MaxOutputTokens == b.MaxOutputTokens && sameNumber(a.Temperature, b.Temperature) && bytes.Equal(a.Schema, b.Schema) &&
		a.Otherwise == b.Otherwise && slices.Equal(a.Thresholds, b.Thresholds)
}

func sameNumber(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// strictForJS is said in full, because formatting is lax by default.
var strictForJS = json.JoinOptions(jsontext.EscapeForJS(true), jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false))

func refusedClassifier() error {
	return &batch.Error{Op: "render", Kind: batch.Rejected, Code: codeInvalidClassifier}
}

func (c *Client) newFrame(cl *batch.Classifier) (*frame, error) {
	model, ok := c.nameOf(cl.Model)
	if !ok {
		return nil, refusedClassifier()
	}
	d := c.cfg.Dialect
	d.complete()
	f := &frame{of: *cl, head: []byte(`{"custom_id":"`), depth: 2}
	f.of.Schema, f.of.Thresholds = bytes.Clone(cl.Schema), slices.Clone(cl.Thresholds)
	if t := cl.Temperature; t != nil {
		f.of.Temperature = new(*t)
	}
	f.middle = []byte(`","method":"POST","url":"` + c.path() + `","body":{"model":`)
	f.middle = appendQuoted(f.middle, model)
	if c.cfg.Endpoint == EndpointModerations {
		if err := f.moderation(cl); err != nil {
			return nil, err
		}
		return f, nil
	}
	schema, err := questionSchema(cl)
	if err != nil {
		return nil, err
	}
	if c.cfg.Endpoint == EndpointResponses {
		f.response(cl, schema)
	} else {
		f.chat(cl, &d, schema)
	}
	if cl.Echo {
		f.middle = append(f.middle, `{\"token\":\"`...)
		f.joint = []byte(`\",\"report\":\"`)
	} else {
		f.middle = append(f.middle, `{\"report\":\"`...)
	}
	return f, nil
}

// nameOf is what stands in a line for a model.
func (c *Client) nameOf(model string) (name string, ok bool) {
	name = model
	if len(c.cfg.Deployments) > 0 {
		name = c.cfg.Deployments[model]
	}
	return name, name != "" && utf8.ValidString(name)
}

// questionSchema checks what only a model that is asked needs, and returns the
// schema as it is sent. Compacting also proves that the schema is JSON without a
// name twice, and leaves no line feed in it.
func questionSchema(cl *batch.Classifier) (jsontext.Value, error) {
	schema := jsontext.Value(bytes.Clone(cl.Schema))
	if cl.Echo {
		var err error
		if schema, err = batch.AddToken(schema); err != nil {
			return nil, refusedClassifier()
		}
	}
	if schema.Compact(strictForJS) != nil || schema.Kind() != jsontext.KindBeginObject {
		return nil, refusedClassifier()
	}
	// Scores by category are not what a model that is asked gives.
	if cl.MaxOutputTokens <= 0 || !utf8.ValidString(cl.Instructions) || len(cl.Thresholds) > 0 {
		return nil, refusedClassifier()
	}
	if t := cl.Temperature; t != nil && (!(*t >= 0) || math.IsInf(*t, 0)) { // NaN is not >= 0
		return nil, refusedClassifier()
	}
	return schema, nil
}

// chat leaves off before the content of the user message.
func (f *frame) chat(cl *batch.Classifier, d *Dialect, schema []byte) {
	m := f.middle
	if !d.OmitStore {
		m = append(m, `,"store":false`...)
	}
	m = appendTemperature(m, cl.Temperature)
	m = append(m, `,"`+d.TokensField+`":`...)
	m = strconv.AppendInt(m, int64(cl.MaxOutputTokens), 10)
	m = append(m, `,"messages":[{"role":"`+d.Role+`","content":`...)
	m = appendQuoted(m, cl.Instructions)
	f.middle = append(m, `},{"role":"user","content":"`...)

	t := []byte(`\"}"}],"response_format":{"type":"json_schema","json_schema":{"name":`)
	t = appendQuoted(t, schemaName(cl.Name))
	t = append(t, `,"strict":true,"schema":`...)
	t = append(t, schema...)
	f.tail = append(t, "}}}}\n"...)
}

// response leaves off likewise. A response is stored for 30 days unless the
// request says otherwise, so it always does.
func (f *frame) response(cl *batch.Classifier, schema []byte) {
	m := append(f.middle, `,"store":false`...)
	m = appendTemperature(m, cl.Temperature)
	m = append(m, `,"max_output_tokens":`...)
	m = strconv.AppendInt(m, int64(cl.MaxOutputTokens), 10)
	m = append(m, `,"instructions":`...)
	m = appendQuoted(m, cl.Instructions)
	f.middle = append(m, `,"input":[{"role":"user","content":"`...)

	t := []byte(`\"}"}],"text":{"format":{"type":"json_schema","name":`)
	t = appendQuoted(t, schemaName(cl.Name))
	t = append(t, `,"strict":true,"schema":`...)
	t = append(t, schema...)
	f.tail = append(t, "}}}}\n"...)
}

// moderation sends the text and nothing else. Without thresholds no answer would
// come of it, and nothing in it can be repeated.
func (f *frame) moderation(cl *batch.Classifier) error {
	if cl.Echo || batch.CheckThresholds(cl) != nil {
		return refusedClassifier()
	}
	f.middle = append(f.middle, `,"input":"`...)
	f.tail = []byte("\"}}\n")
	f.depth = 1
	return nil
}

func appendTemperature(dst []byte, t *float64) []byte {
	if t == nil {
		return dst
	}
	return strconv.AppendFloat(append(dst, `,"temperature":`...), *t, 'f', -1, 64)
}

// schemaName is name within the alphabet and length that the API takes.
func schemaName(name string) string {
	b := []byte(name)
	for i, c := range b {
		if !idByte(c) {
			b[i] = '_'
		}
	}
	if len(b) == 0 {
		return "classification"
	}
	return string(b[:min(len(b), 64)])
}

func validCustomID(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if !idByte(c) {
			return false
		}
	}
	return true
}

func idByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

const hex = "0123456789abcdef"

// appendQuoted appends s, which is valid UTF-8, as a JSON string without a
// control character and without U+2028 and U+2029, at which some readers of
// JSON lines break a line.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		esc, size := escape(s[i:])
		if esc == none {
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, esc, 1)
		i += size
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendInside appends s as the inside of a JSON string that stands depth-1
// others deep. Bytes that are not UTF-8 become U+FFFD.
func appendInside(dst []byte, s string, depth int) []byte {
	start := 0
	for i := 0; i < len(s); {
		if plain[s[i]] {
			i++
			continue
		}
		esc, size := escape(s[i:])
		if esc == none {
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		if esc == utf8.RuneError {
			dst = append(dst, "\uFFFD"...)
		} else {
			dst = appendEscape(dst, esc, depth)
		}
		i += size
		start = i
	}
	return append(dst, s[start:]...)
}

// plain marks the bytes that stand for themselves in a JSON string.
var plain = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// none is escape's answer for a character that stands for itself.
const none rune = -1

// escape looks at the first character of s: the character when it needs an
// escape, RuneError when it is not UTF-8, else none; and its length in bytes.
func escape(s string) (r rune, size int) {
	if plain[s[0]] {
		return none, 1
	}
	if s[0] < utf8.RuneSelf {
		return rune(s[0]), 1
	}
	r, size = utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && size == 1, r == '\u2028', r == '\u2029':
		return r, size
	}
	return none, size
}

// appendEscape appends the escape for r as it reads depth strings deep: each
// level doubles the back slashes and escapes the quotes of the one inside.
func appendEscape(dst []byte, r rune, depth int) []byte {
	slashes := `\`
	if depth == 2 {
		slashes = `\\`
	}
	switch r {
	case '"':
		// Inside: \" . Outside again: \\\" .
		if depth == 2 {
			return append(dst, `\\\"`...)
		}
		return append(dst, `\"`...)
	case '\\':
		dst = append(dst, slashes...)
		return append(dst, slashes...)
	case '\n':
		return append(append(dst, slashes...), 'n')
	case '\r':
		return append(append(dst, slashes...), 'r')
	case '\t':
		return append(append(dst, slashes...), 't')
	}
	dst = append(append(dst, slashes...), 'u')
	return append(dst, hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
