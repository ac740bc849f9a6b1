package reconcile

import (
	"cmp"
	"slices"
	"time"

	"rollcall/batch"
)

// Caps bound how often a work is tried.
type Caps struct {
	Attempts int64         // answers that failed, the last one included
	Runs     int64         // runs that ended without an answer, the last one included
	Retry    time.Duration // wait before the second try; it doubles with each further one
}

// longestRetry bounds the wait before another try.
const longestRetry = 12 * time.Hour

// Adjudicate decides what became of a member of a job, from all lines that the
// job's files hold for it. It is a pure function that does not depend on the
// order of the lines: a provider may return them in any order, in either file,
// more than once, or not at all.
func Adjudicate(f ItemFacts, caps Caps, phase batch.Phase) Ruling {
	lines := slices.SortedFunc(slices.Values(f.Lines), func(a, b LineFact) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Line, b.Line))
	})
	switch {
	case len(lines) == 0 && phase == batch.PhaseInvalid:
		// The body was refused as a whole, so nothing of it ran.
		return next(Ruling{Outcome: ItemNotRun, Code: "job_refused"}, f, caps)
	case len(lines) == 0:
		return next(Ruling{Outcome: ItemMissing}, f, caps)
	}
	first := lines[0]
	if slices.ContainsFunc(lines, func(l LineFact) bool { return l.LineMAC != first.LineMAC }) {
		// The order of lines must not choose what a patient's report is called.
		return Ruling{Outcome: ItemConflict, Code: "results_differ", Rest: LineDupConflict, Reason: ConflictingResults}
	}
	r := Ruling{Outcome: first.Outcome, Code: first.Code, Rest: LineItemError}
	switch r.Outcome {
	case ItemSucceeded:
		r.Accepted, r.Rest = &first, LineDupSame
	case lineUnreadable:
		r.Outcome = ItemInvalid
	}
	return next(r, f, caps)
}

// next adds to a ruling what is to be done with the work: nothing, another try
// later, or a reason for which a person gets the report.
func next(r Ruling, f ItemFacts, caps Caps) Ruling {
	switch {
	case r.Outcome == ItemSucceeded:
	case r.Outcome == ItemInvalid && r.Code == string(faultText):
		r.Reason = TextUnreadable // another try would meet the same text
	case r.Outcome.UsesAttempt() && f.Counted+1 < caps.Attempts,
		r.Outcome.UsesRun() && f.Uncounted+1 < caps.Runs:
		r.RetryAfter = growing(caps.Retry, f.Counted+f.Uncounted)
	default:
		r.Reason = lastReason(r.Outcome)
	}
	return r
}

// growing is the wait after a number of earlier tries.
func growing(first time.Duration, tries int64) time.Duration {
	wait := first
	for range tries {
		if wait >= longestRetry/2 {
			return max(longestRetry, first)
		}
		wait *= 2
	}
	return wait
}

// lastReason is the reason for which a person gets the report when there is no
// further try.
func lastReason(o ItemOutcome) Reason {
	switch o {
	case ItemRefused:
		return Refused
	case ItemBlocked:
		return BlockedByProvider
	case ItemRejected:
		return RejectedByProvider
	case ItemTruncated:
		return Truncated
	case ItemInvalid:
		return InvalidOutput
	case ItemUnapproved:
		return UnapprovedProcessor
	}
	return AttemptsUsedUp
}

// UsesAttempt says whether an outcome uses up one of the policy's attempts.
func (o ItemOutcome) UsesAttempt() bool {
	switch o {
	case ItemTruncated, ItemInvalid, ItemFailed, ItemMissing:
		return true
	}
	return false
}

// UsesRun says whether an outcome uses up one of the policy's runs: it says
// nothing about the text, and is capped all the same.
func (o ItemOutcome) UsesRun() bool {
	switch o {
	case ItemExpired, ItemCancelled, ItemNotRun, ItemDenied, ItemOutOfCredit:
		return true
	}
	return false
}
