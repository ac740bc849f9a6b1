package sandbox

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// spoil alters a reply as an answer fault says. A fault that needs a label or
// evidence does nothing to an answer without.
func (r *reply) spoil(f Fault) {
	if r.failure != nil {
		return
	}
	switch f.Name {
	case "refusal":
		r.null, r.refusal = true, "I can't help with that."
	case "length":
		r.null, r.finish = true, "length"
	case "content_filter":
		r.null, r.finish = true, "content_filter"
	case "item_error":
		r.failure = itemFailure(int(f.number("status")), f.text("code"))
	case "invalid_json":
		r.content = r.content[:len(r.content)/2]
	case "off_schema":
		r.setAnswer(object{{"verdict", "stand-in"}})
	case "unknown_label":
		r.setAnswer(r.answer.with(func(m *member) {
			if m.name == "label" {
				m.value = "sandbox_unknown_label"
			}
		}))
	case "false_evidence":
		r.setAnswer(r.answer.with(func(m *member) {
			if m.name == "evidence" {
				m.value = []string{"words that the sandbox made up"}
			}
		}))
	case "duplicate_keys":
		r.contradict("label")
	case "folded_keys":
		r.contradict("LABEL")
	case "other_model":
		r.model = f.text("model")
	case "response_failed":
		r.failedCode = f.text("code")
	case "category_missing":
		r.unscored = f.text("category")
	}
}

// contradict adds a member that names another label.
func (r *reply) contradict(name string) {
	i := slices.IndexFunc(r.answer, func(m member) bool { return m.name == "label" })
	if i < 0 {
		return
	}
	r.setAnswer(append(slices.Clone(r.answer), member{name, r.otherLabel()}))
}

// otherLabel is a permitted label that the answer does not give.
func (r *reply) otherLabel() string {
	for _, m := range r.answer {
		if m.name != "label" {
			continue
		}
		for _, l := range r.labels {
			if l != m.value {
				return l
			}
		}
	}
	return "sandbox_other_label"
}

func itemFailure(status int, code string) *apiError {
	usual := map[int]apiError{
		400: {Type: "invalid_request_error", Code: "context_length_exceeded", Param: "messages"},
		401: {Type: "invalid_request_error", Code: "invalid_api_key"},
		403: {Type: "invalid_request_error", Code: "model_not_allowed"},
		404: {Type: "invalid_request_error", Code: "model_not_found"},
		429: {Type: "requests", Code: "rate_limit_exceeded"},
	}
	e, ok := usual[status]
	if !ok {
		e = apiError{Type: "server_error"}
	}
	e.Status, e.Message = status, "The sandbox was asked to fail this item."
	if code != "default" {
		e.Code = code
	}
	return &e
}

// byteOrderMark is U+FEFF in UTF-8.
const byteOrderMark = "\xef\xbb\xbf"

// lengthen makes a line n bytes long, without changing what it says.
func lengthen(line []byte, n int64) []byte {
	const wrap = len(`,"padding":""`)
	missing := int(n) - len(line) - wrap
	if missing <= 0 {
		return line
	}
	out := make([]byte, 0, n)
	out = append(out, line[:len(line)-1]...)
	out = append(out, `,"padding":"`...)
	out = append(out, bytes.Repeat([]byte{'x'}, missing)...)
	return append(out, `"}`...)
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.Itoa(n) + " " + word + "s"
}

// strangerID is a custom id that no client has sent.
func strangerID(jobID string, no int) string {
	return fmt.Sprintf("stranger-%s-%d", jobID[len(jobID)-6:], no)
}
