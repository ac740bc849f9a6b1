package sandbox

import (
	"cmp"
	"slices"
)

// body is what the endpoint answers for a reply that is not a failure. id is
// without its prefix.
func (r reply) body(k kind, id string, created int64) any {
	switch k {
	case kindResponses:
		return r.response(id, created)
	case kindModerations:
		return r.moderation(id)
	}
	return r.chat(id, created)
}

func (r reply) chat(id string, created int64) chatBody {
	m := message{Role: "assistant"}
	if !r.null {
		m.Content = &r.content
	}
	if r.refusal != "" {
		m.Refusal = &r.refusal
	}
	return chatBody{
		ID: "chatcmpl-" + id, Object: "chat.completion", Created: created, Model: r.modelName(), Fingerprint: standInFingerprint,
		Choices: []choice{{Message: m, Finish: r.finish}}, Usage: r.tokens,
	}
}

func (r reply) modelName() string { return cmp.Or(r.model, standInModel) }

type responseBody struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"`
	Created    int64             `json:"created_at"`
	Model      string            `json:"model"`
	Status     string            `json:"status"`
	Error      any               `json:"error"`
	Incomplete any               `json:"incomplete_details"`
	Output     []any             `json:"output"`
	Store      bool              `json:"store"`
	Metadata   map[string]string `json:"metadata"`
	Usage      usageBody         `json:"usage"`
}

type reasoningItem struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Summary []any  `json:"summary"`
}

type messageItem struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Role    string `json:"role"`
	Status  string `json:"status"`
	Content []any  `json:"content"`
}

type textPart struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations []any  `json:"annotations"`
}

type refusalPart struct {
	Type    string `json:"type"`
	Refusal string `json:"refusal"`
}

// response is the reply as a response: a thought, as models with reasoning have
// it, and a message, unless there is nothing to say.
func (r reply) response(id string, created int64) responseBody {
	b := responseBody{
		ID: "resp_" + id, Object: "response", Created: created, Model: r.modelName(), Status: "completed",
		Output: []any{reasoningItem{"reasoning", "rs_" + id, []any{}}}, Metadata: map[string]string{},
		Usage: usageBody{Input: r.tokens.Prompt, Output: r.tokens.Completion, Total: r.tokens.Total},
	}
	m := messageItem{Type: "message", ID: "msg_" + id, Role: "assistant", Status: "completed"}
	reason := map[string]string{"length": "max_output_tokens", "content_filter": "content_filter"}[r.finish]
	if reason != "" {
		b.Status, m.Status, b.Incomplete = "incomplete", "incomplete", map[string]string{"reason": reason}
	}
	switch {
	case r.failedCode != "":
		b.Status, b.Output, b.Error = "failed", []any{}, itemError{r.failedCode, "The sandbox was asked to fail this response."}
	case r.refusal != "":
		m.Content = []any{refusalPart{"refusal", r.refusal}}
	case !r.null:
		m.Content = []any{textPart{"output_text", r.content, []any{}}}
	}
	if m.Content != nil {
		b.Output = append(b.Output, m)
	}
	return b
}

// categories are those of the API, in its order.
var categories = []string{
	"harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent", "self-harm", "self-harm/instructions",
	"self-harm/intent", "sexual", "sexual/minors", "violence", "violence/graphic",
}

type moderationBody struct {
	ID      string             `json:"id"`
	Model   string             `json:"model"`
	Results []moderationResult `json:"results"`
}

type moderationResult struct {
	Flagged    bool   `json:"flagged"`
	Categories object `json:"categories"`
	Scores     object `json:"category_scores"`
	Applied    object `json:"category_applied_input_types"`
}

// The scores of the stand-in: it knows words, not degrees.
const (
	highScore = 0.97
	lowScore  = 0.01
)

// moderation is the verdict by the same list of words as everywhere. Most
// categories have no words.
func (r reply) moderation(id string) moderationBody {
	var out moderationResult
	for _, c := range categories {
		mark, score := any(false), any(lowScore)
		switch {
		case c == r.unscored:
			mark, score = nil, nil
		case slices.Contains(r.marked, c):
			mark, score, out.Flagged = true, highScore, true
		}
		out.Categories = append(out.Categories, member{c, mark})
		out.Scores = append(out.Scores, member{c, score})
		out.Applied = append(out.Applied, member{c, []string{"text"}})
	}
	return moderationBody{ID: "modr-" + id, Model: r.modelName(), Results: []moderationResult{out}}
}

// moderate is the reply to a text that is scored.
func moderate(text string) reply {
	r := reply{finish: "stop"}
	for label, category := range map[string]string{"self_harm": "self-harm", "harassment": "harassment"} {
		if classify(text, []string{label, "ok"}).label == label {
			r.marked = append(r.marked, category)
		}
	}
	return r
}
