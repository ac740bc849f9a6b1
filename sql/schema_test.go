package sql_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// TestSchemaIsTheSameOnBothDatabases compares tables, columns, keys, indexes,
// checks, foreign keys and views, as each database describes them itself.
func TestSchemaIsTheSameOnBothDatabases(t *testing.T) {
	lite := describeSQLite(openRaw(t, sqltest.Open(t, "sqlite").Address))
	pg := describePostgres(openRaw(t, sqltest.Open(t, "postgres").Address))
	if len(lite) < 200 {
		t.Fatalf("only %d facts about the schema", len(lite))
	}
	if diff := cmp.Diff(lite, pg); diff != "" {
		t.Errorf("schema (-sqlite +postgres):\n%s", diff)
	}
}

// normal takes from an expression what the two databases print differently.
func normal(expr string) string {
	expr = regexp.MustCompile(`::\w+`).ReplaceAllString(expr, "")
	expr = strings.NewReplacer("= ANY (ARRAY[", "IN ", "]", "", "(", "", ")", "", `"`, "", ",", ", ").Replace(expr)
	expr = strings.ToLower(strings.Join(strings.Fields(expr), " "))
	return regexp.MustCompile(` in ('[^']*')$`).ReplaceAllString(expr, " = $1") // a list of one
}

func (r raw) lines(query string) []string {
	r.t.Helper()
	var out []string
	if err := r.db.Select(&out, query); err != nil {
		r.t.Fatalf("%s: %v", query, err)
	}
	return out
}

func describePostgres(r raw) []string {
	r.t.Helper()
	const ours = `n.nspname = 'public' AND c.relname NOT LIKE 'goose%'`
	var facts []string
	for _, l := range r.lines(`SELECT CASE c.relkind WHEN 'v' THEN 'view ' ELSE 'column ' END || c.relname || '.' || a.attname
		|| CASE WHEN c.relkind = 'v' THEN ' ' || a.attnum ELSE ' ' || CASE format_type(a.atttypid, a.atttypmod) WHEN 'bigint' THEN 'integer' WHEN 'bytea' THEN 'blob'
			ELSE format_type(a.atttypid, a.atttypmod) END || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
			|| COALESCE(' default ' || pg_get_expr(d.adbin, d.adrelid), '') END
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
		WHERE c.relkind IN ('r', 'v') AND a.attnum > 0 AND ` + ours) {
		facts = append(facts, normal(l))
	}
	for _, l := range r.lines(`SELECT c.relname || ' ' || CASE k.contype WHEN 'c' THEN pg_get_constraintdef(k.oid)
			ELSE 'key ' || (SELECT string_agg(a.attname, ', ' ORDER BY x.n) FROM unnest(k.conkey) WITH ORDINALITY x(att, n)
				JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = x.att)
			|| COALESCE(' to ' || f.relname || ' ' || (SELECT string_agg(a.attname, ', ' ORDER BY x.n) FROM unnest(k.confkey) WITH ORDINALITY x(att, n)
				JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = x.att), CASE k.contype WHEN 'p' THEN ' primary' ELSE ' unique' END) END
		FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		LEFT JOIN pg_class f ON f.oid = k.confrelid
		WHERE k.contype IN ('c', 'p', 'u', 'f') AND ` + ours) {
		facts = append(facts, normal(l))
	}
	for _, l := range r.lines(`SELECT 'index ' || i.relname || CASE WHEN x.indisunique THEN ' unique' ELSE '' END || ' on ' || c.relname || ' '
			|| (SELECT string_agg(a.attname, ', ' ORDER BY k.n) FROM unnest(x.indkey) WITH ORDINALITY k(att, n)
				JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.att)
			|| COALESCE(' where ' || pg_get_expr(x.indpred, x.indrelid), '')
		FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class c ON c.oid = x.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = x.indexrelid AND k.contype IN ('p', 'u')) AND ` + ours) {
		facts = append(facts, normal(l))
	}
	slices.Sort(facts)
	return facts
}

func describeSQLite(r raw) []string {
	r.t.Helper()
	var facts []string
	for _, l := range r.lines(`SELECT CASE m.type WHEN 'view' THEN 'view ' ELSE 'column ' END || m.name || '.' || c.name
		|| CASE WHEN m.type = 'view' THEN ' ' || (c.cid + 1) ELSE ' ' || lower(c.type) || CASE WHEN c."notnull" = 1 OR c.pk > 0 THEN ' not null' ELSE '' END
			|| COALESCE(' default ' || c.dflt_value, '') END
		FROM sqlite_master m JOIN pragma_table_info(m.name) c
		WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'goose%' AND m.name NOT LIKE 'sqlite%'`) {
		facts = append(facts, normal(l))
	}
	for _, l := range r.lines(`SELECT m.name || ' key ' || (SELECT group_concat(name, ', ') FROM (SELECT name FROM pragma_table_info(m.name) WHERE pk > 0 ORDER BY pk)) || ' primary'
		FROM sqlite_master m WHERE m.type = 'table' AND m.name NOT LIKE 'goose%' AND m.name NOT LIKE 'sqlite%'
		UNION ALL
		SELECT m.name || ' key ' || (SELECT group_concat(name, ', ') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno)) || ' unique'
		FROM sqlite_master m JOIN pragma_index_list(m.name) i WHERE m.type = 'table' AND i.origin = 'u'
		UNION ALL
		SELECT m.name || ' key ' || (SELECT group_concat(f."from", ', ') FROM (SELECT * FROM pragma_foreign_key_list(m.name) ORDER BY seq) f WHERE f.id = k.id)
			|| ' to ' || k."table" || ' ' || (SELECT group_concat(f."to", ', ') FROM (SELECT * FROM pragma_foreign_key_list(m.name) ORDER BY seq) f WHERE f.id = k.id)
		FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) k WHERE m.type = 'table' AND k.seq = 0
		UNION ALL
		SELECT 'index ' || i.name || CASE i."unique" WHEN 1 THEN ' unique' ELSE '' END || ' on ' || m.name || ' '
			|| (SELECT group_concat(name, ', ') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno))
			|| COALESCE(' where ' || (SELECT substr(x.sql, instr(x.sql, 'WHERE ') + 6) FROM sqlite_master x WHERE x.name = i.name AND i.partial = 1), '')
		FROM sqlite_master m JOIN pragma_index_list(m.name) i WHERE m.type = 'table' AND i.origin = 'c'`) {
		facts = append(facts, normal(l))
	}
	for table, text := range tableTexts(r) {
		for _, c := range checksIn(text) {
			facts = append(facts, normal(table+" CHECK "+c))
		}
	}
	slices.Sort(facts)
	return facts
}

// tableTexts are the CREATE TABLE statements of a SQLite ledger, by table.
func tableTexts(r raw) map[string]string {
	r.t.Helper()
	var rows []struct{ Name, SQL string }
	if err := r.db.Select(&rows, "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%'"); err != nil {
		r.t.Fatal(err)
	}
	out := map[string]string{}
	for _, row := range rows {
		out[row.Name] = row.SQL
	}
	return out
}

// checksIn lists what stands in the CHECKs of a CREATE TABLE statement.
func checksIn(text string) []string {
	var out []string
	for {
		_, rest, found := strings.Cut(text, "CHECK (")
		if !found {
			return out
		}
		depth, end := 1, 0
		for ; depth > 0; end++ {
			switch rest[end] {
			case '(':
				depth++
			case ')':
				depth--
			}
		}
		out = append(out, rest[:end-1])
		text = rest[end:]
	}
}

func names[T ~string](lists ...[]T) []string {
	var out []string
	for _, list := range lists {
		for _, v := range list {
			out = append(out, string(v))
		}
	}
	slices.Sort(out)
	return out
}

// TestListsInTheSchemaAreTheProgrammes holds the values that a CHECK permits and
// those that Go knows together. The parity test extends it to PostgreSQL.
func TestListsInTheSchemaAreTheProgrammes(t *testing.T) {
	r := openRaw(t, sqltest.Open(t, "sqlite").Address)
	onALine := slices.DeleteFunc(reconcile.ItemOutcomes(), func(o reconcile.ItemOutcome) bool {
		return slices.Contains([]reconcile.ItemOutcome{reconcile.ItemMissing, reconcile.ItemConflict, reconcile.ItemNotSent}, o)
	})
	want := map[string][]string{
		"calls.state":          {"claimed", "done", "due"},
		"calls.outcome":        names(reconcile.CallOutcomes()),
		"works.disposition":    names([]reconcile.Disposition{reconcile.Live, reconcile.Superseded, reconcile.Withdrawn}),
		"works.stage":          names(reconcile.Stages()),
		"works.reason":         names(reconcile.Reasons()),
		"jobs.state":           names(reconcile.JobStates()),
		"jobs.phase":           {"ended", "invalid"},
		"jobs.waits_for":       names(reconcile.LimitWords()),
		"items.outcome":        names(reconcile.ItemOutcomes()),
		"submissions.outcome":  {"abandoned", "accepted", "proven_absent", "rejected"},
		"result_sets.channel":  names([]batch.Channel{batch.ChannelOutput, batch.ChannelError, batch.ChannelFaults}),
		"result_sets.state":    {"lost", "staging", "whole"},
		"result_lines.outcome": names(onALine, []reconcile.ItemOutcome{"unreadable"}),
		"result_lines.disposition": names([]reconcile.LineDisposition{reconcile.LineStaged, reconcile.LineAccepted, reconcile.LineDupSame,
			reconcile.LineDupConflict, reconcile.LineUnknownID, reconcile.LineMalformed, reconcile.LineItemError}),
		"review_records.kind":        {"classified", "unclassified"},
		"review_records.human_state": {"claimed", "decided", "queued"},
		"processed_markers.decision": names([]reconcile.MarkerDecision{reconcile.MarkAuthoritative, reconcile.MarkHistory}),
		"policy_versions.state":      names([]reconcile.PolicyState{reconcile.PolicyDraft, reconcile.PolicyApproved, reconcile.PolicyRevoked}),
		"policy_versions.authority":  names([]reconcile.AuthorityRule{reconcile.HighestAccepted, reconcile.HighestApplied}),
		"policy_versions.on_due":     names([]reconcile.DueRule{reconcile.DueUnclassified, reconcile.DueWait}),
		"policy_decisions.decision":  {"approve", "revoke"},
		"holds.reason":               {"policy_pending"},
		"pauses.stage":               names([]reconcile.PausedStage{reconcile.PauseIntake, reconcile.PauseDispatch, reconcile.PausePoll, reconcile.PauseApply}),
		"findings.kind":              {"event", "invariant"},
		"surplus_objects.kind":       {"file", "job"},
		"slots.outcome":              names(reconcile.SlotOutcomes()),
		"findings.severity":          names([]reconcile.Severity{reconcile.Notice, reconcile.Warning, reconcile.Critical}),
	}
	got := map[string][]string{}
	list := regexp.MustCompile(`^(\w+) IN \(\s*('[^)]*)\)$`)
	for table, text := range tableTexts(r) {
		for _, c := range checksIn(text) {
			if m := list.FindStringSubmatch(c); m != nil {
				var values []string
				for _, v := range strings.Split(m[2], ",") {
					values = append(values, strings.Trim(strings.TrimSpace(v), "'"))
				}
				slices.Sort(values)
				got[table+"."+m[1]] = values
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lists (-programme +schema):\n%s", diff)
	}
}

func TestF49_FourMigrateAtOnce(t *testing.T) {
	for _, d := range sqltest.Databases {
		t.Run(d, func(t *testing.T) {
			address := sqltest.Address(t, d)
			var ran [4]int
			var errs [4]error
			var start, done sync.WaitGroup
			start.Add(1)
			for i := range ran {
				done.Go(func() {
					s, err := sql.Open(t.Context(), sql.Options{Address: address, Create: true})
					if err != nil {
						errs[i] = err
						return
					}
					start.Wait()
					ran[i], errs[i] = s.Migrate(t.Context())
					errs[i] = errors.Join(errs[i], s.CheckSchema(t.Context()), s.Close())
				})
			}
			start.Done()
			done.Wait()
			if err := errors.Join(errs[:]...); err != nil {
				t.Fatal(err)
			}
			total := 0
			for _, n := range ran {
				total += n
			}
			files, err := filepath.Glob("migration/sqlite/*.sql")
			if err != nil || total != len(files) {
				t.Errorf("%d migrations ran, of %d: %v, %v", total, len(files), ran, err)
			}
		})
	}
}

func TestF49_SchemaOfAnotherVersionIsRefused(t *testing.T) {
	for _, d := range sqltest.Databases {
		t.Run(d, func(t *testing.T) {
			ctx := t.Context()
			s, err := sql.Open(ctx, sql.Options{Address: sqltest.Address(t, d), Create: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			if err := s.CheckSchema(ctx); !errors.Is(err, sql.ErrSchemaBehind) {
				t.Errorf("an empty database: %v", err)
			}
		})
		t.Run(d+"/newer", func(t *testing.T) {
			l := sqltest.Open(t, d)
			if n, err := l.Migrate(t.Context()); err != nil || n != 0 {
				t.Errorf("a second time: %d migrations, %v", n, err)
			}
			openRaw(t, l.Address).exec(fmt.Sprintf("INSERT INTO goose_db_version (version_id, is_applied) VALUES (%d, true)", 99))
			if err := l.CheckSchema(t.Context()); !errors.Is(err, sql.ErrSchemaAhead) {
				t.Errorf("a newer database: %v", err)
			}
		})
	}
}
