package webhook

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// received is what a server made of a request.
type received struct {
	delivery Delivery
	body     string
	err      error
}

// serve receives at a real server, and says what came of each request.
func serve(t *testing.T, v *Verifier) (address string, made <-chan received) {
	t.Helper()
	out := make(chan received, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, body, err := v.Receive(w, r)
		out <- received{d, string(body), err}
	}))
	srv.Config.ReadTimeout = time.Second
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String(), out
}

// post sends a signed body, changed by change.
func post(t *testing.T, address string, k Key, body io.Reader, signed string, change func(*http.Request)) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+address, body)
	if err != nil {
		t.Fatal(err)
	}
	if err := Sign(req.Header, vectorID, time.Unix(vectorTime, 0), []byte(signed), k); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err == nil { // a body that is not read to its end may break the connection
		_ = resp.Body.Close()
	}
}

func TestReceive(t *testing.T) {
	k := key(t, vectorSecret)
	v := verifier(0, k)
	v.MaxBody = 100
	address, made := serve(t, v)
	odd := "{ \"a\" :\t\"\\u00e9\u2028\" }\r\n" // which nothing may print again
	full, over := strings.Repeat("x", 100), strings.Repeat("x", 101)
	unknownLength := func(r *http.Request) { r.ContentLength = -1 }
	for name, tc := range map[string]struct {
		body   string
		change func(*http.Request)
		want   error
	}{
		"the bytes as they are":       {odd, nil, nil},
		"an empty body":               {"", nil, nil},
		"as long as may be":           {full, nil, nil},
		"in chunks":                   {full, unknownLength, nil},
		"too large":                   {over, nil, TooLarge},
		"too large, in chunks":        {over, unknownLength, TooLarge},
		"far too large":               {strings.Repeat(over, 10_000), nil, TooLarge},
		"compressed":                  {odd, func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, Encoded},
		"said not to be compressed":   {odd, func(r *http.Request) { r.Header.Set("Content-Encoding", "identity") }, nil},
		"compressed twice":            {odd, func(r *http.Request) { r.Header["Content-Encoding"] = []string{"identity", "br"} }, Encoded},
		"forged":                      {odd, func(r *http.Request) { r.Header.Set(HeaderID, "msg_other") }, Forged},
		"stale before it is large":    {over, func(r *http.Request) { r.Header.Set(HeaderTimestamp, "1") }, Stale},
		"unsigned before it is large": {over, func(r *http.Request) { r.Header.Del(HeaderSignature) }, Unsigned},
	} {
		post(t, address, k, strings.NewReader(tc.body), tc.body, tc.change)
		got := <-made
		if got.err != tc.want {
			t.Errorf("%s: %v, want %v", name, got.err, tc.want)
		}
		if good := got.err == nil; good != (got.delivery.ID == vectorID) || good && got.body != tc.body || !good && got.body != "" {
			t.Errorf("%s: %+v with a body of %d bytes", name, got.delivery, len(got.body))
		}
	}
}

// A body that stops half-way, or never comes, holds nothing for longer than the
// server reads.
func TestReceiveIsBounded(t *testing.T) {
	k := key(t, vectorSecret)
	address, made := serve(t, verifier(0, k))
	for name, hangUp := range map[string]bool{"the sender hangs up": true, "the sender stalls": false} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		if err := Sign(h, vectorID, time.Unix(vectorTime, 0), []byte(vectorBody), k); err != nil {
			t.Fatal(err)
		}
		w := bufio.NewWriter(conn)
		fmt.Fprintf(w, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", len(vectorBody))
		_ = h.Write(w)
		fmt.Fprintf(w, "\r\n%s", vectorBody[:10])
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if hangUp {
			_ = conn.Close()
		}
		if got := <-made; got.err != Cut {
			t.Errorf("%s: %v", name, got.err)
		}
		_ = conn.Close()
	}
}
