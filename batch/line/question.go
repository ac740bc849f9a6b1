package line

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
)

// strictForJS is said in full, because formatting is lax by default.
var strictForJS = json.JoinOptions(jsontext.EscapeForJS(true), jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false))

// Compact is a JSON object without a name twice, a line feed, or space between
// its tokens. ok is false when it is none.
func Compact(object []byte) (v jsontext.Value, ok bool) {
	v = bytes.Clone(object)
	return v, v.Compact(strictForJS) == nil && v.Kind() == jsontext.KindBeginObject
}

// Schema checks what a model that is asked needs, and returns the schema as it is
// sent: with its token, and compact.
func Schema(c *batch.Classifier) (jsontext.Value, error) {
	asked := c.Schema
	if c.Echo {
		var err error
		if asked, err = batch.AddToken(asked); err != nil {
			return nil, Refused(CodeClassifier)
		}
	}
	schema, ok := Compact(asked)
	if !ok {
		return nil, Refused(CodeClassifier)
	}
	// Scores by category are not what a model that is asked gives.
	if c.Model == "" || !utf8.ValidString(c.Model) || c.MaxOutputTokens <= 0 || !utf8.ValidString(c.Instructions) || len(c.Thresholds) > 0 {
		return nil, Refused(CodeClassifier)
	}
	if t := c.Temperature; t != nil && (!(*t >= 0) || math.IsInf(*t, 0)) { // NaN is not >= 0
		return nil, Refused(CodeClassifier)
	}
	return schema, nil
}

// Temperature is the member of a request, with a comma before it; "" for none.
func Temperature(c *batch.Classifier) string {
	if c.Temperature == nil {
		return ""
	}
	return `,"temperature":` + strconv.FormatFloat(*c.Temperature, 'f', -1, 64)
}

// SchemaName is name within the alphabet and length that OpenAI's API takes, which
// others follow.
func SchemaName(name string) string {
	b := []byte(name)
	for i := range b {
		if !batch.ValidCustomID(string(b[i : i+1])) {
			b[i] = '_'
		}
	}
	if len(b) == 0 {
		return "classification"
	}
	return string(b[:min(len(b), 64)])
}
