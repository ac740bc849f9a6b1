package transport

import (
	"net/http"
	"strings"
	"time"
)

// maxRetryAfter bounds what a header can ask for. Longer is a mistake of the
// sender; the passes have shorter limits of their own.
const maxRetryAfter = 24 * time.Hour

// RetryAfter reads the Retry-After header, in seconds or as an HTTP date, as a
// waiting time from now; nil is the Date header of the answer. It is 0 when the
// header is absent, malformed or in the past, and at most 24 hours.
func RetryAfter(h http.Header, now func() time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if seconds, ok := digits(v); ok {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	from, err := http.ParseTime(h.Get("Date"))
	if now != nil {
		from = now()
	} else if err != nil {
		return 0 // a date cannot be read against nothing
	}
	return min(max(at.Sub(from), 0), maxRetryAfter)
}

// digits reads v when it is digits only, and stops counting far above
// maxRetryAfter so that it cannot overflow.
func digits(v string) (n int64, ok bool) {
	for _, c := range []byte(v) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int64(c-'0'), 1<<30)
	}
	return n, true
}
