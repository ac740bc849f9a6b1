package sandbox_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// itemFaults: what becomes of the third line of nine. plain is the job's output
// without faults; the other lines must be as they are there.
var itemFaults = []struct {
	fault string
	check func(t *testing.T, hit []string, all files)
}{
	{"missing_line", func(t *testing.T, hit []string, _ files) { wantCount(t, hit, 0) }},
	{"duplicate_line", func(t *testing.T, hit []string, _ files) {
		if wantCount(t, hit, 2); hit[0] != hit[1] {
			t.Error("the two differ")
		}
	}},
	{"conflicting_line", func(t *testing.T, hit []string, _ files) {
		if wantCount(t, hit, 2); hit[0] == hit[1] {
			t.Error("the two are equal")
		}
	}},
	{"unknown_custom_id", func(t *testing.T, hit []string, all files) {
		wantCount(t, hit, 1)
		if !strings.Contains(all.output, `"custom_id":"stranger-`) {
			t.Error("no stranger")
		}
	}},
	{"no_custom_id", func(t *testing.T, hit []string, all files) {
		wantCount(t, hit, 0)
		if n := len(splitLines(all.output)); n != 9 {
			t.Errorf("%d lines", n)
		}
	}},
	{"malformed_line", func(t *testing.T, hit []string, _ files) {
		if wantCount(t, hit, 1); json.Valid([]byte(hit[0])) {
			t.Error("the line is JSON")
		}
	}},
	{"long_line:bytes=20971520", func(t *testing.T, hit []string, _ files) {
		if wantCount(t, hit, 1); len(hit[0]) != 20<<20 || !json.Valid([]byte(hit[0])) {
			t.Errorf("%d bytes", len(hit[0]))
		}
	}},
	{"line_separator", func(t *testing.T, hit []string, _ files) {
		if wantCount(t, hit, 1); !strings.Contains(hit[0], "\u2028") || !strings.Contains(hit[0], "\u2029") || !json.Valid([]byte(hit[0])) {
			t.Error("no raw separator")
		}
	}},
	{"refusal", func(t *testing.T, hit []string, _ files) {
		c := answered(t, hit)
		if c.Finish != "stop" || c.Message.Content != nil || c.Message.Refusal == nil {
			t.Errorf("%+v", c)
		}
	}},
	{"length", func(t *testing.T, hit []string, _ files) {
		if c := answered(t, hit); c.Finish != "length" || c.Message.Content != nil {
			t.Errorf("%+v", c)
		}
	}},
	{"content_filter", func(t *testing.T, hit []string, _ files) {
		if c := answered(t, hit); c.Finish != "content_filter" || c.Message.Content != nil {
			t.Errorf("%+v", c)
		}
	}},
	{"off_schema", func(t *testing.T, hit []string, _ files) {
		if got := *answered(t, hit).Message.Content; got != `{"verdict":"stand-in"}` {
			t.Error(got)
		}
	}},
	{"invalid_json", func(t *testing.T, hit []string, _ files) {
		if got := *answered(t, hit).Message.Content; got == "" || json.Valid([]byte(got)) {
			t.Error(got)
		}
	}},
	{"unknown_label", func(t *testing.T, hit []string, _ files) {
		if got := *answered(t, hit).Message.Content; !strings.Contains(got, `"label":"sandbox_unknown_label"`) {
			t.Error(got)
		}
	}},
	{"false_evidence", func(t *testing.T, hit []string, _ files) {
		if got := *answered(t, hit).Message.Content; !strings.Contains(got, `"evidence":["words that the sandbox made up"]`) {
			t.Error(got)
		}
	}},
	{"duplicate_keys", func(t *testing.T, hit []string, _ files) {
		if got := *answered(t, hit).Message.Content; strings.Count(got, `"label":`) != 2 || strings.Count(got, `"spam"`) != 1 {
			t.Error(got)
		}
	}},
	{"folded_keys", func(t *testing.T, hit []string, _ files) {
		if got := *answered(t, hit).Message.Content; !strings.Contains(got, `"label":"spam"`) || !strings.Contains(got, `"LABEL":"unsafe_advice"`) {
			t.Error(got)
		}
	}},
	{"other_model", func(t *testing.T, hit []string, _ files) {
		if wantCount(t, hit, 1); !strings.Contains(hit[0], `"model":"sandbox-other-model"`) {
			t.Error(hit[0])
		}
	}},
	{"crossed_answer", func(t *testing.T, hit []string, _ files) {
		if got := *answered(t, hit).Message.Content; strings.Contains(got, "Report 2 ") || !strings.Contains(got, "Report ") {
			t.Error(got)
		}
	}},
	{"item_error:status=400", wantItemError(400, "context_length_exceeded")},
	{"item_error:status=401", wantItemError(401, "invalid_api_key")},
	{"item_error:status=429", wantItemError(429, "rate_limit_exceeded")},
	{"item_error:status=429,code=insufficient_quota", wantItemError(429, "insufficient_quota")},
	{"item_error:status=500", wantItemError(500, "")},
	{"truncated_last_line", func(t *testing.T, _ []string, all files) {
		lines := strings.Split(all.output, "\n")
		if len(lines) != 9 || json.Valid([]byte(lines[8])) || !json.Valid([]byte(lines[7])) {
			t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
		}
	}},
	{"bom", func(t *testing.T, _ []string, all files) {
		rest, ok := strings.CutPrefix(all.output, "\ufeff")
		if !ok || len(results(t, rest)) != 9 {
			t.Error("no byte order mark, or not the whole file after it")
		}
	}},
}

// files are the contents of a job's result files, "" without a file.
type files struct{ output, failure string }

func wantCount(t *testing.T, lines []string, n int) {
	t.Helper()
	if len(lines) != n {
		t.Fatalf("%d lines for the item, want %d", len(lines), n)
	}
}

type choice struct {
	Finish  string `json:"finish_reason"`
	Message struct {
		Content *string
		Refusal *string
	}
}

// answered is the answer in the one line of the item.
func answered(t *testing.T, hit []string) choice {
	t.Helper()
	wantCount(t, hit, 1)
	var l struct {
		Response struct {
			Status int `json:"status_code"`
			Body   struct{ Choices []choice }
		}
	}
	if err := json.Unmarshal([]byte(hit[0]), &l); err != nil || l.Response.Status != 200 || len(l.Response.Body.Choices) != 1 {
		t.Fatalf("line %s: %v", hit[0], err)
	}
	return l.Response.Body.Choices[0]
}

func wantItemError(status int, code string) func(*testing.T, []string, files) {
	return func(t *testing.T, hit []string, all files) {
		wantCount(t, hit, 1)
		res := results(t, all.failure)
		if len(res) != 1 || res[0].Error != nil || res[0].Response.Status != status {
			t.Fatalf("error file is %s", all.failure)
		}
		if got := res[0].Response.Body.Error.Code; (got == nil) != (code == "") || got != nil && *got != code {
			t.Errorf("code is %v", got)
		}
	}
}

const hitID = `"custom_id":"work002-s1"`

// resultsUnder runs nine lines with a fault on the third and returns the files.
func resultsUnder(t *testing.T, faults ...string) files {
	t.Helper()
	r := newRig(t)
	r.faults(faults...)
	j := r.run(inputOf(9))
	if j["status"] != "completed" || at(j, "request_counts", "total") != 9.0 {
		t.Fatalf("job is %v", j)
	}
	var all files
	if j["output_file_id"] != nil {
		all.output = r.content(j["output_file_id"])
	}
	if j["error_file_id"] != nil {
		all.failure = r.content(j["error_file_id"])
	}
	return all
}

func TestItemFaults(t *testing.T) {
	plain := splitLines(resultsUnder(t).output)
	for _, c := range itemFaults {
		t.Run(c.fault, func(t *testing.T) {
			fault := c.fault
			if fault != "bom" && fault != "truncated_last_line" {
				sep := ":"
				if strings.Contains(fault, ":") {
					sep = ","
				}
				fault += sep + "prefix=work002"
			}
			all := resultsUnder(t, fault)
			var hit []string
			lines := append(splitLines(all.output), splitLines(all.failure)...)
			for _, l := range lines {
				if strings.Contains(l, hitID) {
					hit = append(hit, l)
				}
			}
			c.check(t, hit, all)
			if c.fault == "bom" || c.fault == "truncated_last_line" {
				return
			}
			for _, l := range plain {
				if !strings.Contains(l, hitID) && !slices.Contains(lines, l) {
					t.Errorf("another line changed: %s", l)
				}
			}
		})
	}
}

func TestSelectors(t *testing.T) {
	count := func(fault string) int { return 9 - len(splitLines(resultsUnder(t, fault).output)) }
	for fault, want := range map[string]int{
		"missing_line:every=3":                9 / 3,
		"missing_line:every=3,times=2":        2,
		"missing_line:prefix=work00,every=4":  2,
		"missing_line:prefix=nobody":          0,
		"missing_line:share=0":                0,
		"missing_line:share=1,prefix=work008": 1,
	} {
		if got := count(fault); got != want {
			t.Errorf("%s: %d lines are missing, want %d", fault, got, want)
		}
	}
	r := newRig(t)
	r.faults("refusal:share=0.25,seed=3")
	refused := strings.Count(r.content(r.run(inputOf(400))["output_file_id"]), "I can't help")
	if refused < 70 || refused > 130 {
		t.Errorf("%d of 400 are refused, want about 100", refused)
	}
}

func TestFaultsCombine(t *testing.T) {
	all := resultsUnder(t, "refusal:every=3", "duplicate_line:every=3", "bom:file=both", "item_error:every=4", "truncated_last_line:file=error")
	output, ok := strings.CutPrefix(all.output, "\ufeff")
	failure, ok2 := strings.CutPrefix(all.failure, "\ufeff")
	if !ok || !ok2 || strings.Count(output, "I can't help") != 6 || len(results(t, output)) != 10 || strings.HasSuffix(failure, "\n") {
		t.Errorf("output %q, error %q", output, failure)
	}
}

func TestSeedMakesResultsReproducible(t *testing.T) {
	a, b := resultsUnder(t), resultsUnder(t)
	if a != b {
		t.Error("the same history gave other bytes")
	}
	var ids []string
	for _, l := range results(t, a.output) {
		ids = append(ids, *l.CustomID)
	}
	if slices.Sort(ids); ids[0] != "work000-s1" || len(ids) != 9 {
		t.Error(fmt.Sprint(ids))
	}
}
