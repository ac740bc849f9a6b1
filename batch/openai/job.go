package openai

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"

	"rollcall/batch"
	"rollcall/batch/transport"
)

const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

type createRequest struct {
	InputFileID        string            `json:"input_file_id"`
	Endpoint           string            `json:"endpoint"`
	CompletionWindow   string            `json:"completion_window"`
	Metadata           map[string]string `json:"metadata,omitempty"`
	OutputExpiresAfter *expiresAfter     `json:"output_expires_after,omitempty"`
}

type expiresAfter struct {
	Anchor  string `json:"anchor"`
	Seconds int64  `json:"seconds"`
}

// Create makes the job, in one request and never another.
func (c *Client) Create(ctx context.Context, cr batch.Creation) (batch.Job, error) {
	const op = "create"
	body, err := c.createBody(cr)
	if err != nil {
		return batch.Job{}, err
	}
	if err := c.key.Check(op); err != nil {
		return batch.Job{}, err
	}
	a, err := c.call(ctx, http.MethodPost, "/batches", body)
	if err != nil {
		kind := batch.UnknownOutcome
		if transport.NeverLeft(err) {
			kind = batch.Temporary
		}
		return batch.Job{}, &batch.Error{Op: op, Kind: kind, Cause: err}
	}
	if a.err != nil {
		return batch.Job{}, a.error(op, batch.UnknownOutcome, a.err)
	}
	if a.status < 200 || a.status > 299 {
		return batch.Job{}, a.fault(op, createKind)
	}
	job, told, err := parseJob(a.body)
	if err != nil {
		return batch.Job{}, a.error(op, batch.UnknownOutcome, err)
	}
	if code, ok := told.confirms(cr); !ok {
		e := a.error(op, batch.UnknownOutcome, nil)
		e.Code = code
		return batch.Job{}, e
	}
	return job, nil
}

func (c *Client) createBody(cr batch.Creation) ([]byte, error) {
	refuse := func(code string) ([]byte, error) {
		return nil, &batch.Error{Op: "create", Kind: batch.Rejected, Code: code}
	}
	if !transport.PathSafe(cr.FileID) {
		return refuse(codeInvalidID)
	}
	if len(cr.Metadata) > maxMetadata {
		return refuse(codeInvalidMetadata)
	}
	for k, v := range cr.Metadata {
		if k == "" || len(k) > maxMetadataKey || len(v) > maxMetadataValue {
			return refuse(codeInvalidMetadata)
		}
	}
	body, err := json.Marshal(createRequest{
		InputFileID:        cr.FileID,
		Endpoint:           c.path(),
		CompletionWindow:   c.cfg.Dialect.Window,
		Metadata:           cr.Metadata,
		OutputExpiresAfter: c.cfg.Dialect.Expiry.of(cr.OutputExpiry),
	}, json.Deterministic(true))
	if err != nil { // metadata that is not UTF-8
		return refuse(codeInvalidMetadata)
	}
	return body, nil
}

// Status looks the job up.
func (c *Client) Status(ctx context.Context, jobID string) (batch.Job, error) {
	const op = "status"
	if !transport.PathSafe(jobID) {
		return batch.Job{}, &batch.Error{Op: op, Kind: batch.Rejected, Code: codeInvalidID}
	}
	if err := c.key.Check(op); err != nil {
		return batch.Job{}, err
	}
	a, err := c.call(ctx, http.MethodGet, "/batches/"+jobID, nil)
	switch {
	case err != nil:
		return batch.Job{}, &batch.Error{Op: op, Kind: readFault(err), Cause: err}
	case a.status != http.StatusOK:
		return batch.Job{}, a.fault(op, readKind)
	case a.err != nil:
		return batch.Job{}, a.error(op, readFault(a.err), a.err)
	}
	job, _, err := parseJob(a.body)
	if err == nil && job.ID != jobID {
		err = errShape
	}
	if err != nil {
		return batch.Job{}, a.error(op, batch.BadAnswer, err)
	}
	return job, nil
}
