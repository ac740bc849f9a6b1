package infrai

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"rollcall/batch"
)

// DecodeResult reads one item by the pin. An answer is taken only with the word
// for success, of a vendor that is allowed, and from a completion that says that
// it is whole; it is Unapproved when it was served by nobody knows whom, by a
// vendor that is not on the operator's list, or out of a cache, where no vendor
// served it and it was made for another request.
func (c *Client) DecodeResult(line []byte) batch.Result {
	p := c.contract.Results
	var item map[string]any
	if p == nil || json.Unmarshal(line, &item) != nil || item == nil {
		return batch.Result{Outcome: batch.Unreadable}
	}
	id, _ := lookup(item, p.ItemIDPath).(string)
	if id == "" {
		return batch.Result{Outcome: batch.Unreadable}
	}
	r := batch.Result{CustomID: id, Vendor: vendorOf(item, p)}
	status, _ := lookup(item, p.ItemStatusPath).(string)
	success := slices.Contains(p.ItemStates.Success, status)
	switch {
	case r.Vendor == "" && success, r.Vendor != "" && !slices.Contains(c.cfg.Vendors, r.Vendor):
		r.Outcome = batch.Unapproved
	case p.ItemCachePath != "" && cached(lookup(item, p.ItemCachePath)):
		r.Outcome, r.Code = batch.Unapproved, codeCacheHit
	case success:
		decodeCompletion(&r, lookup(item, p.ItemBodyPath))
	default:
		decodeFailure(&r, p, item, status)
	}
	return r
}

// vendorOf is who served an item; a name that cannot be shown is "unprintable",
// which is on no list.
func vendorOf(item any, p *Results) string {
	if p.ItemVendorPath == "" {
		return ""
	}
	switch v := lookup(item, p.ItemVendorPath).(type) {
	case nil:
		return ""
	case string:
		return batch.SafeName(v)
	}
	return batch.SafeName("not a name")
}

// cached: anything but a plain no.
func cached(v any) bool { return v != nil && v != any(false) }

// decodeFailure reads an item without the word for success.
func decodeFailure(r *batch.Result, p *Results, item any, status string) {
	if p.ItemErrorPath != "" {
		code, _ := lookup(item, p.ItemErrorPath).(string)
		r.Code = batch.SafeCode(code)
	}
	switch {
	case slices.Contains(p.ItemStates.Expired, status):
		r.Outcome = batch.Expired
	case slices.Contains(p.ItemStates.Cancelled, status):
		r.Outcome = batch.Cancelled
	case !slices.Contains(p.ItemStates.Failed, status):
		// Another word may mean anything, that it ran among it.
		r.Outcome, r.Code = batch.BadShape, batch.SafeCode(status)
	case r.Code == codeCredit:
		r.Outcome = batch.ItemOutOfCredit
	case p.ItemRetryablePath != "" && lookup(item, p.ItemRetryablePath) == any(false):
		r.Outcome = batch.ItemRejected
	default:
		r.Outcome = batch.ItemFailed
	}
}

// codeCredit is the documented code for an empty wallet.
const codeCredit = "INSUFFICIENT_CREDIT"

// decodeCompletion asks why the model stopped before it looks at what it said: an
// answer that was cut may still be good JSON. A reason that is missing is none.
// An answer that names no model is by nobody knows which: one is pinned, and the
// provider is known to put another in its place.
func decodeCompletion(r *batch.Result, body any) {
	r.Outcome = batch.BadShape
	model, _ := lookup(body, "model").(string)
	r.Model = batch.SafeName(model)
	r.InputTokens, r.OutputTokens = count(body, "usage.prompt_tokens"), count(body, "usage.completion_tokens")
	choices, _ := lookup(body, "choices").([]any)
	if len(choices) != 1 {
		return
	}
	reason, _ := lookup(choices[0], "finish_reason").(string)
	content, _ := lookup(choices[0], "message.content").(string)
	refusal := lookup(choices[0], "message.refusal")
	switch {
	case reason == "content_filter":
		r.Outcome = batch.Blocked
	case reason == "length":
		r.Outcome = batch.Truncated
	case reason != "stop":
		r.Code = batch.SafeCode(reason)
	case refusal != nil && refusal != any(""):
		if _, ok := refusal.(string); ok {
			r.Outcome = batch.Refused
		}
	case strings.TrimSpace(content) == "":
	case model == "":
		r.Outcome, r.Code = batch.Unapproved, codeNoModel
	default:
		r.Outcome, r.Content = batch.Answered, []byte(content)
	}
}
