package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"modernc.org/sqlite"
)

// maxStatements bounds what a connection keeps prepared. The queries of this
// package are files, so their number is known and below it; the bound is for
// what a person or a test asks beside them.
const maxStatements = 512

// statements opens SQLite connections that keep what they prepared: SQLite took
// more than a third of the time of the short transactions here to read the same
// statements again. PostgreSQL gets none (a pooler gives each transaction
// another connection, which would not have them).
type statements struct{ driver.Connector }

// sqliteConnector is the connector of a data source name of SQLite.
func sqliteConnector(dsn string) (driver.Connector, error) {
	c, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return statements{c}, nil
}

func (s statements) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	whole, ok := c.(sqliteConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("open database: the driver's connection is a %T", c), c.Close())
	}
	return &keepingConn{sqliteConn: whole, idle: map[string]preparedStmt{}}, nil
}

// sqliteConn is what a connection of the driver can do; what is not named here
// would be hidden from database/sql, and its waits for a lock would not end with
// their context.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type preparedStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// keepingConn is a connection that keeps its prepared statements while they are
// not in use. database/sql lets one goroutine at a time to it.
type keepingConn struct {
	sqliteConn
	idle map[string]preparedStmt
}

func (c *keepingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	r, err := s.ExecContext(ctx, args)
	return r, errors.Join(err, c.keep(query, s, err))
}

func (c *keepingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	r, err := s.QueryContext(ctx, args)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &keepingRows{Rows: r, done: func(err error) error { return c.keep(query, s, err) }}, nil
}

// take returns a statement that nobody uses. Two may be in use at once: rows may
// be read while the same query runs again within a transaction.
func (c *keepingConn) take(ctx context.Context, query string) (preparedStmt, error) {
	if s, ok := c.idle[query]; ok {
		delete(c.idle, query)
		return s, nil
	}
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	p, ok := s.(preparedStmt)
	if !ok {
		return nil, errors.Join(fmt.Errorf("prepare: the driver's statement is a %T", s), s.Close())
	}
	return p, nil
}

// keep gives a statement back after use that ended with err; one that failed is
// not used again.
func (c *keepingConn) keep(query string, s preparedStmt, err error) error {
	if _, twice := c.idle[query]; err != nil || twice || len(c.idle) >= maxStatements {
		return s.Close()
	}
	c.idle[query] = s
	return nil
}

// Close closes the statements too: SQLite keeps a connection open that has any.
func (c *keepingConn) Close() error {
	var all []error
	for _, s := range c.idle {
		all = append(all, s.Close())
	}
	clear(c.idle)
	return errors.Join(append(all, c.sqliteConn.Close())...)
}

// keepingRows gives their statement back when they are closed.
type keepingRows struct {
	driver.Rows
	done func(error) error
}

func (r *keepingRows) Close() error {
	err := r.Rows.Close()
	if r.done == nil { // closed before
		return err
	}
	done := r.done
	r.done = nil
	return errors.Join(err, done(err))
}
