package infrai

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"time"

	"rollcall/batch"
	"rollcall/batch/transport"
)

// keyEnd is when a key is used no more, counted from the first attempt: what the
// provider counts from is not documented, and behind its window a repeat is a
// second job that is paid for.
const keyEnd = 20 * time.Hour

// attempt is what this process has sent under a key. It is a second lock: across
// processes the passes' own records hold the time and the sum.
type attempt struct {
	first  time.Time
	sum    [sha256.Size]byte
	apiKey [sha256.Size]byte
	jobID  string // once it is known
	stop   string // the code for why it is not repeated, or ""
}

// maxTried bounds what is remembered; forgetting only drops the second lock.
const maxTried = 10_000

// Create makes the job, in one request. Under the same Key it may be called
// again, for the same job, where the settlement is by key; a repeat that this
// process knows to be another body, or too late, is UnknownOutcome without a
// call, since the first one may have made a job. Denied while a gate is closed.
//
// When a second job answers under one key, its id is returned beside the error,
// and nothing more is sent by this Client.
func (c *Client) Create(ctx context.Context, cr batch.Creation) (batch.Job, error) {
	const op = "create"
	if err := c.admit(op); err != nil {
		return batch.Job{}, err
	}
	if code := refusedCreation(cr); code != "" {
		return batch.Job{}, &batch.Error{Op: op, Kind: batch.Rejected, Code: code}
	}
	if err := c.key.Check(op); err != nil {
		return batch.Job{}, err
	}
	before, code := c.begin(cr.Key)
	if code != "" {
		return batch.Job{}, &batch.Error{Op: op, Kind: batch.UnknownOutcome, Code: code}
	}
	src := startSource(cr.Body, cr.Key, before.sum)
	a, err := c.submit(ctx, src, cr.Key)
	// An answer may come before the body is read; Write must not outlive us.
	if writeErr := src.stop(); writeErr != nil {
		return batch.Job{}, bodyFault(op, writeErr)
	}
	job, err := c.created(op, a, err, src)
	final := a != nil && a.status >= 500 && a.envelope().final()
	return c.remember(op, cr.Key, src, before, outcome{job, err, final})
}

func refusedCreation(cr batch.Creation) string {
	switch {
	case cr.FileID != "" || cr.Body == nil:
		return codeInlineOnly
	case !batch.ValidCustomID(cr.Key):
		return codeInvalidKey
	case cr.Body.Size < 2:
		return codeBodyLines
	case cr.Body.Size > maxBytes:
		return codeTooLarge
	}
	return ""
}

// bodyFault: the request was broken off before its end, so that it made no job.
func bodyFault(op string, err error) error {
	e := &batch.Error{Op: op, Kind: batch.Temporary, Cause: err}
	switch {
	case errors.Is(err, errBodySize):
		e.Code = codeBodySize
	case errors.Is(err, errBodyLines):
		e.Kind, e.Code = batch.Rejected, codeBodyLines
	case errors.Is(err, errTooMany):
		e.Kind, e.Code = batch.Rejected, codeTooMany
	case errors.Is(err, errOtherBody): // the body before it may have made one
		e.Kind, e.Code = batch.UnknownOutcome, codeOtherBody
	}
	return e
}

// begin returns what was sent under a key before, or the code for why it must
// not be sent again.
func (c *Client) begin(key string) (attempt, string) {
	now := c.cfg.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	before, again := c.tried[key]
	switch {
	case !again:
		return attempt{first: now, apiKey: c.apiKeySum()}, ""
	case before.stop != "":
		return before, before.stop
	case !c.contract.Idempotent:
		return before, codeNoRepeat
	case now.Sub(before.first) >= keyEnd:
		return before, codeWindow
	case before.apiKey != c.apiKeySum():
		return before, codeOtherAPIKey
	}
	return before, ""
}

func (c *Client) apiKeySum() [sha256.Size]byte { return sha256.Sum256([]byte(c.key.Checked())) }

// submit sends the request. The key is in the header and in the body, equal.
func (c *Client) submit(ctx context.Context, src *source, key string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TransferTimeout)
	defer cancel()
	req := c.request(ctx, http.MethodPost, c.contract.SubmitRoute, src.body())
	req.ContentLength = src.length()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := c.wire.Do(req, maxAnswer)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return c.read(resp), nil
}

// created judges what a submit came to.
func (c *Client) created(op string, a *answer, err error, src *source) (batch.Job, error) {
	switch {
	case err != nil && transport.NeverLeft(err):
		return batch.Job{}, &batch.Error{Op: op, Kind: batch.Temporary, Cause: err}
	case err != nil:
		return batch.Job{}, &batch.Error{Op: op, Kind: batch.UnknownOutcome, Cause: err}
	case a.err != nil:
		return batch.Job{}, a.error(op, batch.UnknownOutcome, a.err)
	case a.status < 200 || a.status > 299:
		return batch.Job{}, a.fault(op, createKind)
	case a.status != http.StatusOK && a.status != http.StatusAccepted && a.status != http.StatusCreated || !src.whole:
		return batch.Job{}, a.error(op, batch.UnknownOutcome, errShape)
	}
	e := a.envelope()
	if code := e.refusal(); code != "" {
		return batch.Job{}, a.coded(op, batch.UnknownOutcome, code)
	}
	id, _ := lookup(e.data, "batch_id").(string)
	state, _ := lookup(e.data, "state").(string)
	if !transport.PathSafe(id) || state == "" {
		return batch.Job{}, a.error(op, batch.UnknownOutcome, errShape)
	}
	if total, ok := lookup(e.data, "total_count").(float64); !ok || total != float64(src.items) {
		return batch.Job{}, a.coded(op, batch.UnknownOutcome, codeTotal)
	}
	job := batch.Job{ID: id, Status: batch.SafeCode(state), Counts: batch.Counts{Total: int64(src.items)}}
	job.Phase, job.Known = c.contract.States.phase(state)
	if job.Phase == batch.PhaseEnded {
		job.Files = []batch.ResultFile{{Channel: batch.ChannelOutput, ID: id}}
	}
	return job, nil
}

// outcome is what a submit came to.
type outcome struct {
	job   batch.Job
	err   error
	final bool // the server failed, and says that another try is of no use
}

// remember keeps what may have made a job, and judges a repeat by it.
func (c *Client) remember(op, key string, src *source, now attempt, o outcome) (batch.Job, error) {
	if o.err != nil && batch.KindOf(o.err) != batch.UnknownOutcome {
		return o.job, o.err // nothing was made by it; what was before stays
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var fault *batch.Error
	switch errors.As(o.err, &fault); {
	case fault == nil && now.jobID != "" && now.jobID != o.job.ID:
		c.doubled.Store(true)
		return o.job, &batch.Error{Op: op, Kind: batch.UnknownOutcome, Code: codeSecondJob}
	case fault == nil:
		now.jobID = o.job.ID
	case fault.Code == codeTotal:
		now.stop = codeTotal
	case o.final:
		now.stop = codeNotRetryable
	}
	if src.whole {
		now.sum = src.sum
	}
	if _, again := c.tried[key]; !again && len(c.tried) >= maxTried {
		c.forgetOldest()
	}
	c.tried[key] = now
	return o.job, o.err
}

// forgetOldest makes room; mu is held.
func (c *Client) forgetOldest() {
	var oldest string
	for key, a := range c.tried {
		if oldest == "" || a.first.Before(c.tried[oldest].first) {
			oldest = key
		}
	}
	delete(c.tried, oldest)
}
