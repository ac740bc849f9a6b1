package sandbox_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBooks(t *testing.T) {
	r := newRig(t)
	submit := func(ids ...string) string {
		var lines []line
		for _, id := range ids {
			lines = append(lines, request(id, marker))
		}
		_, out := r.call("POST", "/v1/batches", line(creation(r.upload(jsonl(lines...)))).with("metadata", map[string]any{"rc_attempt": ids[0]}))
		return out["id"].(string)
	}
	a := submit("w1-s1", "w2-s1", "w3-s1", "w3-s2")
	b := submit("w1-s2", "w2-s1")
	failed := submit("w9-s1", "w9-s1")
	if books, _ := r.server.Books(); books.AcceptedJobs != 0 || books.Lines != 0 {
		t.Errorf("accepted before validation: %+v", books)
	}
	r.clock.add(10 * time.Second)
	got, err := r.server.Books()
	if err != nil {
		t.Fatal(err)
	}
	if got.AcceptedJobs != 2 || got.Lines != 6 || got.Files != 3 || got.Requests["create"] != 3 || got.Requests["upload"] != 3 {
		t.Errorf("books are %+v", got)
	}
	both := []string{b, a} // newest first
	if c := got.CustomIDs; c.Distinct != 5 || c.InMoreThanOneJob != 1 || c.RepeatedInOneJob != 0 || len(c.Offenders) != 1 ||
		c.Offenders[0].ID != "w2-s1" || !slices.Equal(c.Offenders[0].Jobs, both) {
		t.Errorf("custom ids: %+v", c)
	}
	if w := got.Works; w.Distinct != 3 || w.InMoreThanOneJob != 2 || w.RepeatedInOneJob != 1 || len(w.Offenders) != 2 ||
		w.Offenders[0].ID != "w1" || w.Offenders[1].ID != "w2" || !slices.Equal(w.Offenders[0].Jobs, both) {
		t.Errorf("works: %+v", w)
	}
	for _, j := range got.Jobs {
		if j.Accepted != (j.ID != failed) || j.Accepted && j.Metadata["rc_attempt"] == "" || strings.Contains(j.Project, r.key) {
			t.Errorf("entry %+v", j)
		}
	}
	var pairs []string
	if err := r.server.Accepted(func(job, id string) error { pairs = append(pairs, job+" "+id); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(pairs) != 6 || pairs[0] != b+" w1-s2" {
		t.Errorf("accepted: %v", pairs)
	}
}

func TestBooksListAtMost100Offenders(t *testing.T) {
	r := newRig(t)
	for range 2 {
		r.create(r.upload(inputOf(150)))
	}
	r.clock.add(10 * time.Second)
	if b, err := r.server.Books(); err != nil || b.Works.InMoreThanOneJob != 150 || len(b.Works.Offenders) != 100 {
		t.Errorf("%d works, %d listed, %v", b.Works.InMoreThanOneJob, len(b.Works.Offenders), err)
	}
}

// Nothing under /_sandbox/ shows text, or needs a key.
func TestSandboxAnswersHoldNoText(t *testing.T) {
	r := newRig(t)
	r.run(inputOf(3))
	r.create(r.upload(strings.Replace(inputOf(3), `"method":"POST"`, `"method":"`+marker+`"`, 1)))
	r.create(r.upload(marker + "\n"))
	r.clock.add(time.Minute)
	r.key = ""
	for _, path := range []string{"books", "accepted", "faults", "clock"} {
		resp, err := r.do("GET", "/_sandbox/"+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 || len(body) == 0 || strings.Contains(string(body), marker) {
			t.Errorf("%s: HTTP %d %s", path, resp.StatusCode, body)
		}
	}
	r.key = "key-a"
	_, list := r.call("GET", "/v1/batches", nil)
	if strings.Contains(fmt.Sprint(list), marker) {
		t.Error("a batch object quotes its input")
	}
}
