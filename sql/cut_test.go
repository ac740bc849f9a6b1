package sql_test

import (
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// cutSlack is how much longer than its limits a call may take, on a machine that
// is busy.
const cutSlack = 30 * time.Second

// cutOptions are those of a store whose connection is cut. Where nothing comes any
// more its own limits end a call, so they are short there.
func cutOptions(f sqltest.Fault) sql.Options {
	o := sql.Options{TransactionLimit: 30 * time.Second, ReadLimit: 30 * time.Second, CutAfter: 100 * time.Millisecond}
	if f == sqltest.FaultStall || f == sqltest.FaultTrickle {
		o.TransactionLimit, o.ReadLimit = 2*time.Second, 2*time.Second
	}
	return o
}

// cutLedger is a ledger over connections that can be cut, and another process's
// way to it that cannot.
type cutLedger struct {
	*sqltest.Ledger
	relay *sqltest.Relay
	opts  sql.Options
	other *sql.Store

	mu   sync.Mutex
	told []string // tokens of what certainly was committed
}

// cutter is a relay to the server of an address.
func cutter(t *testing.T, address string) *sqltest.Relay {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return sqltest.NewCutter(t, u.Host, sqltest.Postgres)
}

func newCutLedger(t *testing.T, f sqltest.Fault) *cutLedger {
	t.Helper()
	address := sqltest.Migrated(t, "postgres")
	c := &cutLedger{relay: cutter(t, address), opts: cutOptions(f)}
	c.opts.Committed = func(token string, _ int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.told = append(c.told, token)
	}
	c.Ledger = sqltest.OpenWith(t, through(t, address, c.relay.HostPort()), c.opts)
	c.other = open(t, sql.Options{Address: address})
	return c
}

// bounded runs a call that has to end, whatever happens to its connection.
func bounded(t *testing.T, o sql.Options, call func() error) error {
	t.Helper()
	began := time.Now()
	err := within(t, 2*time.Minute, call)
	if took := time.Since(began); took > o.TransactionLimit+o.CutAfter+cutSlack {
		t.Errorf("a call took %s", took)
	}
	return err
}

func (c *cutLedger) paused(t *testing.T, scope string) bool {
	t.Helper()
	pauses, err := c.other.Pauses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pauses {
		if p.Scope == scope {
			return true
		}
	}
	return false
}

// cutRun is one cut of one request of a write.
type cutRun struct {
	nth   int // request from the BEGIN on, which is 1; 0 for the COMMIT
	place sqltest.Place
	fault sqltest.Fault
	at    float64
}

func (r cutRun) String() string {
	return fmt.Sprintf("%d %s, %s, %.2f", r.nth, r.place, r.fault, r.at)
}

// cut is the run's cut. The relay asks it about each request once.
func (r cutRun) cut() *sqltest.Cut {
	seen := 0
	return &sqltest.Cut{Place: r.place, Fault: r.fault, At: r.at, Request: func(b []byte) bool {
		seen++
		return seen == r.nth || r.nth == 0 && sqltest.IsQuery(b, "COMMIT")
	}}
}

// arrives says whether the server gets the whole request, as far as that is
// certain.
func (r cutRun) arrives() (arrives, certain bool) {
	switch r.place {
	case sqltest.BeforeRequest, sqltest.InHead, sqltest.InBody:
		return r.fault == sqltest.FaultSlow, r.fault != sqltest.FaultTrickle
	case sqltest.BehindRequest:
		return true, r.fault != sqltest.FaultClose && r.fault != sqltest.FaultReset && r.fault != sqltest.FaultTrickle
	}
	return true, true
}

// TestF46CutAtCommit cuts the connection before, within and behind a COMMIT and
// its answer, in every way. What is said to be done is there, what is there is
// not said to be undone, and a call and the ones behind it end in time.
func TestF46CutAtCommit(t *testing.T) {
	random := sqltest.Seeded(t)
	var runs []cutRun
	for _, p := range sqltest.Places() {
		for _, f := range sqltest.Faults() {
			runs = append(runs, cutRun{0, p, f, random.Float64()})
		}
	}
	var strikes sqltest.Strikes
	t.Run("runs", func(t *testing.T) {
		for _, run := range sqltest.Sample(t, random, runs, 3, telling) {
			t.Run(run.String(), func(t *testing.T) {
				t.Parallel()
				c := newCutLedger(t, run.fault)
				cut := run.cut()
				c.relay.Cut(cut)
				err := bounded(t, c.opts, func() error { return pauseNow(t, c.Store, "all") })
				if !cut.Struck() {
					t.Fatal("the connection was not cut")
				}
				strikes.Add(run.place, run.fault)
				c.judge(t, run, err)
				c.goesOn(t)
			})
		}
	})
	strikes.Complete(t)
}

// telling says whether a run is in every sample: a COMMIT that never arrives, one
// whose answer does not, and a connection that falls silent unnoticed.
func telling(r cutRun) bool {
	switch r.place {
	case sqltest.BeforeRequest:
		return r.fault == sqltest.FaultReset
	case sqltest.BeforeAnswer:
		return r.fault == sqltest.FaultClose
	case sqltest.BehindAnswer:
		return r.fault == sqltest.FaultStall
	}
	return false
}

// judge compares what a write whose COMMIT was cut says with what is there.
func (c *cutLedger) judge(t *testing.T, run cutRun, err error) {
	t.Helper()
	arrives, certain := run.arrives()
	if err == nil && !c.paused(t, "all") {
		t.Error("it is said to be done and is not there")
	}
	if err != nil && !errors.Is(err, reconcile.ErrUnknownCommit) {
		t.Errorf("a COMMIT that nobody refused gave %v", err)
	}
	if certain && c.paused(t, "all") != arrives {
		t.Errorf("it is there: %v, want %v; %v", !arrives, arrives, err)
	}
	// A new connection tells, unless all the time was spent in waiting.
	if readable := run.fault == sqltest.FaultClose || run.fault == sqltest.FaultReset || run.fault == sqltest.FaultSlow; certain && arrives && readable && err != nil {
		t.Errorf("it is there, and could be found: %v", err)
	}
	missing, err := c.other.MissingTokens(t.Context(), c.told)
	if err != nil || len(missing) > 0 {
		t.Errorf("told as certain and not there: %q, %v", missing, err)
	}
}

// goesOn holds that a reader, a writer and another process can go on: no
// connection of the pool and no lock holds them up for ever.
func (c *cutLedger) goesOn(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	read := func() error { _, err := c.Pauses(ctx); return err }
	if bounded(t, c.opts, read) != nil {
		if err := bounded(t, c.opts, read); err != nil {
			t.Errorf("reading: %v", err)
		}
	}
	if err := bounded(t, c.opts, func() error { return pauseNow(t, c.other, "account:b") }); err != nil {
		t.Errorf("the other process: %v", err)
	}
	err := bounded(t, c.opts, func() error { return pauseNow(t, c.Store, "account:a") })
	if errors.Is(err, reconcile.ErrUnknownCommit) {
		t.Errorf("a transaction that was not begun: %v", err)
	}
	if err != nil {
		err = bounded(t, c.opts, func() error { return pauseNow(t, c.Store, "account:a") })
	}
	if err != nil || !c.paused(t, "account:a") {
		t.Errorf("writing: %v", err)
	}
}

// TestF46CutAnywhereInAWrite cuts each request of a write. An error that does
// not call the outcome unknown is proof that nothing was done.
func TestF46CutAnywhereInAWrite(t *testing.T) {
	random := sqltest.Seeded(t)
	var runs []cutRun
	requests := requestsOfAWrite(t)
	for nth := 1; nth <= requests; nth++ {
		for _, p := range sqltest.Places() {
			runs = append(runs, cutRun{nth, p, sqltest.Faults()[random.IntN(len(sqltest.Faults()))], random.Float64()})
		}
	}
	for _, run := range sqltest.Sample(t, random, runs, 6, nil) {
		t.Run(run.String(), func(t *testing.T) {
			t.Parallel()
			c := newCutLedger(t, run.fault)
			c.relay.Cut(run.cut())
			err := bounded(t, c.opts, func() error { return pauseNow(t, c.Store, "all") })
			if err == nil && !c.paused(t, "all") {
				t.Error("it is said to be done and is not there")
			}
			c.relay.CloseAll() // as keep-alive does in the end: the cut may be in the middle of a statement
			c.goesOn(t)
			if err != nil && !errors.Is(err, reconcile.ErrUnknownCommit) && c.paused(t, "all") {
				t.Errorf("it is there, and was called undone: %v", err)
			}
		})
	}
}

// TestF46CutAtCommitsThatNoPassMakes cuts the transactions that are in no story of
// the passes. Each can simply be done again.
func TestF46CutAtCommitsThatNoPassMakes(t *testing.T) {
	random := sqltest.Seeded(t)
	type named struct {
		name string
		cutRun
	}
	var runs []named
	for _, name := range []string{"create ledger", "keep lease", "write probe"} {
		for _, p := range sqltest.Places() {
			for _, f := range sqltest.Faults() {
				runs = append(runs, named{name, cutRun{0, p, f, random.Float64()}})
			}
		}
	}
	for _, run := range sqltest.Sample(t, random, runs, 3, nil) {
		t.Run(run.name+" "+run.String(), func(t *testing.T) {
			t.Parallel()
			address := sqltest.Migrated(t, "postgres")
			relay := cutter(t, address)
			opts := cutOptions(run.fault)
			opts.Address = through(t, address, relay.HostPort())
			again, right := outsideOfPasses(t, run.name, address, open(t, opts))
			cut := run.cut()
			relay.Cut(cut)
			err := errors.New("not tried")
			for i := 0; i < 3 && err != nil; i++ {
				err = bounded(t, opts, again)
			}
			if err != nil || !cut.Struck() {
				t.Errorf("%v, the connection was cut: %v", err, cut.Struck())
			}
			if err := right(); err != nil {
				t.Errorf("to another process: %v", err)
			}
		})
	}
}

// outsideOfPasses is a transaction over a store, and what another process sees of it.
func outsideOfPasses(t *testing.T, name, address string, s *sql.Store) (again, right func() error) {
	t.Helper()
	ctx := t.Context()
	if name == "create ledger" {
		keys, err := keyring.Generate()
		if err != nil {
			t.Fatal(err)
		}
		other := open(t, sql.Options{Address: address})
		return func() error { return s.CreateLedger(ctx, sqltest.Start, keys) }, func() error { return other.VerifyKeyring(ctx, keys) }
	}
	l := sqltest.OpenWith(t, address, sql.Options{})
	if name == "write probe" {
		return func() error { return s.CheckWrite(ctx) }, func() error { return l.CheckWrite(ctx) }
	}
	lease, err := l.AcquireLease(ctx, "pass:submit", "test", sqltest.Start, sqltest.Start.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	lease.Clock = func() time.Time { return sqltest.Start }
	return func() error { return s.KeepLease(ctx, lease) }, func() error { return l.KeepLease(ctx, lease) }
}

// requestsOfAWrite counts the messages of a write; the last one is its COMMIT.
func requestsOfAWrite(t *testing.T) (n int) {
	t.Helper()
	c := newCutLedger(t, sqltest.FaultSlow)
	var last bool
	c.relay.Cut(&sqltest.Cut{Request: func(b []byte) bool {
		n++
		last = sqltest.IsQuery(b, "COMMIT")
		return false
	}})
	if err := pauseNow(t, c.Store, "all"); err != nil {
		t.Fatal(err)
	}
	c.relay.Cut(nil)
	if n < 10 || !last {
		t.Fatalf("%d requests, the last one is the COMMIT: %v", n, last)
	}
	return n
}

// TestF46SilentServerDoesNotHoldAReader: nobody cancels these calls, and nobody
// answers them.
func TestF46SilentServerDoesNotHoldAReader(t *testing.T) {
	ctx := t.Context()
	for name, call := range map[string]func(s *sql.Store) error{
		"read":      func(s *sql.Store) error { _, err := s.Pauses(ctx); return err },
		"snapshot":  func(s *sql.Store) error { _, _, err := s.CallRoll(ctx, nil, 1); return err },
		"clock":     func(s *sql.Store) error { _, err := s.Now(ctx); return err },
		"self-test": func(s *sql.Store) error { return s.SelfTest(ctx) },
		"schema":    func(s *sql.Store) error { return s.CheckSchema(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, relay := behindRelay(t, sql.Options{ReadLimit: 500 * time.Millisecond, CutAfter: 50 * time.Millisecond})
			relay.Freeze()
			if err := within(t, time.Minute, func() error { return call(l.Store) }); err == nil {
				t.Error("a server that does not answer was read")
			}
		})
	}
}
