package schedule

import (
	"testing"
	"time"
)

func BenchmarkNext(b *testing.B) {
	after := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct{ name, expression, zone string }{
		{"nightly", "30 2 * * *", "Europe/Berlin"},
		{"weekly", "@weekly", "Europe/Berlin"},
		{"yearly", "0 3 28 2 *", "Europe/Berlin"},
		{"yearly in UTC", "0 3 28 2 *", ""},
		{"all minutes of one day a year, fixed", "0-59 0-23 28 2 *", "America/New_York"},
		{"interval", "*/15 * * * *", "Europe/Berlin"},
		{"interval on one day a year", "*/15 3 28 2 *", "Europe/Berlin"},
		{"every", "@every 90s", ""},
	} {
		s := mustParse(b, tc.expression, tc.zone)
		b.Run(tc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if s.Next(after).IsZero() {
					b.Fatal("never")
				}
			}
		})
	}
	never := mustParse(b, "*/10 1 1 5 *", "Africa/Cairo")
	b.Run("nothing in eight years", func(b *testing.B) {
		for b.Loop() {
			if !never.Next(time.Date(1959, time.June, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
				b.Fatal("found")
			}
		}
	})
}

func BenchmarkMissedAfterTenYears(b *testing.B) {
	s := mustParse(b, "* * * * *", "Europe/Berlin")
	from := time.Date(2016, time.January, 1, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		if _, _, more := s.Missed(from, from.AddDate(10, 0, 0), 1000); !more {
			b.Fatal("not more")
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		mustParse(b, "30 2 * * 1-5", "Europe/Berlin")
	}
}
