package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"rollcall/batch/openai"
	"rollcall/reconcile/webhook"
)

const (
	hookBody    = 64 << 10        // bytes of one event; OpenAI's have a few hundred
	hooksAtOnce = 16              // requests; whoever comes beyond is told to come again
	hookWithin  = 5 * time.Second // for what the ledger is asked
	hookSaid    = time.Minute     // between two lines of the log about one outcome
)

// hookEvents read the events of the providers that sign them: the id of the batch
// job that an event is about, or "".
var hookEvents = map[string]func(body []byte) (jobID string, err error){"openai": openai.JobEvent}

// hook is the webhook of one account.
type hook struct {
	verifier webhook.Verifier
	event    func(body []byte) (jobID string, err error)
}

// hooks makes the webhooks of the accounts that have secrets, and reads these.
func (d *deployment) hooks() (map[string]*hook, error) {
	out := map[string]*hook{}
	for _, acc := range d.config.Accounts {
		keys, err := acc.WebhookKeys()
		if err != nil {
			return nil, &exitError{exitUsage, err} // it names the field
		}
		if len(keys) > 0 {
			out[acc.Name] = &hook{webhook.Verifier{Keys: keys, Now: time.Now, MaxBody: hookBody}, hookEvents[acc.Provider]}
		}
	}
	return out, nil
}

// nobody stands for an account that has no webhook, in counts and in the log: the
// name in a request is anybody's text.
const nobody = "-"

// noKeys refuses everything, and looks at a request as every verifier does, so that
// nobody is told which accounts there are.
var noKeys = &hook{verifier: webhook.Verifier{Now: time.Now, MaxBody: hookBody}}

// hookOutcome is what became of a request; a webhook.Refusal is one too.
type hookOutcome string

const (
	hookPulled     hookOutcome = "pulled"      // the job is polled early
	hookNoChange   hookOutcome = "no_change"   // the account's job is due as soon already, is no longer there, or is not known
	hookOtherEvent hookOutcome = "other_event" // not about the end of a job
	hookUnreadable hookOutcome = "unreadable"  // signed, and not an event
	hookBusy       hookOutcome = "busy"        // too many requests at once
	hookFailed     hookOutcome = "failed"      // the ledger could not be asked
)

// status is the answer to an outcome. All that is not genuine is answered alike.
func (o hookOutcome) status() int {
	switch o {
	case hookPulled, hookNoChange, hookOtherEvent:
		return http.StatusNoContent
	case hookUnreadable:
		return http.StatusUnprocessableEntity
	case hookBusy, hookFailed:
		return http.StatusServiceUnavailable // and the sender tries again
	}
	return http.StatusUnauthorized
}

// hookDesk answers webhooks.
type hookDesk struct {
	inFlight atomic.Int32
	ledger   sync.Mutex // one at a time: the passes need its connections
	mu       sync.Mutex
	counts   map[hookCase]*hookCount
}

type hookCase struct {
	account string
	outcome hookOutcome
}

type hookCount struct {
	requests, untold int64
	told             time.Duration // the uptime at the last line of the log
}

// hook answers POST /hooks/provider/ACCOUNT. An event that is genuine may pull the
// next poll of one job of exactly that account forward, and does nothing else; see
// Reconciler.PullPoll for why it may be repeated, by its sender or by anybody who
// has seen it within the tolerance of the signature, and why no id is kept.
func (s *server) hook(w http.ResponseWriter, r *http.Request) {
	g := s.current.Load()
	if len(g.hooks) == 0 {
		http.NotFound(w, r)
		return
	}
	name := r.PathValue("account")
	h := g.hooks[name]
	if h == nil {
		name, h = nobody, noKeys
	}
	outcome := s.handleHook(w, r, g, name, h)
	s.hooks.note(g, hookCase{name, outcome})
	code := outcome.status()
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
}

func (s *server) handleHook(w http.ResponseWriter, r *http.Request, g *generation, name string, h *hook) hookOutcome {
	defer s.hooks.inFlight.Add(-1)
	if s.hooks.inFlight.Add(1) > hooksAtOnce {
		return hookBusy
	}
	delivery, body, err := h.verifier.Receive(w, r)
	var refusal webhook.Refusal
	if errors.As(err, &refusal) {
		return hookOutcome(refusal)
	}
	providerJobID, err := h.event(body)
	switch {
	case err != nil:
		return hookUnreadable
	case providerJobID == "":
		return hookOtherEvent
	}
	jobID, err := s.pull(r.Context(), g, name, providerJobID)
	switch {
	case err != nil:
		g.log.Debug().Err(err).Str("account", name).Msg("a webhook could not be acted on")
		return hookFailed
	case jobID == "":
		return hookNoChange
	}
	g.log.Info().Str("account", name).Str("job_id", jobID).Str("provider_job_id", providerJobID).Int("secret", delivery.Key).
		Msg("the provider says that a job has ended; it is polled early")
	return hookPulled
}

func (s *server) pull(ctx context.Context, g *generation, account, providerJobID string) (jobID string, err error) {
	ctx, cancel := context.WithTimeout(ctx, hookWithin)
	defer cancel()
	s.hooks.ledger.Lock()
	defer s.hooks.ledger.Unlock()
	return g.reconciler.PullPoll(ctx, account, providerJobID)
}

// note counts an outcome and tells it: the first time at once, and then at most
// once in hookSaid, since anybody can send what is refused.
func (d *hookDesk) note(g *generation, c hookCase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.counts[c]
	if n == nil {
		if d.counts == nil {
			d.counts = map[hookCase]*hookCount{}
		}
		n = &hookCount{told: -hookSaid}
		d.counts[c] = n
	}
	n.requests++
	n.untold++
	if now := uptime(); c.outcome != hookPulled && now-n.told >= hookSaid { // what was pulled has its own line
		level := zerolog.WarnLevel
		if c.outcome == hookNoChange || c.outcome == hookOtherEvent {
			level = zerolog.DebugLevel
		}
		g.log.WithLevel(level).Str("account", c.account).Str("outcome", string(c.outcome)).Int64("requests", n.untold).Msg("webhook")
		n.untold, n.told = 0, now
	}
}

// hookState is how many requests of a webhook had one outcome, since the process
// began.
type hookState struct {
	Account  string      `json:"account"` // "-" for those to an account without one
	Outcome  hookOutcome `json:"outcome"`
	Requests int64       `json:"requests"`
}

func (d *hookDesk) states() []hookState {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []hookState
	for c, n := range d.counts {
		out = append(out, hookState{c.account, c.outcome, n.requests})
	}
	slices.SortFunc(out, func(a, b hookState) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Outcome, b.Outcome))
	})
	return out
}
