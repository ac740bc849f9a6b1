package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// messageParams is what the sandbox reads of a Messages request.
type messageParams struct {
	Model     string `json:"model"`
	MaxTokens *int64 `json:"max_tokens"`
	Messages  []struct {
		Role    string         `json:"role"`
		Content jsontext.Value `json:"content"`
	} `json:"messages"`
	Stream       bool           `json:"stream"`
	Temperature  jsontext.Value `json:"temperature"`
	TopP         jsontext.Value `json:"top_p"`
	TopK         jsontext.Value `json:"top_k"`
	Speed        jsontext.Value `json:"speed"`
	Betas        jsontext.Value `json:"betas"`
	OutputConfig *struct {
		Format *struct {
			Type   string         `json:"type"`
			Schema jsontext.Value `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	Tools []struct {
		Name   string         `json:"name"`
		Strict bool           `json:"strict"`
		Schema jsontext.Value `json:"input_schema"`
	} `json:"tools"`
	ToolChoice *struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"tool_choice"`
}

// check applies the rules about the parameters of one request, which the API
// checks at once only when the request comes alone.
func (p *messageParams) check(version string, batched bool) *messageError {
	switch {
	case p.Model == "":
		return invalidMessage("model: Field required")
	case p.MaxTokens == nil:
		return invalidMessage("max_tokens: Field required")
	case *p.MaxTokens < 1:
		return invalidMessage("max_tokens: must be greater than or equal to 1")
	case len(p.Messages) == 0:
		return invalidMessage("messages: Field required")
	case p.Messages[0].Role != "user" || len(p.Messages[0].Content) == 0:
		return invalidMessage("messages: first message must use the user role")
	case p.Stream:
		return invalidMessage("stream: not supported here")
	case batched && len(p.Speed) > 0:
		return invalidMessage("speed: not supported in batches")
	case len(p.Betas) > 0:
		return invalidMessage("betas: Extra inputs are not permitted")
	case version >= samplingEnds && len(p.Temperature)+len(p.TopP)+len(p.TopK) > 0:
		return invalidMessage("temperature, top_p and top_k are not supported by this version")
	}
	return nil
}

// question is the schema that the answer must fit, and the tool that must be
// called with it; neither for a plain conversation.
func (p *messageParams) question() (schema jsontext.Value, tool string) {
	if p.OutputConfig != nil && p.OutputConfig.Format != nil && p.OutputConfig.Format.Type == "json_schema" {
		return p.OutputConfig.Format.Schema, ""
	}
	if p.ToolChoice == nil || p.ToolChoice.Type != "tool" {
		return nil, ""
	}
	for _, t := range p.Tools {
		if t.Name == p.ToolChoice.Name {
			return t.Schema, t.Name
		}
	}
	return nil, ""
}

// said is what the stand-in says to one request.
type said struct {
	reply
	tool     string // the answer is a call of it
	stop     string // the reason to stop, where a fault has another one
	category string // of a refusal
	thinking bool
	twice    bool
	errored  *messageError
}

// message answers the parameters of a request.
func (p *responder) message(params jsontext.Value, version string, batched bool) said {
	var req messageParams
	if err := json.Unmarshal(params, &req); err != nil {
		return said{errored: invalidMessage("Input should be a valid dictionary")}
	}
	if e := req.check(version, batched); e != nil {
		return said{errored: e}
	}
	text, token := req.report()
	a := said{reply: reply{finish: "stop", tokens: tokenCount{Prompt: tokens(len(params))}}}
	raw, tool := req.question()
	if raw == nil {
		a.content = "This is a stand-in, not a model. It saw " + plural(len(strings.Fields(text)), "word") + "."
		a.count()
		return a
	}
	if !bytes.Equal(p.raw, raw) {
		p.raw = raw.Clone()
		if p.parsed, p.err = parseSchema(p.raw); p.err == nil {
			p.err = p.parsed.unbounded("schema")
		}
	}
	if p.err != nil {
		return said{errored: invalidMessage("output_config.format.schema: %v", p.err)}
	}
	a.tool, a.labels = tool, p.parsed.labels()
	a.setAnswer(answerTo(p.parsed, a.labels, question{text: text, token: token}))
	if limit := *req.MaxTokens; a.tokens.Completion > limit {
		a.content, a.finish = strings.ToValidUTF8(a.content[:limit*bytesPerToken], ""), "length"
		a.count()
	}
	return a
}

// report is the text to judge, as reportOf has it.
func (p *messageParams) report() (text, token string) {
	for i := len(p.Messages) - 1; i >= 0; i-- {
		if p.Messages[i].Role == "user" {
			return unwrapReport(textOf(p.Messages[i].Content))
		}
	}
	return "", ""
}

// unbounded refuses what this API does not take in a schema.
func (s *schema) unbounded(at string) error {
	_, maxItems := s.Unknown["maxItems"]
	if s.Minimum != nil || s.Maximum != nil || s.ExclMin != nil || s.ExclMax != nil || s.MultipleOf != nil || s.MinLength != 0 || s.MaxLength != nil || s.MinItems > 1 || maxItems {
		return fmt.Errorf("%s: bounds of numbers and lengths are not supported", at)
	}
	for _, p := range s.Properties {
		if err := p.schema.unbounded(at + "." + p.name); err != nil {
			return err
		}
	}
	if s.Items != nil {
		return s.Items.unbounded(at + ".items")
	}
	for _, a := range s.AnyOf {
		if err := a.unbounded(at + ".anyOf"); err != nil {
			return err
		}
	}
	return nil
}

// spoil alters an answer as an answer fault says.
func (a *said) spoil(f Fault) {
	if a.errored != nil {
		return
	}
	switch f.Name {
	case "refusal":
		a.stop, a.category = "refusal", "general_harms"
	case "content_filter":
		a.stop, a.category = "refusal", "bio"
	case "length":
		a.stop, a.content = "max_tokens", a.content[:len(a.content)/2]
	case "stop_reason":
		a.stop = f.text("word")
	case "thinking":
		a.thinking = true
	case "two_calls":
		a.twice = true
	case "item_error":
		a.errored = itemMessageError(usualClass(int(f.number("status"))), f.text("code"), "default")
	case "item_class":
		a.errored = itemMessageError(f.text("class"), f.text("code"), "none")
	case "label_case":
		a.setAnswer(a.answer.with(func(m *member) {
			if l, ok := m.value.(string); ok && m.name == "label" {
				m.value = strings.ToUpper(l)
			}
		}))
	default:
		a.reply.spoil(f)
	}
}

func itemMessageError(class, code, without string) *messageError {
	e := &messageError{Type: class, Message: "The sandbox was asked to fail this item."}
	if code != without {
		e.Details = &errorDetails{code}
	}
	return e
}

type messageBody struct {
	ID          string         `json:"id"`
	Type        string         `json:"type"`
	Role        string         `json:"role"`
	Model       string         `json:"model"`
	Content     []messageBlock `json:"content"`
	StopReason  string         `json:"stop_reason"`
	StopSeq     any            `json:"stop_sequence"`
	StopDetails any            `json:"stop_details"`
	Usage       messageUsage   `json:"usage"`
	Note        string         `json:"note,omitempty"` // only with the fault line_separator
}

type messageBlock struct {
	Type      string         `json:"type"`
	Text      *string        `json:"text,omitzero"`
	Thinking  string         `json:"thinking,omitempty"`
	Signature string         `json:"signature,omitempty"`
	ID        string         `json:"id,omitempty"`
	Name      string         `json:"name,omitempty"`
	Input     jsontext.Value `json:"input,omitzero"`
}

type stopDetails struct {
	Type     string `json:"type"`
	Category string `json:"category"`
}

type messageUsage struct {
	Input     int64  `json:"input_tokens"`
	CacheMade int64  `json:"cache_creation_input_tokens"`
	CacheRead int64  `json:"cache_read_input_tokens"`
	Output    int64  `json:"output_tokens"`
	Tier      string `json:"service_tier"`
	Geo       string `json:"inference_geo"`
}

// body is the message of an answer that is no error.
func (a *said) body(id, tier string) messageBody {
	m := messageBody{
		ID: "msg_" + id, Type: "message", Role: "assistant", Model: a.modelName(), Content: a.blocks(id), StopReason: "end_turn",
		Usage: messageUsage{Input: a.tokens.Prompt, Output: a.tokens.Completion, Tier: tier, Geo: "not_available"},
	}
	switch {
	case a.stop != "":
		m.StopReason = a.stop
	case a.finish == "length":
		m.StopReason = "max_tokens"
	case a.tool != "":
		m.StopReason = "tool_use"
	}
	if a.category != "" {
		m.StopDetails = stopDetails{"refusal", a.category}
	}
	return m
}

func (a *said) blocks(id string) []messageBlock {
	out := []messageBlock{}
	if a.thinking {
		out = append(out, messageBlock{Type: "thinking", Thinking: `It may be {"label":"none"}.`, Signature: "c2FuZGJveA=="})
	}
	if a.tool == "" {
		return append(out, messageBlock{Type: "text", Text: &a.content})
	}
	input := jsontext.Value(a.content)
	if !input.IsValid() { // cut, or no JSON at all: a call is always an object
		input = jsontext.Value(`{}`)
	}
	out = append(out, messageBlock{Type: "tool_use", ID: "toolu_" + id, Name: a.tool, Input: input})
	if a.twice {
		out = append(out, messageBlock{Type: "tool_use", ID: "toolu_2" + id, Name: a.tool, Input: jsontext.Value(`{"label":"sandbox_other_label"}`)})
	}
	return out
}

// createMessage answers a request that comes alone, at once.
func (s *Server) createMessage(c *call) (answer, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, c.Body, maxLine))
	if err != nil {
		return answer{}, &messageError{Status: http.StatusRequestEntityTooLarge, Type: "request_too_large", Message: "Request exceeds the maximum size"}
	}
	if !jsontext.Value(body).IsValid() {
		return answer{}, invalidMessage("The request body is not valid JSON.")
	}
	var r responder
	a := r.message(body, c.Header.Get("Anthropic-Version"), false)
	if f, ok := s.faults.take(func(f Fault, sp spec) bool { return sp.stage == ofAnswer && f.selects(1, "") }); ok {
		a.spoil(f)
	}
	id := s.ids.next("")
	if a.errored != nil {
		e := *a.errored
		if e.Status == 0 {
			e.Status = http.StatusBadRequest
		}
		return answer{}, &e
	}
	return answer{id: id, body: a.body(id, "standard")}, nil
}
