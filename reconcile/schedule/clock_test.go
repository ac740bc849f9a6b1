package schedule

import (
	"os"
	"testing"
	"time"
	_ "time/tzdata" // so that zones are there on every machine

	"github.com/google/go-cmp/cmp"
)

// TestMain gives the process a zone of its own, which no answer may depend on.
func TestMain(m *testing.M) {
	zone, err := time.LoadLocation("Australia/Lord_Howe")
	if err != nil {
		panic(err)
	}
	time.Local = zone
	os.Exit(m.Run())
}

// change is a schedule and the instants at which it is due, over one change of
// the clocks.
type change struct {
	expression, after string
	want              []string
}

// changes are by zone. Each instant follows from the rule and from the offsets of
// the zone that its comment speaks of.
var changes = map[string][]change{
	// An hour forward on 8 March 2026 at 02:00, an hour back on 1 November at 02:00.
	"America/New_York": {
		{"30 2 * * *", "2026-03-07T00:00:00Z", []string{"2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"}},
		{"0,30 2,3 * * *", "2026-03-08T00:00:00Z", []string{"2026-03-08T07:00:00Z", "2026-03-08T07:30:00Z", "2026-03-09T06:00:00Z"}},
		{"0 2 * * 0", "2026-03-01T08:00:00Z", []string{"2026-03-08T07:00:00Z", "2026-03-15T06:00:00Z"}},
		{"15 2 8 * *", "2026-02-08T12:00:00Z", []string{"2026-03-08T07:00:00Z", "2026-04-08T06:15:00Z"}},
		{"30 1 * * *", "2026-10-31T00:00:00Z", []string{"2026-10-31T05:30:00Z", "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"}},
		{"0-59/30 1 * * *", "2026-11-01T00:00:00Z", []string{"2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z", "2026-11-02T06:00:00Z"}},
		{"30 1 1 * *", "2026-11-01T05:30:00Z", []string{"2026-12-01T06:30:00Z"}},
		{"*/30 * * * *", "2026-03-08T06:00:00Z", []string{"2026-03-08T06:30:00Z", "2026-03-08T07:00:00Z", "2026-03-08T07:30:00Z"}},
		{"*/30 2 * * *", "2026-03-07T07:00:00Z", []string{"2026-03-07T07:30:00Z", "2026-03-09T06:00:00Z", "2026-03-09T06:30:00Z"}},
		{"*/30 1 * * *", "2026-11-01T00:00:00Z", []string{
			"2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z", "2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z", "2026-11-02T06:00:00Z"}},
		{"0 */2 * * *", "2026-03-08T05:00:00Z", []string{"2026-03-08T08:00:00Z", "2026-03-08T10:00:00Z"}},
		{"@hourly", "2026-11-01T04:30:00Z", []string{"2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z", "2026-11-01T07:00:00Z"}},
		{"@every 90m", "2026-03-08T05:00:00Z", []string{"2026-03-08T06:00:00Z", "2026-03-08T07:30:00Z", "2026-03-08T09:00:00Z"}},
		{"30 12 * * *", "2096-12-30T18:00:00Z", []string{"2096-12-31T17:30:00Z", "2097-01-01T17:30:00Z"}},
		{"30 * * * *", "2096-12-31T12:00:00Z", []string{"2096-12-31T12:30:00Z", "2096-12-31T13:30:00Z"}},
		{"*/30 12 1 7 *", "2096-12-31T12:00:00Z", []string{"2097-07-01T16:00:00Z", "2097-07-01T16:30:00Z"}},
	},
	"Europe/Berlin": {
		{"30 2 * * *", "2026-03-28T00:00:00Z", []string{"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"30 2 * * *", "2026-10-24T00:00:00Z", []string{"2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"30 2 29 3 *", "2025-04-01T00:00:00Z", []string{"2026-03-29T01:00:00Z", "2027-03-29T00:30:00Z"}},
		{"@hourly", "2026-10-24T23:30:00Z", []string{"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"}},
		// 31 March is the day of the change in 2013 and 2019, and not in between.
		{"*/30 2 31 3 *", "2012-03-31T00:45:00Z", []string{"2014-03-31T00:00:00Z", "2014-03-31T00:30:00Z", "2015-03-31T00:00:00Z"}},
	},
	// Summer time began at midnight: 4 November 2018 has no 00:00, and 17 February
	// 2018 has its last hour twice.
	"America/Sao_Paulo": {
		{"@daily", "2018-11-03T00:00:00Z", []string{"2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}},
		{"@weekly", "2018-10-28T12:00:00Z", []string{"2018-11-04T03:00:00Z", "2018-11-11T02:00:00Z"}},
		{"0 0 4 * *", "2018-10-05T00:00:00Z", []string{"2018-11-04T03:00:00Z", "2018-12-04T02:00:00Z"}},
		{"30 23 * * *", "2018-02-16T12:00:00Z", []string{"2018-02-17T01:30:00Z", "2018-02-18T01:30:00Z", "2018-02-19T02:30:00Z"}},
		{"@daily", "2018-02-17T12:00:00Z", []string{"2018-02-18T03:00:00Z", "2018-02-19T03:00:00Z"}},
	},
	// Half an hour.
	"Australia/Lord_Howe": {
		{"15 2 * * *", "2025-10-03T20:00:00Z", []string{"2025-10-04T15:30:00Z", "2025-10-05T15:15:00Z"}},
		{"45 1 * * *", "2026-04-03T20:00:00Z", []string{"2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"}},
		{"15 1 * * 0", "2026-03-30T00:00:00Z", []string{"2026-04-04T14:15:00Z", "2026-04-11T14:45:00Z"}},
		{"*/15 * * * *", "2026-04-04T14:40:00Z", []string{"2026-04-04T14:45:00Z", "2026-04-04T15:00:00Z", "2026-04-04T15:15:00Z"}},
		{"0 * * * *", "2026-04-04T13:30:00Z", []string{"2026-04-04T14:00:00Z", "2026-04-04T15:30:00Z", "2026-04-04T16:30:00Z"}},
	},
	// There was no Friday 30 December 2011.
	"Pacific/Apia": {
		{"0 3 * * *", "2011-12-28T14:00:00Z", []string{"2011-12-29T13:00:00Z", "2011-12-30T13:00:00Z", "2011-12-31T13:00:00Z"}},
		{"@daily", "2011-12-29T00:00:00Z", []string{"2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"}},
		{"0 3,15 * * 5", "2011-12-24T14:00:00Z", []string{"2011-12-30T10:00:00Z", "2012-01-05T13:00:00Z"}},
		{"0 3,15 * * 5,6", "2011-12-24T14:00:00Z", []string{"2011-12-25T01:00:00Z", "2011-12-30T13:00:00Z", "2011-12-31T01:00:00Z"}},
		{"0 3 30 * *", "2011-11-30T14:00:00Z", []string{"2011-12-30T10:00:00Z", "2012-01-29T13:00:00Z"}},
		{"0 */6 * * *", "2011-12-30T00:00:00Z", []string{"2011-12-30T04:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T16:00:00Z"}},
		{"@every 24h", "2011-12-29T00:00:00Z", []string{"2011-12-30T00:00:00Z", "2011-12-31T00:00:00Z"}},
	},
	// There was no 21 August 1993.
	"Pacific/Kwajalein": {
		{"0 3 * * *", "1993-08-19T16:00:00Z", []string{"1993-08-20T15:00:00Z", "1993-08-21T15:00:00Z", "1993-08-22T15:00:00Z"}},
		{"0 3 21 * *", "1993-07-22T16:00:00Z", []string{"1993-08-21T12:00:00Z", "1993-09-20T15:00:00Z"}},
	},
	// There was no 31 December 1994.
	"Pacific/Kiritimati": {
		{"@daily", "1994-12-30T00:00:00Z", []string{"1994-12-30T10:00:00Z", "1994-12-31T10:00:00Z", "1995-01-01T10:00:00Z"}},
		{"0 12 31 * *", "1994-12-01T00:00:00Z", []string{"1994-12-31T10:00:00Z", "1995-01-30T22:00:00Z"}},
	},
	// Both changes are at midnight or come back to it.
	"America/Havana": {
		{"@daily", "2026-03-07T00:00:00Z", []string{"2026-03-07T05:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"}},
		{"@daily", "2026-10-31T00:00:00Z", []string{"2026-10-31T04:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"}},
		{"30 0 * * *", "2026-11-01T04:45:00Z", []string{"2026-11-02T05:30:00Z"}},
		{"*/30 0 * * *", "2026-11-01T04:10:00Z", []string{"2026-11-01T04:30:00Z", "2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z", "2026-11-02T05:00:00Z"}},
	},
	"Asia/Beirut": {
		{"@daily", "2022-03-26T00:00:00Z", []string{"2022-03-26T22:00:00Z", "2022-03-27T21:00:00Z"}},
		{"30 23 * * *", "2022-10-28T00:00:00Z", []string{"2022-10-28T20:30:00Z", "2022-10-29T20:30:00Z", "2022-10-30T21:30:00Z"}},
		{"@daily", "2022-10-29T12:00:00Z", []string{"2022-10-29T22:00:00Z", "2022-10-30T22:00:00Z"}},
	},
	// Back for Ramadan, forward after it.
	"Africa/Casablanca": {
		{"30 2 * * *", "2022-03-26T00:00:00Z", []string{"2022-03-26T01:30:00Z", "2022-03-27T01:30:00Z", "2022-03-28T02:30:00Z"}},
		{"30 2 * * *", "2022-05-07T00:00:00Z", []string{"2022-05-07T02:30:00Z", "2022-05-08T02:00:00Z", "2022-05-09T01:30:00Z"}},
		{"0 2 8 * *", "2022-05-01T00:00:00Z", []string{"2022-05-08T02:00:00Z", "2022-06-08T01:00:00Z"}},
	},
	// Two hours.
	"Antarctica/Troll": {
		{"30 1,2 * * *", "2023-03-25T22:00:00Z", []string{"2023-03-26T01:00:00Z", "2023-03-26T23:30:00Z", "2023-03-27T00:30:00Z"}},
		{"30 1,2 * * *", "2023-10-28T22:00:00Z", []string{"2023-10-28T23:30:00Z", "2023-10-29T00:30:00Z", "2023-10-30T01:30:00Z"}},
		{"30 * * * *", "2023-10-28T23:00:00Z", []string{"2023-10-28T23:30:00Z", "2023-10-29T00:30:00Z", "2023-10-29T01:30:00Z"}},
	},
	// Three quarters past the hour, at 02:45.
	"Pacific/Chatham": {
		{"0 3 * * *", "2025-09-26T20:00:00Z", []string{"2025-09-27T14:00:00Z", "2025-09-28T13:15:00Z"}},
		{"0 3 * * *", "2026-04-03T20:00:00Z", []string{"2026-04-04T13:15:00Z", "2026-04-05T14:15:00Z"}},
	},
	// A quarter of an hour, once, at the midnight that begins 1986.
	"Asia/Kathmandu": {
		{"@daily", "1985-12-30T12:00:00Z", []string{"1985-12-30T18:30:00Z", "1985-12-31T18:30:00Z", "1986-01-01T18:15:00Z"}},
		{"@yearly", "1985-12-30T12:00:00Z", []string{"1985-12-31T18:30:00Z", "1986-12-31T18:15:00Z"}},
		{"*/15 * * * *", "1985-12-31T18:10:00Z", []string{"1985-12-31T18:15:00Z", "1985-12-31T18:30:00Z", "1985-12-31T18:45:00Z"}},
	},
	// Half an hour back in 2007, forward in 2016.
	"America/Caracas": {
		{"45 2 * * *", "2007-12-08T08:00:00Z", []string{"2007-12-09T06:45:00Z", "2007-12-10T07:15:00Z"}},
		{"45 2 * * *", "2016-04-30T00:00:00Z", []string{"2016-04-30T07:15:00Z", "2016-05-01T07:00:00Z", "2016-05-02T06:45:00Z"}},
		{"0 3 * * 0", "2007-12-03T00:00:00Z", []string{"2007-12-09T07:30:00Z", "2007-12-16T07:30:00Z"}},
	},
	// The tz database calls the winter the changed time.
	"Europe/Dublin": {
		{"30 1 * * *", "2026-03-28T00:00:00Z", []string{"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"30 1 * * *", "2026-10-24T00:00:00Z", []string{"2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
	},
	// The last half hour of 4 May 2018 was left out: its run is the first of 5 May.
	"Asia/Pyongyang": {
		{"45 23 * * *", "2018-05-03T00:00:00Z", []string{"2018-05-03T15:15:00Z", "2018-05-04T15:00:00Z", "2018-05-05T14:45:00Z"}},
		{"@daily", "2015-08-13T00:00:00Z", []string{"2015-08-13T15:00:00Z", "2015-08-14T15:30:00Z"}},
	},
	// The last hour of a Saturday in March is left out.
	"America/Nuuk": {
		{"30 23 * * 6", "2026-03-27T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-04-05T00:30:00Z"}},
		{"30 23 * * *", "2026-10-24T12:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
	},
	// At one minute past midnight, so that the day before comes back.
	"America/St_Johns": {
		{"30 0 * * *", "2010-03-13T12:00:00Z", []string{"2010-03-14T03:31:00Z", "2010-03-15T03:00:00Z"}},
		{"@daily", "2010-11-06T12:00:00Z", []string{"2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"}},
		{"30 23 * * *", "2010-11-06T12:00:00Z", []string{"2010-11-07T02:00:00Z", "2010-11-08T03:00:00Z"}},
		{"1 0 * * *", "2010-11-06T12:00:00Z", []string{"2010-11-07T03:31:00Z", "2010-11-08T03:31:00Z"}},
	},
	// Until 7 January 1972 the offset was not a whole number of minutes.
	"Africa/Monrovia": {
		{"@daily", "1972-01-05T12:00:00Z", []string{"1972-01-06T00:44:30Z", "1972-01-07T00:44:30Z", "1972-01-08T00:00:00Z"}},
		{"*/15 * * * *", "1972-01-07T00:20:00Z", []string{"1972-01-07T00:29:30Z", "1972-01-07T00:45:00Z"}},
	},
	// No changes; what the fields mean by themselves.
	"": {
		{"0 12 13 * 5", "2026-02-01T00:00:00Z", []string{"2026-02-06T12:00:00Z", "2026-02-13T12:00:00Z", "2026-02-20T12:00:00Z"}},
		{"0 12 */10 * 5", "2026-02-01T00:00:00Z", []string{"2026-02-01T12:00:00Z", "2026-02-06T12:00:00Z", "2026-02-11T12:00:00Z"}},
		{"0 12 ? feb mon-tue", "2026-02-01T00:00:00Z", []string{"2026-02-02T12:00:00Z", "2026-02-03T12:00:00Z", "2026-02-09T12:00:00Z"}},
		{"0 0 31 * *", "2026-01-31T00:00:00Z", []string{"2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"}},
		{"@yearly", "2095-06-01T00:00:00Z", []string{"2096-01-01T00:00:00Z", "2097-01-01T00:00:00Z"}},
		{"@every 90s", "1969-12-31T23:58:00.5Z", []string{"1969-12-31T23:58:30Z", "1970-01-01T00:00:00Z", "1970-01-01T00:01:30Z"}},
		{"* * * * *", "2026-01-01T00:00:00.000000001Z", []string{"2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"}},
		{"0 0 * * *", "2025-12-31T23:59:59.999999999Z", []string{"2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"}},
	},
}

func TestSchedulesOverClockChanges(t *testing.T) {
	for zone, rows := range changes {
		for _, tc := range rows {
			t.Run(zone+" "+tc.expression+" after "+tc.after, func(t *testing.T) {
				s := mustParse(t, tc.expression, zone)
				var got []string
				for at := instant(t, tc.after); len(got) < len(tc.want); {
					at = s.Next(at)
					got = append(got, at.Format(time.RFC3339Nano))
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

func mustParse(t fataler, expression, zone string) *Schedule {
	t.Helper()
	s, err := Parse(expression, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func instant(t fataler, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestNextEnds(t *testing.T) {
	// Egypt began summer time on 1 May at 01:00 in each of these years.
	s := mustParse(t, "*/10 1 1 5 *", "Africa/Cairo")
	if got := s.Next(instant(t, "1959-06-01T00:00:00Z")); !got.IsZero() {
		t.Errorf("an interval in an hour that is left out each year: %s", got)
	}
	daily := mustParse(t, "@daily", "Europe/Berlin")
	for _, outside := range []time.Time{{}, instant(t, "9999-12-31T23:00:00Z")} {
		if got := daily.Next(outside); !got.After(outside) {
			t.Errorf("after %s: %s", outside, got)
		}
	}
	for _, outside := range []time.Time{time.Time{}.Add(-1), lastInstant.Add(1), time.Unix(1<<62, 0), time.Unix(-1<<62, 0)} {
		if got := daily.Next(outside); !got.IsZero() {
			t.Errorf("after %s: %s", outside, got)
		}
	}
}
