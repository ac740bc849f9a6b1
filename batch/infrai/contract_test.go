package infrai_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"rollcall/batch/batchtest"
	"rollcall/batch/infrai"
)

// The contract suite over the real client and the sandbox, in each shape of
// results.
func TestContract(t *testing.T) {
	for name, change := range map[string]func(*infrai.Pin){
		"paged": func(*infrai.Pin) {}, "array": array, "jsonl": jsonl, "not declared idempotent": undeclared,
	} {
		t.Run(name, func(t *testing.T) {
			batchtest.Run(t, func(t *testing.T) batchtest.Subject {
				r := newRig(t, assumed(t, change))
				t.Cleanup(func() { r.T = t; r.obeyed() })
				gone := httptest.NewServer(http.NotFoundHandler())
				gone.Close()
				return batchtest.Subject{
					Provider: r.Client, Server: r, Unreachable: newClient(t, gone.URL),
					Secrets: []string{testKey, "Bearer", r.url},
				}
			})
		})
	}
}
