package transport_test

import (
	"strings"
	"testing"

	"rollcall/batch/transport"
)

func TestParseBase(t *testing.T) {
	base, err := transport.ParseBase("https://EU.api.example/v1/")
	if err != nil || base.Host != "eu.api.example" || base.Path != "/v1" {
		t.Errorf("%v, %v", base, err)
	}
	const key = "sk-secret"
	for _, bad := range []string{"", "http://[" + key, "https://" + key + "@api.example", "https://api.example/?k=" + key, "https://api.example/#" + key, "mailto:" + key} {
		if _, err := transport.ParseBase(bad); err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSafeWords(t *testing.T) {
	for s, want := range map[string][2]bool{ // for a header, for a path
		"": {}, "a b": {}, "a\n": {}, "é": {}, "a/b": {true, false}, "..": {true, false}, ".a": {true, false},
		"a.b_c-9": {true, true}, strings.Repeat("a", 128): {true, true}, strings.Repeat("a", 129): {true, false},
	} {
		if got := [2]bool{transport.HeaderSafe(s), transport.PathSafe(s)}; got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}
