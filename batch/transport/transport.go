package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Options say where a Client may talk to. The zero value of a duration means
// its default.
type Options struct {
	// Scheme is "https", or "http" together with AllowLoopback or OnlyPermitted.
	// "" is "https".
	Scheme string
	// Host is the one host[:port] that may be called.
	Host string
	// AllowLoopback is for sandboxes: the client then dials loopback addresses
	// and no others, so that a forgotten flag cannot send text anywhere.
	AllowLoopback bool
	// PermittedRanges opens private ranges, for a processor inside one's own
	// network. Loopback, link-local and multicast addresses stay closed.
	PermittedRanges []netip.Prefix
	// OnlyPermitted is for a processor of one's own: the client then dials
	// addresses in PermittedRanges and no others, and these must be private, so
	// that plain http cannot leave one's own network.
	OnlyPermitted bool
	// CAFile is a PEM file of the authorities to trust in place of the system's.
	CAFile string

	DialTimeout   time.Duration // name look-up and TCP; 10 s
	TLSTimeout    time.Duration // handshake; 10 s
	HeaderTimeout time.Duration // from the last byte sent to the answer's header; 2 min

	// Record, when set, is told of every connection just before it is made,
	// with the resolved address. It may be called by several goroutines.
	Record func(network, addr string)
}

const (
	defaultDialTimeout   = 10 * time.Second
	defaultTLSTimeout    = 10 * time.Second
	defaultHeaderTimeout = 2 * time.Minute
	idleTimeout          = 60 * time.Second
	maxHeaderBytes       = 64 << 10
)

// Client sends requests to one host. It may be used by several goroutines.
type Client struct {
	scheme, host string // host is lower case and always has a port

	// GETs share connections. Everything else gets a connection of its own:
	// net/http sends a request a second time only on a reused connection. For
	// a GET over an idle connection that has died it does, and may.
	reads, writes *http.Transport
}

// New checks o and returns a Client. It opens no connection.
func New(o Options) (*Client, error) {
	scheme, host, err := origin(o)
	if err != nil {
		return nil, err
	}
	roots, err := loadRoots(o.CAFile)
	if err != nil {
		return nil, err
	}
	guard := guard{loopbackOnly: o.AllowLoopback, permittedOnly: o.OnlyPermitted, permitted: o.PermittedRanges, record: o.Record}
	dialer := &net.Dialer{
		Timeout:        orDefault(o.DialTimeout, defaultDialTimeout),
		ControlContext: guard.control,
	}
	build := func(keepAlive bool) *http.Transport {
		var http1 http.Protocols
		http1.SetHTTP1(true) // HTTP/2 has retry rules of its own
		return &http.Transport{
			Proxy: nil,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if !strings.EqualFold(addr, host) {
					return nil, ErrHost
				}
				return dialer.DialContext(ctx, network, addr)
			},
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			TLSHandshakeTimeout:    orDefault(o.TLSTimeout, defaultTLSTimeout),
			ResponseHeaderTimeout:  orDefault(o.HeaderTimeout, defaultHeaderTimeout),
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxHeaderBytes,
			DisableKeepAlives:      !keepAlive,
			DisableCompression:     true, // so that sizes on the wire are sizes in memory
			Protocols:              &http1,
		}
	}
	return &Client{scheme: scheme, host: host, reads: build(true), writes: build(false)}, nil
}

// Do sends req, once unless it is a GET, and returns the answer, whatever its status: a redirect is
// an answer too and is not followed. The answer's body yields at most maxBody
// bytes and then ErrTooLarge; the caller closes it. The deadline is the
// request's context.
//
// Every error is an *Error. Do takes req over and may change it.
func (c *Client) Do(req *http.Request, maxBody int64) (*http.Response, error) {
	if err := c.admit(req); err != nil {
		closeBody(req)
		return nil, &Error{NeverLeft: true, Err: err}
	}
	rt := c.writes
	if req.Method == http.MethodGet {
		rt = c.reads
	}
	// With GetBody net/http takes a request for replayable and may send it twice
	// without a word; with an Idempotency-Key likewise, unless it has a body that
	// cannot be had again.
	req.GetBody = nil
	if req.Body == nil || req.Body == http.NoBody {
		req.Header.Del("Idempotency-Key")
	}
	req.Header.Del("X-Idempotency-Key")

	var connected atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}))
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return nil, &Error{NeverLeft: !connected.Load(), Err: cleanIn(req.Context(), err)}
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		resp.Body.Close()
		return nil, &Error{Err: ErrEncoded}
	}
	resp.Body = &cappedBody{ctx: req.Context(), body: resp.Body, left: maxBody}
	return resp, nil
}

// CloseIdleConnections drops the connections that wait for another read.
func (c *Client) CloseIdleConnections() { c.reads.CloseIdleConnections() }

// Host is the pinned host with its port, as compared with each request.
func (c *Client) Host() string { return c.host }

func (c *Client) admit(req *http.Request) error {
	if req.URL == nil || req.URL.User != nil || req.URL.Opaque != "" {
		return ErrHost
	}
	if req.URL.Scheme != c.scheme || withPort(req.URL.Host, c.scheme) != c.host {
		return ErrHost
	}
	if req.Host != "" && withPort(req.Host, c.scheme) != c.host {
		return ErrHost
	}
	return nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// origin reads scheme and host out of o.
func origin(o Options) (scheme, host string, err error) {
	scheme = o.Scheme
	if scheme == "" {
		scheme = "https"
	}
	switch {
	case o.OnlyPermitted && (o.AllowLoopback || len(o.PermittedRanges) == 0):
		return "", "", errors.New("transport: name the permitted ranges, or allow loopback, and not both")
	case scheme == "http" && !o.AllowLoopback && !o.OnlyPermitted:
		return "", "", errors.New("transport: plain http is permitted to loopback and to permitted private ranges only")
	case scheme != "http" && scheme != "https":
		return "", "", fmt.Errorf("transport: scheme %q: want https", scheme)
	}
	host = withPort(o.Host, scheme)
	name, port, err := net.SplitHostPort(host)
	if err != nil || name == "" || port == "" || strings.ContainsAny(o.Host, "/@?# \t\r\n") {
		return "", "", errors.New("transport: host: want host or host:port")
	}
	for _, p := range o.PermittedRanges {
		if !p.IsValid() {
			return "", "", errors.New("transport: a permitted range is not a valid prefix")
		}
		if o.OnlyPermitted && !private(p) {
			return "", "", errors.New("transport: a permitted range is not private; write one inside 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or fc00::/7")
		}
	}
	return scheme, host, nil
}

// withPort is host in lower case with the scheme's own port when it has none.
func withPort(host, scheme string) string {
	host = strings.ToLower(host)
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	port := "443"
	if scheme == "http" {
		port = "80"
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

func loadRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("transport: read the authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("transport: no certificate in %s", file)
	}
	return pool, nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}
