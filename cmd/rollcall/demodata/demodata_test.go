package demodata

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"rollcall/reconcile"
	"rollcall/reconcile/source"
)

// post is a report as intake reads it.
type post struct {
	identity reconcile.Identity
	revision int64
	text     string
	media    string
	urgent   bool
}

// readAll reads the reports as intake does, and counts the lines that are none.
func readAll(t *testing.T) (posts []post, broken int) {
	t.Helper()
	r, err := source.NewReader(bytes.NewReader(Reports()), source.JSONL, source.DefaultMapping(), source.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		rec, err := r.Next()
		var refused *source.LineError
		switch {
		case errors.Is(err, io.EOF):
			return posts, broken
		case errors.As(err, &refused):
			broken++
		case err != nil:
			t.Fatal(err)
		case rec.ID == "":
			broken++
		default:
			if rec.Damaged {
				t.Errorf("line %d: its text is no valid Unicode", rec.Line)
			}
			posts = append(posts, post{
				identity: reconcile.Identity{Tenant: rec.Tenant, System: rec.System, ExternalID: rec.ID},
				revision: rec.Revision, text: rec.Text.Reveal(), media: rec.Media, urgent: rec.Urgent,
			})
		}
	}
}

// ledger is just enough of one to judge deliveries.
type ledger map[reconcile.Identity]map[int64]string

func (l ledger) deliver(p post) reconcile.Verdict {
	revisions := l[p.identity]
	known := reconcile.KnownReport{Exists: revisions != nil, RevisionMAC: revisions[p.revision]}
	for revision := range revisions {
		known.CurrentRevision = max(known.CurrentRevision, revision)
	}
	d := reconcile.Delivery{Revision: p.revision, Rule: reconcile.RevisionConflict, ContentMAC: "of " + p.text}
	verdict, _ := d.Judge(known)
	if revisions == nil {
		revisions = map[int64]string{}
		l[p.identity] = revisions
	}
	if verdict != reconcile.Conflict {
		revisions[p.revision] = d.ContentMAC
	}
	return verdict
}

func TestReportsTellTheirStories(t *testing.T) {
	posts, broken := readAll(t)
	verdicts := map[reconcile.Verdict]int{}
	stories := map[string][]reconcile.Verdict{}
	l := ledger{}
	for _, p := range posts {
		v := l.deliver(p)
		verdicts[v]++
		if !strings.HasPrefix(p.identity.ExternalID, "post-") {
			stories[p.identity.ExternalID] = append(stories[p.identity.ExternalID], v)
		}
	}
	for id, want := range map[string][]reconcile.Verdict{
		Example:            {reconcile.Accepted, reconcile.Revised},
		"edited-2":         {reconcile.Accepted, reconcile.Revised, reconcile.Revised},
		"edited-at-a-time": {reconcile.Accepted, reconcile.Revised},
		"late-1":           {reconcile.Accepted, reconcile.Late},
		"conflict-1":       {reconcile.Accepted, reconcile.Conflict},
		"voice-1":          {reconcile.Accepted},
		"empty-1":          {reconcile.Accepted},
		"long-1":           {reconcile.Accepted},
		"same-id":          {reconcile.Accepted, reconcile.Accepted}, // two tenants
	} {
		if got := stories[id]; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
		delete(stories, id)
	}
	if len(stories) > 0 {
		t.Errorf("ids that look like a story without being one: %v", stories)
	}

	// The count that the demo is compared with comes to the same.
	c := Count()
	for what, pair := range map[string][2]int{
		"lines":       {c.Lines, len(posts) + broken},
		"broken":      {c.Broken, broken},
		"reports":     {c.Reports, verdicts[reconcile.Accepted]},
		"redelivered": {c.Redelivered, verdicts[reconcile.Unchanged]},
		"conflicting": {c.Conflicting, verdicts[reconcile.Conflict]},
	} {
		if pair[0] != pair[1] || pair[0] == 0 {
			t.Errorf("%s: counted %d, read %d", what, pair[0], pair[1])
		}
	}
	if c.Reports < 180 || c.Redelivered < 3 || c.Edited < 4 || c.NoText != 2 || c.Broken != 2 {
		t.Errorf("too little to see: %+v", c)
	}
}

func TestReportsAreVaried(t *testing.T) {
	posts, _ := readAll(t)
	all := func(want func(post) bool) (n int) {
		for _, p := range posts {
			if want(p) {
				n++
			}
		}
		return n
	}
	has := func(parts ...string) func(post) bool {
		return func(p post) bool {
			for _, part := range parts {
				if strings.Contains(p.text, part) {
					return true
				}
			}
			return false
		}
	}
	in := func(tables ...*unicode.RangeTable) func(post) bool {
		return func(p post) bool {
			return strings.ContainsFunc(p.text, func(r rune) bool { return unicode.In(r, tables...) })
		}
	}
	tenants := map[string]bool{}
	for _, p := range posts {
		tenants[p.identity.Tenant] = true
	}
	if len(tenants) < 3 {
		t.Errorf("only %d tenants", len(tenants))
	}
	for what, pick := range map[string]func(post) bool{
		"urgent":                func(p post) bool { return p.urgent },
		"a voice message":       func(p post) bool { return p.text == "" && p.media == "audio" },
		"blank":                 func(p post) bool { return p.media == "" && strings.TrimSpace(p.text) == "" },
		"very long":             func(p post) bool { return len(p.text) > 30_000 },
		"NUL":                   has("\x00"),
		"line separator":        has("\u2028"),
		"zero width":            has("\u200b"),
		"emoji":                 has("🎉"),
		"a byte order mark":     has("\ufeff"),
		"right to left":         in(unicode.Arabic, unicode.Hebrew),
		"Cyrillic":              in(unicode.Cyrillic),
		"East Asian":            in(unicode.Han, unicode.Hiragana, unicode.Hangul),
		"Devanagari":            in(unicode.Devanagari),
		"an injection":          has("Ignore all previous instructions", "<|im_start|>", "SYSTEM:"),
		"an answer for a text":  has(`{"label":"ok","evidence":[]}`),
		"a spreadsheet formula": has("=HYPERLINK("),
		"markup":                has("<script>"),
		"unsafe advice":         has("stop taking your insulin"),
		"harassment":            has("idiot", "worthless"),
		"spam":                  has("Buy now", "promo code"),
		"a worry":               has("want to die", "suicidal"),
	} {
		if all(pick) == 0 {
			t.Errorf("no report is or has: %s", what)
		}
	}
}

// Two posts with the same text would be the same post by mistake.
func TestTextsAreDistinct(t *testing.T) {
	posts, _ := readAll(t)
	owner := map[string]reconcile.Identity{}
	for _, p := range posts {
		if p.text == "" {
			continue
		}
		if other, ok := owner[p.text]; ok && other != p.identity {
			t.Errorf("%v and %v have the same text", other, p.identity)
		}
		owner[p.text] = p.identity
	}
}

var (
	phoneLike = regexp.MustCompile(`\+?\d[\d ()/-]{8,}\d`)
	address   = regexp.MustCompile(`https?://[^/\s"]+|www\.\S+?\.\w+`)
)

// The demo must not hold anything about anybody.
func TestReportsHoldNoPersonalData(t *testing.T) {
	posts, _ := readAll(t)
	for _, p := range posts {
		if strings.Contains(p.text, "@") {
			t.Errorf("%s: holds an @", p.identity.ExternalID)
		}
		for _, n := range phoneLike.FindAllString(p.text, -1) {
			if n != "00000000-0000" {
				t.Errorf("%s: holds something like a phone number", p.identity.ExternalID)
			}
		}
		for _, a := range address.FindAllString(p.text, -1) {
			if !strings.HasSuffix(a, "example.org") {
				t.Errorf("%s: holds an address other than example.org", p.identity.ExternalID)
			}
		}
	}
}
