// Package openai speaks the Batch API of OpenAI and of servers that copy it:
// a file of requests is uploaded, a job is made over it, and the results are
// downloaded as two files.
//
// The package is a thin net/http client and not the vendor's SDK, because the
// SDK repeats creates, buffers uploads and turns an empty answer into an empty
// job without an error.
package openai

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
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
	lines line.Frames
}

var (
	_ batch.Inventory = (*Client)(nil)
	_ batch.Inspector = (*Client)(nil)
)

const (
	// maxAnswer bounds a JSON answer. The longest is a job with its faults, of
	// some 200 bytes each; they are kept up to maxList.
	maxAnswer = 1 << 20
	// maxResults bounds a result file; 50,000 lines of 80 KB.
	maxResults = 4 << 30

	userAgent = "rollcall"
)

// Account returns the account without a call.
func (c *Client) Account() batch.Account {
	return batch.Account{
		Processor:   c.cfg.Processor,
		Name:        c.cfg.Name,
		Host:        c.base.Host,
		Region:      c.cfg.Region,
		Fingerprint: c.fingerprint(),
	}
}

// fingerprint stays when the key of a configured project is rotated. Without a
// project, or where the service knows none, the key is all that tells accounts
// apart.
func (c *Client) fingerprint() string {
	kind, id := "project", c.cfg.Project
	if id == "" || c.cfg.Dialect.Projects == ProjectsByKey {
		kind, id = "key", c.key.Current()
	}
	return batch.Fingerprint(c.cfg.FingerprintKey, c.cfg.Processor, c.base.Host, c.cfg.Organization, kind, id)
}

// Capabilities are those of the dialect. OpenAI's: jobs are listed with their
// metadata and input file, and no key makes a create repeatable. "200 MB" is read
// as the smaller meaning with room to spare, because an upload that is too large
// is refused whole. Result files live until they are deleted, or as Creation says.
func (c *Client) Capabilities() batch.Capabilities {
	return batch.Capabilities{
		Settlement: c.cfg.Dialect.Settlement,
		Handover:   batch.HandoverFile,
		Limits:     c.cfg.Dialect.Limits,
		Deletion:   batch.Deletion{Input: true, Results: true},
		ResultsFor: c.cfg.Dialect.ResultsFor,
		Classes:    slices.Clone(c.cfg.Dialect.Classes),
	}
}

// CloseIdleConnections drops connections that wait for another read.
func (c *Client) CloseIdleConnections() { c.wire.CloseIdleConnections() }

// DeleteFile deletes a file; one that is gone already is success.
func (c *Client) DeleteFile(ctx context.Context, fileID string) error {
	const op = "delete file"
	if !transport.PathSafe(fileID) {
		return &batch.Error{Op: op, Kind: batch.Rejected, Code: codeInvalidID}
	}
	if err := c.key.Check(op); err != nil {
		return err
	}
	a, err := c.call(ctx, http.MethodDelete, "/files/"+fileID, nil)
	switch {
	case err != nil:
		return &batch.Error{Op: op, Kind: batch.Temporary, Cause: err}
	case a.status == http.StatusNotFound, a.status == http.StatusGone, a.status == http.StatusNoContent:
		return nil
	case a.status != http.StatusOK:
		return a.fault(op, readKind)
	case a.err != nil:
		return a.error(op, batch.Temporary, a.err)
	case !deleted(a.body, fileID):
		return a.error(op, batch.BadAnswer, nil)
	}
	return nil
}

// Download opens a result file. The caller closes the body, which also ends
// the transfer's deadline.
func (c *Client) Download(ctx context.Context, fileID string) (io.ReadCloser, int64, error) {
	const op = "download"
	if !transport.PathSafe(fileID) {
		return nil, 0, &batch.Error{Op: op, Kind: batch.Rejected, Code: codeInvalidID}
	}
	if err := c.key.Check(op); err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TransferTimeout)
	req := c.request(ctx, http.MethodGet, "/files/"+fileID+"/content", nil)
	req.Header.Set("Accept", "application/binary")
	resp, err := c.wire.Do(req, maxResults)
	if err != nil {
		cancel()
		return nil, 0, &batch.Error{Op: op, Kind: readFault(err), Cause: err}
	}
	body := &download{ReadCloser: resp.Body, cancel: cancel}
	if resp.StatusCode != http.StatusOK {
		defer body.Close()
		return nil, 0, c.read(resp).fault(op, readKind)
	}
	// A page of an edge must not be taken for result lines.
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || resp.ContentLength > maxResults {
		defer body.Close()
		return nil, 0, c.meta(resp).error(op, batch.BadAnswer, nil)
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

// answer is an answer to a call, whatever its status.
type answer struct {
	status     int
	body       []byte
	err        error // why body is not whole
	retryAfter time.Duration
	requestID  string
}

// call sends one request without a second try and reads the whole answer.
func (c *Client) call(ctx context.Context, method, path string, body []byte) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req := c.request(ctx, method, path, r)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.wire.Do(req, maxAnswer)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return c.read(resp), nil
}

func (c *Client) request(ctx context.Context, method, path string, body io.Reader) *http.Request {
	u := *c.base
	u.Path += path
	u.RawQuery = c.query(nil)
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		// The base was checked in New and every path is made of safe ids.
		panic("openai: a request cannot be built")
	}
	if h := c.cfg.Dialect.KeyHeader; h != "" {
		req.Header.Set(h, c.key.Checked())
	} else {
		req.Header.Set("Authorization", "Bearer "+c.key.Checked())
	}
	req.Header.Set("User-Agent", userAgent)
	if c.cfg.Dialect.Projects != ProjectsKnown {
		return req
	}
	if c.cfg.Organization != "" {
		req.Header.Set("OpenAI-Organization", c.cfg.Organization)
	}
	if c.cfg.Project != "" {
		req.Header.Set("OpenAI-Project", c.cfg.Project)
	}
	return req
}

// query is more, and what every call carries.
func (c *Client) query(more url.Values) string {
	all := maps.Clone(more)
	if all == nil {
		all = url.Values{}
	}
	for k, v := range c.cfg.Query {
		all.Set(k, v)
	}
	return all.Encode()
}

func (c *Client) read(resp *http.Response) *answer {
	a := c.meta(resp)
	a.body, a.err = io.ReadAll(resp.Body)
	return a
}

// meta is the answer without its body.
func (c *Client) meta(resp *http.Response) *answer {
	return &answer{
		status:     resp.StatusCode,
		retryAfter: transport.RetryAfter(resp.Header, c.cfg.Now),
		requestID:  batch.SafeCode(resp.Header.Get("X-Request-Id")),
	}
}

// error is what a method returns about this answer. It keeps no prose.
func (a *answer) error(op string, kind batch.Kind, cause error) *batch.Error {
	return &batch.Error{Op: op, Kind: kind, HTTPStatus: a.status, RequestID: a.requestID, Cause: cause}
}

// fault reads the error envelope and lets kind judge it.
func (a *answer) fault(op string, kind func(status int, f fault) batch.Kind) *batch.Error {
	f := parseFault(a.body)
	f.missingFile = f.missingFile && op == "create" // elsewhere it is not about the input
	e := a.error(op, kind(a.status, f), nil)
	e.Code = f.word()
	e.RetryAfter = a.retryAfter
	return e
}

// readFault is the kind of a read that got no answer, or not all of it.
func readFault(err error) batch.Kind {
	if errors.Is(err, transport.ErrEncoded) || errors.Is(err, transport.ErrTooLarge) {
		return batch.BadAnswer
	}
	return batch.Temporary
}
