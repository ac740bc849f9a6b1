package schedule

import "time"

// The reading of a wall clock is held as a time in UTC: the date and the time
// of day are those on the wall, and the zone is left out.

// forever ends a stretch that has no end. It is after all that Next looks at.
var forever = time.Date(20000, time.January, 1, 0, 0, 0, 0, time.UTC)

// wallClock is what the clocks of a zone show at an instant.
func wallClock(t time.Time, zone *time.Location) time.Time {
	_, seconds := t.In(zone).Zone()
	return t.UTC().Add(time.Duration(seconds) * time.Second)
}

// midnight is the date of a reading.
func midnight(clock time.Time) time.Time { return clock.Truncate(day) }

// stretch is how far the wall clock is ahead of UTC at an instant, and until
// when at least that stays so: always later than t.
func stretch(t time.Time, zone *time.Location) (offset time.Duration, end time.Time) {
	local := t.In(zone)
	_, seconds := local.Zone()
	_, end = local.ZoneBounds()
	switch {
	case end.IsZero():
		end = forever
	case !end.After(t):
		// Package time lets the last stretch of a year end after 365 days, which is
		// too early on the last day of a leap year. The year has no change after it.
		end = t.Truncate(day).Add(day)
	}
	return time.Duration(seconds) * time.Second, end.UTC()
}

// reach is the first instant at which the clocks of a zone show the given
// reading or a later one. That is the first of two instants if they are put back
// over it, and the end of the gap if they are put forward over it. No zone is a
// day away from UTC, so that the search can begin a day before.
func reach(clock time.Time, zone *time.Location) time.Time {
	for t := clock.Add(-day); ; {
		offset, end := stretch(t, zone)
		due := clock.Add(-offset)
		if due.Before(t) {
			return t
		}
		if due.Before(end) {
			return due
		}
		t = end
	}
}
