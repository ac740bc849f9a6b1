package openai

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"rollcall/batch"
)

// Endpoint is what the lines of an account's jobs ask for. A job has one, so an
// account has one; two accounts may share a key and a project.
type Endpoint string

const (
	// EndpointChat asks a model for a chat completion. "" is the same.
	EndpointChat Endpoint = "chat"
	// EndpointResponses asks a model for a response that is not stored.
	EndpointResponses Endpoint = "responses"
	// EndpointModerations asks for scores by category. Neither instructions nor a
	// schema are sent; the classifier's thresholds make labels of the scores.
	EndpointModerations Endpoint = "moderations"
)

// path is the endpoint as create and the lines spell it.
func (c *Client) path() string {
	path := "/v1/chat/completions"
	switch c.cfg.Endpoint {
	case EndpointResponses:
		path = "/v1/responses"
	case EndpointModerations:
		path = "/v1/moderations"
	}
	if c.cfg.Dialect.BarePaths {
		path = strings.TrimPrefix(path, "/v1")
	}
	return path
}

// Dialect is how a service differs from OpenAI. The zero value is OpenAI's own
// API. It is all that the adapter knows about a service; the presets are values
// of it.
type Dialect struct {
	// KeyHeader carries the bare key, as in api-key; "" sends it as a bearer
	// token in Authorization.
	KeyHeader string
	// BarePaths has create and the lines spell endpoints without the /v1 before
	// them, as in /chat/completions.
	BarePaths bool
	// Window is the completion_window; "" is 24h.
	Window string
	// Expiry bounds the life of input and result files that may be asked for.
	Expiry Expiry
	// Cursor has lists continued with the parameter cursor and the answer's
	// paging.next_cursor, in the place of after and has_more.
	Cursor bool
	// Settlement is batch.SettleByListing, or batch.SettleByResults for a service
	// whose list tells neither metadata nor the input file; "" is the first.
	Settlement batch.Settlement
	// Limits of one job; a zero stands for OpenAI's. The length of a line and a
	// key window are not among them.
	Limits batch.Limits
	// ResultsFor is how long results can be fetched, from the creation of the job
	// on; 0 when nothing is promised.
	ResultsFor time.Duration
	// Classes are the kinds of texts that the service's own documents permit; nil
	// is OpenAI's.
	Classes []batch.DataClass

	// Projects is what the service knows of Config.Project.
	Projects Projects

	// Role is that of the instructions in a chat; "" is developer. Older
	// services know system only.
	Role string
	// TokensField is the name of the limit of a chat's answer; "" is
	// max_completion_tokens. Older services know max_tokens only.
	TokensField string
	// OmitStore leaves "store":false out, for a service that refuses a field that
	// it does not know. One that stores by default must not have it.
	OmitStore bool

	// Residency says how hosts name regions.
	Residency Residency
}

// Projects is what a service knows of projects. Organizations go with them.
type Projects string

const (
	// ProjectsKnown: a project is named in a header with every call.
	ProjectsKnown Projects = ""
	// ProjectsByHost: each account has a host of its own. A project is the
	// operator's word for it, which keeps the account the same when the key is
	// rotated, and is sent to nobody.
	ProjectsByHost Projects = "host"
	// ProjectsByKey: all accounts have one host, and no call can name one, so that
	// the key alone tells them apart. A project is neither sent nor heeded.
	ProjectsByKey Projects = "key"
)

// Expiry bounds what may be asked for as the life of a file: what is asked for
// beyond a bound becomes the bound. It counts from the file's own creation,
// which for results is the end of the job; the documents know no other anchor.
type Expiry struct {
	Min, Max time.Duration // 0 is 1 hour and 30 days
	Absent   bool          // the service refuses the fields; nothing is sent
}

// Residency is a host that has one more for each region: the region, a dot and
// the host.
type Residency struct {
	Domain  string   // "" is OpenAI's, together with its regions
	Regions []string // in lower case
}

// openAIResidency: a project with data residency is called at its own host.
// There are documents by which that is needed for us, eu, gb and ae alone, and
// newer ones by which it always is.
var openAIResidency = Residency{
	Domain:  "api.openai.com",
	Regions: []string{"us", "eu", "au", "ca", "jp", "in", "sg", "kr", "gb", "ae"},
}

// Presets. They are what is documented of a service, and can be changed field by
// field.
var (
	// Azure is Azure OpenAI, with a base URL that ends in /openai/v1, or in
	// /openai together with Config.Query api-version. The model of a line is a
	// deployment: see Config.Deployments. Its documents name 100,000 and 50,000
	// items; the smaller is taken. Files live for 14 days at least.
	Azure = Dialect{
		KeyHeader: "api-key",
		BarePaths: true,
		Expiry:    Expiry{Min: 14 * 24 * time.Hour},
		Projects:  ProjectsByHost,
		Classes:   []batch.DataClass{batch.DataSynthetic},
	}
	// Groq is Groq's batch API, with the base URL https://api.groq.com/openai/v1.
	// Files are kept for 30 days, and that cannot be changed. Its documents name
	// 100 and 200 MB; the smaller is taken. A longer Window, up to 7d, is advised.
	Groq = Dialect{
		Cursor:     true,
		Expiry:     Expiry{Absent: true},
		Projects:   ProjectsByKey,
		Limits:     batch.Limits{Items: 50_000, Bytes: 95_000_000},
		ResultsFor: 30 * 24 * time.Hour,
		Classes:    []batch.DataClass{batch.DataSynthetic},
		Role:       "system",
		OmitStore:  true,
	}
)

var (
	headerName  = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)
	windowForm  = regexp.MustCompile(`^[1-9][0-9]{0,2}[hd]$`)
	fieldName   = regexp.MustCompile(`^[a-z][a-z_]{0,63}$`)
	regionLabel = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
)

// complete puts OpenAI's values into the place of zeros.
func (d *Dialect) complete() {
	orElse := func(s *string, def string) {
		if *s == "" {
			*s = def
		}
	}
	orElse(&d.Window, "24h")
	orElse(&d.Role, "developer")
	orElse(&d.TokensField, "max_completion_tokens")
	if d.Settlement == "" {
		d.Settlement = batch.SettleByListing
	}
	if d.Expiry.Min <= 0 {
		d.Expiry.Min = time.Hour
	}
	if d.Expiry.Max <= 0 {
		d.Expiry.Max = 30 * 24 * time.Hour
	}
	if d.Limits.Items == 0 {
		d.Limits.Items = 50_000
	}
	if d.Limits.Bytes == 0 {
		d.Limits.Bytes = 190_000_000
	}
	if d.Classes == nil {
		// Nothing in OpenAI's documents is about health, and batches and files are
		// kept, whatever has been agreed for other calls.
		d.Classes = []batch.DataClass{batch.DataSynthetic, batch.DataPersonal}
	}
	if d.Residency.Domain == "" {
		d.Residency = openAIResidency
	}
}

// check is nil for a complete dialect that can be spoken.
func (d *Dialect) check() error {
	switch {
	case d.KeyHeader != "" && !headerName.MatchString(d.KeyHeader):
		return errors.New("openai: key header: want a name in lower case, such as api-key")
	case !windowForm.MatchString(d.Window):
		return errors.New("openai: window: want hours or days, such as 24h or 7d")
	case d.Settlement != batch.SettleByListing && d.Settlement != batch.SettleByResults:
		return fmt.Errorf("openai: settlement: want %s or %s", batch.SettleByListing, batch.SettleByResults)
	case d.Projects != ProjectsKnown && d.Projects != ProjectsByHost && d.Projects != ProjectsByKey:
		return fmt.Errorf("openai: projects: want %q, %q or %q", ProjectsKnown, ProjectsByHost, ProjectsByKey)
	case d.Expiry.Min > d.Expiry.Max, d.Expiry.Min%time.Second != 0, d.Expiry.Max%time.Second != 0:
		return errors.New("openai: expiry: want whole seconds, and a least life that is not above the longest")
	case d.Limits.Items < 0, d.Limits.Bytes < 0, d.Limits.ItemBytes < 0, d.Limits.KeyWindow != 0, d.ResultsFor < 0:
		return errors.New("openai: limits: must not be negative, and there is no key window")
	case !fieldName.MatchString(d.Role), !fieldName.MatchString(d.TokensField):
		return errors.New("openai: role and tokens field are names in lower case, such as system and max_tokens")
	}
	for _, r := range d.Residency.Regions {
		if !regionLabel.MatchString(r) {
			return errors.New("openai: residency: regions are names in lower case, as hosts have them")
		}
	}
	return nil
}

// agrees is nil when the host and the region that the operator states do not
// contradict each other. A region that no host has in its name, such as global
// or local, can be stated for the host without one.
func (r Residency) agrees(host, region string) error {
	name, _, _ := strings.Cut(host, ":")
	region = strings.ToLower(strings.TrimSpace(region))
	prefix, regional := strings.CutSuffix(name, "."+r.Domain)
	switch {
	case name == r.Domain && slices.Contains(r.Regions, region):
		return fmt.Errorf("openai: region is %s, and the host of the base URL is the one of no region; write the host %s.%s, or the region global", region, region, r.Domain)
	case !regional:
		return nil
	case !slices.Contains(r.Regions, prefix):
		return fmt.Errorf("openai: base URL: no region has this host; known are %s in front of %s", strings.Join(r.Regions, ", "), r.Domain)
	case region != "" && region != prefix:
		return fmt.Errorf("openai: region and base URL do not agree; the host is the one of the region %s", prefix)
	}
	return nil
}

// of is nil for the service's default, else d within what is offered.
func (e Expiry) of(d time.Duration) *expiresAfter {
	if d <= 0 || e.Absent {
		return nil
	}
	return &expiresAfter{Anchor: "created_at", Seconds: int64(min(max(d, e.Min), e.Max) / time.Second)}
}
