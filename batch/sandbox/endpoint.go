package sandbox

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// kind is an endpoint that the sandbox answers.
type kind int

const (
	unanswered kind = iota
	kindChat
	kindResponses
	kindModerations
)

// kindOf reads a path with or without the /v1 before it.
func kindOf(endpoint string) kind {
	switch strings.TrimPrefix(endpoint, "/v1") {
	case "/chat/completions":
		return kindChat
	case "/responses":
		return kindResponses
	case "/moderations":
		return kindModerations
	}
	return unanswered
}

// question is what the sandbox reads of the body of a line, whatever the endpoint.
type question struct {
	model     string
	text      string         // the report
	token     string         // beside the report, or ""
	schema    jsontext.Value // nil for none
	param     string         // where the schema stands
	maxTokens int64
	stream    bool
}

type chatRequest struct {
	Model    string `json:"model"`
	Messages []turn `json:"messages"`
	Format   *struct {
		Type   string `json:"type"`
		Schema struct {
			Schema jsontext.Value `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	MaxTokens int64 `json:"max_completion_tokens"`
	Stream    bool  `json:"stream"`
}

// turn is a message of a conversation.
type turn struct {
	Role    string         `json:"role"`
	Content jsontext.Value `json:"content"`
}

type responsesRequest struct {
	Model string         `json:"model"`
	Input jsontext.Value `json:"input"`
	Text  struct {
		Format *struct {
			Type   string         `json:"type"`
			Schema jsontext.Value `json:"schema"`
		} `json:"format"`
	} `json:"text"`
	MaxTokens int64 `json:"max_output_tokens"`
	Stream    bool  `json:"stream"`
}

type moderationsRequest struct {
	Model  string         `json:"model"`
	Input  jsontext.Value `json:"input"`
	Stream bool           `json:"stream"`
}

// read reads a body. missing is the name of a member that must be there and is
// not.
func (k kind) read(body jsontext.Value) (q question, missing string, err error) {
	switch k {
	case kindResponses:
		q, missing, err = readResponses(body)
	case kindModerations:
		q, missing, err = readModerations(body)
	default:
		q, missing, err = readChat(body)
	}
	if q.model == "" {
		missing = "model"
	}
	return q, missing, err
}

func readChat(body jsontext.Value) (q question, missing string, err error) {
	var r chatRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return q, "", err
	}
	if len(r.Messages) == 0 {
		missing = "messages"
	}
	q = question{model: r.Model, maxTokens: r.MaxTokens, stream: r.Stream, param: "response_format"}
	if r.Format != nil && r.Format.Type == "json_schema" {
		q.schema = r.Format.Schema.Schema
	}
	q.text, q.token = reportOf(r.Messages)
	return q, missing, nil
}

func readResponses(body jsontext.Value) (q question, missing string, err error) {
	var r responsesRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return q, "", err
	}
	q = question{model: r.Model, maxTokens: r.MaxTokens, stream: r.Stream, param: "text.format"}
	if f := r.Text.Format; f != nil && f.Type == "json_schema" {
		q.schema = f.Schema
	}
	var turns []turn
	switch {
	case len(r.Input) == 0:
		missing = "input"
	case json.Unmarshal(r.Input, &turns) == nil:
		q.text, q.token = reportOf(turns)
	default:
		q.text, q.token = unwrapReport(textOf(r.Input))
	}
	return q, missing, nil
}

func readModerations(body jsontext.Value) (q question, missing string, err error) {
	var r moderationsRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return q, "", err
	}
	if len(r.Input) == 0 {
		missing = "input"
	}
	return question{model: r.Model, stream: r.Stream, text: textOf(r.Input)}, missing, nil
}

// reportOf is the text to judge: the last user message, or its member report when
// it is a JSON object that has one, and the token that stands beside it.
func reportOf(turns []turn) (text, token string) {
	for i := len(turns) - 1; i >= 0; i-- {
		if turns[i].Role == "user" {
			return unwrapReport(textOf(turns[i].Content))
		}
	}
	return "", ""
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

func unwrapReport(text string) (report, token string) {
	var wrapped struct {
		Report *string `json:"report"`
		Token  string  `json:"token"`
	}
	if json.Unmarshal([]byte(text), &wrapped) == nil && wrapped.Report != nil {
		return *wrapped.Report, wrapped.Token
	}
	return text, ""
}
