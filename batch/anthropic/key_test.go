package anthropic_test

import (
	"errors"
	"testing"

	"rollcall/batch"
	"rollcall/batch/anthropic"
)

// A key that cannot be read any more sends nothing, and is no other account.
func TestKeyIsAway(t *testing.T) {
	key := testKey
	r := newRig(t, func(c *anthropic.Config) { c.Workspace, c.APIKey = "", func() string { return key } })
	before, creation := r.Account(), r.creation()
	key = ""
	ctx := t.Context()
	_, e1 := r.Create(ctx, creation)
	_, e2 := r.Status(ctx, "msgbatch_1")
	_, _, e3 := r.Download(ctx, "msgbatch_1")
	_, e4 := r.ListJobs(ctx, "")
	_, e5 := r.Inspect(ctx, "msgbatch_1")
	for i, err := range []error{e1, e2, e3, e4, e5, r.Cancel(ctx, "msgbatch_1"), r.DeleteJob(ctx, "msgbatch_1"), r.Check(ctx, question())} {
		var e *batch.Error
		if !errors.As(err, &e) || e.Kind != batch.Denied || e.Code != batch.CodeNoKey {
			t.Errorf("call %d: %v", i+1, err)
		}
	}
	if after := r.Account(); after != before || len(r.Books().Requests) != 0 {
		t.Errorf("calls %v; the account was %+v and is %+v", r.Books().Requests, before, after)
	}
}
