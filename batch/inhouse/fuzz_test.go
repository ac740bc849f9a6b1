package inhouse

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"rollcall/batch"
)

// hostile are forms that readers of JSON fall over, put in the place of a value.
var hostile = []string{
	`""`, `" "`, `null`, `true`, `-0`, `1e400`, `200.0`, `99999999999999999999`, `[]`, `{}`, `[[[[[]]]]]`, `"stop"`, `"Stop"`, `"length"`, `"content_filter"`, `"\u0073top"`,
	`"\ud800"`, "\"\xff\"", "\"a\nb\"", `"MARKER of a report"`, `{"content":"x"}`, `[{"finish_reason":"stop","message":{"content":"x"}}]`,
}

const whole = `{"object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"{}","refusal":null}}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`

// FuzzDecode: nothing is an answer that another reader of the JSON does not find
// to be one.
func FuzzDecode(f *testing.F) {
	for _, value := range []string{`"chat.completion"`, `"m"`, `[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"{}","refusal":null}}]`, `"stop"`, `{"role":"assistant","content":"{}","refusal":null}`, `"{}"`, `null`, `9`, `{"prompt_tokens":9,"completion_tokens":2}`} {
		for _, v := range hostile {
			f.Add([]byte(strings.Replace(whole, value, v, 1)))
		}
	}
	for _, text := range []string{whole, whole + whole, whole[:len(whole)-1], "\xef\xbb\xbf" + whole, strings.ToUpper(whole), `{"error":` + whole + `}`, `<html></html>`, ``,
		strings.Replace(whole, `"choices"`, `"choices":[],"choices"`, 1), strings.Replace(whole, `"stop"`, `"stop","finish_reason":"length"`, 1), strings.Repeat("[", 20_000)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := decode(body)
		if (r.Outcome == batch.Answered) != (len(r.Content) > 0) || r.Code != batch.SafeCode(r.Code) || r.Model != batch.SafeName(r.Model) || r.InputTokens < 0 || r.OutputTokens < 0 || r.CustomID != "" {
			t.Fatalf("%s, %d bytes, code %q, model %q", r.Outcome, len(r.Content), r.Code, r.Model)
		}
		if r.Outcome != batch.Answered {
			return
		}
		var other any
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber() // a number may be too large for anything else
		if err := dec.Decode(&other); err != nil {
			t.Fatalf("taken, and no JSON: %v", err)
		}
		choices, _ := member(other, "choices").([]any)
		if member(other, "object") != "chat.completion" || len(choices) != 1 || member(choices[0], "finish_reason") != "stop" || member(choices[0], "message", "content") != string(r.Content) {
			t.Error("another reader does not find this answer")
		}
		if refusal := member(choices[0], "message", "refusal"); refusal != nil && refusal != "" {
			t.Error("a refusal was taken for an answer")
		}
	})
}

// member is a member of an object that another reader of JSON has read; nil for
// none.
func member(object any, path ...string) any {
	for _, name := range path {
		members, ok := object.(map[string]any)
		if !ok {
			return nil
		}
		object = members[name]
	}
	return object
}

// No text is thought to have more tokens than words, or than it is long.
func TestLeastTokens(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, " \n\t ": 0, "one": 1, "one two\nthree": 3, strings.Repeat("字", 160): 10, strings.Repeat("x", 15): 1, strings.Repeat(" ", 1000) + "x": 1,
	} {
		if got := leastTokens(text); got != want {
			t.Errorf("%.20q: %d, want %d", text, got, want)
		}
	}
	if got := leastTokens("one two", "three"); got != 3 {
		t.Errorf("two texts: %d", got)
	}
}

func BenchmarkDecode(b *testing.B) {
	b.SetBytes(int64(len(whole)))
	b.ReportAllocs()
	for b.Loop() {
		if r := decode([]byte(whole)); r.Outcome != batch.Answered {
			b.Fatal(r.Outcome)
		}
	}
}

func BenchmarkSplit(b *testing.B) {
	c, text := new(Client), batch.NewText(strings.Repeat("stop your insulin ", 1000))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Split(nil, text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRender(b *testing.B) {
	c := &Client{cfg: Config{SchemaForm: SchemaNested}}
	cl := &batch.Classifier{Model: "m", Instructions: strings.Repeat("Judge the post. ", 200), MaxOutputTokens: 400, Schema: []byte(probeSchema)}
	text := batch.NewText(strings.Repeat("stop your \"insulin\"\n", 1000))
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.render(cl, "w1-s1", text); !ok {
			b.Fatal("not rendered")
		}
	}
}
