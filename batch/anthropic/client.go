// Package anthropic speaks the Message Batches API of Anthropic: a job is made
// with all its requests in one call, and its results are read as one list.
//
// A job carries no mark of ours. Its listing shows a time and how many requests
// there are, and its results, once it has ended, the custom ids. So a create
// whose answer was lost is settled by the results, one at a time.
//
// The package is a thin net/http client and not the vendor's SDK, because
// versions of the SDK repeat creates, hold a whole body in memory several times
// over, and take settings from the environment.
package anthropic

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"rollcall/batch"
	"rollcall/batch/line"
	"rollcall/batch/transport"
)

// Client is one account. It may be used by several goroutines.
type Client struct {
	cfg   Config
	key   *batch.Key
	base  *url.URL
	wire  *transport.Client
	slow  *transport.Client // for creates, whose answer takes longer
	lines line.Frames
}

var (
	_ batch.Inventory  = (*Client)(nil)
	_ batch.JobDeleter = (*Client)(nil)
	_ batch.Inspector  = (*Client)(nil)
)

const (
	// maxAnswer bounds a JSON answer; a job has some 600 bytes.
	maxAnswer = 1 << 20
	// maxResults bounds the results of a job; 100,000 lines of 80 KB.
	maxResults = 8 << 30

	userAgent = "rollcall"
	batches   = "/v1/messages/batches"
)

// Account returns the account without a call.
func (c *Client) Account() batch.Account {
	return batch.Account{
		Processor:   "anthropic",
		Name:        c.cfg.Name,
		Host:        c.base.Host,
		Region:      c.cfg.Region,
		Fingerprint: c.fingerprint(),
	}
}

// fingerprint stays when the key of a configured workspace is rotated: jobs
// belong to the workspace. Without one the key is all that tells accounts apart.
func (c *Client) fingerprint() string {
	kind, id := "workspace", c.cfg.Workspace
	if id == "" {
		kind, id = "key", c.key.Current()
	}
	return batch.Fingerprint(c.cfg.FingerprintKey, "anthropic", c.base.Host, kind, id)
}

// Capabilities are the documented ones. "256 MB" is read as the smaller meaning
// with room to spare, because a body that is too large is refused whole.
//
// Batches are stored for up to 29 days and are, by Anthropic's own documents,
// eligible neither for zero data retention nor under its HIPAA terms. So
// neither texts about the health of persons nor texts that may be stored nowhere
// are permitted by them, whatever a contract may add.
func (c *Client) Capabilities() batch.Capabilities {
	return batch.Capabilities{
		Settlement: batch.SettleByResults,
		Handover:   batch.HandoverInline,
		Limits:     batch.Limits{Items: 100_000, Bytes: 240_000_000},
		Deletion:   batch.Deletion{Job: true},
		ResultsFor: 29 * 24 * time.Hour,
		Classes:    []batch.DataClass{batch.DataSynthetic, batch.DataPersonal},
	}
}

// CloseIdleConnections drops connections that wait for another read.
func (c *Client) CloseIdleConnections() {
	c.wire.CloseIdleConnections()
	c.slow.CloseIdleConnections()
}

// Upload is refused: requests go with the create.
func (c *Client) Upload(context.Context, batch.Input) (string, error) {
	return "", &batch.Error{Op: "upload", Kind: batch.Rejected, Code: codeNoFiles}
}

// DeleteFile is refused: there are no files. DeleteJob deletes the requests and
// the results with their job.
func (c *Client) DeleteFile(context.Context, string) error {
	return &batch.Error{Op: "delete file", Kind: batch.Rejected, Code: codeNoFiles}
}

// answer is an answer to a call, whatever its status.
type answer struct {
	status     int
	body       []byte
	err        error // why body is not whole, or not ours
	retryAfter time.Duration
	requestID  string
}

// call sends one request without a second try and reads the whole answer.
func (c *Client) call(ctx context.Context, method, path string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	resp, err := c.wire.Do(c.request(ctx, method, path, nil), maxAnswer)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return c.read(resp), nil
}

// ask looks a job up or asks for something about it that may be asked again.
func (c *Client) ask(ctx context.Context, op, method, path string) (*answer, error) {
	if err := c.key.Check(op); err != nil {
		return nil, err
	}
	a, err := c.call(ctx, method, path)
	switch {
	case err != nil:
		return nil, &batch.Error{Op: op, Kind: readFault(err), Cause: err}
	case a.status != http.StatusOK:
		return a, a.fault(op, readKind)
	case a.err != nil:
		return a, a.error(op, readFault(a.err), a.err)
	}
	return a, nil
}

func (c *Client) request(ctx context.Context, method, path string, body io.Reader) *http.Request {
	u := *c.base
	u.Path += path
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		// The base was checked in New and every path is made of safe ids.
		panic("anthropic: a request cannot be built")
	}
	if c.cfg.Auth == AuthBearer {
		req.Header.Set("Authorization", "Bearer "+c.key.Checked())
	} else {
		req.Header.Set("X-Api-Key", c.key.Checked())
	}
	req.Header.Set("Anthropic-Version", c.cfg.Version)
	if c.cfg.Workspace != "" {
		req.Header.Set("Anthropic-Workspace-Id", c.cfg.Workspace)
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req
}

func (c *Client) read(resp *http.Response) *answer {
	a := c.meta(resp)
	body, err := io.ReadAll(resp.Body)
	a.body = body
	if a.err == nil {
		a.err = err
	}
	return a
}

// meta is the answer without its body. One from another workspace than the
// configured one is about somebody else's jobs.
func (c *Client) meta(resp *http.Response) *answer {
	a := &answer{
		status:     resp.StatusCode,
		retryAfter: transport.RetryAfter(resp.Header, c.cfg.Now),
		requestID:  batch.SafeCode(resp.Header.Get("Request-Id")),
	}
	if got := resp.Header.Get("Anthropic-Workspace-Id"); c.cfg.Workspace != "" && got != "" && got != c.cfg.Workspace {
		a.err = errWorkspace
	}
	return a
}

// error is what a method returns about this answer. It keeps no prose.
func (a *answer) error(op string, kind batch.Kind, cause error) *batch.Error {
	return &batch.Error{Op: op, Kind: kind, HTTPStatus: a.status, RequestID: a.requestID, Cause: cause}
}

// fault reads the error envelope and lets kind judge it.
func (a *answer) fault(op string, kind func(status int, f fault) batch.Kind) *batch.Error {
	f := parseFault(a.body)
	e := a.error(op, kind(a.status, f), nil)
	e.Code = f.word()
	e.RetryAfter = a.retryAfter
	return e
}

// readFault is the kind of a read that got no answer, or not all of it.
func readFault(err error) batch.Kind {
	if errors.Is(err, transport.ErrEncoded) || errors.Is(err, transport.ErrTooLarge) || errors.Is(err, errWorkspace) {
		return batch.BadAnswer
	}
	return batch.Temporary
}

func invalidID(op string) error {
	return &batch.Error{Op: op, Kind: batch.Rejected, Code: codeInvalidID}
}
