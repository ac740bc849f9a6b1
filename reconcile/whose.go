package reconcile

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"

	"rollcall/batch"
)

// whose is what the results of a job say about its origin.
type whose int

const (
	resultsNone   whose = iota // no line that tells
	resultsOurs                // most lines are of the submission
	resultsOthers              // no line is of the submission
	resultsMixed               // some lines are of the submission, and as many or more of something else
)

// whoseResults reads the result files of an ended job and says whether their
// custom ids are those of a submission. A stray line or two do not make its job
// somebody else's, nor somebody else's job its: where its lines are not the most,
// nothing is decided. Nothing of them is kept.
func (r *Reconciler) whoseResults(ctx context.Context, account batch.Provider, job batch.Job, submissionID string) (whose, error) {
	ours, others := 0, 0
	for _, f := range job.Files {
		body, _, err := account.Download(ctx, f.ID)
		if err != nil {
			return resultsNone, err
		}
		o, t, err := r.whoseLines(io.LimitReader(body, r.Settings.SetBytes), account, submissionID)
		if err := errors.Join(err, body.Close()); err != nil {
			return resultsNone, &batch.Error{Op: "download", Kind: batch.Temporary}
		}
		ours, others = ours+o, others+t
	}
	switch {
	case ours+others == 0:
		return resultsNone, nil
	case ours > others:
		return resultsOurs, nil
	case ours > 0:
		return resultsMixed, nil
	}
	return resultsOthers, nil
}

// whoseLines counts the lines of a submission, and those of anything else.
func (r *Reconciler) whoseLines(body io.Reader, account batch.Provider, submissionID string) (ours, others int, err error) {
	lines := newLineReader(body, r.Settings.LineBytes, sha256.New) // a digest that nobody reads
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return ours, others, nil
		}
		if err != nil {
			return 0, 0, err
		}
		if line.long {
			continue // it tells nothing
		}
		switch id := account.DecodeResult(line.body).CustomID; {
		case id == "":
		case strings.HasSuffix(id, "-"+submissionID):
			ours++
		default:
			others++
		}
	}
}
