package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// field is one of the five, with how many values it has and which they are.
type field struct {
	name   string
	values int
	takes  string
}

var fields = [5]field{
	{"minute", 60, "0 to 59"},
	{"hour", 24, "0 to 23"},
	{"day of the month", 31, "1 to 31"},
	{"month", 12, "1 to 12, or jan to dec"},
	{"weekday", 7, "0 (Sunday) to 6, or sun to sat"},
}

// shorthands are written out, so that one set of rules holds for all.
var shorthands = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

const (
	knownWords = "@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually or @every with a duration"
	knownForm  = `five fields (minute, hour, day of the month, month, weekday) such as "30 2 * * *"`
	longestGap = 366 * day
)

var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// Parse reads an expression and the name of its time zone; no name is UTC. The
// error says what is wrong and what to write instead. It refuses what would run
// at other times than it seems to say, and what would not run within 366 days.
func Parse(expression, zone string) (*Schedule, error) {
	location, err := loadZone(strings.TrimSpace(zone))
	if err != nil {
		return nil, err
	}
	words := strings.Fields(expression)
	s := &Schedule{text: strings.Join(words, " "), zone: location}
	if len(words) > 0 && words[0] == "@every" {
		err = s.parseEvery(words[1:])
	} else {
		err = s.parseFields(words)
	}
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", s.text, err)
	}
	return s, nil
}

// loadZone never falls back to another zone, nor to that of the machine.
func loadZone(name string) (*time.Location, error) {
	switch strings.ToLower(name) {
	case "":
		return time.UTC, nil
	case "local", "localtime":
		return nil, fmt.Errorf("zone %q: it differs from machine to machine; name a zone such as Europe/Berlin, or leave it empty for UTC", name)
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("zone %q: %w; use a name of the tz database such as Europe/Berlin, or leave it empty for UTC", name, err)
	}
	return location, nil
}

func (s *Schedule) parseEvery(words []string) error {
	if len(words) != 1 {
		return errors.New("@every takes one duration, such as @every 90s or @every 1h30m")
	}
	every, err := time.ParseDuration(words[0])
	switch {
	case err != nil:
		return fmt.Errorf("%w; @every takes a duration such as 90s or 1h30m", err)
	case every < time.Second || every%time.Second != 0:
		return errors.New("the duration must be a whole number of seconds, at least 1s")
	case every > longestGap:
		return errors.New("the duration is longer than 366 days; use at most 8784h")
	}
	s.every = int64(every / time.Second)
	return nil
}

func (s *Schedule) parseFields(words []string) error {
	if err := refuse(words); err != nil {
		return err
	}
	if written, known := shorthands[words[0]]; known {
		words = strings.Fields(written)
	}
	if len(words) != len(fields) {
		return fmt.Errorf("it has %d fields; write %s", len(words), knownForm)
	}
	for i, text := range words {
		if err := fields[i].check(i, text); err != nil {
			return fmt.Errorf("%s %q: %w", fields[i].name, text, err)
		}
	}
	spec, err := parse(strings.Join(words, " "))
	if err != nil {
		return err
	}
	s.spec = spec
	s.interval = strings.ContainsAny(words[0][:1]+words[1][:1], "*?")
	for minute := range 24 * 60 {
		if spec.Hour>>uint(minute/60)&1 != 0 && spec.Minute>>uint(minute%60)&1 != 0 {
			s.times = append(s.times, time.Duration(minute)*time.Minute)
		}
	}
	return s.comesEachYear()
}

// refuse says what is wrong with the form as a whole.
func refuse(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("it is empty; write %s, or %s", knownForm, knownWords)
	}
	first := strings.ToUpper(words[0])
	switch {
	case strings.HasPrefix(first, "TZ=") || strings.HasPrefix(first, "CRON_TZ="):
		return errors.New("it names a zone; take that out and use the zone field")
	case first[0] == '@' && (len(words) != 1 || shorthands[words[0]] == ""):
		return fmt.Errorf("not a known word; use %s", knownWords)
	case len(words) == len(fields)+1:
		return fmt.Errorf("it has 6 fields, and a field for seconds is not taken; write %s", knownForm)
	}
	return nil
}

// check refuses what the parser refuses, and some that it takes for something
// else than what it seems to say.
func (f field) check(index int, text string) error {
	for item := range strings.SplitSeq(text, ",") {
		values, step, _ := strings.Cut(item, "/")
		if n, err := strconv.Atoi(step); err == nil && n > f.values {
			return fmt.Errorf("the step %d is larger than the field, which has %d values; use a step of at most %d", n, f.values, f.values)
		}
		if item == "" || strings.HasPrefix(values, "*-") || strings.HasPrefix(values, "?-") {
			return fmt.Errorf("%q is not a value or a range; it takes %s", item, f.takes)
		}
	}
	alone := [5]string{"*", "*", "*", "*", "*"}
	alone[index] = text
	if _, err := parse(strings.Join(alone[:], " ")); err != nil {
		return fmt.Errorf("%w; it takes %s", err, f.takes)
	}
	return nil
}

// parse is the parser without its panics.
func parse(expression string) (spec *cron.SpecSchedule, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			spec, err = nil, fmt.Errorf("not understood; write %s", knownForm)
		}
	}()
	parsed, err := parser.Parse(expression)
	if err != nil {
		return nil, err
	}
	return parsed.(*cron.SpecSchedule), nil
}

// comesEachYear refuses dates that never come and those that come in leap years
// only. All others come in a common year, and so never more than 366 days apart.
func (s *Schedule) comesEachYear() error {
	if s.comesIn(2001) {
		return nil
	}
	if s.comesIn(2004) {
		return errors.New("it names 29 February only, which may be 8 years away; use 28 February or 1 March")
	}
	return errors.New("it names a date that never comes; choose a day that its months have")
}

func (s *Schedule) comesIn(year int) bool {
	next := time.Date(year+1, time.January, 1, 0, 0, 0, 0, time.UTC)
	return s.dateFrom(time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC), next).Before(next)
}
