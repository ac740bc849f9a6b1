package configs

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"rollcall/batch"
)

var (
	headerValue  = regexp.MustCompile(`^[!-~]{1,128}$`)
	headerName   = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)
	queryName    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)
	memberName   = regexp.MustCompile(`^[a-z][a-z_]{0,63}$`)
	hostName     = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	windowForm   = regexp.MustCompile(`^[1-9][0-9]{0,2}[hd]$`)
	azureVersion = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}(-preview)?$`)
	tenantName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,127}$`)
	effortWord   = regexp.MustCompile(`^[a-z]{0,16}$`)
)

func (a *Account) check(at string, fail failFunc) {
	if !namePattern.MatchString(a.Name) {
		fail(at+".name", nameRule)
	}
	p, known := a.provider()
	if !known {
		fail(at+".provider", "must be one of: %s; or a name of your own, with a section openai in which dialect.like says whose API the service has", providerNames())
	}
	a.checkURL(at+".base_url", p.kind, fail)
	if strings.TrimSpace(a.Region) == "" {
		fail(at+".region", "is missing; write the region that the policies for this account name")
	}
	for field, v := range map[string]string{"organization": a.Organization, "project": a.Project} {
		if v != "" && !headerValue.MatchString(v) {
			fail(at+"."+field, "must be an id without white space")
		}
	}
	if a.APIKey.IsSet() || !a.entra() && p.kind != KindInhouse {
		a.APIKey.check(at+".api_key", fail)
	}
	a.Limits.check(at+".limits", fail)
	a.Rate.check(at+".rate", fail)
	a.checkPrices(at, fail)
	a.checkWebhook(at, fail)
	for i, r := range a.PermittedRanges {
		if p, err := netip.ParsePrefix(r); err != nil || p != p.Masked() {
			fail(fmt.Sprintf("%s.permitted_ranges[%d]", at, i), "must be a range such as 10.20.0.0/16, with zeros behind its length")
		}
	}
	if known {
		a.checkKind(at, p.kind, fail)
	}
}

// checkKind refuses what accounts of this kind have not got, and checks the
// section of what they have alone.
func (a *Account) checkKind(at string, k Kind, fail failFunc) {
	for _, s := range a.sections() {
		if s != k {
			fail(at+"."+string(s), "goes with another provider; the section of provider %s is %s", a.Provider, k)
		}
	}
	if a.Organization != "" && k != KindOpenAI {
		fail(at+".organization", "goes with services that have OpenAI's API only")
	}
	if a.Project != "" && k != KindOpenAI && k != KindInfrai {
		fail(at+".project", "goes with services that have OpenAI's API, and with infrai, only")
	}
	if k.Called() {
		if a.Limits.isSet() {
			fail(at+".limits", "goes with accounts that have jobs; texts go to this one one by one, and rate bounds how fast")
		}
		if a.TransferTimeout != 0 {
			fail(at+".transfer_timeout", "goes with accounts that have jobs; write call_timeout")
		}
	} else if a.Rate.isSet() {
		fail(at+".rate", "goes with accounts that texts go to one by one; this one has jobs, which limits bounds")
	}
	switch {
	case k == KindOpenAI && a.OpenAI != nil:
		a.OpenAI.check(at+".openai", a.Provider, fail)
	case k == KindAnthropic && a.Anthropic != nil:
		a.Anthropic.check(at+".anthropic", fail)
	case k == KindInfrai:
		a.checkInfrai(at, fail)
	case k == KindContentSafety && a.ContentSafety != nil:
		a.checkContentSafety(at, fail)
	case k == KindInhouse && a.Inhouse != nil:
		a.Inhouse.check(at+".inhouse", fail)
	}
}

// baseURLs are examples of what may be meant.
var baseURLs = map[Kind]string{
	KindOpenAI:        "OpenAI's own is https://api.openai.com/v1, and a project with data residency has its region in front, such as https://eu.api.openai.com/v1",
	KindAnthropic:     "Anthropic's own is https://api.anthropic.com",
	KindInfrai:        "its own is https://api.infrai.cc",
	KindContentSafety: "it is the resource's own, such as https://NAME.cognitiveservices.azure.com",
	KindInhouse:       "such as http://10.20.0.7:8000/v1, with the host's range in permitted_ranges",
}

func (a *Account) checkURL(field string, k Kind, fail failFunc) {
	if a.BaseURL == "" {
		hint := baseURLs[k]
		if k == "" {
			hint = baseURLs[KindOpenAI]
		}
		fail(field, "is missing; %s", hint)
		return
	}
	u, err := url.Parse(a.BaseURL)
	if err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		fail(field, "must be scheme, host and path only, such as https://eu.api.openai.com/v1")
		return
	}
	path := strings.Trim(u.Path, "/")
	local := loopback(u.Hostname())
	plain := a.AllowLoopback || k == KindInhouse && len(a.PermittedRanges) > 0
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		fail(field, "must begin with https://")
	case a.AllowLoopback && !local:
		fail(field, "must be on this machine, such as http://127.0.0.1:8089/v1, because allow_loopback is true")
	case !plain && u.Scheme == "http" && k == KindInhouse:
		fail(field, "must begin with https://; plain http needs the host's range in permitted_ranges, or allow_loopback: true for a server on this machine")
	case !plain && u.Scheme == "http":
		fail(field, "must begin with https://; plain http is for a sandbox on this machine, with allow_loopback: true")
	case !a.AllowLoopback && local:
		fail(field, "is on this machine; set allow_loopback: true if it is a sandbox")
	case path != "" && (k == KindInfrai || k == KindContentSafety):
		fail(field, "must be scheme and host only; %s", baseURLs[k])
	case path == "v1" && k == KindAnthropic:
		fail(field, "must not end with /v1, which the client adds; %s", baseURLs[k])
	}
}

func oneOf[S ~string](field string, v S, fail failFunc, words ...S) {
	if v != "" && !slices.Contains(words, v) {
		var list []string
		for _, w := range words {
			list = append(list, string(w))
		}
		fail(field, "must be one of: %s", strings.Join(list, ", "))
	}
}

func (o *OpenAI) check(at, provider string, fail failFunc) {
	oneOf(at+".endpoint", o.Endpoint, fail, "chat", "responses", "moderations")
	for name, v := range o.Query {
		switch {
		case !queryName.MatchString(name) || !headerValue.MatchString(v) || len(v) > 64:
			fail(at+".query", "must hold names such as api-version, and short values without white space")
		case slices.Contains([]string{"after", "cursor", "limit", "purpose", "order"}, name):
			fail(at+".query", "must not hold after, cursor, limit, purpose or order, which are the client's own")
		}
	}
	for model, name := range o.Deployments {
		if model == "" || name == "" || batch.SafeName(model) != model || batch.SafeName(name) != name {
			fail(at+".deployments", "must hold the names of models, and behind each the name of its deployment")
		}
	}
	d := &o.Dialect
	oneOf(at+".dialect.like", d.Like, fail, LikeOpenAI, LikeAzure, LikeGroq)
	if d.Like != "" && slices.ContainsFunc(providers, func(p knownProvider) bool { return p.name == provider }) {
		fail(at+".dialect.like", "goes with a provider of a name of your own; provider %s says whose dialect it is", provider)
	}
	d.check(at+".dialect", fail)
}

func (d *Dialect) check(at string, fail failFunc) {
	if d.KeyHeader != nil && *d.KeyHeader != "" && !headerName.MatchString(*d.KeyHeader) {
		fail(at+".key_header", `must be a name in lower case, such as api-key, or "" for Authorization`)
	}
	if d.Window != "" && !windowForm.MatchString(d.Window) {
		fail(at+".window", "must be hours or days as the service writes them, such as 24h or 7d")
	}
	for field, v := range map[string]Duration{"min": d.Expiry.Min, "max": d.Expiry.Max} {
		if v.Std()%time.Second != 0 {
			fail(at+".expiry."+field, "must be of whole seconds")
		}
	}
	if d.Expiry.Max != 0 && d.Expiry.Min > d.Expiry.Max {
		fail(at+".expiry.min", "is longer than expiry.max")
	}
	oneOf(at+".settlement", batch.Settlement(d.Settlement), fail, batch.SettleByListing, batch.SettleByResults)
	if d.Limits.Items < 0 || d.Limits.Items > 1_000_000 {
		fail(at+".limits.items", "must be between 0, which leaves it as it is, and 1000000")
	}
	if d.DataClasses != nil {
		checkClasses(at+".data_classes", d.DataClasses, fail)
	}
	for field, v := range map[string]string{"role": d.Role, "tokens_field": d.TokensField} {
		if v != "" && !memberName.MatchString(v) {
			fail(at+"."+field, "must be a name in lower case, such as system or max_tokens")
		}
	}
	if d.Residency.Domain != "" && !hostName.MatchString(d.Residency.Domain) {
		fail(at+".residency.domain", "must be a host in lower case")
	}
	if d.Residency.Domain == "" && len(d.Residency.Regions) > 0 {
		fail(at+".residency.domain", "is missing; write the host that the regions stand in front of")
	}
	for i, r := range d.Residency.Regions {
		if !namePattern.MatchString(r) {
			fail(fmt.Sprintf("%s.residency.regions[%d]", at, i), "must be a name in lower case, as hosts have it")
		}
	}
}

// dataClasses are the kinds of texts.
var dataClasses = []batch.DataClass{batch.DataSynthetic, batch.DataPersonal, batch.DataHealth, batch.DataUnstored}

func checkClasses(field string, classes []string, fail failFunc) {
	for i, class := range classes {
		at := fmt.Sprintf("%s[%d]", field, i)
		if class == "" {
			fail(at, "is empty")
		}
		oneOf(at, batch.DataClass(class), fail, dataClasses...)
	}
}

func (s *Anthropic) check(at string, fail failFunc) {
	if _, err := time.Parse(time.DateOnly, s.Version); s.Version != "" && err != nil {
		fail(at+".version", "must be a date such as 2023-06-01")
	}
	oneOf(at+".auth", s.Auth, fail, "x-api-key", "bearer")
	oneOf(at+".output", s.Output, fail, "json_schema", "tool")
	if s.Workspace != "" && !headerValue.MatchString(s.Workspace) {
		fail(at+".workspace", "must be an id without white space")
	}
}

func (a *Account) checkInfrai(at string, fail failFunc) {
	if strings.EqualFold(strings.TrimSpace(a.Region), "auto") {
		fail(at+".region", "must not be auto, which lets the provider choose a country; write the region that the account was made for")
	}
	if a.Infrai == nil {
		return
	}
	for i, v := range a.Infrai.Vendors {
		if !headerValue.MatchString(v) || v == "*" || strings.EqualFold(v, "auto") || batch.SafeName(v) != v {
			fail(fmt.Sprintf("%s.infrai.vendors[%d]", at, i), "must be a name as the provider gives it, in full; auto and * are none")
		}
	}
	oneOf(at+".infrai.data_class", batch.DataClass(a.Infrai.DataClass), fail, dataClasses...)
}

func (a *Account) checkContentSafety(at string, fail failFunc) {
	s := a.ContentSafety
	if s.APIVersion != "" && !azureVersion.MatchString(s.APIVersion) {
		fail(at+".content_safety.api_version", "must be a version such as 2024-09-01")
	}
	if s.Segment != 0 && (s.Segment < 1000 || s.Segment > 10_000) {
		fail(at+".content_safety.segment", "must be between 1000 and 10000 code points, or 0 for the most")
	}
	if s.Entra == nil {
		return
	}
	if a.APIKey.IsSet() {
		fail(at+".api_key", "is not used beside content_safety.entra; keep one")
	}
	s.Entra.check(at+".content_safety.entra", a.AllowLoopback, fail)
}

func (e *Entra) check(at string, local bool, fail failFunc) {
	if !tenantName.MatchString(e.Tenant) {
		fail(at+".tenant", "must be the tenant's id, or one of its domains")
	}
	if !headerValue.MatchString(e.ClientID) {
		fail(at+".client_id", "must be the application's id, without white space")
	}
	e.Secret.check(at+".secret", fail)
	if e.LoginURL == "" {
		return
	}
	u, err := url.Parse(e.LoginURL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !local) {
		fail(at+".login_url", "must be scheme and host, such as https://login.microsoftonline.com")
	}
}

func (s *Inhouse) check(at string, fail failFunc) {
	oneOf(at+".schema_form", s.SchemaForm, fail, "nested", "direct")
	if !effortWord.MatchString(s.ReasoningEffort) {
		fail(at+".reasoning_effort", "must be a word such as none or low")
	}
	if s.MaxText > 1<<30 {
		fail(at+".max_text", "must be at most 1GiB, or 0 for no limit")
	}
}

// check keeps a rate within what call permits.
func (r *Rate) check(at string, fail failFunc) {
	if n := r.Calls; n != nil && (*n < 1 || *n > maxCalls) {
		fail(at+".calls", "must be between 1 and %d", maxCalls)
	}
	if d := r.Interval; d != nil && (*d <= 0 || d.Std() > day) {
		fail(at+".interval", "must be longer than 0, and not longer than 1d")
	}
	if n := r.AtOnce; n != nil && (*n < 1 || *n > maxAtOnce) {
		fail(at+".at_once", "must be between 1 and %d", maxAtOnce)
	}
}

// The bounds of call and of each account's rate.
const (
	maxCalls  = 10_000_000
	maxAtOnce = 1000
)
