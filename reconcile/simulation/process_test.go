package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/reconcile/witness"
	"rollcall/sql"
)

var (
	errDead = errors.New("this process is dead")
	errCut  = errors.New("the connection broke during COMMIT")
)

// process is one of several over the same ledger. It runs on a goroutine of its
// own, and only while the world lets it: it parks before each effect on anything
// outside of it, and between the steps that package crashpoint names.
//
// A process that dies is not stopped but made harmless: whatever it does from
// then on has no effect, and its goroutine comes to its end.
type process struct {
	w       *world
	name    string
	direct  bool // an operator's command: it never parks, and nothing fails
	alive   bool // its goroutine runs
	dead    bool
	resume  chan struct{}
	wake    time.Time // it is not run before
	at      string    // where it is parked
	parked  time.Time // and since when, by its own clock
	began   time.Time
	skew    time.Duration
	store   *sql.Store
	r       *reconcile.Reconciler
	witness *witness.File
	calling string    // the submission whose create is on its way
	listed  time.Time // when it was last told what jobs there are
	shown   time.Time // of which instant that list was
}

// start makes the process anew over the ledger, as its program does.
func (p *process) start() {
	w := p.w
	p.dead, p.began, p.skew, p.calling = false, w.now, 0, ""
	if !p.direct && w.strikes(clockSkew, p.name) {
		p.skew = time.Duration(w.rng.IntN(2)*3-1-w.rng.IntN(2)) * time.Second // -2, -1, 1 or 2 s
	}
	p.witness = witness.New(w.witnessPath(), p.store, p.clock)
	s := reconcile.DefaultSettings()
	s.Chunk, s.JobItems, s.JobsPerRun, s.CallRate = w.chunk, w.jobItems, 5, w.rate
	p.r = &reconcile.Reconciler{
		Store: p.store, Keys: w.keys, Accounts: w.accountsFor(p), Callers: w.callersFor(p), Settings: s,
		Go: func(call func()) { call() }, Wait: p.waits,
		Now:    func(context.Context) (time.Time, error) { return p.clock(), nil },
		Uptime: func() time.Duration { return w.now.Sub(p.began) },
		Rand:   readerOf(w.rng), Log: zerolog.Nop(), Witness: (*itsWitness)(p),
		Decoders: 1,
		Holder:   fmt.Sprintf("%s since %d", p.name, w.now.UnixMicro()), LeaseFor: 2 * time.Minute,
		Tick:      func(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }, // a write prolongs its lease
		PolicyFor: func(_, system string) (string, bool) { return policyOf(system) },
		Step: func(point string) {
			if !p.direct && !p.dead && !w.calm {
				w.points[point]++
			}
			_ = p.park(point)
		},
	}
}

// clock is the process's wall clock.
func (p *process) clock() time.Time { return p.w.now.Add(p.w.jump + p.skew) }

// open gives the process its connections to the ledger's file.
func (p *process) open() error {
	var err error
	p.store, err = sql.Open(context.Background(), sql.Options{
		Address: p.w.ledgerPath(), Actor: p.name, Now: p.clock, LeaseFor: 2 * time.Minute, Rand: readerOf(p.w.rng),
		Begin: p.park, Commit: p.commit, Committed: func(token string, generation int64) {
			if !p.dead {
				p.witness.Committed(token, generation)
			}
		},
	})
	return err
}

// park lets the world go on with whom it likes. What is behind it happens, if
// there is no error.
func (p *process) park(where string) error {
	switch {
	case p.direct:
		return nil
	case p.dead:
		return errDead
	}
	p.w.note(p, where)
	p.at, p.parked = where, p.clock()
	p.w.parked <- p
	<-p.resume
	if p.dead {
		return errDead
	}
	return nil
}

// commit is a COMMIT, which may fail, lie, or be the last that its process does.
func (p *process) commit(name string, commit func() error) error {
	w := p.w
	done := func() error {
		err := commit()
		if err == nil {
			w.oracle.committed(p, name)
		}
		return err
	}
	switch {
	case p.direct:
		return done()
	case p.dead:
		return errDead
	case w.strikes(crashBefore, name):
		p.dead = true
		return errDead
	case w.strikes(commitUndone, name):
		return errCut
	case w.strikes(commitUnsaid, name):
		return errors.Join(done(), errCut)
	case w.strikes(crashAfter, name):
		err := done()
		p.dead = true
		return err
	}
	return done()
}

// itsWitness is the process's witness, which a dead one cannot write.
type itsWitness process

func (i *itsWitness) NoteIntent(ctx context.Context, id reconcile.LedgerIdentity, s reconcile.Submission) error {
	if err := (*process)(i).park("note intent"); err != nil {
		return err
	}
	err := i.witness.NoteIntent(ctx, id, s)
	if err == nil {
		i.w.oracle.noted = s.ID
	}
	return err
}

func (i *itsWitness) Verify(ctx context.Context) error {
	if err := (*process)(i).park("verify witness"); err != nil {
		return err
	}
	return i.witness.Verify(ctx)
}

func (i *itsWitness) Compare(ctx context.Context) (reconcile.Comparison, error) {
	return i.witness.Compare(ctx)
}

func (i *itsWitness) Renew(ctx context.Context) error {
	if err := (*process)(i).park("renew witness"); err != nil {
		return err
	}
	return i.witness.Renew(ctx)
}

// live is what the process does until it dies or the world asks it to end: some
// pass, or an intake, again and again, as its schedules have it.
func (p *process) live() {
	ctx := context.Background()
	rest := 0
	if err := p.r.VerifyWitness(ctx, p.clock()); err != nil {
		p.w.note(p, "witness: "+short(err))
	}
	for !p.dead && !p.w.ending {
		moved, err := p.something(ctx)
		if err != nil {
			p.w.note(p, "error: "+short(err))
		}
		if rest++; moved {
			rest = 0
		}
		p.sleep(ctx, rest)
	}
}

// something runs a pass or takes reports in.
func (p *process) something(ctx context.Context) (moved bool, err error) {
	w := p.w
	moving := w.passes()
	switch n := w.rng.IntN(40); {
	case n < 8 && w.source.waits():
		return w.source.deliver(ctx, p)
	case n == 38:
		tally, err := p.r.Run(ctx, reconcile.PassSweep)
		return tally.Moved > 0, err
	case n == 39:
		if _, err := p.r.Run(ctx, reconcile.PassCheck); err != nil {
			return false, err
		}
		return false, p.r.VerifyWitness(ctx, p.clock())
	default:
		tally, err := p.r.Run(ctx, moving[w.rng.IntN(len(moving))])
		return tally.Moved > 0, err
	}
}

// sleep waits a little, and longer while there is nothing to do.
func (p *process) sleep(ctx context.Context, rest int) {
	w := p.w
	wait := time.Duration(1+w.rng.IntN(12)) * quantum
	if rest > 3 && !w.source.waits() {
		if next, err := p.store.Next(ctx, p.clock(), p.r.Settings.UnsentMargin); err == nil && next.At != nil {
			wait = min(max(next.At.Sub(p.clock()), wait), time.Hour)
		}
	}
	p.wake = w.now.Add(wait.Truncate(quantum))
	_ = p.park("asleep")
}

// waits is a wait within a pass.
func (p *process) waits(_ context.Context, d time.Duration) error {
	d = (d + quantum - 1).Truncate(quantum)
	if p.direct {
		p.w.pass(d)
		return nil
	}
	p.wake = p.w.now.Add(d)
	return p.park("waits")
}

// run starts the goroutine, which ends in the hands of the world.
func (p *process) run() {
	p.start()
	p.alive = true
	go func() {
		<-p.resume
		p.live()
		p.alive = false
		p.w.parked <- p
	}()
}

// rngReader draws bytes from the world's one source of chance.
type rngReader struct{ rng *rand.Rand }

func readerOf(rng *rand.Rand) rngReader { return rngReader{rng} }

func (r rngReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r.rng.Uint32())
	}
	return len(p), nil
}

// short is an error's text as far as it is the same in each run.
func short(err error) string {
	s := err.Error()
	return s[:min(len(s), 160)]
}

// unknownOutcome is what a client makes of a call that it could not finish.
func unknownOutcome(op string, cause error) error {
	kind := batch.Temporary
	if op == "create" {
		kind = batch.UnknownOutcome
	}
	return &batch.Error{Op: op, Kind: kind, Cause: cause}
}
