// Package schedule says when a schedule is due. Its functions are pure: the
// same schedule and the same instant give the same answer on every machine, so
// that replicas agree without asking each other and a restart changes nothing.
//
// # The rule, for users
//
// A schedule is five fields (minute, hour, day of the month, month, weekday), or
// @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually, or @every
// with a duration such as @every 90s. It has a time zone; without one it is UTC.
// If both the day of the month and the weekday are restricted, a day that fits
// either of them is named; otherwise a day must fit both.
//
// What happens when the clocks change depends on the kind of schedule.
//
// A schedule at fixed times, such as 30 2 * * * or @daily, runs once for each of
// its times on each day that it names. It is never skipped and never run twice:
//
//   - If the clocks go forward over the time, it runs at the first moment after
//     the jump. Several of its times in one jump are one run. That moment is on
//     the next day where the jump ends at midnight; it is still the run of the day
//     before, and the next day has its own.
//   - If the clocks go back, so that the time comes twice, it runs the first time.
//   - A few places once left out a whole day (Samoa went from 29 to 31 December
//     2011). If the schedule names the day after as well, that day's run stands
//     for both, so that a nightly schedule never runs twice on one day. If it does
//     not, as with a weekly or a monthly schedule, it runs at the first moment
//     after the jump.
//
// A schedule of intervals is one whose minute or hour begins with *, such as
// */15 * * * *, 0 */6 * * * or @hourly. It follows the time that really passes: it
// runs at every real minute at which the clock on the wall shows one of its times.
// An hour that comes twice has its runs twice, and an hour that is left out has
// none. So 0 0-23/6 * * * is at fixed times and 0 */6 * * * is of intervals: write
// the first where each run must come exactly once a day.
//
// @every counts from the start of 1970 in UTC, whatever the zone: @every 6h runs
// at 00:00, 06:00, 12:00 and 18:00 UTC, however often the program was restarted.
//
// In short: a fixed time runs at the first moment at which the clock on the wall
// shows that time or a later one.
package schedule

import (
	"slices"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	day = 24 * time.Hour
	// horizon is how far Next looks. Parse refuses what names no date within 366
	// days, but an interval in an hour that a zone leaves out may take longer.
	horizon = 8 * 366 * day
	// starBit is how the parser marks a day field that is not restricted.
	starBit = 1 << 63
)

// The instants for which Next has an answer: the years 1 to 9999.
var (
	firstInstant = time.Time{}
	lastInstant  = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
)

// Schedule says when something is due. It does not change after Parse, so that
// any number of goroutines may use it.
type Schedule struct {
	text  string
	zone  *time.Location
	every int64 // seconds; if it is not 0, none of the following is used

	spec     *cron.SpecSchedule // for its days only
	times    []time.Duration    // after midnight on the wall clock, ascending
	interval bool               // follows elapsed time
}

var _ cron.Schedule = (*Schedule)(nil)

// String is the expression, with its zone if that matters.
func (s *Schedule) String() string {
	if s.every > 0 {
		return s.text
	}
	return s.text + " in " + s.zone.String()
}

// Next is the first due instant after the given one, in UTC and in whole
// seconds. It is the zero time if nothing is due in the following eight years
// or if after is not in the years 1 to 9999: such a schedule never runs, and
// an operator must be told.
func (s *Schedule) Next(after time.Time) time.Time {
	switch {
	case after.Before(firstInstant) || after.After(lastInstant):
		return time.Time{}
	case s.every > 0:
		return time.Unix((floorDiv(after.Unix(), s.every)+1)*s.every, 0).UTC()
	case s.interval:
		return s.nextInterval(after.UTC())
	default:
		return s.nextFixed(after.UTC())
	}
}

// nextFixed goes by the days that the schedule names. Because a time is due
// when the wall clock first reaches it, none that the clock has reached now can
// still be due.
func (s *Schedule) nextFixed(after time.Time) time.Time {
	clock := wallClock(after, s.zone)
	limit := clock.Add(horizon)
	for date := s.dateFrom(midnight(clock), limit); date.Before(limit); date = s.dateFrom(date.Add(day), limit) {
		if t := s.runOn(date, clock, after); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// runOn is the first run of one named date after an instant, at which the wall
// clock shows clock; the zero time if there is none.
func (s *Schedule) runOn(date, clock, after time.Time) time.Time {
	if first := midnight(wallClock(reach(date, s.zone), s.zone)); first.After(date) && s.names(first) {
		// The zone left out this date: the run of the date that came instead stands for
		// both. Without one, all times of this date are reached at the end of the gap.
		return time.Time{}
	}
	i, _ := slices.BinarySearch(s.times, clock.Sub(date))
	for _, offset := range s.times[i:] {
		if t := reach(date.Add(offset), s.zone); t.After(after) {
			return t
		}
	}
	return time.Time{}
}

// nextInterval goes by the stretches in which the zone keeps one offset: within
// each of them the wall clock and the time that passes are the same.
func (s *Schedule) nextInterval(after time.Time) time.Time {
	limit := after.Add(horizon)
	for t := after.Add(1); t.Before(limit); {
		offset, end := stretch(t, s.zone)
		if end.After(limit) {
			end = limit
		}
		if due := s.clockFrom(t.Add(offset), end.Add(offset)).Add(-offset); due.Before(end) {
			return due
		}
		t = end
	}
	return time.Time{}
}

// clockFrom is the first reading of a wall clock, from the given one on, that
// the schedule names; or limit, if there is none before it.
func (s *Schedule) clockFrom(clock, limit time.Time) time.Time {
	for date := s.dateFrom(midnight(clock), limit); date.Before(limit); date = s.dateFrom(date.Add(day), limit) {
		if i, _ := slices.BinarySearch(s.times, clock.Sub(date)); i < len(s.times) {
			return date.Add(s.times[i])
		}
	}
	return limit
}

// dateFrom is the first date, from the given one on, that the schedule names;
// or limit, if there is none before it.
func (s *Schedule) dateFrom(date, limit time.Time) time.Time {
	for date.Before(limit) {
		year, month, _ := date.Date()
		switch {
		case s.spec.Month>>uint(month)&1 == 0:
			date = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case s.names(date):
			return date
		default:
			date = date.Add(day)
		}
	}
	return limit
}

// names reports whether a date is one of the schedule's.
func (s *Schedule) names(date time.Time) bool {
	_, month, dayOfMonth := date.Date()
	inMonth := s.spec.Month>>uint(month)&1 != 0
	fitsDay := s.spec.Dom>>uint(dayOfMonth)&1 != 0
	fitsWeekday := s.spec.Dow>>uint(date.Weekday())&1 != 0
	if (s.spec.Dom|s.spec.Dow)&starBit != 0 {
		return inMonth && fitsDay && fitsWeekday
	}
	return inMonth && (fitsDay || fitsWeekday)
}
