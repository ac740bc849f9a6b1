package sql_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lib/pq"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"rollcall/sql/sqltest"
)

// refusal is which kind of rule refuses a statement.
type refusal string

const (
	unique     refusal = "unique"
	check      refusal = "check"
	foreignKey refusal = "foreign key"
	trigger    refusal = "trigger"
)

// refusalOf says which kind of rule refused a statement.
func refusalOf(err error) refusal {
	var pe *pq.Error
	if errors.As(err, &pe) {
		return map[string]refusal{"23505": unique, "23514": check, "23503": foreignKey, "23001": trigger}[string(pe.Code)]
	}
	var se *sqlite.Error
	if errors.As(err, &se) {
		return map[int]refusal{sqlite3.SQLITE_CONSTRAINT_UNIQUE: unique, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: unique,
			sqlite3.SQLITE_CONSTRAINT_CHECK: check, sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY: foreignKey, sqlite3.SQLITE_CONSTRAINT_TRIGGER: trigger}[se.Code()]
	}
	return ""
}

// step is a statement that may be refused.
type step func(r raw) error

func ins(table string, set row) step { return func(r raw) error { return r.tryInsert(table, set) } }

func run(query string, args ...any) step {
	return func(r raw) error {
		_, err := r.db.Exec(query, args...)
		return err
	}
}

// rule is something that the schema forbids, and a twin that it permits.
type rule struct {
	forbids   string
	setup     func(r raw)
	forbidden step
	by        refusal
	twin      step // nil where there is none
}

func nothing(raw) {}

// oneWork makes report r with work w.
func oneWork(r raw) { r.work("r", "w", nil) }

// twoReadyJobs makes report r with work w, a member of ready job j1, and ready job j2.
func twoReadyJobs(r raw) {
	oneWork(r)
	r.job("j1", "ready", nil)
	r.job("j2", "ready", nil)
	r.member("j1", "w", 1, "")
}

// answered makes report r with work w, which succeeded in job j, and work w2 of
// report r2, which is a member of it as well.
func answered(r raw) {
	oneWork(r)
	r.work("r2", "w2", nil)
	r.job("j", "consumed", row{"item_count": 2})
	r.member("j", "w", 1, "succeeded")
	r.member("j", "w2", 2, "succeeded")
}

// recorded adds artifact and record of w, without a marker.
func recorded(r raw) {
	answered(r)
	r.insert("artifacts", row{"work_id": "w", "job_id": "j"})
	r.insert("review_records", row{"work_id": "w", "report_id": "r", "kind": "classified", "label": "spam", "artifact_id": "w"})
}

// resultSet makes job j with an output set.
func resultSet(r raw) {
	answered(r)
	r.insert("result_sets", row{"job_id": "j"})
}

var identityRules = []rule{
	{"two reports of one identity", oneWork, ins("reports", row{"report_id": "x", "external_id": "ext-r"}), unique,
		ins("reports", row{"report_id": "x", "external_id": "ext-r", "source_system": "shop"})},
	{"one revision twice", oneWork, ins("revisions", row{"report_id": "r"}), unique, ins("revisions", row{"report_id": "r", "revision": 2})},
	{"a text without a revision", oneWork, ins("texts", row{"report_id": "r", "revision": 2}), foreignKey, nil},
	{"a hold without a revision", oneWork, ins("holds", row{"report_id": "r", "revision": 2}), foreignKey, ins("holds", row{"report_id": "r"})},
	{"two live works of a revision", oneWork, ins("works", row{"work_id": "x", "report_id": "r", "policy_version": 2, "boundary_id": "b2"}), unique,
		ins("works", row{"work_id": "x", "report_id": "r", "policy_version": 2, "boundary_id": "b2", "disposition": "withdrawn"})},
	{"two works of a revision under one policy version", oneWork, ins("works", row{"work_id": "x", "report_id": "r", "disposition": "withdrawn"}), unique, nil},
	{"a work under another boundary than its policy's", func(r raw) { r.report("r", 1) },
		ins("works", row{"work_id": "x", "report_id": "r", "boundary_id": "b2"}), foreignKey, ins("works", row{"work_id": "x", "report_id": "r"})},
	{"a work under a policy version that is not there", func(r raw) { r.report("r", 1) },
		ins("works", row{"work_id": "x", "report_id": "r", "policy_version": 9}), foreignKey, nil},
	{"a work on another tenant's report", func(r raw) { r.report("r", 1) },
		ins("works", row{"work_id": "x", "report_id": "r", "tenant_id": "other"}), foreignKey, ins("works", row{"work_id": "x", "report_id": "r"})},
	{"a work of a revision that was not accepted", func(r raw) { r.report("r", 1) },
		ins("works", row{"work_id": "x", "report_id": "r", "revision": 2}), foreignKey, nil},
	{"a reason while a work goes on", oneWork, run("UPDATE works SET reason = 'refused'"), check, run("UPDATE works SET reason = 'refused', stage = 'extracted'")},
	{"a boundary of a policy that is not there", nothing, ins("policy_versions", row{"version": 3, "boundary_id": "b9"}), foreignKey,
		ins("policy_versions", row{"version": 3})},
	{"one decision of one person twice", func(r raw) { r.insert("policy_decisions", nil) }, ins("policy_decisions", row{"seq": 2}), unique,
		ins("policy_decisions", row{"seq": 2, "actor": "ben"})},
	{"a second ledger", nothing, run("INSERT INTO ledger (one, ledger_id, generation, key_check, created_us) VALUES (2, 'l', 1, 'k', 1)"), check, nil},
	{"a second identity of the ledger", nothing, run("INSERT INTO ledger (one, ledger_id, generation, key_check, created_us) VALUES (1, 'l', 1, 'k', 1)"), unique, nil},
}

var sendingRules = []rule{
	{"a work in two open jobs", twoReadyJobs, ins("items", row{"job_id": "j2", "work_id": "w"}), unique,
		ins("items", row{"job_id": "j2", "work_id": "w", "outcome": "missing", "decided_us": 1})},
	{"a work that succeeds twice", func(r raw) { twoReadyJobs(r); r.exec("UPDATE items SET outcome = 'succeeded', decided_us = 1") },
		ins("items", row{"job_id": "j2", "work_id": "w", "outcome": "succeeded", "decided_us": 1}), unique, ins("items", row{"job_id": "j2", "work_id": "w"})},
	{"two members in one place", func(r raw) { twoReadyJobs(r); r.work("r2", "w2", nil) }, ins("items", row{"job_id": "j1", "work_id": "w2"}), unique,
		ins("items", row{"job_id": "j1", "work_id": "w2", "position": 2})},
	{"two members on one line", func(r raw) { twoReadyJobs(r); r.work("r2", "w2", nil) }, ins("items", row{"job_id": "j1", "work_id": "w2", "position": 2, "line": 1}), unique,
		ins("items", row{"job_id": "j1", "work_id": "w2", "position": 2, "line": 2})},
	{"a work in a job of another boundary", func(r raw) { oneWork(r); r.job("j", "ready", row{"policy_version": 2, "boundary_id": "b2"}) },
		ins("items", row{"job_id": "j", "work_id": "w"}), foreignKey, nil},
	{"a work in a job of another boundary, named as the job's", func(r raw) { oneWork(r); r.job("j", "ready", row{"policy_version": 2, "boundary_id": "b2"}) },
		ins("items", row{"job_id": "j", "work_id": "w", "boundary_id": "b2"}), foreignKey, nil},
	{"an outcome without its time", twoReadyJobs, run("UPDATE items SET outcome = 'missing'"), check, run("UPDATE items SET outcome = 'missing', decided_us = 1")},
	{"a submitted job without a provider's id", twoReadyJobs, run("UPDATE jobs SET state = 'submitted', next_submit_us = NULL, next_poll_us = 1 WHERE job_id = 'j1'"), check,
		run("UPDATE jobs SET state = 'submitted', next_submit_us = NULL, next_poll_us = 1, account = 'a', provider_job_id = 'x' WHERE job_id = 'j1'")},
	{"a submitted job that is never polled", twoReadyJobs,
		run("UPDATE jobs SET state = 'submitted', next_submit_us = NULL, account = 'a', provider_job_id = 'x' WHERE job_id = 'j1'"), check, nil},
	{"a ready job that is never sent", twoReadyJobs, run("UPDATE jobs SET next_submit_us = NULL WHERE job_id = 'j1'"), check, run("UPDATE jobs SET next_submit_us = 1 WHERE job_id = 'j1'")},
	{"an ended job without how it ended", answered, run("UPDATE jobs SET phase = NULL WHERE job_id = 'j'"), check, run("UPDATE jobs SET phase = 'invalid' WHERE job_id = 'j'")},
	{"a job without members", func(r raw) { r.job("j", "planning", nil) }, run("UPDATE jobs SET state = 'ready', next_submit_us = 1, item_count = 0 WHERE job_id = 'j'"), check,
		run("UPDATE jobs SET state = 'ready', next_submit_us = 1 WHERE job_id = 'j'")},
	{"one provider job for two jobs", func(r raw) { r.job("j1", "submitted", nil) },
		ins("jobs", row{"job_id": "j2", "state": "submitted", "account": "acct", "provider_job_id": "prov-j1", "next_poll_us": 1}), unique,
		ins("jobs", row{"job_id": "j2", "state": "submitted", "account": "other", "provider_job_id": "prov-j1", "next_poll_us": 1})},
	{"two jobs in planning for one policy version", func(r raw) { r.job("j1", "planning", nil) }, ins("jobs", row{"job_id": "j2"}), unique,
		ins("jobs", row{"job_id": "j2", "policy_version": 2, "boundary_id": "b2"})},
	{"a second intent while one is unresolved", func(r raw) { twoReadyJobs(r); r.insert("submissions", row{"submission_id": "s", "job_id": "j1"}) },
		ins("submissions", row{"submission_id": "x", "job_id": "j1", "attempt": 2}), unique,
		ins("submissions", row{"submission_id": "x", "job_id": "j2", "attempt": 2})},
	{"two accepted submissions of a job", func(r raw) { r.job("j", "submitted", nil) },
		ins("submissions", row{"submission_id": "x", "job_id": "j", "attempt": 2, "outcome": "accepted", "evidence": "e", "closed_us": 1}), unique,
		ins("submissions", row{"submission_id": "x", "job_id": "j", "attempt": 2, "outcome": "rejected", "evidence": "e", "closed_us": 1})},
	{"one attempt twice", func(r raw) { r.job("j", "submitted", nil) }, ins("submissions", row{"submission_id": "x", "job_id": "j"}), unique, nil},
	{"an outcome without evidence", func(r raw) { r.job("j", "ready", nil) }, ins("submissions", row{"submission_id": "x", "job_id": "j", "outcome": "rejected", "closed_us": 1}), check, nil},
	{"an open submission whose text is known to have left", func(r raw) { r.job("j", "ready", nil) }, ins("submissions", row{"submission_id": "x", "job_id": "j", "text_left": 1}), check,
		ins("submissions", row{"submission_id": "x", "job_id": "j", "text_left": 1, "outcome": "rejected", "evidence": "e", "closed_us": 1})},
	{"an accepted submission whose text did not leave", func(r raw) { r.job("j", "submitted", nil) },
		run("UPDATE submissions SET text_left = 0"), check, run("UPDATE submissions SET text_left = 1")},
	{"an outcome without a time", func(r raw) { r.job("j", "ready", nil) }, ins("submissions", row{"submission_id": "x", "job_id": "j", "outcome": "rejected", "evidence": "e"}), check, nil},
}

var resultRules = []rule{
	{"one set twice", resultSet, ins("result_sets", row{"job_id": "j"}), unique, ins("result_sets", row{"job_id": "j", "channel": "error"})},
	{"a whole set without its digest", resultSet, run("UPDATE result_sets SET state = 'whole', line_count = 1"), check,
		run("UPDATE result_sets SET state = 'whole', line_count = 1, mac = 'm'")},
	{"one line twice", func(r raw) { resultSet(r); r.insert("result_lines", row{"job_id": "j"}) }, ins("result_lines", row{"job_id": "j"}), unique,
		ins("result_lines", row{"job_id": "j", "line": 2})},
	{"a line without a set", resultSet, ins("result_lines", row{"job_id": "j", "channel": "error"}), foreignKey, nil},
	{"a line of a work that is no member", func(r raw) { resultSet(r); r.work("r3", "w3", nil) }, ins("result_lines", row{"job_id": "j", "work_id": "w3"}), foreignKey,
		ins("result_lines", row{"job_id": "j", "work_id": "w2"})},
	{"two accepted lines of a work", func(r raw) {
		resultSet(r)
		r.insert("result_lines", row{"job_id": "j", "work_id": "w", "disposition": "accepted"})
	}, ins("result_lines", row{"job_id": "j", "work_id": "w", "line": 2, "disposition": "accepted"}), unique,
		ins("result_lines", row{"job_id": "j", "work_id": "w", "line": 2, "disposition": "dup_same"})},
	{"a success without a label", resultSet, ins("result_lines", row{"job_id": "j", "outcome": "succeeded", "payload_mac": "m"}), check,
		ins("result_lines", row{"job_id": "j", "outcome": "succeeded", "payload_mac": "m", "label": "spam"})},
	{"an artifact of a work that is no member", func(r raw) { answered(r); r.work("r3", "w3", nil) }, ins("artifacts", row{"work_id": "w3", "job_id": "j"}), foreignKey,
		ins("artifacts", row{"work_id": "w2", "job_id": "j"})},
	{"two artifacts of a work", recorded, ins("artifacts", row{"work_id": "w", "job_id": "j"}), unique, ins("artifacts", row{"work_id": "w2", "job_id": "j"})},
	{"two records that stand for a report", func(r raw) {
		recorded(r)
		r.exec("UPDATE works SET disposition = 'superseded' WHERE work_id = 'w'")
		r.insert("works", row{"work_id": "x", "report_id": "r", "policy_version": 2, "boundary_id": "b2"})
	}, ins("review_records", row{"work_id": "x", "report_id": "r", "kind": "unclassified", "reason": "refused"}), unique,
		ins("review_records", row{"work_id": "x", "report_id": "r", "kind": "unclassified", "reason": "refused", "authoritative": 0})},
	{"two records of a work", recorded, ins("review_records", row{"work_id": "w", "report_id": "r", "kind": "unclassified", "reason": "refused", "authoritative": 0}), unique, nil},
	{"a record on another report than its work's", answered, ins("review_records", row{"work_id": "w", "report_id": "r2", "kind": "unclassified", "reason": "refused"}), foreignKey,
		ins("review_records", row{"work_id": "w", "report_id": "r", "kind": "unclassified", "reason": "refused"})},
	{"a record on another revision than its work's", answered,
		ins("review_records", row{"work_id": "w", "report_id": "r", "revision": 2, "kind": "unclassified", "reason": "refused"}), foreignKey, nil},
	{"a record with the artifact of another work", recorded,
		ins("review_records", row{"work_id": "w2", "report_id": "r2", "kind": "classified", "label": "spam", "artifact_id": "w"}), check, nil},
	{"a classification without an artifact", answered, ins("review_records", row{"work_id": "w", "report_id": "r", "kind": "classified", "label": "spam"}), check, nil},
	{"a classification without a label", recorded, run("UPDATE review_records SET label = NULL"), check, run("UPDATE review_records SET label = 'ok'")},
	{"no classification and no reason", answered, ins("review_records", row{"work_id": "w", "report_id": "r", "kind": "unclassified"}), check, nil},
	{"a marker without a record", answered, ins("processed_markers", row{"work_id": "w"}), foreignKey, nil},
	{"two markers of a work", func(r raw) { recorded(r); r.insert("processed_markers", row{"work_id": "w"}) }, ins("processed_markers", row{"work_id": "w", "decision": "history"}), unique, nil},
	{"a record that goes while its marker stays", func(r raw) { recorded(r); r.insert("processed_markers", row{"work_id": "w"}) },
		run("DELETE FROM review_records"), foreignKey, nil},
}

// oneSlot makes schedule s with a slot that runs.
func oneSlot(r raw) {
	r.insert("schedules", row{"schedule": "s"})
	r.insert("slots", row{"schedule": "s"})
}

var guardRules = []rule{
	{"two leases of one name", func(r raw) { r.insert("leases", row{"name": "l"}) }, ins("leases", row{"name": "l"}), unique, ins("leases", row{"name": "l2"})},
	{"one slot twice", func(r raw) { oneSlot(r); r.exec("UPDATE slots SET finished_us = 1, outcome = 'done'") }, ins("slots", row{"schedule": "s"}), unique,
		ins("slots", row{"schedule": "s", "slot_us": startUS + hour, "finished_us": 1, "outcome": "done"})},
	{"two slots of a schedule that are not over", oneSlot, ins("slots", row{"schedule": "s", "slot_us": startUS + hour}), unique,
		run("UPDATE slots SET begun = begun + 1")},
	{"a slot that is over and begun again", oneSlot, run("UPDATE slots SET finished_us = 1, outcome = 'failed', retry_us = 1"), check,
		run("UPDATE slots SET outcome = 'failed', retry_us = 1")},
	{"a slot that is over in no way", oneSlot, run("UPDATE slots SET finished_us = 1"), check, run("UPDATE slots SET finished_us = 1, outcome = 'held'")},
	{"a slot that runs and has ended", oneSlot, run("UPDATE slots SET outcome = 'failed'"), check, run("UPDATE slots SET outcome = 'interrupted', retry_us = 1")},
	{"a slot that is done and begun again", oneSlot, run("UPDATE slots SET outcome = 'done', retry_us = 1"), check, run("UPDATE slots SET outcome = 'done', finished_us = 1")},
	{"a slot of no schedule", nothing, ins("slots", row{"schedule": "s"}), foreignKey, nil},
	{"one pause twice", func(r raw) { r.insert("pauses", row{"pause_id": "p"}) }, ins("pauses", row{"pause_id": "x"}), unique,
		ins("pauses", row{"pause_id": "x", "lifted_us": 1, "lifted_by": "anna", "lift_reason": "r"})},
	{"a pause lifted by nobody", func(r raw) { r.insert("pauses", row{"pause_id": "p"}) }, run("UPDATE pauses SET lifted_us = 1, lift_reason = 'r'"), check, nil},
	{"one open finding twice", func(r raw) { r.insert("findings", row{"finding_id": "f"}) }, ins("findings", row{"finding_id": "x"}), unique,
		ins("findings", row{"finding_id": "x", "resolved_us": 1, "resolved_by": "anna", "resolution": "r"})},
	{"a finding closed without a reason", func(r raw) { r.insert("findings", row{"finding_id": "f"}) }, run("UPDATE findings SET resolved_us = 1, resolved_by = 'anna'"), check, nil},
	{"one token twice", func(r raw) { r.insert("audit_events", row{"op_id": "t"}) }, ins("audit_events", row{"op_id": "t"}), unique, ins("audit_events", row{"op_id": nil})},
	{"a change of an audit event", func(r raw) { r.insert("audit_events", nil) }, run("UPDATE audit_events SET detail = 'x'"), trigger, nil},
	{"the removal of an audit event", func(r raw) { r.insert("audit_events", nil) }, run("DELETE FROM audit_events"), trigger, nil},
}

// emptyIDs are the columns in which an empty string would be a key like any other.
func emptyIDs() []rule {
	var rules []rule
	for _, e := range []struct {
		table, column string
		set           row
		setup         func(raw)
	}{
		{"boundaries", "boundary_id", nil, nothing},
		{"policy_versions", "policy_id", nil, nothing},
		{"reports", "report_id", row{"external_id": "x"}, nothing},
		{"reports", "tenant_id", row{"report_id": "x", "external_id": "x"}, nothing},
		{"reports", "source_system", row{"report_id": "x", "external_id": "x"}, nothing},
		{"reports", "external_id", row{"report_id": "x"}, nothing},
		{"revisions", "content_mac", row{"report_id": "r", "revision": 2}, oneWork},
		{"works", "work_id", row{"report_id": "r"}, func(r raw) { r.report("r", 1) }},
		{"jobs", "job_id", nil, nothing},
		{"jobs", "account", row{"job_id": "x"}, nothing},
		{"jobs", "provider_job_id", row{"job_id": "x"}, nothing},
		{"submissions", "submission_id", row{"job_id": "j"}, func(r raw) { r.job("j", "ready", nil) }},
		{"submissions", "input_file_id", row{"submission_id": "s", "job_id": "j"}, func(r raw) { r.job("j", "ready", nil) }},
		{"result_sets", "file_id", row{"job_id": "j"}, answered},
		{"schedules", "schedule", nil, nothing},
		{"leases", "name", nil, nothing},
		{"pauses", "pause_id", nil, nothing},
		{"findings", "finding_id", nil, nothing},
		{"findings", "subject", row{"finding_id": "x"}, nothing},
		{"audit_events", "op_id", nil, nothing},
	} {
		bad, good := row{e.column: ""}, row{e.column: "x"}
		for k, v := range e.set {
			bad[k], good[k] = v, v
		}
		rules = append(rules, rule{fmt.Sprintf("an empty %s.%s", e.table, e.column), e.setup, ins(e.table, bad), check, ins(e.table, good)})
	}
	return rules
}

// TestSchemaForbids shows that each rule is kept by the database itself, and
// that it forbids no more than it says.
func TestSchemaForbids(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		r := openRaw(t, l.Address)
		rules := append(emptyIDs(), identityRules...)
		rules = append(append(append(rules, sendingRules...), resultRules...), guardRules...)
		if r.postgres {
			rules = append(rules, rule{"the removal of all audit events", nothing, run("TRUNCATE audit_events"), trigger, nil})
		}
		for _, c := range rules {
			t.Run(c.forbids, func(t *testing.T) {
				r := r
				r.t = t
				r.exec("BEGIN")
				defer r.exec("ROLLBACK")
				r.policies()
				c.setup(r)
				r.exec("SAVEPOINT before")
				err := c.forbidden(r)
				if got := refusalOf(err); got != c.by {
					t.Errorf("refused by %q, not by %q: %v", got, c.by, err)
				}
				r.exec("ROLLBACK TO SAVEPOINT before")
				if c.twin == nil {
					return
				}
				if err := c.twin(r); err != nil {
					t.Errorf("the twin is refused: %v", err)
				}
			})
		}
	})
}
