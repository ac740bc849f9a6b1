package configs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"rollcall/reconcile"
)

// window is the time in which the processors' batch jobs end or expire.
const window = 24 * time.Hour

// Warnings lists what is permitted but may surprise: what the operator should
// have meant to write. policies are those of LoadPolicies.
func (c *Config) Warnings(policies []reconcile.Policy) []string {
	var out []string
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	c.warnSources(policies, warn)
	for _, p := range policies {
		c.warnPolicy(p, warn)
	}
	for i, a := range c.Accounts {
		at := fmt.Sprintf("accounts[%d]", i)
		if !slices.ContainsFunc(policies, func(p reconcile.Policy) bool { return p.Boundary.Account == a.Name }) {
			warn("%s: no policy file names account %s; only texts under a policy that the ledger holds as approved may still go to it", at, a.Name)
		}
		a.warn(at, warn)
		c.warnExpiry(&a, at, warn)
		if len(a.Webhook.Secrets) > 0 && c.Serve.Listen == "" {
			warn("%s.webhook: has secrets, but serve.listen is empty; no webhook can arrive", at)
		}
	}
	if e := c.Submit.InputExpiry.Std(); e != 0 && e < 2*window {
		warn("submit.input_expiry: is shorter than 48h; a job that waits to be sent again may lose its input at the processor")
	}
	if e := c.Submit.OutputExpiry.Std(); e != 0 && e < 3*window {
		warn("submit.output_expiry: is shorter than 72h; results that nobody fetched over a weekend would be lost")
	}
	return out
}

// warn tells what an account should have and may do without.
func (a *Account) warn(at string, warn func(string, ...any)) {
	const rotated = "is empty; after a change of the key, jobs that were made with the old key would be taken for another account's"
	switch k := a.Kind(); {
	case a.AllowLoopback:
	case k == KindInfrai, a.Like() == LikeGroq:
		if a.Project != "" {
			warn("%s.project: does not keep the account the same; %s knows it by its key alone, so change the key while no job is open", at, a.Provider)
		}
	case a.Project == "" && k == KindOpenAI:
		warn("%s.project: %s", at, rotated)
	case k == KindAnthropic && (a.Anthropic == nil || a.Anthropic.Workspace == ""):
		warn("%s.anthropic.workspace: %s", at, rotated)
	}
	if s := a.Infrai; a.Kind() == KindInfrai && (s == nil || s.Pin == "" || len(s.Vendors) == 0 || s.DataClass == "") {
		warn("%s.infrai: nothing is sent while pin, vendors and data_class are not all written; see: rollcall provider check %s", at, a.Name)
	}
}

func (c *Config) warnSources(policies []reconcile.Policy, warn func(string, ...any)) {
	for i, s := range c.Sources {
		at := fmt.Sprintf("sources[%d]", i)
		if s.Identity == reconcile.IdentityDigest {
			warn("%s.identity: is digest; an edit of %s is then another report, not a new revision", at, strings.Join(s.DigestOf, ", "))
		}
		if s.SameRevision == reconcile.RevisionNew {
			warn("%s.same_revision: is new_revision; an edit back to an earlier wording is taken for a redelivery", at)
		}
		if !slices.ContainsFunc(policies, func(p reconcile.Policy) bool { return p.ID == s.Policy }) {
			warn("%s.policy: there is no file for policy %s; its reports are held, unless the ledger holds an approved version of it", at, s.Policy)
		}
	}
}

func (c *Config) warnPolicy(p reconcile.Policy, warn func(string, ...any)) {
	key := reconcile.PolicyKey{ID: p.ID, Version: p.Version}
	if !slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Policy == p.ID }) {
		warn("policy %s: no source uses it", key)
	}
	if open := p.Pending(); len(open) > 0 {
		warn("policy %s: cannot be approved, and its reports are held, while these answers are unknown: %s",
			key, strings.ReplaceAll(strings.Join(open, ", "), "boundary.", ""))
	}
	if p.Review.Due() < window {
		warn("policy %s: review.due is shorter than the processors' window of 24h; reports may be due before their job ends", key)
	}
	if t := p.Classifier.Temperature; t != nil && *t > 0 {
		warn("policy %s: temperature is above 0; the same text may get another label on another day", key)
	}
	if !dated.MatchString(p.Classifier.Model) {
		warn("policy %s: model has no date in its name; the processor may put another model behind it without a new version here", key)
	}
}

var dated = regexp.MustCompile(`[0-9]{4}-?[0-9]{2}-?[0-9]{2}$`)
