package reconcile_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"pgregory.net/rapid"

	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
	"rollcall/sql/sqltest"
)

// withLedger checks a property of the ledger on a number of cases, and with
// ROLLCALL_TEST_LONG=1 on as many as fit into two minutes.
func withLedger(t *testing.T, cases int, property func(*rapid.T)) {
	t.Helper()
	checks := flag.Lookup("rapid.checks").Value
	before := checks.String()
	t.Cleanup(func() { _ = checks.Set(before) })
	if err := checks.Set(fmt.Sprint(cases)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for again := true; again && !t.Failed(); again = os.Getenv("ROLLCALL_TEST_LONG") != "" && time.Since(began) < 2*time.Minute {
		rapid.Check(t, property)
	}
}

// arrival is a delivery of a report of a case.
type arrival struct {
	report   int
	revision int64
	content  int // 0 has nothing to classify
}

func contentOf(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint("content ", n)
}

// reportState is what the ledger holds of a report, without ids and times.
type reportState struct {
	Current   int64
	Revisions map[int64]int // the content of each
	Texts     []int64
	Live      []int64 // revisions with a live work
	Replaced  []int64 // revisions with a work that an edit took back
	Held      []int64
	Conflict  bool // a finding tells of different contents under one revision
	NoText    bool // the live work has nothing to classify
}

// expected is what the ledger must hold after arrivals in this order: the
// rules of intake in a few lines.
func expected(order []arrival, rule reconcile.RevisionRule, bound bool) map[int]reportState {
	all := map[int]reportState{}
	for _, a := range order {
		s, known := all[a.report]
		stored, sameRevision := s.Revisions[a.revision]
		highest := !known || a.revision > s.Current
		switch {
		case !known:
			s.Revisions = map[int64]int{}
		case rule == reconcile.RevisionNew && slices.Contains(slices.Collect(maps.Values(s.Revisions)), a.content):
			continue
		case rule == reconcile.RevisionNew:
			a.revision, highest = s.Current+1, true
		case sameRevision:
			s.Conflict = s.Conflict || stored != a.content
			all[a.report] = s
			continue
		}
		s.Revisions[a.revision] = a.content
		s.Texts = slices.Sorted(maps.Keys(s.Revisions))
		switch {
		case highest && bound:
			s.Replaced = append(s.Replaced, s.Live...)
			s.Live, s.NoText = []int64{a.revision}, a.content == 0
		case highest:
			s.Held = []int64{a.revision}
		}
		s.Current = slices.Max(s.Texts)
		all[a.report] = s
	}
	return all
}

// whateverTheOrder is what must not depend on the order of the arrivals. Two
// things may: which of several contents of one revision came first and stays,
// and which of the older revisions were ever current and so had a work. With a
// source that has no revisions, it is their numbers.
func whateverTheOrder(all map[int]reportState, arrivals []arrival, rule reconcile.RevisionRule) map[int]reportState {
	contents := map[arrival]map[int]bool{}
	for _, a := range arrivals {
		key := arrival{report: a.report, revision: a.revision}
		if contents[key] == nil {
			contents[key] = map[int]bool{}
		}
		contents[key][a.content] = true
	}
	out := map[int]reportState{}
	for report, s := range all {
		s.Replaced, s.Revisions = nil, maps.Clone(s.Revisions)
		if rule == reconcile.RevisionNew {
			seen := slices.Sorted(maps.Values(s.Revisions))
			s.Revisions, s.NoText = map[int64]int{}, false
			for i, content := range seen {
				s.Revisions[int64(i)] = content
			}
			out[report] = s
			continue
		}
		for revision := range s.Revisions {
			if len(contents[arrival{report: report, revision: revision}]) > 1 {
				s.Revisions[revision] = -1
				s.NoText = s.NoText && revision != s.Current
			}
		}
		out[report] = s
	}
	return out
}

// stateOf reads what the ledger holds of the reports whose ids begin with prefix.
func stateOf(t *testing.T, db *sqlx.DB, keys *keyring.Ring, prefix string, arrivals []arrival) map[int]reportState {
	t.Helper()
	byMAC := map[string]int{}
	for _, a := range arrivals {
		byMAC[keys.MAC(keyring.Content, []byte(contentOf(a.content)), nil)] = a.content
	}
	all := map[int]reportState{}
	each := func(query string, add func(s *reportState, revision int64, word string)) {
		t.Helper()
		var rows []struct {
			ExternalID string `db:"external_id"`
			Revision   int64  `db:"revision"`
			Word       string `db:"word"`
		}
		if err := db.Select(&rows, "SELECT r.external_id, "+query+" WHERE r.external_id LIKE $1 ORDER BY 1, 2, 3", prefix+"%"); err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			report, err := strconv.Atoi(strings.TrimPrefix(row.ExternalID, prefix))
			if err != nil {
				t.Fatal(err)
			}
			s := all[report]
			add(&s, row.Revision, row.Word)
			all[report] = s
		}
	}
	each("r.current_revision AS revision, '' AS word FROM reports r", func(s *reportState, revision int64, _ string) { s.Current = revision })
	each("v.revision, v.content_mac AS word FROM reports r JOIN revisions v ON v.report_id = r.report_id", func(s *reportState, revision int64, mac string) {
		content, known := byMAC[mac]
		if !known {
			t.Fatalf("revision %d has a content that was never delivered", revision)
		}
		if s.Revisions == nil {
			s.Revisions = map[int64]int{}
		}
		s.Revisions[revision] = content
	})
	each("x.revision, '' AS word FROM reports r JOIN texts x ON x.report_id = r.report_id", func(s *reportState, revision int64, _ string) { s.Texts = append(s.Texts, revision) })
	each("h.revision, '' AS word FROM reports r JOIN holds h ON h.report_id = r.report_id", func(s *reportState, revision int64, _ string) { s.Held = append(s.Held, revision) })
	each("w.revision, w.disposition || ' ' || COALESCE(w.reason, '') AS word FROM reports r JOIN works w ON w.report_id = r.report_id", func(s *reportState, revision int64, word string) {
		switch disposition, reason, _ := strings.Cut(word, " "); disposition {
		case "live":
			s.Live, s.NoText = append(s.Live, revision), reason == string(reconcile.NoText)
		default:
			s.Replaced = append(s.Replaced, revision)
		}
	})
	each("0 AS revision, f.name AS word FROM reports r JOIN findings f ON f.subject = 'report:' || r.report_id", func(s *reportState, _ int64, name string) {
		s.Conflict = s.Conflict || name == reconcile.EventRevisionConflict.Name
	})
	return all
}

// drawArrivals draws deliveries of a few reports, some of them several times.
func drawArrivals(rt *rapid.T) []arrival {
	one := rapid.Custom(func(rt *rapid.T) arrival {
		return arrival{rapid.IntRange(0, 2).Draw(rt, "report"), rapid.Int64Range(0, 3).Draw(rt, "revision"), rapid.IntRange(0, 2).Draw(rt, "content")}
	})
	arrivals := rapid.SliceOfN(one, 1, 9).Draw(rt, "arrivals")
	return append(arrivals, rapid.SliceOfN(rapid.SampledFrom(arrivals), 0, 4).Draw(rt, "again")...)
}

// arrive takes arrivals in, in files and chunks of any size.
func (it *intakeTest) arrive(t *testing.T, rt *rapid.T, system, prefix string, order []arrival) (tally reconcile.IntakeTally) {
	t.Helper()
	it.Settings.Chunk = rapid.IntRange(1, 4).Draw(rt, "chunk")
	for len(order) > 0 {
		n := rapid.IntRange(1, len(order)).Draw(rt, "file")
		var file strings.Builder
		for _, a := range order[:n] {
			fmt.Fprintf(&file, `{"tenant":"acme","source":%q,"report_id":"%s%d","revision":%d,"text":%q}`+"\n", system, prefix, a.report, a.revision, contentOf(a.content))
		}
		got := it.mustTake(t, file.String())
		tally.Accepted += got.Accepted
		tally.Revised += got.Revised
		tally.Late += got.Late
		order = order[n:]
	}
	return tally
}

// TestF2_IntakeCommutesAndIsIdempotent: whatever the order, the repetition and
// the cut into files and chunks, the same deliveries make the same ledger, but
// for what whateverTheOrder leaves out, and that is as the order demands. All of
// it again, in yet another order, changes nothing.
func TestF2_IntakeCommutesAndIsIdempotent(t *testing.T) {
	for _, rule := range []reconcile.RevisionRule{reconcile.RevisionConflict, reconcile.RevisionNew} {
		t.Run(string(rule), func(t *testing.T) {
			l := sqltest.Open(t, "sqlite")
			l.Approve(t, sqltest.Policy("forum", 1))
			it := newIntakeTest(l)
			it.rules.Revision = rule
			it.PolicyFor = func(_, system string) (string, bool) { return "forum", system == "forum" }
			db, n := it.connect(t), 0
			withLedger(t, 20, func(rt *rapid.T) {
				n++
				arrivals := drawArrivals(rt)
				if rule == reconcile.RevisionNew {
					for i := range arrivals {
						arrivals[i].revision = 1 // such a source has none
					}
				}
				system := rapid.SampledFrom([]string{"forum", "nobody"}).Draw(rt, "system")
				var worlds []map[int]reportState
				for _, world := range []string{"a", "b"} {
					prefix := fmt.Sprint(world, n, "-")
					order := rapid.Permutation(arrivals).Draw(rt, world)
					it.arrive(t, rt, system, prefix, order)
					got := stateOf(t, db, l.Keys, prefix, arrivals)
					if diff := cmp.Diff(expected(order, rule, system == "forum"), got); diff != "" {
						rt.Fatalf("after %v (-want +got):\n%s", order, diff)
					}
					if tally := it.arrive(t, rt, system, prefix, rapid.Permutation(arrivals).Draw(rt, world+" again")); tally.Accepted+tally.Revised+tally.Late != 0 {
						rt.Fatalf("again: %+v", tally)
					}
					if diff := cmp.Diff(got, stateOf(t, db, l.Keys, prefix, arrivals)); diff != "" {
						rt.Fatalf("again, after %v: %s", order, diff)
					}
					worlds = append(worlds, whateverTheOrder(got, arrivals, rule))
				}
				if diff := cmp.Diff(worlds[0], worlds[1]); diff != "" {
					rt.Fatalf("the order made another ledger: %s", diff)
				}
			})
		})
	}
}
