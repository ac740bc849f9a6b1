package configs

import (
	"fmt"
	"slices"
	"strings"

	"rollcall/reconcile/webhook"
)

// maxWebhookSecrets bounds what one forged request costs.
const maxWebhookSecrets = 8

// WebhookProviders are the processors that document signed webhooks about batch
// jobs, by the rules of Standard Webhooks.
func WebhookProviders() []string { return []string{"openai"} }

// Webhook says who may tell that a job of the account has ended.
type Webhook struct {
	// Secrets sign the provider's webhooks: the one in use and, while it is
	// changed, the other one. Without any there is no webhook.
	Secrets []Secret `yaml:"secrets"`
}

func (a *Account) checkWebhook(at string, fail failFunc) {
	n := len(a.Webhook.Secrets)
	switch {
	case n == 0:
		return
	case !slices.Contains(WebhookProviders(), a.Provider):
		fail(at+".webhook", "is for %s only: no other processor documents signed webhooks about batch jobs", strings.Join(WebhookProviders(), ", "))
	case n > maxWebhookSecrets:
		fail(at+".webhook.secrets", "holds more than %d; while a secret is changed there are two", maxWebhookSecrets)
	}
	for i, s := range a.Webhook.Secrets {
		field := fmt.Sprintf("%s.webhook.secrets[%d]", at, i)
		s.check(field, fail)
		if slices.ContainsFunc(a.Webhook.Secrets[:i], func(o Secret) bool { return o.File == s.File && o.Env == s.Env }) {
			fail(field, "stands twice")
		}
	}
}

// WebhookKeys reads the secrets of the account's webhook, in their order. Errors
// name the field and never hold a secret.
func (a Account) WebhookKeys() ([]webhook.Key, error) {
	var keys []webhook.Key
	for _, s := range a.Webhook.Secrets {
		k, err := s.webhookKey()
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func (s Secret) webhookKey() (webhook.Key, error) {
	text, err := s.Read()
	if err != nil {
		return webhook.Key{}, err
	}
	k, err := webhook.ParseKey(text)
	if err != nil {
		return webhook.Key{}, s.place.fail("holds no webhook secret: %v", err)
	}
	return k, nil
}
