package openai

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"rollcall/batch/transport"
)

// DefaultBaseURL is OpenAI's own. A project with data residency has a host of
// its own, such as https://eu.api.openai.com/v1.
const DefaultBaseURL = "https://api.openai.com/v1"

// Config describes one account.
type Config struct {
	Name         string // the name in the configuration
	BaseURL      string // scheme, host and path prefix; "" is DefaultBaseURL
	Organization string // sent when set
	Project      string // sent when set; files and jobs are visible within one project
	Region       string // as the operator states it; sent to nobody

	// APIKey is asked before every call, so that a rotated key is taken up
	// without a restart.
	APIKey func() string
	// FingerprintKey keys Account.Fingerprint; at least 16 bytes.
	FingerprintKey []byte

	CAFile          string         // PEM file of the authorities to trust; "" is the system's
	AllowLoopback   bool           // only for a sandbox: plain http, and no other addresses
	PermittedRanges []netip.Prefix // private ranges in which the host may be

	CallTimeout     time.Duration // one small call, answer included; 1 min
	TransferTimeout time.Duration // one upload or download; 30 min

	// Now reads dates in Retry-After; nil is the Date header of the answer.
	Now func() time.Time
	// Record is told of every connection that is made; for tests.
	Record func(network, addr string)
}

const (
	defaultCallTimeout     = time.Minute
	defaultTransferTimeout = 30 * time.Minute
	minFingerprintKey      = 16
)

// New checks cfg and returns a Client. It makes no call.
func New(cfg Config) (*Client, error) {
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	base, err := parseBase(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	switch {
	case cfg.Name == "":
		return nil, errors.New("openai: name is missing")
	case cfg.APIKey == nil || !headerSafe(cfg.APIKey()):
		return nil, errors.New("openai: the API key is missing or holds white space or other odd characters")
	case cfg.Organization != "" && !headerSafe(cfg.Organization), cfg.Project != "" && !headerSafe(cfg.Project):
		return nil, errors.New("openai: organization and project are ids without white space")
	case len(cfg.FingerprintKey) < minFingerprintKey:
		return nil, fmt.Errorf("openai: the fingerprint key is shorter than %d bytes", minFingerprintKey)
	}
	wire, err := transport.New(transport.Options{
		Scheme:          base.Scheme,
		Host:            base.Host,
		AllowLoopback:   cfg.AllowLoopback,
		PermittedRanges: cfg.PermittedRanges,
		CAFile:          cfg.CAFile,
		Record:          cfg.Record,
	})
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	if cfg.CallTimeout <= 0 {
		cfg.CallTimeout = defaultCallTimeout
	}
	if cfg.TransferTimeout <= 0 {
		cfg.TransferTimeout = defaultTransferTimeout
	}
	return &Client{cfg: cfg, base: base, wire: wire}, nil
}

func parseBase(s string) (*url.URL, error) {
	// The URL itself stays out of the errors: people put keys into URLs.
	base, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("openai: base URL: not a URL")
	}
	if base.User != nil || base.RawQuery != "" || base.Fragment != "" || base.Opaque != "" || base.Host == "" {
		return nil, errors.New("openai: base URL: want scheme, host and path only")
	}
	base.Host = strings.ToLower(base.Host) // it is part of the fingerprint
	base.Path = strings.TrimRight(base.Path, "/")
	return base, nil
}

// headerSafe is true for a non-empty value of visible ASCII.
func headerSafe(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return s != ""
}
