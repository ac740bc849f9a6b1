package sql_test

import (
	"regexp"
	"strings"
	"testing"

	"rollcall/sql/sqltest"
)

// What is asked after every round or run must cost what is open, however many
// reports are done, and before any statistics were gathered.
func TestViewsOfOpenWorkReadPartialIndexes(t *testing.T) {
	views := map[string][]any{
		"view_next": {0}, "view_overdue": {0}, "view_workload": {0},
		"overview_held": nil, "overview_submissions": nil, "overview_decisions": {10, 100}, "pause_list": nil,
	}
	grows := regexp.MustCompile(`(?i)\b(?:scan|search|on) (?:reports|r|works|w|items|i|jobs|j|submissions|s|o|findings|f)\b`)
	open := regexp.MustCompile(`\b(?:works_(?:pending|extracted|unfinished)|jobs_(?:ready|submitted|ended|one_planning)|` +
		`submissions_(?:open|one_open)|findings_one_open)\b`)
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		r := openRaw(t, l.Address)
		r.recordedReports(2000)
		for name, args := range views {
			steps := r.plan(readFile(t, "query/"+name+".sql"), args...)
			for _, step := range steps {
				if grows.MatchString(step) && !strings.Contains(step, "CTE Scan") && !open.MatchString(step) {
					t.Errorf("%s reads what is done: %s, in\n%s", name, strings.TrimSpace(step), strings.Join(steps, "\n"))
				}
			}
		}
	})
}

// What compares whole tables compares their ids first, index against index:
// both are then read in one order, and a SQLite ledger larger than the cache
// is not searched at random.
func TestChecksCompareIndexWithIndex(t *testing.T) {
	l := sqltest.Open(t, "sqlite")
	r := openRaw(t, l.Address)
	r.recordedReports(2000)
	for file, want := range map[string][]string{
		"check/marker_without_record": {"SCAN m USING COVERING INDEX", "SEARCH v USING COVERING INDEX"},
		"check/record_without_marker": {"SCAN v USING COVERING INDEX", "SEARCH m USING COVERING INDEX"},
		"check/stage_against_facts":   {"SCAN w USING COVERING INDEX", "SEARCH m USING COVERING INDEX"},
		"check/report_missing_record": {"SCAN w USING COVERING INDEX", "SEARCH v USING COVERING INDEX", "SCAN r USING COVERING INDEX",
			"SEARCH v USING COVERING INDEX review_records_one_authoritative"},
		"check/report_unaccounted": {"SEARCH w USING COVERING INDEX works_one_live"},
		"query/overview_roll":      {"SCAN r USING COVERING INDEX", "SEARCH v USING COVERING INDEX review_records_one_authoritative"},
		"check/work_unapplied":     {"USING INDEX works_extracted"},
	} {
		text := readFile(t, file+".sql")
		args := []any{10, 0}[:strings.Count(text, "<= $2")+strings.Count(text, "LIMIT $1")]
		plan := strings.Join(r.plan(text, args...), "\n")
		for _, step := range want {
			if !strings.Contains(plan, step) {
				t.Errorf("%s: no %q in\n%s", file, step, plan)
			}
		}
	}
}

// plan are the steps by which a statement is answered. PostgreSQL is told to
// avoid whole tables, which it prefers where they are small.
func (r raw) plan(query string, args ...any) []string {
	r.t.Helper()
	var steps []string
	if !r.postgres {
		var rows []struct {
			ID, Parent, Notused int
			Detail              string
		}
		if err := r.db.Select(&rows, "EXPLAIN QUERY PLAN "+query, args...); err != nil {
			r.t.Fatal(err)
		}
		for _, row := range rows {
			steps = append(steps, row.Detail)
		}
		return steps
	}
	tx := r.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	tx.MustExec("SET LOCAL enable_seqscan = off")
	tx.MustExec("SET LOCAL enable_bitmapscan = off") // whose steps do not name the index with the table
	if err := tx.Select(&steps, "EXPLAIN "+query, args...); err != nil {
		r.t.Fatal(err)
	}
	return steps
}
