package infrai_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/batchtest"
	"rollcall/batch/infrai"
)

func sum(s string) string { b := sha256.Sum256([]byte(s)); return hex.EncodeToString(b[:]) }

// A repeat within the window is the same job, by the same bytes; behind it there
// is none (F18).
func TestF18RepeatUnderKey(t *testing.T) {
	r := newRig(t, assumed(t))
	for key, fault := range map[string]string{
		"k1": "drop_after:times=1", "k2": "drop_before:times=1", "k3": "bad_gateway:acted=true,op=create,times=1", "k4": "answer_cut:times=1", "k5": "infrai_no_data:times=1",
	} {
		r.Faults(fault)
		_, err := r.Create(t.Context(), r.creation(key))
		if batch.KindOf(err) != batch.UnknownOutcome {
			t.Errorf("%s: %v", fault, err)
		}
		r.Faults()
		r.Advance(10 * time.Hour)
		first, second := r.created(key), r.created(key)
		if first.ID != second.ID {
			t.Errorf("%s: jobs %s and %s", fault, first.ID, second.ID)
		}
	}
	if n := r.Jobs(); n != 5 {
		t.Errorf("%d jobs", n)
	}
	r.obeyed()
}

// Two processes render a submission alike.
func TestF18SameBytesInAnotherProcess(t *testing.T) {
	r := newRig(t, assumed(t))
	first := r.created("k1")
	again := newClient(t, r.URL)
	cr := r.creation("k1")
	cr.Metadata = map[string]string{"generation": "another after a restore"}
	second, err := again.Create(t.Context(), cr)
	if err != nil || second.ID != first.ID || r.Jobs() != 1 {
		t.Errorf("%+v, %v, %d jobs", second, err, r.Jobs())
	}
	r.obeyed()
}

// Behind the window the key would be a second job: nothing is sent.
func TestF18RepeatBehindTheWindow(t *testing.T) {
	r := newRig(t, assumed(t))
	r.Faults("drop_after:times=1")
	if _, err := r.Create(t.Context(), r.creation("k1")); batch.KindOf(err) != batch.UnknownOutcome {
		t.Fatal(err)
	}
	r.Advance(20 * time.Hour)
	calls := r.Calls(batchtest.OpCreate)
	_, err := r.Create(t.Context(), r.creation("k1"))
	wants(t, err, batch.UnknownOutcome, "key_window_is_over")
	if r.Calls(batchtest.OpCreate) != calls || r.Jobs() != 1 {
		t.Error("the repeat was sent")
	}
	// What the guard is for: the provider has forgotten the key.
	r.Advance(5 * time.Hour)
	if _, err := newClient(t, r.URL).Create(t.Context(), r.creation("k1")); err != nil || r.Jobs() != 2 {
		t.Errorf("%v, %d jobs: the sandbox does not show the danger", err, r.Jobs())
	}
}

func TestF18TwoJobsForOneKey(t *testing.T) {
	r := newRig(t, assumed(t))
	first := r.created("k1")
	next := r.creation("k2")
	r.Faults("infrai_second_job:times=1")
	second, err := r.Create(t.Context(), r.creation("k1"))
	wants(t, err, batch.UnknownOutcome, "second_job_for_key")
	if second.ID == "" || second.ID == first.ID {
		t.Errorf("the second job is %q, the first %q", second.ID, first.ID)
	}
	_, err = r.Create(t.Context(), next)
	wants(t, err, batch.Denied, "gate_second_job_for_key")
	r.look(first.ID)
	r.look(second.ID)
}

// Where no repeat is declared none is made; a refusal leaves the key unused.
func TestF18NotDeclaredIdempotent(t *testing.T) {
	r := newRig(t, assumed(t, undeclared))
	r.Faults("rate_limit:op=create,times=1")
	if _, err := r.Create(t.Context(), r.creation("k1")); batch.KindOf(err) != batch.RateLimited {
		t.Fatal(err)
	}
	r.Faults("drop_after:times=1")
	if _, err := r.Create(t.Context(), r.creation("k1")); batch.KindOf(err) != batch.UnknownOutcome || r.Jobs() != 1 {
		t.Fatalf("%v, %d jobs", err, r.Jobs())
	}
	calls := r.Calls(batchtest.OpCreate)
	_, err := r.Create(t.Context(), r.creation("k1"))
	wants(t, err, batch.UnknownOutcome, "repeat_not_declared")
	if r.Calls(batchtest.OpCreate) != calls {
		t.Error("the repeat was sent")
	}
}

// Other bytes under a key are broken off before they are a whole request.
func TestF18OtherBodyUnderKey(t *testing.T) {
	r := newRig(t, assumed(t))
	job := r.created("k1")
	_, err := r.Create(t.Context(), r.creationOf("k1", "w1-s1", "w2-s1", "w4-s1"))
	wants(t, err, batch.UnknownOutcome, "repeat_has_other_body")
	if got := r.created("k1"); got.ID != job.ID || r.Jobs() != 1 {
		t.Errorf("%s, %d jobs", got.ID, r.Jobs())
	}
	r.obeyed()
	// What a provider answers to them is not documented; whatever it is, the first
	// job is not forgotten.
	for _, gives := range []string{"", "infrai_other_body:gives=old", "infrai_other_body:gives=new"} {
		if gives != "" {
			r.Faults(gives)
		}
		before := r.Jobs()
		_, err := newClient(t, r.URL).Create(t.Context(), r.creationOf("k1", "w5-s1", "w6-s1", "w7-s1"))
		switch {
		case gives == "" && (batch.KindOf(err) != batch.UnknownOutcome || r.Jobs() != before),
			strings.HasSuffix(gives, "old") && r.Jobs() != before, strings.HasSuffix(gives, "new") && r.Jobs() != before+1:
			t.Errorf("%q: %v, %d jobs", gives, err, r.Jobs())
		}
	}
}

func TestF18OtherAPIKey(t *testing.T) {
	key := testKey
	r := newRig(t, assumed(t), func(c *infrai.Config) { c.APIKey = func() string { return key } })
	r.created("k1")
	key = testKey + "2"
	_, err := r.Create(t.Context(), r.creation("k1"))
	wants(t, err, batch.UnknownOutcome, "repeat_has_other_api_key")
}

// The kinds of answers to a create.
func TestCreateKinds(t *testing.T) {
	for name, tc := range map[string]struct {
		fault string
		kind  batch.Kind
		code  string
		jobs  int
		wait  time.Duration
	}{
		"402":                 {"insufficient_quota:op=create", batch.OutOfCredit, "INSUFFICIENT_CREDIT", 0, 0},
		"401":                 {"unauthorized:op=create", batch.Denied, "INVALID_API_KEY", 0, 0},
		"403":                 {"forbidden:op=create", batch.Denied, "UNSUPPORTED_COUNTRY_REGION_TERRITORY", 0, 0},
		"400":                 {"bad_request:op=create", batch.Rejected, "INVALID_VALUE", 0, 0},
		"429 in seconds":      {"rate_limit:op=create,retry_after=7", batch.RateLimited, "RATE_LIMIT_EXCEEDED", 0, 7 * time.Second},
		"429 as a date":       {"rate_limit:op=create,retry_after=90,form=date", batch.RateLimited, "RATE_LIMIT_EXCEEDED", 0, 90 * time.Second},
		"429 alone":           {"rate_limit:op=create,form=none", batch.RateLimited, "RATE_LIMIT_EXCEEDED", 0, 0},
		"F22 502 of an edge":  {"bad_gateway:op=create,acted=true", batch.UnknownOutcome, "", 1, 0},
		"409":                 {"server_error:op=create,status=409", batch.UnknownOutcome, "SERVER_ERROR", 0, 0},
		"500":                 {"server_error:op=create", batch.UnknownOutcome, "SERVER_ERROR", 0, 0},
		"ok:false with 200":   {"infrai_ok_false", batch.UnknownOutcome, "UPSTREAM_REFUSED", 1, 0},
		"ok:true with 400":    {"infrai_ok_true", batch.UnknownOutcome, "ok_is_true", 1, 0},
		"202 without data":    {"infrai_no_data", batch.UnknownOutcome, "no_envelope", 1, 0},
		"{}":                  {"empty_object:op=create,acted=true", batch.UnknownOutcome, "no_envelope", 1, 0},
		"another total_count": {"infrai_total_count", batch.UnknownOutcome, "total_count_mismatch", 1, 0},
		"a redirect":          {"redirect:op=create,to=OTHER", batch.UnknownOutcome, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, assumed(t))
			r.Faults(strings.ReplaceAll(tc.fault, "OTHER", r.Other))
			_, err := r.Create(t.Context(), r.creation("k1"))
			wants(t, err, tc.kind, tc.code)
			if got := batch.RetryAfter(err); got != tc.wait {
				t.Errorf("waiting time %v, want %v", got, tc.wait)
			}
			if r.Jobs() != tc.jobs || r.Strayed() != 0 || r.Calls(batchtest.OpCreate) != 1 {
				t.Errorf("%d jobs, %d strayed, %d calls", r.Jobs(), r.Strayed(), r.Calls(batchtest.OpCreate))
			}
			r.obeyed() // no top-up among it
		})
	}
}

// A failure that the server calls final, and a job of other size, are for a
// person: this key is not sent again.
func TestNotRepeated(t *testing.T) {
	for fault, code := range map[string]string{"infrai_final": "not_retryable", "infrai_total_count": "total_count_mismatch"} {
		r := newRig(t, assumed(t))
		r.Faults(fault + ":times=1")
		if _, err := r.Create(t.Context(), r.creation("k1")); batch.KindOf(err) != batch.UnknownOutcome {
			t.Errorf("%s: %v", fault, err)
		}
		_, err := r.Create(t.Context(), r.creation("k1"))
		wants(t, err, batch.UnknownOutcome, code)
		if r.Calls(batchtest.OpCreate) != 1 {
			t.Errorf("%s: %d calls", fault, r.Calls(batchtest.OpCreate))
		}
	}
}

// What is not a request in the pinned form is refused without a connection, or
// broken off.
func TestCreationIsRefused(t *testing.T) {
	r := newRig(t, assumed(t))
	write := func(s string) *batch.Input {
		return &batch.Input{Size: int64(len(s)), Write: func(w io.Writer) error { _, err := io.WriteString(w, s); return err }}
	}
	for name, tc := range map[string]struct {
		cr   batch.Creation
		code string
	}{
		"no key":         {batch.Creation{Body: write("{}\n")}, "invalid_idempotency_key"},
		"odd key":        {batch.Creation{Key: "a b", Body: write("{}\n")}, "invalid_idempotency_key"},
		"long key":       {batch.Creation{Key: strings.Repeat("k", 65), Body: write("{}\n")}, "invalid_idempotency_key"},
		"empty":          {batch.Creation{Key: "k", Body: write("")}, "body_is_not_lines"},
		"no line feed":   {batch.Creation{Key: "k", Body: write("{}")}, "body_is_not_lines"},
		"an empty line":  {batch.Creation{Key: "k", Body: write("{}\n\n{}\n")}, "body_is_not_lines"},
		"begins empty":   {batch.Creation{Key: "k", Body: write("\n{}\n")}, "body_is_not_lines"},
		"101 items":      {batch.Creation{Key: "k", Body: write(strings.Repeat("{}\n", 101))}, "too_many_items"},
		"more than 4 MB": {batch.Creation{Key: "k", Body: write(strings.Repeat("x", 4_000_000) + "\n")}, "body_too_large"},
	} {
		_, err := r.Create(t.Context(), tc.cr)
		if kind := batch.KindOf(err); kind != batch.Rejected || !strings.Contains(err.Error(), tc.code) {
			t.Errorf("%s: %v, want %s", name, err, tc.code)
		}
	}
	if r.Jobs() != 0 || r.Box.Infrai().Submits != 0 {
		t.Errorf("%d jobs", r.Jobs())
	}
}

// The bytes on the wire, in full: canonical, with the key twice and the length
// announced.
func TestBytesOnTheWire(t *testing.T) {
	var got string
	var length int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, length = r.Header.Get("Idempotency-Key")+" "+string(b), r.ContentLength
		io.WriteString(w, `{"ok":true,"data":{"batch_id":"b_1","state":"queued","total_count":2},"error":null,"metadata":{}}`)
	}))
	t.Cleanup(web.Close)
	c := newClient(t, web.URL)
	q := *question
	q.Instructions, q.Schema = "Say \"ok\".\u2028", []byte(`{ "type":"object", "additionalProperties":false }`)
	var body []byte
	for _, id := range []string{"a", "b"} {
		var err error
		if body, err = c.AppendRequest(body, &q, id, batch.NewText("x\ty\xff")); err != nil {
			t.Fatal(err)
		}
	}
	job, err := c.Create(t.Context(), batch.Creation{Key: "k1", Body: &batch.Input{Size: int64(len(body)), Write: func(w io.Writer) error {
		for i := range body { // in the smallest pieces
			if _, err := w.Write(body[i : i+1]); err != nil {
				return err
			}
		}
		return nil
	}}})
	if err != nil || job.ID != "b_1" || !job.Known || job.Counts.Total != 2 {
		t.Fatalf("%+v, %v", job, err)
	}
	item := func(id string) string {
		return `{"body":{"cache_strategy":"none","failover":false,"max_tokens":400,"messages":[{"content":"Say \"ok\".\u2028","role":"system"},` +
			`{"content":"{\"report\":\"x\\ty` + "\uFFFD" + `\"}","role":"user"}],"model":"gpt-4.1-mini",` +
			`"response_format":{"json_schema":{"name":"patient-community_1","schema":{"additionalProperties":false,"type":"object"},"strict":true},"type":"json_schema"},"temperature":0},` +
			`"capability":"ai.chat","ref":"` + id + `"}`
	}
	want := `k1 {"batch_timeout":"24h","idempotency_key":"k1","requests":[` + item("a") + "," + item("b") + "]}\n"
	if got != want || length != int64(len(want)-3) {
		t.Errorf("%d bytes\n%s\nwant\n%s", length, got, want)
	}
}

// What cannot be written in one way only is refused.
func TestClassifierIsRefused(t *testing.T) {
	c := newClient(t, "http://127.0.0.1:1")
	for name, change := range map[string]func(*batch.Classifier){
		"a fraction":           func(q *batch.Classifier) { q.Temperature = new(0.5) },
		"a schema with one":    func(q *batch.Classifier) { q.Schema = []byte(`{"minimum":0.5}`) },
		"a name twice":         func(q *batch.Classifier) { q.Schema = []byte(`{"a":1,"a":2}`) },
		"a key beyond ASCII":   func(q *batch.Classifier) { q.Schema = []byte(`{"ä":1}`) },
		"a schema that is not": func(q *batch.Classifier) { q.Schema = []byte(`[]`) },
		"no limit":             func(q *batch.Classifier) { q.MaxOutputTokens = 0 },
		"an echo":              func(q *batch.Classifier) { q.Echo, q.Schema = true, []byte(`{"type":"object"}`) },
		"not UTF-8":            func(q *batch.Classifier) { q.Instructions = "\xff" },
	} {
		q := *question
		change(&q)
		_, err := c.AppendRequest(nil, &q, "w1-s1", batch.NewText(marker))
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		wants(t, err, batch.Rejected, "invalid_classifier")
	}
}

// A line is the same whatever encoder reads and writes it.
func TestLineIsCanonical(t *testing.T) {
	c := newClient(t, "http://127.0.0.1:1")
	echoing := *question
	echoing.Echo = true
	for _, text := range []string{"", marker, `x","token":"other`, "\b\f\n\r\t\x00\x1f\"\\/<>&\u2028\u2029\U0001FA7A"} {
		isCanonical(t, c, question, text, map[string]string{"report": text})
		isCanonical(t, c, &echoing, text, map[string]string{"token": batch.EchoToken("w1-s1"), "report": text})
	}
}

// isCanonical checks a line, and what its user message holds.
func isCanonical(t *testing.T, c *infrai.Client, q *batch.Classifier, text string, want map[string]string) {
	t.Helper()
	line, err := c.AppendRequest(nil, q, "w1-s1", batch.NewText(text))
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(line, &v); err != nil {
		t.Fatal(err)
	}
	var again strings.Builder
	enc := json.NewEncoder(&again)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil || again.String() != string(line) {
		t.Errorf("%q: %v\n%s\n%s", text, err, line, again.String())
	}
	var inner map[string]string
	body := v["body"].(map[string]any)
	content := body["messages"].([]any)[1].(map[string]any)["content"].(string)
	if err := json.Unmarshal([]byte(content), &inner); err != nil || !maps.Equal(inner, want) {
		t.Errorf("%q came out as %q, %v", text, inner, err)
	}
	schema := body["response_format"].(map[string]any)["json_schema"].(map[string]any)["schema"].(map[string]any)
	if _, asks := schema["properties"].(map[string]any)["token"]; asks != q.Echo || slices.Contains(schema["required"].([]any), any("token")) != q.Echo {
		t.Errorf("the schema is %v", schema)
	}
}
