package anthropic

import (
	"context"
	"errors"
	"net/http"

	"rollcall/batch"
	"rollcall/batch/transport"
)

// Create makes the job, in one request and never another. Its body is streamed:
// no more than a few kilobytes of it are in memory.
func (c *Client) Create(ctx context.Context, cr batch.Creation) (batch.Job, error) {
	const op = "create"
	if cr.Body == nil || cr.FileID != "" || cr.Body.Write == nil || cr.Body.Size <= 0 {
		return batch.Job{}, &batch.Error{Op: op, Kind: batch.Rejected, Code: codeNoBody}
	}
	if err := c.key.Check(op); err != nil {
		return batch.Job{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TransferTimeout)
	defer cancel()
	src := startSource(*cr.Body)
	req := c.request(ctx, http.MethodPost, batches, src.body())
	req.ContentLength = src.length()
	resp, err := c.slow.Do(req, maxAnswer)
	// An answer may come before the body is read; Write must not outlive us.
	writeErr := src.stop()
	if err != nil {
		return batch.Job{}, unsent(op, err, writeErr)
	}
	defer resp.Body.Close()
	a := c.read(resp)
	switch {
	case a.status < 200 || a.status > 299:
		e := a.fault(op, createKind)
		if a.status == http.StatusRequestEntityTooLarge {
			e.Code = CodeTooLarge
		}
		if e.Kind == batch.UnknownOutcome && writeErr != nil {
			return batch.Job{}, broken(op, writeErr)
		}
		return batch.Job{}, e
	case a.err != nil:
		return batch.Job{}, a.error(op, batch.UnknownOutcome, a.err)
	}
	job, err := parseJob(a.body)
	if err != nil || !src.whole { // or answered before the body was read
		return batch.Job{}, a.error(op, batch.UnknownOutcome, errShape)
	}
	return job, nil
}

// unsent is the error of a create without an answer.
func unsent(op string, err, writeErr error) error {
	switch {
	case writeErr != nil:
		return broken(op, writeErr)
	case transport.NeverLeft(err):
		return &batch.Error{Op: op, Kind: batch.Temporary, Cause: err}
	}
	return &batch.Error{Op: op, Kind: batch.UnknownOutcome, Cause: err}
}

// broken is the error of a body that was broken off at our end. What arrived is
// no JSON and shorter than announced, so that no job can have been made of it.
func broken(op string, writeErr error) error {
	e := &batch.Error{Op: op, Kind: batch.Temporary, Cause: writeErr}
	if errors.Is(writeErr, errBodySize) {
		e.Code = CodeBodySize
	}
	return e
}

// Status looks the job up.
func (c *Client) Status(ctx context.Context, jobID string) (batch.Job, error) {
	const op = "status"
	if !transport.PathSafe(jobID) {
		return batch.Job{}, invalidID(op)
	}
	a, err := c.ask(ctx, op, http.MethodGet, batches+"/"+jobID)
	if err != nil {
		return batch.Job{}, err
	}
	job, err := parseJob(a.body)
	if err != nil || job.ID != jobID {
		return batch.Job{}, a.error(op, batch.BadAnswer, errShape)
	}
	return job, nil
}

// Cancel asks for the end of the job. What the API says of one that has ended
// is not documented, so a refusal is compared with what a look-up tells.
func (c *Client) Cancel(ctx context.Context, jobID string) error {
	const op = "cancel"
	if !transport.PathSafe(jobID) {
		return invalidID(op)
	}
	a, err := c.ask(ctx, op, http.MethodPost, batches+"/"+jobID+"/cancel")
	if err != nil {
		if a != nil && (batch.KindOf(err) == batch.Rejected || a.status == http.StatusConflict) {
			return c.endsAnyway(ctx, jobID, err)
		}
		return err
	}
	// The answer is the job. Another one may be of a server that did nothing.
	if job, err := parseJob(a.body); err != nil || job.ID != jobID {
		return a.error(op, batch.BadAnswer, errShape)
	}
	return nil
}

// endsAnyway is nil when a refused cancel has nothing left to do.
func (c *Client) endsAnyway(ctx context.Context, jobID string, refusal error) error {
	job, err := c.Status(ctx, jobID)
	switch {
	case err != nil:
		return err
	case job.Phase == batch.PhaseRunning && job.Status != "canceling":
		return refusal
	}
	return nil
}

// DeleteJob deletes an ended job. NotFound is not taken for its deletion: such
// answers come in bursts about jobs that are there, so that a look-up at once
// would prove no more.
//
// What is known afterwards is that the API acknowledged the deletion. Whether
// copies of the provider's own go at once is not documented.
func (c *Client) DeleteJob(ctx context.Context, jobID string) error {
	const op = "delete job"
	if !transport.PathSafe(jobID) {
		return invalidID(op)
	}
	a, err := c.ask(ctx, op, http.MethodDelete, batches+"/"+jobID)
	switch {
	case err != nil:
		return err
	case !deleted(a.body, jobID):
		return a.error(op, batch.BadAnswer, errShape)
	}
	return nil
}

// Inspect shows the answer to a look-up as it came: a redirect too, which is
// not followed, and of a longer answer its first 1 MiB.
func (c *Client) Inspect(ctx context.Context, jobID string) (batch.Inspection, error) {
	const op = "inspect"
	if !transport.PathSafe(jobID) {
		return batch.Inspection{}, invalidID(op)
	}
	if err := c.key.Check(op); err != nil {
		return batch.Inspection{}, err
	}
	a, err := c.call(ctx, http.MethodGet, batches+"/"+jobID)
	switch {
	case err != nil:
		return batch.Inspection{}, &batch.Error{Op: op, Kind: readFault(err), Cause: err}
	case a.err != nil && !errors.Is(a.err, transport.ErrTooLarge) && !errors.Is(a.err, errWorkspace):
		return batch.Inspection{}, a.error(op, readFault(a.err), a.err)
	}
	return batch.Inspection{HTTPStatus: a.status, Body: a.body, Cut: errors.Is(a.err, transport.ErrTooLarge), RequestID: a.requestID, RetryAfter: a.retryAfter}, nil
}
