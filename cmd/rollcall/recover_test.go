package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// backup copies the ledger as it is now; restore puts the copy into its place.
func (o *operator) backup(database string) (restore func()) {
	o.t.Helper()
	if database == "sqlite" {
		copied := sqltest.Copy(o.t, filepath.Join(o.dir, "rollcall.db"))
		return func() { o.edit("rollcall.yaml", "database: rollcall.db", "database: "+copied) }
	}
	const env = "ROLLCALL_TEST_DATABASE"
	copied := sqltest.Copy(o.t, os.Getenv(env))
	return func() { o.t.Setenv(env, copied) }
}

// numbered are reports whose texts must not show up anywhere.
func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, `{"tenant":"t","system":"s","id":"m-%d","text":"%s you are an idiot"}`+"\n", i, marker)
	}
	return b.String()
}

// followSteps runs the commands that a recovery printed last, in their order.
func (o *operator) followSteps(printed string, files ...string) {
	o.t.Helper()
	for _, line := range strings.Split(printed, "\n") {
		_, command, found := strings.Cut(line, "rollcall ")
		if !found || !strings.HasPrefix(line, "  ") {
			continue
		}
		command = strings.ReplaceAll(command, `"…"`, "recovered")
		for _, f := range files {
			o.run(nil, append([]string{"--log-level", "trace"}, strings.Fields(strings.ReplaceAll(command, "FILE", f))...)...)
		}
	}
}

// F47: nothing is sent from an older copy before it is whole again, and then
// nothing that had been sent.
func TestF47_RecoverAfterARestore(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			o.must(exitUsage, "recover").wantSaid(t, "--reason is missing")
			first, second := o.file("first.jsonl", numbered(0, 3)), o.file("second.jsonl", numbered(3, 5))
			o.must(exitDone, "intake", first)
			restore := o.backup(database)
			o.must(exitDone, "intake", second)
			o.must(exitDone, "run", "collect", "submit")
			restore()

			o.must(exitDecision, "run", "collect", "submit").wantSaid(t, "older than its witness")
			o.must(exitDecision, "status").wantSaid(t, "ledger_rewound")

			for _, stage := range []string{"dispatch", "apply"} {
				o.must(exitDecision, "resume", "--stage", stage, "--reason", "the drill is over").wantSaid(t, "rollcall recover", "intents to send are missing")
			}

			// The job holds reports that came in after the copy was made.
			r := o.must(exitDecision, "--log-level", "trace", "recover", "--reason", "the disk died")
			r.wantSaid(t, reconcile.RecoveredIncomplete, "1 job holds reports that the ledger does not know", "rollcall recover")
			out := asJSON[reconcile.Recovery](o, exitDecision, "recover", "--reason", "again")
			if out.Complete || out.Generation != 1 || len(out.Jobs) != 1 || out.Jobs[0].Unknown != 2 || out.Jobs[0].Lines != 5 {
				t.Errorf("recovery %+v", out)
			}
			o.must(exitDecision, "run", "submit")
			o.must(exitDone, "intake", second)
			r = o.must(exitDone, "--log-level", "trace", "recover", "--reason", "delivered again")
			r.wantSaid(t, reconcile.RecoveredAdopted, "the ledger is whole, and in its generation 2")
			o.followSteps(r.out, first, second)
			o.must(exitDone, "status").wantSaid(t, "nothing waits for an operator")
			o.must(exitDone, "recover", "--reason", "to see that it is known").wantSaid(t, "hold no job that the ledger does not know")
			o.must(exitDone, "resume", "--stage", "apply", "--reason", "r")
			o.must(exitDone, "resume", "--reason", "r")
			o.wantRoll(5, 1)
			if c := asJSON[reconcile.CheckReport](o, exitDone, "check"); c.Broken() != 0 {
				t.Errorf("broken invariants: %+v", c)
			}
		})
	}
}

// A ledger that cannot be made whole can be taken as it is, by name.
func TestF47_ResumeUnrecovered(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.must(exitDone, "intake", o.file("first.jsonl", numbered(0, 3)))
	restore := o.backup("sqlite")
	o.must(exitDone, "run", "collect", "submit")
	restore()
	o.must(exitDecision, "run", "submit").wantSaid(t, "older than its witness")
	o.must(exitDecision, "resume", "--reason", "r").wantSaid(t, "rollcall recover")
	o.must(exitDone, "resume", "--reason", "nobody can tell", "--unrecovered")
	o.must(exitDone, "resume", "--stage", "apply", "--reason", "nobody can tell")
	// It is not paused again, and sends what its copy takes for unsent.
	o.must(exitDone, "run", "collect", "submit")
	books, err := o.box.Books()
	if err != nil || len(books.Jobs) != 2 {
		t.Errorf("%d jobs, %v", len(books.Jobs), err)
	}
}

// Reports that nobody can deliver again are left out when that is asked for.
func TestF47_RecoverWithoutWhatIsUnknown(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.must(exitDone, "intake", o.file("first.jsonl", numbered(0, 3)))
	restore := o.backup("sqlite")
	o.must(exitDone, "intake", o.file("second.jsonl", numbered(3, 5)))
	o.must(exitDone, "run", "collect", "submit")
	restore()
	out := asJSON[reconcile.Recovery](o, exitDone, "recover", "--without-unknown", "--reason", "the source is gone")
	if !out.Complete || out.Generation != 2 || len(out.Jobs) != 1 || out.Jobs[0].Members != 3 || out.Jobs[0].Became != reconcile.RecoveredAdopted {
		t.Errorf("recovery %+v", out)
	}
	o.must(exitDone, "resume", "--stage", "apply", "--reason", "r")
	o.must(exitDone, "resume", "--reason", "r")
	o.wantRoll(3, 1)
}

func TestRecoverNamesWhatIsLeft(t *testing.T) {
	for n, want := range map[int]string{1: "look at 1 job whose requests", 2: "look at 2 jobs whose requests"} {
		var out strings.Builder
		jobs := make([]reconcile.RecoveredJob, n)
		for i := range jobs {
			jobs[i].Became = reconcile.RecoveredUnreadable
		}
		(&app{out: &out}).printAfterRecovery(reconcile.Recovery{Jobs: jobs})
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

func TestF47_RecoverTellsWhatItHadDoneBeforeAFault(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.misbehave("bad_gateway:op=list_batches")
	o.must(exitFailed, "recover", "--reason", "r").wantSaid(t, "recover from account sandbox", "502")
	o.must(exitDecision, "status").wantSaid(t, "dispatch of all is paused", "apply of all is paused")
}
