package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// TokenMember is the member of a request and of its answer that holds the token.
const TokenMember = "token"

// Codes of results that Judge does not accept, in the place of a provider's code.
const (
	// CodeCrossed: the answer does not repeat the token of its request. It may be
	// the answer to another text.
	CodeCrossed = "crossed_answer"
	// CodeNoJSON: the answer is no JSON, so that nothing can be said of a token.
	CodeNoJSON = "invalid_json"
)

// EchoToken is the token of the request with a custom id. It depends on the
// custom id alone, which stands in the same line, so that it tells nothing about
// the report; and it is another for every request, so that a text cannot name
// the token of another one. 40 bits: two requests of a job of 50,000 share one
// with a probability of about 1 in 900, and such a pair would have to be crossed
// with each other to go unnoticed.
func EchoToken(customID string) string {
	sum := sha256.Sum256([]byte("rollcall echo\x00" + customID))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
}

// tokenSchema describes the member to the model. It is the same for each line of
// a job, because a schema of its own for each would be compiled for each.
const tokenSchema = `{"type":"string","description":"Copy the value of token from the user message, unchanged."}`

var errTokenSchema = errors.New("the schema must be an object with properties and required, and have no property token of its own")

// AddToken returns the schema with the token as its first required property. The
// schema must be a JSON object with the members properties and required, and must
// not have such a property itself.
func AddToken(schema []byte) ([]byte, error) {
	members, err := split(schema)
	if err != nil {
		return nil, errTokenSchema
	}
	added := 0
	for i, m := range members {
		var open byte
		var first string
		switch m.name {
		case "properties":
			inside, err := split(m.value)
			if err != nil || named(inside, TokenMember) > 0 {
				return nil, errTokenSchema
			}
			open, first = '{', `"`+TokenMember+`":`+tokenSchema
		case "required":
			if m.value.Kind() != jsontext.KindBeginArray {
				return nil, errTokenSchema
			}
			open, first = '[', `"`+TokenMember+`"`
		default:
			continue
		}
		rest := bytes.TrimLeft(m.value[1:], " \t\r\n")
		if rest[0] != open+2 { // '[' and ']' are two apart, as are '{' and '}'
			first += ","
		}
		members[i].value = append(append([]byte{open}, first...), rest...)
		added++
	}
	if added != 2 {
		return nil, errTokenSchema
	}
	return joined(members), nil
}

// CheckToken takes the token off an answer. It is false unless the content is one
// JSON object with exactly one member of that name, which holds the token of
// customID. The other members are byte for byte what they were.
func CheckToken(content []byte, customID string) (rest []byte, ok bool) {
	members, err := split(content)
	i := slices.IndexFunc(members, func(m member) bool { return m.name == TokenMember })
	if err != nil || i < 0 || named(members, TokenMember) != 1 || members[i].value.Kind() != jsontext.KindString {
		return nil, false
	}
	token, err := jsontext.AppendUnquote(nil, members[i].value)
	if err != nil || string(token) != EchoToken(customID) {
		return nil, false
	}
	return joined(slices.Delete(members, i, i+1)), true
}

func judgeToken(r Result) Result {
	rest, ok := CheckToken(r.Content, r.CustomID)
	switch {
	case ok:
		r.Content = rest
		return r
	case !jsontext.Value(r.Content).IsValid(lenient):
		return spoilt(r, CodeNoJSON)
	}
	return spoilt(r, CodeCrossed)
}

// member is a member of an object as it stands in the text.
type member struct {
	name  string
	text  jsontext.Value // the name, quoted
	value jsontext.Value
}

// named is how many members have a name, in any case: a reader that folds case
// would take one for the other.
func named(members []member, name string) (n int) {
	for _, m := range members {
		if strings.EqualFold(m.name, name) {
			n++
		}
	}
	return n
}

// lenient: what else is wrong with an answer is for its schema check to say,
// which must see it as it came.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

var errNoObject = errors.New("not one JSON object")

// split cuts an object into its members, in order.
func split(object []byte) ([]member, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(object), lenient)
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != jsontext.KindBeginObject {
		return nil, errNoObject
	}
	var out []member
	for dec.PeekKind() == jsontext.KindString {
		name, err := dec.ReadValue()
		if err != nil {
			return nil, errNoObject
		}
		m := member{text: name.Clone()}
		plain, _ := jsontext.AppendUnquote(nil, m.text) // what is no UTF-8 becomes U+FFFD
		m.name = string(plain)
		value, err := dec.ReadValue()
		if err != nil {
			return nil, errNoObject
		}
		m.value = value.Clone()
		out = append(out, m)
	}
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != jsontext.KindEndObject {
		return nil, errNoObject
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, errNoObject
	}
	return out, nil
}

func joined(members []member) []byte {
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.text...), ':'), m.value...)
	}
	return append(out, '}')
}
