package batch

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/go-json-experiment/json"
)

// Threshold is met when a processor gives Category a score of Score or more.
type Threshold struct {
	Category string  // as the processor spells it
	Score    float64 // its score or severity as the processor gives it
	Label    string  // the answer's label
}

// Codes of results that Judge does not accept, in the place of a provider's code.
const (
	// CodeCategoryMissing: a category that a threshold asks for has no score, so
	// that no label can be given.
	CodeCategoryMissing = "category_missing"
	// CodeScores: the content is not scores by category.
	CodeScores = "invalid_scores"
	// CodeThresholds: the classifier's thresholds are not usable; CheckThresholds
	// says why.
	CodeThresholds = "invalid_thresholds"
)

// Scores is what an adapter hands over as Content, in JSON, for a processor that
// gives scores in the place of an answer. Judge makes an answer of it.
type Scores struct {
	// Scores by category. One that the processor left out is absent, not 0.
	Scores map[string]float64 `json:"scores"`
	// Flagged are the categories that the processor itself marks, sorted. They are
	// shown, and decide nothing.
	Flagged []string `json:"flagged"`
}

// scored is the answer that is made of scores.
type scored struct {
	Label string `json:"label"`
	// NotAssessed are the labels of the schema that no category stands for: that
	// they are not given says nothing.
	NotAssessed []string `json:"not_assessed"`
	Scores
}

// Content is s as an adapter hands it over.
func (s Scores) Content() ([]byte, error) {
	s.Flagged = append([]string{}, s.Flagged...) // null would be no list
	slices.Sort(s.Flagged)
	return json.Marshal(s, json.Deterministic(true))
}

// CheckThresholds says what keeps the thresholds of c from giving an answer; nil
// when nothing does. Its text names fields and labels of the classifier.
func CheckThresholds(c *Classifier) error {
	if len(c.Thresholds) == 0 {
		return errors.New("thresholds: this processor gives scores; write at least one threshold")
	}
	labels, err := schemaLabels(c.Schema)
	if err != nil {
		return err
	}
	known := func(label string) bool { return slices.Contains(labels, label) }
	if !known(c.Otherwise) {
		return fmt.Errorf("otherwise: %q is no label of the schema; write the label of a text that meets no threshold", c.Otherwise)
	}
	least := map[string]float64{}
	for i, t := range c.Thresholds {
		before, again := least[t.Category]
		switch {
		case t.Category == "":
			return fmt.Errorf("thresholds[%d].category: is missing", i)
		case !(t.Score > 0) || math.IsInf(t.Score, 0): // NaN is not > 0
			return fmt.Errorf("thresholds[%d].score: must be a number above 0; everything meets a lower one", i)
		case !known(t.Label):
			return fmt.Errorf("thresholds[%d].label: %q is no label of the schema", i, t.Label)
		case again && t.Score >= before:
			return fmt.Errorf("thresholds[%d].score: is never looked at, because an earlier one of %q is as low or lower", i, t.Category)
		}
		least[t.Category] = t.Score
	}
	return nil
}

// schemaLabels are the values that the schema permits for the property label.
func schemaLabels(schema []byte) ([]string, error) {
	var s struct {
		Properties struct {
			Label struct {
				Enum []string `json:"enum"`
			} `json:"label"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(schema, &s); err != nil || len(s.Properties.Label.Enum) == 0 {
		return nil, errors.New("schema: properties.label.enum must list the labels as texts")
	}
	return s.Properties.Label.Enum, nil
}

// Judge reads an answer in the light of its question: it checks and takes off
// the token of a classifier with Echo, and turns scores into a label by the
// classifier's thresholds. It is a pure function of its arguments, is called once
// for a result, and leaves every other result as it is. What comes out as
// Answered still has to pass the classifier's schema.
func Judge(c *Classifier, r Result) Result {
	if r.Outcome == Answered && c.Echo {
		r = judgeToken(r)
	}
	if r.Outcome == Answered && len(c.Thresholds) > 0 {
		r = judgeScores(c, r)
	}
	return r
}

// judgeScores gives the label of the first threshold that is met. All of the
// categories must be there: a label that was reached past a category without a
// score would claim that the score is low.
func judgeScores(c *Classifier, r Result) Result {
	labels, err := schemaLabels(c.Schema)
	if err != nil || CheckThresholds(c) != nil {
		return spoilt(r, CodeThresholds)
	}
	var s Scores
	if json.Unmarshal(r.Content, &s, json.RejectUnknownMembers(true)) != nil || len(s.Scores) == 0 {
		return spoilt(r, CodeScores)
	}
	out := scored{Label: c.Otherwise, NotAssessed: []string{}, Scores: s}
	assessed, met := []string{c.Otherwise}, false
	for _, t := range c.Thresholds {
		score, ok := s.Scores[t.Category]
		if !ok {
			return spoilt(r, CodeCategoryMissing)
		}
		if score >= t.Score && !met {
			out.Label, met = t.Label, true
		}
		assessed = append(assessed, t.Label)
	}
	for _, l := range labels {
		if !slices.Contains(assessed, l) {
			out.NotAssessed = append(out.NotAssessed, l)
		}
	}
	if r.Content, err = json.Marshal(out, json.Deterministic(true)); err != nil {
		return spoilt(r, CodeScores)
	}
	return r
}

// spoilt is r as an answer that cannot be used.
func spoilt(r Result, code string) Result {
	r.Outcome, r.Code, r.Content = BadShape, code, nil
	return r
}
