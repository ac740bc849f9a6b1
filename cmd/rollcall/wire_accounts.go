package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"rollcall/batch"
	"rollcall/batch/anthropic"
	"rollcall/batch/contentsafety"
	"rollcall/batch/infrai"
	"rollcall/batch/inhouse"
	"rollcall/batch/openai"
	"rollcall/configs"
	"rollcall/reconcile/keyring"
)

// client is what the clients of all processors have.
type client interface {
	Account() batch.Account
	Capabilities() batch.Capabilities
}

// clients are the clients of the configured accounts, by how texts go there.
type clients struct {
	accounts []batch.Provider // in jobs
	callers  []batch.Caller   // one by one
}

// clients makes a client for every configured account, or tells what is wrong
// with each that has none. It makes no call.
func (d *deployment) clients() (clients, error) {
	var out clients
	var errs []error
	for _, acc := range d.config.Accounts {
		c, err := d.client(acc)
		errs = append(errs, err)
		switch c := c.(type) {
		case batch.Provider:
			out.accounts = append(out.accounts, c)
		case batch.Caller:
			out.callers = append(out.callers, c)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return clients{}, err
	}
	return out, nil
}

// client makes the client of an account. What it finds wrong is told with the
// place of the account in the configuration.
func (d *deployment) client(acc configs.Account) (client, error) {
	if err := acc.ReadSecrets(); err != nil {
		return nil, &exitError{exitUsage, err} // it names the field
	}
	var c client
	var err error
	switch kind := acc.Kind(); kind {
	case configs.KindOpenAI:
		c, err = openai.New(d.openaiConfig(acc))
	case configs.KindAnthropic:
		c, err = anthropic.New(d.anthropicConfig(acc))
	case configs.KindInfrai:
		var cfg infrai.Config
		if cfg, err = d.infraiConfig(acc); err == nil {
			c, err = infrai.New(cfg)
		}
	case configs.KindContentSafety:
		c, err = contentsafety.New(d.contentSafetyConfig(acc))
	case configs.KindInhouse:
		c, err = inhouse.New(d.inhouseConfig(acc))
	default:
		panic(fmt.Sprintf("no client for accounts of kind %q", kind))
	}
	if err != nil {
		return nil, &exitError{exitUsage, d.config.AccountError(acc.Name, err)}
	}
	return c, nil
}

// secret reads a secret of an account anew for each call, so that a rotated one
// is taken up.
func (d *deployment) secret(acc configs.Account, s configs.Secret) func() string {
	return func() string {
		v, err := s.Read()
		if err != nil {
			// The error names the field and the file, and holds nothing of a key.
			d.log.Error().Str("account", acc.Name).Err(err).Msg("a key of the account can no longer be read; nothing is sent meanwhile")
		}
		return v
	}
}

// fingerprintKey keys the fingerprints of accounts.
func (d *deployment) fingerprintKey() []byte {
	return []byte(d.keys.MAC(keyring.Account, []byte("fingerprint")))
}

func (d *deployment) openaiConfig(acc configs.Account) openai.Config {
	cfg := openai.Config{
		Name: acc.Name, BaseURL: acc.BaseURL, Organization: acc.Organization, Project: acc.Project, Region: acc.Region,
		Processor: acc.Provider, Dialect: dialectOf(acc), APIKey: d.secret(acc, acc.APIKey), FingerprintKey: d.fingerprintKey(),
		CAFile: acc.CAFile, AllowLoopback: acc.AllowLoopback, PermittedRanges: acc.Prefixes(),
		CallTimeout: acc.CallTimeout.Std(), TransferTimeout: acc.TransferTimeout.Std(),
	}
	if s := acc.OpenAI; s != nil {
		cfg.Endpoint, cfg.Query, cfg.Deployments = openai.Endpoint(s.Endpoint), s.Query, s.Deployments
	}
	return cfg
}

// dialectOf is the dialect of the service that an account's is like, with what
// is written about it in its place.
func dialectOf(acc configs.Account) openai.Dialect {
	d := map[configs.Like]openai.Dialect{configs.LikeAzure: openai.Azure, configs.LikeGroq: openai.Groq}[acc.Like()]
	if acc.Provider != "openai" && d.Classes == nil {
		// OpenAI's documents say nothing about a service that is like it.
		d.Classes = []batch.DataClass{batch.DataSynthetic}
	}
	if acc.OpenAI == nil {
		return d
	}
	w := acc.OpenAI.Dialect
	written(&d.KeyHeader, w.KeyHeader)
	written(&d.BarePaths, w.BarePaths)
	written(&d.Expiry.Absent, w.Expiry.Absent)
	written(&d.Cursor, w.Cursor)
	written(&d.OmitStore, w.OmitStore)
	nonzero(&d.Window, w.Window)
	nonzero(&d.Expiry.Min, w.Expiry.Min.Std())
	nonzero(&d.Expiry.Max, w.Expiry.Max.Std())
	nonzero(&d.Settlement, batch.Settlement(w.Settlement))
	nonzero(&d.Limits.Items, w.Limits.Items)
	nonzero(&d.Limits.Bytes, int64(w.Limits.Bytes))
	nonzero(&d.Role, w.Role)
	nonzero(&d.TokensField, w.TokensField)
	if w.ResultsFor != nil {
		d.ResultsFor = w.ResultsFor.Std()
	}
	if w.DataClasses != nil {
		d.Classes = []batch.DataClass{}
		for _, class := range w.DataClasses {
			d.Classes = append(d.Classes, batch.DataClass(class))
		}
	}
	if w.Residency.Domain != "" {
		d.Residency = openai.Residency(w.Residency)
	}
	return d
}

// written takes what was written, also where it is the zero value.
func written[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

// nonzero takes what is not the zero value, which stands for what was left out.
func nonzero[T comparable](to *T, v T) {
	var zero T
	if v != zero {
		*to = v
	}
}

func (d *deployment) anthropicConfig(acc configs.Account) anthropic.Config {
	cfg := anthropic.Config{
		Name: acc.Name, BaseURL: acc.BaseURL, Region: acc.Region, APIKey: d.secret(acc, acc.APIKey), FingerprintKey: d.fingerprintKey(),
		CAFile: acc.CAFile, AllowLoopback: acc.AllowLoopback, PermittedRanges: acc.Prefixes(),
		CallTimeout: acc.CallTimeout.Std(), TransferTimeout: acc.TransferTimeout.Std(),
	}
	if s := acc.Anthropic; s != nil {
		cfg.Version, cfg.Auth, cfg.Output, cfg.Workspace = s.Version, anthropic.Auth(s.Auth), anthropic.Output(s.Output), s.Workspace
	}
	return cfg
}

// infraiConfig reads the pin, too.
func (d *deployment) infraiConfig(acc configs.Account) (infrai.Config, error) {
	cfg := infrai.Config{
		Name: acc.Name, BaseURL: acc.BaseURL, Project: acc.Project, Region: acc.Region, APIKey: d.secret(acc, acc.APIKey), FingerprintKey: d.fingerprintKey(),
		CAFile: acc.CAFile, AllowLoopback: acc.AllowLoopback, PermittedRanges: acc.Prefixes(),
		CallTimeout: acc.CallTimeout.Std(), TransferTimeout: acc.TransferTimeout.Std(), Now: time.Now,
	}
	s := acc.Infrai
	if s == nil {
		return cfg, nil
	}
	cfg.Vendors, cfg.DataClass = s.Vendors, batch.DataClass(s.DataClass)
	if s.Pin == "" {
		return cfg, nil
	}
	pin, err := readPin(s.Pin)
	cfg.Pin = pin
	return cfg, err
}

// readPin reads a pin from a file.
func readPin(path string) (*infrai.Pin, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the pin cannot be read: %w", err)
	}
	pin, err := infrai.ParsePin(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &pin, nil
}

func (d *deployment) contentSafetyConfig(acc configs.Account) contentsafety.Config {
	cfg := contentsafety.Config{
		Name: acc.Name, BaseURL: acc.BaseURL, Region: acc.Region, FingerprintKey: d.fingerprintKey(),
		CAFile: acc.CAFile, AllowLoopback: acc.AllowLoopback, PermittedRanges: acc.Prefixes(), CallTimeout: acc.CallTimeout.Std(),
	}
	s := acc.ContentSafety
	if s != nil {
		cfg.APIVersion, cfg.Segment = s.APIVersion, s.Segment
	}
	if s == nil || s.Entra == nil {
		cfg.Key = d.secret(acc, acc.APIKey)
		return cfg
	}
	cfg.Entra = &contentsafety.Entra{Tenant: s.Entra.Tenant, ClientID: s.Entra.ClientID, Secret: d.secret(acc, s.Entra.Secret), LoginURL: s.Entra.LoginURL}
	return cfg
}

func (d *deployment) inhouseConfig(acc configs.Account) inhouse.Config {
	cfg := inhouse.Config{
		Name: acc.Name, BaseURL: acc.BaseURL, Region: acc.Region, FingerprintKey: d.fingerprintKey(),
		CAFile: acc.CAFile, AllowLoopback: acc.AllowLoopback, PermittedRanges: acc.Prefixes(), CallTimeout: acc.CallTimeout.Std(),
	}
	if acc.APIKey.IsSet() {
		cfg.APIKey = d.secret(acc, acc.APIKey)
	}
	if s := acc.Inhouse; s != nil {
		cfg.SchemaForm, cfg.Seed, cfg.ReasoningEffort = inhouse.SchemaForm(s.SchemaForm), s.Seed, s.ReasoningEffort
		cfg.MaxText, cfg.TrustContext = int(s.MaxText), s.TrustContext
	}
	return cfg
}
