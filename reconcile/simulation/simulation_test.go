package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"rollcall/reconcile"
	"rollcall/reconcile/crashpoint"
	"rollcall/reconcile/keyring"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

func TestMain(m *testing.M) { os.Exit(sqltest.Main(m)) }

const (
	seedsInShort = 200
	seedsInLong  = 2000
)

// firstOnly has a run end with the first seed that fails.
const firstOnly = "ROLLCALL_TEST_FIRST_ONLY"

// TestSimulation runs worlds. ROLLCALL_TEST_SEED runs one seed or plan alone, as
// a failure prints it; ROLLCALL_TEST_SEEDS=FIRST+N runs N seeds from FIRST on.
func TestSimulation(t *testing.T) {
	rig := newRig(t)
	if only := os.Getenv("ROLLCALL_TEST_SEED"); only != "" {
		p, err := planOf(only)
		if err != nil {
			t.Fatal(err)
		}
		rig.judge(t, p)
		return
	}
	first, n := seedsToRun(t)
	total := rig.runAll(t, first, n)
	total.log(t)
	total.judge(t, n)
}

// seedsToRun is the first seed, and how many.
func seedsToRun(t *testing.T) (first uint64, n int) {
	t.Helper()
	n = seedsInShort
	if os.Getenv("ROLLCALL_TEST_LONG") != "" {
		n = seedsInLong
	}
	asked := os.Getenv("ROLLCALL_TEST_SEEDS")
	if asked == "" {
		return 1, n
	}
	from, many, _ := strings.Cut(asked, "+")
	first, err := strconv.ParseUint(from, 10, 64)
	if err == nil {
		n, err = strconv.Atoi(many)
	}
	if err != nil || n < 1 {
		t.Fatalf("ROLLCALL_TEST_SEEDS=%q is not FIRST+N", asked)
	}
	return first, n
}

// TestSeedReplaysExactly: whatever a history depends on is in its plan.
func TestSeedReplaysExactly(t *testing.T) {
	rig := newRig(t)
	for seed := uint64(1); seed <= 8; seed++ {
		one, two := rig.run(t, newPlan(seed)), rig.run(t, newPlan(seed))
		if one.err != nil || two.err != nil {
			t.Fatal(one.err, two.err)
		}
		for i := range min(len(one.history), len(two.history)) {
			if one.history[i] != two.history[i] {
				t.Fatalf("seed %d: step %d is %q, and then %q", seed, i, one.history[i], two.history[i])
			}
		}
		if one.digest != two.digest {
			t.Errorf("seed %d: %d steps, and then %d", seed, len(one.history), len(two.history))
		}
	}
}

// rig is what worlds share.
type rig struct {
	dir      string
	keys     *keyring.Ring
	template []byte // a ledger that nothing has happened in
}

// keyFile makes the same ids in each run.
const keyFile = `{"comment":"","id_key":{"id":"id-1","key":"MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="},
"mac_key":{"id":"mac-1","key":"MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE="},
"text_keys":[{"id":"text-1","key":"MjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjI="}]}`

func newRig(t *testing.T) *rig {
	t.Helper()
	g := &rig{dir: memoryDir(t)}
	path := filepath.Join(g.dir, "keyring")
	if err := os.WriteFile(path, []byte(keyFile), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if g.keys, err = keyring.Load(path); err != nil {
		t.Fatal(err)
	}
	ledger := sqltest.Migrated(t, "sqlite")
	store, err := sql.Open(t.Context(), sql.Options{Address: ledger})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.CreateLedger(context.Background(), sqltest.Start, g.keys), store.Close()); err != nil {
		t.Fatal(err)
	}
	if g.template, err = os.ReadFile(ledger); err != nil {
		t.Fatal(err)
	}
	return g
}

// memoryDir is a directory in memory where the system has one: a world waits for
// its disk some thousand times.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "rollcall-simulation-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// run runs one plan.
func (g *rig) run(t *testing.T, p plan) outcome {
	t.Helper()
	dir, err := os.MkdirTemp(g.dir, "world-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	w, err := newWorld(p, dir, g.keys, g.template)
	if err != nil {
		t.Fatal(err)
	}
	err = w.run()
	return outcome{plan: p, err: err, breaches: w.oracle.breaches, history: w.history, digest: w.digest, tally: tally{
		worlds: 1, reports: int64(p.Reports), steps: int64(len(w.history)), jobs: int64(len(w.oracle.jobs)), struck: w.struck, points: w.points,
		stale: w.oracle.stale(), settlement: map[string]int64{p.Processor.String(): 1}, reasons: w.oracle.reasons,
	}}
}

// outcome is what became of a world.
type outcome struct {
	plan     plan
	err      error
	breaches []string
	history  []string
	digest   uint64
	tally
}

func (o outcome) failed() bool { return o.err != nil || len(o.breaches) > 0 }

// judge runs a plan, and prints what went wrong with as little around it as shows it.
func (g *rig) judge(t *testing.T, p plan) outcome {
	t.Helper()
	o := g.run(t, p)
	if !o.failed() {
		return o
	}
	t.Errorf("seed %d fails: %v %s\nthe plan: ROLLCALL_TEST_SEED=%s\nits last steps:\n%s",
		p.Seed, o.err, strings.Join(o.breaches, "; "), o.plan, strings.Join(last(o.history, 120), "\n"))
	if os.Getenv("ROLLCALL_TEST_SEED") != "" || os.Getenv(firstOnly) != "" {
		return o // one that is asked for is shown as it is
	}
	small := g.shrink(t, o)
	t.Logf("a smaller plan that fails: %v %s\nROLLCALL_TEST_SEED=%s\nits last steps:\n%s",
		small.err, strings.Join(small.breaches, "; "), small.plan, strings.Join(last(small.history, 120), "\n"))
	return o
}

// mostShrinking is how many smaller plans are tried.
const mostShrinking = 40

// shrink leaves out whatever the failure does not need.
func (g *rig) shrink(t *testing.T, o outcome) outcome {
	t.Helper()
	tries := 0
	for again := true; again; {
		again = false
		for _, f := range faults() {
			if !o.plan.Faults[f] || tries == mostShrinking {
				continue
			}
			tries++
			if less := g.run(t, o.plan.without(f)); less.failed() {
				o, again = less, true
			}
		}
		fewer := o.plan
		if fewer.Reports /= 2; fewer.Reports == 0 {
			continue
		}
		if less := g.run(t, fewer); less.failed() {
			o, again = less, true
		}
	}
	return o
}

func last(s []string, n int) []string { return s[max(0, len(s)-n):] }

// runAll runs seeds side by side, and stops at the third that fails.
func (g *rig) runAll(t *testing.T, first uint64, n int) tally {
	t.Helper()
	var mu sync.Mutex
	total := tally{struck: map[fault]int64{}, points: map[string]int64{}, settlement: map[string]int64{}, reasons: map[reconcile.Reason]int64{}}
	failures, most, seeds := 0, 3, make(chan uint64)
	if os.Getenv(firstOnly) != "" {
		most = 1
	}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := range seeds {
				o := g.judge(t, newPlan(seed))
				mu.Lock()
				total.add(o.tally)
				if o.failed() {
					failures++
				}
				mu.Unlock()
			}
		})
	}
	for i := range n {
		mu.Lock()
		enough := failures >= most
		mu.Unlock()
		if enough {
			break
		}
		seeds <- first + uint64(i)
	}
	close(seeds)
	workers.Wait()
	return total
}

// tally counts what happened in some worlds.
type tally struct {
	worlds, reports, steps, jobs, stale int64
	struck                              map[fault]int64
	points                              map[string]int64
	settlement                          map[string]int64
	reasons                             map[reconcile.Reason]int64 // why a person got a report
}

func (t *tally) add(o tally) {
	t.worlds, t.reports, t.steps, t.jobs, t.stale = t.worlds+o.worlds, t.reports+o.reports, t.steps+o.steps, t.jobs+o.jobs, t.stale+o.stale
	for f, n := range o.struck {
		t.struck[f] += n
	}
	for p, n := range o.points {
		t.points[p] += n
	}
	for s, n := range o.settlement {
		t.settlement[s] += n
	}
	for r, n := range o.reasons {
		t.reasons[r] += n
	}
}

func (t *tally) log(tt *testing.T) {
	tt.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%d worlds, %d reports, %d steps, %d jobs at the processors, %d of them by requests that came too late\n", t.worlds, t.reports, t.steps, t.jobs, t.stale)
	for _, s := range slices.Sorted(maps.Keys(t.settlement)) {
		fmt.Fprintf(&b, "  settles by %-15s %8d\n", s, t.settlement[s])
	}
	for _, f := range slices.Sorted(maps.Keys(t.struck)) {
		fmt.Fprintf(&b, "  %-24s %9d\n", f, t.struck[f])
	}
	for _, p := range crashpoint.Points() {
		fmt.Fprintf(&b, "  at %-21s %9d\n", p, t.points[p])
	}
	for _, r := range slices.Sorted(maps.Keys(t.reasons)) {
		fmt.Fprintf(&b, "  to a person, %-21s %9d\n", r, t.reasons[r])
	}
	tt.Log(b.String())
}

// worldsForOne is in how many worlds everything should happen once at least. The
// rates of faults are such that it happens twice as often.
const worldsForOne = 20

// worldsForPoint is the same for a named point, which a process passes while
// things still go wrong; some are in the worlds of one processor only.
const worldsForPoint = 100

// judge holds that everything happened often enough for its absence of
// consequences to mean something.
func (t *tally) judge(tt *testing.T, n int) {
	tt.Helper()
	if tt.Failed() || n < seedsInShort {
		return
	}
	floor := int64(n / worldsForOne)
	for _, f := range faults() {
		if t.struck[f] < floor {
			tt.Errorf("%s happened %d times, and should %d times", f, t.struck[f], floor)
		}
	}
	for _, p := range crashpoint.Points() {
		if floor := int64(n / worldsForPoint); t.points[p] < floor {
			tt.Errorf("the point %s was passed %d times, and should be %d times", p, t.points[p], floor)
		}
	}
	if n := t.struck["recovered"]; n < floor {
		tt.Errorf("a ledger was recovered %d times, and should be %d times", n, floor)
	}
	for _, r := range reasons {
		if floor := int64(n / seedsInShort); t.reasons[r] < floor {
			tt.Errorf("a person got a report for the reason %s %d times, and should %d times", r, t.reasons[r], floor)
		}
	}
}
