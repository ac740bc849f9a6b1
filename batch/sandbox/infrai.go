package sandbox

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch/infrai"
)

// The files infrai*.go are Infrai's native batch API, in one of two profiles.
// Without a pin it is what is documented: submit and status, with the documented
// members, and nothing else. With a pin it is what the pin says, so that another
// pin changes both sides together; an assumed one is served to this machine only.
// It shares the clock, the faults and the stand-in with the other APIs.

// AssumedPin is a pin of Infrai's API that was made up for the sandbox. Nothing in
// it is the provider's, and it is refused at any host but loopback.
//
//go:embed assumed.pin.json
var AssumedPin []byte

const (
	infraiDir    = "infrai" // <id>.json, the job with its items
	infraiWindow = 24 * time.Hour
	infraiVendor = "openai"
	infraiPage   = 50 // items of a page

	opDiscovery = "discovery"
)

// documentedInfrai are the routes of the profile without a pin. The state is
// one of the provider's whose name is not documented.
var documentedInfrai = infrai.Contract{
	SubmitRoute: "/v1/ai/batch/submit", StatusRoute: "/v1/ai/batch/status/{id}", StatePath: "state",
	States: infrai.States{Pending: []string{"in_progress"}, Success: []string{"completed"}},
}

// infraiBox is the state of this API.
type infraiBox struct {
	pin      *infrai.Pin // nil: the documented profile
	contract *infrai.Contract

	mu         sync.Mutex
	jobs       []*infraiJob      // in order of creation
	sums       map[string]string // by key, of the first body
	submits    int
	violations []string
}

// infraiJob is a job on disk and in memory.
type infraiJob struct {
	ID      string       `json:"id"`
	Key     string       `json:"key"`
	Sum     string       `json:"sum"` // of the body
	Created time.Time    `json:"created"`
	Items   []infraiItem `json:"items"`
	Faults  []Fault      `json:"faults"` // that struck when it was made
	looks   int          // status answers since it ended
	reads   int          // of its results
}

type infraiItem struct {
	ID   string         `json:"id"` // "" in the documented profile
	Body jsontext.Value `json:"body"`
}

// InfraiBooks are what this API has seen.
type InfraiBooks struct {
	Submits int // requests that reached the point of acting
	Jobs    []InfraiJobBook
	// Violations are what no client may do: other bytes under a key, no explicit
	// model, JSON that is not canonical, two keys in one request, a top-up.
	Violations []string
}

// InfraiJobBook is one job.
type InfraiJobBook struct {
	ID, Key string
	Items   []string // their ids
	Created time.Time
}

// Infrai returns the books of this API.
func (s *Server) Infrai() InfraiBooks {
	b := &s.infrai
	b.mu.Lock()
	defer b.mu.Unlock()
	out := InfraiBooks{Submits: b.submits, Violations: append([]string{}, b.violations...)}
	for _, j := range b.jobs {
		book := InfraiJobBook{ID: j.ID, Key: j.Key, Created: j.Created}
		for _, i := range j.Items {
			book.Items = append(book.Items, i.ID)
		}
		out.Jobs = append(out.Jobs, book)
	}
	return out
}

// openInfrai reads what is on disk.
func (s *Server) openInfrai(pin *infrai.Pin) error {
	b := &s.infrai
	b.pin, b.contract, b.sums = pin, &documentedInfrai, map[string]string{}
	if pin != nil {
		if pin.Contract.Results == nil || pin.Contract.ItemIDPath == "" || len(pin.Contract.States.Pending) == 0 || len(pin.Contract.States.Success) == 0 {
			return errors.New("the pin says too little to be served: items, states and results are needed")
		}
		b.contract = &pin.Contract
	}
	if err := os.MkdirAll(s.disk.path(infraiDir), 0o700); err != nil {
		return fmt.Errorf("make state folder: %w", err)
	}
	err := s.disk.each(infraiDir, ".json", func(_, path string) error {
		j := new(infraiJob)
		if err := load(path, j); err != nil {
			return err
		}
		b.jobs = append(b.jobs, j)
		return nil
	})
	sortInfrai(b.jobs)
	for _, j := range b.jobs {
		if _, ok := b.sums[j.Key]; !ok {
			b.sums[j.Key] = j.Sum
		}
	}
	return err
}

func (s *Server) infraiRoutes() {
	s.mux.HandleFunc("GET /v1/discovery/{id}", s.infraiDiscovery)
	s.mux.HandleFunc("/v1/account/", func(w http.ResponseWriter, r *http.Request) {
		s.infrai.violate("call of the account's money: " + r.Method)
		writeInfrai(w, http.StatusForbidden, infraiAnswer{Error: &infraiError{Code: "FORBIDDEN", Message: "The sandbox sells nothing."}}, 1)
	})
	s.mux.HandleFunc("/v1/ai/", s.serveInfrai)
}

// serveInfrai finds the operation by the contract's routes.
func (s *Server) serveInfrai(w http.ResponseWriter, r *http.Request) {
	c := s.infrai.contract
	if id, ok := infraiRoute(c.StatusRoute, r.URL.Path); ok && r.Method == http.MethodGet {
		s.infraiOperation(w, r, opStatus, func(c *call) (infraiAnswer, error) { return s.infraiStatus(c, id) })
		return
	}
	if _, ok := infraiRoute(c.SubmitRoute, r.URL.Path); ok && r.Method == http.MethodPost {
		s.infraiOperation(w, r, opCreate, s.infraiSubmit)
		return
	}
	if c.Results != nil && r.Method == http.MethodGet {
		if id, ok := infraiRoute(c.Results.Route, r.URL.Path); ok {
			s.infraiOperation(w, r, opContent, func(c *call) (infraiAnswer, error) { return s.infraiResults(c, id) })
			return
		}
	}
	writeInfrai(w, http.StatusNotFound, infraiAnswer{Error: &infraiError{Code: "NOT_FOUND", Message: "No such route."}}, 1)
}

// infraiRoute matches a path, and gives what stands for {id}.
func infraiRoute(route, path string) (id string, ok bool) {
	head, tail, hasID := strings.Cut(route, "{id}")
	if !hasID {
		return "", route == path
	}
	id, ok = strings.CutPrefix(path, head)
	if !ok {
		return "", false
	}
	id, ok = strings.CutSuffix(id, tail)
	return id, ok && id != "" && !strings.Contains(id, "/")
}

// infraiAnswer is an answer in the envelope, or lines without one.
type infraiAnswer struct {
	Status int // 0 is 200
	Data   any
	Error  *infraiError
	lines  []byte
	id     string // for the log
}

// infraiError is an error of this API.
type infraiError struct {
	Status    int    `json:"-"`
	Code      string `json:"code"`
	Message   string `json:"message"`
	Hint      string `json:"hint"`
	Retryable bool   `json:"retryable"`
}

func (e *infraiError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.Status, e.Code) }

// infraiOperation is the life of a request, as operation has it.
func (s *Server) infraiOperation(w http.ResponseWriter, r *http.Request, op string, h func(*call) (infraiAnswer, error)) {
	s.requests.add(op)
	c := &call{Request: r, now: s.clock.now()}
	var err error
	if c.project, err = s.project(r); err != nil {
		err = &infraiError{Status: http.StatusUnauthorized, Code: "UNAUTHORIZED", Message: "Bad key."}
	} else if s.infrai.pin != nil && s.infrai.pin.Assumed && !fromHere(r) {
		err = &infraiError{Status: http.StatusForbidden, Code: "ASSUMED", Message: "An assumed pin is served on this machine only."}
	}
	if err != nil {
		s.finishInfrai(w, op, infraiAnswer{}, err)
		return
	}
	if f, ok := s.faults.onRequest(beforeActing, op); ok {
		s.strikeInfrai(w, r, op, f)
		return
	}
	a, err := h(c)
	if f, ok := s.faults.onRequest(afterActing, op); ok && s.strikeInfrai(w, r, op, f) {
		return
	}
	s.finishInfrai(w, op, a, err)
}

// infraiWord is the code of another API's error as this one writes it.
func infraiWord(e *apiError) string {
	code, _ := e.Code.(string)
	return strings.ToUpper(code)
}

// fromHere: the client is on this machine.
func fromHere(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && net.ParseIP(host).IsLoopback()
}

// strikeInfrai is strike with errors in this API's envelope.
func (s *Server) strikeInfrai(w http.ResponseWriter, r *http.Request, op string, f Fault) bool {
	switch f.Name {
	case "delay", "drop_after", "drop_before", "bad_gateway", "empty_object", "redirect":
		return s.strike(w, r, op, f)
	}
	drain(r)
	e := s.faultError(w, f)
	out := &infraiError{Status: e.Status, Code: infraiWord(e), Message: e.Message, Retryable: e.Status >= 500}
	switch {
	case f.Name == "insufficient_quota":
		out.Status, out.Code = http.StatusPaymentRequired, "INSUFFICIENT_CREDIT"
	case out.Code == "":
		out.Code = strings.ToUpper(f.Name)
	}
	s.finishInfrai(w, op, infraiAnswer{}, out)
	return true
}

func (s *Server) finishInfrai(w http.ResponseWriter, op string, a infraiAnswer, err error) {
	cut, isCut := s.faults.onAnswer("answer_cut", op)
	if !isCut {
		cut, isCut = s.faults.onAnswer("content_cut", op)
	}
	if err != nil {
		var e *infraiError
		if !errors.As(err, &e) {
			s.log.Error().Err(err).Str("op", op).Msg("sandbox failed")
			e = &infraiError{Status: http.StatusInternalServerError, Code: "INTERNAL", Message: "The sandbox failed; see its log."}
		}
		a = infraiAnswer{Status: e.Status, Error: e, id: a.id}
	}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	a = s.twistInfrai(op, a)
	if err := s.faults.flush(s.disk); err != nil {
		s.log.Error().Err(err).Msg("sandbox failed")
	}
	s.log.Info().Str("op", op).Str("id", a.id).Int("status", a.Status).Msg("request")
	share := 1.0
	if isCut {
		share = cut.fraction("at")
	}
	writeInfrai(w, a.Status, a, share)
	if isCut {
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// writeInfrai announces the whole answer and sends a share of it.
func writeInfrai(w http.ResponseWriter, status int, a infraiAnswer, share float64) {
	if a.lines != nil {
		w.Header().Set("Content-Length", fmt.Sprint(len(a.lines)))
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.WriteHeader(status)
		w.Write(a.lines[:int(float64(len(a.lines))*share)])
		return
	}
	ok, _ := a.Data.(twisted)
	body := map[string]any{
		"ok": a.Error == nil != ok.lies, "data": a.Data, "error": a.Error,
		"metadata": map[string]any{"cost_usd": 0, "latency_ms": 7, "vendor": infraiVendor, "cache_hit": false, "request_id": "01939f00-0000-7000-8000-000000000000"},
	}
	if ok.set {
		body["data"] = ok.data
	}
	if a.Error == nil {
		body["error"] = nil // and not a nil pointer in an interface
	}
	writePart(w, status, body, share)
}

// twisted is data of an answer whose ok says the opposite of what is true.
type twisted struct {
	set, lies bool
	data      any
}

// infraiDiscovery gives a pinned document out, without a key.
func (s *Server) infraiDiscovery(w http.ResponseWriter, r *http.Request) {
	s.requests.add(opDiscovery)
	_, drift := s.faults.onAnswer("infrai_drift", opDiscovery)
	if r.Header.Get("Authorization") != "" {
		s.infrai.violate("discovery with a key")
	}
	if s.infrai.pin != nil {
		for _, d := range s.infrai.pin.Documents {
			if d.ID == r.PathValue("id") {
				if drift {
					d.Raw += "\n"
				}
				w.Header().Set("Content-Type", "application/json")
				w.Write([]byte(d.Raw))
				return
			}
		}
	}
	writeInfrai(w, http.StatusNotFound, infraiAnswer{Error: &infraiError{Code: "NOT_FOUND", Message: "No such capability."}}, 1)
}

func (b *infraiBox) violate(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.violations = append(b.violations, what)
}

// canonicalInfrai: keys sorted, no spaces, a line feed at the end. Encoding what
// was decoded gives the same bytes.
func canonicalInfrai(raw []byte) bool {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return false
	}
	again, err := json.Marshal(v, json.Deterministic(true), jsontext.EscapeForJS(true))
	return err == nil && string(again)+"\n" == string(raw)
}
