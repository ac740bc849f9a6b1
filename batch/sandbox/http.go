package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// call is one authorised request.
type call struct {
	*http.Request
	project string
	now     time.Time // virtual
}

// answer is what a request is answered with: a JSON body, or content.
type answer struct {
	id      string // the object that it is about, for the log
	body    any
	content *content
}

// content is a file on its way to a client.
type content struct {
	io.ReadCloser
	size int64
}

type handler func(*call) (answer, error)

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	for pattern, route := range map[string]struct {
		op string
		h  handler
	}{
		"POST /v1/files":               {opUpload, s.upload},
		"GET /v1/files":                {opListFiles, s.listFiles},
		"GET /v1/files/{id}":           {opGetFile, s.getFile},
		"GET /v1/files/{id}/content":   {opContent, s.getContent},
		"DELETE /v1/files/{id}":        {opDeleteFile, s.deleteFile},
		"POST /v1/batches":             {opCreate, s.createJob},
		"GET /v1/batches":              {opListJobs, s.listJobs},
		"GET /v1/batches/{id}":         {opStatus, s.getJob},
		"POST /v1/batches/{id}/cancel": {opCancel, s.cancelJob},
	} {
		for _, prefix := range s.flavour.prefixes() {
			s.mux.Handle(strings.Replace(pattern, " /v1", " "+prefix, 1), s.operation(route.op, route.h))
		}
	}
	s.mux.Handle("POST "+pathAnalyze, s.operation(opAnalyze, s.analyze))
	s.mux.Handle("POST "+pathToken, s.operation(opToken, s.grant))
	s.mux.Handle("POST "+pathChat, s.operation(opChat, s.chat))
	s.messageRoutes()
	s.infraiRoutes()
	s.mux.HandleFunc("GET /_sandbox/books", s.serveBooks)
	s.mux.HandleFunc("GET /_sandbox/accepted", s.serveAccepted)
	s.mux.HandleFunc("GET /_sandbox/faults", s.serveFaults)
	s.mux.HandleFunc("POST /_sandbox/faults", s.changeFaults)
	s.mux.HandleFunc("GET /_sandbox/clock", s.serveClock)
	s.mux.HandleFunc("POST /_sandbox/clock", s.advanceClock)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusNotFound, errorBody{&apiError{Type: "invalid_request_error", Message: "Unknown request URL or method."}})
	})
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// operation is the life of an API request: who asks, faults that keep it from
// taking effect, the effect, faults that hide the effect, the answer.
func (s *Server) operation(op string, h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.requests.add(op)
		w.Header().Set("X-Request-Id", s.ids.next("req_"))
		project, err := s.whose(op, r)
		if err != nil {
			s.finish(w, op, "", answer{}, err)
			return
		}
		if err := s.overQuota(w, op, project); err != nil {
			s.finish(w, op, project, answer{}, err)
			return
		}
		if f, ok := s.faults.onRequest(beforeActing, op); ok {
			s.strike(w, r, op, f)
			return
		}
		c := &call{Request: r, project: project, now: s.clock.now()}
		a, err := h(c)
		if a.content != nil {
			defer a.content.Close()
		}
		if f, ok := s.faults.onRequest(afterActing, op); ok && s.strike(w, r, op, f) {
			return
		}
		if a.content != nil && err == nil {
			s.log.Info().Str("op", op).Str("project", project).Str("id", a.id).Int64("bytes", a.content.size).Msg("request")
			s.sendContent(w, op, a.content)
			return
		}
		s.finish(w, op, project, a, err)
	}
}

// project is whose key the request carries. A key never becomes part of a name.
func (s *Server) project(r *http.Request) (string, error) {
	key, ok := s.flavour.key(r)
	if !ok {
		return "", deniedKey()
	}
	return s.projectOf(key)
}

func deniedKey() *apiError {
	return &apiError{Status: http.StatusUnauthorized, Type: "invalid_request_error", Code: "invalid_api_key", Message: "Incorrect API key provided."}
}

// projectOf is the project of a key.
func (s *Server) projectOf(key string) (string, error) {
	if key == "" {
		return "", deniedKey()
	}
	if len(s.keys) > 0 {
		project, known := s.keys[key]
		if !known {
			return "", deniedKey()
		}
		return project, nil
	}
	sum := sha256.Sum256([]byte("project of key " + key))
	return "proj_" + hex.EncodeToString(sum[:6]), nil
}

func (s *Server) finish(w http.ResponseWriter, op, project string, a answer, err error) {
	cut, isCut := s.faults.onAnswer("answer_cut", op)
	if ferr := s.faults.flush(s.disk); ferr != nil {
		err = errors.Join(err, ferr)
	}
	status, body := s.flavour.status(op), a.body
	if err != nil {
		var e *apiError
		if !errors.As(err, &e) {
			// Errors of the sandbox itself name operations and files of the
			// state folder, never content.
			s.log.Error().Err(err).Str("op", op).Msg("sandbox failed")
			e = &apiError{Status: http.StatusInternalServerError, Type: "server_error", Message: "The sandbox failed; see its log."}
		}
		status, body = e.Status, envelope(w, op, e)
	}
	s.log.Info().Str("op", op).Str("project", project).Str("id", a.id).Int("status", status).Msg("request")
	share := 1.0
	if isCut {
		share = cut.fraction("at")
	}
	writePart(w, status, body, share)
	if isCut {
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func writeJSON(w http.ResponseWriter, status int, body any) { writePart(w, status, body, 1) }

// writePart announces all of body and sends a share of it.
func writePart(w http.ResponseWriter, status int, body any, share float64) {
	b, err := json.Marshal(body, json.Deterministic(true))
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	w.Write(b[:int(float64(len(b))*share)]) // the client is gone when it fails; nobody is left to tell
}

// strike answers a request as a fault says. It returns false when the request
// is still to be answered as usual.
func (s *Server) strike(w http.ResponseWriter, r *http.Request, op string, f Fault) bool {
	s.log.Info().Str("op", op).Str("fault", f.Name).Msg("fault")
	if err := s.faults.flush(s.disk); err != nil {
		s.log.Error().Err(err).Msg("sandbox failed")
	}
	switch f.Name {
	case "delay":
		s.wait(r.Context(), f.duration("by"))
		return false
	case "drop_after", "drop_before":
		panic(http.ErrAbortHandler) // net/http closes the connection and says nothing
	}
	// An answer to half a request would race with the rest of it: the client may
	// see a broken connection instead of the fault.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return true // the client is gone
	}
	switch f.Name {
	case "bad_gateway":
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(int(f.number("status")))
		io.WriteString(w, "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n")
	case "empty_object":
		writeJSON(w, http.StatusOK, struct{}{})
	case "error_text":
		writeJSON(w, http.StatusInternalServerError, struct {
			Error string `json:"error"`
		}{"The sandbox failed to say more."})
	case "redirect":
		w.Header().Set("Location", strings.TrimSuffix(f.text("to"), "/")+r.URL.RequestURI())
		w.WriteHeader(http.StatusTemporaryRedirect)
	default:
		e := s.faultError(w, f)
		writeJSON(w, e.Status, envelope(w, op, e))
	}
	return true
}

func (s *Server) faultError(w http.ResponseWriter, f Fault) *apiError {
	switch f.Name {
	case "rate_limit":
		wait := time.Duration(f.number("retry_after")) * time.Second
		switch f.text("form") {
		case "seconds":
			w.Header().Set("Retry-After", f.text("retry_after"))
		case "date":
			w.Header().Set("Retry-After", s.clock.real().Add(wait).UTC().Format(http.TimeFormat))
		}
		return &apiError{Status: http.StatusTooManyRequests, Type: "requests", Code: f.text("code"), Message: "Rate limit reached."}
	case "overloaded":
		return &apiError{Status: http.StatusServiceUnavailable, Type: "service_unavailable_error", Code: "server_is_overloaded", Message: "The server is overloaded."}
	case "insufficient_quota":
		return &apiError{Status: http.StatusTooManyRequests, Type: "insufficient_quota", Code: "credit_balance_exhausted", Message: "You exceeded your current quota."}
	case "unauthorized":
		return deniedKey()
	case "payment_required":
		return &apiError{Status: http.StatusPaymentRequired, Type: "billing", Code: "payment_required", Message: "The sandbox was asked to want money."}
	case "chat_loading":
		return &apiError{Status: http.StatusServiceUnavailable, Type: "unavailable_error", Message: "Loading model"}
	case "forbidden":
		return &apiError{Status: http.StatusForbidden, Type: "request_forbidden", Code: "unsupported_country_region_territory", Message: "Country, region, or territory not supported."}
	case "bad_request":
		return badRequest("invalid_value", "", "The sandbox was asked to refuse this request.")
	case "not_found":
		return notFound("object")
	case "create_file_missing":
		return badRequest("", "input_file_id", cannotFindFile)
	case "too_large", "spend_limit", "on_hold":
		return badRequest("", "", "This fault is one of the other API.")
	case "content_not_found":
		return notFound("File object")
	default: // server_error
		return &apiError{Status: int(f.number("status")), Type: "server_error", Message: "The server had an error while processing your request."}
	}
}

// wait returns after d of real time, or when the client or the server goes.
func (s *Server) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-s.closing.Done():
	}
}

// sendContent sends a file, cut short when content_cut strikes.
func (s *Server) sendContent(w http.ResponseWriter, op string, c *content) {
	f, cut := s.faults.onAnswer("content_cut", op)
	if err := s.faults.flush(s.disk); err != nil {
		s.log.Error().Err(err).Msg("sandbox failed")
	}
	n := c.size
	if cut {
		n = int64(float64(c.size) * f.fraction("at"))
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	if !cut || !f.flag("clean") {
		w.Header().Set("Content-Length", strconv.FormatInt(c.size, 10))
	}
	io.CopyN(w, c, n) // an error shows at the client as a body that is too short
	if cut && !f.flag("clean") {
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// requestCount counts requests by operation since the process started.
type requestCount struct {
	mu sync.Mutex
	n  map[string]int64
}

func (c *requestCount) add(op string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[op]++
}

func (c *requestCount) snapshot() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}
