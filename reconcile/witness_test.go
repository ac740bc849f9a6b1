package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/reconcile"
)

// verdict is a witness that says what it is told to.
type verdict struct {
	reconcile.Witness
	err error
}

func (w *verdict) Verify(context.Context) error { return w.err }

// settles counts how often a finding was asked to be settled: each is a write.
type settles struct {
	reconcile.Store
	n int
}

func (s *settles) SettleEvent(ctx context.Context, now time.Time, name, subject, resolution string) (bool, error) {
	s.n++
	return s.Store.SettleEvent(ctx, now, name, subject, resolution)
}

func TestF47_WitnessThatCannotBeUsedIsAFindingForAsLong(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		broken := errors.New("witness: the file is damaged")
		w, store := &verdict{err: broken}, &settles{Store: b.Store}
		b.r.Witness, b.r.Store = w, store
		verify := func(what string, ctx context.Context, want error) {
			t.Helper()
			if err := b.r.VerifyWitness(ctx, b.Clock.Now()); !errors.Is(err, want) || (err != nil) != (want != nil) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		for range 3 {
			verify("damaged", t.Context(), broken)
		}
		b.wantFindings("witness_unusable")
		if n := strings.Count(b.log.String(), `"finding":"witness_unusable"`); n != 1 {
			t.Errorf("raised %d times: %s", n, b.log)
		}
		if _, err := b.r.Run(t.Context(), reconcile.PassSubmit); !errors.Is(err, broken) {
			t.Errorf("submit: %v", err)
		}
		w.err = nil
		for range 3 {
			verify("put right", t.Context(), nil)
		}
		b.wantFindings()
		if store.n != 1 {
			t.Errorf("%d writes for a witness that is put right", store.n)
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w.err = context.Canceled
		verify("told to stop", ctx, context.Canceled)
		b.wantFindings()
		w.err = fmt.Errorf("%w: something", reconcile.ErrRewound)
		verify("older", t.Context(), reconcile.ErrRewound)
		b.wantFindings("ledger_rewound")
	})
}

// A process that starts closes what one before it has opened.
func TestF47_NextProcessClosesTheFindingAboutTheWitness(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		if err := b.Store.OpenFinding(t.Context(), b.Clock.Now(), reconcile.Event{Name: reconcile.EventWitnessUnusable.Name, Subject: "witness", Severity: reconcile.Critical}); err != nil {
			t.Fatal(err)
		}
		b.r.Witness = &verdict{}
		if err := b.r.VerifyWitness(t.Context(), b.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		b.wantFindings()
	})
}

// noting tells of each note.
type noting struct {
	reconcile.Witness
	noted func(reconcile.Submission)
}

func (n noting) NoteIntent(ctx context.Context, id reconcile.LedgerIdentity, s reconcile.Submission) error {
	n.noted(s)
	return n.Witness.NoteIntent(ctx, id, s)
}

// F47: a copy from between the intent and the note of its body takes for unsent
// what was sent. So the witness is told of that note too, before the job is asked for.
func TestF47_WitnessKnowsOfTheBodyBeforeTheCreate(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		var at []string
		b.r.Witness = noting{b.witnessed(filepath.Join(t.TempDir(), "witness")), func(reconcile.Submission) {
			at = append(at, fmt.Sprintf("%s, %d jobs", b.rows("SELECT CASE WHEN body_mac IS NULL THEN 'intent' ELSE 'body' END FROM submissions")[0], len(b.fake.Jobs())))
		}}
		b.reports(1)
		b.collect()
		b.submit()
		if want := []string{"intent, 0 jobs", "body, 0 jobs"}; !slices.Equal(at, want) || len(b.fake.Jobs()) != 1 {
			t.Errorf("noted at %q, want %q; %d jobs", at, want, len(b.fake.Jobs()))
		}
	})
}
