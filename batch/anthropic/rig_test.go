package anthropic_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/anthropic"
	"rollcall/batch/batchtest"
	"rollcall/batch/sandbox"
)

const (
	testKey = "sk-ant-test-5ca1ab1e"
	marker  = "MARKER-a91c"
)

// start is the instant at which every sandbox of these tests begins. Its real
// clock stands still; only advance moves it.
var start = time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)

// rig is a real client over a sandbox, over a real socket.
type rig struct {
	*testing.T
	*anthropic.Client
	box     *sandbox.Server
	other   *httptest.Server // the host that Redirect points at
	strayed atomic.Int64
	url     string
}

func newRig(t *testing.T, change ...func(*anthropic.Config)) *rig {
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
	r.Client = newClient(t, web.URL, change...)
	return r
}

func config(url string, change ...func(*anthropic.Config)) anthropic.Config {
	cfg := anthropic.Config{
		Name: "main", BaseURL: url, APIKey: func() string { return testKey },
		FingerprintKey: bytes.Repeat([]byte("k"), 32), AllowLoopback: true, Now: func() time.Time { return start },
	}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

func newClient(t testing.TB, url string, change ...func(*anthropic.Config)) *anthropic.Client {
	t.Helper()
	c, err := anthropic.New(config(url, change...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// The other form of each choice.
func newer(c *anthropic.Config) {
	c.Auth, c.Version, c.Output = anthropic.AuthBearer, anthropic.VersionWithoutSampling, anthropic.OutputTool
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

// question is a classifier that both versions of the API take.
func question() *batch.Classifier {
	return &batch.Classifier{
		Name: "patient-community/1", Model: "claude-sandbox-1", Instructions: "Classify the \"report\".\nAnswer in JSON.", MaxOutputTokens: 400,
		Schema: []byte(`{"type":"object","properties":{"label":{"type":"string","enum":["unsafe_advice","harassment","self_harm","spam","ok"]},` +
			`"evidence":{"type":"array","items":{"type":"string"}}},"required":["label","evidence"],"additionalProperties":false}`),
	}
}

// items are the custom ids of a body.
var items = []string{"w1-s1", "w2-s1", "w3-s1"}

// reportOf is the text of an item, with what JSON must escape twice.
func reportOf(id string) string { return marker + " Get a discount\nwith my \"code\" \\ of " + id }

// creation asks for a job over the items.
func (r *rig) creation() batch.Creation {
	r.Helper()
	var body []byte
	for _, id := range items {
		var err error
		if body, err = r.AppendRequest(body, question(), id, batch.NewText(reportOf(id))); err != nil {
			r.Fatal(err)
		}
	}
	return batch.Creation{Metadata: map[string]string{"rc_job": "job-1"}, Body: &batch.Input{
		Name: "rc-ledger-job-1.jsonl", Size: int64(len(body)), Write: func(w io.Writer) error { _, err := w.Write(body); return err },
	}}
}

func (r *rig) create() batch.Job {
	r.Helper()
	job, err := r.Create(r.T.Context(), r.creation())
	if err != nil {
		r.Fatal(err)
	}
	return job
}

func (r *rig) status(jobID string) batch.Job {
	r.Helper()
	job, err := r.Status(r.T.Context(), jobID)
	if err != nil {
		r.Fatal(err)
	}
	return job
}

func (r *rig) content(fileID string) ([]byte, error) {
	body, _, err := r.Download(r.T.Context(), fileID)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// results are what a job over the items has to say after two minutes.
func (r *rig) results() []batch.Result {
	r.Helper()
	job := r.create()
	r.advance(2 * time.Minute)
	job = r.status(job.ID)
	if job.Phase != batch.PhaseEnded || len(job.Files) != 1 {
		r.Fatalf("%+v", job)
	}
	raw, err := r.content(job.Files[0].ID)
	if err != nil {
		r.Fatal(err)
	}
	var out []batch.Result
	for line := range bytes.Lines(raw) {
		out = append(out, r.DecodeResult(bytes.TrimSuffix(line, []byte("\n"))))
	}
	return out
}

// discreet checks that an error shows neither text nor key nor address.
func discreet(t *testing.T, err error, secrets ...string) {
	t.Helper()
	if err == nil {
		return
	}
	for _, shown := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
		for _, s := range append([]string{marker, testKey, "Bearer", "http://", "discount"}, secrets...) {
			if strings.Contains(shown, s) {
				t.Errorf("error shows %q: %s", s, shown)
			}
		}
	}
}

// opNames are the sandbox's names of the operations.
var opNames = map[batchtest.Op]string{
	batchtest.OpCreate: "create", batchtest.OpStatus: "status", batchtest.OpDownload: "content", batchtest.OpCancel: "cancel",
	batchtest.OpListJobs: "list_batches", batchtest.OpInspect: "status", batchtest.OpDeleteJob: "delete_batch",
	batchtest.OpUpload: "upload", batchtest.OpDelete: "delete_file",
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
		batchtest.NoCredit:     "spend_limit:op=" + name,
		batchtest.Redirect:     "redirect:to=" + r.other.URL + ",op=" + name,
		batchtest.Torn:         "answer_cut:at=0.5,op=" + name,
	}[f.Kind]
	if f.Kind == batchtest.Torn && op == batchtest.OpDownload {
		text = "content_cut:at=0.5"
	}
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

// Page makes lists short, until other faults are set.
func (r *rig) Page(entries int) { r.Helper(); r.faults(fmt.Sprintf("short_page:entries=%d", entries)) }

func (r *rig) Jobs() int    { r.Helper(); return len(r.books().Jobs) }
func (r *rig) Files() int   { return 0 }
func (r *rig) Strayed() int { return int(r.strayed.Load()) }

// Ends: a body that is refused makes no batch.
func (r *rig) Ends(e batchtest.Ending) bool { return e != batchtest.BodyRefused }

// Plan: a batch of the sandbox is what it will be when it is created.
func (r *rig) Plan(e batchtest.Ending) {
	r.Helper()
	switch e {
	case batchtest.AllAnswered:
		r.faults()
	case batchtest.OneExpired: // two of three are done by then
		r.faults("expire:share=0.67,times=1")
	case batchtest.AllFailed:
		r.faults("all_failed:status=500,times=1")
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
