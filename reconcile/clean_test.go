package reconcile

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		" kept \t\r\n as it is ":    " kept \t\r\n as it is ",
		"caf\u00e9 cafe\u0301 ﬁ Å":  "caf\u00e9 cafe\u0301 ﬁ Å",
		"\u202e\u2028\ufeff\ufffe":  "\u202e\u2028\ufeff\ufffe",
		"� was there":               "� was there",
		"a\x00b":                    "a�b",
		"\x1b[31mred\x07\x7f\u0085": "�[31mred���",
		"\xff\xc0\xaf":              "���",
		"cut \xe2\x98":              "cut ��",
		"\xed\xa0\x80":              "���", // a surrogate in UTF-8's clothes
	} {
		got, changed := Clean(in)
		if got != want || changed != (in != want) {
			t.Errorf("Clean(%q) = %q, %v; want %q", in, got, changed, want)
		}
	}
}

func TestCleaningTwiceIsCleaningOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		once, _ := Clean(text)
		if !utf8.ValidString(once) || strings.ContainsFunc(once, unclean) {
			t.Fatalf("Clean(%q) = %q", text, once)
		}
		if twice, changed := Clean(once); twice != once || changed {
			t.Fatalf("Clean(%q) = %q, and again %q", text, once, twice)
		}
	})
}

func TestBlank(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, " \t\r\n": true, "\u00a0\u2003\u3000": true, "\u200b\u200c\u200d\ufeff": true, "\u2028": true, "��": true,
		"\u3164\u115f\u034f": true, "\ufe0f\U000e0061": true, "\u2800": true, "\ufffe\uffff": true,
		".": false, " a ": false, "\u0301": false, "👍": false, "\ue000": false, "\U000378ab": false,
	} {
		if got := Blank(text); got != want {
			t.Errorf("Blank(%q) = %v", text, got)
		}
	}
}

func TestJSONLengthIsWhatARequestHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\x00\b\t\n\f\r\"\\\u2027\u2028\u2029\u202a<&")))).Draw(t, "text")
		quoted, err := json.Marshal(text, jsontext.EscapeForJS(true), jsontext.AllowInvalidUTF8(false))
		if err != nil {
			t.Skip("no valid Unicode")
		}
		if got := jsonLength(text); got != int64(len(quoted)) {
			t.Fatalf("jsonLength(%q) = %d, %s has %d", text, got, quoted, len(quoted))
		}
	})
}
