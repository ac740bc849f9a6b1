package anthropic

import (
	"context"
	"io"
	"net/http"
	"strings"

	"rollcall/batch"
	"rollcall/batch/transport"
)

// Download opens the results of a job, whose id is that of its result file. The
// caller closes the body, which also ends the transfer's deadline.
//
// NotFound means that there are none now: the job has not ended, its results
// were archived 29 days after it was made, or the API does not know it, which it
// says at times about a job that is there.
func (c *Client) Download(ctx context.Context, fileID string) (io.ReadCloser, int64, error) {
	const op = "download"
	if !transport.PathSafe(fileID) {
		return nil, 0, invalidID(op)
	}
	if err := c.key.Check(op); err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TransferTimeout)
	req := c.request(ctx, http.MethodGet, batches+"/"+fileID+"/results", nil)
	req.Header.Set("Accept", "application/x-jsonl, application/json")
	resp, err := c.wire.Do(req, maxResults)
	if err != nil {
		cancel()
		return nil, 0, &batch.Error{Op: op, Kind: readFault(err), Cause: err}
	}
	body := &download{ReadCloser: resp.Body, cancel: cancel}
	a := c.meta(resp)
	switch {
	case a.status != http.StatusOK:
		defer body.Close()
		resp.Body = io.NopCloser(io.LimitReader(resp.Body, maxAnswer))
		return nil, 0, c.read(resp).fault(op, readKind)
	case a.err != nil:
		defer body.Close()
		return nil, 0, a.error(op, readFault(a.err), a.err)
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"), resp.ContentLength > maxResults:
		// A page of an edge must not be taken for result lines.
		defer body.Close()
		return nil, 0, a.error(op, batch.BadAnswer, errShape)
	}
	return body, resp.ContentLength, nil
}

type download struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (d *download) Close() error {
	err := d.ReadCloser.Close()
	d.cancel()
	return err
}
