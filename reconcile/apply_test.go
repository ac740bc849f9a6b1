package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// consumed delivers a revision of a report and brings its result to extracted.
func (x *resultTest) consumed(n int, revision int64, label string) {
	x.t.Helper()
	x.deliver(n, revision)
	w := x.work(n, revision)
	j := x.send(w)
	x.end(j, []string{j.answered(w, label)}, nil)
	x.consume(oneDone)
}

func TestF42_OldResultAfterAnEdit(t *testing.T) {
	for _, tc := range []struct {
		rule  reconcile.AuthorityRule
		early []string // while the newer revision is still being extracted
	}{
		{reconcile.HighestAccepted, []string{"1 spam"}},
		{reconcile.HighestApplied, []string{"1 spam *"}},
	} {
		t.Run(string(tc.rule), func(t *testing.T) {
			sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
				x := newResultTest(t, l, func(p *reconcile.Policy) { p.Authority = tc.rule })
				x.deliver(0, 1)
				old := x.send(x.work(0, 1))
				x.deliver(0, 2) // the edit
				x.end(old, old.answers([]string{x.work(0, 1)}), nil)
				x.consume(oneDone)
				x.apply(moved(1))
				x.records(0, tc.early...)

				newer := x.send(x.work(0, 2))
				x.end(newer, []string{newer.answered(x.work(0, 2), "harassment")}, nil)
				x.consume(oneDone)
				x.apply(moved(1))
				x.records(0, "1 spam", "2 harassment *")
				x.apply(nothing)
				x.sound()
			})
		})
	}
}

func TestF42_OldResultAfterTheNewOne(t *testing.T) {
	for _, rule := range []reconcile.AuthorityRule{reconcile.HighestAccepted, reconcile.HighestApplied} {
		t.Run(string(rule), func(t *testing.T) {
			sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
				x := newResultTest(t, l, func(p *reconcile.Policy) { p.Authority = rule })
				x.deliver(0, 1)
				old := x.send(x.work(0, 1))
				x.consumed(0, 2, "harassment")
				x.apply(moved(1))
				x.end(old, old.answers([]string{x.work(0, 1)}), nil)
				x.consume(oneDone)
				x.apply(moved(1))
				x.records(0, "1 spam", "2 harassment *")
				x.sound()
			})
		})
	}
}

// Several revisions of one report wait at once: authority passes through them
// upwards, each in a transaction of its own.
func TestF42_SeveralRevisionsAtOnce(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		x := newResultTest(t, l, func(p *reconcile.Policy) { p.Authority = reconcile.HighestApplied })
		for revision := range int64(4) {
			x.consumed(0, revision+1, "spam")
			x.Clock.Advance(-time.Minute) // the newest works look oldest
		}
		x.apply(moved(4))
		x.records(0, "1 spam", "2 spam", "3 spam", "4 spam *")
		if got := x.strings("SELECT decision FROM processed_markers"); strings.Join(got, " ") != "authoritative authoritative authoritative authoritative" {
			t.Errorf("markers: %v", got)
		}
		x.sound()
	})
}

func TestHumanDecisionStands(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		x.consumed(0, 1, "spam")
		x.apply(moved(1))
		x.exec("UPDATE review_records SET human_state = 'decided'")
		x.consumed(0, 2, "harassment")
		x.apply(moved(1))
		x.records(0, "1 spam *", "2 harassment")
		x.events("edited_after_decision report:" + x.report(0) + ": the newer revision's result is history")
	})
}

func TestAuthorityGoesFromAWithdrawnWorkToTheLiveOne(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		x.consumed(0, 1, "spam")
		x.apply(moved(1))
		x.exec("UPDATE works SET disposition = 'withdrawn'")
		second := x.Approve(t, sqltest.Policy("forum", 2))
		id := x.Keys.WorkID(x.report(0), 1, "forum", 2)
		x.exec(`INSERT INTO works (work_id, tenant_id, report_id, revision, policy_id, policy_version, boundary_id, disposition, stage, reason, urgent,
			content_bytes, created_us, eligible_us, due_us)
			SELECT $1, tenant_id, report_id, revision, policy_id, 2, $2, 'live', 'extracted', 'too_large', urgent, content_bytes, created_us, eligible_us, due_us
			FROM works`, id, second.BoundaryID)
		x.apply(moved(1))
		if got := x.strings("SELECT work_id FROM review_records WHERE authoritative = 1"); len(got) != 1 || got[0] != id {
			t.Errorf("authoritative: %v", got)
		}
	})
}

func TestLateResultIsKeptAndNotApplied(t *testing.T) {
	for _, applied := range []bool{true, false} { // the overdue record stands, or only its reason
		t.Run(map[bool]string{true: "recorded", false: "closed"}[applied], func(t *testing.T) {
			variantResults(t, applied, func(x *resultTest) {
				j, works := x.prepare(2)
				x.Clock.Advance(x.policy.Review.Due() + time.Minute)
				_, err := x.CloseOverdue(t.Context(), x.Clock.Now(), 10)
				x.must(err)
				x.works(works, "extracted overdue", "extracted overdue")
				if applied {
					x.apply(moved(2))
				}
				x.end(j, []string{j.answered(works[0], "spam")}, []string{j.failed(works[1], batch.Expired, "batch_expired")})
				x.consume(oneDone)
				x.items(j, "succeeded", "expired batch_expired")
				x.events("late_result report:" + x.report(0) + ": job job1")
				if applied {
					x.apply(nothing)
				} else {
					x.apply(moved(2))
				}
				x.records(0, "1 overdue *")
				x.records(1, "1 overdue *")
				if got := x.strings("SELECT work_id FROM artifacts"); len(got) != 1 || got[0] != works[0] {
					t.Errorf("artifacts: %v", got)
				}
			})
		})
	}
}

func TestF39_ApplyNeedsNoProvider(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		x.consumed(0, 1, "spam")
		calls := x.provider.downloads
		x.provider.account.Fingerprint = "gone"
		x.r.Accounts = nil
		x.apply(moved(1))
		x.records(0, "1 spam *")
		if x.provider.downloads != calls {
			t.Error("the provider was asked")
		}
	})
}

func TestF40_ApplyIsAllOrNothingAndRepeatable(t *testing.T) {
	lost := errors.New("the connection broke")
	for name, before := range map[string]bool{"it did not happen": true, "it happened all the same": false} {
		t.Run(name, func(t *testing.T) {
			for _, database := range sqltest.Databases {
				t.Run(database, func(t *testing.T) {
					armed := false
					l := sqltest.OpenWith(t, sqltest.Migrated(t, database), sql.Options{Commit: func(tx string, commit func() error) error {
						if !armed || tx != "apply extracted" {
							return commit()
						}
						armed = false
						if before {
							return lost
						}
						return errors.Join(commit(), lost)
					}})
					x := newResultTest(t, l, nil)
					j, works := x.prepare(4)
					x.end(j, j.answers(works), nil)
					x.consume(oneDone)
					armed = true
					_, err := x.r.Apply(t.Context(), x.Clock.Now())
					if (err != nil) != before || before && !errors.Is(err, reconcile.ErrUnknownCommit) {
						t.Errorf("error %v", err)
					}
					want := nothing
					if before {
						want = moved(4)
					}
					x.apply(want)
					for n := range 4 {
						x.records(n, "1 spam *")
					}
					x.events()
					x.sound()
				})
			}
		})
	}
}

// refusesInserts has the database refuse each new row of a table, until allow.
func refusesInserts(address, table string, exec func(string, ...any)) (allow func()) {
	if !strings.HasPrefix(address, "postgres") {
		exec("CREATE TRIGGER refuse BEFORE INSERT ON " + table + " BEGIN SELECT RAISE(ABORT, 'no'); END")
		return func() { exec("DROP TRIGGER refuse") }
	}
	exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'insufficient_privilege'; END $$")
	exec("CREATE TRIGGER refuse BEFORE INSERT ON " + table + " FOR EACH ROW EXECUTE FUNCTION refuse()")
	return func() { exec("DROP TRIGGER refuse ON " + table) }
}

func TestF41_RefusedRecordIsTriedAgainFromTheLedger(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		x.consumed(0, 1, "spam")
		allow := refusesInserts(x.Address, "review_records", x.exec)
		downloads := x.provider.downloads
		if _, err := x.r.Apply(t.Context(), x.Clock.Now()); err == nil {
			t.Fatal("a refused write was taken for success")
		}
		x.works([]string{x.work(0, 1)}, "extracted")
		x.events("apply_failed pass:apply: see the log of the pass")
		allow()
		x.apply(moved(1))
		x.records(0, "1 spam *")
		if x.provider.downloads != downloads {
			t.Error("extraction was repeated")
		}
	})
}

func TestPauseOfApply(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		x.consumed(0, 1, "spam")
		pause := reconcile.Pause{Scope: reconcile.ScopeAll, Stage: reconcile.PauseApply, Actor: "anna", Reason: "r"}
		_, err := x.Pause(t.Context(), x.Clock.Now(), pause)
		x.must(err)
		x.apply(nothing)
		if !strings.Contains(x.logs.String(), `"pass":"apply","message":"paused"`) {
			t.Error("the log says nothing of the pause")
		}
		x.events()
		x.records(0)
		x.must(x.Resume(t.Context(), x.Clock.Now(), pause.Scope, pause.Stage, "anna", "r"))
		x.apply(moved(1))
	})
}

// A work that lacks what its stage promises is left to the invariants, and
// holds up no other.
func TestBrokenWorkHoldsUpNoOther(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		x := newResultTest(t, l, nil)
		x.r.Settings.Chunk = 1
		x.deliver(0, 1)
		x.exec("UPDATE works SET stage = 'extracted'")
		x.Clock.Advance(time.Minute)
		x.consumed(1, 1, "spam")
		x.apply(moved(1))
		x.records(0)
		x.records(1, "1 spam *")
	})
}

func TestF30_TwoStagersOfOneSet(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(2)
		x.end(j, j.answers(works), nil)
		ctx, now := t.Context(), x.Clock.Now()
		line := func(n int64, work string) reconcile.ResultLine {
			return reconcile.ResultLine{Line: n, WorkID: work, LineMAC: "m", Outcome: reconcile.ItemRefused, Disposition: reconcile.LineStaged}
		}
		whole := reconcile.WholeSet{JobID: j.id, Channel: batch.ChannelOutput, Lines: 2, Bytes: 2, MAC: "m"}
		x.must(x.StageLines(ctx, j.id, batch.ChannelOutput, []reconcile.ResultLine{line(1, works[0])}))
		if err := x.StageLines(ctx, j.id, batch.ChannelOutput, []reconcile.ResultLine{line(1, works[0])}); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("one line staged twice: %v", err)
		}
		if err := x.FinishResultSet(ctx, now, whole); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("finished with a line missing: %v", err)
		}
		if _, err := x.JudgeItems(ctx, now, j.id, 0, 10, nil); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("judged before the set was whole: %v", err)
		}
		x.must(x.StageLines(ctx, j.id, batch.ChannelOutput, []reconcile.ResultLine{line(2, works[1])}))
		x.must(x.FinishResultSet(ctx, now, whole))
		x.must(x.FinishResultSet(ctx, now, whole)) // after an unknown commit
		for name, err := range map[string]error{
			"stage":            x.StageLines(ctx, j.id, batch.ChannelOutput, []reconcile.ResultLine{line(3, "")}),
			"restart":          x.RestartResultSet(ctx, j.id, batch.ChannelOutput),
			"lose":             x.LoseResultSet(ctx, now, j.id, batch.ChannelOutput),
			"finish otherwise": x.FinishResultSet(ctx, now, reconcile.WholeSet{JobID: j.id, Channel: batch.ChannelOutput, Lines: 1, MAC: "n"}),
			"finish the job":   x.FinishJob(ctx, now, j.id),
		} {
			if !errors.Is(err, reconcile.ErrMoved) {
				t.Errorf("%s, of a whole set: %v", name, err)
			}
		}
		x.consume(oneDone)
		x.items(j, "refused", "refused")
		if err := x.FinishJob(ctx, now, j.id); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("finished twice: %v", err)
		}
	})
}

// meanwhile lets another process consume the job just before a set is finished.
type meanwhile struct {
	reconcile.Store
	other func()
}

func (m *meanwhile) FinishResultSet(ctx context.Context, now time.Time, w reconcile.WholeSet) error {
	m.other()
	return m.Store.FinishResultSet(ctx, now, w)
}

func TestF30_SlowConsumerLeavesTheJobToTheOther(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(7)
		x.end(j, j.answers(works), nil)
		slow := *x.r
		slow.Store = &meanwhile{x.Store, func() {
			x.Clock.Advance(x.r.Settings.ConsumeRetry)
			x.consume(oneDone)
		}}
		got, err := slow.Consume(t.Context(), x.Clock.Now())
		// Its set is whole with the same bytes, so it goes on, and finds the job consumed.
		if err != nil || got != (reconcile.Tally{Seen: 1}) {
			t.Errorf("%+v, %v", got, err)
		}
		x.items(j, repeat("succeeded", 7)...)
		x.lines(j, "accepted 7")
	})
}

func TestLostLeaseEndsThePass(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(1)
		x.end(j, j.answers(works), nil)
		now := x.Clock.Now()
		lease, err := x.AcquireLease(t.Context(), "pass:consume", "a", now, now.Add(time.Minute))
		x.must(err)
		_, err = x.AcquireLease(t.Context(), "pass:consume", "b", now.Add(time.Hour), now.Add(2*time.Hour))
		x.must(err)
		if _, err := x.r.Consume(reconcile.WithLease(t.Context(), lease), now); !errors.Is(err, reconcile.ErrLeaseLost) {
			t.Errorf("%v", err)
		}
		x.items(j, "-")
	})
}
