package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/batch/sandbox"
	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// markedReports are reports whose texts must not show up anywhere.
func markedReports(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"tenant":"t","system":"s","id":"m-%d","text":"%s you are an idiot"}`+"\n", i, marker)
	}
	return b.String()
}

// noMarker fails if a word of the reports was printed.
func (o *operator) noMarker() {
	o.t.Helper()
	if strings.Contains(o.printed.String(), marker) {
		o.t.Errorf("report text was printed:\n%s", o.printed.String())
	}
}

// misbehave sets the faults of the running sandbox.
func (o *operator) misbehave(faults ...string) {
	o.t.Helper()
	var set []sandbox.Fault
	for _, f := range faults {
		fault, err := sandbox.ParseFault(f)
		if err != nil {
			o.t.Fatal(err)
		}
		set = append(set, fault)
	}
	if err := o.box.SetFaults(set...); err != nil {
		o.t.Fatal(err)
	}
}

// shownInspection is the contract of job inspect --json.
type shownInspection struct {
	HTTPStatus int                `json:"http_status"`
	Cut        bool               `json:"body_cut"`
	RequestID  string             `json:"request_id"`
	Body       json.RawMessage    `json:"body"`
	Ledger     *reconcile.JobView `json:"ledger"`
}

func TestJobInspectShowsTheProvidersAnswer(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			o.must(exitDone, "intake", o.file("r.jsonl", markedReports(3)))
			o.must(exitDone, "run", "collect", "submit")
			job := asJSON[[]reconcile.JobView](o, exitDone, "jobs")[0]
			o.must(exitDone, "pause", "--scope", "all", "--stage", "dispatch", "--reason", "an incident")
			before, err := o.box.Books()
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{job.JobID, job.ProviderJobID} {
				r := o.must(exitDone, "--log-level", "trace", "job", "inspect", id)
				for _, want := range []string{"HTTP 200", "ledger: job " + job.JobID, `"id": "` + job.ProviderJobID + `"`, `"rc_job": "` + job.JobID + `"`} {
					if !strings.Contains(r.out, want) {
						t.Errorf("%q is not in:\n%s", want, r.out)
					}
				}
				if strings.Contains(r.err, job.ProviderJobID) {
					t.Errorf("the answer was logged: %s", r.err)
				}
			}
			got := asJSON[shownInspection](o, exitDone, "job", "inspect", job.JobID)
			var body struct {
				ID       string            `json:"id"`
				Metadata map[string]string `json:"metadata"`
			}
			if err := json.Unmarshal(got.Body, &body); err != nil || body.ID != job.ProviderJobID || body.Metadata["rc_job"] != job.JobID {
				t.Errorf("body %s, %v", got.Body, err)
			}
			if got.HTTPStatus != http.StatusOK || got.Ledger == nil || got.Ledger.JobID != job.JobID {
				t.Errorf("shown %+v", got)
			}
			after, err := o.box.Books()
			if err != nil || after.Requests["status"] != before.Requests["status"]+3 {
				t.Errorf("%d look-ups before, %d after, %v", before.Requests["status"], after.Requests["status"], err)
			}
			for op, n := range after.Requests {
				if op != "status" && n != before.Requests[op] {
					t.Errorf("inspect called %s", op)
				}
			}
			o.noMarker()
		})
	}
}

func TestJobInspectOfAnUnknownJob(t *testing.T) {
	o := newOperator(t, "sqlite")
	r := o.must(exitFailed, "job", "inspect", "batch_nobody")
	if !strings.Contains(r.out, "HTTP 404") || !strings.Contains(r.out, "ledger: knows no such job") || !strings.Contains(r.out, "No such batch") {
		t.Errorf("%s%s", r.out, r.err)
	}
	o.must(exitUsage, "job", "inspect", "batch_nobody", "--account", "nobody")
	for _, path := range []string{"batch/../../v1/files", "../x"} { // no path of ours
		o.must(exitUsage, "job", "inspect", path).wantSaid(t, fmt.Sprintf("ID %q is neither", path))
	}
	if b, err := o.box.Books(); err != nil || b.Requests["status"] != 1 {
		t.Errorf("%d look-ups, %v", b.Requests["status"], err)
	}
	// With several accounts somebody must say which is meant.
	second := fmt.Sprintf("accounts:\n  - {name: other, provider: openai, base_url: 'http://%s/v1', region: nowhere, api_key: {env: ROLLCALL_TEST_KEY}, allow_loopback: true}\n", o.box.address)
	t.Setenv("ROLLCALL_TEST_KEY", "sk-other")
	o.edit("rollcall.yaml", "accounts:\n", second)
	if r := o.must(exitUsage, "job", "inspect", "batch_nobody"); !strings.Contains(r.err, "other or sandbox") {
		t.Errorf("%s", r.err)
	}
	o.must(exitFailed, "job", "inspect", "batch_nobody", "--account", "other")
	o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
	o.must(exitDone, "run", "collect", "submit")
	job := asJSON[[]reconcile.JobView](o, exitDone, "jobs")[0]
	o.must(exitDone, "job", "inspect", job.JobID)                         // the ledger says where it is
	o.must(exitFailed, "job", "inspect", job.JobID, "--account", "other") // another project does not see it
}

// A job that nobody has sent has nothing to be looked up.
func TestJobInspectBeforeTheJobIsSent(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
	o.must(exitDone, "run", "collect")
	job := asJSON[[]reconcile.JobView](o, exitDone, "jobs")[0]
	if r := o.must(exitFailed, "job", "inspect", job.JobID); !strings.Contains(r.err, "rollcall job show "+job.JobID) {
		t.Errorf("%s", r.err)
	}
}

// What a provider, or something that stands in its place, answers is shown and
// steers nothing.
func TestJobInspectShowsWhateverComes(t *testing.T) {
	const osc = "\x1b]0;owned\x07\x9b2J\u202e"
	for name, tc := range map[string]struct {
		status int
		body   string
		want   []string
		json   string // the body in --json
		cut    bool
	}{
		"a redirect is not followed": {http.StatusTemporaryRedirect, "gone elsewhere", []string{"HTTP 307", "gone elsewhere"}, `"gone elsewhere"`, false},
		"a page":                     {http.StatusBadRequest, "<html>\n" + osc + "</html>", []string{"<html>\n", `\u001b]0;owned\u0007\x9b2J\u202e</html>`}, "", false},
		"a text in JSON":             {http.StatusOK, `{"a":"` + "\u009b2J\u202e" + `","b":"\u001b]0"}`, []string{`"a": "\u009b2J\u202e"`, `"b": "\u001b]0"`}, `{"a":"\u009b2J\u202e","b":"\u001b]0"}`, false},
		"nothing":                    {http.StatusOK, "", []string{"HTTP 200"}, `""`, false},
		"a long one":                 {http.StatusOK, strings.Repeat("ä", shownBody), []string{"… and 65536 more bytes; --json shows them"}, "", false},
		"one without an end":         {http.StatusOK, strings.Repeat("x", 1<<20+1), []string{"the answer was cut: it is longer than 1 MiB"}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOperator(t, "sqlite")
			elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
			t.Cleanup(elsewhere.Close)
			provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.Path != "/v1/batches/batch_1" {
					t.Errorf("%s %s", r.Method, r.URL.Path)
				}
				w.Header().Set("Location", elsewhere.URL)
				w.WriteHeader(tc.status)
				fmt.Fprint(w, tc.body)
			}))
			t.Cleanup(provider.Close)
			o.edit("rollcall.yaml", "http://"+o.box.address, provider.URL)
			code := exitDone
			if tc.status != http.StatusOK {
				code = exitFailed
			}
			r := o.must(code, "job", "inspect", "batch_1")
			for _, want := range tc.want {
				if !strings.Contains(r.out, want) {
					t.Errorf("%q is not in:\n%.500s", want, r.out)
				}
			}
			shown := asJSON[shownInspection](o, code, "job", "inspect", "batch_1")
			if shown.HTTPStatus != tc.status || shown.Cut != tc.cut || strings.Contains(r.out, "was cut") != tc.cut {
				t.Errorf("HTTP status %d, cut %v", shown.HTTPStatus, shown.Cut)
			}
			if tc.json != "" && canonical(t, shown.Body) != canonical(t, json.RawMessage(tc.json)) {
				t.Errorf("body %s, want %s", shown.Body, tc.json)
			}
			for _, r := range o.printed.String() {
				if r != '\n' && r != '\t' && printable(string(r)) != string(r) {
					t.Fatalf("%U was printed", r)
				}
			}
		})
	}
}

func canonical(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// answers is an inspector with prepared answers, the last one for good.
type answers []struct {
	batch.Inspection
	err error
}

func (a *answers) Inspect(context.Context, string) (batch.Inspection, error) {
	next := (*a)[0]
	if len(*a) > 1 {
		*a = (*a)[1:]
	}
	return next.Inspection, next.err
}

func TestJobInspectComesBackAFewTimes(t *testing.T) {
	busy := batch.Inspection{HTTPStatus: http.StatusServiceUnavailable}
	after := func(d time.Duration) batch.Inspection {
		return batch.Inspection{HTTPStatus: http.StatusTooManyRequests, RetryAfter: d}
	}
	good := batch.Inspection{HTTPStatus: http.StatusOK}
	none := &batch.Error{Op: "inspect", Kind: batch.Temporary}
	odd := &batch.Error{Op: "inspect", Kind: batch.BadAnswer}
	for name, tc := range map[string]struct {
		given  answers
		waits  []time.Duration
		status int
		err    error
	}{
		"at once":               {answers{{good, nil}}, nil, http.StatusOK, nil},
		"busy twice":            {answers{{busy, nil}, {busy, nil}, {good, nil}}, []time.Duration{time.Second, 2 * time.Second}, http.StatusOK, nil},
		"busy for good":         {answers{{busy, nil}}, []time.Duration{time.Second, 2 * time.Second}, http.StatusServiceUnavailable, nil},
		"as long as it asks":    {answers{{after(7 * time.Second), nil}, {good, nil}}, []time.Duration{7 * time.Second}, http.StatusOK, nil},
		"not as long as that":   {answers{{after(11 * time.Second), nil}, {good, nil}}, nil, http.StatusTooManyRequests, nil},
		"no answer, then one":   {answers{{batch.Inspection{}, none}, {good, nil}}, []time.Duration{time.Second}, http.StatusOK, nil},
		"never an answer":       {answers{{batch.Inspection{}, none}}, []time.Duration{time.Second, 2 * time.Second}, 0, none},
		"no answer to wait for": {answers{{batch.Inspection{}, odd}}, nil, 0, odd},
		"refused":               {answers{{batch.Inspection{HTTPStatus: http.StatusUnauthorized}, nil}}, nil, http.StatusUnauthorized, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var waits []time.Duration
			got, err := inspect(t.Context(), &tc.given, "batch_1", func(_ context.Context, d time.Duration) error {
				waits = append(waits, d)
				return nil
			})
			if !errors.Is(err, tc.err) || got.HTTPStatus != tc.status || !slices.Equal(waits, tc.waits) {
				t.Errorf("HTTP %d, %v after waits %v", got.HTTPStatus, err, waits)
			}
		})
	}
}

// Whatever goes wrong, no other call is made.
func TestJobInspectMakesNoOtherCall(t *testing.T) {
	p := fake.New(fake.Options{})
	p.Hooks.Inspect = func(string) (bool, error) { return false, &batch.Error{Op: "inspect", Kind: batch.Temporary} }
	_, err := inspect(t.Context(), p, "job-000001", func(context.Context, time.Duration) error { return nil })
	if err == nil || p.Calls(fake.OpInspect) != inspectTries {
		t.Errorf("%d look-ups, %v", p.Calls(fake.OpInspect), err)
	}
	for _, op := range []fake.Op{fake.OpUpload, fake.OpCreate, fake.OpStatus, fake.OpDownload, fake.OpDelete, fake.OpListJobs, fake.OpListFiles, fake.OpCancel} {
		if p.Calls(op) > 0 {
			t.Errorf("%s was called", op)
		}
	}
	stopped := errors.New("told to end")
	if _, err := inspect(t.Context(), p, "job-000001", func(context.Context, time.Duration) error { return stopped }); !errors.Is(err, stopped) {
		t.Errorf("%v", err)
	}
}
