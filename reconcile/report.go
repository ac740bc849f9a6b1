package reconcile

import (
	"time"

	"rollcall/reconcile/keyring"
	"rollcall/reconcile/source"
)

// Identity is what a delivery is about. It never holds a request id, a
// delivery id or an attempt: each of them changes on a retry, and would turn
// the retry into another report.
type Identity struct {
	Tenant     string
	System     string // the source system
	ExternalID string
}

// RevisionRule is how a source tells an edit from a redelivery.
type RevisionRule string

const (
	// RevisionConflict: other content under a known revision is refused.
	RevisionConflict RevisionRule = "conflict"
	// RevisionNew: the source has no revisions; content never seen for the
	// report is the next revision.
	RevisionNew RevisionRule = "new_revision"
)

// Delivery is one report as a source delivered it, cleaned, encrypted and
// bound to a policy version, ready to be judged against the ledger.
type Delivery struct {
	Line         int // where it stood in the input, for messages
	Identity     Identity
	ReportID     string
	Revision     int64
	Rule         RevisionRule
	ContentMAC   string // of the cleaned text and whatever else the classifier may see
	MACKeyID     string
	ContentBytes int64 // length of the cleaned text as a JSON string
	Cleaned      bool  // whether cleaning replaced something
	Urgent       bool
	Media        string // what the source sent in place of text, or ""
	Reason       Reason // set when there is nothing to classify
	Text         keyring.Encrypted
	Policy       *PolicyVersion // nil while the source has no approved policy
	// WorkID gives the id of the work for the revision that the ledger settles on.
	WorkID func(revision int64) string
}

// KnownReport is what the ledger holds about a delivery's report.
type KnownReport struct {
	Exists          bool
	CurrentRevision int64
	// RevisionMAC is the content digest stored under the delivery's revision, "" if none.
	RevisionMAC string
	// SameContent is a stored revision that has the delivery's content, if HasSameContent.
	SameContent    int64
	HasSameContent bool
}

// Verdict is what became of a delivery.
type Verdict string

const (
	// Accepted: a report that the ledger did not know.
	Accepted Verdict = "accepted"
	// Revised: a higher revision of a known report; the older ones are history.
	Revised Verdict = "revised"
	// Late: a revision below the current one, kept as history without work.
	Late Verdict = "late"
	// Unchanged: the same delivery again; nothing was written.
	Unchanged Verdict = "unchanged"
	// Conflict: other content under a known revision, or an edit that has no
	// revision left; refused, with a finding.
	Conflict Verdict = "conflict"
)

// Judge decides what a delivery is. It returns the revision that the delivery
// has in the ledger. It is a pure function, so that a redelivery is judged as
// the first delivery was.
func (d *Delivery) Judge(k KnownReport) (Verdict, int64) {
	if !k.Exists {
		return Accepted, d.Revision
	}
	if d.Rule == RevisionNew {
		// A source without revisions redelivers old content now and then. Any
		// content that the ledger has seen for this report counts as a
		// redelivery: better to miss an edit back to an earlier wording than
		// to extract the same text again on each replay.
		if k.HasSameContent {
			return Unchanged, k.SameContent
		}
		if k.CurrentRevision >= source.MaxRevision {
			return Conflict, k.CurrentRevision
		}
		return Revised, k.CurrentRevision + 1
	}
	switch {
	case k.RevisionMAC == d.ContentMAC:
		return Unchanged, d.Revision
	case k.RevisionMAC != "":
		return Conflict, d.Revision
	case d.Revision > k.CurrentRevision:
		return Revised, d.Revision
	default:
		return Late, d.Revision
	}
}

// Receipt answers a delivery. The same delivery gets the same ids each time.
type Receipt struct {
	Line     int
	ReportID string
	WorkID   string // "" for a late revision, a conflict, and while the source has no approved policy
	Revision int64
	Verdict  Verdict
	Held     bool // no approved policy yet
}

// Stage is how far a work has come. It is a cache of facts for the index of
// what is due; an invariant compares the two.
type Stage string

// The stages of a work, in order.
const (
	StagePending   Stage = "pending"   // collect may take it once it is eligible
	StageCollected Stage = "collected" // a member of an open job
	StageExtracted Stage = "extracted" // an artifact or a reason stands; apply may take it
	StageRecorded  Stage = "recorded"  // record and marker stand; nothing more to do
)

// Stages lists every stage.
func Stages() []Stage {
	return []Stage{StagePending, StageCollected, StageExtracted, StageRecorded}
}

// Disposition is whether a work is still wanted.
type Disposition string

// The dispositions of a work.
const (
	Live       Disposition = "live"
	Superseded Disposition = "superseded" // a higher revision was accepted
	Withdrawn  Disposition = "withdrawn"  // an operator or a policy took it back
)

// Reason is why a report has no classification. Each one means that a person
// sees the report; none means that the text is harmless.
type Reason string

// The reasons of an unclassified record.
const (
	NoText             Reason = "no_text"
	AudioOnly          Reason = "audio_only"
	TooLarge           Reason = "too_large"
	Refused            Reason = "refused"
	BlockedByProvider  Reason = "blocked_by_provider"
	Truncated          Reason = "truncated"
	InvalidOutput      Reason = "invalid_output"
	ConflictingResults Reason = "conflicting_results"
	RejectedByProvider Reason = "rejected_by_provider"
	AttemptsUsedUp     Reason = "attempts_used_up"
	Overdue            Reason = "overdue"
	Routed             Reason = "routed"          // an operator gave it to a person
	TextUnreadable     Reason = "text_unreadable" // the stored text is damaged; the source still has it
	// UnapprovedProcessor: who served the text is not who was approved, or nobody
	// knows who did. The text has been there; what came back is not used.
	UnapprovedProcessor Reason = "unapproved_processor"
)

// Reasons lists every reason.
func Reasons() []Reason {
	return []Reason{NoText, AudioOnly, TooLarge, Refused, BlockedByProvider, Truncated, InvalidOutput,
		ConflictingResults, RejectedByProvider, AttemptsUsedUp, Overdue, Routed, TextUnreadable, UnapprovedProcessor}
}

// HeldReport is an accepted revision that waits for an approved policy.
type HeldReport struct {
	ReportID     string
	Identity     Identity
	Revision     int64
	ContentBytes int64
	Urgent       bool
	Media        string
	NoText       bool // nothing to classify
	AcceptedAt   time.Time
}

// NewWork is a work to be made for a held report.
type NewWork struct {
	WorkID string
	Held   HeldReport
	Policy *PolicyVersion
	Reason Reason // set when there is nothing to classify
}

// DueWork is a pending work that collect may take, in its order.
type DueWork struct {
	WorkID       string
	Urgent       bool
	CreatedAt    time.Time
	ContentBytes int64
}

// Closing ends a work without an artifact.
type Closing struct {
	WorkID string
	Reason Reason
}
