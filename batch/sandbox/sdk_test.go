package sandbox_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// The official client is a counterpart that knows nothing of this package.
func TestOfficialClient(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	opts := []option.RequestOption{
		option.WithBaseURL(r.url + "/v1"), option.WithAPIKey(r.key), option.WithHTTPClient(r.client), option.WithMaxRetries(0),
	}
	files, batches := openai.NewFileService(opts...), openai.NewBatchService(opts...)

	var created []string
	for range 5 {
		file, err := files.New(ctx, openai.FileNewParams{
			File: openai.File(strings.NewReader(inputOf(4)), "in.jsonl", "application/jsonl"), Purpose: openai.FilePurposeBatch,
			ExpiresAfter: openai.FileNewParamsExpiresAfter{Seconds: 86400},
		})
		if err != nil {
			t.Fatal(err)
		}
		if again, err := files.Get(ctx, file.ID); err != nil || again.ID != file.ID || again.Bytes != file.Bytes || again.Filename != "in.jsonl" {
			t.Errorf("file is %v, %v", again, err)
		}
		if file.ExpiresAt-file.CreatedAt != 86400 || !file.JSON.Status.Valid() {
			t.Errorf("file is %s", file.RawJSON())
		}
		b, err := batches.New(ctx, openai.BatchNewParams{
			InputFileID: file.ID, Endpoint: openai.BatchNewParamsEndpointV1ChatCompletions, CompletionWindow: openai.BatchNewParamsCompletionWindow24h,
			Metadata:           map[string]string{"rc_attempt": "a"},
			OutputExpiresAfter: openai.BatchNewParamsOutputExpiresAfter{Seconds: 3600},
		})
		if err != nil {
			t.Fatal(err)
		}
		if b.Status != openai.BatchStatusValidating || b.Metadata["rc_attempt"] != "a" || b.CreatedAt != r.clock.now().Unix() {
			t.Errorf("batch is %s", b.RawJSON())
		}
		created = append(created, b.ID)
	}

	pages := batches.ListAutoPaging(ctx, openai.BatchListParams{Limit: openai.Int(2)})
	for i := len(created) - 1; i >= 0; i-- {
		if !pages.Next() || pages.Current().ID != created[i] {
			t.Fatalf("the list does not go on with %s", created[i])
		}
	}
	if pages.Next() || pages.Err() != nil {
		t.Errorf("the list goes on, or %v", pages.Err())
	}

	r.clock.add(20 * time.Second)
	cancelled, err := batches.Cancel(ctx, created[0])
	if err != nil || cancelled.Status != openai.BatchStatusCancelling {
		t.Fatalf("cancel: %v %v", cancelled, err)
	}
	r.clock.add(2 * time.Minute)
	if b, err := batches.Get(ctx, created[0]); err != nil || b.Status != openai.BatchStatusCancelled || b.ErrorFileID == "" || b.RequestCounts.Completed != 1 {
		t.Errorf("cancelled batch: %v %v", b, err)
	}
	done, err := batches.Get(ctx, created[1])
	if err != nil || done.Status != openai.BatchStatusCompleted || done.RequestCounts.Completed != 4 || done.Usage.TotalTokens == 0 || done.ErrorFileID != "" {
		t.Fatalf("completed batch: %v %v", done, err)
	}
	resp, err := files.Content(ctx, done.OutputFileID)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil || resp.ContentLength != int64(len(content)) || len(results(t, string(content))) != 4 {
		t.Errorf("%d bytes of %d, %v", len(content), resp.ContentLength, err)
	}

	n := 0
	list := files.ListAutoPaging(ctx, openai.FileListParams{Limit: openai.Int(3)})
	for list.Next() {
		n++
		if deleted, err := files.Delete(ctx, list.Current().ID); err != nil || !deleted.Deleted {
			t.Errorf("delete: %v", err)
		}
		if n%3 == 0 { // the client asks for what follows an object that is gone
			list = files.ListAutoPaging(ctx, openai.FileListParams{Limit: openai.Int(3)})
		}
	}
	if list.Err() != nil || n != 5+5+1 {
		t.Errorf("%d files, want 5 inputs, 5 outputs, 1 error file; %v", n, list.Err())
	}
	var apiErr *openai.Error
	if _, err := files.Get(ctx, done.OutputFileID); !errors.As(err, &apiErr) || apiErr.StatusCode != 404 || apiErr.Type != "invalid_request_error" {
		t.Errorf("a deleted file: %v", err)
	}
	if _, err := batches.New(ctx, openai.BatchNewParams{Endpoint: openai.BatchNewParamsEndpointV1ChatCompletions}); !errors.As(err, &apiErr) || apiErr.StatusCode != 400 || apiErr.Code != "missing_required_parameter" {
		t.Errorf("a bad request: %v", err)
	}
}
