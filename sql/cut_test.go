package sql_test

import (
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"rollcall/reconcile"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// The times of a store whose connections are cut. A call ends after both.
const (
	cutLimit = time.Second
	cutAfter = 200 * time.Millisecond
	cutSlack = 30 * time.Second // for a machine that is busy
)

// cutLedger is a ledger over connections that can be cut, and another process's
// way to it that cannot.
type cutLedger struct {
	*sqltest.Ledger
	relay *sqltest.Relay
	other *sql.Store

	mu   sync.Mutex
	told []string // tokens of what certainly was committed
}

func newCutLedger(t *testing.T) *cutLedger {
	t.Helper()
	address := sqltest.Migrated(t, "postgres")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c := &cutLedger{relay: sqltest.NewCutter(t, u.Host, sqltest.Postgres)}
	c.Ledger = sqltest.OpenWith(t, through(t, address, c.relay.HostPort()), sql.Options{
		TransactionLimit: cutLimit, CutAfter: cutAfter, ReadLimit: cutLimit,
		Committed: func(token string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.told = append(c.told, token)
		},
	})
	c.other = open(t, sql.Options{Address: address})
	return c
}

// bounded runs a call that has to end, whatever happens to its connection.
func bounded(t *testing.T, call func() error) error {
	t.Helper()
	began := time.Now()
	err := within(t, time.Minute, call)
	if took := time.Since(began); took > cutLimit+cutAfter+cutSlack {
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

// hits counts cuts by place and fault.
type hits struct {
	mu sync.Mutex
	n  map[string]int
}

func (h *hits) add(p sqltest.Place, f sqltest.Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n == nil {
		h.n = map[string]int{}
	}
	h.n[fmt.Sprintf("%s, %s", p, f)]++
}

// complete holds in a long run that each fault has struck in each place.
func (h *hits) complete(t *testing.T) {
	t.Helper()
	if !sqltest.Long() {
		return
	}
	for _, p := range sqltest.Places() {
		for _, f := range sqltest.Faults() {
			n := h.n[fmt.Sprintf("%s, %s", p, f)]
			t.Logf("%s, %s: %d", p, f, n)
			if n == 0 {
				t.Errorf("%s, %s: never struck", p, f)
			}
		}
	}
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
	var struck hits
	t.Run("runs", func(t *testing.T) {
		for _, run := range sqltest.Sample(t, random, runs, 6) {
			t.Run(run.String(), func(t *testing.T) {
				t.Parallel()
				c := newCutLedger(t)
				cut := run.cut()
				c.relay.Cut(cut)
				err := bounded(t, func() error { return pauseNow(t, c.Store, "all") })
				if !cut.Struck() {
					t.Fatal("the connection was not cut")
				}
				struck.add(run.place, run.fault)
				c.judge(t, run, err)
				c.goesOn(t)
			})
		}
	})
	struck.complete(t)
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
	if bounded(t, read) != nil {
		if err := bounded(t, read); err != nil {
			t.Errorf("reading: %v", err)
		}
	}
	if err := bounded(t, func() error { return pauseNow(t, c.other, "account:b") }); err != nil {
		t.Errorf("the other process: %v", err)
	}
	err := bounded(t, func() error { return pauseNow(t, c.Store, "account:a") })
	if errors.Is(err, reconcile.ErrUnknownCommit) {
		t.Errorf("a transaction that was not begun: %v", err)
	}
	if err != nil {
		err = bounded(t, func() error { return pauseNow(t, c.Store, "account:a") })
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
	for _, run := range sqltest.Sample(t, random, runs, 6) {
		t.Run(run.String(), func(t *testing.T) {
			t.Parallel()
			c := newCutLedger(t)
			c.relay.Cut(run.cut())
			err := bounded(t, func() error { return pauseNow(t, c.Store, "all") })
			if err == nil && !c.paused(t, "all") {
				t.Error("it is said to be done and is not there")
			}
			c.goesOn(t)
			if err != nil && !errors.Is(err, reconcile.ErrUnknownCommit) && c.paused(t, "all") {
				t.Errorf("it is there, and was called undone: %v", err)
			}
		})
	}
}

// requestsOfAWrite counts the messages of a write; the last one is its COMMIT.
func requestsOfAWrite(t *testing.T) (n int) {
	t.Helper()
	c := newCutLedger(t)
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
			l, relay := behindRelay(t, sql.Options{ReadLimit: 20 * time.Millisecond, CutAfter: 50 * time.Millisecond})
			relay.Freeze()
			if err := within(t, 30*time.Second, func() error { return call(l.Store) }); err == nil {
				t.Error("a server that does not answer was read")
			}
		})
	}
}
