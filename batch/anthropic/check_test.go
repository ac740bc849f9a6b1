package anthropic_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"rollcall/batch"
	"rollcall/batch/anthropic"
)

// Check asks at once what a batch would tell hours later.
func TestCheck(t *testing.T) {
	for name, change := range map[string]func(*anthropic.Config){"json_schema": func(*anthropic.Config) {}, "tool": newer} {
		r := newRig(t, change)
		if err := r.Check(t.Context(), question()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if b := r.Books(); len(b.Jobs) != 0 || b.Requests["message"] != 1 || b.Requests["create"] != 0 {
			t.Errorf("%s: %+v", name, b)
		}
		for fault, want := range map[string]struct {
			kind batch.Kind
			code string
		}{
			"refusal":                            {batch.BadAnswer, "general_harms"},
			"length":                             {batch.BadAnswer, "max_tokens"},
			"stop_reason:word=pause_turn":        {batch.BadAnswer, "pause_turn"},
			"stop_reason:word=refusal":           {batch.BadAnswer, "refused"},
			"bad_request:op=message":             {batch.Rejected, "invalid_request_error"},
			"not_found:op=message":               {batch.Rejected, "not_found_error"},
			"unauthorized":                       {batch.Denied, "authentication_error"},
			"spend_limit:op=message":             {batch.OutOfCredit, "enforced_spend_limit_reached"},
			"rate_limit":                         {batch.RateLimited, "rate_limit_error"},
			"server_error:op=message,status=529": {batch.Temporary, "overloaded_error"},
			"drop_after:op=message":              {batch.Temporary, ""},
			"redirect:op=message":                {batch.BadAnswer, ""},
			"empty_object:op=message":            {batch.BadAnswer, "bad_shape"},
			"bad_gateway:op=message":             {batch.Temporary, ""},
		} {
			r.Faults(fault)
			err := r.Check(t.Context(), question())
			var e *batch.Error
			if !errors.As(err, &e) || e.Kind != want.kind || e.Code != want.code {
				t.Errorf("%s, %s: %v", name, fault, err)
			}
			discreet(t, err)
		}
	}
}

// An answer without its token would be no use to a batch with Echo.
func TestCheckWantsTheToken(t *testing.T) {
	cl := question()
	cl.Echo = true
	for name, change := range map[string]func(*anthropic.Config){"json_schema": func(*anthropic.Config) {}, "tool": newer} {
		r := newRig(t, change)
		if err := r.Check(t.Context(), cl); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r.Faults("off_schema:times=1")
		var e *batch.Error
		if err := r.Check(t.Context(), cl); !errors.As(err, &e) || e.Kind != batch.BadAnswer || e.Code != batch.CodeCrossed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the API would refuse is found, with no report's text in the request.
func TestCheckFindsABadSchema(t *testing.T) {
	r := newRig(t)
	cl := question()
	cl.Schema = []byte(`{"type":"object","properties":{"label":{"type":"string"}},"required":["label"]}`)
	if err := r.Check(t.Context(), cl); batch.KindOf(err) != batch.Rejected {
		t.Error(err)
	}
	cl.Temperature = new(0.5)
	c := newClient(t, "http://127.0.0.1:1", newer)
	if err := c.Check(t.Context(), cl); batch.KindOf(err) != batch.Rejected {
		t.Error(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != "POST" || r.URL.Path != "/v1/messages" || !strings.Contains(string(body), "made up") || r.ContentLength != int64(len(body)) {
			t.Errorf("%s %s %s", r.Method, r.URL, body)
		}
		io.WriteString(w, "not JSON "+marker)
	}))
	defer web.Close()
	err := newClient(t, web.URL).Check(t.Context(), question())
	if batch.KindOf(err) != batch.BadAnswer {
		t.Error(err)
	}
	discreet(t, err)
}
