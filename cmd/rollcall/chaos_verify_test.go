//go:build crashpoint

package main

import (
	stdsql "database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"rollcall/reconcile"
)

// checkedEdits are how many edited reports are looked at one by one.
const checkedEdits = 5

// verify holds that nothing was lost, doubled or left behind.
func (c *chaos) verify() {
	c.t.Helper()
	c.done("run", "sweep")
	c.done("run", "sweep") // what the first one cancelled has ended
	c.done("check")
	n := int64(c.size.reports)
	if roll := asJSON[reconcile.CheckReport](c.operator, exitAny, "check").Roll; roll.Accepted != n || roll.Authoritative != n {
		c.t.Errorf("the roll: %+v, want %d", roll, n)
	}
	books, err := c.box.Books()
	if err != nil {
		c.t.Fatal(err)
	}
	if w := books.Works; w.InMoreThanOneJob != 0 || w.RepeatedInOneJob != 0 || int64(w.Distinct) < n {
		c.t.Errorf("the sandbox's books: %+v", w)
	}
	for _, f := range books.FilesNow {
		if len(f.Jobs) == 0 {
			c.t.Errorf("file %s %s is there, and no job uses it", f.ID, f.Name)
		}
	}
	c.log.sandbox = fmt.Sprintf("%d jobs accepted of %d after %d creates, %d texts in them", books.AcceptedJobs, len(books.Jobs), books.Requests["create"], books.Works.Distinct)
	c.verifyEdits()
	if c.cluster == nil {
		c.verifySQLite()
	}
	c.clean("a command", c.printed.String())
}

// done runs a command that has to end with 0. The test goes on in any case, since
// what it finds next may say why.
func (c *chaos) done(args ...string) {
	c.t.Helper()
	if r := c.must(exitAny, args...); r.code != exitDone {
		c.t.Errorf("rollcall %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
}

// verifyEdits holds that the newest revision of a report stands.
func (c *chaos) verifyEdits() {
	c.t.Helper()
	looked := 0
	for i, revision := range c.revisions {
		if revision == 1 || looked == checkedEdits {
			continue
		}
		looked++
		id := fmt.Sprintf("c-%d", i)
		standing := 0
		for _, w := range asJSON[[]reconcile.ReportHistory](c.operator, exitDone, "explain", id)[0].Works {
			if w.Record == nil || !w.Record.Authoritative {
				continue
			}
			if standing++; w.Revision != int64(revision) {
				c.t.Errorf("revision %d of report %s stands, want %d", w.Revision, id, revision)
			}
		}
		if standing != 1 {
			c.t.Errorf("%d records stand for report %s", standing, id)
		}
	}
	if looked == 0 {
		c.t.Error("no report was edited")
	}
}

func (c *chaos) verifySQLite() {
	c.t.Helper()
	db, err := stdsql.Open("sqlite", filepath.Join(c.dir, "rollcall.db"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	var answer string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&answer); err != nil || answer != "ok" {
		c.t.Errorf("integrity_check: %q, %v", answer, err)
	}
}

// tell logs what happened.
func (c *chaos) tell() {
	c.t.Helper()
	l := &c.log
	c.t.Logf("%s in all, %s of it until everything was recorded; daemons: %d killed at random, %d at crash points, %d refused to begin without a database; "+
		"intakes: %d killed, %d without a database; %d stops of PostgreSQL; %d reports, %d edits",
		l.wall.Round(time.Second), l.drained.Round(time.Second), l.kills, len(l.hits), l.lostStarts, l.intakeKills.Load(), l.again.Load(), l.outages, c.given, c.edits())
	c.t.Logf("at the sandbox: %s", l.sandbox)
	c.t.Logf("in the ledger: %s", c.outcomes())
}

func (c *chaos) edits() (n int) {
	for _, r := range c.revisions {
		n += r - 1
	}
	return n
}

// outcomes counts how submissions were settled, and what was surplus.
func (c *chaos) outcomes() string {
	c.t.Helper()
	a := &app{configPath: filepath.Join(c.dir, "rollcall.yaml")}
	d, err := a.open(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	defer d.close()
	jobs, err := d.store.Jobs(c.t.Context(), nil, c.size.reports)
	if err != nil {
		c.t.Fatal(err)
	}
	count := map[string]int{}
	for _, j := range jobs {
		h, err := d.store.JobHistory(c.t.Context(), j.JobID)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, s := range h.Submissions {
			count[settledBy(s)]++
		}
	}
	found, err := d.store.Findings(c.t.Context(), false, c.size.reports)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range found {
		count["finding "+f.Name]++
	}
	return fmt.Sprintf("%d jobs, %v", len(jobs), count)
}

// settledBy is how a submission came to its outcome.
func settledBy(s reconcile.SubmissionView) string {
	switch {
	case strings.Contains(s.Evidence, "found in the account's list"):
		return "found"
	case strings.Contains(s.Evidence, "complete lists show no job"):
		return "absent"
	case strings.Contains(s.Evidence, "no input file was noted"):
		return "unsent"
	}
	return s.Outcome
}
