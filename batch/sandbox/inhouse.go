package sandbox

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The sandbox of a server of one's own answers chat completions one by one. Like
// the server of llama.cpp it has one model, and says so whatever it is asked for.

const pathChat = "/v1/chat/completions"

// chatCall is a chat completion request as these servers take it: with the
// schema in one of two places.
type chatCall struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string         `json:"role"`
		Content jsontext.Value `json:"content"`
	} `json:"messages"`
	MaxTokens int64 `json:"max_tokens"`
	Format    *struct {
		Type   string         `json:"type"`
		Direct jsontext.Value `json:"schema"`
		Nested *struct {
			Schema jsontext.Value `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

// asBatched is the request as a line of a batch has it.
func (c chatCall) asBatched() (jsontext.Value, error) {
	o := object{{"model", c.Model}, {"messages", c.Messages}, {"max_completion_tokens", c.MaxTokens}}
	if f := c.Format; f != nil {
		schema := f.Direct
		if f.Nested != nil {
			schema = f.Nested.Schema
		}
		o = append(o, member{"response_format", object{{"type", f.Type}, {"json_schema", object{{"schema", schema}}}}})
	}
	return o.MarshalJSON()
}

// words is how many words the request has; a model reads no fewer tokens.
func (c chatCall) words() (n int64) {
	for _, m := range c.Messages {
		n += int64(len(strings.Fields(textOf(m.Content))))
	}
	return n
}

// chat answers one request.
func (s *Server) chat(c *call) (answer, error) {
	var req chatCall
	refuse := func() (answer, error) {
		return answer{}, badRequest("", "", "The request body is not a chat completion request.")
	}
	if json.UnmarshalRead(http.MaxBytesReader(nil, c.Body, maxCallBody), &req) != nil || req.Model == "" || len(req.Messages) == 0 {
		return refuse()
	}
	body, err := req.asBatched()
	if err != nil {
		return refuse()
	}
	var model responder
	r := model.respond(body)
	no := int(s.requests.snapshot()[opChat])
	id := "call-" + strconv.Itoa(no)
	if f, ok := s.faults.take(func(f Fault, sp spec) bool { return sp.stage == ofAnswer && f.selects(no, id) }); ok {
		r.spoil(f)
	}
	if r.failure != nil {
		return answer{}, r.failure
	}
	r.tokens.Prompt = max(r.tokens.Prompt, req.words())
	out := r.chat(s.ids.next("chatcmpl-"), c.now.Unix())
	for _, f := range s.callFaults(opChat) {
		out.spoil(f, req.MaxTokens)
	}
	out.Usage.Total = out.Usage.Prompt + out.Usage.Completion
	return answer{body: out}, nil
}

func (b *chatBody) spoil(f Fault, maxTokens int64) {
	choice := &b.Choices[0]
	say := func(text string) { choice.Message.Content = &text }
	switch f.Name {
	case "chat_prose":
		say("The post is fine, I would say.")
	case "chat_whitespace":
		say(`{"label":` + strings.Repeat(" ", int(min(maxTokens, 1000))*bytesPerToken))
		choice.Finish, b.Usage.Completion = "length", maxTokens
	case "chat_no_finish":
		choice.Finish = ""
	case "chat_other_model":
		b.Model = "another-model"
	case "chat_context_cut":
		b.Usage.Prompt = f.number("tokens")
	}
}
