package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
)

// Classifier is the question that is asked about each text, or with Thresholds
// what is made of the scores of a processor that takes no question.
type Classifier struct {
	Name            string         `json:"name"`
	Model           string         `json:"model"`
	Instructions    string         `json:"instructions"`
	Schema          jsontext.Value `json:"schema"`
	Labels          []Label        `json:"labels"`
	MaxOutputTokens int            `json:"max_output_tokens"`
	// Temperature is not sent when it is nil.
	Temperature *float64 `json:"temperature,omitzero"`

	// What follows is left out where it is not used, so that a text without it
	// stays as it was approved.

	// Thresholds, in order of precedence: the first one that is met gives the label.
	Thresholds []Threshold `json:"thresholds,omitzero"`
	// Otherwise is the label when none is met.
	Otherwise string `json:"otherwise,omitzero"`
	// AnswersAs are other names by which answers may call the model; see batch.Classifier.Approves.
	AnswersAs []string `json:"answers_as,omitzero"`
	// Echo has each answer repeat a token of its request; see batch.EchoToken.
	Echo bool `json:"echo,omitzero"`
}

// Label is one of the classes.
type Label struct {
	Name string `json:"name"`
	// EvidenceRequired: an answer with this label must quote the text.
	EvidenceRequired bool `json:"evidence_required"`
}

// Threshold is met when a processor gives Category a score of Score or more.
type Threshold struct {
	Category string  `json:"category"` // as the processor spells it
	Score    float64 `json:"score"`    // on the processor's own scale
	Label    string  `json:"label"`
}

// Question is the classifier as a provider takes it.
func (p *Policy) Question() *batch.Classifier { return p.Classifier.question() }

func (c *Classifier) question() *batch.Classifier {
	q := &batch.Classifier{
		Name:            c.Name,
		Model:           c.Model,
		AnswersAs:       c.AnswersAs,
		Instructions:    c.Instructions,
		Schema:          c.Schema,
		MaxOutputTokens: c.MaxOutputTokens,
		Temperature:     c.Temperature,
		Otherwise:       c.Otherwise,
		Echo:            c.Echo,
	}
	for _, t := range c.Thresholds {
		q.Thresholds = append(q.Thresholds, batch.Threshold(t))
	}
	return q
}

type failFunc func(field, format string, args ...any)

func (c *Classifier) validate(fail failFunc) {
	if c.Name == "" {
		fail("classifier.name", "is missing")
	}
	if c.Model == "" || c.Model == "auto" {
		fail("classifier.model", "must name one model; a processor's own choice would be an unapproved one")
	}
	for i, name := range c.AnswersAs {
		if name == "" || batch.SafeName(name) != name || slices.Contains(c.AnswersAs[:i], name) {
			fail(fmt.Sprintf("classifier.answers_as[%d]", i), "must be a name of at most 128 letters, digits and _ - . : / @ +, once")
		}
	}
	if len(c.Labels) < 2 {
		fail("classifier.labels", "needs at least two")
	}
	var names []string
	for _, l := range c.Labels {
		if slices.Contains(names, l.Name) || l.Name == "" {
			fail("classifier.labels", "%q is empty or stands twice", l.Name)
		}
		names = append(names, l.Name)
	}
	check, err := newAnswerCheck(c)
	if err == nil {
		err = check.fits()
	}
	if err != nil {
		fail("classifier.schema", "%v", err)
	}
	if len(c.Thresholds) > 0 {
		c.validateScores(fail, check)
		return
	}
	c.validateAsked(fail)
}

// validateAsked says what is wrong with a classifier that is asked.
func (c *Classifier) validateAsked(fail failFunc) {
	if strings.TrimSpace(c.Instructions) == "" {
		fail("classifier.instructions", "is missing")
	}
	if c.MaxOutputTokens < 1 {
		fail("classifier.max_output_tokens", "must be 1 or more")
	}
	if c.Otherwise != "" {
		fail("classifier.otherwise", "says nothing without thresholds; leave it out")
	}
	if c.Echo {
		if _, err := batch.AddToken(c.Schema); err != nil {
			fail("classifier.echo", "%v", err)
		}
	}
}

// validateScores says what is wrong with a classifier whose answers are made of
// scores. check is nil when its schema cannot be used at all.
func (c *Classifier) validateScores(fail failFunc, check *answerCheck) {
	for field, used := range map[string]bool{
		"instructions": c.Instructions != "", "max_output_tokens": c.MaxOutputTokens != 0, "temperature": c.Temperature != nil, "echo": c.Echo,
	} {
		if used {
			fail("classifier."+field, "is not asked for with thresholds: a processor that gives scores takes no question; leave it out")
		}
	}
	for i, l := range c.Labels {
		if l.EvidenceRequired {
			fail(fmt.Sprintf("classifier.labels[%d].evidence_required", i), "must be false with thresholds: scores quote nothing")
		}
	}
	question := c.question()
	question.Echo = false // is told already
	if err := batch.CheckThresholds(question); err != nil {
		field, message, _ := strings.Cut(err.Error(), ": ")
		fail("classifier."+field, "%s", message)
		return
	}
	if check == nil {
		return
	}
	for met := -1; met < len(question.Thresholds); met++ {
		if err := check.takesScores(question, met); err != nil {
			fail("classifier.schema", "takes no answer that is made of scores (%v): it needs the properties label, not_assessed and flagged, lists of texts but for label, "+
				"and scores, an object of numbers, and must require no other", err)
			return
		}
	}
}

// takesScores says why the answer that is made when one of the thresholds is met,
// or with -1 none, would not be used; nil when it would.
func (a *answerCheck) takesScores(question *batch.Classifier, met int) error {
	s := batch.Scores{Scores: map[string]float64{}}
	for i, t := range question.Thresholds {
		if i == met {
			s.Scores[t.Category] = t.Score
			s.Flagged = []string{t.Category}
		} else if _, ok := s.Scores[t.Category]; !ok {
			s.Scores[t.Category] = 0
		}
	}
	content, err := s.Content()
	if err != nil {
		return err
	}
	judged := batch.Judge(question, batch.Result{Outcome: batch.Answered, Content: content})
	if judged.Outcome != batch.Answered {
		return errors.New(judged.Code)
	}
	_, err = a.read(judged.Content, func() (batch.Text, error) { return batch.Text{}, faultEvidenceNotFound })
	return err
}
