package anthropic_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
)

func TestStatusShapes(t *testing.T) {
	job := func(status, rest string) string {
		return fmt.Sprintf(`{"id":"msgbatch_1","type":"message_batch","processing_status":%q%s}`, status, rest)
	}
	counts := `,"request_counts":{"processing":%d,"succeeded":%d,"errored":%d,"canceled":%d,"expired":%d}`
	for name, tc := range map[string]struct {
		body   string
		phase  batch.Phase
		known  bool
		status string
		counts batch.Counts
	}{
		"running":           {job("in_progress", fmt.Sprintf(counts, 5, 0, 0, 0, 0)), batch.PhaseRunning, true, "in_progress", batch.Counts{Total: 5}},
		"canceling":         {job("canceling", fmt.Sprintf(counts, 3, 2, 0, 0, 0)), batch.PhaseRunning, true, "canceling", batch.Counts{Total: 5, Completed: 2}},
		"all failed":        {job("ended", fmt.Sprintf(counts, 0, 0, 5, 0, 0)), batch.PhaseEnded, true, "ended", batch.Counts{Total: 5, Failed: 5}},
		"a bit of each":     {job("ended", fmt.Sprintf(counts, 0, 1, 2, 3, 4)), batch.PhaseEnded, true, "ended", batch.Counts{Total: 10, Completed: 1, Failed: 9}},
		"no counts":         {job("ended", ""), batch.PhaseEnded, true, "ended", batch.Counts{}},
		"counts of no kind": {job("ended", `,"request_counts":{"processing":"x","succeeded":-4,"errored":1e99,"canceled":null}`), batch.PhaseEnded, true, "ended", batch.Counts{}},
		"huge counts":       {job("ended", fmt.Sprintf(counts, 1, int64(1)<<62, int64(1)<<62, int64(1)<<62, int64(1)<<62)), batch.PhaseEnded, true, "ended", batch.Counts{Total: 1<<63 - 1, Completed: 1 << 62, Failed: 1<<63 - 1}},
		"a new word":        {job("reviewing", ""), batch.PhaseRunning, false, "reviewing", batch.Counts{}},
		"prose":             {job("about "+marker, ""), batch.PhaseRunning, false, "unprintable", batch.Counts{}},
		"another case":      {job("Ended", ""), batch.PhaseRunning, false, "Ended", batch.Counts{}},
	} {
		c, _ := scripted(t, said{200, nil, tc.body})
		got, err := c.Status(t.Context(), "msgbatch_1")
		if err != nil || got.Phase != tc.phase || got.Known != tc.known || got.Status != tc.status || got.Counts != tc.counts || len(got.Faults) != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if ended := tc.phase == batch.PhaseEnded; ended != (len(got.Files) == 1) || ended && got.Files[0] != (batch.ResultFile{Channel: batch.ChannelOutput, ID: "msgbatch_1"}) {
			t.Errorf("%s: files %+v", name, got.Files)
		}
	}
	for name, body := range map[string]string{
		"another job": strings.Replace(jobBody, "msgbatch_1", "msgbatch_2", 1), "no type": `{"id":"msgbatch_1","processing_status":"ended"}`,
		"empty": "{}", "nothing": "", "a list": "[]", "null": "null", "a page": "<html>" + marker, "two names": `{"id":"msgbatch_1","id":"msgbatch_1","type":"message_batch","processing_status":"ended"}`,
	} {
		c, _ := scripted(t, said{200, nil, body})
		_, err := c.Status(t.Context(), "msgbatch_1")
		if batch.KindOf(err) != batch.BadAnswer {
			t.Errorf("%s: %v", name, err)
		}
		discreet(t, err)
	}
}

// The results are asked for where the id says, never where the object does: the
// key would go there.
func TestResultsURLIsNotFollowed(t *testing.T) {
	var paths []string
	var web *httptest.Server
	stray := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a call went elsewhere") }))
	defer stray.Close()
	web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		fmt.Fprintf(w, `{"id":"msgbatch_1","type":"message_batch","processing_status":"ended","results_url":"%s/x"}`, stray.URL)
	}))
	defer web.Close()
	c := newClient(t, web.URL)
	job, err := c.Status(t.Context(), "msgbatch_1")
	if err != nil {
		t.Fatal(err)
	}
	body, _, err := c.Download(t.Context(), job.Files[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	body.Close()
	if len(paths) != 2 || paths[1] != "/v1/messages/batches/msgbatch_1/results" {
		t.Errorf("%v", paths)
	}
}

// What a read may be answered with. A 404 is no loss (F25): it is told as it is,
// and the passes ask again.
func TestF25ReadAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		said said
		kind batch.Kind
	}{
		"400":             {said{400, nil, envelope("invalid_request_error", "")}, batch.Rejected},
		"401":             {said{401, nil, envelope("authentication_error", "")}, batch.Denied},
		"402":             {said{402, nil, envelope("billing_error", "")}, batch.OutOfCredit},
		"403":             {said{403, nil, ""}, batch.Denied},
		"404":             {said{404, nil, envelope("not_found_error", "")}, batch.NotFound},
		"404 of an edge":  {said{404, nil, "<html>" + marker}, batch.NotFound},
		"410":             {said{410, nil, ""}, batch.NotFound},
		"408":             {said{408, nil, ""}, batch.Temporary},
		"429":             {said{429, []string{"Retry-After", "3"}, ""}, batch.RateLimited},
		"429, tier's cap": {said{429, nil, envelope("rate_limit_error", "enforced_spend_limit_reached")}, batch.OutOfCredit},
		"on hold":         {said{400, nil, envelope("invalid_request_error", "organization_on_hold")}, batch.Denied},
		"529":             {said{529, nil, envelope("overloaded_error", "")}, batch.Temporary},
		"204":             {said{204, nil, ""}, batch.BadAnswer},
		"302":             {said{302, []string{"Location", "/x"}, ""}, batch.BadAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			c, calls := scripted(t, tc.said)
			_, errStatus := c.Status(t.Context(), "msgbatch_1")
			_, _, errResults := c.Download(t.Context(), "msgbatch_1")
			_, errList := c.ListJobs(t.Context(), "")
			for what, err := range map[string]error{"status": errStatus, "results": errResults, "list": errList} {
				var e *batch.Error
				if !errors.As(err, &e) || e.Kind != tc.kind || tc.said.status == 429 && len(tc.said.header) > 0 && e.RetryAfter != 3*time.Second {
					t.Errorf("%s: %v", what, err)
				}
				discreet(t, err)
			}
			if calls.Load() != 3 {
				t.Errorf("%d calls", calls.Load())
			}
		})
	}
	c, _ := scripted(t, said{200, []string{"Content-Type", "text/html; charset=utf-8"}, "<html>" + marker})
	if _, _, err := c.Download(t.Context(), "msgbatch_1"); batch.KindOf(err) != batch.BadAnswer {
		t.Errorf("a page for results: %v", err)
	}
}

func TestListShapes(t *testing.T) {
	page := func(data string, more bool, first, last string) string {
		return fmt.Sprintf(`{"data":[%s],"has_more":%t,"first_id":%s,"last_id":%s}`, data, more, first, last)
	}
	other := strings.Replace(jobBody, "msgbatch_1", "msgbatch_0", 1)
	both := jobBody + "," + other
	for name, tc := range map[string]struct {
		body, after, next string
		jobs              int
	}{
		"empty":        {page("", false, "null", "null"), "", "", 0},
		"the end":      {page(both, false, `"msgbatch_1"`, `"msgbatch_0"`), "", "", 2},
		"more":         {page(both, true, `"msgbatch_1"`, `"msgbatch_0"`), "msgbatch_2", "msgbatch_0", 2},
		"without ids":  {`{"data":[` + jobBody + `],"has_more":true}`, "", "msgbatch_1", 1},
		"unknown keys": {`{"object":"list","data":[],"has_more":false,"x":{}}`, "", "", 0},
	} {
		c, _ := scripted(t, said{200, nil, tc.body})
		got, err := c.ListJobs(t.Context(), tc.after)
		if err != nil || len(got.Jobs) != tc.jobs || got.Next != tc.next {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, tc := range map[string]struct{ body, after string }{
		"nothing":               {"", ""},
		"no data":               {`{"has_more":false}`, ""},
		"data of no kind":       {`{"data":{},"has_more":false}`, ""},
		"null for data":         {`{"data":null,"has_more":false}`, ""},
		"does not say whether":  {`{"data":[]}`, ""},
		"says it oddly":         {`{"data":[],"has_more":"no"}`, ""},
		"more behind nothing":   {page("", true, "null", "null"), ""},
		"the same again":        {page(jobBody, true, `"msgbatch_1"`, `"msgbatch_1"`), "msgbatch_1"},
		"another last":          {page(both, true, `"msgbatch_1"`, `"msgbatch_7"`), ""},
		"another first":         {page(both, false, `"msgbatch_7"`, `"msgbatch_0"`), ""},
		"a last of no kind":     {page(both, true, `"msgbatch_1"`, `7`), ""},
		"a job twice":           {page(jobBody+","+jobBody, false, `"msgbatch_1"`, `"msgbatch_1"`), ""},
		"an entry of no kind":   {page(jobBody+",null", false, "null", "null"), ""},
		"a job without a time":  {page(strings.Replace(jobBody, "created_at", "made_at", 1), false, "null", "null"), ""},
		"a time of no kind":     {page(strings.Replace(jobBody, "2026-03-01T", "yesterday ", 1), false, "null", "null"), ""},
		"a job without numbers": {page(strings.Replace(jobBody, "request_counts", "counts", 1), false, "null", "null"), ""},
		"two pages":             {page("", false, "null", "null") + page("", false, "null", "null"), ""},
		"too many entries":      {page(strings.TrimSuffix(strings.Repeat("{},", 1001), ","), false, "null", "null"), ""},
	} {
		c, _ := scripted(t, said{200, nil, tc.body})
		got, err := c.ListJobs(t.Context(), tc.after)
		if batch.KindOf(err) != batch.BadAnswer || len(got.Jobs)+len(got.Next) != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		discreet(t, err)
	}
}

// A cursor goes as after_id, and an odd id goes nowhere.
func TestIdsAreChecked(t *testing.T) {
	calls := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		if r.URL.RawQuery != "after_id=msgbatch_1&limit=100" {
			t.Errorf("query %q", r.URL.RawQuery)
		}
		io.WriteString(w, `{"data":[],"has_more":false}`)
	}))
	defer web.Close()
	c, ctx := newClient(t, web.URL), t.Context()
	if _, err := c.ListJobs(ctx, "msgbatch_1"); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"..", "a/b", "a?b", "a%2e", ".x", "a b", "ä", "a\n", strings.Repeat("x", 129)} {
		_, e1 := c.Status(ctx, id)
		_, _, e2 := c.Download(ctx, id)
		_, e3 := c.ListJobs(ctx, id)
		_, e4 := c.Inspect(ctx, id)
		for _, err := range []error{e1, e2, e3, e4, c.Cancel(ctx, id), c.DeleteJob(ctx, id)} {
			if batch.KindOf(err) != batch.Rejected {
				t.Errorf("%q: %v", id, err)
			}
		}
	}
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
}

// A burst of answers that a job is missing does not make it deleted.
func TestF25DeleteOfAHiddenJob(t *testing.T) {
	r := newRig(t)
	job := r.create()
	r.Advance(2 * time.Minute)
	r.Faults("not_found:op=delete_batch", "not_found:op=status")
	for range 2 {
		if err := r.DeleteJob(t.Context(), job.ID); batch.KindOf(err) != batch.NotFound {
			t.Errorf("%v", err)
		}
	}
	r.Faults()
	if r.status(job.ID).ID != job.ID {
		t.Error("the job is gone")
	}
	for name, body := range map[string]string{"another job": `{"id":"msgbatch_2","type":"message_batch_deleted"}`, "another word": `{"id":"msgbatch_1","type":"message_batch"}`, "empty": "{}"} {
		c, _ := scripted(t, said{200, nil, body})
		if err := c.DeleteJob(t.Context(), "msgbatch_1"); batch.KindOf(err) != batch.BadAnswer {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a refused cancel means is told by a look-up.
func TestCancelRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal int
		status  string
		kind    batch.Kind
	}{
		"ended":              {400, "ended", ""},
		"ended, by conflict": {409, "ended", ""},
		"cancelled already":  {400, "canceling", ""},
		"still running":      {400, "in_progress", batch.Rejected},
		"conflict, running":  {409, "in_progress", batch.Temporary},
		"forbidden":          {403, "ended", batch.Denied},
		"missing":            {404, "ended", batch.NotFound},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				if r.ContentLength != 0 {
					t.Errorf("a body of %d bytes", r.ContentLength)
				}
				w.WriteHeader(tc.refusal)
				io.WriteString(w, envelope("some_error", ""))
				return
			}
			io.WriteString(w, strings.Replace(jobBody, "in_progress", tc.status, 1))
		}))
		err := newClient(t, web.URL).Cancel(t.Context(), "msgbatch_1")
		if tc.kind == "" && err != nil || tc.kind != "" && batch.KindOf(err) != tc.kind {
			t.Errorf("%s: %v", name, err)
		}
		web.Close()
	}
}
