package infrai

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"rollcall/batch"
	"rollcall/batch/line"
)

// The body of a submit is canonical JSON: keys sorted, no spaces, a line feed at
// the end. A repeat must be the same bytes, so that nothing in it may depend on
// the order of a map, on the time, or on how a fraction is written.

// AppendRequest appends an item whose body is a chat completion. The text stands
// inside a JSON object inside the user message, {"report":"…"}, so that the
// model can tell where it begins and ends whatever is in it. With Echo the object
// has a member token before it, see batch.EchoToken: what the message says and
// what the schema asks for are ours, so that this needs no member which the
// provider does not document. Bytes that are not UTF-8 become U+FFFD here, and not
// silently in an encoder. Denied while a gate is closed; Rejected for a model that
// is not one of the pin's by name.
func (c *Client) AppendRequest(dst []byte, cl *batch.Classifier, customID string, text batch.Text) ([]byte, error) {
	if err := c.admit("render"); err != nil {
		return dst, err
	}
	return c.lines.Append(dst, cl, customID, text, c.template)
}

func (c *Client) template(cl *batch.Classifier) (string, error) {
	switch {
	case !explicitModel(cl.Model):
		return "", line.Refused(codeModel)
	case !slices.Contains(c.contract.Models, cl.Model):
		return "", line.Refused(codeModelNotPinned)
	}
	asked, err := line.Schema(cl)
	if err != nil {
		return "", err
	}
	schema, ok := canonical(asked)
	if !ok {
		return "", line.Refused(line.CodeClassifier)
	}
	body := map[string]string{
		c.contract.MaxTokensPath: strconv.Itoa(cl.MaxOutputTokens),
		"messages": `[{"content":` + line.Quoted(cl.Instructions) + `,"role":"system"},` +
			`{"content":"` + line.Report(cl) + `","role":"user"}]`,
		"model": line.Quoted(cl.Model),
		"response_format": `{"json_schema":{"name":` + line.Quoted(line.SchemaName(cl.Name)) + `,"schema":` + string(schema) + `,"strict":true},` +
			`"type":"json_schema"}`,
	}
	for name, value := range c.contract.BodyOptions {
		v, _ := canonical(value) // the pin was checked
		body[name] = string(v)
	}
	if t := cl.Temperature; t != nil {
		if *t != math.Trunc(*t) || *t > 2 {
			return "", line.Refused(line.CodeClassifier)
		}
		body["temperature"] = strconv.Itoa(int(*t))
	}
	return object(map[string]string{
		"body": object(body), "capability": line.Quoted(c.contract.Capability), c.contract.ItemIDPath: `"` + line.CustomID + `"`,
	}) + "\n", nil
}

// object is members with values that are JSON already, sorted.
func object(members map[string]string) string {
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(members)) {
		out = append(line.AppendQuoted(append(out, ','), name), ':')
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
		return line.AppendQuoted(dst, v), true
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
			if dst, ok = appendCanonical(append(line.AppendQuoted(dst, name), ':'), v[name]); !ok {
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
