package anthropic

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"rollcall/batch"
	"rollcall/batch/transport"
)

const (
	// DefaultBaseURL is Anthropic's own.
	DefaultBaseURL = "https://api.anthropic.com"
	// DefaultVersion is the version of the API that is asked for.
	DefaultVersion = "2023-06-01"
	// VersionWithoutSampling is the first version that refuses temperature, and
	// so do all after it.
	VersionWithoutSampling = "2026-10-21"
)

// Auth is how the key is sent.
type Auth string

// The forms of authorisation; the API takes either.
const (
	AuthKey    Auth = "x-api-key"
	AuthBearer Auth = "bearer"
)

// Output is how the answer is held to the schema.
type Output string

const (
	// OutputSchema: structured output; the answer is the text of the message.
	OutputSchema Output = "json_schema"
	// OutputTool: a strict tool that the model must call; the answer is what it
	// calls the tool with.
	OutputTool Output = "tool"
)

// Config describes one account: a workspace that nothing else uses, because
// jobs bear no mark of ours, and a listing shows those of everybody in it.
type Config struct {
	Name    string // the name in the configuration
	BaseURL string // scheme, host and path prefix, without /v1; "" is DefaultBaseURL
	Version string // sent with every call, as YYYY-MM-DD; "" is DefaultVersion
	Auth    Auth   // "" is AuthKey
	Output  Output // "" is OutputSchema
	// Workspace is the id of the workspace, "wrkspc_…". It is sent when set, and
	// an answer that names another one is not taken for ours.
	Workspace string
	Region    string // as the operator states it; sent to nobody

	// APIKey is asked before every call, so that a rotated key is taken up
	// without a restart.
	APIKey func() string
	// FingerprintKey keys Account.Fingerprint; at least 16 bytes.
	FingerprintKey []byte

	CAFile          string         // PEM file of the authorities to trust; "" is the system's
	AllowLoopback   bool           // only for a sandbox: plain http, and no other addresses
	PermittedRanges []netip.Prefix // private ranges in which the host may be

	CallTimeout     time.Duration // one small call, answer included; 1 min
	TransferTimeout time.Duration // one create or download; 30 min

	// Now reads dates in Retry-After; nil is the Date header of the answer.
	Now func() time.Time
	// Record is told of every connection that is made; for tests.
	Record func(network, addr string)
}

const (
	defaultCallTimeout     = time.Minute
	defaultTransferTimeout = 30 * time.Minute
	// createHeaderTimeout: a create of many requests is checked before it is
	// answered, and an answer that is not waited for is one of unknown outcome.
	createHeaderTimeout = 15 * time.Minute
)

// New checks cfg and returns a Client. It makes no call.
func New(cfg Config) (*Client, error) {
	cfg.setDefaults()
	base, err := transport.ParseBase(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	o := transport.Options{
		Scheme: base.Scheme, Host: base.Host, AllowLoopback: cfg.AllowLoopback,
		PermittedRanges: cfg.PermittedRanges, CAFile: cfg.CAFile, Record: cfg.Record,
	}
	wire, err := transport.New(o)
	if err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	o.HeaderTimeout = createHeaderTimeout
	slow, err := transport.New(o)
	if err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	return &Client{cfg: cfg, key: batch.NewKey(cfg.APIKey, transport.HeaderSafe), base: base, wire: wire, slow: slow}, nil
}

func (cfg *Config) setDefaults() {
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	if cfg.Version == "" {
		cfg.Version = DefaultVersion
	}
	if cfg.Auth == "" {
		cfg.Auth = AuthKey
	}
	if cfg.Output == "" {
		cfg.Output = OutputSchema
	}
	if cfg.CallTimeout <= 0 {
		cfg.CallTimeout = defaultCallTimeout
	}
	if cfg.TransferTimeout <= 0 {
		cfg.TransferTimeout = defaultTransferTimeout
	}
}

func (cfg *Config) check() error {
	_, err := time.Parse(time.DateOnly, cfg.Version)
	switch {
	case cfg.Name == "":
		return errors.New("anthropic: name is missing")
	case cfg.APIKey == nil || !transport.HeaderSafe(cfg.APIKey()):
		return errors.New("anthropic: the API key is missing or holds white space or other odd characters")
	case cfg.Workspace != "" && !transport.HeaderSafe(cfg.Workspace):
		return errors.New("anthropic: the workspace is an id without white space")
	case err != nil:
		return errors.New("anthropic: version: want a date such as " + DefaultVersion)
	case cfg.Auth != AuthKey && cfg.Auth != AuthBearer:
		return fmt.Errorf("anthropic: auth: want %s or %s", AuthKey, AuthBearer)
	case cfg.Output != OutputSchema && cfg.Output != OutputTool:
		return fmt.Errorf("anthropic: output: want %s or %s", OutputSchema, OutputTool)
	case len(cfg.FingerprintKey) < batch.MinFingerprintKey:
		return fmt.Errorf("anthropic: the fingerprint key is shorter than %d bytes", batch.MinFingerprintKey)
	}
	return nil
}

// takesTemperature says whether the version permits it. Versions are dates, and
// New has checked that this one is.
func (cfg *Config) takesTemperature() bool { return cfg.Version < VersionWithoutSampling }
