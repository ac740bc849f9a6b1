package reconcile

import (
	"context"
	"hash"
	"time"

	"rollcall/batch"
	"rollcall/reconcile/keyring"
)

// CallStore keeps the calls of jobs at processors without jobs.
type CallStore interface {
	// CalledAccounts lists the fingerprints of the accounts that submitted jobs
	// whose texts are called one by one wait for.
	CalledAccounts(ctx context.Context) ([]string, error)
	// CalledJobs lists submitted jobs of an account, by its fingerprint, whose
	// texts are called one by one and that are due, with their accepted submission.
	// One planned behind horizon was planned by a wrong clock, and is due as well.
	// One that may not be called is listed only if it has all its answers.
	CalledJobs(ctx context.Context, now, horizon time.Time, account string, limit int) ([]Job, error)
	// UnwantedCalls lists jobs of an account, by its fingerprint, that have calls of
	// members that are not wanted any more, also while dispatch is paused.
	UnwantedCalls(ctx context.Context, account string, limit int) ([]string, error)
	// DropUncalled ends the calls of members of a job that are not wanted any
	// more, and says of how many members, at most limit. Those of which no call was
	// made become not_sent. Again until it is 0. ErrMoved.
	DropUncalled(ctx context.Context, now time.Time, jobID string, limit int) (int, error)
	// ClaimCalls permits calls that are due, at most as many as its Take allows,
	// and none while dispatch is paused or the policy is not approved. If members
	// among them are not wanted any more, it makes of these what DropUncalled does,
	// and claims nothing. The calls are the caller's until they are recorded, or
	// until the claim's end. ErrMoved, ErrUnknownCommit: nothing is claimed.
	ClaimCalls(ctx context.Context, now time.Time, c CallClaim) (CallGrant, error)
	// RecordCalls commits what became of calls. An answer counts once: for a call
	// that has one it changes nothing. ErrMoved for a job that has ended.
	RecordCalls(ctx context.Context, now time.Time, rec CallRecord) error
	// SettleCalls plans the next look at a job for the first of its calls that is
	// due, but not before floor, and at once when none is open. ErrMoved.
	SettleCalls(ctx context.Context, now, floor time.Time, jobID string) (CallsLeft, error)
	// BeginCallResults makes the result set of a job all of whose calls have an
	// answer, and says behind which line it is to be staged on. ErrMoved.
	BeginCallResults(ctx context.Context, jobID string) (after int64, err error)
	// CallAnswers lists the answers about the members of a job that have the next
	// lines behind a line, at most limit, in their order.
	CallAnswers(ctx context.Context, jobID string, after int64, limit int) ([]CalledMember, error)
	// EndCalls makes the result set of a job whole, if the line of each open member
	// is staged, and ends the job, in one transaction. mac digests the lines. A job
	// that has ended is left as it is; ErrMoved.
	EndCalls(ctx context.Context, now time.Time, jobID string, mac func() hash.Hash) error
}

// CallClaim asks for calls.
type CallClaim struct {
	JobID   string
	Account batch.Account
	Want    int
	Until   time.Time // when what was claimed, and left no trace, is due again
	Horizon time.Time // what is planned behind it was planned by a wrong clock
	// Take decides, from the account's bucket, how many calls may be begun and
	// what is left of it; next is when another one may.
	Take func(b Bucket) (left Bucket, n int64, next time.Time)
}

// CallGrant is what was claimed.
type CallGrant struct {
	Calls   []ClaimedCall
	Dropped int       // members that are not called any more
	Next    time.Time // when the account may be called again, if it may not be now
	Stopped error     // why no call may be begun: ErrPaused, ErrNotApproved
}

// ClaimedCall is one call that is to be made.
type ClaimedCall struct {
	Segment  int64     // counted from 1
	Segments int64     // 0 until the text was split
	Faults   int64     // earlier calls that failed, or left no trace
	Until    time.Time // the claim's end, by which it is told from another
	Item     RequestItem
}

// CallRecord is what became of calls of one job.
type CallRecord struct {
	JobID   string
	Account string // fingerprint
	Ends    []CallEnd
	// Adjust changes the account's bucket by what the processor said, and says
	// whether it did.
	Adjust func(b Bucket) (Bucket, bool)
	// Findings are opened with it: nobody meets again what has its answer.
	Findings []Event
}

// CallEnd is what became of one call: its answer, or when it is due again.
type CallEnd struct {
	WorkID   string
	Segment  int64
	Segments int64
	Result   *batch.Result     // without its content; nil for no answer
	Content  keyring.Encrypted // of the answer; empty for none
	Until    time.Time         // of its claim; without an answer, an end of another claim changes nothing
	Next     time.Time         // without an answer
	Code     string            // why, without an answer
	Fault    bool              // without an answer: it counts against the text
	Unmade   bool              // without an answer: no call was made
}

// CallsLeft is how far the calls of a job are.
type CallsLeft struct {
	Open bool      // there are calls without an answer
	Next time.Time // when the job is looked at again
}

// CalledMember is a member of a job with what its calls were answered.
type CalledMember struct {
	WorkID   string
	Line     int64
	Segments []CallAnswer // in order
}

// CallAnswer is the committed answer of one call.
type CallAnswer struct {
	Segments int64 // of how many
	Result   batch.Result
	Content  keyring.Encrypted // of Result
}
