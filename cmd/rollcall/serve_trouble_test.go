package main

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
	"rollcall/sql"
)

// inProcess is a server of a deployment that is not started. Its commits fail
// while full holds.
func (o *operator) inProcess(full *atomic.Bool, log *syncBuffer) *server {
	o.t.Helper()
	a := &app{configPath: filepath.Join(o.dir, "rollcall.yaml")}
	cfg, err := a.loadConfig()
	if err != nil {
		o.t.Fatal(err)
	}
	keys, err := keyring.Load(cfg.Keyring)
	if err != nil {
		o.t.Fatal(err)
	}
	store, err := a.openStore(o.t.Context(), cfg, sql.Options{Commit: func(_ string, commit func() error) error {
		if full.Load() {
			return errors.New("database or disk is full")
		}
		return commit()
	}})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = store.Close() })
	s := &server{app: a, root: o.t.Context()}
	g, err := s.generation(&deployment{config: cfg, store: store, keys: keys, log: zerolog.New(log), unreplicated: new(atomic.Int64)}, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	if err := s.arm(o.t.Context(), g); err != nil {
		o.t.Fatal(err)
	}
	s.current.Store(g)
	return s
}

// syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) count(words string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.b.String(), words)
}

// A full disk is told of, once, and no load balancer takes the daemon for ready.
func TestF48_DaemonOnAFullDiskSaysSo(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.edit("rollcall.yaml", "  heartbeat: 1s\n", "  heartbeat: 1ns\n  late_after: 1h\n") // each question is a write
	var full atomic.Bool
	var log syncBuffer
	s := o.inProcess(&full, &log)
	if r := s.readiness(t.Context()); !r.Ready || r.Database != "ok" {
		t.Fatalf("at first: %+v", r)
	}
	full.Store(true)
	for range 5 {
		s.runSchedule("dispatch")
	}
	for range 3 {
		if r := s.readiness(t.Context()); r.Ready || r.Database != "unwritable" || r.schedule("dispatch").State != "failing" || r.schedule("roll").State == "failing" {
			t.Errorf("on a full disk: %+v", r)
		}
	}
	for what, words := range map[string]string{"the schedule": "could not be run; it is tried", "the database": "the database takes no writes"} {
		if n := log.count(words); n != 1 {
			t.Errorf("%s: said %d times", what, n)
		}
	}
	full.Store(false)
	s.runSchedule("dispatch")
	if r := s.readiness(t.Context()); !r.Ready || r.schedule("dispatch").State == "failing" {
		t.Errorf("with room again: %+v", r)
	}
	for what, words := range map[string]string{"the schedule": "can be again", "the database": "takes writes again"} {
		if n := log.count(words); n != 1 {
			t.Errorf("%s: said %d times that it is over", what, n)
		}
	}
}

// However many ask, the database is written once in a heartbeat.
func TestWriteProbeIsReused(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.edit("rollcall.yaml", "  heartbeat: 1s\n", "  heartbeat: 1h\n  late_after: 3h\n")
	var full atomic.Bool
	var log syncBuffer
	s := o.inProcess(&full, &log)
	for _, now := range []bool{false, true, true} {
		full.Store(now)
		if r := s.readiness(t.Context()); r.Database != "ok" {
			t.Errorf("full %v: %s", now, r.Database)
		}
	}
}

// F47: a witness that is damaged under a running daemon is a finding, which
// closes by itself, and a schedule that fails is no ready one.
func TestF47_DaemonWhoseWitnessIsDamaged(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.serveQuickly()
	s := o.serve()
	path := filepath.Join(o.dir, "rollcall.witness")
	ready(t, s.address(), "ready", func(r readiness) bool { return r.Ready && r.Dispatch != nil })
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damage := func(content []byte) {
		if err := os.WriteFile(path+".new", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "damage that lasts", func() bool { // a run under way may put its own in place
		damage([]byte("{"))
		return strings.Contains(o.run(nil, "status").out, "witness_unusable")
	})
	r := ready(t, s.address(), "a failing schedule", func(r readiness) bool { return r.schedule("dispatch").State == "failing" })
	if r.Ready {
		t.Errorf("ready with it: %+v", r)
	}
	if st := o.must(exitDecision, "status"); !strings.Contains(st.out, "witness_unusable") || !strings.Contains(st.out, "1 schedule is failing") {
		t.Errorf("status:\n%s", st.out)
	}
	d := wantFound(t, o.doctor(exitDecision), "witness", healthBad, "is damaged")
	if !strings.Contains(d.Remedy, "move the file away") {
		t.Errorf("remedy %q", d.Remedy)
	}
	damage(whole)
	ready(t, s.address(), "ready again", func(r readiness) bool { return r.Ready })
	until(t, "nothing open", func() bool { return len(asJSON[[]reconcile.Finding](o, exitAny, "findings")) == 0 })
	if code, _ := get(t, s.address(), "/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d", code)
	}
	s.stop()
}

func TestStatesOfARunThatTakesLong(t *testing.T) {
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		ran, lateAfter time.Duration
		want           string
	}{{time.Hour, time.Minute, "running"}, {time.Hour + 1, time.Minute, "long"}, {3 * time.Hour, 4 * time.Hour, "running"}, {5 * time.Hour, 4 * time.Hour, "long"}} {
		since := now.Add(-tc.ran)
		if got := stateOf(reconcile.ScheduleView{NextDue: since, RunningSince: &since}, now, tc.lateAfter); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}
