package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"rollcall/batch"
	"rollcall/reconcile/crashpoint"
	"rollcall/reconcile/keyring"
)

// PassName names a pass, in commands, leases and logs.
type PassName string

// The passes, in the order of the pipeline.
const (
	PassCollect PassName = "collect"
	PassResolve PassName = "resolve"
	PassSubmit  PassName = "submit"
	PassCall    PassName = "call"
	PassPoll    PassName = "poll"
	PassConsume PassName = "consume"
	PassApply   PassName = "apply"
	PassSweep   PassName = "sweep"
	PassCheck   PassName = "check"
)

// Passes lists every pass in the order of the pipeline.
func Passes() []PassName {
	return []PassName{PassCollect, PassResolve, PassSubmit, PassCall, PassPoll, PassConsume, PassApply, PassSweep, PassCheck}
}

// Tally is what one run of a pass did. A row that was put off is counted in
// Failed and recorded on the row; the others go on.
type Tally struct {
	Seen   int64 `json:"seen"`   // rows looked at
	Moved  int64 `json:"moved"`  // rows that came a step further
	Failed int64 `json:"failed"` // rows put off
}

// Add adds another tally.
func (t *Tally) Add(o Tally) {
	t.Seen += o.Seen
	t.Moved += o.Moved
	t.Failed += o.Failed
}

// Settings bound and time the passes. DefaultSettings has sensible ones.
type Settings struct {
	Chunk int // rows in one transaction

	// One job, where the provider's own limits are not lower.
	JobItems      int   // members
	JobBytes      int64 // bytes of the request body
	JobTokens     int64 // input tokens, estimated
	ItemTokens    int64 // input tokens of one member; a longer text is too_large
	BytesPerToken int64 // for the estimate; low is cautious

	JobsPerRun int // jobs that one run of submit, poll or consume takes

	SendWithin   time.Duration // from the intent to the last byte of a create
	UnsentMargin time.Duration // behind its send deadline a submission without an input file is closed
	SubmitRetry  time.Duration // wait after a proven refusal
	InputExpiry  time.Duration // asked for uploaded files; 0 for the provider's default
	OutputExpiry time.Duration // asked for result files

	ResolveFirst time.Duration // shortest wait between two looks for the job of an uncertain submission
	ResolveMax   time.Duration // longest such wait
	AbsentAfter  time.Duration // behind its send deadline a job that no list shows may be absent: longer than a request may take
	SweepWindow  time.Duration // how far back an account's list of jobs is read

	PollFirst  time.Duration // shortest wait between two looks at a job
	PollMax    time.Duration // longest wait
	RetryCap   time.Duration // a provider's Retry-After counts up to this
	MissGrace  time.Duration // a job that stays unknown at the provider for longer, MissCount times, has vanished
	MissCount  int64         // how often in a row a job, or a result file, is unknown before it counts as gone
	FilesGrace time.Duration // how long a job that is complete without its files, or without lines of them, is asked again

	CallRate   Rate          // how fast an account without jobs is called, where Rates does not say
	CallFor    time.Duration // how long one run begins calls
	CallWithin time.Duration // how long one call may take
	CallMargin time.Duration // behind the end of a call its claim ends: longer than clocks differ
	CallRetry  time.Duration // wait after a call that failed; it doubles with each further one, up to RetryCap
	CallFaults int64         // so many failures of one call are an answer: the policy's attempts decide about the rest

	ConsumeRetry time.Duration // wait after a download that failed
	LostGrace    time.Duration // a result file that stays unknown at the provider for longer, MissCount times, is lost
	LineBytes    int           // longest result line that is read
	SetBytes     int64         // longest result file that is read

	ItemRetry time.Duration // wait before a member that failed is collected again

	UncertainAfter time.Duration // age at which an open submission is a finding
	JobOverdue     time.Duration // age at which a job at the provider is a finding
	StuckAfter     time.Duration // age at which an ended job, or an outcome that is not applied, is a finding
	UnreadAfter    time.Duration // age of a job at which result files that are not read are a finding: half of their life
	LimitAfter     time.Duration // age at which a job's wait for a limit of its account is a finding
	BreachLimit    int           // offenders listed for one invariant
}

// DefaultSettings suit a provider with a window of 24 hours.
func DefaultSettings() Settings {
	return Settings{
		Chunk:    2000,
		JobItems: 50_000, JobBytes: 190_000_000, JobTokens: 10_000_000, ItemTokens: 100_000, BytesPerToken: 3,
		JobsPerRun: 100,
		SendWithin: 15 * time.Minute, UnsentMargin: time.Minute, SubmitRetry: 5 * time.Minute, InputExpiry: 72 * time.Hour, OutputExpiry: 7 * 24 * time.Hour,
		ResolveFirst: 30 * time.Second, ResolveMax: 10 * time.Minute, AbsentAfter: 11 * time.Minute, SweepWindow: 30 * 24 * time.Hour,
		PollFirst: time.Minute, PollMax: 10 * time.Minute, RetryCap: time.Hour, MissGrace: time.Hour, MissCount: 3, FilesGrace: 6 * time.Hour,
		CallRate: Rate{Calls: 60, Interval: time.Minute, AtOnce: 4}, CallFor: 50 * time.Second, CallWithin: 2 * time.Minute, CallMargin: time.Minute, CallRetry: 15 * time.Second, CallFaults: 8,
		ConsumeRetry: 5 * time.Minute, LostGrace: time.Hour, LineBytes: 8 << 20, SetBytes: 4 << 30,
		ItemRetry:      10 * time.Minute,
		UncertainAfter: time.Hour, JobOverdue: 26 * time.Hour, StuckAfter: 2 * time.Hour,
		UnreadAfter: 84 * time.Hour, LimitAfter: 24 * time.Hour, BreachLimit: 1000,
	}
}

// Reconciler runs the passes. It keeps nothing between runs that decides
// anything: two of them, in two processes, over one ledger are safe.
type Reconciler struct {
	Store    Store
	Keys     *keyring.Ring
	Accounts []batch.Provider // every configured account with jobs
	Callers  []batch.Caller   // every configured account that is called text by text
	Rates    map[string]Rate  // how fast a caller is called, by its account's name; others as Settings.CallRate
	// Limits are those of an account, by its name; nil for none at all.
	Limits func(account string) AccountLimits
	// Prices is what a model costs at an account; nil where nobody knows of any.
	Prices  func(account, model string) (Price, bool)
	Now     func(ctx context.Context) (time.Time, error)
	Uptime  func() time.Duration // this process's monotonic clock, which nobody can set
	Rand    io.Reader            // for submission ids and jitter
	Witness Witness              // remembers the ledger outside of it; nil for none
	// Unreplicated counts the commits, since it was last asked, that the database
	// acknowledged although its synchronous standby has not got them; nil for none.
	Unreplicated func() int64
	Log          zerolog.Logger
	Settings     Settings
	Holder       string        // names this process in leases
	LeaseFor     time.Duration // how long a lease outlives its last write
	// Tick times the prolonging of leases; nil is this process's clock.
	Tick func(every time.Duration) (ticks <-chan time.Time, stop func())
	// Decoders is how many goroutines decode a result file beside the one that
	// writes; 0 is 2. With one the order of the writes is that of the file.
	Decoders int
	// PolicyFor names the policy of a source; false for a source that is not configured.
	PolicyFor func(tenant, system string) (policyID string, ok bool)
	// Progress is told now and then how far a pass is; nil for nobody.
	Progress func(pass PassName, done, total int64)
	// Step is told of each instant between two durable steps, by its name in
	// package crashpoint; nil for nobody. A pass may call it from any goroutine.
	Step func(point string)
	// Wait waits within a pass, or returns early with ctx's error; nil is Sleep.
	Wait func(ctx context.Context, d time.Duration) error
	// Go makes a call to a caller beside the others that are on their way; nil is a
	// goroutine for each. One that returns behind the call makes them in turn.
	Go func(call func())
	// Ran is told what each run of a pass did; nil for nobody.
	Ran func(pass PassName, tally Tally)

	rejected    map[question]int  // calls in a row that were rejected in this process; see probing
	probed      map[question]bool // questions that a caller has answered in this process; see probing
	witnessSaid int32             // atomic; what the last comparison in this process came to
}

// Run runs one pass under its lease. A pass that another process is running is
// left alone: ErrHeld.
func (r *Reconciler) Run(ctx context.Context, name PassName) (Tally, error) {
	pass, ok := map[PassName]func(context.Context, time.Time) (Tally, error){
		PassCollect: r.Collect, PassResolve: r.Resolve, PassSubmit: r.Submit, PassCall: r.Call, PassPoll: r.Poll,
		PassConsume: r.Consume, PassApply: r.Apply, PassSweep: r.Sweep, PassCheck: r.Check,
	}[name]
	if !ok {
		return Tally{}, fmt.Errorf("there is no pass %q", name)
	}
	return r.underLease(ctx, name, pass)
}

// RunCheck is Run of check for a caller who wants the whole report.
func (r *Reconciler) RunCheck(ctx context.Context) (CheckReport, error) {
	var report CheckReport
	_, err := r.underLease(ctx, PassCheck, func(ctx context.Context, now time.Time) (Tally, error) {
		var err error
		report, err = r.CallRoll(ctx, now)
		return report.tally(), err
	})
	return report, err
}

func (r *Reconciler) underLease(ctx context.Context, name PassName, pass func(context.Context, time.Time) (Tally, error)) (tally Tally, err error) {
	var began time.Duration
	var ran bool
	err = r.withLease(ctx, "pass:"+string(name), func(ctx context.Context, now time.Time) (err error) {
		ran, began = true, r.Uptime()
		tally, err = pass(ctx, now)
		return err
	})
	if !ran {
		return Tally{}, fmt.Errorf("%s: %w", name, err)
	}
	r.logPass(name, tally, r.Uptime()-began, err)
	r.tellUnreplicated(ctx)
	if r.Ran != nil {
		r.Ran(name, tally)
	}
	return tally, err
}

// tellUnreplicated raises that commits stand on one server only. It is not worth
// failing a pass for: the database says it again at the next such commit.
func (r *Reconciler) tellUnreplicated(ctx context.Context) {
	if r.Unreplicated == nil {
		return
	}
	n := r.Unreplicated()
	if n == 0 {
		return
	}
	ctx = context.WithoutCancel(ctx)
	now, err := r.Now(ctx)
	if err == nil {
		err = r.raise(ctx, now, EventCommitUnreplicated, "ledger", fmt.Sprintf("%d commits", n))
	}
	if err != nil {
		r.Log.Error().Err(err).Int64("commits", n).Msg("commits that were not replicated could not be put on record")
	}
}

func (r *Reconciler) logPass(name PassName, t Tally, took time.Duration, err error) {
	e := r.Log.Debug()
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		e = r.Log.Error().Err(err)
	case t.Failed > 0:
		e = r.Log.Warn()
	case t.Moved > 0:
		e = r.Log.Info()
	}
	e.Str("pass", string(name)).Int64("seen", t.Seen).Int64("moved", t.Moved).Int64("failed", t.Failed).Dur("dur_ms", took).Msg("pass")
}

// errBoundary means that the configuration does not offer the account that a
// policy names, as the policy describes it.
var errBoundary = errors.New("no configured account matches the policy's boundary")

// processor is what an account with jobs and one without have in common. What
// it can do decides how it is used.
type processor interface {
	Account() batch.Account
	Capabilities() batch.Capabilities
}

// processors are all configured accounts.
func (r *Reconciler) processors() []processor {
	all := make([]processor, 0, len(r.Accounts)+len(r.Callers))
	for _, p := range r.Accounts {
		all = append(all, p)
	}
	for _, c := range r.Callers {
		all = append(all, c)
	}
	return all
}

// accountFor is the account that a policy permits: by name, and only if
// processor, host and region are those that were approved.
func (r *Reconciler) accountFor(p *PolicyVersion) (processor, error) {
	b := p.Boundary
	for _, provider := range r.processors() {
		a := provider.Account()
		if a.Name != b.Account {
			continue
		}
		if a.Processor != b.Processor || a.Host != b.Host || a.Region != b.Region {
			return nil, fmt.Errorf("policy %s permits %s at %s in %q; account %s is %s at %s in %q: %w",
				p.Key(), b.Processor, b.Host, b.Region, a.Name, a.Processor, a.Host, a.Region, errBoundary)
		}
		return provider, nil
	}
	return nil, fmt.Errorf("policy %s names account %s: %w", p.Key(), b.Account, errBoundary)
}

// accountOf is the account that a job was sent to. A key of another account
// would answer 404 for a job that is alive.
func (r *Reconciler) accountOf(fingerprint string) (batch.Provider, bool) {
	i := slices.IndexFunc(r.Accounts, func(p batch.Provider) bool { return p.Account().Fingerprint == fingerprint })
	if i < 0 {
		return nil, false
	}
	return r.Accounts[i], true
}

// callerOf is the account that the texts of a job are called at.
func (r *Reconciler) callerOf(fingerprint string) (batch.Caller, bool) {
	i := slices.IndexFunc(r.Callers, func(c batch.Caller) bool { return c.Account().Fingerprint == fingerprint })
	if i < 0 {
		return nil, false
	}
	return r.Callers[i], true
}

// step marks an instant between two durable steps, where a process may die.
func (r *Reconciler) step(point string) {
	crashpoint.Hit(point)
	if r.Step != nil {
		r.Step(point)
	}
}

// progress reports how far a pass is.
func (r *Reconciler) progress(pass PassName, done, total int64) {
	if r.Progress != nil {
		r.Progress(pass, done, total)
	}
}
