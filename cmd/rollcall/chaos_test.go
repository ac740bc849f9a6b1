//go:build crashpoint

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rollcall/batch/sandbox"
	"rollcall/reconcile/crashpoint"
	"rollcall/sql/sqltest"
)

// chaosSize is how much one run of the chaos test does.
type chaosSize struct {
	reports  int
	jobItems int           // jobs.max_items
	kills    int           // of a daemon, by SIGKILL at a random moment
	stops    int           // of PostgreSQL, as by `pg_ctl stop -m immediate`
	points   int           // crash points, each hit once
	pause    time.Duration // a kill, or a stop, comes within it
}

var (
	chaosShort = chaosSize{reports: 400, jobItems: 20, kills: 4, stops: 1, points: 5, pause: 3 * time.Second}
	chaosLong  = chaosSize{reports: 20_000, jobItems: 150, kills: 20, stops: 5, points: len(crashpoint.JobPoints()), pause: 6 * time.Second}
)

const (
	chaosOutage  = 2 * time.Second        // PostgreSQL is started again within it
	intakeKill   = 400 * time.Millisecond // an intake that is killed is so within it
	pointWait    = 2 * time.Second        // for a crash point to be hit, before there is more work for it
	pointLimit   = 15 * time.Second       // for one to be hit, and a minute for all
	settledEvery = time.Second
	drainLimit   = 5 * time.Minute  // for everything to be recorded, once nobody disturbs it any more
	stopLimit    = 25 * time.Second // for a daemon to stop in order
)

// TestChaos takes reports in while daemons run, and kills whatever runs, with a
// provider that misbehaves. At the end every report has its one record, no text
// was accepted in two jobs, and nothing is left at the provider that no job uses.
//
// With ROLLCALL_TEST_LONG=1 it is at its full size. ROLLCALL_TEST_SEED repeats
// what was chosen, though not the instants at which it meets the processes.
func TestChaos(t *testing.T) {
	size := chaosShort
	if os.Getenv("ROLLCALL_TEST_LONG") != "" {
		size = chaosLong
	}
	seed := chaosSeed(t)
	for _, kind := range []struct {
		database string
		daemons  int
	}{{"postgres", 2}, {"sqlite", 1}} {
		t.Run(kind.database, func(t *testing.T) {
			t.Parallel()
			t.Logf("ROLLCALL_TEST_SEED=%d", seed)
			c := newChaos(t, kind.database, size, seed)
			for range kind.daemons {
				c.begin(len(c.daemons))
			}
			c.rage()
			c.calm()
			c.verify()
			c.log.wall = time.Since(c.began)
			c.tell()
		})
	}
}

func chaosSeed(t *testing.T) uint64 {
	t.Helper()
	given := os.Getenv("ROLLCALL_TEST_SEED")
	if given == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		t.Fatalf("ROLLCALL_TEST_SEED: %v", err)
	}
	return seed
}

// chaosConfig is everything in seconds or less.
const chaosConfig = `
chunk: %d
lease: 2s
log: {level: trace}
jobs: {max_items: %d, max_item_tokens: 8000, item_retry: 1s}
submit: {send_within: 2s, unsent_margin: 1s, retry: 500ms}
resolve: {first: 500ms, max: 2s, absent_after: 1s}
poll: {first: 500ms, max: 2s, files_grace: 1m}
consume: {retry: 500ms}
schedules:
  - {name: collect, cron: "@every 1s", passes: [collect]}
  - {name: resolve, cron: "@every 1s", passes: [resolve]}
  - {name: submit, cron: "@every 1s", passes: [submit]}
  - {name: poll, cron: "@every 1s", passes: [poll]}
  - {name: consume, cron: "@every 1s", passes: [consume]}
  - {name: apply, cron: "@every 1s", passes: [apply]}
  - {name: inventory, cron: "@every 3s", passes: [sweep]}
  - {name: roll, cron: "@every 5s", passes: [check]}
serve: {listen: "", heartbeat: 500ms}
`

// newChaos is a deployment that nobody works on yet.
func newChaos(t *testing.T, database string, size chaosSize, seed uint64) *chaos {
	t.Helper()
	c := &chaos{began: time.Now(), operator: &operator{t: t, dir: t.TempDir()}, size: size, rand: rand.New(rand.NewPCG(seed, uint64(len(database))))}
	// Its clock is the real one: what a process left behind is told by its age.
	latencies := sandbox.Latencies{Validating: 100 * time.Millisecond, Running: 700 * time.Millisecond, Finalizing: 200 * time.Millisecond, Cancelling: 100 * time.Millisecond}
	c.startBox(sandbox.Options{Speed: 1, Seed: 1, Latencies: latencies, Log: quiet})
	c.must(exitDone, "init", "--sandbox", "http://"+c.box.address+"/v1", c.dir)
	c.cutAt("rollcall.yaml", "\njobs:\n", fmt.Sprintf(chaosConfig, size.jobItems/4, size.jobItems))
	if database == "postgres" {
		c.cluster = sqltest.NewCluster(t)
		c.file("database.url", c.cluster.URL()+"\n")
		c.edit("rollcall.yaml", "database: rollcall.db", "database: {url: {file: database.url}}")
		c.must(exitDone, "migrate")
	} else {
		c.size.stops = 0
	}
	c.must(exitDone, "policy", "approve", "patient-community", "--reason", "a test")
	c.points = slices.Clone(crashpoint.JobPoints())
	c.rand.Shuffle(len(c.points), func(i, j int) { c.points[i], c.points[j] = c.points[j], c.points[i] })
	c.points = c.points[:size.points]
	c.takeInWhileOthersWork()
	return c
}

// rage takes reports in, kills and stops, until there was enough of it.
func (c *chaos) rage() {
	c.t.Helper()
	events := slices.Repeat([]string{"kill"}, c.size.kills)
	events = append(events, slices.Repeat([]string{"stop"}, c.size.stops)...)
	c.rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	c.slices = len(events) + 2*len(c.points)
	for _, event := range events {
		c.work()
		c.live(c.within(c.size.pause), never)
		if event == "stop" {
			c.crashDatabase()
		} else {
			c.kill(c.rand.IntN(len(c.daemons)))
		}
	}
	for end := time.Now().Add(time.Minute + time.Duration(c.size.points)*pointLimit); len(c.missing()) > 0; {
		if time.Now().After(end) {
			c.t.Fatalf("%v are never hit", c.missing())
		}
		c.armIdle()
		c.work()
		left := len(c.missing())
		c.live(pointWait, func() bool { return len(c.missing()) < left })
	}
}

// calm lets the rest be done, and stops the daemons in order.
func (c *chaos) calm() {
	c.t.Helper()
	c.faults()
	for c.given < c.size.reports {
		c.takeIn()
	}
	close(c.queue)
	began := time.Now()
	if !c.live(drainLimit, c.settled) {
		c.t.Fatalf("it never comes to an end: %s", c.must(exitAny, "status").out)
	}
	c.log.drained = time.Since(began)
	for _, d := range c.daemons {
		c.stopInOrder(d)
	}
}

// within is a random part of d.
func (c *chaos) within(d time.Duration) time.Duration { return time.Duration(c.rand.Int64N(int64(d))) }

func never() bool { return false }

// stimuli make the provider do what a crash point waits for.
var stimuli = map[string]string{
	crashpoint.ResolveFound: "drop_after:op=create,times=1", crashpoint.ResolveAccepted: "drop_after:op=create,times=1",
	crashpoint.ResolveFenced: "drop_before:op=create,times=1", crashpoint.ResolveAbsent: "drop_before:op=create,times=1",
	crashpoint.SweepNoted: "drop_after:op=upload,times=1", crashpoint.SweepDeleted: "drop_after:op=upload,times=1",
}

// chaosFaults are bad moments of a provider. None of them makes it right to send
// a text again that was accepted in a job.
var chaosFaults = []string{
	"drop_after:op=create,times=1", "drop_before:op=create,times=1", "answer_cut:op=create,times=1", "bad_gateway:op=create,acted=true,times=1",
	"server_error:op=create,acted=true,times=1", "empty_object:op=create,acted=true,times=1", "delay:op=create,by=3s,times=1",
	"drop_after:op=upload,times=1", "server_error:op=upload,status=503,times=1", "answer_cut:op=upload,times=1",
	"rate_limit:op=any,retry_after=1,times=2", "server_error:op=any,status=500,times=2", "bad_gateway:op=status,times=2", "drop_before:op=any,times=2",
	"content_cut:at=0.4,times=1", "content_cut:at=0.6,clean=true,times=1", "content_not_found:times=1", "late_file_ids:for=1s,times=1",
	"listing_lag:op=list_batches,seconds=2,times=3", "listing_lag:op=list_files,seconds=2,times=2", "listing_hole:op=list_batches,every=3,times=1",
	"short_page:op=any,entries=3,times=4", "drop_after:op=delete_file,times=1", "drop_after:op=list_batches,times=1",
}

// misbehave sets some faults, and those that make work for the armed points.
func (c *chaos) misbehave() {
	c.t.Helper()
	var some []string
	for _, d := range c.daemons {
		if s, ok := stimuli[d.pointName()]; ok {
			some = append(some, s)
		}
	}
	for range c.rand.IntN(3) {
		some = append(some, chaosFaults[c.rand.IntN(len(chaosFaults))])
	}
	c.faults(some...)
}

// faults replaces those that are set.
func (c *chaos) faults(some ...string) {
	c.t.Helper()
	var set []sandbox.Fault
	for _, s := range some {
		f, err := sandbox.ParseFault(s)
		if err != nil {
			c.t.Fatal(err)
		}
		set = append(set, f)
	}
	if err := c.box.SetFaults(set...); err != nil {
		c.t.Fatal(err)
	}
}

// slice writes the next reports into a file, and edits of earlier ones.
func (c *chaos) slice() (name string) {
	var lines strings.Builder
	report := func(i, revision int) {
		fmt.Fprintf(&lines, `{"tenant":"acme-health","system":"forum","id":"c-%d","revision":%d,"text":"%s post %d, revision %d: the nurse was kind."}`+"\n", i, revision, marker, i, revision)
	}
	some := min(c.size.reports/c.slices+1, c.size.reports-c.given)
	if c.given > 0 { // more than a chunk of them, so that they make a job in steps
		for range max(some/20, c.size.jobItems/3) {
			i := c.rand.IntN(c.given)
			c.revisions[i]++
			report(i, c.revisions[i])
		}
	}
	for range some {
		c.revisions = append(c.revisions, 1)
		report(c.given, 1)
		c.given++
	}
	c.files++
	return c.file(fmt.Sprintf("reports-%d.jsonl", c.files), lines.String())
}
