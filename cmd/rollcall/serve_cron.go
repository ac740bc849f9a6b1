package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	"rollcall/configs"
	"rollcall/reconcile"
)

// lookWithin bounds one look for what is due. A database that hangs must not
// keep the loop from living.
const lookWithin = 10 * time.Second

// generation is a configuration and what was made of it. It does not change: a
// reload makes another one, and what runs keeps its own.
type generation struct {
	*deployment
	reconciler *reconcile.Reconciler
	schedules  []reconcile.Scheduled
	refused    []configs.RefusedSchedule
	heartbeat  cron.Job
	hooks      map[string]*hook // by the account's name
	// jobs run a schedule, by name. The guard against a second run at a time is
	// in them, so that they outlive a reload.
	jobs map[string]cron.Job
	told sync.Map // schedules of which was said that they are left to another process
}

// generation makes a generation of a deployment. It reads every account's key, and
// the secrets of its webhook.
func (s *server) generation(d *deployment, before *generation) (*generation, error) {
	r, err := d.reconciler()
	if err != nil {
		return nil, err
	}
	hooks, err := d.hooks()
	if err != nil {
		return nil, err
	}
	r.Ran = s.noteDispatch
	g := &generation{deployment: d, reconciler: r, hooks: hooks, jobs: map[string]cron.Job{}}
	g.schedules, g.refused = d.config.Scheduled()
	g.heartbeat = s.guarded(s.lookForDue)
	if before != nil {
		g.heartbeat = before.heartbeat
	}
	for _, sched := range g.schedules {
		name := sched.Name
		g.jobs[name] = s.guarded(func() { s.runSchedule(name) })
		if before != nil && before.jobs[name] != nil {
			g.jobs[name] = before.jobs[name]
		}
	}
	return g, nil
}

// guarded makes a job that never runs twice at a time, whoever starts it, and
// whose panic ends nothing else. Skip stands around Recover: the other way round,
// one panic would leave the guard closed, and the job would never run again.
func (s *server) guarded(run func()) cron.Job {
	return cron.NewChain(cron.SkipIfStillRunning(cronLog{s}), cron.Recover(cronLog{s})).Then(cron.FuncJob(run))
}

// arm makes the ledger know the schedules, and says what runs when.
func (s *server) arm(ctx context.Context, g *generation) error {
	var good []reconcile.Scheduled
	for _, sched := range g.schedules {
		_, err := g.reconciler.PutSchedule(ctx, sched)
		switch {
		case errors.Is(err, reconcile.ErrNeverDue):
			g.refused = append(g.refused, configs.RefusedSchedule{Name: sched.Name, Err: &configs.FieldError{Field: "schedules", Message: err.Error()}})
		case err != nil:
			return err
		default:
			good = append(good, sched)
		}
	}
	g.schedules = good
	for _, r := range g.refused {
		g.log.Error().Err(r.Err).Str("schedule", r.Name).Msg("the schedule is refused; the others run")
		if err := g.reconciler.RefuseSchedule(ctx, r.Name, r.Err.Error()); err != nil {
			return err
		}
	}
	return s.announce(ctx, g)
}

func (s *server) announce(ctx context.Context, g *generation) error {
	now, err := g.store.Now(ctx)
	if err != nil {
		return err
	}
	views, err := g.store.Schedules(ctx, now)
	if err != nil {
		return err
	}
	for _, v := range views {
		if sched, ok := g.schedule(v.Name); ok {
			g.log.Info().Str("schedule", v.Name).Str("cron", v.Cron).Str("zone", v.Zone).Strs("passes", words(sched.Passes)).Time("next_due", v.NextDue).Msg("scheduled")
		}
	}
	return nil
}

func words(passes []reconcile.PassName) []string {
	var out []string
	for _, p := range passes {
		out = append(out, string(p))
	}
	return out
}

// schedule finds a schedule of this generation.
func (g *generation) schedule(name string) (reconcile.Scheduled, bool) {
	for _, sched := range g.schedules {
		if sched.Name == name {
			return sched, true
		}
	}
	return reconcile.Scheduled{}, false
}

// every is due again and again. cron's own knows no less than a second.
type every time.Duration

func (e every) Next(t time.Time) time.Time { return t.Add(time.Duration(e)) }

// schedule hands the entries of a generation to cron, in place of the earlier ones.
func (s *server) schedule(g *generation) {
	for _, id := range s.entries {
		s.cron.Remove(id)
	}
	s.entries = []cron.EntryID{s.cron.Schedule(every(g.config.Serve.Heartbeat.Std()), g.heartbeat)}
	for _, sched := range g.schedules {
		s.entries = append(s.entries, s.cron.Schedule(sched.Plan, g.jobs[sched.Name]))
	}
}

// lookForDue is the heartbeat: it begins whatever is due or was missed, and waits
// for none of it. cron alone would forget what came while nothing ran, and its
// timers stand still while the machine sleeps.
func (s *server) lookForDue() {
	defer func() { s.beat.Store(int64(uptime())) }()
	g := s.current.Load()
	ctx, cancel := context.WithTimeout(s.root, lookWithin)
	defer cancel()
	due, err := g.reconciler.Due(ctx, g.schedules)
	if err != nil {
		if s.root.Err() == nil {
			g.log.Error().Err(err).Msg("the ledger could not be asked what is due")
		}
		return
	}
	for _, sched := range due {
		s.running.Go(g.jobs[sched.Name].Run)
	}
}

// runSchedule runs a schedule if it is due, as it is configured now.
func (s *server) runSchedule(name string) {
	g := s.current.Load()
	sched, ok := g.schedule(name)
	if !ok {
		return // a reload has taken it out
	}
	ran, err := g.reconciler.RunDue(s.root, sched)
	switch {
	case err == nil, ran:
		s.trouble.over(g, name) // the passes and the slot were logged
	case s.root.Err() != nil:
	case errors.Is(err, reconcile.ErrOtherPlan):
		if _, again := g.told.LoadOrStore(name, true); !again {
			g.log.Warn().Str("schedule", name).Msg("left alone: a process with another configuration has given it another expression or zone")
		}
	default:
		s.trouble.add(g, name, err)
	}
}

// cronLog is what cron says. Of values only those are logged that are known to
// hold no text: a job's panic may throw anything.
type cronLog struct{ s *server }

func (c cronLog) Info(msg string, keysAndValues ...any) {
	g := c.s.current.Load()
	if g == nil {
		return
	}
	e := g.log.Trace()
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		switch v := keysAndValues[i+1].(type) {
		case time.Time:
			e = e.Time(fmt.Sprint(keysAndValues[i]), v)
		case cron.EntryID:
			e = e.Int(fmt.Sprint(keysAndValues[i]), int(v))
		}
	}
	e.Msg("cron: " + msg)
}

func (c cronLog) Error(err error, msg string, keysAndValues ...any) {
	e := c.s.log().Error().Str("type", fmt.Sprintf("%T", err))
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		if stack, ok := keysAndValues[i+1].(string); ok && keysAndValues[i] == "stack" {
			e = e.Strs("stack", functionNames(stack))
		}
	}
	e.Msg("cron: " + msg)
}

// functionNames are the functions of a printed stack, without their arguments.
func functionNames(stack string) []string {
	var names []string
	for line := range strings.Lines(stack) {
		if i := strings.LastIndexByte(line, '('); i > 0 && line[0] != '\t' {
			names = append(names, line[:i])
		}
	}
	return names
}
