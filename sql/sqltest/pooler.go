package sqltest

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Pooler starts a PgBouncer between a test and the server of databaseURL, and
// gives the same address through it. It pools transactions unless the settings,
// which stand in its section [pgbouncer], say otherwise. It ends with the test.
func Pooler(t testing.TB, databaseURL string, settings map[string]string) string {
	t.Helper()
	to, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	host, stop, err := startPooler(to, settings)
	need(t, err)
	t.Cleanup(stop)
	to.Host = host
	return to.String()
}

// startPooler starts a PgBouncer for every database of the server, on a
// private port, and waits until it answers.
func startPooler(to *url.URL, settings map[string]string) (host string, stop func(), err error) {
	pgbouncer, err := program("pgbouncer")
	if err != nil {
		return "", nil, err
	}
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	w, err := newWorkspace("pgbouncer")
	if err != nil {
		return "", nil, err
	}
	config := filepath.Join(w.dir, "pgbouncer.ini")
	if err := errors.Join(os.WriteFile(config, poolerConfig(to, port, w.dir, settings), 0o644),
		os.WriteFile(filepath.Join(w.dir, "users"), fmt.Appendf(nil, "%q \"\"\n", to.User.Username()), 0o644)); err != nil {
		w.remove()
		return "", nil, err
	}
	p, err := w.start(w.command(pgbouncer, config))
	if err != nil {
		w.remove()
		return "", nil, err
	}
	stop = func() { p.end(syscall.SIGTERM); w.remove() } // at once, whoever is connected
	through := *to
	through.Host = "127.0.0.1:" + strconv.Itoa(port)
	if err := awaitPooler(through, p); err != nil {
		log, _ := os.ReadFile(filepath.Join(w.dir, "log"))
		stop()
		return "", nil, fmt.Errorf("PgBouncer: %w: %s", err, log)
	}
	return through.Host, stop, nil
}

// poolerConfig is a PgBouncer's configuration file.
func poolerConfig(to *url.URL, port int, dir string, settings map[string]string) []byte {
	set := map[string]string{
		"listen_addr": "127.0.0.1", "listen_port": strconv.Itoa(port), "unix_socket_dir": "",
		"auth_type": "trust", "auth_file": filepath.Join(dir, "users"), "admin_users": to.User.Username(),
		"pool_mode": "transaction", "max_client_conn": "1000", "default_pool_size": "20",
		// Each test has its own database; its connections must not pile up.
		"server_idle_timeout": "5",
	}
	maps.Copy(set, settings)
	var b strings.Builder
	fmt.Fprintf(&b, "[databases]\n* = host=%s port=%s", to.Hostname(), to.Port())
	if password, ok := to.User.Password(); ok {
		fmt.Fprintf(&b, " user=%s password=%s", to.User.Username(), password)
	}
	b.WriteString("\n[pgbouncer]\n")
	for _, name := range slices.Sorted(maps.Keys(set)) {
		fmt.Fprintf(&b, "%s = %s\n", name, set[name])
	}
	return []byte(b.String())
}

// awaitPooler waits for PgBouncer's own console, which needs no server.
func awaitPooler(console url.URL, p *process) error {
	console.Path = "/pgbouncer"
	db, err := stdsql.Open("postgres", console.String())
	if err != nil {
		return err
	}
	defer db.Close()
	return await(time.Minute, func(ctx context.Context) (bool, error) {
		select {
		case <-p.done:
			return false, errors.New("it ended")
		default:
			_, err := db.ExecContext(ctx, "SHOW VERSION")
			return err == nil, nil
		}
	})
}

// shared is the PgBouncer in front of this process's test server.
var shared struct {
	once sync.Once
	host string
	stop func()
	err  error
}

// pooled is the address of a database as a store of a test shall open it: with
// ROLLCALL_TEST_POOLER=1 through a PgBouncer that pools transactions.
func pooled(t testing.TB, address string) string {
	t.Helper()
	if os.Getenv("ROLLCALL_TEST_POOLER") != "1" || !strings.HasPrefix(address, "postgres://") {
		return address
	}
	needServer(t)
	shared.once.Do(func() { shared.host, shared.stop, shared.err = startPooler(server.base, nil) })
	need(t, shared.err)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if u.Host == server.base.Host {
		u.Host = shared.host
	}
	return u.String()
}
