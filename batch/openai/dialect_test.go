package openai

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
)

// Text must not leave for another region than the one that a policy names.
func TestHostAndRegionAgree(t *testing.T) {
	own := Residency{Domain: "batch.example", Regions: []string{"north"}}
	for _, tc := range []struct {
		url, region string
		residency   Residency
		want        string // a part of the error; "" for none
	}{
		{"https://eu.api.openai.com/v1", "eu", Residency{}, ""},
		{"https://EU.api.openai.com/v1", " EU ", Residency{}, ""},
		{"https://us.api.openai.com:443/v1", "us", Residency{}, ""},
		{"https://eu.api.openai.com/v1", "", Residency{}, ""},
		{"https://api.openai.com/v1", "", Residency{}, ""},
		{"https://api.openai.com/v1", "global", Residency{}, ""},
		{"https://res.openai.azure.com/openai/v1", "eu", Residency{}, ""},
		{"https://notapi.openai.com/v1", "eu", Residency{}, ""},
		{"https://north.batch.example/v1", "north", own, ""},
		{"https://eu.api.openai.com/v1", "north", own, ""},

		{"https://eu.api.openai.com/v1", "us", Residency{}, "the host is the one of the region eu"},
		{"https://eu.api.openai.com/v1", "global", Residency{}, "the host is the one of the region eu"},
		{"https://api.openai.com/v1", "eu", Residency{}, "write the host eu.api.openai.com"},
		{"https://api.openai.com:8443/v1", "us", Residency{}, "write the host us.api.openai.com"},
		{"https://xx.api.openai.com/v1", "xx", Residency{}, "no region has this host; known are us, eu,"},
		{"https://eu.us.api.openai.com/v1", "eu", Residency{}, "no region has this host"},
		{"https://batch.example/v1", "north", own, "write the host north.batch.example"},
	} {
		cfg := config("http://127.0.0.1:1")
		cfg.BaseURL, cfg.AllowLoopback, cfg.Region, cfg.Dialect.Residency = tc.url, false, tc.region, tc.residency
		_, err := New(cfg)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s, region %q: %v", tc.url, tc.region, err)
		}
	}
}

// What the passes may know of an account follows from its configuration.
func TestCapabilitiesFollowTheDialect(t *testing.T) {
	for name, tc := range map[string]struct {
		dialect Dialect
		want    string
	}{
		"own":   {Dialect{}, "listing {50000 190000000 0 0s} 0s [synthetic personal]"},
		"azure": {Azure, "listing {50000 190000000 0 0s} 0s [synthetic]"},
		"groq":  {Groq, "listing {50000 95000000 0 0s} 720h0m0s [synthetic]"},
		"told little": {Dialect{Settlement: batch.SettleByResults, Limits: batch.Limits{Items: 7, ItemBytes: 9}, ResultsFor: time.Hour, Classes: []batch.DataClass{batch.DataPersonal}},
			"results {7 190000000 9 0s} 1h0m0s [personal]"},
	} {
		cfg := config("http://127.0.0.1:1")
		cfg.Dialect = tc.dialect
		c := newClient(t, cfg).Capabilities()
		if got := fmt.Sprint(c.Settlement, " ", c.Limits, " ", c.ResultsFor, " ", c.Classes); got != tc.want || c.Handover != batch.HandoverFile || !c.Deletion.Input || !c.Deletion.Results || c.Deletion.Job {
			t.Errorf("%s: %s, want %s; %+v", name, got, tc.want, c)
		}
	}
}

// Another service is another account, even at the same host with the same key.
func TestProcessorIsPartOfTheAccount(t *testing.T) {
	cfg := config("http://127.0.0.1:1")
	first := newClient(t, cfg).Account()
	cfg.Processor = "azure-openai"
	second := newClient(t, cfg).Account()
	if first.Processor != "openai" || second.Processor != "azure-openai" || first.Fingerprint == second.Fingerprint {
		t.Errorf("%+v and %+v", first, second)
	}
	cfg.Processor = "openai"
	cfg.Endpoint = EndpointResponses
	if third := newClient(t, cfg).Account(); third != first {
		t.Errorf("%+v, want %+v", third, first)
	}
}

// A key may be rotated where something else tells an account from others: a
// project that the service knows, or a host of its own.
func TestRotationByService(t *testing.T) {
	for name, tc := range map[string]struct {
		dialect Dialect
		stays   bool
	}{"own": {Dialect{}, true}, "azure": {Azure, true}, "groq": {Groq, false}} {
		print := func(key, project string) string {
			cfg := config("http://127.0.0.1:1")
			cfg.Dialect, cfg.Project, cfg.APIKey = tc.dialect, project, func() string { return key }
			return newClient(t, cfg).Account().Fingerprint
		}
		if (print("sk-1", "main") == print("sk-2", "main")) != tc.stays {
			t.Errorf("%s: another key, and the account stays %v", name, !tc.stays)
		}
		if print("sk-1", "") == print("sk-2", "") {
			t.Errorf("%s: another key without a project is the same account", name)
		}
		if (print("sk-1", "a") == print("sk-1", "b")) == tc.stays {
			t.Errorf("%s: a project tells accounts apart %v", name, !tc.stays)
		}
	}
	cfg := config("http://127.0.0.1:1")
	cfg.Dialect.Projects = "no"
	if _, err := New(cfg); err == nil {
		t.Error("an unknown word for projects is taken")
	}
}

func TestDialectFieldsOfAChat(t *testing.T) {
	cfg := config("http://127.0.0.1:1")
	cfg.Dialect = Dialect{Role: "system", TokensField: "max_tokens", OmitStore: true}
	line, err := newClient(t, cfg).AppendRequest(nil, testClassifier(), "w1-s1", batch.NewText("x"))
	if err != nil || !strings.Contains(string(line), `"model":"gpt-4.1-mini-2025-04-14","temperature":0.25,"max_tokens":600,"messages":[{"role":"system"`) {
		t.Errorf("%v, %s", err, line)
	}
	// A response is stored unless it says otherwise, so that it always does.
	cfg.Endpoint = EndpointResponses
	line, err = newClient(t, cfg).AppendRequest(nil, testClassifier(), "w1-s1", batch.NewText("x"))
	if err != nil || !strings.Contains(string(line), `"store":false`) {
		t.Errorf("%v, %s", err, line)
	}
}

// A list that says where it goes on in its own way is read to its end, and one
// that contradicts itself is no list (F16).
func TestCursorLists(t *testing.T) {
	const job = `{"id":"batch_1","status":"completed"}`
	full := "[" + strings.TrimSuffix(strings.Join(many(jobsPage), ","), ",") + "]"
	for body, want := range map[string]string{ // the next cursor, or the kind of the error
		`{"data":[],"paging":{}}`:                                                            "",
		`{"data":[]}`:                                                                        "",
		`{"data":[` + job + `]}`:                                                             "",
		`{"data":[` + job + `],"paging":null}`:                                               "",
		`{"data":[` + job + `],"paging":{"next_cursor":null}}`:                               "",
		`{"data":[` + job + `],"paging":{"next_cursor":""}}`:                                 "",
		`{"data":[` + job + `],"paging":{"next_cursor":"MTIz+/=="}}`:                         "MTIz+/==",
		`{"data":` + full + `,"has_more":false}`:                                             "",
		`{"data":` + full + `,"paging":{"next_cursor":null}}`:                                "",
		`{"data":` + full + `}`:                                                              "bad_answer", // an end would have to be told
		`{"data":[],"paging":{"next_cursor":"c"}}`:                                           "bad_answer",
		`{"data":[` + job + `],"paging":{"next_cursor":"here"}}`:                             "bad_answer",
		`{"data":[` + job + `],"paging":{"next_cursor":7}}`:                                  "bad_answer",
		`{"data":[` + job + `],"paging":[]}`:                                                 "bad_answer",
		`{"data":[` + job + `],"paging":{"next_cursor":"a b"}}`:                              "bad_answer",
		`{"data":[` + job + `],"has_more":true}`:                                             "bad_answer",
		`{"paging":{"next_cursor":"c"}}`:                                                     "bad_answer",
		`{"object":"batch","data":[],"paging":{}}`:                                           "bad_answer",
		`{"data":[` + job + `],"paging":{"next_cursor":"` + strings.Repeat("c", 513) + `"}}`: "bad_answer",
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if q := r.URL.Query(); q.Get("cursor") != "here" || q.Has("after") || q.Get("api-version") != "1" {
				t.Errorf("asked with %v", q)
			}
			io.WriteString(w, body)
		}))
		cfg := config(srv.URL)
		cfg.Dialect.Cursor, cfg.Query = true, map[string]string{"api-version": "1"}
		page, err := newClient(t, cfg).ListJobs(context.Background(), "here")
		srv.Close()
		if got := page.Next; err == nil && got != want || err != nil && string(batch.KindOf(err)) != want {
			t.Errorf("%.90s: next %q, %v", body, got, err)
		}
	}
	cfg := config("http://127.0.0.1:1")
	cfg.Dialect.Cursor = true
	if _, err := newClient(t, cfg).ListJobs(t.Context(), "a b"); codeOf(err) != codeInvalidID {
		t.Errorf("a cursor that no service gives: %v", err)
	}
}

// many are n jobs, as a list has them.
func many(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`{"id":"batch_%d","status":"completed"}`, i))
	}
	return out
}

// Reasons for refusing a body are read in either form.
func TestFaultsAreAListOrAnObject(t *testing.T) {
	const faults = `[{"code":"invalid_json_line","line":3,"message":"m"},{"code":"url_mismatch","line":null}]`
	want := []batch.Fault{{Line: 3, Code: "invalid_json_line"}, {Code: "url_mismatch"}}
	for _, form := range []string{faults, `{"object":"list","data":` + faults + `}`} {
		job, _, err := parseJob([]byte(`{"id":"batch_1","status":"failed","errors":` + form + `}`))
		if err != nil || job.Phase != batch.PhaseInvalid || !slices.Equal(job.Faults, want) {
			t.Errorf("%s: %+v, %v", form, job, err)
		}
		// Lines that were invalid do not fail the whole job everywhere.
		job, _, err = parseJob([]byte(`{"id":"batch_1","status":"completed","output_file_id":"file-1","errors":` + form + `}`))
		if err != nil || job.Phase != batch.PhaseEnded || len(job.Files) != 1 || len(job.Faults) != 0 {
			t.Errorf("completed, %s: %+v, %v", form, job, err)
		}
	}
}
