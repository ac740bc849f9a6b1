package configs

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"rollcall/reconcile"
)

// failFunc notes a mistake in a field. It must not be given what the field holds.
type failFunc func(field, format string, args ...any)

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

const nameRule = "must be a name of lower-case letters, digits and -, at most 63 characters"

// Validate names every field that is missing or wrong, with its line where the
// configuration came from a file. It reads no other file and no secret.
func (c *Config) Validate() error {
	d := &document{}
	if c.doc != nil {
		d = &document{file: c.doc.file, marks: c.doc.marks, errs: slices.Clone(c.doc.errs), broken: c.doc.broken}
	}
	if d.broken {
		return d.err()
	}
	fail := d.failOnce()
	c.Database.check(fail)
	for field, value := range map[string]string{"keyring": c.Keyring, "policies": c.Policies, "classifiers": c.Classifiers} {
		if value == "" {
			fail(field, "is missing")
		}
	}
	c.checkAccounts(fail)
	c.checkSources(fail)
	c.Intake.check(fail)
	c.checkBounds(fail)
	c.checkTimes(fail)
	c.checkSchedules(fail)
	c.Serve.check(fail)
	if level, err := zerolog.ParseLevel(c.Log.Level); err != nil || level == zerolog.NoLevel {
		fail("log.level", "must be trace, debug, info, warn or error")
	}
	return d.err()
}

func (c *Config) checkAccounts(fail failFunc) {
	if len(c.Accounts) == 0 {
		fail("accounts", "is missing; nothing can be sent without an account")
	}
	seen := map[string]int{}
	for i, a := range c.Accounts {
		at := fmt.Sprintf("accounts[%d]", i)
		if first, twice := seen[a.Name]; twice && a.Name != "" {
			fail(at+".name", "is also the name of accounts[%d]; each account needs its own", first)
		}
		seen[a.Name] = i
		a.check(at, fail)
	}
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func (c *Config) checkSources(fail failFunc) {
	if len(c.Sources) == 0 {
		fail("sources", "is missing; a report whose source is not named is not taken in")
	}
	seen := map[[2]string]int{}
	for i, s := range c.Sources {
		at := fmt.Sprintf("sources[%d]", i)
		key := [2]string{s.Tenant, s.System}
		if first, twice := seen[key]; twice {
			fail(at, "is for the same tenant and system as sources[%d]; keep one", first)
		}
		seen[key] = i
		s.check(at, fail)
	}
}

func (s *Source) check(at string, fail failFunc) {
	for field, v := range map[string]string{"tenant": s.Tenant, "system": s.System} {
		if strings.TrimSpace(v) == "" {
			fail(at+"."+field, `is missing; write "*" for any`)
		}
	}
	if !namePattern.MatchString(s.Policy) {
		fail(at+".policy", "%s: the name of a file in the policies folder", nameRule)
	}
	if s.SameRevision != reconcile.RevisionConflict && s.SameRevision != reconcile.RevisionNew {
		fail(at+".same_revision", "must be %s or %s", reconcile.RevisionConflict, reconcile.RevisionNew)
	}
	switch s.Identity {
	case reconcile.IdentityField:
		if len(s.DigestOf) > 0 {
			fail(at+".digest_of", "goes with identity: %s only", reconcile.IdentityDigest)
		}
	case reconcile.IdentityDigest:
		if len(s.DigestOf) == 0 {
			fail(at+".digest_of", "is missing; name the input fields that tell two reports apart, such as [text]")
		}
		checkDistinct(at+".digest_of", s.DigestOf, fail)
	default:
		fail(at+".identity", "must be %s or %s", reconcile.IdentityField, reconcile.IdentityDigest)
	}
}

func checkDistinct(field string, names []string, fail failFunc) {
	for i, name := range names {
		if strings.TrimSpace(name) == "" || slices.Contains(names[:i], name) {
			fail(fmt.Sprintf("%s[%d]", field, i), "is empty or stands twice")
		}
	}
}

func (n *Intake) check(fail failFunc) {
	seen := map[string]string{}
	for _, f := range []struct{ field, name string }{
		{"tenant", n.Fields.Tenant}, {"system", n.Fields.System}, {"id", n.Fields.ID}, {"revision", n.Fields.Revision},
		{"text", n.Fields.Text}, {"urgent", n.Fields.Urgent}, {"media", n.Fields.Media},
	} {
		other, twice := seen[f.name]
		switch {
		case strings.TrimSpace(f.name) == "":
			fail("intake.fields."+f.field, "is empty; write the input's name for it")
		case twice:
			fail("intake.fields."+f.field, "is the same input field as intake.fields.%s", other)
		}
		seen[f.name] = f.field
	}
	if n.MaxLine < 1<<10 || n.MaxLine > 1<<30 {
		fail("intake.max_line", "must be between 1KiB and 1GiB")
	}
}

func (c *Config) checkBounds(fail failFunc) {
	for _, b := range []struct {
		field          string
		value, low, up int64
	}{
		{"chunk", int64(c.Chunk), 1, 10_000},
		{"jobs.max_items", int64(c.Jobs.MaxItems), 1, 1_000_000},
		{"jobs.max_bytes", int64(c.Jobs.MaxBytes), 1 << 10, 1 << 40},
		{"jobs.max_tokens", c.Jobs.MaxTokens, 1, 1 << 40},
		{"jobs.max_item_tokens", c.Jobs.MaxItemTokens, 1, 1 << 40},
		{"jobs.bytes_per_token", c.Jobs.BytesPerToken, 1, 16},
		{"jobs.per_run", int64(c.Jobs.PerRun), 1, 100_000},
		{"call.calls", c.Call.Calls, 1, maxCalls},
		{"call.at_once", int64(c.Call.AtOnce), 1, maxAtOnce},
		{"call.faults", c.Call.Faults, 1, 1000},
		{"poll.miss_count", c.Poll.MissCount, 1, 1000},
		{"consume.max_line", int64(c.Consume.MaxLine), 1 << 10, 1 << 30},
		{"consume.max_set", int64(c.Consume.MaxSet), 1 << 10, 1 << 40},
		{"check.max_listed", int64(c.Check.MaxListed), 1, 1_000_000},
	} {
		if b.value < b.low || b.value > b.up {
			fail(b.field, "must be between %d and %d", b.low, b.up)
		}
	}
	for i, a := range c.Accounts {
		if n := a.Limits.EnqueuedTokens; n != nil && *n > 0 && *n < c.Jobs.MaxItemTokens {
			fail(fmt.Sprintf("accounts[%d].limits.enqueued_tokens", i), "is below jobs.max_item_tokens: such a text would fit into no job of the account")
		}
	}
	if c.Jobs.MaxItemTokens > c.Jobs.MaxTokens {
		fail("jobs.max_item_tokens", "is above jobs.max_tokens: such a text would fit into no job")
	}
}

func (c *Config) checkTimes(fail failFunc) {
	for field, d := range map[string]Duration{
		"jobs.item_retry": c.Jobs.ItemRetry, "submit.send_within": c.Submit.SendWithin, "submit.unsent_margin": c.Submit.UnsentMargin, "submit.retry": c.Submit.Retry,
		"resolve.first": c.Resolve.First, "resolve.max": c.Resolve.Max, "resolve.absent_after": c.Resolve.AbsentAfter, "sweep.window": c.Sweep.Window,
		"call.interval": c.Call.Interval, "call.run_for": c.Call.RunFor, "call.within": c.Call.Within, "call.margin": c.Call.Margin, "call.retry": c.Call.Retry,
		"poll.first": c.Poll.First, "poll.max": c.Poll.Max, "poll.retry_cap": c.Poll.RetryCap, "poll.miss_grace": c.Poll.MissGrace,
		"poll.files_grace": c.Poll.FilesGrace, "consume.retry": c.Consume.Retry, "consume.lost_grace": c.Consume.LostGrace, "check.uncertain_after": c.Check.UncertainAfter,
		"check.job_overdue": c.Check.JobOverdue, "check.stuck_after": c.Check.StuckAfter, "check.unread_after": c.Check.UnreadAfter, "check.limit_after": c.Check.LimitAfter, "lease": c.Lease,
	} {
		if d <= 0 {
			fail(field, "must be longer than 0")
		}
	}
	if o := c.Submit.OutputExpiry; o != 0 && c.Check.UnreadAfter >= o {
		fail("check.unread_after", "is not shorter than submit.output_expiry: the results would be gone before anyone is told")
	}
	if c.Resolve.First > c.Resolve.Max {
		fail("resolve.first", "is longer than resolve.max")
	}
	if c.Call.Interval.Std() > day {
		fail("call.interval", "must not be longer than 1d")
	}
	if c.Poll.First > c.Poll.Max {
		fail("poll.first", "is longer than poll.max")
	}
	for field, d := range map[string]Duration{"submit.input_expiry": c.Submit.InputExpiry, "submit.output_expiry": c.Submit.OutputExpiry} {
		if d != 0 && (d.Std() < time.Hour || d.Std() > 30*day) {
			fail(field, "must be between 1h and 30d, or 0 for the processor's own")
		}
	}
}

// CheckSecrets reads every secret once and throws it away, so that a key that
// is missing or open to others is known before the first pass.
func (c *Config) CheckSecrets() error {
	d := &document{}
	note := func(err error) {
		if f, ok := err.(*FieldError); ok {
			d.errs = append(d.errs, f)
		}
	}
	if _, err := c.Database.Address(); err != nil {
		note(err)
	}
	for _, a := range c.Accounts {
		for _, s := range a.secrets() {
			if _, err := s.Read(); err != nil {
				note(err)
			}
		}
		for _, s := range a.Webhook.Secrets {
			if _, err := s.webhookKey(); err != nil {
				note(err)
			}
		}
	}
	return d.err()
}
