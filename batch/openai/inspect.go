package openai

import (
	"context"
	"errors"
	"net/http"

	"rollcall/batch"
	"rollcall/batch/transport"
)

// Inspect shows the answer to a look-up as it came: a redirect too, which is
// not followed, and of a longer answer its first 1 MiB.
func (c *Client) Inspect(ctx context.Context, jobID string) (batch.Inspection, error) {
	const op = "inspect"
	if !transport.PathSafe(jobID) {
		return batch.Inspection{}, &batch.Error{Op: op, Kind: batch.Rejected, Code: codeInvalidID}
	}
	if err := c.key.Check(op); err != nil {
		return batch.Inspection{}, err
	}
	a, err := c.call(ctx, http.MethodGet, "/batches/"+jobID, nil)
	switch {
	case err != nil:
		return batch.Inspection{}, &batch.Error{Op: op, Kind: readFault(err), Cause: err}
	case a.err != nil && !errors.Is(a.err, transport.ErrTooLarge):
		return batch.Inspection{}, a.error(op, readFault(a.err), a.err)
	}
	return batch.Inspection{HTTPStatus: a.status, Body: a.body, Cut: errors.Is(a.err, transport.ErrTooLarge), RequestID: a.requestID, RetryAfter: a.retryAfter}, nil
}
