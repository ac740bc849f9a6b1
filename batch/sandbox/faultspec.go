package sandbox

import "slices"

// stage is where in the life of a request, a job or a line a fault acts.
type stage int

const (
	beforeActing stage = iota // the request has no effect
	counting                  // the request has no effect if it is one too many
	afterActing               // the request has had its effect
	answering                 // the effect and the answer are there, the answer is altered
	ofJob                     // fixed when the job is created
	ofAnswer                  // what the stand-in says about one report
	ofLine                    // the result line of one item
	ofFile                    // a result file as a whole
	ofCall                    // the answer to a call that is about one text
)

type paramKind int

const (
	isText paramKind = iota
	isCount
	isShare
	isDuration
	isFlag
	isChoice
)

type param struct {
	name string
	kind paramKind
	def  string
	does string
	of   []string // with isChoice
}

// spec describes one fault.
type spec struct {
	name   string
	stage  stage
	op     string // the only operation that it concerns, when it has no parameter op
	does   string
	params []param
}

// The operations of the API, as they are called in faults, logs and books.
const (
	opUpload     = "upload"
	opGetFile    = "get_file"
	opListFiles  = "list_files"
	opContent    = "content"
	opDeleteFile = "delete_file"
	opCreate     = "create"
	opStatus     = "status"
	opListJobs   = "list_batches"
	opCancel     = "cancel"
	opAnalyze    = "analyze" // of Azure AI Content Safety, with opToken
	opToken      = "token"
	opChat       = "chat"         // of a server of one's own
	opDeleteJob  = "delete_batch" // of Anthropic, with opMessage
	opMessage    = "message"
	anyOp        = "any"
)

var operations = []string{opUpload, opGetFile, opListFiles, opContent, opDeleteFile, opCreate, opStatus, opListJobs, opCancel, opAnalyze, opToken, opChat, opDeleteJob, opMessage, anyOp}

func on(op string) param {
	return param{name: "op", kind: isChoice, def: op, does: "the operation, or any", of: operations}
}

func which(def string) param {
	return param{name: "file", kind: isChoice, def: def, does: "output, error or both", of: []string{"output", "error", "both"}}
}

var (
	onList   = param{name: "op", kind: isChoice, def: anyOp, does: "list_files, list_batches or any", of: []string{opListFiles, opListJobs, anyOp}}
	category = param{name: "category", kind: isChoice, def: "Hate", does: "which", of: graded}
	acted    = param{name: "acted", kind: isFlag, def: "false", does: "answer so although the request took effect"}
	selector = []param{
		{name: "every", kind: isCount, def: "1", does: "every K-th line"},
		{name: "prefix", kind: isText, def: "", does: "lines whose custom_id begins so"},
		{name: "share", kind: isShare, def: "1", does: "this share of the lines"},
		{name: "seed", kind: isCount, def: "0", does: "chooses another share"},
	}
)

// specs are all faults: those of every API, and those of one alone.
var specs = slices.Concat(commonSpecs, messageSpecs, infraiSpecs)

var commonSpecs = []spec{
	{name: "drop_after", stage: afterActing, does: "act, then drop the connection without an answer", params: []param{on(opCreate)}},
	{name: "drop_before", stage: beforeActing, does: "drop the connection without acting", params: []param{on(opCreate)}},
	{name: "delay", stage: afterActing, does: "act, then answer late, in real time", params: []param{on(opCreate),
		{name: "by", kind: isDuration, def: "30s", does: "how late"}}},
	{name: "rate_limit", stage: beforeActing, does: "429 rate_limit_exceeded", params: []param{on(anyOp),
		{name: "code", kind: isChoice, def: "rate_limit_exceeded", does: "rate_limit_exceeded, slow_down, or 429 as the gateway of Azure AI Content Safety", of: []string{"rate_limit_exceeded", "slow_down", gatewayCode}},
		{name: "retry_after", kind: isCount, def: "20", does: "seconds to wait"},
		{name: "form", kind: isChoice, def: "seconds", does: "how Retry-After is written: seconds, date or none", of: []string{"seconds", "date", "none"}}}},
	{name: "insufficient_quota", stage: beforeActing, does: "429 insufficient_quota: the money ran out", params: []param{on(opCreate)}},
	{name: "unauthorized", stage: beforeActing, does: "401 invalid_api_key", params: []param{on(anyOp)}},
	{name: "forbidden", stage: beforeActing, does: "403 unsupported_country_region_territory", params: []param{on(anyOp)}},
	{name: "bad_request", stage: beforeActing, does: "400 invalid_request_error", params: []param{on(opCreate)}},
	{name: "not_found", stage: beforeActing, does: "404, although it is there", params: []param{on(opStatus)}},
	{name: "server_error", stage: beforeActing, does: "an error of the server in the documented envelope", params: []param{on(anyOp), acted,
		{name: "status", kind: isChoice, def: "500", does: "408, 409, 500, 503, 504 or 529", of: []string{"408", "409", "500", "503", "504", "529"}}}},
	{name: "overloaded", stage: beforeActing, does: "503 server_is_overloaded", params: []param{on(anyOp), acted}},
	{name: "error_text", stage: beforeActing, does: "500 with a text in the place of the error envelope", params: []param{on(anyOp), acted}},
	{name: "bad_gateway", stage: beforeActing, does: "502 with an HTML page", params: []param{on(anyOp), acted,
		{name: "status", kind: isChoice, def: "502", does: "502, or 200 for a page that looks like success", of: []string{"502", "200"}}}},
	{name: "empty_object", stage: beforeActing, does: "200 with {}", params: []param{on(anyOp), acted}},
	{name: "redirect", stage: beforeActing, does: "307 to another host", params: []param{on(anyOp),
		{name: "to", kind: isText, def: "http://elsewhere.invalid", does: "scheme and host"}}},
	{name: "create_file_missing", stage: beforeActing, op: opCreate, does: "400 Cannot find file, although it is there"},
	{name: "content_not_found", stage: beforeActing, op: opContent, does: "404 on content; times=1 for once"},
	{name: "content_cut", stage: answering, op: opContent, does: "content ends in the middle", params: []param{
		{name: "at", kind: isShare, def: "0.5", does: "how much of it is sent"},
		{name: "clean", kind: isFlag, def: "false", does: "end the answer properly and announce no length"}}},
	{name: "answer_cut", stage: answering, does: "act, then break the JSON answer off in the middle", params: []param{on(opCreate),
		{name: "at", kind: isShare, def: "0.5", does: "how much of it is sent"}}},
	{name: "listing_lag", stage: answering, does: "lists leave out what is newer", params: []param{onList,
		{name: "seconds", kind: isCount, def: "30", does: "virtual seconds"}}},
	{name: "listing_cut", stage: answering, does: "lists end early and claim to be whole", params: []param{onList,
		{name: "entries", kind: isCount, def: "0", does: "after how many"}}},
	{name: "listing_hole", stage: answering, does: "lists leave entries out and claim to be whole", params: []param{onList,
		{name: "id", kind: isText, def: "", does: "this one alone"},
		{name: "every", kind: isCount, def: "1", does: "every K-th of the list"}}},
	{name: "short_page", stage: answering, does: "lists give less at once than they are asked for", params: []param{onList,
		{name: "entries", kind: isCount, def: "1", does: "how many; at least one"}}},

	{name: "token_limit_exceeded", stage: ofJob, does: "validation fails: enqueued token limit"},
	{name: "validate_file_missing", stage: ofJob, does: "validation fails: Cannot find file, although it is there"},
	{name: "failed_file_ids", stage: ofJob, does: "a job that failed validation has the ids of both result files"},
	{name: "all_failed", stage: ofJob, does: "completed, every line failed, no output file", params: []param{
		{name: "status", kind: isCount, def: "400", does: "HTTP status of the lines"}}},
	{name: "empty_error_id", stage: ofJob, does: `error_file_id is "" where it would be null`},
	{name: "zero_byte_error_file", stage: ofJob, does: "an error file of zero bytes where there would be none"},
	{name: "expire", stage: ofJob, does: "the window closes with part of the work done", params: []param{
		{name: "after", kind: isDuration, def: "24h", does: "when, in virtual time"},
		{name: "share", kind: isShare, def: "0.5", does: "how much is done"}}},
	{name: "cancel_midway", stage: ofJob, does: "somebody else cancels the job", params: []param{
		{name: "share", kind: isShare, def: "0.5", does: "how much is done"}}},
	{name: "late_file_ids", stage: ofJob, does: "completed with null file ids at first", params: []param{
		{name: "for", kind: isDuration, def: "60s", does: "how long, in virtual time"}}},
	{name: "results_lost", stage: ofJob, does: "404 on the content of the result files, for ever"},
	{name: "vanish", stage: ofJob, does: "the batch is gone: 404, and in no list", params: []param{
		{name: "after", kind: isDuration, def: "30s", does: "when, in virtual time from creation"}}},
	{name: "unknown_status", stage: ofJob, does: "a status that nobody documented", params: []param{
		{name: "in", kind: isChoice, def: statusRunning, does: "the status that it stands for", of: statuses},
		{name: "word", kind: isText, def: "reviewing", does: "the word"}}},
	{name: "other_spelling", stage: ofJob, does: "capitalised status and RFC 3339 times"},
	{name: "null_counts", stage: ofJob, does: "request_counts is null"},
	{name: "errors_array", stage: ofJob, does: "the reasons of failed validation as an array, not as an object"},
	{name: "slow", stage: ofJob, does: "a phase takes longer", params: []param{
		{name: "phase", kind: isChoice, def: statusFinalizing, does: "which", of: []string{statusValidating, statusRunning, statusFinalizing, statusCancelling}},
		{name: "for", kind: isDuration, def: "10m", does: "how long, in virtual time"}}},
	{name: "slow_cancel", stage: ofJob, does: "cancelling takes long", params: []param{
		{name: "for", kind: isDuration, def: "10m", does: "how long, in virtual time"}}},
	{name: "cancel_loses", stage: ofJob, does: "a job that was cancelled ends completed"},

	{name: "refusal", stage: ofAnswer, does: "the model declines"},
	{name: "length", stage: ofAnswer, does: "finish_reason length, content null"},
	{name: "content_filter", stage: ofAnswer, does: "finish_reason content_filter"},
	{name: "off_schema", stage: ofAnswer, does: "JSON that is not of the schema"},
	{name: "invalid_json", stage: ofAnswer, does: "content is not JSON"},
	{name: "unknown_label", stage: ofAnswer, does: "a label outside of the set"},
	{name: "false_evidence", stage: ofAnswer, does: "a quote that is not in the report"},
	{name: "duplicate_keys", stage: ofAnswer, does: "label twice, with two values"},
	{name: "folded_keys", stage: ofAnswer, does: "label and LABEL, with two values"},
	{name: "other_model", stage: ofAnswer, does: "another model has answered", params: []param{
		{name: "model", kind: isText, def: "sandbox-other-model", does: "its name"}}},
	{name: "crossed_answer", stage: ofAnswer, does: "the answer to another line of the job; needs two lines"},
	{name: "response_failed", stage: ofAnswer, does: "a response that failed, with HTTP 200; other endpoints have none", params: []param{
		{name: "code", kind: isText, def: "server_error", does: "error code"}}},
	{name: "category_missing", stage: ofAnswer, does: "a moderation without a score for a category", params: []param{
		{name: "category", kind: isText, def: "self-harm", does: "which"}}},
	{name: "item_error", stage: ofAnswer, does: "an HTTP error for the item, in the error file", params: []param{
		{name: "status", kind: isChoice, def: "429", does: "400, 401, 403, 404, 408, 429, 500 or 503", of: []string{"400", "401", "403", "404", "408", "429", "500", "503"}},
		{name: "code", kind: isText, def: "default", does: "error code; default is the usual one of the status"}}},

	{name: "missing_line", stage: ofLine, does: "the line is in neither file"},
	{name: "no_custom_id", stage: ofLine, does: "the line has no custom_id"},
	{name: "duplicate_line", stage: ofLine, does: "the line is there twice"},
	{name: "conflicting_line", stage: ofLine, does: "a second line says something else"},
	{name: "unknown_custom_id", stage: ofLine, does: "a further line, for an id that was never sent"},
	{name: "malformed_line", stage: ofLine, does: "the line is not JSON"},
	{name: "long_line", stage: ofLine, does: "a line of this many bytes", params: []param{
		{name: "bytes", kind: isCount, def: "20971520", does: "its length"}}},
	{name: "line_separator", stage: ofLine, does: "raw U+2028 and U+2029 in the message"},

	{name: "truncated_last_line", stage: ofFile, does: "the last line is cut, without a line feed", params: []param{which("output")}},
	{name: "bom", stage: ofFile, does: "the file begins with a byte order mark", params: []param{which("output")}},

	{name: "payment_required", stage: beforeActing, does: "402", params: []param{on(opAnalyze)}},
	{name: "quota", stage: counting, does: "429 for what is more than this within any such time, for each key", params: []param{
		{name: "op", kind: isChoice, def: opAnalyze, does: "analyze or chat", of: []string{opAnalyze, opChat}},
		{name: "requests", kind: isCount, def: "1000", does: "how many are let in"},
		{name: "within", kind: isDuration, def: "10s", does: "how long, in real time"},
		{name: "told", kind: isFlag, def: "true", does: "say in Retry-After how long to wait"}}},
	{name: "chat_loading", stage: beforeActing, op: opChat, does: "503, while the model is loaded"},
	{name: "empty_text_graded", stage: answering, op: opAnalyze, does: "an empty text is graded, not refused; neither is documented"},
	{name: "short_grant", stage: answering, op: opToken, does: "tokens end early", params: []param{
		{name: "seconds", kind: isCount, def: "60", does: "virtual seconds"}}},

	{name: "grade_missing", stage: ofCall, op: opAnalyze, does: "a category has no severity", params: []param{category}},
	{name: "grade_absent", stage: ofCall, op: opAnalyze, does: "a category is not there", params: []param{category}},
	{name: "grade_unknown", stage: ofCall, op: opAnalyze, does: "a severity that is not of the scale", params: []param{category,
		{name: "severity", kind: isCount, def: "9", does: "which"}}},
	{name: "grade_twice", stage: ofCall, op: opAnalyze, does: "a category is there again, with severity 0", params: []param{category}},
	{name: "grades_shuffled", stage: ofCall, op: opAnalyze, does: "the categories come in another order"},
	{name: "category_unknown", stage: ofCall, op: opAnalyze, does: "a category and a member that nobody documented"},
	{name: "blocklist_halted", stage: ofCall, op: opAnalyze, does: "a hit in a blocklist, and no severities", params: []param{
		{name: "form", kind: isChoice, def: "empty", does: "how they are not there: empty or absent", of: []string{"empty", "absent"}}}},
	{name: "chat_prose", stage: ofCall, op: opChat, does: "the schema is ignored"},
	{name: "chat_whitespace", stage: ofCall, op: opChat, does: "white space up to max_tokens"},
	{name: "chat_no_finish", stage: ofCall, op: opChat, does: "finish_reason is empty"},
	{name: "chat_other_model", stage: ofCall, op: opChat, does: "another model says that it answered"},
	{name: "chat_context_cut", stage: ofCall, op: opChat, does: "the prompt was cut, and only the count of its tokens tells", params: []param{
		{name: "tokens", kind: isCount, def: "3", does: "what is left of it"}}},
}

// allParams are the parameters of its own and those of its kind.
func (s spec) allParams() []param {
	all := append([]param{}, s.params...)
	if s.stage == ofAnswer || s.stage == ofLine {
		all = append(all, selector...)
	}
	return append(all, param{name: "times", kind: isCount, def: "0"})
}

func (s spec) paramNames() []string {
	var names []string
	for _, p := range s.allParams() {
		names = append(names, p.name)
	}
	return names
}
