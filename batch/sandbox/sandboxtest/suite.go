package sandboxtest

import (
	"fmt"
	"slices"
	"time"

	"rollcall/batch/batchtest"
)

// opNames are the sandbox's names of the operations.
var opNames = map[batchtest.Op]string{
	batchtest.OpUpload: "upload", batchtest.OpCreate: "create", batchtest.OpStatus: "status", batchtest.OpInspect: "status",
	batchtest.OpDownload: "content", batchtest.OpDelete: "delete_file", batchtest.OpCancel: "cancel",
	batchtest.OpListJobs: "list_batches", batchtest.OpListFiles: "list_files", batchtest.OpDeleteJob: "delete_batch",
}

func (r *Rig) name(op batchtest.Op) string {
	if op == batchtest.OpCall {
		return r.op
	}
	return opNames[op]
}

// requestFaults are the sandbox's names of what a request meets; each takes op.
var requestFaults = map[batchtest.FaultKind]string{
	batchtest.LostRequest:  "drop_before:",
	batchtest.LostAnswer:   "drop_after:",
	batchtest.GatewayPage:  "bad_gateway:acted=true,",
	batchtest.Page:         "bad_gateway:acted=true,status=200,",
	batchtest.Blank:        "empty_object:acted=true,",
	batchtest.Conflict:     "server_error:status=409,acted=true,",
	batchtest.ServerError:  "server_error:status=500,",
	batchtest.Busy:         "server_error:status=503,",
	batchtest.BadRequest:   "bad_request:",
	batchtest.Unauthorized: "unauthorized:",
	batchtest.Forbidden:    "forbidden:",
	batchtest.Payment:      "payment_required:",
	batchtest.NoCredit:     "insufficient_quota:",
	batchtest.Missing:      "not_found:",
	batchtest.TooMany:      "rate_limit:form=none,",
	batchtest.TooManyDate:  "rate_limit:form=date,",
	batchtest.Torn:         "answer_cut:at=0.5,",
}

// modelFaults are what a model does; only the one call that asks a model meets
// them.
var modelFaults = map[batchtest.FaultKind]string{
	batchtest.Refusal: "refusal:times=1", batchtest.CutShort: "length:times=1", batchtest.Filtered: "content_filter:times=1",
	batchtest.OtherModel: "chat_other_model:times=1",
}

// Arm sets the sandbox's fault for f, once. A fault that it has no name for fails
// the test: a check that is skipped proves nothing. What a model does is skipped
// for an API that has none.
func (r *Rig) Arm(op batchtest.Op, f batchtest.Fault) bool {
	r.Helper()
	if text, ok := modelFaults[f.Kind]; ok {
		if r.op != "chat" {
			return false
		}
		r.Faults(text)
		return true
	}
	name, text := r.name(op), requestFaults[f.Kind]
	if f.RetryAfter > 0 {
		if f.Kind == batchtest.TooMany {
			text = "rate_limit:form=seconds,"
		}
		text += fmt.Sprintf("retry_after=%d,", int(f.RetryAfter.Seconds()))
	}
	if f.Kind == batchtest.Redirect {
		text = "redirect:to=" + r.Other + ","
	}
	switch {
	case name == "" || text == "":
		r.Fatalf("the sandbox has no fault for %q on %s", f.Kind, op)
	case f.Kind == batchtest.Torn && op == batchtest.OpDownload:
		r.Faults("content_cut:at=0.5,times=1")
	default:
		r.Faults(text + "times=1,op=" + name)
	}
	return true
}

// Calls counts requests as the sandbox's books do.
func (r *Rig) Calls(op batchtest.Op) int { r.Helper(); return r.Requests(r.name(op)) }

// Page makes lists short, until other faults are set.
func (r *Rig) Page(entries int) { r.Helper(); r.Faults(fmt.Sprintf("short_page:entries=%d", entries)) }

// Jobs are those of all APIs of the sandbox.
func (r *Rig) Jobs() int { r.Helper(); return len(r.Books().Jobs) + len(r.Box.Infrai().Jobs) }

// Files are those of the sandbox that exist.
func (r *Rig) Files() int { r.Helper(); return r.Books().Files }

// Strayed is how many calls reached the host that a redirect pointed at.
func (r *Rig) Strayed() int { return int(r.strayed.Load()) }

// Ends says whether jobs of this API end so.
func (r *Rig) Ends(e batchtest.Ending) bool { return !slices.Contains(r.Lacks, e) }

// first selects the item that an ending makes different.
const first = ":prefix=" + batchtest.FirstItem

// endingFaults are the sandbox's names of what makes a job end so.
var endingFaults = map[batchtest.Ending][]string{
	batchtest.AllAnswered: nil,
	batchtest.OneExpired:  {"expire:share=0.67,times=1"}, // two of three are done by then
	batchtest.AllFailed:   {"all_failed:status=500,times=1"},
	batchtest.BodyRefused: {"token_limit_exceeded:times=1"},

	batchtest.OneRefused:     {"refusal" + first},
	batchtest.OneTruncated:   {"length" + first},
	batchtest.OneBlocked:     {"content_filter" + first},
	batchtest.OneTwice:       {"duplicate_line" + first},
	batchtest.OneMissing:     {"missing_line" + first},
	batchtest.OneStray:       {"unknown_custom_id" + first},
	batchtest.OneNameless:    {"no_custom_id" + first},
	batchtest.OneMalformed:   {"malformed_line" + first},
	batchtest.OneOtherModel:  {"other_model" + first},
	batchtest.OneOtherVendor: {"infrai_vendor" + first},
}

// Plan: some faults are of a job when it is made, others of its results when they
// are written, so they stay set until another plan.
func (r *Rig) Plan(e batchtest.Ending) {
	r.Helper()
	texts, ok := endingFaults[e]
	if !ok {
		r.Fatalf("the sandbox has no fault for a job that ends as %q", e)
	}
	r.Faults(texts...)
}

// Finish moves the clock past the end of the job.
func (r *Rig) Finish(_ string, e batchtest.Ending) {
	r.Helper()
	if e == batchtest.OneExpired {
		r.Advance(24 * time.Hour)
		return
	}
	r.Advance(2 * time.Minute)
}
