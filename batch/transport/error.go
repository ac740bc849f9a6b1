package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

var (
	// ErrHost: the request is for another host or scheme than the pinned one.
	ErrHost = errors.New("host is not the pinned one")
	// ErrAddress: the host resolved to an address that may not be dialled.
	ErrAddress = errors.New("address may not be dialled")
	// ErrTooLarge: the answer's body is larger than the caller allowed.
	ErrTooLarge = errors.New("answer is too large")
	// ErrEncoded: the answer has a content encoding that was not asked for.
	ErrEncoded = errors.New("answer has an unasked content encoding")
	// ErrTimeout: a timeout of the connection, not of the caller's context.
	ErrTimeout = errors.New("timed out")
)

// Error is a request that got no usable answer. It holds no URL, no header and
// no byte of a request or an answer.
type Error struct {
	// NeverLeft: no connection was ever got for the request, so not a byte of
	// it went out. False means that it may have been received and acted on.
	NeverLeft bool
	Err       error
}

func (e *Error) Error() string {
	if e.NeverLeft {
		return "not sent: " + e.Err.Error()
	}
	return "no answer: " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// NeverLeft is true when err proves that the request was not sent.
func NeverLeft(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.NeverLeft
}

// sentinels may be shown as they are.
var sentinels = []error{
	ErrHost, ErrAddress, ErrTooLarge, ErrEncoded, ErrTimeout,
	context.Canceled, context.DeadlineExceeded, io.ErrUnexpectedEOF, io.EOF,
	io.ErrClosedPipe, net.ErrClosed,
}

// clean reduces err to what is known to hold nothing of the request or the
// answer. net/http quotes malformed answers in its errors, and a processor's
// answer may quote the report, so an error that is not on the list keeps its
// type only.
func clean(err error) error {
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return s
		}
	}
	var (
		dns      *net.DNSError
		cert     *tls.CertificateVerificationError
		alert    tls.AlertError
		record   tls.RecordHeaderError
		unknown  x509.UnknownAuthorityError
		errno    syscall.Errno
		deadline interface{ Timeout() bool }
	)
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("look up host: %s", reason(dns))
	case errors.As(err, &cert):
		return fmt.Errorf("verify the certificate: %w", cert.Err)
	case errors.As(err, &unknown):
		return unknown
	case errors.As(err, &alert):
		return alert
	case errors.As(err, &record):
		return errors.New("tls: the answer is not TLS")
	case errors.As(err, &errno):
		return errno
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &deadline) && deadline.Timeout():
		return ErrTimeout
	}
	inner := err
	for next := errors.Unwrap(inner); next != nil; next = errors.Unwrap(inner) {
		inner = next
	}
	return fmt.Errorf("transport fault of type %T", inner)
}

// cleanIn is clean, and tells the caller's deadline from the connection's: the
// net package calls both context.DeadlineExceeded.
func cleanIn(ctx context.Context, err error) error {
	err = clean(err)
	if err == context.DeadlineExceeded && ctx.Err() == nil {
		return ErrTimeout
	}
	return err
}

func reason(e *net.DNSError) string {
	switch {
	case e.IsNotFound:
		return "no such host"
	case e.IsTimeout:
		return "timed out"
	}
	return "name server failed"
}

// cappedBody yields at most left bytes and cleans every error.
type cappedBody struct {
	ctx  context.Context // of the request, to read errors by
	body io.ReadCloser
	left int64
}

func (b *cappedBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	// One byte more than allowed is asked for, to tell a body that fits
	// exactly from one that does not.
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.body.Read(p)
	if int64(n) > b.left {
		n = int(b.left)
		b.left = 0
		return n, ErrTooLarge
	}
	b.left -= int64(n)
	if err != nil && err != io.EOF {
		err = cleanIn(b.ctx, err)
	}
	return n, err
}

func (b *cappedBody) Close() error { return b.body.Close() }
