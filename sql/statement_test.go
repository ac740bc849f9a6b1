package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// keepingDB is a pool of one connection that keeps its statements.
func keepingDB(t testing.TB, path string) *stdsql.DB {
	t.Helper()
	c, err := sqliteConnector(path + "?_pragma=busy_timeout(0)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	db := stdsql.OpenDB(c)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// kept is how many statements the connection keeps.
func kept(t testing.TB, db *stdsql.DB) (n int) {
	t.Helper()
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Raw(func(c any) error { n = len(c.(*keepingConn).idle); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

func mustExec(t testing.TB, db *stdsql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatal(err)
	}
}

func count(t testing.TB, db *stdsql.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestStatementsAreKeptAndAnswerAnew(t *testing.T) {
	db := keepingDB(t, filepath.Join(t.TempDir(), "a.db"))
	mustExec(t, db, "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
	for i := range 5 {
		mustExec(t, db, "INSERT INTO t VALUES ($1, $2)", i, fmt.Sprint("b", i))
		if n := count(t, db, "SELECT COUNT(*) FROM t WHERE a <= $1", i); n != i+1 {
			t.Errorf("%d rows after %d", n, i+1)
		}
	}
	if n := kept(t, db); n != 3 {
		t.Errorf("%d statements are kept", n)
	}
	mustExec(t, db, "ALTER TABLE t ADD COLUMN c INTEGER NOT NULL DEFAULT 7")
	rows, err := db.Query("SELECT * FROM t WHERE a = $1", 1)
	if err != nil {
		t.Fatal(err)
	}
	if columns, err := rows.Columns(); err != nil || len(columns) != 3 {
		t.Errorf("columns %v, %v behind a change of the table", columns, err)
	}
	if err := errors.Join(rows.Close(), rows.Close()); err != nil {
		t.Error(err)
	}
}

// A statement behind a change of its table tells what is there now.
func TestStatementIsReadAgainBehindAChangeOfItsTable(t *testing.T) {
	db := keepingDB(t, filepath.Join(t.TempDir(), "a.db"))
	mustExec(t, db, "CREATE TABLE t (a INTEGER)")
	const all = "SELECT * FROM t"
	for columns := 1; columns < 4; columns++ {
		rows, err := db.Query(all)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := rows.Columns(); err != nil || len(got) != columns {
			t.Errorf("%v, %v for %d columns", got, err, columns)
		}
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
		mustExec(t, db, fmt.Sprintf("ALTER TABLE t ADD COLUMN b%d INTEGER", columns))
	}
}

func TestStatementMayRunWhileItsOwnRowsAreRead(t *testing.T) {
	db := keepingDB(t, filepath.Join(t.TempDir(), "a.db"))
	mustExec(t, db, "CREATE TABLE t (a INTEGER)")
	for i := range 4 {
		mustExec(t, db, "INSERT INTO t VALUES ($1)", i)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	const above = "SELECT a FROM t WHERE a >= $1 ORDER BY a"
	outer, err := tx.Query(above, 1)
	if err != nil {
		t.Fatal(err)
	}
	var sum, a, b int
	for outer.Next() {
		if err := errors.Join(outer.Scan(&a), tx.QueryRow(above, a).Scan(&b)); err != nil || a != b {
			t.Fatal(a, b, err)
		}
		sum += a
	}
	if err := errors.Join(outer.Err(), outer.Close(), tx.Commit()); err != nil || sum != 6 {
		t.Errorf("sum %d, %v", sum, err)
	}
	if n := kept(t, db); n != 3 { // the second of the same text is closed
		t.Errorf("%d statements are kept", n)
	}
}

func TestStatementThatFailedIsNotKept(t *testing.T) {
	dir := t.TempDir()
	db := keepingDB(t, filepath.Join(dir, "a.db"))
	mustExec(t, db, "CREATE TABLE t (a INTEGER PRIMARY KEY)")
	const insert = "INSERT INTO t VALUES ($1)"
	mustExec(t, db, insert, 1)
	before := kept(t, db)
	if _, err := db.Exec(insert, 1); !isUnique(err) {
		t.Fatalf("the second row: %v", err)
	}
	if n := kept(t, db); n != before-1 {
		t.Errorf("%d statements are kept, before %d", n, before)
	}
	mustExec(t, db, insert, 2)
	if _, err := db.Query("SELECT nothing FROM nowhere"); err == nil {
		t.Error("a query of no table succeeds")
	}

	other := keepingDB(t, filepath.Join(dir, "a.db"))
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(insert, 3); err == nil {
		t.Error("two write at once")
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	mustExec(t, other, insert, 3)
	if n := count(t, other, "SELECT COUNT(*) FROM t"); n != 3 {
		t.Errorf("%d rows", n)
	}
}

// A wait for a lock ends with its context, also for a statement that is kept.
func TestKeptStatementEndsWithItsContext(t *testing.T) {
	db := keepingDB(t, filepath.Join(t.TempDir(), "a.db"))
	const endless = "WITH RECURSIVE n(i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i < $2) SELECT COUNT(*) FROM n"
	if n := count(t, db, endless, 1, 3); n != 3 {
		t.Fatal(n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := db.QueryRowContext(ctx, endless, 1, int64(1)<<60).Scan(new(int)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an endless query: %v", err)
	}
	if n := count(t, db, endless, 1, 4); n != 4 {
		t.Error(n)
	}
}

func TestStatementsAreBounded(t *testing.T) {
	db := keepingDB(t, filepath.Join(t.TempDir(), "a.db"))
	for i := range maxStatements + 20 {
		if n := count(t, db, fmt.Sprintf("SELECT %d", i)); n != i {
			t.Fatal(n)
		}
	}
	if n := kept(t, db); n != maxStatements {
		t.Errorf("%d statements are kept", n)
	}
}

// BenchmarkShortTransaction compares a transaction of one row with kept
// statements and without.
func BenchmarkShortTransaction(b *testing.B) {
	for name, open := range map[string]func(path string) (*stdsql.DB, error){
		"kept": func(path string) (*stdsql.DB, error) {
			c, err := sqliteConnector(path)
			return stdsql.OpenDB(c), err
		},
		"not kept": func(path string) (*stdsql.DB, error) { return stdsql.Open("sqlite", path) },
	} {
		b.Run(name, func(b *testing.B) {
			db, err := open(filepath.Join(b.TempDir(), "a.db") + "?_pragma=synchronous(OFF)&_pragma=journal_mode(WAL)")
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			db.SetMaxOpenConns(1)
			mustExec(b, db, "CREATE TABLE t (a INTEGER PRIMARY KEY, state TEXT NOT NULL, due INTEGER)")
			mustExec(b, db, "CREATE INDEX due ON t (due) WHERE state = 'open'")
			for i := 0; b.Loop(); i++ {
				tx, err := db.Begin()
				if err != nil {
					b.Fatal(err)
				}
				var n int
				_, insertErr := tx.Exec("INSERT INTO t (a, state, due) SELECT $1, 'open', $2 WHERE NOT EXISTS (SELECT 1 FROM t WHERE a = $3)", i, i, i)
				readErr := tx.QueryRow("SELECT COUNT(*) FROM t WHERE state = 'open' AND due < $1 AND due > $2", i, i-10).Scan(&n)
				_, updateErr := tx.Exec("UPDATE t SET state = 'done' WHERE a = $1 AND state = 'open'", i-20)
				if err := errors.Join(insertErr, readErr, updateErr, tx.Commit()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
