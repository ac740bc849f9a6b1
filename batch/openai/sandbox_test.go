package openai_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/batch/batchtest"
	"rollcall/batch/openai"
	"rollcall/batch/sandbox"
)

const sandboxKey = "sk-test-5ca1ab1e"

// start is the instant at which every sandbox of these tests begins. Its real
// clock stands still; only Advance moves it.
var start = time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)

// rig is a real client over a sandbox, over a real socket.
type rig struct {
	*testing.T
	*openai.Client
	box     *sandbox.Server
	other   *httptest.Server // the host that Redirect points at
	strayed atomic.Int64
	url     string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	box, err := sandbox.New(sandbox.Options{Dir: t.TempDir(), Seed: 7, Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, box: box}
	r.other = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { r.strayed.Add(1) }))
	web := httptest.NewServer(box)
	r.url = web.URL
	t.Cleanup(func() {
		if err := box.Close(); err != nil { // ends what is delayed
			t.Error(err)
		}
		web.Close()
		r.other.Close()
	})
	r.Client = newClient(t, web.URL)
	return r
}

func newClient(t *testing.T, url string, change ...func(*openai.Config)) *openai.Client {
	t.Helper()
	cfg := openai.Config{
		Name: "main", BaseURL: url + "/v1", APIKey: func() string { return sandboxKey },
		FingerprintKey: bytes.Repeat([]byte("k"), 32), AllowLoopback: true, Now: func() time.Time { return start },
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// faults replaces the sandbox's faults.
func (r *rig) faults(texts ...string) {
	r.Helper()
	var all []sandbox.Fault
	for _, text := range texts {
		f, err := sandbox.ParseFault(text)
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, f)
	}
	if err := r.box.SetFaults(all...); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) advance(d time.Duration) {
	r.Helper()
	if err := r.box.Advance(d); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) books() sandbox.Books {
	r.Helper()
	b, err := r.box.Books()
	if err != nil {
		r.Fatal(err)
	}
	return b
}

// The contract suite over the real client and the sandbox: every fault of the
// suite can be armed.
func TestContractOverSandbox(t *testing.T) {
	batchtest.Run(t, func(t *testing.T) batchtest.Subject {
		r := newRig(t)
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		return batchtest.Subject{
			Provider: r.Client, Server: r, Unreachable: newClient(t, gone.URL),
			Secrets: []string{sandboxKey, "Bearer", r.url + "/v1"},
		}
	})
}

// opNames are the sandbox's names of the operations.
var opNames = map[batchtest.Op]string{
	batchtest.OpUpload: "upload", batchtest.OpCreate: "create", batchtest.OpStatus: "status",
	batchtest.OpDownload: "content", batchtest.OpDelete: "delete_file",
}

// Arm sets the sandbox's fault for f, once. A fault that it has no name for
// fails the test: a check that is skipped proves nothing.
func (r *rig) Arm(op batchtest.Op, f batchtest.Fault) bool {
	r.Helper()
	name := opNames[op]
	text := map[batchtest.FaultKind]string{
		batchtest.LostRequest:  "drop_before:op=" + name,
		batchtest.LostAnswer:   "drop_after:op=" + name,
		batchtest.GatewayPage:  "bad_gateway:acted=true,op=" + name,
		batchtest.Blank:        "empty_object:acted=true,op=" + name,
		batchtest.Conflict:     "server_error:status=409,acted=true,op=" + name,
		batchtest.BadRequest:   "bad_request:op=" + name,
		batchtest.Unauthorized: "unauthorized:op=" + name,
		batchtest.Missing:      "not_found:op=" + name,
		batchtest.TooMany:      "rate_limit:form=none,op=" + name,
		batchtest.NoCredit:     "insufficient_quota:op=" + name,
		batchtest.Redirect:     "redirect:to=" + r.other.URL + ",op=" + name,
		batchtest.Torn:         "content_cut:at=0.5",
	}[f.Kind]
	if f.RetryAfter > 0 {
		text = fmt.Sprintf("rate_limit:retry_after=%d,op=%s", int(f.RetryAfter.Seconds()), name)
	}
	if name == "" || text == "" {
		r.Fatalf("the sandbox has no fault for %q on %s", f.Kind, op)
	}
	r.faults(text + ",times=1")
	return true
}

// Calls counts requests as the sandbox's books do.
func (r *rig) Calls(op batchtest.Op) int {
	r.Helper()
	return int(r.books().Requests[opNames[op]])
}

func (r *rig) Jobs() int    { r.Helper(); return len(r.books().Jobs) }
func (r *rig) Files() int   { r.Helper(); return r.books().Files }
func (r *rig) Strayed() int { return int(r.strayed.Load()) }

// Plan: a job of the sandbox is what it will be when it is created.
func (r *rig) Plan(e batchtest.Ending) {
	r.Helper()
	switch e {
	case batchtest.AllAnswered:
		r.faults()
	case batchtest.OneExpired: // two of three are done by then
		r.faults("expire:share=0.67,times=1")
	case batchtest.AllFailed:
		r.faults("all_failed:status=500,times=1")
	case batchtest.BodyRefused:
		r.faults("token_limit_exceeded:times=1")
	}
}

func (r *rig) Finish(_ string, e batchtest.Ending) {
	r.Helper()
	if e == batchtest.OneExpired {
		r.advance(24 * time.Hour)
		return
	}
	r.advance(2 * time.Minute)
}
