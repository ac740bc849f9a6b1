package anthropic_test

import (
	"testing"

	"rollcall/batch/anthropic"
	"rollcall/batch/batchtest"
	"rollcall/batch/sandbox/sandboxtest"
)

// The contract suite over the real client and the sandbox, in both forms of
// authorisation, versions and outputs: every fault of the suite can be armed.
func TestContractOverSandbox(t *testing.T) {
	for name, change := range map[string]func(*anthropic.Config){
		"key, 2023-06-01, json_schema": func(*anthropic.Config) {},
		"bearer, 2026-10-21, tool":     newer,
	} {
		t.Run(name, func(t *testing.T) {
			batchtest.Run(t, func(t *testing.T) batchtest.Subject {
				r := newRig(t, change)
				return batchtest.Subject{
					Provider: r.Client, Server: r.Rig, Unreachable: newClient(t, sandboxtest.Gone(), change),
					Secrets: []string{testKey, "Bearer", r.URL + "/v1"},
				}
			})
		})
	}
}
