package reconcile_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// cutRun is one run of the story: the connection is cut at the n-th COMMIT of one
// transaction.
type cutRun struct {
	name  string
	nth   int // 0 for the first one of the story of looks
	place sqltest.Place
	fault sqltest.Fault
	at    float64
}

func (r cutRun) String() string {
	return fmt.Sprintf("%s/%d/%s/%s/%.2f", r.name, r.nth, r.place, r.fault, r.at)
}

// cutPlaces are the places at a COMMIT; of those in one list each run takes one.
var cutPlaces = [][]sqltest.Place{
	{sqltest.BeforeRequest}, {sqltest.InHead, sqltest.InBody}, {sqltest.BehindRequest},
	{sqltest.BeforeAnswer}, {sqltest.InAnswerHead, sqltest.InAnswerBody}, {sqltest.BehindAnswer},
}

// cutRuns are each transaction of the stories with each fault that ends a
// connection in each place, and with each that slows it in one.
func cutRuns(seen map[string]int, random *rand.Rand) []cutRun {
	var runs []cutRun
	all, names := sqltest.Places(), 0
	add := func(name string, nth int) {
		for i, places := range cutPlaces {
			for _, f := range []sqltest.Fault{sqltest.FaultClose, sqltest.FaultReset, sqltest.FaultStall} {
				runs = append(runs, cutRun{name, nth, places[(names+i)%len(places)], f, random.Float64()})
			}
		}
		for i, f := range []sqltest.Fault{sqltest.FaultSlow, sqltest.FaultTrickle} {
			runs = append(runs, cutRun{name, nth, all[(names+i)%len(all)], f, random.Float64()})
		}
		names++
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if !strings.HasPrefix(name, savesBreaches) || name == savesBreaches+"stage_against_facts" { // which stands for all
			add(name, 1+random.IntN(seen[name]))
		}
	}
	for _, name := range lookTransactions {
		add(name, 0)
	}
	return runs
}

// cutOptions are those of the story's store. Where nothing comes any more its own
// limits end a call, so they are short there, and yet long enough for every other
// transaction on a machine that is busy.
func cutOptions(f sqltest.Fault) sql.Options {
	if f == sqltest.FaultStall || f == sqltest.FaultTrickle {
		return sql.Options{TransactionLimit: 5 * time.Second, ReadLimit: 5 * time.Second, CutAfter: 50 * time.Millisecond}
	}
	return sql.Options{}
}

// cutStory is how long a story takes in which no call waits for ever, many times.
const cutStory = 5 * time.Minute

// TestF46_CutsAtEveryCommit runs the stories of TestLyingCommits and of
// TestLyingCommitsOfLooks over connections to PostgreSQL one of which is cut at a
// COMMIT: closed, reset, silent or slow, before, within or behind the COMMIT or
// its answer. No report is lost, nothing is sent twice, and every call ends.
//
// It takes minutes, so it runs with ROLLCALL_TEST_LONG=1 only; each kind of cut at
// a COMMIT is in the normal run of package sql.
func TestF46_CutsAtEveryCommit(t *testing.T) {
	if os.Getenv("ROLLCALL_TEST_LONG") == "" {
		t.Skip("it takes minutes, and runs with ROLLCALL_TEST_LONG=1")
	}
	seen := honestCommits(t)
	random := sqltest.Seeded(t)
	var strikes sqltest.Strikes
	t.Run("postgres", func(t *testing.T) {
		for _, run := range sqltest.Sample(t, random, cutRuns(seen, random), 5, nil) {
			t.Run(run.String(), func(t *testing.T) {
				t.Parallel()
				cutAtCommit(t, run)
				strikes.Add(run.place, run.fault)
			})
		}
	})
	strikes.Complete(t)
}

func cutAtCommit(t *testing.T, run cutRun) {
	t.Helper()
	address := sqltest.Migrated(t, "postgres")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	relay := sqltest.NewCutter(t, u.Host, sqltest.Postgres)
	through := func(address string) string { return strings.Replace(address, relay.To(), relay.HostPort(), 1) }
	cut := &sqltest.Cut{Place: run.place, Fault: run.fault, At: run.at, Request: func(b []byte) bool { return sqltest.IsQuery(b, "COMMIT") }}
	instead := func(commit func() error) error {
		relay.Cut(cut)
		return commit()
	}
	opts := cutOptions(run.fault)
	open := func(commit func(string, func() error) error) *sqltest.Ledger {
		opts.Commit = commit
		return sqltest.OpenWith(t, through(address), opts)
	}
	if run.nth == 0 {
		c := &commits{lose: map[string]loss{}, instead: instead}
		b := newBenchOf(t, open(c.commit), address)
		endsInTime(t, relay, func() { lookStory{name: run.name, how: really, at: through, opts: opts}.run(t, b, c) })
	} else {
		l := &liar{lyingRun: lyingRun{name: run.name, nth: run.nth}, instead: instead}
		s := lieStoryOver(t, open(l.commit), address, l)
		endsInTime(t, relay, s.run)
	}
	if !cut.Struck() {
		t.Error("the story has no such commit")
	}
}

// endsInTime runs what must not wait for ever for a connection. One that does is
// ended by closing all.
func endsInTime(t *testing.T, relay *sqltest.Relay, run func()) {
	t.Helper()
	var hung atomic.Bool
	watch := time.AfterFunc(cutStory, func() {
		hung.Store(true)
		relay.CloseAll()
	})
	defer func() {
		watch.Stop()
		if hung.Load() {
			t.Errorf("it was still waiting after %s", cutStory)
		}
	}()
	run()
}
