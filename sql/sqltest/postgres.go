package sqltest

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/lib/pq" // the tests' own connection to make databases with
)

// errNoPostgres means that there is nothing to start.
var errNoPostgres = errors.New("PostgreSQL's programs are not installed")

// server is the PostgreSQL of this test process: started at the first need,
// stopped by Main.
var server struct {
	once sync.Once
	base *url.URL
	err  error
	stop func()
}

var databases atomic.Int64

// template is a migrated database of this process, to copy from.
var template struct {
	once sync.Once
	name string
	err  error
}

// Main runs a package's tests and stops the PostgreSQL that they started. Call
// it from TestMain.
func Main(m *testing.M) int {
	defer func() {
		if server.stop != nil {
			server.stop()
		}
	}()
	return m.Run()
}

// freshPostgres makes a database on the test server, as a copy of another.
func freshPostgres(t testing.TB, template string) string {
	t.Helper()
	needServer(t)
	name := newDatabase(t, template)
	if server.stop == nil { // a server of somebody else's is left as it was
		t.Cleanup(func() { admin(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	}
	return databaseURL(name)
}

func newDatabase(t testing.TB, template string) string {
	t.Helper()
	name := fmt.Sprintf("rollcall_test_%d_%d", os.Getpid(), databases.Add(1))
	admin(t, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, template))
	return name
}

func databaseURL(name string) string {
	u := *server.base
	u.Path = "/" + name
	return u.String()
}

// templatePostgres is the name of a migrated database that nobody writes to.
func templatePostgres(t testing.TB) string {
	t.Helper()
	needServer(t)
	template.once.Do(func() {
		template.name = newDatabase(t, "template1")
		template.err = migrate(t.Context(), databaseURL(template.name))
	})
	if template.err != nil {
		t.Fatal(template.err)
	}
	return template.name
}

// needServer starts the test server at the first need.
func needServer(t testing.TB) {
	t.Helper()
	server.once.Do(func() {
		if u := os.Getenv("ROLLCALL_TEST_POSTGRES_URL"); u != "" {
			server.base, server.err = url.Parse(u)
			return
		}
		server.base, server.stop, server.err = startPostgres()
	})
	if errors.Is(server.err, errNoPostgres) && os.Getenv("ROLLCALL_TEST_POSTGRES") != "require" {
		t.Skip("PostgreSQL's programs are not installed here; set ROLLCALL_TEST_POSTGRES=require to fail instead")
	}
	if server.err != nil {
		t.Fatal(server.err)
	}
}

func admin(t testing.TB, statement string) {
	t.Helper()
	db, err := stdsql.Open("postgres", server.base.String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// program finds a PostgreSQL program in PATH or where Debian keeps it.
func program(name string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return filepath.EvalSymlinks(p)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return "", errNoPostgres
	}
	return found[len(found)-1], nil
}

// startPostgres makes a cluster in a temporary folder and starts it on a
// private port. PostgreSQL refuses to run as root, so root starts it as
// another user.
func startPostgres() (*url.URL, func(), error) {
	initdb, err := program("initdb")
	if err != nil {
		return nil, nil, err
	}
	postgres, err := program("postgres")
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "rollcall-postgres-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) }
	attr, err := unprivileged(dir)
	if err != nil {
		remove()
		return nil, nil, err
	}
	data := filepath.Join(dir, "data")
	init := exec.Command(initdb, "-D", data, "-U", "rollcall", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	init.SysProcAttr, init.Dir = attr, dir
	if out, err := init.CombinedOutput(); err != nil {
		remove()
		return nil, nil, fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	port, err := freePort()
	if err != nil {
		remove()
		return nil, nil, err
	}
	// No autovacuum: it would visit hundreds of tiny databases, and statements must
	// be quick without statistics anyway, as right after an import.
	// fsync off: what these tests prove is that rollcall is right about what
	// the database says, not that the disk keeps it.
	cmd := exec.Command(postgres, "-D", data, "-p", strconv.Itoa(port), "-k", dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "autovacuum=off", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=200")
	cmd.SysProcAttr, cmd.Dir = attr, dir
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		remove()
		return nil, nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	stop, err := startBound(cmd)
	if err != nil {
		remove()
		return nil, nil, err
	}
	base := &url.URL{Scheme: "postgres", User: url.User("rollcall"), Host: "127.0.0.1:" + strconv.Itoa(port), Path: "/postgres", RawQuery: "sslmode=disable"}
	end := func() { stop(); _ = log.Close(); remove() }
	if err := awaitPostgres(base); err != nil {
		end()
		return nil, nil, err
	}
	return base, end, nil
}

// startBound starts a program that ends with this process, however this ends.
// The kernel ties it to the thread that started it, so that thread must stay.
func startBound(cmd *exec.Cmd) (stop func(), err error) {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	started, finish, done := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		<-finish
		_ = cmd.Process.Signal(syscall.SIGINT) // fast shutdown
		_ = cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return func() { close(finish); <-done }, nil
}

func awaitPostgres(base *url.URL) error {
	db, err := stdsql.Open("postgres", base.String())
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if err = db.PingContext(ctx); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL did not start: %w", err)
		case <-tick.C:
		}
	}
}

// unprivileged makes a folder usable for the user that PostgreSQL will run as.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2, os.Chown(dir, uid, gid)); err != nil {
			return nil, err
		}
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return nil, errors.New("neither user postgres nor nobody exists to run PostgreSQL as")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	_, port, _ := strings.Cut(l.Addr().String(), ":")
	return strconv.Atoi(port)
}
