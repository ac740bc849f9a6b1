package reconcile

import "time"

// The shapes in this file are what people and scripts read: `--json` prints
// them as they are, so a field is never renamed or removed. They hold ids,
// counts and times, never text.

// Overview counts what is where.
type Overview struct {
	LedgerID string             `json:"ledger_id"`
	At       time.Time          `json:"at"`
	Reports  int64              `json:"reports"`
	Works    map[Stage]int64    `json:"works"` // live ones, by stage
	Jobs     map[JobState]int64 `json:"jobs"`
	Records  map[string]int64   `json:"authoritative_records"` // by label, or by reason for unclassified ones
	Decisions
	OpenFindings int64          `json:"open_findings"`
	Leases       []LeaseView    `json:"leases"` // held ones
	NextPoll     *time.Time     `json:"next_poll,omitempty"`
	NextCall     *time.Time     `json:"next_call,omitempty"` // of the jobs whose texts are called one by one
	Schedules    []ScheduleView `json:"schedules"`
	// WaitingJobs are ready jobs that are put off for a limit of their account.
	WaitingJobs map[LimitWord]int64 `json:"waiting_jobs"`
	Spend       []SpendView         `json:"spend"` // by policy and currency
}

// Decisions is what waits for an operator, and what may come to. It costs what
// is open, however many reports are done.
type Decisions struct {
	Held          int64           `json:"held"` // reports without an approved policy
	Uncertain     []UncertainView `json:"uncertain_submissions"`
	Open          []UncertainView `json:"open_submissions"` // before their send deadline: on their way, or their process died
	Pauses        []Pause         `json:"pauses"`
	NeedsDecision []Finding       `json:"needs_decision"` // open findings of at least warning severity: some of each name, critical ones first
}

// LeaseView is a lease that a process holds.
type LeaseView struct {
	Name   string    `json:"name"`
	Holder string    `json:"holder"`
	Until  time.Time `json:"until"`
}

// UncertainView is a submission without an outcome. Past SendBy nobody knows
// whether the provider has it.
type UncertainView struct {
	SubmissionID string    `json:"submission_id"`
	JobID        string    `json:"job_id"`
	IntentAt     time.Time `json:"intent_at"`
	SendBy       time.Time `json:"send_by"`
	InputFileID  string    `json:"input_file_id,omitempty"`
	LookView
}

// LookView is how far the search for the job of an uncertain submission is.
type LookView struct {
	Looks    int64      `json:"looks"` // complete lists that showed no job
	NextLook *time.Time `json:"next_look,omitempty"`
	Obstacle string     `json:"obstacle,omitempty"` // why an operator must decide
}

// ReportHistory answers "which stage failed?" for one report.
type ReportHistory struct {
	ReportID        string         `json:"report_id"`
	Tenant          string         `json:"tenant"`
	System          string         `json:"source_system"`
	ExternalID      string         `json:"external_id"`
	CurrentRevision int64          `json:"current_revision"`
	Stage           string         `json:"stage"` // of the current revision: held, accepted, collected, submitted, ended, extracted, recorded, unaccounted
	Next            string         `json:"next"`  // what happens next, in one sentence
	Revisions       []RevisionView `json:"revisions"`
	Works           []WorkView     `json:"works"`
	Findings        []Finding      `json:"findings"` // of the report and its works, and open ones of its policy and job while it is under way
}

// RevisionView is one accepted revision.
type RevisionView struct {
	Revision   int64     `json:"revision"`
	AcceptedAt time.Time `json:"accepted_at"`
	Bytes      int64     `json:"content_bytes"`
	Cleaned    bool      `json:"cleaned"`
	Urgent     bool      `json:"urgent"`
	Media      string    `json:"media,omitempty"`
	Held       bool      `json:"held"`
}

// WorkView is one extraction of a report.
type WorkView struct {
	WorkID      string      `json:"work_id"`
	Revision    int64       `json:"revision"`
	Policy      string      `json:"policy"`
	PolicyState PolicyState `json:"policy_state"`
	Account     string      `json:"account"` // the boundary that was recorded when the work was made
	Host        string      `json:"host"`
	Region      string      `json:"region"`
	Disposition Disposition `json:"disposition"`
	Stage       Stage       `json:"stage"`
	Reason      Reason      `json:"reason,omitempty"`
	EligibleAt  time.Time   `json:"eligible_at"`
	DueAt       time.Time   `json:"due_at"`
	Attempts    int64       `json:"attempts"` // answers that counted
	Sent        []SendView  `json:"sent"`
	Record      *RecordView `json:"record,omitempty"`
}

// SendView is one submission of a job that the work was a member of, or the
// membership while there is none: each time the text left, or was about to.
type SendView struct {
	JobID         string      `json:"job_id"`
	JobState      JobState    `json:"job_state"`
	ProviderJobID string      `json:"provider_job_id,omitempty"`
	SubmissionID  string      `json:"submission_id,omitempty"`
	Submission    string      `json:"submission_outcome,omitempty"` // "uncertain" while open past its deadline, "open" before
	Evidence      string      `json:"evidence,omitempty"`           // what the outcome of the submission rests on
	SendBy        *time.Time  `json:"send_by,omitempty"`            // when the submission is uncertain without an outcome
	NextLook      *time.Time  `json:"next_look,omitempty"`          // when resolve looks for its job at the provider
	Obstacle      string      `json:"obstacle,omitempty"`           // why resolve cannot settle it
	LeftAt        *time.Time  `json:"left_at,omitempty"`            // when its text may have left at the earliest: the intent; none if it provably did not
	Processor     string      `json:"processor"`
	Account       string      `json:"account"`
	Host          string      `json:"host"`
	Region        string      `json:"region"`
	Outcome       ItemOutcome `json:"outcome,omitempty"`
	Code          string      `json:"code,omitempty"`
	Vendor        string      `json:"vendor,omitempty"` // who served it, where the processor passes texts on
	NextSubmit    *time.Time  `json:"next_submit,omitempty"`
	WaitsFor      LimitWord   `json:"waits_for,omitempty"` // the limit of its account that the job was put off for
	NextPoll      *time.Time  `json:"next_poll,omitempty"` // for a job whose texts are called one by one: when call looks at it
	Called        bool        `json:"called,omitempty"`    // its texts are called one by one
	NextConsume   *time.Time  `json:"next_consume,omitempty"`
}

// RecordView is a review record.
type RecordView struct {
	Kind          string    `json:"kind"`
	Label         string    `json:"label,omitempty"`
	Reason        string    `json:"reason,omitempty"`
	Authoritative bool      `json:"authoritative"`
	HumanState    string    `json:"human_state"`
	Model         string    `json:"model,omitempty"`
	At            time.Time `json:"at"`
}

// JobView is one job in a list.
type JobView struct {
	JobID         string     `json:"job_id"`
	State         JobState   `json:"state"`
	Uncertain     bool       `json:"uncertain"`
	Policy        string     `json:"policy"`
	Processor     string     `json:"processor"`
	Account       string     `json:"account"`
	Host          string     `json:"host"`
	Region        string     `json:"region"`
	Items         int64      `json:"items"`
	ProviderJobID string     `json:"provider_job_id,omitempty"`
	Status        string     `json:"provider_status,omitempty"`
	Total         int64      `json:"provider_total"`
	Completed     int64      `json:"provider_completed"`
	Failed        int64      `json:"provider_failed"`
	CreatedAt     time.Time  `json:"created_at"`
	SubmittedAt   *time.Time `json:"submitted_at,omitempty"`
	NextSubmit    *time.Time `json:"next_submit,omitempty"`
	WaitsFor      LimitWord  `json:"waits_for,omitempty"` // the limit of its account that it was put off for
	NextPoll      *time.Time `json:"next_poll,omitempty"` // for a job whose texts are called one by one: when call looks at it
	Called        bool       `json:"called,omitempty"`    // its texts are called one by one
	EndedAt       *time.Time `json:"ended_at,omitempty"`
	ConsumedAt    *time.Time `json:"consumed_at,omitempty"`
}

// JobHistory is one job with all that belongs to it.
type JobHistory struct {
	JobView
	ContentBytes int64                 `json:"content_bytes"`      // of its members' texts
	Estimate     *CostView             `json:"estimate,omitempty"` // what it may take when it is sent, while it is not and the configuration tells
	Submissions  []SubmissionView      `json:"submissions"`
	Sets         []SetView             `json:"result_sets"`
	Outcomes     map[ItemOutcome]int64 `json:"outcomes"` // "" counts members without one
	Findings     []Finding             `json:"findings"`
}

// SubmissionView is one attempt to create a job.
type SubmissionView struct {
	SubmissionID string     `json:"submission_id"`
	Attempt      int64      `json:"attempt"`
	Lines        int64      `json:"lines"`
	Bytes        int64      `json:"bytes"`
	IntentAt     time.Time  `json:"intent_at"`
	SendBy       time.Time  `json:"send_by"`
	InputFileID  string     `json:"input_file_id,omitempty"`
	Outcome      string     `json:"outcome"` // "open" and "uncertain" while there is none
	Evidence     string     `json:"evidence,omitempty"`
	ClosedAt     *time.Time `json:"closed_at,omitempty"`
	LookView
	LastLook *time.Time `json:"last_look,omitempty"`
	FencedAt *time.Time `json:"fenced_at,omitempty"` // when its input file was deleted, so that a late create fails
	Money    CostView   `json:"money"`
}

// SetView is one result set.
type SetView struct {
	Channel string           `json:"channel"`
	State   string           `json:"state"`
	FileID  string           `json:"file_id,omitempty"`
	Lines   int64            `json:"lines"`
	Bytes   int64            `json:"bytes"`
	Became  map[string]int64 `json:"lines_became"` // by disposition
}

// Workload says what each pass would find now.
type Workload struct {
	Held       int64        `json:"held"`
	Pending    int64        `json:"pending"`       // eligible works
	Later      int64        `json:"pending_later"` // works that become eligible later
	Planning   int64        `json:"planning"`      // jobs
	Ready      int64        `json:"ready"`         // jobs to send now
	ReadyLater int64        `json:"ready_later"`   // jobs to send later
	Open       int64        `json:"open"`          // submissions without an outcome
	CallsDue   int64        `json:"calls_due"`     // jobs whose texts are called one by one, with something to do now
	Called     int64        `json:"called"`        // such jobs, due or not
	PollsDue   int64        `json:"polls_due"`
	Submitted  int64        `json:"submitted"`      // jobs at the provider, due or not
	EndedDue   int64        `json:"ended_due"`      // jobs to consume now
	Ended      int64        `json:"ended"`          // jobs to consume, due or not
	Extracted  int64        `json:"extracted"`      // works to apply
	Overdue    int64        `json:"overdue"`        // works past their due time that get an unclassified record
	Next       *time.Time   `json:"next,omitempty"` // the earliest instant at which a pass has something to do
	Plan       []PolicyLoad `json:"plan"`
}

// NextWork says when a pass has something to do.
type NextWork struct {
	At      *time.Time // nil when nothing is left that goes on by itself
	Overdue int64      // works past their due time that check gives to a person
}

// PolicyLoad is what waits under one policy version.
type PolicyLoad struct {
	Policy  string `json:"policy"`
	Account string `json:"account"`
	Host    string `json:"host"`
	Region  string `json:"region"`
	Works   int64  `json:"works"`
	Bytes   int64  `json:"bytes"`
}
