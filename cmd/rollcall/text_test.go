package main

import (
	"testing"

	"rollcall/sql/sqltest"
)

// What PostgreSQL would refuse as text is refused before it is asked, by name.
func TestArgumentsThatAreNoText(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			for _, bad := range []string{"\xff", "a\x00b"} {
				for _, tc := range []struct {
					says string
					args []string
				}{
					{"ID", []string{"explain", bad}},
					{"ID", []string{"job", "show", bad}},
					{"ID", []string{"job", "inspect", bad}},
					{"JOB", []string{"job", "resolve", bad}},
					{"--found", []string{"job", "resolve", "j", "--reason", "r", "--found", bad}},
					{"ID", []string{"findings", "resolve", bad, "--reason", "r"}},
					{"NAME", []string{"policy", "approve", bad, "--reason", "r"}},
					{"--reason", []string{"policy", "approve", "patient-community", "--reason", bad}},
					{"--evidence", []string{"policy", "approve", "patient-community", "--reason", "r", "--evidence", bad}},
					{"--reason", []string{"pause", "--reason", bad}},
					{"--by", []string{"resume", "--reason", "r", "--by", bad}},
					{"--by", []string{"route", "a", "--reason", "r", "--by", bad}},
					{"--reason", []string{"recover", "--reason", bad}},
				} {
					o.must(exitUsage, tc.args...).wantSaid(t, tc.says, "is no text")
				}
			}
		})
	}
}
