package sandbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch/infrai"
)

// maxInfraiBody is far above what the adapter sends.
const maxInfraiBody = 64 << 20

func drain(r *http.Request) { io.Copy(io.Discard, r.Body) } // an error is the client's

func sortInfrai(jobs []*infraiJob) {
	slices.SortStableFunc(jobs, func(a, b *infraiJob) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) })
}

// infraiRequest is the body of a submit.
type infraiRequest struct {
	Requests []map[string]jsontext.Value `json:"requests"`
	Timeout  string                      `json:"batch_timeout"`
	Metadata map[string]string           `json:"metadata"`
	Key      string                      `json:"idempotency_key"`
}

// infraiSubmit makes a job, or finds the one that the key stands for.
func (s *Server) infraiSubmit(c *call) (infraiAnswer, error) {
	raw, err := io.ReadAll(io.LimitReader(c.Body, maxInfraiBody))
	var req infraiRequest
	if err != nil || json.Unmarshal(raw, &req, json.RejectUnknownMembers(true)) != nil || len(req.Requests) == 0 {
		return infraiAnswer{}, &infraiError{Status: http.StatusBadRequest, Code: "INVALID_REQUEST", Message: "The body is not a submit."}
	}
	b := &s.infrai
	items, problem := b.items(req)
	if problem != "" {
		return infraiAnswer{}, &infraiError{Status: http.StatusUnprocessableEntity, Code: problem, Message: "An item is refused."}
	}
	sum := sha256.Sum256(raw)
	j := &infraiJob{ID: s.ids.next("b_"), Key: req.Key, Sum: hex.EncodeToString(sum[:]), Created: c.now, Items: items}
	if j.Key == "" {
		j.Key = "derived-" + j.Sum[:32]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.submits++
	b.inspect(c.Request, req, raw, j)
	if old := b.known(j.Key, c.now); old != nil {
		if _, again := s.faults.onAnswer("infrai_second_job", opCreate); !again {
			answer, err := b.repeat(s, old, j)
			if answer != nil || err != nil {
				return b.submitted(answer, c.now), err
			}
		}
	}
	j.Faults = s.faults.takeAll(func(_ Fault, sp spec) bool { return sp.stage == ofJob || sp.stage == ofAnswer || sp.stage == ofLine })
	if err := s.disk.save(s.disk.recordPath(infraiDir, j.ID), j); err != nil {
		return infraiAnswer{}, err
	}
	b.jobs = append(b.jobs, j)
	return b.submitted(j, c.now), nil
}

// inspect notes what no client may do; mu is held.
func (b *infraiBox) inspect(r *http.Request, req infraiRequest, raw []byte, j *infraiJob) {
	note := func(bad bool, what string) {
		if bad {
			b.violations = append(b.violations, what)
		}
	}
	header := r.Header.Get("Idempotency-Key")
	note(header == "" || req.Key == "", "a submit without a key")
	note(header != req.Key, "two keys in one submit")
	note(!canonicalInfrai(raw), "a submit that is not canonical JSON")
	note(req.Timeout != "24h", "a batch_timeout that is not documented")
	first, again := b.sums[j.Key]
	note(again && first != j.Sum, "other bytes under one key")
	if !again {
		b.sums[j.Key] = j.Sum
	}
	for _, i := range j.Items {
		var body chatRequest
		note(json.Unmarshal(i.Body, &body) != nil || body.Model == "" || strings.EqualFold(body.Model, "auto"), "an item without an explicit model")
	}
}

func (b *infraiBox) items(req infraiRequest) (items []infraiItem, problem string) {
	seen := map[string]bool{}
	for _, r := range req.Requests {
		item := infraiItem{Body: r["body"]}
		if item.Body.Kind() != jsontext.KindBeginObject || r["capability"].Kind() != jsontext.KindString {
			return nil, "INVALID_ITEM"
		}
		if name := b.contract.ItemIDPath; name != "" {
			if json.Unmarshal(r[name], &item.ID) != nil || item.ID == "" || seen[item.ID] {
				return nil, "INVALID_ITEM_ID"
			}
			seen[item.ID] = true
		}
		items = append(items, item)
	}
	return items, ""
}

// known is the newest job of a key, within the window; mu is held.
func (b *infraiBox) known(key string, now time.Time) *infraiJob {
	for _, j := range slices.Backward(b.jobs) {
		if j.Key == key && now.Sub(j.Created) < infraiWindow {
			return j
		}
	}
	return nil
}

// repeat answers for a key that is known; neither a job nor an error is a new job.
func (b *infraiBox) repeat(s *Server, old, j *infraiJob) (*infraiJob, error) {
	if old.Sum == j.Sum {
		return old, nil
	}
	f, ok := s.faults.onAnswer("infrai_other_body", opCreate)
	switch {
	case ok && f.text("gives") == "old":
		return old, nil
	case ok && f.text("gives") == "new":
		return nil, nil
	}
	return nil, &infraiError{Status: http.StatusConflict, Code: "IDEMPOTENCY_MISMATCH", Message: "Another body had this key."}
}

func (b *infraiBox) submitted(j *infraiJob, now time.Time) infraiAnswer {
	if j == nil {
		return infraiAnswer{}
	}
	return infraiAnswer{Status: http.StatusAccepted, id: j.ID, Data: map[string]any{
		"batch_id": j.ID, "state": b.contract.States.Pending[0], "total_count": len(j.Items), "estimated_cost_usd": 0.0004,
	}}
}

// job is the one with an id.
func (b *infraiBox) job(id string) (*infraiJob, error) {
	for _, j := range b.jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return nil, &infraiError{Status: http.StatusNotFound, Code: "NOT_FOUND", Message: "No such batch."}
}

func (j *infraiJob) fault(name string) (Fault, bool) {
	i := slices.IndexFunc(j.Faults, func(f Fault) bool { return f.Name == name })
	if i < 0 {
		return Fault{}, false
	}
	return j.Faults[i], true
}

// infraiStanding is where a job stands: its state, and how many items are done.
type infraiStanding struct {
	state string
	ended bool
	done  int
	rest  string // the word for items that are not done
}

// first is the first word that there is.
func first(sets ...[]string) string {
	for _, s := range sets {
		if len(s) > 0 {
			return s[0]
		}
	}
	return ""
}

func (s *Server) infraiCourse(j *infraiJob, now time.Time) infraiStanding {
	c, n := s.infrai.contract, len(j.Items)
	age, whole := now.Sub(j.Created), s.latencies.Validating+s.latencies.Running+s.latencies.Finalizing
	running := infraiStanding{state: c.States.Pending[min(len(c.States.Pending)-1, int(2*age/whole))]}
	of := func(f Fault) int { return int(f.fraction("share")*float64(n) + 0.5) }
	var items infrai.ItemStates
	if c.Results != nil {
		items = c.Results.ItemStates
	}
	if f, ok := j.fault("expire"); ok {
		if age < f.duration("after") {
			return running
		}
		return infraiStanding{state: first(c.States.Partial, c.States.Success), ended: true, done: of(f), rest: first(items.Expired, items.Failed)}
	}
	if age < whole {
		return running
	}
	if f, ok := j.fault("cancel_midway"); ok {
		return infraiStanding{state: first(c.States.Cancelled, c.States.Failed), ended: true, done: of(f), rest: first(items.Cancelled, items.Failed)}
	}
	if _, ok := j.fault("all_failed"); ok {
		return infraiStanding{state: first(c.States.Failed, c.States.Success), ended: true, done: n}
	}
	return infraiStanding{state: c.States.Success[0], ended: true, done: n}
}

func (s *Server) infraiStatus(c *call, id string) (infraiAnswer, error) {
	b := &s.infrai
	b.mu.Lock()
	defer b.mu.Unlock()
	j, err := b.job(id)
	if err != nil {
		return infraiAnswer{}, err
	}
	at := s.infraiCourse(j, c.now)
	if at.ended {
		j.looks++
	}
	if _, ok := j.fault("infrai_regress"); ok && at.ended && j.looks%2 == 0 {
		at.state = b.contract.States.Pending[0]
	}
	if f, ok := j.fault("unknown_status"); ok {
		at.state = f.text("word")
	}
	data := map[string]any{"batch_id": j.ID, "an_unknown_member": map[string]any{"x": []any{1}}}
	setPath(data, b.contract.StatePath, at.state)
	for path, n := range map[string]int{b.contract.Counts.Total: len(j.Items), b.contract.Counts.Completed: at.done, b.contract.Counts.Failed: 0} {
		if path != "" {
			setPath(data, path, n)
		}
	}
	return infraiAnswer{Data: data, id: j.ID}, nil
}

// setPath puts a value at a dotted path.
func setPath(m map[string]any, path string, v any) {
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		inner, ok := m[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			m[name] = inner
		}
		m = inner
	}
	m[names[len(names)-1]] = v
}

// infraiResults are the items in the shape of the pin.
func (s *Server) infraiResults(c *call, id string) (infraiAnswer, error) {
	b := &s.infrai
	b.mu.Lock()
	defer b.mu.Unlock()
	j, err := b.job(id)
	if err != nil {
		return infraiAnswer{}, err
	}
	at := s.infraiCourse(j, c.now)
	_, lost := j.fault("results_lost")
	if _, once := j.fault("infrai_results_once"); once && j.reads > 0 {
		lost = true
	}
	if !at.ended || lost {
		return infraiAnswer{}, &infraiError{Status: http.StatusNotFound, Code: "NO_RESULTS", Message: "There are no results."}
	}
	all := s.infraiItems(j, at)
	r := b.contract.Results
	a := infraiAnswer{id: j.ID}
	switch r.Shape {
	case infrai.ShapeJSONL:
		a.lines = []byte{}
		for _, item := range all {
			line, err := json.Marshal(item, json.Deterministic(true))
			if err != nil {
				return infraiAnswer{}, err
			}
			a.lines = append(append(a.lines, line...), '\n')
		}
	case infrai.ShapeArray:
		a.Data = all
		if r.ItemsPath != "" {
			data := map[string]any{}
			setPath(data, r.ItemsPath, all)
			a.Data = data
		}
	default:
		a.Data, err = s.infraiPage(c, all)
	}
	if err == nil && c.URL.RawQuery == "" {
		j.reads++
	}
	return a, err
}

// infraiPage is the page behind the cursor, which is a place in the list.
func (s *Server) infraiPage(c *call, all []any) (any, error) {
	r := s.infrai.contract.Results
	size, from := infraiPage, 0
	if f, ok := s.faults.onAnswer("infrai_page", opContent); ok {
		size = max(int(f.number("entries")), 1)
	}
	if cursor := c.URL.Query().Get(r.PageParameter); cursor != "" {
		n, err := strconv.Atoi(strings.TrimPrefix(cursor, "at+"))
		if err != nil || n < 0 || n > len(all) {
			return nil, &infraiError{Status: http.StatusBadRequest, Code: "BAD_CURSOR", Message: "No such page."}
		}
		from = n
	}
	to := min(from+size, len(all))
	data := map[string]any{}
	setPath(data, r.ItemsPath, all[from:to])
	switch _, loop := s.faults.onAnswer("infrai_page_loop", opContent); {
	case loop:
		setPath(data, r.NextPagePath, "at+0")
	case to < len(all):
		setPath(data, r.NextPagePath, "at+"+strconv.Itoa(to))
	default:
		setPath(data, r.NextPagePath, nil)
	}
	return data, nil
}
