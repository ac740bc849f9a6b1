package main

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// A newcomer who runs the daemon over the sandbox sees reports classified soon,
// with the configuration as init writes it.
func TestServeClassifies(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			o.edit("rollcall.yaml", "  heartbeat: 1s\n", "  heartbeat: 1s\n  listen: 127.0.0.1:0\n", "jobs:\n", "log: {level: trace}\njobs:\n")
			s := o.serve()
			s.wait(`"message":"scheduled"`, `"schedule":"dispatch"`, `"cron":"@every 2s"`, `"zone":"UTC"`, `"next_due"`, `"collect","resolve","submit"`)
			o.must(exitDone, "intake", o.file("r.jsonl", strings.ReplaceAll(threeReports, `"text":"`, `"text":"`+marker+" ")))
			o.recorded(3)
			s.wait(`"message":"slot"`, `"schedule":"dispatch"`, `"outcome":"done"`, `"missed":`)
			for _, path := range []string{"/healthz", "/readyz"} {
				if code, body := get(t, s.address(), path); code != http.StatusOK {
					t.Errorf("%s: %d %s", path, code, body)
				}
			}
			if r := o.must(exitDone, "status"); !strings.Contains(r.out, "dispatch") || strings.Contains(r.out, "late") {
				t.Errorf("status:\n%s", r.out)
			}
			s.stop()
			if strings.Contains(s.all(), marker) {
				t.Error("the log holds report text")
			}
			for _, v := range asJSON[reconcile.Overview](o, exitDone, "status").Schedules {
				if v.RunningSince != nil {
					t.Errorf("%s still runs: %+v", v.Name, v)
				}
			}
		})
	}
}

// A death at any moment is made up for by the next start.
func TestServeGoesOnAfterADeath(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.serveQuickly()
	o.edit("rollcall.yaml", "jobs:\n", "lease: 1s\njobs:\n")
	for _, report := range strings.SplitAfter(strings.TrimSpace(threeReports)+"\n", "\n")[:3] {
		s := o.serve()
		o.must(exitDone, "intake", o.file("r.jsonl", report))
		s.wait(`"pass":"collect"`, `"moved":1`)
		s.signal(syscall.SIGKILL)
		s.end()
	}
	o.serve()
	o.recorded(3)
	if b, err := o.box.Books(); err != nil || b.Works.InMoreThanOneJob != 0 {
		t.Errorf("the sandbox's books: %+v, %v", b.Works, err)
	}
}

// A request to create a job is finished before the process ends.
func TestServeStopWaitsForACreate(t *testing.T) {
	o := newOperator(t, "sqlite", "delay:op=create,by=2s")
	o.serveQuickly()
	s := o.serve()
	o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
	until(t, "a create", func() bool {
		b, err := o.box.Books()
		return err == nil && b.Requests["create"] == 1
	})
	s.stop()
	view := asJSON[reconcile.Overview](o, exitDone, "status")
	if view.Jobs[reconcile.JobSubmitted] != 1 || len(view.Uncertain)+len(view.Open) > 0 {
		t.Errorf("jobs %v, uncertain %v, open %v", view.Jobs, view.Uncertain, view.Open)
	}
	s.wait(`"message":"slot"`, `"outcome":"interrupted"`)
}

// What does not end is cut, and a second signal does not wait.
func TestServeStopIsBounded(t *testing.T) {
	for name, second := range map[string]bool{"cut": false, "second signal": true} {
		t.Run(name, func(t *testing.T) {
			o := newOperator(t, "sqlite", "delay:op=create,by=10m")
			o.serveQuickly()
			within := "  stop_within: 200ms\n"
			if second {
				within = "  stop_within: 10m\n"
			}
			o.edit("rollcall.yaml", "  listen: 127.0.0.1:0\n", "  listen: \"\"\n"+within)
			s := o.serve()
			o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
			until(t, "a create", func() bool {
				b, err := o.box.Books()
				return err == nil && b.Requests["create"] == 1
			})
			s.signal(syscall.SIGTERM)
			s.wait(`"message":"stopping"`)
			if !second {
				if state := s.end(); state.ExitCode() != exitFailed || !strings.Contains(s.all(), "did not end within 200ms") {
					t.Errorf("it ends with %s:\n%s", state, s.all())
				}
				return
			}
			until(t, "an end", func() bool { // the first signal may still be on its way to everybody
				_ = s.cmd.Process.Signal(syscall.SIGTERM)
				select {
				case <-s.ended:
					return true
				default:
					return false
				}
			})
			if state := s.end(); state.ExitCode() != exitInterrupted || !strings.Contains(s.all(), "interrupted again") {
				t.Errorf("it ends with %s:\n%s", state, s.all())
			}
		})
	}
}

func TestServeReadsTheConfigurationAgain(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.serveQuickly()
	s := o.serve()
	const again = `"message":"the configuration was read again`

	o.edit("rollcall.yaml", `"@every 30s"`, `"@every 7m"`, "heartbeat: 50ms", "heartbeat: 60ms", "listen: 127.0.0.1:0", `listen: ""`,
		"log: {level: debug}", "log: {level: trace}", "rollcall.keyring", "other.keyring")
	s.signal(syscall.SIGHUP)
	s.wait(again)
	s.wait(`"message":"scheduled"`, `"schedule":"roll"`, `"cron":"@every 7m"`)
	s.wait(`"level":"trace"`)
	for _, field := range []string{"keyring", "serve.listen"} {
		s.wait("needs a restart", `"field":"`+field+`"`)
	}
	if code, _ := get(t, s.address(), "/healthz"); code != http.StatusOK {
		t.Errorf("healthz on the old address: %d", code)
	}

	o.edit("rollcall.yaml", `"@every 7m"`, `"@every 8m"`, "heartbeat: 60ms", "heartbeat: never")
	s.signal(syscall.SIGHUP)
	s.wait(`"level":"error"`, "rollcall.yaml", `"field":"serve.heartbeat"`, `"line":`)
	s.wait(`"message":"the configuration was not taken`)
	if strings.Contains(s.all(), "@every 8m") || strings.Count(s.all(), again) != 1 {
		t.Errorf("a part of an invalid configuration was taken:\n%s", s.all())
	}
	o.edit("rollcall.yaml", "heartbeat: never", "heartbeat: 60ms", "other.keyring", "rollcall.keyring")
	o.must(exitDone, "intake", o.file("r.jsonl", threeReports)) // and it goes on
	o.recorded(3)
	s.stop()
}

func TestServeRefusesOneScheduleByName(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.serveQuickly()
	o.edit("rollcall.yaml", `"@every 30s"`, `"0 25 * * *"`)
	if r := o.must(exitUsage, "config", "check"); !strings.Contains(r.err, `schedules[1].cron: schedule "0 25 * * *": hour "25"`) || !strings.Contains(r.err, "rollcall.yaml:") {
		t.Errorf("config check says %s", r.err)
	}
	s := o.serve()
	s.wait(`"level":"error"`, `"schedule":"roll"`, `hour \"25\"`)
	o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
	o.recorded(3)
	if code, body := get(t, s.address(), "/readyz"); code != http.StatusOK || !strings.Contains(body, `"degraded": true`) || !strings.Contains(body, `"refused"`) {
		t.Errorf("readyz: %d %s", code, body)
	}
	if found := asJSON[[]reconcile.Finding](o, exitDone, "findings"); len(found) != 1 || found[0].Name != "schedule_refused" || found[0].Subject != "schedule:roll" {
		t.Errorf("findings %+v", found)
	}
	o.edit("rollcall.yaml", `"0 25 * * *"`, `"0 23 * * *"`)
	s.signal(syscall.SIGHUP)
	s.wait(`"schedule":"roll"`, `"cron":"0 23 * * *"`)
	if found := asJSON[[]reconcile.Finding](o, exitDone, "findings"); len(found) != 0 {
		t.Errorf("the finding stays open: %+v", found)
	}
	s.stop()
}

func TestServeTellsSystemd(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.serveQuickly()
	socket := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	l, err := net.ListenUnixgram("unixgram", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	expect := func(want string) {
		t.Helper()
		_ = l.SetReadDeadline(time.Now().Add(patience))
		for {
			var message [256]byte
			n, err := l.Read(message[:])
			if err != nil {
				t.Fatalf("systemd is not told %s: %v", want, err)
			}
			if got := string(message[:n]); got == want {
				return
			} else if got != "WATCHDOG=1" {
				t.Fatalf("systemd is told %s, not %s", got, want)
			}
		}
	}
	s := o.startServe("NOTIFY_SOCKET="+socket.Name, "WATCHDOG_USEC=60000")
	for _, step := range []struct {
		signal syscall.Signal
		want   []string
	}{
		{0, []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"}},
		{syscall.SIGHUP, []string{"RELOADING=1", "READY=1", "WATCHDOG=1"}},
		{syscall.SIGTERM, []string{"STOPPING=1"}},
	} {
		if step.signal != 0 {
			s.signal(step.signal)
		}
		for _, want := range step.want {
			expect(want)
		}
	}
	if state := s.end(); state.ExitCode() != exitDone {
		t.Errorf("it ends with %s:\n%s", state, s.all())
	}
}

func TestServeDoesNotStart(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.serveQuickly()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	o.edit("rollcall.yaml", "listen: 127.0.0.1:0", "listen: "+taken.Addr().String())
	if r := o.must(exitFailed, "serve"); !strings.Contains(r.err, "serve.listen") {
		t.Errorf("an address that is taken: %s", r.err)
	}
	o.edit("rollcall.yaml", "listen: "+taken.Addr().String(), "listen: 127.0.0.1:0")
	if err := os.Remove(filepath.Join(o.dir, "sandbox.key")); err != nil {
		t.Fatal(err)
	}
	if r := o.must(exitUsage, "serve"); !strings.Contains(r.err, "accounts[0].api_key") {
		t.Errorf("a key that is not there: %s", r.err)
	}
}

// Two daemons over one SQLite file would each believe to be alone.
func TestServeIsAloneOnAFile(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.serveQuickly()
	first := o.serve()
	if r := o.must(exitUsage, "serve"); !strings.Contains(r.err, "another `rollcall serve` runs on this ledger") {
		t.Errorf("the second one says %s", r.err)
	}
	o.must(exitDone, "run", "check") // which is safe beside it
	first.stop()
	o.serve().stop()
}

// Over PostgreSQL there may be several; each instant is one's.
func TestF45_TwoDaemonsOverPostgreSQL(t *testing.T) {
	o := newOperator(t, "postgres")
	o.serveQuickly()
	daemons := []*serving{o.serve(), o.serve()}
	o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
	o.recorded(3)
	for _, s := range daemons {
		s.stop()
	}
	if b, err := o.box.Books(); err != nil || b.Works.Distinct != 3 || b.Works.InMoreThanOneJob != 0 {
		t.Errorf("the sandbox's books: %+v, %v", b.Works, err)
	}
	slots := map[string]int{}
	for _, s := range daemons {
		for line := range strings.Lines(s.all()) {
			var run struct{ Message, Schedule, Slot, Outcome string }
			if json.Unmarshal([]byte(line), &run) == nil && run.Message == "slot" && run.Outcome == "done" {
				slots[run.Schedule+" "+run.Slot]++
			}
		}
	}
	if len(slots) == 0 {
		t.Error("no slot is logged")
	}
	for slot, n := range slots {
		if n > 1 {
			t.Errorf("slot %s was run %d times", slot, n)
		}
	}
}

func TestServeHelpTeaches(t *testing.T) {
	var out strings.Builder
	if code := run(t.Context(), []string{"serve", "--help"}, strings.NewReader(""), &out, io.Discard); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"SIGTERM", "SIGHUP", "Type=notify", "WatchdogSec", "/readyz", "Exit codes:"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help does not hold %s", want)
		}
	}
}

func TestGuardedJobRunsAloneAndAfterAPanic(t *testing.T) {
	s := &server{}
	s.current.Store(&generation{deployment: &deployment{log: quiet}})
	runs := 0
	var job cron.Job
	job = s.guarded(func() {
		runs++
		job.Run() // a second run beside this one
		if runs == 1 {
			panic("once")
		}
	})
	job.Run()
	job.Run()
	if runs != 2 {
		t.Errorf("it ran %d times, want 2", runs)
	}
}

// A panic in the daemon's own jobs tells where it was and nothing of what was thrown.
func TestCronLogTellsNoValues(t *testing.T) {
	var log strings.Builder
	s := &server{}
	a := &app{errOut: &log}
	logger, err := a.logger("trace")
	if err != nil {
		t.Fatal(err)
	}
	s.current.Store(&generation{deployment: &deployment{log: logger}})
	c := cronLog{s}
	c.Info("run", "now", time.Unix(0, 0).UTC(), "what", marker)
	c.Error(errors.New(marker), "panic", "stack", "...\ngoroutine 7 [running]:\nrollcall/x.(*T).Do({0xc0, 0x5}, \""+marker+"\")\n\t/src/x.go:12 +0x1\n", "other", marker)
	if strings.Contains(log.String(), marker) || !strings.Contains(log.String(), "rollcall/x.(*T).Do") || !strings.Contains(log.String(), "1970-01-01") ||
		!strings.Contains(log.String(), `"type":"*errors.errorString"`) {
		t.Errorf("the log: %s", log.String())
	}
}
