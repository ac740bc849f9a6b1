package sqltest

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cluster is a PostgreSQL server in a folder of its own.
//
// fsync is off. What these tests prove is that rollcall is right about what the
// database says, not that the disk keeps it: a server that is killed loses
// nothing that it wrote, since the kernel has the pages. Only a machine that
// goes down would, and no test makes one do that.
type cluster struct {
	workspace
	data     string
	port     int
	settings []string // name=value
	server   *process
}

func nextPort() int { return 15000 + rand.IntN(17000) }

// fresh is the folder of a server that never ran, to copy from.
var fresh struct {
	once sync.Once
	*cluster
	err error
}

// newCluster makes the folder of a new server.
func newCluster() (*cluster, error) {
	fresh.once.Do(func() { fresh.cluster, fresh.err = initCluster() })
	if fresh.err != nil {
		return nil, fresh.err
	}
	c, err := emptyCluster()
	if err != nil {
		return nil, err
	}
	if out, err := c.command("cp", "-a", fresh.data, c.data).CombinedOutput(); err != nil {
		c.remove()
		return nil, fmt.Errorf("copy a server's folder: %w: %s", err, bytes.TrimSpace(out))
	}
	return c, nil
}

func initCluster() (*cluster, error) {
	initdb, err := program("initdb")
	if err != nil {
		return nil, err
	}
	c, err := emptyCluster()
	if err != nil {
		return nil, err
	}
	init := c.command(initdb, "-D", c.data, "-U", "rollcall", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := init.CombinedOutput(); err != nil {
		c.remove()
		return nil, fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	return c, nil
}

func emptyCluster() (*cluster, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	w, err := newWorkspace("postgres")
	if err != nil {
		return nil, err
	}
	return &cluster{workspace: w, data: filepath.Join(w.dir, "data"), port: port}, nil
}

// start starts the server and waits until it answers.
func (c *cluster) start() error {
	postgres, err := program("postgres")
	if err != nil {
		return err
	}
	args := []string{"-D", c.data, "-p", strconv.Itoa(c.port), "-k", c.dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "full_page_writes=off"}
	for _, s := range c.settings {
		args = append(args, "-c", s)
	}
	if c.server, err = c.workspace.start(c.command(postgres, args...)); err != nil {
		return err
	}
	return c.await()
}

func (c *cluster) await() error {
	db, err := stdsql.Open("postgres", c.url().String())
	if err != nil {
		return err
	}
	defer db.Close()
	return await(time.Minute, func(ctx context.Context) (bool, error) {
		select {
		case <-c.server.done:
			log, _ := os.ReadFile(filepath.Join(c.dir, "log"))
			return false, fmt.Errorf("PostgreSQL ended: %s", log[max(0, len(log)-500):])
		default:
			return db.PingContext(ctx) == nil, nil
		}
	})
}

// remove stops the server and removes its folder.
func (c *cluster) remove() {
	if c.server != nil {
		c.server.end(syscall.SIGINT) // fast shutdown
	}
	c.workspace.remove()
}

func (c *cluster) url() *url.URL {
	return &url.URL{Scheme: "postgres", User: url.User("rollcall"), Host: "127.0.0.1:" + strconv.Itoa(c.port), Path: "/postgres", RawQuery: "sslmode=disable"}
}

// await asks until the answer is yes, an error, or the time is over.
func await(limit time.Duration, ready func(ctx context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := ready(ctx); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready within %s", limit)
		case <-tick.C:
		}
	}
}

// Cluster is a PostgreSQL server of one test's own, to be crashed, copied,
// demoted and promoted. It is removed when the test ends.
type Cluster struct {
	*cluster
	t       testing.TB
	stopped []int // processes that FreezeReplication stopped
}

// NewCluster starts a server with settings such as "log_statement=all".
func NewCluster(t testing.TB, settings ...string) *Cluster {
	t.Helper()
	inner, err := newCluster()
	need(t, err)
	inner.settings = settings
	c := &Cluster{cluster: inner, t: t}
	t.Cleanup(c.remove)
	c.Start()
	return c
}

// URL is the address of the server's database "postgres".
func (c *Cluster) URL() string { return c.url().String() }

// HostPort is where the server listens, now and after each start.
func (c *Cluster) HostPort() string { return c.url().Host }

// Start starts the server, on the port that it always has, and waits until it answers.
func (c *Cluster) Start() {
	c.t.Helper()
	if err := c.start(); err != nil {
		c.t.Fatal(err)
	}
}

// Stop shuts the server down in good order: clients are cut off, nothing is lost.
func (c *Cluster) Stop() { c.server.end(syscall.SIGINT) }

// Crash stops the server as `pg_ctl stop -m immediate` does: at once, with
// recovery from the write-ahead log at the next start.
func (c *Cluster) Crash() {
	_ = c.server.cmd.Process.Signal(syscall.SIGQUIT)
	for _, pid := range c.stopped { // the server would wait for them
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	c.stopped = nil
	c.server.end(syscall.SIGQUIT)
}

// Exec runs one statement in the database "postgres".
func (c *Cluster) Exec(statement string) {
	c.t.Helper()
	c.with(func(db *stdsql.DB) error {
		_, err := db.Exec(statement)
		return err
	})
}

// TryExec runs one statement that may fail.
func (c *Cluster) TryExec(statement string, args ...any) {
	c.t.Helper()
	c.with(func(db *stdsql.DB) error {
		_, _ = db.Exec(statement, args...)
		return nil
	})
}

// Log is what the server has written to its log.
func (c *Cluster) Log() string {
	c.t.Helper()
	log, err := os.ReadFile(filepath.Join(c.dir, "log"))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(log)
}

// Configure changes a setting of the running server, and waits until it has it.
func (c *Cluster) Configure(name, value string) {
	c.t.Helper()
	c.Exec(fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", name, value))
	c.Exec("SELECT pg_reload_conf()")
	c.Await("current_setting('" + name + "') = '" + value + "'")
}

// Await waits until a condition in SQL holds.
func (c *Cluster) Await(condition string) {
	c.t.Helper()
	c.with(func(db *stdsql.DB) error {
		err := await(time.Minute, func(ctx context.Context) (ok bool, err error) {
			return ok, db.QueryRowContext(ctx, "SELECT "+condition).Scan(&ok)
		})
		if err != nil {
			err = fmt.Errorf("%s: %w", condition, err)
		}
		return err
	})
}

func (c *Cluster) with(do func(db *stdsql.DB) error) {
	c.t.Helper()
	db, err := stdsql.Open("postgres", c.URL())
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	if err := do(db); err != nil {
		c.t.Fatal(err)
	}
}

// Standby starts a streaming standby and waits until it has caught up. With a
// synchronous one, no COMMIT returns before the standby has it.
func (c *Cluster) Standby(synchronous bool) *Cluster {
	c.t.Helper()
	basebackup, err := program("pg_basebackup")
	need(c.t, err)
	inner, err := emptyCluster()
	if err != nil {
		c.t.Fatal(err)
	}
	s := &Cluster{cluster: inner, t: c.t}
	c.t.Cleanup(s.remove)
	from := fmt.Sprintf("host=127.0.0.1 port=%d user=rollcall application_name=standby", c.port)
	copy := inner.command(basebackup, "-D", inner.data, "-d", from, "-R", "-X", "stream", "-c", "fast", "--no-sync")
	if out, err := copy.CombinedOutput(); err != nil {
		c.t.Fatalf("pg_basebackup: %v: %s", err, bytes.TrimSpace(out))
	}
	s.settings = c.settings
	s.Start()
	c.Await("EXISTS (SELECT 1 FROM pg_stat_replication WHERE application_name = 'standby' AND state = 'streaming')")
	if synchronous {
		c.Configure("synchronous_standby_names", "standby")
		c.Await("EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync')")
	}
	return s
}

// FreezeReplication stops the processes that send the write-ahead log to
// standbys, in the middle of what they do: from now on nothing reaches a
// standby, and a crash loses what was committed since.
func (c *Cluster) FreezeReplication() {
	c.t.Helper()
	c.with(func(db *stdsql.DB) error {
		rows, err := db.Query("SELECT pid FROM pg_stat_replication")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var pid int
			if err := errors.Join(rows.Scan(&pid), syscall.Kill(pid, syscall.SIGSTOP)); err != nil {
				return err
			}
			c.stopped = append(c.stopped, pid)
		}
		return rows.Err()
	})
	if len(c.stopped) == 0 {
		c.t.Fatal("no standby is connected")
	}
}

// Promote makes a standby the primary, and waits until it is.
func (c *Cluster) Promote() {
	c.t.Helper()
	c.Exec("SELECT pg_promote(true, 60)")
	c.Await("NOT pg_is_in_recovery()")
}

// Demote restarts the server as a standby of nobody: it answers, and refuses
// to write. Promote undoes it.
func (c *Cluster) Demote() {
	c.t.Helper()
	c.Stop()
	if err := os.WriteFile(filepath.Join(c.data, "standby.signal"), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
	if c.attr.Credential != nil {
		if err := os.Chown(filepath.Join(c.data, "standby.signal"), int(c.attr.Credential.Uid), int(c.attr.Credential.Gid)); err != nil {
			c.t.Fatal(err)
		}
	}
	c.Start()
}
