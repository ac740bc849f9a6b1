package sandbox_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

var messageRequestFaults = []struct {
	fault  string
	status int
	class  any
	code   any
	header string // that is there, or not after a "-"
}{
	{"too_large:form=json", 413, "request_too_large", nil, "-Request-Id"},
	{"too_large", 413, nil, nil, "-Request-Id"},
	{"spend_limit", 429, "rate_limit_error", "enforced_spend_limit_reached", "-Retry-After"},
	{"spend_limit:form=own", 400, "invalid_request_error", nil, ""},
	{"spend_limit:form=billing", 402, "billing_error", nil, ""},
	{"insufficient_quota", 429, "rate_limit_error", "enforced_spend_limit_reached", "-Retry-After"},
	{"on_hold", 400, "invalid_request_error", "organization_on_hold", ""},
	{"rate_limit:retry_after=7", 429, "rate_limit_error", nil, "Retry-After"},
	{"rate_limit:form=none", 429, "rate_limit_error", nil, "-Retry-After"},
	{"unauthorized", 401, "authentication_error", nil, ""},
	{"forbidden", 403, "permission_error", nil, ""},
	{"bad_request", 400, "invalid_request_error", nil, ""},
	{"not_found:op=create", 404, "not_found_error", nil, ""},
	{"server_error:status=529", 529, "overloaded_error", nil, ""},
	{"server_error:status=504", 504, "timeout_error", nil, ""},
	{"server_error:status=500,acted=true", 500, "api_error", nil, ""},
	{"bad_gateway", 502, nil, nil, ""},
	{"redirect", 307, nil, nil, "Location"},
}

func TestMessageRequestFaults(t *testing.T) {
	r := newRig(t)
	jobs := 0
	for _, tc := range messageRequestFaults {
		t.Run(tc.fault, func(t *testing.T) {
			r.faults(tc.fault)
			a := r.ask("POST", messagesPath, threeMessages(nil))
			if a.status != tc.status || at(a.body, "error", "type") != tc.class || at(a.body, "error", "details", "error_code") != tc.code {
				t.Errorf("HTTP %d %s", a.status, a.raw)
			}
			if name, absent := strings.CutPrefix(tc.header, "-"); name != "" && (a.header.Get(name) == "") != absent {
				t.Errorf("headers %v", a.header)
			}
			if strings.Contains(tc.fault, "acted=true") {
				jobs++
			}
			if b, err := r.server.Books(); err != nil || len(b.Jobs) != jobs {
				t.Errorf("%d batches, want %d; %v", len(b.Jobs), jobs, err)
			}
		})
	}
	r.faults("too_large:form=json")
	if a := r.ask("POST", messagesPath, threeMessages(nil)); a.body["type"] != nil || a.body["request_id"] != nil {
		t.Errorf("%s", a.raw)
	}
	r.faults("other_workspace:op=create,times=1")
	if a := r.ask("POST", messagesPath, threeMessages(nil)); a.status != http.StatusOK || a.header.Get("Anthropic-Workspace-Id") != "wrkspc_of_somebody_else" {
		t.Errorf("HTTP %d %v", a.status, a.header)
	}
	for _, fault := range []string{"drop_before", "drop_after", "answer_cut"} {
		r.faults(fault)
		if _, err := r.try("POST", messagesPath, threeMessages(nil)); err == nil {
			t.Errorf("%s: an answer", fault)
		}
	}
	if b, err := r.server.Books(); err != nil || len(b.Jobs) != jobs+1+2 {
		t.Errorf("%d batches, %v", len(b.Jobs), err)
	}
}

// Faults of this API do no harm to the other.
func TestMessageFaultsAtTheOtherAPI(t *testing.T) {
	r := newRig(t)
	for _, fault := range []string{"too_large", "spend_limit", "on_hold"} {
		r.faults(fault)
		if status, out := r.call("POST", "/v1/batches", creation("file-1")); status != 400 {
			t.Errorf("%s: HTTP %d %v", fault, status, out)
		}
	}
}

func resultType(want string) func(map[string]any) bool {
	return func(m map[string]any) bool { return at(m, "result", "type") == want }
}

func erroredClass(class string, code any) func(map[string]any) bool {
	return func(m map[string]any) bool {
		return at(m, "result", "type") == "errored" && at(m, "result", "error", "type") == "error" && at(m, "result", "error", "error", "type") == class && at(m, "result", "error", "error", "details", "error_code") == code
	}
}

func stopped(reason string, category any) func(map[string]any) bool {
	return func(m map[string]any) bool {
		return at(m, "result", "type") == "succeeded" && at(m, "result", "message", "stop_reason") == reason && at(m, "result", "message", "stop_details", "category") == category
	}
}

func says(want string) func(map[string]any) bool {
	return func(m map[string]any) bool { return strings.Contains(textOfMessage(m), want) }
}

// messageItemFaults act on the request b-1 of three.
var messageItemFaults = []struct {
	fault string
	of    map[string]any
	fits  func(map[string]any) bool
}{
	{"refusal", nil, stopped("refusal", "general_harms")},
	{"content_filter", nil, stopped("refusal", "bio")},
	{"length", nil, stopped("max_tokens", nil)},
	{"stop_reason:word=pause_turn", nil, stopped("pause_turn", nil)},
	{"item_error:status=400", nil, erroredClass("invalid_request_error", nil)},
	{"item_error:status=404,code=gone", nil, erroredClass("not_found_error", "gone")},
	{"item_error:status=500", nil, erroredClass("api_error", nil)},
	{"item_class:class=overloaded_error", nil, erroredClass("overloaded_error", nil)},
	{"item_class:class=rate_limit_error,code=enforced_spend_limit_reached", nil, erroredClass("rate_limit_error", "enforced_spend_limit_reached")},
	{"off_schema", nil, says(`{"verdict":"stand-in"}`)},
	{"unknown_label", nil, says("sandbox_unknown_label")},
	{"false_evidence", nil, says("words that the sandbox made up")},
	{"label_case", nil, says(`"label":"SPAM"`)},
	{"thinking", nil, func(m map[string]any) bool {
		content, _ := at(m, "result", "message", "content").([]any)
		return len(content) == 2 && at(content[0], "type") == "thinking" && at(content[1], "type") == "text"
	}},
	{"other_model", nil, func(m map[string]any) bool { return at(m, "result", "message", "model") == "sandbox-other-model" }},
	{"two_calls", byTool, func(m map[string]any) bool {
		content, _ := at(m, "result", "message", "content").([]any)
		return len(content) == 2 && at(content[0], "name") == "say" && at(content[0], "input", "label") == "spam" && at(content[1], "type") == "tool_use"
	}},
	{"invalid_json", byTool, func(m map[string]any) bool {
		content, _ := at(m, "result", "message", "content").([]any)
		return len(content) == 1 && at(content[0], "input") != nil
	}},
	{"unknown_result", nil, resultType("sandbox_result")},
	{"line_separator", nil, func(m map[string]any) bool {
		return strings.Contains(at(m, "result", "message", "note").(string), "\u2028")
	}},
	{"long_line:bytes=5000000", nil, func(m map[string]any) bool { return len(m["padding"].(string)) > 4_000_000 }},
	{"missing_line", nil, func(m map[string]any) bool { return m == nil }},
	{"no_custom_id", nil, func(m map[string]any) bool { return m == nil }},
	{"conflicting_line", nil, erroredClass("api_error", nil)}, // the second of the two
}

func TestMessageItemFaults(t *testing.T) {
	r := newRig(t)
	for _, tc := range messageItemFaults {
		t.Run(tc.fault, func(t *testing.T) {
			sep := ":"
			if strings.Contains(tc.fault, ":") {
				sep = ","
			}
			r.faults(tc.fault + sep + "prefix=b-")
			lines := r.messageLines(threeMessages(tc.of))
			if !tc.fits(lines["b-1"]) {
				t.Errorf("%v", lines["b-1"])
			}
			for _, id := range []string{"a-1", "c-1"} {
				if at(lines[id], "result", "type") != "succeeded" || at(lines[id], "result", "message", "model") != "sandbox-stand-in" {
					t.Errorf("%s: %v", id, lines[id])
				}
			}
		})
	}
	count := func(fault string) (lines int, raw string) {
		r.faults(fault)
		id := r.newMessages(threeMessages(nil))
		r.clock.add(2 * time.Minute)
		raw = r.ask("GET", messagesPath+"/"+id+"/results", nil).raw
		return len(splitLines(raw)), raw
	}
	if n, _ := count("duplicate_line:every=3"); n != 4 {
		t.Errorf("%d lines with one twice", n)
	}
	if n, raw := count("unknown_custom_id:every=3"); n != 4 || !strings.Contains(raw, `"stranger-`) {
		t.Errorf("%d lines with a stranger", n)
	}
	if _, raw := count("malformed_line:every=3"); strings.Count(raw, "\n") != 3 || json.Valid([]byte(splitLines(raw)[0])) && json.Valid([]byte(splitLines(raw)[1])) && json.Valid([]byte(splitLines(raw)[2])) {
		t.Error("every line is JSON")
	}
	if n, raw := count("no_last_feed"); n != 3 || strings.HasSuffix(raw, "\n") || !json.Valid([]byte(splitLines(raw)[2])) {
		t.Errorf("%d lines", n)
	}
	if n, raw := count("truncated_last_line"); n != 3 || json.Valid([]byte(splitLines(raw)[2])) {
		t.Errorf("%d lines", n)
	}
	if _, raw := count("bom"); !strings.HasPrefix(raw, "\ufeff") {
		t.Error("no mark")
	}
}

var messageJobFaults = []struct {
	fault string
	fits  func(r *rig, b map[string]any, results reply) bool
}{
	{"all_failed:status=500", func(_ *rig, b map[string]any, results reply) bool {
		return at(b, "request_counts", "errored") == 3.0 && strings.Count(results.raw, `"type":"api_error"`) == 3
	}},
	{"results_lost", func(_ *rig, b map[string]any, results reply) bool {
		return b["processing_status"] == "ended" && results.status == 404
	}},
	{"unknown_status:in=completed,word=archiving", func(_ *rig, b map[string]any, results reply) bool {
		return b["processing_status"] == "archiving"
	}},
	{"cancel_midway:share=0.67", func(_ *rig, b map[string]any, results reply) bool {
		return at(b, "request_counts", "canceled") == 1.0 && at(b, "request_counts", "succeeded") == 2.0 && strings.Count(results.raw, `"type":"canceled"`) == 1
	}},
	{"content_not_found", func(_ *rig, b map[string]any, results reply) bool { return results.status == 404 }},
}

func TestMessageJobFaults(t *testing.T) {
	for _, tc := range messageJobFaults {
		t.Run(tc.fault, func(t *testing.T) {
			r := newRig(t)
			r.faults(tc.fault)
			id := r.newMessages(threeMessages(nil))
			r.clock.add(2 * time.Minute)
			b := r.messages(id)
			if results := r.ask("GET", messagesPath+"/"+id+"/results", nil); !tc.fits(r, b, results) {
				t.Errorf("%v, HTTP %d %s", b, results.status, results.raw)
			}
		})
	}
	r := newRig(t)
	r.faults("live_counts")
	id := r.newMessages(threeMessages(nil))
	r.clock.add(45 * time.Second)
	if b := r.messages(id); at(b, "request_counts", "succeeded") != 2.0 || at(b, "request_counts", "processing") != 1.0 || b["processing_status"] != "in_progress" {
		t.Errorf("%v", b)
	}
	r.faults("content_cut:at=0.5")
	r.clock.add(time.Minute)
	if _, err := r.try("GET", messagesPath+"/"+id+"/results", nil); err == nil {
		t.Error("cut results end without an error")
	}
	r.faults("content_cut:at=0.5,clean=true")
	if a := r.ask("GET", messagesPath+"/"+id+"/results", nil); a.status != 200 || len(splitLines(a.raw)) > 2 {
		t.Errorf("HTTP %d %s", a.status, a.raw)
	}
}
