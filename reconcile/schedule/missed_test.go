package schedule

import (
	"testing"
	"time"
)

func TestMissed(t *testing.T) {
	for _, tc := range []struct {
		name, expression, zone, from, now string
		latest                            string
		missed                            int64
		more                              bool
	}{
		{"just due", "@daily", "", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", 0, false},
		{"late but the only one", "@daily", "", "2026-01-01T00:00:00Z", "2026-01-01T23:59:59Z", "2026-01-01T00:00:00Z", 0, false},
		{"three nights", "@daily", "", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-04T00:00:00Z", 3, false},
		{"over a gap", "30 2 * * *", "Europe/Berlin", "2026-03-28T01:30:00Z", "2026-03-30T12:00:00Z", "2026-03-30T00:30:00Z", 2, false},
		{"as many as the limit", "@hourly", "", "2026-01-01T00:00:00Z", "2026-01-05T04:30:00Z", "2026-01-05T04:00:00Z", 100, false},
		{"more than the limit", "@hourly", "", "2026-01-01T00:00:00Z", "2026-01-05T05:30:00Z", "2026-01-05T05:00:00Z", 100, true},
		{"ten years of minutes", "* * * * *", "Pacific/Apia", "2006-01-01T00:00:00Z", "2016-01-01T00:00:30Z", "2016-01-01T00:00:00Z", 100, true},
		{"ten years of seconds", "@every 1s", "", "2016-01-01T00:00:00Z", "2026-01-01T00:00:00.9Z", "2026-01-01T00:00:00Z", 315619200, false},
		{"one of @every", "@every 1h", "", "2026-01-01T00:00:00Z", "2026-01-01T01:59:59Z", "2026-01-01T01:00:00Z", 1, false},
		{"a changed @every", "@every 1h", "", "2026-01-01T00:10:00Z", "2026-01-01T03:20:00Z", "2026-01-01T03:00:00Z", 3, false},
		{"a changed @every, none since", "@every 1h", "", "2026-01-01T00:10:00Z", "2026-01-01T00:59:00Z", "2026-01-01T00:10:00Z", 0, false},
		{"a changed expression", "@daily", "", "2026-01-01T07:30:00Z", "2026-01-02T08:00:00Z", "2026-01-02T00:00:00Z", 1, false},
		{"before 1970", "@every 1h", "", "1969-12-31T22:00:00Z", "1970-01-01T01:30:00Z", "1970-01-01T01:00:00Z", 3, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			latest, missed, more := mustParse(t, tc.expression, tc.zone).Missed(instant(t, tc.from), instant(t, tc.now), 100)
			if got := latest.Format(time.RFC3339Nano); got != tc.latest || missed != tc.missed || more != tc.more {
				t.Errorf("%s, %d, %v; want %s, %d, %v", got, missed, more, tc.latest, tc.missed, tc.more)
			}
		})
	}
}

func TestMissedBeforeItIsDue(t *testing.T) {
	for _, expression := range []string{"@daily", "@hourly", "@every 1h"} {
		latest, missed, more := mustParse(t, expression, "").Missed(instant(t, "2026-01-01T00:00:00Z"), instant(t, "2025-12-31T23:59:59Z"), 100)
		if !latest.IsZero() || missed != 0 || more {
			t.Errorf("%s: %s, %d, %v", expression, latest, missed, more)
		}
	}
}
