package reconcile_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
)

// theirFile uploads a file under a name.
func (b *bench) theirFile(name string) string {
	b.t.Helper()
	body := fmt.Sprintf(`{"custom_id":"x%d","model":"m","question":"q","text":"t"}`+"\n", len(b.fake.Files()))
	id, err := b.fake.Upload(b.t.Context(), batch.Input{Name: name, Size: int64(len(body)), Write: func(w io.Writer) error { _, err := io.WriteString(w, body); return err }})
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

func (b *bench) present(fileID string) bool {
	for _, f := range b.fake.Files() {
		if f.ID == fileID {
			return f.Present
		}
	}
	return false
}

func (b *bench) ledgerID() string {
	b.t.Helper()
	id, err := b.LedgerIdentity(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return id.LedgerID
}

// F16: a file without a job holds report text, and is deleted; what is in use, on
// its way or somebody else's stays.
func TestF16_FileThatNoJobUsesIsDeleted(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		foreign := b.theirFile("theirs.jsonl")
		otherLedger := b.theirFile("rollcall_ledger-OTHER_job_submission.jsonl")
		// An upload whose answer is lost, and whose file cannot be deleted then.
		b.ready(1)
		b.fake.Hooks.Upload = func(name string) (bool, error) { return true, answer("upload", batch.Temporary, 0, "") }
		b.fake.Hooks.Delete = func(string) (bool, error) { return false, answer("delete file", batch.Temporary, 0, "") }
		b.submit()
		b.fake.Hooks = fake.Hooks{}
		orphan := b.fake.Files()[2].ID
		b.Clock.Advance(b.r.Settings.RetryCap)
		b.submit()
		used := b.fake.Files()[3].ID
		b.reports(1)
		b.collect()
		b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return true, errLost }
		b.submit()
		b.fake.Hooks.Create = nil
		open := b.fake.Files()[4].ID

		b.wantTally("sweep", b.sweep(), reconcile.Tally{Seen: 5, Moved: 1})
		for file, want := range map[string]bool{foreign: true, otherLedger: true, orphan: false, used: true, open: true} {
			if b.present(file) != want {
				t.Errorf("file %s is there: %v", file, !want)
			}
		}
		b.wantTally("again", b.sweep(), reconcile.Tally{Seen: 4})
		b.want("surplus", "SELECT kind || ' ' || why FROM surplus_objects WHERE gone_us IS NOT NULL", "file its submission was closed as rejected")
		b.want("findings", "SELECT name || ' ' || severity FROM findings", "surplus_file notice")
	})
}

// F21: the job of a submission that was given up is cancelled, its files are
// deleted once it has ended, and nothing of it is used.
func TestF21_SurplusJobIsCancelledAndDeleted(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(2, true)
		b.change("UPDATE submissions SET outcome = 'abandoned', evidence = 'an operator', closed_us = 1")
		b.submit()
		b.wantTally("running", b.sweep(), reconcile.Tally{Seen: 4, Moved: 2}) // two jobs, two files
		b.want("jobs there", "SELECT object_id || COALESCE(' gone', '') FROM surplus_objects WHERE kind = 'job' AND gone_us IS NULL", "job-000001 gone")
		if s := b.fake.Jobs()[0].Status; s != "cancelled" {
			t.Errorf("the surplus job is %s", s)
		}
		b.sweep()
		b.wantTally("once more", b.sweep(), reconcile.Tally{Seen: 3})
		b.wantFindings("surplus_file", "surplus_job")
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		b.want("records", "SELECT COUNT(*) || '' FROM review_records", "2")
	})
}

// A proxy that repeats a create makes two jobs over one file. The one that is not
// used is cancelled, and the file stays as long as the other one may read it.
func TestF22_SecondJobOverTheSameFile(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.fakeBreaches = true
		b.ready(2)
		b.fake.Hooks.Create = func(c batch.Creation) (bool, error) {
			b.fake.Hooks.Create = nil
			_, err := b.fake.Create(t.Context(), c)
			return true, err
		}
		b.submit()
		for range 3 {
			b.sweep()
		}
		jobs := b.fake.Jobs()
		if len(jobs) != 2 || jobs[0].Status != "cancelled" || jobs[1].Phase != batch.PhaseRunning || !b.present(jobs[1].FileID) {
			t.Errorf("jobs %+v, the file is there: %v", jobs, b.present(jobs[1].FileID))
		}
		b.wantFindings("surplus_job")
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		b.want("records", "SELECT COUNT(*) || '' FROM review_records WHERE kind = 'classified'", "2")
	})
}

func TestSweepGoesOnAtTheOtherAccounts(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		lists := fake.New(fake.Options{Account: batch.Account{Processor: "fake", Name: "other", Host: "other.test", Fingerprint: "fp-other"}, Now: b.Clock.Now})
		lists.Hooks.List = func(string) (bool, error) { return false, answer("list jobs", batch.Denied, 401, "") }
		silent := fake.New(fake.Options{Settlement: batch.SettleByRepeat})
		b.r.Accounts = []batch.Provider{silent, lists, b.fake}
		b.ready(1)
		b.submit()
		b.wantTally("sweep", b.sweep(), reconcile.Tally{Seen: 2, Failed: 1})
		if silent.Calls(fake.OpListJobs) != 0 {
			t.Error("an account that lists nothing was asked for a list")
		}
	})
}

// A job of this ledger that the ledger does not know: the ledger was put back.
// Nothing is cancelled, and nothing is sent.
func TestF47_JobOfOursThatNobodyKnows(t *testing.T) {
	for kind, make := range map[string]func(b *bench){
		"job": func(b *bench) {
			file := b.theirFile("theirs.jsonl")
			meta := map[string]string{"rc_ledger": b.ledgerID(), "rc_job": "j", "rc_submission": "s", "rc_manifest": "m"}
			if _, err := b.fake.Create(b.t.Context(), batch.Creation{FileID: file, Metadata: meta}); err != nil {
				b.t.Fatal(err)
			}
		},
		"file": func(b *bench) { b.theirFile(fmt.Sprintf("rollcall_%s_job_submission.jsonl", b.ledgerID())) },
	} {
		t.Run(kind, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				make(b)
				b.ready(1)
				b.wantTally("sweep", b.sweep(), reconcile.Tally{Seen: 1, Failed: 1})
				b.wantFindings("ledger_rewound")
				b.want("pauses", "SELECT scope || ' ' || stage || ' ' || set_by FROM pauses WHERE lifted_us IS NULL ORDER BY stage", "all apply rollcall", "all dispatch rollcall")
				b.submit()
				if n := b.fake.Calls(fake.OpCancel) + b.fake.Calls(fake.OpDelete); n != 0 || b.fake.Uploaded(reportText("r1", 1)) != 0 {
					t.Errorf("%d calls that change something", n)
				}
				if err := b.Resume(t.Context(), b.Clock.Now(), reconcile.ScopeAll, reconcile.PauseDispatch, "anna", "looked at"); err != nil {
					t.Fatal(err)
				}
				b.wantFindings()
			})
		})
	}
}

func TestSweepReadsBackToItsWindow(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for range 8 {
			b.foreignJobAt()
		}
		b.r.Settings.SweepWindow = 72 * time.Hour
		b.sweep()
		// Pages of one: three within the window, one of the day by which clocks may
		// differ, and two that are older.
		if n := b.fake.Calls(fake.OpListJobs); n != 6 {
			t.Errorf("%d pages were read", n)
		}
	})
}

// foreignJobAt makes somebody else's job and lets a day pass.
func (b *bench) foreignJobAt() {
	b.t.Helper()
	if _, err := b.fake.Create(b.t.Context(), batch.Creation{FileID: b.theirFile("theirs.jsonl")}); err != nil {
		b.t.Fatal(err)
	}
	b.Clock.Advance(24 * time.Hour)
}
