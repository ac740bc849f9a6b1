package sql_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"rollcall/sql/sqltest"
)

// A claim is made for a handful of calls, many times for a job. It must cost what
// it claims, however many calls the job has, and before any statistics were
// gathered.
func TestClaimsReadWhatTheyClaim(t *testing.T) {
	const limit, most = 4, 10 * 4
	due := []any{"j0", 10, 1 << 40, limit}
	statements := map[string][]any{
		"call_lock_reports": due, "call_candidates": due, "call_claim": append([]any{20}, due...), "call_next": {"j0"},
		"call_answers": {"j0", 4000, limit}, "call_put_off": {20, 1, 0, "", "j0", "w1", 1, 10},
	}
	read := regexp.MustCompile(`actual time=\S+ rows=(\d+) loops=`)
	removed := regexp.MustCompile(`Rows Removed by \S+ *\S*: (\d+)`)
	whole := regexp.MustCompile(`SCAN (?:calls|c|works|w|reports|r|revisions|v|texts|t|items|i)\b`)
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		r := openRaw(t, l.Address)
		r.recordedReports(8000)
		r.exec("INSERT INTO calls (job_id, work_id, segment, line, state, next_call_us) SELECT job_id, work_id, 1, line, 'due', 1 FROM items")
		for name, args := range statements {
			query := readFile(t, "query/"+name+".sql")
			if !r.postgres {
				if plan := strings.Join(r.plan(query, args...), "\n"); whole.MatchString(plan) {
					t.Errorf("%s reads a whole table:\n%s", name, plan)
				}
				continue
			}
			var steps []string
			tx := r.db.MustBegin()
			if err := tx.Select(&steps, "EXPLAIN ANALYZE "+query, args...); err != nil {
				t.Fatal(name, err)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			plan := strings.Join(steps, "\n")
			for _, m := range append(read.FindAllStringSubmatch(plan, -1), removed.FindAllStringSubmatch(plan, -1)...) {
				rows, err := strconv.Atoi(m[1])
				if err != nil {
					t.Fatal(err)
				}
				if rows > most {
					t.Errorf("%s reads %d rows for %d calls:\n%s", name, rows, limit, plan)
					break
				}
			}
		}
	})
}
