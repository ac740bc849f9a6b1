package sandbox

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The sandbox of Azure AI Content Safety grades one text a call, and hands out
// the tokens that it takes in the place of a key. Any key is one of the
// sandbox's, and any client secret too.

const (
	pathAnalyze = "/contentsafety/text:analyze"
	pathToken   = "/{tenant}/oauth2/v2.0/token"

	// grantLife is how long a token is taken, in virtual time.
	grantLife  = time.Hour
	grantScope = "https://cognitiveservices.azure.com/.default"
)

// grants are the tokens that were handed out. A restart forgets them, as the
// service may forget one.
type grants struct {
	mu    sync.Mutex
	until map[string]time.Time
	of    map[string]string // the project
}

type grantBody struct {
	Type  string `json:"token_type"`
	Life  int64  `json:"expires_in"`
	Token string `json:"access_token"`
}

// grant answers a client-credentials grant.
func (s *Server) grant(c *call) (answer, error) {
	if err := c.ParseForm(); err != nil {
		return answer{}, badRequest("invalid_request", "", "The form cannot be read.")
	}
	form := c.PostForm
	switch {
	case form.Get("grant_type") != "client_credentials":
		return answer{}, badRequest("unsupported_grant_type", "", "The grant type is not supported.")
	case form.Get("scope") != grantScope:
		return answer{}, badRequest("invalid_scope", "", "The scope is not one of the sandbox.")
	case form.Get("client_id") == "":
		return answer{}, badRequest("unauthorized_client", "", "The application was not found.")
	}
	project, err := s.projectOf(form.Get("client_secret"))
	if err != nil {
		return answer{}, &apiError{Status: http.StatusUnauthorized, Code: "invalid_client", Message: "The client secret is not valid."}
	}
	life := grantLife
	if f, ok := s.faults.onAnswer("short_grant", opToken); ok {
		life = time.Duration(f.number("seconds")) * time.Second
	}
	token := s.ids.next("sandbox-token-")
	s.grants.mu.Lock()
	defer s.grants.mu.Unlock()
	if s.grants.until == nil {
		s.grants.until, s.grants.of = map[string]time.Time{}, map[string]string{}
	}
	s.grants.until[token], s.grants.of[token] = c.now.Add(life), project
	return answer{body: grantBody{"Bearer", int64(life / time.Second), token}}, nil
}

// granted is the project of a token that is still taken.
func (s *Server) granted(token string) (string, error) {
	s.grants.mu.Lock()
	defer s.grants.mu.Unlock()
	if until, ok := s.grants.until[token]; !ok || !s.clock.now().Before(until) {
		return "", deniedKey()
	}
	return s.grants.of[token], nil
}

// whose is the project of the one who asks for op.
func (s *Server) whose(op string, r *http.Request) (string, error) {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case op == opToken: // the secret is in the form
		return "", nil
	case op == opAnalyze && bearer:
		return s.granted(token)
	case op == opAnalyze:
		return s.projectOf(r.Header.Get("Ocp-Apim-Subscription-Key"))
	case op == opChat && !bearer && len(s.keys) == 0: // a server of one's own may ask for no key
		return "", nil
	}
	project, err := s.project(r)
	if err == nil && op != opChat {
		err = s.flavour.checkVersion(r)
	}
	return project, err
}

// azureError is the envelope of Content Safety.
type azureError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// loginError is the envelope of the token endpoint.
type loginError struct {
	Error       any    `json:"error"`
	Description string `json:"error_description"`
}

// gatewayCode is the code of a rate limit of the gateway in front.
const gatewayCode = "429"

// azureCodes are the documented codes; the gateway in front writes the status.
var azureCodes = map[int]string{
	400: "InvalidRequestBody", 404: "ResourceNotFound", 429: "TooManyRequests", 500: "InternalError", 503: "ServerBusy",
	401: "401", 402: "402", 403: "403", 408: "408", 409: "409",
}

// envelope is an error in the form of the API that op belongs to. Content Safety
// repeats the code in a header; the gateway in front of it, whose code is the
// status, does not.
func envelope(w http.ResponseWriter, op string, e *apiError) any {
	switch op {
	case opAnalyze:
		code := azureCodes[e.Status]
		if e.Code == gatewayCode {
			code = gatewayCode
		}
		if code != strconv.Itoa(e.Status) {
			w.Header().Set("X-Ms-Error-Code", code)
		}
		return struct {
			Error azureError `json:"error"`
		}{azureError{code, e.Message}}
	case opToken:
		return loginError{e.Code, e.Message}
	}
	return errorBody{e}
}
