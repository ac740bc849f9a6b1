package sqltest

import (
	stdsql "database/sql"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/lib/pq" // the tests' own connection to make databases with
)

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

// Main runs a package's tests and stops the servers that they started. Call
// it from TestMain.
func Main(m *testing.M) int {
	defer func() {
		for _, stop := range []func(){shared.stop, server.stop} {
			if stop != nil {
				stop()
			}
		}
		if fresh.cluster != nil {
			fresh.remove()
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
	admin(t, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY FILE_COPY", name, template))
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
		_, template.err = migrate(t.Context(), databaseURL(template.name))
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
	need(t, server.err)
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

// startPostgres makes a cluster in a temporary folder and starts it on a
// private port.
func startPostgres() (*url.URL, func(), error) {
	c, err := newCluster()
	if err != nil {
		return nil, nil, err
	}
	// No autovacuum: it would visit hundreds of tiny databases, and statements must
	// be quick without statistics anyway, as right after an import.
	// Nobody replicates it, and a copy of files needs no log then: a database of a
	// test's own costs half of what it does otherwise.
	c.settings = []string{"autovacuum=off", "max_connections=200", "wal_level=minimal", "max_wal_senders=0"}
	if err := c.start(); err != nil {
		c.remove()
		return nil, nil, err
	}
	return c.url(), c.remove, nil
}
