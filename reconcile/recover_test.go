package reconcile_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/reconcile/witness"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// witnessed gives the bench a witness in a file.
func (b *bench) witnessed(path string) *witness.File {
	w := witness.New(path, b.Store, b.Clock.Now)
	b.r.Witness = w
	return w
}

// restored puts a copy of the ledger into its place: the same keys, clock,
// processor and witness file, and an older database.
func (b *bench) restored(t *testing.T, copied string) *bench {
	t.Helper()
	l := sqltest.Reopen(t, b.Ledger, copied, sql.Options{})
	n := &bench{Ledger: l, t: t, fake: b.fake, policy: b.policy, log: b.log, db: openRows(t, copied), accepted: b.accepted}
	n.processes.Store(b.processes.Load() + 10)
	n.r = n.reconciler(l)
	return n
}

// goOn ends a recovery as a person does: the witness remembers the ledger as it
// is, and what was paused goes on.
func (b *bench) goOn() {
	b.t.Helper()
	if err := b.r.RenewWitness(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	for _, stage := range []reconcile.PausedStage{reconcile.PauseApply, reconcile.PauseDispatch} {
		if err := b.Resume(b.t.Context(), b.Clock.Now(), reconcile.ScopeAll, stage, "anna", "recovered"); err != nil {
			b.t.Fatal(err)
		}
	}
}

// goOnUntilIdle ends a recovery, and runs what is left to do.
func (b *bench) goOnUntilIdle() {
	b.t.Helper()
	b.goOn()
	if _, err := b.untilIdle(nil); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) recover(o reconcile.RecoverOptions) reconcile.Recovery {
	b.t.Helper()
	o.Actor, o.Reason = "anna", "a restore"
	out, err := b.r.Recover(b.t.Context(), b.Clock.Now(), o)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// F47: a copy from before the jobs, from between them, and from before an
// intent's outcome. In each nothing is sent again.
func TestF47_OlderCopyIsNoticedAndRecovered(t *testing.T) {
	for name, backup := range map[string]struct {
		at      string // when the copy is made
		ended   bool   // the jobs have ended when it is recovered
		adopted int
	}{
		"before the jobs are planned":                       {"accepted", false, 3},
		"when one job is planned":                           {"collected", false, 3},
		"when they have ended since":                        {"accepted", true, 3},
		"between two jobs":                                  {"one sent", false, 2},
		"with an intent open":                               {"intent", false, 2},
		"with an intent, of which the copy shows no upload": {"before upload", false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				path := filepath.Join(t.TempDir(), "witness")
				b.witnessed(path)
				b.priced("EUR")
				b.r.Settings.JobItems = 3
				b.reports(8)
				var address string
				copyAt := func(at string) {
					if backup.at == at {
						address = sqltest.Copy(t, b.Address)
					}
				}
				copyAt("accepted")
				b.collect()
				copyAt("collected")
				sent := 0
				b.fake.Hooks.Create = func(batch.Creation) (bool, error) {
					if sent++; sent == 1 {
						copyAt("intent")
					}
					return true, nil
				}
				b.fake.Hooks.Upload = func(string) (bool, error) {
					if sent == 0 {
						copyAt("before upload")
					}
					return true, nil
				}
				b.r.Settings.JobsPerRun = 1
				b.submit()
				copyAt("one sent")
				b.r.Settings.JobsPerRun = 100
				b.submit()
				if sent != 3 {
					t.Fatalf("%d jobs were sent", sent)
				}
				b.fake.Hooks.Create, b.fake.Hooks.Upload = nil, nil

				if backup.ended {
					b.fake.EndAll()
				}
				n := b.restored(t, address)
				n.witnessed(path)
				n.priced("EUR")
				if _, err := n.r.Submit(t.Context(), n.Clock.Now()); err == nil || !strings.Contains(err.Error(), "older than its witness") {
					t.Fatalf("submit of a restored ledger: %v", err)
				}
				n.wantFindings("ledger_rewound")
				n.collect()
				n.submit2(t)
				out := n.recover(reconcile.RecoverOptions{})
				adopted := 0
				for _, j := range out.Jobs {
					if j.Became == reconcile.RecoveredAdopted {
						adopted++
					}
				}
				if adopted != backup.adopted || !out.Complete || out.Generation != 2 {
					t.Errorf("recovery %+v", out)
				}
				n.goOnUntilIdle()
				n.want("records", "SELECT COUNT(*) || '' FROM review_records WHERE authoritative = 1 AND kind = 'classified'", "8")
				n.wantFindings()
				n.want("costs, each answer once", "SELECT CAST(SUM(cost_micros) AS TEXT) || ' ' || currency FROM submissions WHERE outcome = 'accepted' GROUP BY currency", "960 EUR")
				for i := range 8 {
					if c := n.fake.Uploaded(reportText("r"+string(rune('1'+i)), 1)); c != 1 {
						t.Errorf("text %d was sent %d times", i+1, c)
					}
				}
				if n.jobsWithItems() != 3 {
					t.Errorf("%d jobs", n.jobsWithItems())
				}
				report, err := n.r.RunCheck(t.Context())
				if err != nil || report.Broken() != 0 || report.Roll.Authoritative != 8 {
					t.Errorf("roll %+v, broken %d, %v", report.Roll, report.Broken(), err)
				}
			})
		})
	}
}

// F47: a request for a job that is still on its way when the copy is made whole
// finds no file when it arrives.
func TestF47_RequestOnItsWayMakesNoJobBehindARecovery(t *testing.T) {
	for _, backup := range []string{"accepted", "intent"} {
		t.Run(backup, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				path := filepath.Join(t.TempDir(), "witness")
				b.witnessed(path)
				b.reports(3)
				address := ""
				if backup == "accepted" {
					address = sqltest.Copy(t, b.Address)
				}
				b.collect()
				b.fake.Hooks.Upload = func(string) (bool, error) {
					if address == "" {
						address = sqltest.Copy(t, b.Address)
					}
					return true, nil
				}
				var onItsWay batch.Creation
				b.fake.Hooks.Create = func(c batch.Creation) (bool, error) {
					onItsWay = c
					return false, &batch.Error{Op: "create", Kind: batch.UnknownOutcome}
				}
				b.submit()
				b.fake.Hooks.Upload, b.fake.Hooks.Create = nil, nil

				n := b.restored(t, address)
				n.witnessed(path)
				if backup == "intent" {
					if out := n.recover(reconcile.RecoverOptions{}); out.Complete || len(out.Doubts) != 1 || !strings.Contains(out.Doubts[0], "may be sent until") {
						t.Fatalf("recovery before the send deadline %+v", out)
					}
					n.Clock.Advance(n.r.Settings.SendWithin + n.r.Settings.UnsentMargin + time.Second)
				}
				if out := n.recover(reconcile.RecoverOptions{}); !out.Complete || len(out.Jobs) != 0 {
					t.Fatalf("recovery %+v", out)
				}
				if _, err := n.fake.Create(t.Context(), onItsWay); err != nil {
					t.Fatal(err)
				}
				if n.jobsWithItems() != 0 {
					t.Error("a request that was sent before the recovery made a job of texts")
				}
				n.goOnUntilIdle()
				n.want("records", "SELECT COUNT(*) || '' FROM review_records WHERE authoritative = 1 AND kind = 'classified'", "3")
				n.want("the file that was deleted", "SELECT kind || ' ' || object_id FROM surplus_objects WHERE gone_us IS NOT NULL AND kind = 'file'", "file "+onItsWay.FileID)
				if n.jobsWithItems() != 1 {
					t.Errorf("%d jobs", n.jobsWithItems())
				}
			})
		})
	}
}

// submit2 tries to send from a ledger that is known to be rewound.
func (b *bench) submit2(t *testing.T) {
	t.Helper()
	before := b.fake.Calls(fake.OpUpload)
	if _, err := b.r.Submit(t.Context(), b.Clock.Now()); err == nil {
		t.Error("a rewound ledger submits without a word")
	}
	if b.fake.Calls(fake.OpUpload) != before {
		t.Error("a rewound ledger sends")
	}
}

// F47: a copy that still holds a report for want of a policy knows its job once the
// policy is approved again.
func TestF47_ReportHeldInTheCopyIsBoundBeforeItsJobIsAdopted(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		d := b.delivery("h", 1, reportText("h", 1))
		d.Policy, d.WorkID = nil, nil
		b.accept(d)
		address := sqltest.Copy(t, b.Address)
		b.collect() // gives it its work
		b.submit()

		n := b.restored(t, address)
		out := n.recover(reconcile.RecoverOptions{})
		if !out.Complete || len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredAdopted {
			t.Errorf("recovery %+v", out)
		}
		n.want("held", "SELECT report_id FROM holds")
		n.want("members", "SELECT CAST(COUNT(*) AS TEXT) FROM items WHERE outcome IS NULL", "1")
	})
}

// F47: who does not wait for an older job has its works belong to the newer one,
// whose answers are taken: they are not sent a third time, whatever becomes of the
// older job.
func TestF47_OlderJobThatDoesNotEndIsNotWaitedForWhenToldSo(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
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
		b.fake.ForgetJob(b.fake.Jobs()[0].ID)
		n := b.restored(t, address)
		if out := n.recover(reconcile.RecoverOptions{}); out.Complete || out.Jobs[0].Became != reconcile.RecoveredWaiting {
			t.Errorf("while it waits: %+v", out)
		}
		out := n.recover(reconcile.RecoverOptions{WithoutUnreadable: true})
		if !out.Complete || len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredAdopted || out.Jobs[0].Members != 1 {
			t.Errorf("recovery %+v", out)
		}
		n.want("items", "SELECT COALESCE(outcome, 'open') || ' ' || code FROM items ORDER BY code", "open ", "not_run sent_again")
		n.goOnUntilIdle()
		n.want("record", "SELECT kind FROM review_records WHERE authoritative = 1", "classified")
		if b.jobsWithItems() != 2 {
			t.Errorf("%d jobs: what has an answer was sent again", b.jobsWithItems())
		}
	})
}

// F47: an older job that the provider shows is waited for all the same, whether the
// copy knows that it has ended or not: its answers are there, however long it takes to
// read them. They would be bought again otherwise.
func TestF47_OlderJobThatIsShownIsWaitedFor(t *testing.T) {
	for name, polled := range map[string]bool{"the copy knows that it has ended": true, "the copy does not": false} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.reports(1)
				b.collect()
				b.submit()
				b.lateJob()
				b.fake.EndAll()
				if polled {
					b.poll()
				}
				n := b.restored(t, sqltest.Copy(t, b.Address))
				if out := n.recover(reconcile.RecoverOptions{WithoutUnreadable: true}); out.Complete || len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredWaiting {
					t.Errorf("while the older job is not read: %+v", out)
				}
				n.Clock.Advance(time.Hour)
				n.poll()
				n.pass(n.r.Consume)
				if out := n.recover(reconcile.RecoverOptions{WithoutUnreadable: true}); !out.Complete || out.Jobs[0].Became != reconcile.RecoveredSurplus {
					t.Errorf("when it is read: %+v", out)
				}
			})
		})
	}
}

// F47: a surplus job of a recovery may run for long. Its request file is in use until
// then, and no sign that the ledger was put back once more; nor is an old file that
// no job uses, which the recovery deletes.
func TestF47_FilesThatTheLedgerLacksPauseNothingTwice(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(1)
		old := b.theirFile("rollcall_" + b.ledgerID() + "_oldjob_old.jsonl")
		b.Clock.Advance(b.r.Settings.SweepWindow + 48*time.Hour)
		b.collect()
		b.submit()
		b.lateJob()
		first, late := b.fake.Jobs()[0], b.fake.Jobs()[1]
		b.fake.End(first.ID)
		b.poll()
		b.pass(b.r.Consume)
		if out := b.recover(reconcile.RecoverOptions{}); !out.Complete || len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredSurplus {
			t.Fatalf("recovery %+v", out)
		}
		if b.present(old) {
			t.Error("an old file that no job uses is kept")
		}
		b.goOn()
		b.sweep() // cancels it
		if !b.present(late.FileID) {
			t.Error("the file of a running job is deleted")
		}
		b.sweep()
		b.want("pauses", "SELECT scope || ' ' || stage FROM pauses WHERE lifted_us IS NULL")
		if b.present(late.FileID) {
			t.Error("the file of a surplus job stays")
		}
	})
}

// lateJob makes a second job of the only report, as a request from before a restore
// does that arrives long after it.
func (b *bench) lateJob() {
	b.t.Helper()
	b.Clock.Advance(time.Minute)
	body, err := b.fake.AppendRequest(nil, &batch.Classifier{}, reconcile.CustomID(b.rows("SELECT work_id FROM works")[0], "late"), batch.NewText("once more"))
	if err != nil {
		b.t.Fatal(err)
	}
	file, err := b.fake.Upload(b.t.Context(), batch.Input{Name: "rollcall_" + b.ledgerID() + "_latejob_late.jsonl", Size: int64(len(body)), Write: func(w io.Writer) error { _, err := w.Write(body); return err }})
	if err != nil {
		b.t.Fatal(err)
	}
	late := batch.Creation{FileID: file, Metadata: maps.Clone(b.fake.Jobs()[0].Metadata)}
	late.Metadata["rc_submission"], late.Metadata["rc_job"] = "late", "latejob"
	if _, err := b.fake.Create(b.t.Context(), late); err != nil {
		b.t.Fatal(err)
	}
}

// sentSinceTheCopy sends n reports in a job that the copy of the ledger at address
// knows nothing of.
func (b *bench) sentSinceTheCopy(n int) (address string) {
	b.t.Helper()
	b.reports(n)
	address = sqltest.Copy(b.t, b.Address)
	b.collect()
	b.submit()
	return address
}

// F47: of a job whose requests are deleted the results tell. A line that is damaged
// is nobody's: no source can deliver it, and nothing waits for it.
func TestF47_DamagedLinesOfResultsAreNotWaitedFor(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		address := b.sentSinceTheCopy(3)
		b.fake.EndAs(b.fake.Jobs()[0].ID, "completed", func(it fake.Item) []fake.Line {
			if it.Line == 2 {
				return []fake.Line{{Channel: batch.ChannelOutput, Raw: []byte(`{"custom_id":` + it.CustomID)}}
			}
			return []fake.Line{fake.Answered(it.CustomID, []byte(`{"label":"ok","evidence":[]}`))}
		})
		b.fake.ForgetFile(b.fake.Jobs()[0].FileID)
		n := b.restored(t, address)
		out := n.recover(reconcile.RecoverOptions{})
		if !out.Complete || len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredAdopted || out.Jobs[0].Members != 2 || out.Jobs[0].Unknown != 0 {
			t.Errorf("recovery %+v", out)
		}
	})
}

// F47: what fills the place of a line that is missing, a stray or a duplicate, does
// not make results whole. An operator may take what is there, each work once.
func TestF47_StraysAndDuplicatesHideNoMissingLine(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		address := b.sentSinceTheCopy(3)
		good := []byte(`{"label":"ok","evidence":[]}`)
		b.fake.EndAs(b.fake.Jobs()[0].ID, "completed", func(it fake.Item) []fake.Line {
			return map[int][]fake.Line{
				1: {fake.Answered(it.CustomID, good), fake.Answered(it.CustomID, good)},
				2: {fake.Answered("somebody-elses", good)},
				3: {fake.Answered(it.CustomID, good)},
			}[it.Line]
		})
		b.fake.ForgetFile(b.fake.Jobs()[0].FileID)
		n := b.restored(t, address)
		if out := n.recover(reconcile.RecoverOptions{}); out.Complete || out.Jobs[0].Became != reconcile.RecoveredUnreadable {
			t.Errorf("recovery %+v", out)
		}
		out := n.recover(reconcile.RecoverOptions{WithoutUnreadable: true})
		if !out.Complete || out.Jobs[0].Became != reconcile.RecoveredAdopted || out.Jobs[0].Members != 2 || out.Jobs[0].Unknown != 0 {
			t.Errorf("told to take what is there: %+v", out)
		}
	})
}

// cutShort is a processor whose files end early, and do not say so.
type cutShort struct {
	*fake.Provider
	by int
}

func (c *cutShort) Download(ctx context.Context, fileID string) (io.ReadCloser, int64, error) {
	body, _, err := c.Provider.Download(ctx, fileID)
	if err != nil {
		return nil, 0, err
	}
	all, err := io.ReadAll(body)
	return io.NopCloser(bytes.NewReader(all[:len(all)-c.by])), -1, err
}

// F47: a file that ends within a line is not read to its end, be it of requests or of
// results. What is behind the cut is not given up for it either.
func TestF47_FilesThatEndWithinALineAreReadAgain(t *testing.T) {
	for name, gone := range map[string]bool{"requests": false, "results": true} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				address := b.sentSinceTheCopy(3)
				b.fake.EndAll()
				if gone {
					b.fake.ForgetFile(b.fake.Jobs()[0].FileID)
				}
				n := b.restored(t, address)
				n.r.Accounts = []batch.Provider{&cutShort{b.fake, 9}}
				if out := n.recover(reconcile.RecoverOptions{}); out.Complete || out.Jobs[0].Became != reconcile.RecoveredUnreadable {
					t.Errorf("cut: %+v", out)
				}
				n.r.Accounts = []batch.Provider{b.fake}
				if out := n.recover(reconcile.RecoverOptions{}); !out.Complete || out.Jobs[0].Members != 3 {
					t.Errorf("whole: %+v", out)
				}
			})
		})
	}
}

// F47: what cannot be read for the moment is not given up for good.
func TestF47_UnreadableForTheMomentIsNotGivenUp(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		address := b.sentSinceTheCopy(1)
		n := b.restored(t, address)
		b.fake.Hooks.Download = func(string) (bool, error) {
			return false, &batch.Error{Op: "download", Kind: batch.Temporary, HTTPStatus: 503}
		}
		if out := n.recover(reconcile.RecoverOptions{WithoutUnreadable: true}); out.Complete || out.Jobs[0].Became != reconcile.RecoveredUnreadable {
			t.Errorf("recovery %+v", out)
		}
		b.fake.Hooks.Download = nil
		if out := n.recover(reconcile.RecoverOptions{WithoutUnreadable: true}); !out.Complete || out.Jobs[0].Became != reconcile.RecoveredAdopted {
			t.Errorf("recovery %+v", out)
		}
	})
}

// F47: results that are cut off at the end of a line look whole. Works behind the
// cut are answered, and are not to be sent again.
func TestF47_CutResultsAreReadAgain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		address := b.sentSinceTheCopy(3)
		b.fake.EndAs(b.fake.Jobs()[0].ID, "completed", func(it fake.Item) []fake.Line {
			if it.Line == 2 {
				return []fake.Line{fake.Failed(it.CustomID, batch.Refused, "")}
			}
			return []fake.Line{fake.Answered(it.CustomID, []byte(`{"label":"ok","evidence":[]}`))}
		})
		b.fake.ForgetFile(b.fake.Jobs()[0].FileID)
		n := b.restored(t, address)
		files := b.fake.Files()
		b.fake.Hooks.Download = func(id string) (bool, error) { return id != files[len(files)-1].ID, nil } // that one looks empty
		out := n.recover(reconcile.RecoverOptions{})
		if out.Complete || len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredUnreadable {
			t.Errorf("a cut file: %+v", out)
		}
		b.fake.Hooks.Download = nil
		out = n.recover(reconcile.RecoverOptions{})
		if !out.Complete || len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredAdopted || out.Jobs[0].Members != 3 {
			t.Errorf("the whole file: %+v", out)
		}
	})
}

// F47: what failed and was sent again belongs to its second job, whether the copy
// has the first one or not. It is not sent a third time.
func TestF47_SecondTryIsNotSentAThirdTime(t *testing.T) {
	for name, copyHasFirst := range map[string]bool{"the copy has neither job": false, "the copy has the first job": true} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				path := filepath.Join(t.TempDir(), "witness")
				b.witnessed(path)
				b.reports(1)
				b.collect()
				address := sqltest.Copy(t, b.Address)
				b.submit()
				if copyHasFirst {
					address = sqltest.Copy(t, b.Address)
				}
				b.fake.EndAs(b.fake.Jobs()[0].ID, "completed", func(it fake.Item) []fake.Line {
					return []fake.Line{fake.Failed(it.CustomID, batch.ItemFailed, "server_error")}
				})
				if _, err := b.untilIdle(nil); err != nil || b.jobsWithItems() != 2 {
					t.Fatalf("%d jobs, %v", b.jobsWithItems(), err)
				}

				n := b.restored(t, address)
				n.witnessed(path)
				if err := n.r.VerifyWitness(t.Context(), n.Clock.Now()); err == nil {
					t.Fatal("nobody notices the copy")
				}
				out := n.recover(reconcile.RecoverOptions{})
				if copyHasFirst {
					if out.Complete || len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredWaiting {
						t.Errorf("while the first job is not read: %+v", out)
					}
					n.Clock.Advance(time.Hour)
					n.poll()
					n.pass(n.r.Consume)
					out = n.recover(reconcile.RecoverOptions{})
				}
				if !out.Complete || out.Jobs[0].Became != reconcile.RecoveredAdopted || out.Jobs[0].ProviderJobID != b.fake.Jobs()[1].ID {
					t.Errorf("recovery %+v", out)
				}
				n.goOnUntilIdle()
				n.want("record", "SELECT kind FROM review_records WHERE authoritative = 1", "classified")
				if n.jobsWithItems() != 2 {
					t.Errorf("%d jobs: what has an answer was sent again", n.jobsWithItems())
				}
			})
		})
	}
}

// F47: the body of a job came with its create, so that no file can be asked for:
// what it was made of is told by its results, once there are any.
func TestF47_JobWithoutAFileIsRecoveredByItsResults(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.fake = fake.New(fake.Options{
			Account: b.fake.Account(), Now: b.Clock.Now, Breach: b.breached, Handover: batch.HandoverInline,
			Answer: func(string, string) []byte { return []byte(`{"label":"ok","evidence":[]}`) },
		})
		b.r = b.reconciler(b.Ledger)
		var asked []string
		b.fake.Hooks.Download = func(fileID string) (bool, error) {
			asked = append(asked, fileID)
			return true, nil
		}
		path := filepath.Join(t.TempDir(), "witness")
		b.witnessed(path)
		b.reports(4)
		address := sqltest.Copy(t, b.Address)
		b.collect()
		b.submit()
		n := b.restored(t, address)
		n.witnessed(path)
		if _, err := n.r.Submit(t.Context(), n.Clock.Now()); err == nil {
			t.Fatal("a restored ledger is sent from")
		}
		if out := n.recover(reconcile.RecoverOptions{}); out.Complete || len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredUnreadable || len(asked) != 0 {
			t.Errorf("while the job runs: %+v, asked for %q", out, asked)
		}
		b.fake.EndAll()
		out := n.recover(reconcile.RecoverOptions{})
		if !out.Complete || len(out.Jobs) != 1 || out.Jobs[0].Became != reconcile.RecoveredAdopted || out.Jobs[0].Members != 4 {
			t.Errorf("recovery %+v", out)
		}
		if len(asked) != 1 || asked[0] == "" {
			t.Errorf("files that were asked for: %q", asked)
		}
	})
}
