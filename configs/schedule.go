package configs

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"rollcall/reconcile"
	"rollcall/reconcile/schedule"
)

// Schedule says when the daemon runs which passes.
type Schedule struct {
	Name   string               `yaml:"name"`
	Cron   string               `yaml:"cron"`
	Zone   string               `yaml:"zone"`   // of the tz database
	Passes []reconcile.PassName `yaml:"passes"` // in the order in which they are run
}

// Serve is how the daemon runs.
type Serve struct {
	Listen     string   `yaml:"listen"`      // host:port of healthz and readyz; "" for none
	Heartbeat  Duration `yaml:"heartbeat"`   // how often due and missed runs are looked for
	StopWithin Duration `yaml:"stop_within"` // what is under way may take until it is cut
	LateAfter  Duration `yaml:"late_after"`  // a schedule that is overdue by more is late
}

// RefusedSchedule is a schedule that cannot be run as it stands.
type RefusedSchedule struct {
	Name string
	Err  *FieldError
}

func defaultSchedules() []Schedule {
	return []Schedule{
		{"nightly", "0 1 * * *", "UTC", []reconcile.PassName{reconcile.PassCollect}},
		{"dispatch", "@every 1m", "UTC", []reconcile.PassName{reconcile.PassResolve, reconcile.PassSubmit, reconcile.PassPoll, reconcile.PassConsume, reconcile.PassApply}},
		{"roll", "*/15 * * * *", "UTC", []reconcile.PassName{reconcile.PassCheck}},
		{"inventory", "@every 1h", "UTC", []reconcile.PassName{reconcile.PassSweep}},
		{"calls", "@every 1m", "UTC", []reconcile.PassName{reconcile.PassCall}},
	}
}

func defaultServe() Serve {
	return Serve{
		Listen: "127.0.0.1:8099", Heartbeat: Duration(15 * time.Second), StopWithin: Duration(25 * time.Second), LateAfter: Duration(5 * time.Minute),
	}
}

func (s *Schedule) fillIn() {
	if s.Zone == "" {
		s.Zone = "UTC"
	}
}

// checkSchedules finds what is wrong with the section as such. An expression
// that is wrong keeps only its own schedule from running; see Scheduled.
func (c *Config) checkSchedules(fail failFunc) {
	if len(c.Schedules) == 0 {
		fail("schedules", "is empty; leave it out for the default schedules")
	}
	seen := map[string]int{}
	for i, s := range c.Schedules {
		at := fmt.Sprintf("schedules[%d]", i)
		if first, twice := seen[s.Name]; twice && s.Name != "" {
			fail(at+".name", "is also the name of schedules[%d]; each schedule needs its own", first)
		}
		seen[s.Name] = i
		if !namePattern.MatchString(s.Name) {
			fail(at+".name", nameRule)
		}
		s.checkPasses(at+".passes", fail)
	}
}

func (s *Schedule) checkPasses(field string, fail failFunc) {
	if len(s.Passes) == 0 {
		fail(field, "is missing; name what is run, such as [submit, poll]")
	}
	for i, p := range s.Passes {
		switch at := fmt.Sprintf("%s[%d]", field, i); {
		case !slices.Contains(reconcile.Passes(), p):
			fail(at, "must be one of: %s", strings.Join(passNames(), ", "))
		case slices.Contains(s.Passes[:i], p):
			fail(at, "stands twice")
		}
	}
}

func passNames() []string {
	var names []string
	for _, p := range reconcile.Passes() {
		names = append(names, string(p))
	}
	return names
}

func (s *Serve) check(fail failFunc) {
	if s.Listen != "" {
		if _, port, err := net.SplitHostPort(s.Listen); err != nil || port == "" {
			fail("serve.listen", `must be host:port, such as 127.0.0.1:8099, or "" for none`)
		}
	}
	for field, d := range map[string]Duration{"serve.heartbeat": s.Heartbeat, "serve.stop_within": s.StopWithin, "serve.late_after": s.LateAfter} {
		if d <= 0 {
			fail(field, "must be longer than 0")
		}
	}
	if s.LateAfter < 2*s.Heartbeat {
		fail("serve.late_after", "is shorter than two heartbeats; a run that is on time would be late")
	}
}

// Scheduled are the schedules of a valid configuration that can be run, and
// what is wrong with the others.
func (c *Config) Scheduled() (good []reconcile.Scheduled, refused []RefusedSchedule) {
	for i, s := range c.Schedules {
		plan, err := s.plan(fmt.Sprintf("schedules[%d]", i))
		if err != nil {
			c.place(err)
			refused = append(refused, RefusedSchedule{s.Name, err})
			continue
		}
		good = append(good, reconcile.Scheduled{Name: s.Name, Expression: s.Cron, Zone: s.Zone, Passes: s.Passes, Plan: plan})
	}
	return good, refused
}

// CheckSchedules tells what Scheduled refuses.
func (c *Config) CheckSchedules() error {
	var errs []error
	_, refused := c.Scheduled()
	for _, r := range refused {
		errs = append(errs, r.Err)
	}
	return errors.Join(errs...)
}

// place says where a field stands, if the configuration came from a file.
func (c *Config) place(e *FieldError) {
	if c.doc == nil {
		return
	}
	e.File = c.doc.file
	if p := c.doc.markOf(e.Field); p != nil {
		e.Line, e.Column = p.Line, p.Column
	}
}

func (s *Schedule) plan(at string) (*schedule.Schedule, *FieldError) {
	if _, err := schedule.Parse("@daily", s.Zone); err != nil {
		return nil, &FieldError{Field: at + ".zone", Message: "is no time zone that is the same everywhere; write a name of the tz database such as Europe/Berlin, or leave it out for UTC"}
	}
	plan, err := schedule.Parse(s.Cron, s.Zone)
	if err == nil {
		return plan, nil
	}
	// The parser quotes what it was given, which may be a key on the wrong line.
	message := `must be five fields (minute, hour, day of the month, month, weekday) such as "30 2 * * *", or a word such as @daily or @every 90s`
	if looksLikeCron(s.Cron) {
		message = err.Error()
	}
	return nil, &FieldError{Field: at + ".cron", Message: message}
}

var cronWord = regexp.MustCompile(`^[0-9A-Za-z*/,?.@_-]{1,16}$`)

// looksLikeCron says whether an expression may be shown.
func looksLikeCron(expression string) bool {
	words := strings.Fields(expression)
	return (len(words) > 1 || strings.HasPrefix(expression, "@")) &&
		!slices.ContainsFunc(words, func(w string) bool { return !cronWord.MatchString(w) })
}
