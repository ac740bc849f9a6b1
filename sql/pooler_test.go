package sql_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// TestPoolerOfTheSuite: with ROLLCALL_TEST_POOLER=1 the other tests are behind
// a pooler indeed, and without it they are not.
func TestPoolerOfTheSuite(t *testing.T) {
	l := sqltest.Open(t, "postgres")
	want := os.Getenv("ROLLCALL_TEST_POOLER") == "1"
	f, err := l.Facts(t.Context())
	if err != nil || f.Server.Pooler != want {
		t.Errorf("a pooler is seen: %t, %v, want %t", f.Server.Pooler, err, want)
	}
	if err := l.SelfTest(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestPoolerSelfTest: PgBouncer with each setting that rollcall can meet.
func TestPoolerSelfTest(t *testing.T) {
	address := sqltest.Migrated(t, "postgres")
	for _, c := range []struct {
		name     string
		settings map[string]string
		address  string
		want     string // what a refusal says; empty when all is well
		pooler   bool   // whether it is seen
	}{
		{name: "transaction", pooler: true},
		{name: "one server connection", settings: map[string]string{"default_pool_size": "1"}, pooler: true},
		{name: "connections in turn", settings: map[string]string{"server_round_robin": "1"}, pooler: true},
		{name: "session", settings: map[string]string{"pool_mode": "session"}},
		{name: "statement", settings: map[string]string{"pool_mode": "statement"}, want: "pool_mode=statement"},
		{name: "setting refused", address: "&search_path=x", want: "refuses settings in the address (search_path)"},
		{name: "option refused", address: "&options=-cstatement_timeout%3D1000", want: "refuses settings in the address (statement_timeout)"},
		{name: "setting dropped", address: "&search_path=x&statement_timeout=1000", settings: map[string]string{"ignore_startup_parameters": "search_path,statement_timeout"},
			want: "drops settings of the address (search_path, statement_timeout)"},
		{name: "option dropped", address: "&options=-cjit%3Doff", settings: map[string]string{"ignore_startup_parameters": "options"}, want: "(jit)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := sql.Open(t.Context(), sql.Options{Address: sqltest.Pooler(t, address, c.settings) + c.address})
			if err == nil {
				t.Cleanup(func() { _ = s.Close() })
				err = s.SelfTest(t.Context())
			}
			if c.want != "" {
				if !errors.Is(err, sql.ErrPooler) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want ErrPooler that says %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if f, err := s.Facts(t.Context()); err != nil || f.Server.Pooler != c.pooler {
				t.Errorf("a pooler is seen: %t, %v, want %t", f.Server.Pooler, err, c.pooler)
			}
		})
	}
}

// TestPoolerMixesUpAnswers: what the self-test guards against is there.
func TestPoolerMixesUpAnswers(t *testing.T) {
	address := sqltest.Pooler(t, sqltest.Address(t, "postgres"), nil)
	if err := sql.AnswersAreRight(t.Context(), address); !errors.Is(err, sql.ErrPooler) {
		t.Errorf("with two round trips a statement: %v, want ErrPooler", err)
	}
	if err := sql.AnswersAreRight(t.Context(), address+"&binary_parameters=yes"); err != nil {
		t.Errorf("with one round trip a statement: %v", err)
	}
}

func TestPoolerTakesNoMigrations(t *testing.T) {
	for name, settings := range map[string]map[string]string{"last used first": nil, "in turn": {"server_round_robin": "1"}} {
		t.Run(name, func(t *testing.T) {
			address := sqltest.Address(t, "postgres")
			pooled := open(t, sql.Options{Address: sqltest.Pooler(t, address, settings)})
			if _, err := pooled.Migrate(t.Context()); !errors.Is(err, sql.ErrPooler) || !strings.Contains(err.Error(), "use a direct address") {
				t.Errorf("migrating through the pooler gave %v", err)
			}
			if n, err := open(t, sql.Options{Address: address}).Migrate(t.Context()); err != nil || n == 0 {
				t.Errorf("migrating past it ran %d migrations: %v", n, err)
			}
			if err := pooled.CheckSchema(t.Context()); err != nil {
				t.Errorf("the schema, through the pooler: %v", err)
			}
		})
	}
}

// TestPoolerGetsNoSettings: behind a pooler a setting of a session would reach
// whoever has the server's connection next.
func TestPoolerGetsNoSettings(t *testing.T) {
	address := sqltest.Pooler(t, sqltest.Migrated(t, "postgres"), map[string]string{"default_pool_size": "1"})
	l := open(t, sql.Options{Address: address})
	if err := pauseNow(t, l, "all"); err != nil {
		t.Fatal(err)
	}
	stranger := openRaw(t, address)
	for _, name := range []string{"lock_timeout", "idle_in_transaction_session_timeout"} {
		var value string
		if err := stranger.db.GetContext(context.Background(), &value, "SHOW "+name); err != nil || value != "0" {
			t.Errorf("a stranger has %s = %q, %v", name, value, err)
		}
	}
}
