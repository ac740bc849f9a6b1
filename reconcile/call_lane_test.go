package reconcile_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/batch/inhouse"
	"rollcall/reconcile"
	"rollcall/reconcile/crashpoint"
	"rollcall/sql/sqltest"
)

// more makes another job of n reports.
func (b *callBench) more(n int) {
	b.t.Helper()
	b.reports(n)
	b.pass(b.r.Collect)
	b.pass(b.r.Submit)
}

// days lets a process run the pass for a while.
func (b *callBench) days(n int, every time.Duration) {
	b.t.Helper()
	for range int(time.Duration(n) * 24 * time.Hour / every) {
		b.pass(b.r.Call)
		b.Clock.Advance(every)
	}
}

// turns has one text answered well. From then on another model answers, while the
// returned word is true.
func (b *callBench) turns() (otherModel *bool) {
	b.t.Helper()
	otherModel = new(bool)
	b.processor(fake.CallerOptions{Hook: func(fake.Call) (bool, error) {
		if *otherModel {
			return true, &batch.Error{Op: "call", Kind: batch.BadAnswer, HTTPStatus: 200, Code: inhouse.CodeOtherModel}
		}
		return true, nil
	}})
	b.sent(1)
	b.call()
	*otherModel = true
	return otherModel
}

// A brake that the ledger does not take is no fault of one text: the pass ends with
// it, and the text is not asked about in a loop.
func TestS7_BrakeThatTheLedgerRefusesEndsThePass(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.turns()
		b.more(1)
		allow := refusesInserts(b.Address, "pauses", b.change)
		if _, err := b.r.Call(t.Context(), b.Clock.Now()); err == nil {
			t.Error("a brake that failed was taken for a closed lane")
		}
		allow()
		b.days(1, time.Hour)
		b.wantFindings("another_model")
	})
}

func TestS7_CalledAccountThatTurnsToAnotherModelIsBraked(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		otherModel := b.turns()
		b.more(9)
		b.days(2, time.Hour)
		n, _ := b.caller.Total()
		if n -= 1; n < 1 || n > 4 {
			t.Errorf("%d texts went to another model", n)
		}
		b.wantFindings("another_model")
		b.want("pauses", "SELECT scope || ' ' || reason FROM pauses WHERE lifted_us IS NULL", "account:main another_model")
		b.want("not held against the texts", "SELECT DISTINCT CAST(faults AS TEXT) || ' ' || code FROM calls WHERE state = 'due' AND attempts > 0", "0 other_model")
		*otherModel = false
		if err := b.Resume(t.Context(), b.Clock.Now(), "account:main", reconcile.PauseDispatch, "anna", "mended"); err != nil {
			t.Fatal(err)
		}
		probes := b.caller.Probes()
		b.call()
		if got := b.caller.Probes(); got != probes+1 {
			t.Errorf("%d probes before the next text, want one", got-probes)
		}
		b.done()
		b.wantClassified(10)
	})
}

func TestBadAnswersOfACallCloseTheLaneUntilAProbe(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		broken, probes := false, 0
		fault := func(op string) error {
			if broken {
				return &batch.Error{Op: op, Kind: batch.BadAnswer, HTTPStatus: 302}
			}
			return nil
		}
		b.processor(fake.CallerOptions{
			Hook:  func(fake.Call) (bool, error) { return true, fault("call") },
			Probe: func() error { probes++; return fault("probe") },
		})
		b.sent(1)
		b.call()
		broken = true
		b.more(9)
		b.days(2, time.Hour)
		if n, _ := b.caller.Total(); n-1 < 1 || n-1 > 4 {
			t.Errorf("%d texts went to what is not the processor", n-1)
		}
		if probes < 40 {
			t.Errorf("%d probes in two days", probes)
		}
		b.wantFindings("lane_closed")
		b.want("subject", "SELECT subject FROM findings", "policy:p/1")
		b.want("faults", "SELECT DISTINCT CAST(faults AS TEXT) FROM calls", "0")
		broken = false
		b.call()
		b.wantFindings()
		b.done()
		b.wantClassified(10)
	})
}

// A text may itself be to blame: its answer is longer than an answer may be. It is
// not sent for ever, and the others are answered.
func TestF19_BadAnswersAboutOneTextAreBounded(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		bad := reportText("r2", 1)
		b.processor(fake.CallerOptions{Hook: func(c fake.Call) (bool, error) {
			if c.Text == bad {
				return true, &batch.Error{Op: "call", Kind: batch.BadAnswer, HTTPStatus: 200}
			}
			return true, nil
		}})
		b.r.Settings.CallRate.AtOnce = 1
		b.sent(5)
		b.days(2, time.Hour)
		if n, most := b.caller.Called(bad), int(b.r.Settings.CallFaults); n != most {
			t.Errorf("the text was sent %d times, want %d", n, most)
		}
		b.wantCalls(4 + b.caller.Called(bad))
		b.pass(b.r.Consume)
		b.want("items", "SELECT outcome || ' ' || code || ' ' || CAST(COUNT(*) AS TEXT) FROM items GROUP BY outcome, code ORDER BY outcome", "failed bad_answer 1", "succeeded  4")
	})
}

// picky is a caller whose probe depends on what is asked.
type picky struct {
	*fake.Caller
	probe func(c *batch.Classifier) error
}

func (p picky) Probe(_ context.Context, c *batch.Classifier) error { return p.probe(c) }

func TestBoundaryThatNoLongerMatchesHoldsBackItsJobOnly(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.sent(2)
		moved := callAccount
		moved.Region = "other"
		b.caller = fake.NewCaller(fake.CallerOptions{Account: moved, Answer: func(fake.Call) (batch.Result, error) { return fake.Answer(goodAnswer), nil }})
		b.r = b.process()
		p := sqltest.Policy("p", 2)
		p.Boundary.Region = "other"
		b.policy = b.Approve(t, p)
		b.more(3)
		b.call()
		b.wantCalls(3)
		b.wantFindings("boundary_mismatch")
		b.want("jobs", "SELECT state || ' ' || CAST(policy_version AS TEXT) FROM jobs ORDER BY policy_version", "submitted 1", "ended 2")
	})
}

func TestProbeThatFailsForOnePolicyClosesIts(t *testing.T) {
	for _, kind := range []batch.Kind{batch.Rejected, batch.BadAnswer} {
		t.Run(string(kind), func(t *testing.T) {
			onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
				broken := true
				b.r.Callers = []batch.Caller{picky{b.caller, func(c *batch.Classifier) error {
					if broken && c.Model == "fake-2" {
						return &batch.Error{Op: "probe", Kind: kind, Code: "no"}
					}
					return nil
				}}}
				p := sqltest.Policy("q", 1)
				p.Classifier.Model, p.Classifier.AnswersAs = "fake-2", []string{"fake-1"}
				first := b.policy
				b.policy = b.Approve(t, p)
				b.more(2)
				b.call()
				b.wantCalls(0)
				b.policy = first
				b.more(3)
				b.days(1, time.Hour)
				b.wantCalls(3)
				b.wantFindings("lane_closed") // a good probe of p says nothing about q
				b.want("subject", "SELECT subject FROM findings", "policy:q/1")
				broken = false
				b.call()
				b.wantFindings()
				b.done()
				b.wantClassified(5)
			})
		})
	}
}

// beside gives the process another account, at a host of its own, and makes a job
// of n reports for it.
func (b *callBench) beside(n int) *fake.Caller {
	b.t.Helper()
	other := fake.NewCaller(fake.CallerOptions{Account: batch.Account{Processor: "fake", Name: "second", Host: "fake2.test", Region: "test", Fingerprint: "fp-second"},
		Answer: func(fake.Call) (batch.Result, error) { return fake.Answer(goodAnswer), nil }})
	p := sqltest.Policy("q", 1)
	p.Boundary.Account, p.Boundary.Host = "second", "fake2.test"
	b.policy = b.Approve(b.t, p)
	b.r.Callers = append(b.r.Callers, other)
	b.more(n)
	return other
}

func TestStoredAnswerThatIsDamaged(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.sent(3)
		b.dies(crashpoint.CallNoted, 1)
		b.r = b.process()
		b.change("UPDATE calls SET encrypted = (SELECT encrypted FROM texts LIMIT 1) WHERE work_id = (SELECT MIN(work_id) FROM calls WHERE encrypted IS NOT NULL)")
		other := b.beside(2)
		b.days(1, time.Hour)
		if n, _ := other.Total(); n != 2 {
			t.Errorf("%d calls to the account behind it", n)
		}
		b.wantJobs("ended", "ended")
		b.wantFindings("text_unreadable")
		b.want("subject", "SELECT 'x' FROM findings f JOIN works w ON f.subject = 'work:' || w.work_id", "x")
		b.done()
		b.wantClassified(4)
		b.want("reason", "SELECT reason FROM review_records WHERE kind = 'unclassified'", "text_unreadable")
	})
}

func TestStoredAnswersWhoseKeyIsMissingWait(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.sent(3)
		b.dies(crashpoint.CallNoted, 1)
		b.r = b.process()
		b.change("UPDATE calls SET key_id = 'lost-' || key_id WHERE key_id IS NOT NULL")
		other := b.beside(2)
		b.days(1, time.Hour)
		if n, _ := other.Total(); n != 2 {
			t.Errorf("%d calls to the account behind it", n)
		}
		b.wantJobs("submitted", "ended")
		b.want("finding", "SELECT name FROM findings f JOIN jobs j ON f.subject = 'job:' || j.job_id WHERE j.state = 'submitted'", "text_unreadable")
		calls, _ := b.caller.Total()
		b.change("UPDATE calls SET key_id = SUBSTR(key_id, 6) WHERE key_id LIKE 'lost-%'")
		b.days(1, time.Hour)
		b.done()
		b.wantCalls(calls)
		b.wantClassified(5)
	})
}

func TestPauseOfOneOfTwoNamesOfAHost(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		account := callAccount
		account.Name = "second"
		second := fake.NewCaller(fake.CallerOptions{Account: account, Answer: b.options.Answer})
		p := sqltest.Policy("q", 1)
		p.Boundary.Account = "second"
		first := b.policy
		b.policy = b.Approve(t, p)
		b.r.Callers = append(b.r.Callers, second)
		b.more(2)
		if _, err := b.Pause(t.Context(), b.Clock.Now(), reconcile.Pause{Scope: "account:second", Stage: reconcile.PauseDispatch, Actor: "anna", Reason: "a test"}); err != nil {
			t.Fatal(err)
		}
		b.policy = first
		b.more(3)
		b.days(1, time.Hour)
		b.wantCalls(3)
		if n, _ := second.Total(); n != 0 {
			t.Errorf("%d calls behind the pause", n)
		}
		if err := b.Resume(t.Context(), b.Clock.Now(), "account:second", reconcile.PauseDispatch, "anna", "over"); err != nil {
			t.Fatal(err)
		}
		b.call()
		b.wantCalls(3)
		if n, _ := second.Total(); n != 2 {
			t.Errorf("%d calls to the account that the policy names, want 2", n)
		}
		b.done()
		b.wantClassified(5)
	})
}

// A process that stood still after its claim does not know what was decided
// meanwhile, nor whether another one sends the text. One of its two clocks tells.
func TestF21_CallIsNotMadeLongAfterItsClaim(t *testing.T) {
	clocks := map[string]func(b *callBench, moved *time.Duration){
		"both": func(*callBench, *time.Duration) {},
		"wall clock": func(b *callBench, moved *time.Duration) {
			b.r.Uptime = func() time.Duration { return b.Clock.Uptime() - *moved }
		},
		"monotonic clock": func(b *callBench, moved *time.Duration) {
			b.r.Now = func(context.Context) (time.Time, error) { return b.Clock.Now().Add(-*moved), nil }
		},
	}
	for name, sees := range clocks {
		t.Run(name, func(t *testing.T) {
			onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
				b.r.Settings.CallRate.AtOnce = 2
				var moved time.Duration
				sees(b, &moved)
				b.sent(3)
				b.r.Step = func(point string) {
					if point == crashpoint.CallClaimed && moved == 0 {
						moved = b.r.Settings.CallMargin + time.Second
						b.Clock.Advance(moved)
						b.edit(1, 2)
						b.edit(2, 2)
					}
				}
				b.call()
				if n := b.caller.Called(reportText("r1", 1)) + b.caller.Called(reportText("r2", 1)); n != 0 {
					t.Errorf("%d texts that are not wanted any more were sent", n)
				}
				b.Clock.Advance(time.Hour)
				b.call()
				b.wantCalls(1)
				b.want("attempts", "SELECT CAST(SUM(attempts) AS TEXT) FROM calls", "1")
			})
		})
	}
}

// A text whose answers were lost was asked about, and is billed for. What that
// costs nobody knows, so that its estimate counts against the budget.
func TestAnswersThatWereLostCountAgainstTheBudget(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.processor(fake.CallerOptions{Hook: func(fake.Call) (bool, error) {
			return true, &batch.Error{Op: "call", Kind: batch.Temporary, Code: "timeout"}
		}})
		b.priced("EUR")
		price := reconcile.Price{Input: 1_000_000, Output: 2_000_000, Currency: "EUR"}
		b.budgeted(2, price.Cost(10_000, 200), "EUR")
		b.sent(1)
		for range b.r.Settings.CallFaults {
			b.call()
			b.Clock.Advance(20 * time.Minute)
		}
		b.pass(b.r.Consume)
		b.want("item", "SELECT outcome || ' ' || code FROM items", "failed timeout")
		b.want("charge", "SELECT CAST(cost_micros AS TEXT) || ' ' || CAST(cost_unknown AS TEXT) FROM submissions", "0 1")
	})
}

func TestWithdrawnMembersCostWhatWasAsked(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.processor(fake.CallerOptions{Hook: func(fake.Call) (bool, error) { return true, &batch.Error{Op: "call", Kind: batch.Temporary} }})
		b.priced("EUR")
		b.r.Settings.CallRate.AtOnce = 1
		b.r.Settings.CallFor = time.Nanosecond // one call
		b.sent(2)
		b.r.Step = func(point string) {
			if point == crashpoint.CallNoted {
				b.Clock.Advance(time.Second)
			}
		}
		b.call()
		b.wantCalls(1)
		b.edit(1, 2)
		b.edit(2, 2)
		b.call()
		b.done()
		b.want("items", "SELECT outcome FROM items WHERE outcome <> '' ORDER BY outcome", "cancelled", "not_sent")
		b.want("charge", "SELECT CAST(cost_micros AS TEXT) || ' ' || CAST(cost_unknown AS TEXT) FROM submissions", "0 1")
	})
}

func TestF19_TextThatEndsItsProcessIsNotSentForEver(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.r.Settings.CallRate.AtOnce = 1
		b.sent(1)
		for range b.r.Settings.CallFaults {
			b.dies(crashpoint.CallAnswered, 1)
			b.Clock.Advance(time.Hour)
		}
		n, _ := b.caller.Total()
		b.days(1, time.Hour)
		b.wantCalls(n)
		b.pass(b.r.Consume)
		b.want("items", "SELECT outcome || ' ' || code FROM items", "failed no_trace")
	})
}

func TestF19_PanicOfACallIsAFaultOfIt(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		bad := reportText("r2", 1)
		b.processor(fake.CallerOptions{Hook: func(c fake.Call) (bool, error) {
			if c.Text == bad {
				panic(c.Text) // no log holds it
			}
			return true, nil
		}})
		b.sent(3)
		b.days(1, time.Hour)
		if n := b.caller.Called(bad); n != int(b.r.Settings.CallFaults) {
			t.Errorf("the text was sent %d times", n)
		}
		b.pass(b.r.Consume)
		b.want("items", "SELECT outcome || ' ' || code || ' ' || CAST(COUNT(*) AS TEXT) FROM items GROUP BY outcome, code ORDER BY outcome", "failed panic 1", "succeeded  2")
		if log := b.log.String(); !strings.Contains(log, `"panic":"string"`) {
			t.Error("the panic's type is not told")
		}
	})
}

// A version of the API that was withdrawn rejects whatever it is asked, with the
// status that also a bad text gets.
func TestRejectionsInARowAreProbed(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		broken := false
		fault := func(op string) error {
			if broken {
				return &batch.Error{Op: op, Kind: batch.Rejected, HTTPStatus: 400, Code: "InvalidRequestBody"}
			}
			return nil
		}
		b.processor(fake.CallerOptions{Hook: func(fake.Call) (bool, error) { return true, fault("call") }, Probe: func() error { return fault("probe") }})
		b.r.Settings.CallRate.AtOnce = 1
		b.sent(1)
		b.call()
		broken = true
		b.more(20)
		b.days(1, time.Hour)
		b.wantCalls(1 + 5)
		b.wantFindings("lane_closed")
		broken = false
		b.call()
		b.wantCalls(21)
		b.wantFindings()
	})
}

func TestFindingOfADamagedTextIsCommittedWithItsAnswer(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.r.Settings.CallRate.AtOnce = 1
		b.sent(2)
		const of = "(SELECT w.report_id FROM works w JOIN calls c ON c.work_id = w.work_id WHERE c.line = "
		b.change("UPDATE texts SET encrypted = (SELECT encrypted FROM texts WHERE report_id = " + of + "2)) WHERE report_id = " + of + "1)")
		b.dies(crashpoint.CallNoted, 1) // before anything else is written
		b.wantStates("done 1", "due 1")
		b.wantFindings("text_unreadable")
	})
}

func TestMissingKeyDoesNotHideADeniedAccount(t *testing.T) {
	onCallBench(t, fake.CallerOptions{Hook: func(fake.Call) (bool, error) {
		return true, &batch.Error{Op: "call", Kind: batch.Denied, HTTPStatus: 401}
	}}, func(t *testing.T, b *callBench) {
		b.r.Go = func(call func()) { call() } // what comes together is judged together
		works := b.sent(2)
		b.change("UPDATE texts SET key_id = 'lost' WHERE report_id = (SELECT report_id FROM works WHERE work_id = $1)", works[1])
		b.call()
		b.wantFindings("account_denied", "text_unreadable")
	})
}

func TestPausedJobsDoNotCrowdOutTheOthers(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.r.Settings.JobsPerRun = 1
		b.more(2)
		b.more(2)
		if _, err := b.Pause(t.Context(), b.Clock.Now(), reconcile.Pause{Scope: "policy:p", Stage: reconcile.PauseDispatch, Actor: "anna", Reason: "a test"}); err != nil {
			t.Fatal(err)
		}
		b.edit(1, 2)
		b.policy = b.Approve(t, sqltest.Policy("q", 1))
		b.more(3)
		b.Clock.Advance(time.Minute)
		b.call()
		b.wantCalls(3)
		b.want("withdrawn", "SELECT 'x' FROM items WHERE outcome = 'not_sent'", "x")
	})
}

// claim claims one call of the bench's only job for a minute.
func (b *callBench) claim() reconcile.ClaimedCall {
	b.t.Helper()
	now := b.Clock.Now()
	grant, err := b.Store.ClaimCalls(b.t.Context(), now, reconcile.CallClaim{
		JobID: b.rows("SELECT job_id FROM jobs")[0], Account: callAccount, Want: 1, Until: now.Add(time.Minute), Horizon: now.Add(time.Hour),
		Take: func(k reconcile.Bucket) (reconcile.Bucket, int64, time.Time) { return k, 1, now },
	})
	if err != nil || len(grant.Calls) != 1 {
		b.t.Fatal(grant, err)
	}
	return grant.Calls[0]
}

func TestF21_LateEndLeavesTheClaimOfAnother(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.sent(1)
		late := b.claim()
		b.Clock.Advance(2 * time.Minute)
		other := b.claim()
		put := func(c reconcile.ClaimedCall) {
			end := reconcile.CallEnd{WorkID: c.Item.WorkID, Segment: 1, Until: c.Until, Next: b.Clock.Now(), Code: "late"}
			rec := reconcile.CallRecord{JobID: b.rows("SELECT job_id FROM jobs")[0], Account: callAccount.Fingerprint, Ends: []reconcile.CallEnd{end}}
			if err := b.Store.RecordCalls(t.Context(), b.Clock.Now(), rec); err != nil {
				t.Fatal(err)
			}
		}
		put(late)
		b.wantStates("claimed 1")
		put(other)
		b.wantStates("due 1")
	})
}
