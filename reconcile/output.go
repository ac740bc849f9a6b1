package reconcile

import (
	"fmt"
	"time"

	"rollcall/batch"
	"rollcall/reconcile/keyring"
)

// ItemOutcome is what became of one member of a job.
type ItemOutcome string

// The outcomes of an item. Those that may be tried again return the work to
// pending; the others end it.
const (
	ItemSucceeded   ItemOutcome = "succeeded"
	ItemRefused     ItemOutcome = "refused"
	ItemBlocked     ItemOutcome = "blocked"
	ItemTruncated   ItemOutcome = "truncated"
	ItemInvalid     ItemOutcome = "invalid"
	ItemRejected    ItemOutcome = "rejected"
	ItemFailed      ItemOutcome = "failed"
	ItemDenied      ItemOutcome = "denied"
	ItemOutOfCredit ItemOutcome = "out_of_credit"
	ItemExpired     ItemOutcome = "expired"
	ItemCancelled   ItemOutcome = "cancelled"
	ItemNotRun      ItemOutcome = "not_run"
	ItemMissing     ItemOutcome = "missing"
	ItemConflict    ItemOutcome = "conflict"
	ItemNotSent     ItemOutcome = "not_sent"
	ItemUnapproved  ItemOutcome = "unapproved" // served by a vendor or a model that nobody approved
)

// lineUnreadable is a line's outcome that is never an item's.
const lineUnreadable ItemOutcome = "unreadable"

// ItemOutcomes lists every outcome of an item.
func ItemOutcomes() []ItemOutcome {
	return []ItemOutcome{ItemSucceeded, ItemRefused, ItemBlocked, ItemTruncated, ItemInvalid, ItemRejected, ItemFailed, ItemDenied,
		ItemOutOfCredit, ItemExpired, ItemCancelled, ItemNotRun, ItemMissing, ItemConflict, ItemNotSent, ItemUnapproved}
}

// Disposition of a result line.
type LineDisposition string

// What became of a result line.
const (
	LineStaged      LineDisposition = "staged"       // not judged yet
	LineAccepted    LineDisposition = "accepted"     // its answer became the artifact
	LineDupSame     LineDisposition = "dup_same"     // the same line again
	LineDupConflict LineDisposition = "dup_conflict" // one of several that differ; none is used
	LineUnknownID   LineDisposition = "unknown_id"   // not a member of this job
	LineMalformed   LineDisposition = "malformed"    // not a result line
	LineItemError   LineDisposition = "item_error"   // the item's line, without an answer to use
)

// ResultSet is one file of results of a job.
type ResultSet struct {
	JobID   string
	Channel batch.Channel
	State   string // "staging", "whole" or "lost"
	FileID  string
}

// ResultLine is one line as consume read it.
type ResultLine struct {
	Line         int64
	WorkID       string // "" when it joins to no member
	LineMAC      string
	Bytes        int64
	Outcome      ItemOutcome // or "unreadable"
	Code         string
	Label        string // with ItemSucceeded only
	Evidence     string // positions in the text, as JSON, with ItemSucceeded only
	Model        string
	Vendor       string // who served it, as a processor that passes texts on tells; "" for none
	InputTokens  int64
	OutputTokens int64
	Content      keyring.Encrypted // the answer, or the raw line of a malformed one; empty for none
	PayloadMAC   string
	Disposition  LineDisposition // LineStaged, LineUnknownID or LineMalformed
}

// WholeSet closes the reading of a result set.
type WholeSet struct {
	JobID   string
	Channel batch.Channel
	Lines   int64
	Bytes   int64
	MAC     string
}

// ResultCounts are what was read of a job and what its provider counts. The
// latter are never an outcome, only a reason to look again.
type ResultCounts struct {
	Lines int64 // staged, of all sets; of several lines of one member one counts
	Told  int64 // completed and failed, by the provider
	Lost  int64 // sets that are gone at the provider
	// Shorter are the sets that have fewer lines than they had in an earlier
	// reading.
	Shorter int64
	Judged  int64 // members with an outcome that results gave them
}

// LineFact is what adjudication looks at: one staged line of a member.
type LineFact struct {
	Channel batch.Channel
	Line    int64
	LineMAC string
	Outcome ItemOutcome
	Code    string
	// What the provider says that it used; 0 for both where it does not.
	InputTokens  int64
	OutputTokens int64
}

// ItemFacts are a member's staged lines, and what the ledger knows of its work.
type ItemFacts struct {
	WorkID string
	// Counted and Uncounted are how often the work was tried before: answers
	// that count as an attempt, and runs that do not (expired, cancelled).
	Counted   int64
	Uncounted int64
	Lines     []LineFact
}

// Ruling is what adjudication decides about a member.
type Ruling struct {
	Outcome ItemOutcome
	Code    string
	// Accepted is the line whose answer becomes the artifact, nil for none.
	Accepted *LineFact
	// Rest is what becomes of the other lines.
	Rest LineDisposition
	// Reason ends the work without an artifact; "" with ItemSucceeded, and for
	// a work that returns to pending.
	Reason Reason
	// RetryAfter is how long a work that returns to pending waits.
	RetryAfter time.Duration
	// Charge is what the member cost, whatever its outcome.
	Charge Charge
}

// JudgedChunk says how far adjudication of a job has come.
type JudgedChunk struct {
	Outcomes map[ItemOutcome]int64
	Late     []string // report ids whose artifact came after their record
	After    int64    // the last position judged; the next chunk starts behind it
	Done     bool
}

// Events are what a person must know about a chunk. They are committed with it,
// so that no crash can keep one from being told.
func (c JudgedChunk) Events(jobID string) []Event {
	var out []Event
	for _, report := range c.Late {
		out = append(out, EventLateResult.event("report:"+report, "job "+jobID))
	}
	if n := c.Outcomes[ItemConflict]; n > 0 {
		out = append(out, EventResultConflict.event("job:"+jobID, fmt.Sprintf("%d items", n)))
	}
	return out
}

// Candidate is a work whose outcome is known and not yet applied, with what
// stands for its report.
type Candidate struct {
	WorkID          string
	ReportID        string
	Revision        int64
	Disposition     Disposition
	Authority       AuthorityRule
	CurrentRevision int64 // the highest that was accepted
	// Standing describes the authoritative record, when there is one.
	HasStanding      bool
	StandingRevision int64
	StandingDecided  bool        // a person has decided about it
	StandingWork     Disposition // of the work it came from
}

// MarkerDecision is what applying a work does.
type MarkerDecision string

const (
	// MarkAuthoritative: the record stands for its report; an earlier one becomes history.
	MarkAuthoritative MarkerDecision = "authoritative"
	// MarkHistory: the record is kept and stands for nothing.
	MarkHistory MarkerDecision = "history"
)

// AppliedChunk is what one transaction of apply did.
type AppliedChunk struct {
	Seen          int // candidates looked at; 0 ends the pass
	Authoritative int
	History       int
	// AfterDecision are reports whose new record gave way to a person's
	// decision about an older revision.
	AfterDecision []string
}

// Events are what a person must know about a chunk, committed with it.
func (c AppliedChunk) Events() []Event {
	var out []Event
	for _, report := range c.AfterDecision {
		out = append(out, EventEditedAfterDecision.event("report:"+report, "the newer revision's result is history"))
	}
	return out
}
