package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lib/pq"
)

// NoticeLocalCommit is the kind of notice that Options.Notice gets when a
// COMMIT gave up waiting for a synchronous standby: the transaction stands on
// this server, and is lost if this server is.
const NoticeLocalCommit = "commit_local_only"

// errCommittedLocally is what such a COMMIT gives, which the driver takes for
// done.
var errCommittedLocally = errors.New("the server committed without its synchronous standby")

// driverConn is what lib/pq's connections are.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// session is one connection of the pool. It adds to the driver's what that
// leaves out: it ends calls that nobody answers, notices commits that only this
// server has, and takes itself out of the pool when its server does not write.
type session struct {
	driverConn
	socket    net.Conn
	connector *connector
	pooled    bool        // it was in the pool since it was opened
	local     bool        // the COMMIT that runs is on this server alone
	begun     bool        // a transaction is open
	bad       atomic.Bool // not to be used again
}

// heard is told each notice of the server, during the call that it belongs to.
// The name of the routine is the same in every language of the server; the
// words are for a server that does not tell it. Nothing of the text is kept.
func (s *session) heard(n *pq.Error) {
	if n.Routine == "SyncRepWaitForLSN" || strings.Contains(n.Detail, "committed locally") {
		s.local = true
		s.connector.notice(NoticeLocalCommit)
	}
}

// watch bounds a call. When ctx ends, the driver asks the server to cancel and
// then waits for the answer, which a server that hangs never gives: after a
// while the socket is cut. stop ends the watch.
func (s *session) watch(ctx context.Context) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	unwatch := context.AfterFunc(ctx, func() { _ = s.socket.SetDeadline(time.Now().Add(s.connector.cutAfter)) })
	return func() {
		if !unwatch() { // the deadline is set, or will be
			s.bad.Store(true)
		}
	}
}

// ResetSession implements driver.SessionResetter.
func (s *session) ResetSession(ctx context.Context) error {
	s.pooled = true
	if s.bad.Load() {
		return driver.ErrBadConn
	}
	return s.driverConn.ResetSession(ctx)
}

// IsValid implements driver.Validator.
func (s *session) IsValid() bool { return !s.bad.Load() && s.driverConn.IsValid() }

// BeginTx implements driver.ConnBeginTx. A connection of the pool that broke
// while nobody used it, or whose server no longer writes, is replaced, as BEGIN
// has done nothing yet: its server may have been started again, or have become a
// standby behind a pooler or proxy, which keeps the connection.
func (s *session) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	stop := s.watch(ctx)
	inner, err := s.driverConn.BeginTx(ctx, opts)
	if err == nil {
		s.begun = true
		return &transaction{Tx: inner, session: s, stop: stop}, nil
	}
	stop()
	if s.broke(ctx, err) {
		return nil, driver.ErrBadConn
	}
	// A standby says that it has no such feature as a transaction that writes.
	if !opts.ReadOnly && (hasCode(err, "25006") || hasCode(err, "0A000")) {
		s.bad.Store(true)
		if s.pooled {
			return nil, driver.ErrBadConn
		}
		return nil, fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return nil, err
}

// broke says whether the first call on a connection of the pool found that it is
// gone. Outside of a transaction nothing is written, so the call may be made on
// another one.
func (s *session) broke(ctx context.Context, err error) bool {
	if err == nil || !s.pooled || s.begun || ctx.Err() != nil {
		return false
	}
	var network *net.OpError
	gone := errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		hasCode(err, "57P01") || hasCode(err, "57P02") // the server was stopped, or this session was
	if gone {
		s.bad.Store(true)
	}
	return gone
}

// transaction is an open transaction of a session.
type transaction struct {
	driver.Tx
	session *session
	stop    func()
}

// Commit implements driver.Tx.
func (t *transaction) Commit() error {
	defer t.stop()
	t.session.local, t.session.begun = false, false
	err := t.Tx.Commit()
	if t.session.local {
		return errors.Join(errCommittedLocally, err)
	}
	return err
}

// Rollback implements driver.Tx.
func (t *transaction) Rollback() error {
	defer t.stop()
	t.session.begun = false
	return t.Tx.Rollback()
}

// Ping implements driver.Pinger.
func (s *session) Ping(ctx context.Context) error {
	defer s.watch(ctx)()
	return s.driverConn.Ping(ctx)
}

// ExecContext implements driver.ExecerContext.
func (s *session) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	defer s.watch(ctx)()
	res, err := s.driverConn.ExecContext(ctx, query, args)
	return res, s.writes(err)
}

// QueryContext implements driver.QueryerContext.
func (s *session) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	stop := s.watch(ctx)
	rows, err := s.driverConn.QueryContext(ctx, query, args)
	if err != nil {
		stop()
		if s.broke(ctx, err) {
			return nil, driver.ErrBadConn
		}
		return nil, s.writes(err)
	}
	return &watchedRows{driverRows: rows.(driverRows), stop: stop}, nil
}

// writes takes the session out of the pool when its server refused to write.
func (s *session) writes(err error) error {
	if hasCode(err, "25006") {
		s.bad.Store(true)
	}
	return err
}

// driverRows is what lib/pq's rows are.
type driverRows interface {
	driver.RowsNextResultSet
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeLength
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

// watchedRows are rows whose reading is watched.
type watchedRows struct {
	driverRows
	stop func()
}

// Close implements driver.Rows.
func (r *watchedRows) Close() error {
	defer r.stop()
	return r.driverRows.Close()
}

// hasCode says whether the server gave an error of this code.
func hasCode(err error, code string) bool {
	var pe *pq.Error
	return errors.As(err, &pe) && string(pe.Code) == code
}
