package reconcile_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// TestLyingCommitsOfLooks loses the COMMIT of each transaction that a look at a
// provider makes, or its answer. Whatever is said, nothing is sent twice.
//
// Without ROLLCALL_TEST_LONG=1 each is lost in one of the two ways, which
// ROLLCALL_TEST_SEED repeats.
func TestLyingCommitsOfLooks(t *testing.T) {
	seed := lieSeed(t)
	t.Logf("ROLLCALL_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, name := range lookTransactions {
		ways := []loss{before, after}
		if os.Getenv("ROLLCALL_TEST_LONG") == "" {
			ways = ways[random.IntN(2):][:1]
		}
		for _, how := range ways {
			word := map[loss]string{before: "not done", after: "done"}[how]
			t.Run(name+", "+word, func(t *testing.T) {
				onFaultyBench(t, func(t *testing.T, b *bench, c *commits) {
					lookStory{name: name, how: how, at: func(address string) string { return address }}.run(t, b, c)
				})
			})
		}
	}
}

// lookTransactions are those that a look at a provider makes.
var lookTransactions = []string{
	"record look", "record probe", "record fence", "record absent", "record accepted", "note surplus", "mark gone", "adopt job", "raise generation",
}

// lookStory is a life of some reports in which a transaction of a look comes up,
// whose COMMIT goes wrong.
type lookStory struct {
	name string
	how  loss
	at   func(address string) string // where a ledger is reached
	opts sql.Options                 // of one that is opened again
}

func (l lookStory) run(t *testing.T, b *bench, c *commits) {
	t.Helper()
	switch l.name {
	case "note surplus", "mark gone":
		l.sweep(t, b, c)
	case "adopt job", "raise generation":
		l.recover(t, b, &commits{lose: map[string]loss{}, instead: c.instead})
	default:
		b.uncertain(2, l.name == "record accepted")
		c.lose[l.name] = l.how
		b.throughLies(t, c, l.name)
		b.wantAllOnce(t, 2)
	}
}

// sweep finds a job that was given up.
func (l lookStory) sweep(t *testing.T, b *bench, c *commits) {
	t.Helper()
	b.uncertain(2, true)
	b.change("UPDATE submissions SET outcome = 'abandoned', evidence = 'an operator', closed_us = 1")
	b.submit()
	c.lose[l.name] = l.how
	for range 6 {
		_, _ = b.r.Sweep(t.Context(), b.Clock.Now()) // the lie may end it
	}
	b.wantLied(t, c, l.name)
	// The file is noted too, unless it went with the job before that.
	b.want("surplus jobs", "SELECT kind FROM surplus_objects WHERE kind = 'job' AND gone_us IS NOT NULL", "job")
	b.want("surplus that is there", "SELECT kind FROM surplus_objects WHERE gone_us IS NULL")
	if b.present(b.fake.Jobs()[0].FileID) {
		t.Error("the file of the job that was given up is still there")
	}
	b.throughLies(t, c, l.name)
	b.want("records", "SELECT COUNT(*) || '' FROM review_records WHERE authoritative = 1", "2")
}

// recover finds jobs that a copy of the ledger does not know.
func (l lookStory) recover(t *testing.T, b *bench, c *commits) {
	t.Helper()
	b.witnessed(filepath.Join(t.TempDir(), "witness"))
	b.reports(3)
	copied := sqltest.Copy(t, b.Address)
	b.collect()
	b.submit()
	n := b.restored(t, copied)
	opts := l.opts
	opts.Commit = c.commit
	n.Ledger = sqltest.Reopen(t, b.Ledger, l.at(copied), opts)
	n.r = n.reconciler(n.Ledger)
	c.lose[l.name] = l.how
	done, err := false, error(nil)
	for i := 0; i < 6 && !done; i++ {
		var out reconcile.Recovery
		out, err = n.r.Recover(t.Context(), n.Clock.Now(), reconcile.RecoverOptions{Actor: "anna", Reason: "a restore"})
		done = err == nil && out.Complete
		if errors.Is(err, reconcile.ErrHeld) { // a lease of which nobody knows expires by itself
			n.Clock.Advance(n.r.LeaseFor)
		}
	}
	if !done {
		t.Fatalf("the recovery does not end: %v", err)
	}
	n.goOn()
	n.throughLies(t, c, l.name)
	n.wantAllOnce(t, 3)
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
