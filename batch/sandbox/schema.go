package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// schema is the part of JSON Schema that strict structured output allows and
// the sandbox understands.
type schema struct {
	Type       typeNames        `json:"type"`
	Enum       []jsontext.Value `json:"enum"`
	Const      jsontext.Value   `json:"const"`
	AnyOf      []*schema        `json:"anyOf"`
	Properties properties       `json:"properties"`
	Required   []string         `json:"required"`
	Additional *bool            `json:"additionalProperties"`
	Items      *schema          `json:"items"`
	MinItems   int              `json:"minItems"`
	MinLength  int              `json:"minLength"`
	MaxLength  *int             `json:"maxLength"`
	Minimum    *float64         `json:"minimum"`
	ExclMin    *float64         `json:"exclusiveMinimum"`
	Maximum    *float64         `json:"maximum"`
	ExclMax    *float64         `json:"exclusiveMaximum"`
	MultipleOf *float64         `json:"multipleOf"`
	Pattern    string           `json:"pattern"`
	Format     string           `json:"format"`

	Unknown map[string]jsontext.Value `json:",embed"`
}

// typeNames is "type": one name or several.
type typeNames []string

func (t *typeNames) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, (*[]string)(t))
	}
	*t = make([]string, 1)
	return json.Unmarshal(b, &(*t)[0])
}

// properties keep the order in which the schema names them, because a model
// answers in that order.
type properties []property

type property struct {
	name   string
	schema *schema
}

func (p *properties) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if k := d.PeekKind(); k != '{' {
		return errors.New("properties is not an object")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		var next property
		if err := errors.Join(json.UnmarshalDecode(d, &next.name), json.UnmarshalDecode(d, &next.schema)); err != nil {
			return err
		}
		*p = append(*p, next)
	}
	_, err := d.ReadToken()
	return err
}

// annotations may stand in a schema without a meaning for the answer.
var annotations = []string{"description", "title", "$schema", "maxItems", "default", "examples"}

// parseSchema reads a schema and applies the rules of strict structured output.
// Its error is meant for the client and names properties, nothing else.
func parseSchema(b []byte) (*schema, error) {
	var s schema
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, errors.New("the schema is not one that the sandbox can read")
	}
	if !slices.Contains(s.Type, "object") || len(s.AnyOf) > 0 {
		return nil, errors.New("the schema's root must be an object and not anyOf")
	}
	return &s, s.strict("root")
}

func (s *schema) strict(at string) error {
	if s == nil {
		return fmt.Errorf("%s: the schema is null", at)
	}
	for name := range s.Unknown {
		if !slices.Contains(annotations, name) {
			return fmt.Errorf("%s: %s is not supported", at, name)
		}
	}
	nullable := slices.Contains(s.Type, "null")
	switch {
	case s.Pattern != "" && !nullable:
		return fmt.Errorf("%s: the sandbox cannot answer a pattern", at)
	case slices.Contains(s.Type, "array") && s.Items == nil:
		return fmt.Errorf("%s: items is missing", at)
	}
	if slices.Contains(s.Type, "object") {
		if err := s.strictObject(at); err != nil {
			return err
		}
	}
	if s.Items != nil {
		return s.Items.strict(at + ".items")
	}
	for _, a := range s.AnyOf {
		if err := a.strict(at + ".anyOf"); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) strictObject(at string) error {
	if s.Additional == nil || *s.Additional {
		return fmt.Errorf("%s: additionalProperties must be false", at)
	}
	for _, p := range s.Properties {
		if !slices.Contains(s.Required, p.name) {
			return fmt.Errorf("%s: required must name every property; %s is missing", at, p.name)
		}
		if err := p.schema.strict(at + "." + p.name); err != nil {
			return err
		}
	}
	return nil
}

// labels are the string values that the property label may have.
func (s *schema) labels() []string {
	for _, p := range s.Properties {
		if p.name != "label" {
			continue
		}
		var out []string
		for _, e := range p.schema.Enum {
			var text string
			if json.Unmarshal(e, &text) == nil {
				out = append(out, text)
			}
		}
		return out
	}
	return nil
}

// plain is a value that fits the schema and says nothing: null where that is
// allowed.
func (s *schema) plain() any {
	switch {
	case len(s.Const) > 0:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case slices.Contains(s.Type, "null"):
		return nil
	case len(s.AnyOf) > 0:
		for _, a := range s.AnyOf {
			if slices.Contains(a.Type, "null") {
				return nil
			}
		}
		return s.AnyOf[0].plain()
	case len(s.Type) == 0:
		return nil
	}
	switch s.Type[0] {
	case "string":
		return s.plainString()
	case "integer", "number":
		return s.plainNumber()
	case "boolean":
		return false
	case "array":
		items := make([]any, s.MinItems)
		for i := range items {
			items[i] = s.Items.plain()
		}
		return items
	default:
		var o object
		for _, p := range s.Properties {
			o = append(o, member{p.name, p.schema.plain()})
		}
		return o
	}
}

var formats = map[string]string{
	"date-time": "2000-01-01T00:00:00Z", "date": "2000-01-01", "time": "00:00:00Z", "duration": "PT0S",
	"email": "nobody@example.invalid", "hostname": "example.invalid", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
	"uuid": "00000000-0000-4000-8000-000000000000",
}

func (s *schema) plainString() string {
	if v, ok := formats[s.Format]; ok {
		return v
	}
	text := "stand-in"
	text += strings.Repeat("-", max(s.MinLength-len(text), 0))
	return s.fit(text)
}

// fit cuts text to the longest that the schema allows.
func (s *schema) fit(text string) string {
	if s == nil || s.MaxLength == nil {
		return text
	}
	for i, n := 0, 0; i < len(text); n++ {
		if n == *s.MaxLength {
			return text[:i]
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		i += size
	}
	return text
}

// plainNumber is 0, or the number nearest to it that the bounds allow.
func (s *schema) plainNumber() float64 {
	step := 1.0
	if s.MultipleOf != nil && *s.MultipleOf > 0 {
		step = *s.MultipleOf
	}
	v := 0.0
	switch {
	case s.Minimum != nil && *s.Minimum > 0:
		v = math.Ceil(*s.Minimum/step) * step
	case s.ExclMin != nil && *s.ExclMin >= 0:
		v = (math.Floor(*s.ExclMin/step) + 1) * step
	case s.Maximum != nil && *s.Maximum < 0:
		v = math.Floor(*s.Maximum/step) * step
	case s.ExclMax != nil && *s.ExclMax <= 0:
		v = (math.Ceil(*s.ExclMax/step) - 1) * step
	}
	if s.Type[0] == "number" && s.MultipleOf == nil {
		v = s.between(v)
	}
	return v
}

// between keeps a number inside narrow bounds such as 0.2 to 0.4.
func (s *schema) between(v float64) float64 {
	low, high := v, v
	for _, b := range []*float64{s.Minimum, s.ExclMin} {
		if b != nil {
			low = *b
		}
	}
	for _, b := range []*float64{s.Maximum, s.ExclMax} {
		if b != nil {
			high = *b
		}
	}
	if v < low || v > high || s.ExclMin != nil && v <= low || s.ExclMax != nil && v >= high {
		return (low + high) / 2
	}
	return v
}

// object is a JSON object with its members in order. A name may be there twice.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := jsontext.AppendQuote(nil, m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value, jsontext.AllowDuplicateNames(true))
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// with returns a copy in which f has seen every member.
func (o object) with(f func(*member)) object {
	out := slices.Clone(o)
	for i := range out {
		f(&out[i])
	}
	return out
}
