package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"rollcall/batch/sandbox"
)

func TestParseFault(t *testing.T) {
	f, err := sandbox.ParseFault("rate_limit:op=create,retry_after=5,times=2")
	if err != nil || f.String() != "rate_limit:op=create,retry_after=5,times=2" {
		t.Errorf("%v, %v", f, err)
	}
	for text, want := range map[string]string{
		"nonsense":                       "drop_after", // the known names are listed
		"":                               "drop_after",
		"delay:for=3s":                   "by, times",
		"delay:by":                       "key=value",
		"delay:by=soon":                  "30s or 24h",
		"delay:by=-1s":                   "30s or 24h",
		"delay:op=nothing":               "upload",
		"delay:by=1s,by=2s":              "twice",
		"delay:times=some":               "whole number",
		"refusal:share=2":                "0 to 1",
		"bad_gateway:acted=yes":          "true or false",
		"redirect:to=":                   "empty",
		"refusal:op=create":              "prefix",
		"token_limit_exceeded:every=two": "times",
	} {
		if _, err := sandbox.ParseFault(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v does not say %q", text, err, want)
		}
	}
	r := newRig(t)
	if err := r.server.SetFaults(sandbox.Fault{Name: "nonsense"}); err == nil {
		t.Error("an unknown fault can be set")
	}
}

func TestFaultHelpNamesEveryFault(t *testing.T) {
	help := sandbox.FaultHelp()
	for _, name := range sandbox.FaultNames() {
		if !strings.Contains(help, "  "+name+" ") {
			t.Errorf("%s is not in the help", name)
		}
	}
}

// The four tables below hold every fault; TestEveryFaultIsTested makes sure.

// requestFaults: what a client sees of one POST /v1/batches or other request,
// and whether the request took effect.
var requestFaults = []struct {
	fault  string
	method string // default POST /v1/batches
	path   string
	status int // 0: the connection is dropped
	acted  bool
	also   func(t *testing.T, resp *http.Response, body string)
}{
	{fault: "drop_after", status: 0, acted: true},
	{fault: "drop_before", status: 0},
	{fault: "server_error:status=503", status: 503},
	{fault: "server_error:status=409,acted=true", status: 409, acted: true},
	{fault: "bad_gateway", status: 502, also: func(t *testing.T, resp *http.Response, body string) {
		if resp.Header.Get("Content-Type") != "text/html" || !strings.HasPrefix(body, "<html>") {
			t.Errorf("%v %q", resp.Header, body)
		}
	}},
	{fault: "bad_gateway:op=create,acted=true", status: 502, acted: true},
	{fault: "bad_gateway:status=200", status: 200, also: wantHeader("Content-Type", "text/html")},
	{fault: "empty_object", status: 200, also: wantBody("{}")},
	{fault: "empty_object:acted=true", status: 200, acted: true, also: wantBody("{}")},
	{fault: "rate_limit:retry_after=7", status: 429, also: wantHeader("Retry-After", "7")},
	{fault: "rate_limit:retry_after=60,form=date", status: 429, also: wantHeader("Retry-After", "Sun, 01 Mar 2026 02:01:00 GMT")},
	{fault: "rate_limit:form=none", status: 429, also: wantHeader("Retry-After", "")},
	{fault: "rate_limit:code=slow_down", status: 429, also: wantError("requests", "slow_down")},
	{fault: "overloaded", status: 503, also: wantError("service_unavailable_error", "server_is_overloaded")},
	{fault: "overloaded:acted=true", status: 503, acted: true},
	{fault: "error_text:acted=true", status: 500, acted: true, also: wantBody(`{"error":"The sandbox failed to say more."}`)},
	{fault: "insufficient_quota", status: 429, also: wantError("insufficient_quota", "credit_balance_exhausted")},
	{fault: "unauthorized", status: 401, also: wantError("invalid_request_error", "invalid_api_key")},
	{fault: "forbidden", status: 403, also: wantError("request_forbidden", "unsupported_country_region_territory")},
	{fault: "bad_request", status: 400, also: wantError("invalid_request_error", "invalid_value")},
	{fault: "not_found:op=list_batches", method: "GET", path: "/v1/batches", status: 404, also: wantError("invalid_request_error", nil)},
	{fault: "redirect:to=http://other.invalid/", status: 307, also: wantHeader("Location", "http://other.invalid/v1/batches")},
	{fault: "create_file_missing", status: 400, also: func(t *testing.T, _ *http.Response, body string) {
		if !strings.Contains(body, "Cannot find file") || !strings.Contains(body, `"param":"input_file_id"`) {
			t.Error(body)
		}
	}},
	{fault: "unauthorized:op=list_files", status: 200, acted: true},
	{fault: "unauthorized:op=list_files", method: "GET", path: "/v1/files", status: 401},
	{fault: "redirect", method: "GET", path: "/v1/batches?limit=3", status: 307, also: wantHeader("Location", "http://elsewhere.invalid/v1/batches?limit=3")},
}

func wantBody(want string) func(*testing.T, *http.Response, string) {
	return func(t *testing.T, _ *http.Response, body string) {
		if body != want {
			t.Errorf("body is %q", body)
		}
	}
}

func wantHeader(name, want string) func(*testing.T, *http.Response, string) {
	return func(t *testing.T, resp *http.Response, _ string) {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func wantError(typ string, code any) func(*testing.T, *http.Response, string) {
	return func(t *testing.T, _ *http.Response, body string) {
		var b map[string]any
		if json.Unmarshal([]byte(body), &b); at(b, "error", "type") != typ || at(b, "error", "code") != code {
			t.Errorf("error is %v", b)
		}
	}
}

func TestRequestFaults(t *testing.T) {
	for _, c := range requestFaults {
		t.Run(c.fault, func(t *testing.T) {
			r := newRig(t)
			file := r.upload(inputOf(1))
			sep := ":"
			if strings.Contains(c.fault, ":") {
				sep = ","
			}
			r.faults(c.fault + sep + "times=1")
			method, path := c.method, c.path
			if method == "" {
				method, path = "POST", "/v1/batches"
			}
			b, _ := json.Marshal(creation(file))
			resp, err := r.do(method, path, "application/json", bytes.NewReader(b))
			if (c.status == 0) != (err != nil) {
				t.Fatalf("transport error is %v", err)
			}
			if err == nil {
				defer resp.Body.Close()
				body, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != c.status {
					t.Fatalf("HTTP %d %s", resp.StatusCode, body)
				}
				if c.also != nil {
					c.also(t, resp, string(body))
				}
			}
			books, err := r.server.Books()
			if err != nil || (len(books.Jobs) == 1) != c.acted {
				t.Errorf("%d jobs, %v", len(books.Jobs), err)
			}
			if c.path == "" && c.fault != "unauthorized:op=list_files" {
				r.create(file) // the fault struck once
			}
		})
	}
}

func TestDropAfterUpload(t *testing.T) {
	r := newRig(t)
	r.faults("drop_after:op=upload,times=1")
	ct, body := uploadForm("a.jsonl", "x", "purpose", "batch")
	if _, err := r.do("POST", "/v1/files", ct, body); err == nil {
		t.Fatal("the connection was not dropped")
	}
	if b, _ := r.server.Books(); b.Files != 1 {
		t.Errorf("%d files, want 1", b.Files)
	}
}

// delay: the request takes effect although the client gives up waiting.
func TestDelay(t *testing.T) {
	r := newRig(t)
	file := r.upload(inputOf(1))
	r.faults("delay:by=1h")
	ctx, giveUp := context.WithCancel(t.Context())
	body, _ := json.Marshal(creation(file))
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/v1/batches", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	done := make(chan error)
	go func() {
		_, err := r.client.Do(req)
		done <- err
	}()
	r.until(func(b sandbox.Books) bool { return len(b.Jobs) == 1 })
	giveUp()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v, want no answer", err)
	}
}

func TestCloseEndsDelay(t *testing.T) {
	r := newRig(t)
	r.faults("delay:by=1h,op=list_batches")
	done := make(chan error)
	go func() {
		resp, err := r.do("GET", "/v1/batches", "", nil)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	r.until(func(b sandbox.Books) bool { return b.Requests["list_batches"] == 1 })
	if err := r.server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the delayed request got %v", err)
	}
}

func TestListingLag(t *testing.T) {
	r := newRig(t)
	r.faults("listing_lag:seconds=30")
	r.create(r.upload(inputOf(1)))
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 0}, {29 * time.Second, 0}, {time.Second, 1}} {
		r.clock.add(step.after)
		for _, path := range []string{"/v1/files?purpose=batch", "/v1/batches"} {
			if _, out := r.call("GET", path, nil); len(out["data"].([]any)) != step.want {
				t.Errorf("%v: %s lists %v, want %d", step.after, path, out["data"], step.want)
			}
		}
	}
}

func TestContentFaults(t *testing.T) {
	r := newRig(t)
	file := r.upload("0123456789")
	get := func() (int, string, int64, error) {
		resp, err := r.do("GET", "/v1/files/"+file+"/content", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b), resp.ContentLength, err
	}
	r.faults("content_cut:at=0.3,times=1")
	if status, body, length, err := get(); status != 200 || body != "012" || length != 10 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut: %d %q %d %v", status, body, length, err)
	}
	r.faults("content_cut:at=0.3,clean=true,times=1")
	if status, body, _, err := get(); status != 200 || body != "012" || err != nil {
		t.Errorf("cut cleanly: %d %q %v", status, body, err)
	}
	r.faults("content_not_found:times=1")
	if status, _, _, _ := get(); status != 404 {
		t.Errorf("HTTP %d, want 404", status)
	}
	if status, body, _, err := get(); status != 200 || body != "0123456789" || err != nil {
		t.Errorf("afterwards: %d %q %v", status, body, err)
	}
}

// jobFaults: what a job with the fault looks like at an instant after creation.
var jobFaults = []struct {
	fault string
	at    time.Duration
	want  map[string]any // by path; "status" and so on
	check func(t *testing.T, r *rig, j map[string]any)
}{
	{fault: "token_limit_exceeded", at: time.Minute, want: map[string]any{"status": "failed"}, check: wantProblem("token_limit_exceeded")},
	{fault: "failed_file_ids", at: 2 * time.Minute, want: map[string]any{"status": "completed", "error_file_id": nil}},
	{fault: "validate_file_missing", at: time.Minute, want: map[string]any{"status": "failed"}, check: wantProblem("invalid_request")},
	{fault: "all_failed:status=500", at: 2 * time.Minute, want: map[string]any{"status": "completed", "output_file_id": nil, "request_counts.failed": 10.0, "request_counts.completed": 0.0},
		check: func(t *testing.T, r *rig, j map[string]any) {
			if res := results(t, r.content(j["error_file_id"])); len(res) != 10 || res[0].Response.Status != 500 || res[0].Error != nil {
				t.Errorf("error lines %+v", res)
			}
		}},
	{fault: "empty_error_id", at: 2 * time.Minute, want: map[string]any{"status": "completed", "error_file_id": ""}},
	{fault: "zero_byte_error_file", at: 2 * time.Minute, want: map[string]any{"status": "completed"}, check: func(t *testing.T, r *rig, j map[string]any) {
		if c := r.content(j["error_file_id"]); c != "" {
			t.Errorf("error file has %d bytes", len(c))
		}
	}},
	{fault: "expire:share=0.3", at: 24*time.Hour - time.Second, want: map[string]any{"status": "in_progress"}},
	{fault: "expire:share=0.3", at: 24 * time.Hour, want: map[string]any{"status": "expired", "request_counts.completed": 3.0, "request_counts.failed": 0.0}, check: wantLines(3, 7)},
	{fault: "expire:share=0", at: 24 * time.Hour, want: map[string]any{"status": "expired", "output_file_id": nil, "request_counts.completed": 0.0}, check: wantLines(0, 10)},
	{fault: "expire:after=1h,share=0", at: time.Hour, want: map[string]any{"status": "expired", "output_file_id": nil, "request_counts.completed": 0.0}},
	{fault: "expire:after=1h,share=1", at: time.Hour, want: map[string]any{"status": "expired", "error_file_id": nil, "request_counts.completed": 10.0}},
	{fault: "cancel_midway:share=0.4", at: 20 * time.Second, want: map[string]any{"status": "in_progress", "cancelling_at": nil}},
	{fault: "cancel_midway:share=0.4", at: 30 * time.Second, want: map[string]any{"status": "cancelling"}},
	{fault: "cancel_midway:share=0.4", at: 2 * time.Minute, want: map[string]any{"status": "cancelled", "request_counts.completed": 4.0, "request_counts.failed": 0.0}, check: wantLines(4, 6)},
	{fault: "late_file_ids:for=1m", at: 2 * time.Minute, want: map[string]any{"status": "completed", "output_file_id": nil, "request_counts.completed": 10.0}},
	{fault: "late_file_ids:for=1m", at: 131 * time.Second, want: map[string]any{"status": "completed"}, check: wantLines(10, 0)},
	{fault: "results_lost", at: 2 * time.Minute, want: map[string]any{"status": "completed"}, check: func(t *testing.T, r *rig, j map[string]any) {
		r.faults() // clearing the faults does not bring the results back
		if status, _ := r.call("GET", fmt.Sprintf("/v1/files/%v/content", j["output_file_id"]), nil); status != 404 {
			t.Errorf("HTTP %d, want 404", status)
		}
		if status, _ := r.call("GET", fmt.Sprintf("/v1/files/%v", j["output_file_id"]), nil); status != 200 {
			t.Errorf("the object: HTTP %d, want 200", status)
		}
	}},
	{fault: "unknown_status", at: 30 * time.Second, want: map[string]any{"status": "reviewing"}},
	{fault: "unknown_status", at: 2 * time.Minute, want: map[string]any{"status": "completed"}},
	{fault: "unknown_status:in=completed,word=archived", at: 2 * time.Minute, want: map[string]any{"status": "archived"}},
	{fault: "other_spelling", at: 0, want: map[string]any{"status": "Validating", "created_at": "2026-03-01T02:00:00Z"}},
	{fault: "other_spelling", at: 2 * time.Minute, want: map[string]any{"status": "Completed", "completed_at": "2026-03-01T02:01:10Z"}},
	{fault: "null_counts", at: 30 * time.Second, want: map[string]any{"status": "in_progress", "request_counts": nil}},
	{fault: "null_counts", at: 2 * time.Minute, want: map[string]any{"status": "completed", "request_counts": nil}, check: wantLines(10, 0)},
	{fault: "slow:phase=validating,for=15m", at: 14 * time.Minute, want: map[string]any{"status": "validating"}},
	{fault: "slow", at: 11 * time.Minute, want: map[string]any{"status": "finalizing", "request_counts.completed": 10.0}},
}

func wantProblem(code string) func(*testing.T, *rig, map[string]any) {
	return func(t *testing.T, _ *rig, j map[string]any) {
		p := at(j, "errors", "data").([]any)[0]
		if at(p, "code") != code || at(p, "line") != nil {
			t.Errorf("problem is %v", p)
		}
	}
}

// wantLines counts the lines of both files; 0 is no file.
func wantLines(output, failure int) func(*testing.T, *rig, map[string]any) {
	return func(t *testing.T, r *rig, j map[string]any) {
		for field, want := range map[string]int{"output_file_id": output, "error_file_id": failure} {
			if want == 0 {
				if j[field] != nil {
					t.Errorf("%s is %v", field, j[field])
				}
				continue
			}
			if got := len(results(t, r.content(j[field]))); got != want {
				t.Errorf("%s has %d lines, want %d", field, got, want)
			}
		}
	}
}

func TestJobFaults(t *testing.T) {
	for _, c := range jobFaults {
		t.Run(c.fault+"@"+c.at.String(), func(t *testing.T) {
			r := newRig(t)
			r.faults(c.fault)
			id := r.create(r.upload(inputOf(10)))
			r.clock.add(c.at)
			j := r.job(id)
			for path, want := range c.want {
				if got := at(j, strings.Split(path, ".")...); got != want {
					t.Errorf("%s is %v, want %v", path, got, want)
				}
			}
			if c.check != nil && !t.Failed() {
				c.check(t, r, j)
			}
		})
	}
}

// Failures are counted on completed jobs only, as observed at the API.
func TestFailedCountOfPartialJobs(t *testing.T) {
	for _, fault := range []string{"expire:after=1h", "cancel_midway"} {
		r := newRig(t)
		r.faults(fault, "item_error:every=2")
		id := r.create(r.upload(inputOf(10)))
		r.clock.add(time.Hour)
		j := r.job(id)
		failed := 0
		for _, res := range results(t, r.content(j["error_file_id"])) {
			if res.Response != nil {
				failed++
			}
		}
		if failed == 0 || at(j, "request_counts", "failed") != 0.0 || at(j, "request_counts", "completed") != float64(5-failed) {
			t.Errorf("%s: %d lines failed, counts are %v", fault, failed, j["request_counts"])
		}
	}
}

func TestJobFaultStrikesTheNextJobsOnly(t *testing.T) {
	r := newRig(t)
	before := r.create(r.upload(inputOf(1)))
	r.faults("token_limit_exceeded:times=1")
	struck, after := r.create(r.upload(inputOf(1))), r.create(r.upload(inputOf(1)))
	r.clock.add(2 * time.Minute)
	for id, want := range map[string]string{before: "completed", struck: "failed", after: "completed"} {
		if got := r.job(id)["status"]; got != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

func TestErrorsArray(t *testing.T) {
	r := newRig(t)
	r.faults("token_limit_exceeded", "errors_array")
	id := r.create(r.upload(inputOf(1)))
	r.clock.add(time.Minute)
	if all, ok := r.job(id)["errors"].([]any); !ok || len(all) != 1 || at(all[0], "code") != "token_limit_exceeded" {
		t.Errorf("errors are %v", all)
	}
}

// A job that failed has the ids of files in the one form, and none in the other.
func TestFailedFileIDs(t *testing.T) {
	for _, with := range []bool{true, false} {
		r := newRig(t)
		r.faults("token_limit_exceeded")
		if with {
			r.faults("token_limit_exceeded", "failed_file_ids")
		}
		id := r.create(r.upload(inputOf(1)))
		r.clock.add(time.Minute)
		j := r.job(id)
		if (j["output_file_id"] != nil) != with || (j["error_file_id"] != nil) != with || j["status"] != "failed" || at(j, "request_counts", "total") != 0.0 {
			t.Errorf("with ids %v: %v", with, j)
		}
	}
}

func TestVanish(t *testing.T) {
	r := newRig(t)
	r.faults("vanish:after=30s")
	id := r.create(r.upload(inputOf(1)))
	r.job(id)
	r.clock.add(30 * time.Second)
	if status, _ := r.call("GET", "/v1/batches/"+id, nil); status != 404 {
		t.Errorf("HTTP %d, want 404", status)
	}
	if _, out := r.call("GET", "/v1/batches", nil); len(out["data"].([]any)) != 0 {
		t.Error("it is in the list")
	}
	if b, _ := r.server.Books(); b.AcceptedJobs != 1 {
		t.Error("the books forgot it")
	}
}

func TestCancelFaults(t *testing.T) {
	for _, c := range []struct {
		fault  string
		after  time.Duration // since cancel
		status string
		done   float64
	}{
		{"slow_cancel", 10*time.Minute - time.Second, "cancelling", 5},
		{"slow_cancel", 10 * time.Minute, "cancelled", 5},
		{"cancel_loses", 34 * time.Second, "cancelling", 10},
		{"cancel_loses", 35 * time.Second, "completed", 10},
	} {
		t.Run(fmt.Sprint(c.fault, c.after), func(t *testing.T) {
			r := newRig(t)
			r.faults(c.fault)
			id := r.create(r.upload(inputOf(10)))
			r.clock.add(35 * time.Second)
			r.call("POST", "/v1/batches/"+id+"/cancel", nil)
			r.clock.add(c.after)
			if j := r.job(id); j["status"] != c.status || at(j, "request_counts", "completed") != c.done {
				t.Errorf("%v %v, want %s %v", j["status"], j["request_counts"], c.status, c.done)
			}
		})
	}
}

func TestFaultsOverHTTP(t *testing.T) {
	r := newRig(t)
	status, out := r.call("POST", "/_sandbox/faults", map[string]any{"faults": []any{
		"refusal:every=3,times=4", map[string]any{"name": "delay", "params": map[string]string{"by": "1ms"}},
	}})
	set, _ := out["set"].([]any)
	if status != 200 || len(set) != 2 || at(set[0], "fault", "name") != "refusal" || at(set[0], "left") != 4.0 || at(set[1], "left") != -1.0 {
		t.Fatalf("HTTP %d %v", status, out)
	}
	for _, bad := range []any{map[string]any{"faults": []any{"nonsense"}}, map[string]any{"faults": []any{map[string]any{"nome": "x"}}}, map[string]any{"fault": []any{}}, map[string]any{},
		map[string]any{"faults": 1}, map[string]any{"faults": []any{1}}, map[string]any{"faults": []any{nil}}, map[string]any{"faults": []any{map[string]any{"name": 1}}}, []any{}} {
		status, out := r.call("POST", "/_sandbox/faults", bad)
		if says, _ := at(out, "error", "message").(string); status != 400 || says == "" || strings.Contains(says, "json:") || strings.Contains(says, "Go ") {
			t.Errorf("%v: HTTP %d %v", bad, status, out)
		}
	}
	if status, out := r.call("POST", "/_sandbox/clock", map[string]any{"advance": 1}); status != 400 || at(out, "error", "message") != `the body must be JSON of at most 1 MiB that looks like {"advance": "24h"}` {
		t.Errorf("HTTP %d %v", status, out)
	}
	if _, out := r.call("GET", "/_sandbox/faults", nil); len(out["set"].([]any)) != 2 || len(out["known"].([]any)) != len(sandbox.FaultNames()) {
		t.Errorf("faults are %v", out)
	}
	if _, out := r.call("POST", "/_sandbox/faults", map[string]any{"faults": []any{}}); len(out["set"].([]any)) != 0 {
		t.Errorf("not cleared: %v", out)
	}
}

func TestEveryFaultIsTested(t *testing.T) {
	// These have a test of their own, above or beside the lists.
	tested := map[string]bool{
		"delay": true, "listing_lag": true, "listing_cut": true, "listing_hole": true, "short_page": true, "answer_cut": true, "content_cut": true, "content_not_found": true,
		"vanish": true, "slow_cancel": true, "cancel_loses": true, "errors_array": true, "response_failed": true, "category_missing": true, "empty_text_graded": true, "quota": true,
	}
	add := func(fault string) {
		name, _, _ := strings.Cut(fault, ":")
		tested[name] = true
	}
	for _, c := range requestFaults {
		add(c.fault)
	}
	for _, c := range jobFaults {
		add(c.fault)
	}
	for _, c := range itemFaults {
		add(c.fault)
	}
	for _, c := range callFaults {
		add(c.fault)
	}
	for _, c := range messageRequestFaults {
		add(c.fault)
	}
	for _, c := range messageItemFaults {
		add(c.fault)
	}
	tested["other_workspace"], tested["live_counts"], tested["no_last_feed"] = true, true, true
	for _, c := range infraiFaults {
		add(c.fault)
	}
	for _, name := range sandbox.FaultNames() {
		if !tested[name] {
			t.Errorf("fault %s has no test", name)
		}
	}
}
