package infrai_test

import (
	"errors"
	"testing"

	"rollcall/batch"
	"rollcall/batch/infrai"
)

// A key that cannot be read any more sends nothing, and is no other account. The
// provider's documents are public, and can be compared without it.
func TestKeyIsAway(t *testing.T) {
	key := testKey
	r := newRig(t, assumed(t), func(c *infrai.Config) { c.APIKey = func() string { return key } })
	job, before := r.created("k1"), r.Account()
	calls, creation := r.total(), r.creation("k2")
	key = ""
	ctx := t.Context()
	_, e1 := r.Create(ctx, creation)
	_, e2 := r.Status(ctx, job.ID)
	_, _, e3 := r.Download(ctx, job.ID)
	_, e4 := r.Inspect(ctx, job.ID)
	for i, err := range []error{e1, e2, e3, e4} {
		var e *batch.Error
		if !errors.As(err, &e) || e.Kind != batch.Denied || e.Code != batch.CodeNoKey {
			t.Errorf("call %d: %v", i+1, err)
		}
	}
	if after := r.Account(); after != before || r.total() != calls {
		t.Errorf("%d calls, were %d; the account was %+v and is %+v", r.total(), calls, before, after)
	}
}

// total is how many calls the sandbox has had.
func (r *rig) total() (n int) {
	r.Helper()
	for _, calls := range r.Books().Requests {
		n += int(calls)
	}
	return n
}
