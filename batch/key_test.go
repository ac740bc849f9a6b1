package batch

import (
	"errors"
	"strings"
	"testing"
)

func TestKey(t *testing.T) {
	now := "k1"
	k := NewKey(func() string { return now }, func(s string) bool { return s != "" && !strings.Contains(s, " ") })
	for _, step := range []struct {
		now, checked, current string
		ok                    bool
	}{
		{"k1", "k1", "k1", true}, {"", "k1", "k1", false}, {"k 2", "k1", "k1", false}, {"k2", "k2", "k2", true}, {"", "k2", "k2", false},
	} {
		now = step.now
		err := k.Check("create")
		var e *Error
		if (err == nil) != step.ok || err != nil && (!errors.As(err, &e) || e.Kind != Denied || e.Code != CodeNoKey || e.Op != "create") {
			t.Errorf("%q: %v", step.now, err)
		}
		if k.Checked() != step.checked || k.Current() != step.current {
			t.Errorf("%q: %q and %q", step.now, k.Checked(), k.Current())
		}
	}
	now = "k3" // no call yet
	if k.Checked() != "k2" || k.Current() != "k3" {
		t.Errorf("%q, %q", k.Checked(), k.Current())
	}
	if err := k.Check("x"); err != nil || strings.Contains(NewKey(func() string { return "a b" }, func(string) bool { return false }).Check("x").Error(), "a b") {
		t.Errorf("%v, or the error shows the key", err)
	}
}
