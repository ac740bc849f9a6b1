package sandbox_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"rollcall/batch/sandbox"
)

// asked is a line for another endpoint.
func asked(endpoint, id string, body map[string]any) line {
	body["model"] = "m-1"
	return line{"custom_id": id, "method": "POST", "url": endpoint, "body": body}
}

// answersOf runs lines at an endpoint and returns the answers by custom id.
func answersOf(t *testing.T, endpoint string, faults []string, lines ...line) map[string]json.RawMessage {
	t.Helper()
	r := newRig(t)
	r.faults(faults...)
	c := creation(r.upload(jsonl(lines...)))
	c["endpoint"] = endpoint
	status, out := r.call("POST", "/v1/batches", c)
	if status != 200 {
		t.Fatalf("create: HTTP %d %v", status, out)
	}
	r.clock.add(2 * time.Minute)
	j := r.job(out["id"].(string))
	if j["status"] != "completed" || j["output_file_id"] == nil {
		t.Fatalf("job %v", j)
	}
	got := map[string]json.RawMessage{}
	for _, l := range splitLines(r.content(j["output_file_id"])) {
		var res struct {
			CustomID string `json:"custom_id"`
			Response struct {
				Status int `json:"status_code"`
				Body   json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(l), &res); err != nil || res.Response.Status != 200 {
			t.Fatalf("%v in %s", err, l)
		}
		got[res.CustomID] = res.Response.Body
	}
	return got
}

func responsesLine(id, text string) line {
	user, _ := json.Marshal(map[string]string{"token": "tok-" + id, "report": text})
	schema := `{"type":"object","properties":{"token":{"type":"string"},` + strings.TrimPrefix(answerSchema, `{"type":"object","properties":{`)
	schema = strings.Replace(schema, `"required":[`, `"required":["token",`, 1)
	return asked("/v1/responses", id, map[string]any{
		"store": false, "instructions": "Classify.", "input": []any{map[string]any{"role": "user", "content": string(user)}},
		"text": map[string]any{"format": map[string]any{"type": "json_schema", "name": "v", "strict": true, "schema": json.RawMessage(schema)}},
	})
}

// The official client reads the sandbox's responses, in every state.
func TestResponsesByTheOfficialClient(t *testing.T) {
	for _, c := range []struct {
		fault, status, reason, code string
		answered                    bool
	}{
		{"", "completed", "", "", true},
		{"refusal", "completed", "", "", false},
		{"length", "incomplete", "max_output_tokens", "", false},
		{"content_filter", "incomplete", "content_filter", "", false},
		{"response_failed", "failed", "", "server_error", false},
		{"response_failed:code=rate_limit_exceeded", "failed", "", "rate_limit_exceeded", false},
	} {
		var faults []string
		if c.fault != "" {
			faults = []string{c.fault}
		}
		body := answersOf(t, "/v1/responses", faults, responsesLine("w1-s1", marker+" click here"))["w1-s1"]
		var got responses.Response
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		if string(got.Status) != c.status || got.IncompleteDetails.Reason != c.reason || string(got.Error.Code) != c.code || got.Model != "sandbox-stand-in" || got.Usage.InputTokens == 0 {
			t.Errorf("%s: %s", c.fault, body)
		}
		want := `{"token":"tok-w1-s1","label":"spam","evidence":["` + marker + ` click here"],"severity":1,"note":null}`
		if text := got.OutputText(); (text == want) != c.answered || !c.answered && text != "" {
			t.Errorf("%s: text %q", c.fault, text)
		}
		if c.status == "completed" && (len(got.Output) != 2 || got.Output[0].Type != "reasoning" || (got.Output[1].AsMessage().Content[0].Type == "refusal") == c.answered) {
			t.Errorf("%s: output %s", c.fault, body)
		}
	}
}

// The official client reads the sandbox's moderations, and only what its words
// are about is marked.
func TestModerationsByTheOfficialClient(t *testing.T) {
	input := func(id, text string) line { return asked("/v1/moderations", id, map[string]any{"input": text}) }
	lines := []line{input("calm", "I feel better today."), input("self", "I want to die"), input("both", "you idiot, I want to die"), input("ad", "click here")}
	for _, fault := range []string{"", "category_missing"} {
		var faults []string
		if fault != "" {
			faults = []string{fault}
		}
		got := answersOf(t, "/v1/moderations", faults, lines...)
		for id, want := range map[string][2]bool{"calm": {}, "self": {true, false}, "both": {true, true}, "ad": {}} {
			var m openai.ModerationNewResponse
			if err := json.Unmarshal(got[id], &m); err != nil || len(m.Results) != 1 {
				t.Fatalf("%v in %s", err, got[id])
			}
			r := m.Results[0]
			if fault == "category_missing" {
				if r.CategoryScores.JSON.SelfHarm.Valid() || r.Categories.JSON.SelfHarm.Valid() || !r.CategoryScores.JSON.Harassment.Valid() {
					t.Errorf("%s: %s", id, got[id])
				}
				continue
			}
			if r.Categories.SelfHarm != want[0] || r.Categories.Harassment != want[1] || r.Flagged != (want[0] || want[1]) ||
				(r.CategoryScores.SelfHarm > 0.5) != want[0] || !r.CategoryScores.JSON.IllicitViolent.Valid() || r.Categories.Violence || m.Model != "sandbox-stand-in" {
				t.Errorf("%s: %s", id, got[id])
			}
		}
	}
}

// Each endpoint checks the lines for what it needs.
func TestValidationOfOtherEndpoints(t *testing.T) {
	for endpoint, bodies := range map[string]map[string]map[string]any{
		"/v1/responses":   {"body.input": {}, "body.stream": {"input": "x", "stream": true}, "body": {"input": "x", "model": 7}},
		"/v1/moderations": {"body.input": {}, "body.stream": {"input": "x", "stream": true}},
		"/v1/embeddings":  {"url": {"input": "x"}},
	} {
		for param, body := range bodies {
			r := newRig(t)
			l := asked(endpoint, "w1-s1", map[string]any{})
			for k, v := range body {
				l = l.with("body."+k, v)
			}
			c := creation(r.upload(jsonl(l)))
			c["endpoint"] = endpoint
			status, out := r.call("POST", "/v1/batches", c)
			if status != 200 {
				t.Fatalf("HTTP %d %v", status, out)
			}
			r.clock.add(time.Minute)
			j := r.job(out["id"].(string))
			problems, _ := at(j, "errors", "data").([]any)
			if len(problems) != 1 || at(problems[0], "param") != param || at(problems[0], "line") != 1.0 {
				t.Errorf("%s, %s: %v", endpoint, param, j["errors"])
			}
		}
	}
}

// The official client speaks to the Azure flavour under both of its paths.
func TestAzureByTheOfficialClient(t *testing.T) {
	for base, version := range map[string]string{"/openai/v1": "", "/openai": "2024-10-21"} {
		for _, endpoint := range []string{"/chat/completions", "/v1/chat/completions"} {
			r := newRig(t, func(o *sandbox.Options) {
				o.Flavour = sandbox.FlavourAzure
				o.Keys = map[string]string{"key-a": "res-1"}
			})
			opts := []option.RequestOption{option.WithBaseURL(r.url + base), option.WithHeader("api-key", "key-a"), option.WithHTTPClient(r.client), option.WithMaxRetries(0)}
			if version != "" {
				opts = append(opts, option.WithQuery("api-version", version))
			}
			files, batches := openai.NewFileService(opts...), openai.NewBatchService(opts...)
			upload := func(seconds int64) (*openai.FileObject, error) {
				return files.New(t.Context(), openai.FileNewParams{
					File:    openai.File(strings.NewReader(strings.ReplaceAll(inputOf(3), "/v1/chat/completions", endpoint)), "in.jsonl", "application/jsonl"),
					Purpose: openai.FilePurposeBatch, ExpiresAfter: openai.FileNewParamsExpiresAfter{Seconds: seconds},
				})
			}
			if _, err := upload(86400); err == nil {
				t.Error("a file that lives for a day was taken")
			}
			file, err := upload(1209600)
			if err != nil {
				t.Fatal(err)
			}
			b, err := batches.New(t.Context(), openai.BatchNewParams{InputFileID: file.ID, Endpoint: openai.BatchNewParamsEndpoint(endpoint), CompletionWindow: "24h"})
			if err != nil || b.Status != "Validating" {
				t.Fatalf("%v, %v", b, err)
			}
			r.clock.add(2 * time.Minute)
			if b, err = batches.Get(t.Context(), b.ID); err != nil || b.Status != "Completed" || b.OutputFileID == "" || b.ErrorFileID == "" {
				t.Errorf("%v, %v", b, err)
			}
			if f, err := files.Get(t.Context(), b.ErrorFileID); err != nil || f.Bytes != 0 {
				t.Errorf("error file %v, %v", f, err)
			}
		}
	}
}

// Without its version, at OpenAI's paths and with another key the Azure flavour
// does nothing.
func TestAzureRefuses(t *testing.T) {
	r := newRig(t, func(o *sandbox.Options) {
		o.Flavour = sandbox.FlavourAzure
		o.Keys = map[string]string{"key-a": "res-1"}
	})
	for path, want := range map[string]int{"/openai/batches": 404, "/openai/batches?api-version=1": 200, "/openai/v1/batches": 200, "/v1/batches": 404} {
		if status, out := r.call("GET", path, nil); status != want {
			t.Errorf("%s: HTTP %d %v", path, status, out)
		}
	}
	r.key = "key-b"
	if status, _ := r.call("GET", "/openai/v1/batches", nil); status != 401 {
		t.Errorf("another key: HTTP %d", status)
	}
	if _, err := sandbox.New(sandbox.Options{Dir: t.TempDir(), Flavour: "vanilla"}); err == nil || !strings.Contains(err.Error(), "azure") {
		t.Errorf("an unknown flavour: %v", err)
	}
}
