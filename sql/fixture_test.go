package sql_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"rollcall/sql/sqltest"
)

// raw is a test's own connection to a ledger, for rows that no method writes.
type raw struct {
	t        testing.TB
	db       *sqlx.DB
	postgres bool
}

// openRaw connects to a ledger with every constraint in force.
func openRaw(t testing.TB, address string) raw {
	t.Helper()
	return connect(t, address, "foreign_keys(1)")
}

// openLawless connects to a ledger whose foreign keys, checks and partial
// unique indexes are gone, as after a restore that went wrong.
func openLawless(t testing.TB, address string) raw {
	t.Helper()
	r := connect(t, address, "ignore_check_constraints(1)")
	if r.postgres {
		var drops []string
		if err := r.db.Select(&drops, `SELECT 'ALTER TABLE ' || conrelid::regclass || ' DROP CONSTRAINT ' || quote_ident(conname)
			FROM pg_constraint WHERE contype IN ('f', 'c') AND connamespace = 'public'::regnamespace`); err != nil {
			t.Fatal(err)
		}
		for _, d := range drops {
			r.exec(d)
		}
	}
	for _, index := range []string{"works_one_live", "items_one_open", "items_one_success", "submissions_one_open", "submissions_one_accepted",
		"review_records_one_authoritative", "result_lines_one_accepted"} {
		r.exec("DROP INDEX " + index)
	}
	return r
}

func connect(t testing.TB, address, pragma string) raw {
	t.Helper()
	r := raw{t: t, postgres: strings.HasPrefix(address, "postgres://")}
	driver, dsn := "sqlite", address+"?_pragma=busy_timeout(10000)&_pragma=synchronous(OFF)&_pragma="+pragma
	if r.postgres {
		driver, dsn = "postgres", address
	}
	var err error
	if r.db, err = sqlx.Open(driver, dsn); err != nil {
		t.Fatal(err)
	}
	r.db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = r.db.Close() })
	return r
}

func (r raw) exec(query string, args ...any) {
	r.t.Helper()
	if _, err := r.db.Exec(query, args...); err != nil {
		r.t.Fatalf("%s: %v", query, err)
	}
}

// row holds the columns of a row that differ from its table's defaults.
type row map[string]any

const (
	minute = int64(time.Minute / time.Microsecond)
	hour   = 60 * minute
)

var startUS = sqltest.Start.UnixMicro()

// defaults are a valid row of each table but for its references.
var defaults = map[string]row{
	"boundaries": {"processor": "fake", "account": "main", "host": "fake.test", "region": "test", "terms": "{}", "created_us": startUS},
	"policy_versions": {"policy_id": "p", "version": 1, "boundary_id": "b1", "spec": "{}", "spec_mac": "m", "state": "approved",
		"authority": "highest_accepted", "on_due": "unclassified", "created_us": startUS},
	"policy_decisions": {"policy_id": "p", "version": 1, "seq": 1, "decision": "approve", "actor": "anna", "reason": "r", "evidence_ref": "", "spec_mac": "m", "decided_us": startUS},
	"reports":          {"tenant_id": "acme", "source_system": "forum", "current_revision": 1, "created_us": startUS},
	"revisions": {"revision": 1, "content_mac": "m", "mac_key_id": "k", "content_bytes": 10, "cleaned": 0, "urgent": 0, "media": "", "no_text": 0,
		"accepted_us": startUS},
	"texts": {"revision": 1, "encrypted": []byte{1}, "key_id": "k"},
	"holds": {"revision": 1, "reason": "policy_pending", "held_us": startUS},
	"works": {"tenant_id": "acme", "revision": 1, "policy_id": "p", "policy_version": 1, "boundary_id": "b1", "disposition": "live",
		"stage": "pending", "urgent": 0, "content_bytes": 10, "created_us": startUS, "eligible_us": startUS, "due_us": startUS + 48*hour},
	"jobs": {"policy_id": "p", "policy_version": 1, "boundary_id": "b1", "state": "planning", "item_count": 1, "content_bytes": 10,
		"created_us": startUS},
	"items":       {"boundary_id": "b1", "position": 1},
	"submissions": {"attempt": 1, "account": "acct", "fence": 1, "manifest_mac": "m", "line_count": 1, "intent_us": startUS, "send_deadline_us": startUS + 15*minute},
	"result_sets": {"channel": "output", "state": "staging", "file_id": "f"},
	"result_lines": {"channel": "output", "line": 1, "line_mac": "m", "byte_count": 1, "outcome": "refused", "code": "", "model": "",
		"input_tokens": 0, "output_tokens": 0, "disposition": "staged"},
	"artifacts": {"classifier": "c/1", "model": "m", "label": "spam", "evidence": `[{"start":0,"end":4}]`, "encrypted": []byte{1},
		"key_id": "k", "payload_mac": "m", "input_tokens": 1, "output_tokens": 1, "created_us": startUS},
	"review_records":    {"revision": 1, "authoritative": 1, "human_state": "queued", "created_us": startUS},
	"processed_markers": {"decision": "authoritative", "fence": 1, "processed_us": startUS},
	"schedules":         {"expression": "0 2 * * *", "zone": "UTC", "next_due_us": startUS},
	"slots":             {"slot_us": startUS, "fence": 1, "started_us": startUS},
	"leases":            {"holder": "a", "fence": 1, "expires_us": startUS},
	"pauses":            {"scope": "all", "stage": "dispatch", "set_by": "anna", "reason": "r", "set_us": startUS},
	"findings": {"name": "n", "kind": "event", "subject": "s", "severity": "warning", "detail": "", "opened_us": startUS,
		"last_seen_us": startUS, "seen": 1},
	"audit_events": {"at_us": startUS, "actor": "a", "kind": "k", "subject": "s", "detail": ""},
}

// tryInsert inserts a row with its table's defaults filled in.
func (r raw) tryInsert(table string, set row) error {
	full := maps.Clone(defaults[table])
	maps.Copy(full, set)
	columns := slices.Sorted(maps.Keys(full))
	marks, args := make([]string, len(columns)), make([]any, len(columns))
	for i, c := range columns {
		marks[i], args[i] = fmt.Sprintf("$%d", i+1), full[c]
	}
	_, err := r.db.Exec(fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, strings.Join(columns, ", "), strings.Join(marks, ", ")), args...)
	return err
}

func (r raw) insert(table string, set row) {
	r.t.Helper()
	if err := r.tryInsert(table, set); err != nil {
		r.t.Fatalf("insert into %s %v: %v", table, set, err)
	}
}

// policies makes policy versions p/1 and p/2 with their boundaries.
func (r raw) policies() {
	r.t.Helper()
	for version, boundary := range []string{"b1", "b2"} {
		r.insert("boundaries", row{"boundary_id": boundary})
		r.insert("policy_versions", row{"version": version + 1, "boundary_id": boundary})
	}
}

// report makes a report "r<n>" with revisions up to the given one, and their texts.
func (r raw) report(id string, revisions int) {
	r.t.Helper()
	r.insert("reports", row{"report_id": id, "external_id": "ext-" + id, "current_revision": revisions})
	for n := range revisions {
		r.insert("revisions", row{"report_id": id, "revision": n + 1, "content_mac": fmt.Sprint("m", n)})
		r.insert("texts", row{"report_id": id, "revision": n + 1})
	}
}

// work makes a report with one revision and its work.
func (r raw) work(report, work string, set row) {
	r.t.Helper()
	r.report(report, 1)
	full := row{"work_id": work, "report_id": report}
	maps.Copy(full, set)
	r.insert("works", full)
}

// job makes a job in a state, with the columns and the submission that belong to it.
func (r raw) job(id, state string, set row) {
	r.t.Helper()
	full := row{"job_id": id, "state": state}
	sent := row{"account": "acct", "provider_job_id": "prov-" + id, "provider_status": "working", "submitted_us": startUS}
	switch state {
	case "ready":
		full["next_submit_us"] = startUS
	case "submitted":
		maps.Copy(full, sent)
		full["next_poll_us"] = startUS + minute
	case "ended":
		maps.Copy(full, sent)
		maps.Copy(full, row{"phase": "ended", "ended_us": startUS, "next_consume_us": startUS})
	case "consumed":
		maps.Copy(full, sent)
		maps.Copy(full, row{"phase": "ended", "ended_us": startUS, "consumed_us": startUS})
	}
	maps.Copy(full, set)
	r.insert("jobs", full)
	if full["provider_job_id"] != nil {
		r.insert("submissions", row{"submission_id": "sub-" + id, "job_id": id, "outcome": "accepted", "evidence": "id " + id, "closed_us": startUS})
	}
}

// member makes a work an item of a job; outcome "" leaves it open.
func (r raw) member(job, work string, position int, outcome string) {
	r.t.Helper()
	set := row{"job_id": job, "work_id": work, "position": position, "line": position}
	if outcome != "" {
		maps.Copy(set, row{"outcome": outcome, "decided_us": startUS})
	}
	r.insert("items", set)
}

// classified makes artifact, record and marker of a work.
func (r raw) classified(report, work string, revision int, job string, decision string, set row) {
	r.t.Helper()
	r.insert("artifacts", row{"work_id": work, "job_id": job})
	full := row{"work_id": work, "report_id": report, "revision": revision, "kind": "classified", "label": "spam",
		"evidence": `[{"start":0,"end":4}]`, "artifact_id": work}
	maps.Copy(full, set)
	r.insert("review_records", full)
	r.insert("processed_markers", row{"work_id": work, "decision": decision})
}

// clear empties the tables that healthy fills, in a lawless ledger.
func (r raw) clear() {
	r.t.Helper()
	r.exec("BEGIN")
	for _, table := range []string{"processed_markers", "review_records", "artifacts", "result_lines", "result_sets", "submissions", "items", "jobs",
		"works", "holds", "texts", "revisions", "reports", "policy_versions", "boundaries", "pauses", "findings"} {
		r.exec("DELETE FROM " + table)
	}
	r.exec("COMMIT")
}

// healthy fills a ledger with reports in every situation that a sound ledger
// may hold, as of sqltest.Start.
func (r raw) healthy() {
	r.t.Helper()
	r.exec("BEGIN")
	defer r.exec("COMMIT")
	r.policies()
	r.job("j-planning", "planning", nil)
	r.job("j-ready", "ready", nil)
	r.job("j-submitted", "submitted", row{"item_count": 3})
	r.job("j-ended", "ended", nil)
	r.job("j-consumed", "consumed", row{"item_count": 6})
	r.insert("result_sets", row{"job_id": "j-ended"})
	r.insert("result_sets", row{"job_id": "j-consumed", "state": "whole", "mac": "m", "line_count": 6})

	r.work("pending", "w-pending", nil)
	r.work("planned", "w-planned", row{"stage": "collected"})
	r.member("j-planning", "w-planned", 1, "")
	r.work("ready", "w-ready", row{"stage": "collected"})
	r.member("j-ready", "w-ready", 1, "")
	r.work("sent", "w-sent", row{"stage": "collected"})
	r.member("j-submitted", "w-sent", 1, "")
	r.work("ended", "w-ended", row{"stage": "collected"})
	r.member("j-ended", "w-ended", 1, "")

	r.work("extracted", "w-extracted", row{"stage": "extracted"})
	r.member("j-consumed", "w-extracted", 1, "succeeded")
	r.insert("artifacts", row{"work_id": "w-extracted", "job_id": "j-consumed"})
	r.work("done", "w-done", row{"stage": "recorded"})
	r.member("j-consumed", "w-done", 2, "succeeded")
	r.classified("done", "w-done", 1, "j-consumed", "authoritative", nil)
	r.work("refused", "w-refused", row{"stage": "recorded", "reason": "refused"})
	r.member("j-consumed", "w-refused", 3, "refused")
	r.unclassified("refused", "w-refused", "refused")
	// Given to a person while its text was at the provider.
	r.work("overdue", "w-overdue", row{"stage": "recorded", "reason": "overdue"})
	r.member("j-submitted", "w-overdue", 2, "")
	r.unclassified("overdue", "w-overdue", "overdue")

	// Edited: the newer revision stands. Edited after a decision: the older one does.
	r.revised("edited", "j-consumed", 4, row{"authoritative": 0}, "authoritative", nil)
	r.revised("decided", "j-consumed", 6, row{"human_state": "decided"}, "history", row{"authoritative": 0})
	// Edited while the older revision is at the provider.
	r.report("editing", 2)
	r.insert("works", row{"work_id": "w-editing-1", "report_id": "editing", "disposition": "superseded", "stage": "collected"})
	r.member("j-submitted", "w-editing-1", 3, "")
	r.insert("works", row{"work_id": "w-editing-2", "report_id": "editing", "revision": 2})
}

func (r raw) unclassified(report, work, reason string) {
	r.t.Helper()
	r.insert("review_records", row{"work_id": work, "report_id": report, "kind": "unclassified", "reason": reason})
	r.insert("processed_markers", row{"work_id": work})
}

// revised makes a report with two applied revisions, as members of a job at
// two positions.
func (r raw) revised(report, job string, position int, first row, decision string, second row) {
	r.t.Helper()
	r.report(report, 2)
	for n, set := range []row{first, second} {
		work := fmt.Sprintf("w-%s-%d", report, n+1)
		disposition := []string{"superseded", "live"}[n]
		r.insert("works", row{"work_id": work, "report_id": report, "revision": n + 1, "disposition": disposition, "stage": "recorded"})
		r.member(job, work, position+n, "succeeded")
		r.classified(report, work, n+1, job, []string{"authoritative", decision}[n], set)
	}
}
