package sql_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// delivered is a delivery of report id from acme/forum.
func delivered(t testing.TB, keys *keyring.Ring, policy *reconcile.PolicyVersion, id string, revision int64, text string) reconcile.Delivery {
	t.Helper()
	report := keys.ReportID("acme", "forum", id)
	d := reconcile.Delivery{
		Line: 1, Identity: reconcile.Identity{Tenant: "acme", System: "forum", ExternalID: id}, ReportID: report,
		Revision: revision, Rule: reconcile.RevisionConflict, MACKeyID: keys.MACKeyID(),
		ContentMAC: keys.MAC(keyring.Content, []byte(text)), ContentBytes: int64(len(text) + 2), Policy: policy,
	}
	if text == "" {
		d.Reason = reconcile.NoText
	}
	if policy != nil {
		d.WorkID = func(revision int64) string { return keys.WorkID(report, revision, policy.ID, policy.Version) }
	}
	var err error
	if d.Text, err = keys.Encrypt([]byte(text), "text", report, d.ContentMAC); err != nil {
		t.Fatal(err)
	}
	return d
}

func accept(t testing.TB, l *sqltest.Ledger, ds ...reconcile.Delivery) []reconcile.Receipt {
	t.Helper()
	got, err := l.AcceptReports(t.Context(), l.Clock.Now(), ds)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(ds) {
		t.Fatalf("%d receipts for %d deliveries", len(got), len(ds))
	}
	return got
}

// intakeRows counts the rows of every table that intake writes to.
func (r raw) intakeRows() map[string]int {
	r.t.Helper()
	n := map[string]int{}
	for _, table := range []string{"reports", "revisions", "texts", "works", "holds", "findings", "audit_events"} {
		var count int
		if err := r.db.Get(&count, "SELECT COUNT(*) FROM "+table); err != nil {
			r.t.Fatal(err)
		}
		n[table] = count
	}
	return n
}

// worksOf lists a report's works as "revision disposition stage reason".
func (r raw) worksOf(report string) []string {
	r.t.Helper()
	var works []string
	if err := r.db.Select(&works, `SELECT revision || ' ' || disposition || ' ' || stage || COALESCE(' ' || reason, '')
		FROM works WHERE report_id = $1 ORDER BY revision, policy_version`, report); err != nil {
		r.t.Fatal(err)
	}
	return works
}

func (r raw) currentRevision(report string) (n int64) {
	r.t.Helper()
	if err := r.db.Get(&n, "SELECT current_revision FROM reports WHERE report_id = $1", report); err != nil {
		r.t.Fatal(err)
	}
	return n
}

func TestIntakeStory(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		p, r := l.Approve(t, sqltest.Policy("forum", 1)), openRaw(t, l.Address)
		report := l.Keys.ReportID("acme", "forum", "a")
		for _, step := range []struct {
			revision int64
			text     string
			rule     reconcile.RevisionRule
			want     reconcile.Verdict
			as       int64 // the revision in the ledger
			work     bool  // whether the receipt names a work
			works    []string
		}{
			{1, "one", reconcile.RevisionConflict, reconcile.Accepted, 1, true, []string{"1 live pending"}},
			{1, "one", reconcile.RevisionConflict, reconcile.Unchanged, 1, true, []string{"1 live pending"}},
			{1, "other", reconcile.RevisionConflict, reconcile.Conflict, 1, false, []string{"1 live pending"}},
			{5, "five", reconcile.RevisionConflict, reconcile.Revised, 5, true, []string{"1 superseded pending", "5 live pending"}},
			{3, "three", reconcile.RevisionConflict, reconcile.Late, 3, false, []string{"1 superseded pending", "5 live pending"}},
			{3, "three", reconcile.RevisionConflict, reconcile.Unchanged, 3, false, []string{"1 superseded pending", "5 live pending"}},
			{1, "one", reconcile.RevisionConflict, reconcile.Unchanged, 1, true, []string{"1 superseded pending", "5 live pending"}},
			{1, "three", reconcile.RevisionNew, reconcile.Unchanged, 3, false, []string{"1 superseded pending", "5 live pending"}},
			{1, "one", reconcile.RevisionNew, reconcile.Unchanged, 1, true, []string{"1 superseded pending", "5 live pending"}},
			{1, "six", reconcile.RevisionNew, reconcile.Revised, 6, true, []string{"1 superseded pending", "5 superseded pending", "6 live pending"}},
			{7, "", reconcile.RevisionConflict, reconcile.Revised, 7, true,
				[]string{"1 superseded pending", "5 superseded pending", "6 superseded pending", "7 live extracted no_text"}},
		} {
			d := delivered(t, l.Keys, p, "a", step.revision, step.text)
			d.Rule = step.rule
			got := accept(t, l, d)[0]
			want := reconcile.Receipt{Line: 1, ReportID: report, Revision: step.as, Verdict: step.want}
			if step.work {
				want.WorkID = d.WorkID(step.as)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("revision %d, %q: %s", step.revision, step.text, diff)
			}
			if diff := cmp.Diff(step.works, r.worksOf(report)); diff != "" {
				t.Errorf("works after revision %d, %q: %s", step.revision, step.text, diff)
			}
		}
		if n := r.currentRevision(report); n != 7 {
			t.Errorf("current revision %d", n)
		}
		want := map[string]int{"reports": 1, "revisions": 5, "texts": 5, "works": 4, "holds": 0, "findings": 1,
			"audit_events": 2 + 5 + 1} // the ledger and the approval, what was stored, the finding
		if diff := cmp.Diff(want, r.intakeRows()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAcceptedReportIsStoredWhole(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		p, r := l.Approve(t, sqltest.Policy("forum", 1)), openRaw(t, l.Address)
		d := delivered(t, l.Keys, p, "a", 1, "the text")
		d.Urgent, d.Cleaned, d.Media = true, true, "video"
		accept(t, l, d)
		var got struct {
			ContentMAC   string `db:"content_mac"`
			ContentBytes int64  `db:"content_bytes"`
			Cleaned      int64  `db:"cleaned"`
			Urgent       int64  `db:"urgent"`
			Media        string `db:"media"`
			Encrypted    []byte `db:"encrypted"`
			KeyID        string `db:"key_id"`
			WorkUrgent   int64  `db:"work_urgent"`
			EligibleUS   int64  `db:"eligible_us"`
			DueUS        int64  `db:"due_us"`
		}
		if err := r.db.Get(&got, `SELECT v.content_mac, v.content_bytes, v.cleaned, v.urgent, v.media, x.encrypted, x.key_id,
			w.urgent AS work_urgent, w.eligible_us, w.due_us FROM revisions v
			JOIN texts x ON x.report_id = v.report_id AND x.revision = v.revision
			JOIN works w ON w.report_id = v.report_id AND w.revision = v.revision`); err != nil {
			t.Fatal(err)
		}
		if got.ContentMAC != d.ContentMAC || got.ContentBytes != 10 || got.Cleaned != 1 || got.Urgent != 1 || got.Media != "video" || got.WorkUrgent != 1 {
			t.Errorf("%+v", got)
		}
		if now := sqltest.Start.UnixMicro(); got.EligibleUS != now || got.DueUS != now+48*hour {
			t.Errorf("eligible at %d, due at %d", got.EligibleUS, got.DueUS)
		}
		plain, err := l.Keys.Decrypt(keyring.Encrypted{KeyID: got.KeyID, Bytes: got.Encrypted}, "text", d.ReportID, d.ContentMAC)
		if err != nil || string(plain) != "the text" {
			t.Errorf("text %q, %v", plain, err)
		}
	})
}

func TestF2_SameDeliveryAgainWritesNothing(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		p, r := l.Approve(t, sqltest.Policy("forum", 1)), openRaw(t, l.Address)
		ds := []reconcile.Delivery{delivered(t, l.Keys, p, "b", 1, "x"), delivered(t, l.Keys, p, "a", 2, ""), delivered(t, l.Keys, nil, "c", 1, "x")}
		first := accept(t, l, ds...)
		before := r.intakeRows()
		l.Clock.Advance(time.Hour)
		// A newer policy, or one for the held report, gives a known delivery no other work.
		newer := l.Approve(t, sqltest.Policy("forum", 2))
		before["audit_events"]++ // the approval
		again := accept(t, l, delivered(t, l.Keys, newer, "b", 1, "x"), delivered(t, l.Keys, newer, "a", 2, ""), delivered(t, l.Keys, newer, "c", 1, "x"))
		for i := range first {
			first[i].Verdict = reconcile.Unchanged
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(before, r.intakeRows()); diff != "" {
			t.Error(diff)
		}
	})
}

// The first of two replicas stands before its COMMIT when the second comes with
// overlapping reports in another order. The second waits and finds them known.
func TestF3_SameDeliveryAtTwoReplicasAtOnce(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			address := sqltest.Address(t, database)
			reached, release := make(chan struct{}), make(chan struct{})
			l := sqltest.OpenWith(t, address, sql.Options{Commit: func(name string, commit func() error) error {
				if name == "accept reports" {
					close(reached)
					<-release
				}
				return commit()
			}})
			second, err := sql.Open(t.Context(), sql.Options{Address: address, Now: l.Clock.Now})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = second.Close() })
			p, r := l.Approve(t, sqltest.Policy("forum", 1)), openRaw(t, l.Address)
			var ds []reconcile.Delivery
			for i := range 20 {
				ds = append(ds, delivered(t, l.Keys, p, fmt.Sprint(i), 1, "x"))
			}
			other := slices.Clone(ds[10:])
			other = append(other, delivered(t, l.Keys, p, "20", 1, "x"))
			slices.Reverse(other)

			type result struct {
				receipts []reconcile.Receipt
				err      error
			}
			results := make(chan result, 2)
			run := func(s *sql.Store, ds []reconcile.Delivery) {
				rs, err := s.AcceptReports(context.Background(), sqltest.Start, ds)
				results <- result{rs, err}
			}
			go run(l.Store, ds)
			<-reached
			go run(second, other)
			awaitLock(t, r)
			close(release)
			verdicts := map[reconcile.Verdict]int{}
			works := map[string]string{}
			for range 2 {
				got := <-results
				if got.err != nil {
					t.Fatal(got.err)
				}
				for _, rc := range got.receipts {
					verdicts[rc.Verdict]++
					if w, ok := works[rc.ReportID]; ok && w != rc.WorkID || rc.WorkID == "" {
						t.Errorf("report %s was answered work %q and %q", rc.ReportID, w, rc.WorkID)
					}
					works[rc.ReportID] = rc.WorkID
				}
			}
			if diff := cmp.Diff(map[reconcile.Verdict]int{reconcile.Accepted: 21, reconcile.Unchanged: 10}, verdicts); diff != "" {
				t.Error(diff)
			}
			if n := r.intakeRows(); n["reports"] != 21 || n["revisions"] != 21 || n["works"] != 21 {
				t.Errorf("rows: %v", n)
			}
		})
	}
}

// awaitLock returns when a transaction waits for another's rows. SQLite tells
// nobody; there the second one waits at its BEGIN.
func awaitLock(t *testing.T, r raw) {
	t.Helper()
	if !r.postgres {
		return
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var waiting int
		if err := r.db.Get(&waiting, "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"); err != nil {
			t.Fatal(err)
		}
		if waiting > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("nobody waits for a lock")
		}
	}
}

func TestF4_OtherBytesUnderOneRevisionAreRefused(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		p, r := l.Approve(t, sqltest.Policy("forum", 1)), openRaw(t, l.Address)
		accept(t, l, delivered(t, l.Keys, p, "a", 1, "first"))
		for range 2 {
			got := accept(t, l, delivered(t, l.Keys, p, "a", 1, "second"), delivered(t, l.Keys, p, "b", 1, "neighbour"))
			if got[0].Verdict != reconcile.Conflict || got[0].WorkID != "" {
				t.Errorf("receipt %+v", got[0])
			}
		}
		if n := r.intakeRows(); n["revisions"] != 2 || n["texts"] != 2 || n["works"] != 2 {
			t.Errorf("rows: %v", n)
		}
		var mac string
		if err := r.db.Get(&mac, "SELECT content_mac FROM revisions WHERE report_id = $1", l.Keys.ReportID("acme", "forum", "a")); err != nil {
			t.Fatal(err)
		}
		if mac != l.Keys.MAC(keyring.Content, []byte("first")) {
			t.Error("the stored content was overwritten")
		}
		open, err := l.Findings(t.Context(), true, 10)
		if err != nil || len(open) != 1 {
			t.Fatalf("findings %v, %v", open, err)
		}
		f := open[0]
		if f.Name != "revision_conflict" || f.Subject != "report:"+l.Keys.ReportID("acme", "forum", "a") || f.Seen != 2 || f.Detail != "revision 1 from acme/forum" {
			t.Errorf("finding %+v", f)
		}
	})
}

func TestF5_RevisionsOutOfOrder(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		p, r := l.Approve(t, sqltest.Policy("forum", 1)), openRaw(t, l.Address)
		accept(t, l, delivered(t, l.Keys, p, "a", 3, "third"))
		if got := accept(t, l, delivered(t, l.Keys, p, "a", 2, "second"))[0]; got.Verdict != reconcile.Late || got.WorkID != "" || got.Held {
			t.Errorf("receipt %+v", got)
		}
		report := l.Keys.ReportID("acme", "forum", "a")
		if diff := cmp.Diff([]string{"3 live pending"}, r.worksOf(report)); diff != "" {
			t.Error(diff)
		}
		if n := r.intakeRows(); n["texts"] != 2 || r.currentRevision(report) != 3 {
			t.Errorf("rows %v, current revision %d", n, r.currentRevision(report))
		}
	})
}

func TestF7_NoApprovedPolicyHolds(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		ctx, r := t.Context(), openRaw(t, l.Address)
		report := l.Keys.ReportID("acme", "forum", "a")
		got := accept(t, l, delivered(t, l.Keys, nil, "a", 1, "x"), delivered(t, l.Keys, nil, "b", 1, ""))
		for _, rc := range got {
			if rc.Verdict != reconcile.Accepted || !rc.Held || rc.WorkID != "" {
				t.Errorf("receipt %+v", rc)
			}
		}
		if n := r.intakeRows(); n["holds"] != 2 || n["works"] != 0 || n["texts"] != 2 {
			t.Errorf("rows: %v", n)
		}
		l.Clock.Advance(time.Hour)
		p := l.Approve(t, sqltest.Policy("forum", 1))
		held, err := l.HeldReports(ctx, "", 10)
		if err != nil || len(held) != 2 {
			t.Fatalf("held %v, %v", held, err)
		}
		var works []reconcile.NewWork
		for _, h := range held {
			w := reconcile.NewWork{WorkID: l.Keys.WorkID(h.ReportID, h.Revision, p.ID, p.Version), Held: h, Policy: p}
			if h.ReportID == report != !h.NoText {
				t.Errorf("held report %+v", h)
			}
			if h.NoText {
				w.Reason = reconcile.NoText
			}
			works = append(works, w)
		}
		for _, want := range []int{2, 0} { // again makes no more
			if n, err := l.BindWorks(ctx, l.Clock.Now(), works); err != nil || n != want {
				t.Errorf("bound %d, %v; want %d", n, err, want)
			}
		}
		if diff := cmp.Diff([]string{"1 live pending"}, r.worksOf(report)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"1 live extracted no_text"}, r.worksOf(l.Keys.ReportID("acme", "forum", "b"))); diff != "" {
			t.Error(diff)
		}
		var due int64
		if err := r.db.Get(&due, "SELECT MAX(due_us) FROM works"); err != nil || due != sqltest.Start.Add(48*time.Hour).UnixMicro() {
			t.Errorf("due at %d, %v: the time until review runs from acceptance", due, err)
		}
		if n := r.intakeRows(); n["holds"] != 0 || n["works"] != 2 {
			t.Errorf("rows: %v", n)
		}
		// The same delivery is now answered with the work.
		if got := accept(t, l, delivered(t, l.Keys, p, "a", 1, "x"))[0]; got.WorkID != works[slices.IndexFunc(works, func(w reconcile.NewWork) bool {
			return w.Held.ReportID == report
		})].WorkID || got.Held {
			t.Errorf("receipt %+v", got)
		}
	})
}

func TestPolicyRevokedBetweenReadingAndAccepting(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		p, r := l.Approve(t, sqltest.Policy("forum", 1)), openRaw(t, l.Address)
		d := delivered(t, l.Keys, p, "a", 1, "x")
		r.exec("UPDATE policy_versions SET state = 'revoked'")
		if got := accept(t, l, d)[0]; !got.Held || got.WorkID != "" {
			t.Errorf("receipt %+v", got)
		}
		held, err := l.HeldReports(t.Context(), "", 1)
		if err != nil || len(held) != 1 {
			t.Fatalf("held %v, %v", held, err)
		}
		if n, err := l.BindWorks(t.Context(), l.Clock.Now(), []reconcile.NewWork{{WorkID: d.WorkID(1), Held: held[0], Policy: p}}); err != nil || n != 0 {
			t.Errorf("bound %d to a revoked policy, %v", n, err)
		}
		if n := r.intakeRows(); n["holds"] != 1 || n["works"] != 0 {
			t.Errorf("rows: %v", n)
		}
	})
}

func TestEditOfAHeldReportHoldsTheEditOnly(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		ctx, r := t.Context(), openRaw(t, l.Address)
		accept(t, l, delivered(t, l.Keys, nil, "a", 1, "one"))
		old, err := l.HeldReports(ctx, "", 1)
		if err != nil || len(old) != 1 {
			t.Fatalf("held %v, %v", old, err)
		}
		if got := accept(t, l, delivered(t, l.Keys, nil, "a", 2, "two"))[0]; got.Verdict != reconcile.Revised || !got.Held {
			t.Errorf("receipt %+v", got)
		}
		held, err := l.HeldReports(ctx, "", 10)
		if err != nil || len(held) != 1 || held[0].Revision != 2 {
			t.Fatalf("held %v, %v", held, err)
		}
		// A collector that read the list before the edit makes no work of the old revision.
		p := l.Approve(t, sqltest.Policy("forum", 1))
		stale := []reconcile.NewWork{{WorkID: l.Keys.WorkID(old[0].ReportID, 1, p.ID, p.Version), Held: old[0], Policy: p}}
		if n, err := l.BindWorks(ctx, l.Clock.Now(), stale); err != nil || n != 0 {
			t.Errorf("bound %d, %v", n, err)
		}
		if n := r.intakeRows(); n["holds"] != 1 || n["works"] != 0 {
			t.Errorf("rows: %v", n)
		}
	})
}

func TestHeldReportsInPagesOldestFirst(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		ctx := t.Context()
		var want []string
		for i := range 5 {
			d := delivered(t, l.Keys, nil, fmt.Sprint(i), 1, "x")
			accept(t, l, d)
			want = append(want, d.ReportID)
			l.Clock.Advance(time.Second)
		}
		p := l.Approve(t, sqltest.Policy("forum", 1))
		var got []string
		after := ""
		for {
			page, err := l.HeldReports(ctx, after, 2)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, h := range page {
				got = append(got, h.ReportID)
				after = h.ReportID
			}
			// The last one leaves the list, and is a place in it all the same.
			last := page[len(page)-1]
			if _, err := l.BindWorks(ctx, l.Clock.Now(), []reconcile.NewWork{{WorkID: l.Keys.WorkID(last.ReportID, 1, p.ID, 1), Held: last, Policy: p}}); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if _, err := l.HeldReports(ctx, "nobody", 2); !errors.Is(err, reconcile.ErrNotFound) {
			t.Errorf("behind an unknown report: %v", err)
		}
	})
}

func TestPausedIntakeWritesNothing(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		p, r := l.Approve(t, sqltest.Policy("forum", 1)), openRaw(t, l.Address)
		for _, scope := range []string{reconcile.ScopeAll, "policy:forum"} {
			pause := reconcile.Pause{Scope: scope, Stage: reconcile.PauseIntake, Actor: "a", Reason: "r"}
			if _, err := l.Pause(t.Context(), l.Clock.Now(), pause); err != nil {
				t.Fatal(err)
			}
			if _, err := l.AcceptReports(t.Context(), l.Clock.Now(), []reconcile.Delivery{delivered(t, l.Keys, p, "a", 1, "x")}); !errors.Is(err, reconcile.ErrPaused) {
				t.Errorf("%s: %v", scope, err)
			}
			if err := l.Resume(t.Context(), l.Clock.Now(), scope, reconcile.PauseIntake, "a", "r"); err != nil {
				t.Fatal(err)
			}
		}
		if n := r.intakeRows(); n["reports"] != 0 {
			t.Errorf("rows: %v", n)
		}
	})
}

func TestOtherIdKeyCannotDoubleAReport(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		p := l.Approve(t, sqltest.Policy("forum", 1))
		accept(t, l, delivered(t, l.Keys, p, "a", 1, "x"))
		other, err := keyring.Generate()
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.AcceptReports(t.Context(), l.Clock.Now(), []reconcile.Delivery{delivered(t, other, p, "a", 1, "x")})
		if err == nil || !strings.Contains(err.Error(), "keyring") {
			t.Errorf("a delivery under another id key: %v", err)
		}
	})
}
