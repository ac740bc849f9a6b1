package sandbox

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

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
	Body      any    `json:"body"` // chatBody, responseBody, moderationBody or errorBody
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
	kind   kind
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

	model      string   // that answered; "" for the stand-in
	failedCode string   // of a response that failed with HTTP 200
	marked     []string // the categories of a moderation
	unscored   string   // a category of a moderation without a score
}

// respond answers the body of a line that passed validation.
func (p *responder) respond(body jsontext.Value) reply {
	q, _, err := p.kind.read(body)
	if err != nil {
		return reply{failure: badRequest("", "", "We could not parse the JSON body of your request.")}
	}
	if p.kind == kindModerations {
		return moderate(q.text)
	}
	r := reply{finish: "stop", tokens: tokenCount{Prompt: tokens(len(body))}}
	if q.schema == nil {
		r.content = "This is a stand-in, not a model. It saw " + plural(len(strings.Fields(q.text)), "word") + "."
		r.count()
		return r
	}
	if !bytes.Equal(p.raw, q.schema) {
		p.raw = q.schema.Clone()
		p.parsed, p.err = parseSchema(p.raw)
	}
	if p.err != nil {
		return reply{failure: badRequest("", q.param, "Invalid schema for "+q.param+": "+p.err.Error()+".")}
	}
	r.labels = p.parsed.labels()
	r.answer = answerTo(p.parsed, r.labels, q)
	r.setAnswer(r.answer)
	if limit := q.maxTokens; limit > 0 && r.tokens.Completion > limit {
		r.content, r.finish = strings.ToValidUTF8(r.content[:limit*bytesPerToken], ""), "length"
		r.count()
	}
	return r
}

// answerTo fills the schema: label and evidence by the rules, a token as it was
// given, the rest plainly.
func answerTo(s *schema, labels []string, q question) object {
	v := verdict{}
	if len(labels) > 0 {
		v = classify(q.text, labels)
	}
	var o object
	for _, p := range s.Properties {
		m := member{p.name, nil}
		switch {
		case p.name == "label" && len(labels) > 0:
			m.value = v.label
		case p.name == "evidence" && p.schema.Items != nil:
			m.value = evidence(p.schema, q.text, v)
		case p.name == "token" && q.token != "":
			m.value = q.token
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

func (r reply) status() int {
	if r.failure != nil {
		return r.failure.Status
	}
	return http.StatusOK
}
