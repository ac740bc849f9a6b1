package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rollcall/reconcile"
)

// patience is how long these tests wait for something that comes far sooner.
const patience = 2 * time.Minute

// serving is `rollcall serve` as a process of its own.
type serving struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{} // closed once it has ended; then cmd.ProcessState says how

	mu    sync.Mutex
	log   []string
	wrote chan struct{} // closed and renewed with each line
}

// serve starts the daemon of a deployment and returns once it serves.
func (o *operator) serve(env ...string) *serving {
	o.t.Helper()
	s := o.startServe(env...)
	s.wait(`"message":"serving"`)
	return s
}

func (o *operator) startServe(env ...string) *serving {
	o.t.Helper()
	self, err := os.Executable()
	if err != nil {
		o.t.Fatal(err)
	}
	s := &serving{t: o.t, ended: make(chan struct{}), wrote: make(chan struct{})}
	s.cmd = exec.Command(self, "-c", filepath.Join(o.dir, "rollcall.yaml"), "serve")
	s.cmd.Env = append(append(os.Environ(), beMain+"=1"), env...)
	out, err := s.cmd.StderrPipe()
	if err != nil {
		o.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.mu.Lock()
			s.log = append(s.log, lines.Text())
			close(s.wrote)
			s.wrote = make(chan struct{})
			s.mu.Unlock()
		}
		_ = s.cmd.Wait()
		close(s.ended)
	}()
	o.t.Cleanup(func() {
		select {
		case <-s.ended:
		default:
			_ = s.cmd.Process.Kill()
			<-s.ended
		}
	})
	return s
}

// all is everything that was logged.
func (s *serving) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, "\n")
}

// wait returns the first line of the log that holds all of these words.
func (s *serving) wait(words ...string) string {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		wrote := s.wrote
		for _, line := range s.log {
			if holdsAll(line, words) {
				s.mu.Unlock()
				return line
			}
		}
		s.mu.Unlock()
		select {
		case <-wrote:
		case <-s.ended:
			s.t.Fatalf("it ended without %q:\n%s", words, s.all())
		case <-deadline:
			s.t.Fatalf("it does not say %q:\n%s", words, s.all())
		}
	}
}

func holdsAll(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}

func (s *serving) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// end waits until the process has ended, and returns how.
func (s *serving) end() *os.ProcessState {
	s.t.Helper()
	select {
	case <-s.ended:
		return s.cmd.ProcessState
	case <-time.After(patience):
		s.t.Fatalf("it does not end:\n%s", s.all())
		return nil
	}
}

// stop stops it in order.
func (s *serving) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	if state := s.end(); state.ExitCode() != exitDone {
		s.t.Errorf("it ends with %s:\n%s", state, s.all())
	}
}

// address is where it answers.
func (s *serving) address() string {
	s.t.Helper()
	var line struct{ Listen string }
	if err := json.Unmarshal([]byte(s.wait(`"message":"serving"`)), &line); err != nil {
		s.t.Fatal(err)
	}
	return line.Listen
}

// get asks a probe.
func get(t *testing.T, address, path string) (code int, body string) {
	t.Helper()
	resp, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// until asks again and again, for a condition that comes.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("it never comes to %s", what)
		}
	}
}

// serveQuickly has the daemon listen on a free port, and look often.
func (o *operator) serveQuickly() {
	o.t.Helper()
	o.edit("rollcall.yaml", "jobs:\n", "log: {level: debug}\njobs:\n", "  heartbeat: 1s\n", "  heartbeat: 50ms\n  listen: 127.0.0.1:0\n", `"@every 2s"`, `"@every 1s"`)
}

// recorded waits until n reports have their record.
func (o *operator) recorded(n int64) {
	o.t.Helper()
	until(o.t, fmt.Sprint(n, " records"), func() bool {
		return asJSON[reconcile.Overview](o, exitAny, "status").Works[reconcile.StageRecorded] == n
	})
}
