package reconcile

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"rollcall/reconcile/keyring"
)

var idWord = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// strangeIDs are custom ids as a provider may return them.
var strangeIDs = []string{"", "-", "--", "w-s", "w-s-s", "-s", "w-", "w-S", "w_s", "w\u2010s", "w－s", "ｗ-s", "w\x00-s", "w\n-s", "w -s", "\xff-s", "w\u202e-s", "w\u0301-s", "../w-s",
	"w'; DROP TABLE works; ---s", "MARKER of a report-s", strings.Repeat("w", 62) + "-s", strings.Repeat("w", 63) + "-s", strings.Repeat("w", 1<<16) + "-s"}

// FuzzCustomID: what was made is read back, what is read back is what was made,
// and no id names a work of another submission.
func FuzzCustomID(f *testing.F) {
	for _, id := range strangeIDs {
		f.Add(id, "w", []byte("0123456"), []byte("0123457"))
	}
	keys, err := keyring.Generate()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, customID, report string, random, other []byte) {
		random, other = append(random, make([]byte, 7)...)[:7], append(other, make([]byte, 7)...)[:7]
		sub, err := newSubmissionID(bytes.NewReader(random))
		foreign, err2 := newSubmissionID(bytes.NewReader(other))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		work := keys.WorkID(report, int64(len(customID)), "p", 1)
		made := CustomID(work, sub)
		if got, ok := workOf(made, sub); !ok || got != work || len(made) > 64 || !idWord.MatchString(made) {
			t.Errorf("%q was made, and read back as %q, %v", made, got, ok)
		}
		if got, ok := workOf(made, foreign); ok && sub != foreign {
			t.Errorf("%q of %s is work %q of %s", made, sub, got, foreign)
		}
		for _, s := range []string{"s", sub} {
			for _, id := range []string{customID, customID + "-" + s} {
				if got, ok := workOf(id, s); ok && (CustomID(got, s) != id || len(id) > 64 || !idWord.MatchString(got)) {
					t.Errorf("%q is work %q", id, got)
				}
			}
		}
	})
}

// FuzzFileName: a file is this ledger's only if it has just the name that this
// ledger gives.
func FuzzFileName(f *testing.F) {
	for _, name := range []string{"rollcall_l1_j_s.jsonl", "rollcall_l1_j_s_t.jsonl", "rollcall_l1__s.jsonl", "rollcall_l1_j_.jsonl", "rollcall_l1_j.jsonl", "rollcall_l1_.jsonl", "rollcall_l2_j_s.jsonl",
		"rollcall_l1_j_s.jsonl.jsonl", "rollcall_l1_j_s", "ROLLCALL_l1_j_s.jsonl", "rollcall_l1_j _s.jsonl", "rollcall_l1_j_s\x00.jsonl", "rollcall_l1_ä_s.jsonl", ".jsonl", "",
		"rollcall_l1_" + strings.Repeat("j", 129) + "_s.jsonl"} {
		f.Add(name, "l1", "j1", "s1")
	}
	f.Fuzz(func(t *testing.T, name, ledger, job, sub string) {
		id := LedgerIdentity{LedgerID: ledger}
		if j, s, ok := id.fileOf(name); ok && (id.fileName(j, s) != name || !reference(j) || !reference(s)) {
			t.Errorf("%q is of job %q, submission %q", name, j, s)
		}
		if !reference(job) || !reference(sub) || strings.Contains(job, "_") { // no id of ours has one
			return
		}
		if j, s, ok := id.fileOf(id.fileName(job, sub)); !ok || j != job || s != sub {
			t.Errorf("job %q, submission %q came back as %q, %q, %v", job, sub, j, s, ok)
		}
	})
}

// FuzzRecoveredWorks: each line of a body that is read for recovery is counted,
// and names a work only by an id that may have been sent.
func FuzzRecoveredWorks(f *testing.F) {
	for _, id := range strangeIDs {
		f.Add([]byte("w1-s\n"+id+"\nw2-s"), "s")
	}
	f.Add([]byte("\xef\xbb\xbfw1-s\r\n\n\nw2-s\n"), "s")
	v := &recovering{r: &Reconciler{Settings: Settings{LineBytes: 256}}}
	f.Fuzz(func(t *testing.T, body []byte, sub string) {
		works, err := v.readWorks(bytes.NewReader(body), sub, func(line []byte) (string, bool) { return string(line), len(line) > 0 })
		if err != nil {
			t.Fatal(err)
		}
		lines := newLineReader(bytes.NewReader(body), v.r.Settings.LineBytes, sha256.New)
		for i, work := range works {
			line, err := lines.next()
			if err != nil {
				t.Fatal(err)
			}
			if work != "" && (CustomID(work, sub) != string(line.body) || !idWord.MatchString(work) || len(line.body) > 64) {
				t.Errorf("line %d names work %q", i+1, work)
			}
			before, ours := strings.CutSuffix(string(line.body), "-"+sub)
			if ours && idWord.MatchString(before) && len(line.body) <= 64 && work == "" {
				t.Errorf("line %d was passed over", i+1)
			}
		}
		if _, err := lines.next(); err != io.EOF {
			t.Errorf("%d lines were read, and there are more: %v", len(works), err)
		}
	})
}

// checkEvidence holds that each quote of an accepted answer stands in the text
// where the positions say, for a reader that counts characters.
func checkEvidence(t *testing.T, content []byte, text string, got answer) {
	t.Helper()
	var told struct {
		Label    string   `json:"label"`
		Evidence []string `json:"evidence"`
	}
	var at [][2]int
	if err := json.Unmarshal(content, &told); err != nil {
		t.Fatalf("accepted, and no JSON: %v", err)
	}
	if err := json.Unmarshal([]byte(got.evidence), &at); err != nil || len(at) != len(told.Evidence) || told.Label != got.label {
		t.Fatalf("%v: label %q, %d quotes; accepted as %+v", err, told.Label, len(told.Evidence), got)
	}
	if !utf8.ValidString(text) { // no text in the ledger is like that
		return
	}
	runes := []rune(text)
	for i, quote := range told.Evidence {
		if from, to := at[i][0], at[i][1]; from < 0 || to > len(runes) || from >= to || string(runes[from:to]) != quote {
			t.Fatalf("quote %d is not at %s", i, fmt.Sprint(at[i]))
		}
	}
}
