package anthropic_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/anthropic"
)

func TestConfig(t *testing.T) {
	for want, change := range map[string]func(*anthropic.Config){
		"name is missing":         func(c *anthropic.Config) { c.Name = "" },
		"API key":                 func(c *anthropic.Config) { c.APIKey = func() string { return "a key" } },
		"the API key":             func(c *anthropic.Config) { c.APIKey = nil },
		"workspace":               func(c *anthropic.Config) { c.Workspace = "wrkspc 1" },
		"version":                 func(c *anthropic.Config) { c.Version = "latest" },
		"version: want a date":    func(c *anthropic.Config) { c.Version = "2026-10-32" },
		"auth":                    func(c *anthropic.Config) { c.Auth = "basic" },
		"output":                  func(c *anthropic.Config) { c.Output = "text" },
		"fingerprint key":         func(c *anthropic.Config) { c.FingerprintKey = []byte("short") },
		"not a URL":               func(c *anthropic.Config) { c.BaseURL = "http://[" + testKey },
		"host and path only":      func(c *anthropic.Config) { c.BaseURL = "https://" + testKey + "@api.anthropic.com" },
		"plain http is permitted": func(c *anthropic.Config) { c.BaseURL, c.AllowLoopback = "http://api.anthropic.com", false },
		"authorities":             func(c *anthropic.Config) { c.CAFile = t.TempDir() + "/none" },
	} {
		_, err := anthropic.New(config("http://127.0.0.1:1", change))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "anthropic: ") || strings.Contains(err.Error(), testKey) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c, err := anthropic.New(config("", func(c *anthropic.Config) { c.AllowLoopback, c.Region = false, "us" }))
	if err != nil {
		t.Fatal(err)
	}
	if a := c.Account(); a.Host != "api.anthropic.com" || a.Processor != "anthropic" || a.Name != "main" || a.Region != "us" {
		t.Errorf("%+v", a)
	}
}

// The fingerprint is the workspace's, and the key's only without one.
func TestFingerprint(t *testing.T) {
	print := func(change ...func(*anthropic.Config)) string {
		return newClient(t, "http://127.0.0.1:1", change...).Account().Fingerprint
	}
	workspace := func(id string) func(*anthropic.Config) { return func(c *anthropic.Config) { c.Workspace = id } }
	key := func(k string) func(*anthropic.Config) {
		return func(c *anthropic.Config) { c.APIKey = func() string { return k } }
	}
	all := []string{
		print(), print(key("k2")), print(workspace("wrkspc_1")), print(workspace("wrkspc_2")), print(workspace(testKey)),
		print(func(c *anthropic.Config) { c.BaseURL = "http://127.0.0.1:2" }), print(func(c *anthropic.Config) { c.FingerprintKey = []byte(strings.Repeat("z", 32)) }),
	}
	if sorted := slices.Sorted(slices.Values(all)); len(slices.Compact(sorted)) != len(all) {
		t.Errorf("%v", all)
	}
	if print(workspace("wrkspc_1")) != print(workspace("wrkspc_1"), key("k2"), newer) {
		t.Error("a rotated key is another account")
	}
	if print(func(c *anthropic.Config) { c.BaseURL = "HTTP://127.0.0.1:1/" }) != all[0] {
		t.Error("the spelling of the host is part of it")
	}
}

// What Anthropic's documents permit, and nothing beside it.
func TestCapabilities(t *testing.T) {
	c := newClient(t, "http://127.0.0.1:1").Capabilities()
	if c.Settlement != batch.SettleByResults || c.Handover != batch.HandoverInline || c.ResultsFor != 29*24*time.Hour ||
		c.Deletion != (batch.Deletion{Job: true}) || c.Limits.Items != 100_000 || c.Limits.Bytes >= 256_000_000 || c.Limits.ItemBytes != 0 {
		t.Errorf("%+v", c)
	}
	if slices.Contains(c.Classes, batch.DataHealth) || slices.Contains(c.Classes, batch.DataUnstored) {
		t.Errorf("batches are neither eligible for zero retention nor for health data: %v", c.Classes)
	}
}
