package openai_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/batchtest"
	"rollcall/batch/openai"
	"rollcall/batch/sandbox"
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
				r.flavour = c.flavour
				gone := httptest.NewServer(http.NotFoundHandler())
				gone.Close()
				return batchtest.Subject{
					Provider: r.Client, Server: r, Unreachable: newClient(t, gone.URL, change), Question: c.question,
					NoEcho:  c.question != nil,
					Secrets: []string{sandboxKey, "Bearer", r.url},
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

// opNames are the sandbox's names of the operations.
var opNames = map[batchtest.Op]string{
	batchtest.OpUpload: "upload", batchtest.OpCreate: "create", batchtest.OpStatus: "status",
	batchtest.OpDownload: "content", batchtest.OpDelete: "delete_file", batchtest.OpCancel: "cancel",
	batchtest.OpListJobs: "list_batches", batchtest.OpListFiles: "list_files", batchtest.OpInspect: "status",
}

// Arm sets the sandbox's fault for f, once. A fault that it has no name for
// fails the test: a check that is skipped proves nothing.
func (r *rig) Arm(op batchtest.Op, f batchtest.Fault) bool {
	r.Helper()
	name := opNames[op]
	text := map[batchtest.FaultKind]string{
		batchtest.LostRequest:  "drop_before:op=" + name,
		batchtest.LostAnswer:   "drop_after:op=" + name,
		batchtest.GatewayPage:  "bad_gateway:acted=true,op=" + name,
		batchtest.Blank:        "empty_object:acted=true,op=" + name,
		batchtest.Conflict:     "server_error:status=409,acted=true,op=" + name,
		batchtest.BadRequest:   "bad_request:op=" + name,
		batchtest.Unauthorized: "unauthorized:op=" + name,
		batchtest.Missing:      "not_found:op=" + name,
		batchtest.TooMany:      "rate_limit:form=none,op=" + name,
		batchtest.NoCredit:     "insufficient_quota:op=" + name,
		batchtest.Redirect:     "redirect:to=" + r.other.URL + ",op=" + name,
		batchtest.Torn:         "answer_cut:at=0.5,op=" + name,
	}[f.Kind]
	if f.Kind == batchtest.Torn && op == batchtest.OpDownload {
		text = "content_cut:at=0.5"
	}
	if f.RetryAfter > 0 {
		text = fmt.Sprintf("rate_limit:retry_after=%d,op=%s", int(f.RetryAfter.Seconds()), name)
	}
	if name == "" || text == "" {
		r.Fatalf("the sandbox has no fault for %q on %s", f.Kind, op)
	}
	r.faults(text + ",times=1")
	return true
}

// Calls counts requests as the sandbox's books do.
func (r *rig) Calls(op batchtest.Op) int {
	r.Helper()
	return int(r.books().Requests[opNames[op]])
}

// Page makes lists short, until other faults are set.
func (r *rig) Page(entries int) { r.Helper(); r.faults(fmt.Sprintf("short_page:entries=%d", entries)) }

func (r *rig) Jobs() int    { r.Helper(); return len(r.books().Jobs) }
func (r *rig) Files() int   { r.Helper(); return r.books().Files }
func (r *rig) Strayed() int { return int(r.strayed.Load()) }

// Plan: a job of the sandbox is what it will be when it is created.
func (r *rig) Plan(e batchtest.Ending) {
	r.Helper()
	switch e {
	case batchtest.AllAnswered:
		r.faults()
	case batchtest.OneExpired: // two of three are done by then
		r.faults("expire:share=0.67,times=1")
	case batchtest.AllFailed:
		r.faults("all_failed:status=500,times=1")
	case batchtest.BodyRefused:
		r.faults("token_limit_exceeded:times=1")
	}
}

func (r *rig) Finish(_ string, e batchtest.Ending) {
	r.Helper()
	if e == batchtest.OneExpired {
		r.advance(24 * time.Hour)
		return
	}
	r.advance(2 * time.Minute)
}
