package reconcile

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"rollcall/reconcile/schedule"
)

// Scheduled is a schedule of the configuration: when, and which passes.
type Scheduled struct {
	Name       string
	Expression string
	Zone       string
	Passes     []PassName // in the order in which they are run
	Plan       *schedule.Schedule
}

var (
	// ErrOtherPlan: the ledger has another expression or zone for a schedule, from
	// a process with another configuration. It is left to that process.
	ErrOtherPlan = errors.New("another process has given this schedule another expression or zone")
	// ErrNeverDue: a schedule names no instant.
	ErrNeverDue = errors.New("it names no instant within eight years")
	errPanic    = errors.New("the pass panicked")
)

const (
	// slotRetry is the wait before a slot is begun again whose passes are not
	// done. It doubles with each run, up to slotRetryMax.
	slotRetry    = time.Minute
	slotRetryMax = time.Hour
	// missedLimit bounds how many missed instants are counted.
	missedLimit = 10_000
)

// slotWait is the wait behind the given run of a slot.
func slotWait(begun int64) time.Duration {
	wait := slotRetry
	for ; begun > 1 && wait < slotRetryMax; begun-- {
		wait *= 2
	}
	return min(wait, slotRetryMax)
}

// rule decides what is to be done about a schedule. It is pure.
//
// When the next due instant has come, a slot is begun for the latest one that
// has, which stands for all before it. It lives until its passes are done or the
// next slot takes its place: the passes read their work from the ledger, so the
// next slot does what this one did not. In between it is begun again, at once
// where its process died or was told to end, and after a growing wait where a
// pass failed or was held by another process. So no night waits for the next one
// because of a fault that goes away.
//
// A next due instant, or a retry, that is further away than the rules can put it
// was planned by a clock that was ahead; it is put back. What that clock has run
// already is not run a second time.
func (s *Scheduled) rule(v ScheduleView, now time.Time) (SlotRuling, error) {
	if v.Cron != s.Expression || v.Zone != s.Zone {
		return SlotRuling{}, ErrOtherPlan
	}
	next := s.Plan.Next(now)
	if next.IsZero() {
		return SlotRuling{}, ErrNeverDue
	}
	open := v.open()
	if v.NextDue.After(now) {
		r := SlotRuling{NextDue: v.NextDue}
		if v.NextDue.After(next) {
			r.NextDue = next
		}
		r.Again = open != nil && open.dueAgain(now)
		return r, nil
	}
	latest, missed, _ := s.Plan.Missed(v.NextDue, now, missedLimit)
	r := SlotRuling{NextDue: next, Begin: latest, Missed: missed}
	switch {
	case open == nil:
	case !open.At.Before(latest): // begun by a clock that was ahead
		return SlotRuling{NextDue: next, Again: open.dueAgain(now)}, nil
	case open.Outcome == "":
		r.End = SlotInterrupted
	default:
		r.End = open.Outcome
	}
	return r, nil
}

// dueAgain says whether a slot that is not over, and that nobody runs, is begun
// again.
func (s *Slot) dueAgain(now time.Time) bool {
	return s.RetryAt == nil || !s.RetryAt.After(now) || s.RetryAt.After(now.Add(slotRetryMax))
}

// PutSchedule makes the ledger know a schedule, and closes the finding that it
// was refused. ErrNeverDue. It may be called again at any time.
func (r *Reconciler) PutSchedule(ctx context.Context, s Scheduled) (changed bool, err error) {
	now, err := r.Now(ctx)
	if err != nil {
		return false, err
	}
	next := s.Plan.Next(now)
	if next.IsZero() {
		return false, fmt.Errorf("schedule %s: %w", s.Name, ErrNeverDue)
	}
	changed, err = r.Store.PutSchedule(ctx, now, SchedulePlan{Name: s.Name, Expression: s.Expression, Zone: s.Zone, NextDue: next})
	if err != nil {
		return false, err
	}
	return changed, r.settle(ctx, now, EventScheduleRefused, scheduleLease(s.Name), "the schedule is correct now")
}

// RefuseSchedule opens a finding about a schedule that cannot be run.
func (r *Reconciler) RefuseSchedule(ctx context.Context, name, why string) error {
	now, err := r.Now(ctx)
	if err != nil {
		return err
	}
	return r.raise(ctx, now, EventScheduleRefused, scheduleLease(name), why)
}

// scheduleLease is the name of a schedule's lease, and of the subject of
// findings about it.
func scheduleLease(name string) string { return "schedule:" + name }

// Due lists those of some schedules for which there is something to do and that
// no process is at. It only reads.
func (r *Reconciler) Due(ctx context.Context, all []Scheduled) ([]Scheduled, error) {
	now, err := r.Now(ctx)
	if err != nil {
		return nil, err
	}
	known, err := r.Store.Schedules(ctx, now)
	if err != nil {
		return nil, err
	}
	views := map[string]ScheduleView{}
	for _, v := range known {
		views[v.Name] = v
	}
	var due []Scheduled
	for _, s := range all {
		v, ok := views[s.Name]
		if !ok {
			due = append(due, s) // it was lost with the ledger's last commits
			continue
		}
		if v.RunningSince != nil {
			continue
		}
		if ruling, err := s.rule(v, now); err == nil && (!ruling.Begin.IsZero() || ruling.Again || !ruling.NextDue.Equal(v.NextDue)) {
			due = append(due, s)
		}
	}
	return due, nil
}

// RunDue runs the passes of a schedule if it is due, and notes how that ended;
// see rule for when it is. A pass that fails does not keep those behind it from
// running, and one that another process is running is left to it. While another
// process runs the schedule, it is left alone: false, and no error. ErrOtherPlan,
// and ErrUnknownCommit with which nobody knows whether this process has the lease:
// that no commit succeeds must not look like another process at work.
func (r *Reconciler) RunDue(ctx context.Context, s Scheduled) (ran bool, err error) {
	err = r.withLease(ctx, scheduleLease(s.Name), func(ctx context.Context, now time.Time) error {
		slot, err := r.Store.ClaimSlot(ctx, now, s.Name, func(v ScheduleView) (SlotRuling, error) { return s.rule(v, now) })
		if err != nil || slot == nil {
			return err
		}
		// The slot is committed and no pass has run. If the process dies here, the
		// next one to look begins the slot again once the lease has expired.
		ran = true
		return r.runSlot(ctx, s, *slot)
	})
	switch {
	case errors.Is(err, ErrHeld) && !errors.Is(err, ErrUnknownCommit) && !ran:
		return false, nil
	case errors.Is(err, ErrNotFound) && !ran:
		_, err = r.PutSchedule(ctx, s)
		return false, err
	case err != nil:
		return ran, fmt.Errorf("schedule %s: %w", s.Name, err)
	}
	return ran, nil
}

// slotRun is what one run of a slot has come to.
type slotRun struct {
	tally   Tally
	errs    []error
	held    bool
	stopped bool
}

func (run *slotRun) outcome() SlotOutcome {
	switch {
	case run.stopped:
		return SlotInterrupted
	case len(run.errs) > 0:
		return SlotFailed
	case run.held:
		return SlotHeld
	}
	return SlotDone
}

// runSlot runs the passes of a slot that is committed as begun.
func (r *Reconciler) runSlot(ctx context.Context, s Scheduled, slot Slot) error {
	began := r.Uptime()
	var run slotRun
	for _, p := range s.Passes {
		if run.stopped = ctx.Err() != nil; run.stopped {
			break
		}
		tally, err := r.runGuarded(ctx, p)
		run.tally.Add(tally)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			run.stopped = true
		case errors.Is(err, ErrHeld) && !errors.Is(err, ErrUnknownCommit):
			run.held = true
		default:
			run.errs = append(run.errs, fmt.Errorf("%s: %w", p, err))
		}
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrLeaseLost) {
		return cause // whoever has it now goes on with the slot
	}
	err := r.finishSlot(context.WithoutCancel(ctx), slot, run.outcome())
	r.logSlot(slot, &run, r.Uptime()-began, err)
	return errors.Join(append(run.errs, err)...)
}

func (r *Reconciler) finishSlot(ctx context.Context, slot Slot, outcome SlotOutcome) error {
	now, err := r.Now(ctx)
	if err != nil {
		return err
	}
	var retry *time.Time
	switch outcome {
	case SlotInterrupted:
		retry = new(now)
	case SlotFailed, SlotHeld:
		retry = new(now.Add(slotWait(slot.Begun)))
	}
	return r.Store.FinishSlot(ctx, now, slot, outcome, retry)
}

func (r *Reconciler) logSlot(slot Slot, run *slotRun, took time.Duration, err error) {
	outcome := run.outcome()
	e := r.Log.Debug()
	switch {
	case err != nil:
		e = r.Log.Error().Err(err)
	case outcome == SlotFailed:
		e = r.Log.Warn()
	case outcome == SlotInterrupted, slot.Missed > 0, slot.Begun > 1, run.tally.Moved > 0:
		e = r.Log.Info()
	}
	e.Str("schedule", slot.Schedule).Time("slot", slot.At).Int64("missed", slot.Missed).Int64("begun", slot.Begun).Str("outcome", string(outcome)).
		Int64("seen", run.tally.Seen).Int64("moved", run.tally.Moved).Int64("failed", run.tally.Failed).Dur("dur_ms", took).Msg("slot")
}

// runGuarded runs a pass and makes an error of a panic. Of what was thrown only
// the type is told: the value may hold anything, and so may the arguments of the
// functions on the way.
func (r *Reconciler) runGuarded(ctx context.Context, p PassName) (tally Tally, err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = fmt.Errorf("%w with a value of type %T", errPanic, thrown)
			r.Log.Error().Str("pass", string(p)).Str("type", fmt.Sprintf("%T", thrown)).Strs("stack", functionsOnStack()).Msg("a pass panicked")
		}
	}()
	return r.Run(ctx, p)
}

// functionsOnStack names the functions that led to a panic, the innermost first.
func functionsOnStack() []string {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])]) // without the functions that recover
	var names []string
	for {
		f, more := frames.Next()
		names = append(names, fmt.Sprintf("%s:%d", f.Function, f.Line))
		if !more {
			return names
		}
	}
}

// EventScheduleRefused is raised where the configuration is read.
var EventScheduleRefused = EventKind{"schedule_refused", Critical,
	"a schedule cannot be run as it stands in the configuration; the others run",
	"correct its cron or zone, as told by: rollcall config check; have the daemon read the configuration again, with SIGHUP or a restart, " +
		"and the finding closes by itself; if the schedule was taken out" + thenResolve}
