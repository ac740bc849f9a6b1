package openai_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/batchtest"
	"rollcall/batch/openai"
	"rollcall/batch/sandbox"
	"rollcall/batch/sandbox/sandboxtest"
)

const sandboxKey = "sk-test-5ca1ab1e"

var start = sandboxtest.Start

// rig is a real client over a sandbox, over a real socket.
type rig struct {
	*sandboxtest.Rig
	*openai.Client
	question *batch.Classifier
}

func newRig(t *testing.T, change ...func(*openai.Config)) *rig {
	return newRigOf(t, sandbox.FlavourOpenAI, change...)
}

func newRigOf(t *testing.T, flavour sandbox.Flavour, change ...func(*openai.Config)) *rig {
	t.Helper()
	box := sandboxtest.New(t, "", func(o *sandbox.Options) { o.Flavour = flavour })
	box.Lacks = []batchtest.Ending{batchtest.OneOtherVendor} // it passes nothing on
	return &rig{box, newClient(t, box.URL, change...), chatQuestion()}
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
	r.Advance(2 * time.Minute)
	for _, l := range r.results(r.status(job.ID)) {
		if l.id() == id && l.Outcome == batch.Answered {
			return string(l.Content)
		}
	}
	r.Fatalf("no answer to %s", id)
	return ""
}
