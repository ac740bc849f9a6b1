package sandbox

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// quotaUse is when requests were let in, in real time, by who asked for what. A
// restart forgets it.
type quotaUse struct {
	mu sync.Mutex
	at map[string][]time.Time
}

// admit lets a request in unless n were within the window. wait is until the oldest
// of them leaves it; 0 for a request that is let in. One that is refused does not count.
func (q *quotaUse) admit(who string, now time.Time, n int64, window time.Duration) (wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.at == nil {
		q.at = map[string][]time.Time{}
	}
	in := q.at[who]
	for len(in) > 0 && now.Sub(in[0]) >= window {
		in = in[1:]
	}
	if int64(len(in)) >= max(n, 1) {
		q.at[who] = in
		return window - now.Sub(in[0])
	}
	q.at[who] = append(in, now)
	return 0
}

// overQuota is the refusal of a request that is one too many, if that is what a
// fault asks for.
func (s *Server) overQuota(w http.ResponseWriter, op, project string) error {
	f, ok := s.faults.onAnswer("quota", op)
	if !ok {
		return nil
	}
	wait := s.quota.admit(op+" "+project, s.clock.real(), f.number("requests"), f.duration("within"))
	if wait == 0 {
		return nil
	}
	if f.flag("told") {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	return &apiError{Status: http.StatusTooManyRequests, Type: "requests", Code: "rate_limit_exceeded", Message: "Rate limit reached."}
}
