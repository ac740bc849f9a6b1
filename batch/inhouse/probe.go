package inhouse

import (
	"context"

	"github.com/go-json-experiment/json"

	"rollcall/batch"
)

// oddKey is a name that no model writes unless a schema makes it. The question
// does not name it.
const oddKey = "rollcall_probe_q7"

// probeSchema permits two answers. It has no bounds and no patterns, which some
// servers do not know.
const probeSchema = `{"type":"object","properties":{"` + oddKey + `":{"type":"string","enum":["amber","cobalt"]}},"required":["` + oddKey + `"],"additionalProperties":false}`

// Probe asks for prose under a schema that permits none. It fails unless the
// answer is of the schema, is whole, and comes from the asked model: a server
// that ignores a schema says so nowhere. It asks nothing about the length of the
// context; MaxText is for that.
func (c *Client) Probe(ctx context.Context, cl *batch.Classifier) error {
	const op = "probe"
	if _, ok := c.render(cl, op, batch.NewText("")); !ok {
		return &batch.Error{Op: op, Kind: batch.Rejected, Code: codeInvalidClassifier}
	}
	body, ok := c.render(&batch.Classifier{
		Model: cl.Model, Temperature: cl.Temperature, MaxOutputTokens: 100, Schema: []byte(probeSchema),
		Instructions: "You are a friendly narrator. Answer in flowing prose.",
	}, op, batch.NewText("Tell me in two or three sentences what a quiet morning at the sea is like."))
	if !ok {
		panic("inhouse: the test question cannot be written")
	}
	a, err := c.complete(ctx, op, body)
	if err != nil {
		return err
	}
	r := decode(a.Body)
	switch {
	case !named(cl, r):
		return a.Error(op, batch.BadAnswer, CodeOtherModel)
	case r.Outcome != batch.Answered:
		return a.Error(op, batch.BadAnswer, string(r.Outcome))
	case !ofProbe(r.Content):
		return a.Error(op, batch.BadAnswer, CodeSchemaIgnored)
	}
	return nil
}

// ofProbe is whether an answer is of probeSchema.
func ofProbe(content []byte) bool {
	var members map[string]string
	if json.Unmarshal(content, &members) != nil || len(members) != 1 {
		return false
	}
	word := members[oddKey]
	return word == "amber" || word == "cobalt"
}
