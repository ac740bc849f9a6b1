package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestAgainstTheClockMinuteByMinute compares with an oracle that looks at the
// clock of the zone at every minute.
func TestAgainstTheClockMinuteByMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, middle := drawPlace(t)
		o := watch(middle.Add(-5*day), middle.Add(5*day), zone)
		begin, end := middle.Add(-2*day), middle.Add(2*day)
		for range 4 {
			p := drawPattern(t, shown(middle, zone))
			s, err := Parse(p.text, zone.String())
			if err != nil {
				continue // a date that never comes; TestDatesThatComeEachYear is about those
			}
			var got []time.Time
			for at := s.Next(begin.Add(-1)); !at.IsZero() && at.Before(end); at = s.Next(at) {
				got = append(got, at)
			}
			want := slices.DeleteFunc(o.due(p), func(at time.Time) bool { return at.Before(begin) || !at.Before(end) })
			if !slices.EqualFunc(want, got, time.Time.Equal) {
				t.Fatalf("%s: %s", s, cmp.Diff(want, got))
			}
		}
	})
}

// TestADailyScheduleRunsOnceOnEachDayThatExists walks over whole years.
func TestADailyScheduleRunsOnceOnEachDayThatExists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, within := drawPlace(t)
		hour, minute := rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute")
		s := mustParse(t, fmt.Sprintf("%d %d * * *", minute, hour), zone.String())
		timeOfDay := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute

		begin := time.Date(within.Year(), time.January, 1, 0, 0, 0, 0, time.UTC)
		var dates []time.Time
		for quarter := range 366 * 96 {
			date := shown(begin.Add(time.Duration(quarter)*15*time.Minute), zone).Truncate(day)
			if len(dates) == 0 || date.After(dates[len(dates)-1]) {
				dates = append(dates, date)
			}
		}
		at := begin.Add(-2 * day)
		for shown(at, zone).Before(dates[1]) || at.Before(begin) {
			at = s.Next(at)
		}
		for i, date := range dates[1:] {
			reading := date.Add(timeOfDay)
			if shown(at, zone).Before(reading) || !shown(at.Add(-time.Second), zone).Before(reading) {
				t.Fatalf("%s: the run of day %d, %s, is at %s", s, i, date.Format(time.DateOnly), at.In(zone))
			}
			for quarter := range 100 {
				if earlier := at.Add(-time.Duration(quarter)*15*time.Minute - time.Second); !shown(earlier, zone).Before(reading) {
					t.Fatalf("%s: at %s, though the clock was past it at %s", s, at.In(zone), earlier.In(zone))
				}
			}
			at = s.Next(at)
		}
	})
}

func TestNextDoesNotDependOnWhereItStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, start := drawPlace(t)
		elsewhere := drawZone(t)
		expression := drawPattern(t, shown(start, zone)).text
		if rapid.IntRange(0, 4).Draw(t, "every") == 0 {
			expression = fmt.Sprintf("@every %ds", rapid.IntRange(1, 366*24*3600).Draw(t, "seconds"))
		}
		s, err := Parse(expression, zone.String())
		if err != nil {
			return
		}
		for range 5 {
			next := s.Next(start)
			if next.IsZero() {
				return
			}
			if !next.After(start) || next.Location() != time.UTC || next.Nanosecond() != 0 {
				t.Fatalf("%s: after %s comes %s", s, start, next)
			}
			between := start.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(start))-1).Draw(t, "between")))
			for _, from := range []time.Time{between.In(elsewhere), next.Add(-1), between.Local()} {
				if got := s.Next(from); !got.Equal(next) {
					t.Fatalf("%s: after %s comes %s, but after %s comes %s", s, start, next, from, got)
				}
			}
			start = next
		}
	})
}

// TestQuartersAreRealQuarters: every zone has been a whole number of quarters
// from UTC since 1986, so no change of the clocks may disturb the rhythm.
func TestQuartersAreRealQuarters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, at := drawPlace(t)
		s := mustParse(t, "*/15 * * * *", zone.String())
		at = at.Add(-3 * time.Hour)
		if at.Year() < 1987 {
			return
		}
		for range 40 {
			next := s.Next(at)
			if next.Sub(at) != 15*time.Minute {
				t.Fatalf("in %s: %s, then %s", zone, at, next)
			}
			at = next
		}
	})
}

// TestDatesThatComeEachYear walks over the longest distance of two leap years,
// for every day of every month and for days that no month has.
func TestDatesThatComeEachYear(t *testing.T) {
	for month := 1; month <= 12; month++ {
		for dayOfMonth := 1; dayOfMonth <= 31; dayOfMonth++ {
			p := pattern{days: []int{dayOfMonth}, months: []int{month}, dow: []int{0, 1, 2, 3, 4, 5, 6}, anyWeekday: true}
			longest, last := 0, 0
			for i := range 16 * 366 {
				if p.names(time.Date(1896, time.January, 1+i, 0, 0, 0, 0, time.UTC)) {
					longest, last = max(longest, i-last), i
				}
			}
			comes := last > 0 && longest <= 366
			if _, err := Parse(fmt.Sprintf("0 0 %d %d *", dayOfMonth, month), ""); comes != (err == nil) {
				t.Errorf("%d of month %d: at most %d days apart, but %v", dayOfMonth, month, longest, err)
			}
		}
	}
	for _, either := range []string{"0 0 29 2 1", "0 0 30 2 1", "0 0 29 2,3 *", "0 0 31 2-12 *", "0 0 29-31 1,2 *"} {
		mustParse(t, either, "")
	}
}

func TestMissedCountsWhatNextGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, start := drawPlace(t)
		start = start.Add(time.Duration(rapid.Int64Range(0, 2e9).Draw(t, "nanoseconds")))
		expression := drawPattern(t, shown(start, zone)).text
		if rapid.Bool().Draw(t, "every") {
			expression = fmt.Sprintf("@every %ds", rapid.IntRange(1, 3*24*3600).Draw(t, "seconds"))
		}
		s, err := Parse(expression, zone.String())
		if err != nil {
			return
		}
		from := start // a stored instant that the schedule need not name
		if rapid.Bool().Draw(t, "named") {
			from = s.Next(start)
		}
		now := from.Add(time.Duration(rapid.Int64Range(0, int64(3*day)).Draw(t, "later")))
		due := []time.Time{from.UTC()}
		for at := s.Next(from); !at.IsZero() && !at.After(now); at = s.Next(at) {
			due = append(due, at)
		}
		count := len(due) - 1
		limit := rapid.SampledFrom([]int{0, count / 2, count, count + 1, 1 << 30}).Draw(t, "limit")
		latest, missed, more := s.Missed(from, now, limit)
		exact := s.every > 0 || limit >= count
		if !latest.Equal(due[count]) || more == exact || exact && missed != int64(count) || !exact && missed != int64(limit) {
			t.Fatalf("%s from %s to %s, limit %d: %s, %d, %v, but due were %d up to %s", s, from, now, limit, latest, missed, more, count, due[count])
		}
	})
}
