package sandbox_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"rollcall/batch/sandbox"
)

const (
	analyzePath = "/contentsafety/text:analyze?api-version=2024-09-01"
	tokenPath   = "/tenant.example/oauth2/v2.0/token"
	chatPath    = "/v1/chat/completions"
)

// posted posts a body and gives the whole answer. header holds names and values.
func (r *rig) posted(path, contentType, body string, header ...string) (status int, answer string) {
	r.Helper()
	req, err := http.NewRequest("POST", r.url+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func (r *rig) analyze(body string) (int, string) {
	r.Helper()
	return r.posted(analyzePath, "application/json", body, "Ocp-Apim-Subscription-Key", r.key)
}

func (r *rig) chat(body string) (int, string) {
	r.Helper()
	return r.posted(chatPath, "application/json", body, "Authorization", "Bearer "+r.key)
}

// grant asks for a token; change is pairs of fields and other values for them.
func (r *rig) grant(change ...string) (int, string) {
	r.Helper()
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {"app"}, "client_secret": {r.key}, "scope": {"https://cognitiveservices.azure.com/.default"},
	}
	for i := 0; i+1 < len(change); i += 2 {
		form.Set(change[i], change[i+1])
	}
	return r.posted(tokenPath, "application/x-www-form-urlencoded", form.Encode())
}

const (
	rudeText  = `{"text":"you idiot ` + marker + `","categories":["Hate","SelfHarm","Sexual","Violence"],"outputType":"EightSeverityLevels"}`
	rudePost  = `{"model":"local","max_tokens":40,"messages":[{"role":"user","content":"you idiot ` + marker + `"}],"response_format":{"type":"json_schema","json_schema":{"schema":` + rudeShape + `}}}`
	rudeShape = `{"type":"object","properties":{"label":{"type":"string","enum":["harassment","ok"]}},"required":["label"],"additionalProperties":false}`
)

// callFaults: what a client sees of a call about one text.
var callFaults = []struct {
	fault  string
	status int
	has    string // in the answer
	hasNot string
}{
	{"payment_required:op=analyze", 402, `{"error":{"code":"402"`, ""},
	{"server_error:op=analyze,status=503", 503, `{"error":{"code":"ServerBusy"`, ""},
	{"rate_limit:op=analyze", 429, `{"error":{"code":"TooManyRequests"`, ""},
	{"rate_limit:op=analyze,code=429", 429, `{"error":{"code":"429"`, ""},
	{"not_found:op=analyze", 404, `{"error":{"code":"ResourceNotFound"`, ""},
	{"grade_missing", 200, `{"category":"Hate"},`, ""},
	{"grade_absent:category=SelfHarm", 200, `"Hate"`, "SelfHarm"},
	{"grade_unknown:severity=11", 200, `{"category":"Hate","severity":11}`, ""},
	{"grade_twice", 200, `,{"category":"Hate","severity":0}]`, ""},
	{"grades_shuffled", 200, `"Hate"`, `[{"category":"Hate","severity":5},{"category":"SelfHarm","severity":0},{"category":"Sexual"`},
	{"category_unknown", 200, `,{"category":"Gore","severity":7}],"sandboxNote":`, ""},
	{"blocklist_halted", 200, `"categoriesAnalysis":[]`, "severity"},
	{"blocklist_halted:form=absent", 200, `"blocklistName":"sandbox-list"`, "categoriesAnalysis"},
	{"chat_loading", 503, `"Loading model"`, ""},
	{"chat_prose", 200, `"content":"The post is fine, I would say."`, "harassment"},
	{"chat_whitespace", 200, `"finish_reason":"length"`, "harassment"},
	{"chat_no_finish", 200, `"finish_reason":""`, ""},
	{"chat_other_model", 200, `"model":"another-model"`, ""},
	{"chat_context_cut:tokens=4", 200, `"prompt_tokens":4,`, ""},
	{"refusal", 200, `"refusal":"I can't help with that."`, ""},
	{"item_error:status=429", 429, `"rate_limit_exceeded"`, ""},
	{"short_grant:seconds=60", 200, `"expires_in":60,`, ""},
	{"unauthorized:op=token", 401, `{"error":"invalid_api_key"`, ""},
}

func TestCallFaults(t *testing.T) {
	for _, c := range callFaults {
		t.Run(c.fault, func(t *testing.T) {
			r := newRig(t)
			ask := func() (int, string) { return r.chat(rudePost) }
			switch {
			case strings.Contains(c.fault, "grant"), strings.Contains(c.fault, "op=token"):
				ask = func() (int, string) { return r.grant() }
			case strings.Contains(c.fault, "grade"), strings.Contains(c.fault, "analyze"), strings.Contains(c.fault, "category"), strings.Contains(c.fault, "blocklist"):
				ask = func() (int, string) { return r.analyze(rudeText) }
			}
			sep := ":"
			if strings.Contains(c.fault, ":") {
				sep = ","
			}
			r.faults(c.fault + sep + "times=1")
			status, body := ask()
			if status != c.status || !strings.Contains(body, c.has) || c.hasNot != "" && strings.Contains(body, c.hasNot) {
				t.Errorf("HTTP %d %s\nwant HTTP %d with %q and without %q", status, body, c.status, c.has, c.hasNot)
			}
			if status, body := ask(); status != 200 || c.has != `"Hate"` && strings.Contains(body, c.has) {
				t.Errorf("and then HTTP %d %s", status, body)
			}
		})
	}
}

func TestAnalyze(t *testing.T) {
	r := newRig(t)
	all := `"categories":["Hate","SelfHarm","Sexual","Violence"],`
	for _, c := range []struct {
		body   string
		status int
		has    string
	}{
		{rudeText, 200, `{"blocklistsMatch":[],"categoriesAnalysis":[{"category":"Hate","severity":5},{"category":"SelfHarm","severity":0},{"category":"Sexual","severity":0},{"category":"Violence","severity":0}]}`},
		{`{"text":"you idiot"}`, 200, `{"category":"Hate","severity":4}`}, // four levels, all categories
		{`{"text":"i will find you, you idiot","categories":["Violence"]}`, 200, `"categoriesAnalysis":[{"category":"Violence","severity":6}]`},
		{`{"text":"i want to die",` + all + `"outputType":"EightSeverityLevels"}`, 200, `{"category":"SelfHarm","severity":3}`},
		{`{"text":"` + strings.Repeat("ä", 10_000) + `"}`, 200, `"Hate"`},
		{`{"text":"` + strings.Repeat("ä", 10_001) + `"}`, 400, "InvalidRequestBody"},
		{`{"text":""}`, 400, "InvalidRequestBody"},
		{`{}`, 400, "InvalidRequestBody"},
		{`{"text":"a","categories":["Gore"]}`, 400, "InvalidRequestBody"},
		{`{"text":"a","outputType":"TwoLevels"}`, 400, "InvalidRequestBody"},
		{`{"text":"a","odd":1}`, 400, "InvalidRequestBody"},
		{`{"text":"a","blocklistNames":["mine"]}`, 404, "ResourceNotFound"},
		{`"text"`, 400, "InvalidRequestBody"},
	} {
		if status, body := r.analyze(c.body); status != c.status || !strings.Contains(body, c.has) {
			t.Errorf("%.60s: HTTP %d %s", c.body, status, body)
		}
	}
	for path, want := range map[string]int{
		"/contentsafety/text:analyze": 400, "/contentsafety/text:analyze?api-version=2031-01-01": 404, analyzePath: 200, "/contentsafety/jobs/1": 404,
	} {
		if status, body := r.posted(path, "application/json", rudeText, "Ocp-Apim-Subscription-Key", r.key); status != want {
			t.Errorf("%s: HTTP %d %s", path, status, body)
		}
	}
}

// Who may call: a key, a token that has not ended, and nobody else.
func TestAnalyzeKeys(t *testing.T) {
	r := newRig(t, func(o *sandbox.Options) { o.Keys = map[string]string{"key-a": "proj-a"} })
	try := func(want int, header ...string) {
		t.Helper()
		if status, body := r.posted(analyzePath, "application/json", rudeText, header...); status != want {
			t.Errorf("%v: HTTP %d %s", header, status, body)
		}
	}
	try(200, "Ocp-Apim-Subscription-Key", "key-a")
	try(401, "Ocp-Apim-Subscription-Key", "key-b")
	try(401, "Authorization", "Bearer key-a")
	try(401)
	for _, c := range []struct{ field, value, has string }{
		{"client_secret", "key-b", `{"error":"invalid_client"`}, {"scope", "mail", `{"error":"invalid_scope"`},
		{"grant_type", "password", `{"error":"unsupported_grant_type"`}, {"client_id", "", `{"error":"unauthorized_client"`},
	} {
		if status, body := r.grant(c.field, c.value); status < 400 || status > 401 || !strings.Contains(body, c.has) {
			t.Errorf("%s: HTTP %d %s", c.field, status, body)
		}
	}
	status, body := r.grant()
	_, token, _ := strings.Cut(body, `"access_token":"`)
	token, _, _ = strings.Cut(token, `"`)
	if status != 200 || !strings.Contains(body, `"expires_in":3600`) || token == "" {
		t.Fatalf("HTTP %d %s", status, body)
	}
	try(200, "Authorization", "Bearer "+token)
	if err := r.server.Advance(time.Hour - time.Second); err != nil {
		t.Fatal(err)
	}
	try(200, "Authorization", "Bearer "+token)
	if err := r.server.Advance(time.Second); err != nil {
		t.Fatal(err)
	}
	try(401, "Authorization", "Bearer "+token)
}

func TestChat(t *testing.T) {
	r := newRig(t)
	direct := strings.Replace(strings.Replace(rudePost, `"json_schema":{"schema"`, `"schema"`, 1), "}}}", "}}", 1)
	for _, c := range []struct {
		body   string
		status int
		has    string
	}{
		{rudePost, 200, `"content":"{\"label\":\"harassment\"}"`},
		{direct, 200, `"content":"{\"label\":\"harassment\"}"`},
		{rudePost, 200, `"model":"sandbox-stand-in"`},
		{strings.Replace(rudePost, `"max_tokens":40`, `"max_tokens":2`, 1), 200, `"finish_reason":"length"`},
		{`{"model":"local","messages":[{"role":"user","content":"three short words"}]}`, 200, `saw 3 words`},
		{`{"model":"local","messages":[]}`, 400, "invalid_request_error"},
		{`{"messages":[{"role":"user","content":"a"}]}`, 400, "invalid_request_error"},
		{`{"model":"local"}`, 400, "invalid_request_error"},
		{`[]`, 400, "invalid_request_error"},
		{strings.Replace(rudePost, `"additionalProperties":false`, `"additionalProperties":true`, 1), 400, "Invalid schema"},
	} {
		if status, body := r.chat(c.body); status != c.status || !strings.Contains(body, c.has) {
			t.Errorf("%.80s: HTTP %d %s", c.body, status, body)
		}
	}
	if status, body := r.posted(chatPath, "application/json", rudePost); status != 200 {
		t.Errorf("without a key: HTTP %d %s", status, body)
	}
	keyed := newRig(t, func(o *sandbox.Options) { o.Keys = map[string]string{"key-a": "proj-a"} })
	for key, want := range map[string]int{"key-a": 200, "key-b": 401, "": 401} {
		if status, _ := keyed.posted(chatPath, "application/json", rudePost, "Authorization", "Bearer "+key); status != want {
			t.Errorf("key %q: HTTP %d", key, status)
		}
	}
}

// The API repeats the code of an error in a header, and its gateway does not.
func TestAnalyzeErrorHeader(t *testing.T) {
	r := newRig(t)
	for fault, want := range map[string]string{
		"rate_limit:op=analyze": "TooManyRequests", "server_error:op=analyze,status=503": "ServerBusy", "bad_request:op=analyze": "InvalidRequestBody",
		"rate_limit:op=analyze,code=429": "", "unauthorized:op=analyze": "", "listing_cut": "",
	} {
		r.faults(fault)
		req, err := http.NewRequest("POST", r.url+analyzePath, strings.NewReader(rudeText))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Ocp-Apim-Subscription-Key", r.key)
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("X-Ms-Error-Code"); got != want {
			t.Errorf("%s: %q, want %q", fault, got, want)
		}
	}
}

// What becomes of an empty text is not documented, so that it can be either.
func TestAnalyzeEmptyText(t *testing.T) {
	r := newRig(t)
	empty := strings.Replace(rudeText, "you idiot "+marker, "", 1)
	if status, body := r.analyze(empty); status != 400 {
		t.Errorf("HTTP %d, %s", status, body)
	}
	r.faults("empty_text_graded:times=1")
	if status, body := r.analyze(empty); status != 200 || !strings.Contains(body, `"category":"Hate"`) {
		t.Errorf("HTTP %d, %s", status, body)
	}
	if status, body := r.analyze(empty); status != 400 {
		t.Errorf("afterwards: HTTP %d, %s", status, body)
	}
}
