package anthropic

import (
	"strconv"

	"rollcall/batch"
	"rollcall/batch/line"
)

// AppendRequest appends a Messages request. The text stands inside a JSON object
// inside the user message, {"report":"…"}, so that the model can tell where it
// begins and ends whatever is in it. With Echo the object has a member token
// before it, see batch.EchoToken, and the schema, or that of the tool, asks for
// it first.
//
// The line holds no other line feed than its last byte, which Create relies on.
func (c *Client) AppendRequest(dst []byte, cl *batch.Classifier, customID string, text batch.Text) ([]byte, error) {
	return c.lines.Append(dst, cl, customID, text, c.template)
}

func (c *Client) template(cl *batch.Classifier) (string, error) {
	params, err := c.params(cl)
	return `{"custom_id":"` + line.CustomID + `","params":` + params + "}\n", err
}

// params is the template of the body of a Messages request. It depends on the
// classifier and the configuration alone.
func (c *Client) params(cl *batch.Classifier) (string, error) {
	schema, err := line.Schema(cl)
	if err != nil {
		return "", err
	}
	if cl.Temperature != nil && !c.cfg.takesTemperature() {
		return "", line.Refused(CodeTemperature)
	}
	if schema, err = sendable(schema); err != nil {
		return "", line.Refused(line.CodeClassifier)
	}
	sent, ok := line.Compact(schema) // names may hold what a line must not
	if !ok {
		return "", line.Refused(line.CodeClassifier)
	}
	system := ""
	if cl.Instructions != "" { // an empty text is refused
		system = `,"system":` + line.Quoted(cl.Instructions)
	}
	return `{"model":` + line.Quoted(cl.Model) + `,"max_tokens":` + strconv.Itoa(cl.MaxOutputTokens) + line.Temperature(cl) + system +
		`,"messages":[{"role":"user","content":"` + line.Report(cl) + `"}],` + output(c.cfg.Output, string(sent)) + `}`, nil
}

// toolName is the tool that the model has to call with OutputTool.
const toolName = "record_classification"

// output are the members that hold the answer to the schema. Without
// disable_parallel_tool_use a model may call the tool twice.
func output(o Output, schema string) string {
	if o == OutputTool {
		return `"tools":[{"name":"` + toolName + `","description":"Records the classification of the report.","strict":true,"input_schema":` + schema +
			`}],"tool_choice":{"type":"tool","name":"` + toolName + `","disable_parallel_tool_use":true}`
	}
	return `"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}`
}
