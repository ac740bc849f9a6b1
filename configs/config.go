// Package configs reads what the operator wrote: one configuration file, one
// file for each processing policy, and a folder for each classifier. It also
// holds the examples that `rollcall init` writes.
//
// Reading is strict. An unknown field, a field that stands twice, a missing
// answer and a secret that others could read are errors; all mistakes of a file
// are told at once, each with file, line and field.
package configs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"rollcall/reconcile"
)

// Config is one deployment. rollcall.yaml beside this file describes each field
// to the operator.
type Config struct {
	Database    Database  `yaml:"database"`
	Keyring     string    `yaml:"keyring"`     // file
	Witness     string    `yaml:"witness"`     // file outside of the database and its backups; "" for none
	Policies    string    `yaml:"policies"`    // folder of policy files
	Classifiers string    `yaml:"classifiers"` // folder with a folder for each classifier
	Accounts    []Account `yaml:"accounts"`
	Sources     []Source  `yaml:"sources"`
	Intake      Intake    `yaml:"intake"`
	Chunk       int       `yaml:"chunk"` // rows in one transaction
	Jobs        Jobs      `yaml:"jobs"`
	Submit      Submit    `yaml:"submit"`
	Resolve     Resolve   `yaml:"resolve"`
	Call        Call      `yaml:"call"`
	Poll        Poll      `yaml:"poll"`
	Consume     Consume   `yaml:"consume"`
	Sweep       Sweep     `yaml:"sweep"`
	Check       Check     `yaml:"check"`
	Lease       Duration  `yaml:"lease"` // how long a pass that stopped writing keeps others out
	Log         Log       `yaml:"log"`

	Schedules []Schedule `yaml:"schedules"`
	Serve     Serve      `yaml:"serve"`

	doc *document // where the fields stand; nil without a file
}

// Intake says how input is read.
type Intake struct {
	Fields  Fields `yaml:"fields"`
	MaxLine Size   `yaml:"max_line"` // longest line of an input file
}

// Fields name the columns or members of the input that hold each part of a
// report.
type Fields struct {
	Tenant   string `yaml:"tenant"`
	System   string `yaml:"system"`
	ID       string `yaml:"id"`
	Revision string `yaml:"revision"`
	Text     string `yaml:"text"`
	Urgent   string `yaml:"urgent"`
	Media    string `yaml:"media"`
}

// Jobs bound what is planned.
type Jobs struct {
	MaxItems      int      `yaml:"max_items"`
	MaxBytes      Size     `yaml:"max_bytes"`       // request body
	MaxTokens     int64    `yaml:"max_tokens"`      // input tokens of one job, estimated
	MaxItemTokens int64    `yaml:"max_item_tokens"` // a longer text goes to a person as too_large
	BytesPerToken int64    `yaml:"bytes_per_token"` // for the estimate; low is cautious
	PerRun        int      `yaml:"per_run"`         // jobs that one run of submit, poll or consume takes
	ItemRetry     Duration `yaml:"item_retry"`      // before a member that failed is collected again
}

// Submit times the making of jobs.
type Submit struct {
	SendWithin   Duration `yaml:"send_within"`   // from the intent to the last byte
	UnsentMargin Duration `yaml:"unsent_margin"` // behind send_within, before a submission without an upload is closed
	Retry        Duration `yaml:"retry"`         // after a proven refusal
	InputExpiry  Duration `yaml:"input_expiry"`  // asked for uploads; 0 for the processor's own
	OutputExpiry Duration `yaml:"output_expiry"` // asked for result files; 0 for the processor's own
}

// Resolve times the looks for jobs of uncertain submissions.
type Resolve struct {
	First       Duration `yaml:"first"`        // shortest wait between two looks
	Max         Duration `yaml:"max"`          // longest wait
	AbsentAfter Duration `yaml:"absent_after"` // behind the send deadline, before a job that no list shows may be absent
}

// Sweep bounds what is read of an account.
type Sweep struct {
	Window Duration `yaml:"window"` // how far back its list of jobs is read
}

// Call bounds and times the calls to accounts that are asked about one text at a time.
type Call struct {
	Calls    int64    `yaml:"calls"`    // to one account in each interval, by all processes together
	Interval Duration `yaml:"interval"` // of calls
	AtOnce   int      `yaml:"at_once"`  // calls to one account that are on their way
	RunFor   Duration `yaml:"run_for"`  // how long one run begins calls
	Within   Duration `yaml:"within"`   // how long one call may take
	Margin   Duration `yaml:"margin"`   // behind that, a call whose process is gone is made again
	Retry    Duration `yaml:"retry"`    // after a call that failed; it doubles with each further one
	Faults   int64    `yaml:"faults"`   // failed calls about one text, before the policy's attempts decide
}

// Poll times the looks at jobs.
type Poll struct {
	First      Duration `yaml:"first"`       // shortest wait between two looks
	Max        Duration `yaml:"max"`         // longest wait
	RetryCap   Duration `yaml:"retry_cap"`   // the processor's Retry-After counts up to this
	MissGrace  Duration `yaml:"miss_grace"`  // a job unknown to the processor for longer …
	MissCount  int64    `yaml:"miss_count"`  // … and for this many looks has vanished; for result files too
	FilesGrace Duration `yaml:"files_grace"` // how long an ended job without its files, or lines of them, is looked at again
}

// Consume bounds the reading of results.
type Consume struct {
	Retry     Duration `yaml:"retry"`      // after a download that failed
	LostGrace Duration `yaml:"lost_grace"` // a result file unknown to the processor for longer, and for miss_count looks, is lost
	MaxLine   Size     `yaml:"max_line"`   // longest result line
	MaxSet    Size     `yaml:"max_set"`    // longest result file
}

// Check says when something is late.
type Check struct {
	UncertainAfter Duration `yaml:"uncertain_after"` // a submission without a known outcome
	JobOverdue     Duration `yaml:"job_overdue"`     // a job at the processor
	StuckAfter     Duration `yaml:"stuck_after"`     // an ended job, or an outcome that is not applied
	UnreadAfter    Duration `yaml:"unread_after"`    // a job whose result files are not read
	LimitAfter     Duration `yaml:"limit_after"`     // a job that waits for a limit of its account
	MaxListed      int      `yaml:"max_listed"`      // offenders listed for one invariant
}

// Log says how much is logged.
type Log struct {
	Level string `yaml:"level"`
}

// Default is a configuration without accounts and sources, with
// reconcile.DefaultSettings.
func Default() *Config {
	s := reconcile.DefaultSettings()
	return &Config{
		Database:    Database{Path: "rollcall.db"},
		Keyring:     "rollcall.keyring",
		Witness:     "rollcall.witness",
		Policies:    "policies",
		Classifiers: "classifiers",
		Intake: Intake{
			Fields:  Fields{Tenant: "tenant", System: "system", ID: "id", Revision: "revision", Text: "text", Urgent: "urgent", Media: "media"},
			MaxLine: 8 << 20,
		},
		Chunk: s.Chunk,
		Jobs: Jobs{MaxItems: s.JobItems, MaxBytes: Size(s.JobBytes), MaxTokens: s.JobTokens, MaxItemTokens: s.ItemTokens,
			BytesPerToken: s.BytesPerToken, PerRun: s.JobsPerRun, ItemRetry: Duration(s.ItemRetry)},
		Submit: Submit{SendWithin: Duration(s.SendWithin), UnsentMargin: Duration(s.UnsentMargin), Retry: Duration(s.SubmitRetry),
			InputExpiry: Duration(s.InputExpiry), OutputExpiry: Duration(s.OutputExpiry)},
		Resolve: Resolve{First: Duration(s.ResolveFirst), Max: Duration(s.ResolveMax), AbsentAfter: Duration(s.AbsentAfter)},
		Sweep:   Sweep{Window: Duration(s.SweepWindow)},
		Call: Call{Calls: s.CallRate.Calls, Interval: Duration(s.CallRate.Interval), AtOnce: s.CallRate.AtOnce, RunFor: Duration(s.CallFor),
			Within: Duration(s.CallWithin), Margin: Duration(s.CallMargin), Retry: Duration(s.CallRetry), Faults: s.CallFaults},
		Poll: Poll{First: Duration(s.PollFirst), Max: Duration(s.PollMax), RetryCap: Duration(s.RetryCap),
			MissGrace: Duration(s.MissGrace), MissCount: s.MissCount, FilesGrace: Duration(s.FilesGrace)},
		Consume: Consume{Retry: Duration(s.ConsumeRetry), LostGrace: Duration(s.LostGrace), MaxLine: Size(s.LineBytes), MaxSet: Size(s.SetBytes)},
		Check: Check{UncertainAfter: Duration(s.UncertainAfter), JobOverdue: Duration(s.JobOverdue),
			StuckAfter: Duration(s.StuckAfter), UnreadAfter: Duration(s.UnreadAfter), LimitAfter: Duration(s.LimitAfter), MaxListed: s.BreachLimit},
		Lease: Duration(2 * time.Minute),
		Log:   Log{Level: "info"},

		Schedules: defaultSchedules(),
		Serve:     defaultServe(),
	}
}

// Settings are the bounds and times of the passes.
func (c *Config) Settings() reconcile.Settings {
	return reconcile.Settings{
		Chunk:    c.Chunk,
		JobItems: c.Jobs.MaxItems, JobBytes: int64(c.Jobs.MaxBytes), JobTokens: c.Jobs.MaxTokens,
		ItemTokens: c.Jobs.MaxItemTokens, BytesPerToken: c.Jobs.BytesPerToken,
		JobsPerRun: c.Jobs.PerRun, ItemRetry: c.Jobs.ItemRetry.Std(),
		SendWithin: c.Submit.SendWithin.Std(), UnsentMargin: c.Submit.UnsentMargin.Std(), SubmitRetry: c.Submit.Retry.Std(),
		InputExpiry: c.Submit.InputExpiry.Std(), OutputExpiry: c.Submit.OutputExpiry.Std(),
		ResolveFirst: c.Resolve.First.Std(), ResolveMax: c.Resolve.Max.Std(), AbsentAfter: c.Resolve.AbsentAfter.Std(), SweepWindow: c.Sweep.Window.Std(),
		CallRate: reconcile.Rate{Calls: c.Call.Calls, Interval: c.Call.Interval.Std(), AtOnce: c.Call.AtOnce}, CallFor: c.Call.RunFor.Std(),
		CallWithin: c.Call.Within.Std(), CallMargin: c.Call.Margin.Std(), CallRetry: c.Call.Retry.Std(), CallFaults: c.Call.Faults,
		PollFirst: c.Poll.First.Std(), PollMax: c.Poll.Max.Std(), RetryCap: c.Poll.RetryCap.Std(),
		MissGrace: c.Poll.MissGrace.Std(), MissCount: c.Poll.MissCount, FilesGrace: c.Poll.FilesGrace.Std(),
		ConsumeRetry: c.Consume.Retry.Std(), LostGrace: c.Consume.LostGrace.Std(),
		LineBytes: int(c.Consume.MaxLine), SetBytes: int64(c.Consume.MaxSet),
		UncertainAfter: c.Check.UncertainAfter.Std(), JobOverdue: c.Check.JobOverdue.Std(),
		StuckAfter: c.Check.StuckAfter.Std(), UnreadAfter: c.Check.UnreadAfter.Std(), LimitAfter: c.Check.LimitAfter.Std(), BreachLimit: c.Check.MaxListed,
	}
}

// Load reads and validates the configuration in path. Relative paths in it are
// relative to its folder. No secret is read yet.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	c := parse(path, data)
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

func parse(path string, data []byte) *Config {
	c := Default()
	c.doc = readDocument(path, data, c)
	c.resolve(filepath.Dir(path))
	return c
}

// resolve fills in what depends on the rest: the folder of the file, defaults
// of list items, and where each secret stands.
func (c *Config) resolve(dir string) {
	if !c.Database.URL.IsSet() && !strings.Contains(c.Database.Path, "://") {
		c.Database.Path = under(dir, strings.TrimPrefix(c.Database.Path, "sqlite:"))
	}
	for _, p := range []*string{&c.Keyring, &c.Witness, &c.Policies, &c.Classifiers} {
		*p = under(dir, *p)
	}
	c.placeSecret(&c.Database.URL, "database.url", dir)
	for i := range c.Accounts {
		c.resolveAccount(i, dir)
	}
	for i := range c.Sources {
		c.Sources[i].fillIn()
	}
	for i := range c.Schedules {
		c.Schedules[i].fillIn()
	}
}

func (c *Config) placeSecret(s *Secret, field, dir string) {
	s.File = under(dir, s.File)
	s.place = place{file: c.doc.file, field: field}
	if p := c.doc.markOf(field); p != nil {
		s.place.line, s.place.column = p.Line, p.Column
	}
}

// Account finds an account by name.
func (c *Config) Account(name string) (Account, bool) {
	for _, a := range c.Accounts {
		if a.Name == name {
			return a, true
		}
	}
	return Account{}, false
}
