// Package infrai speaks the native batch API of Infrai, a broker that passes
// each item on to one of several vendors.
//
// Its public documentation names the calls that make a job and look it up, and
// little else. So three gates are closed as shipped: a pin of the provider's
// discovery documents says what an item, a state and a result look like; the
// operator lists the vendors whose answers are accepted; and the kind of the
// texts is one that the pin permits. A job can neither be listed, cancelled nor
// deleted; one whose answer was lost is had again by the same bytes under the
// same key, if the documents declare that.
package infrai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/batch"
	"rollcall/batch/line"
	"rollcall/batch/transport"
)

// Client is one account. It may be used by several goroutines.
type Client struct {
	cfg      Config
	key      *batch.Key
	base     *url.URL
	wire     *transport.Client
	contract *Contract
	lines    line.Frames
	drifted  atomic.Bool // Check found another document than the pin's
	doubled  atomic.Bool // two jobs came of one key

	mu    sync.Mutex
	tried map[string]attempt // by key, what this process has sent
}

var (
	_ batch.Provider  = (*Client)(nil)
	_ batch.Inspector = (*Client)(nil)
)

const (
	// The provider publishes no limits, so these are ours, and small: what a job
	// costs when something goes wrong is bounded by them.
	maxItems = 100
	maxBytes = 4_000_000

	// keyWindow is how long a key is known, by the provider's texts.
	keyWindow = 24 * time.Hour

	maxAnswer  = 1 << 20  // a JSON answer
	maxResults = 64 << 20 // the results of a job of maxItems, pages added up

	userAgent = "rollcall"
)

// Account returns the account without a call.
func (c *Client) Account() batch.Account {
	return batch.Account{
		Processor:   "infrai",
		Name:        c.cfg.Name,
		Host:        c.base.Host,
		Region:      c.cfg.Region,
		Fingerprint: c.fingerprint(),
	}
}

// fingerprint changes with the key, also within a project: whether the provider
// knows an idempotency key again under another API key is documented nowhere, so
// that a repeat under another one could be a second job.
func (c *Client) fingerprint() string {
	parts := []string{"infrai", c.base.Host, "key", c.key.Current()}
	if c.cfg.Project != "" {
		parts = append(parts, "project", c.cfg.Project)
	}
	return batch.Fingerprint(c.cfg.FingerprintKey, parts...)
}

// Capabilities are what the pin declares. Nothing is promised about how long
// results can be fetched, so they are fetched at once, and nothing is deleted.
// Retention, training and sub-processors are documented nowhere, so that made-up
// texts are all that the provider's own documents permit.
func (c *Client) Capabilities() batch.Capabilities {
	settle, window := batch.SettleByOperator, time.Duration(0)
	if c.contract.Idempotent {
		settle, window = batch.SettleByKey, keyWindow
	}
	return batch.Capabilities{
		Settlement: settle,
		Handover:   batch.HandoverInline,
		Limits:     batch.Limits{Items: maxItems, Bytes: maxBytes, KeyWindow: window},
		Classes:    c.classes(),
	}
}

// CloseIdleConnections drops connections that wait for another read.
func (c *Client) CloseIdleConnections() { c.wire.CloseIdleConnections() }

// Upload is refused: requests go with the create.
func (c *Client) Upload(context.Context, batch.Input) (string, error) {
	return "", &batch.Error{Op: "upload", Kind: batch.Rejected, Code: codeInlineOnly}
}

// DeleteFile is refused: no way to delete anything is documented.
func (c *Client) DeleteFile(context.Context, string) error {
	return &batch.Error{Op: "delete file", Kind: batch.Rejected, Code: codeNoDeletion}
}

// Status looks the job up. A state that the pin does not have is running and not
// known: no end is inferred from counts, or from time.
func (c *Client) Status(ctx context.Context, jobID string) (batch.Job, error) {
	const op = "status"
	if !transport.PathSafe(jobID) {
		return batch.Job{}, &batch.Error{Op: op, Kind: batch.Rejected, Code: codeInvalidID}
	}
	if err := c.key.Check(op); err != nil {
		return batch.Job{}, err
	}
	a, err := c.get(ctx, at(c.contract.StatusRoute, jobID))
	switch {
	case err != nil:
		return batch.Job{}, &batch.Error{Op: op, Kind: readFault(err), Cause: err}
	case a.status != http.StatusOK:
		return batch.Job{}, a.fault(op, readKind)
	case a.err != nil:
		return batch.Job{}, a.error(op, readFault(a.err), a.err)
	}
	e := a.envelope()
	if code := e.refusal(); code != "" {
		return batch.Job{}, a.coded(op, batch.BadAnswer, code)
	}
	job, ok := c.jobOf(e.data, jobID)
	if !ok {
		return batch.Job{}, a.error(op, batch.BadAnswer, errShape)
	}
	return job, nil
}

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
	a, err := c.get(ctx, at(c.contract.StatusRoute, jobID))
	switch {
	case err != nil:
		return batch.Inspection{}, &batch.Error{Op: op, Kind: readFault(err), Cause: err}
	case a.err != nil && !errors.Is(a.err, transport.ErrTooLarge):
		return batch.Inspection{}, a.error(op, readFault(a.err), a.err)
	}
	return batch.Inspection{HTTPStatus: a.status, Body: a.body, Cut: errors.Is(a.err, transport.ErrTooLarge), RequestID: a.requestID(), RetryAfter: a.retryAfter}, nil
}

// jobOf reads the data of a status or a submit. An answer that names another job
// is about another job; one that names none is about the one that was asked for.
func (c *Client) jobOf(data any, jobID string) (batch.Job, bool) {
	id := lookup(data, "batch_id")
	if id != nil && id != any(jobID) {
		return batch.Job{}, false
	}
	state, ok := lookup(data, c.contract.StatePath).(string)
	if !ok || state == "" {
		return batch.Job{}, false
	}
	job := batch.Job{ID: jobID, Status: batch.SafeCode(state), Counts: batch.Counts{
		Total: count(data, c.contract.Counts.Total), Completed: count(data, c.contract.Counts.Completed), Failed: count(data, c.contract.Counts.Failed),
	}}
	job.Phase, job.Known = c.contract.States.phase(state)
	if job.Phase == batch.PhaseEnded && c.contract.Results != nil {
		job.Files = []batch.ResultFile{{Channel: batch.ChannelOutput, ID: jobID}}
	}
	return job, true
}

// request builds a request; path may end in a query.
func (c *Client) request(ctx context.Context, method, path string, body io.Reader) *http.Request {
	u := *c.base
	u.Path, u.RawQuery, _ = strings.Cut(path, "?")
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		// The base was checked in New and every path is made of safe ids.
		panic("infrai: a request cannot be built")
	}
	req.Header.Set("Authorization", "Bearer "+c.key.Checked())
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "application/json")
	return req
}

// get sends one read and takes in the whole answer.
func (c *Client) get(ctx context.Context, path string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	resp, err := c.wire.Do(c.request(ctx, http.MethodGet, path, nil), maxAnswer)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return c.read(resp), nil
}
