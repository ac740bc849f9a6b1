package batch

import (
	"strings"
	"testing"
)

// A fingerprint stands in databases: it stays what it was, and no two lists of
// parts share one.
func TestFingerprint(t *testing.T) {
	key := []byte(strings.Repeat("k", MinFingerprintKey))
	got := Fingerprint(key, "openai", "host", "", "project", "proj_1")
	if got != "3gb5jcg52fjgffh4gtr4vams5k" {
		t.Errorf("fingerprint %q", got)
	}
	for _, parts := range [][]string{{"openai", "host", "project", "proj_1"}, {"openai", "host", "", "project", "proj_2"}, {"openaihost", "", "project", "proj_1"}} {
		if Fingerprint(key, parts...) == got {
			t.Errorf("%q are the same account", parts)
		}
	}
	if Fingerprint(append(key, 'k'), "openai", "host", "", "project", "proj_1") == got {
		t.Error("the key does not count")
	}
}

func TestValidCustomID(t *testing.T) {
	for s, want := range map[string]bool{
		"a": true, "Zz09_-": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "a b": false, "a.b": false, "ä": false, "a\n": false, "a\x00": false, "a/b": false, `a"b`: false,
	} {
		if ValidCustomID(s) != want {
			t.Errorf("%q: want %v", s, want)
		}
	}
}
