package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/openai"
	"rollcall/batch/sandbox"
)

// The tables of this file say, for every fault of the sandbox, what the client
// makes of it. TestEveryFaultHasARule makes sure that none is left out.

// itemRules: the lines that the client reads besides those of w1 and w3, which
// are answered, when w2 alone is struck.
var itemRules = []struct {
	fault string
	want  []string // channel, id, outcome, code
}{
	{"missing_line", nil},
	{"no_custom_id", []string{"output - unreadable"}},
	{"malformed_line", []string{"output - unreadable"}},
	{"duplicate_line", []string{"output w2 answered", "output w2 answered"}},
	{"conflicting_line", []string{"output w2 answered", "output w2 failed server_error"}},
	{"unknown_custom_id", []string{"output stranger answered", "output w2 answered"}},
	{"long_line:bytes=3000000", []string{"output w2 answered"}},
	{"line_separator", []string{"output w2 answered"}},

	{"refusal", []string{"output w2 refused"}},
	{"length", []string{"output w2 truncated"}},
	{"content_filter", []string{"output w2 blocked"}},

	// Whether an answer answers the question is not for the client to judge.
	{"off_schema", []string{"output w2 answered"}},
	{"invalid_json", []string{"output w2 answered"}},
	{"unknown_label", []string{"output w2 answered"}},
	{"false_evidence", []string{"output w2 answered"}},
	{"duplicate_keys", []string{"output w2 answered"}},
	{"folded_keys", []string{"output w2 answered"}},

	{"other_model", []string{"output w2 answered"}},
	{"crossed_answer", []string{"output w2 answered"}}, // see TestEndpointRules
	{"response_failed", []string{"output w2 answered"}},
	{"category_missing", []string{"output w2 answered"}},

	{"item_error:status=400", []string{"error w2 rejected context_length_exceeded"}},
	{"item_error:status=400,code=content_filter", []string{"error w2 blocked content_filter"}},
	{"item_error:status=401", []string{"error w2 denied invalid_api_key"}},
	{"item_error:status=403", []string{"error w2 denied model_not_allowed"}},
	{"item_error:status=404", []string{"error w2 denied model_not_found"}},
	{"item_error:status=408", []string{"error w2 failed server_error"}},
	{"item_error:status=429", []string{"error w2 failed rate_limit_exceeded"}},
	{"item_error:status=429,code=insufficient_quota", []string{"error w2 out_of_credit insufficient_quota"}},
	{"item_error:status=500", []string{"error w2 failed server_error"}},
	{"item_error:status=503", []string{"error w2 failed server_error"}},
}

// otherContent are the faults that leave w2 answered, with another content.
var otherContent = []string{"off_schema", "invalid_json", "unknown_label", "false_evidence", "duplicate_keys", "folded_keys", "crossed_answer"}

func TestItemRules(t *testing.T) {
	plain := newRig(t).contentOf("w2")
	for _, rule := range itemRules {
		t.Run(rule.fault, func(t *testing.T) {
			r := newRig(t)
			r.Faults(more(rule.fault, "prefix=w2-"))
			job := r.create(r.upload())
			r.Advance(2 * time.Minute)
			job = r.status(job.ID)
			var got []string
			for _, l := range r.results(job) {
				switch {
				case l.id() != "w1" && l.id() != "w3":
					got = append(got, l.String())
				case l.Outcome != batch.Answered:
					t.Errorf("another item was struck: %s", l)
				}
				other := l.id() == "w2" && slices.Contains(otherContent, rule.fault)
				if l.id() == "w2" && l.Outcome == batch.Answered && (string(l.Content) != plain) != other {
					t.Errorf("content is %s, without the fault %s", l.Content, plain)
				}
				model := "sandbox-stand-in"
				if rule.fault == "other_model" && l.id() == "w2" {
					model = "sandbox-other-model"
				}
				if l.Outcome == batch.Answered && (l.Model != model || l.InputTokens == 0 || l.OutputTokens == 0) {
					t.Errorf("model and usage of %+v", l.Result)
				}
			}
			if slices.Sort(got); !slices.Equal(got, rule.want) {
				t.Errorf("%q, want %q", got, rule.want)
			}
		})
	}
}

// The stand-in judges the report inside of the user message, and quotes it.
func TestStandInReadsTheReport(t *testing.T) {
	var got struct {
		Label    string
		Evidence []string
	}
	if err := json.Unmarshal([]byte(newRig(t).contentOf("w2")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Label != "spam" || len(got.Evidence) != 1 || got.Evidence[0] != reportOf("w2-s1") {
		t.Errorf("%+v, want spam for %q", got, reportOf("w2-s1"))
	}
}

// jobRules: what the client makes of a job and of its files, some time after
// it was created. Two items of three are done at a share of 0.67.
var jobRules = []struct {
	faults string
	after  time.Duration
	job    string   // phase, status, reasons
	files  string   // channels
	want   []string // how many lines, channel, outcome, code
}{
	{"", 2 * time.Minute, "ended completed", "output", []string{"3 output answered"}},

	{"truncated_last_line", 2 * time.Minute, "ended completed", "output", []string{"1 output unreadable", "2 output answered"}},
	// The passes take a mark off before they read the first line.
	{"bom", 2 * time.Minute, "ended completed", "output", []string{"1 output unreadable", "2 output answered"}},

	{"token_limit_exceeded", 2 * time.Minute, "invalid failed 0:token_limit_exceeded", "", nil},
	{"validate_file_missing", 2 * time.Minute, "invalid failed 0:" + openai.CodeFileNotFound, "", nil},
	{"all_failed", 2 * time.Minute, "ended completed", "error", []string{"3 error rejected context_length_exceeded"}},
	{"all_failed:status=429", 2 * time.Minute, "ended completed", "error", []string{"3 error failed rate_limit_exceeded"}},
	{"empty_error_id", 2 * time.Minute, "ended completed", "output", []string{"3 output answered"}},
	{"zero_byte_error_file", 2 * time.Minute, "ended completed", "output error", []string{"3 output answered"}},
	{"expire:share=0.67", 24 * time.Hour, "ended expired", "output error", []string{"1 error expired batch_expired", "2 output answered"}},
	{"expire:share=0", 24 * time.Hour, "ended expired", "error", []string{"3 error expired batch_expired"}},
	{"cancel_midway:share=0.67", 2 * time.Minute, "ended cancelled", "output error", []string{"1 error cancelled batch_cancelled", "2 output answered"}},
	{"slow_cancel cancel_midway:share=0.67", 2 * time.Minute, "running cancelling", "", nil},
	{"slow_cancel cancel_midway:share=0.67", 12 * time.Minute, "ended cancelled", "output error", []string{"1 error cancelled batch_cancelled", "2 output answered"}},
	{"cancel_loses cancel_midway", 2 * time.Minute, "ended completed", "output", []string{"3 output answered"}},
	{"late_file_ids", 2 * time.Minute, "ended completed", "", nil},
	{"late_file_ids", 3 * time.Minute, "ended completed", "output", []string{"3 output answered"}},
	{"results_lost", 2 * time.Minute, "ended completed", "output", []string{"1 output not_found"}},
	{"null_counts", 2 * time.Minute, "ended completed", "output", []string{"3 output answered"}},
	{"errors_array token_limit_exceeded", 2 * time.Minute, "invalid failed 0:token_limit_exceeded", "", nil},
	{"failed_file_ids token_limit_exceeded", 2 * time.Minute, "invalid failed 0:token_limit_exceeded", "", nil},
	{"vanish", 10 * time.Second, "running in_progress", "", nil},
	{"vanish", 2 * time.Minute, "not_found", "", nil},
	{"unknown_status", 30 * time.Second, "running reviewing, unknown", "", nil},
	{"unknown_status", 2 * time.Minute, "ended completed", "output", []string{"3 output answered"}},
	{"unknown_status:in=completed,word=archived", 2 * time.Minute, "running archived, unknown", "", nil},
	{"other_spelling", 30 * time.Second, "running In_progress", "", nil},
	{"other_spelling", 2 * time.Minute, "ended Completed", "output", []string{"3 output answered"}},
	{"slow", 2 * time.Minute, "running finalizing", "", nil},
	{"slow", 12 * time.Minute, "ended completed", "output", []string{"3 output answered"}},
}

func TestJobRules(t *testing.T) {
	for _, rule := range jobRules {
		t.Run(fmt.Sprint(rule.faults, "@", rule.after), func(t *testing.T) {
			r := newRig(t)
			r.Faults(strings.Fields(rule.faults)...)
			created := r.create(r.upload())
			r.Advance(rule.after)
			job, err := r.Status(t.Context(), created.ID)
			if err != nil {
				if got := string(batch.KindOf(err)); got != rule.job {
					t.Errorf("status: %v, want %s", err, rule.job)
				}
				return
			}
			if !job.Expires.Equal(start.Add(24 * time.Hour)) {
				t.Errorf("expires %v", job.Expires)
			}
			var channels []string
			for _, f := range job.Files {
				channels = append(channels, string(f.Channel))
			}
			if got := told(job); got != rule.job || strings.Join(channels, " ") != rule.files {
				t.Errorf("job is %q with files %q, want %q with %q", got, channels, rule.job, rule.files)
			}
			if got := counted(r.results(job)); !slices.Equal(got, rule.want) {
				t.Errorf("%q, want %q", got, rule.want)
			}
		})
	}
}

// callRules: the error of one call that meets a fault; no kind is no error.
var callRules = []struct {
	fault string
	op    string
	kind  batch.Kind
	code  string
	wait  time.Duration
}{
	{"drop_before", "create", batch.UnknownOutcome, "", 0},
	{"drop_after", "create", batch.UnknownOutcome, "", 0},
	{"rate_limit", "create", batch.RateLimited, "rate_limit_exceeded", 20 * time.Second},
	{"rate_limit:form=date,retry_after=60", "create", batch.RateLimited, "rate_limit_exceeded", time.Minute},
	{"rate_limit:form=none", "status", batch.RateLimited, "rate_limit_exceeded", 0},
	{"insufficient_quota", "create", batch.OutOfCredit, "credit_balance_exhausted", 0},
	{"unauthorized", "create", batch.Denied, "invalid_api_key", 0},
	{"unauthorized", "content", batch.Denied, "invalid_api_key", 0},
	{"forbidden", "create", batch.Denied, "unsupported_country_region_territory", 0},
	{"bad_request", "create", batch.Rejected, "invalid_value", 0},
	{"not_found", "status", batch.NotFound, "invalid_request_error", 0},
	{"server_error:status=408", "create", batch.UnknownOutcome, "server_error", 0},
	{"server_error:status=409", "create", batch.UnknownOutcome, "server_error", 0},
	{"server_error:status=500", "create", batch.UnknownOutcome, "server_error", 0},
	{"server_error:status=503", "create", batch.UnknownOutcome, "server_error", 0},
	{"server_error:status=409", "upload", batch.Temporary, "server_error", 0},
	{"server_error:status=503", "status", batch.Temporary, "server_error", 0},
	{"server_error:status=500", "content", batch.Temporary, "server_error", 0},
	{"rate_limit:code=slow_down", "create", batch.RateLimited, "slow_down", 20 * time.Second},
	{"overloaded", "create", batch.UnknownOutcome, "server_is_overloaded", 0},
	{"overloaded", "upload", batch.Temporary, "server_is_overloaded", 0},
	{"overloaded", "list_batches", batch.Temporary, "server_is_overloaded", 0},
	{"error_text", "create", batch.UnknownOutcome, "", 0},
	{"error_text", "status", batch.Temporary, "", 0},
	{"bad_gateway", "create", batch.UnknownOutcome, "", 0},
	{"bad_gateway", "upload", batch.Temporary, "", 0},
	{"bad_gateway", "content", batch.Temporary, "", 0},
	{"empty_object", "create", batch.UnknownOutcome, "", 0},
	{"empty_object", "upload", batch.BadAnswer, "", 0},
	{"empty_object", "status", batch.BadAnswer, "", 0},
	{"redirect", "create", batch.UnknownOutcome, "", 0},
	{"redirect", "status", batch.BadAnswer, "", 0},
	{"create_file_missing", "create", batch.Temporary, openai.CodeFileNotFound, 0},
	{"content_not_found", "content", batch.NotFound, "invalid_request_error", 0},
	{"drop_before", "cancel", batch.Temporary, "", 0},
	{"drop_after", "cancel", batch.Temporary, "", 0},
	{"server_error:status=409", "cancel", "", "", 0}, // a look-up shows that the job has ended
	{"server_error:status=503", "cancel", batch.Temporary, "server_error", 0},
	{"bad_request", "cancel", "", "", 0}, // likewise
	{"not_found", "cancel", batch.NotFound, "invalid_request_error", 0},
	{"unauthorized", "cancel", batch.Denied, "invalid_api_key", 0},
	{"empty_object", "cancel", batch.BadAnswer, "", 0},
	{"redirect", "cancel", batch.BadAnswer, "", 0},
	{"answer_cut", "create", batch.UnknownOutcome, "", 0},
	{"answer_cut", "upload", batch.Temporary, "", 0},
	{"answer_cut", "status", batch.Temporary, "", 0},
	{"answer_cut", "cancel", "", "", 0}, // of a refusal, as above
	{"answer_cut", "list_batches", batch.Temporary, "", 0},
	{"answer_cut", "list_files", batch.Temporary, "", 0},
	{"rate_limit", "list_batches", batch.RateLimited, "rate_limit_exceeded", 20 * time.Second},
	{"unauthorized", "list_files", batch.Denied, "invalid_api_key", 0},
	{"bad_gateway", "list_batches", batch.Temporary, "", 0},
	{"empty_object", "list_batches", batch.BadAnswer, "", 0},
	{"empty_object", "list_files", batch.BadAnswer, "", 0},
	{"redirect", "list_files", batch.BadAnswer, "", 0},
	// A list that hides something looks like any other.
	{"listing_lag", "list_batches", "", "", 0},
	{"listing_cut", "list_batches", "", "", 0},
	{"listing_hole", "list_files", "", "", 0},
	{"short_page", "list_files", "", "", 0},
}

func TestCallRules(t *testing.T) {
	for _, rule := range callRules {
		t.Run(rule.fault+" on "+rule.op, func(t *testing.T) {
			r := newRig(t)
			file := r.upload()
			job := r.create(file)
			r.Advance(2 * time.Minute)
			job = r.status(job.ID)
			switch name, _, _ := strings.Cut(rule.fault, ":"); name {
			case "create_file_missing", "content_not_found":
				r.Faults(rule.fault)
			default:
				r.Faults(more(rule.fault, "op="+rule.op))
			}
			var err error
			switch rule.op {
			case "upload":
				_, err = r.Upload(t.Context(), r.input())
			case "create":
				_, err = r.Create(t.Context(), batch.Creation{FileID: file})
			case "status":
				_, err = r.Status(t.Context(), job.ID)
			case "content":
				_, err = r.content(job.Files[0].ID)
			case "cancel":
				err = r.Cancel(t.Context(), job.ID)
			case "list_batches":
				_, err = r.ListJobs(t.Context(), "")
			case "list_files":
				_, err = r.ListFiles(t.Context(), "")
			default:
				t.Fatalf("no call for %s", rule.op)
			}
			if rule.kind == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var e *batch.Error
			if !errors.As(err, &e) || e.Kind != rule.kind || e.Code != rule.code || e.RetryAfter != rule.wait {
				t.Errorf("%v, want %s, code %q, wait %v", err, rule.kind, rule.code, rule.wait)
			}
		})
	}
}

// delay: a client that gives up waiting does not know, and there is a job.
func TestDelayRule(t *testing.T) {
	r := newRig(t)
	file := r.upload()
	r.Faults("delay:by=1h")
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := r.Create(ctx, batch.Creation{FileID: file})
		done <- err
	}()
	for r.Jobs() == 0 {
		runtime.Gosched()
	}
	giveUp()
	if err := <-done; batch.KindOf(err) != batch.UnknownOutcome {
		t.Error(err)
	}
}

// content_cut: a cut that the announced length gives away is an error. Without
// a length it shows in the last line alone, if it falls inside of one.
func TestContentCutRule(t *testing.T) {
	r := newRig(t)
	job := r.create(r.upload())
	r.Advance(2 * time.Minute)
	file := r.status(job.ID).Files[0]
	whole, err := r.content(file.ID)
	if err != nil {
		t.Fatal(err)
	}
	r.Faults("content_cut:at=0.5")
	if part, err := r.content(file.ID); !errors.Is(err, io.ErrUnexpectedEOF) || len(part) != len(whole)/2 {
		t.Errorf("%d bytes of %d, %v", len(part), len(whole), err)
	}
	r.Faults("content_cut:at=0.5,clean=true")
	part, err := r.content(file.ID)
	if err != nil || len(part) != len(whole)/2 {
		t.Errorf("%d bytes of %d, %v", len(part), len(whole), err)
	}
	if got, want := counted(r.decode(file.Channel, part)), []string{"1 output answered", "1 output unreadable"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestEveryFaultHasARule(t *testing.T) {
	have := map[string]bool{"delay": true, "content_cut": true} // above
	add := func(faults string) {
		for _, fault := range strings.Fields(faults) {
			name, _, _ := strings.Cut(fault, ":")
			have[name] = true
		}
	}
	for _, r := range itemRules {
		add(r.fault)
	}
	for _, r := range jobRules {
		add(r.faults)
	}
	for _, r := range callRules {
		add(r.fault)
	}
	// Those of the APIs that answer one text a call are met by other clients.
	add("payment_required chat_loading chat_prose chat_whitespace chat_no_finish chat_other_model chat_context_cut short_grant")
	add("grade_missing grade_absent grade_unknown grade_twice grades_shuffled category_unknown blocklist_halted empty_text_graded quota")
	others := sandbox.MessageFaultNames() // of another API
	for _, name := range sandbox.FaultNames() {
		if !have[name] && !slices.Contains(others, name) && !strings.HasPrefix(name, "infrai_") {
			t.Errorf("no rule says what the client makes of %s", name)
		}
	}
}

// more adds a parameter to a fault.
func more(fault, param string) string {
	if strings.Contains(fault, ":") {
		return fault + "," + param
	}
	return fault + ":" + param
}

// told is a job in the words of jobRules.
func told(job batch.Job) string {
	s := string(job.Phase) + " " + job.Status
	if !job.Known {
		s += ", unknown"
	}
	for _, f := range job.Faults {
		s += fmt.Sprintf(" %d:%s", f.Line, f.Code)
	}
	return s
}

// result is a result line with the file that it came from.
type result struct {
	batch.Result
	channel batch.Channel
}

// id is the item without its attempt; a stranger's is long.
func (l result) id() string {
	id, _, _ := strings.Cut(l.CustomID, "-")
	return id
}

func (l result) String() string {
	id := l.id()
	if id == "" {
		id = "-"
	}
	return strings.TrimSpace(fmt.Sprint(l.channel, " ", id, " ", l.Outcome, " ", l.Code))
}

// counted is lines without their ids, sorted, with how often each is there.
func counted(lines []result) []string {
	n := map[string]int{}
	for _, l := range lines {
		n[strings.TrimSpace(fmt.Sprint(l.channel, " ", l.Outcome, " ", l.Code))]++
	}
	var out []string
	for what, times := range n {
		out = append(out, fmt.Sprint(times, " ", what))
	}
	slices.Sort(out)
	return out
}
