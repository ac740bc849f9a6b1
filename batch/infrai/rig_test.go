package infrai_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"rollcall/batch"
	"rollcall/batch/batchtest"
	"rollcall/batch/infrai"
	"rollcall/batch/sandbox"
)

const (
	testKey = "ifr_pk_proj_test5ca1ab1e"
	marker  = "MARKER-6d20"
)

// start is the instant at which every sandbox of these tests begins. Its real
// clock stands still; only advance moves it.
var start = time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)

var question = &batch.Classifier{
	Name: "patient-community/1", Model: "gpt-4.1-mini", Instructions: "Classify the report.", MaxOutputTokens: 400, Temperature: new(0.0),
	Schema: []byte(`{"type":"object","properties":{"label":{"type":"string","enum":["unsafe_advice","harassment","self_harm","spam","ok"]},` +
		`"evidence":{"type":"array","items":{"type":"string"}}},"required":["label","evidence"],"additionalProperties":false}`),
}

// rig is a real client over a sandbox, over a real socket.
type rig struct {
	*testing.T
	*infrai.Client
	box     *sandbox.Server
	log     *bytes.Buffer
	other   *httptest.Server // the host that Redirect points at
	strayed atomic.Int64
	dialled atomic.Int64
	url     string
}

// assumed is the pin of the sandbox, changed.
func assumed(t testing.TB, change ...func(*infrai.Pin)) *infrai.Pin {
	t.Helper()
	raw, err := os.ReadFile("testdata/assumed.pin.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := infrai.ParsePin(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(&p)
	}
	return &p
}

// array and jsonl are the other shapes of results. The documents of the assumed
// pin say nothing of shapes.
func array(p *infrai.Pin) {
	r := *p.Contract.Results
	r.Shape, r.NextPagePath, r.PageParameter = infrai.ShapeArray, "", ""
	p.Contract.Results = &r
	forget(p, "results.next_page_path", "results.page_parameter")
}

func jsonl(p *infrai.Pin) {
	array(p)
	p.Contract.Results.Shape, p.Contract.Results.ItemsPath = infrai.ShapeJSONL, ""
	forget(p, "results.items_path")
}

func forget(p *infrai.Pin, claims ...string) {
	evidence := map[string]string{}
	for k, v := range p.Evidence {
		evidence[k] = v
	}
	for _, c := range claims {
		delete(evidence, c)
	}
	p.Evidence = evidence
}

func undeclared(p *infrai.Pin) { p.Contract.Idempotent = false; forget(p, "idempotent") }

func newRig(t *testing.T, pin *infrai.Pin, change ...func(*infrai.Config)) *rig {
	t.Helper()
	r := &rig{T: t, log: new(bytes.Buffer)}
	var err error
	r.box, err = sandbox.New(sandbox.Options{Dir: t.TempDir(), Seed: 7, Now: func() time.Time { return start }, Infrai: pin, Log: zerolog.New(zerolog.SyncWriter(r.log))})
	if err != nil {
		t.Fatal(err)
	}
	r.other = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { r.strayed.Add(1) }))
	web := httptest.NewServer(r.box)
	r.url = web.URL
	r.Client = newClient(t, web.URL, append([]func(*infrai.Config){func(c *infrai.Config) {
		c.Pin, c.Now = pin, r.box.Now
		c.Record = func(string, string) { r.dialled.Add(1) }
	}}, change...)...)
	t.Cleanup(func() {
		if err := r.box.Close(); err != nil {
			t.Error(err)
		}
		web.Close()
		r.other.Close()
		if strings.Contains(r.log.String(), testKey) || strings.Contains(r.log.String(), marker) {
			t.Error("the log shows the key, or a text")
		}
	})
	return r
}

func newClient(t testing.TB, url string, change ...func(*infrai.Config)) *infrai.Client {
	t.Helper()
	cfg := infrai.Config{
		Name: "broker", BaseURL: url, Project: "proj_1", Region: "western", APIKey: func() string { return testKey },
		FingerprintKey: bytes.Repeat([]byte("k"), 32), AllowLoopback: true, Now: func() time.Time { return start },
		Pin: assumed(t), Vendors: []string{"openai"}, DataClass: batch.DataSynthetic,
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := infrai.New(cfg)
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

var itemIDs = []string{"w1-s1", "w2-s1", "w3-s1"}

func (r *rig) creation(key string) batch.Creation { return r.creationOf(key, itemIDs...) }

func (r *rig) creationOf(key string, ids ...string) batch.Creation {
	r.Helper()
	var body []byte
	for _, id := range ids {
		var err error
		if body, err = r.AppendRequest(body, question, id, batch.NewText(marker+" get a discount\nwith my \"code\" of "+id)); err != nil {
			r.Fatal(err)
		}
	}
	return batch.Creation{Key: key, Body: &batch.Input{Name: "rc.jsonl", Size: int64(len(body)), Write: func(w io.Writer) error { _, err := w.Write(body); return err }}}
}

func (r *rig) created(key string) batch.Job {
	r.Helper()
	job, err := r.Create(r.Context(), r.creation(key))
	if err != nil {
		r.Fatal(err)
	}
	return job
}

// ended is a job that has ended, by the sandbox's clock.
func (r *rig) ended(key string) batch.Job {
	r.Helper()
	job := r.created(key)
	r.advance(2 * time.Minute)
	return r.look(job.ID)
}

func (r *rig) look(id string) batch.Job {
	r.Helper()
	job, err := r.Status(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	return job
}

func (r *rig) download(id string) ([]byte, error) {
	r.Helper()
	body, _, err := r.Download(r.Context(), id)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// results are those of an ended job, in order of their ids.
func (r *rig) results(id string) map[string][]batch.Result {
	r.Helper()
	raw, err := r.download(id)
	if err != nil {
		r.Fatal(err)
	}
	out := map[string][]batch.Result{}
	for line := range bytes.Lines(raw) {
		res := r.DecodeResult(bytes.TrimSuffix(line, []byte("\n")))
		out[res.CustomID] = append(out[res.CustomID], res)
	}
	return out
}

// wants checks kind and code of an error, and that it shows nothing.
func wants(t testing.TB, err error, kind batch.Kind, code string) {
	t.Helper()
	var e *batch.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Code != code {
		t.Errorf("error %v, want %s with code %q", err, kind, code)
		return
	}
	for _, shown := range []string{fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", e)} {
		if strings.Contains(shown, marker) || strings.Contains(shown, testKey) {
			t.Errorf("the error shows a text or the key: %s", shown)
		}
	}
}

// obeyed: the sandbox saw nothing that no client may do.
func (r *rig) obeyed() {
	r.Helper()
	if v := r.box.Infrai().Violations; len(v) > 0 {
		r.Errorf("violations: %v", v)
	}
}

// opNames are the sandbox's names of the operations.
var opNames = map[batchtest.Op]string{
	batchtest.OpCreate: "create", batchtest.OpStatus: "status", batchtest.OpDownload: "content", batchtest.OpInspect: "status",
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
		batchtest.Torn:         "answer_cut:at=0.5,op=" + name,
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
	b, err := r.box.Books()
	if err != nil {
		r.Fatal(err)
	}
	return int(b.Requests[opNames[op]])
}

func (r *rig) Jobs() int    { return len(r.box.Infrai().Jobs) }
func (r *rig) Files() int   { return 0 }
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

// Ends: a body that is refused is refused before there is a job.
func (r *rig) Ends(e batchtest.Ending) bool { return e != batchtest.BodyRefused }
