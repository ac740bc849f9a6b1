package infrai_test

import (
	"testing"

	"rollcall/batch/infrai"
)

// A repeat under a key is made with the API key of the first attempt, or by a
// person (F15): another one is another account, also within a project.
func TestFingerprint(t *testing.T) {
	print := func(change ...func(*infrai.Config)) string {
		return newClient(t, "http://127.0.0.1:1", change...).Account().Fingerprint
	}
	rotated := func(c *infrai.Config) { c.APIKey = func() string { return "sk-other" } }
	unnamed := func(c *infrai.Config) { c.Project = "" }
	if again := print(); print() != again || len(again) != 26 {
		t.Error("the fingerprint of one account is not one")
	}
	seen := map[string]bool{}
	for name, f := range map[string]string{
		"as it is": print(), "another key": print(rotated), "another project": print(func(c *infrai.Config) { c.Project = "proj_2" }),
		"no project": print(unnamed), "no project, another key": print(unnamed, rotated),
	} {
		if seen[f] {
			t.Errorf("%s is the account of another", name)
		}
		seen[f] = true
	}
}
