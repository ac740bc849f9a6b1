package witness_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/reconcile"
	"rollcall/reconcile/witness"
)

// ledger is what a witness sees of one.
type ledger struct {
	id          reconcile.LedgerIdentity
	high        int64
	tokens      map[string]bool
	submissions map[string]bool
}

func (l *ledger) LedgerIdentity(context.Context) (reconcile.LedgerIdentity, error) { return l.id, nil }
func (l *ledger) AuditHigh(context.Context) (int64, error)                         { return l.high, nil }
func (l *ledger) MissingTokens(_ context.Context, in []string) ([]string, error) {
	return missing(l.tokens, in), nil
}
func (l *ledger) MissingSubmissions(_ context.Context, in []string) ([]string, error) {
	return missing(l.submissions, in), nil
}

func missing(have map[string]bool, in []string) (out []string) {
	for _, v := range in {
		if !have[v] {
			out = append(out, v)
		}
	}
	return out
}

func newLedger() *ledger {
	return &ledger{id: reconcile.LedgerIdentity{LedgerID: "ledger-A", Generation: 1}, high: 5, tokens: map[string]bool{}, submissions: map[string]bool{}}
}

// commit is an acknowledged transaction.
func (l *ledger) commit(w *witness.File, token string) {
	l.tokens[token], l.high = true, l.high+1
	w.Committed(token, l.id.Generation)
}

// intent is an intent that is noted.
func (l *ledger) intent(t *testing.T, w *witness.File, id string) {
	t.Helper()
	l.submissions[id] = true
	if err := w.NoteIntent(t.Context(), l.id, reconcile.Submission{ID: id, JobID: "job-" + id, IntentAt: time.Unix(1, 0)}); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, l *ledger) (*witness.File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "witness")
	return witness.New(path, l, time.Now), path
}

func verify(t *testing.T, w *witness.File) {
	t.Helper()
	if err := w.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func wantRewound(t *testing.T, w *witness.File, says string) {
	t.Helper()
	for range 2 { // what is missing stays missing
		if err := w.Verify(t.Context()); !errors.Is(err, reconcile.ErrRewound) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want that %s", err, says)
		}
	}
	c, err := w.Compare(t.Context())
	if err != nil || c.Rewound() == "" {
		t.Errorf("compare says %q, %v", c.Rewound(), err)
	}
}

func TestF47_WhatAnOlderLedgerLacks(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(t *testing.T, l *ledger, w *witness.File)
		says    string
	}{
		"audit":  {func(t *testing.T, l *ledger, w *witness.File) { verify(t, w); l.high-- }, "its audit ends at 4, and 5 was seen"},
		"intent": {func(t *testing.T, l *ledger, w *witness.File) { l.intent(t, w, "s1"); l.submissions = nil }, "1 intents to send are missing, the first one is submission s1"},
		"commit between an intent and its job": {func(t *testing.T, l *ledger, w *witness.File) {
			l.intent(t, w, "s1")
			l.commit(w, "the body is noted")
			l.intent(t, w, "s1")
			*w = *witness.New(w.Path(), l, time.Now) // its process died
			l.tokens = nil
		}, "1 acknowledged transactions are missing"},
		"noted commit": {func(t *testing.T, l *ledger, w *witness.File) {
			l.commit(w, "a")
			verify(t, w)
			l.tokens = nil
			l.high += 100
		}, "1 acknowledged transactions are missing"},
		"commit of this hour": {func(t *testing.T, l *ledger, w *witness.File) { l.commit(w, "a"); l.tokens = nil; l.high += 100 }, "1 acknowledged transactions are missing"},
		"generation":          {func(t *testing.T, l *ledger, w *witness.File) { l.id.Generation = 2; verify(t, w); l.id.Generation = 1 }, "it is of generation 1, and 2 was seen"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			w, path := open(t, l)
			c.happens(t, l, w)
			wantRewound(t, w, c.says)
			if name != "commit of this hour" { // another process knows it from the file
				wantRewound(t, witness.New(path, l, time.Now), c.says)
			}
			if err := w.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			verify(t, w)
		})
	}
}

func TestRecoveredFromAnotherHost(t *testing.T) {
	for name, first := range map[string]func(t *testing.T, l *ledger, w *witness.File){
		"the ledger is compared":    func(*testing.T, *ledger, *witness.File) {},
		"an intent is noted first":  func(t *testing.T, l *ledger, w *witness.File) { l.intent(t, w, "s2") },
		"a transaction comes first": func(t *testing.T, l *ledger, w *witness.File) { l.commit(w, "b") },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			w, _ := open(t, l)
			l.commit(w, "a")
			verify(t, w)
			l.intent(t, w, "s1")
			l.submissions, l.tokens = map[string]bool{}, map[string]bool{}
			l.id.Generation, l.high = 2, 1
			first(t, l, w)
			verify(t, w)
			verify(t, w)
			had := len(l.submissions) + len(l.tokens)
			l.submissions, l.tokens = nil, nil
			if err := w.Verify(t.Context()); (err != nil) != (had > 0) {
				t.Errorf("of %d things of the new life, which are lost: %v", had, err)
			}
		})
	}
}

// What a daemon holds of a ledger outlives a restore and its recovery by another
// process. It is no sign that the ledger was put back once more.
func TestHeldCommitsOfTheLifeBeforeARecovery(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, l *ledger, daemon *witness.File){
		"the ledger is compared":   func(*testing.T, *ledger, *witness.File) {},
		"an intent is noted first": func(t *testing.T, l *ledger, daemon *witness.File) { l.intent(t, daemon, "s2") },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			daemon, path := open(t, l)
			verify(t, daemon)
			l.commit(daemon, "lost by the restore")
			l.tokens, l.id.Generation = map[string]bool{}, 2
			operator := witness.New(path, l, time.Now)
			if err := operator.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			before(t, l, daemon)
			verify(t, daemon)
			verify(t, operator)
			l.commit(daemon, "of the new life")
			l.tokens = map[string]bool{}
			wantRewound(t, daemon, "1 acknowledged transactions are missing")
		})
	}
}

func TestOtherLedgerIsRefused(t *testing.T) {
	l := newLedger()
	w, _ := open(t, l)
	verify(t, w)
	l.id.LedgerID = "ledger-B"
	for what, err := range map[string]error{"verify": w.Verify(t.Context()), "renew": w.Renew(t.Context()), "note": w.NoteIntent(t.Context(), l.id, reconcile.Submission{ID: "s"})} {
		if !errors.Is(err, witness.ErrOtherLedger) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestDamagedFileIsNamed(t *testing.T) {
	l := newLedger()
	w, path := open(t, l)
	for _, content := range []string{"", "{", `{"generation":1}`, "\x00\x01"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := w.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), path) || errors.Is(err, reconcile.ErrRewound) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// What is kept is bounded, and the newest.
func TestNewestAreKept(t *testing.T) {
	l := newLedger()
	w, path := open(t, l)
	for i := range 1005 {
		l.submissions[fmt.Sprint("s", i)] = true
	}
	for i := range 5000 {
		l.commit(w, fmt.Sprint("t", i))
	}
	verify(t, w)
	for i := range 1005 {
		l.intent(t, w, fmt.Sprint("s", i))
		if i == 5 {
			break // the rest is written at once below: each note is a file on the disk
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(data); !strings.Contains(text, `"t4999"`) || strings.Contains(text, `"t4900"`) || !strings.Contains(text, `"s5"`) {
		t.Errorf("the file holds %s", text)
	}
}

// Several processes share one file: none of their intents is lost.
func TestManyProcessesAtOnce(t *testing.T) {
	l := newLedger()
	_, path := open(t, l)
	var wg sync.WaitGroup
	for p := range 8 {
		wg.Go(func() {
			w := witness.New(path, l, time.Now)
			for i := range 5 {
				if err := w.NoteIntent(t.Context(), l.id, reconcile.Submission{ID: fmt.Sprintf("p%d-%d", p, i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	c, err := witness.New(path, l, time.Now).Compare(t.Context())
	if err != nil || len(c.MissingIntents) != 40 {
		t.Errorf("%d intents are remembered, %v", len(c.MissingIntents), err)
	}
	left, err := filepath.Glob(path + "*")
	if err != nil || len(left) != 2 {
		t.Errorf("files %v", left)
	}
}
