package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/sql/sqltest"
)

// marker stands in every text of the test below, and nowhere else.
const marker = "Zyxmarker7731"

// TestMarkerIsNowhere runs everything at the most talkative level, through every
// kind of failure that the sandbox knows for items, and looks for a word of the
// reports in whatever was printed, logged, or stored in the clear.
func TestMarkerIsNowhere(t *testing.T) {
	faults := []string{"refusal:every=7", "invalid_json:every=11", "off_schema:every=13", "unknown_label:every=17", "false_evidence:every=19",
		"missing_line:every=23", "malformed_line:every=29", "conflicting_line:every=31", "length:every=37", "content_filter:every=41",
		"item_error:every=43", "unknown_custom_id:every=47", "duplicate_keys:every=53", "content_cut:times=1", "bad_gateway:op=status,times=1"}
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database, faults...)
			var reports strings.Builder
			for i := range 120 {
				fmt.Fprintf(&reports, `{"tenant":"t","system":"s","id":"m-%d","text":"%s you are an idiot, buy now %d"}`+"\n", i, marker, i)
			}
			fmt.Fprintf(&reports, `{"tenant":"t","system":"s","id":"m-1","text":"%s other content"}`+"\n", marker)
			fmt.Fprintf(&reports, `{"tenant":"t","system":"s","id":"m-1","revision":2,"text":"%s edited"}`+"\n", marker)
			fmt.Fprintf(&reports, `{"tenant":"t","system":"s","id":7.5,"text":"%s bad id"}`+"\n", marker)
			fmt.Fprintf(&reports, `{"tenant":"t","system":"s","id":"x","text":"%s`+"\n", marker)
			fmt.Fprintf(&reports, `%s is not JSON`+"\n", marker)
			file := o.file("reports.jsonl", reports.String())
			trace := []string{"--log-level", "trace"}
			o.run(nil, append(trace, "intake", file)...)
			o.run(nil, append(trace, "run", "--until-idle")...)
			for _, args := range [][]string{{"check"}, {"status"}, {"findings", "--all"}, {"jobs"}, {"explain", "m-1"}, {"explain", "m-7"},
				{"run", "--dry-run"}, {"run", "sweep"}, {"doctor"}, {"route", "m-3", "--reason", "a test"}, {"recover", "--reason", "a test"},
				{"policy", "list"}, {"config", "check"}} {
				o.run(nil, append(trace, args...)...)
				if args[0] != "config" {
					o.run(nil, append(append(trace, args...), "--json")...)
				}
			}
			if o.printed.Len() < 5000 {
				t.Errorf("only %d bytes were printed; the commands did not run", o.printed.Len())
			}
			if i := bytes.Index(o.printed.Bytes(), []byte(marker)); i >= 0 {
				t.Errorf("report text was printed: …%s…", o.printed.Bytes()[max(0, i-200):min(o.printed.Len(), i+50)])
			}
			for _, name := range []string{"rollcall.db", "rollcall.db-wal"} {
				raw, err := os.ReadFile(filepath.Join(o.dir, name))
				if err == nil && bytes.Contains(raw, []byte(marker)) {
					t.Errorf("%s holds report text in the clear", name)
				}
			}
		})
	}
}
