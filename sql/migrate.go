package sql

import (
	"context"
	"crypto/rand"
	"embed"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
)

//go:embed migration
var migrations embed.FS

//go:embed query/ledger_insert.sql
var ledgerInsertSQL string

//go:embed query/ledger_get.sql
var ledgerGetSQL string

var (
	// ErrSchemaBehind: the database lacks migrations of this program.
	ErrSchemaBehind = errors.New("the database schema is older than this program: run `rollcall migrate`")
	// ErrSchemaAhead: the database has migrations that this program does not know.
	ErrSchemaAhead = errors.New("the database schema is newer than this program: use the newer program, which is what migrated it")
	// ErrNoLedger: the database is not there, or holds no ledger.
	ErrNoLedger = errors.New("there is no ledger here. If there was one, restore it or correct the name: a new one takes every known report for new, and sends its text again. For a new deployment run `rollcall migrate`, which makes one")
	// ErrOtherKeyring: the ledger was made with another keyring.
	ErrOtherKeyring = errors.New("this keyring does not belong to this ledger: every known report would get a second identity; restore the keyring that the ledger was made with")
)

// migrationLock bounds the wait for another process that migrates.
const migrationLock = 2 * time.Minute

func (s *Store) provider() (*goose.Provider, error) {
	dir, err := fs.Sub(migrations, "migration/"+string(s.dialect))
	if err != nil {
		return nil, err
	}
	opts := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true)}
	kind := goose.DialectSQLite3
	if s.dialect == postgres {
		kind = goose.DialectPostgres
		// The lock belongs to one server connection: migrations need a direct
		// address, not a pooler's in transaction mode.
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, uint64(migrationLock.Seconds())))
		if err != nil {
			return nil, err
		}
		opts = append(opts, goose.WithSessionLocker(locker))
	}
	return goose.NewProvider(kind, s.db.DB, dir, opts...)
}

// Migrate brings the schema up to date and returns how many migrations ran. It
// may be called at any time and by several processes at once.
func (s *Store) Migrate(ctx context.Context) (int, error) {
	if s.dialect == sqliteFile {
		// goose has no lock for SQLite; two migrators at once would fail.
		unlock, err := lockFile(ctx, s.path+".lock")
		if err != nil {
			return 0, err
		}
		defer unlock()
	} else if shared, err := s.sharesBackends(ctx); err != nil {
		return 0, fmt.Errorf("migrate %s: %w", s.name, scrub(err))
	} else if shared {
		return 0, fmt.Errorf("migrate %s: %w: migrations hold a lock that belongs to one of the server's connections; use a direct address", s.name, ErrPooler)
	}
	p, err := s.provider()
	if err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	done, err := p.Up(ctx)
	if err != nil {
		return len(done), fmt.Errorf("migrate %s: %w", s.name, scrub(err))
	}
	return len(done), nil
}

func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	l := flock.New(path)
	ctx, cancel := context.WithTimeout(ctx, migrationLock)
	defer cancel()
	if ok, err := l.TryLockContext(ctx, 20*time.Millisecond); err != nil || !ok {
		return nil, fmt.Errorf("migrate: another process holds %s: %w", path, err)
	}
	return func() { _ = l.Unlock() }, nil
}

// CheckSchema says whether the schema is this program's: nil, ErrSchemaBehind
// or ErrSchemaAhead.
func (s *Store) CheckSchema(ctx context.Context) error {
	p, err := s.provider()
	if err != nil {
		return fmt.Errorf("check schema: %w", err)
	}
	var want int64
	for _, src := range p.ListSources() {
		want = max(want, src.Version)
	}
	ctx, cancel := s.ro.bound(ctx)
	defer cancel()
	have, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("check schema of %s: %w", s.name, scrub(err))
	}
	switch {
	case have < want:
		return fmt.Errorf("%s is at %d of %d: %w", s.name, have, want, ErrSchemaBehind)
	case have > want:
		return fmt.Errorf("%s is at %d, this program knows %d: %w", s.name, have, want, ErrSchemaAhead)
	}
	return nil
}

// MigratesItself says whether a command may migrate the database without being
// told to: SQLite, whose file belongs to this program alone.
func (s *Store) MigratesItself() bool { return s.dialect == sqliteFile }

// CreateLedger makes the ledger's identity in a database that has none, and
// otherwise is VerifyKeyring. Only what an operator calls to start a deployment
// may call it: a ledger that is made because the real one was mislaid takes
// every known report for new, and sends its text again.
func (s *Store) CreateLedger(ctx context.Context, now time.Time, keys *keyring.Ring) error {
	id := "ledger-" + rand.Text()
	err := s.write(ctx, "create ledger", func(ctx context.Context, t *tx) error {
		res, err := t.ExecContext(ctx, ledgerInsertSQL, id, keys.Check(id), micros(now))
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		t.audit("ledger", id, "made")
		return nil
	})
	if err != nil && !errors.Is(err, reconcile.ErrUnknownCommit) {
		return err
	}
	return s.VerifyKeyring(ctx, keys)
}

// VerifyKeyring refuses a keyring that the ledger was not made with, and a
// database without a ledger.
func (s *Store) VerifyKeyring(ctx context.Context, keys *keyring.Ring) error {
	var row struct {
		LedgerID   string `db:"ledger_id"`
		Generation int64  `db:"generation"`
		KeyCheck   string `db:"key_check"`
	}
	err := s.ro.GetContext(ctx, &row, ledgerGetSQL)
	if errors.Is(err, errNoRows) {
		return fmt.Errorf("%s: %w", s.name, ErrNoLedger)
	}
	if err != nil {
		return fmt.Errorf("read the ledger's identity: %w", scrub(err))
	}
	if row.KeyCheck != keys.Check(row.LedgerID) {
		return ErrOtherKeyring
	}
	return nil
}
