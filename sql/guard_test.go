package sql_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

func TestMain(m *testing.M) { os.Exit(sqltest.Main(m)) }

func TestLeaseHasOneHolder(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		ctx, now := t.Context(), l.Clock.Now()
		first, err := l.AcquireLease(ctx, "pass:poll", "a", now, now.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.AcquireLease(ctx, "pass:poll", "b", now, now.Add(time.Minute)); !errors.Is(err, reconcile.ErrHeld) {
			t.Fatalf("a held lease was given away: %v", err)
		} else if want := "pass:poll is held by a until 2026-03-02T01:01:00Z: another process has the lease"; !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
		if err := l.Resume(reconcile.WithLease(ctx, first), now, "all", "poll", "a", "r"); !errors.Is(err, reconcile.ErrNotFound) {
			t.Fatalf("a write under the lease: %v", err)
		}
		later := now.Add(time.Hour)
		second, err := l.AcquireLease(ctx, "pass:poll", "b", later, later.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if second.Fence <= first.Fence {
			t.Errorf("fence went from %d to %d", first.Fence, second.Fence)
		}
		pause := reconcile.Pause{Scope: "all", Stage: reconcile.PausePoll, Actor: "a", Reason: "r"}
		if _, err := l.Pause(reconcile.WithLease(ctx, first), now, pause); !errors.Is(err, reconcile.ErrLeaseLost) {
			t.Errorf("the old holder wrote: %v", err)
		}
		if got, err := l.Pauses(ctx); err != nil || len(got) != 0 {
			t.Errorf("pauses after a refused write: %v, %v", got, err)
		}
		if err := l.ReleaseLease(ctx, first); err != nil {
			t.Fatal(err)
		}
		if _, err := l.AcquireLease(ctx, "pass:poll", "c", later, later.Add(time.Minute)); !errors.Is(err, reconcile.ErrHeld) {
			t.Errorf("an old holder released the new holder's lease: %v", err)
		}
	})
}

func TestOtherKeyringIsRefused(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		other := sqltest.Open(t, "sqlite")
		if err := l.CreateLedger(t.Context(), l.Clock.Now(), other.Keys); !errors.Is(err, sql.ErrOtherKeyring) {
			t.Errorf("another keyring: %v", err)
		}
		if err := l.VerifyKeyring(t.Context(), l.Keys); err != nil {
			t.Errorf("the ledger's own keyring: %v", err)
		}
	})
}

func TestCommitOfUnknownOutcomeIsReadBack(t *testing.T) {
	lost := errors.New("the connection broke")
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			for name, tc := range map[string]struct {
				before bool // fail before the COMMIT
				want   error
			}{
				"it happened all the same": {false, nil},
				"it did not happen":        {true, reconcile.ErrUnknownCommit},
			} {
				t.Run(name, func(t *testing.T) {
					arm := false
					l := sqltest.OpenWith(t, sqltest.Migrated(t, database), sql.Options{Commit: func(tx string, commit func() error) error {
						if !arm || tx != "pause" {
							return commit()
						}
						if tc.before {
							return lost
						}
						return errors.Join(commit(), lost)
					}})
					arm = true
					_, err := l.Pause(t.Context(), l.Clock.Now(), reconcile.Pause{Scope: "all", Stage: reconcile.PauseApply, Actor: "a", Reason: "r"})
					if !errors.Is(err, tc.want) {
						t.Errorf("error %v, want %v", err, tc.want)
					}
					got, err := l.Pauses(t.Context())
					if err != nil || (len(got) == 1) == tc.before {
						t.Errorf("pauses %v, %v", got, err)
					}
				})
			}
		})
	}
}

// A mislaid database must not become a new ledger.
func TestMissingLedgerIsNotMade(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			address := sqltest.Address(t, database)
			s, err := sql.Open(t.Context(), sql.Options{Address: address})
			if database == "sqlite" {
				if !errors.Is(err, sql.ErrNoLedger) {
					t.Fatalf("open a file that is not there: %v", err)
				}
				if _, err := os.Stat(address); err == nil {
					t.Error("the file was made")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			keys, err := keyring.Generate()
			if err != nil {
				t.Fatal(err)
			}
			if err := s.VerifyKeyring(t.Context(), keys); !errors.Is(err, sql.ErrNoLedger) {
				t.Errorf("a database without a ledger: %v", err)
			}
		})
	}
}

// Who resumes an account has answered why it was paused: nothing is left that
// waits for a decision.
func TestResumeResolvesWhatPausedTheAccount(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		ctx, now := t.Context(), l.Clock.Now()
		event := func(name, subject string) reconcile.Event {
			return reconcile.Event{Name: name, Subject: subject, Severity: reconcile.Critical}
		}
		for _, e := range []reconcile.Event{
			event("account_denied", "account:a"), event("out_of_credit", "account:a"),
			event("account_denied", "account:b"), event("job_vanished", "account:a"),
		} {
			if err := l.OpenFinding(ctx, now, e); err != nil {
				t.Fatal(err)
			}
		}
		r := openRaw(t, l.Address)
		for _, stage := range []string{"dispatch", "poll"} {
			r.insert("pauses", row{"pause_id": stage, "scope": "account:a", "stage": stage})
		}
		if err := l.Resume(ctx, now, "account:a", reconcile.PausePoll, "anna", "another stage"); err != nil {
			t.Fatal(err)
		}
		if open := findings(t, l, true); len(open) != 4 {
			t.Fatalf("the brake still holds, and open is only %+v", open)
		}
		later := now.Add(time.Minute)
		if err := l.Resume(ctx, later, "account:a", reconcile.PauseDispatch, "anna", "key mended"); err != nil {
			t.Fatal(err)
		}
		for _, f := range findings(t, l, false) {
			answered := f.Subject == "account:a" && f.Name != "job_vanished"
			if (f.ResolvedAt != nil) != answered {
				t.Errorf("%s of %s: resolved at %v", f.Name, f.Subject, f.ResolvedAt)
			}
			if answered && (f.ResolvedBy != "anna" || f.Resolution != "key mended" || !f.ResolvedAt.Equal(later)) {
				t.Errorf("%s: by %q with %q at %v", f.Name, f.ResolvedBy, f.Resolution, f.ResolvedAt)
			}
		}
		if got := r.lines(`SELECT subject || ' ' || detail FROM audit_events WHERE kind = 'finding_resolve' ORDER BY seq`); !slices.Equal(got,
			[]string{"account:a account_denied by anna: key mended", "account:a out_of_credit by anna: key mended"}) {
			t.Errorf("audit: %q", got)
		}
		if err := l.Resume(ctx, later, "account:a", reconcile.PauseDispatch, "anna", "again"); !errors.Is(err, reconcile.ErrNotFound) {
			t.Errorf("resumed again: %v", err)
		}
	})
}

// F47: who ends a drill does not let a ledger send that was put back meanwhile.
func TestPauseThatTakesThePlaceOfAnother(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		ctx, now := t.Context(), l.Clock.Now()
		drill := reconcile.Pause{Scope: reconcile.ScopeAll, Stage: reconcile.PauseDispatch, Actor: "anna", Reason: "a drill"}
		rewound := reconcile.Pause{Scope: reconcile.ScopeAll, Stage: reconcile.PauseDispatch, Actor: "rollcall", Reason: "ledger_rewound", TakesPlace: true}
		for i, p := range []reconcile.Pause{drill, rewound, rewound, drill} {
			paused, err := l.Pause(ctx, now, p)
			if err != nil {
				t.Fatal(err)
			}
			if want := i > 1; paused.Already != want {
				t.Errorf("pause %d: already %v", i, paused.Already)
			}
		}
		all, err := l.Pauses(ctx)
		if err != nil || len(all) != 1 || all[0].Reason != "ledger_rewound" || all[0].Actor != "rollcall" {
			t.Errorf("pauses %+v, %v", all, err)
		}
	})
}

func TestF48_WriteProbe(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			full := errors.New("no space left on device")
			var fail bool
			l := sqltest.OpenWith(t, sqltest.Migrated(t, database), sql.Options{Commit: func(_ string, commit func() error) error {
				if fail {
					return full
				}
				return commit()
			}})
			for range 2 { // the first one makes its row
				if err := l.CheckWrite(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			fail = true
			if err := l.CheckWrite(t.Context()); !errors.Is(err, full) {
				t.Errorf("a commit that fails: %v", err)
			}
			if err := l.TryWrite(t.Context()); err != nil {
				t.Errorf("without a commit: %v", err)
			}
		})
	}
}
