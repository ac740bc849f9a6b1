package openai

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall/batch"
	"rollcall/batch/loose"
	"rollcall/batch/transport"
)

// golden reads testdata/dir/*.json by name without the extension.
func golden(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", dir, "*.json"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no golden files in %s: %v", dir, err)
	}
	files := make(map[string][]byte, len(names))
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(name), ".json")] = b
	}
	return files
}

func TestDecodeResult(t *testing.T) {
	const id, model = "w1-s1", "gpt-4.1-mini-2025-04-14"
	// ran is a line whose body has a model and usage.
	ran := func(o batch.Outcome, code string) batch.Result {
		return batch.Result{CustomID: id, Outcome: o, Code: code, Model: model, InputTokens: 180, OutputTokens: 11}
	}
	answered := func(content string) batch.Result {
		r := ran(batch.Answered, "")
		r.Content = []byte(content)
		return r
	}
	bare := func(o batch.Outcome, code string) batch.Result {
		return batch.Result{CustomID: id, Outcome: o, Code: code}
	}
	good := `{"label":"ok","why":null}`
	tuned := answered(good)
	tuned.Model = "ft:gpt-4.1-mini-2025-04-14:acme::B1c2D3"
	want := map[string]batch.Result{
		"answered":                 answered(good),
		"answered_fine_tuned":      tuned,
		"answered_separators":      answered("{\"label\":\"ok\",\"why\":\"a\u2028b\u2029c\"}"),
		"answered_empty_refusal":   answered(good),
		"answered_error_absent":    answered(good),
		"answered_float_status":    answered(good),
		"refused":                  ran(batch.Refused, ""),
		"refused_with_content":     ran(batch.Refused, ""),
		"blocked_finish":           ran(batch.Blocked, ""),
		"blocked_400":              bare(batch.Blocked, "content_filter"),
		"blocked_inner_error":      bare(batch.Blocked, "invalid_request_error"),
		"truncated_good_json":      ran(batch.Truncated, ""),
		"truncated_null":           ran(batch.Truncated, ""),
		"shape_empty_content":      ran(batch.BadShape, ""),
		"shape_blank_content":      ran(batch.BadShape, ""),
		"shape_null_content":       ran(batch.BadShape, ""),
		"shape_content_parts":      ran(batch.BadShape, ""),
		"shape_refusal_object":     ran(batch.BadShape, ""),
		"shape_no_choice":          ran(batch.BadShape, ""),
		"shape_two_choices":        ran(batch.BadShape, ""),
		"shape_tool_calls":         ran(batch.BadShape, "tool_calls"),
		"shape_no_finish_reason":   ran(batch.BadShape, ""),
		"shape_responses_api":      {CustomID: id, Outcome: batch.BadShape, InputTokens: 90, OutputTokens: 40},
		"shape_moderation":         {CustomID: id, Outcome: batch.BadShape, Model: "omni-moderation-latest"},
		"shape_error_in_200":       bare(batch.BadShape, ""),
		"shape_body_null":          bare(batch.BadShape, ""),
		"shape_body_text":          bare(batch.BadShape, ""),
		"shape_no_status":          bare(batch.BadShape, ""),
		"shape_response_text":      bare(batch.BadShape, ""),
		"shape_status_302":         bare(batch.BadShape, ""),
		"rejected_context":         bare(batch.ItemRejected, "context_length_exceeded"),
		"rejected_type_only":       bare(batch.ItemRejected, "invalid_request_error"),
		"rejected_no_body":         bare(batch.ItemRejected, ""),
		"denied_401":               bare(batch.ItemDenied, "invalid_api_key"),
		"denied_403":               bare(batch.ItemDenied, "unsupported_country_region_territory"),
		"denied_404":               bare(batch.ItemDenied, "model_not_found"),
		"credit_429":               bare(batch.ItemOutOfCredit, "credit_balance_exhausted"),
		"credit_type":              bare(batch.ItemOutOfCredit, "insufficient_quota"),
		"credit_billing_400":       bare(batch.ItemOutOfCredit, "billing_hard_limit_reached"),
		"credit_not_run":           bare(batch.ItemOutOfCredit, "insufficient_quota"),
		"failed_429":               bare(batch.ItemFailed, "rate_limit_exceeded"),
		"failed_408":               bare(batch.ItemFailed, ""),
		"failed_409":               bare(batch.ItemFailed, ""),
		"failed_500":               bare(batch.ItemFailed, "server_error"),
		"failed_503_html":          bare(batch.ItemFailed, ""),
		"expired":                  bare(batch.Expired, "batch_expired"),
		"cancelled":                bare(batch.Cancelled, "batch_cancelled"),
		"not_run_code":             bare(batch.NotRun, "something_new"),
		"not_run_prose_code":       bare(batch.NotRun, "unprintable"),
		"not_run_nothing":          bare(batch.NotRun, ""),
		"unreadable_error_text":    bare(batch.Unreadable, ""),
		"recovered_duplicate_name": bare(batch.Unreadable, ""),
		"recovered_lone_surrogate": bare(batch.Unreadable, ""),
		"unreadable_no_id":         {Outcome: batch.Unreadable},
		"unreadable_number_id":     {Outcome: batch.Unreadable},
		"unreadable_cut":           {Outcome: batch.Unreadable},
		"unreadable_trailing":      {Outcome: batch.Unreadable},
		"unreadable_empty":         {Outcome: batch.Unreadable},
		"unreadable_null":          {Outcome: batch.Unreadable},
		"unreadable_array":         {Outcome: batch.Unreadable},
		"unreadable_bom":           {Outcome: batch.Unreadable},
		"unreadable_two_ids":       {Outcome: batch.Unreadable},
		"other_case":               {Outcome: batch.Unreadable},
	}
	lines := golden(t, "line")
	var c Client
	for name, line := range lines {
		w, ok := want[name]
		if !ok {
			t.Errorf("%s: the test does not say what it means", name)
		}
		if diff := cmp.Diff(w, c.DecodeResult(line)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if len(want) != len(lines) {
		t.Errorf("%d expectations, %d golden files", len(want), len(lines))
	}
}

func TestParseJob(t *testing.T) {
	both := []batch.ResultFile{{Channel: batch.ChannelOutput, ID: "file-out"}, {Channel: batch.ChannelError, ID: "file-err"}}
	job := func(status string, p batch.Phase) batch.Job {
		return batch.Job{ID: "batch_1", Status: status, Phase: p, Known: true}
	}
	with := func(j batch.Job, change func(*batch.Job)) batch.Job { change(&j); return j }
	want := map[string]batch.Job{
		"validating": job("validating", batch.PhaseRunning),
		"in_progress": with(job("in_progress", batch.PhaseRunning), func(j *batch.Job) {
			j.Expires = time.Unix(1790792400, 0).UTC()
			j.Counts = batch.Counts{Total: 10, Completed: 3, Failed: 1}
		}),
		"finalizing": job("finalizing", batch.PhaseRunning),
		"cancelling": job("cancelling", batch.PhaseRunning),
		"completed": with(job("completed", batch.PhaseEnded), func(j *batch.Job) {
			j.Files, j.Counts = both[:1], batch.Counts{Total: 9, Completed: 9}
		}),
		"completed_all_failed": with(job("completed", batch.PhaseEnded), func(j *batch.Job) {
			j.Files, j.Counts = both[1:], batch.Counts{Total: 9, Failed: 9}
		}),
		"completed_no_files": job("completed", batch.PhaseEnded),
		"expired": with(job("expired", batch.PhaseEnded), func(j *batch.Job) {
			j.Files, j.Counts = both, batch.Counts{Total: 10, Completed: 1}
		}),
		"cancelled": with(job("cancelled", batch.PhaseEnded), func(j *batch.Job) { j.Files = both }),
		"failed": with(job("failed", batch.PhaseInvalid), func(j *batch.Job) {
			j.Faults = []batch.Fault{{Line: 3, Code: "missing_required_parameter"}, {Code: "token_limit_exceeded"},
				{Code: CodeFileNotFound}, {Code: "unprintable"}, {}}
		}),
		// They ran, or some of them did: their answers must be fetched.
		"failed_with_output": with(job("failed", batch.PhaseEnded), func(j *batch.Job) {
			j.Files, j.Counts = both[:1], batch.Counts{Total: 3, Completed: 3}
		}),
		"failed_with_errors": with(job("failed", batch.PhaseEnded), func(j *batch.Job) { j.Files, j.Counts.Failed = both[1:], 2 }),
		"failed_no_counts":   with(job("failed", batch.PhaseEnded), func(j *batch.Job) { j.Files = both }),
		"failed_one_line":    with(job("failed", batch.PhaseEnded), func(j *batch.Job) { j.Files = both }),
		// Ids are no results: the quota was full, and nothing ran (F28).
		"failed_with_ids":   with(job("failed", batch.PhaseInvalid), func(j *batch.Job) { j.Faults = []batch.Fault{{Code: "token_limit_exceeded"}} }),
		"failed_with_count": with(job("failed", batch.PhaseEnded), func(j *batch.Job) { j.Counts = batch.Counts{Total: 3, Completed: 1} }),
		"failed_no_errors":  with(job("failed", batch.PhaseInvalid), func(j *batch.Job) { j.Faults = []batch.Fault{} }),
		"azure": with(job("Completed", batch.PhaseEnded), func(j *batch.Job) {
			j.Files, j.Expires = both, time.Date(2026, 10, 22, 7, 28, 0, 0, time.UTC)
		}),
		"unknown":     with(job("warming_up", batch.PhaseRunning), func(j *batch.Job) { j.Known = false }),
		"odd_scalars": job("in_progress", batch.PhaseRunning),
	}
	for name, body := range golden(t, "job") {
		got, told, err := parseJob(body)
		if strings.HasPrefix(name, "bad_") {
			// The id is compared by Status, where it is known.
			if err == nil && name != "bad_other_id" {
				t.Errorf("%s: accepted as %+v", name, got)
			}
			continue
		}
		w, ok := want[name]
		if !ok || err != nil || told.file != "file-in" {
			t.Errorf("%s: expected %v, error %v, input file %q", name, ok, err, told.file)
		}
		if diff := cmp.Diff(w, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzDecodeResult(f *testing.F) {
	for _, line := range golden(f, "line") {
		f.Add(line)
	}
	around(f, `{"custom_id":"w1-s1","response":{"status_code":HOLE,"body":{"error":{"code":HOLE}}},"error":HOLE}`)
	around(f, `{"custom_id":HOLE,"error":{"code":"batch_expired"}}`)
	around(f, `{"custom_id":"w1-s1","response":{"status_code":200,"body":{"object":"chat.completion","choices":[{"finish_reason":"stop","message":{"content":HOLE}}]}}}`)
	around(f, `{"custom_id":"w1-s1","response":{"status_code":200,"body":{"object":"chat.completion","choices":[{"finish_reason":"stop","message":{"content":"x","refusal":HOLE}}]}}}`)
	var c Client
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		r := c.DecodeResult(line)
		if !bytes.Equal(line, before) {
			t.Error("the line was changed")
		}
		if (r.Outcome == batch.Answered) != (len(r.Content) > 0) {
			t.Errorf("outcome %s with %d bytes of content", r.Outcome, len(r.Content))
		}
		if r.Outcome == "" || r.CustomID == "" && r.Outcome != batch.Unreadable {
			t.Errorf("outcome %q for a line without an id", r.Outcome)
		}
		if r.Code != batch.SafeCode(r.Code) || r.Model != batch.SafeName(r.Model) || r.InputTokens < 0 || r.OutputTokens < 0 {
			t.Errorf("unsafe result %+v", r)
		}
		if r.Outcome == batch.Answered {
			checkAnswered(t, line, r)
		}
		if r.Outcome == batch.Unreadable && r.CustomID != "" && !batch.ValidCustomID(r.CustomID) {
			t.Errorf("an id was guessed: %q", r.CustomID)
		}
	})
}

func FuzzParseJob(f *testing.F) {
	for _, body := range golden(f, "job") {
		f.Add(body)
	}
	around(f, `{"id":HOLE,"status":"completed","output_file_id":"file-1"}`)
	around(f, `{"id":"batch_1","status":HOLE,"output_file_id":HOLE,"expires_at":HOLE}`)
	around(f, `{"id":"batch_1","status":"failed","errors":{"data":[{"code":HOLE,"line":HOLE}]},"request_counts":{"total":HOLE}}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		job, told, err := parseJob(body)
		if err != nil {
			if err != errShape {
				t.Errorf("the answer may be quoted: %v", err)
			}
			return
		}
		if v := otherwise(t, body); member(v, "id") != job.ID || told.file != "" && member(v, "input_file_id") != told.file {
			t.Errorf("another reader finds another job than %s over %s", job.ID, told.file)
		}
		if len(job.Faults) > loose.MaxList || len(told.metadata.v) > maxMetadata || len(job.Faults) > 0 && job.Phase != batch.PhaseInvalid {
			t.Errorf("%d faults, %d pairs", len(job.Faults), len(told.metadata.v))
		}
		aTime(t, job.Expires)
		if !transport.PathSafe(job.ID) || job.Status == "" || job.Phase == "" || job.Status != batch.SafeCode(job.Status) {
			t.Errorf("unsafe job %+v", job)
		}
		if job.Phase != batch.PhaseEnded && len(job.Files) > 0 {
			t.Error("files before the end")
		}
		for _, file := range job.Files {
			if !transport.PathSafe(file.ID) {
				t.Errorf("unsafe file id %q", file.ID)
			}
		}
	})
}

func BenchmarkDecodeResult(b *testing.B) {
	line := golden(b, "line")["answered"]
	var c Client
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if c.DecodeResult(line).Outcome != batch.Answered {
			b.Fatal("not answered")
		}
	}
}
