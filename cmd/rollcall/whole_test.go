package main

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/reconcile"
)

// processLimit bounds one command that runs as a process; it ends long before.
const processLimit = 2 * time.Minute

// ended is a process that has ended.
type ended struct {
	result
	killed bool // by SIGKILL
}

// process runs a command as a process of its own, with more in its environment.
func (o *operator) process(env []string, args ...string) ended {
	o.t.Helper()
	return o.begin(nil, env, args...)()
}

// begin starts a command as a process of its own. wait gives how it ended.
func (o *operator) begin(stdin *os.File, env []string, args ...string) (wait func() ended) {
	o.t.Helper()
	self, err := os.Executable()
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(o.t.Context(), processLimit)
	cmd := exec.CommandContext(ctx, self, append([]string{"-c", filepath.Join(o.dir, "rollcall.yaml")}, args...)...)
	cmd.Env = append(append(os.Environ(), beMain+"=1"), env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if stdin != nil {
		cmd.Stdin = stdin
	}
	if err := cmd.Start(); err != nil {
		cancel()
		o.t.Fatal(err)
	}
	return func() ended {
		o.t.Helper()
		defer cancel()
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
			o.t.Fatal(err)
		}
		o.printed.Write(out.Bytes())
		o.printed.Write(errOut.Bytes())
		if ctx.Err() != nil {
			o.t.Fatalf("rollcall %v does not end: %s%s", args, out.String(), errOut.String())
		}
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		return ended{result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}, status.Signaled() && status.Signal() == syscall.SIGKILL}
	}
}

// wantWhole holds, of a deployment with nothing left to do, that each of n
// reports has its one record, that no text is in two jobs, that ledger and
// provider know of the same jobs, and that no file is left there that no job uses.
func (o *operator) wantWhole(n int) {
	o.t.Helper()
	o.wantWholeRoll(n)
	o.wantSameJobs(n)
}

// wantWholeRoll holds the ledger's own part of it.
func (o *operator) wantWholeRoll(n int) {
	o.t.Helper()
	o.must(exitDone, "run", "sweep")
	o.must(exitDone, "run", "sweep") // what a first one cancelled has ended
	load := asJSON[reconcile.Workload](o, exitDone, "run", "--dry-run")
	check := asJSON[reconcile.CheckReport](o, exitAny, "check")
	if breaches, decisions := check.Broken(), check.Decisions(); breaches+decisions > 0 {
		o.t.Errorf("%d breaches, %d decisions: %s", breaches, decisions, o.must(exitAny, "check").out)
	}
	if roll := check.Roll; roll.Accepted != int64(n) || roll.Authoritative != int64(n) || load.Open > 0 || load.Next != nil {
		o.t.Errorf("the roll: %+v, %d open submissions, next %v", roll, load.Open, load.Next)
	}
	o.noMarker()
}

// wantSameJobs compares the sandbox's books with the ledger.
func (o *operator) wantSameJobs(works int) {
	o.t.Helper()
	books, err := o.box.Books()
	if err != nil {
		o.t.Fatal(err)
	}
	if w := books.Works; w.InMoreThanOneJob != 0 || w.RepeatedInOneJob != 0 || w.Distinct != works {
		o.t.Errorf("the sandbox's books: %+v", w)
	}
	for _, f := range books.FilesNow {
		if len(f.Jobs) == 0 {
			o.t.Errorf("file %s %s is there, and no job uses it", f.ID, f.Name)
		}
	}
	store := o.ledger()
	jobs, err := store.Jobs(o.t.Context(), nil, 1000)
	if err != nil {
		o.t.Fatal(err)
	}
	findings, err := store.Findings(o.t.Context(), false, 1000)
	if err != nil {
		o.t.Fatal(err)
	}
	known := map[string]bool{}
	for _, j := range jobs {
		if j.State != reconcile.JobConsumed {
			o.t.Errorf("job %s is %s", j.JobID, j.State)
		}
		known[j.ProviderJobID] = true
	}
	for _, j := range books.Jobs {
		if j.Accepted && !known[j.ID] && !named(findings, j.ID) {
			o.t.Errorf("the provider accepted %s, and neither a job nor a finding of the ledger names it", j.ID)
		}
		delete(known, j.ID)
	}
	for id := range known {
		o.t.Errorf("the ledger names job %q, and the provider has none of that name", id)
	}
}

func named(findings []reconcile.Finding, id string) bool {
	for _, f := range findings {
		if strings.Contains(f.Detail, id) {
			return true
		}
	}
	return false
}

// wantSoundFile holds that a SQLite file is what it should be, to SQLite itself.
func wantSoundFile(t *testing.T, path string) {
	t.Helper()
	db, err := stdsql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var answer string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&answer); err != nil || answer != "ok" {
		t.Errorf("integrity_check: %q, %v", answer, err)
	}
	var dangling int
	if err := db.QueryRow("SELECT count(*) FROM pragma_foreign_key_check").Scan(&dangling); err != nil || dangling != 0 {
		t.Errorf("foreign_key_check: %d rows, %v", dangling, err)
	}
}
