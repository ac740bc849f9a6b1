package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// hostile is a processor whose lists never come to an end.
type hostile struct {
	*fake.Provider
	cursor func(after string) string
	calls  int
}

func (h *hostile) ListJobs(_ context.Context, after string) (batch.JobPage, error) {
	h.calls++
	at := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	return batch.JobPage{Jobs: []batch.ListedJob{{Job: batch.Job{ID: "job-" + after}, Created: at}}, Next: h.cursor(after)}, nil
}

func (h *hostile) ListFiles(_ context.Context, after string) (batch.FilePage, error) {
	h.calls++
	return batch.FilePage{Files: []batch.ListedFile{{ID: "file-" + after}}, Next: h.cursor(after)}, nil
}

// A list that goes round in circles, or never ends, proves nothing and holds up
// nobody.
func TestEndlessListsEnd(t *testing.T) {
	for name, cursor := range map[string]func(string) string{
		"the same cursor":  func(string) string { return "a" },
		"a circle of two":  func(after string) string { return map[string]string{"": "a", "a": "b", "b": "a"}[after] },
		"without an end":   func(after string) string { return fmt.Sprintf("c%d", len(after)) + after[:min(len(after), 40)] + "x" },
		"always a new one": func() func(string) string { n := 0; return func(string) string { n++; return fmt.Sprint("c", n) } }(),
	} {
		t.Run(name, func(t *testing.T) {
			l := sqltest.Open(t, "sqlite")
			b := newBench(t, l)
			b.uncertain(1, false)
			h := &hostile{Provider: b.fake, cursor: cursor}
			b.r.Accounts = []batch.Provider{h}
			b.Clock.Advance(b.r.Settings.SendWithin + 3*b.r.Settings.AbsentAfter)
			b.resolve()
			if got := b.obstacle(); !strings.Contains(got, "could not be read: list jobs: bad_answer") {
				t.Errorf("the obstacle is %q", got)
			}
			b.wantTally("sweep", b.sweep(), reconcile.Tally{Failed: 1})
			if _, err := b.r.Recover(t.Context(), b.Clock.Now(), reconcile.RecoverOptions{Actor: "anna", Reason: "r"}); err == nil {
				t.Error("a list without an end is taken for read")
			}
			if h.calls > 60_000 {
				t.Errorf("%d calls", h.calls)
			}
		})
	}
}

// What names this ledger and has references of another shape is none of its
// jobs: it neither stops the passes nor reaches the database.
func TestJobWithReferencesThatAreNone(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for _, odd := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 200), "Robert'); DROP"} {
			meta := map[string]string{"rc_ledger": b.ledgerID(), "rc_job": "j", "rc_manifest": "m", "rc_submission": odd}
			if _, err := b.fake.Create(t.Context(), batch.Creation{FileID: b.theirFile("theirs.jsonl"), Metadata: meta}); err != nil {
				t.Fatal(err)
			}
		}
		b.wantTally("sweep", b.sweep(), reconcile.Tally{})
		if out := b.recover(reconcile.RecoverOptions{}); !out.Complete || len(out.Jobs) != 0 {
			t.Errorf("recovery %+v", out)
		}
	})
}

// A job that names the submission and cannot be its job is not adopted, and the
// submission is not taken for absent either.
func TestF16_JobThatContradictsItsSubmission(t *testing.T) {
	for name, change := range map[string]func(b *bench, c *batch.Creation){
		"another ledger": func(_ *bench, c *batch.Creation) { c.Metadata["rc_ledger"] = "ledger-OTHER" },
		"another file":   func(b *bench, c *batch.Creation) { c.FileID = b.theirFile("theirs.jsonl") },
		"a probe":        func(_ *bench, c *batch.Creation) { c.Metadata["rc_probe"] = "p" },
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.uncertain(1, false)
				c := batch.Creation{FileID: b.fake.Files()[0].ID, Metadata: b.sentMetadata()}
				change(b, &c)
				if _, err := b.fake.Create(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				b.lookUntilSettled(8)
				b.wantSubmissions("open")
				if got := b.obstacle(); !strings.Contains(got, "contradicts it") {
					t.Errorf("the obstacle is %q", got)
				}
			})
		})
	}
}

// F47: where the files of a job have expired, nothing tells what it was made of.
// An operator gives it up, and the ledger goes on.
func TestF47_JobOfWhichNothingIsLeft(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(2)
		copied := sqltest.Copy(t, b.Address)
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		for _, f := range b.fake.Files() {
			b.fake.ForgetFile(f.ID)
		}
		n := b.restored(t, copied)
		if out := n.recover(reconcile.RecoverOptions{}); out.Complete || len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredUnreadable {
			t.Errorf("recovery %+v", out)
		}
		if out := n.recover(reconcile.RecoverOptions{WithoutUnreadable: true}); !out.Complete || out.Jobs[0].Became != reconcile.RecoveredSurplus {
			t.Errorf("recovery %+v", out)
		}
		n.goOn()
		for range 2 {
			n.sweep()
		}
		n.want("pauses", "SELECT stage FROM pauses WHERE lifted_us IS NULL")
		if _, err := n.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		n.want("records", "SELECT COUNT(*) || '' FROM review_records WHERE authoritative = 1", "2")
	})
}

func TestOneRecoveryAtATime(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.fake.Hooks.List = func(string) (bool, error) {
			b.fake.Hooks.List = nil
			if _, err := b.r.Recover(t.Context(), b.Clock.Now(), reconcile.RecoverOptions{Actor: "anna", Reason: "r"}); !errors.Is(err, reconcile.ErrHeld) {
				t.Errorf("a second recovery: %v", err)
			}
			return true, nil
		}
		b.recover(reconcile.RecoverOptions{})
	})
}
