package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// zones are those with the oddest histories, and some without any.
var zones = strings.Fields(`
	UTC Africa/Cairo Africa/Casablanca Africa/El_Aaiun Africa/Johannesburg Africa/Juba Africa/Tripoli Africa/Windhoek
	America/Asuncion America/Bogota America/Caracas America/Godthab America/Halifax America/Havana America/Los_Angeles
	America/Miquelon America/New_York America/Nuuk America/Phoenix America/Santiago America/Sao_Paulo America/Scoresbysund
	America/St_Johns Antarctica/Casey Antarctica/Troll Antarctica/Vostok Asia/Amman Asia/Beirut Asia/Damascus Asia/Gaza
	Asia/Hong_Kong Asia/Kathmandu Asia/Kolkata Asia/Pyongyang Asia/Tehran Asia/Tokyo Asia/Ulaanbaatar Atlantic/Azores
	Australia/Eucla Australia/Lord_Howe Australia/Sydney Europe/Berlin Europe/Chisinau Europe/Dublin Europe/Istanbul
	Europe/London Europe/Moscow Europe/Volgograd Pacific/Apia Pacific/Auckland Pacific/Chatham Pacific/Easter
	Pacific/Enderbury Pacific/Fakaofo Pacific/Fiji Pacific/Kiritimati Pacific/Kwajalein Pacific/Norfolk Pacific/Tongatapu`)

// leftOut are days that a zone left out, near their ends.
var leftOut = []struct{ zone, at string }{
	{"Pacific/Apia", "2011-12-30T10:00:00Z"}, {"Pacific/Fakaofo", "2011-12-30T11:00:00Z"}, {"Pacific/Kwajalein", "1993-08-21T12:00:00Z"},
	{"Pacific/Kiritimati", "1994-12-31T10:00:00Z"}, {"Pacific/Enderbury", "1994-12-31T11:00:00Z"},
}

func drawZone(t *rapid.T) *time.Location { return load(t, rapid.SampledFrom(zones).Draw(t, "zone")) }

func load(t fataler, name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// drawPlace is a zone and an instant: one of five is at a day that was left out.
func drawPlace(t *rapid.T) (*time.Location, time.Time) {
	if rapid.IntRange(0, 4).Draw(t, "left out") == 0 {
		place := rapid.SampledFrom(leftOut).Draw(t, "place")
		return load(t, place.zone), instant(t, place.at)
	}
	zone := drawZone(t)
	return zone, drawInstant(t, zone)
}

// shown is the wall clock as a person reads it.
func shown(t time.Time, zone *time.Location) time.Time {
	l := t.In(zone)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC)
}

// drawInstant is a whole hour from 1973 to 2060: in two of three cases near a
// change of the zone's clocks, if that year has one. From 1973 on all zones are
// whole minutes from UTC.
func drawInstant(t *rapid.T, zone *time.Location) time.Time {
	begin := time.Date(rapid.IntRange(1973, 2060).Draw(t, "year"), time.January, 1, 0, 0, 0, 0, time.UTC)
	var near []time.Time
	for hour := range 366 * 24 {
		at := begin.Add(time.Duration(hour) * time.Hour)
		if shown(at.Add(time.Hour), zone).Sub(shown(at, zone)) != time.Hour {
			near = append(near, at)
		}
	}
	if len(near) > 0 && rapid.IntRange(0, 2).Draw(t, "near a change") > 0 {
		return rapid.SampledFrom(near).Draw(t, "change")
	}
	return begin.Add(time.Duration(rapid.IntRange(0, 366*24).Draw(t, "hour")) * time.Hour)
}

// pattern is an expression and, found without the parser, what it names.
type pattern struct {
	text                              string
	minutes, hours, days, months, dow []int
	anyDay, anyWeekday, interval      bool
}

// drawField is one field: its text, its values, and whether it is a plain star.
func drawField(t *rapid.T, name string, low, high int, likely ...int) (text string, values []int, star bool) {
	all := rapid.IntRange(low, high)
	value := func(label string) int {
		if len(likely) > 0 && rapid.Bool().Draw(t, name+" likely") {
			return rapid.SampledFrom(likely).Draw(t, name+label)
		}
		return all.Draw(t, name+label)
	}
	every := func(from, to, step int) (values []int) {
		for v := from; v <= to; v += step {
			values = append(values, v)
		}
		return values
	}
	step := rapid.IntRange(2, high-low+1).Draw(t, name+" step")
	a, b := value(" a"), value(" b")
	switch form := rapid.IntRange(0, 9).Draw(t, name+" form"); form {
	case 0:
		return fmt.Sprintf("*/%d", step), every(low, high, step), false
	case 1:
		return fmt.Sprintf("%d-%d", min(a, b), max(a, b)), every(min(a, b), max(a, b), 1), false
	case 2:
		return fmt.Sprintf("%d-%d/%d", min(a, b), max(a, b), step), every(min(a, b), max(a, b), step), false
	case 3:
		return fmt.Sprintf("%d,%d", a, b), []int{a, b}, false
	case 4, 5, 6:
		return fmt.Sprint(a), []int{a}, false
	default:
		return "*", every(low, high, 1), true
	}
}

func drawPattern(t *rapid.T, near time.Time) pattern {
	var p pattern
	var f [5]string
	_, month, dayOfMonth := near.Date()
	f[0], p.minutes, _ = drawField(t, "minute", 0, 59, 0, 15, 30)
	f[1], p.hours, _ = drawField(t, "hour", 0, 23, 0, 1, 2, 3, 23)
	f[2], p.days, p.anyDay = drawField(t, "day", 1, 31, dayOfMonth)
	f[3], p.months, _ = drawField(t, "month", 1, 12, int(month))
	f[4], p.dow, p.anyWeekday = drawField(t, "weekday", 0, 6, int(near.Weekday()))
	p.text = strings.Join(f[:], " ")
	p.interval = f[0][0] == '*' || f[1][0] == '*'
	return p
}

func (p pattern) names(date time.Time) bool {
	byDay, byWeekday := slices.Contains(p.days, date.Day()), slices.Contains(p.dow, int(date.Weekday()))
	if !slices.Contains(p.months, int(date.Month())) {
		return false
	}
	if p.anyDay || p.anyWeekday {
		return byDay && byWeekday
	}
	return byDay || byWeekday
}

// oracle knows a zone by looking at its clock at every minute of some days.
type oracle struct {
	begin time.Time
	clock []time.Time
	first map[time.Time]int  // the first minute at which the clock shows this
	dates map[time.Time]bool // the dates that it shows
}

func watch(begin, end time.Time, zone *time.Location) *oracle {
	o := &oracle{begin: begin, first: map[time.Time]int{}, dates: map[time.Time]bool{}}
	for at := begin; at.Before(end); at = at.Add(time.Minute) {
		clock := shown(at, zone)
		if _, seen := o.first[clock]; !seen {
			o.first[clock] = len(o.clock)
		}
		o.clock = append(o.clock, clock)
		o.dates[time.Date(clock.Year(), clock.Month(), clock.Day(), 0, 0, 0, 0, time.UTC)] = true
	}
	return o
}

func (o *oracle) at(minute int) time.Time { return o.begin.Add(time.Duration(minute) * time.Minute) }

// jump is the minute at which the clock went over a reading without showing it.
func (o *oracle) jump(over time.Time) int {
	for i := 1; i < len(o.clock); i++ {
		if o.clock[i-1].Before(over) && o.clock[i].After(over) {
			return i
		}
	}
	panic("the clock neither shows nor leaves out " + over.String())
}

// due are the minutes at which a pattern is due, in order and each once.
func (o *oracle) due(p pattern) []time.Time {
	minutes := o.dueFixed
	if p.interval {
		minutes = o.dueInterval
	}
	var due []time.Time
	found := minutes(p)
	slices.Sort(found)
	for _, minute := range slices.Compact(found) {
		due = append(due, o.at(minute))
	}
	return due
}

func (o *oracle) dueInterval(p pattern) (minutes []int) {
	for i, clock := range o.clock {
		if slices.Contains(p.minutes, clock.Minute()) && slices.Contains(p.hours, clock.Hour()) && p.names(clock) {
			minutes = append(minutes, i)
		}
	}
	return minutes
}

// dueFixed leaves out the first and the last date, which it saw only in part.
func (o *oracle) dueFixed(p pattern) (minutes []int) {
	last := o.clock[len(o.clock)-1].Truncate(24 * time.Hour)
	for date := o.clock[0].Truncate(24*time.Hour).AddDate(0, 0, 1); date.Before(last); date = date.AddDate(0, 0, 1) {
		switch {
		case !p.names(date):
		case !o.dates[date]:
			if next := date.AddDate(0, 0, 1); !p.names(next) {
				minutes = append(minutes, o.jump(date))
			}
		default:
			minutes = append(minutes, o.dueOn(date, p)...)
		}
	}
	return minutes
}

func (o *oracle) dueOn(date time.Time, p pattern) (minutes []int) {
	for _, hour := range p.hours {
		for _, minute := range p.minutes {
			reading := date.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
			if i, shown := o.first[reading]; shown {
				minutes = append(minutes, i)
			} else {
				minutes = append(minutes, o.jump(reading))
			}
		}
	}
	return minutes
}
