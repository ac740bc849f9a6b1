package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
)

// ready plans one job of n reports and returns their works.
func (b *bench) ready(n int) (works []string) {
	b.t.Helper()
	works = b.reports(n)
	b.collect()
	b.wantJobs("ready")
	return works
}

// wantSubmissions compares outcome and evidence of all submissions, by attempt.
func (b *bench) wantSubmissions(want ...string) {
	b.t.Helper()
	b.want("submissions", "SELECT COALESCE(outcome || ': ' || evidence, 'open') FROM submissions ORDER BY attempt", want...)
}

// wantCreates compares how often the processor was asked for a job.
func (b *bench) wantCreates(n int) {
	b.t.Helper()
	if got := b.fake.Calls(fake.OpCreate); got != n {
		b.t.Errorf("the processor was asked for a job %d times, want %d", got, n)
	}
}

// inputs are the names of input files that are still at the processor.
func (b *bench) inputs() (names []string) {
	for _, f := range b.fake.Files() {
		if f.Channel == "" && f.Present {
			names = append(names, f.Name)
		}
	}
	return names
}

func answer(op string, k batch.Kind, status int, code string) *batch.Error {
	return &batch.Error{Op: op, Kind: k, HTTPStatus: status, Code: code}
}

func TestSubmitSendsEachTextOnce(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		works := b.ready(7) // over three pages
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
		b.wantJobs("submitted")
		b.wantSubmissions("accepted: job job-000001")
		b.wantCreates(1)
		jobs := b.fake.Jobs()
		if len(jobs) != 1 || len(jobs[0].CustomIDs) != len(works) {
			t.Fatalf("jobs at the processor: %+v", jobs)
		}
		job, sub := b.rows("SELECT job_id FROM jobs")[0], b.rows("SELECT submission_id FROM submissions")[0]
		for i, w := range works {
			if want := w + "-" + sub; jobs[0].CustomIDs[i] != want || len(want) > 64 {
				t.Errorf("line %d has custom id %s, want %s", i+1, jobs[0].CustomIDs[i], want)
			}
			if n := b.fake.Uploaded(reportText(fmt.Sprint("r", i+1), 1)); n != 1 {
				t.Errorf("text %d was sent %d times", i+1, n)
			}
		}
		manifest := b.Keys.NewMAC(keyring.Manifest)
		fmt.Fprintf(manifest, "%s\n", b.policy.SpecMAC)
		for _, w := range works {
			fmt.Fprintf(manifest, "%s\n1\n", w)
		}
		ledger, err := b.LedgerIdentity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"rc_ledger": ledger.LedgerID, "rc_generation": "1", "rc_job": job, "rc_submission": sub, "rc_manifest": fmt.Sprintf("%x", manifest.Sum(nil))}
		if got := jobs[0].Metadata; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("metadata %v, want %v", got, want)
		}
		if got := b.inputs(); !slices.Equal(got, []string{fmt.Sprintf("rollcall_%s_%s_%s.jsonl", ledger.LedgerID, job, sub)}) {
			t.Errorf("files %v", got)
		}
		b.want("what was noted", `SELECT s.input_file_id || ' ' || s.manifest_mac || ' ' || CAST(s.line_count AS TEXT) || ' ' || s.account || ' ' || j.account
			FROM submissions s JOIN jobs j ON j.job_id = s.job_id WHERE s.body_bytes > 0 AND LENGTH(s.body_mac) = 64`,
			fmt.Sprintf("%s %s %d fp-main fp-main", jobs[0].FileID, want["rc_manifest"], len(works)))
		b.wantTally("again", b.submit(), reconcile.Tally{})
		b.wantCreates(1)
	})
}

func TestF12_EditAndWithdrawalBetweenCollectAndIntent(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		works := b.ready(4)
		edited := b.edit(2, 2)
		b.change("UPDATE works SET disposition = 'withdrawn' WHERE work_id = $1", works[2])
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
		b.want("items", "SELECT work_id || ' ' || COALESCE(outcome, 'line ' || CAST(line AS TEXT)) FROM items ORDER BY position",
			works[0]+" line 1", works[1]+" not_sent", works[2]+" not_sent", works[3]+" line 2")
		if b.fake.Uploaded(reportText("r2", 1)) != 0 || b.fake.Uploaded(reportText("r2", 2)) != 0 {
			t.Error("an edited text was sent")
		}
		b.want("works not sent", "SELECT work_id || ' ' || disposition || ' ' || stage FROM works WHERE disposition <> 'live' ORDER BY disposition",
			works[1]+" superseded pending", works[2]+" withdrawn pending")
		b.wantTally("collect", b.collect(), reconcile.Tally{Seen: 1, Moved: 1}) // the new revision alone
		b.want("the next job", "SELECT i.work_id FROM items i JOIN jobs j ON j.job_id = i.job_id WHERE j.state = 'ready'", edited)
	})
}

func TestF12_JobThatNobodyWantsIsAbandoned(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(2)
		b.edit(1, 2)
		b.edit(2, 2)
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
		if b.wantJobs("abandoned"); strings.Contains(b.log.String(), `"level":"warn"`) {
			t.Errorf("an ordinary end is warned of: %s", b.log)
		}
		b.wantSubmissions()
		b.want("stages", "SELECT DISTINCT stage FROM works", "pending")
		if lines, _ := b.fake.TextsSeen(); lines > 0 {
			t.Errorf("%d texts were sent", lines)
		}
		b.wantTally("again", b.submit(), reconcile.Tally{})
	})
}

func TestF13_IntentIsNotCommitted(t *testing.T) {
	onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
		b.ready(2)
		c.lose["commit intent"] = before
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		if lines, _ := b.fake.TextsSeen(); lines > 0 {
			t.Errorf("%d texts were sent without an intent", lines)
		}
		b.wantSubmissions()
		b.wantTally("again", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
		b.wantCreates(1)
	})
}

// broken is a ledger some of whose methods lose their answers.
type broken struct {
	reconcile.Store
	intent   func(reconcile.Submission, error) (reconcile.Submission, error)
	upload   func(error) error
	accepted func(error) error
	rejected func(error) error
}

func (s *broken) CommitIntent(ctx context.Context, now time.Time, in reconcile.Intent) (reconcile.Submission, error) {
	sub, err := s.Store.CommitIntent(ctx, now, in)
	if s.intent != nil {
		return s.intent(sub, err)
	}
	return sub, err
}

func (s *broken) RecordUpload(ctx context.Context, up reconcile.Upload) error {
	err := s.Store.RecordUpload(ctx, up)
	if s.upload != nil {
		return s.upload(err)
	}
	return err
}

func (s *broken) RecordAccepted(ctx context.Context, now time.Time, a reconcile.Acceptance) error {
	if s.accepted != nil {
		return s.accepted(nil)
	}
	return s.Store.RecordAccepted(ctx, now, a)
}

func (s *broken) RecordRejected(ctx context.Context, now time.Time, r reconcile.Rejection) error {
	if s.rejected != nil {
		return s.rejected(nil)
	}
	return s.Store.RecordRejected(ctx, now, r)
}

// wantOpen makes sure that jobs with an open submission are left alone, however
// much time passes.
func (b *bench) wantOpen(jobs, creates int) {
	b.t.Helper()
	b.wantSubmissions(slices.Repeat([]string{"open"}, jobs)...)
	b.wantJobs(slices.Repeat([]string{"ready"}, jobs)...)
	for range 3 {
		b.Clock.Advance(48 * time.Hour)
		b.wantTally("collect", b.collect(), reconcile.Tally{})
		b.wantTally("submit", b.submit(), reconcile.Tally{})
		b.wantTally("poll", b.poll(), reconcile.Tally{})
	}
	b.wantCreates(creates)
}

func TestF14_AnswerOfTheIntentsCommitIsLost(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(2)
		b.r.Store = &broken{Store: b.Store, intent: func(reconcile.Submission, error) (reconcile.Submission, error) {
			return reconcile.Submission{}, reconcile.ErrUnknownCommit
		}}
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		if b.fake.Calls(fake.OpUpload) > 0 {
			t.Error("something was sent without a committed intent")
		}
		b.r.Store = b.Store
		b.wantSentOnceUnsentIsClosed()
	})
}

// wantSentOnceUnsentIsClosed makes sure that a job whose sender died before it
// noted an upload is left alone until that is certain, and then sent.
func (b *bench) wantSentOnceUnsentIsClosed() {
	b.t.Helper()
	b.wantSubmissions("open")
	b.Clock.Advance(b.r.Settings.SendWithin + b.r.Settings.UnsentMargin - time.Second)
	b.wantTally("too early", b.submit(), reconcile.Tally{})
	b.wantCreates(0)
	if o, err := b.Store.Overview(b.t.Context(), b.Clock.Now()); err != nil || len(o.Uncertain) > 0 {
		b.t.Errorf("uncertain: %+v, %v", o.Uncertain, err)
	}
	b.Clock.Advance(time.Second)
	b.wantTally("when due", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
	b.wantSubmissions("proven_absent: no body was noted before the send deadline, so no job was asked for", "accepted: job job-000001")
	b.wantJobs("submitted")
	b.wantCreates(1)
}

// F15: no request, a lost request and a lost answer look the same from here.
func TestF15_OutcomeOfTheCreateIsUnknown(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		faults := []error{
			answer("create", batch.UnknownOutcome, 0, ""), answer("create", batch.BadAnswer, 200, ""), errors.New("an adapter's own error, with " + textMarker),
		}
		jobs := 0
		for _, apply := range []bool{false, true} {
			for _, fault := range faults {
				b.reports(2)
				b.collect()
				b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return apply, fault }
				b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
				jobs++
			}
		}
		if log := b.log.String(); strings.Contains(log, "job was not sent") || strings.Count(log, "nobody knows whether the job was sent") != jobs {
			t.Errorf("the log must say that nobody knows: %s", log)
		}
		b.fake.Hooks.Create = nil
		b.wantOpen(jobs, jobs)
		if len(b.fake.Jobs()) != len(faults) || len(b.inputs()) != jobs {
			t.Errorf("%d jobs, %d files: each file may be the input of a job and must stay", len(b.fake.Jobs()), len(b.inputs()))
		}
	})
}

// dies stands for the end of a process at a certain place.
type dies string

// submitUntil runs submit until the process dies.
func (b *bench) submitUntil(place dies) {
	b.t.Helper()
	defer func() {
		if got := recover(); got != place {
			b.t.Fatalf("died %v, not %v", got, place)
		}
	}()
	b.submit()
}

func TestF15_DiesBeforeTheUploadIsNoted(t *testing.T) {
	for name, prepare := range map[string]func(b *bench){
		"after the intent": func(b *bench) {
			b.r.Store = &broken{Store: b.Store, intent: func(reconcile.Submission, error) (reconcile.Submission, error) { panic(dies("here")) }}
		},
		"in the upload": func(b *bench) { b.fake.Hooks.Upload = func(string) (bool, error) { panic(dies("here")) } },
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.ready(2)
				prepare(b)
				b.submitUntil("here")
				b.fake.Hooks = fake.Hooks{}
				b.r.Store = b.Store
				b.wantSentOnceUnsentIsClosed()
			})
		})
	}
}

// Once the upload is noted a create may have been made, so nobody but a person
// can tell.
func TestF15_DiesOnceTheUploadIsNoted(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(2)
		b.r = b.reconciler(&broken{Store: b.Store, upload: func(error) error { panic(dies("noted")) }})
		b.submitUntil("noted")
		b.r = b.reconciler(b.Store)
		b.wantOpen(1, 0)
	})
}

func TestF15_OneIntentAtATime(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(2)
		in := reconcile.Intent{SubmissionID: "aaaaaaaaaa", JobID: b.rows("SELECT job_id FROM jobs")[0], Account: b.fake.Account(),
			SendBy: b.Clock.Now().Add(time.Minute), Manifest: func() hash.Hash { return b.Keys.NewMAC(keyring.Manifest) }}
		if _, err := b.CommitIntent(t.Context(), b.Clock.Now(), in); err != nil {
			t.Fatal(err)
		}
		if _, err := b.CommitIntent(t.Context(), b.Clock.Now(), in); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("a second intent beside an open one: %v", err)
		}
	})
}

// F21: a sender that was stopped for longer than its deadline finds, when it
// wakes up, that its submission was closed and its job sent by somebody else.
func TestF21_StalledSenderRefusesItself(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(1)
		uploads := 0
		b.fake.Hooks.Upload = func(string) (bool, error) {
			if uploads++; uploads > 1 {
				return true, nil
			}
			b.r.Uptime = func() time.Duration { return 0 } // the machine slept
			b.Clock.Advance(b.r.Settings.SendWithin + b.r.Settings.UnsentMargin)
			other := b.reconciler(b.Store)
			other.Rand = b.r.Rand
			tally, err := other.Submit(t.Context(), b.Clock.Now())
			if err != nil {
				t.Error(err)
			}
			b.wantTally("the other process", tally, reconcile.Tally{Seen: 1, Moved: 1})
			return true, nil
		}
		b.wantTally("the sleeper", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		b.wantCreates(1)
		b.wantSubmissions("proven_absent: no body was noted before the send deadline, so no job was asked for", "accepted: job job-000001")
		if got := b.inputs(); len(got) != 1 {
			t.Errorf("the sleeper's file is left: %v", got)
		}
		if log := b.log.String(); strings.Contains(log, "nobody knows") {
			t.Errorf("the sleeper sent nothing, and knows it: %s", log)
		}
	})
}

func TestF20_ProvenRefusalIsTriedAgainLater(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for name, tc := range map[string]struct {
			fault    *batch.Error
			evidence string
			waits    time.Duration
		}{
			"rejected":      {answer("create", batch.Rejected, 400, "invalid_request"), "create: rejected, HTTP 400, code invalid_request", 5 * time.Minute},
			"not found":     {answer("create", batch.NotFound, 404, ""), "create: not_found, HTTP 404", 5 * time.Minute},
			"temporary":     {answer("create", batch.Temporary, 503, ""), "create: temporary, HTTP 503", 5 * time.Minute},
			"rate limited":  {&batch.Error{Op: "create", Kind: batch.RateLimited, HTTPStatus: 429, RetryAfter: 20 * time.Minute}, "create: rate_limited, HTTP 429", 20 * time.Minute},
			"for very long": {&batch.Error{Op: "create", Kind: batch.RateLimited, RetryAfter: 100 * time.Hour}, "create: rate_limited", time.Hour},
		} {
			creates, inputs, works := b.fake.Calls(fake.OpCreate), len(b.inputs()), b.reports(2)
			b.collect()
			b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return false, tc.fault }
			b.wantTally(name, b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
			b.want(name, "SELECT s.outcome || ': ' || s.evidence FROM submissions s JOIN jobs j ON j.job_id = s.job_id WHERE j.state = 'ready'", "rejected: "+tc.evidence)
			if got := b.inputs(); len(got) > inputs {
				t.Errorf("%s: the input of a refused submission is left: %v", name, got)
			}
			b.fake.Hooks.Create = nil
			b.Clock.Advance(tc.waits - time.Second)
			b.wantTally(name+": too early", b.submit(), reconcile.Tally{})
			b.edit(b.accepted-1, 2)
			b.Clock.Advance(time.Second)
			b.wantTally(name+": when due", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
			b.wantCreates(creates + 2)
			b.want(name, "SELECT COALESCE(outcome, 'line ' || CAST(line AS TEXT)) FROM items WHERE work_id IN ('"+strings.Join(works, "', '")+"') ORDER BY position",
				"not_sent", "line 1")
			b.collect() // the edited one, out of the way of the next case
			b.submit()
		}
	})
}

func TestF20_AttemptsGrowApart(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(1)
		b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return false, answer("create", batch.Rejected, 400, "") }
		var waits []time.Duration
		for range 5 {
			b.submit()
			next := b.rows("SELECT CAST(next_submit_us AS TEXT) FROM jobs")[0]
			var us int64
			fmt.Sscan(next, &us)
			waits = append(waits, time.UnixMicro(us).Sub(b.Clock.Now()))
			b.Clock.Advance(waits[len(waits)-1])
		}
		if fmt.Sprint(waits) != "[5m0s 10m0s 20m0s 40m0s 1h0m0s]" {
			t.Errorf("waits %v", waits)
		}
		b.want("attempts", "SELECT CAST(MAX(attempt) AS TEXT) || ' of ' || CAST(COUNT(DISTINCT submission_id) AS TEXT) FROM submissions", "5 of 5")
	})
}

func TestF20_JobThatIsRefusedAgainAndAgainIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		hooks  fake.Hooks
		detail string
	}{
		"upload": {fake.Hooks{Upload: func(string) (bool, error) { return false, answer("upload", batch.Temporary, 0, "") }}, "upload: temporary"},
		"create": {fake.Hooks{Create: func(batch.Creation) (bool, error) { return false, answer("create", batch.Temporary, 503, "") }}, "create: temporary, HTTP 503"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.ready(1)
				b.fake.Hooks = tc.hooks
				for attempt := 1; attempt <= 4; attempt++ {
					b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
					if attempt < 3 {
						b.wantFindings()
					}
					b.Clock.Advance(time.Hour)
				}
				b.want("finding", "SELECT name || ' ' || detail || ' ' || CAST(seen AS TEXT) FROM findings WHERE resolved_us IS NULL",
					"job_not_sent 4 submissions; the last one: "+tc.detail+" 2")
				b.fake.Hooks = fake.Hooks{}
				b.wantTally("accepted", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
				b.want("resolved", "SELECT name || ': ' || resolution FROM findings", "job_not_sent: a later submission was accepted")
			})
		})
	}
}

// mute is a store that commits an acceptance and does not say so.
type mute struct{ reconcile.Store }

func (s *mute) RecordAccepted(ctx context.Context, now time.Time, a reconcile.Acceptance) error {
	return errors.Join(s.Store.RecordAccepted(ctx, now, a), reconcile.ErrUnknownCommit)
}

// The finding is closed with whatever makes an end of it, in one transaction: who
// dies behind that leaves nothing open that no pass would close.
func TestF20_EndOfAJobThatWasNotSentClosesItsFinding(t *testing.T) {
	for name, tc := range map[string]struct {
		end        func(b *bench)
		resolution string
	}{
		"accepted, and then it dies": {func(b *bench) {
			b.r.Store = &mute{b.Store}
			b.submit()
		}, "a later submission was accepted"},
		"found": {func(b *bench) {
			b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return true, errLost }
			b.submit()
			b.lookUntilSettled(3)
		}, "a later submission was accepted"},
		"given up": {func(b *bench) {
			b.edit(1, 2)
			b.submit()
			b.wantJobs("abandoned")
		}, "the job was given up"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.ready(1)
				b.fake.Hooks.Upload = func(string) (bool, error) { return false, answer("upload", batch.Temporary, 0, "") }
				for range 4 {
					b.submit()
					b.Clock.Advance(time.Hour)
				}
				b.wantFindings("job_not_sent")
				b.fake.Hooks.Upload = nil
				tc.end(b)
				b.want("resolved", "SELECT name || ': ' || COALESCE(resolution, 'open') FROM findings", "job_not_sent: "+tc.resolution)
			})
		})
	}
}

// A process that is told to end does not make its job a refused one.
func TestJobThatWasCutOffIsNotCalledRefused(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(1)
		for range 4 {
			ctx, stop := context.WithCancel(t.Context())
			b.fake.Hooks.Upload = func(string) (bool, error) { stop(); return true, nil }
			if _, err := b.r.Submit(ctx, b.Clock.Now()); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		b.wantFindings()
	})
}

func TestF20_RefusedAccountIsPaused(t *testing.T) {
	for _, op := range []string{"upload", "create"} {
		for finding, kind := range map[string]batch.Kind{"account_denied": batch.Denied, "out_of_credit": batch.OutOfCredit} {
			t.Run(op+"/"+finding, func(t *testing.T) {
				onBench(t, func(t *testing.T, b *bench) {
					b.reports(2)
					b.r.Settings.JobItems = 1
					b.collect()
					fault := answer(op, kind, 401, "some_code")
					b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return op != "create", maybe(op == "create", fault) }
					b.fake.Hooks.Upload = func(string) (bool, error) { return op != "upload", maybe(op == "upload", fault) }
					b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 2, Failed: 2})
					b.wantSubmissions("rejected: " + op + ": " + string(kind) + ", HTTP 401, code some_code")
					b.wantFindings(finding)
					b.Clock.Advance(24 * time.Hour)
					b.wantTally("paused", b.submit(), reconcile.Tally{})
					b.fake.Hooks = fake.Hooks{}
					if err := b.Resume(t.Context(), b.Clock.Now(), "account:main", reconcile.PauseDispatch, "anna", "key changed"); err != nil {
						t.Fatal(err)
					}
					b.wantTally("resumed", b.submit(), reconcile.Tally{Seen: 2, Moved: 2})
				})
			})
		}
	}
}

func maybe(yes bool, err error) error {
	if yes {
		return err
	}
	return nil
}

func TestFaultOfAnUploadNeverMakesAJob(t *testing.T) {
	for name, tc := range map[string]struct {
		apply bool // the provider has the file all the same
		fault *batch.Error
	}{
		"refused":     {false, answer("upload", batch.Rejected, 413, "")},
		"answer lost": {true, answer("upload", batch.UnknownOutcome, 0, "")},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.ready(1)
				b.fake.Hooks.Upload = func(string) (bool, error) { return tc.apply, tc.fault }
				b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
				b.wantCreates(0)
				b.fake.Hooks.Upload = nil
				b.Clock.Advance(5 * time.Minute)
				b.wantTally("again", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
				b.wantCreates(1)
			})
		})
	}
}

// unreached is a processor that nobody reaches: its client begins to read the
// body, as a client with a pipe does, and no byte of it is taken.
type unreached struct{ *fake.Provider }

func (unreached) Upload(_ context.Context, in batch.Input) (string, error) {
	r, w := io.Pipe()
	r.CloseWithError(errors.New("connection refused"))
	_ = in.Write(w)
	return "", answer("upload", batch.Temporary, 0, "")
}

func TestSubmissionSaysWhetherTextLeft(t *testing.T) {
	refused := answer("x", batch.Temporary, 503, "")
	for name, tc := range map[string]struct {
		prepare func(b *bench)
		want    string // text_left
	}{
		"nobody is reached":   {func(b *bench) { b.r.Accounts = []batch.Provider{unreached{b.fake}} }, "rejected 0"},
		"refused unread":      {func(b *bench) { b.fake.Hooks.Upload = func(string) (bool, error) { return false, refused } }, "rejected 0"},
		"cannot be decrypted": {func(b *bench) { b.change("UPDATE texts SET key_id = 'text-lost'") }, "rejected 0"},
		"refused once read":   {func(b *bench) { b.fake.Hooks.Upload = func(string) (bool, error) { return true, refused } }, "rejected 1"},
		"create is refused":   {func(b *bench) { b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return false, refused } }, "rejected 1"},
		"accepted":            {func(*bench) {}, "accepted 1"},
		"nobody knows": {func(b *bench) {
			b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return false, answer("create", batch.UnknownOutcome, 0, "") }
		}, "open NULL"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.ready(2)
				tc.prepare(b)
				b.submit()
				b.want("text left", "SELECT COALESCE(outcome, 'open') || ' ' || COALESCE(CAST(text_left AS TEXT), 'NULL') FROM submissions", tc.want)
				h, err := b.Store.ReportHistory(t.Context(), b.Keys.ReportID("acme", "forum", "r1"))
				if err != nil || len(h.Works) != 1 || len(h.Works[0].Sent) != 1 {
					t.Fatalf("%+v, %v", h, err)
				}
				if left := h.Works[0].Sent[0].LeftAt != nil; left == strings.HasSuffix(tc.want, "0") {
					t.Errorf("the history says that text left: %v", left)
				}
			})
		})
	}
}

// F21: who was stopped between upload and create does not send when it wakes up late.
func TestF21_SendDeadlineHasPassed(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(1)
		b.fake.Hooks.Upload = func(string) (bool, error) {
			b.Clock.Advance(b.r.Settings.SendWithin + time.Second)
			b.r.Uptime = func() time.Duration { return 0 } // the machine slept: only the wall clock went on
			return true, nil
		}
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		b.wantCreates(0)
		b.wantSubmissions("rejected: not sent: the send deadline has passed")
		if got := b.inputs(); len(got) > 0 {
			t.Errorf("files %v", got)
		}
	})
}

// The wall clock was set back while the file was uploaded; the monotonic one
// cannot be.
func TestF21_SendDeadlineByTheMonotonicClock(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(1)
		var uptime time.Duration
		b.r.Uptime = func() time.Duration { return uptime }
		b.fake.Hooks.Upload = func(string) (bool, error) {
			uptime += b.r.Settings.SendWithin * 95 / 100 // too little is left for an answer
			return true, nil
		}
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		b.wantCreates(0)
		b.wantJobs("ready")
		b.wantSubmissions("rejected: not sent: the send deadline has passed")
	})
}

func TestF21_SuccessorHasResolvedTheSubmission(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(1)
		b.fake.Hooks.Create = func(batch.Creation) (bool, error) {
			b.change("UPDATE submissions SET outcome = 'proven_absent', evidence = 'two listings', closed_us = 1")
			return true, nil
		}
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		b.wantSubmissions("proven_absent: two listings")
		b.wantJobs("ready")
		if !strings.Contains(b.log.String(), `"provider_job_id":"job-000001"`) {
			t.Error("the surplus job is not in the log")
		}
	})
}

func TestF22_OneSubmissionAsksForAJobOnce(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for i, kind := range []batch.Kind{batch.Temporary, batch.RateLimited, batch.Rejected, batch.Denied, batch.OutOfCredit, batch.NotFound, batch.UnknownOutcome, batch.BadAnswer} {
			b.reports(1)
			b.collect()
			b.fake.Hooks.Create = func(batch.Creation) (bool, error) { return false, answer("create", kind, 0, "") }
			b.submit()
			b.submit()
			b.wantCreates(i + 1)
			if err := b.Resume(t.Context(), b.Clock.Now(), "account:main", reconcile.PauseDispatch, "anna", "next case"); err != nil && !errors.Is(err, reconcile.ErrNotFound) {
				t.Fatal(err)
			}
		}
	})
}

func TestF23_AnswerOfTheAcceptancesCommitIsLost(t *testing.T) {
	for name, how := range map[string]loss{"not committed": before, "committed": after} {
		t.Run(name, func(t *testing.T) {
			onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
				b.ready(1)
				c.lose["record accepted"] = how
				b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
				b.wantSubmissions("accepted: job job-000001")
				b.wantJobs("submitted")
				b.wantCreates(1)
			})
		})
	}
}

func TestF23_AcceptanceCannotBeRecorded(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(1)
		b.r = b.reconciler(&broken{Store: b.Store, accepted: func(error) error { return reconcile.ErrUnknownCommit }})
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		if !strings.Contains(b.log.String(), `"provider_job_id":"job-000001"`) {
			t.Error("the job's id is not in the log")
		}
		b.r = b.reconciler(b.Store)
		b.wantOpen(1, 1)
	})
}

func TestUploadThatCannotBeNotedIsNotUsed(t *testing.T) {
	for name, store := range map[string]*broken{
		"not noted": {upload: func(error) error { return reconcile.ErrUnknownCommit }},
		"nor the refusal": {upload: func(error) error { return reconcile.ErrUnknownCommit },
			rejected: func(error) error { return reconcile.ErrUnknownCommit }},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.ready(1)
				store.Store = b.Store
				b.r = b.reconciler(store)
				b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
				b.wantCreates(0)
				if got := b.inputs(); len(got) > 0 {
					t.Errorf("files %v", got)
				}
				b.r = b.reconciler(b.Store)
				if store.rejected != nil {
					b.wantOpen(1, 0)
					return
				}
				b.wantSubmissions("rejected: not sent: the body could not be noted")
			})
		})
	}
}

func TestF50_TextThatCannotBeDecryptedIsNotSent(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		works := b.ready(2)
		b.change("UPDATE texts SET key_id = 'text-lost' WHERE report_id = $1", b.Keys.ReportID("acme", "forum", "r2"))
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		if b.fake.Calls(fake.OpUpload) > 0 {
			t.Error("a part of the job was sent")
		}
		b.want("finding", "SELECT name || ' ' || detail FROM findings", "text_unreadable work:"+works[1])
		b.wantJobs("ready")
	})
}

func TestSubmitKeepsToTheBoundary(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(1)
		account := b.fake.Account()
		account.Region = "elsewhere"
		other := fake.New(fake.Options{Account: account})
		b.r.Accounts = []batch.Provider{other}
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		b.wantFindings("boundary_mismatch")
		b.wantTally("put off", b.submit(), reconcile.Tally{})
		if other.Calls(fake.OpUpload)+b.fake.Calls(fake.OpUpload) > 0 {
			t.Error("something was sent")
		}
		b.r.Accounts = []batch.Provider{b.fake}
		b.Clock.Advance(b.r.Settings.SubmitRetry)
		b.wantTally("corrected", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
	})
}

func TestF44_PolicyRevokedBeforeTheIntent(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(1)
		b.change("UPDATE policy_versions SET state = 'revoked'")
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		b.wantTally("put off", b.submit(), reconcile.Tally{})
		b.wantSubmissions()
		if b.fake.Calls(fake.OpUpload) > 0 {
			t.Error("something was sent")
		}
	})
}

func TestSubmitWaitsForAPauseToBeLifted(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for i, scope := range []string{"all", "account:main", "policy:p"} {
			b.reports(1)
			b.collect()
			pause := reconcile.Pause{Scope: scope, Stage: reconcile.PauseDispatch, Actor: "anna", Reason: "a test"}
			if _, err := b.Pause(t.Context(), b.Clock.Now(), pause); err != nil {
				t.Fatal(err)
			}
			b.wantTally(scope+" is paused", b.submit(), reconcile.Tally{})
			_, err := b.CommitIntent(t.Context(), b.Clock.Now(), reconcile.Intent{SubmissionID: "aaaaaaaaaa",
				JobID: b.rows("SELECT job_id FROM jobs WHERE state = 'ready'")[0], Account: b.fake.Account(), Manifest: func() hash.Hash { return b.Keys.NewMAC(keyring.Manifest) }})
			if !errors.Is(err, reconcile.ErrPaused) {
				t.Errorf("intent while %s is paused: %v", scope, err)
			}
			b.wantCreates(i)
			if err := b.Resume(t.Context(), b.Clock.Now(), scope, reconcile.PauseDispatch, "anna", "done"); err != nil {
				t.Fatal(err)
			}
			b.wantTally("resumed", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
		}
	})
}

func TestSubmitStopsWhenToldTo(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.reports(3)
		b.r.Settings.JobItems = 1
		b.collect()
		ctx, stop := context.WithCancel(t.Context())
		b.fake.Hooks.Upload = func(string) (bool, error) { stop(); return true, nil }
		tally, err := b.r.Submit(ctx, b.Clock.Now())
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		b.wantTally("submit", tally, reconcile.Tally{Seen: 1})
		b.wantSubmissions("rejected: not sent: rollcall was told to end")
		b.wantCreates(0)
		b.fake.Hooks = fake.Hooks{}
		b.wantTally("restarted", b.submit(), reconcile.Tally{Seen: 3, Moved: 3})
	})
}

// Once a job was asked for, its outcome is recorded although the process is
// told to end, and although its lease is gone.
func TestOutcomeIsRecordedWhateverHappensMeanwhile(t *testing.T) {
	for name, fault := range map[string]*batch.Error{"accepted": nil, "rejected": answer("create", batch.Rejected, 400, "")} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.ready(1)
				now := b.Clock.Now()
				lease, err := b.AcquireLease(t.Context(), "pass:submit", "a", now, now.Add(time.Minute))
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(reconcile.WithLease(t.Context(), lease))
				b.fake.Hooks.Create = func(batch.Creation) (bool, error) {
					stop()
					later := b.Clock.Now().Add(24 * time.Hour)
					if _, err := b.AcquireLease(t.Context(), "pass:submit", "b", later, later.Add(time.Minute)); err != nil {
						t.Error(err)
					}
					if fault != nil {
						return false, fault
					}
					return true, nil
				}
				_, _ = b.r.Submit(ctx, now)
				if got := b.rows("SELECT COALESCE(outcome, 'open') FROM submissions"); !slices.Equal(got, []string{name}) {
					t.Errorf("outcome %v", got)
				}
			})
		})
	}
}

func TestSubmitStopsWithoutItsLease(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(1)
		gone := reconcile.Lease{Name: "pass:submit", Holder: "a", Fence: 7}
		if _, err := b.r.Submit(reconcile.WithLease(t.Context(), gone), b.Clock.Now()); !errors.Is(err, reconcile.ErrLeaseLost) {
			t.Errorf("error %v", err)
		}
		if b.fake.Calls(fake.OpUpload) > 0 {
			t.Error("something was sent")
		}
	})
}
