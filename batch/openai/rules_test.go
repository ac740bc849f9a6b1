package openai_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/openai"
)

// endpointRules: what the client and batch.Judge make of the second of three
// lines at an endpoint, when it alone is struck.
var endpointRules = []struct {
	endpoint openai.Endpoint
	echo     bool
	fault    string
	want     string // outcome and code
}{
	{openai.EndpointResponses, false, "refusal", "refused"},
	{openai.EndpointResponses, false, "length", "truncated"},
	{openai.EndpointResponses, false, "content_filter", "blocked"},
	{openai.EndpointResponses, false, "response_failed", "failed server_error"},
	{openai.EndpointResponses, false, "response_failed:code=data_residency_mismatch", "denied data_residency_mismatch"},
	{openai.EndpointResponses, false, "item_error:status=429", "failed rate_limit_exceeded"},
	{openai.EndpointResponses, false, "off_schema", "answered"},
	{openai.EndpointModerations, false, "category_missing", "bad_shape category_missing"},
	{openai.EndpointModerations, false, "category_missing:category=violence", "answered"}, // no threshold asks for it
	{openai.EndpointModerations, false, "item_error:status=500", "failed server_error"},

	// An answer to another text is taken for one to this, unless it has to repeat
	// a token.
	{openai.EndpointChat, false, "crossed_answer", "answered"},
	{openai.EndpointChat, true, "crossed_answer", "bad_shape crossed_answer"},
	{openai.EndpointResponses, true, "crossed_answer", "bad_shape crossed_answer"},
	{openai.EndpointChat, true, "off_schema", "bad_shape crossed_answer"},
	{openai.EndpointChat, true, "invalid_json", "bad_shape invalid_json"},
	{openai.EndpointChat, true, "unknown_label", "answered"},
	{openai.EndpointChat, true, "refusal", "refused"},
}

func TestEndpointRules(t *testing.T) {
	for _, rule := range endpointRules {
		t.Run(strings.Join([]string{string(rule.endpoint), rule.fault, rule.want}, " "), func(t *testing.T) {
			r := newRig(t, func(c *openai.Config) { c.Endpoint = rule.endpoint })
			if r.question.Echo = rule.echo; rule.endpoint == openai.EndpointModerations {
				r.question = scoreQuestion()
			}
			r.Faults(more(rule.fault, "prefix=w2-"))
			job := r.create(r.upload())
			r.Advance(2 * time.Minute)
			seen := 0
			for _, l := range r.results(r.status(job.ID)) {
				got, want := batch.Judge(r.question, l.Result), "answered"
				if seen++; l.id() == "w2" {
					want = rule.want
				}
				if told := strings.TrimSpace(string(got.Outcome) + " " + got.Code); told != want {
					t.Errorf("%s is %q, want %q", l.id(), told, want)
				}
				if got.Outcome == batch.Answered && !answers(got.Content) && (l.id() != "w2" || rule.fault != "off_schema") {
					t.Errorf("%s: content %s", l.id(), got.Content)
				}
			}
			if seen != 3 {
				t.Errorf("%d lines", seen)
			}
		})
	}
}

// answers is whether content is an answer without a token.
func answers(content []byte) bool {
	var a map[string]any
	err := json.Unmarshal(content, &a)
	_, token := a["token"]
	return err == nil && !token && a["label"] != nil
}

// What no category stands for is named, and not claimed to be absent.
func TestModerationIsJudged(t *testing.T) {
	r := newRig(t, func(c *openai.Config) { c.Endpoint = openai.EndpointModerations })
	r.question = scoreQuestion()
	job := r.create(r.upload())
	r.Advance(2 * time.Minute)
	for _, l := range r.results(r.status(job.ID)) {
		var a struct {
			Label       string
			NotAssessed []string `json:"not_assessed"`
			Scores      map[string]float64
			Flagged     []string
		}
		if err := json.Unmarshal(batch.Judge(r.question, l.Result).Content, &a); err != nil {
			t.Fatal(err)
		}
		// The text is spam, for which there is no category.
		if a.Label != "ok" || !slices.Equal(a.NotAssessed, []string{"unsafe_advice", "spam"}) || len(a.Scores) != 13 || len(a.Flagged) != 0 {
			t.Errorf("%+v", a)
		}
	}
}

// An answer of another model can be told (with batch.SameModel).
func TestOtherModelShows(t *testing.T) {
	r := newRig(t)
	r.question.Model = "sandbox-stand-in"
	r.Faults("other_model:model=gpt-4.1-nano-2025-04-14,prefix=w2-")
	job := r.create(r.upload())
	r.Advance(2 * time.Minute)
	for _, l := range r.results(r.status(job.ID)) {
		if same := batch.SameModel(r.question.Model, l.Model); same != (l.id() != "w2") {
			t.Errorf("%s: model %s is the same: %v", l.id(), l.Model, same)
		}
	}
}
