package reconcile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"rollcall/batch"
)

// compileSchema compiles the JSON Schema of an answer. It reads nothing from
// outside: a reference to another document is an error.
func compileSchema(schema []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, errors.New("is not JSON")
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	const at = "rollcall:answer"
	if err := c.AddResource(at, doc); err != nil {
		return nil, fmt.Errorf("is not a JSON Schema: %w", err)
	}
	s, err := c.Compile(at)
	if err != nil {
		return nil, fmt.Errorf("is not a JSON Schema: %w", err)
	}
	return s, nil
}

// What is wrong with an answer. The words are stored as the item's code.
const (
	faultTooLarge         answerFault = "answer_too_large"
	faultJSON             answerFault = "invalid_json"
	faultDepth            answerFault = "too_deep"
	faultNumber           answerFault = "number_out_of_range"
	faultDuplicate        answerFault = "duplicate_key"
	faultSchema           answerFault = "schema"
	faultLabel            answerFault = "label"
	faultEvidenceShape    answerFault = "evidence_shape"
	faultEvidenceMissing  answerFault = "evidence_missing"
	faultEvidenceNotFound answerFault = "evidence_not_found"
)

// answerFault is why an answer is not used. It holds no part of the answer.
type answerFault string

func (f answerFault) Error() string { return "answer: " + string(f) }

// An answer beyond these bounds is no answer to the question. They keep a
// hostile one from costing more than it is long.
const (
	maxAnswer = 1 << 20 // bytes
	maxDepth  = 32
	maxQuotes = 256
)

// answer is what an accepted answer says.
type answer struct {
	label    string
	evidence string // positions in the text, as JSON
	content  []byte // the answer with the label as the schema spells it
}

// answerCheck decides whether the model's content answers the question of one
// policy version. It may be used by several goroutines.
type answerCheck struct {
	schema   *jsonschema.Schema
	evidence map[string]bool   // by label: whether the answer must quote the text
	names    map[string]string // the schema's property names, by their folded form
	labels   map[string]string // the labels likewise; without those that differ by case alone
}

func newAnswerCheck(c *Classifier) (*answerCheck, error) {
	schema, err := compileSchema(c.Schema)
	if err != nil {
		return nil, err
	}
	a := &answerCheck{schema: schema, evidence: map[string]bool{}, names: map[string]string{}, labels: map[string]string{}}
	twice := map[string]bool{}
	for _, l := range c.Labels {
		a.evidence[l.Name] = l.EvidenceRequired
		twice[fold(l.Name)] = a.labels[fold(l.Name)] != ""
		a.labels[fold(l.Name)] = l.Name
	}
	maps.DeleteFunc(a.labels, func(folded, _ string) bool { return twice[folded] })
	for name := range schema.Properties {
		a.names[fold(name)] = name
	}
	return a, nil
}

// fits says whether answers to the schema can hold what is read from them.
func (a *answerCheck) fits() error {
	if _, ok := a.schema.Properties["label"]; !ok {
		return errors.New(`has no property "label" at its top`)
	}
	_, quotes := a.schema.Properties["evidence"]
	for label, required := range a.evidence {
		if required && !quotes {
			return fmt.Errorf(`has no property "evidence" at its top, which label %q requires`, label)
		}
	}
	return nil
}

// read validates an answer: strict JSON, parsed once; the schema; and what the
// schema cannot say. text gives the input that was classified, and is asked for
// only if the answer quotes it. An error is an answerFault, or comes from text.
func (a *answerCheck) read(content []byte, text func() (batch.Text, error)) (answer, error) {
	value, err := parseAnswer(content)
	if err != nil {
		return answer{}, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return answer{}, faultSchema
	}
	for name := range object {
		// Some other reader of the stored answer may not mind case.
		if meant, ok := a.names[fold(name)]; ok && meant != name {
			return answer{}, faultDuplicate
		}
	}
	if content, err = a.respell(object, content); err != nil {
		return answer{}, err
	}
	if a.schema.Validate(value) != nil { // its error quotes the answer
		return answer{}, faultSchema
	}
	label, ok := object["label"].(string)
	if !ok {
		return answer{}, faultLabel
	}
	required, ok := a.evidence[label]
	if !ok {
		return answer{}, faultLabel
	}
	evidence, err := locate(object["evidence"], required, text)
	if err != nil {
		return answer{}, err
	}
	return answer{label: label, evidence: evidence, content: content}, nil
}

// respell gives the label of an answer the schema's spelling: a processor may
// answer with a label in another case, and no reader must have to know. Where two
// labels differ by case alone, nobody knows which one was meant, and the answer
// stays as it is.
func (a *answerCheck) respell(object map[string]any, content []byte) ([]byte, error) {
	told, ok := object["label"].(string)
	meant, known := a.labels[fold(told)]
	if !ok || !known || meant == told {
		return content, nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(content))
	if _, err := dec.ReadToken(); err != nil { // the brace
		return nil, faultJSON
	}
	for {
		name, err := dec.ReadToken()
		if err != nil || name.Kind() != jsontext.KindString {
			return nil, faultJSON
		}
		isLabel := name.String() == "label"
		value, err := dec.ReadValue()
		if err != nil {
			return nil, faultJSON
		}
		if !isLabel {
			continue
		}
		quoted, err := jsontext.AppendQuote(nil, meant)
		if err != nil {
			return nil, faultJSON
		}
		end := dec.InputOffset()
		object["label"] = meant
		return slices.Concat(content[:end-int64(len(value))], quoted, content[end:]), nil
	}
}

// locate finds each quote in the text, word for word, and gives the positions
// of its first occurrence, in code points. A quote that is not there shows that
// the answer is about something else than this text.
func locate(quotes any, required bool, text func() (batch.Text, error)) (string, error) {
	list, ok := quotes.([]any)
	switch {
	case quotes != nil && !ok, len(list) > maxQuotes:
		return "", faultEvidenceShape
	case len(list) == 0 && required:
		return "", faultEvidenceMissing
	case len(list) == 0:
		return "[]", nil
	}
	input, err := text()
	if err != nil {
		return "", err
	}
	at := []byte("[")
	for i, q := range list {
		quote, ok := q.(string)
		if !ok {
			return "", faultEvidenceShape
		}
		where := strings.Index(input.Reveal(), quote)
		if where < 0 || !tells(quote, input.Reveal()) {
			return "", faultEvidenceNotFound
		}
		if i > 0 {
			at = append(at, ',')
		}
		start := utf8.RuneCountInString(input.Reveal()[:where])
		at = fmt.Appendf(at, "[%d,%d]", start, start+utf8.RuneCountInString(quote))
	}
	return string(append(at, ']')), nil
}

// tells says whether a quote can show anything. One letter stands in almost
// every text; one ideograph or pictograph is a word. A text of one letter can
// only be quoted whole.
func tells(quote, text string) bool {
	visible, word := 0, false
	for _, r := range quote {
		if unicode.IsGraphic(r) && !unicode.IsSpace(r) {
			visible++
			word = word || unicode.IsSymbol(r) || unicode.Is(unicode.Ideographic, r)
		}
	}
	return visible >= 2 || word || visible == 1 && strings.TrimSpace(quote) == strings.TrimSpace(text)
}

// parseAnswer reads one JSON value and nothing behind it. Names that stand
// twice in an object, also in another case, are refused at every depth: another
// reader might take the other one.
func parseAnswer(content []byte) (any, error) {
	if len(content) > maxAnswer {
		return nil, faultTooLarge
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(content))
	value, err := parseValue(dec)
	if err == nil {
		if _, err = dec.ReadToken(); err == io.EOF {
			return value, nil
		}
	}
	var fault answerFault
	switch {
	case errors.As(err, &fault):
		return nil, fault
	case errors.Is(err, jsontext.ErrDuplicateName):
		return nil, faultDuplicate
	}
	return nil, faultJSON
}

func parseValue(dec *jsontext.Decoder) (any, error) {
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case jsontext.KindString:
		return token.String(), nil
	case jsontext.KindNumber:
		// A number that only arbitrary precision can hold could cost the
		// validator gigabytes.
		n, err := strconv.ParseFloat(token.String(), 64)
		if err != nil {
			return nil, faultNumber
		}
		return n, nil
	case jsontext.KindTrue, jsontext.KindFalse:
		return token.Bool(), nil
	case jsontext.KindNull:
		return nil, nil
	}
	if dec.StackDepth() > maxDepth {
		return nil, faultDepth
	}
	if token.Kind() == jsontext.KindBeginObject {
		return parseObject(dec)
	}
	return parseArray(dec)
}

func parseObject(dec *jsontext.Decoder) (any, error) {
	object, folded := map[string]any{}, map[string]bool{}
	for dec.PeekKind() != jsontext.KindEndObject {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		if folded[fold(name)] {
			return nil, faultDuplicate
		}
		folded[fold(name)] = true
		if object[name], err = parseValue(dec); err != nil {
			return nil, err
		}
	}
	_, err := dec.ReadToken()
	return object, err
}

func parseArray(dec *jsontext.Decoder) (any, error) {
	array := []any{}
	for dec.PeekKind() != jsontext.KindEndArray {
		value, err := parseValue(dec)
		if err != nil {
			return nil, err
		}
		array = append(array, value)
	}
	_, err := dec.ReadToken()
	return array, err
}

// fold gives names that differ only by case one form. It is wider than
// strings.ToLower: a long s and the Kelvin sign are letters in disguise.
func fold(name string) string {
	plain := func(r rune) bool { return r < utf8.RuneSelf && (r < 'A' || r > 'Z') }
	if strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 {
		return name
	}
	return strings.Map(func(r rune) rune {
		least := r
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			least = min(least, o)
		}
		return unicode.ToLower(least)
	}, name)
}
