package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// The files anthropic*.go are Anthropic's Message Batches API: one object, the
// message batch, made with all its requests in one call, and no files. It shares
// the clock, the faults and the books with the other API, and the stand-in that
// answers.

// samplingEnds is the first version of the API without temperature.
const samplingEnds = "2026-10-21"

func (s *Server) messageRoutes() {
	const at = "/v1/messages/batches"
	for pattern, route := range map[string]struct {
		op string
		h  handler
	}{
		"POST /v1/messages":           {opMessage, s.createMessage},
		"POST " + at:                  {opCreate, s.createMessages},
		"GET " + at:                   {opListJobs, s.listMessages},
		"GET " + at + "/{id}":         {opStatus, s.getMessages},
		"DELETE " + at + "/{id}":      {opDeleteJob, s.deleteMessages},
		"POST " + at + "/{id}/cancel": {opCancel, s.cancelMessages},
		"GET " + at + "/{id}/results": {opContent, s.getResults},
	} {
		s.mux.Handle(pattern, s.messageOperation(route.op, route.h))
	}
}

// messageError is an error in the envelope of this API.
type messageError struct {
	Status  int           `json:"-"`
	Type    string        `json:"type"`
	Message string        `json:"message"`
	Details *errorDetails `json:"details,omitempty"`
}

type errorDetails struct {
	Code string `json:"error_code"`
}

func (e *messageError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.Status, e.Message) }

type messageErrorBody struct {
	Type      string        `json:"type,omitempty"`
	Error     *messageError `json:"error"`
	RequestID any           `json:"request_id,omitzero"` // string or nil
}

func invalidMessage(format string, args ...any) *messageError {
	return &messageError{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: fmt.Sprintf(format, args...)}
}

// usualClass is the class that the API gives with a status.
func usualClass(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "timeout_error"
	case http.StatusConflict:
		return "conflict_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case 529:
		return "overloaded_error"
	case http.StatusBadRequest:
		return "invalid_request_error"
	}
	return "api_error"
}

// messageOperation is the life of a request, as operation has it.
func (s *Server) messageOperation(op string, h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.requests.add(op)
		w.Header().Set("Request-Id", s.ids.next("req_"))
		workspace, err := s.workspace(r)
		if err == nil {
			w.Header().Set("Anthropic-Workspace-Id", workspace)
			err = checkVersion(r)
		}
		if err != nil {
			s.finishMessage(w, op, "", answer{}, err)
			return
		}
		if f, ok := s.faults.onRequest(beforeActing, op); ok {
			s.strikeMessage(w, r, op, f)
			return
		}
		c := &call{Request: r, project: workspace, now: s.clock.now()}
		a, err := h(c)
		if a.content != nil {
			defer a.content.Close()
		}
		if f, ok := s.faults.onRequest(afterActing, op); ok && s.strikeMessage(w, r, op, f) {
			return
		}
		if _, ok := s.faults.onAnswer("other_workspace", op); ok {
			w.Header().Set("Anthropic-Workspace-Id", "wrkspc_of_somebody_else")
		}
		if a.content != nil && err == nil {
			s.log.Info().Str("op", op).Str("project", workspace).Str("id", a.id).Int64("bytes", a.content.size).Msg("request")
			w.Header().Set("Content-Type", "application/x-jsonl")
			s.sendContent(w, op, a.content)
			return
		}
		if op == opStatus && err == nil && a.body.(messageBatchBody).Ended == nil {
			w.Header().Set("Retry-After", "10")
		}
		s.finishMessage(w, op, workspace, a, err)
	}
}

// workspace is whose key the request carries, in either form: one good key is
// enough. A workspace that is named must be the key's.
func (s *Server) workspace(r *http.Request) (string, error) {
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	workspace := ""
	for _, key := range []string{r.Header.Get("X-Api-Key"), bearer} {
		if known := s.workspaceOf(key); known != "" && workspace == "" {
			workspace = known
		}
	}
	if workspace == "" {
		return "", &messageError{Status: http.StatusUnauthorized, Type: "authentication_error", Message: "invalid x-api-key"}
	}
	if named := r.Header.Get("Anthropic-Workspace-Id"); named != "" && named != workspace {
		return "", &messageError{Status: http.StatusForbidden, Type: "permission_error", Message: "The key is of another workspace."}
	}
	return workspace, nil
}

func (s *Server) workspaceOf(key string) string {
	switch {
	case key == "":
		return ""
	case len(s.keys) > 0:
		return s.keys[key]
	}
	sum := sha256.Sum256([]byte("workspace of key " + key))
	return "wrkspc_" + hex.EncodeToString(sum[:6])
}

func checkVersion(r *http.Request) error {
	version := r.Header.Get("Anthropic-Version")
	if version == "" {
		return invalidMessage("anthropic-version: header is required")
	}
	if _, err := time.Parse(time.DateOnly, version); err != nil {
		return invalidMessage("anthropic-version: not a valid version")
	}
	return nil
}

func (s *Server) finishMessage(w http.ResponseWriter, op, workspace string, a answer, err error) {
	cut, isCut := s.faults.onAnswer("answer_cut", op)
	if ferr := s.faults.flush(s.disk); ferr != nil {
		err = errors.Join(err, ferr)
	}
	status, body := http.StatusOK, a.body
	if err != nil {
		var e *messageError
		if !errors.As(err, &e) {
			// As in finish: such errors name no content.
			s.log.Error().Err(err).Str("op", op).Msg("sandbox failed")
			e = &messageError{Status: http.StatusInternalServerError, Type: "api_error", Message: "The sandbox failed; see its log."}
		}
		status, body = e.Status, messageErrorBody{"error", e, w.Header().Get("Request-Id")}
	}
	s.log.Info().Str("op", op).Str("project", workspace).Str("id", a.id).Int("status", status).Msg("request")
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

// strikeMessage is strike, with the errors of this API.
func (s *Server) strikeMessage(w http.ResponseWriter, r *http.Request, op string, f Fault) bool {
	switch f.Name {
	case "delay", "drop_after", "drop_before", "bad_gateway", "empty_object", "redirect":
		return s.strike(w, r, op, f)
	}
	s.log.Info().Str("op", op).Str("fault", f.Name).Msg("fault")
	if err := s.faults.flush(s.disk); err != nil {
		s.log.Error().Err(err).Msg("sandbox failed")
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return true // the client is gone
	}
	e := s.messageFault(w, f)
	if f.Name != "too_large" {
		writeJSON(w, e.Status, messageErrorBody{"error", e, w.Header().Get("Request-Id")})
		return true
	}
	// It never gets as far as the API, which numbers the requests.
	w.Header().Del("Request-Id")
	w.Header().Del("Anthropic-Workspace-Id")
	if f.text("form") == "json" {
		writeJSON(w, e.Status, messageErrorBody{Error: e})
		return true
	}
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(e.Status)
	io.WriteString(w, "<html><head><title>413 Request Entity Too Large</title></head><body>413</body></html>\n")
	return true
}

// messageFault is the error of a request fault.
func (s *Server) messageFault(w http.ResponseWriter, f Fault) *messageError {
	e := &messageError{Status: http.StatusBadRequest, Message: "The sandbox was asked to refuse this request."}
	switch f.Name {
	case "rate_limit":
		e.Status = s.faultError(w, f).Status // and the header
	case "insufficient_quota":
		e.Status, e.Details = http.StatusTooManyRequests, &errorDetails{"enforced_spend_limit_reached"}
	case "spend_limit":
		switch f.text("form") {
		case "tier":
			e.Status, e.Details = http.StatusTooManyRequests, &errorDetails{"enforced_spend_limit_reached"}
		case "own": // no code is documented, so that it is like any refusal
		case "billing":
			e.Status = http.StatusPaymentRequired
		}
	case "payment_required":
		e.Status = http.StatusPaymentRequired
	case "on_hold":
		e.Details = &errorDetails{"organization_on_hold"}
	case "unauthorized":
		e.Status = http.StatusUnauthorized
	case "forbidden":
		e.Status = http.StatusForbidden
	case "not_found", "content_not_found":
		e.Status = http.StatusNotFound
	case "too_large":
		e.Status = http.StatusRequestEntityTooLarge
	case "server_error":
		e.Status = int(f.number("status"))
	}
	e.Type = usualClass(e.Status)
	return e
}
