package batch_test

import (
	"regexp"
	"strings"
	"testing"

	"rollcall/batch"
)

var (
	safeCode = regexp.MustCompile(`^[A-Za-z0-9_.-]{0,64}$`)
	safeName = regexp.MustCompile(`^[A-Za-z0-9_.:/@+-]{0,128}$`)
)

// FuzzSafe: a word of a provider is kept as it is or not at all, and what is
// kept can stand in a log.
func FuzzSafe(f *testing.F) {
	for _, s := range []string{"", "rate_limit_exceeded", "ft:gpt-4.1:org::id", "org/model@2", "a b", "a\nb", "a\x00", "ä", "ａ", "\xff", "\ufeffa", "a\u202eb", "\u2028",
		strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 128), strings.Repeat("a", 129), "unprintable", "\x1b[31m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, c := range []struct {
			got  string
			safe *regexp.Regexp
		}{{batch.SafeCode(s), safeCode}, {batch.SafeName(s), safeName}} {
			want := "unprintable"
			if c.safe.MatchString(s) {
				want = s
			}
			if c.got != want || !c.safe.MatchString(c.got) {
				t.Errorf("%q became %q, want %q", s, c.got, want)
			}
		}
	})
}
