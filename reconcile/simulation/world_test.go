package simulation

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/reconcile/crashpoint"
	"rollcall/reconcile/keyring"
	"rollcall/sql/sqltest"
)

// quantum is what every instant of a world is a multiple of: a deadline that is
// not over when a call begins is then far away by the timers of this machine.
const quantum = 5 * time.Second

const (
	processes = 3
	policy    = "p" // of the system forum
	laterOne  = "q" // of the system blog, approved in the course of things
)

func policyOf(system string) (string, bool) {
	id, ok := map[string]string{"forum": policy, "blog": laterOne}[system]
	return id, ok
}

// world is one run of one plan.
type world struct {
	plan
	dir  string
	keys *keyring.Ring
	rng  *rand.Rand

	now        time.Time     // the true time, which is also the processor's
	jump       time.Duration // how wrong the wall clock of the processes is
	chunk      int           // rows in a transaction
	jobItems   int           // members of a job
	calm       bool          // nothing goes wrong any more
	ending     bool          // the processes end what they are at
	processes  []*process
	operator   *process
	parked     chan *process
	fake       *fake.Provider
	other      *fake.Provider
	rate       reconcile.Rate // of calls
	segment    int            // bytes of a text that one call takes
	ends       []jobEnd
	coming     []coming       // requests on their way
	missing    map[string]int // by file: how often in a row it was denied
	shownUntil time.Time      // lists leave newer jobs out; zero for none
	source     *sender
	oracle     *oracle
	books      *books
	copied     bool // there is an older copy of the ledger
	steps      int

	copiedMidway bool // that copy is from behind an intent whose body was not noted

	struck  map[fault]int64
	points  map[string]int64
	history []string
	digest  uint64
}

// jobEnd is when the processor is done with a job.
type jobEnd struct {
	id string
	at time.Time
}

// coming is a request to make a job that arrives later.
type coming struct {
	at time.Time
	batch.Creation
}

func newWorld(p plan, dir string, keys *keyring.Ring, template []byte) (*world, error) {
	w := &world{
		plan: p, dir: dir, keys: keys, rng: rand.New(rand.NewPCG(p.Seed, 0)), now: sqltest.Start,
		parked: make(chan *process), missing: map[string]int{}, struck: map[fault]int64{}, points: map[string]int64{}, digest: fnv64(),
	}
	w.chunk, w.jobItems = 3+w.rng.IntN(6), 5+w.rng.IntN(30)
	w.oracle = newOracle(w)
	w.source = newSender(w)
	w.fake, w.other = w.newProcessor("main"), w.newProcessor("other")
	if w.calls() {
		w.rate = reconcile.Rate{Calls: int64(20 + w.rng.IntN(100)), AtOnce: 1 + w.rng.IntN(6)}
		w.segment = []int{10, 16, 100}[w.rng.IntN(3)]
	}
	if err := os.WriteFile(w.ledgerPath(), template, 0o600); err != nil {
		return nil, err
	}
	for i := range processes {
		w.processes = append(w.processes, &process{w: w, name: fmt.Sprint("process ", i), resume: make(chan struct{})})
	}
	w.operator = &process{w: w, name: "the operator", direct: true}
	return w, w.openLedger()
}

func accountNamed(name string) batch.Account {
	return batch.Account{Processor: "fake", Name: name, Host: "fake.test", Region: "test", Fingerprint: "fp-" + name}
}

func (w *world) newProcessor(name string) *fake.Provider {
	return fake.New(fake.Options{
		Account:    accountNamed(name),
		Settlement: w.Settles, Handover: w.Handover, Page: 7, Now: func() time.Time { return w.now }, Script: w.oracle.script,
		Hide: func(j fake.JobBook) bool { return !w.shownUntil.IsZero() && j.Created.After(w.shownUntil) },
	})
}

func (w *world) accountsFor(p *process) []batch.Provider {
	if w.calls() {
		return nil
	}
	return []batch.Provider{&client{Provider: w.other, p: p, other: true}, &client{Provider: w.fake, p: p}}
}

func (w *world) ledgerPath() string  { return filepath.Join(w.dir, "ledger.db") }
func (w *world) copyPath() string    { return filepath.Join(w.dir, "copy.db") }
func (w *world) witnessPath() string { return filepath.Join(w.dir, "ledger.witness") }

// everybody is the processes and the operator.
func (w *world) everybody() []*process { return append(slices.Clone(w.processes), w.operator) }

func (w *world) openLedger() error {
	var err error
	if w.books, err = openBooks(w.ledgerPath()); err != nil {
		return err
	}
	for _, p := range w.everybody() {
		if err := p.open(); err != nil {
			return err
		}
	}
	w.operator.start()
	return nil
}

func (w *world) closeLedger() error {
	err := w.books.Close()
	for _, p := range w.everybody() {
		err = errors.Join(err, p.store.Close())
	}
	return err
}

// draws says whether a fault may strike here. Who asks counts what comes of it.
func (w *world) draws(f fault) bool {
	return !w.calm && w.Faults[f] && w.rng.Float64() < rates[f]
}

// strikes says whether a fault strikes here, and counts it.
func (w *world) strikes(f fault, where string) bool {
	if !w.draws(f) {
		return false
	}
	w.struck[f]++
	w.note(nil, string(f)+": "+where)
	return true
}

// note adds a step to the history.
func (w *world) note(p *process, what string) {
	who := "the world"
	if p != nil {
		who = p.name
	}
	line := fmt.Sprintf("%s %s: %s", w.now.Sub(sqltest.Start), who, what)
	w.history = append(w.history, line)
	h := fnv.New64a()
	fmt.Fprintf(h, "%x%s", w.digest, line)
	w.digest = h.Sum64()
}

func fnv64() uint64 { return fnv.New64a().Sum64() }

// run lives the plan to its end and judges it.
func (w *world) run() (err error) {
	defer func() { err = errors.Join(err, w.closeLedger()) }()
	if err := w.operate().approve(policy); err != nil {
		return err
	}
	for _, p := range w.processes {
		p.run()
	}
	for w.busy() {
		w.steps++
		if err := w.step(); err != nil {
			return err
		}
	}
	if err := w.settle(); err != nil {
		return err
	}
	return w.oracle.atRest()
}

const (
	leastSteps = 400
	mostSteps  = 60_000
)

// busy says whether there is more to come while things go wrong: until all is
// delivered, and for a while after that.
func (w *world) busy() bool {
	if len(w.oracle.breaches) > 0 || w.steps > mostSteps {
		return false
	}
	return w.source.waits() || w.steps < leastSteps+12*w.Reports
}

// step lets somebody do something.
func (w *world) step() error {
	w.pass(time.Duration(w.rng.IntN(3)/2) * quantum)
	if err := w.happens(); err != nil {
		return err
	}
	var ready []*process
	for _, p := range w.processes {
		if !p.wake.After(w.now) {
			ready = append(ready, p)
		}
	}
	if len(ready) == 0 {
		next := slices.MinFunc(w.processes, func(a, b *process) int { return a.wake.Compare(b.wake) })
		w.pass(next.wake.Sub(w.now))
		return nil
	}
	p := ready[w.rng.IntN(len(ready))]
	switch {
	case !p.alive:
		p.run()
	case w.strikes(longPause, p.name), p.at == crashpoint.SubmitFileNoted && w.strikes(lateSender, p.name):
		p.wake = w.now.Add(time.Duration(60+w.rng.IntN(120)) * time.Minute)
		return nil
	case w.strikes(crash, p.name):
		w.kill(p)
		return nil
	}
	w.let(p)
	return nil
}

// let runs a process until it parks or ends.
func (w *world) let(p *process) {
	p.resume <- struct{}{}
	if back := <-w.parked; back != p {
		panic("two processes run at once")
	}
	if !p.alive {
		p.wake = w.now.Add(time.Duration(w.rng.IntN(60)) * quantum)
	}
}

// kill ends a process where it stands.
func (w *world) kill(p *process) {
	if p.alive {
		p.dead = true
		w.let(p)
	}
}

// pass lets time pass. What was to happen meanwhile happens.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(max(d, 0))
	for i := 0; i < len(w.coming); i++ {
		if c := w.coming[i]; !c.at.After(w.now) {
			w.coming = slices.Delete(w.coming, i, i+1)
			i--
			w.note(nil, "a late create arrives of submission "+c.Metadata["rc_submission"])
			_, _ = w.makeJob(c.Creation) // nobody hears the answer
			for _, j := range w.oracle.jobs {
				j.late = j.late || j.submission == c.Metadata["rc_submission"] && j.made.Equal(w.now)
			}
		}
	}
	w.ends = slices.DeleteFunc(w.ends, func(e jobEnd) bool {
		if e.at.After(w.now) {
			return false
		}
		w.endJob(e.id)
		return true
	})
}

// later puts a request on its way that nobody waits for.
func (w *world) later(c batch.Creation) {
	w.coming = append(w.coming, coming{w.now.Add(time.Duration(1+w.rng.IntN(40*12)) * quantum), c})
}

// makeJob has the processor make a job, or give one again.
func (w *world) makeJob(c batch.Creation) (batch.Job, error) {
	before := len(w.fake.Jobs())
	job, err := w.fake.Create(context.Background(), c)
	if err != nil || len(w.fake.Jobs()) == before {
		return job, err
	}
	w.oracle.jobMade(c)
	w.ends = append(w.ends, jobEnd{job.ID, w.now.Add(time.Duration(w.rng.IntN(24*12)) * quantum)})
	return job, nil
}

// endJob is the processor's end of a job.
func (w *world) endJob(id string) {
	status := "completed"
	switch {
	case w.strikes(jobRefused, id):
		w.fake.Refuse(id, batch.Fault{Line: 1 + w.rng.IntN(3), Code: "invalid_request"})
		return
	case w.strikes(jobExpired, id):
		status = "expired"
	}
	w.oracle.expiring = status == "expired"
	if !w.fake.EndAs(id, status, nil) {
		return
	}
	w.note(nil, id+" is "+status)
	if w.strikes(resultsLost, id) {
		w.oracle.loseResults(id)
	}
	if w.strikes(jobVanished, id) {
		w.fake.ForgetJob(id)
		w.oracle.vanished[id] = true
	}
}

// happens is what people and clocks do between two steps of the processes.
func (w *world) happens() error {
	switch {
	case w.strikes(clockAhead, "the wall clock"):
		w.jump = time.Duration(1+w.rng.IntN(180*12)) * quantum
	case w.strikes(clockBack, "the wall clock"):
		w.jump = -time.Duration(1+w.rng.IntN(60*12)) * quantum
	case w.jump != 0 && w.rng.IntN(400) == 0:
		w.jump = 0
	}
	return w.operate().meddle()
}

// settle lets everything come to rest: nothing goes wrong any more, the processes
// end, and a last one does what is left, while an operator answers what is asked.
func (w *world) settle() error {
	w.calm, w.ending = true, true
	for _, p := range w.processes {
		for p.alive {
			w.let(p)
		}
	}
	w.jump = 0
	if len(w.oracle.breaches) > 0 {
		return nil
	}
	return w.operate().settle()
}

// passes are those that bring reports on.
func (w *world) passes() []reconcile.PassName {
	if w.calls() {
		return []reconcile.PassName{reconcile.PassCollect, reconcile.PassResolve, reconcile.PassSubmit, reconcile.PassCall, reconcile.PassCall, reconcile.PassConsume, reconcile.PassApply}
	}
	return []reconcile.PassName{reconcile.PassCollect, reconcile.PassResolve, reconcile.PassSubmit, reconcile.PassPoll, reconcile.PassConsume, reconcile.PassApply}
}
