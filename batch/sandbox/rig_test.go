package sandbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"rollcall/batch/sandbox"
)

// marker is in every report text of these tests, and may be in no log line.
const marker = "MARKER-7f3a"

const answerSchema = `{"type":"object","properties":{"label":{"type":"string","enum":["unsafe_advice","harassment","self_harm","spam","ok"]},` +
	`"evidence":{"type":"array","items":{"type":"string"}},"severity":{"type":"integer","minimum":1,"maximum":5},"note":{"type":["string","null"]}},` +
	`"required":["label","evidence","severity","note"],"additionalProperties":false}`

// tick is a real clock that moves when a test says so.
type tick struct {
	mu sync.Mutex
	t  time.Time
}

func (c *tick) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *tick) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// syncBuffer collects the log of a server that several goroutines use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// rig is a sandbox behind a real socket.
type rig struct {
	*testing.T
	dir    string
	clock  *tick
	log    *syncBuffer
	server *sandbox.Server
	url    string
	key    string
	client *http.Client
	stop   func()
}

func newRig(t *testing.T, change ...func(*sandbox.Options)) *rig {
	t.Helper()
	r := &rig{
		T: t, dir: t.TempDir(), key: "key-a", log: new(syncBuffer),
		clock: &tick{t: time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)},
	}
	r.start(change...)
	t.Cleanup(func() {
		r.stop()
		if strings.Contains(r.log.String(), marker) {
			t.Error("report text is in the log")
		}
		if strings.Contains(r.log.String(), "sandbox failed") {
			t.Errorf("the sandbox failed:\n%s", r.log.String())
		}
	})
	return r
}

// start opens a server on the rig's folder, as a new process would.
func (r *rig) start(change ...func(*sandbox.Options)) {
	r.Helper()
	o := sandbox.Options{Dir: r.dir, Now: r.clock.now, Seed: 42, Log: zerolog.New(r.log)}
	for _, f := range change {
		f(&o)
	}
	s, err := sandbox.New(o)
	if err != nil {
		r.Fatalf("open sandbox: %v", err)
	}
	web := httptest.NewUnstartedServer(s)
	web.Config.ErrorLog = nil
	web.Start()
	r.server, r.url = s, web.URL
	r.client = &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r.stop = func() {
		if err := s.Close(); err != nil {
			r.Errorf("close sandbox: %v", err)
		}
		web.Close()
	}
}

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
	if err := r.server.SetFaults(all...); err != nil {
		r.Fatal(err)
	}
}

// do sends a request; err is a transport error.
func (r *rig) do(method, path, contentType string, body io.Reader) (*http.Response, error) {
	r.Helper()
	req, err := http.NewRequest(method, r.url+path, body)
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return r.client.Do(req)
}

// call sends a request and decodes the JSON answer.
func (r *rig) call(method, path string, body any) (int, map[string]any) {
	r.Helper()
	resp, err := r.do(method, path, "application/json", encoded(r.T, body))
	if err != nil {
		r.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, r.decode(resp)
}

// encoded is a request body; nil has none.
func encoded(t *testing.T, body any) io.Reader {
	t.Helper()
	if body == nil {
		return nil
	}
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b)
}

func (r *rig) decode(resp *http.Response) map[string]any {
	r.Helper()
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		r.Fatalf("decode answer: %v", err)
	}
	return out
}

// uploadForm is a multipart body.
func uploadForm(name, content string, fields ...string) (contentType string, body *bytes.Buffer) {
	body = new(bytes.Buffer)
	w := multipart.NewWriter(body)
	for i := 0; i+1 < len(fields); i += 2 {
		w.WriteField(fields[i], fields[i+1])
	}
	if name != "" {
		part, _ := w.CreateFormFile("file", name)
		io.WriteString(part, content)
	}
	w.Close()
	return w.FormDataContentType(), body
}

func (r *rig) upload(content string) string {
	r.Helper()
	ct, body := uploadForm("in.jsonl", content, "purpose", "batch")
	resp, err := r.do("POST", "/v1/files", ct, body)
	if err != nil {
		r.Fatal(err)
	}
	out := r.decode(resp)
	if resp.StatusCode != 200 {
		r.Fatalf("upload: HTTP %d %v", resp.StatusCode, out)
	}
	return out["id"].(string)
}

func creation(fileID string) map[string]any {
	return map[string]any{"input_file_id": fileID, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
}

func (r *rig) create(fileID string) string {
	r.Helper()
	status, out := r.call("POST", "/v1/batches", creation(fileID))
	if status != 200 {
		r.Fatalf("create: HTTP %d %v", status, out)
	}
	return out["id"].(string)
}

func (r *rig) job(id string) map[string]any {
	r.Helper()
	status, out := r.call("GET", "/v1/batches/"+id, nil)
	if status != 200 {
		r.Fatalf("status: HTTP %d %v", status, out)
	}
	return out
}

func (r *rig) content(fileID any) string {
	r.Helper()
	resp, err := r.do("GET", fmt.Sprintf("/v1/files/%v/content", fileID), "", nil)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		r.Fatalf("content: HTTP %d, %v", resp.StatusCode, err)
	}
	return string(b)
}

// until returns when the books say so, which another goroutine is bringing about.
func (r *rig) until(ok func(sandbox.Books) bool) {
	r.Helper()
	for {
		b, err := r.server.Books()
		if err != nil {
			r.Fatal(err)
		}
		if ok(b) {
			return
		}
		runtime.Gosched()
	}
}

// run uploads, creates, lets time pass and returns the finished job.
func (r *rig) run(input string) map[string]any {
	r.Helper()
	id := r.create(r.upload(input))
	r.clock.add(2 * time.Minute)
	return r.job(id)
}

type line map[string]any

// request is a valid request line.
func request(customID, text string) line {
	report, _ := json.Marshal(map[string]string{"report": text})
	return line{"custom_id": customID, "method": "POST", "url": "/v1/chat/completions", "body": map[string]any{
		"model": "gpt-test",
		"messages": []any{
			map[string]any{"role": "developer", "content": "Classify the report."},
			map[string]any{"role": "user", "content": string(report)},
		},
		"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "verdict", "strict": true, "schema": json.RawMessage(answerSchema)}},
	}}
}

// with returns the line with changes; a nil value removes the key. A key that
// begins with "body." is one of the body's.
func (l line) with(key string, value any) line {
	out := line{}
	for k, v := range l {
		out[k] = v
	}
	target := map[string]any(out)
	if rest, ok := strings.CutPrefix(key, "body."); ok {
		body := map[string]any{}
		for k, v := range l["body"].(map[string]any) {
			body[k] = v
		}
		out["body"], target, key = body, body, rest
	}
	if target[key] = value; value == nil {
		delete(target, key)
	}
	return out
}

func jsonl(lines ...line) string {
	var b strings.Builder
	for _, l := range lines {
		j, _ := json.Marshal(l)
		b.Write(j)
		b.WriteByte('\n')
	}
	return b.String()
}

// inputOf makes n lines work000-s1, work001-s1, …
func inputOf(n int) string {
	var lines []line
	for i := range n {
		lines = append(lines, request(fmt.Sprintf("work%03d-s1", i), fmt.Sprintf("Report %d %s: click here for a miracle", i, marker)))
	}
	return jsonl(lines...)
}

// result is a result line as a client would read it.
type result struct {
	CustomID *string `json:"custom_id"`
	Response *struct {
		Status int `json:"status_code"`
		Body   struct {
			Model       string `json:"model"`
			Fingerprint string `json:"system_fingerprint"`
			Choices     []struct {
				Finish  string `json:"finish_reason"`
				Message struct {
					Content *string `json:"content"`
					Refusal *string `json:"refusal"`
				} `json:"message"`
			} `json:"choices"`
			Error *struct {
				Code *string `json:"code"`
			} `json:"error"`
		} `json:"body"`
	} `json:"response"`
	Error *struct {
		Code string `json:"code"`
	} `json:"error"`
}

// results splits on line feeds and decodes every line.
func results(t testing.TB, content string) []result {
	t.Helper()
	var out []result
	for _, l := range splitLines(content) {
		var res result
		if err := json.Unmarshal([]byte(l), &res); err != nil {
			t.Fatalf("result line: %v", err)
		}
		out = append(out, res)
	}
	return out
}

func splitLines(content string) []string {
	content = strings.TrimSuffix(content, "\n")
	if content == "" {
		return nil
	}
	return strings.Split(content, "\n")
}

// at walks into decoded JSON: at(v, "request_counts", "total").
func at(v any, path ...string) any {
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}
