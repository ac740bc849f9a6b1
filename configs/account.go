package configs

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"rollcall/reconcile"
)

// Account is one account at a processor, at one host. Of the sections at its end
// it has the one of its Kind, or none.
type Account struct {
	Name            string   `yaml:"name"`
	Provider        string   `yaml:"provider"` // the policies' processor
	BaseURL         string   `yaml:"base_url"` // scheme, host and path
	Region          string   `yaml:"region"`   // as the policies name it
	Organization    string   `yaml:"organization"`
	Project         string   `yaml:"project"`
	APIKey          Secret   `yaml:"api_key"`
	AllowLoopback   bool     `yaml:"allow_loopback"`   // this machine and no other host, plain http permitted
	CAFile          string   `yaml:"ca_file"`          // authorities to trust in place of the system's
	PermittedRanges []string `yaml:"permitted_ranges"` // private ranges in which the host may be
	CallTimeout     Duration `yaml:"call_timeout"`     // one small call; 0 for the provider client's default
	TransferTimeout Duration `yaml:"transfer_timeout"` // one upload or download; 0 for the provider client's default
	Limits          Limits   `yaml:"limits"`           // what it has at once, if it has jobs
	Rate            Rate     `yaml:"rate"`             // how fast it is called, if it has none
	Prices          []Price  `yaml:"prices"`           // of models, for estimates, budgets and costs
	Webhook         Webhook  `yaml:"webhook"`          // by which the provider tells that a job has ended

	OpenAI        *OpenAI        `yaml:"openai"`
	Anthropic     *Anthropic     `yaml:"anthropic"`
	Infrai        *Infrai        `yaml:"infrai"`
	ContentSafety *ContentSafety `yaml:"content_safety"`
	Inhouse       *Inhouse       `yaml:"inhouse"`
}

// Kind is which client an account has. It is also the name of the section with
// what only that client takes.
type Kind string

// The kinds.
const (
	KindOpenAI        Kind = "openai"    // the API of OpenAI, and those that are like it
	KindAnthropic     Kind = "anthropic" // Message Batches
	KindInfrai        Kind = "infrai"
	KindContentSafety Kind = "content_safety" // Azure AI Content Safety
	KindInhouse       Kind = "inhouse"        // a server of one's own with OpenAI's chat completions
)

// Called says that the texts of an account go there one by one: it has no jobs.
func (k Kind) Called() bool { return k == KindContentSafety || k == KindInhouse }

// knownProvider is a word that may stand behind provider.
type knownProvider struct {
	name string
	kind Kind
	like Like // of KindOpenAI
}

// providers are the processors that there is a client for.
var providers = []knownProvider{
	{"openai", KindOpenAI, LikeOpenAI}, {"azure-openai", KindOpenAI, LikeAzure}, {"groq", KindOpenAI, LikeGroq},
	{"anthropic", KindAnthropic, ""}, {"infrai", KindInfrai, ""},
	{"azure-content-safety", KindContentSafety, ""}, {"inhouse", KindInhouse, ""},
}

func providerNames() string {
	var names []string
	for _, p := range providers {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

func (a *Account) provider() (knownProvider, bool) {
	i := slices.IndexFunc(providers, func(p knownProvider) bool { return p.name == a.Provider })
	if i >= 0 {
		return providers[i], true
	}
	if a.OpenAI != nil && a.OpenAI.Dialect.Like != "" && namePattern.MatchString(a.Provider) {
		return knownProvider{a.Provider, KindOpenAI, a.OpenAI.Dialect.Like}, true
	}
	return knownProvider{}, false
}

// Kind is the kind of the provider; "" for one that is not known.
func (a Account) Kind() Kind {
	p, _ := a.provider()
	return p.kind
}

// Like is the service that an account of KindOpenAI takes after.
func (a Account) Like() Like {
	p, _ := a.provider()
	return p.like
}

// Host is the host[:port] of every call, as a policy's boundary names it; "" if
// the base URL has none.
func (a Account) Host() string {
	u, err := url.Parse(a.BaseURL)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// Prefixes are the permitted ranges of a valid configuration.
func (a Account) Prefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, r := range a.PermittedRanges {
		if p, err := netip.ParsePrefix(r); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// Like names the service whose dialect is taken as it is, or to begin with.
type Like string

// The dialects that are known.
const (
	LikeOpenAI Like = "openai"
	LikeAzure  Like = "azure"
	LikeGroq   Like = "groq"
)

// OpenAI is what accounts of services with OpenAI's API have alone.
type OpenAI struct {
	Endpoint    string            `yaml:"endpoint"`    // what the lines ask for: chat, responses or moderations; "" for chat
	Query       map[string]string `yaml:"query"`       // sent with every call, such as api-version
	Deployments map[string]string `yaml:"deployments"` // by model, the name that the account calls it by
	Dialect     Dialect           `yaml:"dialect"`
}

// Dialect is how a service differs from the one that it is like. What is left
// out stays as it is there.
type Dialect struct {
	Like        Like      `yaml:"like"`         // only beside a provider that has no dialect by its name
	KeyHeader   *string   `yaml:"key_header"`   // carries the bare key; "" for Authorization: Bearer
	BarePaths   *bool     `yaml:"bare_paths"`   // endpoints without the /v1 before them
	Window      string    `yaml:"window"`       // hours or days in which a job is done
	Expiry      Expiry    `yaml:"expiry"`       // what may be asked for as the life of a file
	Cursor      *bool     `yaml:"cursor"`       // lists go on by cursor and paging.next_cursor
	Settlement  string    `yaml:"settlement"`   // listing or results
	Limits      JobLimits `yaml:"limits"`       // of one job
	ResultsFor  *Duration `yaml:"results_for"`  // how long results can be fetched; 0 for no promise
	DataClasses []string  `yaml:"data_classes"` // of texts that the service's documents permit; made-up ones alone when it is left out
	Role        string    `yaml:"role"`         // of the instructions in a chat
	TokensField string    `yaml:"tokens_field"` // the name of the limit of a chat's answer
	OmitStore   *bool     `yaml:"omit_store"`   // leave "store": false out
	Residency   Residency `yaml:"residency"`
}

// Expiry bounds the life of files at a service.
type Expiry struct {
	Min    Duration `yaml:"min"`
	Max    Duration `yaml:"max"`
	Absent *bool    `yaml:"absent"` // the service refuses to be asked
}

// JobLimits bound one job at a service.
type JobLimits struct {
	Items int  `yaml:"items"`
	Bytes Size `yaml:"bytes"`
}

// Residency is a host with one more host for each region in front of it.
type Residency struct {
	Domain  string   `yaml:"domain"`
	Regions []string `yaml:"regions"`
}

// Anthropic is what accounts at Anthropic have alone.
type Anthropic struct {
	Version   string `yaml:"version"`   // of the API, a date; "" for the client's default
	Auth      string `yaml:"auth"`      // x-api-key or bearer; "" for x-api-key
	Output    string `yaml:"output"`    // json_schema or tool; "" for json_schema
	Workspace string `yaml:"workspace"` // its id
}

// Infrai is what accounts at Infrai have alone. Each of the three opens a gate;
// while one is closed, nothing is sent.
type Infrai struct {
	Pin       string   `yaml:"pin"` // file
	Vendors   []string `yaml:"vendors"`
	DataClass string   `yaml:"data_class"`
}

// ContentSafety is what accounts at Azure AI Content Safety have alone.
type ContentSafety struct {
	APIVersion string `yaml:"api_version"` // "" for the client's default
	Segment    int    `yaml:"segment"`     // code points of one call; 0 for the client's default
	Entra      *Entra `yaml:"entra"`       // in the place of api_key
}

// Entra is an application of Microsoft Entra ID.
type Entra struct {
	Tenant   string `yaml:"tenant"`
	ClientID string `yaml:"client_id"`
	Secret   Secret `yaml:"secret"`
	LoginURL string `yaml:"login_url"` // "" for the public cloud's
}

// Inhouse is what servers of one's own have alone.
type Inhouse struct {
	SchemaForm      string `yaml:"schema_form"`      // nested or direct; "" for nested
	Seed            *int64 `yaml:"seed"`             // of the sampling; not sent when it is left out
	ReasoningEffort string `yaml:"reasoning_effort"` // not sent when it is empty
	MaxText         Size   `yaml:"max_text"`         // longest text; 0 for no limit
	TrustContext    bool   `yaml:"trust_context"`    // its count of tokens proves nothing
}

// Rate is how fast one account is called. What is left out is as in Call.
type Rate struct {
	Calls    *int64    `yaml:"calls"`
	Interval *Duration `yaml:"interval"`
	AtOnce   *int      `yaml:"at_once"`
}

func (r *Rate) isSet() bool { return r.Calls != nil || r.Interval != nil || r.AtOnce != nil }

// sections are the sections that an account has.
func (a *Account) sections() []Kind {
	var out []Kind
	for _, s := range []struct {
		kind Kind
		set  bool
	}{
		{KindOpenAI, a.OpenAI != nil}, {KindAnthropic, a.Anthropic != nil}, {KindInfrai, a.Infrai != nil},
		{KindContentSafety, a.ContentSafety != nil}, {KindInhouse, a.Inhouse != nil},
	} {
		if s.set {
			out = append(out, s.kind)
		}
	}
	return out
}

// resolveAccount fills in what depends on the rest: defaults, and where files
// and secrets are.
func (c *Config) resolveAccount(i int, dir string) {
	a, at := &c.Accounts[i], fmt.Sprintf("accounts[%d]", i)
	a.CAFile = under(dir, a.CAFile)
	c.placeSecret(&a.APIKey, at+".api_key", dir)
	if a.entra() {
		c.placeSecret(&a.ContentSafety.Entra.Secret, at+".content_safety.entra.secret", dir)
	}
	for j := range a.Webhook.Secrets {
		c.placeSecret(&a.Webhook.Secrets[j], fmt.Sprintf("%s.webhook.secrets[%d]", at, j), dir)
	}
	if a.Infrai != nil {
		a.Infrai.Pin = under(dir, a.Infrai.Pin)
	}
	if !a.Kind().Called() {
		a.Limits.fillIn(a.Kind())
	}
}

// entra says that an account is called with tokens in the place of a key.
func (a *Account) entra() bool { return a.ContentSafety != nil && a.ContentSafety.Entra != nil }

// secrets are those that an account needs.
func (a *Account) secrets() []Secret {
	switch {
	case a.entra():
		return []Secret{a.ContentSafety.Entra.Secret}
	case a.Kind() == KindInhouse && !a.APIKey.IsSet():
		return nil
	}
	return []Secret{a.APIKey}
}

// ReadSecrets reads each secret of an account once and throws it away. An error
// is the first *FieldError.
func (a Account) ReadSecrets() error {
	for _, s := range a.secrets() {
		if _, err := s.Read(); err != nil {
			return err
		}
	}
	return nil
}

// AccountError is an error about an account that was only found when its client
// was made, with the place of the account.
func (c *Config) AccountError(name string, err error) error {
	d := &document{}
	if c.doc != nil {
		d.file, d.marks = c.doc.file, c.doc.marks
	}
	i := slices.IndexFunc(c.Accounts, func(a Account) bool { return a.Name == name })
	d.fail(fmt.Sprintf("accounts[%d]", i), "%v", err)
	return d.err()
}

// Rates are how fast each account is called whose texts go there one by one.
func (c *Config) Rates() map[string]reconcile.Rate {
	out := map[string]reconcile.Rate{}
	for _, a := range c.Accounts {
		if !a.Kind().Called() {
			continue
		}
		r := c.Settings().CallRate
		if n := a.Rate.Calls; n != nil {
			r.Calls = *n
		}
		if d := a.Rate.Interval; d != nil {
			r.Interval = d.Std()
		}
		if n := a.Rate.AtOnce; n != nil {
			r.AtOnce = *n
		}
		out[a.Name] = r
	}
	return out
}
