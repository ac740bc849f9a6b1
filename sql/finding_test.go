package sql_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

func TestFindingOpensCountsAndCloses(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		ctx := t.Context()
		event := reconcile.Event{Name: "job_vanished", Subject: "job:j", Severity: reconcile.Critical, Detail: "misses 3"}
		for range 3 {
			if err := l.OpenFinding(ctx, l.Clock.Now(), event); err != nil {
				t.Fatal(err)
			}
			l.Clock.Advance(time.Minute)
		}
		got := findings(t, l, true)
		if len(got) != 1 || got[0].Seen != 3 || !got[0].OpenedAt.Equal(sqltest.Start) || !got[0].LastSeenAt.Equal(sqltest.Start.Add(2*time.Minute)) {
			t.Fatalf("after three sightings: %+v", got)
		}
		if err := l.ResolveFinding(ctx, l.Clock.Now(), "nobody", "a", "r"); !errors.Is(err, reconcile.ErrNotFound) {
			t.Errorf("an unknown finding was resolved: %v", err)
		}
		if err := l.ResolveFinding(ctx, l.Clock.Now(), got[0].ID, "anna", "asked the provider"); err != nil {
			t.Fatal(err)
		}
		if err := l.ResolveFinding(ctx, l.Clock.Now(), got[0].ID, "anna", "again"); !errors.Is(err, reconcile.ErrRefused) ||
			!strings.HasSuffix(err.Error(), "refused: finding "+got[0].ID+", job_vanished, was resolved at 2026-03-02T01:03:00Z by anna") {
			t.Errorf("a resolved finding was resolved again: %v", err)
		}
		if open := findings(t, l, true); len(open) != 0 {
			t.Errorf("open after it was resolved: %+v", open)
		}
		if err := l.OpenFinding(ctx, l.Clock.Now(), event); err != nil {
			t.Fatal(err)
		}
		all := findings(t, l, false)
		if len(all) != 2 || all[0].ResolvedAt != nil || all[0].Seen != 1 || all[1].ResolvedBy != "anna" || all[1].Resolution != "asked the provider" {
			t.Errorf("after it came back: %+v", all)
		}
	})
}

func TestSettleEventResolvesNoOther(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		ctx, now := t.Context(), l.Clock.Now()
		for _, subject := range []string{"job:a", "job:b"} {
			if err := l.OpenFinding(ctx, now, reconcile.Event{Name: "job_not_sent", Subject: subject, Severity: reconcile.Warning}); err != nil {
				t.Fatal(err)
			}
		}
		inv := reconcile.Invariant{Name: "job_overdue", Severity: reconcile.Warning}
		if _, _, err := l.SaveBreaches(ctx, now, inv, []reconcile.Breach{{Subject: "job:a"}}, true); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name, subject string
			settled       bool
		}{{"job_not_sent", "job:a", true}, {"job_not_sent", "job:a", false}, {"job_not_sent", "job:c", false}, {"job_overdue", "job:a", false}} {
			if settled, err := l.SettleEvent(ctx, now, c.name, c.subject, "accepted"); err != nil || settled != c.settled {
				t.Errorf("%s of %s: %v, %v", c.name, c.subject, settled, err)
			}
		}
		for _, f := range findings(t, l, false) {
			if got, want := f.Resolution, map[bool]string{true: "accepted"}[f.Name == "job_not_sent" && f.Subject == "job:a"]; got != want {
				t.Errorf("%s of %s: resolution %q, want %q", f.Name, f.Subject, got, want)
			}
		}
	})
}

func TestFindingOfAnInvariantClosesByItself(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		ctx, now := t.Context(), l.Clock.Now()
		inv := reconcile.Invariant{Name: "policy_pending", Severity: reconcile.Warning}
		if _, _, err := l.SaveBreaches(ctx, now, inv, []reconcile.Breach{{Subject: "source:a/b"}}, true); err != nil {
			t.Fatal(err)
		}
		id := findings(t, l, true)[0].ID
		err := l.ResolveFinding(ctx, now, id, "anna", "go away")
		want := "refused: finding " + id + ", policy_pending, is a broken invariant; it closes by itself when the check no longer sees it"
		if !errors.Is(err, reconcile.ErrRefused) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if open := findings(t, l, true); len(open) != 1 {
			t.Errorf("open: %+v", open)
		}
		if _, _, err := l.SaveBreaches(ctx, now, inv, nil, true); err != nil || len(findings(t, l, true)) != 0 {
			t.Errorf("it is still open when the check no longer sees it: %v", err)
		}
	})
}

func findings(t *testing.T, l *sqltest.Ledger, openOnly bool) []reconcile.Finding {
	t.Helper()
	got, err := l.Findings(t.Context(), openOnly, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
