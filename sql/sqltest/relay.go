package sqltest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Relay passes TCP connections on to a server until a test does to them what
// networks and servers do. Freeze holds all of them: nothing arrives any more in
// either direction, and nothing is closed, as with a server that hangs. Cut has a
// Fault strike one connection, at one byte of one request or of its answer.
type Relay struct {
	listener net.Listener
	to       string
	protocol Protocol      // nil: bytes are passed on as they come, and nothing can be cut
	ended    chan struct{} // closed at the end of the test

	mu    sync.Mutex
	flows chan struct{} // closed while data passes
	conns []net.Conn
	cut   *Cut // that waits for its request
}

// NewRelay starts a relay to an address such as "127.0.0.1:5432". It ends with the test.
func NewRelay(t testing.TB, to string) *Relay {
	t.Helper()
	return NewCutter(t, to, nil)
}

// NewCutter is NewRelay for connections that speak a protocol, so that they can be cut.
func NewCutter(t testing.TB, to string, p Protocol) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{listener: l, to: to, protocol: p, flows: make(chan struct{}), ended: make(chan struct{})}
	close(r.flows)
	var running sync.WaitGroup
	running.Go(func() { r.accept(&running) })
	t.Cleanup(func() {
		_ = l.Close()
		close(r.ended)
		r.CloseAll()
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

// CloseAll closes all connections that are open, so that whoever waits on one
// waits no longer.
func (r *Relay) CloseAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
}

// flowing waits until data passes, and says whether the test goes on.
func (r *Relay) flowing() bool {
	r.mu.Lock()
	flows := r.flows
	r.mu.Unlock()
	select {
	case <-flows:
		return true
	case <-r.ended:
		return false
	}
}

// keep notes connections for CloseAll. At the end of the test it closes them: they
// came too late for that.
func (r *Relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.ended:
		for _, c := range conns {
			_ = c.Close()
		}
		return false
	default:
		r.conns = append(r.conns, conns...)
		return true
	}
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
		if !r.keep(client, server) {
			return
		}
		l := &link{relay: r, client: client.(*net.TCPConn), server: server.(*net.TCPConn)}
		if r.protocol != nil {
			l.framer = r.protocol()
		}
		running.Go(func() { l.pass(l.client, l.server, l.requests) })
		running.Go(func() { l.pass(l.server, l.client, l.answers) })
	}
}

// link is one connection through a relay.
type link struct {
	relay          *Relay
	client, server *net.TCPConn
	framer         Framer // nil without a protocol

	answering sync.Mutex // held while anything of an answer is handed on

	mu     sync.Mutex
	cut    *Cut // whose answer is awaited
	struck Fault
	slow   int // bytes that are still to come slowly
}

// pass hands on what arrives from one side until it ends. hand is given all
// that was not handed on yet and returns what is to wait for more.
func (l *link) pass(from, to *net.TCPConn, hand func(pending []byte, end bool) (kept []byte)) {
	var pending []byte
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		switch l.fault() {
		case FaultStall:
			<-l.relay.ended
			return
		case FaultClose: // nobody reads any more
			_ = from.Close()
			return
		}
		pending = hand(append(pending, buffer[:n]...), err != nil)
		switch l.fault() {
		case FaultStall, FaultClose:
			continue
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// send hands bytes on, at the pace of the connection. It does nothing once a
// fault has ended that.
func (l *link) send(to *net.TCPConn, b []byte) {
	for len(b) > 0 && l.relay.flowing() {
		n, pause := l.pace(len(b))
		if n == 0 {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
		if b = b[n:]; pause == 0 {
			continue
		}
		select {
		case <-time.After(pause):
		case <-l.relay.ended:
		}
	}
}

// requests hands on what the client sends, request by request.
func (l *link) requests(pending []byte, end bool) (kept []byte) {
	if l.framer == nil {
		l.send(l.server, pending)
		return nil
	}
	asked := 0 // bytes of requests that are whole and are not cut
	for {
		head, whole := l.framer.Request(pending[asked:])
		if whole == 0 {
			break
		}
		cut := l.relay.take(pending[asked : asked+whole])
		if cut == nil {
			asked += whole // sent together, as the client did
			continue
		}
		l.send(l.server, pending[:asked])
		l.request(pending[asked:asked+whole], head, cut)
		pending, asked = pending[asked+whole:], 0
	}
	if end {
		asked = len(pending)
	}
	l.send(l.server, pending[:asked])
	return pending[asked:]
}

// request hands on a request that is cut, or whose answer is.
func (l *link) request(b []byte, head int, cut *Cut) {
	switch {
	case cut.Place.ofAnswer():
		l.mu.Lock()
		l.cut = cut
		l.mu.Unlock()
		cut = nil
	case cut.Place == BehindRequest: // and not behind the answer, which may be quick
		l.answering.Lock()
		defer l.answering.Unlock()
	}
	l.sendCut(l.server, b, head, cut)
}

// answers hands on what the server sends; an answer that is to be cut when all
// of it is there.
func (l *link) answers(pending []byte, end bool) (kept []byte) {
	l.answering.Lock()
	defer l.answering.Unlock()
	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	if cut == nil {
		l.send(l.client, pending)
		return nil
	}
	head, whole := l.framer.Answer(pending)
	if cut.Place == BeforeAnswer && len(pending) > 0 {
		whole = len(pending) // its first bytes tell that the server has acted
	}
	if whole == 0 && !end {
		return pending
	}
	l.mu.Lock()
	l.cut = nil
	l.mu.Unlock()
	l.sendCut(l.client, pending[:whole], head, cut)
	l.send(l.client, pending[whole:])
	return nil
}

// sendCut hands on a message, and has the fault strike within it.
func (l *link) sendCut(to *net.TCPConn, b []byte, head int, cut *Cut) {
	if cut == nil {
		l.send(to, b)
		return
	}
	at, ok := cut.offset(head, len(b))
	if !ok {
		l.send(to, b)
		return
	}
	cut.struck.Store(true)
	l.send(to, b[:at])
	l.strike(cut)
	l.send(to, b[at:])
}
