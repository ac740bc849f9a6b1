package sql_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/reconcile"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// meeting is two transactions that touch the same rows, each of another
// process. Of every pair both orders are told, unless its sides are alike.
//
// On PostgreSQL the first one stands before its COMMIT when the second comes,
// and goes on once the server itself says that the second waits for it. SQLite
// lets in one writer at a time, so there the second simply comes later.
type meeting struct {
	first, second func(q *planner) error
	// waits is what the statement reads at which the second waits for the first;
	// "" is for a second that may not wait at all.
	waits string
	// refused is the second one's answer, nil for success.
	refused error
	// then looks at what the two have left.
	then func()
}

// meetings lets transactions meet on each database, every meeting in a ledger
// that holds nothing but what it prepares. No invariant may be broken in what
// it leaves.
func meetings(t *testing.T, all map[string]func(p *planner) meeting) {
	t.Helper()
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		shared, two := openRaw(t, l.Address), openTwo(t, l)
		for name, prepare := range all {
			t.Run(name, func(t *testing.T) {
				p := emptied(t, l, shared)
				m := prepare(p)
				first, second := two.meet(p, m)
				if first != nil {
					t.Fatalf("the first: %v", first)
				}
				if !errors.Is(second, m.refused) {
					t.Fatalf("the second: %v, want %v", second, m.refused)
				}
				m.then()
				if broken := offences(t, p.Ledger); len(broken) > 0 {
					t.Errorf("broken invariants: %v", broken)
				}
			})
		}
	})
}

// emptied is a planner in a ledger that an earlier meeting has used: to make
// another database takes longer than all that happens in it.
func emptied(t *testing.T, l *sqltest.Ledger, shared raw) *planner {
	t.Helper()
	shared.t = t
	for _, rows := range []string{"policy_decisions", "slots", "schedules", "leases WHERE name NOT LIKE 'gate:%'"} {
		shared.exec("DELETE FROM " + rows)
	}
	shared.clear()
	l.Clock.Advance(-l.Clock.Uptime())
	return &planner{Ledger: l, raw: shared, policy: l.Approve(t, sqltest.Policy("p", 1))}
}

// twoProcesses are two processes on a test's ledger, known to the server as first and second.
type twoProcesses struct {
	first, second *sql.Store
	commit        func(commit func() error) error // of the first
}

func openTwo(t *testing.T, l *sqltest.Ledger) *twoProcesses {
	t.Helper()
	two := &twoProcesses{commit: func(commit func() error) error { return commit() }}
	open := func(name string, commit func(string, func() error) error) *sql.Store {
		address := l.Address
		if strings.HasPrefix(address, "postgres://") {
			u, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			set := u.Query()
			set.Set("application_name", name)
			u.RawQuery = set.Encode()
			address = u.String()
		}
		s, err := sql.Open(t.Context(), sql.Options{Address: address, Actor: name, Now: l.Clock.Now, Commit: commit})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	two.first = open("first", func(_ string, commit func() error) error { return two.commit(commit) })
	two.second = open("second", nil)
	return two
}

// as is the planner in another process.
func (p *planner) as(s *sql.Store) *planner {
	l, q := *p.Ledger, *p
	l.Store, q.Ledger = s, &l
	return &q
}

// meet runs both sides of a meeting and returns what they were answered.
func (two *twoProcesses) meet(p *planner, m meeting) (first, second error) {
	p.t.Helper()
	if !p.postgres {
		first = m.first(p.as(two.first))
		return first, m.second(p.as(two.second))
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	reached, release := make(chan struct{}), make(chan struct{})
	reach, goOn := sync.OnceFunc(func() { close(reached) }), sync.OnceFunc(func() { close(release) })
	two.commit = func(commit func() error) error {
		reach()
		<-release
		return commit()
	}
	var sides sync.WaitGroup
	defer sides.Wait()
	defer goOn()
	firstDone, secondDone := make(chan error, 1), make(chan error, 1)
	sides.Go(func() { firstDone <- m.first(p.as(two.first)) })
	select {
	case <-reached:
	case err := <-firstDone:
		p.t.Fatalf("the first did not come to its COMMIT: %v", err)
	}
	sides.Go(func() { secondDone <- m.second(p.as(two.second)) })
	if m.waits == "" {
		second = p.awaitFree(ctx, secondDone)
		goOn()
		return <-firstDone, second
	}
	if at := p.awaitBlocked(ctx, secondDone); !strings.Contains(at, m.waits) {
		p.t.Fatalf("the second waits at %q, not at %q", at, m.waits)
	}
	goOn()
	return <-firstDone, <-secondDone
}

// awaitFree returns what the second was answered while the first still stands
// before its COMMIT.
func (p *planner) awaitFree(ctx context.Context, secondDone <-chan error) (second error) {
	p.t.Helper()
	select {
	case second = <-secondDone:
	case <-ctx.Done():
		p.t.Fatal("the second waits for the first")
	}
	return second
}

const blockedSQL = `SELECT s.query FROM pg_stat_activity AS s
WHERE s.datname = current_database() AND s.application_name = 'second' AND EXISTS (SELECT 1 FROM pg_stat_activity AS f
  WHERE f.datname = s.datname AND f.application_name = 'first' AND f.pid = ANY (pg_blocking_pids(s.pid)))`

// awaitBlocked returns when the server says that the second is blocked by the
// first, with the statement at which it is.
func (p *planner) awaitBlocked(ctx context.Context, secondDone <-chan error) (statement string) {
	p.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if len(p.strings(blockedSQL)) > 0 {
			// Read again: the first time it may still have been on its way there,
			// since the server reads the statement before it looks for locks.
			return strings.Join(p.strings(blockedSQL), "; ")
		}
		select {
		case err := <-secondDone:
			p.t.Fatalf("the second did not wait for the first: %v", err)
		case <-ctx.Done():
			p.t.Fatal("the second neither waits for the first nor ends")
		case <-tick.C:
		}
	}
}

// delivery is a revision of a report under the planner's policy.
func (p *planner) delivery(id string, revision int64) reconcile.Delivery {
	p.t.Helper()
	return delivered(p.t, p.Keys, p.policy, id, revision, fmt.Sprint("text ", revision))
}

// takeIn is the side of a meeting that takes a delivery in.
func takeIn(d reconcile.Delivery) func(q *planner) error {
	return func(q *planner) error {
		_, err := q.AcceptReports(q.t.Context(), q.Clock.Now(), []reconcile.Delivery{d})
		return err
	}
}

// applyAll applies until nothing is extracted any more.
func (p *planner) applyAll() {
	p.t.Helper()
	for {
		chunk, err := p.ApplyExtracted(p.t.Context(), p.Clock.Now(), 100, reconcile.Authority)
		p.must(err)
		if chunk.Seen == 0 {
			return
		}
	}
}

// want compares a column of a query with a printed list.
func (p *planner) want(want, query string) {
	p.t.Helper()
	if got := p.strings(query); fmt.Sprint(got) != want {
		p.t.Errorf("%v, want %s, from %s", got, want, query)
	}
}

func (p *planner) must(errs ...error) {
	p.t.Helper()
	if err := errors.Join(errs...); err != nil {
		p.t.Fatal(err)
	}
}
