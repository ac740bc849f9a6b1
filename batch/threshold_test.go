package batch_test

import (
	"math"
	"strings"
	"testing"

	"rollcall/batch"
)

// scorer is a question for a processor of scores, which has no category for spam.
func scorer() *batch.Classifier {
	return &batch.Classifier{
		Schema: []byte(`{"properties":{"label":{"enum":["self_harm","harassment","spam","ok"]}}}`),
		Thresholds: []batch.Threshold{
			{Category: "self-harm", Score: 0.5, Label: "self_harm"},
			{Category: "hate", Score: 0.9, Label: "harassment"},
			{Category: "self-harm", Score: 0.2, Label: "harassment"},
		},
		Otherwise: "ok",
	}
}

func scores(t *testing.T, s map[string]float64, flagged ...string) batch.Result {
	t.Helper()
	content, err := batch.Scores{Scores: s, Flagged: flagged}.Content()
	if err != nil {
		t.Fatal(err)
	}
	return batch.Result{CustomID: "w1-s1", Outcome: batch.Answered, Content: content}
}

// The first threshold that is met gives the label, and a label that no category
// stands for is named as one that was not looked at.
func TestJudgeScores(t *testing.T) {
	for _, tc := range []struct {
		self, hate float64
		label      string
	}{
		{0.5, 1, "self_harm"}, {0.49, 0.9, "harassment"}, {0.2, 0, "harassment"}, {0.19, 0.89, "ok"}, {0, 0, "ok"},
	} {
		got := batch.Judge(scorer(), scores(t, map[string]float64{"self-harm": tc.self, "hate": tc.hate, "violence": 1}, "violence", "hate"))
		if got.Outcome != batch.Answered || !strings.HasPrefix(string(got.Content), `{"label":"`+tc.label+`","not_assessed":["spam"],"scores":{"hate":`) ||
			!strings.HasSuffix(string(got.Content), `"violence":1},"flagged":["hate","violence"]}`) {
			t.Errorf("%+v: %s, %s", tc, got.Outcome, got.Content)
		}
	}
}

// What was not scored is never claimed: neither by a label nor by its absence.
func TestJudgeMissingScores(t *testing.T) {
	for content, code := range map[string]string{
		`{"scores":{"self-harm":1},"flagged":[]}`:      batch.CodeCategoryMissing, // although a threshold is met
		`{"scores":{"hate":0,"Self-Harm":1}}`:          batch.CodeCategoryMissing,
		`{"scores":{}}`:                                batch.CodeScores,
		`{"scores":null}`:                              batch.CodeScores,
		`{"scores":{"hate":"1","self-harm":0}}`:        batch.CodeScores,
		`{"scores":{"hate":1,"hate":0,"self-harm":0}}`: batch.CodeScores,
		`{"label":"ok"}`:                               batch.CodeScores,
		`ok`:                                           batch.CodeScores,
	} {
		got := batch.Judge(scorer(), batch.Result{Outcome: batch.Answered, Content: []byte(content)})
		if got.Outcome != batch.BadShape || got.Code != code || got.Content != nil {
			t.Errorf("%s: %+v with %s", content, got, got.Content)
		}
	}
	broken := scorer()
	broken.Otherwise = ""
	if got := batch.Judge(broken, scores(t, map[string]float64{"self-harm": 0, "hate": 0})); got.Outcome != batch.BadShape || got.Code != batch.CodeThresholds {
		t.Errorf("without a label for the rest: %+v", got)
	}
	failed := batch.Result{CustomID: "w1-s1", Outcome: batch.ItemFailed, Code: "server_error"}
	if got := batch.Judge(scorer(), failed); got.Outcome != batch.ItemFailed || got.Code != "server_error" {
		t.Errorf("a failure became %+v", got)
	}
}

func TestCheckThresholds(t *testing.T) {
	if err := batch.CheckThresholds(scorer()); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*batch.Classifier){
		"at least one":                       func(c *batch.Classifier) { c.Thresholds = nil },
		"properties.label.enum":              func(c *batch.Classifier) { c.Schema = []byte(`{"properties":{"label":{"enum":[1]}}}`) },
		`otherwise: "" is no label`:          func(c *batch.Classifier) { c.Otherwise = "" },
		`otherwise: "fine" is no label`:      func(c *batch.Classifier) { c.Otherwise = "fine" },
		"thresholds[0].category: is missing": func(c *batch.Classifier) { c.Thresholds[0].Category = "" },
		"thresholds[1].score: must be":       func(c *batch.Classifier) { c.Thresholds[1].Score = math.NaN() },
		"thresholds[0].score: must be":       func(c *batch.Classifier) { c.Thresholds[0].Score = 0 },
		"thresholds[2].score: must be":       func(c *batch.Classifier) { c.Thresholds[2].Score = math.Inf(1) },
		`thresholds[1].label: "hate"`:        func(c *batch.Classifier) { c.Thresholds[1].Label = "hate" },
		"thresholds[2].score: is never":      func(c *batch.Classifier) { c.Thresholds[2].Score = 0.5 },
	} {
		c := scorer()
		change(c)
		if err := batch.CheckThresholds(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
