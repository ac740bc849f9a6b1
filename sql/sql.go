// Package sql keeps the ledger, in PostgreSQL or SQLite. It is the only
// package that knows a database, and it holds no rules: a method opens a
// transaction, reads the facts, asks the pure function that it was given, and
// writes what that decided.
package sql

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/oklog/ulid/v2"

	"rollcall/reconcile"
)

// Options open a Store.
type Options struct {
	// Address is a postgres:// address or the name of a SQLite file.
	Address string
	// Create permits to make a SQLite file that is not there. Without it Open
	// gives ErrNoLedger.
	Create bool
	// Actor stands in audit events. It names the program and the host, or a person.
	Actor string
	// Now is this process's clock.
	Now func() time.Time
	// LeaseFor is how long a lease lasts after each write under it; 0 means 2 minutes.
	LeaseFor time.Duration
	// Begin runs before every write transaction when set; its error is what the
	// write gives. With it a test decides which of several processes writes next.
	Begin func(name string) error
	// Commit runs in place of every COMMIT when set, so that a test can make a
	// commit fail before or after it happened.
	Commit func(name string, commit func() error) error
	// Rand is what ids are drawn from; nil is crypto/rand. Calls of Read come one
	// at a time.
	Rand io.Reader
	// Committed, when set, is told the audit token of each transaction whose
	// COMMIT certainly succeeded, if it wrote an audit event, and the generation of
	// the ledger that it wrote it in. It runs before the write returns, on its
	// goroutine and on many at once, so it should be quick. See MissingTokens.
	Committed func(token string, generation int64)
	// Notice, when set, is told the kind of each notice of the server that a
	// person must know of: NoticeLocalCommit. It runs as Committed does.
	Notice func(kind string)
	// TransactionLimit bounds a write transaction, with its COMMIT; 0 means 2
	// minutes, which is generous: a chunk of 2,000 rows takes well under a second.
	TransactionLimit time.Duration
	// ReadLimit bounds a statement that reads from PostgreSQL, since the server, or
	// what is before it, may never answer; 0 means 5 minutes. What reads the whole
	// ledger may take twelve times as long.
	ReadLimit time.Duration
	// MaxConns is how many connections to PostgreSQL are open at once; 0 means 8,
	// and 2 are the least.
	MaxConns int
	// MaxConnLifetime is when a connection to PostgreSQL is replaced; 0 means 5
	// minutes, which are also the most: after a fail-over one may still lead to
	// the old primary.
	MaxConnLifetime time.Duration
	// CutAfter is how long a call of PostgreSQL that was given up may still wait for
	// the server's answer, before its connection is closed; 0 means 15 seconds.
	CutAfter time.Duration

	fileSystem statfs // in place of asking the system
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.LeaseFor = cmp.Or(o.LeaseFor, 2*time.Minute)
	o.Actor = cmp.Or(o.Actor, "rollcall")
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	o.TransactionLimit = cmp.Or(o.TransactionLimit, 2*time.Minute)
	o.ReadLimit = cmp.Or(o.ReadLimit, 5*time.Minute)
	o.MaxConns = max(cmp.Or(o.MaxConns, 8), 2)
	o.MaxConnLifetime = min(cmp.Or(o.MaxConnLifetime, 5*time.Minute), 5*time.Minute)
	o.CutAfter = cmp.Or(o.CutAfter, 15*time.Second)
	return o
}

// Store is an open ledger.
type Store struct {
	dialect dialect
	name    string
	path    string
	db      *sqlx.DB // for writing
	ro      reader
	opts    Options
	// settings are those that the address asks the server for.
	settings []string
	drawing  sync.Mutex // of ids
}

var _ reconcile.Store = (*Store)(nil)

// Open opens the ledger at opts.Address without looking at its schema. See
// Migrate and CheckSchema.
func Open(ctx context.Context, opts Options) (*Store, error) {
	loc, err := parseLocation(opts.Address)
	if err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	if err := loc.ready(opts); err != nil {
		return nil, err
	}
	write, read, err := loc.openPools(opts)
	if err != nil {
		return nil, err
	}
	s := &Store{dialect: loc.dialect, name: loc.name, path: loc.path, db: write, ro: reader{DB: read}, opts: opts, settings: startSettings(loc.config)}
	if s.dialect == postgres {
		s.ro.limit = opts.ReadLimit
	}
	ctx, cancel := s.ro.bound(ctx)
	defer cancel()
	if err := s.reach(ctx); err != nil {
		return nil, errors.Join(s.explain(fmt.Errorf("connect to %s: %w", loc.name, scrub(err))), s.Close())
	}
	return s, nil
}

// reach opens the first connection. Of several processes that open a new SQLite
// file at once, one turns its journal to WAL, for which SQLite lets no other wait.
func (s *Store) reach(ctx context.Context) error {
	const most, pause = 10 * time.Second, 20 * time.Millisecond
	for until := time.Now().Add(most); ; {
		err := s.db.PingContext(ctx)
		if !isBusy(err) || time.Now().After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// Close closes the connections. It may be called twice.
func (s *Store) Close() error {
	err := s.db.Close()
	if s.ro.DB != s.db {
		err = errors.Join(err, s.ro.Close())
	}
	return err
}

// reader is the pool for reading. Each read ends in time: a connection that died
// in silence would hold a pass, and the lease that it keeps, for ever.
type reader struct {
	*sqlx.DB
	limit time.Duration // 0 for none
}

// bound is ctx with the limit of one statement.
func (r reader) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, r.limit)
}

// GetContext is sqlx's, bounded.
func (r reader) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	ctx, cancel := r.bound(ctx)
	defer cancel()
	return r.DB.GetContext(ctx, dest, query, args...)
}

// SelectContext is sqlx's, bounded.
func (r reader) SelectContext(ctx context.Context, dest any, query string, args ...any) error {
	ctx, cancel := r.bound(ctx)
	defer cancel()
	return r.DB.SelectContext(ctx, dest, query, args...)
}

// Name is the database's address without its password.
func (s *Store) Name() string { return s.name }

// Now is the ledger's clock; see dialect.now.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	return s.dialect.now(ctx, s.ro, s.opts.Now)
}

// tx is an open write transaction.
type tx struct {
	*sqlx.Tx
	store      *Store
	events     []event
	generation int64 // of the ledger, as its last event was written
}

type event struct{ kind, subject, detail string }

// audit notes what the transaction does. The events are written at its end; the
// first one carries the token by which a COMMIT of unknown outcome is read back.
func (t *tx) audit(kind, subject, detail string) {
	t.events = append(t.events, event{kind, subject, detail})
}

// writeTries is how often a transaction is tried that the server refuses only
// because of what runs beside it.
const writeTries = 4

// write runs fn in a transaction. It is the only way in which rollcall writes.
// A deadlock or a serialisation failure is tried again, so fn may run more than
// once and must begin anew each time.
//
// A cancelled ctx does not cut a transaction that has begun: a COMMIT that is
// cancelled while it waits for a standby is reported as done by the driver
// although only this server has it. A COMMIT error other than a clear refusal
// is read back through the audit event, and is ErrUnknownCommit when that gives
// no answer. It is ErrUnwritable as well where the disk is the cause.
func (s *Store) write(ctx context.Context, name string, fn func(ctx context.Context, t *tx) error) error {
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.writeOnce(context.WithoutCancel(ctx), name, fn)
		if err == nil || try == writeTries || !isCollision(err) {
			return s.explain(err)
		}
	}
}

func (s *Store) writeOnce(ctx context.Context, name string, fn func(ctx context.Context, t *tx) error) error {
	if s.opts.Begin != nil {
		if err := s.opts.Begin(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.TransactionLimit)
	defer cancel()
	inner, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%s: begin: %w", name, scrub(err))
	}
	t := &tx{Tx: inner, store: s}
	token, err := s.fill(ctx, t, fn)
	if err != nil {
		_ = inner.Rollback() // the first error is the one to tell
		return scrub(fmt.Errorf("%s: %w", name, err))
	}
	commit := inner.Commit
	if s.opts.Commit != nil {
		commit = func() error { return s.opts.Commit(name, inner.Commit) }
	}
	if err := commit(); err != nil {
		_ = inner.Rollback() // a commit that never ran leaves the connection in its transaction
		if isRefusal(err) {
			return fmt.Errorf("%s: commit: %w", name, scrub(err))
		}
		if err := s.readBack(ctx, name, token, err); err != nil {
			return err
		}
	}
	if s.opts.Committed != nil && token != "" {
		s.opts.Committed(token, t.generation)
	}
	return nil
}

// fill does everything between BEGIN and COMMIT.
func (s *Store) fill(ctx context.Context, t *tx, fn func(ctx context.Context, t *tx) error) (token string, err error) {
	if err := s.dialect.limit(ctx, t.Tx, s.opts.TransactionLimit); err != nil {
		return "", err
	}
	if l, ok := reconcile.LeaseFrom(ctx); ok {
		if err := t.holdLease(ctx, l); err != nil {
			return "", err
		}
	}
	if err := fn(ctx, t); err != nil {
		return "", err
	}
	for i, e := range t.events {
		var op *string
		if i == 0 {
			token = s.newID()
			op = &token
		}
		if err := t.GetContext(ctx, &t.generation, auditInsertSQL, micros(s.opts.Now()), s.opts.Actor, e.kind, e.subject, e.detail, op); err != nil {
			return "", fmt.Errorf("audit: %w", err)
		}
	}
	return token, nil
}

// readBack finds out whether a transaction with a failed COMMIT is there all
// the same. Absence proves nothing on PostgreSQL, where the server may still be
// about to commit, so only presence is an answer, and one only after a later
// COMMIT: a server that was restarted shows what its synchronous standby may
// lack, and a COMMIT waits until the standby has all that came before.
func (s *Store) readBack(ctx context.Context, name, token string, commitErr error) error {
	unknown := fmt.Errorf("%s: %w: %w", name, reconcile.ErrUnknownCommit, scrub(commitErr))
	if token == "" || errors.Is(commitErr, errCommittedLocally) {
		return unknown
	}
	var n int
	if err := s.ro.GetContext(ctx, &n, auditFindSQL, token); err != nil || n == 0 {
		return unknown
	}
	if s.dialect == postgres && s.noteFound(ctx, token) != nil {
		return unknown
	}
	return nil
}

// noteFound writes that a transaction is there whose COMMIT failed.
func (s *Store) noteFound(ctx context.Context, token string) error {
	t, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := t.ExecContext(ctx, auditInsertSQL, micros(s.opts.Now()), s.opts.Actor, "commit_found", "token:"+token, "", nil); err != nil {
		return errors.Join(err, t.Rollback())
	}
	return t.Commit()
}

// newID is a new id that sorts by time: rows that only we refer to stay close
// to each other in the index.
func (s *Store) newID() string {
	s.drawing.Lock()
	defer s.drawing.Unlock()
	return ulid.MustNew(ulid.Timestamp(s.opts.Now()), s.opts.Rand).String()
}

// micros is a time as the ledger keeps it.
func micros(t time.Time) int64 { return t.UnixMicro() }

func fromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }

// microsOrNull keeps the zero time as NULL.
func microsOrNull(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	us := t.UnixMicro()
	return &us
}

func fromNull(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return fromMicros(*us)
}

func timePointer(us *int64) *time.Time {
	if us == nil {
		return nil
	}
	t := fromMicros(*us)
	return &t
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func nullIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// changedOne is nil if exactly one row changed, and ErrMoved if none did.
func changedOne(res interface{ RowsAffected() (int64, error) }, err error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	switch n {
	case 1:
		return nil
	case 0:
		return reconcile.ErrMoved
	default:
		return fmt.Errorf("one row was to change, %d did", n)
	}
}
