package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"rollcall/reconcile"
	"rollcall/reconcile/source"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// intakeTest is a reconciler that takes reports in, over a fresh ledger.
type intakeTest struct {
	*reconcile.Reconciler
	ledger   *sqltest.Ledger
	rules    reconcile.SourceRules
	log      bytes.Buffer
	outcomes []string // of the last take
	shown    bytes.Buffer
}

func newIntakeTest(l *sqltest.Ledger) *intakeTest {
	it := &intakeTest{ledger: l}
	it.Reconciler = &reconcile.Reconciler{
		Store: l.Store, Keys: l.Keys, Settings: reconcile.DefaultSettings(), Log: zerolog.New(&it.log).Level(zerolog.TraceLevel),
		Now:       func(context.Context) (time.Time, error) { return l.Clock.Now(), nil },
		Uptime:    l.Clock.Uptime,
		PolicyFor: func(tenant, system string) (string, bool) { return "forum", system != "stranger" },
	}
	return it
}

// readReports makes a reader of JSONL whose fields have the names of the sample files.
func readReports(t testing.TB, r io.Reader) *source.Reader {
	t.Helper()
	m := source.DefaultMapping()
	if err := errors.Join(m.Take("id=report_id"), m.Take("system=source")); err != nil {
		t.Fatal(err)
	}
	in, err := source.NewReader(r, source.JSONL, m, source.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// take runs one intake, and holds the sum of lines together.
func (it *intakeTest) take(t testing.TB, in reconcile.Reports) (reconcile.IntakeTally, error) {
	t.Helper()
	it.outcomes = nil
	rules := func(tenant, system string) (reconcile.SourceRules, bool) { return it.rules, system != "stranger" }
	tally, err := it.Intake(t.Context(), in, rules, func(o reconcile.Outcome) {
		fmt.Fprintf(&it.shown, "%+v %v\n", o, o.Refused)
		if o.Refused != nil {
			it.outcomes = append(it.outcomes, o.Refused.Error())
			return
		}
		s := fmt.Sprintf("%d %s %d", o.Receipt.Line, o.Receipt.Verdict, o.Receipt.Revision)
		if o.Receipt.Held {
			s += " held"
		}
		it.outcomes = append(it.outcomes, s)
	})
	if answered := tally.Answered(); int(answered+tally.Refused) != len(it.outcomes) || err == nil && answered+tally.Refused+tally.Blank != tally.Lines {
		t.Errorf("tally %+v does not add up; %d outcomes", tally, len(it.outcomes))
	}
	return tally, err
}

func (it *intakeTest) mustTake(t testing.TB, text string) reconcile.IntakeTally {
	t.Helper()
	tally, err := it.take(t, readReports(t, strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	return tally
}

// dump is every row that intake writes, in order.
func (it *intakeTest) dump(t testing.TB) []string {
	t.Helper()
	db := it.connect(t)
	var all []string
	for _, query := range []string{
		"SELECT report_id || ' ' || current_revision || ' ' || created_us FROM reports",
		"SELECT report_id || ' ' || revision || ' ' || content_mac || ' ' || content_bytes || ' ' || cleaned || ' ' || no_text || ' ' || accepted_us FROM revisions",
		"SELECT report_id || ' ' || revision || ' ' || key_id FROM texts",
		"SELECT work_id || ' ' || revision || ' ' || policy_version || ' ' || disposition || ' ' || stage || ' ' || COALESCE(reason, '') || ' ' || due_us FROM works",
		"SELECT report_id || ' ' || revision || ' ' || held_us FROM holds",
		"SELECT finding_id || ' ' || name || ' ' || subject FROM findings",
		"SELECT kind || ' ' || subject || ' ' || detail FROM audit_events",
	} {
		var rows []string
		if err := db.Select(&rows, query+" ORDER BY 1"); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(len(rows)))
		all = append(all, rows...)
	}
	return all
}

func (it *intakeTest) connect(t testing.TB) *sqlx.DB {
	t.Helper()
	driver := "sqlite"
	if strings.HasPrefix(it.ledger.Address, "postgres://") {
		driver = "postgres"
	}
	db, err := sqlx.Open(driver, it.ledger.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// reportLine is a line about report id.
func reportLine(id string, revision int, text string) string {
	return fmt.Sprintf(`{"tenant":"acme","source":"forum","report_id":%q,"revision":%d,"text":%q}`+"\n", id, revision, text)
}

func TestIntakeOfOneFile(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		l.Approve(t, sqltest.Policy("forum", 1))
		it := newIntakeTest(l)
		file := reportLine("a", 1, "one") +
			"\n" +
			reportLine("b", 1, "") +
			reportLine("a", 1, "one") + // again
			reportLine("a", 1, "other") + // under a known revision
			"{\n" +
			reportLine("a", 3, "three") +
			reportLine("a", 2, "two") +
			`{"tenant":"acme","source":"stranger","report_id":"a","text":"x"}` + "\n" +
			`{"tenant":"acme","source":"forum","text":"x"}` + "\n" +
			`{"tenant":"acme","source":"forum","report_id":"c","media":"audio"}` + "\n" +
			`{"tenant":"acme","source":"forum","report_id":"d","text":"bell \u0007"}`
		tally := it.mustTake(t, file)
		slices.Sort(it.outcomes)
		want := []string{"1 accepted 1", "11 accepted 1", "12 accepted 1", "3 accepted 1", "4 unchanged 1", "5 conflict 1", "7 revised 3", "8 late 2",
			"line 10: report_id is missing or empty",
			"line 6: ends within its JSON object; it may be cut short",
			"line 9: source is not configured as a source for this tenant"}
		if diff := cmp.Diff(want, it.outcomes); diff != "" {
			t.Error(diff)
		}
		want2 := reconcile.IntakeTally{Lines: 12, Bytes: int64(len(file)), Blank: 1, Refused: 3, Accepted: 4, Revised: 1, Late: 1, Unchanged: 1, Conflict: 1, Cleaned: 1}
		if diff := cmp.Diff(want2, tally); diff != "" {
			t.Error(diff)
		}
		var reasons []string
		if err := it.connect(t).Select(&reasons, "SELECT stage || ' ' || reason FROM works WHERE reason IS NOT NULL ORDER BY reason"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"extracted audio_only", "extracted no_text"}, reasons); diff != "" {
			t.Error(diff)
		}
	})
}

// A file of which a part is committed is sent again as a whole.
func TestF8_InterruptedImportIsRunAgain(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		l.Approve(t, sqltest.Policy("forum", 1))
		it := newIntakeTest(l)
		it.Settings.Chunk = 2
		var file string
		for i := range 7 {
			file += reportLine(fmt.Sprint(i), 1, "x")
		}
		gone := errors.New("the disk is gone")
		tally, err := it.take(t, readReports(t, io.MultiReader(strings.NewReader(file[:len(file)*5/7]), iotest.ErrReader(gone))))
		if !errors.Is(err, gone) || tally.Accepted != 5 {
			t.Fatalf("tally %+v, %v", tally, err)
		}
		if tally := it.mustTake(t, file); tally.Accepted != 2 || tally.Unchanged != 5 {
			t.Errorf("second run: %+v", tally)
		}
		before := it.dump(t)
		l.Clock.Advance(time.Hour)
		if tally := it.mustTake(t, file); tally.Unchanged != 7 {
			t.Errorf("third run: %+v", tally)
		}
		if diff := cmp.Diff(before, it.dump(t)); diff != "" {
			t.Errorf("the third run changed the ledger: %s", diff)
		}
	})
}

func TestF1_CommitOfUnknownOutcome(t *testing.T) {
	lost := errors.New("the connection broke")
	for _, database := range sqltest.Databases {
		for name, tc := range map[string]struct {
			fail map[int]bool // by number of the commit
			want error
		}{
			"once":  {map[int]bool{1: true}, nil},
			"twice": {map[int]bool{1: true, 2: true}, reconcile.ErrUnknownCommit},
		} {
			t.Run(database+"/"+name, func(t *testing.T) {
				commits := 0
				l := sqltest.OpenWith(t, sqltest.Migrated(t, database), sql.Options{Commit: func(name string, commit func() error) error {
					if name != "accept reports" {
						return commit()
					}
					if commits++; tc.fail[commits] {
						return lost
					}
					return commit()
				}})
				l.Approve(t, sqltest.Policy("forum", 1))
				it := newIntakeTest(l)
				file := reportLine("a", 1, "x") + reportLine("b", 1, "x")
				tally, err := it.take(t, readReports(t, strings.NewReader(file)))
				if !errors.Is(err, tc.want) || err == nil && tally.Accepted != 2 || err != nil && len(it.outcomes) > 0 {
					t.Errorf("tally %+v, outcomes %v, %v", tally, it.outcomes, err)
				}
				tally = it.mustTake(t, file)
				if tally.Accepted+tally.Unchanged != 2 || (tally.Accepted == 2) != (tc.want != nil) {
					t.Errorf("again: %+v", tally)
				}
			})
		}
	}
}

func TestF7_ReportsAreHeldUntilAPolicyIsApproved(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		it := newIntakeTest(l)
		if tally := it.mustTake(t, reportLine("a", 1, "x")); tally.Held != 1 || tally.Accepted != 1 {
			t.Errorf("without a policy: %+v", tally)
		}
		l.Approve(t, sqltest.Policy("forum", 1))
		l.Approve(t, sqltest.Policy("forum", 2))
		it.mustTake(t, reportLine("b", 1, "x"))
		var versions []int
		if err := it.connect(t).Select(&versions, "SELECT policy_version FROM works"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{2}, versions); diff != "" {
			t.Errorf("the newest approved version was to be bound: %s", diff)
		}
	})
}

func TestIntakeSaysThatItIsPaused(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		it := newIntakeTest(l)
		pause := reconcile.Pause{Scope: reconcile.ScopeAll, Stage: reconcile.PauseIntake, Actor: "a", Reason: "r"}
		if _, err := l.Pause(t.Context(), l.Clock.Now(), pause); err != nil {
			t.Fatal(err)
		}
		if tally, err := it.take(t, readReports(t, strings.NewReader(reportLine("a", 1, "x")))); !errors.Is(err, reconcile.ErrPaused) || tally.Answered() != 0 {
			t.Errorf("tally %+v, %v", tally, err)
		}
	})
}

func TestSourceWithoutRevisions(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		l.Approve(t, sqltest.Policy("forum", 1))
		it := newIntakeTest(l)
		it.rules.Revision = reconcile.RevisionNew
		it.mustTake(t, reportLine("a", 1, "one")+reportLine("a", 1, "two")+reportLine("a", 1, "two")+reportLine("a", 1, "one")+reportLine("a", 1, "three"))
		// The replay of the first content is no edit back to it.
		if diff := cmp.Diff([]string{"1 accepted 1", "2 revised 2", "3 unchanged 2", "4 unchanged 1", "5 revised 3"}, it.outcomes); diff != "" {
			t.Error(diff)
		}
	})
}

// A source without revisions delivers one all the same, as high as it gets: the
// edit behind it has no revision left. It must not stop the lines around it.
func TestEditBehindTheHighestRevision(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		l.Approve(t, sqltest.Policy("forum", 1))
		it := newIntakeTest(l)
		it.rules.Revision = reconcile.RevisionNew
		last := fmt.Sprint(" ", source.MaxRevision)
		for _, step := range []struct {
			file string
			want []string
		}{
			{reportLine("b", 1, "x") + reportLine("a", math.MaxInt64, "one") + reportLine("a", source.MaxRevision+1, "one") + reportLine("c", 1, "x"),
				[]string{"1 accepted 1", "2 refused", "3 refused", "4 accepted 1"}},
			{reportLine("a", source.MaxRevision, "one") + reportLine("a", 1, "one") + reportLine("d", 1, "x"),
				[]string{"1 accepted" + last, "2 unchanged" + last, "3 accepted 1"}},
			{reportLine("a", 1, "two") + reportLine("e", 1, "x") + reportLine("a", 2, "three") + reportLine("f", 1, "x"),
				[]string{"1 conflict" + last, "2 accepted 1", "3 conflict" + last, "4 accepted 1"}},
		} {
			it.mustTake(t, step.file)
			for i, o := range it.outcomes {
				if line, _, bad := strings.Cut(strings.TrimPrefix(o, "line "), ": revision is not between 0 and"); bad {
					it.outcomes[i] = line + " refused"
				}
			}
			if diff := cmp.Diff(step.want, slices.Sorted(slices.Values(it.outcomes))); diff != "" {
				t.Error(diff)
			}
		}
		var findings []string
		if err := it.connect(t).Select(&findings, "SELECT name FROM findings"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{reconcile.EventRevisionConflict.Name}, findings); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSourceWithoutIds(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		l.Approve(t, sqltest.Policy("forum", 1))
		it := newIntakeTest(l)
		it.rules = reconcile.SourceRules{Identity: reconcile.IdentityDigest, DigestOf: []string{"url", "text"}}
		line := func(url, text string) string {
			return fmt.Sprintf(`{"tenant":"acme","source":"forum","url":%q,"text":%s}`+"\n", url, text)
		}
		it.mustTake(t, line("/1", `"one"`)+line("/1", `"\u006fne"`)+line("/1o", `"ne"`)+line("/2", `"one"`)+
			`{"tenant":"acme","source":"forum","text":"one"}`+"\n")
		want := []string{"line 5: url is missing or no valid Unicode, and the source's reports are known by it",
			"1 accepted 1", "2 unchanged 1", "3 accepted 1", "4 accepted 1"}
		if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(it.outcomes))); diff != "" {
			t.Error(diff)
		}
		var ids []string
		if err := it.connect(t).Select(&ids, "SELECT external_id FROM reports"); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if len(id) != 64 {
				t.Errorf("external id %q is no digest", id)
			}
		}
		it.rules.DigestOf = nil
		it.mustTake(t, line("/3", `"x"`)+line("/4", `"y"`))
		if diff := cmp.Diff([]string{"line 1: report_id cannot be made: the source's rules name no field", "line 2: report_id cannot be made: the source's rules name no field"}, it.outcomes); diff != "" {
			t.Error(diff)
		}
	})
}

// The marker is in every field that may hold text, and nowhere in what leaves.
func TestTextStaysInTheLedger(t *testing.T) {
	const marker = "XYZZYMARKER"
	l := sqltest.Open(t, "sqlite")
	l.Approve(t, sqltest.Policy("forum", 1))
	it := newIntakeTest(l)
	file := reportLine("a", 1, marker) + reportLine("a", 1, marker+" other") + `{"tenant":"acme","source":"forum","report_id":"a","revision":2,"text":"` + marker + `\u0007"}` + "\n" +
		`{"tenant":"acme","source":"forum","report_id":"b","text":"` + marker + "\n" +
		`{"tenant":"acme","source":"forum","report_id":"b","text":["` + marker + `"]}` + "\n" +
		`{"tenant":"acme","source":"forum","report_id":"b","text":"` + marker + `","text":"` + marker + `"}` + "\n" +
		`{"tenant":"acme","source":"forum","report_id":"b","` + marker + `":1,"` + marker + `":2}` + "\n" +
		`{"tenant":"acme","source":"forum","report_id":"b","media":"` + marker + ` said"}` + "\n" +
		`{"tenant":"acme","source":"forum","report_id":"b","revision":"` + marker + `","text":"x"}` + "\n" +
		`{"tenant":"acme","source":"forum","report_id":"b","urgent":"` + marker + `","text":"x"}` + "\n" +
		`{"tenant":"acme","source":"forum","report_id":"` + marker + `\n","text":"x"}` + "\n" +
		marker + "\n" + `"` + marker + `"` + "\n" + `{"a":"b"}` + marker + "\n"
	if tally := it.mustTake(t, file); tally.Refused != 11 || tally.Accepted != 1 || tally.Conflict != 1 || tally.Revised != 1 {
		t.Fatalf("tally %+v: %v", tally, it.outcomes)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(l.Address + "*")
	if err != nil {
		t.Fatal(err)
	}
	leaks := map[string][]byte{"log": it.log.Bytes(), "outcomes": it.shown.Bytes()}
	for _, f := range files {
		if leaks[f], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	for where, b := range leaks {
		if len(b) == 0 && where == "log" {
			t.Error("nothing was logged")
		}
		if bytes.Contains(b, []byte(marker)) {
			t.Errorf("%s holds the marker", where)
		}
	}
}

// Deliveries of a report may come in any order, and more than once: what stands
// is the highest revision.
func TestIntakeCommutes(t *testing.T) {
	l := sqltest.Open(t, "sqlite")
	l.Approve(t, sqltest.Policy("forum", 1))
	it := newIntakeTest(l)
	db := it.connect(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		id := fmt.Sprint("r", n)
		revisions := rapid.SliceOfNDistinct(rapid.IntRange(0, 50), 1, 5, rapid.ID).Draw(rt, "revisions")
		again := rapid.SliceOfN(rapid.SampledFrom(revisions), 0, 4).Draw(rt, "again")
		order := rapid.Permutation(append(slices.Clone(revisions), again...)).Draw(rt, "order")
		it.Settings.Chunk = rapid.IntRange(1, 4).Draw(rt, "chunk")
		var file string
		for _, revision := range order {
			file += reportLine(id, revision, fmt.Sprint("content ", revision))
		}
		tally := it.mustTake(t, file)
		if int(tally.Unchanged) != len(again) || int(tally.Accepted+tally.Revised+tally.Late) != len(revisions) {
			rt.Fatalf("tally %+v for %v", tally, order)
		}
		if tally := it.mustTake(t, file); int(tally.Unchanged) != len(order) {
			rt.Fatalf("again: %+v", tally)
		}
		var got struct {
			Current   int `db:"current_revision"`
			Live      int `db:"live"`
			LiveWorks int `db:"live_works"`
			Stored    int `db:"stored"`
		}
		if err := db.Get(&got, `SELECT r.current_revision,
			(SELECT MAX(w.revision) FROM works w WHERE w.report_id = r.report_id AND w.disposition = 'live') AS live,
			(SELECT COUNT(*) FROM works w WHERE w.report_id = r.report_id AND w.disposition = 'live') AS live_works,
			(SELECT COUNT(*) FROM texts x WHERE x.report_id = r.report_id) AS stored
			FROM reports r WHERE r.external_id = $1`, id); err != nil {
			rt.Fatal(err)
		}
		if highest := slices.Max(revisions); got.Current != highest || got.Live != highest || got.LiveWorks != 1 || got.Stored != len(revisions) {
			rt.Fatalf("%+v after %v", got, order)
		}
	})
}

// Every line of the sample files is accepted, or refused with a reason, and a
// second intake changes nothing.
func TestIntakeOfTheSampleFiles(t *testing.T) {
	dir := sampleFiles(t)
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		l.Approve(t, sqltest.Policy("forum", 1))
		it := newIntakeTest(l)
		files, err := filepath.Glob(filepath.Join(dir, "files", "*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range append(files, filepath.Join(dir, "tricky.jsonl")) {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			it.mustTake(t, string(content))
			if t.Failed() {
				t.Fatal(name)
			}
		}
		before := it.dump(t)
		content, err := os.ReadFile(filepath.Join(dir, "tricky.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if tally := it.mustTake(t, string(content)); tally.Unchanged != 133 || tally.Refused != 0 || tally.Cleaned != 12 {
			t.Errorf("tricky.jsonl again: %+v", tally)
		}
		if diff := cmp.Diff(before, it.dump(t)); diff != "" {
			t.Error(diff)
		}
	})
}

// sampleFiles is the folder of sample files beside the repository, if it is there.
func sampleFiles(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		found := filepath.Join(dir, "..", "shared", "data")
		if _, err := os.Stat(found); err == nil {
			return found
		}
	}
	t.Skip("the sample files are not here")
	return ""
}

// reportStream makes n reports of about 300 bytes as they are read.
type reportStream struct {
	n, next int
	rest    []byte
}

func (l *reportStream) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		if l.next == l.n {
			return 0, io.EOF
		}
		l.next++
		l.rest = []byte(reportLine(fmt.Sprint("report-", l.next), 1, strings.Repeat(fmt.Sprint("take ", l.next, " drops a day; "), 10)))
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func BenchmarkIntake(b *testing.B) {
	for _, database := range sqltest.Databases {
		for _, again := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/again=%v", database, again), func(b *testing.B) {
				const n = 20_000
				for range b.N {
					b.StopTimer()
					l := sqltest.Open(b, database)
					l.Approve(b, sqltest.Policy("forum", 1))
					it := newIntakeTest(l)
					rules := func(string, string) (reconcile.SourceRules, bool) { return reconcile.SourceRules{}, true }
					if again {
						if _, err := it.Intake(b.Context(), readReports(b, &reportStream{n: n}), rules, func(reconcile.Outcome) {}); err != nil {
							b.Fatal(err)
						}
					}
					b.StartTimer()
					tally, err := it.Intake(b.Context(), readReports(b, &reportStream{n: n}), rules, func(reconcile.Outcome) {})
					if err != nil || tally.Answered() != n {
						b.Fatal(tally, err)
					}
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "reports/s")
			})
		}
	}
}
