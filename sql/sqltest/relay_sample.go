package sqltest

import (
	"math/rand/v2"
	"os"
	"strconv"
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
