package batchtest

import "rollcall/batch"

// question is the subject's, or the suite's own.
func (h *harness) question() *batch.Classifier {
	if h.Subject.Question != nil {
		return h.Subject.Question
	}
	return classifier
}
