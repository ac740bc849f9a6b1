package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const marker = "PATIENT-TEXT-7f3a"

// newClient is a client for a loopback server, and the connections it made.
func newClient(t *testing.T, srv *httptest.Server, change func(*Options)) (*Client, func() []string) {
	t.Helper()
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var dialled []string
	o := Options{Scheme: u.Scheme, Host: u.Host, AllowLoopback: true, Record: func(_, addr string) {
		mu.Lock()
		defer mu.Unlock()
		dialled = append(dialled, addr)
	}}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), dialled...)
	}
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// hangUp closes the connection of w without an answer.
func hangUp(t *testing.T, w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	conn.Close()
}

// A server that acts and then closes a reused connection is where net/http
// sends a keyed POST again by itself (F22).
func TestCreateIsSentOnce(t *testing.T) {
	var creates atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			io.WriteString(w, "warm")
			return
		}
		io.Copy(io.Discard, r.Body)
		creates.Add(1)
		hangUp(t, w)
	}))
	t.Cleanup(srv.Close)

	send := func(do func(*http.Request) (*http.Response, error)) int64 {
		creates.Store(0)
		resp, err := do(request(t, http.MethodGet, srv.URL, nil))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		req := request(t, http.MethodPost, srv.URL, bytes.NewReader([]byte("body")))
		req.Header.Set("Idempotency-Key", "k")
		if _, err := do(req); err == nil {
			t.Error("the lost answer was not reported")
		} else if NeverLeft(err) {
			t.Errorf("%v: a request that was acted on is said to have never left", err)
		}
		return creates.Load()
	}

	ordinary := &http.Transport{}
	t.Cleanup(ordinary.CloseIdleConnections)
	if n := send(ordinary.RoundTrip); n < 2 {
		t.Errorf("net/http sent the keyed create %d times: this server does not show the danger", n)
	}
	c, _ := newClient(t, srv, nil)
	if n := send(func(r *http.Request) (*http.Response, error) { return c.Do(r, 1<<10) }); n != 1 {
		t.Errorf("the create was sent %d times, want once", n)
	}
}

func TestRedirectIsAnAnswer(t *testing.T) {
	var strayed atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	t.Cleanup(other.Close)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "a=b")
		if r.Header.Get("Cookie") != "" {
			t.Error("a cookie was sent back")
		}
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(srv.Close)
	c, dialled := newClient(t, srv, nil)
	for _, method := range []string{"GET", "POST", "DELETE"} {
		resp, err := c.Do(request(t, method, srv.URL, strings.NewReader(marker)), 1<<10)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusTemporaryRedirect {
			t.Errorf("%s: status %d, want the redirect itself", method, resp.StatusCode)
		}
	}
	if strayed.Load() != 0 {
		t.Error("the redirect was followed")
	}
	for _, addr := range dialled() {
		if "http://"+addr != srv.URL {
			t.Errorf("dialled %s", addr)
		}
	}
}

func TestNeverLeft(t *testing.T) {
	answering := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	t.Cleanup(answering.Close)
	hanging := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(hanging.Close)
	dropping := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hangUp(t, w) }))
	t.Cleanup(dropping.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, port, _ := net.SplitHostPort(answering.Listener.Addr().String())

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name   string
		srv    *httptest.Server
		change func(*Options)
		url    string
		ctx    context.Context
		never  bool
		is     error
	}{
		{name: "nobody listens", srv: gone, never: true},
		{name: "unknown authority", srv: answering, never: true},
		{name: "another host", srv: dropping, url: "http://127.0.0.2:1/", never: true, is: ErrHost},
		{name: "another scheme", srv: answering, url: strings.Replace(answering.URL, "https", "http", 1), never: true, is: ErrHost},
		{name: "credentials in the URL", srv: dropping, url: strings.Replace(dropping.URL, "//", "//u:p@", 1), never: true, is: ErrHost},
		{name: "name resolves to loopback", srv: answering, never: true, is: ErrAddress, url: "https://localhost:" + port,
			change: func(o *Options) { o.Host, o.AllowLoopback = "localhost:"+port, false }},
		{name: "cancelled before", srv: dropping, ctx: cancelled, never: true, is: context.Canceled},
		{name: "dropped after it was read", srv: dropping, is: io.EOF},
		{name: "no header in time", srv: hanging, is: ErrTimeout,
			change: func(o *Options) { o.HeaderTimeout = 20 * time.Millisecond }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, dialled := newClient(t, tc.srv, tc.change)
			if tc.url == "" {
				tc.url = tc.srv.URL
			}
			req := request(t, http.MethodPost, tc.url+"/?key="+marker, strings.NewReader(marker))
			if tc.ctx != nil {
				req = req.WithContext(tc.ctx)
			}
			_, err := c.Do(req, 1<<10)
			if err == nil {
				t.Fatal("no error")
			}
			if NeverLeft(err) != tc.never {
				t.Errorf("%v: NeverLeft is %v, want %v", err, !tc.never, tc.never)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("%v: want %v", err, tc.is)
			}
			if strings.Contains(fmt.Sprintf("%+v", err), marker) {
				t.Errorf("the error shows the request: %v", err)
			}
			if (tc.is == ErrHost || tc.is == ErrAddress) && len(dialled()) != 0 {
				t.Errorf("dialled %v", dialled())
			}
		})
	}
}

func TestCallersDeadline(t *testing.T) {
	arrived := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
	}))
	t.Cleanup(srv.Close)
	c, _ := newClient(t, srv, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := c.Do(request(t, "POST", srv.URL, strings.NewReader("x")).WithContext(ctx), 1)
	if !errors.Is(err, context.Canceled) || NeverLeft(err) {
		t.Errorf("got %v, want a cancellation that may have left", err)
	}
}

// raw serves one fixed answer, byte for byte.
func raw(t *testing.T, answer string) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		buf.WriteString(answer)
		buf.Flush()
	}))
	t.Cleanup(srv.Close)
	return srv
}

func TestAnswers(t *testing.T) {
	for _, tc := range []struct {
		name, answer, body string
		is                 error
	}{
		{"fits exactly", "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n12345678", "12345678", nil},
		{"one byte too many", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789", "12345678", ErrTooLarge},
		{"cut short", "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n1234", "1234", io.ErrUnexpectedEOF},
		{"chunks cut short", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n", "1234", io.ErrUnexpectedEOF},
		{"packed unasked", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", "", ErrEncoded},
		{"not HTTP", marker + "\r\n\r\n", "", nil},
		{"bad header", "HTTP/1.1 200 OK\r\n" + marker + "\r\n\r\n", "", nil},
		{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + marker + "\r\n", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, _ := newClient(t, raw(t, tc.answer), nil)
			body, err := exchange(t, c)
			if string(body) != tc.body {
				t.Errorf("body %q, want %q", body, tc.body)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error %v, want %v", err, tc.is)
			}
			if tc.body == "" && err == nil {
				t.Error("no error")
			}
			if err != nil && strings.Contains(err.Error(), marker) {
				t.Errorf("the error quotes the answer: %v", err)
			}
		})
	}
}

func exchange(t *testing.T, c *Client) ([]byte, error) {
	t.Helper()
	resp, err := c.Do(request(t, "GET", "http://"+c.Host(), nil), 8)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(bufio.NewReader(resp.Body))
}

func TestOwnAuthority(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("%s, Accept-Encoding %q", r.Proto, r.Header.Get("Accept-Encoding"))
		}
		io.WriteString(w, "hello")
	}))
	t.Cleanup(srv.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(file, block, 0o600); err != nil {
		t.Fatal(err)
	}
	c, _ := newClient(t, srv, func(o *Options) { o.CAFile = file })
	resp, err := c.Do(request(t, "GET", srv.URL, nil), 100)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]Options{
		"no host":              {},
		"http to the world":    {Scheme: "http", Host: "api.example.org"},
		"another scheme":       {Scheme: "ftp", Host: "api.example.org"},
		"path in the host":     {Host: "api.example.org/v1"},
		"user in the host":     {Host: "u@api.example.org"},
		"no such authorities":  {Host: "api.example.org", CAFile: "/nonexistent"},
		"authorities not PEM":  {Host: "api.example.org", CAFile: os.Args[0]},
		"an invalid range":     {Host: "api.example.org", PermittedRanges: make([]netip.Prefix, 1)},
		"http to a range":      {Scheme: "http", Host: "gpu.internal", PermittedRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		"only no range":        {Scheme: "http", Host: "gpu.internal", OnlyPermitted: true},
		"only the world":       {Scheme: "http", Host: "gpu.internal", OnlyPermitted: true, PermittedRanges: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}},
		"only and loopback":    {Scheme: "http", Host: "gpu.internal", OnlyPermitted: true, AllowLoopback: true, PermittedRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		"port without a name":  {Host: ":443"},
		"line feed in a host ": {Host: "api.example.org\n"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := New(Options{Scheme: "http", Host: "gpu.internal:8000", OnlyPermitted: true, PermittedRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}); err != nil {
		t.Errorf("plain http within a private range: %v", err)
	}
	c, err := New(Options{Host: "API.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Host() != "api.example.org:443" || c.writes.Proxy != nil || c.reads.Proxy != nil || !c.writes.DisableKeepAlives {
		t.Errorf("host %q, or a proxy, or writes that share connections", c.Host())
	}
}

// The key of a request with a body arrives; without a body net/http would take
// the key for leave to send it twice, and it goes.
func TestIdempotencyKey(t *testing.T) {
	var got string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Idempotency-Key") }))
	t.Cleanup(srv.Close)
	c, _ := newClient(t, srv, nil)
	for want, body := range map[string]io.Reader{"k1": strings.NewReader("body"), "": nil} {
		req := request(t, http.MethodPost, srv.URL, body)
		req.Header.Set("Idempotency-Key", "k1")
		resp, err := c.Do(req, 1<<10)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got != want {
			t.Errorf("key %q, want %q", got, want)
		}
	}
}
