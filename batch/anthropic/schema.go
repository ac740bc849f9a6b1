package anthropic

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Structured output takes a part of JSON Schema. A schema with bounds of numbers
// or lengths is refused whole, which in a batch fails every request hours later.
// So bounds are said in words, as Anthropic's own clients do, and kept by whoever
// checks the answers against the whole schema; what says nothing about an answer
// is left out.
var (
	bounds = []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
		"minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties",
	}
	remarks = []string{"$schema", "$id", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)

// Keywords by what they hold.
var (
	ofSchema  = []string{"items", "additionalProperties", "contains", "not"}
	ofSchemas = []string{"anyOf", "allOf", "oneOf", "prefixItems"}
	ofNames   = []string{"properties", "$defs", "definitions"}
)

type keyword struct {
	name  string
	value jsontext.Value
}

// sendable is the schema as the API takes it, with its keywords in their order.
// It changes the same schema in the same way each time.
func sendable(schema jsontext.Value) (jsontext.Value, error) {
	if schema.Kind() != jsontext.KindBeginObject {
		return schema, nil // true and false are schemas too
	}
	all, err := keywords(schema)
	if err != nil {
		return nil, err
	}
	var kept []keyword
	var said []string
	for _, k := range all {
		switch {
		case k.name == "minItems" && (string(k.value) == "0" || string(k.value) == "1"):
		case slices.Contains(bounds, k.name):
			said = append(said, k.name+": "+string(k.value))
			continue
		case slices.Contains(remarks, k.name):
			continue
		}
		if k.value, err = inner(k); err != nil {
			return nil, err
		}
		kept = append(kept, k)
	}
	if len(said) > 0 {
		if kept, err = describe(kept, "("+strings.Join(said, ", ")+")"); err != nil {
			return nil, err
		}
	}
	return object(kept)
}

// inner is the value of a keyword with the schemas in it made sendable.
func inner(k keyword) (jsontext.Value, error) {
	switch kind := k.value.Kind(); {
	case slices.Contains(ofSchema, k.name):
		return sendable(k.value)
	case slices.Contains(ofSchemas, k.name) && kind == jsontext.KindBeginArray:
		var list []jsontext.Value
		if err := json.Unmarshal(k.value, &list); err != nil {
			return nil, err
		}
		for i, s := range list {
			var err error
			if list[i], err = sendable(s); err != nil {
				return nil, err
			}
		}
		return json.Marshal(list)
	case slices.Contains(ofNames, k.name) && kind == jsontext.KindBeginObject:
		named, err := keywords(k.value)
		if err != nil {
			return nil, err
		}
		for i, n := range named {
			if named[i].value, err = sendable(n.value); err != nil {
				return nil, err
			}
		}
		return object(named)
	}
	return k.value, nil
}

// describe adds words to the description, or makes one.
func describe(all []keyword, words string) ([]keyword, error) {
	i := slices.IndexFunc(all, func(k keyword) bool { return k.name == "description" })
	if i < 0 {
		i, all = len(all), append(all, keyword{"description", jsontext.Value(`""`)})
	}
	var text string
	if err := json.Unmarshal(all[i].value, &text); err != nil {
		return nil, err
	}
	quoted, err := jsontext.AppendQuote(nil, strings.TrimSpace(text+" "+words))
	all[i].value = quoted
	return all, err
}

// keywords are the members of an object, in their order.
func keywords(raw jsontext.Value) ([]keyword, error) {
	dec := jsontext.NewDecoder(strings.NewReader(string(raw)))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var all []keyword
	for dec.PeekKind() == jsontext.KindString {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		k := keyword{name: name.String()}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		k.value = value.Clone()
		all = append(all, k)
	}
	_, err := dec.ReadToken()
	return all, err
}

func object(all []keyword) (jsontext.Value, error) {
	out := []byte{'{'}
	for i, k := range all {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = jsontext.AppendQuote(out, k.name); err != nil {
			return nil, err
		}
		out = append(append(out, ':'), k.value...)
	}
	return append(out, '}'), nil
}
