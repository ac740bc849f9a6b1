package inhouse_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall/batch"
	"rollcall/batch/inhouse"
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

const answered = `{"object":"chat.completion","model":"sandbox-stand-in","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"{\"label\":\"ok\"}","reasoning_content":"hm"}}]}`

func TestRequest(t *testing.T) {
	url, last := serve(t, func(w http.ResponseWriter) { io.WriteString(w, answered) })
	const schema = `{"type":"object","properties":{"label":{"enum":["ok"]}},"required":["label"]}`
	ask := func(change func(*inhouse.Config, *batch.Classifier)) string {
		t.Helper()
		cfg, cl := config(url), question()
		cl.Instructions, cl.Schema = "Say \"ok\".", []byte(schema)
		change(&cfg, cl)
		if _, err := newClient(t, cfg).Call(t.Context(), cl, "w1-s1", batch.NewText("a \"b\"\n\xff\xfe\u2028é")); err != nil {
			t.Fatal(err)
		}
		req, body := last()
		if req.Method+" "+req.RequestURI != "POST /v1/chat/completions" || req.Header.Get("Authorization") != "Bearer "+key || req.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %v", req.Method, req.RequestURI, req.Header)
		}
		return body
	}
	const (
		user   = `{"role":"user","content":"{\"report\":\"a \\\"b\\\"\\n��` + "\u2028" + `é\"}"}`
		head   = `{"model":"sandbox-stand-in","temperature":0,"seed":7,"max_tokens":400,`
		says   = `"messages":[{"role":"system","content":"Say \"ok\"."},` + user + `],`
		nested = `"response_format":{"type":"json_schema","json_schema":{"name":"classification","strict":true,"schema":` + schema + `}}}`
	)
	for name, tc := range map[string]struct {
		change func(*inhouse.Config, *batch.Classifier)
		want   string
	}{
		"nested": {func(*inhouse.Config, *batch.Classifier) {}, head + says + nested},
		"direct": {func(c *inhouse.Config, _ *batch.Classifier) { c.SchemaForm = inhouse.SchemaDirect }, head + says + `"response_format":{"type":"json_schema","schema":` + schema + `}}`},
		"bare": {func(c *inhouse.Config, cl *batch.Classifier) { c.Seed, cl.Temperature = nil, nil },
			`{"model":"sandbox-stand-in","max_tokens":400,` + says + nested},
		"no thinking": {func(c *inhouse.Config, _ *batch.Classifier) { c.ReasoningEffort = "none" },
			`{"model":"sandbox-stand-in","temperature":0,"seed":7,"max_tokens":400,"reasoning_effort":"none",` + says + nested},
	} {
		if diff := cmp.Diff(tc.want, ask(tc.change)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// Health and unstored texts are for a server that nobody else can be behind.
func TestClassesByAddress(t *testing.T) {
	for url, tc := range map[string]struct {
		change func(*inhouse.Config)
		want   string
	}{
		"http://127.0.0.1:1/v1":   {func(c *inhouse.Config) { c.AllowLoopback = true }, "[synthetic personal health unstored]"},
		"http://10.20.0.7:1/v1":   {func(c *inhouse.Config) { c.PermittedRanges = []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16")} }, "[synthetic personal health unstored]"},
		"https://llm.example/v1":  {func(*inhouse.Config) {}, "[synthetic personal]"},
		"https://203.0.114.9/v1":  {func(*inhouse.Config) {}, "[synthetic personal]"},
		"https://llm2.example/v1": {func(c *inhouse.Config) { c.PermittedRanges = []netip.Prefix{} }, "[synthetic personal]"},
	} {
		cfg := config(url)
		cfg.AllowLoopback, cfg.PermittedRanges = false, nil
		tc.change(&cfg)
		if got := fmt.Sprint(newClient(t, cfg).Capabilities().Classes); got != tc.want {
			t.Errorf("%s: %s, want %s", url, got, tc.want)
		}
	}
}

// An answer that names no model is nobody's.
func TestAnswerMustNameItsModel(t *testing.T) {
	for name, model := range map[string]string{"left out": "", "empty": `"model":"",`, "null": `"model":null,`, "another type": `"model":{},`} {
		url, _ := serve(t, func(w http.ResponseWriter) {
			io.WriteString(w, strings.Replace(answered, `"model":"sandbox-stand-in",`, model, 1))
		})
		c := newClient(t, config(url))
		r, err := c.Call(t.Context(), question(), "w1-s1", batch.NewText("a"))
		if e, ok := err.(*batch.Error); !ok || e.Kind != batch.BadAnswer || e.Code != inhouse.CodeOtherModel || r.Content != nil {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if err := c.Probe(t.Context(), question()); batch.KindOf(err) != batch.BadAnswer || !strings.Contains(err.Error(), inhouse.CodeOtherModel) {
			t.Errorf("%s: probe: %v", name, err)
		}
	}
}

// A token goes with the text and comes back with the answer.
func TestEcho(t *testing.T) {
	token := batch.EchoToken("w1-s1")
	url, last := serve(t, func(w http.ResponseWriter) {
		io.WriteString(w, strings.Replace(answered, `{\"label\"`, `{\"token\":\"`+token+`\",\"label\"`, 1))
	})
	cl := question()
	cl.Echo = true
	r, err := newClient(t, config(url)).Call(t.Context(), cl, "w1-s1", batch.NewText("a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, body := last(); !strings.Contains(body, `{\"token\":\"`+token+`\",\"report\":\"a\"}`) || !strings.Contains(body, `"properties":{"token":{`) {
		t.Error(body)
	}
	if r = batch.Judge(cl, r); r.Outcome != batch.Answered || string(r.Content) != `{"label":"ok"}` {
		t.Errorf("%s, %s: %s", r.Outcome, r.Code, r.Content)
	}
}

func TestErrorsOfAnyServer(t *testing.T) {
	kinds := map[int]batch.Kind{
		202: batch.BadAnswer, 307: batch.BadAnswer, 400: batch.Rejected, 401: batch.Denied, 402: batch.OutOfCredit, 403: batch.Denied, 404: batch.NotFound,
		413: batch.Rejected, 422: batch.Rejected, 429: batch.RateLimited, 500: batch.Temporary, 502: batch.Temporary, 503: batch.Temporary, 504: batch.Temporary,
	}
	for status, kind := range kinds {
		for body, code := range map[string]string{
			`{"error":{"code":503,"message":"MARK","type":"unavailable_error"}}`:    "unavailable_error",
			`{"object":"error","message":"MARK","type":"NotFoundError","code":404}`: "NotFoundError",
			`{"error":{"message":"MARK","type":"api_error","code":null}}`:           "api_error",
			`{"error":"MARK prose"}`: "unprintable",
			`<html>MARK</html>`:      "",
		} {
			url, _ := serve(t, func(w http.ResponseWriter) {
				w.Header().Set("Location", "http://127.0.0.1:1/"+marker)
				w.WriteHeader(status)
				io.WriteString(w, strings.ReplaceAll(body, "MARK", marker))
			})
			c := newClient(t, config(url))
			_, err := c.Call(t.Context(), question(), "w1-s1", batch.NewText(marker))
			for _, err := range []error{err, c.Probe(t.Context(), question())} {
				e, ok := err.(*batch.Error)
				if !ok || e.Kind != kind || e.HTTPStatus != status || e.Code != code {
					t.Errorf("HTTP %d %s: %v", status, body, err)
				}
				if shown := fmt.Sprintf("%v %+v", err, err); strings.Contains(shown, marker) || strings.Contains(shown, key) || strings.Contains(shown, url) {
					t.Errorf("HTTP %d %s: shows %s", status, body, shown)
				}
			}
		}
	}
}

// The probe takes what its schema permits and nothing else.
func TestProbeWantsItsSchema(t *testing.T) {
	for content, ok := range map[string]bool{
		`{"rollcall_probe_q7":"amber"}`: true, ` { "rollcall_probe_q7" : "cobalt" } `: true,
		`{"rollcall_probe_q7":"red"}`: false, `{"rollcall_probe_q7":7}`: false, `{"rollcall_probe_q7":"amber","more":"words"}`: false, `{"ROLLCALL_PROBE_Q7":"amber"}`: false,
		`{}`: false, `"amber"`: false, "```json\n{\"rollcall_probe_q7\":\"amber\"}\n```": false, `The sea is calm.`: false, `{"rollcall_probe_q7":"amber"} and so on`: false,
	} {
		url, last := serve(t, func(w http.ResponseWriter) {
			b, err := json.Marshal(content)
			if err != nil {
				t.Error(err)
			}
			io.WriteString(w, strings.Replace(answered, `"{\"label\":\"ok\"}"`, string(b), 1))
		})
		err := newClient(t, config(url)).Probe(t.Context(), question())
		if kind, code := kindAndCode(err); ok && err != nil || !ok && (kind != batch.BadAnswer || code != inhouse.CodeSchemaIgnored) {
			t.Errorf("%s: %v", content, err)
		}
		var sent struct{ Messages []struct{ Content string } }
		if _, body := last(); json.Unmarshal([]byte(body), &sent) != nil || len(sent.Messages) != 2 || strings.Contains(sent.Messages[0].Content+sent.Messages[1].Content, "probe") {
			t.Error("the question names what only the schema may name")
		}
	}
}

// A classifier that cannot be asked is refused before a text leaves.
func TestClassifiers(t *testing.T) {
	calls := 0
	url, _ := serve(t, func(w http.ResponseWriter) { calls++; io.WriteString(w, answered) })
	c := newClient(t, config(url))
	for name, change := range map[string]func(*batch.Classifier){
		"no model":             func(cl *batch.Classifier) { cl.Model = "" },
		"no limit":             func(cl *batch.Classifier) { cl.MaxOutputTokens = 0 },
		"no schema":            func(cl *batch.Classifier) { cl.Schema = nil },
		"a schema of a word":   func(cl *batch.Classifier) { cl.Schema = []byte(`true`) },
		"half a schema":        func(cl *batch.Classifier) { cl.Schema = []byte(`{"type":`) },
		"a name twice":         func(cl *batch.Classifier) { cl.Schema = []byte(`{"type":"object","type":"string"}`) },
		"no temperature":       func(cl *batch.Classifier) { cl.Temperature = new(math.NaN()) },
		"a cold temperature":   func(cl *batch.Classifier) { cl.Temperature = new(-1.0) },
		"instructions not utf": func(cl *batch.Classifier) { cl.Instructions = "\xff" },
		"an echo without room": func(cl *batch.Classifier) { cl.Echo, cl.Schema = true, []byte(`{}`) },
	} {
		cl := question()
		change(cl)
		_, err := c.Call(t.Context(), cl, "w1-s1", batch.NewText(marker))
		for _, err := range []error{err, c.Probe(t.Context(), cl)} {
			if batch.KindOf(err) != batch.Rejected {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if calls != 0 {
		t.Errorf("%d calls", calls)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*inhouse.Config){
		"no name":           func(c *inhouse.Config) { c.Name = "" },
		"an empty key":      func(c *inhouse.Config) { c.APIKey = func() string { return "" } },
		"a short MAC key":   func(c *inhouse.Config) { c.FingerprintKey = make([]byte, 15) },
		"another form":      func(c *inhouse.Config) { c.SchemaForm = "grammar" },
		"an effort of more": func(c *inhouse.Config) { c.ReasoningEffort = "not at all" },
		"a negative text":   func(c *inhouse.Config) { c.MaxText = -1 },
		"no host":           func(c *inhouse.Config) { c.BaseURL = "/v1" },
		"a user":            func(c *inhouse.Config) { c.BaseURL = "http://" + key + "@127.0.0.1:1/v1" },
		"http to the world": func(c *inhouse.Config) { c.AllowLoopback = false },
		"a public range": func(c *inhouse.Config) {
			c.AllowLoopback, c.PermittedRanges = false, []netip.Prefix{netip.MustParsePrefix("8.0.0.0/8")}
		},
		"loopback and a range": func(c *inhouse.Config) { c.PermittedRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} },
	} {
		cfg := config("http://127.0.0.1:1")
		change(&cfg)
		if _, err := inhouse.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), key) {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
}

// Plain http goes to the named ranges and nowhere else, whatever a name stands
// for.
func TestPlainHTTPStaysInside(t *testing.T) {
	calls := 0
	url, _ := serve(t, func(w http.ResponseWriter) { calls++; io.WriteString(w, answered) })
	cfg := config(strings.Replace(url, "127.0.0.1", "localhost", 1))
	cfg.AllowLoopback, cfg.PermittedRanges = false, []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16")}
	_, err := newClient(t, cfg).Call(t.Context(), question(), "w1-s1", batch.NewText(marker))
	if batch.KindOf(err) != batch.Temporary || !strings.Contains(err.Error(), "may not be dialled") || calls != 0 {
		t.Errorf("%v, %d calls", err, calls)
	}
}

func TestFingerprint(t *testing.T) {
	of := func(url string, key string) string {
		cfg := config(url)
		cfg.APIKey = func() string { return key }
		return newClient(t, cfg).Account().Fingerprint
	}
	if of("http://a:8000", "k1") != of("http://A:8000", "k2") {
		t.Error("another key is another account")
	}
	if of("http://a:8000", "k1") == of("http://a:8001", "k1") || of("http://a:8000", "k1") == of("http://a:8000/second", "k1") {
		t.Error("two servers are one account")
	}
}
