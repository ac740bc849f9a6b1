package openai

import (
	"strconv"
	"unicode/utf8"

	"rollcall/batch"
	"rollcall/batch/line"
)

// AppendRequest appends a request for the account's endpoint. In one that a model
// answers, the text stands inside a JSON object inside the user message,
// {"report":"…"}, so that the model can tell where it begins and ends whatever is
// in it. With Echo the object has a member token before it, see batch.EchoToken.
func (c *Client) AppendRequest(dst []byte, cl *batch.Classifier, customID string, text batch.Text) ([]byte, error) {
	return c.lines.Append(dst, cl, customID, text, c.template)
}

// template depends on the account and the classifier alone.
func (c *Client) template(cl *batch.Classifier) (string, error) {
	model, ok := c.nameOf(cl.Model)
	if !ok {
		return "", line.Refused(line.CodeClassifier)
	}
	head := `{"custom_id":"` + line.CustomID + `","method":"POST","url":"` + c.path() + `","body":{"model":` + line.Quoted(model)
	if c.cfg.Endpoint == EndpointModerations {
		return moderation(head, cl)
	}
	schema, err := line.Schema(cl)
	if err != nil {
		return "", err
	}
	format := `"json_schema","name":`
	if c.cfg.Endpoint != EndpointResponses {
		format = `"json_schema","json_schema":{"name":`
	}
	format += line.Quoted(line.SchemaName(cl.Name)) + `,"strict":true,"schema":` + string(schema) + "}}}}\n"
	if c.cfg.Endpoint == EndpointResponses {
		return head + response(cl) + format, nil
	}
	d := c.cfg.Dialect
	d.complete()
	return head + chat(cl, &d) + format, nil
}

// nameOf is what stands in a line for a model.
func (c *Client) nameOf(model string) (name string, ok bool) {
	name = model
	if len(c.cfg.Deployments) > 0 {
		name = c.cfg.Deployments[model]
	}
	return name, name != "" && utf8.ValidString(name)
}

// chat is what stands between the model and the form of the answer.
func chat(cl *batch.Classifier, d *Dialect) string {
	store := `,"store":false`
	if d.OmitStore {
		store = ""
	}
	return store + line.Temperature(cl) + `,"` + d.TokensField + `":` + strconv.Itoa(cl.MaxOutputTokens) +
		`,"messages":[{"role":"` + d.Role + `","content":` + line.Quoted(cl.Instructions) +
		`},{"role":"user","content":"` + line.Report(cl) + `"}],"response_format":{"type":`
}

// response is the same of a response. It is stored for 30 days unless the request
// says otherwise, so it always does.
func response(cl *batch.Classifier) string {
	return `,"store":false` + line.Temperature(cl) + `,"max_output_tokens":` + strconv.Itoa(cl.MaxOutputTokens) +
		`,"instructions":` + line.Quoted(cl.Instructions) +
		`,"input":[{"role":"user","content":"` + line.Report(cl) + `"}],"text":{"format":{"type":`
}

// moderation sends the text and nothing else. Without thresholds no answer would
// come of it, and nothing in it can be repeated.
func moderation(head string, cl *batch.Classifier) (string, error) {
	if cl.Echo || batch.CheckThresholds(cl) != nil {
		return "", line.Refused(line.CodeClassifier)
	}
	return head + `,"input":"` + line.Text + "\"}}\n", nil
}
