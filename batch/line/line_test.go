package line

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"rollcall/batch"
)

func question() *batch.Classifier {
	return &batch.Classifier{
		Name: "c/1", Model: "m", Instructions: "Say \"ok\".", MaxOutputTokens: 9, Temperature: new(0.5),
		Schema: []byte(`{"type":"object","properties":{"label":{"type":"string"}},"required":["label"]}`),
	}
}

// A frame that is kept must not outlive a change of the classifier, in whatever
// field, and not even one inside of what a field points at.
func TestFramesFollowTheClassifier(t *testing.T) {
	var f Frames
	built := 0
	render := func(c *batch.Classifier) {
		t.Helper()
		if _, err := f.Append(nil, c, "w1-s1", batch.NewText("x"), func(*batch.Classifier) (string, error) { built++; return CustomID, nil }); err != nil {
			t.Fatal(err)
		}
	}
	c := question()
	c.Thresholds, c.AnswersAs = []batch.Threshold{{Category: "a", Score: 1, Label: "ok"}}, []string{"another-name"}
	render(c)
	changed := func(name string, change func()) {
		t.Helper()
		before := built
		if render(c); built != before {
			t.Errorf("before %s: the frame was not kept", name)
		}
		change()
		if render(c); built != before+1 {
			t.Errorf("a change of %s does not show", name)
		}
	}
	for v, i := reflect.ValueOf(c).Elem(), 0; i < v.NumField(); i++ {
		changed(v.Type().Field(i).Name, func() {
			switch field := v.Field(i); field.Kind() {
			case reflect.String:
				field.SetString(field.String() + "x")
			case reflect.Int:
				field.SetInt(field.Int() + 1)
			case reflect.Bool:
				field.SetBool(!field.Bool())
			default:
				field.SetZero()
			}
		})
	}
	c.Schema, c.Temperature, c.Thresholds = []byte("{ }"), new(0.1), []batch.Threshold{{Score: 1}}
	render(c)
	changed("a byte of the schema", func() { c.Schema[1] = '\n' })
	changed("the temperature", func() { *c.Temperature++ })
	changed("a score", func() { c.Thresholds[0].Score++ })
}

// What is refused is not kept, and leaves nothing in dst.
func TestFramesRefuse(t *testing.T) {
	var f Frames
	for _, id := range []string{"w1", "a b"} {
		dst, err := f.Append([]byte("kept"), question(), id, batch.NewText("x"), func(*batch.Classifier) (string, error) { return "no", Refused("why") })
		if batch.KindOf(err) != batch.Rejected || string(dst) != "kept" {
			t.Errorf("%q, %v", dst, err)
		}
	}
	dst, err := f.Append(nil, question(), "w1", batch.NewText("x"), func(*batch.Classifier) (string, error) { return "yes", nil })
	if err != nil || string(dst) != "yes" {
		t.Errorf("%q, %v", dst, err)
	}
}

func TestSchema(t *testing.T) {
	for name, change := range map[string]func(*batch.Classifier){
		"no model":          func(c *batch.Classifier) { c.Model = "" },
		"a model not UTF-8": func(c *batch.Classifier) { c.Model = "\xff" },
		"scores":            func(c *batch.Classifier) { c.Thresholds = []batch.Threshold{{Category: "a", Score: 1, Label: "ok"}} },
		"a line":            func(c *batch.Classifier) { c.Schema = []byte("{}\n{}") },
		"a list":            func(c *batch.Classifier) { c.Schema = []byte("[]") },
		"no room for echo":  func(c *batch.Classifier) { c.Echo, c.Schema = true, []byte("{}") },
		"a cold one":        func(c *batch.Classifier) { c.Temperature = new(-0.5) },
	} {
		c := question()
		if _, err := Schema(c); err != nil {
			t.Fatal(err)
		}
		change(c)
		if _, err := Schema(c); batch.KindOf(err) != batch.Rejected {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := question()
	c.Schema = []byte("{\n \"title\" : \"a\u2028b\" }")
	if got, err := Schema(c); err != nil || string(got) != `{"title":"a\u2028b"}` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestSchemaName(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "classification",
		"patient-community/1":    "patient-community_1",
		"a b\nc":                 "a_b_c",
		"ä":                      "__",
		strings.Repeat("x", 100): strings.Repeat("x", 64),
	} {
		if got := SchemaName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// FuzzReport: whatever the text is, another reader finds it where it belongs, and
// the token of the request beside it: a text cannot bring a token of its own.
func FuzzReport(f *testing.F) {
	for _, s := range []string{"", "plain", `","token":"x`, `\",\"token\":\"x`, `{"token":"x"}`, "\xff\u2028\x00\x01\x02\x03\x04", "\b\f\n\r\t\x7f", strings.Repeat("\\", 9), "\xff\xc0\x80\xed\xa0\x80", "🩺é\u2029\ufeff"} {
		f.Add(s)
	}
	echoing := question()
	echoing.Echo = true
	frames := map[bool]*Frame{}
	for _, c := range []*batch.Classifier{question(), echoing} {
		frames[c.Echo] = NewFrame(`{"id":"` + CustomID + `","plain":"` + Text + `","content":"` + Report(c) + `"}`)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := string([]rune(text)) // each byte that is not UTF-8 becomes U+FFFD
		for echo, frame := range frames {
			got := frame.Append(nil, "w1-s1", batch.NewText(text))
			if !utf8.Valid(got) || strings.ContainsAny(string(got), "\n\r\x00\u2028\u2029") {
				t.Errorf("not one line: %q", got)
			}
			var outer, inner map[string]string
			if err := json.Unmarshal(got, &outer); err != nil || len(outer) != 3 || outer["id"] != "w1-s1" || outer["plain"] != want {
				t.Fatalf("%q became %q, %v", text, outer, err)
			}
			if err := json.Unmarshal([]byte(outer["content"]), &inner); err != nil || inner["report"] != want {
				t.Fatalf("%q became %q, %v", text, inner, err)
			}
			if token, has := inner["token"]; has != echo || echo && (token != batch.EchoToken("w1-s1") || len(inner) != 2) {
				t.Errorf("%q has %q beside it", text, inner)
			}
		}
		var quoted string
		if err := json.Unmarshal(AppendQuoted(nil, want), &quoted); err != nil || quoted != want {
			t.Errorf("%q became %q, %v", want, quoted, err)
		}
	})
}

// A custom id is taken from one whole object that has one, and never guessed.
func TestRecoverID(t *testing.T) {
	for in, want := range map[string]string{
		`{"custom_id":"w1","x":1,"x":2}`: "w1", "{\"x\":\"\xff\",\"custom_id\":\"w1\"}": "w1", `{"x":{"custom_id":"w2"},"custom_id":"w1"}`: "w1",
		`{"custom_id":"w1"`: "", `{"custom_id":"w1"}x`: "", `{"custom_id":"w1","custom_id":"w1"}`: "", `{"custom_id":7}`: "", `{"custom_id":"a b"}`: "",
		`[{"custom_id":"w1"}]`: "", `"custom_id"`: "", ``: "", `{"x":{"custom_id":"w2"}}`: "", `{"CUSTOM_ID":"w1"}`: "",
	} {
		if got := RecoverID([]byte(in)); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}
