package batch_test

import (
	"strings"
	"testing"

	"rollcall/batch"
)

func TestSafeCodeAndSafeName(t *testing.T) {
	const no = "unprintable"
	for _, tc := range []struct{ in, code, name string }{
		{"", "", ""},
		{"rate_limit_exceeded", "rate_limit_exceeded", "rate_limit_exceeded"},
		{"gpt-4.1-mini-2025-04-14", "gpt-4.1-mini-2025-04-14", "gpt-4.1-mini-2025-04-14"},
		{"ft:gpt-4.1:org::id", no, "ft:gpt-4.1:org::id"},
		{"org/model", no, "org/model"},
		{"model@20250414", no, "model@20250414"},
		{"model+adapter", no, "model+adapter"},
		{"two words", no, no},
		{"line\nfeed", no, no},
		{"nul\x00", no, no},
		{"é", no, no},
		{"not UTF-8 \xff", no, no},
		{"\xff", no, no},
		{`quote"`, no, no},
		{"a,b", no, no},
		{strings.Repeat("x", 64), strings.Repeat("x", 64), strings.Repeat("x", 64)},
		{strings.Repeat("x", 65), no, strings.Repeat("x", 65)},
		{strings.Repeat("x", 128), no, strings.Repeat("x", 128)},
		{strings.Repeat("x", 129), no, no},
	} {
		if got := batch.SafeCode(tc.in); got != tc.code {
			t.Errorf("SafeCode(%q) = %q, want %q", tc.in, got, tc.code)
		}
		if got := batch.SafeName(tc.in); got != tc.name {
			t.Errorf("SafeName(%q) = %q, want %q", tc.in, got, tc.name)
		}
	}
}
