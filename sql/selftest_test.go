package sql_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// dyingServer passes connections on to a server, and cuts all of them when the
// client has sent something for the n-th time.
type dyingServer struct {
	listener net.Listener
	to       string
	left     atomic.Int64
	back     bool // it takes new connections afterwards
	mu       sync.Mutex
	conns    []net.Conn
}

func newDyingServer(t *testing.T, to string, n int64, back bool) *dyingServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &dyingServer{listener: l, to: to, back: back}
	d.left.Store(n)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { d.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		d.cut()
		running.Wait()
	})
	return d
}

func (d *dyingServer) serve(client net.Conn) {
	server, err := net.Dial("tcp", d.to)
	if err != nil {
		_ = client.Close()
		return
	}
	d.mu.Lock()
	d.conns = append(d.conns, client, server)
	d.mu.Unlock()
	var answers sync.WaitGroup
	answers.Go(func() { pass(client, server, func() {}) })
	pass(server, client, func() {
		if d.left.Add(-1) == 0 {
			d.cut()
			if !d.back {
				_ = d.listener.Close()
			}
		}
	})
	answers.Wait()
}

func (d *dyingServer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		_ = c.Close()
	}
}

// pass copies until one side is closed, and closes both.
func pass(to, from net.Conn, read func()) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		read()
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// TestSelfTestOfADyingServer: a server that goes down while it is tested is no
// fault of the configuration. A daemon that took it for one would not be started
// again.
func TestSelfTestOfADyingServer(t *testing.T) {
	address := sqltest.Address(t, "postgres")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, back := range []bool{false, true} {
		for _, n := range []int64{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 40, 200} {
			t.Run(fmt.Sprintf("after %d, back %t", n, back), func(t *testing.T) {
				d := newDyingServer(t, u.Host, n, back)
				s, err := sql.Open(t.Context(), sql.Options{Address: through(t, address, d.listener.Addr().String())})
				if err == nil {
					t.Cleanup(func() { _ = s.Close() })
					err = s.SelfTest(t.Context())
				}
				if errors.Is(err, sql.ErrPooler) || err == nil && !back {
					t.Errorf("the self-test says %v", err)
				}
				if d.left.Load() > 0 {
					t.Errorf("the server did not go down: %d left", d.left.Load())
				}
			})
		}
	}
}
