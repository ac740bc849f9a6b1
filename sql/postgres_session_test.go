package sql_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/reconcile"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// within fails the test when a call takes longer than it may.
func within(t *testing.T, limit time.Duration, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		t.Fatalf("the call was still waiting after %s", limit)
		return nil
	}
}

// through is an address with another host.
func through(t *testing.T, address, host string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = host
	return u.String()
}

// open opens a ledger that is there.
func open(t *testing.T, opts sql.Options) *sql.Store {
	t.Helper()
	s, err := sql.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// behindRelay opens a ledger whose connections a test can freeze.
func behindRelay(t *testing.T, opts sql.Options) (*sqltest.Ledger, *sqltest.Relay) {
	t.Helper()
	address := sqltest.Migrated(t, "postgres")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	relay := sqltest.NewRelay(t, u.Host)
	return sqltest.OpenWith(t, through(t, address, relay.HostPort()), opts), relay
}

// TestF46HungServerDoesNotHoldACall: the driver asks a server to cancel and then
// waits for its answer, which never comes.
func TestF46HungServerDoesNotHoldACall(t *testing.T) {
	l, relay := behindRelay(t, sql.Options{TransactionLimit: time.Second, CutAfter: 200 * time.Millisecond})
	relay.Freeze()
	err := within(t, time.Minute, func() error { return pauseNow(t, l.Store, "all") })
	if err == nil || errors.Is(err, reconcile.ErrUnknownCommit) {
		t.Errorf("a write that never began gave %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := within(t, time.Minute, func() error { _, err := l.AuditHigh(ctx); return err }); err == nil {
		t.Error("a server that does not answer was read")
	}
	relay.Thaw()
	if err := within(t, time.Minute, func() error { return pauseNow(t, l.Store, "all") }); err != nil {
		t.Errorf("after the server came back: %v", err)
	}
}

// TestF46HungServerAtCommit: the COMMIT is on its way, and what became of it is not known.
func TestF46HungServerAtCommit(t *testing.T) {
	var relay *sqltest.Relay
	freeze := false
	hook := func(_ string, commit func() error) error {
		if freeze {
			relay.Freeze()
		}
		return commit()
	}
	l, r := behindRelay(t, sql.Options{TransactionLimit: 500 * time.Millisecond, Commit: hook, CutAfter: 200 * time.Millisecond})
	relay, freeze = r, true
	err := within(t, time.Minute, func() error { return pauseNow(t, l.Store, "all") })
	if !errors.Is(err, reconcile.ErrUnknownCommit) {
		t.Errorf("a COMMIT that nobody answered gave %v", err)
	}
}

// TestF46ServerEndsTransactionOfAStoppedProcess: the locks of a process that
// stands still, or that the network has cut off, are free after half the limit.
func TestF46ServerEndsTransactionOfAStoppedProcess(t *testing.T) {
	var relay *sqltest.Relay
	freeze, stopped := false, make(chan struct{})
	l, r := behindRelay(t, sql.Options{TransactionLimit: 2 * time.Second, CutAfter: time.Minute, Commit: func(_ string, commit func() error) error {
		if freeze {
			relay.Freeze()
			close(stopped)
		}
		return commit()
	}})
	relay, freeze = r, true
	failed := make(chan error, 1)
	go func() { failed <- pauseNow(t, l.Store, "all") }()
	<-stopped
	other := open(t, sql.Options{Address: through(t, l.Address, relay.To())})
	// It needs the row of the gate that the stopped one holds.
	if err := within(t, 30*time.Second, func() error { return pauseNow(t, other, "account:a") }); err != nil {
		t.Errorf("the other process: %v", err)
	}
	relay.Thaw()
	if err := <-failed; !errors.Is(err, reconcile.ErrUnknownCommit) {
		t.Errorf("the COMMIT of the stopped process gave %v", err)
	}
	pauses, err := other.Pauses(t.Context())
	if err != nil || len(pauses) != 1 || pauses[0].Scope != "account:a" {
		t.Errorf("pauses are %v, %v", pauses, err)
	}
}

// TestF46ServerNoticesThatAWriterIsCutOff: in the middle of a statement only
// keep-alive does, whose two hours are too long for whoever waits for the locks.
func TestF46ServerNoticesThatAWriterIsCutOff(t *testing.T) {
	l := sqltest.Open(t, "postgres")
	const settings = `SELECT current_setting('tcp_keepalives_idle') || ' ' || current_setting('tcp_keepalives_interval') || ' ' || current_setting('tcp_keepalives_count')
		|| COALESCE(' ' || current_setting('transaction_timeout', true), '')`
	within := func(get func(dest any, query string) error) (shown string) {
		if err := get(&shown, settings); err != nil {
			t.Fatal(err)
		}
		return shown
	}
	var writing string
	if err := l.InWrite(t.Context(), func(get func(dest any, query string) error) error { writing = within(get); return nil }); err != nil {
		t.Fatal(err)
	}
	if writing != "15 15 3" && writing != "15 15 3 2min" {
		t.Errorf("in a write the settings are %q", writing)
	}
	err := l.OnOneConn(t.Context(), func(c *stdsql.Conn, _ net.Conn, _ int64) error {
		outside := within(func(dest any, query string) error { return c.QueryRowContext(t.Context(), query).Scan(dest) })
		if outside == writing {
			t.Errorf("behind it they are still %q", outside)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// kinds collects notices.
type kinds struct {
	mu   sync.Mutex
	seen []string
}

func (k *kinds) add(kind string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = append(k.seen, kind)
}

// TestF46CommitWithoutItsStandbyIsUnknown: nobody confirms a COMMIT, and when
// the wait for it is given up the driver reports it as done.
func TestF46CommitWithoutItsStandbyIsUnknown(t *testing.T) {
	for name, address := range map[string]func(c *sqltest.Cluster) string{
		"direct":         func(c *sqltest.Cluster) string { return c.URL() },
		"through pooler": func(c *sqltest.Cluster) string { return sqltest.Pooler(t, c.URL(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			c := sqltest.NewCluster(t)
			sqltest.OpenWith(t, c.URL(), sql.Options{}) // migrates
			var notices kinds
			var told []string
			l := open(t, sql.Options{Address: address(c), TransactionLimit: time.Second, Notice: notices.add,
				Committed: func(token string, _ int64) { told = append(told, token) }})
			c.Configure("synchronous_standby_names", "nobody")
			err := within(t, time.Minute, func() error { return pauseNow(t, l, "all") })
			if !errors.Is(err, reconcile.ErrUnknownCommit) {
				t.Errorf("a COMMIT that no standby has gave %v", err)
			}
			if len(notices.seen) != 1 || notices.seen[0] != sql.NoticeLocalCommit {
				t.Errorf("notices are %q", notices.seen)
			}
			if len(told) != 0 {
				t.Errorf("it was told as certain: %q", told)
			}
			if strings.Contains(fmt.Sprint(err), "synchronous replication") {
				t.Errorf("the server's words are in %q", err)
			}
			// It is there, on this server: the next one waits for a standby again.
			if pauses, err := l.Pauses(t.Context()); err != nil || len(pauses) != 1 {
				t.Errorf("pauses are %v, %v", pauses, err)
			}
			c.Configure("synchronous_standby_names", "")
			if err := l.Resume(t.Context(), sqltest.Start, "all", reconcile.PauseDispatch, "anna", "r"); err != nil {
				t.Errorf("with no standby to wait for: %v", err)
			}
			if len(told) != 1 || len(notices.seen) != 1 {
				t.Errorf("tokens %q, notices %q", told, notices.seen)
			}
		})
	}
}

// TestF46PresenceOnARestartedServerIsNoProof: the server is restarted while a
// COMMIT waits for the standby. It then shows the transaction, which the standby
// may lack, so reading it back is no answer while there is no standby.
func TestF46PresenceOnARestartedServerIsNoProof(t *testing.T) {
	c := sqltest.NewCluster(t)
	sqltest.OpenWith(t, c.URL(), sql.Options{})
	restarted := make(chan struct{})
	l := open(t, sql.Options{Address: c.URL(), TransactionLimit: 5 * time.Second, Commit: func(_ string, commit func() error) error {
		err := commit()
		<-restarted
		return err
	}})
	c.Configure("synchronous_standby_names", "nobody")
	failed := make(chan error, 1)
	go func() { failed <- pauseNow(t, l, "all") }()
	c.Await("EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep')")
	c.Crash()
	c.Start()
	close(restarted)
	if err := <-failed; !errors.Is(err, reconcile.ErrUnknownCommit) {
		t.Errorf("the COMMIT gave %v", err)
	}
	if pauses, err := l.Pauses(t.Context()); err != nil || len(pauses) != 1 {
		t.Errorf("pauses are %v, %v: the test's premise does not hold", pauses, err)
	}
}

// TestF46ReadOnlyConnectionIsDropped: behind a pooler a connection outlives its
// server's fall to a standby.
func TestF46ReadOnlyConnectionIsDropped(t *testing.T) {
	c := sqltest.NewCluster(t)
	sqltest.OpenWith(t, c.URL(), sql.Options{})
	l := open(t, sql.Options{Address: sqltest.Pooler(t, c.URL(), nil)})
	write := func(scope string) error { return pauseNow(t, l, scope) }
	if err := write("all"); err != nil {
		t.Fatal(err)
	}
	before := socketOf(t, l)
	c.Demote()
	if err := write("account:a"); !errors.Is(err, sql.ErrReadOnly) || errors.Is(err, reconcile.ErrUnknownCommit) {
		t.Errorf("a write to a standby gave %v", err)
	}
	if after := socketOf(t, l); after == before {
		t.Error("the connection to a standby is in use again")
	}
	if err := l.SelfTest(t.Context()); !errors.Is(err, sql.ErrReadOnly) {
		t.Errorf("the self-test on a standby gave %v", err)
	}
	c.Promote()
	if err := write("account:b"); err != nil {
		t.Errorf("after the promotion: %v", err)
	}
}

// socketOf is the local end of the connection that the pool gives next.
func socketOf(t *testing.T, s *sql.Store) (address string) {
	t.Helper()
	err := s.OnOneConn(t.Context(), func(_ *stdsql.Conn, socket net.Conn, _ int64) error {
		address = socket.LocalAddr().String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// TestF46RefusedStatementDropsItsConnection: 25006 from a statement outside a
// transaction, as when the role's default became read-only.
func TestF46RefusedStatementDropsItsConnection(t *testing.T) {
	l := sqltest.Open(t, "postgres")
	var first string
	err := l.OnOneConn(t.Context(), func(c *stdsql.Conn, socket net.Conn, _ int64) error {
		first = socket.LocalAddr().String()
		if _, err := c.ExecContext(t.Context(), "SET default_transaction_read_only = on"); err != nil {
			return err
		}
		if _, err := c.ExecContext(t.Context(), "DELETE FROM pauses"); err == nil || !strings.Contains(err.Error(), "25006") {
			t.Errorf("a statement that writes gave %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if second := socketOf(t, l.Store); second == first {
		t.Error("the connection is in use again")
	}
}

func TestF46AddressOfTwoHostsLeadsToTheOneThatWrites(t *testing.T) {
	primary := sqltest.NewCluster(t)
	standby := primary.Standby(false)
	sqltest.OpenWith(t, primary.URL(), sql.Options{})
	l := open(t, sql.Options{Address: through(t, primary.URL(), standby.HostPort()+","+primary.HostPort())})
	if f, err := l.Facts(t.Context()); err != nil || f.Server.Standby {
		t.Errorf("facts are %+v, %v", f.Server, err)
	}
	alone := open(t, sql.Options{Address: standby.URL()})
	f, err := alone.Facts(t.Context())
	if err != nil || !f.Server.Standby || !f.Server.ReadOnly || f.Server.Timeline != "" {
		t.Errorf("facts of the standby are %+v, %v", f.Server, err)
	}
	if _, err := alone.Timeline(t.Context()); !errors.Is(err, sql.ErrReadOnly) {
		t.Errorf("the timeline of a standby gave %v", err)
	}
	standbyFirst, err := sql.Open(t.Context(), sql.Options{Address: through(t, primary.URL(), standby.HostPort()+","+standby.HostPort())})
	if err == nil {
		_ = standbyFirst.Close()
		t.Error("an address of standbys only was opened")
	}
}
