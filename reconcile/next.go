package reconcile

import (
	"cmp"
	"fmt"
	"slices"
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
	SubmissionOpen      = "open"      // it may still be on its way, or its process died before a job was asked for
	SubmissionUncertain = "uncertain" // open past its send deadline, and a job may have been asked for
)

// Conclude fills in the stage of the current revision and what happens next,
// from its works and findings. pauses are the active ones.
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
	o := outlook{WorkView: w, pauses: pauses, findings: h.Findings}
	switch w.Stage {
	case StagePending:
		return reportAccepted, o.nextPending()
	case StageCollected:
		return o.nextCollected()
	case StageExtracted:
		if p := o.paused(PauseApply, ScopeAll); p != "" {
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

// outlook is a work with what may stand in its way.
type outlook struct {
	*WorkView
	pauses   []Pause
	findings []Finding
}

func (o outlook) nextPending() string {
	if stop := o.dispatchStopped(); stop != "" {
		return waitsForOperator + stop
	}
	return "collect adds it to a job, not before " + at(&o.EligibleAt)
}

// dispatchStopped says why the work may not be sent, or "".
func (o outlook) dispatchStopped() string {
	if o.PolicyState != PolicyApproved {
		return fmt.Sprintf("policy %s is %s", o.Policy, o.PolicyState)
	}
	policy, _, _ := strings.Cut(o.Policy, "/")
	if p := o.paused(PauseDispatch, ScopeAll, "account:"+o.Account, "policy:"+policy); p != "" {
		return p
	}
	return o.found("policy:"+o.Policy, EventBoundaryMismatch)
}

func (o outlook) nextCollected() (stage, next string) {
	s := o.openSend()
	if s == nil {
		return string(StageCollected), waitsForOperator + "the ledger calls it a member of a job and holds no such job"
	}
	job := "job:" + s.JobID
	switch s.JobState {
	case JobSubmitted:
		if s.Called {
			return reportSubmitted, o.nextCalled(s)
		}
		if p := o.paused(PausePoll, ScopeAll); p != "" {
			return reportSubmitted, waitsForOperator + p
		}
		if f := o.found(job, EventAccountMismatch, EventJobVanished); f != "" {
			return reportSubmitted, waitsForOperator + f
		}
		return reportSubmitted, fmt.Sprintf("poll asks about job %s at %s", s.JobID, at(s.NextPoll))
	case JobEnded:
		if f := o.found(job, EventAccountMismatch, EventResultsUnreadable); f != "" {
			return reportEnded, waitsForOperator + f
		}
		return reportEnded, fmt.Sprintf("consume reads the results of job %s at %s", s.JobID, at(s.NextConsume))
	case JobPlanning, JobReady:
		return string(StageCollected), o.nextUnsent(s)
	default:
		return string(StageCollected), waitsForOperator + fmt.Sprintf("job %s is %s and the work has no outcome", s.JobID, s.JobState)
	}
}

// nextCalled is what happens next to a member whose text is called by itself.
func (o outlook) nextCalled(s *SendView) string {
	stop := o.dispatchStopped()
	for _, f := range []string{o.found("job:"+s.JobID, EventAccountMismatch, EventBoundaryMismatch, EventTextUnreadable), o.found("policy:"+o.Policy, EventLaneClosed)} {
		if stop == "" {
			stop = f
		}
	}
	if stop != "" {
		return waitsForOperator + stop
	}
	return fmt.Sprintf("call asks about the texts of job %s as fast as its account permits, the next time at %s", s.JobID, at(s.NextPoll))
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

func (o outlook) nextUnsent(s *SendView) string {
	switch s.Submission {
	case SubmissionUncertain:
		if s.Obstacle != "" {
			return waitsForOperator + fmt.Sprintf("nobody knows whether the provider has job %s: %s (rollcall job resolve %s)", s.JobID, s.Obstacle, s.JobID)
		}
		return fmt.Sprintf("nobody knows yet whether the provider has job %s; resolve looks for it there at %s, and nothing is sent before that is settled", s.JobID, at(cmp.Or(s.NextLook, s.SendBy)))
	case SubmissionOpen:
		return fmt.Sprintf("a submission of job %s is open until %s; without an outcome by then, the job is sent again if no upload was noted, and is looked for at the provider otherwise", s.JobID, at(s.SendBy))
	}
	if stop := o.dispatchStopped(); stop != "" {
		return waitsForOperator + stop
	}
	if f := o.found("job:"+s.JobID, EventBoundaryMismatch, EventTextUnreadable); f != "" {
		return waitsForOperator + f
	}
	if s.JobState == JobPlanning {
		return fmt.Sprintf("collect completes job %s, and then submit sends it", s.JobID)
	}
	if s.WaitsFor != "" {
		return fmt.Sprintf("submit sends job %s once its account is within its limit (%s), and tries at %s", s.JobID, s.WaitsFor, at(s.NextSubmit))
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
func (o outlook) paused(stage PausedStage, scopes ...string) string {
	for _, p := range o.pauses {
		if p.Stage == stage && slices.Contains(scopes, p.Scope) {
			return fmt.Sprintf("%s is paused for %s (%s)", stage, p.Scope, p.Reason)
		}
	}
	return ""
}

// found names the open finding of one of the kinds about a subject, or "". The
// kinds are those that stop it for good; with others the passes go on.
func (o outlook) found(subject string, kinds ...EventKind) string {
	for _, f := range o.findings {
		stops := slices.ContainsFunc(kinds, func(k EventKind) bool { return k.Name == f.Name })
		if stops && f.Subject == subject && f.ResolvedAt == nil {
			return f.Name + " of " + subject + ", see rollcall findings"
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
