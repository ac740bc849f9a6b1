package anthropic

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
)

// frame is a request line without its custom_id and what differs from one line to
// the next: head, text, tail; with Echo: head, token, joint, text, tail. It
// depends on the classifier and the configuration alone.
type frame struct {
	of                batch.Classifier // a copy, to compare with
	head, joint, tail []byte
}

const (
	lineHead   = `{"custom_id":"`
	lineParams = `","params":`
	lineTail   = "}\n"
)

// AppendRequest appends a Messages request. The text stands inside a JSON object
// inside the user message, {"report":"…"}, so that the model can tell where it
// begins and ends whatever is in it. With Echo the object has a member token
// before it, see batch.EchoToken, and the schema, or that of the tool, asks for
// it first.
//
// The line is put together and not marshalled: only the text differs from one
// line to the next. It holds no other line feed than its last byte, which
// Create relies on.
func (c *Client) AppendRequest(dst []byte, cl *batch.Classifier, customID string, text batch.Text) ([]byte, error) {
	if !validCustomID(customID) {
		return dst, &batch.Error{Op: "render", Kind: batch.Rejected, Code: codeInvalidCustomID}
	}
	f, err := c.frameOf(cl)
	if err != nil {
		return dst, err
	}
	dst = append(dst, lineHead...)
	dst = append(dst, customID...)
	dst = append(dst, lineParams...)
	dst = f.appendParams(dst, customID, text)
	return append(dst, lineTail...), nil
}

// frameOf is the frame of cl, built anew when the one before was of another.
func (c *Client) frameOf(cl *batch.Classifier) (*frame, error) {
	f := c.frame.Load()
	if f == nil || !same(&f.of, cl) {
		built, err := newFrame(&c.cfg, cl)
		if err != nil {
			return nil, err
		}
		c.frame.Store(built)
		f = built
	}
	return f, nil
}

// appendParams appends the body of a Messages request.
func (f *frame) appendParams(dst []byte, customID string, text batch.Text) []byte {
	dst = append(dst, f.head...)
	if f.of.Echo {
		dst = append(dst, batch.EchoToken(customID)...)
		dst = append(dst, f.joint...)
	}
	dst = appendNested(dst, text.Reveal())
	return append(dst, f.tail...)
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

// strictForJS is said in full, because formatting is lax by default.
var strictForJS = json.JoinOptions(jsontext.EscapeForJS(true), jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false))

func newFrame(cfg *Config, cl *batch.Classifier) (*frame, error) {
	refuse := &batch.Error{Op: "render", Kind: batch.Rejected, Code: codeInvalidClassifier}
	// Compacting also proves that the schema is JSON without a name twice, and
	// leaves no line feed in it.
	schema := jsontext.Value(bytes.Clone(cl.Schema))
	if cl.Echo {
		var err error
		if schema, err = batch.AddToken(schema); err != nil {
			return nil, refuse
		}
	}
	if schema.Compact(strictForJS) != nil || schema.Kind() != jsontext.KindBeginObject {
		return nil, refuse
	}
	schema, err := sendable(schema)
	if err != nil || schema.Compact(strictForJS) != nil { // names may hold what a line must not
		return nil, refuse
	}
	if cl.Model == "" || cl.MaxOutputTokens <= 0 || !utf8.ValidString(cl.Model) || !utf8.ValidString(cl.Instructions) {
		return nil, refuse
	}
	f := &frame{of: *cl}
	f.of.Schema = bytes.Clone(cl.Schema)

	h := appendQuoted([]byte(`{"model":`), cl.Model)
	h = append(h, `,"max_tokens":`...)
	h = strconv.AppendInt(h, int64(cl.MaxOutputTokens), 10)
	if t := cl.Temperature; t != nil {
		if !(*t >= 0) || math.IsInf(*t, 0) { // NaN is not >= 0
			return nil, refuse
		}
		if !cfg.takesTemperature() {
			return nil, &batch.Error{Op: "render", Kind: batch.Rejected, Code: CodeTemperature}
		}
		f.of.Temperature = new(*t)
		h = append(h, `,"temperature":`...)
		h = strconv.AppendFloat(h, *t, 'f', -1, 64)
	}
	if cl.Instructions != "" { // an empty text is refused
		h = append(h, `,"system":`...)
		h = appendQuoted(h, cl.Instructions)
	}
	h = append(h, `,"messages":[{"role":"user","content":"{`...)
	if cl.Echo {
		f.head = append(h, `\"token\":\"`...)
		f.joint = []byte(`\",\"report\":\"`)
	} else {
		f.head = append(h, `\"report\":\"`...)
	}
	f.tail = append(appendOutput([]byte(`\"}"}],`), cfg.Output, schema), '}')
	return f, nil
}

// toolName is the tool that the model has to call with OutputTool.
const toolName = "record_classification"

// appendOutput appends the members that hold the answer to the schema. Without
// disable_parallel_tool_use a model may call the tool twice.
func appendOutput(dst []byte, o Output, schema []byte) []byte {
	if o == OutputTool {
		dst = append(dst, `"tools":[{"name":"`+toolName+`","description":"Records the classification of the report.","strict":true,"input_schema":`...)
		dst = append(dst, schema...)
		return append(dst, `}],"tool_choice":{"type":"tool","name":"`+toolName+`","disable_parallel_tool_use":true}`...)
	}
	dst = append(dst, `"output_config":{"format":{"type":"json_schema","schema":`...)
	dst = append(dst, schema...)
	return append(dst, `}}`...)
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

// appendNested appends s as the inside of a JSON string that stands inside
// another JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendNested(dst []byte, s string) []byte {
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
			dst = appendEscape(dst, esc, 2)
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
