package fake

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
)

// Item is a request line that a job accepted.
type Item struct {
	JobID    string
	Line     int // counted from 1
	CustomID string
	Text     string
}

// Line is a line of a result file, without its line feed. Raw may be anything.
type Line struct {
	Channel batch.Channel
	Raw     []byte
}

type requestLine struct {
	CustomID string `json:"custom_id"`
	Model    string `json:"model"`
	Question string `json:"question"` // the classifier's name
	Text     string `json:"text"`
}

// resultLine is a batch.Result in JSON.
type resultLine struct {
	CustomID     string        `json:"custom_id"`
	Outcome      batch.Outcome `json:"outcome"`
	Code         string        `json:"code,omitempty"`
	Content      string        `json:"content,omitempty"`
	Model        string        `json:"model,omitempty"`
	Vendor       string        `json:"vendor,omitempty"`
	InputTokens  int64         `json:"input_tokens,omitempty"`
	OutputTokens int64         `json:"output_tokens,omitempty"`
}

// format is lax about UTF-8 on the way out only: bad bytes become U+FFFD.
var format = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.EscapeForJS(true))

// AppendRequest appends {"custom_id","model","question","text"}.
func (p *Provider) AppendRequest(dst []byte, c *batch.Classifier, customID string, text batch.Text) ([]byte, error) {
	if !validID(customID) {
		return dst, &batch.Error{Op: "render", Kind: batch.Rejected, Code: "invalid_custom_id"}
	}
	if c.Echo { // its answers are what a test makes them
		return dst, &batch.Error{Op: "render", Kind: batch.Rejected, Code: "invalid_classifier"}
	}
	line, err := json.Marshal(requestLine{CustomID: customID, Model: c.Model, Question: c.Name, Text: text.Reveal()}, format)
	if err != nil {
		return dst, &batch.Error{Op: "render", Kind: batch.Rejected, Code: "invalid_request"}
	}
	return append(append(dst, line...), '\n'), nil
}

func validID(s string) bool {
	return s != "" && len(s) <= 64 && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}) < 0
}

// parseBody reads request lines, and finds what a processor refuses a body for.
func parseBody(body []byte) (items []Item, faults []batch.Fault) {
	seen := map[string]bool{}
	line := 0
	for raw := range bytes.Lines(body) {
		line++
		var r requestLine
		if json.Unmarshal(raw, &r, json.RejectUnknownMembers(true)) != nil || r.CustomID == "" || !bytes.HasSuffix(raw, []byte("\n")) {
			faults = append(faults, batch.Fault{Line: line, Code: "invalid_json_line"})
			continue
		}
		if seen[r.CustomID] {
			faults = append(faults, batch.Fault{Line: line, Code: "duplicate_custom_id"})
		}
		seen[r.CustomID] = true
		items = append(items, Item{Line: line, CustomID: r.CustomID, Text: r.Text})
	}
	if line == 0 {
		faults = append(faults, batch.Fault{Code: "empty_file"})
	}
	return items, faults
}

// Answered is the line of an answered item, in the output file.
func Answered(customID string, content []byte) Line {
	return Result(batch.ChannelOutput, batch.Result{CustomID: customID, Outcome: batch.Answered, Content: content, Model: "fake-1", InputTokens: 100, OutputTokens: 10})
}

// Failed is the line of an item with another outcome, in the error file.
func Failed(customID string, o batch.Outcome, code string) Line {
	return Result(batch.ChannelError, batch.Result{CustomID: customID, Outcome: o, Code: code})
}

// Result is the line that DecodeResult reads as r.
func Result(c batch.Channel, r batch.Result) Line {
	raw, err := json.Marshal(resultLine{
		CustomID: r.CustomID, Outcome: r.Outcome, Code: r.Code, Content: string(r.Content),
		Model: r.Model, Vendor: r.Vendor, InputTokens: r.InputTokens, OutputTokens: r.OutputTokens,
	}, format)
	if err != nil {
		panic("fake: a result that cannot be marshalled") // there is none
	}
	return Line{Channel: c, Raw: raw}
}

// DecodeResult reads what Result wrote.
func (p *Provider) DecodeResult(line []byte) batch.Result {
	var r resultLine
	if json.Unmarshal(line, &r) != nil || r.CustomID == "" || !outcomes[r.Outcome] ||
		(r.Outcome == batch.Answered) != (r.Content != "") {
		return batch.Result{Outcome: batch.Unreadable}
	}
	out := batch.Result{
		CustomID: r.CustomID, Outcome: r.Outcome, Code: batch.SafeCode(r.Code),
		Model: batch.SafeName(r.Model), Vendor: batch.SafeName(r.Vendor), InputTokens: r.InputTokens, OutputTokens: r.OutputTokens,
	}
	if r.Content != "" {
		out.Content = []byte(r.Content)
	}
	return out
}

var outcomes = map[batch.Outcome]bool{
	batch.Answered: true, batch.Refused: true, batch.Blocked: true, batch.Truncated: true, batch.BadShape: true,
	batch.ItemRejected: true, batch.ItemFailed: true, batch.ItemDenied: true, batch.ItemOutOfCredit: true,
	batch.Expired: true, batch.Cancelled: true, batch.NotRun: true, batch.Unapproved: true,
}
