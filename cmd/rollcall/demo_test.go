package main

import (
	"bytes"
	"strings"
	"testing"

	"rollcall/cmd/rollcall/demodata"
	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// TestDemoAsEachProvider: the roll call of each is whole on both databases.
func TestDemoAsEachProvider(t *testing.T) {
	for _, as := range allSandboxed[1:] { // TestDemo has the first
		for _, database := range sqltest.Databases {
			t.Run(as.word+" on "+database, func(t *testing.T) {
				args := []string{"demo", "--dir", t.TempDir(), "--provider", as.word}
				if database == "postgres" {
					t.Setenv("ROLLCALL_TEST_DEMO", sqltest.Address(t, database))
					args = append(args, "--database-env", "ROLLCALL_TEST_DEMO")
				}
				out, _ := runs(t, exitDone, args...)
				for _, want := range []string{"nobody is missing, nobody is counted twice", "the sandbox's own books: ", "patient-community/1: " + as.provider + ", host 127.0.0.1:"} {
					if !strings.Contains(out, want) {
						t.Errorf("%q is not in:\n%s", want, out)
					}
				}
			})
		}
	}
}

func TestDemo(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			dir := t.TempDir()
			args := []string{"demo", "--dir", dir}
			if database == "postgres" {
				t.Setenv("ROLLCALL_TEST_DEMO", sqltest.Address(t, database))
				args = append(args, "--database-env", "ROLLCALL_TEST_DEMO")
			}
			var out, errOut bytes.Buffer
			if code := run(t.Context(), args, strings.NewReader(""), &out, &errOut); code != exitDone {
				t.Fatalf("exit code %d\n%s%s", code, out.String(), errOut.String())
			}
			for _, want := range []string{"not a model", "nobody is missing, nobody is counted twice"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in:\n%s", want, out.String())
				}
			}
			// The demo leaves a deployment that its last lines can be tried on.
			o := &operator{t: t, dir: dir}
			c := asJSON[reconcile.CheckReport](o, exitDecision, "check")
			if want := int64(demodata.Count().Reports); c.Roll.Accepted != want || c.Roll.Authoritative != want {
				t.Errorf("accepted %d, authoritative %d, want %d", c.Roll.Accepted, c.Roll.Authoritative, want)
			}
			if n := c.Roll.Unclassified[reconcile.AudioOnly]; n != 1 {
				t.Errorf("%d reports are audio only, want 1", n)
			}
			h := asJSON[[]reconcile.ReportHistory](o, exitDone, "explain", demodata.Example)
			if len(h) != 1 || h[0].Stage != "recorded" || len(h[0].Revisions) != 2 {
				t.Errorf("the example: %+v", h)
			}
		})
	}
}
