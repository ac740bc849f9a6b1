package sandbox_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// The official client is a counterpart that knows nothing of this package.
func TestOfficialMessagesClient(t *testing.T) {
	for name, auth := range map[string]func(key string) []option.RequestOption{
		"key": func(key string) []option.RequestOption { return []option.RequestOption{option.WithAPIKey(key)} },
		"bearer, newer version": func(key string) []option.RequestOption {
			return []option.RequestOption{option.WithAuthToken(key), option.WithHeader("anthropic-version", "2026-10-21")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			opts := append(auth(r.key), option.WithoutEnvironmentDefaults(), option.WithBaseURL(r.url), option.WithHTTPClient(r.client), option.WithMaxRetries(0))
			batches := anthropic.NewClient(opts...).Messages.Batches
			officialBatches(t, r, &batches)
		})
	}
}

func officialBatches(t *testing.T, r *rig, batches *anthropic.MessageBatchService) {
	ctx := t.Context()
	var created []string
	for range 5 {
		b, err := batches.New(ctx, officialRequests("a-1", "b-1", "c-1"))
		if err != nil {
			t.Fatal(err)
		}
		if b.ProcessingStatus != anthropic.MessageBatchProcessingStatusInProgress || b.RequestCounts.Processing != 3 || !b.CreatedAt.Equal(r.clock.now()) || b.ExpiresAt.Sub(b.CreatedAt) != 24*time.Hour {
			t.Errorf("batch is %s", b.RawJSON())
		}
		created = append(created, b.ID)
	}
	pages := batches.ListAutoPaging(ctx, anthropic.MessageBatchListParams{Limit: anthropic.Int(2)})
	for i := len(created) - 1; i >= 0; i-- {
		if !pages.Next() || pages.Current().ID != created[i] {
			t.Fatalf("the list does not go on with %s", created[i])
		}
	}
	if pages.Next() || pages.Err() != nil {
		t.Errorf("the list goes on, or %v", pages.Err())
	}

	r.clock.add(45 * time.Second)
	cancelled, err := batches.Cancel(ctx, created[0], anthropic.MessageBatchCancelParams{})
	if err != nil || cancelled.ProcessingStatus != anthropic.MessageBatchProcessingStatusCanceling {
		t.Fatalf("cancel: %v %v", cancelled, err)
	}
	r.faults("refusal:prefix=a-", "item_class:class=overloaded_error,prefix=b-")
	r.clock.add(2 * time.Minute)
	for id, cancels := range map[string]int64{created[0]: 1, created[1]: 0} {
		b, err := batches.Get(ctx, id, anthropic.MessageBatchGetParams{})
		if err != nil {
			t.Fatal(err)
		}
		n := b.RequestCounts
		if b.ProcessingStatus != anthropic.MessageBatchProcessingStatusEnded || n.Succeeded+n.Errored != 3-cancels || n.Canceled != cancels || b.ResultsURL == "" || b.EndedAt.IsZero() {
			t.Errorf("batch is %s", b.RawJSON())
		}
	}
	stream := batches.ResultsStreaming(ctx, created[1], anthropic.MessageBatchResultsParams{})
	seen := map[string]string{}
	for stream.Next() {
		switch v := stream.Current().Result.AsAny().(type) {
		case anthropic.MessageBatchSucceededResult:
			seen[stream.Current().CustomID] = string(v.Message.StopReason)
			if v.Message.Content[0].AsText().Text == "" || v.Message.Usage.InputTokens == 0 || v.Message.Model != "sandbox-stand-in" {
				t.Errorf("message is %s", v.Message.RawJSON())
			}
		case anthropic.MessageBatchErroredResult:
			seen[stream.Current().CustomID] = v.Error.Error.Type
		}
	}
	if stream.Err() != nil || len(seen) != 3 || seen["a-1"] != "refusal" || seen["b-1"] != "overloaded_error" || seen["c-1"] != "end_turn" {
		t.Errorf("results are %v, %v", seen, stream.Err())
	}

	if deleted, err := batches.Delete(ctx, created[1], anthropic.MessageBatchDeleteParams{}); err != nil || deleted.ID != created[1] {
		t.Errorf("delete: %v %v", deleted, err)
	}
	var apiErr *anthropic.Error
	if _, err := batches.Get(ctx, created[1], anthropic.MessageBatchGetParams{}); !errors.As(err, &apiErr) || apiErr.StatusCode != 404 || apiErr.Type() != "not_found_error" || apiErr.RequestID == "" {
		t.Errorf("a deleted batch: %v", err)
	}
	if _, err := batches.New(ctx, officialRequests("a.1")); !errors.As(err, &apiErr) || apiErr.StatusCode != 400 || apiErr.Type() != "invalid_request_error" {
		t.Errorf("a bad request: %v", err)
	}
}

func officialRequests(ids ...string) (p anthropic.MessageBatchNewParams) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(messageSchema), &schema); err != nil {
		panic(err)
	}
	for _, id := range ids {
		p.Requests = append(p.Requests, anthropic.MessageBatchNewParamsRequest{CustomID: id, Params: anthropic.MessageBatchNewParamsRequestParams{
			Model: "claude-test", MaxTokens: 400,
			Messages:     []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(marker + " click here"))},
			OutputConfig: anthropic.OutputConfigParam{Format: anthropic.JSONOutputFormatParam{Schema: schema}},
		}})
	}
	return p
}
