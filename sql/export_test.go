package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"net"

	"github.com/jmoiron/sqlx"
)

// WithFileSystem makes every path lie on this file system. It sees the paths
// that are asked for.
func (o Options) WithFileSystem(name string, network bool, asked func(path string) error) Options {
	o.fileSystem = func(path string) (fileSystem, error) {
		return fileSystem{name: name, network: network, free: 1 << 30}, asked(path)
	}
	return o
}

// KindOfFileSystem is what Linux's number of a file system stands for.
func KindOfFileSystem(magic uint32) (name string, network bool) {
	f := fileSystems[magic]
	return f.name, f.network
}

// AnswersAreRight runs the self-test of answers over connections that lack what
// a Store's connections have.
func AnswersAreRight(ctx context.Context, dsn string) error {
	db, err := stdsql.Open("postgres", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return testAnswers(ctx, sqlx.NewDb(db, "postgres"))
}

// OnOneConn runs do on one connection of the pool, with its socket and the
// server's process. The connection is in use meanwhile.
func (s *Store) OnOneConn(ctx context.Context, do func(c *stdsql.Conn, socket net.Conn, pid int64) error) error {
	c, err := s.db.Connx(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var b backend
	if err := c.GetContext(ctx, &b, serverBackendSQL); err != nil {
		return err
	}
	var socket net.Conn
	if err := c.Raw(func(conn any) error { socket = conn.(*session).socket; return nil }); err != nil {
		return err
	}
	return do(c.Conn, socket, b.PID)
}

// InWrite looks from within a write transaction, which it takes back.
func (s *Store) InWrite(ctx context.Context, look func(get func(dest any, query string) error) error) error {
	err := s.write(ctx, "look", func(ctx context.Context, t *tx) error {
		if err := look(func(dest any, query string) error { return t.GetContext(ctx, dest, query) }); err != nil {
			return err
		}
		return errOnlyTried
	})
	if errors.Is(err, errOnlyTried) {
		return nil
	}
	return err
}
