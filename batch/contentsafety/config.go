package contentsafety

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"rollcall/batch"
	"rollcall/batch/post"
	"rollcall/batch/transport"
)

const (
	// DefaultAPIVersion is the newest one that is generally available. The one
	// before it goes 90 days after a newer one comes.
	DefaultAPIVersion = "2024-09-01"
	// DefaultLoginURL is where tokens come from, but for sovereign clouds.
	DefaultLoginURL = "https://login.microsoftonline.com"
	// MaxSegment is how many Unicode code points the API takes in one call.
	MaxSegment = 10_000

	minSegment = 1_000
)

// Config describes one resource.
type Config struct {
	Name       string // the name in the configuration
	BaseURL    string // of the resource: https://NAME.cognitiveservices.azure.com
	APIVersion string // "" is DefaultAPIVersion
	Region     string // as the operator states it; sent to nobody

	// Key is one of the resource's two keys. It is asked before every call, so
	// that a rotated key is taken up without a restart. nil with Entra.
	Key func() string
	// Entra calls with tokens instead; nil with Key.
	Entra *Entra
	// FingerprintKey keys Account.Fingerprint; at least 16 bytes.
	FingerprintKey []byte

	// Segment is how many code points one call takes at most, from 1,000 to
	// MaxSegment, which is also what 0 means.
	Segment int

	CAFile          string         // PEM file of the authorities to trust; "" is the system's
	AllowLoopback   bool           // only for a sandbox: plain http, and no other addresses
	PermittedRanges []netip.Prefix // private ranges in which the host may be

	CallTimeout time.Duration // one call, answer included; 1 min

	// Now reads dates in Retry-After, and when tokens end; nil is the Date header
	// of an answer, and time.Now.
	Now func() time.Time
	// Record is told of every connection that is made; for tests.
	Record func(network, addr string)
}

// Entra is an application of Microsoft Entra ID that may use the resource: it
// has the role Cognitive Services User. The resource needs a host of its own.
type Entra struct {
	Tenant   string // id, or a domain of the tenant
	ClientID string // of the application
	// Secret is the application's. It is asked before every token.
	Secret func() string
	// LoginURL is "" for DefaultLoginURL.
	LoginURL string
}

// regional is true for a host that serves many resources, so that it does not
// tell which one is called.
func regional(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	return strings.HasSuffix(name, ".api.cognitive.microsoft.com")
}

var (
	// versionPattern: 2024-09-01 and 2026-09-01-preview.
	versionPattern = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}(-preview)?$`)
	// tenantPattern: it becomes a part of a path.
	tenantPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,127}$`)
)

// New checks cfg and returns a Client. It makes no call.
func New(cfg Config) (*Client, error) {
	if cfg.APIVersion == "" {
		cfg.APIVersion = DefaultAPIVersion
	}
	if cfg.Segment == 0 {
		cfg.Segment = MaxSegment
	}
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("contentsafety: %w", err)
	}
	wire, err := cfg.client(cfg.BaseURL, "Apim-Request-Id")
	if err != nil {
		return nil, fmt.Errorf("contentsafety: %w", err)
	}
	c := &Client{cfg: cfg, wire: wire, query: url.Values{"api-version": {cfg.APIVersion}}}
	if cfg.Entra == nil {
		c.key = batch.NewKey(cfg.Key, transport.HeaderSafe)
		return c, nil
	}
	if regional(wire.Host()) {
		return nil, errors.New("contentsafety: a regional host takes no tokens; write the resource's own host")
	}
	if c.tokens, err = newTokens(cfg); err != nil {
		return nil, fmt.Errorf("contentsafety: %w", err)
	}
	return c, nil
}

func (cfg *Config) check() error {
	switch {
	case cfg.Name == "":
		return errors.New("name is missing")
	case !versionPattern.MatchString(cfg.APIVersion):
		return errors.New("the API version must look like 2024-09-01")
	case cfg.Segment < minSegment || cfg.Segment > MaxSegment:
		return fmt.Errorf("a segment must be of %d to %d code points", minSegment, MaxSegment)
	case len(cfg.FingerprintKey) < batch.MinFingerprintKey:
		return fmt.Errorf("the fingerprint key is shorter than %d bytes", batch.MinFingerprintKey)
	case (cfg.Key == nil) == (cfg.Entra == nil):
		return errors.New("give either a key or an Entra application")
	case cfg.Key != nil && !transport.HeaderSafe(cfg.Key()):
		return errors.New("the key is missing or holds white space or other odd characters")
	case cfg.Entra != nil:
		return cfg.Entra.check()
	}
	return nil
}

func (e *Entra) check() error {
	switch {
	case !tenantPattern.MatchString(e.Tenant):
		return errors.New("the tenant must be an id or a domain")
	case !transport.HeaderSafe(e.ClientID):
		return errors.New("the client id is missing or holds white space or other odd characters")
	case e.Secret == nil || e.Secret() == "":
		return errors.New("the client secret is missing")
	}
	return nil
}

// client calls one of the two hosts.
func (cfg *Config) client(base, requestID string) (*post.Client, error) {
	return post.New(post.Options{
		BaseURL: base, Timeout: cfg.CallTimeout, Now: cfg.Now, RequestID: requestID,
		Transport: transport.Options{
			AllowLoopback: cfg.AllowLoopback, PermittedRanges: cfg.PermittedRanges, CAFile: cfg.CAFile, Record: cfg.Record,
		},
	})
}
