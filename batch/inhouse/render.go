package inhouse

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/post"
)

// request is a chat completion request. Some servers mind the order of members.
type request struct {
	Model       string     `json:"model"`
	Temperature *float64   `json:"temperature,omitzero"`
	Seed        *int64     `json:"seed,omitzero"`
	MaxTokens   int        `json:"max_tokens"` // without it some servers write for ever
	Effort      string     `json:"reasoning_effort,omitzero"`
	Messages    [2]message `json:"messages"`
	Format      any        `json:"response_format"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// nested and direct are the two forms of response_format.
type nested struct {
	Type   string `json:"type"`
	Schema struct {
		Name   string         `json:"name"`
		Strict bool           `json:"strict"`
		Schema jsontext.Value `json:"schema"`
	} `json:"json_schema"`
}

type direct struct {
	Type   string         `json:"type"`
	Schema jsontext.Value `json:"schema"`
}

// report is the user message: the text stands inside a JSON object, so that the
// model can tell where it begins and ends whatever is in it.
type report struct {
	Token  string `json:"token,omitzero"` // with Echo
	Report string `json:"report"`
}

// render makes the body of a call; not ok for a classifier that cannot be asked.
func (c *Client) render(cl *batch.Classifier, customID string, text batch.Text) (body []byte, ok bool) {
	schema := jsontext.Value(cl.Schema)
	said := report{Report: post.Valid(text.Reveal())}
	if cl.Echo {
		with, err := batch.AddToken(cl.Schema)
		if err != nil {
			return nil, false
		}
		schema, said.Token = with, batch.EchoToken(customID)
	}
	// IsValid refuses a name that stands twice.
	if cl.Model == "" || cl.MaxOutputTokens <= 0 || !schema.IsValid() || schema.Kind() != jsontext.KindBeginObject {
		return nil, false
	}
	if t := cl.Temperature; t != nil && (!(*t >= 0) || math.IsInf(*t, 0)) { // NaN is not >= 0
		return nil, false
	}
	user, err := json.Marshal(said)
	if err != nil {
		return nil, false
	}
	body, err = json.Marshal(request{
		Model: cl.Model, Temperature: cl.Temperature, Seed: c.cfg.Seed, MaxTokens: cl.MaxOutputTokens, Effort: c.cfg.ReasoningEffort,
		Messages: [2]message{{"system", cl.Instructions}, {"user", string(user)}},
		Format:   c.format(schema),
	})
	return body, err == nil // a model or instructions that are not UTF-8
}

func (c *Client) format(schema jsontext.Value) any {
	const kind = "json_schema"
	if c.cfg.SchemaForm == SchemaDirect {
		return direct{kind, schema}
	}
	n := nested{Type: kind}
	n.Schema.Name, n.Schema.Strict, n.Schema.Schema = "classification", true, schema
	return n
}

// runesPerToken is more code points than a token holds on average, in any language.
const runesPerToken = 16

// leastTokens is a number that no tokenizer stays below for these texts: they
// make at least one token of a word.
func leastTokens(texts ...string) int64 {
	words, visible := 0, 0
	for _, s := range texts {
		for word := range strings.FieldsFuncSeq(s, unicode.IsSpace) {
			words++
			visible += utf8.RuneCountInString(word)
		}
	}
	return int64(max(words, visible/runesPerToken))
}
