// Package batch is the contract between rollcall and a processor that
// classifies texts in batch jobs. It knows no reports and no database.
//
// An adapter classifies what happened; the passes wait, count and decide. An
// adapter never repeats a call that creates something, never sleeps, and never
// follows a redirect.
package batch

import (
	"context"
	"io"
	"time"
)

// Provider is one account at one processor, at one host. All methods may be
// used by several goroutines. Every error is an *Error.
type Provider interface {
	// Account says which account this is, without a call.
	Account() Account

	// Capabilities say what the processor can do, without a call.
	Capabilities() Capabilities

	// AppendRequest appends one request line, with its line feed, to dst. It
	// is a pure function of its arguments: the same arguments give the same
	// bytes, so that the length can be counted before the body is sent. A
	// classifier that asks for what the processor cannot do, such as Echo, is
	// Rejected.
	AppendRequest(dst []byte, c *Classifier, customID string, text Text) ([]byte, error)

	// Upload hands over the request body and returns the provider's id for
	// it. It is called with HandoverFile only. It may be called twice; each call leaves a file of its own with
	// report text in it at the provider. No job exists after Upload, whatever
	// it returns.
	Upload(ctx context.Context, in Input) (fileID string, err error)

	// Create makes the job. It is called at most once for a submission, but for
	// an account that settles by key: the adapter must not repeat it, and an
	// error of kind UnknownOutcome means that the job may exist. Every other
	// kind is proof that it does not. An error may come with the id of a job: the
	// answer names one, and something is wrong with it.
	Create(ctx context.Context, c Creation) (Job, error)

	// Status looks the job up. It may be called at any time, any number of
	// times, and changes nothing. NotFound does not prove that the job never
	// existed.
	Status(ctx context.Context, jobID string) (Job, error)

	// Download opens a result file. It may be called again and always starts
	// at the first byte. size is -1 when the provider did not say. A body that
	// is cut short ends with io.ErrUnexpectedEOF or another error, never with
	// io.EOF, when the provider did say.
	Download(ctx context.Context, fileID string) (body io.ReadCloser, size int64, err error)

	// DecodeResult reads one line of a result file, without its line feed. It
	// never fails: a line that cannot be read has Outcome Unreadable. It does
	// not judge whether Content answers the question; Judge and the passes do.
	DecodeResult(line []byte) Result

	// DeleteFile deletes an input or result file. It may be called twice;
	// a file that is gone already is success.
	DeleteFile(ctx context.Context, fileID string) error
}

// Account identifies an account, so that a job is only ever looked up where it
// was created.
type Account struct {
	Processor string // "openai"
	Name      string // the name in the configuration
	Host      string // host[:port] of every call
	Region    string // as configured; "" when the operator did not say
	// Fingerprint tells accounts apart without revealing the key: it changes
	// when the key belongs to another account, and stays when it is rotated
	// within a project that the configuration names, where the processor has
	// something of the kind and a job is the same under either key.
	Fingerprint string
}

// Classifier is the question that is asked about every text of a job. It is
// part of the policy version: a change of any field is a new version.
type Classifier struct {
	Name            string   // "patient-community/1"
	Model           string   // the provider's model name
	AnswersAs       []string // other names by which answers may call it; see Approves
	Instructions    string   // the developer message; never holds report text
	Schema          []byte   // JSON Schema of the answer
	MaxOutputTokens int      //
	Temperature     *float64 // nil: not sent; some models refuse any value

	// Thresholds turn the scores of a processor that takes no question into an
	// answer, in order of precedence: the first one that is met gives the label.
	// Empty for a processor that is asked.
	Thresholds []Threshold
	// Otherwise is the label when no threshold is met.
	Otherwise string

	// Echo has each request carry a token that the answer must repeat, so that
	// an answer to another text is noticed; see EchoToken.
	Echo bool
}

// Input is a request body to upload.
type Input struct {
	Name   string        // file name at the provider: ids only, no text
	Size   int64         // exact length of the body in bytes
	Expiry time.Duration // how long the provider may keep it; 0 for its default
	// Write streams the body. It is called once.
	Write func(w io.Writer) error
}

// Creation asks for a job over a request body.
type Creation struct {
	FileID       string            // of the uploaded body, with HandoverFile
	Body         *Input            // the body itself, with HandoverInline
	Key          string            // the same for each repeat of one submission; used by accounts that settle by key
	Metadata     map[string]string // ids only; returned by the provider's listing
	OutputExpiry time.Duration     // how long the provider may keep the results; 0 for its default
}

// Phase is where a job stands, in words that all processors share.
type Phase string

const (
	// PhaseRunning: not finished; look again later. A status that the adapter
	// does not know is PhaseRunning with Known == false.
	PhaseRunning Phase = "running"
	// PhaseEnded: no further result will appear. It says nothing about the
	// items: all may have failed, and some may never have been run.
	PhaseEnded Phase = "ended"
	// PhaseInvalid: the provider refused the body as a whole; nothing ran.
	PhaseInvalid Phase = "invalid"
)

// Job is a provider's answer about a job.
type Job struct {
	ID      string
	Phase   Phase
	Status  string // the provider's own word, cleaned by SafeCode
	Known   bool   // whether the adapter knows Status
	Counts  Counts
	Files   []ResultFile // empty until PhaseEnded; an absent or empty id is left out
	Faults  []Fault      // why the body was refused, with PhaseInvalid
	Expires time.Time    // when the provider gives the job up; zero when not told
}

// Counts are the provider's own. They are shown and compared, never trusted.
type Counts struct{ Total, Completed, Failed int64 }

// Channel names a result file of a job.
type Channel string

// The channels of a job. ChannelFaults holds the provider's reasons for
// refusing a body; it is not a file.
const (
	ChannelOutput Channel = "output"
	ChannelError  Channel = "error"
	ChannelFaults Channel = "faults"
)

// ResultFile is a file of results.
type ResultFile struct {
	Channel Channel
	ID      string
}

// Fault is one reason for refusing a body. Line is counted from 1; 0 means
// that the fault is not about one line.
type Fault struct {
	Line int
	Code string // cleaned by SafeCode
}

// Outcome is what happened to one item, as far as its result line tells.
type Outcome string

const (
	// Answered: the model finished. Content is its whole answer, unjudged.
	Answered Outcome = "answered"
	// Refused: the model declined to answer.
	Refused Outcome = "refused"
	// Blocked: the provider's content filter stopped the text or the answer.
	Blocked Outcome = "blocked"
	// Truncated: the answer hit a length limit.
	Truncated Outcome = "truncated"
	// BadShape: reported as success, but not in the documented shape.
	BadShape Outcome = "bad_shape"
	// ItemRejected: this request is refused and will be refused again.
	ItemRejected Outcome = "rejected"
	// ItemFailed: a temporary fault of the provider; another try may succeed.
	ItemFailed Outcome = "failed"
	// ItemDenied: the account may not do this (key, model, project).
	ItemDenied Outcome = "denied"
	// ItemOutOfCredit: the account's money ran out before this item.
	ItemOutOfCredit Outcome = "out_of_credit"
	// Expired: not run before the job's window closed.
	Expired Outcome = "expired"
	// Cancelled: not run because the job was cancelled.
	Cancelled Outcome = "cancelled"
	// NotRun: not run, for a reason that the adapter does not know.
	NotRun Outcome = "not_run"
	// Unapproved: served by a vendor that is not allowed, or by nobody knows
	// whom. The text has been there already: the result is parked, never
	// applied, and a person is told at once. Only a processor that passes texts
	// on to others has it.
	Unapproved Outcome = "unapproved"
	// Unreadable: the line is not a result line.
	Unreadable Outcome = "unreadable"
)

// Result is one line of a result file.
type Result struct {
	CustomID     string // as returned; "" when the line has none
	Outcome      Outcome
	Code         string // the provider's error code, cleaned by SafeCode
	Content      []byte // the model's answer, with Answered only
	Model        string // the model that the provider says it used, cleaned by SafeName
	Vendor       string // who served it, as a provider that passes texts on tells, cleaned by SafeName
	InputTokens  int64
	OutputTokens int64
}
