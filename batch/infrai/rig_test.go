package infrai_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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
	"rollcall/batch/sandbox/sandboxtest"
)

const (
	testKey = "ifr_pk_proj_test5ca1ab1e"
	marker  = "MARKER-6d20"
)

var start = sandboxtest.Start

var question = &batch.Classifier{
	Name: "patient-community/1", Model: "gpt-4.1-mini", Instructions: "Classify the report.", MaxOutputTokens: 400, Temperature: new(0.0),
	Schema: []byte(`{"type":"object","properties":{"label":{"type":"string","enum":["unsafe_advice","harassment","self_harm","spam","ok"]},` +
		`"evidence":{"type":"array","items":{"type":"string"}}},"required":["label","evidence"],"additionalProperties":false}`),
}

// rig is a real client over a sandbox, over a real socket.
type rig struct {
	*sandboxtest.Rig
	*infrai.Client
	dialled atomic.Int64
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
	var log bytes.Buffer
	t.Cleanup(func() { // after the sandbox was closed
		if strings.Contains(log.String(), testKey) || strings.Contains(log.String(), marker) {
			t.Error("the log shows the key, or a text")
		}
	})
	r := &rig{Rig: sandboxtest.New(t, "", func(o *sandbox.Options) { o.Infrai, o.Log = pin, zerolog.New(zerolog.SyncWriter(&log)) })}
	r.Lacks = []batchtest.Ending{batchtest.BodyRefused} // before there is a job
	r.Client = newClient(t, r.URL, append([]func(*infrai.Config){func(c *infrai.Config) {
		c.Pin, c.Now = pin, r.Box.Now
		c.Record = func(string, string) { r.dialled.Add(1) }
	}}, change...)...)
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
	r.Advance(2 * time.Minute)
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
	if v := r.Box.Infrai().Violations; len(v) > 0 {
		r.Errorf("violations: %v", v)
	}
}
