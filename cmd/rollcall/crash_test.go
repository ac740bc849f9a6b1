//go:build crashpoint

package main

import (
	"bytes"
	"context"
	stdsql "database/sql"
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
type crashing struct {
	*operator
	driver, dsn string // of the ledger
}

func newCrashing(t *testing.T, database string) *crashing {
	t.Helper()
	c := &crashing{operator: &operator{t: t, dir: t.TempDir()}}
	c.startBox()
	c.must(exitDone, "init", "--sandbox", "http://"+c.box.address+"/v1", c.dir)
	c.edit("rollcall.yaml", "item_retry: 2s", "item_retry: 20ms", "retry: 2s", "retry: 20ms", "first: 1s", "first: 10ms", "max: 5s", "max: 50ms",
		"jobs:\n", "lease: 50ms\nchunk: 2\njobs:\n  max_items: 3\n")
	c.driver, c.dsn = "sqlite", filepath.Join(c.dir, "rollcall.db")+"?_pragma=busy_timeout(10000)"
	if database == "postgres" {
		// Not from the environment, which runs in parallel would share.
		c.driver, c.dsn = "postgres", sqltest.Address(t, database)
		c.file("database.url", c.dsn+"\n")
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

// live takes the reports in and runs until idle. The command that is killed on
// the way is run again, and must then end by itself; afterKill is called between
// the two. It returns how the last run ended.
func (c *crashing) live(crash string, afterKill func()) (code int) {
	c.t.Helper()
	crashed := false
	for _, args := range [][]string{{"intake", filepath.Join(c.dir, "reports.jsonl")}, {"run", "--until-idle"}} {
		killed, exit, out := c.process(crash, args...)
		if killed {
			crashed, crash = true, ""
			afterKill()
			killed, exit, out = c.process("", args...)
		}
		if killed || exit != exitDone && exit != exitDecision {
			c.t.Fatalf("rollcall %v ends with exit code %d: %s", args, exit, out)
		}
		code = exit
	}
	if !crashed {
		c.t.Errorf("%s is never hit", crash)
	}
	return code
}

// passDeadlines lets the send deadlines of open submissions, and what is waited
// for behind them, pass at once.
func (c *crashing) passDeadlines() {
	c.t.Helper()
	db, err := stdsql.Open(c.driver, c.dsn)
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	const hour = int64(time.Hour / time.Microsecond)
	if _, err := db.Exec("UPDATE submissions SET send_deadline_us = send_deadline_us - $1 WHERE outcome IS NULL", hour); err != nil {
		c.t.Fatal(err)
	}
}

// verify holds that nothing was sent twice and nothing is lost: each report has
// its record, or is a member of the one job whose submission is open.
func (c *crashing) verify() (open int64) {
	c.t.Helper()
	load := asJSON[reconcile.Workload](c.operator, exitDone, "run", "--dry-run")
	check := asJSON[reconcile.CheckReport](c.operator, exitAny, "check")
	books, err := c.box.Books()
	if err != nil {
		c.t.Fatal(err)
	}
	if roll := check.Roll; check.Broken() != 0 || roll.Accepted != crashReports || roll.Authoritative+roll.InFlight != crashReports ||
		roll.InFlight > 3 || (roll.InFlight > 0) != (load.Open > 0) || load.Next != nil {
		c.t.Errorf("the roll: %+v, %d broken, %d open submissions", roll, check.Broken(), load.Open)
	}
	if books.Works.InMoreThanOneJob != 0 || books.Works.RepeatedInOneJob != 0 || books.Works.Distinct < int(check.Roll.Authoritative) {
		c.t.Errorf("the sandbox's books: %+v", books.Works)
	}
	made := map[string]int{}
	for _, j := range books.Jobs {
		if made[j.Metadata["rc_submission"]]++; made[j.Metadata["rc_submission"]] > 1 {
			c.t.Errorf("submission %s made several jobs", j.Metadata["rc_submission"])
		}
	}
	c.t.Logf("%d of %d reports have a record, %d submissions open, %d jobs at the provider, %d asked for",
		check.Roll.Authoritative, crashReports, load.Open, books.AcceptedJobs, books.Requests["create"])
	return load.Open
}

// named holds that status names an open submission to the operator.
func (c *crashing) named() {
	c.t.Helper()
	view := asJSON[reconcile.Overview](c.operator, exitDecision, "status")
	if len(view.Uncertain) != 1 {
		c.t.Fatalf("status shows %d uncertain submissions", len(view.Uncertain))
	}
	if r := c.must(exitDecision, "status"); !strings.Contains(r.out, view.Uncertain[0].SubmissionID) {
		c.t.Errorf("status does not name submission %s:\n%s", view.Uncertain[0].SubmissionID, r.out)
	}
}

// aftermath is what a crash at a point leaves of the submission on its way.
type aftermath int

const (
	recovers  aftermath = iota
	mayBeOpen           // it is closed as absent behind its deadline, or an operator must look
	staysOpen           // the ledger alone cannot tell whether the provider has the job
)

var aftermaths = map[string]aftermath{
	crashpoint.SubmitIntent: mayBeOpen, crashpoint.SubmitUploaded: mayBeOpen,
	crashpoint.SubmitFileNoted: staysOpen, crashpoint.SubmitCreated: staysOpen,
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
				crash := fmt.Sprintf("%s:%d", point, hit)
				t.Run(database+"/"+crash, func(t *testing.T) {
					t.Parallel()
					crashAt(t, database, crash, aftermaths[point])
				})
			}
		}
	}
}

func crashAt(t *testing.T, database, crash string, after aftermath) {
	c := newCrashing(t, database)
	code := c.live(crash, c.passDeadlines)
	open := c.verify()
	switch {
	case after == recovers && open != 0, after == staysOpen && open != 1, open > 1:
		t.Errorf("%d open submissions", open)
	case open == 0 && code != exitDone:
		t.Errorf("the last run ends with exit code %d although nothing is open", code)
	case open == 1 && code != exitDecision:
		t.Errorf("the last run ends with exit code %d although a submission is open", code)
	case open == 1:
		c.named()
	}
}
