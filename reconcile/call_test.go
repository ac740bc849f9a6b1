package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/reconcile/crashpoint"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// callBench is a bench whose account is called text by text.
type callBench struct {
	*bench
	caller  *fake.Caller
	options fake.CallerOptions
	waited  time.Duration // within passes
}

var callAccount = batch.Account{Processor: "fake", Name: "main", Host: "fake.test", Region: "test", Fingerprint: "fp-main"}

// onCallBench runs a test on each database.
func onCallBench(t *testing.T, o fake.CallerOptions, test func(t *testing.T, b *callBench)) {
	t.Helper()
	onBench(t, func(t *testing.T, b *bench) { test(t, newCallBench(b, o)) })
}

func newCallBench(b *bench, o fake.CallerOptions) *callBench {
	c := &callBench{bench: b}
	c.processor(o)
	b.t.Cleanup(func() {
		for _, row := range b.rows("SELECT code || ' ' || model FROM calls") {
			if strings.Contains(row, textMarker) {
				b.t.Errorf("calls hold report text: %s", row)
			}
		}
		invariants := reconcile.Invariants(b.Clock.Now().Add(-1000*time.Hour), reconcile.DefaultSettings()) // those that know no time
		_, broken, err := b.CallRoll(context.Background(), invariants, 10)
		if err != nil {
			b.t.Error(err)
		}
		for i, o := range broken {
			if o.Total > 0 {
				b.t.Errorf("%s: %+v", invariants[i].Name, o)
			}
		}
	})
	return c
}

// processor puts a fresh processor behind a fresh process.
func (b *callBench) processor(o fake.CallerOptions) {
	o.Account = callAccount
	if o.Answer == nil {
		o.Answer = func(fake.Call) (batch.Result, error) { return fake.Answer(goodAnswer), nil }
	}
	b.caller, b.options = fake.NewCaller(o), o
	b.r = b.process()
}

var goodAnswer = []byte(`{"label":"ok","evidence":[]}`)

// process is a fresh process over the ledger.
func (b *callBench) process() *reconcile.Reconciler {
	r := b.reconciler(b.Store)
	r.Accounts, r.Callers = nil, []batch.Caller{b.caller}
	r.Settings.CallRate = reconcile.Rate{AtOnce: 4}
	r.Wait = func(ctx context.Context, d time.Duration) error {
		b.waited += d
		b.Clock.Advance(d)
		return ctx.Err()
	}
	return r
}

func (b *callBench) call() reconcile.Tally { b.t.Helper(); return b.pass(b.r.Call) }

// sent makes a job of n reports whose texts are to be called.
func (b *callBench) sent(n int) []string {
	b.t.Helper()
	works := b.reports(n)
	b.collect()
	b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
	b.wantJobs("submitted")
	return works
}

// done consumes and applies.
func (b *callBench) done() {
	b.t.Helper()
	b.pass(b.r.Consume)
	b.pass(b.r.Apply)
}

func (b *callBench) wantCalls(n int) {
	b.t.Helper()
	if got, _ := b.caller.Total(); got != n {
		b.t.Errorf("%d calls, want %d", got, n)
	}
}

// wantStates compares the states of all calls.
func (b *callBench) wantStates(want ...string) {
	b.t.Helper()
	b.want("calls", "SELECT state || ' ' || COUNT(*) FROM calls GROUP BY state ORDER BY state", want...)
}

func (b *callBench) wantClassified(n int) {
	b.t.Helper()
	b.want("records", "SELECT CAST(COUNT(*) AS TEXT) FROM review_records WHERE kind = 'classified' AND authoritative = 1", fmt.Sprint(n))
}

func TestCallsFromReportToRecord(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		works := b.sent(7)
		b.want("accepted", "SELECT outcome || ': ' || evidence FROM submissions", "accepted: its texts are called one by one")
		job := b.rows("SELECT job_id FROM jobs")[0]
		b.want("job", "SELECT provider_job_id FROM jobs WHERE called = 1", "calls-"+job)
		b.wantCalls(0)
		b.wantTally("poll", b.poll(), reconcile.Tally{})
		b.wantTally("call", b.call(), reconcile.Tally{Seen: 8, Moved: 8}) // the calls, and the job
		b.wantCalls(7)
		for i := range works {
			if n := b.caller.Called(reportText(fmt.Sprint("r", i+1), 1)); n != 1 {
				t.Errorf("text %d was called %d times", i+1, n)
			}
		}
		b.wantJobs("ended")
		b.want("sets", "SELECT channel || ' ' || state || ' ' || CAST(line_count AS TEXT) FROM result_sets", "output whole 7")
		b.done()
		b.wantJobs("consumed")
		b.wantClassified(7)
		b.want("artifacts", "SELECT model || ' ' || CAST(SUM(input_tokens) AS TEXT) || ' ' || CAST(SUM(output_tokens) AS TEXT) FROM artifacts GROUP BY model", "fake-1 700 70")
		b.wantTally("again", b.call(), reconcile.Tally{})
		b.wantCalls(7)
		b.wantFindings()
		if _, most := b.caller.Total(); most > 4 || b.caller.Probes() != 1 {
			t.Errorf("%d calls at once, %d probes", most, b.caller.Probes())
		}
	})
}

// dead is how a process dies at a point.
type dead struct{ point string }

// dies runs the pass in a process that dies at the n-th hit of a point.
func (b *callBench) dies(point string, nth int) {
	b.t.Helper()
	r := b.process()
	r.Settings = b.r.Settings
	hits := 0
	r.Step = func(p string) {
		if p != point {
			return
		}
		if hits++; hits == nth {
			panic(dead{p})
		}
	}
	defer func() {
		b.t.Helper()
		if d, ok := recover().(dead); !ok || d.point != point {
			b.t.Errorf("the process did not die at %s", point)
		}
	}()
	_, err := r.Call(b.t.Context(), b.Clock.Now())
	b.t.Errorf("the pass ended: %v", err)
}

func TestCallsSurviveADeathAtEachPoint(t *testing.T) {
	repeated := map[string]bool{crashpoint.CallAnswered: true}
	for _, point := range crashpoint.CallPoints() {
		for _, nth := range []int{1, 2} {
			if point == crashpoint.CallEnded && nth == 2 {
				continue
			}
			t.Run(fmt.Sprint(point, "/", nth), func(t *testing.T) {
				onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
					b.r.Settings.CallRate.AtOnce = 1
					b.sent(5)
					b.dies(point, nth)
					done := len(b.rows("SELECT work_id FROM calls WHERE state = 'done'"))
					before, _ := b.caller.Total()
					if want := map[bool]int{true: done + 1, false: done}[repeated[point]]; before != want {
						t.Errorf("%d calls before the death, %d answers noted", before, done)
					}
					b.r = b.process()
					b.call()
					b.Clock.Advance(b.r.Settings.CallWithin + 2*time.Minute) // what was claimed is due again
					b.call()
					b.wantCalls(before + 5 - done)
					b.done()
					b.wantClassified(5)
					b.want("artifacts", "SELECT CAST(COUNT(*) AS TEXT) FROM artifacts", "5")
				})
			})
		}
	}
}

func TestCallsWithCommitsOfUnknownOutcome(t *testing.T) {
	onBoth := []string{"record calls", "end calls"} // these stand for the others, which are the same on both databases
	for _, name := range append(onBoth, "claim calls", "settle calls", "begin call results", "stage lines", "record accepted", "drop uncalled") {
		databases := sqltest.Databases
		if !slices.Contains(onBoth, name) {
			databases = []string{"sqlite"}
		}
		for how, lost := range map[string]loss{"before": before, "after": after} {
			for _, database := range databases {
				t.Run(strings.ReplaceAll(name, " ", "_")+"/"+how+"/"+database, func(t *testing.T) {
					c := &commits{lose: map[string]loss{}}
					l := sqltest.OpenWith(t, sqltest.Migrated(t, database), sql.Options{Commit: c.commit})
					callsWithALostCommit(t, newCallBench(newBench(t, l), fake.CallerOptions{}), func() { c.lose[name] = lost })
					if len(c.lose) > 0 {
						t.Errorf("there was no such commit")
					}
				})
			}
		}
	}
}

// callsWithALostCommit is the way of five members, of which one is not wanted.
func callsWithALostCommit(t *testing.T, b *callBench, lose func()) {
	b.reports(5)
	b.collect()
	lose()
	b.submit()
	b.edit(5, 2)
	for range 6 {
		b.submit()
		if _, err := b.r.Call(t.Context(), b.Clock.Now()); err != nil && !errors.Is(err, reconcile.ErrUnknownCommit) {
			t.Fatal(err)
		}
		b.Clock.Advance(20 * time.Minute)
	}
	b.done()
	b.wantClassified(4)
	if n, _ := b.caller.Total(); n > 8 || n < 4 {
		t.Errorf("%d calls for 4 texts", n)
	}
}

func TestCallThatHasAnAnswerIsNeverMadeAgain(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.caller = nil
		b.processor(fake.CallerOptions{Hook: func(c fake.Call) (bool, error) {
			if strings.Contains(c.Text, "r3") {
				return false, &batch.Error{Op: "call", Kind: batch.Temporary, HTTPStatus: 503}
			}
			return true, nil
		}})
		b.sent(4)
		b.call()
		b.wantStates("done 3", "due 1")
		b.wantCalls(4)
		for range 3 {
			b.Clock.Advance(time.Hour)
			b.call()
		}
		b.wantCalls(7)
		for _, id := range []string{"r1", "r2", "r4"} {
			if n := b.caller.Called(reportText(id, 1)); n != 1 {
				t.Errorf("%s was called %d times", id, n)
			}
		}
		b.want("faults", "SELECT CAST(faults AS TEXT) || ' ' || CAST(attempts AS TEXT) || ' ' || code FROM calls WHERE state = 'due'", "4 4 temporary")
		b.wantJobs("submitted")
	})
}

func TestCallThatFailsAllTheTimeIsLeftToThePolicy(t *testing.T) {
	onCallBench(t, fake.CallerOptions{Hook: func(fake.Call) (bool, error) { return true, errors.New("cut") }}, func(t *testing.T, b *callBench) {
		b.sent(1)
		for range b.r.Settings.CallFaults {
			b.Clock.Advance(2 * time.Hour)
			b.call()
		}
		b.wantCalls(int(b.r.Settings.CallFaults))
		b.wantJobs("ended")
		b.pass(b.r.Consume)
		b.want("items", "SELECT outcome || ' ' || code FROM items", "failed unknown_outcome")
		b.want("works", "SELECT stage FROM works", "pending")
	})
}

func TestTwoProcessesCallEachTextOnce(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.sent(40)
		var group sync.WaitGroup
		for range 2 {
			r := b.process() // not under the lease, which would keep the other away
			r.Wait = func(context.Context, time.Duration) error { return context.Canceled }
			group.Go(func() {
				if _, err := r.Call(t.Context(), b.Clock.Now()); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		b.call()
		if n, most := b.caller.Total(); n != 40 || most > 4 {
			t.Errorf("%d calls, %d at once", n, most)
		}
		b.done()
		b.wantClassified(40)
	})
}

func TestRateIsSharedByProcesses(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.sent(25)
		rates := map[string]reconcile.Rate{"main": {Calls: 10, Interval: time.Hour, AtOnce: 3}}
		b.r.Rates = rates
		b.call()
		b.wantCalls(10)
		b.r = b.process()
		b.r.Rates = rates
		b.call()
		b.wantCalls(10)
		b.Clock.Advance(31 * time.Minute)
		b.call()
		b.wantCalls(15)
		b.want("due later", "SELECT 'x' FROM jobs WHERE next_poll_us <= (SELECT MAX(called_us) FROM calls)")
		b.Clock.Advance(2 * time.Hour)
		b.call()
		b.wantCalls(25)
		b.done()
		b.wantClassified(25)
	})
}

func TestRateIsSharedByProcessesAtOnce(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.sent(25)
		var group sync.WaitGroup
		for range 2 {
			r := b.process() // not under the lease, which would keep the other away
			r.Rates = map[string]reconcile.Rate{"main": {Calls: 10, Interval: time.Hour, AtOnce: 4}}
			r.Wait = func(_ context.Context, d time.Duration) error {
				if d > time.Minute { // for a token, and not for a call of the other to end
					return context.Canceled
				}
				return nil
			}
			group.Go(func() {
				if _, err := r.Call(t.Context(), b.Clock.Now()); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n, most := b.caller.Total(); n != 10 || most > 4 {
			t.Errorf("%d calls, %d at once", n, most)
		}
	})
}

// A job that came first, or has the lower id, does not keep the others waiting
// until it has all its answers.
func TestJobsOfOneAccountTakeTurns(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.r.Settings.JobItems = 5
		b.reports(15)
		b.collect()
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 3, Moved: 3})
		b.r.Rates = map[string]reconcile.Rate{"main": {Calls: 2, Interval: time.Minute, AtOnce: 1}}
		for round := range 2 {
			for range 3 {
				b.call()
				b.Clock.Advance(2 * time.Minute)
			}
			n := fmt.Sprint(2 * (round + 1))
			b.want("answers by job", "SELECT CAST(COUNT(*) AS TEXT) FROM calls WHERE state = 'done' GROUP BY job_id", n, n, n)
		}
	})
}

func TestRateIsWaitedForWithinARun(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.sent(20)
		b.r.Rates = map[string]reconcile.Rate{"main": {Calls: 2, Interval: time.Second, AtOnce: 3}}
		b.call()
		b.wantCalls(20)
		if b.waited < 8*time.Second || b.waited > 10*time.Second {
			t.Errorf("waited %s", b.waited)
		}
		b.wantJobs("ended")
	})
}

func TestRetryAfterHoldsBackTheWholeAccount(t *testing.T) {
	for _, kind := range []batch.Kind{batch.RateLimited, batch.Temporary} {
		t.Run(string(kind), func(t *testing.T) {
			first := true
			onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
				first = true
				b.processor(fake.CallerOptions{Hook: func(fake.Call) (bool, error) {
					if first {
						first = false
						return false, &batch.Error{Op: "call", Kind: kind, HTTPStatus: 429, RetryAfter: 10 * time.Minute}
					}
					return true, nil
				}})
				b.r.Settings.CallRate.AtOnce = 1
				b.sent(3)
				b.call()
				b.wantCalls(1)
				other := b.process()
				if _, err := other.Call(t.Context(), b.Clock.Now()); err != nil {
					t.Fatal(err)
				}
				b.Clock.Advance(9 * time.Minute)
				b.call()
				b.wantCalls(1)
				b.Clock.Advance(time.Minute)
				b.call()
				b.wantCalls(4)
				b.wantJobs("ended")
			})
		})
	}
}

func TestStormOfRefusalsIsCalmed(t *testing.T) {
	onCallBench(t, fake.CallerOptions{Hook: func(fake.Call) (bool, error) {
		return false, &batch.Error{Op: "call", Kind: batch.RateLimited, HTTPStatus: 429}
	}}, func(t *testing.T, b *callBench) {
		b.sent(30)
		for range 24 * 6 { // a day
			b.Clock.Advance(10 * time.Minute)
			b.call()
		}
		n, _ := b.caller.Total()
		if n > 4*35 || n < 12 {
			t.Errorf("%d calls in a day of refusals", n)
		}
		b.want("not held against the texts", "SELECT DISTINCT CAST(faults AS TEXT) FROM calls", "0")
		b.options.Hook = nil
		b.processor(b.options)
		b.Clock.Advance(2 * time.Hour)
		b.call()
		b.want("forgotten", "SELECT CAST(refusals AS TEXT) FROM rates", "0")
		b.done()
		b.wantClassified(30)
	})
}

func TestRevokedOrPausedInTheMiddle(t *testing.T) {
	stop := map[string]func(b *callBench){
		"revoked": func(b *callBench) { b.change("UPDATE policy_versions SET state = 'revoked'") },
		"paused": func(b *callBench) {
			_, err := b.Pause(b.t.Context(), b.Clock.Now(), reconcile.Pause{Scope: "all", Stage: reconcile.PauseDispatch, Actor: "anna", Reason: "a test"})
			if err != nil {
				b.t.Error(err)
			}
		},
	}
	resume := map[string]func(b *callBench){
		"revoked": func(b *callBench) { b.change("UPDATE policy_versions SET state = 'approved'") },
		"paused": func(b *callBench) {
			if err := b.Resume(b.t.Context(), b.Clock.Now(), "all", reconcile.PauseDispatch, "anna", "over"); err != nil {
				b.t.Error(err)
			}
		},
	}
	for name := range stop {
		t.Run(name, func(t *testing.T) {
			onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
				var calls int
				b.processor(fake.CallerOptions{Hook: func(fake.Call) (bool, error) {
					if calls++; calls == 3 {
						stop[name](b)
					}
					return true, nil
				}})
				b.r.Settings.CallRate.AtOnce = 1
				b.sent(8)
				b.call()
				b.wantCalls(3)
				b.wantStates("done 3", "due 5")
				b.call()
				b.wantCalls(3)
				next, err := b.Next(t.Context(), b.Clock.Now(), time.Minute)
				if err != nil || next.At != nil {
					t.Errorf("next %v, %v", next.At, err)
				}
				resume[name](b)
				b.call()
				b.wantCalls(8)
				b.done()
				b.wantClassified(8)
			})
		})
	}
}

func TestF12_WithdrawnMembers(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.sent(4)
		b.edit(2, 2)
		b.edit(4, 2)
		b.call()
		b.wantCalls(2)
		b.want("items", "SELECT COALESCE(outcome, 'open') FROM items WHERE job_id = (SELECT MIN(job_id) FROM jobs) ORDER BY position", "open", "not_sent", "open", "not_sent")
		b.done()
		b.wantClassified(2)
		b.want("stages", "SELECT stage FROM works WHERE disposition <> 'live'", "pending", "pending")
	})
}

func TestF12_JobOfWhichEveryMemberIsWithdrawnEnds(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.sent(2)
		b.edit(1, 2)
		b.edit(2, 2)
		b.change("UPDATE policy_versions SET state = 'revoked'") // also then
		b.call()
		b.wantCalls(0)
		b.done()
		b.wantJobs("consumed")
	})
}

func TestF12_WithdrawnBetweenTwoSegments(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		calls := 0
		b.processor(fake.CallerOptions{Segment: 20, Hook: func(fake.Call) (bool, error) {
			if calls++; calls == 1 {
				b.edit(1, 2)
			}
			return true, nil
		}})
		b.r.Settings.CallRate.AtOnce = 1
		b.sent(1)
		b.call()
		b.wantCalls(1)
		b.pass(b.r.Consume)
		b.want("items", "SELECT outcome || ' ' || code FROM items", "cancelled not_wanted")
		b.want("works", "SELECT stage FROM works WHERE disposition <> 'live'", "pending")
	})
}

func TestSegmentsAreCalledOneByOneAndJoined(t *testing.T) {
	onCallBench(t, fake.CallerOptions{Segment: 10}, func(t *testing.T, b *callBench) {
		b.sent(3)
		n := (len(reportText("r1", 1)) + 9) / 10
		b.call()
		b.wantCalls(3 * n)
		b.want("rows", "SELECT DISTINCT CAST(segments AS TEXT) || ' ' || state FROM calls", fmt.Sprint(n, " done"))
		b.done()
		b.wantClassified(3)
		b.want("tokens", "SELECT DISTINCT CAST(input_tokens AS TEXT) FROM artifacts", fmt.Sprint(100*n))
	})
}

func TestSegmentsThatAreCutOtherwiseAreAFailure(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.processor(fake.CallerOptions{Segment: 20})
		b.r.Settings.CallRate.AtOnce = 1
		b.sent(1)
		b.dies(crashpoint.CallNoted, 1)
		b.processor(fake.CallerOptions{Segment: 7})
		b.call()
		b.Clock.Advance(time.Hour)
		b.call()
		b.wantCalls(0)
		b.pass(b.r.Consume)
		b.want("items", "SELECT outcome || ' ' || code FROM items", "failed split_changed")
	})
}

func TestOutcomesOfCalls(t *testing.T) {
	outcomes := map[string]func() (batch.Result, error){
		"r1": func() (batch.Result, error) { return batch.Result{Outcome: batch.Refused}, nil },
		"r2": func() (batch.Result, error) { return batch.Result{Outcome: batch.Blocked, Code: "filter"}, nil },
		"r3": func() (batch.Result, error) {
			return batch.Result{}, &batch.Error{Op: "call", Kind: batch.Rejected, HTTPStatus: 400, Code: "too_long"}
		},
		"r4": func() (batch.Result, error) { return fake.Answer([]byte("no JSON " + textMarker)), nil },
		"r5": func() (batch.Result, error) {
			return batch.Result{Outcome: "odd " + textMarker, Code: textMarker + " ", Model: textMarker + " "}, nil
		},
		"r6": func() (batch.Result, error) {
			return batch.Result{Outcome: batch.BadShape, Code: "text_unreadable"}, nil
		},
	}
	onCallBench(t, fake.CallerOptions{Answer: func(c fake.Call) (batch.Result, error) {
		id, _, _ := strings.Cut(strings.TrimPrefix(c.Text, textMarker+" text "), "/")
		return outcomes[id]()
	}}, func(t *testing.T, b *callBench) {
		b.sent(6)
		b.call()
		b.pass(b.r.Consume)
		b.want("items", "SELECT outcome || ' ' || code FROM items ORDER BY position",
			"refused ", "blocked filter", "rejected too_long", "invalid invalid_json", "invalid bad_shape", "invalid bad_shape")
	})
}

func TestDeniedAccountIsBraked(t *testing.T) {
	for kind, finding := range map[batch.Kind]string{batch.Denied: "account_denied", batch.NotFound: "account_denied", batch.OutOfCredit: "out_of_credit"} {
		t.Run(string(kind), func(t *testing.T) {
			onCallBench(t, fake.CallerOptions{Hook: func(fake.Call) (bool, error) {
				return false, &batch.Error{Op: "call", Kind: kind, HTTPStatus: 401}
			}}, func(t *testing.T, b *callBench) {
				b.sent(9)
				b.call()
				b.wantFindings(finding)
				n, _ := b.caller.Total()
				if n > 4 {
					t.Errorf("%d calls", n)
				}
				b.Clock.Advance(time.Hour)
				b.call()
				b.wantCalls(n)
				b.wantStates("due 9")
				b.options.Hook = nil
				b.processor(b.options)
				if err := b.Resume(t.Context(), b.Clock.Now(), "account:main", reconcile.PauseDispatch, "anna", "mended"); err != nil {
					t.Fatal(err)
				}
				b.call()
				b.done()
				b.wantClassified(9)
				b.wantFindings()
			})
		})
	}
}

func TestLaneStaysClosedUntilAProbeIsAnswered(t *testing.T) {
	for kind, findings := range map[batch.Kind][]string{batch.Temporary: nil, batch.RateLimited: nil, batch.BadAnswer: {"lane_closed"}, batch.Denied: {"account_denied"}} {
		t.Run(string(kind), func(t *testing.T) {
			onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
				broken := true
				b.processor(fake.CallerOptions{Probe: func() error {
					if broken {
						return &batch.Error{Op: "probe", Kind: kind}
					}
					return nil
				}})
				b.sent(3)
				for range 3 {
					b.pass(b.r.Call)
					b.Clock.Advance(10 * time.Minute)
				}
				b.wantCalls(0)
				b.wantFindings(findings...)
				b.want("attempts", "SELECT DISTINCT CAST(attempts AS TEXT) || ' ' || state FROM calls", "0 due")
				next, err := b.Next(t.Context(), b.Clock.Now(), time.Minute)
				// What is of the moment is tried again; the rest waits for a person.
				if err != nil || (next.At != nil) != (findings == nil) {
					t.Errorf("next %v, %v", next.At, err)
				}
				broken = false
				if kind == batch.Denied {
					if err := b.Resume(t.Context(), b.Clock.Now(), "account:main", reconcile.PauseDispatch, "anna", "mended"); err != nil {
						t.Fatal(err)
					}
				}
				b.call()
				b.wantCalls(3)
				b.wantFindings()
			})
		})
	}
}

func TestCalledJobWhoseAccountIsGoneWaits(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.sent(2)
		callers := b.r.Callers
		b.r.Callers = nil
		b.wantTally("call", b.call(), reconcile.Tally{Seen: 1, Failed: 1})
		b.wantFindings("account_mismatch")
		b.r.Callers = callers
		b.Clock.Advance(time.Hour)
		b.call()
		b.done()
		b.wantClassified(2)
	})
}

func TestCalledTextThatIsDamaged(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		works := b.sent(3)
		b.change("UPDATE texts SET encrypted = (SELECT encrypted FROM texts WHERE report_id = (SELECT report_id FROM works WHERE work_id = $1)) WHERE report_id = (SELECT report_id FROM works WHERE work_id = $2)", works[0], works[1])
		b.call()
		b.wantCalls(2)
		b.wantFindings("text_unreadable")
		b.done()
		b.wantClassified(2)
		b.want("reason", "SELECT reason FROM review_records WHERE kind = 'unclassified'", "text_unreadable")
	})
}

func TestCallsUntilIdle(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		var refused int
		b.processor(fake.CallerOptions{Hook: func(c fake.Call) (bool, error) {
			if refused++; refused%5 == 0 {
				return false, &batch.Error{Op: "call", Kind: batch.RateLimited}
			}
			return true, nil
		}})
		b.r.Settings.CallRate = reconcile.Rate{Calls: 3, Interval: time.Minute, AtOnce: 1}
		b.reports(20)
		_, err := b.r.RunUntilIdle(t.Context(), reconcile.Passes(), func(ctx context.Context, d time.Duration) error {
			b.Clock.Advance(d)
			return ctx.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		b.wantClassified(20)
		b.wantJobs("consumed")
	})
}

func TestCalledJobIsExplained(t *testing.T) {
	onCallBench(t, fake.CallerOptions{}, func(t *testing.T, b *callBench) {
		b.sent(1)
		history, err := b.ReportHistory(t.Context(), b.Keys.ReportID("acme", "forum", "r1"))
		if err != nil || history.Stage != "submitted" || !strings.HasPrefix(history.Next, "call asks about the texts of job ") {
			t.Errorf("%s, %s, %v", history.Stage, history.Next, err)
		}
		load, err := b.Workload(t.Context(), b.Clock.Now(), time.Minute)
		if err != nil || load.CallsDue != 1 || load.Called != 1 || load.PollsDue != 0 || load.Submitted != 0 {
			t.Errorf("%+v, %v", load, err)
		}
		b.dies(crashpoint.CallClaimed, 1)
		paused, err := b.Pause(t.Context(), b.Clock.Now(), reconcile.Pause{Scope: "all", Stage: reconcile.PauseDispatch, Actor: "anna", Reason: "a test"})
		if err != nil || paused.AtProviderTotal != 1 || paused.AtProvider[0].Items != 1 {
			t.Errorf("%+v, %v", paused, err)
		}
		history, err = b.ReportHistory(t.Context(), b.Keys.ReportID("acme", "forum", "r1"))
		if err != nil || !strings.HasPrefix(history.Next, "waits for an operator: dispatch is paused") {
			t.Errorf("%s, %v", history.Next, err)
		}
		// The process that claimed it died: behind the claim's end nobody calls any more.
		b.Clock.Advance(time.Hour)
		paused, err = b.Pause(t.Context(), b.Clock.Now(), reconcile.Pause{Scope: "all", Stage: reconcile.PauseDispatch, Actor: "anna", Reason: "a test"})
		if err != nil || !paused.Already || paused.AtProviderTotal != 0 {
			t.Errorf("when the claim is over: %+v, %v", paused, err)
		}
	})
}

func TestCallRunsUnderItsLease(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		b := newCallBench(newBench(t, l), fake.CallerOptions{})
		b.sent(2)
		if _, err := b.r.Run(t.Context(), reconcile.PassCall); err != nil {
			t.Fatal(err)
		}
		b.wantJobs("ended")
	})
}
