package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/reconcile/crashpoint"
)

var errLost = &batch.Error{Op: "create", Kind: batch.UnknownOutcome}

// uncertain sends a job of n reports whose outcome nobody learns. arrives says
// whether the provider has the job all the same.
func (b *bench) uncertain(n int, arrives bool) (works []string) {
	b.t.Helper()
	works = b.ready(n)
	b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return arrives, errLost }
	b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
	b.fake.Hooks.Create = nil
	return works
}

func (b *bench) resolve() reconcile.Tally { b.t.Helper(); return b.pass(b.r.Resolve) }
func (b *bench) sweep() reconcile.Tally   { b.t.Helper(); return b.pass(b.r.Sweep) }

// lookUntilSettled runs resolve at each next look until nothing is open, or at
// most n times. It returns how often.
func (b *bench) lookUntilSettled(n int) (looks int) {
	b.t.Helper()
	for looks = 1; looks <= n; looks++ {
		b.Clock.Advance(b.nextLook())
		b.resolve()
		if len(b.rows("SELECT submission_id FROM submissions WHERE outcome IS NULL")) == 0 {
			return looks
		}
	}
	return n
}

// nextLook is how long it is until an open submission is due to be looked for.
func (b *bench) nextLook() time.Duration {
	b.t.Helper()
	var us int64
	if err := b.db.Get(&us, "SELECT COALESCE(MIN(COALESCE(next_look_us, send_deadline_us)), 0) FROM submissions WHERE outcome IS NULL"); err != nil {
		b.t.Fatal(err)
	}
	return max(0, time.UnixMicro(us).Sub(b.Clock.Now()))
}

// sentTo counts the jobs that were made of each text, probes left out.
func (b *bench) jobsWithItems() (n int) {
	for _, j := range b.fake.Jobs() {
		if len(j.CustomIDs) > 0 {
			n++
		}
	}
	return n
}

func (b *bench) obstacle() string {
	b.t.Helper()
	return strings.Join(b.rows("SELECT COALESCE(obstacle, '') FROM submissions WHERE outcome IS NULL"), "|")
}

func TestF16_LostAnswerIsFoundInTheList(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(3, true)
		b.wantTally("before the send deadline", b.resolve(), reconcile.Tally{})
		b.Clock.Advance(b.r.Settings.SendWithin)
		b.wantTally("resolve", b.resolve(), reconcile.Tally{Seen: 1, Moved: 1})
		b.wantJobs("submitted")
		b.wantSubmissions("accepted: job job-000001, found in the account's list of jobs")
		b.wantCreates(1)
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		b.want("records", "SELECT COUNT(*) || '' FROM review_records WHERE authoritative = 1", "3")
		if b.jobsWithItems() != 1 {
			t.Errorf("%d jobs with items", b.jobsWithItems())
		}
	})
}

// F16: a server that keeps no metadata shows the file that a job runs over, and
// a file is used for one job at most.
func TestF16_FoundByItsInputFile(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(1, false)
		file := b.fake.Files()[0].ID
		if _, err := b.fake.Create(t.Context(), batch.Creation{FileID: file}); err != nil {
			t.Fatal(err)
		}
		b.Clock.Advance(b.r.Settings.SendWithin)
		b.wantTally("resolve", b.resolve(), reconcile.Tally{Seen: 1, Moved: 1})
		b.wantJobs("submitted")
	})
}

func TestF16_LostRequestIsProvenAbsentAndSentOnce(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(2, false)
		began := b.Clock.Now()
		first := b.fake.Files()[0].ID
		looks := b.lookUntilSettled(30)
		if waited := b.Clock.Now().Sub(began); waited < b.r.Settings.SendWithin+b.r.Settings.AbsentAfter {
			t.Errorf("absence is proven after %v and %d looks, before a request may have been given up", waited, looks)
		}
		if looks < 4 {
			t.Errorf("%d looks: growing distance is settled, and one behind the fence", looks)
		}
		for _, f := range b.fake.Files() {
			if f.Present {
				t.Errorf("file %s %s is still there", f.ID, f.Name)
			}
		}
		b.want("fence", "SELECT COUNT(*) || '' FROM submissions WHERE fenced_us IS NOT NULL", "1")
		b.submit()
		b.wantJobs("submitted")
		for _, j := range b.fake.Jobs() {
			if len(j.CustomIDs) > 0 && j.FileID == first {
				t.Error("the job runs over the old file")
			}
		}
		if b.jobsWithItems() != 1 {
			t.Errorf("%d jobs with items", b.jobsWithItems())
		}
		if n := b.fake.Uploaded(reportText("r1", 1)); n != 2 {
			t.Errorf("the text was uploaded %d times", n)
		}
	})
}

// A create that was still on its way arrives behind the fence: its job fails
// since its file is gone, and its works go into another one.
func TestF16_LateCreateBehindTheFence(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(1, false)
		file := b.fake.Files()[0].ID
		meta := b.sentMetadata()
		for len(b.rows("SELECT submission_id FROM submissions WHERE fenced_us IS NOT NULL")) == 0 {
			b.Clock.Advance(b.nextLook())
			b.resolve()
		}
		if _, err := b.fake.Create(t.Context(), batch.Creation{FileID: file, Metadata: meta}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		b.want("records", "SELECT COUNT(*) || '' FROM review_records WHERE authoritative = 1", "1")
		if b.jobsWithItems() != 1 {
			t.Errorf("%d jobs with items", b.jobsWithItems())
		}
	})
}

// sentMetadata is what the lost create carried.
func (b *bench) sentMetadata() map[string]string {
	b.t.Helper()
	id, err := b.LedgerIdentity(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	row := b.rows("SELECT job_id || ' ' || submission_id || ' ' || manifest_mac FROM submissions WHERE outcome IS NULL")[0]
	f := strings.Fields(row)
	return map[string]string{"rc_ledger": id.LedgerID, "rc_generation": "1", "rc_job": f[0], "rc_submission": f[1], "rc_manifest": f[2]}
}

// Whatever is wrong with the list, a job that it does not show is not taken for
// absent: nothing is sent, and an operator is told what is in the way.
func TestF16_IncompleteListProvesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(b *bench)
		says    string
	}{
		"it does not show what is new": {
			func(b *bench) { b.hide(func(fake.JobBook) bool { return true }) },
			"does not show what was made since the send deadline",
		},
		"it lacks a job that is known": {
			func(b *bench) {
				b.hide(func(j fake.JobBook) bool { return len(j.CustomIDs) > 0 })
			},
			"it lacks 1 that the provider has accepted",
		},
		"it cannot be read": {
			func(b *bench) {
				b.fake.Hooks.List = func(string) (bool, error) { return false, answer("list jobs", batch.Temporary, 500, "") }
			},
			"could not be read: list jobs: temporary, HTTP 500",
		},
		"its second page cannot be read": {
			func(b *bench) {
				b.fake.Hooks.List = func(after string) (bool, error) {
					if after == "" {
						return true, nil
					}
					return false, answer("list jobs", batch.BadAnswer, 200, "")
				}
			},
			"could not be read: list jobs: bad_answer",
		},
		"no landmark can be made": {
			func(b *bench) {
				b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return false, answer("create", batch.Rejected, 400, "") }
			},
			"does not show what was made since the send deadline",
		},
		"its file cannot be deleted": {
			func(b *bench) {
				b.fake.Hooks.Delete = func(string) (bool, error) { return false, answer("delete file", batch.Temporary, 503, "") }
			},
			"its input file could not be deleted: delete file: temporary, HTTP 503",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.uncertain(1, false)
				if strings.Contains(c.says, "lacks") { // another job, accepted since
					b.Clock.Advance(time.Minute)
					b.reports(1)
					b.collect()
					b.submit()
				}
				if strings.Contains(name, "second page") {
					b.foreignJob(1)
				}
				creates := b.jobsWithItems()
				c.prepare(b)
				b.lookUntilSettled(20)
				if got := b.obstacle(); !strings.Contains(got, c.says) {
					t.Errorf("the obstacle is %q, want %q", got, c.says)
				}
				if b.jobsWithItems() != creates {
					t.Errorf("%d jobs with items, want %d: something was sent", b.jobsWithItems(), creates)
				}
				d, err := b.Decisions(t.Context(), b.Clock.Now())
				if err != nil || len(d.Uncertain) != 1 || d.Uncertain[0].Obstacle == "" {
					t.Errorf("decisions %+v, %v", d, err)
				}
				// Once the list is whole, no operator is needed any more.
				b.fake.Hooks = fake.Hooks{}
				b.hide(nil)
				if n := b.lookUntilSettled(12); n >= 12 {
					t.Errorf("still open after %d looks: %s", n, b.obstacle())
				}
			})
		})
	}
}

// The job of the lost answer exists, and the list never shows it nor anything new.
func TestF16_HiddenJobIsNeverSentAgain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(2, true)
		b.hide(func(fake.JobBook) bool { return true })
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		if b.jobsWithItems() != 1 {
			t.Errorf("%d jobs with items", b.jobsWithItems())
		}
		if b.obstacle() == "" {
			t.Error("nobody is told")
		}
		// It shows up at last: found, although a person might have waited.
		b.hide(nil)
		b.lookUntilSettled(3)
		b.wantJobs("submitted")
	})
}

func TestF15_AccountThatIsNotConfigured(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(1, true)
		b.r.Accounts = nil
		b.Clock.Advance(b.r.Settings.SendWithin)
		b.wantTally("resolve", b.resolve(), reconcile.Tally{Seen: 1})
		if got := b.obstacle(); got != "no configured account is the one that it was sent to" {
			t.Errorf("the obstacle is %q", got)
		}
	})
}

// F17: nothing but the ids in its results tells whose a job is.
func TestF17_ResultsProveWhoseAJobIs(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByResults)
		b.uncertain(2, true)
		// Somebody else's job of the same size, made at the same time.
		b.foreignJob(2)
		b.Clock.Advance(b.r.Settings.SendWithin)
		b.resolve()
		b.wantSubmissions("open")
		b.Clock.Advance(b.nextLook())
		b.fake.EndAll()
		b.wantTally("both have ended", b.resolve(), reconcile.Tally{Seen: 1, Moved: 1})
		b.wantSubmissions("accepted: job job-000001, proven by the ids of its results")
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		b.want("records", "SELECT COUNT(*) || '' FROM review_records WHERE authoritative = 1", "2")
		b.wantCreates(2)
	})
}

// F17: a line that strayed into the results does not make the job somebody else's.
func TestF17_StrayLineDoesNotDecide(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByResults)
		b.uncertain(2, true)
		stray := fake.Answered("foreign-1", []byte(`{"label":"ok","evidence":[]}`))
		b.fake.EndAs(b.fake.Jobs()[0].ID, "completed", func(it fake.Item) []fake.Line {
			lines := []fake.Line{fake.Answered(it.CustomID, []byte(`{"label":"ok","evidence":[]}`))}
			if it.Line == 2 { // results come from the last line on
				lines = append([]fake.Line{stray}, lines...)
			}
			return lines
		})
		b.Clock.Advance(b.r.Settings.SendWithin)
		b.wantTally("resolve", b.resolve(), reconcile.Tally{Seen: 1, Moved: 1})
		b.wantSubmissions("accepted: job job-000001, proven by the ids of its results")
	})
}

// F17: nor does one in a job of a single text, of which half of the lines are
// strays then. Nothing is taken for proven, and above all not that there is no job.
func TestF17_AsManyStrayLinesAsItsOwnDecideNothing(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByResults)
		b.uncertain(1, true)
		b.fake.EndAs(b.fake.Jobs()[0].ID, "completed", func(it fake.Item) []fake.Line {
			return []fake.Line{fake.Answered("foreign-1", []byte(`{"label":"ok","evidence":[]}`)), fake.Answered(it.CustomID, []byte(`{"label":"ok","evidence":[]}`))}
		})
		b.Clock.Advance(b.r.Settings.SendWithin)
		for range 12 {
			b.resolve()
			b.Clock.Advance(b.r.Settings.AbsentAfter)
		}
		b.wantSubmissions("open")
		if got := b.obstacle(); !strings.Contains(got, "job-000001 has results of the submission among as many or more") {
			t.Errorf("the obstacle is %q", got)
		}
		b.wantCreates(1)
		if err := b.absent(); !errors.Is(err, reconcile.ErrRefused) {
			t.Errorf("an operator says that there is no job: %v", err)
		}
		if proof, err := b.found("job-000001"); err != nil || proof != reconcile.ProofNone {
			t.Errorf("an operator says that it is the job: %q, %v", proof, err)
		}
		b.wantCreates(1)
	})
}

// F17: a stray line of the submission in somebody else's job decides nothing, and
// does not hide the job that is proven.
func TestF17_StrayElsewhereDoesNotHideTheJob(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByResults)
		works := b.uncertain(1, true)
		b.foreignJob(1) // newer, so it is looked at first
		own := reconcile.CustomID(works[0], b.rows("SELECT submission_id FROM submissions")[0])
		b.fake.EndAs(b.fake.Jobs()[1].ID, "completed", func(it fake.Item) []fake.Line {
			return []fake.Line{fake.Answered(it.CustomID, []byte(`{"label":"ok","evidence":[]}`)), fake.Answered(own, []byte(`{"label":"ok","evidence":[]}`))}
		})
		b.fake.EndAll()
		b.Clock.Advance(b.r.Settings.SendWithin)
		b.wantTally("resolve", b.resolve(), reconcile.Tally{Seen: 1, Moved: 1})
		b.wantSubmissions("accepted: job job-000001, proven by the ids of its results")
	})
}

// foreignJob makes a job of somebody else in the same account.
func (b *bench) foreignJob(items int) {
	b.t.Helper()
	var body []byte
	for i := range items {
		var err error
		if body, err = b.fake.AppendRequest(body, &batch.Classifier{}, fmt.Sprintf("foreign-%d", i), batch.NewText("somebody else's")); err != nil {
			b.t.Fatal(err)
		}
	}
	in := batch.Input{Name: "theirs.jsonl", Size: int64(len(body)), Write: func(w io.Writer) error { _, err := w.Write(body); return err }}
	c := batch.Creation{Body: &in}
	if b.fake.Capabilities().Handover == batch.HandoverFile {
		file, err := b.fake.Upload(b.t.Context(), in)
		if err != nil {
			b.t.Fatal(err)
		}
		c = batch.Creation{FileID: file}
	}
	if _, err := b.fake.Create(b.t.Context(), c); err != nil {
		b.t.Fatal(err)
	}
}

func TestF17_NoCandidateIsAbsence(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByResults)
		b.uncertain(1, false)
		b.lookUntilSettled(12)
		b.submit()
		b.wantJobs("submitted")
		b.wantCreates(2)
	})
}

// F17: two that are looked for at once could not be told apart, so the second is
// not sent before the first is settled.
func TestF17_OneUnresolvedSubmissionAnAccount(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByResults)
		b.uncertain(1, false)
		b.reports(1)
		b.collect()
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		b.wantCreates(1)
		b.lookUntilSettled(12)
		b.Clock.Advance(b.r.Settings.SubmitRetry)
		b.wantTally("both", b.submit(), reconcile.Tally{Seen: 2, Moved: 2})
	})
}

// F18: the same request under the same key is the same job.
func TestF18_RepeatUnderTheSameKey(t *testing.T) {
	for _, arrives := range []bool{false, true} {
		t.Run(fmt.Sprintf("arrived %v", arrives), func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.settleBy(batch.SettleByKey)
				b.uncertain(2, arrives)
				b.Clock.Advance(b.r.Settings.SendWithin)
				b.wantTally("resolve", b.resolve(), reconcile.Tally{Seen: 1, Moved: 1})
				b.wantJobs("submitted")
				if b.jobsWithItems() != 1 {
					t.Errorf("%d jobs with items", b.jobsWithItems())
				}
			})
		})
	}
}

// F18: a sender that stood still until its create had been repeated, and then
// finds its own deadline over, must not say that nothing was sent.
func TestF18_SenderThatWakesUpBehindTheRepeat(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByKey)
		b.ready(2)
		resolver := b.reconciler(b.Store)
		b.r.Step = func(point string) {
			if point != crashpoint.SubmitFileNoted {
				return
			}
			b.Clock.Advance(b.r.Settings.SendWithin)
			b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return true, errLost }
			if _, err := resolver.Run(t.Context(), reconcile.PassResolve); err != nil {
				t.Error(err)
			}
			b.fake.Hooks.Create = nil
		}
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		b.want("open", "SELECT submission_id FROM submissions WHERE outcome IS NULL", b.rows("SELECT submission_id FROM submissions")...)
		if b.lookUntilSettled(5) > 5 || b.jobsWithItems() != 1 {
			t.Errorf("%d jobs with items", b.jobsWithItems())
		}
		b.wantJobs("submitted")
	})
}

// F18: behind the key's window a repeat would make a second job.
func TestF18_KeyThatHasExpiredIsForAnOperator(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByKey)
		b.uncertain(1, true)
		b.Clock.Advance(20*time.Hour + time.Second)
		b.wantTally("resolve", b.resolve(), reconcile.Tally{Seen: 1})
		if got := b.obstacle(); !strings.Contains(got, "the time is over") {
			t.Errorf("the obstacle is %q", got)
		}
		b.wantCreates(1)
	})
}

// F18: a pause that returns while a repeat is about to be committed holds it back.
func TestF18_PauseBeforeARepeatIsCommitted(t *testing.T) {
	onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
		b.settleBy(batch.SettleByKey)
		b.uncertain(1, true)
		b.Clock.Advance(b.r.Settings.SendWithin)
		c.begin = func(name string) {
			if name != "commit repeat" {
				return
			}
			c.begin = nil
			if _, err := b.Pause(t.Context(), b.Clock.Now(), reconcile.Pause{Scope: "account:" + b.accountName(), Stage: reconcile.PauseDispatch, Actor: "anna", Reason: "a test"}); err != nil {
				t.Error(err)
			}
		}
		b.wantTally("resolve", b.resolve(), reconcile.Tally{Seen: 1})
		b.wantCreates(1)
	})
}

// F18: a repeat whose commit may have failed is not sent; the next one is.
func TestF18_RepeatOfUnknownCommitIsNotSent(t *testing.T) {
	onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
		b.settleBy(batch.SettleByKey)
		b.uncertain(1, true)
		b.Clock.Advance(b.r.Settings.SendWithin)
		for _, at := range []loss{before, after} {
			c.lose["commit repeat"] = at
			b.wantTally("resolve", b.resolve(), reconcile.Tally{Seen: 1})
			b.wantCreates(1)
			b.Clock.Advance(time.Hour)
		}
		b.wantTally("resolve", b.resolve(), reconcile.Tally{Seen: 1, Moved: 1})
		b.wantJobs("submitted")
	})
}

// anotherJob answers a repeat with a job of which something is wrong.
type anotherJob struct{ *fake.Provider }

func (anotherJob) Create(context.Context, batch.Creation) (batch.Job, error) {
	return batch.Job{ID: "job-999"}, &batch.Error{Op: "create", Kind: batch.UnknownOutcome, Code: "second_job_for_key"}
}

// F18: a repeat that is answered with another job is for an operator, with its id.
func TestF18_AnotherJobForTheSameKeyIsNamed(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByKey)
		b.uncertain(1, true)
		b.Clock.Advance(b.r.Settings.SendWithin)
		b.r.Accounts = []batch.Provider{anotherJob{b.fake}}
		b.wantTally("resolve", b.resolve(), reconcile.Tally{Seen: 1})
		if got := b.obstacle(); !strings.Contains(got, "job-999") || !strings.Contains(got, "second_job_for_key") {
			t.Errorf("the obstacle is %q", got)
		}
	})
}

// F18: what may not be sent any more is not repeated either.
func TestF18_NoRepeatWhilePaused(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByKey)
		b.uncertain(1, false)
		if _, err := b.Pause(t.Context(), b.Clock.Now(), reconcile.Pause{Scope: "policy:p", Stage: reconcile.PauseDispatch, Actor: "anna", Reason: "a test"}); err != nil {
			t.Fatal(err)
		}
		b.Clock.Advance(b.r.Settings.SendWithin)
		b.wantTally("resolve", b.resolve(), reconcile.Tally{Seen: 1})
		b.wantCreates(1)
	})
}

// F19: a processor that keeps no job is asked again.
func TestF19_SynchronousIsRepeated(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByRepeat)
		b.uncertain(1, true)
		b.Clock.Advance(b.r.Settings.SendWithin)
		b.wantTally("resolve", b.resolve(), reconcile.Tally{Seen: 1, Moved: 1})
		b.wantSubmissions("abandoned: the processor keeps no job, so a repeat does no harm")
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		b.want("records", "SELECT COUNT(*) || '' FROM review_records WHERE authoritative = 1", "1")
	})
}

// F21: of a sender and a resolver one closes the submission.
func TestF21_SenderThatWakesBehindItsResolution(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(1)
		late := b.reconciler(b.Store)
		b.fake.Hooks.Create = func(c batch.Creation) (bool, error) {
			if c.Metadata["rc_probe"] != "" {
				return true, nil
			}
			// The sender stands still here, with its request on the way.
			b.fake.Hooks.Create = nil
			sender := b.r
			b.r = late
			b.Clock.Advance(b.r.Settings.SendWithin)
			b.lookUntilSettled(30)
			b.submit()
			b.r = sender
			return true, nil
		}
		b.submit()
		if got := b.rows("SELECT outcome FROM submissions ORDER BY attempt"); fmt.Sprint(got) != "[proven_absent accepted]" {
			t.Fatalf("submissions %v", got)
		}
		// The stale sender's job failed at the fence, or is surplus: sweep ends it.
		b.sweep()
		b.fake.EndAll()
		b.sweep()
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		b.want("records", "SELECT COUNT(*) || '' FROM review_records WHERE authoritative = 1", "1")
		b.want("surplus", "SELECT kind || ' ' || why || ' ' || CASE WHEN gone_us IS NULL THEN 'there' ELSE 'gone' END FROM surplus_objects",
			"job its submission was closed as proven_absent gone")
		b.wantFindings("surplus_job")
	})
}

func TestResolveStopsWhenTold(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(1, true)
		b.Clock.Advance(b.r.Settings.SendWithin)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.r.Resolve(ctx, b.Clock.Now()); err == nil || errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("%v", err)
		}
		b.wantSubmissions("open")
	})
}

// F18: a repeat carries the bytes that went out first, or none at all.
func TestF18_RepeatOfAnotherBodyIsNotSent(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByKey)
		b.uncertain(1, true)
		b.change("UPDATE submissions SET body_mac = 'of another body'")
		b.Clock.Advance(b.r.Settings.SendWithin)
		b.wantTally("resolve", b.resolve(), reconcile.Tally{Seen: 1})
		if got := b.obstacle(); !strings.Contains(got, "could not be made again") {
			t.Errorf("the obstacle is %q", got)
		}
		b.wantJobs("ready")
		if n := b.jobsWithItems(); n != 1 {
			t.Errorf("%d jobs with items", n)
		}
	})
}

// F16: a body that could not be made to its end has made no job, and nothing of
// the outcome is unknown.
func TestF16_InlineBodyThatCannotBeMadeIsRefused(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByKey)
		b.reports(3)
		b.collect()
		b.fake.Hooks.Create = func(batch.Creation) (bool, error) { // behind the rendering that counts
			b.damage("r2")
			return true, nil
		}
		b.submit()
		b.want("outcomes", "SELECT outcome FROM submissions", "rejected")
		if n := len(b.fake.Jobs()); n != 0 {
			t.Errorf("%d jobs", n)
		}
	})
}
