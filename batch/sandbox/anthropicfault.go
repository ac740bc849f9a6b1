package sandbox

import "slices"

// MessageFaultNames lists the faults that the Message Batches API alone has,
// sorted.
func MessageFaultNames() []string {
	var names []string
	for _, s := range messageSpecs {
		names = append(names, s.name)
	}
	slices.Sort(names)
	return names
}

// messageSpecs are the faults of the Message Batches API alone.
var messageSpecs = []spec{
	{name: "too_large", stage: beforeActing, does: "413 from what is in front of the API", params: []param{on(opCreate),
		{name: "form", kind: isChoice, def: "html", does: "html, or json without the outer type", of: []string{"html", "json"}}}},
	{name: "spend_limit", stage: beforeActing, does: "the money ran out, in the form of the Message Batches API", params: []param{on(opCreate),
		{name: "form", kind: isChoice, def: "tier", does: "tier: 429 without Retry-After; own: 400 without a code; billing: 402", of: []string{"tier", "own", "billing"}}}},
	{name: "on_hold", stage: beforeActing, does: "400 organization_on_hold", params: []param{on(opCreate)}},
	{name: "other_workspace", stage: answering, does: "the answer names another workspace", params: []param{on(anyOp)}},

	{name: "live_counts", stage: ofJob, does: "request_counts move while a batch runs"},

	{name: "item_class", stage: ofAnswer, does: "an errored result of this class", params: []param{
		{name: "class", kind: isText, def: "api_error", does: "the class"},
		{name: "code", kind: isText, def: "none", does: "error_code in the details; none leaves them out"}}},
	{name: "stop_reason", stage: ofAnswer, does: "the model stops for another reason, with an answer that looks whole", params: []param{
		{name: "word", kind: isText, def: "max_tokens", does: "the reason"}}},
	{name: "thinking", stage: ofAnswer, does: "a block of thinking stands before the answer"},
	{name: "two_calls", stage: ofAnswer, does: "the tool is called twice, with other words"},
	{name: "label_case", stage: ofAnswer, does: "the label in other letter case"},

	{name: "unknown_result", stage: ofLine, does: "a result of a type that nobody documented"},
	{name: "no_last_feed", stage: ofFile, does: "the last line has no line feed", params: []param{which("output")}},
}
