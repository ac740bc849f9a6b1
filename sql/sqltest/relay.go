package sqltest

import (
	"net"
	"sync"
	"testing"
)

// Relay passes TCP connections on to a server until a test freezes them: then
// nothing arrives any more in either direction, and nothing is closed, as with
// a server that hangs or a network that swallows packets.
type Relay struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	flows chan struct{} // closed while data passes
	conns []net.Conn
}

// NewRelay starts a relay to an address such as "127.0.0.1:5432". It ends with the test.
func NewRelay(t testing.TB, to string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{listener: l, to: to, flows: make(chan struct{})}
	close(r.flows)
	var running sync.WaitGroup
	running.Go(func() { r.accept(&running) })
	t.Cleanup(func() {
		_ = l.Close()
		r.Thaw()
		r.mu.Lock()
		for _, c := range r.conns {
			_ = c.Close()
		}
		r.mu.Unlock()
		running.Wait()
	})
	return r
}

// HostPort is where the relay listens.
func (r *Relay) HostPort() string { return r.listener.Addr().String() }

// To is what the relay leads to.
func (r *Relay) To() string { return r.to }

// Freeze stops all data, of connections that are open and of new ones.
func (r *Relay) Freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flows = make(chan struct{})
}

// Thaw lets the data pass again, none of which was lost.
func (r *Relay) Thaw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.flows:
	default:
		close(r.flows)
	}
}

func (r *Relay) passing() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flows
}

func (r *Relay) accept(running *sync.WaitGroup) {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, client, server)
		r.mu.Unlock()
		running.Go(func() { r.pass(server, client) })
		running.Go(func() { r.pass(client, server) })
	}
}

// pass copies until one side closes.
func (r *Relay) pass(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		<-r.passing()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
