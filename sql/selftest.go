package sql

import (
	"context"
	"database/sql/driver"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/errgroup"
)

//go:embed query/server_state.postgres.sql
var serverStateSQL string

//go:embed query/server_settings.postgres.sql
var serverSettingsSQL string

//go:embed query/server_backend.postgres.sql
var serverBackendSQL string

//go:embed query/probe_add.postgres.sql
var probeAddSQL string

//go:embed query/probe_negate.postgres.sql
var probeNegateSQL string

var (
	// ErrPooler: what stands between this program and PostgreSQL cannot be worked with.
	ErrPooler = errors.New("the pooler in front of PostgreSQL is not set up for rollcall")
	// errNoAnswer: a connection ended, or failed, which another one may not.
	errNoAnswer = errors.New("a statement got no answer")
	// ErrOldServer: the server's version is not supported.
	ErrOldServer = errors.New("the server's version is not supported: rollcall needs PostgreSQL 15 or newer")
)

const (
	oldestServer = 150000 // as in server_version_num
	probeRounds  = 200
)

// SelfTest finds out whether the database does what a ledger needs: that the
// server writes and is new enough, and that a pooler before it keeps
// transactions together, clients apart and the address's settings. It takes well
// under a second, writes nothing, and may be called at any time. The errors are
// ErrOldServer, ErrReadOnly and ErrPooler, each with what to do. On SQLite
// there is nothing to test.
func (s *Store) SelfTest(ctx context.Context) error {
	if s.dialect != postgres {
		return nil
	}
	ctx, cancel := s.ro.bound(ctx)
	defer cancel()
	for _, test := range []func(ctx context.Context, db *sqlx.DB) error{testServer, s.testSettings, testTransactions, testAnswers} {
		err := test(ctx, s.db)
		if errors.Is(err, errNoAnswer) {
			err = s.withServer(ctx, test)
		}
		if err != nil {
			return fmt.Errorf("self-test of %s: %w", s.name, scrub(err))
		}
	}
	return nil
}

// withServer repeats a test that had no answer. To a client, a server that goes
// down looks like a pooler that ends connections: the pooler is accused only
// when the server is there, and there is no answer again.
func (s *Store) withServer(ctx context.Context, test func(ctx context.Context, db *sqlx.DB) error) error {
	if err := testServer(ctx, s.db); err != nil {
		return err
	}
	return test(ctx, s.db)
}

// serverState is what decides whether a server may hold a ledger.
type serverState struct {
	Version    int64  `db:"version"`
	Shown      string `db:"shown"`
	InRecovery bool   `db:"in_recovery"`
	ReadOnly   bool   `db:"read_only"`
	NowUS      int64  `db:"now_us"`
}

func testServer(ctx context.Context, db *sqlx.DB) error {
	var st serverState
	if err := db.GetContext(ctx, &st, serverStateSQL); err != nil {
		return err
	}
	switch {
	case st.Version < oldestServer:
		return fmt.Errorf("version %s: %w", st.Shown, ErrOldServer)
	case st.InRecovery:
		return fmt.Errorf("it is a standby; name all hosts in the address, as postgres://host1:5432,host2:5432/db, so that the one that writes is found: %w", ErrReadOnly)
	case st.ReadOnly:
		return fmt.Errorf("default_transaction_read_only is on for this role, database or server: %w", ErrReadOnly)
	}
	return nil
}

// testSettings finds settings of the address that never reached the server: a
// pooler may leave out what it was told to ignore.
func (s *Store) testSettings(ctx context.Context, db *sqlx.DB) error {
	var seen []string
	if err := db.SelectContext(ctx, &seen, serverSettingsSQL); err != nil {
		return err
	}
	lost := slices.DeleteFunc(slices.Clone(s.settings), func(name string) bool { return slices.Contains(seen, name) })
	if len(lost) > 0 {
		return fmt.Errorf("%w: it drops settings of the address (%s), so they have no effect: give them to the role instead, with ALTER ROLE … SET", ErrPooler, strings.Join(lost, ", "))
	}
	return nil
}

// testTransactions sees a transaction through. A pooler in statement mode
// answers BEGIN by closing the connection.
func testTransactions(ctx context.Context, db *sqlx.DB) error {
	c, err := db.Connx(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var st serverState
	if err := c.GetContext(ctx, &st, serverStateSQL); err != nil {
		return err
	}
	t, err := c.BeginTxx(ctx, nil)
	if errors.Is(err, driver.ErrBadConn) {
		return fmt.Errorf("%w: it answers statements but ends the connection at BEGIN, as PgBouncer does with pool_mode=statement; set pool_mode=transaction or session: %w", ErrPooler, errNoAnswer)
	}
	if err != nil {
		return err
	}
	return t.Rollback()
}

// testAnswers runs two statements of one argument on two connections at once.
// Where a pooler gives each round trip to another connection of its own, and
// the driver needs two for one statement, one gets the answer of the other.
func testAnswers(ctx context.Context, db *sqlx.DB) error {
	g, ctx := errgroup.WithContext(ctx)
	for query, want := range map[string]func(n int64) int64{
		probeAddSQL:    func(n int64) int64 { return n + 1_000_000 },
		probeNegateSQL: func(n int64) int64 { return -n - 1 },
	} {
		c, err := db.Connx(ctx)
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		g.Go(func() error {
			defer c.Close()
			for n := range int64(probeRounds) {
				var got int64
				if err := c.GetContext(ctx, &got, query, n); err != nil {
					return mixedUp(fmt.Errorf("%w: %w", errNoAnswer, err))
				}
				if got != want(n) {
					return mixedUp(fmt.Errorf("round %d gave another statement's answer", n+1))
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// mixedUp is the error of a connection that does not belong to one client.
func mixedUp(err error) error {
	return fmt.Errorf("%w: a statement that ran beside another got a wrong answer or none. rollcall sends each statement in one round trip (binary_parameters=yes), which a pooler in transaction mode keeps whole; one that still mixes them up must be set to pool sessions, or be left out by a direct address: %w", ErrPooler, err)
}

// backend is the server's end of a statement.
type backend struct {
	PID  int64  `db:"pid"`
	Host string `db:"host"`
	Port int64  `db:"port"`
}

// poolerRounds is how often sharesBackends looks. Other clients of the pooler
// can hide what it looks for, but not each time.
const poolerRounds = 20

// sharesBackends says whether one server process serves several of our
// connections in turn, as a pooler in transaction mode has it. It holds two
// connections, and never says so of a direct one.
func (s *Store) sharesBackends(ctx context.Context) (bool, error) {
	a, err := s.db.Connx(ctx)
	if err != nil {
		return false, err
	}
	defer a.Close()
	var seen backend
	if err := a.GetContext(ctx, &seen, serverBackendSQL); err != nil {
		return false, err
	}
	if direct, err := isSocketOf(a, seen); direct || err != nil {
		return false, err
	}
	b, err := s.db.Connx(ctx)
	if err != nil {
		return false, err
	}
	defer b.Close()
	for range poolerRounds {
		if shared, err := shareBackend(ctx, a, b); shared || err != nil {
			return shared, err
		}
	}
	return false, nil
}

// shareBackend says whether statements of a reach several server processes, or
// one that b's transaction then has. Poolers give the one that was used last, or
// the one that waited longest; a transaction that holds one makes others differ.
func shareBackend(ctx context.Context, a, b *sqlx.Conn) (bool, error) {
	var first, second, held, third backend
	for _, of := range []*backend{&first, &second} {
		if err := a.GetContext(ctx, of, serverBackendSQL); err != nil {
			return false, err
		}
	}
	t, err := b.BeginTxx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer t.Rollback()
	if err := t.GetContext(ctx, &held, serverBackendSQL); err != nil {
		return false, err
	}
	if second.PID != first.PID || held.PID == second.PID {
		return true, nil
	}
	err = a.GetContext(ctx, &third, serverBackendSQL)
	return err == nil && third.PID != second.PID, err
}

// isSocketOf says whether the server sees this connection's own socket, with
// nothing between that has another.
func isSocketOf(c *sqlx.Conn, b backend) (direct bool, err error) {
	err = c.Raw(func(conn any) error {
		local, ok := conn.(*session).socket.LocalAddr().(*net.TCPAddr)
		direct = ok && int64(local.Port) == b.Port && local.IP.Equal(net.ParseIP(b.Host))
		return nil
	})
	return direct, err
}
