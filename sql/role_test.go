package sql_test

import (
	"errors"
	"net/url"
	"testing"

	"rollcall/sql"
	"rollcall/sql/sqltest"
)

func TestRoleOfTheDatabase(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		if err := l.CheckRole(t.Context()); err != nil {
			t.Errorf("a database that takes writes: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := l.CheckRole(t.Context()); err == nil || errors.Is(err, sql.ErrReadOnly) {
			t.Errorf("a database that cannot be reached: %v", err)
		}
	})
}

func TestReadOnlyRoleIsSeen(t *testing.T) {
	l := sqltest.Open(t, "postgres")
	u, err := url.Parse(l.Address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_transaction_read_only", "on")
	u.RawQuery = q.Encode()
	s, err := sql.Open(t.Context(), sql.Options{Address: u.String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.CheckRole(t.Context()); !errors.Is(err, sql.ErrReadOnly) {
		t.Errorf("a role that may not write: %v", err)
	}
}
