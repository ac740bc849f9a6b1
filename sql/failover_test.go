package sql_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"rollcall/reconcile"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// pair is a primary and its standby, a ledger over the address of both, and
// eight writers of it.
type pair struct {
	t                *testing.T
	primary, standby *sqltest.Cluster
	ledger           *sqltest.Ledger
	policy           *reconcile.PolicyVersion

	mu        sync.Mutex
	changed   chan struct{} // closed and made anew when a number below grows
	acked     []string      // reports whose intake returned nil
	ambiguous int           // intakes with an unknown outcome
	refused   int           // intakes that certainly failed
	tokens    []string      // of audited transactions that certainly succeeded
}

const writers = 8

func newPair(t *testing.T, synchronous bool) *pair {
	p := &pair{t: t, primary: sqltest.NewCluster(t), changed: make(chan struct{})}
	p.standby = p.primary.Standby(synchronous)
	p.ledger = sqltest.OpenWith(t, through(t, p.primary.URL(), p.primary.HostPort()+","+p.standby.HostPort()), sql.Options{
		TransactionLimit: 10 * time.Second,
		Committed:        func(token string, _ int64) { p.note(func() { p.tokens = append(p.tokens, token) }) },
	})
	p.policy = p.ledger.Approve(t, sqltest.Policy("p", 1))
	return p
}

func (p *pair) note(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

// await waits until a condition on the numbers holds.
func (p *pair) await(what string, holds func() bool) {
	p.t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		p.mu.Lock()
		ok, changed := holds(), p.changed
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-limit:
			p.t.Fatalf("after 2 minutes still not: %s", what)
		}
	}
}

// more waits for this many acknowledged reports from now on.
func (p *pair) more(n int) {
	p.t.Helper()
	p.mu.Lock()
	from := len(p.acked)
	p.mu.Unlock()
	p.await(fmt.Sprintf("%d more reports", n), func() bool { return len(p.acked) >= from+n })
}

// write delivers reports until stop is closed. What is not acknowledged is
// delivered again, as a sender does; an audited transaction goes with each tenth.
func (p *pair) write(writer int, stop <-chan struct{}) {
	for n := 0; ; n++ {
		id := fmt.Sprintf("%d-%d", writer, n)
		d := delivered(p.t, p.ledger.Keys, p.policy, id, 1, "text of "+id)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_, err := p.ledger.AcceptReports(p.t.Context(), sqltest.Start, []reconcile.Delivery{d})
			if err == nil {
				break
			}
			p.note(func() {
				if errors.Is(err, reconcile.ErrUnknownCommit) {
					p.ambiguous++
				} else {
					p.refused++
				}
			})
		}
		p.note(func() { p.acked = append(p.acked, id) })
		if n%10 == 0 {
			_ = pauseNow(p.t, p.ledger.Store, "account:"+id) // what it is told as certain counts
		}
	}
}

// failOver runs the writers while the primary is lost and the standby promoted.
func (p *pair) failOver(before func()) {
	p.t.Helper()
	stop := make(chan struct{})
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() { p.write(w, stop) })
	}
	defer running.Wait()
	defer close(stop)
	p.more(200)
	before()
	p.primary.Crash()
	p.await("a failed write", func() bool { return p.refused+p.ambiguous > 0 })
	p.standby.Promote()
	p.more(200)
}

// lost counts acknowledged reports that the ledger does not have.
func (p *pair) lost(from []string) (n int) {
	p.t.Helper()
	r := openRaw(p.t, p.standby.URL())
	var have []string
	if err := r.db.Select(&have, "SELECT external_id FROM reports"); err != nil {
		p.t.Fatal(err)
	}
	there := map[string]bool{}
	for _, id := range have {
		there[id] = true
	}
	for _, id := range from {
		if !there[id] {
			n++
		}
	}
	return n
}

func (p *pair) missingTokens() int {
	p.t.Helper()
	missing, err := p.ledger.MissingTokens(p.t.Context(), p.tokens)
	if err != nil {
		p.t.Fatal(err)
	}
	return len(missing)
}

// rounds is how often a fail-over is tried: ROLLCALL_TEST_LONG=1 does it often.
func rounds() int {
	if os.Getenv("ROLLCALL_TEST_LONG") != "" {
		return 10
	}
	return 1
}

// TestF46FailoverToSynchronousStandby loses no acknowledged report.
func TestF46FailoverToSynchronousStandby(t *testing.T) {
	for round := range rounds() {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			p := newPair(t, true)
			p.failOver(func() {})
			lost := p.lost(p.acked)
			if lost != 0 {
				t.Errorf("%d of %d acknowledged reports are lost", lost, len(p.acked))
			}
			if n := p.missingTokens(); n != 0 {
				t.Errorf("%d of %d tokens are lost", n, len(p.tokens))
			}
			if timeline, err := p.ledger.Timeline(t.Context()); err != nil || timeline != "00000002" {
				t.Errorf("the timeline is %q, %v", timeline, err)
			}
			t.Logf("%d acknowledged, %d of unknown outcome, %d refused, %d tokens; lost %d reports", len(p.acked), p.ambiguous, p.refused, len(p.tokens), lost)
		})
	}
}

// TestF47FailoverToStaleStandby loses acknowledged reports, and the tokens and
// the timeline tell.
func TestF47FailoverToStaleStandby(t *testing.T) {
	for round := range rounds() {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			p := newPair(t, false)
			var high int64
			p.failOver(func() {
				p.primary.FreezeReplication()
				p.more(200)
				var err error
				if high, err = p.ledger.AuditHigh(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
			lost := p.lost(p.acked)
			missing := p.missingTokens()
			if lost == 0 || missing == 0 {
				t.Errorf("%d reports and %d tokens are lost: the set-up loses nothing", lost, missing)
			}
			t.Logf("%d acknowledged, %d of unknown outcome, %d refused; lost %d reports and %d of %d tokens; audit was at %d",
				len(p.acked), p.ambiguous, p.refused, lost, missing, len(p.tokens), high)
			if timeline, err := p.ledger.Timeline(t.Context()); err != nil || timeline != "00000002" {
				t.Errorf("the timeline is %q, %v", timeline, err)
			}
		})
	}
}
