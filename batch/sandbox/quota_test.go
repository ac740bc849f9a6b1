package sandbox_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// Content Safety lets so many requests in within any ten seconds, and not so many
// in each ten seconds of a clock.
func TestQuotaSlides(t *testing.T) {
	r := newRig(t)
	r.faults("quota:requests=2,within=10s")
	for _, step := range []struct {
		after  time.Duration
		status int
	}{
		{0, http.StatusOK}, {6 * time.Second, http.StatusOK},
		{3 * time.Second, http.StatusTooManyRequests}, // the first was nine seconds ago
		{time.Second, http.StatusOK},
		{time.Second, http.StatusTooManyRequests}, // that of the sixth second still counts, the refused one does not
		{5 * time.Second, http.StatusOK},
	} {
		r.clock.add(step.after)
		if status, answer := r.analyze(rudeText); status != step.status {
			t.Fatalf("%d %s, want %d", status, answer, step.status)
		}
	}
	other := *r
	other.key = "another key"
	if status, _ := other.analyze(rudeText); status != http.StatusOK {
		t.Errorf("another key has another quota: %d", status)
	}
	if status, _ := r.chat(rudePost); status != http.StatusOK {
		t.Errorf("another operation has no quota here: %d", status)
	}
}

func TestQuotaTellsHowLongToWait(t *testing.T) {
	for fault, want := range map[string]string{"quota:requests=1,within=10s": "7", "quota:requests=1,within=10s,told=false": ""} {
		r := newRig(t)
		r.faults(fault)
		r.analyze(rudeText)
		r.clock.add(3100 * time.Millisecond)
		req, err := http.NewRequest("POST", r.url+analyzePath, strings.NewReader(rudeText))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Ocp-Apim-Subscription-Key", r.key)
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != want {
			t.Errorf("%s: %d, Retry-After %q", fault, resp.StatusCode, resp.Header.Get("Retry-After"))
		}
	}
}
