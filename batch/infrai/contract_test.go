package infrai_test

import (
	"testing"
	"time"

	"rollcall/batch/batchtest"
	"rollcall/batch/infrai"
	"rollcall/batch/sandbox/sandboxtest"
)

// The contract suite over the real client and the sandbox, in each shape of
// results.
func TestContract(t *testing.T) {
	for name, change := range map[string]func(*infrai.Pin){
		"paged": func(*infrai.Pin) {}, "array": array, "jsonl": jsonl, "not declared idempotent": undeclared,
	} {
		t.Run(name, func(t *testing.T) {
			batchtest.Run(t, func(t *testing.T) batchtest.Subject {
				// The sandbox dates Retry-After by its real clock, which stands still.
				r := newRig(t, assumed(t, change), func(c *infrai.Config) { c.Now = func() time.Time { return sandboxtest.Start } })
				t.Cleanup(func() { r.T = t; r.obeyed() })
				return batchtest.Subject{
					Provider: r.Client, Server: r.Rig, Unreachable: newClient(t, sandboxtest.Gone()),
					Secrets: []string{testKey, "Bearer", r.URL},
				}
			})
		})
	}
}
