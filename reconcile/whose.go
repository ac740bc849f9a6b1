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
	resultsOurs                // each line is of the submission
	resultsOthers              // some line is of something else
)

// whoseResults reads the result files of an ended job and says whether their
// custom ids are those of a submission. Nothing of them is kept.
func (r *Reconciler) whoseResults(ctx context.Context, account batch.Provider, job batch.Job, submissionID string) (whose, error) {
	verdict := resultsNone
	for _, f := range job.Files {
		body, _, err := account.Download(ctx, f.ID)
		if err != nil {
			return resultsNone, err
		}
		of, err := r.whoseLines(io.LimitReader(body, r.Settings.SetBytes), account, submissionID)
		if err := errors.Join(err, body.Close()); err != nil {
			return resultsNone, &batch.Error{Op: "download", Kind: batch.Temporary}
		}
		if of == resultsOthers {
			return of, nil
		}
		verdict = max(verdict, of)
	}
	return verdict, nil
}

func (r *Reconciler) whoseLines(body io.Reader, account batch.Provider, submissionID string) (whose, error) {
	verdict := resultsNone
	lines := newLineReader(body, r.Settings.LineBytes, sha256.New) // a digest that nobody reads
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return verdict, nil
		}
		if err != nil {
			return resultsNone, err
		}
		if line.long {
			continue // it tells nothing
		}
		id := account.DecodeResult(line.body).CustomID
		if id == "" {
			continue
		}
		if !strings.HasSuffix(id, "-"+submissionID) {
			return resultsOthers, nil
		}
		verdict = resultsOurs
	}
}
