package sql

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// dialect is one of the two databases. Every difference between them that is
// not a migration or a pair of query files is in this file; postgres*.go and
// filesystem*.go have what is about the connections of the one and the file of
// the other.
type dialect string

const (
	postgres   dialect = "postgres"
	sqliteFile dialect = "sqlite"
)

// location is a parsed database address.
type location struct {
	dialect dialect
	config  pq.Config // of PostgreSQL; may hold a password
	path    string    // of the SQLite file
	name    string    // for people: never a password
}

// parseLocation reads "postgres://…", "sqlite:FILE" or a plain file name.
func parseLocation(address string) (location, error) {
	if isPostgres(address) {
		return parsePostgres(address)
	}
	path := strings.TrimPrefix(address, "sqlite:")
	if path == "" {
		return location{}, errors.New("database: is empty; name a file, or a postgres:// address")
	}
	if scheme, _, _ := strings.Cut(strings.ToLower(path), ":"); strings.Contains(path, "://") || scheme == "postgres" || scheme == "postgresql" {
		return location{}, errors.New("database: only postgres:// addresses and SQLite files are supported")
	}
	// The driver takes everything behind ? from the name, and decodes %.
	if i := strings.IndexAny(path, "?#%"); i >= 0 {
		return location{}, fmt.Errorf("database: the file name must not contain %q", path[i])
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return location{}, fmt.Errorf("database: %w", err)
	}
	return location{dialect: sqliteFile, path: abs, name: "sqlite:" + path}, nil
}

// ready makes a SQLite file that is not there, readable by its owner only, or
// says that it is not there: the driver would make it without a word. A file
// system that is no place for it is refused.
func (l location) ready(opts Options) error {
	if l.dialect == postgres {
		return nil
	}
	if err := refuseNetwork(l.path, opts.fileSystem); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	_, err := os.Stat(l.path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !opts.Create {
		return fmt.Errorf("%s: %w", l.name, ErrNoLedger)
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("create %s: %w", l.name, err)
	}
	return f.Close()
}

// openPools opens a pool for writing and one for reading. On PostgreSQL they
// are one pool. SQLite has one writer; PRAGMAs stand in the DSN, since one that
// is run by Exec reaches one connection of the pool only.
func (l location) openPools(opts Options) (write, read *sqlx.DB, err error) {
	if l.dialect == postgres {
		c, err := connectorFor(l.config, opts)
		if err != nil {
			return nil, nil, err
		}
		db := sqlx.NewDb(sql.OpenDB(c), "postgres")
		db.SetMaxOpenConns(opts.MaxConns)
		// Fewer idle ones than open ones would mean a new connection for every
		// other call when many run at once.
		db.SetMaxIdleConns(opts.MaxConns)
		db.SetConnMaxIdleTime(time.Minute)
		db.SetConnMaxLifetime(opts.MaxConnLifetime)
		return db, db, nil
	}
	const shared = "?_pragma=foreign_keys(1)&_pragma=busy_timeout(10000)&_pragma=synchronous(FULL)&_pragma=secure_delete(1)&_pragma=journal_mode(WAL)"
	writer, err := sqliteConnector(l.path + shared + "&_txlock=immediate")
	if err != nil {
		return nil, nil, err
	}
	reader, err := sqliteConnector(l.path + shared + "&_pragma=query_only(1)")
	if err != nil {
		return nil, nil, err
	}
	write, read = sqlx.NewDb(sql.OpenDB(writer), "sqlite"), sqlx.NewDb(sql.OpenDB(reader), "sqlite")
	write.SetMaxOpenConns(1)
	read.SetMaxOpenConns(4)
	return write, read, nil
}

//go:embed query/transaction_limit.postgres.sql
var transactionLimitSQL string

// limit has the server bound a write transaction too, since this process may be
// stopped, or cut off, while it holds locks that all others wait for: half of
// the limit for a transaction that nobody goes on with, and more for whoever
// waits for its locks. In the middle of a statement, which has several messages,
// PostgreSQL has no such limit before version 17.
func (d dialect) limit(ctx context.Context, tx *sqlx.Tx, limit time.Duration) error {
	if d != postgres {
		return nil
	}
	ms := func(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
	_, err := tx.ExecContext(ctx, transactionLimitSQL, ms(limit/2), ms(limit*3/4), ms(limit))
	return err
}

// Row locks. SQLite needs none: a write transaction there is alone from its
// first statement on.
const (
	// forUpdate still lets foreign-key checks of children pass.
	forUpdate = "FOR NO KEY UPDATE"
	// forShare waits for, and holds up, forUpdate.
	forShare = "FOR SHARE"
)

// locked adds a row lock to a SELECT.
func (d dialect) locked(query, lock string) string {
	if d != postgres {
		return query
	}
	return strings.TrimRight(query, " \n;") + "\n" + lock
}

// snapshot are the options of a transaction that only reads and sees one state
// of the ledger. On SQLite every deferred transaction does.
func (d dialect) snapshot() *sql.TxOptions {
	if d == postgres {
		return &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return &sql.TxOptions{ReadOnly: true}
}

// wholeLedger prepares a transaction for statements that read most of the
// ledger. After an import there are no statistics: a planner that expects few
// rows would look up each of very many by itself, and hash joins cost what is
// there. SQLite has no such joins, and needs its indexes in memory instead.
func (d dialect) wholeLedger(ctx context.Context, tx *sqlx.Tx) error {
	settings := []string{"PRAGMA cache_size = -65536"} // KiB, of this connection
	if d == postgres {
		settings = []string{"SET LOCAL enable_nestloop = off", "SET LOCAL work_mem = '64MB'", "SET LOCAL jit = off"}
	}
	for _, s := range settings {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// now is the database's clock on PostgreSQL, which all replicas share, and
// this process's on SQLite, where there is no other.
func (d dialect) now(ctx context.Context, db reader, local func() time.Time) (time.Time, error) {
	if d != postgres {
		return local().UTC(), nil
	}
	var us int64
	if err := db.GetContext(ctx, &us, "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"); err != nil {
		return time.Time{}, fmt.Errorf("ask the database for the time: %w", err)
	}
	return fromMicros(us), nil
}

// temporary gives an empty table that lives for this transaction.
func (d dialect) temporary(ctx context.Context, tx *sqlx.Tx, table, columns string) error {
	if d == postgres {
		// Dropped at commit: a pooler may hand the connection to somebody else.
		_, err := tx.ExecContext(ctx, fmt.Sprintf("CREATE TEMPORARY TABLE %s (%s) ON COMMIT DROP", table, columns))
		return err
	}
	// Emptied, not made anew: each change of a schema, this one's too, has the
	// connection read all its statements again.
	columns = strings.ReplaceAll(columns, "BYTEA", "BLOB")
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("CREATE TEMPORARY TABLE IF NOT EXISTS %s (%s)", table, columns)); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM temp."+table)
	return err
}

// load writes n rows into a table: by COPY on PostgreSQL, by an insert for each
// on SQLite.
func (d dialect) load(ctx context.Context, tx *sqlx.Tx, table string, columns []string, n int, row func(i int) []any) error {
	if n == 0 {
		return nil
	}
	list := strings.Join(columns, ", ")
	if d == postgres {
		if err := copyRows(ctx, tx, fmt.Sprintf("COPY %s (%s) FROM STDIN", table, list), n, row); err != nil {
			return fmt.Errorf("load %s: %w", table, err)
		}
		return nil
	}
	insert := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, list, placeholders(len(columns)))
	for i := range n {
		if _, err := tx.ExecContext(ctx, insert, row(i)...); err != nil {
			return fmt.Errorf("load %s: %w", table, err)
		}
	}
	return nil
}

// copyRows is the only place that prepares a statement on PostgreSQL, where that
// is how COPY begins.
func copyRows(ctx context.Context, tx *sqlx.Tx, statement string, n int, row func(i int) []any) error {
	stmt, err := tx.PrepareContext(ctx, statement)
	if err != nil {
		return err
	}
	for i := range n {
		if _, err := stmt.ExecContext(ctx, row(i)...); err != nil {
			return errors.Join(err, stmt.Close())
		}
	}
	if _, err := stmt.ExecContext(ctx); err != nil { // sends what is buffered
		return errors.Join(err, stmt.Close())
	}
	return stmt.Close()
}

func placeholders(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d", i+1)
	}
	return b.String()
}

// isRefusal says whether a COMMIT or a statement was refused for certain: a
// constraint, a deadlock or a serialisation failure. Anything else may have
// happened all the same.
func isRefusal(err error) bool {
	var pe *pq.Error
	if errors.As(err, &pe) {
		class := string(pe.Code.Class())
		// 40003 says that the server itself does not know.
		return class == "23" || class == "40" && pe.Code != "40003"
	}
	var se *sqlite.Error
	if errors.As(err, &se) {
		return se.Code()&0xff == sqlite3.SQLITE_CONSTRAINT
	}
	return false
}

// isCollision says whether the server refused a transaction only because of
// another one: a deadlock, or a serialisation failure.
func isCollision(err error) bool {
	var pe *pq.Error
	return errors.As(err, &pe) && (pe.Code == "40P01" || pe.Code == "40001")
}

// isBusy says whether SQLite refused something only because another connection
// was at the file.
func isBusy(err error) bool {
	var se *sqlite.Error
	return errors.As(err, &se) && se.Code()&0xff == sqlite3.SQLITE_BUSY
}

// isUnique says whether a unique key refused the statement.
func isUnique(err error) bool {
	var pe *pq.Error
	if errors.As(err, &pe) {
		return pe.Code == "23505"
	}
	var se *sqlite.Error
	if errors.As(err, &se) {
		return se.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || se.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	return false
}

// scrub removes from a driver's error whatever the server quoted: PostgreSQL
// prints the failing row into the detail and parts of values into messages.
func scrub(err error) error {
	var pe *pq.Error
	if done := new(databaseError); errors.As(err, &done) || !errors.As(err, &pe) {
		return err
	}
	// What stands before the driver's words is ours.
	doing, _ := strings.CutSuffix(err.Error(), pe.Error())
	if doing == err.Error() {
		doing = ""
	}
	return &databaseError{doing: doing, code: string(pe.Code), name: pe.Code.Name(), table: pe.Table, constraint: pe.Constraint, cause: err}
}

// databaseError shows the parts of a PostgreSQL error that cannot hold data.
type databaseError struct {
	doing, code, name, table, constraint string
	cause                                error // for errors.As and errors.Is only
}

func (e *databaseError) Error() string {
	s := fmt.Sprintf("%spostgres: %s (%s)", e.doing, e.name, e.code)
	if e.table != "" {
		s += ", table " + e.table
	}
	if e.constraint != "" {
		s += ", constraint " + e.constraint
	}
	return s
}

func (e *databaseError) Unwrap() error { return e.cause }

var errNoRows = sql.ErrNoRows
