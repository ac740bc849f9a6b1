package reconcile_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/reconcile/crashpoint"
	"rollcall/sql/sqltest"
)

// copyBehindIntent sends what is ready, and returns a copy of the ledger from
// between the first intent and its upload.
func (b *bench) copyBehindIntent() (address string) {
	b.t.Helper()
	b.fake.Hooks.Upload = func(string) (bool, error) {
		if address == "" {
			address = sqltest.Copy(b.t, b.Address)
		}
		return true, nil
	}
	b.submit()
	b.fake.Hooks.Upload = nil
	return address
}

// wantSentOnce holds that the texts r1 to rn are in so many jobs, each once.
func (b *bench) wantSentOnce(n, jobs int) {
	b.t.Helper()
	for i := range n {
		if c := b.fake.Uploaded(reportText("r"+string(rune('1'+i)), 1)); c != 1 {
			b.t.Errorf("text %d was sent %d times", i+1, c)
		}
	}
	if got := b.jobsWithItems(); got != jobs {
		b.t.Errorf("%d jobs with texts, want %d", got, jobs)
	}
}

// F47: a submission of a copy looks unsent behind its deadline, too. It is not taken
// for unsent by a pass that runs before the recovery, whoever noticed that the
// ledger was put back.
func TestF47_CopyIsNotTakenForUnsentBeforeItIsRecovered(t *testing.T) {
	for _, noticed := range []string{"by this host", "by another host"} {
		t.Run(noticed, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				path := filepath.Join(t.TempDir(), "witness")
				b.witnessed(path)
				b.r.Settings.JobItems = 3
				b.reports(6)
				b.collect()
				n := b.restored(t, b.copyBehindIntent())
				n.witnessed(path)
				n.Clock.Advance(20 * time.Minute)
				if noticed == "by another host" {
					if err := n.r.VerifyWitness(t.Context(), n.Clock.Now()); err == nil {
						t.Fatal("it is not noticed")
					}
					n.witnessed(filepath.Join(t.TempDir(), "another"))
				}
				_, err := n.r.Submit(t.Context(), n.Clock.Now())
				if noticed == "by this host" && err == nil {
					t.Error("a ledger that was put back submits without a word")
				}
				n.want("open submissions", "SELECT COUNT(*) || '' FROM submissions WHERE outcome IS NULL", "1")
				n.witnessed(path)
				if out := n.recover(reconcile.RecoverOptions{}); !out.Complete || len(out.Jobs) != 2 {
					t.Errorf("recovery %+v", out)
				}
				n.goOnUntilIdle()
				n.wantSentOnce(6, 2)
			})
		})
	}
}

// F47: works that an unsent submission of the copy holds are free for the job that
// is adopted.
func TestF47_UnsentSubmissionHoldsUpNoRecovery(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		path := filepath.Join(t.TempDir(), "witness")
		b.witnessed(path)
		b.reports(3)
		b.collect()
		b.fake.Hooks.Create = func(batch.Creation) (bool, error) {
			return false, &batch.Error{Op: "create", Kind: batch.Rejected, Code: "not_now"}
		}
		address := b.copyBehindIntent()
		b.fake.Hooks.Create = nil
		b.Clock.Advance(time.Hour)
		b.submit() // under a submission that the copy does not know
		n := b.restored(t, address)
		n.witnessed(path)
		if out := n.recover(reconcile.RecoverOptions{}); !out.Complete || len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredAdopted {
			t.Errorf("recovery %+v", out)
		}
		n.goOnUntilIdle()
		n.want("records", "SELECT COUNT(*) || '' FROM review_records WHERE authoritative = 1 AND kind = 'classified'", "3")
		if n.jobsWithItems() != 1 {
			t.Errorf("%d jobs", n.jobsWithItems())
		}
	})
}

// F47: a list that lags behind ends no recovery.
func TestF47_ListThatLagsEndsNoRecovery(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		path := filepath.Join(t.TempDir(), "witness")
		b.witnessed(path)
		b.reports(3)
		address := sqltest.Copy(t, b.Address)
		b.collect()
		b.submit()
		n := b.restored(t, address)
		n.witnessed(path)
		n.fake.Hooks.List = func(string) (bool, error) { return false, nil } // shows nothing yet
		if out := n.recover(reconcile.RecoverOptions{}); out.Complete || len(out.Doubts) != 1 || !strings.Contains(out.Doubts[0], "does not show yet") {
			t.Errorf("recovery by a list that lags %+v", out)
		}
		n.fake.Hooks.List = nil
		n.fake.EndAll() // its file went with the first look: its results tell what it was made of
		if out := n.recover(reconcile.RecoverOptions{}); !out.Complete || len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredAdopted {
			t.Errorf("recovery %+v", out)
		}
		n.goOnUntilIdle()
		n.wantSentOnce(3, 1)
	})
}

func (b *bench) anotherFake(o fake.Options) {
	o.Account, o.Breach = b.fake.Account(), b.breached
	o.Answer = func(string, string) []byte { return []byte(`{"label":"ok","evidence":[]}`) }
	if o.Now == nil {
		o.Now = b.Clock.Now
	}
	b.fake = fake.New(o)
	b.r = b.reconciler(b.Ledger)
}

// F47: which of two jobs is the newer one does not depend on how the processor's
// clock stands to ours.
func TestF47_ProcessorsClockIsBehind(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.anotherFake(fake.Options{Now: func() time.Time { return b.Clock.Now().Add(-20 * time.Hour) }})
		b.reports(1)
		b.collect()
		b.submit()
		address := sqltest.Copy(t, b.Address)
		b.fake.EndAs(b.fake.Jobs()[0].ID, "completed", func(it fake.Item) []fake.Line {
			return []fake.Line{fake.Failed(it.CustomID, batch.ItemFailed, "server_error")}
		})
		if _, err := b.untilIdle(nil); err != nil || b.jobsWithItems() != 2 {
			t.Fatalf("%d jobs, %v", b.jobsWithItems(), err)
		}
		n := b.restored(t, address)
		if out := n.recover(reconcile.RecoverOptions{}); out.Complete || out.Jobs[0].Became != reconcile.RecoveredWaiting {
			t.Errorf("recovery %+v", out)
		}
		for _, pass := range []reconcile.PassName{reconcile.PassPoll, reconcile.PassConsume} {
			if _, err := n.r.Run(t.Context(), pass); err != nil {
				t.Fatal(err)
			}
		}
		if out := n.recover(reconcile.RecoverOptions{}); !out.Complete || out.Jobs[0].Became != reconcile.RecoveredAdopted {
			t.Errorf("recovery %+v", out)
		}
		n.goOnUntilIdle()
		if n.jobsWithItems() != 2 {
			t.Errorf("%d jobs: what has an answer was sent again", n.jobsWithItems())
		}
	})
}

// F47: a file that was noted as surplus, and is in use after all, is kept.
func TestF47_NotedFileOfAnAdoptedJobIsKept(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(3)
		address := sqltest.Copy(t, b.Address)
		b.collect()
		b.submit()
		n := b.restored(t, address)
		calls := 0
		n.fake.Hooks.List = func(string) (bool, error) { calls++; return calls > 1, nil } // the first list looks empty
		refused := &batch.Error{Op: "delete file", Kind: batch.Temporary}
		n.fake.Hooks.Delete = func(string) (bool, error) { return false, refused }
		out := n.recover(reconcile.RecoverOptions{})
		if out.Complete || len(out.Doubts) == 0 || !strings.Contains(out.Doubts[0], "could not be deleted") {
			t.Errorf("recovery %+v", out)
		}
		if len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredAdopted {
			t.Errorf("a file that cannot be deleted holds up what can be done: %+v", out)
		}
		used, deleted := n.fake.Jobs()[0].FileID, map[string]bool{}
		n.fake.Hooks.List = nil
		n.fake.Hooks.Delete = func(id string) (bool, error) { deleted[id] = true; return true, nil }
		if out := n.recover(reconcile.RecoverOptions{}); !out.Complete {
			t.Errorf("recovery %+v", out)
		}
		n.pass(n.r.Sweep)
		if deleted[used] {
			t.Error("the request file of a job that runs is deleted")
		}
	})
}

// goneCursor is a processor that takes no deleted file for a cursor.
type goneCursor struct{ *fake.Provider }

func (g goneCursor) ListFiles(ctx context.Context, after string) (batch.FilePage, error) {
	for _, f := range g.Files() {
		if f.ID == after && !f.Present {
			return batch.FilePage{}, &batch.Error{Op: "list files", Kind: batch.Rejected, HTTPStatus: 400, Code: "no_such_object"}
		}
	}
	return g.Provider.ListFiles(ctx, after)
}

// F47: files are deleted once all are listed.
func TestF47_DeletedFileIsNoCursor(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.anotherFake(fake.Options{Page: 2})
		b.r.Settings.JobItems = 1
		b.reports(5)
		address := sqltest.Copy(t, b.Address)
		b.collect()
		b.fake.Hooks.Create = func(batch.Creation) (bool, error) {
			return false, &batch.Error{Op: "create", Kind: batch.UnknownOutcome}
		}
		b.submit()
		b.fake.Hooks.Create = nil
		n := b.restored(t, address)
		n.r.Accounts = []batch.Provider{goneCursor{b.fake}}
		if out := n.recover(reconcile.RecoverOptions{}); !out.Complete {
			t.Errorf("recovery %+v", out)
		}
		for _, f := range n.fake.Files() {
			if f.Present {
				t.Errorf("file %s is still there", f.ID)
			}
		}
	})
}

// F47: a recovery beside a sender over the same ledger leaves its file alone.
func TestF47_LiveSenderKeepsItsFile(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(3)
		b.collect()
		var out reconcile.Recovery
		b.r.Step = func(p string) {
			if p != crashpoint.SubmitUploaded {
				return
			}
			var err error
			out, err = b.reconciler(b.Ledger).Recover(t.Context(), b.Clock.Now(), reconcile.RecoverOptions{Actor: "a", Reason: "r"})
			if err != nil {
				t.Error(err)
			}
		}
		if _, err := b.r.Submit(t.Context(), b.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		if out.Complete || len(out.Doubts) != 1 || !strings.Contains(out.Doubts[0], "may be sent until") {
			t.Errorf("recovery %+v", out)
		}
		b.wantSentOnce(3, 1)
	})
}

// F22, F47: of several jobs of one submission the one that has the texts is its job.
func TestF47_JobWithTextsIsFoundBesideItsRepeat(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		path := filepath.Join(t.TempDir(), "witness")
		b.witnessed(path)
		b.reports(3)
		b.collect()
		var made batch.Creation
		b.fake.Hooks.Create = func(c batch.Creation) (bool, error) { made = c; return true, nil }
		n := b.restored(t, b.copyBehindIntent())
		n.witnessed(path)
		n.fake.Hooks.Create = nil
		n.Clock.Advance(time.Minute)
		made.FileID = "file-that-is-gone"
		if _, err := n.fake.Create(t.Context(), made); err != nil { // a proxy repeats it
			t.Fatal(err)
		}
		out := n.recover(reconcile.RecoverOptions{})
		if !out.Complete || len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredFound || out.Jobs[0].ProviderJobID != n.fake.Jobs()[0].ID {
			t.Errorf("recovery %+v", out)
		}
		n.goOnUntilIdle()
		n.wantSentOnce(3, 1)
	})
}
