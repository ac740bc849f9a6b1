package reconcile_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rollcall/sql/sqltest"
)

// lie is how a COMMIT lies.
type lie string

const (
	lieNot    lie = "not_done" // it did not happen, and the caller gets an error
	lieDone   lie = "done"     // it happened, and the caller gets an error; the audit event tells
	lieUnsaid lie = "unsaid"   // it happened, and the audit event cannot be found either
)

// lyingRun is one run of the story: the n-th COMMIT of one transaction lies.
type lyingRun struct {
	name string
	how  lie
	nth  int
}

func (r lyingRun) String() string {
	return fmt.Sprintf("%s/%s/%d", strings.ReplaceAll(r.name, " ", "_"), r.how, r.nth)
}

// liar runs COMMITs and makes the one of its run lie. Without a name none does.
type liar struct {
	lyingRun
	armed  bool
	seen   map[string]int // COMMITs since it was armed, by transaction
	told   bool
	forget func() error // makes every audit event unfindable
	// instead, when set, runs the COMMIT in place of a lie.
	instead func(commit func() error) error
}

var errBroken = errors.New("the connection broke at the commit")

func (l *liar) commit(name string, commit func() error) error {
	if !l.armed {
		return commit()
	}
	l.seen[name]++
	if name != l.name || l.seen[name] != l.nth {
		return commit()
	}
	l.told = true
	if l.instead != nil {
		return l.instead(commit)
	}
	if l.how == lieNot {
		return errBroken
	}
	if err := commit(); err != nil {
		return err
	}
	if l.how == lieUnsaid {
		if err := l.forget(); err != nil {
			return err
		}
	}
	return errBroken
}

// lieSample is how many of the runs an ordinary test makes.
var lieSample = map[string]int{"sqlite": 16, "postgres": 4}

// TestLyingCommits runs the whole story again and again, each time with one
// COMMIT whose answer is wrong: each transaction, lost, done, and done with no
// way to find out. Whatever is said, no report is lost and nothing is sent twice.
//
// Without ROLLCALL_TEST_LONG=1 it runs a sample, which ROLLCALL_TEST_SEED repeats.
func TestLyingCommits(t *testing.T) {
	seen := honestCommits(t)
	t.Run("none is left out", func(t *testing.T) { leavesOutNoTransaction(t, seen) })
	seed := lieSeed(t)
	for i, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			runs := lyingRuns(seen)
			of := len(runs)
			if os.Getenv("ROLLCALL_TEST_LONG") == "" {
				rand.New(rand.NewPCG(seed, uint64(i))).Shuffle(of, func(a, b int) { runs[a], runs[b] = runs[b], runs[a] })
				runs = runs[:min(of, lieSample[database])]
			}
			t.Logf("ROLLCALL_TEST_SEED=%d: %d of %d runs: %v", seed, len(runs), of, runs)
			for _, run := range runs {
				t.Run(run.String(), func(t *testing.T) {
					t.Parallel()
					s := newLieStory(t, database, &liar{lyingRun: run})
					s.run()
					if !s.l.told {
						t.Errorf("the story has no such commit; it has %v", s.l.seen)
					}
				})
			}
		})
	}
}

func lieSeed(t *testing.T) uint64 {
	t.Helper()
	given := os.Getenv("ROLLCALL_TEST_SEED")
	if given == "" {
		return uint64(time.Now().UnixNano())
	}
	seed, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		t.Fatalf("ROLLCALL_TEST_SEED: %v", err)
	}
	return seed
}

// honestCommits counts the commits of a story in which none lies, by
// transaction. They are the same on each database.
func honestCommits(t *testing.T) (seen map[string]int) {
	t.Helper()
	t.Run("honest", func(t *testing.T) {
		s := newLieStory(t, "sqlite", &liar{})
		s.run()
		if len(s.errors) > 0 {
			t.Errorf("errors without a lie: %v", s.errors)
		}
		seen = s.l.seen
	})
	return seen
}

// lyingRuns are the first, the second and a late commit of each transaction,
// with each lie. Of those that differ by an invariant's name only, one stands
// for all.
func lyingRuns(seen map[string]int) []lyingRun {
	var runs []lyingRun
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if strings.HasPrefix(name, savesBreaches) && name != savesBreaches+"stage_against_facts" {
			continue
		}
		turns := []int{1, 2, max(3, seen[name]*3/4)}[:min(seen[name], 3)]
		for _, how := range []lie{lieNot, lieDone, lieUnsaid} {
			for _, nth := range turns {
				runs = append(runs, lyingRun{name, how, nth})
			}
		}
	}
	return runs
}

const savesBreaches = "save breaches of "

// storyless are the transactions that the story of TestLyingCommits cannot have.
var storyless = map[string]string{
	"create ledger": "nothing is in the ledger before it",
	// TestLyingCommitsOfLooks has these.
	"record look": looks, "record fence": looks, "record absent": looks, "record probe": looks,
	"note surplus": looks, "mark gone": looks, "adopt job": looks, "raise generation": looks,
	// TestCallsWithCommitsOfUnknownOutcome has these.
	"claim calls": called, "record calls": called, "settle calls": called, "drop uncalled": called, "begin call results": called, "end calls": called,
	"commit repeat": "its processor takes a key; TestF18_RepeatOfUnknownCommitIsNotSent",
	"pull poll":     "it is made by a word of a provider, beside the passes; TestLostCommitOfAPull",
	"keep lease":    "it runs by time, beside what a pass does; TestF45_LeaseThatCannotBeProlonged",
	"write probe":   "it changes nothing; TestF48_WriteProbe",
}

const called = "they belong to a processor that is called text by text"

const looks = "they belong to looks at a provider"

// leavesOutNoTransaction compares the transactions of the story with those that
// package sql has.
func leavesOutNoTransaction(t *testing.T, seen map[string]int) {
	lied := map[string]bool{}
	for _, r := range lyingRuns(seen) {
		lied[r.name] = true
	}
	for name := range seen {
		if !lied[name] && !strings.HasPrefix(name, savesBreaches) {
			t.Errorf("%q is in the story and never lies", name)
		}
	}
	names := writtenTransactions(t)
	for name := range names {
		if storyless[name] == "" && !lied[name] && !(name == savesBreaches && lied[savesBreaches+"stage_against_facts"]) {
			t.Errorf("%q is not in the story", name)
		}
	}
	for name := range storyless {
		if !names[name] || lied[name] {
			t.Errorf("%q is said not to be in the story", name)
		}
	}
}

var writes = regexp.MustCompile(`\.write\(\w+, ("?)([^",]+)`)

// writtenTransactions are the names of all write transactions in the source.
func writtenTransactions(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../sql/*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		for _, m := range writes.FindAllStringSubmatch(string(source), -1) {
			if m[1] == "" {
				t.Errorf("%s: a transaction's name begins with %s, not with a literal", f, m[2])
			}
			names[m[2]] = true
		}
	}
	if len(names) < 20 {
		t.Errorf("only %d transactions were found in package sql", len(names))
	}
	return names
}
