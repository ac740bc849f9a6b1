//go:build crashpoint

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"rollcall/batch/sandbox"
	"rollcall/reconcile/crashpoint"
	"rollcall/sql/sqltest"
)

const (
	crashJobs    = 3
	crashReports = 3 * crashJobs // a job takes three, in two chunks
	crashAtOnce  = 4             // calls to a sandbox
)

// crashKind is a kind of provider, by what it tells of what it was asked for.
type crashKind struct {
	name   string
	start  func(c *crashing)
	whole  func(c *crashing) // what must hold in the end
	points []string          // that are passed on the way of a report
	faults map[string]string // by point: a fault, once, that makes work for it
}

var crashKinds = []crashKind{
	{"listing", (*crashing).overSandbox, (*crashing).sentOnce, crashpoint.JobPoints(), stimuli},
	{"repeat", (*crashing).overCalls, (*crashing).calledAsOften, crashpoint.CallPoints(), nil},
}

// manner is at which hits of a point processes are killed, one after the other.
type manner string

const (
	atFirst  manner = "first"
	atSecond manner = "second"
	atLast   manner = "last"
	atTwo    manner = "twice" // two processes in a row
	atLater  manner = "later" // the first one by the crash whose recovery passes the point
)

// before are crashes whose recovery passes a point.
var before = map[string]string{
	crashpoint.ResolveFound: crashpoint.SubmitCreated, crashpoint.ResolveAccepted: crashpoint.SubmitCreated,
	crashpoint.ResolveFenced: crashpoint.SubmitFileNoted, crashpoint.ResolveAbsent: crashpoint.SubmitFileNoted,
	crashpoint.SweepNoted: crashpoint.SubmitUploaded, crashpoint.SweepDeleted: crashpoint.SubmitUploaded,
}

// aftermath says whether the recovery of a crash at the last hit of a point
// passes the point again.
type aftermath struct {
	again bool
	why   string
}

var aftermaths = map[string]aftermath{
	crashpoint.IntakeAccepted:    {true, "the file is read again from its first line"},
	crashpoint.CollectPlanned:    {false, "what is left makes the last job ready"},
	crashpoint.CollectReady:      {false, "every work is in a job"},
	crashpoint.SubmitIntent:      {true, "the submission is closed as unsent, and its job gets another"},
	crashpoint.SubmitUploaded:    {true, "the submission is closed as unsent, and its job gets another"},
	crashpoint.SubmitFileNoted:   {true, "the provider is shown to have no job, and the job is sent again"},
	crashpoint.SubmitCreated:     {false, "the provider's job is found, so none is asked for"},
	crashpoint.SubmitAccepted:    {false, "every job is at the provider"},
	crashpoint.ResolveFound:      {true, "the list is read again"},
	crashpoint.ResolveAccepted:   {false, "every submission has its outcome"},
	crashpoint.ResolveFenced:     {true, "the file is deleted again"},
	crashpoint.ResolveAbsent:     {false, "every submission has its outcome"},
	crashpoint.PollClaimed:       {true, "the job is asked about at its next poll"},
	crashpoint.PollAnswered:      {true, "the job is asked about at its next poll"},
	crashpoint.PollEnded:         {false, "every job has ended"},
	crashpoint.ConsumeStaged:     {true, "a set that is not whole is read again from its first byte"},
	crashpoint.ConsumeWhole:      {false, "every set is whole"},
	crashpoint.ConsumeJudged:     {true, "the job is not finished, so its members are gone through again"},
	crashpoint.ConsumeFinished:   {false, "every job is consumed"},
	crashpoint.ApplyRecorded:     {true, "apply ends with a look that finds nothing, which passes the point as well"},
	crashpoint.SweepNoted:        {false, "what is on record is not noted again"},
	crashpoint.SweepDeleted:      {false, "what is gone is in no list"},
	crashpoint.CallClaimed:       {true, "the calls are claimed again once their claims are over"},
	crashpoint.CallAnswered:      {true, "the calls are made again: their answers were not noted"},
	crashpoint.CallNoted:         {false, "every call has its answer"},
	crashpoint.CallStaged:        {false, "every line is staged"},
	crashpoint.CallEnded:         {false, "every job has ended"},
	crashpoint.CheckFindingsOpen: {true, "the roll is called again from the first invariant"},
}

// crashCase is one deployment whose processes are killed.
type crashCase struct {
	kind     *crashKind
	database string
	point    string
	manner   manner
}

func (k crashCase) String() string {
	return fmt.Sprintf("%s/%s/%s/%s", k.kind.name, k.database, k.point, k.manner)
}

// fault makes work for the point in every job, in place of a crash that does.
func (k crashCase) fault() string {
	if k.manner == atLater {
		return ""
	}
	return strings.Replace(k.kind.faults[k.point], "times=1", fmt.Sprint("times=", crashJobs), 1)
}

// crashes are the hits at which processes are killed; the last one of the point
// in a process that lives is given.
func (k crashCase) crashes(last int) []string {
	first, end := k.point+":1", fmt.Sprint(k.point, ":", last)
	switch k.manner {
	case atSecond:
		return []string{k.point + ":2"}
	case atLast:
		return []string{end}
	case atTwo:
		if aftermaths[k.point].again {
			return []string{end, first} // the second one recovers the very same
		}
		return []string{first, first}
	case atLater:
		return []string{before[k.point] + ":1", first}
	}
	return []string{first}
}

// crashCases are all of them.
func crashCases() (cases []crashCase) {
	for i := range crashKinds {
		for _, database := range sqltest.Databases {
			for _, point := range crashKinds[i].points {
				for _, m := range []manner{atFirst, atSecond, atLast, atTwo, atLater} {
					if _, ok := before[point]; ok || m != atLater {
						cases = append(cases, crashCase{&crashKinds[i], database, point, m})
					}
				}
			}
		}
	}
	return cases
}

// sample is one case for each point of each kind, by chance.
func sample(cases []crashCase, random *rand.Rand) (some []crashCase) {
	seen := map[string]bool{}
	for _, i := range random.Perm(len(cases)) {
		k := cases[i]
		if key := k.kind.name + k.point; !seen[key] {
			seen[key] = true
			some = append(some, k)
		}
	}
	return some
}

// alive is how often each point is passed by processes that nobody kills: by kind,
// database and fault, then by point. Whoever needs it first lives through it.
type alive struct {
	mu   sync.Mutex
	hits map[string]func() map[string]int
}

func (a *alive) of(t *testing.T, k crashCase) map[string]int {
	t.Helper()
	key := fmt.Sprint(k.kind.name, k.database, k.fault())
	a.mu.Lock()
	if a.hits[key] == nil {
		a.hits[key] = sync.OnceValue(func() map[string]int {
			c := newCrashing(t, k)
			c.live()
			c.verify()
			return c.most
		})
	}
	hits := a.hits[key]
	a.mu.Unlock()
	return hits()
}

// TestCrashAtEveryPoint kills rollcall at every named point: at its first, second
// and last hit, twice in a row, and in the recovery of another crash, over both
// databases. It is run again then, until nothing is left to do.
//
// Without ROLLCALL_TEST_LONG=1 it takes one of these for each point, by chance;
// ROLLCALL_TEST_SEED takes the same ones again.
func TestCrashAtEveryPoint(t *testing.T) {
	cases := crashCases()
	if os.Getenv("ROLLCALL_TEST_LONG") == "" {
		seed := chaosSeed(t)
		t.Logf("ROLLCALL_TEST_SEED=%d", seed)
		cases = sample(cases, rand.New(rand.NewPCG(seed, 0)))
	}
	unharmed := alive{hits: map[string]func() map[string]int{}}
	for _, k := range cases {
		t.Run(k.String(), func(t *testing.T) { t.Parallel(); k.run(t, unharmed.of(t, k)[k.point]) })
	}
}

// run kills as the case says.
func (k crashCase) run(t *testing.T, last int) {
	if k.manner != atLater && last < 3 {
		t.Fatalf("a process that lives passes %s %d times: its first, second and last hit are not three", k.point, last)
	}
	c := newCrashing(t, k)
	c.live(k.crashes(last)...)
	after := aftermaths[k.point]
	if passed := c.sinceCrash[k.point]; k.manner == atLast && passed > 0 != after.again {
		t.Errorf("after a crash at its last hit, %s is passed %d times, but: %s", k.point, passed, after.why)
	}
	c.verify()
}

// crashing is a deployment whose commands are processes of their own, over a
// provider that outlives them.
type crashing struct {
	*operator
	crashCase
	most       map[string]int // by point: its hits in the process with most of them
	sinceCrash map[string]int // and in all processes since the last one that was killed
	kills      int
}

func newCrashing(t *testing.T, k crashCase) *crashing {
	t.Helper()
	c := &crashing{operator: &operator{t: t, dir: t.TempDir()}, crashCase: k, most: map[string]int{}, sinceCrash: map[string]int{}}
	k.kind.start(c)
	c.resolveSoon()
	c.edit("rollcall.yaml", "send_within: 300ms", "send_within: 3s\n  unsent_margin: 200ms", "item_retry: 2s", "item_retry: 20ms", "retry: 2s", "retry: 20ms", "call:\n", "call:\n  within: 3s\n  margin: 200ms\n",
		"first: 1s", "first: 10ms", "max: 5s", "max: 50ms", "jobs:\n", "log: {level: trace}\nlease: 50ms\nchunk: 2\njobs:\n  max_items: 3\n  per_run: 100\n")
	if k.database == "postgres" {
		// Not from the environment, which runs in parallel would share.
		c.file("database.url", sqltest.Migrated(t, k.database)+"\n")
		c.edit("rollcall.yaml", "database: rollcall.db", "database: {url: {file: database.url}}")
		c.must(exitDone, "migrate")
	}
	c.must(exitDone, "policy", "approve", "patient-community", "--reason", "a test")
	c.file("reports.jsonl", markedReports(crashReports))
	if f := k.fault(); f != "" {
		c.misbehave(f)
	}
	return c
}

func (c *crashing) overSandbox() { c.over("openai") }

// overCalls makes one call at a time: of several at once it depends on the time how
// many are noted together.
func (c *crashing) overCalls() {
	c.over("inhouse")
	c.edit("rollcall.yaml", "at_once: 4", "at_once: 1")
}

// over starts a deployment over a sandbox whose jobs end as soon as they are asked
// about: so how often a point is passed does not depend on the time.
func (c *crashing) over(provider string) {
	c.t.Helper()
	atOnce := sandbox.Latencies{Validating: 1, Running: 1, Finalizing: 1, Cancelling: 1}
	var err error
	if c.box, err = startSandbox("127.0.0.1:0", sandbox.Options{Dir: filepath.Join(c.dir, "sandbox"), Speed: 600, Seed: 1, Latencies: atOnce, Log: quiet}); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := c.box.stop(); err != nil {
			c.t.Error(err)
		}
	})
	c.must(exitDone, "init", "--sandbox", "http://"+c.box.address+"/v1", "--provider", provider, c.dir)
}

// live takes the reports in, sends them, and runs until idle. A command that is
// killed on the way is run again, with the next of the crashes.
func (c *crashing) live(crashes ...string) {
	c.t.Helper()
	for _, args := range [][]string{{"intake", filepath.Join(c.dir, "reports.jsonl")}, {"run", "collect", "submit"}, {"run", "--until-idle"}} {
		if args[1] == "--until-idle" {
			// All jobs are under way. From here on they are taken one in a run, so
			// that the number of runs does not depend on the time either.
			c.edit("rollcall.yaml", "per_run: 100", "per_run: 1")
		}
		for c.killed(&crashes, args) {
		}
	}
	if len(crashes) > 0 {
		c.t.Errorf("%v are never hit", crashes)
	}
}

// killed runs a command that is to crash at the next of the crashes, and says
// whether it did.
func (c *crashing) killed(crashes *[]string, args []string) bool {
	c.t.Helper()
	crash, counts := "", filepath.Join(c.t.TempDir(), "hits")
	if len(*crashes) > 0 {
		crash = (*crashes)[0]
	}
	p := c.process([]string{"ROLLCALL_CRASH=" + crash, "ROLLCALL_CRASH_COUNT=" + counts}, args...)
	switch {
	case p.killed:
		*crashes = (*crashes)[1:]
		c.kills++
		clear(c.sinceCrash)
		return true
	case p.code != exitDone:
		c.t.Fatalf("rollcall %v ends with exit code %d: %s%s", args, p.code, p.out, p.err)
	}
	c.noteHits(counts)
	return false
}

// noteHits adds up what a process has counted.
func (c *crashing) noteHits(file string) {
	c.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) { // none was hit
		c.t.Fatal(err)
	}
	hits := map[string]int{}
	for point := range strings.Lines(string(raw)) {
		hits[strings.TrimSpace(point)]++
	}
	for point, n := range hits {
		c.most[point] = max(c.most[point], n)
		c.sinceCrash[point] += n
	}
}

// sentOnce: no text was in two jobs.
func (c *crashing) sentOnce() { c.wantWhole(crashReports) }

// calledAsOften: a text whose answer was not noted was called again, and no other.
func (c *crashing) calledAsOften() {
	c.wantWholeRoll(crashReports)
	books, err := c.box.Books()
	if err != nil {
		c.t.Fatal(err)
	}
	// A process that is killed loses at most the calls that it had begun at once,
	// and each one tries the account out.
	atMost := int64(crashReports + c.kills*crashAtOnce + c.kills + 1)
	if n := books.Requests["chat"]; n < crashReports || n > atMost {
		c.t.Errorf("%d calls about %d texts, of which %d can have been lost: at most %d", n, crashReports, c.kills*crashAtOnce, atMost)
	}
}

// verify holds that nothing was lost, left behind, or sent for nothing.
func (c *crashing) verify() {
	c.t.Helper()
	c.kind.whole(c)
	if c.database == "sqlite" {
		wantSoundFile(c.t, filepath.Join(c.dir, "rollcall.db"))
	}
}
