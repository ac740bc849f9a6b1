package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"rollcall/reconcile"
)

// trouble knows which schedules this process cannot run, as the ledger cannot: a
// run that could not be begun leaves nothing there.
type trouble struct {
	mu   sync.Mutex
	with map[string]*struggle
}

// struggle is how a schedule cannot be run.
type struggle struct {
	said  string // of it, last
	times int64  // in a row
}

// add notes that a schedule could not be run, and tells it once for each cause.
func (t *trouble) add(g *generation, name string, err error) {
	level, cause := zerolog.ErrorLevel, err.Error()
	if errors.Is(err, reconcile.ErrUnknownCommit) && !errors.Is(err, reconcile.ErrUnwritable) {
		level, cause = zerolog.WarnLevel, reconcile.ErrUnknownCommit.Error()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.with == nil {
		t.with = map[string]*struggle{}
	}
	if t.with[name] == nil {
		t.with[name] = &struggle{}
	}
	w := t.with[name]
	w.times++
	if w.said == cause {
		return
	}
	w.said = cause
	g.log.WithLevel(level).Err(err).Str("schedule", name).Msg("the schedule could not be run; it is tried again with each heartbeat")
}

// over notes that a schedule was run, or was left to another process.
func (t *trouble) over(g *generation, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.with[name]; w != nil {
		g.log.Info().Str("schedule", name).Int64("times", w.times).Msg("the schedule, which could not be run, can be again")
		delete(t.with, name)
	}
}

// failing says whether a schedule could not be run several times in a row.
func (t *trouble) failing(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.with[name]
	return w != nil && w.times >= reconcile.FailingAfter
}

// writeProbe finds out whether the database takes writes, at most once in a
// heartbeat however many ask.
type writeProbe struct {
	mu    sync.Mutex
	asked bool
	at    time.Duration // the uptime behind the last answer
	err   error
	under chan struct{} // closed when the write under way has ended; nil for none
}

// check is the last answer, or a new one. A write that does not end before ctx
// does is none; it goes on, and no other one is begun beside it.
func (p *writeProbe) check(ctx context.Context, g *generation) error {
	p.mu.Lock()
	if p.under == nil {
		if p.asked && uptime()-p.at < g.config.Serve.Heartbeat.Std() {
			defer p.mu.Unlock()
			return p.err
		}
		p.under = make(chan struct{})
		go p.write(context.WithoutCancel(ctx), g)
	}
	under := p.under
	p.mu.Unlock()
	select {
	case <-under:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write asks the database, and tells the log when the answer is another one.
func (p *writeProbe) write(ctx context.Context, g *generation) {
	err := g.store.CheckWrite(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil && p.err == nil:
		g.log.Error().Err(err).Msg("the database takes no writes")
	case err == nil && p.err != nil:
		g.log.Info().Msg("the database takes writes again")
	}
	p.asked, p.at, p.err = true, uptime(), err
	close(p.under)
	p.under = nil
}
