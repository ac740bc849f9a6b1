package reconcile

import (
	"fmt"
	"strings"
	"time"
)

// Stages of a report's current revision besides those of its work: what people
// want to know is where the text is.
const (
	reportHeld        = "held"        // no approved policy
	reportAccepted    = "accepted"    // its work is pending
	reportSubmitted   = "submitted"   // the provider has its job
	reportEnded       = "ended"       // the provider is done with its job
	reportUnaccounted = "unaccounted" // neither work nor hold
)

// Outcomes of a submission that has none, for people.
const (
	SubmissionOpen      = "open"      // it may still be on its way
	SubmissionUncertain = "uncertain" // open past its send deadline
)

// Conclude fills in the stage of the current revision and what happens next.
// pauses are the active ones.
func (h *ReportHistory) Conclude(pauses []Pause) {
	h.Stage, h.Next = h.conclude(pauses)
}

const waitsForOperator = "waits for an operator: "

func (h *ReportHistory) conclude(pauses []Pause) (stage, next string) {
	for _, r := range h.Revisions {
		if r.Revision == h.CurrentRevision && r.Held {
			return reportHeld, waitsForOperator + "no policy of its source is approved"
		}
	}
	w := h.currentWork()
	if w == nil {
		return reportUnaccounted, waitsForOperator + "the ledger holds neither a work nor a hold for its current revision"
	}
	switch w.Stage {
	case StagePending:
		return reportAccepted, w.nextPending(pauses)
	case StageCollected:
		return w.nextCollected(pauses)
	case StageExtracted:
		if p := paused(pauses, PauseApply, ScopeAll); p != "" {
			return string(w.Stage), waitsForOperator + p
		}
		return string(w.Stage), "apply writes its record"
	default:
		return string(w.Stage), w.nextRecorded()
	}
}

// currentWork is the live work of the current revision.
func (h *ReportHistory) currentWork() *WorkView {
	for i := range h.Works {
		if w := &h.Works[i]; w.Revision == h.CurrentRevision && w.Disposition == Live {
			return w
		}
	}
	return nil
}

func (w *WorkView) nextPending(pauses []Pause) string {
	if p := w.dispatchStopped(pauses); p != "" {
		return waitsForOperator + p
	}
	return "collect adds it to a job, not before " + at(&w.EligibleAt)
}

// dispatchStopped says why the work may not be sent, or "".
func (w *WorkView) dispatchStopped(pauses []Pause) string {
	if w.PolicyState != PolicyApproved {
		return fmt.Sprintf("policy %s is %s", w.Policy, w.PolicyState)
	}
	policy, _, _ := strings.Cut(w.Policy, "/")
	return paused(pauses, PauseDispatch, ScopeAll, "account:"+w.Account, "policy:"+policy)
}

func (w *WorkView) nextCollected(pauses []Pause) (stage, next string) {
	s := w.openSend()
	if s == nil {
		return string(StageCollected), waitsForOperator + "the ledger calls it a member of a job and holds no such job"
	}
	switch s.JobState {
	case JobSubmitted:
		if p := paused(pauses, PausePoll, ScopeAll); p != "" {
			return reportSubmitted, waitsForOperator + p
		}
		return reportSubmitted, fmt.Sprintf("poll asks about job %s at %s", s.JobID, at(s.NextPoll))
	case JobEnded:
		return reportEnded, fmt.Sprintf("consume reads the results of job %s at %s", s.JobID, at(s.NextConsume))
	case JobPlanning, JobReady:
		return string(StageCollected), w.nextUnsent(s, pauses)
	default:
		return string(StageCollected), waitsForOperator + fmt.Sprintf("job %s is %s and the work has no outcome", s.JobID, s.JobState)
	}
}

// openSend is the newest membership without an outcome.
func (w *WorkView) openSend() *SendView {
	for i := len(w.Sent) - 1; i >= 0; i-- {
		if w.Sent[i].Outcome == "" {
			return &w.Sent[i]
		}
	}
	return nil
}

func (w *WorkView) nextUnsent(s *SendView, pauses []Pause) string {
	switch s.Submission {
	case SubmissionUncertain:
		return waitsForOperator + fmt.Sprintf("nobody knows whether the provider has job %s (rollcall job resolve %s)", s.JobID, s.JobID)
	case SubmissionOpen:
		return fmt.Sprintf("submit is sending job %s", s.JobID)
	}
	if p := w.dispatchStopped(pauses); p != "" {
		return waitsForOperator + p
	}
	if s.JobState == JobPlanning {
		return fmt.Sprintf("collect completes job %s, and then submit sends it", s.JobID)
	}
	return fmt.Sprintf("submit sends job %s at %s", s.JobID, at(s.NextSubmit))
}

func (w *WorkView) nextRecorded() string {
	switch r := w.Record; {
	case r == nil:
		return waitsForOperator + "the ledger calls it recorded and holds no record"
	case !r.Authoritative:
		return "nothing: another record stands for the report"
	case r.HumanState == "decided":
		return "nothing: a person has decided"
	default:
		return "a person reviews it"
	}
}

// paused says which of the scopes is paused for a stage, or "".
func paused(pauses []Pause, stage PausedStage, scopes ...string) string {
	for _, p := range pauses {
		for _, scope := range scopes {
			if p.Stage == stage && p.Scope == scope {
				return fmt.Sprintf("%s is paused for %s (%s)", stage, scope, p.Reason)
			}
		}
	}
	return ""
}

func at(t *time.Time) string {
	if t == nil {
		return "an unknown time"
	}
	return t.UTC().Format(time.RFC3339)
}
