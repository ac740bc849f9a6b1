package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"rollcall/batch/batchtest"
)

const testKey = "sk-test-31f7c0ffee"

// server is a small far side: enough of the API for the contract suite, and a
// fault for the next call.
type server struct {
	*httptest.Server
	t     *testing.T
	other *httptest.Server

	mu      sync.Mutex
	armed   map[batchtest.Op]batchtest.Fault
	calls   map[batchtest.Op]int
	files   map[string][]byte
	inputs  map[string]string // the names of the files that were uploaded
	jobs    map[string]map[string]any
	page    int // entries of a page; 0 as asked
	strayed int
	last    int // the last id that was given out
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{
		t:      t,
		armed:  map[batchtest.Op]batchtest.Fault{},
		calls:  map[batchtest.Op]int{},
		files:  map[string][]byte{},
		inputs: map[string]string{},
		jobs:   map[string]map[string]any{},
	}
	s.other = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.strayed++
	}))
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() { s.Server.Close(); s.other.Close() })
	return s
}

// config is an account at a loopback server.
func config(baseURL string) Config {
	return Config{
		Name:           "main",
		BaseURL:        baseURL + "/v1",
		Project:        "proj_1",
		APIKey:         func() string { return testKey },
		FingerprintKey: bytes.Repeat([]byte("k"), 32),
		AllowLoopback:  true,
	}
}

func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func TestContract(t *testing.T) {
	batchtest.Run(t, func(t *testing.T) batchtest.Subject {
		s := newServer(t)
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		return batchtest.Subject{
			Provider:    newClient(t, config(s.URL)),
			Server:      s,
			Secrets:     []string{testKey, "Bearer", s.URL + "/v1"},
			Unreachable: newClient(t, config(gone.URL)),
		}
	})
}

func (s *server) Arm(op batchtest.Op, f batchtest.Fault) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed[wire(op)] = f
	return true
}

// wire is op as it looks on the wire.
func wire(op batchtest.Op) batchtest.Op {
	if op == batchtest.OpInspect {
		return batchtest.OpStatus
	}
	return op
}

func (s *server) Page(entries int) { s.mu.Lock(); defer s.mu.Unlock(); s.page = entries }
func (s *server) Calls(op batchtest.Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[wire(op)]
}
func (s *server) Jobs() int    { s.mu.Lock(); defer s.mu.Unlock(); return len(s.jobs) }
func (s *server) Files() int   { s.mu.Lock(); defer s.mu.Unlock(); return len(s.files) }
func (s *server) Strayed() int { s.mu.Lock(); defer s.mu.Unlock(); return s.strayed }

func (s *server) id(prefix string) string {
	s.last++
	return prefix + strconv.Itoa(s.last)
}

func (s *server) Plan(batchtest.Ending) {}

func (s *server) Finish(jobID string, e batchtest.Ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	job := s.jobs[jobID]
	if e == batchtest.BodyRefused {
		job["status"] = "failed"
		job["errors"] = map[string]any{"data": []any{map[string]any{"code": "invalid_json_line", "message": batchtest.Marker, "line": 1}}}
		return
	}
	job["status"] = "completed"
	var output, failed []byte
	lines := bytes.Split(bytes.TrimSpace(s.files[job["input_file_id"].(string)]), []byte("\n"))
	for i, line := range lines {
		var in struct {
			CustomID string `json:"custom_id"`
		}
		if err := json.Unmarshal(line, &in); err != nil {
			s.t.Error(err)
		}
		switch {
		case e == batchtest.AllFailed:
			failed = fmt.Appendf(failed, `{"custom_id":%q,"response":{"status_code":500,"body":{"error":{"code":"server_error"}}},"error":null}`+"\n", in.CustomID)
		case e == batchtest.OneExpired && i == len(lines)-1:
			job["status"] = "expired"
			failed = fmt.Appendf(failed, `{"custom_id":%q,"response":null,"error":{"code":"batch_expired","message":"x"}}`+"\n", in.CustomID)
		default:
			output = fmt.Appendf(output, `{"custom_id":%q,"response":{"status_code":200,"body":{"object":"chat.completion","choices":[{"finish_reason":"stop","message":{"content":"{\"label\":\"ok\"}","refusal":null}}]}},"error":null}`+"\n", in.CustomID)
		}
	}
	for field, content := range map[string][]byte{"output_file_id": output, "error_file_id": failed} {
		if len(content) > 0 {
			id := s.id("file-")
			s.files[id] = content
			job[field] = id
		}
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	op := opOf(r)
	if r.Header.Get("Authorization") != "Bearer "+testKey || r.Header.Get("OpenAI-Project") != "proj_1" || op == "" {
		s.t.Errorf("%s %s with headers %v", r.Method, r.URL.Path, r.Header)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || r.ContentLength < 0 {
		return // the client broke off
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[op]++
	fault := s.armed[op]
	delete(s.armed, op)

	refuse := func(status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":"about %s","type":"some_error","param":null,"code":%q}}`, batchtest.Marker, code)
	}
	var acted http.ResponseWriter = httptest.NewRecorder()
	switch fault.Kind {
	case "":
		acted = w
	case batchtest.LostRequest:
		panic(http.ErrAbortHandler)
	case batchtest.BadRequest:
		refuse(400, "invalid_request")
		return
	case batchtest.Unauthorized:
		refuse(401, "invalid_api_key")
		return
	case batchtest.Missing:
		refuse(404, "not_found")
		return
	case batchtest.NoCredit:
		refuse(429, "insufficient_quota")
		return
	case batchtest.TooMany:
		if fault.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(fault.RetryAfter.Seconds())))
		}
		refuse(429, "rate_limit_exceeded")
		return
	case batchtest.Redirect:
		http.Redirect(w, r, s.other.URL+r.URL.Path, http.StatusTemporaryRedirect)
		return
	}
	s.act(acted, r, op, body)
	switch fault.Kind {
	case batchtest.Torn:
		whole := acted.(*httptest.ResponseRecorder).Body.Bytes()
		w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
		w.Write(whole[:len(whole)/2])
	case batchtest.LostAnswer:
		panic(http.ErrAbortHandler)
	case batchtest.GatewayPage:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		io.WriteString(w, "<html>"+batchtest.Marker+"</html>")
	case batchtest.Blank:
		io.WriteString(w, "{}")
	case batchtest.Conflict:
		refuse(409, "conflict")
	}
}

func opOf(r *http.Request) batchtest.Op {
	switch path := strings.TrimPrefix(r.URL.Path, "/v1"); {
	case r.Method == "POST" && path == "/files":
		return batchtest.OpUpload
	case r.Method == "POST" && path == "/batches":
		return batchtest.OpCreate
	case r.Method == "GET" && path == "/batches":
		return batchtest.OpListJobs
	case r.Method == "GET" && path == "/files":
		return batchtest.OpListFiles
	case r.Method == "POST" && strings.HasSuffix(path, "/cancel"):
		return batchtest.OpCancel
	case r.Method == "GET" && strings.HasPrefix(path, "/batches/"):
		return batchtest.OpStatus
	case r.Method == "GET" && strings.HasSuffix(path, "/content"):
		return batchtest.OpDownload
	case r.Method == "DELETE" && strings.HasPrefix(path, "/files/"):
		return batchtest.OpDelete
	}
	return ""
}

// act carries a call out; mu is held.
func (s *server) act(w http.ResponseWriter, r *http.Request, op batchtest.Op, body []byte) {
	path := strings.TrimSuffix(strings.TrimSuffix(r.URL.Path, "/content"), "/cancel")
	id := path[strings.LastIndex(path, "/")+1:]
	answer := func(v any) { json.NewEncoder(w).Encode(v) }
	switch op {
	case batchtest.OpUpload:
		r.Body = io.NopCloser(bytes.NewReader(body))
		file, header, err := r.FormFile("file")
		if err != nil || r.FormValue("purpose") != "batch" || !strings.HasSuffix(header.Filename, ".jsonl") {
			s.t.Errorf("upload: %v, purpose %q", err, r.FormValue("purpose"))
			return
		}
		content, _ := io.ReadAll(file)
		id := s.id("file-")
		s.files[id], s.inputs[id] = content, header.Filename
		answer(map[string]any{"id": id, "object": "file", "bytes": len(content)})
	case batchtest.OpCreate:
		job := map[string]any{}
		if err := json.Unmarshal(body, &job); err != nil {
			s.t.Error(err)
		}
		job["id"], job["status"] = s.id("batch_"), "validating"
		job["created_at"] = madeAt(job["id"].(string))
		s.jobs[job["id"].(string)] = job
		answer(job)
	case batchtest.OpStatus:
		if s.jobs[id] == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		answer(s.jobs[id])
	case batchtest.OpDownload:
		content, ok := s.files[id]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		w.Write(content)
	case batchtest.OpDelete:
		_, ok := s.files[id]
		delete(s.files, id)
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		answer(map[string]any{"id": id, "deleted": true})
	case batchtest.OpCancel:
		switch job := s.jobs[id]; {
		case job == nil:
			w.WriteHeader(http.StatusNotFound)
		case job["status"] == "completed":
			w.WriteHeader(http.StatusBadRequest)
			answer(map[string]any{"error": map[string]any{"message": batchtest.Marker, "type": "invalid_request_error"}})
		default:
			job["status"] = "cancelling"
			answer(job)
		}
	case batchtest.OpListJobs:
		answer(s.list(r, slices.Collect(maps.Keys(s.jobs)), func(id string) any { return s.jobs[id] }))
	case batchtest.OpListFiles:
		if q := r.URL.Query(); q.Get("purpose") != "batch" || q.Get("order") != "desc" {
			s.t.Errorf("list of files with %v", q)
		}
		var inputs []string
		for id := range s.files {
			if s.inputs[id] != "" {
				inputs = append(inputs, id)
			}
		}
		answer(s.list(r, inputs, func(id string) any {
			return map[string]any{"id": id, "filename": s.inputs[id], "bytes": len(s.files[id]), "purpose": "batch", "created_at": madeAt(id)}
		}))
	}
}

// numberOf is the part of an id that grows.
func numberOf(id string) int {
	n, _ := strconv.Atoi(strings.TrimLeft(id, "abcdefghijklmnopqrstuvwxyz-_"))
	return n
}

func madeAt(id string) int { return 1_772_330_400 + numberOf(id) }

// list is a page of the objects with these ids, newest first; mu is held.
func (s *server) list(r *http.Request, ids []string, show func(id string) any) map[string]any {
	slices.SortFunc(ids, func(a, b string) int { return numberOf(b) - numberOf(a) })
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil {
		s.t.Errorf("list: %v", err)
	}
	if after := r.URL.Query().Get("after"); after != "" {
		ids = slices.DeleteFunc(ids, func(id string) bool { return numberOf(id) >= numberOf(after) })
	}
	if s.page > 0 {
		limit = min(limit, s.page)
	}
	data := []any{}
	for _, id := range ids[:min(limit, len(ids))] {
		data = append(data, show(id))
	}
	return map[string]any{"object": "list", "data": data, "has_more": len(ids) > limit}
}
