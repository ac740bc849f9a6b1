package main

import (
	stdsql "database/sql"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/configs"
	"rollcall/reconcile"
	"rollcall/sql"
)

// ready asks for readiness until a condition holds, and checks that the code
// tells what the body does.
func ready(t *testing.T, address, what string, holds func(r readiness) bool) (last readiness) {
	t.Helper()
	until(t, what, func() bool {
		code, body := get(t, address, "/readyz")
		last = readiness{}
		if err := json.Unmarshal([]byte(body), &last); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if (code == http.StatusOK) != last.Ready || code != http.StatusOK && code != http.StatusServiceUnavailable {
			t.Fatalf("code %d of %s", code, body)
		}
		return holds(last)
	})
	return last
}

func (r readiness) schedule(name string) scheduleState {
	for _, s := range r.Schedules {
		if s.Schedule == name {
			return s
		}
	}
	return scheduleState{}
}

// TestReadyzTellsWhatIsWrong follows a daemon through what an operator's
// monitoring must see.
func TestReadyzTellsWhatIsWrong(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.serveQuickly()
	o.edit("rollcall.yaml", "  heartbeat: 50ms\n", "  heartbeat: 50ms\n  late_after: 200ms\n")
	store, err := sql.Open(t.Context(), sql.Options{Address: filepath.Join(o.dir, "rollcall.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	s := o.serve()
	address := s.address()
	good := func(r readiness) bool { return r.Ready }

	r := ready(t, address, "a run of submit", func(r readiness) bool { return r.Ready && r.Dispatch != nil })
	if r.Database != "ok" || r.Schema != "ok" || r.Degraded || len(r.Accounts) != 1 || r.Accounts[0] != (accountState{"sandbox", "readable"}) ||
		len(r.Schedules) != 4 || r.schedule("dispatch").NextDue == nil || r.schedule("dispatch").LastSlot == nil || len(r.Paused) != 0 {
		t.Errorf("ready: %+v", r)
	}

	now := time.Now()
	lease, err := store.AcquireLease(t.Context(), "schedule:dispatch", "a process that does nothing", now, now.Add(time.Hour))
	for err != nil { // while it runs
		lease, err = store.AcquireLease(t.Context(), "schedule:dispatch", "a process that does nothing", now, now.Add(time.Hour))
	}
	r = ready(t, address, "a late schedule", func(r readiness) bool { return !r.Ready })
	if r.schedule("dispatch").State != "late" || r.schedule("roll").State != "ok" {
		t.Errorf("late: %+v", r)
	}
	if st := o.must(exitDone, "status"); !strings.Contains(st.out, "1 schedule is late") {
		t.Errorf("status:\n%s", st.out)
	}
	if code, _ := get(t, address, "/healthz"); code != http.StatusOK {
		t.Errorf("a late schedule makes the loop dead: %d", code)
	}
	if err := store.ReleaseLease(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	ready(t, address, "the schedule on time", good)

	o.must(exitDone, "pause", "--reason", "a drill")
	r = ready(t, address, "a pause", func(r readiness) bool { return len(r.Paused) > 0 })
	if !r.Ready || r.Paused[0].Scope != "all" || r.Paused[0].Stage != "dispatch" {
		t.Errorf("paused: %+v", r)
	}
	o.must(exitDone, "resume", "--reason", "it is over")

	key := filepath.Join(o.dir, "sandbox.key")
	if err := os.Rename(key, key+".away"); err != nil {
		t.Fatal(err)
	}
	r = ready(t, address, "a lost key", func(r readiness) bool { return !r.Ready })
	if r.Accounts[0].Key != "unreadable" {
		t.Errorf("a key that is gone: %+v", r)
	}
	if err := os.Rename(key+".away", key); err != nil {
		t.Fatal(err)
	}
	ready(t, address, "the key back", good)

	db, err := stdsql.Open("sqlite", filepath.Join(o.dir, "rollcall.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)"); err != nil {
		t.Fatal(err)
	}
	if r = ready(t, address, "another schema", func(r readiness) bool { return !r.Ready }); r.Schema != "ahead" {
		t.Errorf("a newer schema: %+v", r)
	}
	s.stop()
}

func TestProbesAnswerNothingElse(t *testing.T) {
	s := &server{}
	cfg := configs.Default()
	s.current.Store(&generation{deployment: &deployment{config: cfg}})
	s.beat.Store(int64(uptime()))
	ask := func(method, path string) int {
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code
	}
	for _, tc := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/healthz", http.StatusOK}, {"POST", "/healthz", http.StatusMethodNotAllowed}, {"DELETE", "/readyz", http.StatusMethodNotAllowed},
		{"GET", "/", http.StatusNotFound}, {"GET", "/metrics", http.StatusNotFound},
	} {
		if got := ask(tc.method, tc.path); got != tc.want {
			t.Errorf("%s %s: %d, want %d", tc.method, tc.path, got, tc.want)
		}
	}
	s.beat.Store(int64(uptime() - 3*cfg.Serve.Heartbeat.Std() - lookWithin + time.Second))
	if got := ask("GET", "/healthz"); got != http.StatusOK {
		t.Errorf("a heartbeat that is nearly late: %d", got)
	}
	s.beat.Store(int64(uptime() - 3*cfg.Serve.Heartbeat.Std() - lookWithin - time.Second))
	if got := ask("GET", "/healthz"); got != http.StatusServiceUnavailable {
		t.Errorf("a heartbeat that stopped: %d", got)
	}
}

func TestStatesOfSchedules(t *testing.T) {
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	earlier, later := now.Add(-time.Hour), now.Add(time.Hour)
	longAgo := earlier.Add(-time.Second)
	g := &generation{deployment: &deployment{config: configs.Default()}, refused: []configs.RefusedSchedule{{Name: "wrong"}}}
	for _, name := range []string{"ok", "late", "running", "long", "failed", "failing", "unwritten", "lost", "elsewhere"} {
		g.schedules = append(g.schedules, reconcile.Scheduled{Name: name, Expression: "@daily", Zone: "UTC"})
	}
	states := g.scheduleStates([]reconcile.ScheduleView{
		{Name: "ok", Cron: "@daily", Zone: "UTC", NextDue: later, Last: &reconcile.Slot{At: earlier, FinishedAt: &earlier, Outcome: reconcile.SlotDone}},
		{Name: "late", Cron: "@daily", Zone: "UTC", NextDue: earlier},
		{Name: "running", Cron: "@daily", Zone: "UTC", NextDue: earlier, RunningSince: &earlier, Last: &reconcile.Slot{At: earlier}},
		{Name: "long", Cron: "@daily", Zone: "UTC", NextDue: earlier, RunningSince: &longAgo, Last: &reconcile.Slot{At: longAgo}},
		{Name: "failed", Cron: "@daily", Zone: "UTC", NextDue: later, FailedRuns: 2},
		{Name: "failing", Cron: "@daily", Zone: "UTC", NextDue: later, FailedRuns: 3, RunningSince: &earlier, Last: &reconcile.Slot{At: earlier}},
		{Name: "unwritten", Cron: "@daily", Zone: "UTC", NextDue: later},
		{Name: "elsewhere", Cron: "@hourly", Zone: "UTC", NextDue: later},
		{Name: "of nobody", Cron: "@hourly", Zone: "UTC", NextDue: earlier},
	}, now, func(name string) bool { return name == "unwritten" })
	var got []string
	for _, s := range states {
		line := s.Schedule + " " + s.State
		if s.Elsewhere {
			line += " elsewhere"
		}
		got = append(got, line)
	}
	if want := "ok ok, late late, running running, long long, failed ok, failing failing, unwritten failing, lost unknown, elsewhere ok elsewhere, wrong refused"; strings.Join(got, ", ") != want {
		t.Errorf("%s\nwant %s", strings.Join(got, ", "), want)
	}
}
