package sqltest

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/sql"
)

// Copy is the address of a copy of a ledger as it is now, as a backup is. On
// PostgreSQL it ends the ledger's connections, which are made again at need.
func Copy(t testing.TB, address string) string {
	t.Helper()
	if strings.HasPrefix(address, "postgres://") {
		name := address[strings.LastIndexByte(address, '/')+1:]
		name, _, _ = strings.Cut(name, "?")
		admin(t, fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s' AND pid <> pg_backend_pid()", name))
		return freshPostgres(t, name)
	}
	db, err := stdsql.Open("sqlite", address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	to := filepath.Join(t.TempDir(), "copy.db")
	if _, err := db.Exec("VACUUM INTO '" + to + "'"); err != nil {
		t.Fatal(err)
	}
	return to
}

// Reopen opens a ledger that exists, such as a copy, with the keys and the clock
// of another.
func Reopen(t testing.TB, of *Ledger, address string, opts sql.Options) *Ledger {
	t.Helper()
	opts.Address, opts.Actor = pooled(t, address), "test"
	if opts.Now == nil {
		opts.Now = of.Clock.Now
	}
	store, err := sql.Open(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Ledger{Store: store, Address: address, Keys: of.Keys, Clock: of.Clock}
}
