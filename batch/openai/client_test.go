package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/batch"
)

// fixed is a client of a server that answers every call alike.
func fixed(t *testing.T, status int, header map[string]string, body string) *Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	cfg := config(srv.URL)
	cfg.Now = func() time.Time { return time.Date(2026, 10, 21, 7, 0, 0, 0, time.UTC) }
	return newClient(t, cfg)
}

// codeOf is the code of an error that a Client returned.
func codeOf(err error) string {
	var e *batch.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func envelopeOf(code, typ, message string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%q}}`, message, typ, code)
}

// Only a create is about the input: the same words about a result file must
// not be shown as a missing input.
func TestMissingFileIsTheInputInACreateAlone(t *testing.T) {
	c := fixed(t, 400, nil, envelopeOf("invalid_request", "t", "No such File object: file-1"))
	_, err := c.Create(t.Context(), batch.Creation{FileID: "file-1"})
	if batch.KindOf(err) != batch.Temporary || codeOf(err) != CodeFileNotFound {
		t.Errorf("create: %v", err)
	}
	if _, _, err := c.Download(t.Context(), "file-1"); codeOf(err) != "invalid_request" {
		t.Errorf("download: %v", err)
	}
}

// Each answer, as a create reads it and as a look-up reads it.
func TestAnswersByStatus(t *testing.T) {
	const prose = "about the report: I hurt"
	envelope := envelopeOf("some_code", "some_type", prose)
	for _, tc := range []struct {
		name         string
		status       int
		body         string
		create, read batch.Kind
		code         string
	}{
		{"400", 400, envelope, batch.Rejected, batch.Rejected, "some_code"},
		{"400 no code", 400, `{"error":{"message":"x","type":"invalid_request_error","param":null,"code":null}}`, batch.Rejected, batch.Rejected, "invalid_request_error"},
		{"400 code is a number", 400, `{"error":{"message":"x","code":400}}`, batch.Rejected, batch.Rejected, ""},
		{"400 code is prose", 400, envelopeOf(prose, "t", prose), batch.Rejected, batch.Rejected, "unprintable"},
		{"400 page", 400, "<html>bad</html>", batch.UnknownOutcome, batch.Rejected, ""},
		{"400 text error", 400, `{"error":"bad"}`, batch.UnknownOutcome, batch.Rejected, ""},
		{"400 empty error", 400, `{"error":{}}`, batch.UnknownOutcome, batch.Rejected, ""},
		{"400 file not found", 400, envelopeOf("invalid_request", "t", "Cannot find file file-1, or project x does not have access"), batch.Temporary, batch.Rejected, ""},
		{"400 billing", 400, envelopeOf("billing_hard_limit_reached", "t", prose), batch.OutOfCredit, batch.OutOfCredit, "billing_hard_limit_reached"},
		{"401", 401, envelope, batch.Denied, batch.Denied, "some_code"},
		{"401 page", 401, "<html>", batch.UnknownOutcome, batch.Denied, ""},
		{"402", 402, envelope, batch.OutOfCredit, batch.OutOfCredit, "some_code"},
		{"403", 403, envelope, batch.Denied, batch.Denied, "some_code"},
		{"404", 404, envelope, batch.Rejected, batch.NotFound, "some_code"},
		{"404 page", 404, "nothing here", batch.UnknownOutcome, batch.NotFound, ""},
		{"405", 405, envelope, batch.UnknownOutcome, batch.Rejected, "some_code"},
		{"408", 408, envelope, batch.UnknownOutcome, batch.Temporary, "some_code"},
		{"409", 409, envelope, batch.UnknownOutcome, batch.Temporary, "some_code"},
		{"410", 410, envelope, batch.UnknownOutcome, batch.NotFound, "some_code"},
		{"413", 413, envelope, batch.Rejected, batch.Rejected, "some_code"},
		{"422", 422, envelope, batch.Rejected, batch.Rejected, "some_code"},
		{"429", 429, envelope, batch.RateLimited, batch.RateLimited, "some_code"},
		{"429 page", 429, "slow down", batch.RateLimited, batch.RateLimited, ""},
		{"429 quota by type", 429, `{"error":{"type":"insufficient_quota","code":null}}`, batch.OutOfCredit, batch.OutOfCredit, "insufficient_quota"},
		{"429 balance", 429, envelopeOf("credit_balance_exhausted", "insufficient_quota", prose), batch.OutOfCredit, batch.OutOfCredit, "credit_balance_exhausted"},
		{"500", 500, envelope, batch.UnknownOutcome, batch.Temporary, "some_code"},
		{"502 page", 502, "<html>bad gateway</html>", batch.UnknownOutcome, batch.Temporary, ""},
		{"503", 503, envelopeOf("server_is_overloaded", "service_unavailable_error", prose), batch.UnknownOutcome, batch.Temporary, "server_is_overloaded"},
		{"301", 301, "", batch.UnknownOutcome, batch.BadAnswer, ""},
		{"303", 303, "", batch.UnknownOutcome, batch.BadAnswer, ""},
		{"308", 308, "", batch.UnknownOutcome, batch.BadAnswer, ""},
		{"204", 204, "", batch.UnknownOutcome, batch.BadAnswer, ""},
		{"200 empty object", 200, "{}", batch.UnknownOutcome, batch.BadAnswer, ""},
		{"200 nothing", 200, "", batch.UnknownOutcome, batch.BadAnswer, ""},
		{"200 page", 200, "<html>login</html>", batch.UnknownOutcome, batch.BadAnswer, ""},
		{"200 error", 200, envelope, batch.UnknownOutcome, batch.BadAnswer, ""},
		{"200 no status", 200, `{"id":"batch_1","object":"batch"}`, batch.UnknownOutcome, batch.BadAnswer, ""},
		{"200 name twice", 200, `{"id":"batch_1","status":"failed","status":"validating"}`, batch.UnknownOutcome, batch.BadAnswer, ""},
		{"200 id is a path", 200, `{"id":"../x","status":"validating"}`, batch.UnknownOutcome, batch.BadAnswer, ""},
		{"200 other id and file", 200, `{"id":"batch_2","status":"validating","input_file_id":"file-2"}`, batch.UnknownOutcome, batch.BadAnswer, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := fixed(t, tc.status, map[string]string{"Retry-After": "Wed, 21 Oct 2026 07:00:09 GMT", "X-Request-Id": "req_1", "Location": "https://example.org/"}, tc.body)
			_, createErr := c.Create(t.Context(), batch.Creation{FileID: "file-1"})
			_, statusErr := c.Status(t.Context(), "batch_1")
			for _, got := range []struct {
				err  error
				want batch.Kind
			}{{createErr, tc.create}, {statusErr, tc.read}} {
				err, want := got.err, got.want
				var e *batch.Error
				if !errors.As(err, &e) || e.Kind != want || e.HTTPStatus != tc.status || e.RequestID != "req_1" {
					t.Errorf("got %v, want %s", err, want)
					continue
				}
				if tc.code != "" && e.Code != tc.code || tc.status >= 300 && e.RetryAfter != 9*time.Second {
					t.Errorf("code %q after %v, want %q after 9s", e.Code, e.RetryAfter, tc.code)
				}
				if strings.Contains(err.Error(), "hurt") || strings.Contains(err.Error(), "html") {
					t.Errorf("the error quotes the answer: %v", err)
				}
			}
		})
	}
}

// A job is ours when the answer says over which file it is, and nothing else
// about it. Without that there may be a job all the same, so it is no refusal.
func TestCreateWantsItsEcho(t *testing.T) {
	for _, tc := range []struct{ name, members, code string }{
		{"whole", `,"input_file_id":"file-1","metadata":{"job":"j1","try":"2"}`, ""},
		{"other order and more", `,"metadata":{"x":7,"try":"2","job":"j1"},"input_file_id":"file-1"`, ""},
		{"no metadata", `,"input_file_id":"file-1"`, ""},
		{"null metadata", `,"input_file_id":"file-1","metadata":null`, ""},
		{"metadata of a wrong type", `,"input_file_id":"file-1","metadata":"j1"`, ""},
		{"part of the metadata", `,"input_file_id":"file-1","metadata":{"try":"2","job":null}`, ""},
		{"no file", ``, codeOtherFile},
		{"no file, our metadata", `,"metadata":{"job":"j1","try":"2"}`, codeOtherFile},
		{"null file", `,"input_file_id":null`, codeOtherFile},
		{"empty file", `,"input_file_id":""`, codeOtherFile},
		{"file is a number", `,"input_file_id":1`, codeOtherFile},
		{"other file", `,"input_file_id":"file-2","metadata":{"job":"j1","try":"2"}`, codeOtherFile},
		{"other job", `,"input_file_id":"file-1","metadata":{"job":"j2","try":"2"}`, codeOtherMetadata},
		{"other try", `,"input_file_id":"file-1","metadata":{"job":"j1","try":"1"}`, codeOtherMetadata},
		{"empty value", `,"input_file_id":"file-1","metadata":{"job":"j1","try":""}`, codeOtherMetadata},
		{"value is a number", `,"input_file_id":"file-1","metadata":{"job":"j1","try":2}`, codeOtherMetadata},
	} {
		c := fixed(t, 200, nil, `{"id":"batch_1","status":"validating"`+tc.members+`}`)
		job, err := c.Create(t.Context(), batch.Creation{FileID: "file-1", Metadata: map[string]string{"job": "j1", "try": "2"}})
		var e *batch.Error
		switch {
		case tc.code == "":
			if err != nil || job.ID != "batch_1" {
				t.Errorf("%s: %+v, %v", tc.name, job, err)
			}
		case !errors.As(err, &e) || e.Kind != batch.UnknownOutcome || e.Code != tc.code || job.ID != "":
			t.Errorf("%s: %+v, %v, want code %s", tc.name, job, err, tc.code)
		}
		if _, err := c.Status(t.Context(), "batch_1"); err != nil { // it was asked by its id
			t.Errorf("%s: status: %v", tc.name, err)
		}
	}
}

func TestCreateRequest(t *testing.T) {
	c := newClient(t, config("http://127.0.0.1:1"))
	body, err := c.createBody(batch.Creation{FileID: "file-1", Metadata: map[string]string{"b": "2", "a": "1"}, OutputExpiry: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"a":"1","b":"2"},"output_expires_after":{"anchor":"created_at","seconds":3600}}`
	if string(body) != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	many := map[string]string{}
	for i := range maxMetadata + 1 {
		many[fmt.Sprint(i)] = "x"
	}
	for name, cr := range map[string]batch.Creation{
		"no file":    {},
		"path":       {FileID: "../x"},
		"many pairs": {FileID: "file-1", Metadata: many},
		"long key":   {FileID: "file-1", Metadata: map[string]string{strings.Repeat("k", 65): ""}},
		"long value": {FileID: "file-1", Metadata: map[string]string{"k": strings.Repeat("v", 513)}},
		"not UTF-8":  {FileID: "file-1", Metadata: map[string]string{"k": "\xff"}},
	} {
		if _, err := c.createBody(cr); batch.KindOf(err) != batch.Rejected {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExpiry(t *testing.T) {
	var own, azure, groq Dialect = Dialect{}, Azure, Groq
	for _, d := range []*Dialect{&own, &azure, &groq} {
		d.complete()
		if d.Expiry.of(0) != nil || d.Expiry.of(-1) != nil {
			t.Error("an expiry that was not asked for")
		}
	}
	for d, want := range map[time.Duration][2]int64{
		time.Second: {3600, 1209600}, 72 * time.Hour: {259200, 1209600}, 20 * 24 * time.Hour: {1728000, 1728000}, 10_000 * time.Hour: {2592000, 2592000},
	} {
		if got := [2]int64{own.Expiry.of(d).Seconds, azure.Expiry.of(d).Seconds}; got != want || own.Expiry.of(d).Anchor != "created_at" {
			t.Errorf("%v: %d s, want %d", d, got, want)
		}
		if got := groq.Expiry.of(d); got != nil {
			t.Errorf("%v: %+v where no expiry can be asked for", d, got)
		}
	}
}

// An upload is sent with its length, in a stream, and its memory does not grow
// with its size.
func TestUploadStreams(t *testing.T) {
	const size = 64 << 20
	line := []byte(strings.Repeat("x", 4095) + "\n")
	var length, fileBytes int64
	var form map[string]string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		length, form, fileBytes = r.ContentLength, map[string]string{}, 0
		mr, err := r.MultipartReader()
		if err != nil {
			t.Error(err)
			return
		}
		for {
			part, err := mr.NextPart()
			if err != nil {
				break
			}
			if part.FormName() == "file" {
				fileBytes, _ = io.Copy(io.Discard, part)
				form["file"] = part.FileName()
				continue
			}
			b, _ := io.ReadAll(part)
			form[part.FormName()] = string(b)
		}
		fmt.Fprintf(w, `{"id":"file-1","bytes":%d}`, fileBytes)
	}))
	t.Cleanup(srv.Close)
	c := newClient(t, config(srv.URL))

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	id, err := c.Upload(t.Context(), batch.Input{Name: "rc-1.jsonl", Size: size, Expiry: time.Hour, Write: func(w io.Writer) error {
		for range size / len(line) {
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
		return nil
	}})
	runtime.ReadMemStats(&after)
	if err != nil || id != "file-1" || fileBytes != size || length <= size || length > size+2048 {
		t.Errorf("id %q, error %v, %d bytes of a body of %d", id, err, fileBytes, length)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
		t.Errorf("%d bytes were allocated for an upload of %d", grown, int64(size))
	}
	if form["purpose"] != "batch" || form["file"] != "rc-1.jsonl" || form["expires_after[anchor]"] != "created_at" || form["expires_after[seconds]"] != "3600" {
		t.Errorf("form %v", form)
	}
	for _, name := range []string{"", "x", "x.json", "a b.jsonl", "a\".jsonl", "../x.jsonl"} {
		if _, err := c.Upload(t.Context(), batch.Input{Name: name}); batch.KindOf(err) != batch.Rejected {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

// A refusal may come before the body is read: Write must be stopped and waited
// for, and the refusal is what counts.
func TestUploadRefusedEarly(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		io.WriteString(w, envelopeOf("file_too_large", "invalid_request_error", "x"))
	}))
	t.Cleanup(srv.Close)
	c := newClient(t, config(srv.URL))
	var running atomic.Bool
	_, err := c.Upload(t.Context(), batch.Input{Name: "rc-1.jsonl", Size: 1 << 30, Write: func(w io.Writer) error {
		running.Store(true)
		defer running.Store(false)
		chunk := make([]byte, 1<<16)
		for {
			if _, err := w.Write(chunk); err != nil {
				return err
			}
		}
	}})
	if kind := batch.KindOf(err); kind != batch.Rejected && kind != batch.Temporary {
		// The connection may break before the refusal is read: then it is
		// Temporary, and the next try may tell.
		t.Error(err)
	}
	if running.Load() {
		t.Error("Write outlives Upload")
	}
}

func TestUploadChecksTheFile(t *testing.T) {
	for body, ok := range map[string]bool{
		`{"id":"file-1","bytes":2}`: true, `{"id":"file-1","bytes":null}`: true, `{"id":"file-1"}`: true,
		`{"id":"file-1","bytes":1}`: false, `{"id":"","bytes":2}`: false, `{"id":"a/b"}`: false, `[]`: false, ``: false,
	} {
		c := fixed(t, 200, nil, body)
		_, err := c.Upload(t.Context(), batch.Input{Name: "rc-1.jsonl", Size: 2, Write: func(w io.Writer) error { _, err := w.Write([]byte("ab")); return err }})
		if ok != (err == nil) || !ok && batch.KindOf(err) != batch.BadAnswer {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestDeleteNeedsItsProof(t *testing.T) {
	for body, ok := range map[string]bool{
		`{"id":"file-1","deleted":true}`: true, `{"id":"file-1","deleted":false}`: false, `{"id":"file-2","deleted":true}`: false,
		`{"id":"file-1","deleted":"true"}`: false, `{}`: false, `<html>`: false,
	} {
		err := fixed(t, 200, nil, body).DeleteFile(t.Context(), "file-1")
		if ok != (err == nil) || !ok && batch.KindOf(err) != batch.BadAnswer {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, status := range []int{204, 404, 410} {
		if err := fixed(t, status, nil, "").DeleteFile(t.Context(), "file-1"); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestDownloadRefusesPages(t *testing.T) {
	_, _, err := fixed(t, 200, map[string]string{"Content-Type": "text/html; charset=utf-8"}, "<html>").Download(t.Context(), "file-1")
	if batch.KindOf(err) != batch.BadAnswer {
		t.Error(err)
	}
	_, _, err = fixed(t, 200, map[string]string{"Content-Encoding": "gzip"}, "x").Download(t.Context(), "file-1")
	if batch.KindOf(err) != batch.BadAnswer {
		t.Error(err)
	}
	body, size, err := fixed(t, 200, map[string]string{"Content-Type": "application/jsonl"}, "").Download(t.Context(), "file-1")
	if err != nil || size != 0 {
		t.Fatalf("an empty file: size %d, %v", size, err)
	}
	if b, err := io.ReadAll(body); len(b) != 0 || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	body.Close()
}

// Ids go into paths, so that a bad one must not leave the process.
func TestIDsAreChecked(t *testing.T) {
	cfg := config("http://127.0.0.1:1")
	cfg.Record = func(_, addr string) { t.Errorf("dialled %s", addr) }
	c := newClient(t, cfg)
	for _, id := range []string{"", ".", "..", "../files", "a/b", "a?b", "a#b", "a b", "ä", "a%2fb", strings.Repeat("a", 129)} {
		_, err := c.Status(t.Context(), id)
		_, _, err2 := c.Download(t.Context(), id)
		err3 := c.DeleteFile(t.Context(), id)
		if batch.KindOf(err) != batch.Rejected || batch.KindOf(err2) != batch.Rejected || batch.KindOf(err3) != batch.Rejected {
			t.Errorf("%q: %v, %v, %v", id, err, err2, err3)
		}
	}
}

func TestCallTimeout(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(srv.Close)
	cfg := config(srv.URL)
	cfg.CallTimeout = 20 * time.Millisecond
	c := newClient(t, cfg)
	if _, err := c.Create(t.Context(), batch.Creation{FileID: "file-1"}); batch.KindOf(err) != batch.UnknownOutcome || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := c.Status(t.Context(), "batch_1"); batch.KindOf(err) != batch.Temporary {
		t.Error(err)
	}
}

func TestFingerprint(t *testing.T) {
	of := func(change func(*Config)) string {
		cfg := config("http://127.0.0.1:1")
		change(&cfg)
		return newClient(t, cfg).Account().Fingerprint
	}
	rotated := func(cfg *Config) { cfg.APIKey = func() string { return "sk-other" } }
	same := of(func(*Config) {})
	if len(same) != 26 || of(func(*Config) {}) != same || of(rotated) != same {
		t.Error("rotating the key of a project changes the account")
	}
	seen := map[string]bool{same: true}
	for name, change := range map[string]func(*Config){
		"project":      func(c *Config) { c.Project = "proj_2" },
		"organization": func(c *Config) { c.Organization = "org_2" },
		"host":         func(c *Config) { c.BaseURL = "http://127.0.0.1:2/v1" },
		"secret":       func(c *Config) { c.FingerprintKey = make([]byte, 32) },
		"key alone":    func(c *Config) { c.Project = "" },
		"other key":    func(c *Config) { c.Project = ""; rotated(c) },
		"key as name":  func(c *Config) { c.Project = testKey },
	} {
		f := of(change)
		if seen[f] {
			t.Errorf("%s does not change the fingerprint", name)
		}
		seen[f] = true
	}
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no name":         func(c *Config) { c.Name = "" },
		"no key":          func(c *Config) { c.APIKey = nil },
		"empty key":       func(c *Config) { c.APIKey = func() string { return "" } },
		"key with a feed": func(c *Config) { c.APIKey = func() string { return "sk\n" } },
		"project":         func(c *Config) { c.Project = "a b" },
		"fingerprint key": func(c *Config) { c.FingerprintKey = []byte("short") },
		"plain http":      func(c *Config) { c.AllowLoopback = false },
		"secret in URL":   func(c *Config) { c.BaseURL = "https://u:" + testKey + "@h/v1" },
		"query in URL":    func(c *Config) { c.BaseURL = "https://h/v1?key=" + testKey },
		"no host":         func(c *Config) { c.BaseURL = "https:///v1" },
		"not a URL":       func(c *Config) { c.BaseURL = "://" + testKey },

		"endpoint":           func(c *Config) { c.Endpoint = "embeddings" },
		"processor":          func(c *Config) { c.Processor = "Open AI" },
		"query name":         func(c *Config) { c.Query = map[string]string{"api version": "1"} },
		"query value":        func(c *Config) { c.Query = map[string]string{"api-version": "1 2"} },
		"query of the lists": func(c *Config) { c.Query = map[string]string{"limit": "1"} },
		"deployment":         func(c *Config) { c.Deployments = map[string]string{"gpt-4.1": ""} },
		"deployment's name":  func(c *Config) { c.Deployments = map[string]string{"gpt-4.1": "a b"} },
		"key header":         func(c *Config) { c.Dialect.KeyHeader = "Api-Key\n" },
		"window":             func(c *Config) { c.Dialect.Window = "soon" },
		"settlement":         func(c *Config) { c.Dialect.Settlement = batch.SettleByKey },
		"key window":         func(c *Config) { c.Dialect.Limits.KeyWindow = time.Hour },
		"limits":             func(c *Config) { c.Dialect.Limits.Items = -1 },
		"expiry":             func(c *Config) { c.Dialect.Expiry = Expiry{Min: 2 * time.Hour, Max: time.Hour} },
		"role":               func(c *Config) { c.Dialect.Role = `x","y":"` },
		"tokens field":       func(c *Config) { c.Dialect.TokensField = `x":1,"y` },
		"regions":            func(c *Config) { c.Dialect.Residency = Residency{Domain: "h.test", Regions: []string{"EU"}} },
	} {
		cfg := config("http://127.0.0.1:1")
		change(&cfg)
		_, err := New(cfg)
		if err == nil || strings.Contains(err.Error(), testKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := config("http://127.0.0.1:1")
	cfg.BaseURL, cfg.AllowLoopback = "", false
	c := newClient(t, cfg)
	if got := c.Account().Host; got != "api.openai.com" {
		t.Errorf("host %q", got)
	}
}

// A body of another length is a fault of ours with a name of its own, even
// when Write does not look at the writer's errors.
func TestUploadLengthHasACode(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			t.Error("a body of another length arrived whole")
		}
	}))
	t.Cleanup(srv.Close)
	c := newClient(t, config(srv.URL))
	for name, chunks := range map[string][]string{"short": {"abc"}, "long": {"abcd", "e"}, "long at once": {"abcde"}, "none": nil} {
		_, err := c.Upload(t.Context(), batch.Input{Name: "rc-1.jsonl", Size: 4, Write: func(w io.Writer) error {
			for _, chunk := range chunks {
				io.WriteString(w, chunk)
			}
			return nil
		}})
		if batch.KindOf(err) != batch.Temporary || codeOf(err) != CodeBodySize {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An answer that comes before the body was sent cannot be about it.
func TestUploadAnsweredEarly(t *testing.T) {
	returned := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const answer = `{"id":"file-1"}`
		rc := http.NewResponseController(w)
		if err := rc.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
		io.WriteString(w, answer)
		if err := rc.Flush(); err != nil {
			t.Error(err)
		}
		<-returned // the connection stays open, so that the answer is read
	}))
	t.Cleanup(srv.Close)
	c := newClient(t, config(srv.URL))
	id, err := c.Upload(t.Context(), batch.Input{Name: "rc-1.jsonl", Size: 1 << 30, Write: func(w io.Writer) error {
		chunk := make([]byte, 1<<16)
		for {
			if _, err := w.Write(chunk); err != nil {
				return err
			}
		}
	}})
	close(returned)
	if id != "" || batch.KindOf(err) != batch.BadAnswer {
		t.Errorf("%q, %v", id, err)
	}
}
