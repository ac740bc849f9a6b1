package anthropic_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/anthropic"
)

// of gives the results with an id.
func of(results []batch.Result, id string) (out []batch.Result) {
	for _, r := range results {
		if r.CustomID == id {
			out = append(out, r)
		}
	}
	return out
}

// What becomes of an item that meets a fault; the others are answered.
func TestItemOutcomes(t *testing.T) {
	for fault, want := range map[string]struct {
		outcome batch.Outcome
		code    string
	}{
		"refusal":                        {batch.Refused, "general_harms"},
		"content_filter":                 {batch.Refused, "bio"},
		"length":                         {batch.Truncated, "max_tokens"},
		"stop_reason:word=max_tokens":    {batch.Truncated, "max_tokens"}, // and it looks whole
		"stop_reason:word=refusal":       {batch.Refused, ""},
		"stop_reason:word=pause_turn":    {batch.BadShape, "pause_turn"},
		"stop_reason:word=stop_sequence": {batch.BadShape, "stop_sequence"},
		"stop_reason:word=model_context_window_exceeded":                      {batch.Truncated, "model_context_window_exceeded"},
		"stop_reason:word=a_new_one":                                          {batch.BadShape, "a_new_one"},
		"item_class:class=invalid_request_error":                              {batch.ItemRejected, "invalid_request_error"},
		"item_class:class=not_found_error":                                    {batch.ItemDenied, "not_found_error"},
		"item_class:class=permission_error":                                   {batch.ItemDenied, "permission_error"},
		"item_class:class=authentication_error":                               {batch.ItemDenied, "authentication_error"},
		"item_class:class=billing_error":                                      {batch.ItemOutOfCredit, "billing_error"},
		"item_class:class=api_error":                                          {batch.ItemFailed, "api_error"},
		"item_class:class=overloaded_error":                                   {batch.ItemFailed, "overloaded_error"},
		"item_class:class=rate_limit_error":                                   {batch.ItemFailed, "rate_limit_error"},
		"item_class:class=timeout_error":                                      {batch.ItemFailed, "timeout_error"},
		"item_class:class=a_new_one":                                          {batch.ItemRejected, "a_new_one"},
		"item_class:class=rate_limit_error,code=enforced_spend_limit_reached": {batch.ItemOutOfCredit, "enforced_spend_limit_reached"},
		"item_class:class=invalid_request_error,code=organization_on_hold":    {batch.ItemDenied, "organization_on_hold"},
		"unknown_result":                                                      {batch.Unreadable, "sandbox_result"},
		"thinking":                                                            {batch.Answered, ""},
		"label_case":                                                          {batch.Answered, ""},
		"off_schema":                                                          {batch.Answered, ""}, // which is for others to judge
	} {
		t.Run(fault, func(t *testing.T) {
			for name, change := range map[string]func(*anthropic.Config){"json_schema": func(*anthropic.Config) {}, "tool": newer} {
				r := newRig(t, change)
				sep := ":"
				if strings.Contains(fault, ":") {
					sep = ","
				}
				r.Faults(fault + sep + "prefix=w2-")
				results := r.results()
				hit := of(results, items[1])
				if len(hit) != 1 || hit[0].Outcome != want.outcome || hit[0].Code != want.code || (want.outcome == batch.Answered) != (len(hit[0].Content) > 0) {
					t.Errorf("%s: %+v", name, hit)
				}
				for _, id := range []string{items[0], items[2]} {
					if got := of(results, id); len(got) != 1 || got[0].Outcome != batch.Answered || got[0].Model != "sandbox-stand-in" ||
						!strings.HasPrefix(string(got[0].Content), `{"label":"spam","evidence":["`) || got[0].InputTokens == 0 || got[0].OutputTokens == 0 {
						t.Errorf("%s: %+v", name, got)
					}
				}
			}
		})
	}
}

// Two calls of the tool are no answer: which of them would be the one?
func TestTwoCallsAreNoAnswer(t *testing.T) {
	r := newRig(t, newer)
	r.Faults("two_calls:prefix=w2-")
	if got := of(r.results(), items[1]); len(got) != 1 || got[0].Outcome != batch.BadShape || got[0].Code != "tool_use" || got[0].Content != nil {
		t.Errorf("%+v", got)
	}
}

// Another model than was asked for is shown as what it says it is.
func TestOtherModelIsShown(t *testing.T) {
	r := newRig(t)
	r.Faults("other_model:prefix=w2-")
	if got := of(r.results(), items[1]); len(got) != 1 || got[0].Model != "sandbox-other-model" {
		t.Errorf("%+v", got)
	}
}

// F31 to F35: lines that are too many, too few, of others, and none.
func TestF31F35OddLines(t *testing.T) {
	for fault, want := range map[string]map[string]int{
		"duplicate_line:prefix=w2-":          {items[0]: 1, items[1]: 2, items[2]: 1},
		"conflicting_line:prefix=w2-":        {items[0]: 1, items[1]: 2, items[2]: 1},
		"missing_line:prefix=w2-":            {items[0]: 1, items[2]: 1},
		"malformed_line:prefix=w2-":          {items[0]: 1, "": 1, items[2]: 1},
		"no_custom_id:prefix=w2-":            {items[0]: 1, "": 1, items[2]: 1},
		"no_last_feed":                       {items[0]: 1, items[1]: 1, items[2]: 1},
		"line_separator":                     {items[0]: 1, items[1]: 1, items[2]: 1},
		"long_line:bytes=5000000,prefix=w2-": {items[0]: 1, items[1]: 1, items[2]: 1},
	} {
		t.Run(fault, func(t *testing.T) {
			r := newRig(t)
			r.Faults(fault)
			got := map[string]int{}
			for _, res := range r.results() {
				got[res.CustomID]++
				if res.CustomID == "" && res.Outcome != batch.Unreadable {
					t.Errorf("%+v", res)
				}
			}
			for id, n := range want {
				if got[id] != n {
					t.Errorf("%v, want %v", got, want)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
	r := newRig(t)
	r.Faults("unknown_custom_id:prefix=w2-")
	results := r.results()
	if len(results) != 4 || !slices.ContainsFunc(results, func(r batch.Result) bool { return strings.HasPrefix(r.CustomID, "stranger-") }) {
		t.Errorf("%+v", results)
	}
}

// F27: a batch that expired, or was cancelled, has the results of what was done.
func TestF27PartOfABatch(t *testing.T) {
	r := newRig(t)
	r.Faults("expire:share=0.67,times=1")
	expires := r.create()
	r.Faults("cancel_midway:share=0.67,times=1")
	cancelled := r.create()
	r.Faults("all_failed:status=500,times=1")
	failed := r.create()
	r.Advance(24 * time.Hour)
	for id, want := range map[string]map[batch.Outcome]int{
		expires.ID:   {batch.Answered: 2, batch.Expired: 1},
		cancelled.ID: {batch.Answered: 2, batch.Cancelled: 1},
		failed.ID:    {batch.ItemFailed: 3},
	} {
		job := r.status(id)
		raw, err := r.content(job.Files[0].ID)
		if err != nil || job.Phase != batch.PhaseEnded || job.Counts.Total != 3 || job.Counts.Completed != int64(want[batch.Answered]) || job.Counts.Failed != 3-job.Counts.Completed {
			t.Fatalf("%+v, %v", job, err)
		}
		got := map[batch.Outcome]int{}
		for line := range bytes.Lines(raw) {
			got[r.DecodeResult(bytes.TrimSpace(line)).Outcome]++
		}
		for o, n := range want {
			if got[o] != n {
				t.Errorf("%v, want %v", got, want)
			}
		}
	}
}

// F37: results go 29 days after the batch was made, not after it ended.
func TestF37ArchivedResults(t *testing.T) {
	r := newRig(t)
	job := r.create()
	r.Advance(r.Capabilities().ResultsFor - time.Second)
	if _, err := r.content(job.ID); err != nil {
		t.Errorf("a second before: %v", err)
	}
	r.Advance(time.Second)
	_, err := r.content(job.ID)
	if batch.KindOf(err) != batch.NotFound {
		t.Errorf("%v", err)
	}
	discreet(t, err)
	if got := r.status(job.ID); got.Phase != batch.PhaseEnded || len(got.Files) != 1 {
		t.Errorf("%+v", got)
	}
}

// F29: results that are cut are known to be, or lack a line.
func TestF29TornResults(t *testing.T) {
	r := newRig(t)
	job := r.create()
	r.Advance(2 * time.Minute)
	whole, err := r.content(job.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"0", "0.1", "0.5", "0.99"} {
		r.Faults("content_cut:times=1,at=" + at)
		part, err := r.content(job.ID)
		if !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.HasPrefix(whole, part) {
			t.Errorf("cut at %s: %d bytes, %v", at, len(part), err)
		}
	}
	r.Faults("content_cut:times=1,at=0.5,clean=true")
	part, err := r.content(job.ID)
	if err != nil || len(part) >= len(whole) {
		t.Errorf("a clean cut: %d of %d bytes, %v", len(part), len(whole), err)
	}
	read := 0
	for line := range bytes.Lines(part) {
		if r.DecodeResult(bytes.TrimSuffix(line, []byte("\n"))).Outcome == batch.Answered {
			read++
		}
	}
	if read >= len(items) {
		t.Errorf("%d answers in a part", read)
	}
	if again, err := r.content(job.ID); err != nil || !bytes.Equal(again, whole) {
		t.Errorf("again: %d of %d bytes, %v", len(again), len(whole), err)
	}
}
