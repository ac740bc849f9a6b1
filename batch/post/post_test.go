package post

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"rollcall/batch"
	"rollcall/batch/transport"
)

func TestWhole(t *testing.T) {
	for text, want := range map[string]struct {
		n  int64
		ok bool
	}{
		"0": {0, true}, "-0": {0, true}, "7": {7, true}, "3.0": {3, true}, "3e0": {3, true}, "-2": {-2, true}, "9007199254740992": {1 << 53, true},
		"3.5": {}, "1e400": {}, "1e300": {}, "9007199254740994": {}, `"7"`: {}, "true": {}, "null": {}, "[]": {}, "": {},
	} {
		if n, ok := Whole(jsontext.Value(text)); n != want.n || ok != want.ok {
			t.Errorf("%s: %d, %v", text, n, ok)
		}
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]struct {
		s  string
		ok bool
	}{
		`"a\u0062\n"`: {"ab\n", true}, `""`: {"", true}, `1`: {}, `null`: {}, `{}`: {}, ``: {},
	} {
		if s, ok := Text(jsontext.Value(text)); s != want.s || ok != want.ok {
			t.Errorf("%s: %q, %v", text, s, ok)
		}
	}
	if !Absent(nil) || !Absent(jsontext.Value("null")) || Absent(jsontext.Value("0")) || Absent(jsontext.Value(`""`)) {
		t.Error("absent is nothing, or null, and nothing else")
	}
}

// A text has as many code points when it is sent as it had before.
func TestValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.SampledFrom([]byte("aä\xff\xe2\x82\xac\xf0\x9f\xa9\xba\xed\xa0\x80"))).Draw(t, "bytes"))
		v := Valid(s)
		if !utf8.ValidString(v) || utf8.RuneCountInString(v) != utf8.RuneCountInString(s) || utf8.ValidString(s) && v != s {
			t.Fatalf("%q became %q", s, v)
		}
	})
}

// Whoever asks, a secret in a URL is not told, and one host is called.
func TestNewRefuses(t *testing.T) {
	for _, url := range []string{"", "://", "https://", "https://k3y@host/v1", "https://host/?key=k3y", "https://host/#k3y", "mailto:k3y", "http://host/v1", "ftp://host/k3y", "https://ho st/k3y", "\x7fk3y"} {
		if _, err := New(Options{BaseURL: url}); err == nil || strings.Contains(err.Error(), "k3y") {
			t.Errorf("%q: %v", url, err)
		}
	}
	c, err := New(Options{BaseURL: "https://HOST.example/v1/"})
	if err != nil || c.Host() != "host.example" || c.Path() != "/v1" {
		t.Errorf("%+v, %v", c, err)
	}
}

// A call ends in its time, and a server that waits is one of the moment.
func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(release)
	c, err := New(Options{BaseURL: s.URL, Timeout: 20 * time.Millisecond, Transport: transport.Options{AllowLoopback: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Send(context.Background(), "call", Request{Path: "/"}); batch.KindOf(err) != batch.Temporary {
		t.Error(err)
	}
}

// Dates are read against the Date header when there is no clock.
func TestRetryAfterByDate(t *testing.T) {
	date := "Sun, 01 Mar 2026 02:00:00 GMT"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		if date != "" {
			w.Header().Set("Date", date)
		}
		w.Header().Set("Retry-After", "Sun, 01 Mar 2026 02:00:09 GMT")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer s.Close()
	c, err := New(Options{BaseURL: s.URL, Transport: transport.Options{AllowLoopback: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []time.Duration{9 * time.Second, 0} {
		a, err := c.Send(context.Background(), "call", Request{Path: "/"})
		if err != nil || a.RetryAfter != want {
			t.Errorf("%+v, %v, want %v", a, err, want)
		}
		date = ""
	}
}

func TestJoin(t *testing.T) {
	a := batch.Result{CustomID: "w1", Outcome: batch.Answered, Content: []byte("{}"), Model: "m", InputTokens: 2, OutputTokens: 1}
	bad := batch.Result{CustomID: "w1", Outcome: batch.Refused, Code: "c", Model: "n", InputTokens: 5}
	for name, tc := range map[string]struct {
		in   []batch.Result
		want batch.Result
		ok   bool
	}{
		"none": {nil, batch.Result{Outcome: batch.NotRun}, false},
		"one":  {[]batch.Result{a}, a, true},
		"two":  {[]batch.Result{a, a}, batch.Result{CustomID: "w1", Outcome: batch.Answered, Content: []byte("{}"), Model: "m", InputTokens: 4, OutputTokens: 2}, true},
		"bad":  {[]batch.Result{a, bad, {Outcome: batch.Blocked}}, batch.Result{CustomID: "w1", Outcome: batch.Refused, Code: "c", Model: "n", InputTokens: 7, OutputTokens: 1}, false},
	} {
		if r, ok := Join(tc.in); ok != tc.ok || !reflect.DeepEqual(r, tc.want) {
			t.Errorf("%s: %+v, %v", name, r, ok)
		}
	}
}
