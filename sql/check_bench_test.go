package sql_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// BenchmarkCallRoll calls the roll of a ledger full of recorded reports; set
// ROLLCALL_BENCH_REPORTS for another size than 50,000.
func BenchmarkCallRoll(b *testing.B) {
	size := 50_000
	if s := os.Getenv("ROLLCALL_BENCH_REPORTS"); s != "" {
		var err error
		if size, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	for _, d := range sqltest.Databases {
		b.Run(fmt.Sprint(d, "/", size), func(b *testing.B) {
			l := sqltest.Open(b, d)
			openRaw(b, l.Address).recordedReports(size)
			invariants := reconcile.Invariants(l.Clock.Now(), reconcile.DefaultSettings())
			for b.Loop() {
				roll, all, err := l.CallRoll(b.Context(), invariants, 10)
				if err != nil {
					b.Fatal(err)
				}
				if roll.Authoritative != int64(size) {
					b.Fatalf("%+v", roll)
				}
				for i, o := range all {
					if o.Total > 0 {
						b.Fatalf("%s: %v", invariants[i].Name, o)
					}
				}
			}
			b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "reports/s")
		})
	}
}

// recordedReports fills a ledger with reports that a job of 50,000 each
// has classified. Their ids are spread like hashes.
func (r raw) recordedReports(n int) {
	r.t.Helper()
	const numbers = `WITH RECURSIVE n (i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < CAST($1 AS BIGINT)),
		ids AS (SELECT i, CAST((i * 2654435761) % 4294967296 AS TEXT) AS id, 'j' || CAST((i - 1) / 50000 AS TEXT) AS job FROM n) `
	if !r.postgres {
		r.exec("PRAGMA cache_size = -200000")
	}
	r.exec("BEGIN")
	r.policies()
	for i := range (n + 49_999) / 50_000 {
		r.job(fmt.Sprint("j", i), "consumed", row{"item_count": 50_000})
	}
	for _, s := range []string{
		"INSERT INTO reports (report_id, tenant_id, source_system, external_id, current_revision, created_us) " + numbers +
			"SELECT 'r' || id, 'acme', 'forum', 'x' || id, 1, 1 FROM ids",
		"INSERT INTO revisions (report_id, revision, content_mac, mac_key_id, content_bytes, cleaned, urgent, media, no_text, accepted_us) " + numbers +
			"SELECT 'r' || id, 1, 'm', 'k', 10, 0, 0, '', 0, 1 FROM ids",
		"INSERT INTO works (work_id, tenant_id, report_id, revision, policy_id, policy_version, boundary_id, disposition, stage, urgent, content_bytes, created_us, eligible_us, due_us) " + numbers +
			"SELECT 'w' || id, 'acme', 'r' || id, 1, 'p', 1, 'b1', 'live', 'recorded', 0, 10, 1, 1, 1 FROM ids",
		"INSERT INTO items (job_id, work_id, boundary_id, position, line, outcome, code, decided_us) " + numbers +
			"SELECT job, 'w' || id, 'b1', i, i, 'succeeded', '', 1 FROM ids",
		"INSERT INTO artifacts (work_id, job_id, classifier, model, label, evidence, encrypted, key_id, payload_mac, input_tokens, output_tokens, created_us) " + numbers +
			"SELECT 'w' || id, job, 'c', 'm', 'ok', '[]', $2, 'k', 'm', 1, 1, 1 FROM ids",
		"INSERT INTO review_records (work_id, report_id, revision, kind, label, evidence, artifact_id, authoritative, human_state, created_us) " + numbers +
			"SELECT 'w' || id, 'r' || id, 1, 'classified', 'ok', '[]', 'w' || id, 1, 'queued', 1 FROM ids",
		"INSERT INTO processed_markers (work_id, decision, fence, processed_us) " + numbers + "SELECT 'w' || id, 'authoritative', 1, 1 FROM ids",
	} {
		args := []any{n}
		if strings.Contains(s, "$2") {
			args = append(args, []byte{1})
		}
		r.exec(s, args...)
	}
	r.exec("COMMIT")
}
