package reconcile

import (
	"hash"
	"time"

	"rollcall/batch"
	"rollcall/reconcile/keyring"
)

// JobState is where a provider batch job stands in the ledger.
type JobState string

const (
	// JobPlanning: members are being added; collect moves it on.
	JobPlanning JobState = "planning"
	// JobReady: complete, and not yet accepted by the provider; submit moves it
	// on. With an open submission its outcome is uncertain.
	JobReady JobState = "ready"
	// JobSubmitted: the provider's job id is recorded; poll moves it on.
	JobSubmitted JobState = "submitted"
	// JobEnded: the provider is done with it; consume moves it on.
	JobEnded JobState = "ended"
	// JobConsumed: every member has an outcome. Final.
	JobConsumed JobState = "consumed"
	// JobAbandoned: never sent, or given up by an operator. Final.
	JobAbandoned JobState = "abandoned"
)

// JobStates lists every state.
func JobStates() []JobState {
	return []JobState{JobPlanning, JobReady, JobSubmitted, JobEnded, JobConsumed, JobAbandoned}
}

// jobMoves are the allowed moves. The schema's CHECK lists the same states.
var jobMoves = map[JobState][]JobState{
	JobPlanning:  {JobReady, JobAbandoned},
	JobReady:     {JobSubmitted, JobAbandoned},
	JobSubmitted: {JobEnded},
	JobEnded:     {JobConsumed},
}

// MayMove says whether a job may go from one state to another.
func MayMove(from, to JobState) bool {
	for _, s := range jobMoves[from] {
		if s == to {
			return true
		}
	}
	return false
}

// Job is a job as the passes see it.
type Job struct {
	ID            string
	Policy        PolicyKey
	BoundaryID    string
	State         JobState
	Items         int64
	ContentBytes  int64
	Account       string // fingerprint of the account that it was sent to
	ProviderJobID string
	SubmissionID  string // of the accepted submission; filled by ClaimEndedJobs only
	Price         *Price // that it was sent at, nil for none; filled by ClaimEndedJobs only
	Status        string // the provider's last word
	Phase         batch.Phase
	SubmittedAt   time.Time
	Expires       time.Time // when the provider gives it up; zero when not told
	EndedAt       time.Time
	Misses        int64     // NotFound answers in a row
	FirstMiss     time.Time // zero without a miss
	Incomplete    time.Time // since when its files, or lines of them, have been missing; zero otherwise
}

// PlanStep adds members to the job that a policy version is planning, and may
// declare it ready.
type PlanStep struct {
	JobID  string // made by the caller for the first step, the planning job's id afterwards
	Policy *PolicyVersion
	Had    int64    // members that the job had when these were chosen; ErrMoved if it has others by now
	Works  []string // in order
	Ready  bool     // no more members will come
}

// Intent is what submit commits before a byte leaves.
type Intent struct {
	SubmissionID string // short and random; the second half of every custom id
	JobID        string
	Account      batch.Account
	Alone        bool      // only if no other submission to this account is open
	SendBy       time.Time // after this instant no one may still be sending
	// Manifest begins a digest that the store feeds with "work id, revision" of
	// every line in order; its sum becomes part of the intent. It is called once
	// for each try of the transaction.
	Manifest func() hash.Hash
	// Estimate is what a job of so many lines, with so many bytes of text, may
	// take; it becomes part of the intent. nil for none.
	Estimate func(lines, content int64) Estimate
	// Admission is what the intent must keep within; nil for nothing.
	Admission *Admission
}

// Submission is a committed intent.
type Submission struct {
	ID       string
	JobID    string
	Attempt  int64
	Lines    int64 // how many members are sent
	IntentAt time.Time
	SendBy   time.Time
	Manifest string // the manifest's digest, in hexadecimal
}

// CustomID is what joins a result line to its work: the work's id, which is
// the same after a restore, and the submission's, which keeps attempts apart.
func CustomID(workID, submissionID string) string { return workID + "-" + submissionID }

// RequestItem is one line to be rendered.
type RequestItem struct {
	Line       int64
	WorkID     string
	ReportID   string
	ContentMAC string
	Text       keyring.Encrypted
}

// Upload is what is noted before a job is asked for: the body that was handed
// over, or that goes with the request for the job.
type Upload struct {
	SubmissionID string
	FileID       string // "" for a body that goes with the request
	Bytes        int64
	BodyMAC      string
}

// SubmissionOutcome is how a submission ended.
type SubmissionOutcome string

// The outcomes. A submission without one is open.
const (
	SubmissionAccepted     SubmissionOutcome = "accepted"      // the provider has the job
	SubmissionRejected     SubmissionOutcome = "rejected"      // provably refused, or never asked for
	SubmissionProvenAbsent SubmissionOutcome = "proven_absent" // found not to be there, by evidence
	SubmissionAbandoned    SubmissionOutcome = "abandoned"     // given up: a repeat does no harm, or an operator says so
)

// Acceptance closes a submission: the provider has the job.
type Acceptance struct {
	SubmissionID  string
	ProviderJobID string
	Status        string
	NextPoll      time.Time
	Expires       time.Time
	Evidence      string // "" for "job ID", the provider's answer to the create
	Calls         bool   // no provider has a job: its texts are called one by one
	FileID        string // the job's input file, for a submission that has noted none; "" when not told
}

// Rejection closes a submission: the provider provably has no job of it.
type Rejection struct {
	SubmissionID string
	Evidence     string // kind, status and code; never a body
	TextLeft     bool   // some of the request body was handed to the network
	NextSubmit   time.Time
	Findings     []Event // about the job; opened with it
}

// JobAnswer is what a poll learned about a job that goes on.
type JobAnswer struct {
	JobID      string
	Status     string
	Counts     batch.Counts
	NextPoll   time.Time
	PullFrom   time.Time // no event pulls the next poll nearer than this; zero for not at all
	Expires    time.Time
	Incomplete bool // reported as ended without the files that its counts promise
}

// JobEnd is what a poll learned about a job that is over.
type JobEnd struct {
	JobID  string
	Phase  batch.Phase // PhaseEnded or PhaseInvalid
	Status string
	Counts batch.Counts
	Files  []batch.ResultFile // for PhaseInvalid the store adds the channel of faults
}
