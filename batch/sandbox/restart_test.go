package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/batch/sandbox"
)

// kill leaves the server as it is and goes on with a copy of its folder, as a
// new process does after the old one was killed.
func (r *rig) kill(change ...func(*sandbox.Options)) {
	r.Helper()
	old := r.stop
	r.Cleanup(old)
	next := r.TempDir()
	if err := os.CopyFS(next, os.DirFS(r.dir)); err != nil {
		r.Fatal(err)
	}
	r.dir = next
	r.start(change...)
}

func TestKilledAtEveryStage(t *testing.T) {
	// One run without a kill shows what must come out.
	r := newRig(t)
	j := r.run(inputOf(20))
	want := r.content(j["output_file_id"])

	for _, at := range []time.Duration{0, time.Second, 10 * time.Second, 66 * time.Second, 80 * time.Second} {
		for _, looked := range []bool{false, true} {
			r := newRig(t)
			id := r.create(r.upload(inputOf(20)))
			r.clock.add(at)
			if looked {
				r.job(id)
			}
			r.kill()
			r.clock.add(2 * time.Minute)
			j := r.job(id)
			if j["status"] != "completed" || j["completed_at"].(float64) != j["created_at"].(float64)+70 {
				t.Fatalf("killed at %v: job is %v", at, j)
			}
			if got := r.content(j["output_file_id"]); len(got) != len(want) {
				t.Errorf("killed at %v: %d bytes of results, want %d", at, len(got), len(want))
			}
			if b, err := r.server.Books(); err != nil || b.Works.Distinct != 20 || b.Works.InMoreThanOneJob != 0 || b.Files != 2 {
				t.Errorf("killed at %v: books are %+v, %v", at, b, err)
			}
		}
	}
}

// Killed after the result files were written and before the job's record was:
// the step is repeated and comes to the same files.
func TestKilledBetweenResultsAndRecord(t *testing.T) {
	r := newRig(t)
	r.faults("refusal:every=3")
	id := r.create(r.upload(inputOf(20)))
	r.clock.add(10 * time.Second)
	r.job(id)
	before := map[string][]byte{}
	for _, suffix := range []string{".json", ".input"} {
		path := filepath.Join("jobs", id+suffix)
		b, err := os.ReadFile(filepath.Join(r.dir, path))
		if err != nil {
			t.Fatal(err)
		}
		before[path] = b
	}
	r.clock.add(2 * time.Minute)
	first := r.job(id)
	want := r.content(first["output_file_id"])
	r.stop()
	for path, b := range before {
		if err := os.WriteFile(filepath.Join(r.dir, path), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	again := r.job(id)
	if again["output_file_id"] != first["output_file_id"] || r.content(again["output_file_id"]) != want {
		t.Error("the results are other ones")
	}
	if b, _ := r.server.Books(); b.Files != 2 {
		t.Errorf("%d files, want input and output", b.Files)
	}
}

// What a kill leaves half done is cleared away at the next start.
func TestLeftoversAreCleared(t *testing.T) {
	r := newRig(t)
	id := r.create(r.upload(inputOf(2)))
	r.clock.add(2 * time.Minute)
	r.job(id)
	r.stop()
	for _, name := range []string{"tmp/part-1", "files/file-orphan.data", "jobs/" + id + ".input", "jobs/batch_orphan.input"} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(marker), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	if j := r.job(id); j["status"] != "completed" {
		t.Errorf("job is %v", j["status"])
	}
	for _, pattern := range []string{"tmp/*", "files/file-orphan*", "jobs/*.input"} {
		if left, _ := filepath.Glob(filepath.Join(r.dir, pattern)); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestIdsAreNotRepeatedAfterRestart(t *testing.T) {
	r := newRig(t)
	seen := map[string]bool{}
	for range 3 {
		for range 3 {
			id := r.upload("x")
			if seen[id] {
				t.Fatalf("%s was given twice", id)
			}
			seen[id] = true
			r.call("DELETE", "/v1/files/"+id, nil)
		}
		r.kill()
	}
}

func TestVirtualTime(t *testing.T) {
	fast := func(o *sandbox.Options) { o.Speed = 60 }
	r := newRig(t, fast)
	start := r.server.Now()
	step := func(what string, want time.Duration) {
		t.Helper()
		if got := r.server.Now().Sub(start); got != want {
			t.Fatalf("%s: virtual time is %v, want %v", what, got, want)
		}
	}
	r.clock.add(time.Minute)
	step("a minute at 60", time.Hour)
	if err := r.server.Advance(24 * time.Hour); err != nil {
		t.Fatal(err)
	}
	step("put forward", 25*time.Hour)
	if err := r.server.Advance(-time.Hour); err == nil {
		t.Error("time can be put back")
	}
	r.stop()
	r.clock.add(time.Minute)
	r.start() // real time from now on
	step("stopped for a minute", 26*time.Hour)
	r.clock.add(time.Minute)
	step("a minute at 1", 26*time.Hour+time.Minute)
	r.clock.add(-time.Hour)
	step("the real clock was put back", 26*time.Hour+time.Minute)
	r.kill(fast)
	if got := r.server.Now().Sub(start); got < 26*time.Hour {
		t.Errorf("restarted with the real clock put back: virtual time is %v", got)
	}
}

func TestVirtualTimeOverHTTP(t *testing.T) {
	r := newRig(t)
	id := r.create(r.upload(inputOf(1)))
	status, out := r.call("POST", "/_sandbox/clock", map[string]any{"advance": "2m"})
	if status != 200 || out["now"] != "2026-03-01T02:02:00Z" || r.job(id)["status"] != "completed" {
		t.Errorf("HTTP %d %v", status, out)
	}
	for _, bad := range []string{"", "-1s", "tomorrow"} {
		if status, _ := r.call("POST", "/_sandbox/clock", map[string]any{"advance": bad}); status != 400 {
			t.Errorf("%q: HTTP %d, want 400", bad, status)
		}
	}
	if _, out := r.call("GET", "/_sandbox/clock", nil); out["speed"] != 1.0 {
		t.Errorf("clock is %v", out)
	}
}

// A fault that has struck once does not strike again after a restart.
func TestFaultsSurviveRestart(t *testing.T) {
	r := newRig(t)
	r.faults("unauthorized:op=list_batches,times=2", "late_file_ids")
	r.call("GET", "/v1/batches", nil)
	id := r.create(r.upload(inputOf(1)))
	r.kill()
	for _, want := range []int{401, 200} {
		if status, _ := r.call("GET", "/v1/batches", nil); status != want {
			t.Errorf("HTTP %d, want %d", status, want)
		}
	}
	r.clock.add(2 * time.Minute)
	if j := r.job(id); j["status"] != "completed" || j["output_file_id"] != nil {
		t.Errorf("the job's own fault is gone: %v", j)
	}
	r.kill(func(o *sandbox.Options) { o.Faults = []sandbox.Fault{{Name: "forbidden"}} })
	if status, _ := r.call("GET", "/v1/batches", nil); status != 403 {
		t.Errorf("HTTP %d: the faults of the options are not set", status)
	}
}

func TestLogHoldsIDsAndCounts(t *testing.T) {
	r := newRig(t)
	j := r.run(inputOf(2))
	for _, want := range []string{j["id"].(string), `"lines":2`, `"completed":2`, `"op":"create"`} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
	if strings.Contains(r.log.String(), r.key) {
		t.Error("the key is in the log")
	}
}
