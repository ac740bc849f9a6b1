package configs

import (
	"fmt"
	"time"
)

// expiryAsked are the lives of files that the configuration asks for, by field.
func (c *Config) expiryAsked() (fields []string, asked []time.Duration) {
	for _, f := range []struct {
		name string
		d    Duration
	}{{"submit.input_expiry", c.Submit.InputExpiry}, {"submit.output_expiry", c.Submit.OutputExpiry}} {
		if f.d != 0 {
			fields, asked = append(fields, f.name), append(asked, f.d.Std())
		}
	}
	return fields, asked
}

// warnExpiry tells where an account keeps texts and answers for another time than
// the configuration asks for. The facts are those of the services' documents.
func (c *Config) warnExpiry(a *Account, at string, warn func(string, ...any)) {
	fields, asked := c.expiryAsked()
	if a.AllowLoopback || len(fields) == 0 {
		return
	}
	const whatever = "whatever submit.input_expiry and submit.output_expiry ask for"
	least, most, kept := a.fileLife()
	if kept != "" {
		warn("%s: account %s keeps what was sent and the results %s, %s", at, a.Name, kept, whatever)
		return
	}
	for i, field := range fields {
		switch d := asked[i]; {
		case d < least:
			warn("%s: account %s keeps files for %s at least, unless they are deleted before; %s asks for %s", at, a.Name, days(least), field, days(d))
		case most != 0 && d > most:
			warn("%s: account %s keeps files for %s at most; %s asks for %s", at, a.Name, days(most), field, days(d))
		}
	}
}

// fileLife is what an account permits to be asked for as the life of a file; or,
// where it cannot be asked, how long it keeps what it has.
func (a *Account) fileLife() (least, most time.Duration, kept string) {
	switch a.Kind() {
	case KindAnthropic:
		return 0, 0, "for 29 days from the creation of a job"
	case KindInfrai:
		return 0, 0, "for a time that it does not document"
	case KindOpenAI:
	default: // it keeps nothing
		return 0, 0, ""
	}
	least, most = time.Hour, 30*day
	switch a.Like() {
	case LikeAzure:
		least = 14 * day
	case LikeGroq:
		kept = "for 30 days, unless they are deleted before"
	}
	if a.OpenAI == nil {
		return least, most, kept
	}
	e := a.OpenAI.Dialect.Expiry
	if e.Min != 0 {
		least = e.Min.Std()
	}
	if e.Max != 0 {
		most = e.Max.Std()
	}
	if e.Absent != nil && !*e.Absent {
		kept = ""
	}
	if e.Absent != nil && *e.Absent && kept == "" {
		kept = "for a time of its own"
	}
	return least, most, kept
}

// days is d as the configuration would have it.
func days(d time.Duration) string {
	if d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}
