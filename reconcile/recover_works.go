package reconcile

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"slices"

	"rollcall/batch"
)

// works reads which works a job was made of: from its request body, or, where
// that is gone or was never a file, from the results of a job that has ended.
// Nothing else is kept.
func (v *recovering) works(ctx context.Context, j batch.ListedJob, submissionID string) ([]string, error) {
	var works []string
	err := error(&batch.Error{Op: "download", Kind: batch.NotFound}) // of a body that came with its create
	if j.FileID != "" {
		works, err = v.worksIn(ctx, j.FileID, submissionID, v.inv.RequestID)
	}
	if batch.KindOf(err) != batch.NotFound || j.Phase != batch.PhaseEnded {
		return works, err
	}
	return v.worksOfResults(ctx, j, submissionID)
}

// worksOfResults reads them from the results, each once. A line that names no work
// is no request that somebody knows of: it may be damaged, or have strayed in. But
// works whose lines are cut off would be sent again, although they are answered.
func (v *recovering) worksOfResults(ctx context.Context, j batch.ListedJob, submissionID string) ([]string, error) {
	var works []string
	var damaged int64
	for _, f := range j.Files {
		more, err := v.worksIn(ctx, f.ID, submissionID, func(line []byte) (string, bool) {
			id := v.inv.DecodeResult(line).CustomID
			if id == "" {
				damaged++
			}
			return id, id != ""
		})
		if err != nil {
			return nil, err
		}
		works = append(works, more...)
	}
	slices.Sort(works)
	works = slices.DeleteFunc(slices.Compact(works), func(work string) bool { return work == "" })
	if told := j.Counts.Completed + j.Counts.Failed; int64(len(works))+damaged < told && !v.options.WithoutUnreadable {
		return nil, &batch.Error{Op: "download", Kind: batch.Temporary, Code: "fewer_lines_than_counted"}
	}
	return works, nil
}

func (v *recovering) worksIn(ctx context.Context, fileID, submissionID string, idOf func(line []byte) (string, bool)) ([]string, error) {
	body, _, err := v.inv.Download(ctx, fileID)
	if err != nil {
		return nil, err
	}
	works, err := v.readWorks(io.LimitReader(body, v.r.Settings.SetBytes), submissionID, idOf)
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, &batch.Error{Op: "download", Kind: batch.Temporary}
	}
	return works, nil
}

// maxRequestLines is more than any processor takes in one job.
const maxRequestLines = 1_000_000

func (v *recovering) readWorks(body io.Reader, submissionID string, idOf func(line []byte) (string, bool)) ([]string, error) {
	var works []string
	lines := newLineReader(body, v.r.Settings.LineBytes, sha256.New)
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return works, nil
		}
		if err != nil {
			return nil, err
		}
		if len(works) == maxRequestLines {
			return nil, errors.New("more lines than a job may have")
		}
		work := ""
		id, ok := idOf(line.body)
		if line.cut && !ok && !v.options.WithoutUnreadable {
			return nil, errTorn // the rest of it may be there at the next look
		}
		if ok && !line.long {
			// Only what may have been sent: a database takes no other string for an id.
			work, _ = workOf(id, submissionID)
		}
		works = append(works, work)
	}
}
