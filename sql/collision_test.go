package sql_test

import (
	"errors"
	"testing"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"rollcall/reconcile"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// TestCollisionIsTriedAgain: a deadlock is the server's choice between two
// transactions, and no fault of either.
func TestCollisionIsTriedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		code  string
		times int // commits that fail
		want  int // commits
		fails bool
	}{
		"a deadlock once":           {"40P01", 1, 2, false},
		"serialisation, three":      {"40001", 3, 4, false},
		"a deadlock for ever":       {"40P01", 99, 4, true},
		"a constraint is no matter": {"23505", 99, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			commits := 0
			l := sqltest.OpenWith(t, sqltest.Migrated(t, "sqlite"), sql.Options{Commit: func(tx string, commit func() error) error {
				if tx != "pause" {
					return commit()
				}
				if commits++; commits <= tc.times {
					return &pq.Error{Code: pqerror.Code(tc.code)}
				}
				return commit()
			}})
			_, err := l.Pause(t.Context(), l.Clock.Now(), reconcile.Pause{Scope: "all", Stage: reconcile.PauseApply, Actor: "a", Reason: "r"})
			if (err != nil) != tc.fails || commits != tc.want {
				t.Errorf("%d commits, %v", commits, err)
			}
			if errors.Is(err, reconcile.ErrUnknownCommit) {
				t.Errorf("a clear refusal is unknown: %v", err)
			}
			got, err := l.Pauses(t.Context())
			if err != nil || (len(got) == 1) == tc.fails {
				t.Errorf("pauses %v, %v", got, err)
			}
		})
	}
}
