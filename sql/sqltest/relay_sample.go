package sqltest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Long says whether everything is to be run: ROLLCALL_TEST_LONG=1.
func Long() bool { return os.Getenv("ROLLCALL_TEST_LONG") != "" }

// Seeded is a source of random numbers that ROLLCALL_TEST_SEED repeats.
func Seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("ROLLCALL_TEST_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("ROLLCALL_TEST_SEED: %v", err)
		}
	}
	t.Logf("ROLLCALL_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Sample is n of them at random and all that must be in it, nil for none; in a
// long run it is all of them, in their order.
func Sample[T any](t testing.TB, r *rand.Rand, of []T, n int, must func(T) bool) []T {
	t.Helper()
	if Long() {
		return of
	}
	var chosen []T
	for _, i := range r.Perm(len(of)) {
		if must != nil && must(of[i]) {
			chosen = append(chosen, of[i])
		} else if n > 0 {
			chosen = append(chosen, of[i])
			n--
		}
	}
	t.Logf("%d of %d", len(chosen), len(of))
	return chosen
}

// Strikes counts the cuts that struck, by place and fault. The zero value is
// ready, and may be used by tests that run side by side.
type Strikes struct {
	mu sync.Mutex
	n  map[string]int
}

// Add counts one.
func (s *Strikes) Add(p Place, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = map[string]int{}
	}
	s.n[fmt.Sprintf("%s, %s", p, f)]++
}

// Complete holds in a long run that every fault struck in every place.
func (s *Strikes) Complete(t testing.TB) {
	t.Helper()
	if !Long() {
		return
	}
	for _, p := range Places() {
		for _, f := range Faults() {
			name := fmt.Sprintf("%s, %s", p, f)
			t.Logf("%s: %d", name, s.n[name])
			if s.n[name] == 0 {
				t.Errorf("%s: never struck", name)
			}
		}
	}
}
