package openai

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall/batch"
	"rollcall/batch/batchtest"
	"rollcall/batch/transport"
)

// answers is a client of a server that gives each answer once, in order, and
// the URLs that it was asked for. An answer is a status, a space, and a body.
func answers(t *testing.T, each ...string) (c *Client, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var urls []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		urls = append(urls, r.Method+" "+strings.TrimPrefix(r.URL.RequestURI(), "/v1"))
		if len(urls) > len(each) {
			t.Errorf("call %d: %s", len(urls), urls[len(urls)-1])
			return
		}
		status, body := 0, ""
		fmt.Sscanf(each[len(urls)-1], "%d", &status)
		_, body, _ = strings.Cut(each[len(urls)-1], " ")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return newClient(t, config(srv.URL)), func() []string { mu.Lock(); defer mu.Unlock(); return urls }
}

func TestListJobs(t *testing.T) {
	c, asked := answers(t, `200 {"object":"list","data":[
		{"id":"batch_3","status":"completed","input_file_id":"file-3","output_file_id":"file-4","created_at":1772330400.0,"request_counts":{"total":2,"completed":2,"failed":0},
		 "metadata":{"rc_job":"j1","n":7,"nothing":null,"list":[1]}},
		{"id":"batch_2","status":"Validating","input_file_id":null,"created_at":"2026-03-01T02:00:00Z","metadata":null},
		{"id":"batch_1","status":"reviewing","input_file_id":"https://somebody.example/blob?sig=1","metadata":["rc_job"]}],
		"first_id":"batch_3","last_id":"batch_1","has_more":true}`, `200 {"data":[],"has_more":false}`)
	page, err := c.ListJobs(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	want := batch.JobPage{Next: "batch_1", Jobs: []batch.ListedJob{
		{Job: batch.Job{ID: "batch_3", Phase: batch.PhaseEnded, Status: "completed", Known: true, Counts: batch.Counts{Total: 2, Completed: 2},
			Files: []batch.ResultFile{{Channel: batch.ChannelOutput, ID: "file-4"}}}, FileID: "file-3", Metadata: map[string]string{"rc_job": "j1"}, Created: at},
		{Job: batch.Job{ID: "batch_2", Phase: batch.PhaseRunning, Status: "Validating", Known: true}, Created: at},
		{Job: batch.Job{ID: "batch_1", Phase: batch.PhaseRunning, Status: "reviewing"}},
	}}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Error(diff)
	}
	if page, err = c.ListJobs(t.Context(), page.Next); err != nil || len(page.Jobs) != 0 || page.Next != "" {
		t.Errorf("%+v, %v", page, err)
	}
	if diff := cmp.Diff([]string{"GET /batches?limit=100", "GET /batches?after=batch_1&limit=100"}, asked()); diff != "" {
		t.Error(diff)
	}
}

func TestListFiles(t *testing.T) {
	long := strings.Repeat("n", 128)
	c, asked := answers(t, `200 {"object":"list","data":[
		{"id":"file-6","object":"file","bytes":120,"created_at":1772330400,"filename":"rc-ledger-job-1.jsonl","purpose":"batch"},
		{"id":"file-5","bytes":-3,"created_at":-1,"filename":"`+batchtest.Marker+` of a person.jsonl","purpose":"batch"},
		{"id":"file-4","bytes":9,"filename":"batch_1_output.jsonl","purpose":"batch_output"},
		{"id":"file-3","filename":"`+long+`"},
		{"id":"file-2","filename":"`+long+`n"},
		{"id":"file-1","filename":["x"],"created_at":"soon"}],"has_more":false}`, `200 {"data":[],"has_more":false}`)
	page, err := c.ListFiles(t.Context(), "")
	want := batch.FilePage{Files: []batch.ListedFile{
		{ID: "file-6", Name: "rc-ledger-job-1.jsonl", Bytes: 120, Created: time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)},
		{ID: "file-5"}, {ID: "file-3", Name: long}, {ID: "file-2"}, {ID: "file-1"},
	}}
	if diff := cmp.Diff(want, page); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := c.ListFiles(t.Context(), "file-1"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"GET /files?limit=1000&order=desc&purpose=batch", "GET /files?after=file-1&limit=1000&order=desc&purpose=batch"}, asked()); diff != "" {
		t.Error(diff)
	}
}

// What a list leaves out is taken for absent (F15, F16), so a page that does
// not say where it ends, or holds what cannot be read, is no page.
func TestListsThatContradictThemselves(t *testing.T) {
	job := func(id string) string { return `{"id":"` + id + `","status":"completed","input_file_id":"file-1"}` }
	var full strings.Builder
	for i := range jobsPage {
		fmt.Fprintf(&full, `,{"id":"batch_%d","status":"completed"}`, i)
	}
	const bad = "bad"
	for _, tc := range []struct{ name, body, next string }{
		{"whole", `{"data":[` + job("a") + `],"has_more":false}`, ""},
		{"more", `{"data":[` + job("a") + `,` + job("b") + `],"has_more":true}`, "b"},
		{"more, with the cursor", `{"data":[` + job("a") + `],"last_id":"a","has_more":true}`, "a"},
		{"whole, with odd cursors", `{"data":[` + job("a") + `],"first_id":7,"last_id":7,"has_more":false}`, ""},
		{"silent and short", `{"data":[` + job("a") + `]}`, ""},
		{"silent and empty", `{"data":[],"has_more":null}`, ""},
		{"silent and full", `{"data":[` + full.String()[1:] + `]}`, fmt.Sprintf("batch_%d", jobsPage-1)},
		{"more of nothing", `{"data":[],"has_more":true}`, bad},
		{"more of nothing, with a cursor", `{"data":[],"last_id":"a","has_more":true}`, bad},
		{"the cursor again", `{"data":[` + job("before") + `],"has_more":true}`, bad},
		{"silent, full, and the cursor again", `{"data":[` + full.String()[1:len(full.String())-len(`{"id":"batch_99","status":"completed"}`)] + job("before") + `]}`, bad},
		{"another cursor", `{"data":[` + job("a") + `],"last_id":"b","has_more":true}`, bad},
		{"a cursor that is no string", `{"data":[` + job("a") + `],"last_id":7,"has_more":true}`, bad},
		{"has_more is a word", `{"data":[` + job("a") + `],"has_more":"false"}`, bad},
		{"an entry twice", `{"data":[` + job("a") + `,` + job("a") + `],"has_more":false}`, bad},
		{"no list", `{"has_more":false}`, bad},
		{"list is null", `{"data":null,"has_more":false}`, bad},
		{"list is an object", `{"data":{},"has_more":false}`, bad},
		{"another object", `{"object":"error","data":[],"has_more":false}`, bad},
		{"an entry without an id", `{"data":[{"status":"completed"}],"has_more":false}`, bad},
		{"an entry with an id for a path", `{"data":[` + job("../a") + `],"has_more":false}`, bad},
		{"an entry without a status", `{"data":[{"id":"a"}],"has_more":false}`, bad},
		{"an entry with an odd input", `{"data":[{"id":"a","status":"completed","input_file_id":7}],"has_more":false}`, bad},
		{"an entry with an odd result", `{"data":[{"id":"a","status":"completed","output_file_id":7}],"has_more":false}`, bad},
		{"an entry that is none", `{"data":[` + job("a") + `,7],"has_more":false}`, bad},
		{"an entry that is null", `{"data":[null],"has_more":false}`, bad},
		{"cut", `{"data":[` + job("a") + `]`, bad},
		{"trailing", `{"data":[` + job("a") + `],"has_more":false}}`, bad},
		{"a name twice", `{"data":[` + job("a") + `],"data":[],"has_more":false}`, bad},
	} {
		t.Run(tc.name, func(t *testing.T) {
			page, err := fixed(t, 200, map[string]string{"X-Request-Id": "req_1"}, tc.body).ListJobs(t.Context(), "before")
			if tc.next != bad {
				if err != nil || page.Next != tc.next {
					t.Errorf("next %q, %v, want %q", page.Next, err, tc.next)
				}
				return
			}
			var e *batch.Error
			if !errors.As(err, &e) || e.Kind != batch.BadAnswer || e.HTTPStatus != 200 || e.RequestID != "req_1" || len(page.Jobs) != 0 || page.Next != "" {
				t.Errorf("%+v, %v", page, err)
			}
		})
	}
	for _, body := range []string{`{"data":[{"filename":"x"}]}`, `{"data":[{"id":"../f"}]}`, `{"data":[{"id":"f","purpose":7}]}`, `{"data":[{"id":"before"}],"has_more":true}`} {
		if _, err := fixed(t, 200, nil, body).ListFiles(t.Context(), "before"); batch.KindOf(err) != batch.BadAnswer {
			t.Errorf("files %s: %v", body, err)
		}
	}
}

// A list is read by what its status says, as other reads are.
func TestListsByStatus(t *testing.T) {
	envelope := envelopeOf("some_code", "some_type", "about "+batchtest.Marker)
	for status, want := range map[int]batch.Kind{
		204: batch.BadAnswer, 303: batch.BadAnswer, 400: batch.Rejected, 401: batch.Denied, 404: batch.NotFound,
		409: batch.Temporary, 429: batch.RateLimited, 502: batch.Temporary,
	} {
		c := fixed(t, status, map[string]string{"Retry-After": "9", "X-Request-Id": "req_1", "Location": "https://example.org/"}, envelope)
		_, jobsErr := c.ListJobs(t.Context(), "")
		_, filesErr := c.ListFiles(t.Context(), "")
		for _, err := range []error{jobsErr, filesErr} {
			var e *batch.Error
			if !errors.As(err, &e) || e.Kind != want || e.HTTPStatus != status || e.RetryAfter != 9*time.Second || strings.Contains(err.Error(), batchtest.Marker) {
				t.Errorf("HTTP %d: %v, want %s", status, err, want)
			}
		}
	}
	c, asked := answers(t)
	_, err1 := c.ListJobs(t.Context(), "a/../b")
	_, err2 := c.ListFiles(t.Context(), "a?b")
	if batch.KindOf(err1) != batch.Rejected || batch.KindOf(err2) != batch.Rejected || len(asked()) != 0 {
		t.Errorf("%v, %v, %v", err1, err2, asked())
	}
}

// A list that stops in the middle is temporary, however much of it was read.
func TestTornList(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "200")
		io.WriteString(w, `{"data":[],"has_more":false}`)
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(srv.Close)
	page, err := newClient(t, config(srv.URL)).ListJobs(t.Context(), "")
	if batch.KindOf(err) != batch.Temporary || len(page.Jobs) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

// A page may be longer than other answers, and a hostile one costs little.
func TestLongListings(t *testing.T) {
	list := func(element string, n int) string {
		return `{"has_more":false,"data":[` + strings.Repeat(element+",", n-1) + element + `]}`
	}
	faulty := `{"id":"batch_%d","status":"failed","errors":{"data":[` + strings.Repeat(`{"code":"invalid_json_line","message":"some words about it","line":1},`, 500) + `{}]}}`
	var jobs strings.Builder
	for i := range 100 {
		fmt.Fprintf(&jobs, ","+faulty, i)
	}
	body := `{"data":[` + jobs.String()[1:] + `],"has_more":false}`
	if len(body) < 3*maxAnswer {
		t.Fatalf("%d bytes prove nothing", len(body))
	}
	page, err := fixed(t, 200, nil, body).ListJobs(t.Context(), "")
	if err != nil || len(page.Jobs) != 100 || len(page.Jobs[99].Faults) != 501 {
		t.Errorf("%d jobs, %v", len(page.Jobs), err)
	}
	padded := `{"data":[],"has_more":false}` + strings.Repeat(" ", maxListing)
	if _, err := fixed(t, 200, nil, padded).ListJobs(t.Context(), ""); batch.KindOf(err) != batch.BadAnswer || !errors.Is(err, transport.ErrTooLarge) {
		t.Error(err)
	}
	for name, tc := range map[string]struct {
		body string
		most uint64
	}{
		"empty entries": {list(`{}`, 1_000_000), 8 << 20},
		"empty faults":  {list(`{"id":"a","status":"failed","errors":{"data":`+elements(1_000_000, "{}")+`}}`, 1), 8 << 20},
		"long string":   {list(`{"id":"a","status":"x","endpoint":"`+strings.Repeat("x", 15<<20)+`"}`, 1), 6 * maxListing},
	} {
		c := fixed(t, 200, nil, tc.body)
		if got := allocated(func() { c.ListJobs(t.Context(), "") }); got > tc.most {
			t.Errorf("%s: %d bytes for %d", name, got, len(tc.body))
		}
	}
	page502 := fixed(t, 502, nil, strings.Repeat("<p>", maxListing/4))
	if got := allocated(func() { page502.ListJobs(t.Context(), "") }); got > 8*maxAnswer {
		t.Errorf("an error page: %d bytes", got)
	}
	var many strings.Builder
	for i := range maxEntries + 1 {
		fmt.Fprintf(&many, `,{"id":"f%d"}`, i)
	}
	for n, want := range map[int]batch.Kind{maxEntries: "", maxEntries + 1: batch.BadAnswer} {
		body := many.String()[1:]
		if n == maxEntries {
			body = body[:strings.LastIndexByte(body, ',')]
		}
		page, err := fixed(t, 200, nil, `{"has_more":false,"data":[`+body+`]}`).ListFiles(t.Context(), "")
		if want == "" && (err != nil || len(page.Files) != n) || want != "" && batch.KindOf(err) != want {
			t.Errorf("%d entries: %d, %v", n, len(page.Files), err)
		}
	}
}

func TestCancel(t *testing.T) {
	job := func(status string) string { return `200 {"id":"batch_1","status":"` + status + `"}` }
	refused := envelopeOf("invalid_request", "t", "about "+batchtest.Marker)
	for _, tc := range []struct {
		name    string
		answers []string
		want    batch.Kind // "" for success
	}{
		{"heard", []string{job("cancelling")}, ""},
		{"lost to the end", []string{job("completed")}, ""},
		{"refused, ended", []string{"409 " + refused, job("completed")}, ""},
		{"refused, failed", []string{"400 " + refused, job("failed")}, ""},
		{"refused, cancelled", []string{"400 x", job("cancelled")}, ""},
		{"refused, heard before", []string{"409 " + refused, job("Cancelling")}, ""},
		{"refused, running", []string{"400 " + refused, job("in_progress")}, batch.Rejected},
		{"not now, running", []string{"409 " + refused, job("finalizing")}, batch.Temporary},
		{"refused, a word nobody knows", []string{"400 " + refused, job("reviewing")}, batch.Rejected},
		{"refused, gone", []string{"409 " + refused, "404 " + refused}, batch.NotFound},
		{"refused, cannot look", []string{"400 " + refused, "503 " + refused}, batch.Temporary},
		{"unknown", []string{"404 " + refused}, batch.NotFound},
		{"no key", []string{"401 " + refused}, batch.Denied},
		{"too many", []string{"429 " + refused}, batch.RateLimited},
		{"server", []string{"502 <html>"}, batch.Temporary},
		{"redirect", []string{"307 x"}, batch.BadAnswer},
		{"accepted elsewhere", []string{"202 {}"}, batch.BadAnswer},
		{"blank", []string{"200 {}"}, batch.BadAnswer},
		{"another job", []string{`200 {"id":"batch_2","status":"cancelling"}`}, batch.BadAnswer},
		{"page", []string{"200 <html>"}, batch.BadAnswer},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, asked := answers(t, tc.answers...)
			err := c.Cancel(t.Context(), "batch_1")
			if tc.want == "" && err != nil || tc.want != "" && batch.KindOf(err) != tc.want {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), batchtest.Marker) {
				t.Error(err)
			}
			want := []string{"POST /batches/batch_1/cancel", "GET /batches/batch_1"}
			if diff := cmp.Diff(want[:len(tc.answers)], asked()); diff != "" {
				t.Error(diff)
			}
		})
	}
	c, asked := answers(t)
	if err := c.Cancel(t.Context(), "../files/x"); batch.KindOf(err) != batch.Rejected || len(asked()) != 0 {
		t.Errorf("%v, %v", err, asked())
	}
}

func TestRequestID(t *testing.T) {
	c := newClient(t, config("http://127.0.0.1:1"))
	for line, want := range map[string]string{
		`{"custom_id":"w1-s1","method":"POST"}`:           "w1-s1",
		`{"method":"POST","custom_id":"w1-s1"}` + "\n":    "w1-s1",
		`{"custom_id":"w\u0031"}`:                         "w1",
		`{"custom_id":"` + strings.Repeat("x", 64) + `"}`: strings.Repeat("x", 64),
		`{"custom_id":"` + strings.Repeat("x", 65) + `"}`: "",
		`{"custom_id":"a.b"}`:                             "",
		`{"custom_id":"ä"}`:                               "",
		`{"custom_id":""}`:                                "",
		`{"custom_id":7}`:                                 "",
		`{"custom_id":null}`:                              "",
		`{"Custom_ID":"w1"}`:                              "",
		`{"body":{"custom_id":"w1"}}`:                     "",
		`{"custom_id":"w1","custom_id":"w1"}`:             "",
		`{"custom_id":"w1","body":{"a":1,"a":2}}`:         "",
		`{"custom_id":"w1"} {}`:                           "",
		`{"custom_id":"w1"`:                               "",
		`["w1"]`:                                          "",
		``:                                                "",
	} {
		id, ok := c.RequestID([]byte(line))
		if id != want || ok != (want != "") {
			t.Errorf("%.60s: %q, %v", line, id, ok)
		}
	}
	// The id is a copy: the line, with its text, may go.
	line := []byte(`{"custom_id":"w1-s1"}`)
	id, _ := c.RequestID(line)
	clear(line)
	if id != "w1-s1" {
		t.Errorf("%q changes with the line", id)
	}
}

func FuzzRequestID(f *testing.F) {
	f.Add([]byte(`{"custom_id":"w1-s1","method":"POST","url":"/v1/chat/completions","body":{}}`))
	f.Add([]byte(`{"custom_id":"w1`))
	around(f, `{"custom_id":HOLE,"method":"POST","body":{"messages":[{"content":"custom_id"}]}}`)
	around(f, `{"body":HOLE,"custom_id":"w1-s1"}`)
	c := new(Client)
	f.Fuzz(func(t *testing.T, line []byte) {
		id, ok := c.RequestID(line)
		if ok != batch.ValidCustomID(id) {
			t.Errorf("%q, %v", id, ok)
		}
		if ok && member(otherwise(t, line), "custom_id") != id {
			t.Errorf("another reader finds another id than %q", id)
		}
	})
}

func TestInspect(t *testing.T) {
	for _, status := range []int{200, 204, 302, 400, 404, 429, 502} {
		body := "anything at all, even " + batchtest.Marker
		if status == 204 {
			body = ""
		}
		c := fixed(t, status, map[string]string{"Retry-After": "9", "X-Request-Id": "req 1", "Location": "https://example.org/"}, body)
		got, err := c.Inspect(t.Context(), "batch_1")
		if err != nil || got.HTTPStatus != status || string(got.Body) != body || got.RequestID != "unprintable" || got.RetryAfter != 9*time.Second {
			t.Errorf("HTTP %d: %+v, %v", status, got, err)
		}
	}
	long := strings.Repeat("x", maxAnswer) + "the rest"
	if got, err := fixed(t, 200, nil, long).Inspect(t.Context(), "batch_1"); err != nil || string(got.Body) != long[:maxAnswer] {
		t.Errorf("%d bytes, %v", len(got.Body), err)
	}
	if _, err := fixed(t, 200, map[string]string{"Content-Encoding": "gzip"}, "x").Inspect(t.Context(), "batch_1"); batch.KindOf(err) != batch.BadAnswer {
		t.Error(err)
	}
	var calls atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, batchtest.Marker)
	}))
	t.Cleanup(srv.Close)
	c := newClient(t, config(srv.URL))
	if got, err := c.Inspect(t.Context(), "batch_1"); batch.KindOf(err) != batch.Temporary || len(got.Body) != 0 || strings.Contains(err.Error(), batchtest.Marker) {
		t.Errorf("torn: %+v, %v", got, err)
	}
	if _, err := c.Inspect(t.Context(), "../x"); batch.KindOf(err) != batch.Rejected || calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}
