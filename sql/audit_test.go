package sql_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"rollcall/reconcile"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// pauseNow writes one audited transaction.
func pauseNow(t *testing.T, s *sql.Store, scope string) error {
	t.Helper()
	_, err := s.Pause(t.Context(), sqltest.Start, reconcile.Pause{Scope: scope, Stage: reconcile.PauseDispatch, Actor: "anna", Reason: "r"})
	return err
}

func TestF47TokensOfCommittedTransactionsAreFound(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			var told []string
			l := sqltest.OpenWith(t, sqltest.Migrated(t, database), sql.Options{Committed: func(token string, _ int64) { told = append(told, token) }})
			high, err := l.AuditHigh(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			told = nil
			for _, scope := range []string{"all", "account:a", "account:b"} {
				if err := pauseNow(t, l.Store, scope); err != nil {
					t.Fatal(err)
				}
			}
			// A transaction without an audit event has no token.
			if _, err := l.AcquireLease(t.Context(), "pass:poll", "a", l.Clock.Now(), l.Clock.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if len(told) != 3 {
				t.Fatalf("3 audited transactions gave tokens %q", told)
			}
			missing, err := l.MissingTokens(t.Context(), append([]string{"never-1", `never-"2`}, told...))
			slices.Sort(missing)
			if want := []string{`never-"2`, "never-1"}; err != nil || !slices.Equal(missing, want) {
				t.Errorf("missing are %q, %v, want %q", missing, err, want)
			}
			for _, none := range [][]string{nil, {}, told} {
				if missing, err := l.MissingTokens(t.Context(), none); err != nil || len(missing) != 0 {
					t.Errorf("missing of %q are %q, %v", none, missing, err)
				}
			}
			if got, err := l.AuditHigh(t.Context()); err != nil || got < high+3 {
				t.Errorf("the newest event went from %d to %d, %v", high, got, err)
			}
		})
	}
}

func TestF47OnlyCertainCommitsAreTold(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			var told []string
			commitNow := func(commit func() error) error { return commit() }
			hook := commitNow
			l := sqltest.OpenWith(t, sqltest.Migrated(t, database), sql.Options{
				Committed: func(token string, _ int64) { told = append(told, token) },
				Commit:    func(_ string, commit func() error) error { return hook(commit) },
			})
			told = nil
			hook = func(func() error) error { return errors.New("lost before the server had it") }
			if err := pauseNow(t, l.Store, "all"); !errors.Is(err, reconcile.ErrUnknownCommit) {
				t.Fatalf("a commit that never arrived: %v", err)
			}
			if len(told) != 0 {
				t.Fatalf("a commit of unknown outcome was told: %q", told)
			}
			hook = func(commit func() error) error { return errors.Join(commit(), errors.New("the answer was lost")) }
			if err := pauseNow(t, l.Store, "all"); err != nil {
				t.Fatalf("a commit that was read back: %v", err)
			}
			if len(told) != 1 {
				t.Errorf("a commit that was read back gave tokens %q", told)
			}
		})
	}
}
