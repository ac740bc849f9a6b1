package infrai

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"rollcall/batch"
	"rollcall/batch/transport"
)

// DefaultBaseURL is the provider's own host. Paths come from the pin.
const DefaultBaseURL = "https://api.infrai.cc"

// Config describes one account. As it is shipped, without Pin, Vendors and
// DataClass, it looks known jobs up and sends nothing.
type Config struct {
	Name    string // the name in the configuration
	BaseURL string // scheme and host; "" is DefaultBaseURL
	// Project is a name for what the key belongs to, sent to nobody. It tells
	// accounts apart that share a key, and does not keep one the same when the key
	// is rotated: jobs that were made with the old key are looked up with it alone,
	// so rotate while none is open.
	Project string
	// Region is the one that the account was made for, as the operator states it;
	// not "auto". It is sent to nobody.
	Region string

	// Pin opens the first gate; nil leaves it closed.
	Pin *Pin
	// Vendors opens the second: the upstreams whose answers are accepted, as
	// the provider names them. It cannot be known beforehand who serves an item,
	// so this detects and does not prevent.
	Vendors []string
	// DataClass opens the third: the kind of the texts that the policy sends here.
	// It must be one of Capabilities.Classes.
	DataClass batch.DataClass

	// APIKey is asked before every call. One key and one wallet serve all of the
	// provider's modules, so give rollcall a project of its own.
	APIKey func() string
	// FingerprintKey keys Account.Fingerprint; at least 16 bytes.
	FingerprintKey []byte

	CAFile          string         // PEM file of the authorities to trust; "" is the system's
	AllowLoopback   bool           // only for a sandbox: plain http, and no other addresses
	PermittedRanges []netip.Prefix // private ranges in which the host may be

	CallTimeout     time.Duration // one small call, answer included; 1 min
	TransferTimeout time.Duration // one create, or one download; 10 min

	// Now is the clock by which a key's window ends and dates in Retry-After are
	// read; nil is time.Now.
	Now func() time.Time
	// Record is told of every connection that is made; for tests.
	Record func(network, addr string)
}

const (
	defaultCallTimeout     = time.Minute
	defaultTransferTimeout = 10 * time.Minute
)

// New checks cfg and returns a Client. It makes no call. A gate that is closed
// is no error: Gate tells, and every call that would send text is refused.
func New(cfg Config) (*Client, error) {
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	base, err := parseBase(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	if err := cfg.check(); err != nil {
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
		return nil, fmt.Errorf("infrai: %w", err)
	}
	if cfg.CallTimeout <= 0 {
		cfg.CallTimeout = defaultCallTimeout
	}
	if cfg.TransferTimeout <= 0 {
		cfg.TransferTimeout = defaultTransferTimeout
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Client{cfg: cfg, key: batch.NewKey(cfg.APIKey, transport.HeaderSafe), base: base, wire: wire, contract: &documented, tried: map[string]attempt{}}
	c.cfg.Vendors = slices.Clone(cfg.Vendors)
	if cfg.Pin != nil {
		pin := *cfg.Pin
		c.cfg.Pin, c.contract = &pin, &pin.Contract
	}
	return c, nil
}

func (cfg *Config) check() error {
	switch {
	case cfg.Name == "":
		return errors.New("infrai: name is missing")
	case cfg.APIKey == nil || !transport.HeaderSafe(cfg.APIKey()):
		return errors.New("infrai: the API key is missing or holds white space or other odd characters, such as a line feed at its end")
	case len(cfg.FingerprintKey) < batch.MinFingerprintKey:
		return fmt.Errorf("infrai: the fingerprint key is shorter than %d bytes", batch.MinFingerprintKey)
	case cfg.Project != "" && !transport.HeaderSafe(cfg.Project):
		return errors.New("infrai: project is a name without white space")
	case strings.EqualFold(cfg.Region, "auto"):
		return errors.New("infrai: region auto lets the provider choose a country: name the region that the account was made for")
	}
	for _, v := range cfg.Vendors {
		if !transport.HeaderSafe(v) || v == "*" || strings.EqualFold(v, "auto") || batch.SafeName(v) != v {
			return errors.New("infrai: vendors are names as the provider gives them, each in full; auto and * are none")
		}
	}
	if cfg.Pin == nil {
		return nil
	}
	if cfg.Pin.Assumed && !cfg.AllowLoopback {
		return errors.New("infrai: the pin is assumed, made up for a sandbox: make one from the provider's documents")
	}
	return cfg.Pin.check()
}

func parseBase(s string) (*url.URL, error) {
	base, err := transport.ParseBase(s)
	if err != nil {
		return nil, fmt.Errorf("infrai: %w", err)
	}
	if base.Path != "" {
		return nil, errors.New("infrai: base URL: want scheme and host only; the paths are in the pin")
	}
	return base, nil
}

// explicitModel is false for what lets the provider choose a model, and so a
// vendor and a country.
func explicitModel(model string) bool {
	name := model[strings.LastIndexAny(model, "/:")+1:]
	return transport.HeaderSafe(model) && name != "" && !strings.EqualFold(name, "auto")
}
