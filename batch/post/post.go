// Package post makes the one HTTP call of a batch.Caller: a body there, an
// answer back, over the strict transport. It repeats nothing, and its errors
// hold no part of either.
package post

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"rollcall/batch"
	"rollcall/batch/transport"
)

const (
	// maxAnswer bounds an answer. Both APIs answer one text with a few kilobytes.
	maxAnswer = 1 << 20

	defaultTimeout = time.Minute
	userAgent      = "rollcall"
)

// Options say where a Client calls.
type Options struct {
	BaseURL   string            // scheme, host and path prefix
	Transport transport.Options // Scheme and Host are taken from BaseURL
	Timeout   time.Duration     // one call, answer included; 1 min
	// RequestID is the header with the provider's own reference for a call.
	RequestID string
	// Now reads dates in Retry-After; nil is the Date header of the answer.
	Now func() time.Time
}

// Client calls one host. It may be used by several goroutines.
type Client struct {
	base      *url.URL
	wire      *transport.Client
	timeout   time.Duration
	requestID string
	now       func() time.Time
}

// New checks o and returns a Client. It makes no call.
func New(o Options) (*Client, error) {
	base, err := transport.ParseBase(o.BaseURL)
	if err != nil {
		return nil, err
	}
	o.Transport.Scheme, o.Transport.Host = base.Scheme, base.Host
	wire, err := transport.New(o.Transport)
	if err != nil {
		return nil, err
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	return &Client{base: base, wire: wire, timeout: o.Timeout, requestID: o.RequestID, now: o.Now}, nil
}

// Host is the host of every call, as the base URL has it.
func (c *Client) Host() string { return c.base.Host }

// Path is the path prefix of every call.
func (c *Client) Path() string { return c.base.Path }

// Request is one call.
type Request struct {
	Path        string // behind the base URL's; starts with /
	Query       url.Values
	Header      http.Header // with the secret; taken over
	ContentType string      // of Body
	Body        []byte
}

// Answer is a whole answer, whatever its status.
type Answer struct {
	Status     int
	Body       []byte
	RetryAfter time.Duration
	RequestID  string
}

// Send posts r once and reads the answer. The error is an *batch.Error of kind
// Temporary when no whole answer came: whether the call was carried out does not
// matter to a batch.Caller. An answer that is too long to be one is BadAnswer.
func (c *Client) Send(ctx context.Context, op string, r Request) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	u := *c.base
	u.Path += r.Path
	u.RawQuery = r.Query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(r.Body))
	if err != nil {
		// The base was checked in New, and paths are those of the adapters.
		panic("post: a request cannot be built")
	}
	if r.Header != nil {
		req.Header = r.Header
	}
	req.Header.Set("Content-Type", r.ContentType)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", userAgent)
	resp, err := c.wire.Do(req, maxAnswer)
	if err != nil {
		return nil, &batch.Error{Op: op, Kind: faultKind(err), Cause: err}
	}
	defer resp.Body.Close()
	a := &Answer{Status: resp.StatusCode, RetryAfter: transport.RetryAfter(resp.Header, c.now), RequestID: batch.SafeCode(resp.Header.Get(c.requestID))}
	if a.Body, err = io.ReadAll(resp.Body); err != nil && a.Status == http.StatusOK {
		return nil, &batch.Error{Op: op, Kind: faultKind(err), HTTPStatus: a.Status, RequestID: a.RequestID, Cause: err}
	}
	return a, nil
}

func faultKind(err error) batch.Kind {
	if errors.Is(err, transport.ErrEncoded) || errors.Is(err, transport.ErrTooLarge) {
		return batch.BadAnswer
	}
	return batch.Temporary
}

// Error is what a method returns about this answer. It keeps no prose.
func (a *Answer) Error(op string, kind batch.Kind, code string) *batch.Error {
	return &batch.Error{Op: op, Kind: kind, HTTPStatus: a.Status, Code: code, RetryAfter: a.RetryAfter, RequestID: a.RequestID}
}

// Fault is the error of an answer that is not 200. The status alone decides: the
// gateways in front of these servers have envelopes of their own.
func (a *Answer) Fault(op string) *batch.Error { return a.Error(op, a.kind(), codeOf(a.Body)) }

func (a *Answer) kind() batch.Kind {
	switch s := a.Status; s {
	case http.StatusPaymentRequired:
		return batch.OutOfCredit
	case http.StatusTooManyRequests:
		return batch.RateLimited
	case http.StatusUnauthorized, http.StatusForbidden:
		return batch.Denied
	case http.StatusNotFound, http.StatusGone:
		return batch.NotFound
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return batch.Temporary
	case http.StatusServiceUnavailable:
		if a.RetryAfter > 0 { // too busy, and says for how long
			return batch.RateLimited
		}
		return batch.Temporary
	default:
		switch {
		case s < 400:
			return batch.BadAnswer
		case s >= 500:
			return batch.Temporary
		}
		return batch.Rejected
	}
}
