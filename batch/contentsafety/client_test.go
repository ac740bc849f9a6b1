package contentsafety_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"rollcall/batch"
	"rollcall/batch/contentsafety"
)

// serve answers each call as handler does and keeps the last request.
func serve(t *testing.T, handler func(w http.ResponseWriter)) (url string, last func() (*http.Request, string)) {
	t.Helper()
	var req *http.Request
	var body string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		req, body = r, string(b)
		handler(w)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() (*http.Request, string) { return req, body }
}

const clean = `{"categoriesAnalysis":[{"category":"Violence","severity":0},{"category":"Sexual","severity":0},{"category":"SelfHarm","severity":0},{"category":"Hate","severity":0}]}`

func TestRequest(t *testing.T) {
	url, last := serve(t, func(w http.ResponseWriter) { io.WriteString(w, clean) })
	cfg := withKey(url + "/") // a slash at the end is one too many
	cfg.APIVersion = "2026-09-01-preview"
	if _, err := newClient(t, cfg).Call(t.Context(), question(), "w1-s1", batch.NewText("a \"b\"\n\xff\xfe\u2028é")); err != nil {
		t.Fatal(err)
	}
	req, body := last()
	const want = `{"text":"a \"b\"\n��` + "\u2028" + `é","categories":["Hate","SelfHarm","Sexual","Violence"],"haltOnBlocklistHit":false,"outputType":"EightSeverityLevels"}`
	if body != want {
		t.Errorf("body %s\nwant %s", body, want)
	}
	if got := req.Method + " " + req.RequestURI; got != "POST /contentsafety/text:analyze?api-version=2026-09-01-preview" {
		t.Error(got)
	}
	for name, want := range map[string]string{
		"Ocp-Apim-Subscription-Key": key, "Authorization": "", "Content-Type": "application/json", "Accept": "application/json", "User-Agent": "rollcall",
	} {
		if got := req.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// No status, code or prose of an answer gets a text into an error, and the kind
// follows from the status alone.
func TestErrorsOfAnyServer(t *testing.T) {
	kinds := map[int]batch.Kind{
		204: batch.BadAnswer, 206: batch.BadAnswer, 302: batch.BadAnswer, 303: batch.BadAnswer, 400: batch.Rejected, 401: batch.Denied, 402: batch.OutOfCredit, 403: batch.Denied,
		404: batch.NotFound, 408: batch.Temporary, 409: batch.Temporary, 410: batch.NotFound, 413: batch.Rejected, 415: batch.Rejected, 422: batch.Rejected, 425: batch.Temporary,
		429: batch.RateLimited, 500: batch.Temporary, 502: batch.Temporary, 503: batch.Temporary, 504: batch.Temporary, 599: batch.Temporary,
	}
	bodies := map[string]string{
		`{"error":{"code":"InvalidRequestBody","message":"MARK","target":"text","details":[{"code":"x","message":"MARK"}],"innererror":{"code":"MARK MARK"}}}`: "InvalidRequestBody",
		`{"error":{"code":"429","message":"MARK"}}`:                  "429",
		`{"error":{"code":"MARK of a report","message":"MARK"}}`:     "unprintable",
		`{"error":{"code":429,"type":"MARK prose"}}`:                 "unprintable",
		`{"error":"invalid_client","error_description":"MARK"}`:      "invalid_client",
		`{"object":"error","type":"NotFoundError","message":"MARK"}`: "NotFoundError",
		`{"error":["MARK"]}`:   "",
		`<html>MARK</html>`:    "",
		`"MARK"`:               "",
		``:                     "",
		`{"error":{"code":"a"`: "",
	}
	for status, kind := range kinds {
		for body, code := range bodies {
			url, _ := serve(t, func(w http.ResponseWriter) {
				w.Header().Set("Location", "http://127.0.0.1:1/"+marker)
				w.Header().Set("Apim-Request-Id", "req-1")
				w.WriteHeader(status)
				io.WriteString(w, strings.ReplaceAll(body, "MARK", marker))
			})
			_, err := newClient(t, withKey(url)).Call(t.Context(), question(), "w1-s1", batch.NewText(marker))
			e, ok := err.(*batch.Error)
			if !ok || e.Kind != kind || e.HTTPStatus != status || e.RequestID != "req-1" || status != 204 && e.Code != code {
				t.Errorf("HTTP %d %s: %v", status, body, err)
			}
			if shown := fmt.Sprintf("%v %+v", err, err); strings.Contains(shown, marker) || strings.Contains(shown, key) || strings.Contains(shown, url) {
				t.Errorf("HTTP %d %s: shows %s", status, body, shown)
			}
		}
	}
}

// Too busy with a time is as too many calls.
func TestBusyWithTime(t *testing.T) {
	url, _ := serve(t, func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	_, err := newClient(t, withKey(url)).Call(t.Context(), question(), "w1-s1", batch.NewText(marker))
	if batch.KindOf(err) != batch.RateLimited || batch.RetryAfter(err).Seconds() != 3 {
		t.Errorf("%v, %v", err, batch.RetryAfter(err))
	}
}

// An answer that is longer than any is not read to its end.
func TestEndlessAnswer(t *testing.T) {
	url, _ := serve(t, func(w http.ResponseWriter) { io.WriteString(w, clean+strings.Repeat(" ", 2<<20)) })
	if _, err := newClient(t, withKey(url)).Call(t.Context(), question(), "w1-s1", batch.NewText(marker)); batch.KindOf(err) != batch.BadAnswer {
		t.Error(err)
	}
}

// A classifier that the API cannot serve is refused before a text leaves.
func TestClassifiers(t *testing.T) {
	calls := 0
	url, _ := serve(t, func(w http.ResponseWriter) { calls++; io.WriteString(w, clean) })
	c := newClient(t, withKey(url))
	for name, tc := range map[string]struct {
		change func(*batch.Classifier)
		code   string
		probe  bool // refused by the probe alone
	}{
		"no thresholds":    {func(cl *batch.Classifier) { cl.Thresholds = nil }, contentsafety.CodeCategory, false},
		"another category": {func(cl *batch.Classifier) { cl.Thresholds[0].Category = "harassment" }, contentsafety.CodeCategory, false},
		"another case":     {func(cl *batch.Classifier) { cl.Thresholds[0].Category = "selfharm" }, contentsafety.CodeCategory, false},
		"above the scale":  {func(cl *batch.Classifier) { cl.Thresholds[1].Score = 8 }, contentsafety.CodeScale, false},
		"echo":             {func(cl *batch.Classifier) { cl.Echo = true }, contentsafety.CodeEcho, false},
		"a severity of 0":  {func(cl *batch.Classifier) { cl.Thresholds[1].Score = 0 }, batch.CodeThresholds, true},
		"no such label":    {func(cl *batch.Classifier) { cl.Otherwise = "fine" }, batch.CodeThresholds, true},
	} {
		cl := question()
		tc.change(cl)
		calls = 0
		err := c.Probe(t.Context(), cl)
		if e, ok := err.(*batch.Error); !ok || e.Kind != batch.Rejected || e.Code != tc.code {
			t.Errorf("%s: the probe says %v", name, err)
		}
		_, err = c.Call(t.Context(), cl, "w1-s1", batch.NewText(marker))
		if e, ok := err.(*batch.Error); !tc.probe && (!ok || e.Kind != batch.Rejected || e.Code != tc.code) {
			t.Errorf("%s: the call says %v", name, err)
		}
		if !tc.probe && calls != 0 {
			t.Errorf("%s: %d calls", name, calls)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*contentsafety.Config){
		"no name":             func(c *contentsafety.Config) { c.Name = "" },
		"no key":              func(c *contentsafety.Config) { c.Key = nil },
		"an empty key":        func(c *contentsafety.Config) { c.Key = func() string { return "" } },
		"a key of two lines":  func(c *contentsafety.Config) { c.Key = func() string { return key + "\n" } },
		"key and Entra":       func(c *contentsafety.Config) { c.Entra = withEntra(c.BaseURL, "").Entra },
		"a version as a word": func(c *contentsafety.Config) { c.APIVersion = "latest" },
		"a version and more":  func(c *contentsafety.Config) { c.APIVersion = "2024-09-01&x=1" },
		"a long segment":      func(c *contentsafety.Config) { c.Segment = 10_001 },
		"a short segment":     func(c *contentsafety.Config) { c.Segment = 999 },
		"a short MAC key":     func(c *contentsafety.Config) { c.FingerprintKey = make([]byte, 15) },
		"a key in the URL":    func(c *contentsafety.Config) { c.BaseURL += "/?key=" + key },
		"http to the world":   func(c *contentsafety.Config) { c.AllowLoopback = false },
		"http to a range": func(c *contentsafety.Config) {
			c.AllowLoopback, c.PermittedRanges = false, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		},
		"a tenant with a path": func(c *contentsafety.Config) { c.Key, c.Entra = nil, withEntra("", "").Entra; c.Entra.Tenant = "a/b" },
		"no tenant":            func(c *contentsafety.Config) { c.Key, c.Entra = nil, withEntra("", "").Entra; c.Entra.Tenant = "" },
		"no client":            func(c *contentsafety.Config) { c.Key, c.Entra = nil, withEntra("", "").Entra; c.Entra.ClientID = "" },
		"no secret": func(c *contentsafety.Config) {
			c.Key, c.Entra = nil, withEntra("", "").Entra
			c.Entra.Secret = func() string { return "" }
		},
		"tokens for a regional host": func(c *contentsafety.Config) {
			*c = withEntra("https://westeurope.api.cognitive.microsoft.com:443", "")
			c.AllowLoopback = false
		},
		"a login over http": func(c *contentsafety.Config) {
			*c = withEntra("https://r.cognitiveservices.azure.com", "http://login.example")
			c.AllowLoopback = false
		},
	} {
		cfg := withKey("http://127.0.0.1:1")
		change(&cfg)
		_, err := contentsafety.New(cfg)
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), key) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows a secret: %v", name, err)
		}
	}
	for name, cfg := range map[string]contentsafety.Config{
		"key": withKey("https://r.cognitiveservices.azure.com"), "entra": withEntra("https://r.cognitiveservices.azure.com", ""),
	} {
		cfg.AllowLoopback = false
		if _, err := contentsafety.New(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The fingerprint is of the resource: another key of it is the same account.
func TestFingerprint(t *testing.T) {
	of := func(url string, key func() string) string {
		cfg := withKey(url)
		cfg.AllowLoopback, cfg.Key = false, key
		return newClient(t, cfg).Account().Fingerprint
	}
	one, two := func() string { return "key1" }, func() string { return "key2" }
	const own, other, regional = "https://a.cognitiveservices.azure.com", "https://b.cognitiveservices.azure.com", "https://westeurope.api.cognitive.microsoft.com"
	if of(own, one) != of(own, two) || of(own, one) != of("https://A.cognitiveservices.azure.com/", one) {
		t.Error("another key, or another spelling of the host, is another account")
	}
	if of(own, one) == of(other, one) || of(regional, one) == of(regional, two) || of(regional, one) == of(regional+":443", two) {
		t.Error("two resources are one account")
	}
}
