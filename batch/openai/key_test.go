package openai

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"rollcall/batch"
)

// A key that cannot be read any more sends nothing, and is no other account.
func TestKeyIsAway(t *testing.T) {
	calls := 0
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }))
	defer web.Close()
	for _, away := range []string{"", "two words"} {
		key := testKey
		cfg := config(web.URL)
		cfg.Project, cfg.APIKey = "", func() string { return key }
		c := newClient(t, cfg)
		before := c.Account()
		key = away
		ctx := t.Context()
		_, e1 := c.Upload(ctx, batch.Input{Name: "in.jsonl"})
		_, e2 := c.Create(ctx, batch.Creation{FileID: "file-1"})
		_, e3 := c.Status(ctx, "batch_1")
		_, _, e4 := c.Download(ctx, "file-1")
		_, e5 := c.ListJobs(ctx, "")
		_, e6 := c.ListFiles(ctx, "")
		_, e7 := c.Inspect(ctx, "batch_1")
		for i, err := range []error{e1, e2, e3, e4, e5, e6, e7, c.DeleteFile(ctx, "file-1"), c.Cancel(ctx, "batch_1")} {
			var e *batch.Error
			if !errors.As(err, &e) || e.Kind != batch.Denied || e.Code != batch.CodeNoKey {
				t.Errorf("call %d: %v", i+1, err)
			}
		}
		if after := c.Account(); after != before || calls != 0 {
			t.Errorf("%d calls; the account was %+v and is %+v", calls, before, after)
		}
		key = "sk-another"
		if after := c.Account(); after.Fingerprint == before.Fingerprint {
			t.Error("another key is the same account")
		}
	}
}
