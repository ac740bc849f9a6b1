package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/reconcile"
	"rollcall/sql"
)

const (
	probeTimeout = 10 * time.Second // for a request and its answer
	probeWithin  = 5 * time.Second  // for what the ledger is asked
	probeReuse   = time.Second      // one answer serves all who ask within this
	probeStop    = time.Second
)

// probes is the HTTP server.
type probes struct {
	server  *http.Server
	address string
	failed  chan error // nil, and so never ready, without a listener
}

// listen serves at an address, or nowhere.
func (p *probes) listen(address string, handler http.Handler) error {
	if address == "" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serve.listen: %w", err)
	}
	p.address, p.failed = l.Addr().String(), make(chan error, 1)
	p.server = &http.Server{
		Handler: handler, ReadHeaderTimeout: probeTimeout, ReadTimeout: probeTimeout, WriteTimeout: 2 * probeTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: 8 << 10,
	}
	go func() {
		if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			p.failed <- err
		}
	}()
	return nil
}

// close ends the server. It may be called without one, and twice.
func (p *probes) close() {
	if p.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeStop)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		_ = p.server.Close()
	}
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, s.alive(), map[string]bool{"alive": s.alive()})
	})
	var mu sync.Mutex
	var last readiness
	var asked time.Duration
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if last.At.IsZero() || uptime()-asked > probeReuse {
			last, asked = s.readiness(context.WithoutCancel(r.Context())), uptime()
		}
		answer(w, last.Ready && !s.stopping.Load(), last)
	})
	mux.HandleFunc("POST /hooks/provider/{account}", s.hook)
	return mux
}

func answer(w http.ResponseWriter, good bool, body any) {
	text, err := json.Marshal(body, jsontext.WithIndent("  "), json.Deterministic(true), json.FormatNilSliceAsNull(false))
	if err != nil {
		http.Error(w, "the answer could not be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !good {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(append(text, '\n')) // whoever asked is gone
}

// readiness is what /readyz answers: names, times and states, nothing else.
type readiness struct {
	Ready     bool            `json:"ready"`
	Degraded  bool            `json:"degraded"` // a schedule is refused, or runs for long; the others run
	At        time.Time       `json:"at"`
	Database  string          `json:"database"` // ok, read_only, unwritable or unreachable
	Schema    string          `json:"schema"`   // ok, behind, ahead or unknown
	Schedules []scheduleState `json:"schedules"`
	Accounts  []accountState  `json:"accounts"`
	Webhooks  []hookState     `json:"webhooks"`                // of this process
	Paused    []pauseState    `json:"paused"`                  // no failure: a person wants it so
	Dispatch  *lastDispatch   `json:"last_dispatch,omitempty"` // of this process
}

// scheduleState is how a schedule of the configuration fares.
type scheduleState struct {
	Schedule     string                `json:"schedule"`
	State        string                `json:"state"` // ok, running, long, late, failing, refused or unknown
	NextDue      *time.Time            `json:"next_due,omitempty"`
	RunningSince *time.Time            `json:"running_since,omitempty"`
	LastSlot     *time.Time            `json:"last_slot,omitempty"`
	LastOutcome  reconcile.SlotOutcome `json:"last_outcome,omitempty"`
	// Elsewhere: a process with another configuration runs it.
	Elsewhere bool `json:"elsewhere"`
}

type accountState struct {
	Account string `json:"account"`
	Key     string `json:"key"` // readable or unreadable
}

type pauseState struct {
	Scope string    `json:"scope"`
	Stage string    `json:"stage"`
	Since time.Time `json:"since"`
}

// lastDispatch is what a run of submit did.
type lastDispatch struct {
	At     time.Time `json:"at"`
	Moved  int64     `json:"moved"` // jobs sent, or given up because nobody wants them
	PutOff int64     `json:"put_off"`
}

// noteDispatch remembers what submit did, for whoever asks.
func (s *server) noteDispatch(pass reconcile.PassName, t reconcile.Tally) {
	if pass == reconcile.PassSubmit {
		s.sent.Store(&lastDispatch{At: time.Now().UTC(), Moved: t.Moved, PutOff: t.Failed})
	}
}

// readiness asks everything anew.
func (s *server) readiness(ctx context.Context) readiness {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	g := s.current.Load()
	r := readiness{At: time.Now().UTC(), Database: databaseState(g.store.CheckRole(ctx)), Schema: "unknown", Webhooks: s.hooks.states(), Dispatch: s.sent.Load()}
	if r.Database != "unreachable" {
		r.Schema = schemaState(g.store.CheckSchema(ctx))
	}
	if r.Database == "ok" && s.writes.check(ctx, g) != nil {
		r.Database = "unwritable"
	}
	var known []reconcile.ScheduleView
	now, err := g.store.Now(ctx)
	if err == nil {
		known, err = g.store.Schedules(ctx, now)
	}
	r.Schedules = g.scheduleStates(known, now, s.trouble.failing)
	pauses, perr := g.store.Pauses(ctx)
	for _, p := range pauses {
		r.Paused = append(r.Paused, pauseState{p.Scope, string(p.Stage), p.SetAt})
	}
	for _, a := range g.config.Accounts {
		state := accountState{a.Name, "readable"}
		if _, err := a.APIKey.Read(); err != nil {
			state.Key = "unreadable"
		}
		r.Accounts = append(r.Accounts, state)
	}
	r.Degraded = len(g.refused) > 0 || slices.ContainsFunc(r.Schedules, func(s scheduleState) bool { return s.State == "long" })
	r.Ready = err == nil && perr == nil && r.Database == "ok" && r.Schema == "ok" &&
		!slices.ContainsFunc(r.Schedules, func(s scheduleState) bool { return slices.Contains([]string{"late", "failing", "unknown"}, s.State) }) &&
		!slices.ContainsFunc(r.Accounts, func(a accountState) bool { return a.Key != "readable" })
	return r
}

func databaseState(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, sql.ErrReadOnly):
		return "read_only"
	}
	return "unreachable"
}

func schemaState(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, sql.ErrSchemaBehind):
		return "behind"
	case errors.Is(err, sql.ErrSchemaAhead):
		return "ahead"
	}
	return "unknown"
}

// scheduleStates judges every schedule of the configuration by what the ledger
// knows of it, and of what could not be written there.
func (g *generation) scheduleStates(known []reconcile.ScheduleView, now time.Time, failing func(name string) bool) []scheduleState {
	views := map[string]reconcile.ScheduleView{}
	for _, v := range known {
		views[v.Name] = v
	}
	var out []scheduleState
	for _, sched := range g.schedules {
		st := scheduleState{Schedule: sched.Name, State: "unknown"}
		if v, ok := views[sched.Name]; ok {
			st.NextDue, st.RunningSince, st.Elsewhere = &v.NextDue, v.RunningSince, v.Cron != sched.Expression || v.Zone != sched.Zone
			if v.Last != nil {
				st.LastSlot, st.LastOutcome = &v.Last.At, v.Last.Outcome
			}
			st.State = stateOf(v, now, g.config.Serve.LateAfter.Std())
		}
		if failing(sched.Name) {
			st.State = "failing"
		}
		out = append(out, st)
	}
	for _, r := range g.refused {
		out = append(out, scheduleState{Schedule: r.Name, State: "refused"})
	}
	return out
}

// longRun is how long a run may take at least before it is called long: a job of
// 50,000 items is sent or read in less.
const longRun = time.Hour

// stateOf judges a schedule that the ledger knows. A run under way does not hide
// that those before it failed, and is never late: its lease is kept.
func stateOf(v reconcile.ScheduleView, now time.Time, lateAfter time.Duration) string {
	switch {
	case v.Failing():
		return "failing"
	case v.RunningSince != nil && now.Sub(*v.RunningSince) > max(lateAfter, longRun):
		return "long"
	case v.RunningSince != nil:
		return "running"
	case v.Late(now, lateAfter):
		return "late"
	}
	return "ok"
}
