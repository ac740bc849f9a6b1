package sandbox

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// chatRequest is what the sandbox reads of a chat completion request.
type chatRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string         `json:"role"`
		Content jsontext.Value `json:"content"`
	} `json:"messages"`
	Format *struct {
		Type   string `json:"type"`
		Schema struct {
			Schema jsontext.Value `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	MaxTokens int64 `json:"max_completion_tokens"`
	Stream    bool  `json:"stream"`
}

// resultLine is a line of an output or error file.
type resultLine struct {
	ID       string        `json:"id"`
	CustomID *string       `json:"custom_id,omitzero"`
	Response *itemResponse `json:"response"`
	Error    *itemError    `json:"error"`
}

type itemResponse struct {
	Status    int    `json:"status_code"`
	RequestID string `json:"request_id"`
	Body      any    `json:"body"` // chatBody or errorBody
}

// itemError is why a line was not run.
type itemError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type chatBody struct {
	ID          string     `json:"id"`
	Object      string     `json:"object"`
	Created     int64      `json:"created"`
	Model       string     `json:"model"`
	Choices     []choice   `json:"choices"`
	Usage       tokenCount `json:"usage"`
	Fingerprint string     `json:"system_fingerprint"`
}

type choice struct {
	Index    int     `json:"index"`
	Message  message `json:"message"`
	Logprobs any     `json:"logprobs"`
	Finish   string  `json:"finish_reason"`
}

type message struct {
	Role    string  `json:"role"`
	Content *string `json:"content"`
	Refusal *string `json:"refusal"`
	Note    string  `json:"note,omitempty"` // only with the fault line_separator
}

type tokenCount struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

// responder answers request lines one after another.
type responder struct {
	raw    jsontext.Value // the schema of the line before; all lines share one as a rule
	parsed *schema
	err    error
}

// reply is what the stand-in says to one line: an answer or an HTTP error.
type reply struct {
	answer  object // nil without a schema
	content string
	finish  string
	refusal string
	null    bool // content is null
	tokens  tokenCount
	failure *apiError
	labels  []string // the labels that the schema permits
}

// respond answers the body of a line that passed validation.
func (p *responder) respond(body jsontext.Value) reply {
	var req chatRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return reply{failure: badRequest("", "", "We could not parse the JSON body of your request.")}
	}
	text := reportOf(req)
	r := reply{finish: "stop", tokens: tokenCount{Prompt: tokens(len(body))}}
	if req.Format == nil || req.Format.Type != "json_schema" {
		r.content = "This is a stand-in, not a model. It saw " + plural(len(strings.Fields(text)), "word") + "."
		r.count()
		return r
	}
	if !bytes.Equal(p.raw, req.Format.Schema.Schema) {
		p.raw = req.Format.Schema.Schema.Clone()
		p.parsed, p.err = parseSchema(p.raw)
	}
	if p.err != nil {
		return reply{failure: badRequest("", "response_format", "Invalid schema for response_format: "+p.err.Error()+".")}
	}
	r.labels = p.parsed.labels()
	r.answer = answerTo(p.parsed, r.labels, text)
	r.setAnswer(r.answer)
	if limit := req.MaxTokens; limit > 0 && r.tokens.Completion > limit {
		r.content, r.finish = strings.ToValidUTF8(r.content[:limit*bytesPerToken], ""), "length"
		r.count()
	}
	return r
}

// answerTo fills the schema: label and evidence by the rules, the rest plainly.
func answerTo(s *schema, labels []string, text string) object {
	v := verdict{}
	if len(labels) > 0 {
		v = classify(text, labels)
	}
	var o object
	for _, p := range s.Properties {
		m := member{p.name, nil}
		switch {
		case p.name == "label" && len(labels) > 0:
			m.value = v.label
		case p.name == "evidence" && p.schema.Items != nil:
			m.value = evidence(p.schema, text, v)
		default:
			m.value = p.schema.plain()
		}
		o = append(o, m)
	}
	return o
}

// evidence quotes text verbatim: the words that decided, or, where the schema
// asks for more quotes than there are, the first words.
func evidence(s *schema, text string, v verdict) []string {
	quotes := []string{}
	if v.end > v.start {
		q := s.Items.fit(quote(text, v.start, v.end))
		quotes = append(quotes, q)
	}
	for len(quotes) < s.MinItems {
		quotes = append(quotes, s.Items.fit(quote(text, 0, 0)))
	}
	return quotes
}

func (r *reply) setAnswer(o object) {
	b, err := o.MarshalJSON()
	if err != nil { // a text that is not UTF-8 does not pass validation
		r.failure = badRequest("", "", "We could not parse the JSON body of your request.")
		return
	}
	r.answer, r.content = o, string(b)
	r.count()
}

const bytesPerToken = 4

func tokens(bytes int) int64 { return int64(bytes+bytesPerToken-1) / bytesPerToken }

func (r *reply) count() {
	r.tokens.Completion = tokens(len(r.content))
	r.tokens.Total = r.tokens.Prompt + r.tokens.Completion
}

// reportOf is the text to judge: the last user message, or its member report
// when it is a JSON object that has one.
func reportOf(req chatRequest) string {
	for i := len(req.Messages) - 1; i >= 0; i-- {
		if req.Messages[i].Role == "user" {
			return unwrapReport(textOf(req.Messages[i].Content))
		}
	}
	return ""
}

// textOf reads content that is a string or a list of text parts.
func textOf(content jsontext.Value) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return ""
	}
	for _, p := range parts {
		text += p.Text
	}
	return text
}

func unwrapReport(text string) string {
	var wrapped struct {
		Report *string `json:"report"`
	}
	if json.Unmarshal([]byte(text), &wrapped) == nil && wrapped.Report != nil {
		return *wrapped.Report
	}
	return text
}

// body is the chat completion for a reply that is not a failure.
func (r reply) body(id string, created int64) chatBody {
	m := message{Role: "assistant"}
	if !r.null {
		m.Content = &r.content
	}
	if r.refusal != "" {
		m.Refusal = &r.refusal
	}
	return chatBody{
		ID: id, Object: "chat.completion", Created: created, Model: standInModel, Fingerprint: standInFingerprint,
		Choices: []choice{{Message: m, Finish: r.finish}}, Usage: r.tokens,
	}
}

func (r reply) status() int {
	if r.failure != nil {
		return r.failure.Status
	}
	return http.StatusOK
}
