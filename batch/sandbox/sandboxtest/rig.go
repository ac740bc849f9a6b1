// Package sandboxtest is a sandbox behind a real socket, as the tests of the
// adapters drive it.
package sandboxtest

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/batch/batchtest"
	"rollcall/batch/sandbox"
)

// Start is the instant at which every sandbox begins. Its real clock stands
// still; only Advance moves its own.
var Start = time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)

// Rig is a sandbox. It is the batchtest.Server of a Provider, and the
// batchtest.CallServer of one operation.
type Rig struct {
	*testing.T
	Box   *sandbox.Server
	URL   string
	Other string // the URL of the host that a redirect points at
	// Lacks are the endings that jobs of this API do not have.
	Lacks []batchtest.Ending

	op      string // of each call, as the sandbox calls it; "" for an API with jobs
	strayed atomic.Int64
}

var (
	_ batchtest.Server     = (*Rig)(nil)
	_ batchtest.Limited    = (*Rig)(nil)
	_ batchtest.Paged      = (*Rig)(nil)
	_ batchtest.CallServer = (*Rig)(nil)
)

// New opens a sandbox for the calls of op, or for jobs when it is "". change may
// be nil.
func New(t *testing.T, op string, change func(*sandbox.Options)) *Rig {
	t.Helper()
	o := sandbox.Options{Dir: t.TempDir(), Seed: 7, Now: func() time.Time { return Start }}
	if change != nil {
		change(&o)
	}
	box, err := sandbox.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &Rig{T: t, Box: box, op: op}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { r.strayed.Add(1) }))
	r.Other = other.URL
	web := httptest.NewServer(box)
	r.URL = web.URL
	t.Cleanup(func() {
		if err := box.Close(); err != nil { // ends what is delayed
			t.Error(err)
		}
		web.Close()
		other.Close()
	})
	return r
}

// Gone is the URL of a server that does not answer any more.
func Gone() string {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return s.URL
}

// Faults replaces the sandbox's faults.
func (r *Rig) Faults(texts ...string) {
	r.Helper()
	var all []sandbox.Fault
	for _, text := range texts {
		f, err := sandbox.ParseFault(text)
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, f)
	}
	if err := r.Box.SetFaults(all...); err != nil {
		r.Fatal(err)
	}
}

// Advance moves the sandbox's clock.
func (r *Rig) Advance(d time.Duration) {
	r.Helper()
	if err := r.Box.Advance(d); err != nil {
		r.Fatal(err)
	}
}

// Books are the sandbox's.
func (r *Rig) Books() sandbox.Books {
	r.Helper()
	b, err := r.Box.Books()
	if err != nil {
		r.Fatal(err)
	}
	return b
}

// Requests is how many requests of an operation the sandbox has seen.
func (r *Rig) Requests(op string) int { r.Helper(); return int(r.Books().Requests[op]) }
