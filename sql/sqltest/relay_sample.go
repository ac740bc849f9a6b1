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

// Sample is n of them at random, or in a long run all, in their order.
func Sample[T any](t testing.TB, r *rand.Rand, of []T, n int) []T {
	t.Helper()
	if Long() || n >= len(of) {
		return of
	}
	chosen := make([]T, 0, n)
	for _, i := range r.Perm(len(of))[:n] {
		chosen = append(chosen, of[i])
	}
	t.Logf("%d of %d", n, len(of))
	return chosen
}
