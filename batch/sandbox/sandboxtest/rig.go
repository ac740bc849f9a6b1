// Package sandboxtest is a sandbox behind a real socket, as the tests of a
// batch.Caller drive it.
package sandboxtest

import (
	"fmt"
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

// Rig is a sandbox. It is the batchtest.CallServer of one operation.
type Rig struct {
	*testing.T
	Box     *sandbox.Server
	URL     string
	op      string // as the sandbox calls it
	other   *httptest.Server
	strayed atomic.Int64
}

var _ batchtest.CallServer = (*Rig)(nil)

// New opens a sandbox for the calls of op. change may be nil.
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
	r.other = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { r.strayed.Add(1) }))
	web := httptest.NewServer(box)
	r.URL = web.URL
	t.Cleanup(func() {
		if err := box.Close(); err != nil { // ends what is delayed
			t.Error(err)
		}
		web.Close()
		r.other.Close()
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

// Requests is how many requests of an operation the sandbox has seen.
func (r *Rig) Requests(op string) int {
	r.Helper()
	b, err := r.Box.Books()
	if err != nil {
		r.Fatal(err)
	}
	return int(b.Requests[op])
}

// Arm sets the sandbox's fault for f, once. A fault that it has no name for fails
// the test: a check that is skipped proves nothing.
func (r *Rig) Arm(_ batchtest.Op, f batchtest.Fault) bool {
	r.Helper()
	seconds := int(f.RetryAfter.Seconds())
	text := map[batchtest.FaultKind]string{
		batchtest.LostRequest:  "drop_before:",
		batchtest.LostAnswer:   "drop_after:",
		batchtest.GatewayPage:  "bad_gateway:acted=true,",
		batchtest.Blank:        "empty_object:acted=true,",
		batchtest.Conflict:     "server_error:status=409,acted=true,",
		batchtest.ServerError:  "server_error:status=500,",
		batchtest.Busy:         "server_error:status=503,",
		batchtest.BadRequest:   "bad_request:",
		batchtest.Unauthorized: "unauthorized:",
		batchtest.Forbidden:    "forbidden:",
		batchtest.Payment:      "payment_required:",
		batchtest.Missing:      "not_found:",
		batchtest.TooMany:      "rate_limit:form=none,",
		batchtest.TooManyDate:  fmt.Sprintf("rate_limit:form=date,retry_after=%d,", seconds),
		batchtest.Redirect:     "redirect:to=" + r.other.URL + ",",
		batchtest.Torn:         "answer_cut:at=0.5,",
	}[f.Kind]
	if f.Kind == batchtest.TooMany && seconds > 0 {
		text = fmt.Sprintf("rate_limit:retry_after=%d,", seconds)
	}
	if text == "" {
		r.Fatalf("the sandbox has no fault for %q", f.Kind)
	}
	r.Faults(text + "times=1,op=" + r.op)
	return true
}

// Calls counts requests as the sandbox's books do.
func (r *Rig) Calls(batchtest.Op) int { r.Helper(); return r.Requests(r.op) }

// Strayed is how many calls reached the host that a redirect pointed at.
func (r *Rig) Strayed() int { return int(r.strayed.Load()) }
