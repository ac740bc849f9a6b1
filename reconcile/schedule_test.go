package reconcile

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"
)

func TestPollWaitGrowsWithAge(t *testing.T) {
	s := &Settings{PollFirst: time.Minute, PollMax: 10 * time.Minute}
	still := bytes.NewReader(nil) // no random bytes, so nothing is taken off
	for age, want := range map[time.Duration]time.Duration{
		-time.Hour: time.Minute, 0: time.Minute, 4 * time.Minute: time.Minute, 8 * time.Minute: 2 * time.Minute,
		20 * time.Minute: 5 * time.Minute, 40 * time.Minute: 10 * time.Minute, 24 * time.Hour: 10 * time.Minute,
	} {
		if got := pollWait(s, age, still); got != want {
			t.Errorf("at the age of %s: %s, want %s", age, got, want)
		}
	}
}

func TestPollWaitStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &Settings{
			PollFirst: time.Duration(rapid.Int64Range(1, 1e12).Draw(t, "first")),
			PollMax:   time.Duration(rapid.Int64Range(1, 1e13).Draw(t, "max")),
			RetryCap:  time.Duration(rapid.Int64Range(1, 1e13).Draw(t, "cap")),
		}
		random := rand.NewChaCha8([32]byte{byte(rapid.Uint8().Draw(t, "seed"))})
		age := time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "age"))
		if got := pollWait(s, age, random); got < s.PollFirst || got > max(s.PollFirst, s.PollMax) {
			t.Fatalf("wait %s", got)
		}
		retryAfter := time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "retryAfter"))
		got := delayedPollWait(s, age, retryAfter, random)
		if got < s.PollFirst || got < min(retryAfter, s.RetryCap) || got > pollHorizon(s) {
			t.Fatalf("delayed wait %s of at most %s, asked for %s", got, pollHorizon(s), retryAfter)
		}
	})
}

func TestSubmitWaitDoublesUpToItsCap(t *testing.T) {
	s := &Settings{SubmitRetry: 5 * time.Minute, RetryCap: time.Hour}
	for _, tc := range []struct {
		attempt          int64
		retryAfter, want time.Duration
	}{
		{1, 0, 5 * time.Minute}, {2, 0, 10 * time.Minute}, {4, 0, 40 * time.Minute}, {5, 0, time.Hour}, {1 << 40, 0, time.Hour},
		{1, 30 * time.Minute, 30 * time.Minute}, {3, time.Minute, 20 * time.Minute}, {1, 100 * time.Hour, time.Hour},
	} {
		if got := submitWait(s, tc.attempt, tc.retryAfter); got != tc.want {
			t.Errorf("after attempt %d, asked for %s: %s, want %s", tc.attempt, tc.retryAfter, got, tc.want)
		}
	}
	long := &Settings{SubmitRetry: 2 * time.Hour, RetryCap: time.Hour}
	if got := submitWait(long, 9, 0); got != 2*time.Hour {
		t.Errorf("a retry longer than the cap: %s", got)
	}
}

func TestJitterWithoutRandomness(t *testing.T) {
	if got := jitter(iotest.ErrReader(errors.New("none")), time.Hour); got != 0 {
		t.Errorf("jitter %s", got)
	}
}
