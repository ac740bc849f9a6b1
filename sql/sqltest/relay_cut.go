package sqltest

import (
	"sync/atomic"
	"time"
)

// Fault is what happens to a connection.
type Fault string

// The faults. Each concerns one connection, in both directions; others go on.
const (
	FaultClose   Fault = "close"   // both sides see the end of the stream
	FaultReset   Fault = "reset"   // both sides see a reset
	FaultStall   Fault = "stall"   // nothing arrives any more, and nothing is closed
	FaultSlow    Fault = "slow"    // the next bytes come a few at a time
	FaultTrickle Fault = "trickle" // all further bytes come one by one, slower than anybody waits
)

// Faults lists every fault.
func Faults() []Fault {
	return []Fault{FaultClose, FaultReset, FaultStall, FaultSlow, FaultTrickle}
}

// The paces of the slow faults.
const (
	slowBytes  = 400 // that are slow
	slowPiece  = 3
	slowPause  = time.Millisecond
	trickleGap = 50 * time.Millisecond
)

// Place is where in a request or in its answer a fault strikes.
type Place string

// The places, in the order of time. Of a PostgreSQL message the head is type and
// length; of an answer to it, all before ReadyForQuery.
const (
	BeforeRequest Place = "before the request"   // not a byte of it arrives
	InHead        Place = "in its head"          // a part of the head arrives
	InBody        Place = "in its body"          // the head arrives, and not all of the body
	BehindRequest Place = "behind it"            // all of it arrives; the server may see that nobody listens, or not
	BeforeAnswer  Place = "before the answer"    // the server has answered, and not a byte of that arrives
	InAnswerHead  Place = "in the answer's head" //
	InAnswerBody  Place = "in the answer's body" //
	BehindAnswer  Place = "behind the answer"    // all of it arrives
)

// Places lists every place.
func Places() []Place {
	return []Place{BeforeRequest, InHead, InBody, BehindRequest, BeforeAnswer, InAnswerHead, InAnswerBody, BehindAnswer}
}

// ofAnswer says whether the place is in the answer.
func (p Place) ofAnswer() bool {
	switch p {
	case BeforeAnswer, InAnswerHead, InAnswerBody, BehindAnswer:
		return true
	}
	return false
}

// Cut is one fault at one byte of one request, or of its answer. It strikes once.
type Cut struct {
	Place Place
	Fault Fault
	// At chooses the byte within a head or a body, from 0, the first that the
	// place has, to 1, the last.
	At float64
	// Request picks the request; nil picks the next one. It is called by the
	// relay's goroutines, one at a time.
	Request func(request []byte) bool

	struck atomic.Bool
}

// Struck says whether the fault has struck, or is about to: its place was found.
func (c *Cut) Struck() bool { return c.struck.Load() }

// offset is how many bytes of a message arrive. A message without a body has no
// place in it.
func (c *Cut) offset(head, whole int) (at int, ok bool) {
	var first, last int
	switch c.Place {
	case BeforeRequest, BeforeAnswer:
		return 0, true
	case BehindRequest, BehindAnswer:
		return whole, true
	case InHead, InAnswerHead:
		first, last = 1, head-1
	case InBody, InAnswerBody:
		first, last = head, whole-1
	}
	return min(first+int(c.At*float64(last-first+1)), last), first <= last
}

// Cut has a fault strike the next request that it picks, in place of an earlier
// cut that has found none. The relay must know the protocol.
func (r *Relay) Cut(c *Cut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = c
}

// take is the cut that waits for a request, if it is this one.
func (r *Relay) take(request []byte) *Cut {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cut
	if c == nil || c.Request != nil && !c.Request(request) {
		return nil
	}
	r.cut = nil
	return c
}

func (l *link) fault() Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.struck
}

// pace is how many of n bytes may be handed on now, and the pause behind them.
func (l *link) pace(n int) (int, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.struck == FaultTrickle:
		return 1, trickleGap
	case l.struck == FaultSlow && l.slow > 0:
		n = min(n, slowPiece)
		l.slow -= n
		return n, slowPause
	case l.struck == "", l.struck == FaultSlow:
		return n, 0
	}
	return 0, 0
}

// strike makes the fault happen. Where a side is told of an end it is by a FIN,
// as of a process that exits with nothing left to read.
func (l *link) strike(c *Cut) {
	l.mu.Lock()
	l.struck, l.slow = c.Fault, slowBytes
	l.mu.Unlock()
	switch c.Fault {
	case FaultClose:
		_, _ = l.client.CloseWrite(), l.server.CloseWrite()
	case FaultReset:
		_, _ = l.client.SetLinger(0), l.server.SetLinger(0)
		_, _ = l.client.Close(), l.server.Close()
	}
}
