package batch_test

import (
	"testing"

	"rollcall/batch"
)

func TestSameModel(t *testing.T) {
	for _, tc := range []struct {
		asked, served string
		same          bool
	}{
		{"gpt-4.1-mini", "gpt-4.1-mini", true},
		{"gpt-4.1-mini", "", true},
		{"gpt-4.1-mini", "gpt-4.1-mini-2025-04-14", true},
		{"gpt-4", "gpt-4-0613", true},
		{"mistral-small-latest", "mistral-small-2506", true},
		{"claude-sonnet-4-5", "claude-sonnet-4-5-20250929", true},
		{"omni-moderation-latest", "omni-moderation-2024-09-26", true},
		{"omni-moderation-latest", "omni-moderation-latest", true},
		{"ft:gpt-4.1-mini-2025-04-14:acme::B1c2D3", "ft:gpt-4.1-mini-2025-04-14:acme::B1c2D3", true},
		{"llama-3.3-70b-versatile", "llama-3.3-70b-versatile", true},

		{"gpt-4.1-mini", "gpt-4.1", false},
		{"gpt-4.1", "gpt-4.1-mini", false},
		{"gpt-4.1", "gpt-4.1-mini-2025-04-14", false},
		{"gpt-4.1-mini", "GPT-4.1-mini", false},
		{"gpt-4.1-mini-2025-04-14", "gpt-4.1-mini", false},
		{"gpt-4.1-mini-2025-04-14", "gpt-4.1-mini-2025-05-01", false},
		{"gpt-4.1-mini", "gpt-4.1-mini-2025-13-14", false},
		{"gpt-4.1-mini", "gpt-4.1-mini-2025-02-29", false},
		{"gpt-4.1-mini", "gpt-4.1-mini-2025-04-14-preview", false},
		{"gpt-4.1-mini", "gpt-4.1-mini2025-04-14", false},
		{"gpt-4.1-mini", "gpt-4.1-mini-", false},
		{"gpt-4", "gpt-4-0000", false},
		{"gpt-4", "gpt-4-1399", false},
		{"gpt-4", "gpt-4-3.5", false},
		{"omni-moderation-latest", "omni-moderation", false},
		{"omni-moderation", "omni-moderation-latest", false},
		{"ft:gpt-4.1-mini-2025-04-14:acme::B1c2D3", "gpt-4.1-mini-2025-04-14", false},
		{"gpt-4.1-mini", "sandbox-stand-in", false},
		{"gpt-4.1-mini", "unprintable", false},
		{"unprintable", "unprintable", false},
		{"-latest", "-2024-09-26", false},
		{"", "2024-09-26", false},
		{"", "-2024-09-26", false},
	} {
		if got := batch.SameModel(tc.asked, tc.served); got != tc.same {
			t.Errorf("asked %q, served %q: %v", tc.asked, tc.served, got)
		}
	}
}
