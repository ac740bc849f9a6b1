//go:build crashpoint

package crashpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

var (
	mu   sync.Mutex
	hits = map[string]int{}
)

// Hit marks a point. With ROLLCALL_CRASH=point:n the process kills itself, as
// by SIGKILL, at the n-th hit of that point.
func Hit(point string) {
	mu.Lock()
	defer mu.Unlock()
	hits[point]++
	name, nth, _ := strings.Cut(os.Getenv("ROLLCALL_CRASH"), ":")
	n, err := strconv.Atoi(nth)
	if err != nil {
		n = 1
	}
	if name == point && hits[point] == n {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal arrives before another instruction matters
	}
}
