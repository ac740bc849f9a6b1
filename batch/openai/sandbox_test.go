package openai_test

import (
	"strings"
	"testing"

	"rollcall/batch"
	"rollcall/batch/batchtest"
	"rollcall/batch/openai"
	"rollcall/batch/sandbox"
	"rollcall/batch/sandbox/sandboxtest"
)

// The contract suite over the real client and the sandbox: every fault of the
// suite can be armed.
func TestContractOverSandbox(t *testing.T) {
	for name, c := range map[string]struct {
		flavour  sandbox.Flavour
		change   func(*openai.Config)
		question *batch.Classifier
	}{
		"chat":        {},
		"responses":   {change: func(c *openai.Config) { c.Endpoint = openai.EndpointResponses }},
		"moderations": {change: func(c *openai.Config) { c.Endpoint = openai.EndpointModerations }, question: scoreQuestion()},
		"azure":       {flavour: sandbox.FlavourAzure, change: azure},
	} {
		t.Run(name, func(t *testing.T) {
			change := c.change
			if change == nil {
				change = func(*openai.Config) {}
			}
			batchtest.Run(t, func(t *testing.T) batchtest.Subject {
				r := newRigOf(t, c.flavour, change)
				if c.question != nil { // scores are neither refused nor cut
					r.Lacks = append(r.Lacks, batchtest.OneRefused, batchtest.OneTruncated, batchtest.OneBlocked)
				}
				return batchtest.Subject{
					Provider: r.Client, Server: r.Rig, Unreachable: newClient(t, sandboxtest.Gone(), change), Question: c.question,
					NoEcho:  c.question != nil,
					Secrets: []string{sandboxKey, "Bearer", r.URL},
				}
			})
		})
	}
}

// azure is an account of the older form, with a version in each call.
func azure(c *openai.Config) {
	c.Processor, c.Dialect, c.Query = "azure-openai", openai.Azure, map[string]string{"api-version": "2024-10-21"}
	c.BaseURL = strings.TrimSuffix(c.BaseURL, "/v1") + "/openai"
}
