package contentsafety

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/post"
)

// wireAnswer is an answer, and wireGrade an element of it. Their order is not
// promised, the names are open to new ones, and severity is not required.
type wireAnswer struct {
	Blocklists jsontext.Value `json:"blocklistsMatch"`
	Categories jsontext.Value `json:"categoriesAnalysis"`
}

type wireGrade struct {
	Category jsontext.Value `json:"category"`
	Severity jsontext.Value `json:"severity"`
}

// decode is the Result of an answer with status 200. It is BadShape when not one
// category was graded, so that nothing can be taken for a clean grade.
func decode(body []byte) batch.Result {
	scores, code := grade(body)
	if code != "" {
		return batch.Result{Outcome: batch.BadShape, Code: code}
	}
	return answered(batch.Result{}, scores)
}

// answered is r with severities as its answer.
func answered(r batch.Result, scores map[string]float64) batch.Result {
	if len(scores) == 0 {
		r.Outcome, r.Code = batch.BadShape, batch.CodeCategoryMissing
		return r
	}
	content, err := batch.Scores{Scores: scores}.Content()
	if err != nil {
		panic("contentsafety: severities cannot be written as JSON")
	}
	r.Outcome, r.Content = batch.Answered, content
	return r
}

// grade reads the severities by category, of the categories that were graded;
// and a code when it is no answer to what was asked.
func grade(body []byte) (scores map[string]float64, code string) {
	var w wireAnswer
	if json.Unmarshal(body, &w) != nil || w.Categories.Kind() != jsontext.KindBeginArray {
		return nil, batch.CodeScores
	}
	if !post.Absent(w.Blocklists) {
		var hits []jsontext.Value
		if json.Unmarshal(w.Blocklists, &hits) != nil || len(hits) > 0 {
			return nil, CodeBlocklist
		}
	}
	var all []jsontext.Value
	if json.Unmarshal(w.Categories, &all) != nil {
		return nil, batch.CodeScores
	}
	scores = map[string]float64{}
	seen := map[string]bool{}
	for _, raw := range all {
		var g wireGrade
		if raw.Kind() != jsontext.KindBeginObject || json.Unmarshal(raw, &g) != nil {
			continue
		}
		category, ok := post.Text(g.Category)
		if !ok || !slices.Contains(categories, category) {
			continue
		}
		severity, ok := post.Whole(g.Severity)
		switch {
		case seen[category]: // two grades are none
			delete(scores, category)
		case ok && severity >= 0 && severity <= MaxSeverity:
			scores[category] = float64(severity)
		}
		seen[category] = true
	}
	return scores, ""
}

// Join takes the highest severity of each category. One that was not graded in
// some segment was not graded in the text.
func (c *Client) Join(_ *batch.Classifier, segments []batch.Result) batch.Result {
	r, ok := post.Join(segments)
	if !ok || len(segments) == 1 {
		return r
	}
	var highest map[string]float64
	for i, s := range segments {
		var scored batch.Scores
		if json.Unmarshal(s.Content, &scored, json.RejectUnknownMembers(true)) != nil {
			r.Outcome, r.Code, r.Content = batch.BadShape, batch.CodeScores, nil
			return r
		}
		if i == 0 {
			highest = scored.Scores
			continue
		}
		for category, score := range highest {
			if other, ok := scored.Scores[category]; ok {
				highest[category] = max(score, other)
			} else {
				delete(highest, category)
			}
		}
	}
	r.Content = nil
	return answered(r, highest)
}
