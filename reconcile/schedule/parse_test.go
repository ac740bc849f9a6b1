package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct{ name, expression, zone, want string }{
		{"nothing", "", "", "it is empty; write five fields"},
		{"blanks", " \t\n", "", "it is empty"},
		{"TZ", "TZ=UTC 0 2 * * *", "", "use the zone field"},
		{"TZ alone", "TZ=UTC", "", "use the zone field"},
		{"CRON_TZ", "CRON_TZ=Europe/Berlin 0 2 * * *", "", "use the zone field"},
		{"CRON_TZ alone", " CRON_TZ=", "", "use the zone field"},
		{"small tz", "tz=UTC 0 2 * * *", "", "use the zone field"},
		{"seconds", "0 0 2 * * *", "", "a field for seconds is not taken"},
		{"four fields", "0 2 * *", "", "it has 4 fields; write five fields"},
		{"seven fields", "0 0 2 * * * 2026", "", "it has 7 fields"},
		{"unknown word", "@fortnightly", "", "use @hourly, @daily"},
		{"reboot", "@reboot", "", "not a known word"},
		{"word and more", "@daily 3", "", "not a known word"},
		{"@every alone", "@every", "", "takes one duration, such as @every 90s"},
		{"@every twice", "@every 1h 30m", "", "takes one duration"},
		{"@every nonsense", "@every day", "", "takes a duration such as 90s"},
		{"@every zero", "@every 0s", "", "at least 1s"},
		{"@every negative", "@every -5s", "", "at least 1s"},
		{"@every half", "@every 500ms", "", "whole number of seconds"},
		{"@every one and a half", "@every 1.5s", "", "whole number of seconds"},
		{"@every too long", "@every 8785h", "", "longer than 366 days; use at most 8784h"},
		{"@every overflow", "@every 9999999999h", "", "takes a duration such as"},
		{"minute", "60 2 * * *", "", `minute "60": end of range (60) above maximum (59): 60; it takes 0 to 59`},
		{"hour", "0 24 * * *", "", `hour "24"`},
		{"day", "0 2 0 * *", "", `day of the month "0"`},
		{"month", "0 2 * 13 *", "", `month "13"`},
		{"weekday", "0 2 * * 7", "", "it takes 0 (Sunday) to 6, or sun to sat"},
		{"word in a field", "0 noon * * *", "", `hour "noon"`},
		{"backwards", "0 5-2 * * *", "", `hour "5-2"`},
		{"step of none", "*/0 * * * *", "", "step of range should be a positive number"},
		{"step beyond minutes", "*/61 * * * *", "", "the step 61 is larger than the field, which has 60 values; use a step of at most 60"},
		{"step beyond hours", "0 */25 * * *", "", "the step 25 is larger"},
		{"step beyond days", "0 2 */32 * *", "", "the step 32 is larger"},
		{"step beyond months", "0 2 1 */13 *", "", "the step 13 is larger"},
		{"step beyond weekdays", "0 2 * * */8", "", "the step 8 is larger"},
		{"step in a list", "0,5-10/99 2 * * *", "", "the step 99 is larger"},
		{"star with an end", "*-5 2 * * *", "", `"*-5" is not a value or a range`},
		{"empty item", "1,,2 2 * * *", "", `"" is not a value or a range`},
		{"only a comma", ", 2 * * *", "", `"" is not a value or a range`},
		{"last day", "0 2 L * *", "", `day of the month "L"`},
		{"30 February", "0 2 30 2 *", "", "a date that never comes"},
		{"31 of short months", "0 2 31 4,6,9,11 *", "", "a date that never comes"},
		{"29 February", "0 2 29 2 *", "", "may be 8 years away; use 28 February or 1 March"},
		{"unknown zone", "@daily", "Europe/Berln", `zone "Europe/Berln"`},
		{"zone of the machine", "@daily", "Local", "differs from machine to machine"},
		{"zone file of the machine", "@daily", "localtime", "differs from machine to machine"},
		{"zone outside", "@daily", "../../etc/passwd", "use a name of the tz database such as Europe/Berlin"},
		{"zone by offset", "@every 1h", "+01:00", "use a name of the tz database"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Parse(tc.expression, tc.zone)
			if err == nil {
				t.Fatalf("accepted as %s", s)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q does not say %q", err, tc.want)
			}
		})
	}
}

// The parser panics on some inputs (robfig/cron #470, #554). Parse refuses those
// that are known before it gets there; the next one must be an error too.
func TestAPanicOfTheParserIsAnError(t *testing.T) {
	if _, err := parse("TZ=UTC"); err == nil || !strings.Contains(err.Error(), "write five fields") {
		t.Error(err)
	}
}

func TestParseAccepts(t *testing.T) {
	for _, tc := range []struct {
		expression, zone, text string
		interval               bool
	}{
		{"30 2 * * *", "", "30 2 * * * in UTC", false},
		{"  30\t2 * *  MON-fri ", " Europe/Berlin ", "30 2 * * MON-fri in Europe/Berlin", false},
		{"*/60 2 * * *", "UTC", "*/60 2 * * * in UTC", true},
		{"5 */24 * * *", "", "5 */24 * * * in UTC", true},
		{"? 2 * * *", "", "? 2 * * * in UTC", true},
		{"0,30 * * * *", "", "0,30 * * * * in UTC", true},
		{"0-59/5 0-23 * * *", "", "0-59/5 0-23 * * * in UTC", false},
		{"5/20 2 */31 */12 */7", "", "5/20 2 */31 */12 */7 in UTC", false},
		{"@hourly", "", "@hourly in UTC", true},
		{"@daily", "Asia/Kathmandu", "@daily in Asia/Kathmandu", false},
		{"@midnight", "", "@midnight in UTC", false},
		{"@weekly", "", "@weekly in UTC", false},
		{"@monthly", "", "@monthly in UTC", false},
		{"@yearly", "", "@yearly in UTC", false},
		{"@annually", "", "@annually in UTC", false},
		{" @every  90s", "Europe/Berlin", "@every 90s", false},
		{"@every 8784h", "", "@every 8784h", false},
	} {
		s := mustParse(t, tc.expression, tc.zone)
		if s.String() != tc.text || s.interval != tc.interval {
			t.Errorf("%q: %s, interval %v", tc.expression, s, s.interval)
		}
	}
}

func FuzzParseAndNext(f *testing.F) {
	for _, rows := range changes {
		for _, tc := range rows {
			f.Add(tc.expression, "Europe/Berlin", int64(1.7e9), int64(0))
		}
	}
	for _, expression := range []string{"TZ=UTC", "CRON_TZ=", "TZ=0", "TZ= ", "*/99 * * * *", "@every -1s", "1-/2 * * * *", "- - - - -", "/ / / / /", ", , , , ,", "@", "*-*/* * * * *"} {
		f.Add(expression, "", int64(-1<<62), int64(999999999))
	}
	for _, expression := range []string{"", " ", "* * * * *\x00", "*\u00a0*\u2003* * *", "＊ * * * *", "٠ ١ * * *", "\xff * * * *", "0 0 * * MON#2", "0 0 L * *", "0 0 29 2 *", "0 0 31 4,6,9,11 *", "0 0 30 2 0", "59 23 31 12 6",
		"4294967296 * * * *", "-1 * * * *", "0-59/60 * * * *", "0/0 * * * *", "1-0 * * * *", "0-99999999999999999999 * * * *", "0,0,0 0 * * *", "JAN * * * *", "0 0 * JAN-DEC SUN-SAT", "? ? ? ? ?",
		"@every", "@every 0s", "@every 1ns", "@every 8785h", "@every 9999999999h", "@every 1s 1s", "@every 1.5s", "@daily @daily", "@DAILY", "@reboot", "0 0 * * *\n0 0 * * *", strings.Repeat("0,", 5000) + "0 0 * * *", strings.Repeat("* ", 5000)} {
		for _, zone := range []string{"", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "../UTC", "Europe/Berlin\x00", "\xff"} {
			f.Add(expression, zone, int64(1.79e9), int64(-1))
		}
	}
	f.Add("0 0 * * *", "Asia/Kathmandu", int64(253402300799), int64(0))
	f.Add("0 0 1 1 *", "Africa/Monrovia", int64(-62135596800), int64(0))
	f.Add("*/10 1 1 5 *", "Africa/Cairo", int64(-3e8), int64(1))
	f.Add("0 0 31 12 *", "Pacific/Kiritimati", int64(788e6), int64(1))
	f.Fuzz(func(t *testing.T, expression, zone string, seconds, nanoseconds int64) {
		began := time.Now()
		defer func() {
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("%d bytes took %v", len(expression), took)
			}
		}()
		s, err := Parse(expression, zone)
		if (s == nil) != (err != nil) {
			t.Fatal(s, err)
		}
		if err != nil {
			return
		}
		if written, ok := strings.CutSuffix(s.String(), " in "+s.zone.String()); ok || s.every > 0 {
			if again, err := Parse(written, zone); err != nil || again.String() != s.String() || !again.Next(time.Unix(seconds, 0)).Equal(s.Next(time.Unix(seconds, 0))) {
				t.Fatalf("%q is told as %s, which is another schedule: %v", expression, s, err)
			}
		}
		start := time.Unix(seconds, nanoseconds%1e9)
		at := start
		for range 4 {
			next := s.Next(at)
			if next.IsZero() || next.After(lastInstant) {
				return
			}
			if !next.After(at) || !s.Next(next.Add(-1)).Equal(next) {
				t.Fatalf("%s: after %s comes %s", s, at, next)
			}
			at = next
		}
		if latest, missed, _ := s.Missed(start, at, 10); !latest.Equal(at) || missed < 4 {
			t.Fatalf("%s from %s to %s: %s, %d", s, start, at, latest, missed)
		}
	})
}
