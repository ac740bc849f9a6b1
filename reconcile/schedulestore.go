package reconcile

import (
	"context"
	"time"
)

// ScheduleStore keeps the schedules and their slots. A slot is one run of a
// schedule, known by the instant that it is for, so that each instant has one
// run, whichever process sees first that it has come.
type ScheduleStore interface {
	// PutSchedule makes a schedule known, or gives one that is known another
	// expression or zone, with the next due instant that follows from it. What is
	// due already stays due. The same again changes nothing.
	PutSchedule(ctx context.Context, now time.Time, p SchedulePlan) (changed bool, err error)
	// ClaimSlot asks what is to be done about a schedule and does it. It returns
	// the slot to run, nil for none. ErrNotFound, and decide's error, with which
	// nothing is written.
	ClaimSlot(ctx context.Context, now time.Time, name string, decide func(ScheduleView) (SlotRuling, error)) (*Slot, error)
	// FinishSlot notes how a run of a slot ended. With retry the slot is to be
	// begun again then; without one it is over. ErrMoved if the run is not the
	// slot's last one, or the slot is over.
	FinishSlot(ctx context.Context, now time.Time, s Slot, outcome SlotOutcome, retry *time.Time) error
	// Schedules lists every schedule with its last slot, by name.
	Schedules(ctx context.Context, now time.Time) ([]ScheduleView, error)
	// KeepLease prolongs a lease that is still held, by its own clock. ErrLeaseLost.
	KeepLease(ctx context.Context, l Lease) error
}

// SchedulePlan is a schedule as the ledger keeps it.
type SchedulePlan struct {
	Name       string
	Expression string
	Zone       string
	NextDue    time.Time
}

// SlotOutcome is how a run of a slot ended.
type SlotOutcome string

const (
	// SlotDone: every pass was run.
	SlotDone SlotOutcome = "done"
	// SlotFailed: a pass could not be run.
	SlotFailed SlotOutcome = "failed"
	// SlotHeld: another process had the lease of a pass.
	SlotHeld SlotOutcome = "held"
	// SlotInterrupted: the process was told to end, or died.
	SlotInterrupted SlotOutcome = "interrupted"
)

// SlotOutcomes lists every outcome.
func SlotOutcomes() []SlotOutcome {
	return []SlotOutcome{SlotDone, SlotFailed, SlotHeld, SlotInterrupted}
}

// SlotRuling is what is to be done about a schedule.
type SlotRuling struct {
	NextDue time.Time // of the schedule from now on
	// Begin is the instant of the slot to begin, zero for none. An instant that
	// has a slot already is not begun a second time. The open slot is over with End.
	Begin  time.Time
	Missed int64 // earlier instants that Begin stands for as well
	End    SlotOutcome
	// Again: the open slot is begun again.
	Again bool
}

// Slot is one run of a schedule.
type Slot struct {
	Schedule string    `json:"-"`
	Fence    int64     `json:"-"`
	At       time.Time `json:"slot"`   // the instant that it is for
	Missed   int64     `json:"missed"` // earlier instants that it stands for as well
	Begun    int64     `json:"begun"`  // how often
	// StartedAt is when it was begun the last time.
	StartedAt time.Time `json:"started_at"`
	// RetryAt is when it is begun again; none while it runs, and once it is over.
	RetryAt    *time.Time `json:"retry_at,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"` // once it is over
	// Outcome is how the last run ended; "" while it runs, and when its process died.
	Outcome SlotOutcome `json:"outcome,omitempty"`
}

// ScheduleView is a schedule with its last slot.
type ScheduleView struct {
	Name    string    `json:"schedule"`
	Cron    string    `json:"cron"`
	Zone    string    `json:"zone"`
	NextDue time.Time `json:"next_due"`
	// Last is the slot that is not over, or else the latest; nil before the first.
	Last *Slot `json:"last_slot,omitempty"`
	// RunningSince and RunningAt say which process runs the last slot.
	RunningSince *time.Time `json:"running_since,omitempty"`
	RunningAt    string     `json:"running_at,omitempty"`
	// FailedRuns is how many runs failed since the last one that was done, as far
	// as the last slots tell; a run under way does not count.
	FailedRuns int64 `json:"failed_runs"`
}

// FailingAfter is how many runs of a schedule must fail in a row for it to be
// failing: one is what the next one is for.
const FailingAfter = 3

// Failing says whether the last runs all failed, also while another one is under
// way.
func (v *ScheduleView) Failing() bool { return v.FailedRuns >= FailingAfter }

// open is the slot that is not over, nil for none.
func (v *ScheduleView) open() *Slot {
	if v.Last == nil || v.Last.FinishedAt != nil {
		return nil
	}
	return v.Last
}

// Late says whether the earliest instant that is not done with lies further back
// than after, while no process is at it.
func (v *ScheduleView) Late(now time.Time, after time.Duration) bool {
	waiting := v.NextDue
	if open := v.open(); open != nil && open.At.Before(waiting) {
		waiting = open.At
	}
	return v.RunningSince == nil && now.Sub(waiting) > after
}
