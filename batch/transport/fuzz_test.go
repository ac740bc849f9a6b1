package transport

import (
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"
)

// FuzzRetryAfter: whatever a server writes, the wait is within a day, and each
// of the two documented forms is read as what it says.
func FuzzRetryAfter(f *testing.F) {
	for _, v := range []string{"", "0", "7", " 7\t", "007", "86400", "86401", "4294967297", "9223372036854775808", strings.Repeat("9", 400), "-1", "+1", "1.5", "1e3", "0x10",
		"٧", "７", "7s", "7, 8", "7\x00", "\x00", "\xff", "1969-12-31T23:59:59Z", "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:00 PST", "Wednesday, 21-Oct-26 07:28:00 GMT",
		"Wed Oct 21 07:28:00 2026", "Wed, 21 Oct 0000 07:28:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Wed, 21 Oct 2026 07:28:60 GMT", "Tue, 30 Feb 2026 07:28:00 GMT"} {
		f.Add(v, int64(1792567680), int64(90))
		f.Add(v, int64(-1<<62), int64(1<<40))
	}
	f.Fuzz(func(t *testing.T, v string, now, ahead int64) {
		at := time.Unix(now, 0)
		read := func(v string) time.Duration {
			return RetryAfter(http.Header{"Retry-After": {v}}, func() time.Time { return at })
		}
		got := read(v)
		if got < 0 || got > maxRetryAfter {
			t.Errorf("%q: %v", v, got)
		}
		v = strings.TrimSpace(v)
		if n, ok := new(big.Int).SetString(v, 10); ok && strings.Trim(v, "0123456789") == "" {
			want := maxRetryAfter
			if n.Cmp(big.NewInt(86400)) < 0 {
				want = time.Duration(n.Int64()) * time.Second
			}
			if got != want {
				t.Errorf("%s seconds are %v", v, got)
			}
		} else if _, err := http.ParseTime(v); err != nil && got != 0 {
			t.Errorf("%q is neither seconds nor a date, and is %v", v, got)
		}
		date := at.Add(time.Duration(ahead%100_000) * time.Second).UTC()
		if date.Year() < 1 || date.Year() > 9999 {
			return
		}
		if want := min(max(date.Sub(at), 0), maxRetryAfter); read(date.Format(http.TimeFormat)) != want {
			t.Errorf("%s, at %v: %v, want %v", date.Format(http.TimeFormat), at.UTC(), read(date.Format(http.TimeFormat)), want)
		}
	})
}
