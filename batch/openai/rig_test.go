package openai_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/batch"
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
	question *batch.Classifier
	flavour  sandbox.Flavour
	box      *sandbox.Server
	other    *httptest.Server // the host that Redirect points at
	strayed  atomic.Int64
	url      string
}

func newRig(t *testing.T, change ...func(*openai.Config)) *rig {
	return newRigOf(t, sandbox.FlavourOpenAI, change...)
}

func newRigOf(t *testing.T, flavour sandbox.Flavour, change ...func(*openai.Config)) *rig {
	t.Helper()
	box, err := sandbox.New(sandbox.Options{Dir: t.TempDir(), Seed: 7, Now: func() time.Time { return start }, Flavour: flavour})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, box: box, question: chatQuestion()}
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

// reportOf is the text of an item, with what JSON must escape twice.
func reportOf(id string) string { return "Get a discount\nwith my \"code\" \\ of " + id }

// chatQuestion is what a model is asked.
func chatQuestion() *batch.Classifier {
	return &batch.Classifier{
		Name: "patient-community/1", Model: "gpt-4.1-mini", Instructions: "Classify the report.", MaxOutputTokens: 400, Temperature: new(0.0),
		Schema: []byte(`{"type":"object","properties":{"label":{"type":"string","enum":["unsafe_advice","harassment","self_harm","spam","ok"]},` +
			`"evidence":{"type":"array","items":{"type":"string"}}},"required":["label","evidence"],"additionalProperties":false}`),
	}
}

// scoreQuestion is what scores are judged by.
func scoreQuestion() *batch.Classifier {
	q := chatQuestion()
	q.Model, q.Otherwise = "omni-moderation-latest", "ok"
	q.Thresholds = []batch.Threshold{{Category: "self-harm", Score: 0.4, Label: "self_harm"}, {Category: "harassment", Score: 0.8, Label: "harassment"}}
	return q
}

// input is a body of the items w1 to w3.
func (r *rig) input() batch.Input {
	r.Helper()
	var body []byte
	for _, id := range []string{"w1-s1", "w2-s1", "w3-s1"} {
		var err error
		if body, err = r.AppendRequest(body, r.question, id, batch.NewText(reportOf(id))); err != nil {
			r.Fatal(err)
		}
	}
	return batch.Input{Name: "rc-ledger-job-1.jsonl", Size: int64(len(body)), Write: func(w io.Writer) error { _, err := w.Write(body); return err }}
}

func (r *rig) upload() string {
	r.Helper()
	id, err := r.Upload(r.T.Context(), r.input())
	if err != nil {
		r.Fatal(err)
	}
	return id
}

func (r *rig) create(file string) batch.Job {
	r.Helper()
	job, err := r.Create(r.T.Context(), batch.Creation{FileID: file, Metadata: map[string]string{"rc_job": "job-1"}})
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

// results decodes every line of every file of a job. A file that cannot be
// downloaded is one line, whose outcome is the kind of the error.
func (r *rig) results(job batch.Job) []result {
	r.Helper()
	var out []result
	for _, f := range job.Files {
		body, err := r.content(f.ID)
		if err != nil {
			out = append(out, result{batch.Result{Outcome: batch.Outcome(batch.KindOf(err))}, f.Channel})
			continue
		}
		out = append(out, r.decode(f.Channel, body)...)
	}
	return out
}

func (r *rig) decode(c batch.Channel, body []byte) []result {
	var out []result
	for line := range bytes.Lines(body) {
		out = append(out, result{r.DecodeResult(bytes.TrimSuffix(line, []byte("\n"))), c})
	}
	return out
}

// contentOf is the answer to an item when nothing goes wrong.
func (r *rig) contentOf(id string) string {
	r.Helper()
	job := r.create(r.upload())
	r.advance(2 * time.Minute)
	for _, l := range r.results(r.status(job.ID)) {
		if l.id() == id && l.Outcome == batch.Answered {
			return string(l.Content)
		}
	}
	r.Fatalf("no answer to %s", id)
	return ""
}
