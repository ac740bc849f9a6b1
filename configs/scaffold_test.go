package configs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestScaffold(t *testing.T) {
	for name, tt := range map[string]struct {
		opts    ScaffoldOptions
		pending int
		account string
		host    string
	}{
		"real account":              {ScaffoldOptions{}, 5, "openai-eu", "eu.api.openai.com"},
		"sandbox":                   {ScaffoldOptions{SandboxURL: "http://127.0.0.1:8089/v1"}, 0, "sandbox", "127.0.0.1:8089"},
		"sandbox as anthropic":      {ScaffoldOptions{SandboxURL: "http://127.0.0.1:8089", Provider: "anthropic"}, 0, "sandbox", "127.0.0.1:8089"},
		"sandbox as infrai":         {ScaffoldOptions{SandboxURL: "http://127.0.0.1:8089", Provider: "infrai"}, 0, "sandbox", "127.0.0.1:8089"},
		"sandbox as content safety": {ScaffoldOptions{SandboxURL: "http://127.0.0.1:8089", Provider: "azure-content-safety"}, 0, "sandbox", "127.0.0.1:8089"},
		"sandbox as inhouse":        {ScaffoldOptions{SandboxURL: "http://127.0.0.1:8089/v1", Provider: "inhouse"}, 0, "sandbox", "127.0.0.1:8089"},
		"sandbox by IPv6":           {ScaffoldOptions{SandboxURL: "http://[::1]:8089/v1"}, 0, "sandbox", "[::1]:8089"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new")
			written, err := Scaffold(dir, tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(written, FileName) || !slices.Contains(written, filepath.Join("policies", "patient-community.yaml")) {
				t.Errorf("written: %v", written)
			}
			c, err := Load(filepath.Join(dir, FileName))
			if err != nil {
				t.Fatal(err)
			}
			policies, err := LoadPolicies(c.Policies, c.Classifiers)
			if err != nil || len(policies) != 1 {
				t.Fatalf("%d policies, %v", len(policies), err)
			}
			if err := c.CheckPolicy(policies[0]); err != nil {
				t.Error(err)
			}
			if model := sandboxModels[tt.opts.Provider]; model != "" && policies[0].Classifier.Model != model {
				t.Errorf("model %s, want %s", policies[0].Classifier.Model, model)
			}
			if open := policies[0].Pending(); len(open) != tt.pending {
				t.Errorf("unknown answers: %v, want %d", open, tt.pending)
			}
			if a, ok := c.Account(tt.account); !ok || a.Host() != tt.host {
				t.Errorf("account %s at %s, want %s at %s", a.Name, a.Host(), tt.account, tt.host)
			}
			checkModes(t, dir)
		})
	}
}

// checkModes wants nothing to be open to everyone and keys to be closed.
func checkModes(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		forbidden := fs.FileMode(0o027)
		if strings.HasSuffix(path, ".key") {
			forbidden = 0o177
		}
		if info.Mode().Perm()&forbidden != 0 {
			t.Errorf("%s has mode %04o", path, info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestScaffoldSandboxIsReady(t *testing.T) {
	dir := t.TempDir()
	if _, err := Scaffold(dir, ScaffoldOptions{SandboxURL: "http://localhost:8089/v1"}); err != nil {
		t.Fatal(err)
	}
	c, err := Load(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckSecrets(); err != nil {
		t.Error(err)
	}
	policies, err := LoadPolicies(c.Policies, c.Classifiers)
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Warnings(policies); len(w) > 0 {
		t.Errorf("warnings: %v", w)
	}
}

func TestScaffoldOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "policies", "patient-community.yaml")
	write(t, mine, "mine", 0o600)
	written, err := Scaffold(dir, ScaffoldOptions{})
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), mine) || written != nil {
		t.Errorf("written %v, error %v", written, err)
	}
	if text, err := os.ReadFile(mine); err != nil || string(text) != "mine" {
		t.Errorf("the file was changed to %q (%v)", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, FileName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("other files were written: %v", err)
	}
}

func TestScaffoldRefusesAnUnknownSandbox(t *testing.T) {
	dir := t.TempDir()
	written, err := Scaffold(dir, ScaffoldOptions{SandboxURL: "http://127.0.0.1:8089/v1", Provider: "groq"})
	if err == nil || !strings.Contains(err.Error(), `and not as "groq"`) || written != nil {
		t.Errorf("written %v, error %v", written, err)
	}
}

func TestScaffoldRefusesASandboxElsewhere(t *testing.T) {
	for _, address := range []string{
		"https://api.openai.com/v1", "http://10.0.0.1:8089/v1", "127.0.0.1:8089", "ftp://127.0.0.1/", "http://key@127.0.0.1:8089/v1",
		"http://127.0.0.1:8089/v1?key=x", "http://127.0.0.1:8089/v1\"\nlog: {level: trace}",
	} {
		dir := t.TempDir()
		if written, err := Scaffold(dir, ScaffoldOptions{SandboxURL: address}); err == nil || written != nil {
			t.Errorf("%q was accepted: %v", address, written)
		}
	}
}
