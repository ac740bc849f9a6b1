// Package sqltest opens fresh ledgers for tests: SQLite always, PostgreSQL
// where its programs are installed or ROLLCALL_TEST_POSTGRES_URL names a
// server. With ROLLCALL_TEST_POSTGRES=require a missing PostgreSQL fails the
// test; nothing is skipped silently. With ROLLCALL_TEST_POOLER=1 every store
// reaches PostgreSQL through a PgBouncer that pools transactions.
package sqltest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"rollcall/reconcile/keyring"
	"rollcall/sql"
)

// Ledger is a fresh, migrated ledger of one test.
type Ledger struct {
	*sql.Store
	Address string // for opening it again, past any pooler
	Keys    *keyring.Ring
	Clock   *Clock
	pooled  bool // a pooler is between
}

// Migrate is the store's, past any pooler: the lock of migrations belongs to
// one connection.
func (l *Ledger) Migrate(ctx context.Context) (int, error) {
	if !l.pooled {
		return l.Store.Migrate(ctx)
	}
	return migrate(ctx, l.Address)
}

// Start is where the clock of every test starts.
var Start = time.Date(2026, 3, 2, 1, 0, 0, 0, time.UTC)

// Clock is a clock that a test moves by hand.
type Clock struct{ now time.Time }

// Now is the present.
func (c *Clock) Now() time.Time { return c.now }

// Uptime is how far the clock was moved, for a monotonic clock.
func (c *Clock) Uptime() time.Duration { return c.now.Sub(Start) }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) { c.now = c.now.Add(d) }

// Each runs a test once on each database.
func Each(t *testing.T, test func(t *testing.T, l *Ledger)) {
	t.Helper()
	for _, d := range Databases {
		t.Run(d, func(t *testing.T) { test(t, Open(t, d)) })
	}
}

// Databases are what Each runs a test on.
var Databases = []string{"sqlite", "postgres"}

// Open opens a fresh ledger on one of the Databases.
func Open(t testing.TB, database string) *Ledger {
	t.Helper()
	return OpenWith(t, Migrated(t, database), sql.Options{})
}

// OpenWith opens the ledger at an address, with options such as a hook on
// COMMIT. Address, actor and clock are filled in.
func OpenWith(t testing.TB, address string, opts sql.Options) *Ledger {
	t.Helper()
	keys, err := keyring.Generate()
	if err != nil {
		t.Fatal(err)
	}
	l := &Ledger{Address: address, Keys: keys, Clock: &Clock{now: Start}}
	opts.Address, opts.Actor, opts.Create = pooled(t, address), "test", true
	if opts.Now == nil {
		opts.Now = l.Clock.Now
	}
	ctx := context.Background()
	if l.Store, err = sql.Open(ctx, opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	l.pooled = opts.Address != address
	if _, err := l.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.CreateLedger(ctx, l.Clock.Now(), keys); err != nil {
		t.Fatal(err)
	}
	return l
}

// Address is the address of a fresh, empty database.
func Address(t testing.TB, database string) string {
	t.Helper()
	if database == "postgres" {
		return freshPostgres(t, "template1")
	}
	return filepath.Join(t.TempDir(), "ledger.db")
}

// Migrated is the address of a fresh database whose schema is in place: a copy
// of one that was migrated once, which is far quicker than migrating each.
func Migrated(t testing.TB, database string) string {
	t.Helper()
	if database == "postgres" {
		return freshPostgres(t, templatePostgres(t))
	}
	sqliteTemplate.once.Do(func() { sqliteTemplate.file, sqliteTemplate.err = migratedFile(t.Context()) })
	if sqliteTemplate.err != nil {
		t.Fatal(sqliteTemplate.err)
	}
	path := Address(t, database)
	if err := os.WriteFile(path, sqliteTemplate.file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var sqliteTemplate struct {
	once sync.Once
	file []byte
	err  error
}

// migratedFile is the content of an empty ledger's file.
func migratedFile(ctx context.Context) (content []byte, err error) {
	dir, err := os.MkdirTemp("", "rollcall-template-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "ledger.db")
	// Closing the last connection moves the write-ahead log into the file.
	if _, err := migrate(ctx, path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func migrate(ctx context.Context, address string) (done int, err error) {
	s, err := sql.Open(ctx, sql.Options{Address: address, Create: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Migrate(ctx)
}
