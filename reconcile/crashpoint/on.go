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
// by SIGKILL, at the n-th hit of that point. With ROLLCALL_CRASH_COUNT=file it
// adds a line with the point's name to that file first.
func Hit(point string) {
	mu.Lock()
	defer mu.Unlock()
	hits[point]++
	if name := os.Getenv("ROLLCALL_CRASH_COUNT"); name != "" {
		note(name, point)
	}
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

// note adds a line. A hit that is not counted would look like one that did not
// happen, so a test must not go on without it.
func note(name, line string) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(line + "\n")
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		panic(err)
	}
}
