package main

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"rollcall/batch"
	"rollcall/batch/anthropic"
	"rollcall/batch/contentsafety"
	"rollcall/batch/infrai"
	"rollcall/batch/inhouse"
	"rollcall/batch/openai"
	"rollcall/configs"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
)

const assumedPin = "../../batch/infrai/testdata/assumed.pin.json"

// wiring is what clients are made in.
func wiring(t *testing.T, accounts ...configs.Account) *deployment {
	t.Helper()
	keys, err := keyring.Generate()
	if err != nil {
		t.Fatal(err)
	}
	cfg := configs.Default()
	cfg.Accounts = accounts
	return &deployment{config: cfg, keys: keys, log: zerolog.Nop()}
}

// secretFile is a secret that can be read.
func secretFile(t *testing.T, text string) configs.Secret {
	t.Helper()
	path := filepath.Join(t.TempDir(), text)
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return configs.Secret{File: path}
}

// fullAccount is an account with everything that every account has.
func fullAccount(t *testing.T, provider, base string) configs.Account {
	return configs.Account{
		Name: "n", Provider: provider, BaseURL: base, Region: "mars", APIKey: secretFile(t, "the-key"),
		CAFile: "ca.pem", PermittedRanges: []string{"10.0.0.0/8"}, AllowLoopback: true, CallTimeout: configs.Duration(time.Second),
		Limits: configs.Limits{OpenJobs: new(int64(5))}, Rate: configs.Rate{Calls: new(int64(7))}, Prices: []configs.Price{{Model: "m"}},
	}
}

var ranges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}

// everyFieldIsSet wants no field of v to be zero, at any depth, but those named.
func everyFieldIsSet(t *testing.T, v any, but ...string) {
	t.Helper()
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		for v.Kind() == reflect.Pointer && !v.IsNil() {
			v = v.Elem()
		}
		if slices.Contains(but, path) {
			return
		}
		if v.IsZero() {
			t.Errorf("this test does not set %s", path)
			return
		}
		if v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[infrai.Pin]() || v.Type() == reflect.TypeFor[configs.Secret]() {
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				walk(v.Field(i), strings.TrimPrefix(path+"."+f.Name, "."))
			}
		}
	}
	walk(reflect.ValueOf(v), "")
}

// sameConfig compares what a client gets, and takes functions for what they
// return.
func sameConfig(t *testing.T, got, want any) {
	t.Helper()
	secrets := cmp.Transformer("secret", func(f func() string) string {
		if f == nil {
			return "<none>"
		}
		return f()
	})
	clock := cmp.Comparer(func(a, b func() time.Time) bool { return (a == nil) == (b == nil) })
	record := cmp.Comparer(func(a, b func(string, string)) bool { return (a == nil) == (b == nil) })
	if diff := cmp.Diff(want, got, secrets, clock, record, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("the client gets (-want +got):\n%s", diff)
	}
}

func theKey() string { return "the-key" }

// The sections that an account of another provider has. Limits, Rate and Prices
// are the ledger's and the passes', and reach them by the account's name; Webhook is
// the daemon's.
var sections = []string{"Webhook", "OpenAI", "Anthropic", "Infrai", "ContentSafety", "Inhouse", "Limits.EnqueuedTokens", "Limits.CreatesPerMinute", "Rate.Interval", "Rate.AtOnce"}

func without(names []string, one ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(s string) bool { return slices.Contains(one, s) })
}

// TestEveryAccountSettingReachesTheClient: a setting that is read and never
// passed on is worse than one that is not there.
func TestEveryAccountSettingReachesTheClient(t *testing.T) {
	t.Run("openai", func(t *testing.T) {
		acc := fullAccount(t, "my-service", "https://host.test/v1")
		acc.Organization, acc.Project, acc.TransferTimeout = "org", "proj", configs.Duration(time.Minute)
		acc.OpenAI = &configs.OpenAI{
			Endpoint: "responses", Query: map[string]string{"api-version": "v"}, Deployments: map[string]string{"m": "d"},
			Dialect: configs.Dialect{
				Like: configs.LikeOpenAI, KeyHeader: new("api-key"), BarePaths: new(true), Window: "7d",
				Expiry: configs.Expiry{Min: configs.Duration(2 * time.Hour), Max: configs.Duration(3 * time.Hour), Absent: new(true)},
				Cursor: new(true), Settlement: "results", Limits: configs.JobLimits{Items: 5, Bytes: 6}, ResultsFor: new(configs.Duration(time.Hour)),
				DataClasses: []string{"health"}, Role: "system", TokensField: "max_tokens", OmitStore: new(true),
				Residency: configs.Residency{Domain: "host.test", Regions: []string{"mars"}},
			},
		}
		everyFieldIsSet(t, acc, without(sections, "OpenAI")...)
		d := wiring(t, acc)
		want := openai.Config{
			Name: "n", BaseURL: "https://host.test/v1", Organization: "org", Project: "proj", Region: "mars", Processor: "my-service",
			Endpoint: openai.EndpointResponses, Query: map[string]string{"api-version": "v"}, Deployments: map[string]string{"m": "d"},
			Dialect: openai.Dialect{
				KeyHeader: "api-key", BarePaths: true, Window: "7d", Expiry: openai.Expiry{Min: 2 * time.Hour, Max: 3 * time.Hour, Absent: true},
				Cursor: true, Settlement: batch.SettleByResults, Limits: batch.Limits{Items: 5, Bytes: 6}, ResultsFor: time.Hour,
				Classes: []batch.DataClass{batch.DataHealth}, Role: "system", TokensField: "max_tokens", OmitStore: true,
				Residency: openai.Residency{Domain: "host.test", Regions: []string{"mars"}},
			},
			APIKey: theKey, FingerprintKey: d.fingerprintKey(), CAFile: "ca.pem", AllowLoopback: true, PermittedRanges: ranges,
			CallTimeout: time.Second, TransferTimeout: time.Minute,
		}
		// The adapter takes no length of a line and no key window in a dialect, and
		// what a service knows of projects goes with the one that it is like.
		everyFieldIsSet(t, want, "Now", "Record", "Dialect.Limits.ItemBytes", "Dialect.Limits.KeyWindow", "Dialect.Projects")
		sameConfig(t, d.openaiConfig(acc), want)
	})
	t.Run("anthropic", func(t *testing.T) {
		acc := fullAccount(t, "anthropic", "https://host.test")
		acc.TransferTimeout = configs.Duration(time.Minute)
		acc.Anthropic = &configs.Anthropic{Version: "2024-01-01", Auth: "bearer", Output: "tool", Workspace: "w"}
		everyFieldIsSet(t, acc, append(without(sections, "Anthropic"), "Organization", "Project")...)
		d := wiring(t, acc)
		want := anthropic.Config{
			Name: "n", BaseURL: "https://host.test", Region: "mars", Version: "2024-01-01", Auth: anthropic.AuthBearer, Output: anthropic.OutputTool, Workspace: "w",
			APIKey: theKey, FingerprintKey: d.fingerprintKey(), CAFile: "ca.pem", AllowLoopback: true, PermittedRanges: ranges,
			CallTimeout: time.Second, TransferTimeout: time.Minute,
		}
		everyFieldIsSet(t, want, "Now", "Record")
		sameConfig(t, d.anthropicConfig(acc), want)
	})
	t.Run("infrai", func(t *testing.T) {
		acc := fullAccount(t, "infrai", "https://host.test")
		acc.Project, acc.TransferTimeout = "proj", configs.Duration(time.Minute)
		acc.Infrai = &configs.Infrai{Pin: assumedPin, Vendors: []string{"v"}, DataClass: "synthetic"}
		everyFieldIsSet(t, acc, append(without(sections, "Infrai"), "Organization")...)
		d := wiring(t, acc)
		pin, err := readPin(assumedPin)
		if err != nil {
			t.Fatal(err)
		}
		want := infrai.Config{
			Name: "n", BaseURL: "https://host.test", Project: "proj", Region: "mars", Pin: pin, Vendors: []string{"v"}, DataClass: batch.DataSynthetic,
			APIKey: theKey, FingerprintKey: d.fingerprintKey(), CAFile: "ca.pem", AllowLoopback: true, PermittedRanges: ranges,
			CallTimeout: time.Second, TransferTimeout: time.Minute, Now: time.Now,
		}
		everyFieldIsSet(t, want, "Record")
		got, err := d.infraiConfig(acc)
		if err != nil {
			t.Fatal(err)
		}
		sameConfig(t, got, want)
	})
	t.Run("content safety", func(t *testing.T) {
		acc := fullAccount(t, "azure-content-safety", "https://host.test")
		acc.ContentSafety = &configs.ContentSafety{APIVersion: "2023-10-01", Segment: 2000}
		everyFieldIsSet(t, acc, append(without(sections, "ContentSafety"), "Organization", "Project", "TransferTimeout", "ContentSafety.Entra")...)
		d := wiring(t, acc)
		want := contentsafety.Config{
			Name: "n", BaseURL: "https://host.test", APIVersion: "2023-10-01", Region: "mars", Key: theKey, FingerprintKey: d.fingerprintKey(), Segment: 2000,
			CAFile: "ca.pem", AllowLoopback: true, PermittedRanges: ranges, CallTimeout: time.Second,
		}
		everyFieldIsSet(t, want, "Now", "Record", "Entra")
		sameConfig(t, d.contentSafetyConfig(acc), want)

		entra := &configs.Entra{Tenant: "t", ClientID: "c", Secret: secretFile(t, "the-secret"), LoginURL: "https://login.test"}
		everyFieldIsSet(t, entra)
		acc.ContentSafety.Entra = entra
		want.Key = nil
		want.Entra = &contentsafety.Entra{Tenant: "t", ClientID: "c", Secret: func() string { return "the-secret" }, LoginURL: "https://login.test"}
		sameConfig(t, d.contentSafetyConfig(acc), want)
	})
	t.Run("inhouse", func(t *testing.T) {
		acc := fullAccount(t, "inhouse", "https://host.test/v1")
		acc.Inhouse = &configs.Inhouse{SchemaForm: "direct", Seed: new(int64(3)), ReasoningEffort: "none", MaxText: 5000, TrustContext: true}
		everyFieldIsSet(t, acc, append(without(sections, "Inhouse"), "Organization", "Project", "TransferTimeout")...)
		d := wiring(t, acc)
		want := inhouse.Config{
			Name: "n", BaseURL: "https://host.test/v1", Region: "mars", APIKey: theKey, FingerprintKey: d.fingerprintKey(),
			CAFile: "ca.pem", AllowLoopback: true, PermittedRanges: ranges, CallTimeout: time.Second,
			SchemaForm: inhouse.SchemaDirect, Seed: new(int64(3)), ReasoningEffort: "none", MaxText: 5000, TrustContext: true,
		}
		everyFieldIsSet(t, want, "Now", "Record")
		sameConfig(t, d.inhouseConfig(acc), want)
		acc.APIKey, want.APIKey = configs.Secret{}, nil
		sameConfig(t, d.inhouseConfig(acc), want)
	})
}

// TestLogNamesTheKeyThatIsAway: where to look, and not what was there.
func TestLogNamesTheKeyThatIsAway(t *testing.T) {
	var log bytes.Buffer
	d := wiring(t)
	d.log = zerolog.New(&log)
	acc := configs.Account{Name: "main", APIKey: secretFile(t, "the-key")}
	read := d.secret(acc, acc.APIKey)
	if read() != "the-key" || log.Len() != 0 {
		t.Fatalf("the key is %q, and the log has %s", read(), &log)
	}
	if err := os.Chmod(acc.APIKey.File, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "" || !strings.Contains(log.String(), `"account":"main"`) || !strings.Contains(log.String(), "chmod 600 "+acc.APIKey.File) {
		t.Errorf("the key is %q, and the log has %s", got, &log)
	}
}

// TestDialectsBeginWithTheirPreset: what is left out stays as the service has it.
func TestDialectsBeginWithTheirPreset(t *testing.T) {
	for provider, want := range map[string]openai.Dialect{"openai": {}, "azure-openai": openai.Azure, "groq": openai.Groq} {
		acc := configs.Account{Provider: provider}
		if diff := cmp.Diff(want, dialectOf(acc)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", provider, diff)
		}
		acc.OpenAI = &configs.OpenAI{Dialect: configs.Dialect{KeyHeader: new(""), BarePaths: new(false), Window: "7d"}}
		want.KeyHeader, want.BarePaths, want.Window = "", false, "7d"
		if diff := cmp.Diff(want, dialectOf(acc)); diff != "" {
			t.Errorf("%s, with a change (-want +got):\n%s", provider, diff)
		}
	}
	// OpenAI's documents are about OpenAI alone.
	own := configs.Account{Provider: "my-service", OpenAI: &configs.OpenAI{Dialect: configs.Dialect{Like: configs.LikeOpenAI}}}
	if got := dialectOf(own).Classes; !slices.Equal(got, []batch.DataClass{batch.DataSynthetic}) {
		t.Errorf("a service that is like OpenAI gets texts that are %v", got)
	}
	if openai.Azure.KeyHeader != "api-key" || !openai.Azure.BarePaths {
		t.Error("the preset itself was changed")
	}
}

// TestClientsOfEveryProvider: each provider has a client whose account is what
// the policies name, in the lane that its texts take.
func TestClientsOfEveryProvider(t *testing.T) {
	local := func(name, provider, path string) configs.Account {
		a := configs.Account{Name: name, Provider: provider, BaseURL: "http://127.0.0.1:8089" + path, Region: "local", APIKey: secretFile(t, name), AllowLoopback: true}
		return a
	}
	own := local("own", "my-service", "/v1")
	own.OpenAI = &configs.OpenAI{Dialect: configs.Dialect{Like: configs.LikeOpenAI}}
	d := wiring(t, local("openai", "openai", "/v1"), local("azure", "azure-openai", "/openai/v1"), local("groq", "groq", "/openai/v1"), own,
		local("anthropic", "anthropic", ""), local("infrai", "infrai", ""), local("safety", "azure-content-safety", ""), local("inhouse", "inhouse", "/v1"))
	d.config.Accounts[0].Limits.OpenJobs = new(int64(5))
	d.config.Accounts[0].Prices = []configs.Price{{Model: "m", Input: new(configs.Amount(1)), Output: new(configs.Amount(2)), Currency: "EUR"}}
	d.config.Accounts[7].Rate.Calls = new(int64(7))
	r, err := d.reconciler()
	if err != nil {
		t.Fatal(err)
	}
	if l := r.Limits("openai"); l != (reconcile.AccountLimits{OpenJobs: 5}) {
		t.Errorf("limits %+v", l)
	}
	if p, ok := r.Prices("openai", "m"); !ok || p != (reconcile.Price{Input: 1, Output: 2, Currency: "EUR"}) {
		t.Errorf("price %+v, %v", p, ok)
	}
	var got []string
	for _, p := range r.Accounts {
		a := p.Account()
		got = append(got, fmt.Sprintf("%s %s %s", a.Name, a.Processor, a.Host))
	}
	for _, c := range r.Callers {
		a := c.Account()
		got = append(got, fmt.Sprintf("called %s %s %s %d", a.Name, a.Processor, a.Host, r.Rates[a.Name].Calls))
	}
	want := []string{
		"openai openai 127.0.0.1:8089", "azure azure-openai 127.0.0.1:8089", "groq groq 127.0.0.1:8089", "own my-service 127.0.0.1:8089",
		"anthropic anthropic 127.0.0.1:8089", "infrai infrai 127.0.0.1:8089", "called safety azure-content-safety 127.0.0.1:8089 60", "called inhouse inhouse 127.0.0.1:8089 7",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
}
