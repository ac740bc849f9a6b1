package anthropic_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/anthropic"
	"rollcall/batch/batchtest"
	"rollcall/batch/sandbox/sandboxtest"
)

const (
	testKey = "sk-ant-test-5ca1ab1e"
	marker  = "MARKER-a91c"
)

var start = sandboxtest.Start

// rig is a real client over a sandbox, over a real socket.
type rig struct {
	*sandboxtest.Rig
	*anthropic.Client
}

func newRig(t *testing.T, change ...func(*anthropic.Config)) *rig {
	t.Helper()
	box := sandboxtest.New(t, "", nil)
	// A body that is refused makes no batch, a filter's verdict is a refusal, and
	// nothing is passed on.
	box.Lacks = []batchtest.Ending{batchtest.BodyRefused, batchtest.OneBlocked, batchtest.OneOtherVendor}
	return &rig{box, newClient(t, box.URL, change...)}
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
	r.Advance(2 * time.Minute)
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
