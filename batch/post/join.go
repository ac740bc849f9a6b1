package post

import "rollcall/batch"

// Join is what all Callers do to the results of the segments of a text: the sum
// of the tokens, and the first outcome that is not Answered, without a content.
// ok is true when each is Answered; r is then the first one but for the tokens.
// Without a segment there is no answer.
func Join(segments []batch.Result) (r batch.Result, ok bool) {
	if len(segments) == 0 {
		return batch.Result{Outcome: batch.NotRun}, false
	}
	r, ok = segments[0], true
	r.InputTokens, r.OutputTokens = 0, 0
	for _, s := range segments {
		if ok && s.Outcome != batch.Answered {
			ok = false
			r.Outcome, r.Code, r.Model, r.Content = s.Outcome, s.Code, s.Model, nil
		}
		r.InputTokens += s.InputTokens
		r.OutputTokens += s.OutputTokens
	}
	return r, ok
}
