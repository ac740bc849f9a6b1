package anthropic_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/anthropic"
)

// said is an answer that a server gives.
type said struct {
	status int
	header []string // in pairs
	body   string
}

// scripted is a client of a server that always says the same, and how many
// calls have reached it.
func scripted(t *testing.T, s said, change ...func(*anthropic.Config)) (*anthropic.Client, *atomic.Int64) {
	t.Helper()
	var calls atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		io.Copy(io.Discard, r.Body)
		for i := 0; i+1 < len(s.header); i += 2 {
			w.Header().Set(s.header[i], s.header[i+1])
		}
		w.WriteHeader(s.status)
		io.WriteString(w, s.body)
	}))
	t.Cleanup(web.Close)
	return newClient(t, web.URL, change...), &calls
}

// envelope is an error in the documented shape, with prose that quotes a report.
func envelope(class, code string) string {
	details := ""
	if code != "" {
		details = fmt.Sprintf(`,"details":{"error_code":%q}`, code)
	}
	return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"about %s"%s},"request_id":"req_1"}`, class, marker, details)
}

const jobBody = `{"id":"msgbatch_1","type":"message_batch","processing_status":"in_progress","request_counts":{"processing":3,"succeeded":0,"errored":0,"canceled":0,"expired":0},` +
	`"created_at":"2026-03-01T02:00:00.5Z","expires_at":"2026-03-02T02:00:00.5Z","ended_at":null,"results_url":null}`

func small() batch.Creation {
	const line = `{"custom_id":"a","params":{}}` + "\n"
	return batch.Creation{Body: &batch.Input{Name: "x.jsonl", Size: int64(len(line)), Write: func(w io.Writer) error { _, err := io.WriteString(w, line); return err }}}
}

// unknown: an error that says so, which KindOf says of no error as well.
func unknown(err error) bool {
	var e *batch.Error
	return errors.As(err, &e) && e.Kind == batch.UnknownOutcome
}

// What each answer to a create proves (F15, F20): it is sent once (F22), and only a
// documented refusal says that no job exists.
func TestF15F20CreateAnswers(t *testing.T) {
	html := "<html>" + marker + "</html>"
	for name, tc := range map[string]struct {
		said said
		kind batch.Kind
		code string
		wait time.Duration
	}{
		"400":                     {said{400, nil, envelope("invalid_request_error", "")}, batch.Rejected, "invalid_request_error", 0},
		"400, tier's cap":         {said{400, nil, envelope("invalid_request_error", "enforced_spend_limit_reached")}, batch.OutOfCredit, "enforced_spend_limit_reached", 0},
		"400, on hold":            {said{400, nil, envelope("invalid_request_error", "organization_on_hold")}, batch.Denied, "organization_on_hold", 0},
		"400, customer's key":     {said{400, nil, envelope("invalid_request_error", "cmek_key_disabled")}, batch.Denied, "cmek_key_disabled", 0},
		"400, review disabled":    {said{400, nil, envelope("invalid_request_error", "workspace_human_review_disabled")}, batch.Denied, "workspace_human_review_disabled", 0},
		"400 of an edge":          {said{400, nil, html}, batch.UnknownOutcome, "", 0},
		"400 without outer type":  {said{400, nil, `{"error":{"type":"invalid_request_error"}}`}, batch.UnknownOutcome, "invalid_request_error", 0},
		"401":                     {said{401, nil, envelope("authentication_error", "")}, batch.Denied, "authentication_error", 0},
		"401 of an edge":          {said{401, nil, html}, batch.UnknownOutcome, "", 0},
		"402":                     {said{402, nil, envelope("billing_error", "")}, batch.OutOfCredit, "billing_error", 0},
		"403":                     {said{403, nil, envelope("permission_error", "")}, batch.Denied, "permission_error", 0},
		"404":                     {said{404, nil, envelope("not_found_error", "")}, batch.Rejected, "not_found_error", 0},
		"408":                     {said{408, nil, envelope("timeout_error", "")}, batch.UnknownOutcome, "timeout_error", 0},
		"409":                     {said{409, nil, envelope("conflict_error", "")}, batch.UnknownOutcome, "conflict_error", 0},
		"413 of an edge":          {said{413, nil, html}, batch.Rejected, anthropic.CodeTooLarge, 0},
		"413 in half an envelope": {said{413, nil, `{"error":{"type":"request_too_large","message":"x"}}`}, batch.Rejected, anthropic.CodeTooLarge, 0},
		"429, no time":            {said{429, nil, envelope("rate_limit_error", "")}, batch.RateLimited, "rate_limit_error", 0},
		"429, seconds":            {said{429, []string{"Retry-After", "90"}, envelope("rate_limit_error", "")}, batch.RateLimited, "rate_limit_error", 90 * time.Second},
		"429, date":               {said{429, []string{"Retry-After", "Sun, 01 Mar 2026 02:02:00 GMT"}, html}, batch.RateLimited, "", 2 * time.Minute},
		"429, tier's cap":         {said{429, nil, envelope("rate_limit_error", "enforced_spend_limit_reached")}, batch.OutOfCredit, "enforced_spend_limit_reached", 0},
		"500":                     {said{500, nil, envelope("api_error", "")}, batch.UnknownOutcome, "api_error", 0},
		"502":                     {said{502, nil, html}, batch.UnknownOutcome, "", 0},
		"504":                     {said{504, nil, envelope("timeout_error", "")}, batch.UnknownOutcome, "timeout_error", 0},
		"529":                     {said{529, []string{"Retry-After", "5"}, envelope("overloaded_error", "")}, batch.UnknownOutcome, "overloaded_error", 5 * time.Second},
		"418":                     {said{418, nil, envelope("invalid_request_error", "")}, batch.UnknownOutcome, "invalid_request_error", 0},
		"303":                     {said{303, []string{"Location", "/elsewhere"}, ""}, batch.UnknownOutcome, "", 0},
		"307":                     {said{307, []string{"Location", "/elsewhere"}, ""}, batch.UnknownOutcome, "", 0},
		"204":                     {said{204, nil, ""}, batch.UnknownOutcome, "", 0},
		"200, empty":              {said{200, nil, ""}, batch.UnknownOutcome, "", 0},
		"200, no id":              {said{200, nil, `{"type":"message_batch","processing_status":"in_progress"}`}, batch.UnknownOutcome, "", 0},
		"200, another object":     {said{200, nil, `{"id":"msg_1","type":"message","processing_status":"in_progress"}`}, batch.UnknownOutcome, "", 0},
		"200, no status":          {said{200, nil, `{"id":"msgbatch_1","type":"message_batch"}`}, batch.UnknownOutcome, "", 0},
		"200, an id for a path":   {said{200, nil, `{"id":"../files","type":"message_batch","processing_status":"ended"}`}, batch.UnknownOutcome, "", 0},
		"200, twice":              {said{200, nil, jobBody + jobBody}, batch.UnknownOutcome, "", 0},
		"200, a page":             {said{200, []string{"Content-Type", "text/html"}, html}, batch.UnknownOutcome, "", 0},
		"200, prose as a class":   {said{500, nil, envelope("about "+marker, "")}, batch.UnknownOutcome, "unprintable", 0},
		"200, encoded":            {said{200, []string{"Content-Encoding", "gzip"}, jobBody}, batch.UnknownOutcome, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, calls := scripted(t, tc.said)
			job, err := c.Create(t.Context(), small())
			var e *batch.Error
			if !errors.As(err, &e) || e.Kind != tc.kind || e.Code != tc.code || e.RetryAfter != tc.wait || job.ID != "" {
				t.Errorf("%+v, %v, waiting %v", job, err, batch.RetryAfter(err))
			}
			discreet(t, err)
			if calls.Load() != 1 {
				t.Errorf("%d calls", calls.Load())
			}
		})
	}
}

func TestCreateTakesTheDocumentedAnswer(t *testing.T) {
	for _, status := range []int{200, 201} {
		c, _ := scripted(t, said{status, []string{"Request-Id", "req_1"}, jobBody})
		job, err := c.Create(t.Context(), small())
		if err != nil || job.ID != "msgbatch_1" || job.Phase != batch.PhaseRunning || !job.Known || job.Counts != (batch.Counts{Total: 3}) ||
			!job.Expires.Equal(time.Date(2026, 3, 2, 2, 0, 0, 5e8, time.UTC)) {
			t.Errorf("%+v, %v", job, err)
		}
	}
}

// F17: the answer is lost, the job is not, and what the list tells of it is no
// more than a time and a number. Its results prove whose it is.
// A spend limit of the operator's own looks like any request that is wrong, and
// proves no less that nothing exists.
func TestCreateAtASpendLimit(t *testing.T) {
	for fault, want := range map[string]struct {
		kind batch.Kind
		code string
	}{
		"spend_limit":              {batch.OutOfCredit, "enforced_spend_limit_reached"},
		"spend_limit:form=billing": {batch.OutOfCredit, "billing_error"},
		"spend_limit:form=own":     {batch.Rejected, "invalid_request_error"},
	} {
		r := newRig(t)
		r.Faults(fault)
		_, err := r.Create(t.Context(), r.creation())
		var e *batch.Error
		if !errors.As(err, &e) || e.Kind != want.kind || e.Code != want.code || r.Jobs() != 0 {
			t.Errorf("%s: %v, and %d jobs", fault, err, r.Jobs())
		}
	}
}

func TestF17LostAnswerIsSettledByResults(t *testing.T) {
	r := newRig(t)
	for _, fault := range []string{"drop_after:times=1", "server_error:status=529,acted=true,op=create,times=1", "answer_cut:at=0.5,times=1"} {
		r.Faults(fault)
		if _, err := r.Create(t.Context(), r.creation()); !unknown(err) {
			t.Errorf("%s: %v", fault, err)
		}
	}
	page, err := r.ListJobs(t.Context(), "")
	if err != nil || len(page.Jobs) != 3 || page.Next != "" {
		t.Fatalf("%+v, %v", page, err)
	}
	l := page.Jobs[0]
	if l.Metadata != nil || l.FileID != "" || l.Counts.Total != 3 || !l.Created.Equal(start) {
		t.Errorf("%+v", l)
	}
	if _, err := r.content(l.ID); batch.KindOf(err) != batch.NotFound {
		t.Errorf("results before the end: %v", err)
	}
	r.Advance(2 * time.Minute)
	raw, err := r.content(r.status(l.ID).Files[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range items {
		if !bytes.Contains(raw, []byte(`"custom_id":"`+id+`"`)) {
			t.Errorf("%s is not in the results", id)
		}
	}
	if n := r.Books().Requests["create"]; n != 3 {
		t.Errorf("%d creates", n)
	}
}

// The body is one object whose list has the lines as its elements, and is as
// long as is announced.
func TestCreateBody(t *testing.T) {
	lines := []string{`{"custom_id":"a","params":{"x":"\n,"}}`, `{"custom_id":"b","params":{}}`, `{"custom_id":"c","params":{"text":"` + strings.Repeat("y", 100_000) + `"}}`}
	whole := strings.Join(lines, "\n") + "\n"
	for name, tc := range map[string]struct {
		body string
		step int
	}{
		"whole": {whole, len(whole)}, "in bytes": {lines[0] + "\n" + lines[1] + "\n", 1}, "in thirds": {whole, len(whole)/3 + 1},
		"by lines": {strings.Join(lines[:2], "\n") + "\n", len(lines[0]) + 1}, "feed apart": {strings.Join(lines[:2], "\n") + "\n", len(lines[0])},
		"one line": {lines[0] + "\n", 7}, "without the last feed": {lines[0] + "\n" + lines[1], 1000},
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			var announced int64
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				announced = r.ContentLength
				got, _ = io.ReadAll(r.Body)
				if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Idempotency-Key") != "" || len(r.TransferEncoding) != 0 {
					t.Errorf("headers %v", r.Header)
				}
				io.WriteString(w, jobBody)
			}))
			defer web.Close()
			_, err := newClient(t, web.URL).Create(t.Context(), batch.Creation{Key: "s1", Body: &batch.Input{Size: int64(len(tc.body)), Write: func(w io.Writer) error {
				for rest := tc.body; rest != ""; {
					n := min(tc.step, len(rest))
					if _, err := io.WriteString(w, rest[:n]); err != nil {
						return err
					}
					rest = rest[n:]
				}
				return nil
			}}})
			if err != nil {
				t.Fatal(err)
			}
			var parsed struct {
				Requests []jsontext.Value `json:"requests"`
			}
			if err := json.Unmarshal(got, &parsed, json.RejectUnknownMembers(true)); err != nil || announced != int64(len(got)) {
				t.Fatalf("%d bytes of %d announced, %v", len(got), announced, err)
			}
			want := strings.Split(strings.TrimSuffix(tc.body, "\n"), "\n")
			if len(parsed.Requests) != len(want) {
				t.Fatalf("%d requests, want %d", len(parsed.Requests), len(want))
			}
			for i := range want {
				if string(parsed.Requests[i]) != want[i] {
					t.Errorf("request %d differs", i)
				}
			}
		})
	}
}

// early is a client of a server that answers before it has read the body, and
// does not close the connection.
func early(t *testing.T, status int, body string) *anthropic.Client {
	t.Helper()
	over := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 %d Early\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
		<-over
	}))
	t.Cleanup(func() { close(over); web.Close() })
	return newClient(t, web.URL)
}

// An answer that comes before the body has been read: nobody can have made a job
// of it, but for a server that says so.
func TestCreateAnsweredEarly(t *testing.T) {
	errSource := errors.New("source")
	const size = 64 << 20
	chunk := bytes.Repeat([]byte{'x'}, 1<<20)
	create := func(c *anthropic.Client, hide bool) error {
		_, err := c.Create(t.Context(), batch.Creation{Body: &batch.Input{Size: size, Write: func(w io.Writer) error {
			for range size >> 20 {
				if _, err := w.Write(chunk); err != nil && hide {
					return errSource
				} else if err != nil {
					return err
				}
			}
			return nil
		}}})
		return err
	}
	for _, hide := range []bool{false, true} {
		if err := create(early(t, 413, "<html></html>"), hide); batch.KindOf(err) != batch.Rejected {
			t.Errorf("413: %v", err)
		}
		if err := create(early(t, 401, envelope("authentication_error", "")), hide); batch.KindOf(err) != batch.Denied {
			t.Errorf("401: %v", err)
		}
		if err := create(early(t, 200, jobBody), hide); !unknown(err) {
			t.Errorf("200: %v", err)
		}
	}
	if err := create(early(t, 502, "<html></html>"), false); !unknown(err) {
		t.Errorf("502: %v", err)
	}
	if err := create(early(t, 502, "<html></html>"), true); batch.KindOf(err) != batch.Temporary || !errors.Is(err, errSource) {
		t.Errorf("502, and the source ends: %v", err)
	}
}

// A job of another workspace is none of ours, and may have been made.
func TestOtherWorkspace(t *testing.T) {
	other := []string{"Anthropic-Workspace-Id", "wrkspc_2"}
	mine := func(c *anthropic.Config) { c.Workspace = "wrkspc_1" }
	c, _ := scripted(t, said{200, other, jobBody}, mine)
	if _, err := c.Create(t.Context(), small()); !unknown(err) {
		t.Error(err)
	}
	if _, err := c.Status(t.Context(), "msgbatch_1"); batch.KindOf(err) != batch.BadAnswer {
		t.Error(err)
	}
	if _, err := c.ListJobs(t.Context(), ""); batch.KindOf(err) != batch.BadAnswer {
		t.Error(err)
	}
	if _, _, err := c.Download(t.Context(), "msgbatch_1"); batch.KindOf(err) != batch.BadAnswer {
		t.Error(err)
	}
	if _, err := c.Inspect(t.Context(), "msgbatch_1"); err != nil {
		t.Error(err)
	}
	c, _ = scripted(t, said{200, []string{"Anthropic-Workspace-Id", "wrkspc_1"}, jobBody}, mine)
	if _, err := c.Create(t.Context(), small()); err != nil {
		t.Error(err)
	}
	c, _ = scripted(t, said{200, other, jobBody}) // none is configured
	if _, err := c.Status(t.Context(), "msgbatch_1"); err != nil {
		t.Error(err)
	}
}

// Headers in both forms, and nothing of the account beside them.
func TestHeaders(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*anthropic.Config)
		want    map[string]string
		without []string
	}{
		"default": {func(*anthropic.Config) {}, map[string]string{"X-Api-Key": testKey, "Anthropic-Version": "2023-06-01", "User-Agent": "rollcall"},
			[]string{"Authorization", "Anthropic-Workspace-Id", "Anthropic-Beta", "Idempotency-Key"}},
		"newer": {func(c *anthropic.Config) { newer(c); c.Workspace = "wrkspc_1" },
			map[string]string{"Authorization": "Bearer " + testKey, "Anthropic-Version": "2026-10-21", "Anthropic-Workspace-Id": "wrkspc_1"}, []string{"X-Api-Key", "Anthropic-Beta"}},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls++
				for k, v := range tc.want {
					if r.Header.Get(k) != v {
						t.Errorf("%s %s: %s is %q", r.Method, r.URL.Path, k, r.Header.Get(k))
					}
				}
				for _, k := range tc.without {
					if r.Header.Get(k) != "" {
						t.Errorf("%s %s: %s is there", r.Method, r.URL.Path, k)
					}
				}
			}))
			defer web.Close()
			c := newClient(t, web.URL, tc.change)
			ctx := t.Context()
			c.Create(ctx, small())
			c.Status(ctx, "msgbatch_1")
			c.ListJobs(ctx, "msgbatch_1")
			c.Cancel(ctx, "msgbatch_1")
			c.DeleteJob(ctx, "msgbatch_1")
			c.Inspect(ctx, "msgbatch_1")
			c.Download(ctx, "msgbatch_1")
			c.Check(ctx, question())
			if calls != 8 {
				t.Errorf("%d calls", calls)
			}
		})
	}
}
