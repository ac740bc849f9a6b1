package inhouse

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"time"

	"rollcall/batch"
	"rollcall/batch/post"
	"rollcall/batch/transport"
)

// SchemaForm is how a request carries the JSON Schema of the answer.
type SchemaForm string

const (
	// SchemaNested is OpenAI's form, which vLLM and Ollama take.
	SchemaNested SchemaForm = "nested"
	// SchemaDirect has the schema in response_format itself, as the server of
	// llama.cpp documents it.
	SchemaDirect SchemaForm = "direct"
)

// Config describes one server.
type Config struct {
	Name    string // the name in the configuration
	BaseURL string // scheme, host and path prefix, such as http://10.20.0.7:8000/v1
	Region  string // as the operator states it; sent to nobody

	// APIKey is asked before every call, so that a rotated key is taken up
	// without a restart. nil for a server that asks for none.
	APIKey func() string
	// FingerprintKey keys Account.Fingerprint; at least 16 bytes.
	FingerprintKey []byte

	CAFile string // PEM file of the authorities to trust; "" is the system's
	// AllowLoopback: the server is on this machine, and no other address is
	// called. Plain http is permitted.
	AllowLoopback bool
	// PermittedRanges are the private ranges in which the server is; no address
	// outside of them is called, and plain http is permitted. Without them and
	// AllowLoopback the server must have a public address and speak TLS.
	PermittedRanges []netip.Prefix

	CallTimeout time.Duration // one call, answer included; 2 min

	SchemaForm SchemaForm // "" is SchemaNested
	Seed       *int64     // of the sampling; nil: not sent
	// ReasoningEffort is "none" for a model that would think first and that a
	// schema keeps from thinking; "" is not sent.
	ReasoningEffort string
	// MaxText is how many bytes of text the model's context has room for; a
	// longer text is refused, since a server may cut it without a word. 0 is no
	// limit.
	MaxText int
	// TrustContext: an answer counts even if the server says that it read fewer
	// tokens than the request must have. For servers that count only what their
	// cache did not hold.
	TrustContext bool

	// Now reads dates in Retry-After; nil is the Date header of the answer.
	Now func() time.Time
	// Record is told of every connection that is made; for tests.
	Record func(network, addr string)
}

// defaultCallTimeout has room for a queue in front of a slow machine.
const defaultCallTimeout = 2 * time.Minute

var effortPattern = regexp.MustCompile(`^[a-z]{0,16}$`)

// New checks cfg and returns a Client. It makes no call.
func New(cfg Config) (*Client, error) {
	if cfg.SchemaForm == "" {
		cfg.SchemaForm = SchemaNested
	}
	if cfg.CallTimeout <= 0 {
		cfg.CallTimeout = defaultCallTimeout
	}
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("inhouse: %w", err)
	}
	wire, err := post.New(post.Options{
		BaseURL: cfg.BaseURL, Timeout: cfg.CallTimeout, Now: cfg.Now, RequestID: "X-Request-Id",
		Transport: transport.Options{
			AllowLoopback: cfg.AllowLoopback, PermittedRanges: cfg.PermittedRanges, OnlyPermitted: len(cfg.PermittedRanges) > 0,
			HeaderTimeout: cfg.CallTimeout, // the answer comes at once, when the model has written it
			CAFile:        cfg.CAFile, Record: cfg.Record,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("inhouse: %w", err)
	}
	c := &Client{cfg: cfg, wire: wire}
	if cfg.APIKey != nil {
		c.key = batch.NewKey(cfg.APIKey, transport.HeaderSafe)
	}
	return c, nil
}

func (cfg *Config) check() error {
	switch {
	case cfg.Name == "":
		return errors.New("name is missing")
	case cfg.APIKey != nil && !transport.HeaderSafe(cfg.APIKey()):
		return errors.New("the API key is missing or holds white space or other odd characters")
	case len(cfg.FingerprintKey) < batch.MinFingerprintKey:
		return fmt.Errorf("the fingerprint key is shorter than %d bytes", batch.MinFingerprintKey)
	case cfg.SchemaForm != SchemaNested && cfg.SchemaForm != SchemaDirect:
		return fmt.Errorf("the schema form must be %s or %s", SchemaNested, SchemaDirect)
	case !effortPattern.MatchString(cfg.ReasoningEffort):
		return errors.New("the reasoning effort must be a word such as none or low")
	case cfg.MaxText < 0:
		return errors.New("the longest text must be of 0 bytes or more")
	}
	return nil
}
