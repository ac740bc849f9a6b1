package configs

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func TestWebhookKeys(t *testing.T) {
	dir := t.TempDir()
	good := "whsec_" + strings.Repeat("MARKER7f3A", 4) // 30 bytes in base64
	for name, text := range map[string]string{
		"current": good + "\n", "previous": "whsec_" + strings.Repeat("A", 32), "raw": "MARKER" + strings.Repeat("x", 40), "short": "whsec_MARKER7f3AMA", "two": good + "\n" + good + "\n", "spaced": " " + good,
	} {
		write(t, filepath.Join(dir, name), text, 0o600)
	}
	write(t, filepath.Join(dir, "open"), good, 0o644)
	t.Setenv("ROLLCALL_TEST_WEBHOOK", good)
	for names, want := range map[string]string{
		"": "", "current": "", "current previous": "", "$ROLLCALL_TEST_WEBHOOK previous": "",
		"previous raw":              "webhook.secrets[1]: holds no webhook secret: must be whsec_ and the base64 of 24 to 64 bytes",
		"short":                     "webhook.secrets[0]: holds no webhook secret",
		"two":                       "webhook.secrets[0]: holds no webhook secret",
		"spaced":                    "webhook.secrets[0]: holds no webhook secret",
		"open":                      "webhook.secrets[0]: " + filepath.Join(dir, "open") + " may be read by other users",
		"nowhere":                   "webhook.secrets[0]: there is no file",
		"$ROLLCALL_TEST_NO_WEBHOOK": "webhook.secrets[0]: the environment variable ROLLCALL_TEST_NO_WEBHOOK is empty",
	} {
		var items []string
		for _, n := range strings.Fields(names) {
			if env, ok := strings.CutPrefix(n, "$"); ok {
				items = append(items, "{env: "+env+"}")
			} else {
				items = append(items, "{file: "+n+"}")
			}
		}
		file := filepath.Join(dir, "rollcall.yaml")
		write(t, filepath.Join(dir, "openai.key"), "k", 0o600)
		write(t, file, "accounts:\n  - {name: main, provider: openai, base_url: 'https://h.example/v1', region: eu, api_key: {file: openai.key}, webhook: {secrets: ["+
			strings.Join(items, ", ")+"]}}\nsources: [{tenant: acme, system: forum, policy: posts}]\n", 0o600)
		c, err := Load(file)
		if err != nil {
			t.Fatalf("%s: %v", names, err)
		}
		keys, err := c.Accounts[0].WebhookKeys()
		all := c.CheckSecrets()
		if want == "" {
			if err != nil || all != nil || len(keys) != len(items) {
				t.Errorf("%q: %d keys, %v, %v", names, len(keys), err, all)
			}
			continue
		}
		for _, err := range []error{err, all} {
			if told := fmt.Sprint(err); !strings.Contains(told, file+":2:") || !strings.Contains(told, "accounts[0]."+want) || strings.Contains(told, "MARKER") {
				t.Errorf("%q: told %s, want %s", names, told, want)
			}
		}
	}
}

// A webhook that nobody documents would be a guess at what is signed.
func TestWebhookIsForThoseWhoDocumentIt(t *testing.T) {
	var secrets []Secret
	for i := range maxWebhookSecrets + 1 {
		secrets = append(secrets, Secret{File: fmt.Sprint(i)})
	}
	for name, tc := range map[string]struct {
		provider string
		secrets  int
		want     string
	}{
		"none":     {"anthropic", 0, ""},
		"good":     {"openai", maxWebhookSecrets, ""},
		"too many": {"openai", maxWebhookSecrets + 1, "a.webhook.secrets"},
		"a guess":  {"anthropic", 1, "a.webhook"},
	} {
		told := ""
		a := Account{Provider: tc.provider, Webhook: Webhook{Secrets: secrets[:tc.secrets]}}
		a.checkWebhook("a", func(field, _ string, _ ...any) { told += field })
		if told != tc.want {
			t.Errorf("%s: told is %q", name, told)
		}
	}
}

func TestWebhookThatCannotArriveIsTold(t *testing.T) {
	c := Default()
	c.Accounts = []Account{{Name: "main", Project: "p", Webhook: Webhook{Secrets: []Secret{{File: "f"}}}}}
	about := func() bool { return strings.Contains(strings.Join(c.Warnings(nil), "\n"), "accounts[0].webhook: ") }
	if about() {
		t.Error("a warning about nothing")
	}
	c.Serve.Listen = ""
	if !about() {
		t.Error("no warning")
	}
}
