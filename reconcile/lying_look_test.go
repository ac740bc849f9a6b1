package reconcile_test

import (
	"path/filepath"
	"testing"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// TestLyingCommitsOfLooks loses the COMMIT of each transaction that a look at a
// provider makes, and its answer. Whatever is said, nothing is sent twice.
func TestLyingCommitsOfLooks(t *testing.T) {
	for _, how := range []loss{before, after} {
		word := map[loss]string{before: "not done", after: "done"}[how]
		for _, name := range []string{"record look", "record probe", "record fence", "record absent", "record accepted"} {
			t.Run(name+", "+word, func(t *testing.T) {
				onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
					b.uncertain(2, name == "record accepted")
					c.lose[name] = how
					b.throughLies(t, c, name)
					b.wantAllOnce(t, 2)
				})
			})
		}
		for _, name := range []string{"note surplus", "mark gone"} {
			t.Run(name+", "+word, func(t *testing.T) {
				onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
					b.uncertain(2, true)
					b.change("UPDATE submissions SET outcome = 'abandoned', evidence = 'an operator', closed_us = 1")
					b.submit()
					c.lose[name] = how
					for range 4 {
						_, _ = b.r.Sweep(t.Context(), b.Clock.Now()) // the lie may end it
					}
					b.wantLied(t, c, name)
					b.want("surplus", "SELECT kind FROM surplus_objects WHERE gone_us IS NOT NULL ORDER BY kind", "file", "job")
					b.throughLies(t, c, name)
					b.want("records", "SELECT COUNT(*) || '' FROM review_records WHERE authoritative = 1", "2")
				})
			})
		}
		for _, name := range []string{"adopt job", "raise generation"} {
			t.Run(name+", "+word, func(t *testing.T) {
				onFaultyBench(t, func(t *testing.T, b *bench, _ *commits) {
					b.witnessed(filepath.Join(t.TempDir(), "witness"))
					b.reports(3)
					copied := sqltest.Copy(t, b.Address)
					b.collect()
					b.submit()
					c := &commits{lose: map[string]loss{name: how}}
					n := b.restored(t, copied)
					n.Ledger = sqltest.Reopen(t, b.Ledger, copied, sql.Options{Commit: c.commit})
					n.r = n.reconciler(n.Ledger)
					done := false
					for i := 0; i < 3 && !done; i++ {
						out, err := n.r.Recover(t.Context(), n.Clock.Now(), reconcile.RecoverOptions{Actor: "anna", Reason: "a restore"})
						done = err == nil && out.Complete
					}
					if !done {
						t.Fatal("the recovery does not end")
					}
					n.resumeBoth()
					n.throughLies(t, c, name)
					n.wantAllOnce(t, 3)
				})
			})
		}
	}
}

// throughLies runs until idle, again after each error, and holds that the lie
// was told.
func (b *bench) throughLies(t *testing.T, c *commits, name string) {
	t.Helper()
	var err error
	for range 4 {
		if _, err = b.untilIdle(nil); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	b.wantLied(t, c, name)
}

func (b *bench) wantLied(t *testing.T, c *commits, name string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lose) > 0 {
		t.Errorf("no COMMIT of %q was lost", name)
	}
}

// wantAllOnce holds that each of n reports has its record and is in one job.
func (b *bench) wantAllOnce(t *testing.T, n int) {
	t.Helper()
	if got := len(b.rows("SELECT work_id FROM review_records WHERE authoritative = 1")); got != n {
		t.Errorf("%d records, want %d", got, n)
	}
	in := map[string]int{}
	for _, j := range b.fake.Jobs() {
		if j.Phase == batch.PhaseInvalid {
			continue
		}
		for _, id := range j.CustomIDs {
			in[id[:26]]++
		}
	}
	for work, jobs := range in {
		if jobs != 1 {
			t.Errorf("work %s is in %d jobs", work, jobs)
		}
	}
	if len(in) != n {
		t.Errorf("%d works were sent, want %d", len(in), n)
	}
}
