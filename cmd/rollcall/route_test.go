package main

import (
	"strings"
	"testing"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// TestRouteByHand: in an incident some reports go to a person at once, and the
// passes do the others.
func TestRouteByHand(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			o.edit("rollcall.yaml", "policy: patient-community", "policy: other-policy")
			o.must(exitDone, "intake", o.file("r.jsonl", threeReports)) // held
			r := o.must(exitDone, "route", "a", "--by", "anna", "--reason", "a call")
			if !strings.HasPrefix(r.out, "a (report ") || !strings.HasSuffix(r.out, ", revision 1): given to a person, and recorded\n") {
				t.Errorf("route says %q", r.out)
			}
			o.edit("rollcall.yaml", "policy: other-policy", "policy: patient-community")
			o.must(exitDone, "run", "collect") // the others are bound

			o.must(exitDone, "pause", "--stage", "apply", "--reason", "a drill")
			failed := o.run(strings.NewReader("b\n\n  nobody\r\na\n"), "route", "--stdin", "--reason", "a list")
			lines := strings.Split(failed.out, "\n")
			if failed.code != exitFailed || len(lines) != 4 || !strings.Contains(failed.err, "1 of 3 ids were not routed") ||
				!strings.Contains(lines[0], "given to a person; recorded once apply goes on") || !strings.HasPrefix(lines[1], "nobody: not routed: no report") ||
				!strings.HasSuffix(lines[2], "given to a person before, and recorded") {
				t.Errorf("exit code %d, %s%s", failed.code, failed.out, failed.err)
			}
			o.must(exitDone, "resume", "--stage", "apply", "--reason", "r")
			o.must(exitDone, "run", "--until-idle")

			for id, policy := range map[string]string{"a": "(none)/1", "b": "patient-community/1"} {
				h := asJSON[[]reconcile.ReportHistory](o, exitDone, "explain", id)[0]
				w := h.Works[0]
				if h.Stage != "recorded" || h.Next != "a person reviews it" || w.Record.Reason != "routed" || w.Policy != policy || len(h.Works) != 1 {
					t.Errorf("explain %s: %+v", id, h)
				}
			}
			if views := asJSON[[]policyView](o, exitDone, "policy", "list"); len(views) != 1 {
				t.Errorf("policies %+v", views)
			}
			if b, err := o.box.Books(); err != nil || b.Works.Distinct != 1 {
				t.Errorf("books %+v, %v", b.Works, err)
			}
			if c := asJSON[reconcile.CheckReport](o, exitDone, "check"); c.Roll.Authoritative != 3 || c.Roll.Unclassified[reconcile.Routed] != 2 {
				t.Errorf("the roll %+v", c.Roll)
			}
		})
	}
}

// An id that can be none gets its line, and the others are routed.
func TestRouteOfWhatIsNoText(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
			r := o.run(strings.NewReader("a\n\xff\n"+strings.Repeat("x", idBytes+1)+"\nb\nx\x00y\n"+strings.Repeat("y", 3*idBytes)), "route", "--stdin", "--reason", "a list")
			lines := strings.Split(r.out, "\n")
			if r.code != exitFailed || len(lines) != 7 || !strings.Contains(r.err, "4 of 6 ids were not routed") {
				t.Fatalf("exit code %d, %.500s%s", r.code, r.out, r.err)
			}
			for i, want := range []string{"a (report ", `\xff: not routed: line 2 is no text`, "line 3: not routed: it is longer than 64 KiB", "b (report ",
				`x\u0000y: not routed: line 5 is no text`, "line 6: not routed: it is longer than 64 KiB"} {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("line %d is %q, want %q", i, lines[i], want)
				}
			}
			r = o.must(exitFailed, "route", "\xff", "c", "--reason", "r")
			r.wantSaid(t, `\xff: not routed: it is no text`, "c (report ", "1 of 2 ids were not routed")
		})
	}
}

func TestRouteUsage(t *testing.T) {
	o := newOperator(t, "sqlite")
	for _, args := range [][]string{{"a"}, {"--reason", "r"}, {"a", "--stdin", "--reason", "r"}} {
		o.must(exitUsage, append([]string{"route"}, args...)...)
	}
}
