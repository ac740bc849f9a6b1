//go:build crashpoint

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/batch/sandbox"
	"rollcall/reconcile"
	"rollcall/reconcile/crashpoint"
	"rollcall/sql/sqltest"
)

const (
	crashReports = 6
	crashLimit   = 2 * time.Minute // of one command; it ends long before
)

// crashing is a deployment whose commands are processes of their own, over a
// sandbox that outlives them.
type crashing struct{ *operator }

func newCrashing(t *testing.T, database string) *crashing {
	t.Helper()
	c := &crashing{operator: &operator{t: t, dir: t.TempDir()}}
	c.startBox()
	c.must(exitDone, "init", "--sandbox", "http://"+c.box.address+"/v1", c.dir)
	c.resolveSoon()
	c.edit("rollcall.yaml", "send_within: 300ms", "send_within: 300ms\n  unsent_margin: 200ms", "item_retry: 2s", "item_retry: 20ms", "retry: 2s", "retry: 20ms", "first: 1s", "first: 10ms", "max: 5s", "max: 50ms",
		"jobs:\n", "lease: 50ms\nchunk: 2\njobs:\n  max_items: 3\n")
	if database == "postgres" {
		// Not from the environment, which runs in parallel would share.
		c.file("database.url", sqltest.Address(t, database)+"\n")
		c.edit("rollcall.yaml", "database: rollcall.db", "database: {url: {file: database.url}}")
		c.must(exitDone, "migrate")
	}
	c.must(exitDone, "policy", "approve", "patient-community", "--reason", "a test")
	var lines strings.Builder
	for i := range crashReports {
		fmt.Fprintf(&lines, `{"tenant":"acme-health","system":"forum","id":"c-%d","text":"Post %d: the nurse was kind."}`+"\n", i, i)
	}
	c.file("reports.jsonl", lines.String())
	return c
}

func (c *crashing) startBox() {
	c.t.Helper()
	var err error
	if c.box, err = startSandbox("127.0.0.1:0", sandbox.Options{Dir: filepath.Join(c.dir, "sandbox"), Speed: 600, Seed: 1, Log: quiet}); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := c.box.stop(); err != nil {
			c.t.Error(err)
		}
	})
}

// process runs a command as a process, which is told where to crash.
func (c *crashing) process(crash string, args ...string) (killed bool, code int, out string) {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), crashLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, append([]string{"-c", filepath.Join(c.dir, "rollcall.yaml")}, args...)...)
	cmd.Env = append(os.Environ(), beMain+"=1", "ROLLCALL_CRASH="+crash)
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &all, &all
	var exit *exec.ExitError
	if err = cmd.Run(); err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	if ctx.Err() != nil {
		c.t.Fatalf("rollcall %v does not end: %s", args, all.String())
	}
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status.Signaled() && status.Signal() == syscall.SIGKILL, cmd.ProcessState.ExitCode(), all.String()
}

// live takes the reports in and runs until idle. A command that is killed on the
// way is run again, with the next of the crashes. Nothing is left for an operator
// at the end.
func (c *crashing) live(crashes ...string) {
	c.t.Helper()
	for _, args := range [][]string{{"intake", filepath.Join(c.dir, "reports.jsonl")}, {"run", "--until-idle"}} {
		for {
			crash := ""
			if len(crashes) > 0 {
				crash = crashes[0]
			}
			killed, exit, out := c.process(crash, args...)
			if killed {
				crashes = crashes[1:]
				continue
			}
			if exit != exitDone {
				c.t.Fatalf("rollcall %v ends with exit code %d: %s", args, exit, out)
			}
			break
		}
	}
	if len(crashes) > 0 {
		c.t.Errorf("%v are never hit", crashes)
	}
}

// verify holds that nothing was sent twice, nothing is lost, nothing is open, and
// no file is left at the provider that no job uses.
func (c *crashing) verify() {
	c.t.Helper()
	c.must(exitDone, "run", "sweep")
	c.must(exitDone, "run", "sweep") // what a first one cancelled has ended
	load := asJSON[reconcile.Workload](c.operator, exitDone, "run", "--dry-run")
	check := asJSON[reconcile.CheckReport](c.operator, exitDone, "check")
	books, err := c.box.Books()
	if err != nil {
		c.t.Fatal(err)
	}
	if roll := check.Roll; roll.Accepted != crashReports || roll.Authoritative != crashReports || load.Open > 0 || load.Next != nil {
		c.t.Errorf("the roll: %+v, %d open submissions", roll, load.Open)
	}
	if books.Works.InMoreThanOneJob != 0 || books.Works.RepeatedInOneJob != 0 || books.Works.Distinct != crashReports {
		c.t.Errorf("the sandbox's books: %+v", books.Works)
	}
	for _, f := range books.FilesNow {
		if len(f.Jobs) == 0 {
			c.t.Errorf("file %s %s is there, and no job uses it", f.ID, f.Name)
		}
	}
	c.t.Logf("%d jobs at the provider, %d asked for", books.AcceptedJobs, books.Requests["create"])
}

// before are crashes that make the work of a later pass.
var before = map[string]string{
	crashpoint.ResolveFound: crashpoint.SubmitCreated, crashpoint.ResolveAccepted: crashpoint.SubmitCreated,
	crashpoint.ResolveFenced: crashpoint.SubmitFileNoted, crashpoint.ResolveAbsent: crashpoint.SubmitFileNoted,
	crashpoint.SweepNoted: crashpoint.SubmitUploaded, crashpoint.SweepDeleted: crashpoint.SubmitUploaded,
}

// TestCrashAtEveryPoint kills rollcall at every named point and runs it again.
// Without ROLLCALL_TEST_LONG=1 it does so at the first hit, and on SQLite only.
func TestCrashAtEveryPoint(t *testing.T) {
	databases, hits := []string{"sqlite"}, 1
	if os.Getenv("ROLLCALL_TEST_LONG") != "" {
		databases, hits = sqltest.Databases, 2
	}
	for _, database := range databases {
		for _, point := range crashpoint.Points() {
			for hit := 1; hit <= hits; hit++ {
				crashes := []string{fmt.Sprintf("%s:%d", point, hit)}
				if first, ok := before[point]; ok {
					if hit > 1 {
						continue // there is one uncertain submission
					}
					crashes = append([]string{first}, crashes...)
				}
				t.Run(database+"/"+crashes[len(crashes)-1], func(t *testing.T) {
					t.Parallel()
					c := newCrashing(t, database)
					c.live(crashes...)
					c.verify()
				})
			}
		}
	}
}
