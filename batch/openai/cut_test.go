package openai_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/openai"
	"rollcall/sql/sqltest"
)

// The timeouts of a client whose connections are cut: cutShort where a fault lets
// nothing through, so that the timeout ends it, cutLong where all gets through.
const (
	cutShort = time.Second
	cutLong  = 30 * time.Second
	cutSlack = 20 * time.Second // for a machine that is busy
)

// cutOp is a call that is cut.
type cutOp struct {
	name    string // as the sandbox counts it
	request string // how its request begins
	body    bool   // the request has one
	failure batch.Kind
	// ready prepares the call. What it returns makes the call, and says whether
	// what came of it is right.
	ready func(r *rig) func(c *openai.Client) (err error, right bool)
}

// cutOps are all calls of the client.
func cutOps() []cutOp {
	return []cutOp{
		{"upload", "POST /v1/files ", true, batch.Temporary, func(r *rig) func(*openai.Client) (error, bool) {
			return func(c *openai.Client) (error, bool) {
				in := r.input()
				id, err := c.Upload(r.Context(), in)
				return err, slices.ContainsFunc(r.files(), func(f batch.ListedFile) bool { return f.ID == id && f.Bytes == in.Size })
			}
		}},
		{"create", "POST /v1/batches ", true, batch.UnknownOutcome, func(r *rig) func(*openai.Client) (error, bool) {
			file := r.upload()
			return func(c *openai.Client) (error, bool) {
				job, err := c.Create(r.Context(), batch.Creation{FileID: file, Metadata: map[string]string{"rc_job": "job-1"}})
				return err, slices.Equal(r.jobIDs(), []string{job.ID})
			}
		}},
		{"status", "GET /v1/batches/", false, batch.Temporary, func(r *rig) func(*openai.Client) (error, bool) {
			want := r.create(r.upload()).ID
			return func(c *openai.Client) (error, bool) {
				job, err := c.Status(r.Context(), want)
				return err, job.ID == want && job.Known
			}
		}},
		{"status", "GET /v1/batches/", false, batch.Temporary, func(r *rig) func(*openai.Client) (error, bool) {
			want := r.create(r.upload()).ID
			return func(c *openai.Client) (error, bool) {
				seen, err := c.Inspect(r.Context(), want)
				return err, bytes.Contains(seen.Body, []byte(want)) && bytes.HasSuffix(bytes.TrimSpace(seen.Body), []byte("}"))
			}
		}},
		{"list_batches", "GET /v1/batches?", false, batch.Temporary, func(r *rig) func(*openai.Client) (error, bool) {
			want := r.create(r.upload()).ID
			return func(c *openai.Client) (error, bool) {
				page, err := c.ListJobs(r.Context(), "")
				return err, len(page.Jobs) == 1 && page.Jobs[0].Job.ID == want && page.Next == ""
			}
		}},
		{"list_files", "GET /v1/files?", false, batch.Temporary, func(r *rig) func(*openai.Client) (error, bool) {
			want := r.upload()
			return func(c *openai.Client) (error, bool) {
				page, err := c.ListFiles(r.Context(), "")
				return err, len(page.Files) == 1 && page.Files[0].ID == want && page.Next == ""
			}
		}},
		{"content", "GET /v1/files/", false, batch.Temporary, func(r *rig) func(*openai.Client) (error, bool) {
			job := r.create(r.upload())
			r.Advance(2 * time.Minute)
			file := r.status(job.ID).Files[0].ID
			want, err := r.content(file)
			if err != nil {
				r.Fatal(err)
			}
			return func(c *openai.Client) (error, bool) {
				body, _, err := c.Download(r.Context(), file)
				if err != nil {
					return err, false
				}
				defer body.Close()
				got, err := io.ReadAll(body)
				if err != nil { // as a pass takes it that reads the file
					err = &batch.Error{Op: "download", Kind: batch.Temporary, Cause: err}
				}
				return err, bytes.Equal(got, want)
			}
		}},
		{"delete_file", "DELETE /v1/files/", false, batch.Temporary, func(r *rig) func(*openai.Client) (error, bool) {
			file := r.upload()
			return func(c *openai.Client) (error, bool) { return c.DeleteFile(r.Context(), file), len(r.files()) == 0 }
		}},
		{"cancel", "POST /v1/batches/", false, batch.Temporary, func(r *rig) func(*openai.Client) (error, bool) {
			job := r.create(r.upload()).ID
			return func(c *openai.Client) (error, bool) {
				err := c.Cancel(r.Context(), job)
				return err, strings.HasPrefix(r.status(job).Status, "cancel")
			}
		}},
	}
}

func (r *rig) files() []batch.ListedFile {
	r.Helper()
	page, err := r.ListFiles(r.Context(), "")
	if err != nil {
		r.Fatal(err)
	}
	return page.Files
}

func (r *rig) jobIDs() (ids []string) {
	r.Helper()
	for _, j := range r.Books().Jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// cutRun is one cut of one call.
type cutRun struct {
	op    int
	place sqltest.Place
	fault sqltest.Fault
	at    float64
	warm  bool // over a connection that was used before, where the call may have one
}

// passes says whether the call succeeds for certain, and fails whether it fails
// for certain, where it has a connection of its own.
func (r cutRun) passes() bool { return r.fault == sqltest.FaultSlow || r.place == sqltest.BehindAnswer }

func (r cutRun) fails() bool {
	return !r.passes() && r.fault != sqltest.FaultTrickle && !r.warm
}

// telling says whether a create cut so is in every sample: it did not arrive
// whole, or it did and nothing comes back.
func (r cutRun) telling() bool {
	return !r.warm && (r.place == sqltest.InBody || r.place == sqltest.BeforeAnswer) && (r.fault == sqltest.FaultClose || r.fault == sqltest.FaultStall)
}

// silent says whether only the client's own timeout ends the call.
func (r cutRun) silent() bool {
	return r.fault == sqltest.FaultStall || r.fault == sqltest.FaultTrickle
}

// TestCuts cuts the connection of each call in each place and in each way. A
// call ends in time, what it says is right, its failure is of the right kind, a
// create above all, and nothing is sent twice.
//
// Without ROLLCALL_TEST_LONG=1 it runs a sample, which ROLLCALL_TEST_SEED repeats.
func TestCuts(t *testing.T) {
	random, ops := sqltest.Seeded(t), cutOps()
	var runs []cutRun
	for op := range ops {
		for _, p := range sqltest.Places() {
			if p == sqltest.InBody && !ops[op].body {
				continue
			}
			for _, f := range sqltest.Faults() {
				for _, warm := range []bool{false, true} {
					runs = append(runs, cutRun{op, p, f, random.Float64(), warm})
				}
			}
		}
	}
	var mu sync.Mutex
	struck := map[string]int{}
	t.Run("runs", func(t *testing.T) {
		for _, run := range sqltest.Sample(t, random, runs, 20, func(r cutRun) bool { return ops[r.op].name == "create" && r.telling() }) {
			t.Run(fmt.Sprintf("%s %s, %s, %.2f, %v", ops[run.op].request, run.place, run.fault, run.at, run.warm), func(t *testing.T) {
				t.Parallel()
				cutCall(t, ops[run.op], run)
				mu.Lock()
				defer mu.Unlock()
				struck[fmt.Sprintf("%s, %s", run.place, run.fault)]++
			})
		}
	})
	if want := len(sqltest.Places()) * len(sqltest.Faults()); sqltest.Long() && len(struck) != want {
		t.Errorf("%d of %d pairs of place and fault struck: %v", len(struck), want, struck)
	}
}

func cutCall(t *testing.T, op cutOp, run cutRun) {
	t.Helper()
	r := newRig(t)
	relay := sqltest.NewCutter(t, strings.TrimPrefix(r.URL, "http://"), sqltest.HTTP)
	timeout := cutLong
	if run.silent() {
		timeout = cutShort
	}
	c := newClient(t, "http://"+relay.HostPort(), func(cfg *openai.Config) { cfg.CallTimeout, cfg.TransferTimeout = timeout, timeout })
	call := op.ready(r)
	if run.warm {
		_, _ = c.ListFiles(t.Context(), "") // one that the machine is too busy for is no use, and no fault
	}
	before := r.Books().Requests[op.name]
	cut := &sqltest.Cut{Place: run.place, Fault: run.fault, At: run.at, Request: func(b []byte) bool { return bytes.HasPrefix(b, []byte(op.request)) }}
	relay.Cut(cut)
	began := time.Now()
	err, right := call(c)
	if took := time.Since(began); took > timeout+cutSlack {
		t.Errorf("the call took %s", took)
	}
	if !cut.Struck() {
		t.Fatal("the connection was not cut")
	}
	switch {
	case err == nil && !right:
		t.Error("a success that is none")
	case err != nil && run.passes():
		t.Errorf("all got through: %v", err)
	case err == nil && run.fails():
		t.Error("a success that nobody told of")
	case err != nil && batch.KindOf(err) != op.failure:
		t.Errorf("it failed as %s, want %s: %v", batch.KindOf(err), op.failure, err)
	}
	for _, secret := range []string{sandboxKey, "Bearer", r.URL, relay.HostPort(), reportOf("w1-s1")} {
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error holds %q", secret)
		}
	}
	if n := r.Books().Requests[op.name] - before; n > 1 && !safe(op) {
		t.Errorf("%d requests were sent", n)
	}
	if op.name == "create" {
		return
	}
	err, right = call(c)
	if err != nil && safe(op) && run.silent() { // over the connection that is silent
		err, right = call(c)
	}
	if err != nil || !right {
		t.Errorf("once more: %v, right: %v", err, right)
	}
}

// safe says whether a call may be sent again over another connection.
func safe(op cutOp) bool { return strings.HasPrefix(op.request, "GET ") }
