package reconcile

import (
	"context"
	"errors"
	"time"

	"rollcall/batch"
)

var (
	// ErrNotFound: the ledger holds no such row.
	ErrNotFound = errors.New("not found")
	// ErrMoved: the row is no longer in the state that the change starts from;
	// somebody else was faster, and nothing was written.
	ErrMoved = errors.New("moved on by somebody else")
	// ErrAbandoned: nobody wants the job any more. It was given up and is final.
	ErrAbandoned = errors.New("abandoned, since no member is wanted any more")
	// ErrRefused: what is asked for is not to be done, now or later. Nothing was
	// written, and the error says why.
	ErrRefused = errors.New("refused")
	// ErrUnknownCommit: the database may or may not have committed. The caller
	// must treat the change as not done and must not act on it; the next run
	// finds out from the ledger.
	ErrUnknownCommit = errors.New("the outcome of the commit is unknown")
	// ErrUnwritable: the database takes no writes, since its disk is full, fails, or
	// is read-only. No row is at fault, so a pass ends with it, and nothing is sent:
	// no intent could be noted. It may be ErrUnknownCommit as well.
	ErrUnwritable = errors.New("cannot be written")
	// ErrPaused: a pause forbids it. Nothing was written.
	ErrPaused = errors.New("paused")
	// ErrNotApproved: the policy version is not approved, or no longer.
	ErrNotApproved = errors.New("policy version is not approved")
	// ErrOccupied: another submission to the same account is open, and the account
	// takes one at a time.
	ErrOccupied = errors.New("the account has another submission of unknown outcome")
	// ErrHeld: another holder has the lease.
	ErrHeld = errors.New("another process has the lease")
	// ErrLeaseLost: the lease was taken over; the holder must stop.
	ErrLeaseLost = errors.New("the lease was taken over by another process")
)

// Store is the ledger as the passes need it, in the order of the pipeline.
// Every method is one transaction, or one read. Where a decision depends on
// what the ledger holds, the method takes the decision as a pure function: the
// store opens the transaction, reads the facts, asks, and writes.
//
// A method that writes may be repeated after any error: it either did
// everything or nothing, and a second time changes nothing more.
type Store interface {
	IntakeStore
	CollectStore
	SubmitStore
	CallStore
	PollStore
	ConsumeStore
	ApplyStore
	AccountStore
	RouteStore
	CheckStore
	PolicyStore
	GuardStore
	ScheduleStore
	ViewStore
}

// IntakeStore takes reports in.
type IntakeStore interface {
	// AcceptReports judges and writes one chunk of deliveries, none of which
	// share a report. A delivery whose policy version is no longer approved is
	// held. Receipts come in the order of the deliveries. Conflicts open a
	// finding each.
	AcceptReports(ctx context.Context, now time.Time, ds []Delivery) ([]Receipt, error)
}

// CollectStore plans jobs.
type CollectStore interface {
	// HeldReports lists reports that wait for an approved policy, oldest
	// first, behind a report id ("" for the first).
	HeldReports(ctx context.Context, after string, limit int) ([]HeldReport, error)
	// BindWorks makes the works of held reports whose policy is approved now.
	BindWorks(ctx context.Context, now time.Time, works []NewWork) (int, error)
	// LoadedPolicies lists approved versions that have eligible works or a planning job.
	LoadedPolicies(ctx context.Context, now time.Time) ([]PolicyVersion, error)
	// PlanningJob is the job that a policy version is planning, or ErrNotFound.
	PlanningJob(ctx context.Context, key PolicyKey) (Job, error)
	// DueWorks lists eligible works, urgent ones first, then by age, behind a
	// work of the same order (nil for the first).
	DueWorks(ctx context.Context, now time.Time, key PolicyKey, after *DueWork, limit int) ([]DueWork, error)
	// AddItems makes works members of a planning job, and makes the job when it
	// is not there yet. ErrMoved if one of the works is not pending any more;
	// ErrPaused, ErrNotApproved.
	AddItems(ctx context.Context, now time.Time, step PlanStep) (Job, error)
	// CloseWorks ends pending works without an artifact.
	CloseWorks(ctx context.Context, now time.Time, closings []Closing) (int, error)
}

// SubmitStore sends jobs.
type SubmitStore interface {
	// CloseUnsent closes open submissions without an input file whose send
	// deadline passed before an instant, at most limit of them, as provably
	// absent; their jobs may be sent again now. It returns those jobs. Of an account
	// by its fingerprint, or of all with "", which is ErrPaused while dispatch is
	// paused for everything: a recovery may be under way.
	CloseUnsent(ctx context.Context, now, before time.Time, account, evidence string, limit int) (jobs []string, err error)
	// LastUnsent is the last send deadline of an account's open submissions without
	// a body; zero when there is none.
	LastUnsent(ctx context.Context, account string) (time.Time, error)
	// ReadyJobs lists jobs that may be sent: ready, due, not paused, and without
	// an open submission.
	ReadyJobs(ctx context.Context, now time.Time, limit int) ([]Job, error)
	// CommitIntent commits that a job is about to be sent. Members that are no
	// longer wanted become not_sent; a job without any other is abandoned, which
	// is committed (ErrAbandoned). An error of its Admission is returned as it is, and
	// nothing is committed. ErrPaused, ErrNotApproved, ErrMoved, ErrUnknownCommit: do not send.
	CommitIntent(ctx context.Context, now time.Time, in Intent) (Submission, error)
	// RequestItems pages through the lines of a submission, in order, behind a
	// line. A page may be shorter than limit; only an empty one is the end.
	RequestItems(ctx context.Context, jobID string, afterLine int64, limit int) ([]RequestItem, error)
	// RecordUpload notes the provider's input file before a job is asked for.
	// A submission that was closed meanwhile is ErrMoved: no job may be asked for.
	RecordUpload(ctx context.Context, up Upload) error
	// RecordAccepted closes a submission; the job is submitted, and the finding
	// that it was not sent is closed. Again with the same job changes nothing;
	// another job for the same submission is ErrMoved.
	RecordAccepted(ctx context.Context, now time.Time, a Acceptance) error
	// RecordRejected closes a submission; the job is ready again, later. ErrMoved
	// once its job was looked for.
	RecordRejected(ctx context.Context, now time.Time, r Rejection) error
	// CloseUnreadable ends works of a ready job whose text is damaged, with a
	// finding each, and makes the job due: its next intent drops them. It gives
	// those that it closed; one that is not to be sent any more is left alone.
	// ErrMoved for a job that is not ready.
	CloseUnreadable(ctx context.Context, now time.Time, jobID string, works []string) (UnreadableWorks, error)
	// DelaySubmit puts a ready job off that cannot be sent now. ErrMoved.
	DelaySubmit(ctx context.Context, jobID string, next time.Time) error
	// KeepBack is DelaySubmit for a job that waits for a limit of its account. It
	// notes which, and since when it has waited for any. ErrMoved.
	KeepBack(ctx context.Context, now time.Time, jobID string, next time.Time, limit LimitWord) error
}

// PollStore asks about jobs.
type PollStore interface {
	// ClaimDueJobs takes submitted jobs whose poll is due and moves their next
	// poll forward, before anything is asked. A poll planned behind horizon was
	// planned by a clock that was wrong, and is due as well. ErrPaused.
	ClaimDueJobs(ctx context.Context, now, next, horizon time.Time, limit int) ([]Job, error)
	// RecordAnswer notes what was told about a job that goes on.
	RecordAnswer(ctx context.Context, now time.Time, a JobAnswer) error
	// RecordMiss counts a NotFound answer and sets the next poll.
	RecordMiss(ctx context.Context, now time.Time, jobID string, next time.Time) (Job, error)
	// DelayPoll puts a submitted job off about which nothing was learned. ErrMoved.
	DelayPoll(ctx context.Context, jobID string, next time.Time) error
	// PullPoll moves the next poll of a submitted job forward, to an instant or
	// to the earliest one that its last answer permits (JobAnswer.PullFrom). It
	// gives the job, or "" where nothing is to be moved: the account has no such
	// job, it is not submitted any more, its poll is as near already, it is being
	// asked about, or the last look failed.
	PullPoll(ctx context.Context, to time.Time, account, providerJobID string) (jobID string, err error)
	// EndJob moves a job to ended and names the sets to read. A job that has
	// ended already is left as it is; one that was consumed is ErrMoved.
	EndJob(ctx context.Context, now time.Time, e JobEnd) error
}

// ConsumeStore reads and judges results.
type ConsumeStore interface {
	// ClaimEndedJobs takes ended jobs that are due and moves their next
	// consumption forward, so that another process leaves them alone until then.
	ClaimEndedJobs(ctx context.Context, now, next time.Time, limit int) ([]Job, error)
	// ResultSets lists the sets of a job.
	ResultSets(ctx context.Context, jobID string) ([]ResultSet, error)
	// RestartResultSet drops the staged lines of a set that is not whole.
	RestartResultSet(ctx context.Context, jobID string, channel batch.Channel) error
	// MemberTexts gives the encrypted input of those works that are members of
	// the job, keyed by work id. Others are left out.
	MemberTexts(ctx context.Context, jobID string, works []string) (map[string]RequestItem, error)
	// MemberLines gives the works of the named request lines, keyed by line.
	MemberLines(ctx context.Context, jobID string, lines []int64) (map[int64]string, error)
	// StageLines adds lines, or none, to a set that is not whole, and forgets
	// that its file was ever missing.
	StageLines(ctx context.Context, jobID string, channel batch.Channel, lines []ResultLine) error
	// FinishResultSet makes a set whole, if its lines are all staged; ErrMoved otherwise.
	FinishResultSet(ctx context.Context, now time.Time, w WholeSet) error
	// MissResultSet notes that the provider does not know a set's file, and
	// returns since when, and how often in a row.
	MissResultSet(ctx context.Context, now time.Time, jobID string, channel batch.Channel) (since time.Time, misses int64, err error)
	// LoseResultSet notes that a set is gone at the provider for good, and
	// drops what was staged of it.
	LoseResultSet(ctx context.Context, now time.Time, jobID string, channel batch.Channel) error
	// ResultCounts compares what is staged of a job with its provider's counts.
	ResultCounts(ctx context.Context, jobID string) (ResultCounts, error)
	// ReopenResultSets drops what is staged of an ended job, so that its sets are
	// read again from next on, and opens a finding. It notes since when. ErrMoved
	// once a member is judged.
	ReopenResultSets(ctx context.Context, now time.Time, jobID string, next time.Time, finding Event) error
	// PriceJob notes at what price a job counts that was sent at none, and says
	// whether it did: not once something of it is charged.
	PriceJob(ctx context.Context, jobID string, price Price) (bool, error)
	// JudgeItems judges the next members of a job behind a position, all of
	// whose sets are whole or lost. What they cost is charged to the job's
	// accepted submission in the same transaction, once for each.
	JudgeItems(ctx context.Context, now time.Time, jobID string, after int64, limit int, judge func(ItemFacts) Ruling) (JudgedChunk, error)
	// FinishJob moves a job to consumed, if every member has an outcome; ErrMoved otherwise.
	FinishJob(ctx context.Context, now time.Time, jobID string) error
}

// ApplyStore makes records.
type ApplyStore interface {
	// ApplyExtracted applies up to limit extracted works, each of another
	// report: record and marker in one transaction, from the ledger alone.
	ApplyExtracted(ctx context.Context, now time.Time, limit int, decide func(Candidate) MarkerDecision) (AppliedChunk, error)
}

// CheckStore calls the roll.
type CheckStore interface {
	// CloseOverdue ends works past their due time whose policy says so.
	CloseOverdue(ctx context.Context, now time.Time, limit int) (int, error)
	// CallRoll counts the reports and lists the offenders of each invariant, at
	// most limit of each, all in one read snapshot.
	CallRoll(ctx context.Context, invariants []Invariant, limit int) (Roll, []Offenders, error)
	// SaveBreaches opens a finding for each breach and, when the list is
	// complete, resolves the findings of this invariant that are not in it.
	SaveBreaches(ctx context.Context, now time.Time, inv Invariant, breaches []Breach, complete bool) (opened, resolved int, err error)
	// OpenFinding notes an event that a person must look at. While one is open
	// for the same name and subject, it is only counted.
	OpenFinding(ctx context.Context, now time.Time, f Event) error
	// Findings lists findings, newest first.
	Findings(ctx context.Context, openOnly bool, limit int) ([]Finding, error)
	// OpenEvents lists the open findings that no invariant closes, newest first.
	OpenEvents(ctx context.Context, limit int) ([]Finding, error)
	// ResolveFinding closes an open event. ErrNotFound; ErrRefused for an
	// invariant, which only the check closes, and for what is resolved already.
	ResolveFinding(ctx context.Context, now time.Time, id, actor, reason string) error
	// SettleEvent resolves the open event of a name and subject, and says whether
	// there was one. An invariant is left alone.
	SettleEvent(ctx context.Context, now time.Time, name, subject, resolution string) (settled bool, err error)
}

// PolicyStore keeps policy versions and the decisions about them.
type PolicyStore interface {
	// Policies lists every version, by name and version.
	Policies(ctx context.Context) ([]PolicyVersion, error)
	// Policy is one version, or ErrNotFound.
	Policy(ctx context.Context, key PolicyKey) (PolicyVersion, error)
	// ApprovePolicy stores a version with its boundary and a decision about it.
	// ErrRefused: its stored text differs, and a changed text needs a new version
	// number; it was revoked; or a higher version is approved and stays in force.
	// Again by the same actor changes nothing.
	ApprovePolicy(ctx context.Context, now time.Time, p PolicyVersion, actor, reason, evidenceRef string) error
}

// GuardStore keeps two processes out of each other's way.
type GuardStore interface {
	// AcquireLease takes a lease that is free or has expired. The fence grows
	// with each holder. ErrHeld.
	AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (Lease, error)
	// ReleaseLease gives a lease up, if it is still held.
	ReleaseLease(ctx context.Context, l Lease) error
	// Pause stops a stage within a scope. When it returns, no later
	// transaction of that stage commits, and what it lists is all that is out.
	// Again changes nothing, and gives the pause that stands. ErrRefused for a
	// scope that the stage does not heed.
	Pause(ctx context.Context, now time.Time, p Pause) (Paused, error)
	// Resume lifts a pause; that of dispatch resolves the open BrakeKinds of
	// the same scope. ErrNotFound.
	Resume(ctx context.Context, now time.Time, scope string, stage PausedStage, actor, reason string) error
	// Pauses lists the active pauses.
	Pauses(ctx context.Context) ([]Pause, error)
}

// Lease is the right to run a pass. A transaction under a lease commits only
// while the lease is held.
type Lease struct {
	Name   string
	Holder string
	Fence  int64
	// Clock is the ledger's time, for prolonging the lease: it was read from the
	// ledger once and goes on by a clock that nobody can set, so that a process
	// whose wall clock is wrong neither keeps others out for days nor gives the
	// lease away. nil is the process's wall clock.
	Clock func() time.Time
}

type leaseKey struct{}

// WithLease makes every write under ctx depend on the lease.
func WithLease(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// LeaseFrom is the lease that ctx runs under.
func LeaseFrom(ctx context.Context) (Lease, bool) {
	l, ok := ctx.Value(leaseKey{}).(Lease)
	return l, ok
}

// PausedStage is what a pause stops.
type PausedStage string

// What a pause can stop.
const (
	PauseIntake   PausedStage = "intake"
	PauseDispatch PausedStage = "dispatch"
	PausePoll     PausedStage = "poll"
	PauseApply    PausedStage = "apply"
)

// PauseScopes lists the kinds of scope that a stage heeds. A pause of another
// kind would stop nothing, and is refused.
func PauseScopes(s PausedStage) []string {
	switch s {
	case PauseIntake:
		return []string{ScopeAll, "policy"}
	case PauseDispatch, PausePoll:
		return []string{ScopeAll, "account", "policy"}
	case PauseApply:
		return []string{ScopeAll}
	}
	return nil
}

// ScopeAll is the scope of a pause that concerns everything. Others are
// "account:<name>" and "policy:<name>".
const ScopeAll = "all"

// Pause is an active brake.
type Pause struct {
	ID     string      `json:"pause_id"`
	Scope  string      `json:"scope"`
	Stage  PausedStage `json:"stage"`
	Actor  string      `json:"set_by"`
	Reason string      `json:"reason"`
	SetAt  time.Time   `json:"set_at"`
	// TakesPlace: it lifts a pause of the same that was set for another reason.
	// Whoever ends that, a drill say, would end this one unawares.
	TakesPlace bool `json:"-"`
}

// Severity is how much a finding matters.
type Severity string

// The severities.
const (
	Notice   Severity = "notice"
	Warning  Severity = "warning"
	Critical Severity = "critical"
)

// Invariant is something that must always be true. Its SQL file selects the
// offenders as (subject, detail); both hold ids and counts only.
type Invariant struct {
	Name     string   `json:"name"` // the SQL file's name
	Severity Severity `json:"severity"`
	Means    string   `json:"means"`  // what is wrong, in one sentence
	Remedy   string   `json:"remedy"` // what to do about it
	// Decision: the ledger is sound, and an operator must decide something.
	Decision bool `json:"needs_decision"`
	// Before bounds an invariant about something that has lasted too long: what
	// is older offends. Zero for one that knows no time.
	Before time.Time `json:"-"`
}

// Breach is one offender of an invariant.
type Breach struct {
	Subject string `json:"subject"` // "report:…", "work:…", "job:…", "submission:…", "source:…"
	Detail  string `json:"detail"`  // ids, stage, revision and counts
}

// Offenders are the breaches of one invariant.
type Offenders struct {
	Total    int64    `json:"offenders"`
	Breaches []Breach `json:"breaches"` // the first ones, by subject
}

// Roll is where the accepted reports are. Accepted is the sum of the others:
// a report that stands nowhere is unaccounted for.
type Roll struct {
	Accepted      int64            `json:"accepted"`
	Authoritative int64            `json:"authoritative"` // reports with a record
	Held          int64            `json:"held"`          // without a record, waiting for an approved policy
	InFlight      int64            `json:"in_flight"`     // without a record, with a work on its way
	Unaccounted   int64            `json:"unaccounted"`   // none of these
	Classified    map[string]int64 `json:"classified"`    // authoritative records by label
	Unclassified  map[Reason]int64 `json:"unclassified"`  // authoritative records by reason
	Records       int64            `json:"records"`       // authoritative records; more than Authoritative when one is double
}

// Event is something that a pass saw and a person must look at.
type Event struct {
	Name     string
	Subject  string
	Severity Severity
	Detail   string // ids and counts only
}

// Finding is a breach or an event on record.
type Finding struct {
	ID         string     `json:"finding_id"`
	Name       string     `json:"name"`
	Kind       string     `json:"kind"` // "invariant" or "event"
	Subject    string     `json:"subject"`
	Severity   Severity   `json:"severity"`
	Detail     string     `json:"detail"`
	OpenedAt   time.Time  `json:"opened_at"`
	LastSeenAt time.Time  `json:"last_seen_at"`
	Seen       int64      `json:"seen"`
	ResolvedAt *time.Time `json:"resolved_at,omitempty"`
	ResolvedBy string     `json:"resolved_by,omitempty"`
	Resolution string     `json:"resolution,omitempty"`
}

// ViewStore answers people's questions. See view.go for the shapes.
type ViewStore interface {
	// Overview counts what is where.
	Overview(ctx context.Context, now time.Time) (Overview, error)
	// Decisions lists what waits for an operator. It is cheap enough to ask
	// after every run.
	Decisions(ctx context.Context, now time.Time) (Decisions, error)
	// FindReport looks a report up by report id, work id, custom id, or
	// external id; the last may give several.
	FindReport(ctx context.Context, id string, limit int) ([]string, error)
	// ReportHistory is everything the ledger knows about one report.
	ReportHistory(ctx context.Context, reportID string) (ReportHistory, error)
	// Jobs lists jobs, newest first; states empty means all.
	Jobs(ctx context.Context, states []JobState, limit int) ([]JobView, error)
	// JobHistory is one job with its submissions, sets and outcomes; by job id
	// or provider job id.
	JobHistory(ctx context.Context, id string) (JobHistory, error)
	// Workload says what each pass would find, without doing it. unsentMargin is
	// that of the settings.
	Workload(ctx context.Context, now time.Time, unsentMargin time.Duration) (Workload, error)
	// Next says when a pass has something to do; it is a cheap part of Workload.
	Next(ctx context.Context, now time.Time, unsentMargin time.Duration) (NextWork, error)
}
