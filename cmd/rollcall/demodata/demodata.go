// Package demodata holds the reports of the demo: posts of a patient community
// that we made up, with what a real intake meets on a normal day.
//
// There are questions and thanks, unsafe advice, harassment, spam and worries
// about self-harm in several languages; posts that try to talk to the
// classifier; odd Unicode. Some lines are delivered twice, some posts were
// edited, one revision comes late, one delivery contradicts an earlier one, one
// post is a voice message, one is empty and one very long, and two lines are
// broken. The ids of these say what they show. Nobody's data is in it.
package demodata

import (
	"bytes"
	_ "embed"
	"encoding/json"
)

//go:embed reports.jsonl
var reports []byte

// Example is the external id of a report with a story: unsafe advice that its
// author took back in a second revision.
const Example = "edited-1"

// Reports is the demo's input, as JSON lines. The caller must not change it.
func Reports() []byte { return reports }

// Counts is what is in the reports, counted line by line without the ledger:
// something to compare the demo's result with.
type Counts struct {
	Lines       int // of the file
	Broken      int // lines that are no report
	Reports     int // distinct (tenant, system, id)
	Edited      int // reports with more than one revision
	Redelivered int // lines that repeat a report's revision word for word
	Conflicting int // lines with other content under a revision that came before
	NoText      int // reports with nothing to classify
}

// line is what Count needs of a report. Revision is a number or a time.
type line struct {
	Tenant, System, ID string
	Revision           json.RawMessage
	Text, Media        string
}

// Count counts the reports.
func Count() Counts {
	type identity struct{ tenant, system, id string }
	var c Counts
	seen := map[identity]map[string]string{} // text by revision
	for raw := range bytes.Lines(reports) {
		c.Lines++
		var l line
		if json.Unmarshal(raw, &l) != nil || l.ID == "" {
			c.Broken++
			continue
		}
		who, revision := identity{l.Tenant, l.System, l.ID}, string(l.Revision)
		revisions := seen[who]
		if revisions == nil {
			c.Reports++
			revisions = map[string]string{}
			seen[who] = revisions
			if len(bytes.TrimSpace([]byte(l.Text))) == 0 {
				c.NoText++
			}
		}
		text, known := revisions[revision]
		switch {
		case known && text == l.Text:
			c.Redelivered++
		case known:
			c.Conflicting++
		default:
			revisions[revision] = l.Text
			if len(revisions) == 2 {
				c.Edited++
			}
		}
	}
	return c
}
