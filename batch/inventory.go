package batch

import (
	"context"
	"time"
)

// Settlement is how an account tells what became of a Create of unknown
// outcome. What a processor cannot tell is never guessed.
type Settlement string

const (
	// SettleByListing: jobs are listed with our metadata and their input file.
	SettleByListing Settlement = "listing"
	// SettleByResults: jobs are listed without any reference of ours. Only the
	// custom ids in the results of an ended job prove whose it is, so an account
	// has one unresolved submission at a time.
	SettleByResults Settlement = "results"
	// SettleByKey: the same Creation under the same Key gives the same job,
	// within Limits.KeyWindow of the first.
	SettleByKey Settlement = "key"
	// SettleByRepeat: the processor keeps no job, and a repeat does no harm
	// within the same boundary.
	SettleByRepeat Settlement = "repeat"
	// SettleByOperator: nothing tells. Jobs are not listed, and a repeat may be
	// another job; a person decides.
	SettleByOperator Settlement = "operator"
)

// Inventory is a Provider that tells what the account holds. Every method may
// be called any number of times.
type Inventory interface {
	Provider

	// ListJobs gives a page of the account's jobs, newest first, behind a
	// cursor ("" for the first page). An answer that contradicts itself, such as
	// an empty page with more behind it, is BadAnswer: what was not listed would
	// be taken for absent.
	ListJobs(ctx context.Context, after string) (JobPage, error)

	// ListFiles gives a page of the files that were uploaded as request bodies,
	// newest first, likewise. With HandoverInline there are none.
	ListFiles(ctx context.Context, after string) (FilePage, error)

	// Cancel asks for the end of a job. One that has ended already is left as
	// it is, which is success. NotFound as from Status.
	Cancel(ctx context.Context, jobID string) error

	// RequestID is the custom id of one line of a request body, and false for
	// a line that is none.
	RequestID(line []byte) (customID string, ok bool)
}

// JobDeleter is a Provider whose Deletion has Job.
type JobDeleter interface {
	Provider

	// DeleteJob deletes an ended job with its requests and results. It may be
	// called twice. Rejected while the job runs. NotFound as from Status: it does
	// not prove that the job is gone. Whoever has a delete in its books whose
	// answer was lost may take it for that one's; anyone else asks again later.
	DeleteJob(ctx context.Context, jobID string) error
}

// Inspector shows what a provider says about a job, for an operator's eyes.
type Inspector interface {
	// Inspect looks the job up once and gives the answer as it came, at most
	// 1 MiB of it. It may hold anything: it is shown on a terminal and kept
	// nowhere. An answer of any HTTP status is no error; no answer is.
	Inspect(ctx context.Context, jobID string) (Inspection, error)
}

// Inspection is an answer as it came.
type Inspection struct {
	HTTPStatus int
	Body       []byte
	Cut        bool   // the answer is longer than Body
	RequestID  string // the provider's own reference, cleaned by SafeCode
	RetryAfter time.Duration
}

// JobPage is a page of a listing.
type JobPage struct {
	Jobs []ListedJob
	Next string // the cursor of the next page; "" at the end of the list
}

// ListedJob is a job with what a listing tells about its origin.
type ListedJob struct {
	Job
	FileID   string            // the request body
	Metadata map[string]string // as given to Create; values that are no strings are left out
	Created  time.Time         // by the provider's clock; zero when not told
}

// FilePage is a page of a listing.
type FilePage struct {
	Files []ListedFile
	Next  string // the cursor of the next page; "" at the end of the list
}

// ListedFile is an uploaded request body.
type ListedFile struct {
	ID      string
	Name    string // as uploaded, if it is of [A-Za-z0-9_.-]; "" otherwise
	Bytes   int64
	Created time.Time // by the provider's clock; zero when not told
}
