package openai

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"rollcall/batch"
	"rollcall/batch/line"
	"rollcall/batch/transport"
)

const (
	jobsPage  = 100   // the most that the list of jobs gives
	filesPage = 1_000 // of 10,000; so that a page is small
)

// ListJobs gives a page of the project's jobs. That the newest come first is
// what is observed; the API promises no order.
func (c *Client) ListJobs(ctx context.Context, after string) (batch.JobPage, error) {
	page := listing[wireJob, batch.ListedJob]{Data: entries[wireJob, batch.ListedJob]{read: listedJob}}
	next, err := c.list(ctx, "list jobs", "/batches", url.Values{}, after, jobsPage, &page)
	if err != nil {
		return batch.JobPage{}, err
	}
	return batch.JobPage{Jobs: page.Data.v, Next: next}, nil
}

// listedJob leaves out an input file whose id no file of ours can have: it is
// somebody else's. One that is no string could be anybody's.
func listedJob(w *wireJob) (id string, l batch.ListedJob, shown bool, err error) {
	job, _, err := jobOf(w)
	if err != nil || w.InputFileID.Odd {
		return "", batch.ListedJob{}, false, errShape
	}
	l = batch.ListedJob{Job: job, Created: w.CreatedAt.T}
	if transport.PathSafe(w.InputFileID.V) {
		l.FileID = w.InputFileID.V
	}
	for k, v := range w.Metadata.v {
		if !v.Set {
			continue
		}
		if l.Metadata == nil {
			l.Metadata = make(map[string]string, len(w.Metadata.v))
		}
		l.Metadata[k] = v.V
	}
	return job.ID, l, true, nil
}

// ListFiles gives a page of the project's input files.
func (c *Client) ListFiles(ctx context.Context, after string) (batch.FilePage, error) {
	page := listing[wireFile, batch.ListedFile]{Data: entries[wireFile, batch.ListedFile]{read: listedFile}}
	query := url.Values{"purpose": {"batch"}, "order": {"desc"}}
	next, err := c.list(ctx, "list files", "/files", query, after, filesPage, &page)
	if err != nil {
		return batch.FilePage{}, err
	}
	return batch.FilePage{Files: page.Data.v, Next: next}, nil
}

// listedFile shows no file of another purpose, for a server that does not
// select by it.
func listedFile(w *wireFile) (id string, l batch.ListedFile, shown bool, err error) {
	if !transport.PathSafe(w.ID.V) || w.Purpose.Odd {
		return "", batch.ListedFile{}, false, errShape
	}
	l = batch.ListedFile{ID: w.ID.V, Bytes: max(w.Bytes.V, 0), Created: w.CreatedAt.T}
	if name := w.Filename.V; safeName(name) {
		l.Name = name
	}
	return l.ID, l, w.Purpose.V == "" || w.Purpose.V == "batch", nil
}

// safeName is true for a name of at most 128 of [A-Za-z0-9_.-].
func safeName(name string) bool {
	odd := func(r rune) bool { return r != '.' && !batch.ValidCustomID(string(r)) }
	return len(name) <= 128 && strings.IndexFunc(name, odd) < 0
}

// Cancel asks for the end of the job. What the API says of one that has ended
// is not documented, so a refusal is compared with what a look-up tells.
func (c *Client) Cancel(ctx context.Context, jobID string) error {
	const op = "cancel"
	if !transport.PathSafe(jobID) {
		return &batch.Error{Op: op, Kind: batch.Rejected, Code: codeInvalidID}
	}
	if err := c.key.Check(op); err != nil {
		return err
	}
	a, err := c.call(ctx, http.MethodPost, "/batches/"+jobID+"/cancel", nil)
	switch {
	case err != nil:
		return &batch.Error{Op: op, Kind: readFault(err), Cause: err}
	case a.status == http.StatusBadRequest, a.status == http.StatusConflict:
		return c.endsAnyway(ctx, jobID, a.fault(op, readKind))
	case a.status != http.StatusOK:
		return a.fault(op, readKind)
	case a.err != nil:
		return a.error(op, readFault(a.err), a.err)
	}
	// The answer is the job. Another one may be of a server that did nothing.
	if job, _, err := parseJob(a.body); err != nil || job.ID != jobID {
		return a.error(op, batch.BadAnswer, errShape)
	}
	return nil
}

// endsAnyway is nil when a refused cancel has nothing left to do.
func (c *Client) endsAnyway(ctx context.Context, jobID string, refusal *batch.Error) error {
	job, err := c.Status(ctx, jobID)
	switch {
	case err != nil:
		return err
	case job.Phase == batch.PhaseRunning && !strings.EqualFold(job.Status, "cancelling"):
		return refusal
	}
	return nil
}

// RequestID reads no more of the line than its custom_id, and keeps no more.
func (c *Client) RequestID(request []byte) (customID string, ok bool) { return line.ReadID(request) }
