package openai

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"time"

	"rollcall/batch"
	"rollcall/batch/transport"
)

// DefaultBaseURL is OpenAI's own. A project with data residency has a host of
// its own, such as https://eu.api.openai.com/v1.
const DefaultBaseURL = "https://api.openai.com/v1"

// Config describes one account.
type Config struct {
	Name         string // the name in the configuration
	BaseURL      string // scheme, host and path prefix; "" is DefaultBaseURL
	Organization string // sent when set, as Project is
	Project      string // sent when set and the service knows projects; files and jobs are visible within one
	Region       string // as the operator states it; sent to nobody, but must agree with the host

	// Processor is the name of the service in policies; "" is "openai".
	Processor string
	// Endpoint is what the lines ask for; "" is EndpointChat.
	Endpoint Endpoint
	// Dialect is how the service differs from OpenAI.
	Dialect Dialect
	// Query is sent with every call, as in api-version: 2024-10-21.
	Query map[string]string
	// Deployments are the names that stand in the lines for models, by model, for
	// a service whose account calls a model by a name of its own. An answer names
	// the model. When it is not empty, no other model can be asked.
	Deployments map[string]string

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
)

// New checks cfg and returns a Client. It makes no call.
func New(cfg Config) (*Client, error) {
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	base, err := transport.ParseBase(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	switch {
	case cfg.Name == "":
		return nil, errors.New("openai: name is missing")
	case cfg.APIKey == nil || !transport.HeaderSafe(cfg.APIKey()):
		return nil, errors.New("openai: the API key is missing or holds white space or other odd characters")
	case cfg.Organization != "" && !transport.HeaderSafe(cfg.Organization), cfg.Project != "" && !transport.HeaderSafe(cfg.Project):
		return nil, errors.New("openai: organization and project are ids without white space")
	case len(cfg.FingerprintKey) < batch.MinFingerprintKey:
		return nil, fmt.Errorf("openai: the fingerprint key is shorter than %d bytes", batch.MinFingerprintKey)
	}
	if cfg.Processor == "" {
		cfg.Processor = "openai"
	}
	cfg.Dialect.complete()
	if err := cfg.checkService(base.Host); err != nil {
		return nil, err
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
	return &Client{cfg: cfg, key: batch.NewKey(cfg.APIKey, transport.HeaderSafe), base: base, wire: wire}, nil
}

// checkService checks what tells the service from OpenAI.
func (cfg *Config) checkService(host string) error {
	switch cfg.Endpoint {
	case "", EndpointChat, EndpointResponses, EndpointModerations:
	default:
		return fmt.Errorf("openai: endpoint: want %s, %s or %s", EndpointChat, EndpointResponses, EndpointModerations)
	}
	if !processorName.MatchString(cfg.Processor) {
		return errors.New("openai: processor: want a name of lower-case letters, digits and -")
	}
	for k, v := range cfg.Query {
		if !queryName.MatchString(k) || !transport.HeaderSafe(v) || len(v) > 64 {
			return errors.New("openai: query: want names such as api-version, and short values without white space")
		}
		if k == "after" || k == "cursor" || k == "limit" || k == "purpose" || k == "order" {
			return fmt.Errorf("openai: query: %s is the adapter's own parameter", k)
		}
	}
	for model, name := range cfg.Deployments {
		if model == "" || name == "" || batch.SafeName(model) != model || batch.SafeName(name) != name {
			return errors.New("openai: deployments: want the names of models and of their deployments")
		}
	}
	if err := cfg.Dialect.check(); err != nil {
		return err
	}
	return cfg.Dialect.Residency.agrees(host, cfg.Region)
}

var (
	processorName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	queryName     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)
)
