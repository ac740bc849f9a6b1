package openai

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"rollcall/batch"
	"rollcall/batch/line"
)

// rendered is a line, decoded by another reader.
func rendered(t *testing.T, c *Client, cl *batch.Classifier, text string) map[string]any {
	t.Helper()
	line, err := c.AppendRequest(nil, cl, "w1-s1", batch.NewText(text))
	if err != nil {
		t.Fatal(err)
	}
	if !utf8.Valid(line) || bytes.Count(line, []byte("\n")) != 1 || bytes.ContainsAny(line, "\r\x00\u2028\u2029") {
		t.Errorf("not one line: %q", line)
	}
	var got map[string]any
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	return got
}

func TestResponsesRequest(t *testing.T) {
	const text = "I feel \"bad\".\n\u2028 \\ {}"
	cl := testClassifier()
	got := rendered(t, speaking(EndpointResponses), cl, text)
	body := got["body"].(map[string]any)
	input := body["input"].([]any)
	var user map[string]string
	if err := json.Unmarshal([]byte(member(input[0], "content").(string)), &user); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"report": text}, user); diff != "" || len(input) != 1 || member(input[0], "role") != "user" {
		t.Errorf("input %v\n%s", input, diff)
	}
	delete(body, "input")
	want := map[string]any{"custom_id": "w1-s1", "method": "POST", "url": "/v1/responses", "body": map[string]any{
		"model": cl.Model, "store": false, "temperature": 0.25, "max_output_tokens": 600.0, "instructions": cl.Instructions,
		"text": map[string]any{"format": map[string]any{"type": "json_schema", "name": "patient-community_1", "strict": true, "schema": otherwise(t, cl.Schema)}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A moderation gets the text as it is, and nothing that it would not read.
func TestModerationRequest(t *testing.T) {
	const text = "I feel \"bad\".\n\u2028 \\ {}\t\x01"
	got := rendered(t, speaking(EndpointModerations), scoring(), text+"\xff")
	want := map[string]any{"custom_id": "w1-s1", "method": "POST", "url": "/v1/moderations", "body": map[string]any{"model": "omni-moderation-latest", "input": text + "\ufffd"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, change := range map[string]func(*batch.Classifier){
		"no thresholds":  func(cl *batch.Classifier) { cl.Thresholds = nil },
		"no other label": func(cl *batch.Classifier) { cl.Otherwise = "" },
		"no model":       func(cl *batch.Classifier) { cl.Model = "" },
		"an echo":        func(cl *batch.Classifier) { cl.Echo = true },
	} {
		cl := scoring()
		change(cl)
		if _, err := speaking(EndpointModerations).AppendRequest(nil, cl, "w1-s1", batch.NewText("x")); codeOf(err) != line.CodeClassifier {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A question that was good is looked at again when it has changed.
	c, cl := speaking(EndpointModerations), scoring()
	rendered(t, c, cl, "x")
	cl.Thresholds[0].Label = "no such label"
	if _, err := c.AppendRequest(nil, cl, "w1-s1", batch.NewText("x")); codeOf(err) != line.CodeClassifier {
		t.Errorf("a changed threshold: %v", err)
	}
	// A model that is asked gives no scores.
	for _, e := range []Endpoint{EndpointChat, EndpointResponses} {
		if _, err := speaking(e).AppendRequest(nil, scoring(), "w1-s1", batch.NewText("x")); codeOf(err) != line.CodeClassifier {
			t.Errorf("thresholds for %s: %v", e, err)
		}
	}
}

// echoing is a question whose answers repeat the token.
func echoing() *batch.Classifier {
	cl := testClassifier()
	cl.Echo = true
	return cl
}

// With Echo the text has a token beside it, and the schema asks for it first; the
// instructions stay what was approved.
func TestEchoRequest(t *testing.T) {
	for _, e := range []Endpoint{EndpointChat, EndpointResponses} {
		const text = `x","token":"other`
		line, err := speaking(e).AppendRequest(nil, echoing(), "w1-s1", batch.NewText(text))
		if err != nil {
			t.Fatal(err)
		}
		body := member(otherwise(t, line), "body")
		messages, _ := member(body, "messages").([]any)
		schema := member(body, "response_format", "json_schema", "schema")
		instructions := member(body, "instructions")
		if e == EndpointResponses {
			messages, _ = member(body, "input").([]any)
			schema = member(body, "text", "format", "schema")
		} else {
			instructions = member(messages[0], "content")
		}
		user := otherwise(t, []byte(member(messages[len(messages)-1], "content").(string)))
		if diff := cmp.Diff(map[string]any{"token": batch.EchoToken("w1-s1"), "report": text}, user); diff != "" {
			t.Errorf("%s: %s", e, diff)
		}
		required, _ := member(schema, "required").([]any)
		if len(required) != 2 || required[0] != "token" || member(schema, "properties", "token", "type") != "string" || instructions != testClassifier().Instructions {
			t.Errorf("%s: schema %v, instructions %v", e, schema, instructions)
		}
		without, err := speaking(e).AppendRequest(nil, testClassifier(), "w1-s1", batch.NewText(text))
		if err != nil {
			t.Fatal(err)
		}
		if cost := len(line) - len(without); cost > 180 {
			t.Errorf("%s: the token costs %d bytes of a line", e, cost)
		}
	}
	cl := echoing()
	cl.Schema = []byte(`{"properties":{"token":{"type":"string"}},"required":["token"]}`)
	if _, err := new(Client).AppendRequest(nil, cl, "w1-s1", batch.NewText("x")); codeOf(err) != line.CodeClassifier {
		t.Errorf("a schema with a token of its own: %v", err)
	}
}

// FuzzEcho: whatever the text is, another reader finds the token of the request
// and the text beside it, so that a text cannot bring a token of its own.
func FuzzEcho(f *testing.F) {
	for _, s := range []string{"", `","token":"x`, `\",\"token\":\"x`, `{"token":"x"}`, "\xff\u2028\x00", strings.Repeat("\\", 9)} {
		f.Add(s)
	}
	clients := map[Endpoint]*Client{EndpointChat: speaking(EndpointChat), EndpointResponses: speaking(EndpointResponses)}
	f.Fuzz(func(t *testing.T, text string) {
		for e, c := range clients {
			line, err := c.AppendRequest(nil, echoing(), "w1-s1", batch.NewText(text))
			if err != nil {
				t.Fatal(err)
			}
			body := member(otherwise(t, line), "body")
			messages, _ := member(body, "messages").([]any)
			if e == EndpointResponses {
				messages, _ = member(body, "input").([]any)
			}
			content := member(messages[len(messages)-1], "content").(string)
			want := map[string]any{"token": batch.EchoToken("w1-s1"), "report": eachInvalid(text)}
			if diff := cmp.Diff(want, otherwise(t, []byte(content))); diff != "" {
				t.Errorf("%s: %q:\n%s", e, text, diff)
			}
		}
	})
}

func TestDeploymentStandsForTheModel(t *testing.T) {
	cfg := config("http://127.0.0.1:1")
	cfg.Deployments = map[string]string{"gpt-4.1-mini-2025-04-14": "reports-batch"}
	c := newClient(t, cfg)
	if got := member(rendered(t, c, testClassifier(), "x"), "body", "model"); got != "reports-batch" {
		t.Errorf("model %v", got)
	}
	cl := testClassifier()
	cl.Model = "reports-batch"
	if _, err := c.AppendRequest(nil, cl, "w1-s1", batch.NewText("x")); codeOf(err) != line.CodeClassifier {
		t.Errorf("a model that nothing stands for: %v", err)
	}
}
