package openai

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/loose"
)

// maxCategories bounds the categories of a moderation; 13 are documented.
const maxCategories = 100

// wireScores is the result for one text.
type wireScores struct {
	Flagged    loose.Flag `json:"flagged"`
	Categories marks      `json:"categories"`
	Scores     scores     `json:"category_scores"`
}

// marks are the categories that are true. Null is neither true nor false.
type marks struct {
	v   []string
	set bool
	odd bool
}

func (m *marks) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var err error
	m.set, err = loose.EachMember(dec, func(name string) error {
		var f loose.Flag
		if err := f.UnmarshalJSONFrom(dec); err != nil {
			return err
		}
		m.odd = m.odd || f.Odd || len(m.v) == maxCategories || !safeCategory(name)
		if f.V && !m.odd {
			m.v = append(m.v, name)
		}
		return nil
	})
	return err
}

// scores are numbers from 0 to 1 by category. One that is null was not given.
type scores struct {
	v   map[string]float64
	odd bool
}

func (s *scores) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	s.v = map[string]float64{}
	_, err := loose.EachMember(dec, func(name string) error {
		raw, err := dec.ReadValue()
		if err != nil || raw.Kind() == jsontext.KindNull {
			return err
		}
		x, err := strconv.ParseFloat(string(raw), 64)
		if raw.Kind() != jsontext.KindNumber || err != nil || x < 0 || x > 1 || len(s.v) == maxCategories || !safeCategory(name) {
			s.odd = true
			return nil
		}
		s.v[name] = x
		return nil
	})
	return err
}

// safeCategory is true for a name that may be stored and shown.
func safeCategory(name string) bool { return name != "" && batch.SafeName(name) == name }

// decodeModeration hands over the scores as batch.Scores; batch.Judge makes an
// answer of them. There is one result, because there is one text in a line.
func decodeModeration(r *batch.Result, body *wireBody) {
	r.Outcome = batch.BadShape
	result := &body.Results.V.V
	if body.Results.N != 1 || body.Error.Set || !result.Flagged.Set || !result.Categories.set || result.Categories.odd ||
		result.Scores.odd || len(result.Scores.v) == 0 {
		return
	}
	content, err := batch.Scores{Scores: result.Scores.v, Flagged: result.Categories.v}.Content()
	if err != nil {
		return
	}
	r.Outcome, r.Content = batch.Answered, content
}
