package inhouse_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/batchtest"
	"rollcall/batch/inhouse"
	"rollcall/batch/sandbox"
	"rollcall/batch/sandbox/sandboxtest"
)

const (
	key    = "key-5ca1ab1e"
	marker = batchtest.Marker
)

// question is one that the sandbox, which has one model and says so, can answer.
func question() *batch.Classifier {
	return &batch.Classifier{
		Name: "patient-community/1", Model: "sandbox-stand-in", Instructions: "Classify the \"report\".\nAnswer in JSON.", MaxOutputTokens: 400, Temperature: new(0.0),
		Schema: []byte(`{"type":"object","properties":{"label":{"type":"string","enum":["harassment","ok"]},"evidence":{"type":"array","items":{"type":"string"}}},"required":["label","evidence"],"additionalProperties":false}`),
	}
}

func config(url string) inhouse.Config {
	return inhouse.Config{
		Name: "main", BaseURL: url + "/v1", Region: "cellar", APIKey: func() string { return key }, Seed: new(int64(7)),
		FingerprintKey: bytes.Repeat([]byte("k"), 32), AllowLoopback: true, MaxText: 200_000, Now: func() time.Time { return sandboxtest.Start },
	}
}

func newClient(t *testing.T, cfg inhouse.Config) *inhouse.Client {
	t.Helper()
	c, err := inhouse.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The contract suite over the sandbox, with the schema in either place.
func TestContractOverSandbox(t *testing.T) {
	for _, form := range []inhouse.SchemaForm{inhouse.SchemaNested, inhouse.SchemaDirect} {
		t.Run(string(form), func(t *testing.T) {
			batchtest.RunCaller(t, func(t *testing.T) batchtest.CallerSubject {
				r := sandboxtest.New(t, "chat", nil)
				with := func(url string) *inhouse.Client {
					cfg := config(url)
					cfg.SchemaForm = form
					return newClient(t, cfg)
				}
				return batchtest.CallerSubject{
					Caller: with(r.URL), Server: r, Classifier: question(), Unreachable: with(sandboxtest.Gone()),
					Secrets: []string{key, "Bearer", r.URL}, TooLong: strings.Repeat("a", 200_001),
				}
			})
		})
	}
}

func TestAnswer(t *testing.T) {
	r := sandboxtest.New(t, "chat", nil)
	got, err := newClient(t, config(r.URL)).Call(t.Context(), question(), "w1-s1", batch.NewText("you \"idiot\"\n"))
	if err != nil || got.Outcome != batch.Answered || string(got.Content) != `{"label":"harassment","evidence":["you \"idiot\""]}` || got.Model != "sandbox-stand-in" || got.InputTokens == 0 || got.OutputTokens == 0 {
		t.Errorf("%+v, %s, %v", got.Outcome, got.Content, err)
	}
}

// What a server does without a word is noticed where it can be, and left to the
// check of the answer where not (F35).
func TestSilentFaults(t *testing.T) {
	text := batch.NewText(strings.Repeat("many words of a report ", 40))
	for fault, want := range map[string]struct {
		outcome batch.Outcome
		code    string
		call    batch.Kind // of the error of a call
		probe   batch.Kind // of the error of a probe
		why     string     // its code
	}{
		"chat_prose":       {outcome: batch.Answered, probe: batch.BadAnswer, why: inhouse.CodeSchemaIgnored}, // its schema check says no
		"invalid_json":     {outcome: batch.Answered, probe: batch.BadAnswer, why: inhouse.CodeSchemaIgnored},
		"off_schema":       {outcome: batch.Answered, probe: batch.BadAnswer, why: inhouse.CodeSchemaIgnored},
		"chat_whitespace":  {outcome: batch.Truncated, probe: batch.BadAnswer, why: "truncated"},
		"length":           {outcome: batch.Truncated, probe: batch.BadAnswer, why: "truncated"},
		"chat_no_finish":   {outcome: batch.BadShape, probe: batch.BadAnswer, why: "bad_shape"},
		"refusal":          {outcome: batch.Refused, probe: batch.BadAnswer, why: "refused"},
		"content_filter":   {outcome: batch.Blocked, probe: batch.BadAnswer, why: "blocked"},
		"chat_other_model": {call: batch.BadAnswer, code: inhouse.CodeOtherModel, probe: batch.BadAnswer, why: inhouse.CodeOtherModel},
		"chat_context_cut": {outcome: batch.Truncated, code: inhouse.CodeContextCut},
		"chat_loading":     {call: batch.Temporary, code: "unavailable_error", probe: batch.Temporary, why: "unavailable_error"},
	} {
		r := sandboxtest.New(t, "chat", nil)
		c := newClient(t, config(r.URL))
		r.Faults(fault)
		got, err := c.Call(t.Context(), question(), "w1-s1", text)
		if kind, code := kindAndCode(err); kind != want.call || got.Outcome != want.outcome || kind != "" && code != want.code || kind == "" && got.Code != want.code {
			t.Errorf("%s: %s, code %q, %v", fault, got.Outcome, got.Code, err)
		}
		if (got.Outcome == batch.Answered) != (len(got.Content) > 0) {
			t.Errorf("%s: %s with %d bytes", fault, got.Outcome, len(got.Content))
		}
		if kind, code := kindAndCode(c.Probe(t.Context(), question())); kind != want.probe || code != want.why {
			t.Errorf("%s: the probe says %s, %q", fault, kind, code)
		}
	}
}

// kindAndCode are "" for no error.
func kindAndCode(err error) (batch.Kind, string) {
	if err == nil {
		return "", ""
	}
	return batch.KindOf(err), err.(*batch.Error).Code
}

// A server whose count of tokens says nothing may be trusted with the context.
func TestTrustContext(t *testing.T) {
	r := sandboxtest.New(t, "chat", nil)
	cfg := config(r.URL)
	cfg.TrustContext = true
	r.Faults("chat_context_cut")
	got, err := newClient(t, cfg).Call(t.Context(), question(), "w1-s1", batch.NewText("a report of several words"))
	if err != nil || got.Outcome != batch.Answered {
		t.Errorf("%s, %v", got.Outcome, err)
	}
}

// A key is sent if there is one, and asked for before each call.
func TestKey(t *testing.T) {
	r := sandboxtest.New(t, "chat", func(o *sandbox.Options) { o.Keys = map[string]string{key: "p"} })
	ask := func(c *inhouse.Client) error {
		_, err := c.Call(t.Context(), question(), "w1-s1", batch.NewText(marker))
		return err
	}
	cfg := config(r.URL)
	now := "wrong"
	cfg.APIKey = func() string { return now }
	c := newClient(t, cfg)
	if err := ask(c); batch.KindOf(err) != batch.Denied {
		t.Errorf("a wrong key: %v", err)
	}
	calls := r.Calls("")
	now = ""
	if kind, code := kindAndCode(ask(c)); kind != batch.Denied || code != batch.CodeNoKey || r.Calls("") != calls {
		t.Errorf("a key that cannot be read: %s, %s", kind, code)
	}
	now = key
	if err := ask(c); err != nil {
		t.Errorf("the right key: %v", err)
	}
	cfg.APIKey = nil
	if err := ask(newClient(t, cfg)); batch.KindOf(err) != batch.Denied {
		t.Errorf("no key for a server that asks for one: %v", err)
	}
	open := sandboxtest.New(t, "chat", nil)
	cfg.BaseURL = open.URL + "/v1"
	if err := ask(newClient(t, cfg)); err != nil {
		t.Errorf("no key for a server that asks for none: %v", err)
	}
}
