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
	"time"

	"rollcall/batch"
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

	service service
}

// service is how a far side differs from OpenAI's.
type service struct {
	endpoint    Endpoint
	path        string // the endpoint as create and the lines must spell it
	base        string
	dialect     Dialect
	query       map[string]string
	uploadedAs  int      // the status of an upload
	createdWith []string // the members of a create, beside metadata
	answer      string   // the body of a line that was answered
}

// services are OpenAI's own endpoints and the shapes that others have.
var services = map[string]service{
	"chat":        {},
	"responses":   {endpoint: EndpointResponses, path: "/v1/responses", answer: `{"object":"response","status":"completed","output":[` + thinking + `,` + message + `]}`},
	"moderations": {endpoint: EndpointModerations, path: "/v1/moderations", answer: `{"results":[{"flagged":false,"categories":{"hate":false},"category_scores":{"hate":0.1}}]}`},
	"azure, moderations": {endpoint: EndpointModerations, path: "/moderations", base: "/openai/v1", dialect: Azure, uploadedAs: http.StatusCreated,
		answer: `{"results":[{"flagged":false,"categories":{"hate":false},"category_scores":{"hate":0.1}}]}`},
	"azure": {path: "/chat/completions", base: "/openai/v1", dialect: Azure, uploadedAs: http.StatusCreated},
	"azure, dated, responses": {endpoint: EndpointResponses, path: "/v1/responses", base: "/openai", query: map[string]string{"api-version": "2024-10-21"},
		dialect: func() Dialect { d := Azure; d.BarePaths = false; return d }(), answer: `{"object":"response","status":"completed","output":[` + message + `]}`},
	"groq":                     {base: "/openai/v1", dialect: func() Dialect { d := Groq; d.Window = "7d"; return d }(), createdWith: []string{"completion_window", "endpoint", "input_file_id"}},
	"a list that tells little": {dialect: Dialect{Settlement: batch.SettleByResults, Cursor: true, Limits: batch.Limits{Items: 7, Bytes: 1 << 20, ItemBytes: 1 << 16}, ResultsFor: time.Hour}},
}

func (s service) complete() service {
	orElse := func(p *string, def string) {
		if *p == "" {
			*p = def
		}
	}
	orElse(&s.path, "/v1/chat/completions")
	orElse(&s.base, "/v1")
	orElse(&s.answer, `{"object":"chat.completion","choices":[{"finish_reason":"stop","message":{"content":"{\"label\":\"ok\"}","refusal":null}}]}`)
	if s.uploadedAs == 0 {
		s.uploadedAs = http.StatusOK
	}
	if s.createdWith == nil {
		s.createdWith = []string{"completion_window", "endpoint", "input_file_id", "output_expires_after"}
	}
	return s
}

// answerTo is the answer with the token of a line that has one.
func (s service) answerTo(customID string, line []byte) string {
	if !bytes.Contains(line, []byte(`{\"token\":`)) {
		return s.answer
	}
	return strings.Replace(s.answer, `{\"label\"`, `{\"token\":\"`+batch.EchoToken(customID)+`\",\"label\"`, 1)
}

// at is an account at a server of this kind.
func (s service) at(url string) Config {
	cfg := config(url)
	cfg.BaseURL, cfg.Endpoint, cfg.Dialect, cfg.Query = url+s.base, s.endpoint, s.dialect, s.query
	return cfg
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
	s.service = service{}.complete()
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() { s.Server.Close(); s.other.Close() })
	return s
}

// config is an account at a loopback server.
func config(baseURL string) Config {
	return Config{
		Name:           "main",
		BaseURL:        baseURL + "/v1",
		Organization:   "org_1",
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

// The contract suite, for each endpoint and each dialect.
func TestContract(t *testing.T) {
	for name, kind := range services {
		t.Run(name, func(t *testing.T) {
			kind = kind.complete()
			batchtest.Run(t, func(t *testing.T) batchtest.Subject {
				s := newServer(t)
				s.service = kind
				gone := httptest.NewServer(http.NotFoundHandler())
				gone.Close()
				subject := batchtest.Subject{
					Provider:    newClient(t, kind.at(s.URL)),
					Server:      s,
					Secrets:     []string{testKey, "Bearer", s.URL + kind.base},
					Unreachable: newClient(t, kind.at(gone.URL)),
				}
				if kind.endpoint == EndpointModerations {
					subject.Question, subject.NoEcho = scoring(), true
				}
				return subject
			})
		})
	}
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

// Ends: what is wrong with one item is the sandbox's to show.
func (s *server) Ends(e batchtest.Ending) bool {
	return e == batchtest.AllAnswered || e == batchtest.OneExpired || e == batchtest.AllFailed || e == batchtest.BodyRefused
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
		faults := []any{map[string]any{"code": "invalid_json_line", "message": batchtest.Marker, "line": 1}}
		job["errors"] = map[string]any{"data": faults}
		if s.service.dialect.BarePaths { // Azure: ids of files, and nothing ran
			faults[0] = map[string]any{"code": "token_limit_exceeded", "message": batchtest.Marker, "line": nil}
			job["output_file_id"], job["error_file_id"] = "file-none-1", "file-none-2"
			job["request_counts"] = map[string]any{"total": 0, "completed": 0, "failed": 0}
		}
		if s.service.dialect.Cursor {
			job["errors"] = faults
		}
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
			output = fmt.Appendf(output, `{"custom_id":%q,"response":{"status_code":200,"body":%s},"error":null}`+"\n", in.CustomID, s.service.answerTo(in.CustomID, line))
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
	op := opOf(r, s.service.base)
	key, header := "Bearer "+testKey, "Authorization"
	if h := s.service.dialect.KeyHeader; h != "" {
		key, header = testKey, h
	}
	project := "proj_1"
	if s.service.dialect.Projects != ProjectsKnown { // a service that no contract gives the header
		project = ""
	}
	if r.Header.Get(header) != key || header != "Authorization" && r.Header.Get("Authorization") != "" || strings.Join(r.Header.Values("OpenAI-Project"), ",") != project || len(r.Header.Values("OpenAI-Organization")) > 0 != (project != "") || op == "" {
		s.t.Errorf("%s %s with headers %v", r.Method, r.URL.Path, r.Header)
	}
	for k, v := range s.service.query {
		if r.URL.Query().Get(k) != v {
			s.t.Errorf("%s %s with query %v", r.Method, r.URL.Path, r.URL.Query())
		}
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
	case batchtest.Forbidden:
		refuse(403, "forbidden")
		return
	case batchtest.Payment:
		refuse(402, "payment_required")
		return
	case batchtest.ServerError:
		refuse(500, "server_error")
		return
	case batchtest.Busy:
		refuse(503, "server_is_overloaded")
		return
	case batchtest.NoCredit:
		refuse(429, "insufficient_quota")
		return
	case batchtest.TooManyDate:
		w.Header().Set("Date", "Sun, 01 Mar 2026 02:00:00 GMT")
		w.Header().Set("Retry-After", time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC).Add(fault.RetryAfter).Format(http.TimeFormat))
		refuse(429, "rate_limit_exceeded")
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
	case batchtest.GatewayPage, batchtest.Page:
		w.Header().Set("Content-Type", "text/html")
		if fault.Kind == batchtest.GatewayPage {
			w.WriteHeader(http.StatusBadGateway)
		}
		io.WriteString(w, "<html>"+batchtest.Marker+"</html>")
	case batchtest.Blank:
		io.WriteString(w, "{}")
	case batchtest.Conflict:
		refuse(409, "conflict")
	}
}

func opOf(r *http.Request, base string) batchtest.Op {
	switch path := strings.TrimPrefix(r.URL.Path, base); {
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
		if _, sent := r.MultipartForm.Value["expires_after[seconds]"]; sent == s.service.dialect.Expiry.Absent {
			s.t.Errorf("upload with %v", r.MultipartForm.Value)
		}
		w.WriteHeader(s.service.uploadedAs)
		answer(map[string]any{"id": id, "object": "file", "bytes": len(content)})
	case batchtest.OpCreate:
		job := map[string]any{}
		if err := json.Unmarshal(body, &job); err != nil {
			s.t.Error(err)
		}
		s.checkCreate(job)
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
		answer(s.list(r, slices.Collect(maps.Keys(s.jobs)), func(id string) any {
			job := maps.Clone(s.jobs[id])
			if s.service.dialect.Settlement == batch.SettleByResults {
				delete(job, "metadata")
				delete(job, "input_file_id")
			}
			return job
		}))
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

// checkCreate: the job is over this endpoint, as are its lines, and is asked for
// with the documented members alone; mu is held.
func (s *server) checkCreate(job map[string]any) {
	members := slices.Sorted(maps.Keys(job))
	members = slices.DeleteFunc(members, func(m string) bool { return m == "metadata" })
	window := s.service.dialect.Window
	if window == "" {
		window = "24h"
	}
	if !slices.Equal(members, s.service.createdWith) || job["endpoint"] != s.service.path || job["completion_window"] != window {
		s.t.Errorf("created with %v", job)
	}
	file, _ := job["input_file_id"].(string)
	for line := range bytes.Lines(s.files[file]) {
		var in struct{ URL string }
		if err := json.Unmarshal(line, &in); err != nil || in.URL != s.service.path {
			s.t.Errorf("a line for %q, %v", in.URL, err)
		}
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
	cursor := s.service.dialect.Cursor
	after := r.URL.Query().Get("after")
	if cursor {
		after = r.URL.Query().Get("cursor")
	}
	if after != "" {
		ids = slices.DeleteFunc(ids, func(id string) bool { return numberOf(id) >= numberOf(after) })
	}
	if s.page > 0 {
		limit = min(limit, s.page)
	}
	data := []any{}
	for _, id := range ids[:min(limit, len(ids))] {
		data = append(data, show(id))
	}
	if !cursor {
		return map[string]any{"object": "list", "data": data, "has_more": len(ids) > limit}
	}
	var next any
	if len(ids) > limit {
		next = ids[limit-1]
	}
	return map[string]any{"object": "list", "data": data, "paging": map[string]any{"next_cursor": next}}
}
