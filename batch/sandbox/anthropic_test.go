package sandbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch/sandbox"
)

const messagesPath = "/v1/messages/batches"

// messageSchema is answerSchema without what this API does not take.
const messageSchema = `{"type":"object","properties":{"label":{"type":"string","enum":["unsafe_advice","harassment","self_harm","spam","ok"]},` +
	`"evidence":{"type":"array","items":{"type":"string"}},"note":{"type":["string","null"]}},"required":["label","evidence","note"],"additionalProperties":false}`

// reply is an answer of the server.
type reply struct {
	status int
	header http.Header
	raw    string
	body   map[string]any
}

// ask sends a request of the Message Batches API; headers go in pairs, and an
// empty value leaves one out.
func (r *rig) ask(method, path string, body any, headers ...string) reply {
	r.Helper()
	a, err := r.try(method, path, body, headers...)
	if err != nil {
		r.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (r *rig) try(method, path string, body any, headers ...string) (reply, error) {
	r.Helper()
	in, ok := body.(string)
	var reader io.Reader = strings.NewReader(in)
	if !ok {
		reader = encoded(r.T, body)
	}
	req, err := http.NewRequest(method, r.url+path, reader)
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("X-Api-Key", r.key)
	req.Header.Set("Anthropic-Version", "2023-06-01")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	a := reply{status: resp.StatusCode, header: resp.Header, raw: string(raw)}
	json.Unmarshal(raw, &a.body) // what is no JSON stays nil
	return a, err
}

// messageOf is a good request; changes are to its params, and nil removes one.
func messageOf(id, text string, changes map[string]any) map[string]any {
	report, _ := json.Marshal(map[string]string{"report": text})
	params := map[string]any{
		"model": "claude-test", "max_tokens": 400, "system": "Classify the report.",
		"messages":      []any{map[string]any{"role": "user", "content": string(report)}},
		"output_config": map[string]any{"format": map[string]any{"type": "json_schema", "schema": json.RawMessage(messageSchema)}},
	}
	for k, v := range changes {
		if params[k] = v; v == nil {
			delete(params, k)
		}
	}
	return map[string]any{"custom_id": id, "params": params}
}

// byTool asks for the answer by a tool.
var byTool = map[string]any{
	"output_config": nil,
	"tools":         []any{map[string]any{"name": "say", "strict": true, "input_schema": json.RawMessage(messageSchema)}},
	"tool_choice":   map[string]any{"type": "tool", "name": "say", "disable_parallel_tool_use": true},
}

func messagesOf(requests ...map[string]any) map[string]any {
	return map[string]any{"requests": requests}
}

// threeMessages are the requests a, b and c.
func threeMessages(changes map[string]any) map[string]any {
	var all []map[string]any
	for _, id := range []string{"a-1", "b-1", "c-1"} {
		all = append(all, messageOf(id, marker+" click here, "+id, changes))
	}
	return messagesOf(all...)
}

func (r *rig) newMessages(body any, headers ...string) string {
	r.Helper()
	a := r.ask("POST", messagesPath, body, headers...)
	if a.status != 200 {
		r.Fatalf("create: HTTP %d %s", a.status, a.raw)
	}
	return a.body["id"].(string)
}

func (r *rig) messages(id string) map[string]any {
	r.Helper()
	a := r.ask("GET", messagesPath+"/"+id, nil)
	if a.status != 200 {
		r.Fatalf("status: HTTP %d %s", a.status, a.raw)
	}
	return a.body
}

// messageLines are the lines of the results of a new batch, by custom id.
func (r *rig) messageLines(body any, headers ...string) map[string]map[string]any {
	r.Helper()
	id := r.newMessages(body, headers...)
	r.clock.add(2 * time.Minute)
	out := map[string]map[string]any{}
	for _, l := range splitLines(r.ask("GET", messagesPath+"/"+id+"/results", nil).raw) {
		var m map[string]any
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			r.Fatalf("%v: %s", err, l)
		}
		customID, _ := m["custom_id"].(string)
		out[customID] = m
	}
	return out
}

func textOfMessage(m map[string]any) string {
	content, _ := at(m, "result", "message", "content").([]any)
	text := ""
	for _, b := range content {
		t, _ := at(b, "text").(string)
		text += t
	}
	return text
}

func TestMessagesLife(t *testing.T) {
	r := newRig(t)
	created := r.ask("POST", messagesPath, threeMessages(nil))
	id, _ := created.body["id"].(string)
	processing := map[string]any{"processing": 3.0, "succeeded": 0.0, "errored": 0.0, "canceled": 0.0, "expired": 0.0}
	want := map[string]any{
		"id": id, "type": "message_batch", "processing_status": "in_progress", "request_counts": processing,
		"created_at": "2026-03-01T02:00:00.000000Z", "expires_at": "2026-03-02T02:00:00.000000Z",
		"ended_at": nil, "cancel_initiated_at": nil, "archived_at": nil, "results_url": nil,
	}
	if !strings.HasPrefix(id, "msgbatch_") || !reflect.DeepEqual(created.body, want) || created.header.Get("Request-Id") == "" || created.header.Get("Anthropic-Workspace-Id") == "" {
		t.Fatalf("%s %v", created.raw, created.header)
	}
	r.clock.add(30 * time.Second)
	results := messagesPath + "/" + id + "/results"
	if a := r.ask("GET", messagesPath+"/"+id, nil); !reflect.DeepEqual(a.body, want) || a.header.Get("Retry-After") != "10" || strings.Contains(a.raw, "a-1") {
		t.Errorf("running: %s %v", a.raw, a.header)
	}
	if a := r.ask("GET", results, nil); a.status != 404 || at(a.body, "error", "type") != "not_found_error" {
		t.Errorf("results before the end: %d %s", a.status, a.raw)
	}
	if a := r.ask("DELETE", messagesPath+"/"+id, nil); a.status != 400 || a.body["type"] != "error" || a.body["request_id"] != a.header.Get("Request-Id") {
		t.Errorf("delete before the end: %d %s", a.status, a.raw)
	}
	r.stop()
	r.start() // as a new process
	r.clock.add(time.Hour)
	ended := r.messages(id)
	if ended["processing_status"] != "ended" || at(ended, "request_counts", "succeeded") != 3.0 || ended["ended_at"] != "2026-03-01T02:01:10.000000Z" || ended["results_url"] != r.url+results {
		t.Errorf("ended: %v", ended)
	}
	a := r.ask("GET", results, nil)
	lines := splitLines(a.raw)
	if a.status != 200 || len(lines) != 3 || a.header.Get("Content-Type") != "application/x-jsonl" || !strings.Contains(lines[0], `"label\":\"spam`) {
		t.Errorf("results: %d %s", a.status, a.raw)
	}
	if b := r.ask("GET", results, nil); b.raw != a.raw {
		t.Error("the results differ the second time")
	}
	if a := r.ask("POST", messagesPath+"/"+id+"/cancel", nil); a.status != 400 {
		t.Errorf("cancel of one that ended: %d %s", a.status, a.raw)
	}
	r.clock.add(29 * 24 * time.Hour)
	if archived := r.messages(id); archived["archived_at"] != "2026-03-30T02:00:00.000000Z" || archived["results_url"] != nil || archived["processing_status"] != "ended" {
		t.Errorf("archived: %v", archived)
	}
	if a := r.ask("GET", results, nil); a.status != 404 {
		t.Errorf("archived results: %d", a.status)
	}
}

func TestMessagesExpireCancelAndGo(t *testing.T) {
	r := newRig(t)
	r.faults("expire:share=0.67,times=1")
	expires := r.newMessages(threeMessages(nil))
	r.faults("slow:phase=in_progress,for=1h")
	cancelled := r.newMessages(threeMessages(nil))
	gone := r.newMessages(threeMessages(nil))
	r.faults()
	r.clock.add(40 * time.Minute)
	for range 2 {
		a := r.ask("POST", messagesPath+"/"+cancelled+"/cancel", nil)
		if a.status != 200 || a.body["processing_status"] != "canceling" || a.body["cancel_initiated_at"] == nil || at(a.body, "request_counts", "processing") != 3.0 {
			t.Errorf("cancel: %d %s", a.status, a.raw)
		}
	}
	r.clock.add(23*time.Hour + 20*time.Minute)
	for id, want := range map[string][4]float64{expires: {2, 0, 0, 1}, cancelled: {2, 0, 1, 0}, gone: {3, 0, 0, 0}} {
		b := r.messages(id)
		got := [4]float64{}
		for i, k := range []string{"succeeded", "errored", "canceled", "expired"} {
			got[i] = at(b, "request_counts", k).(float64)
		}
		if b["processing_status"] != "ended" || got != want {
			t.Errorf("%s: %v, want %v", id, b, want)
		}
	}
	raw := r.ask("GET", messagesPath+"/"+expires+"/results", nil).raw
	if strings.Count(raw, `"type":"expired"`) != 1 || strings.Count(raw, `"type":"succeeded"`) != 2 {
		t.Errorf("%s", raw)
	}
	if a := r.ask("DELETE", messagesPath+"/"+gone, nil); a.status != 200 || a.body["id"] != gone || a.body["type"] != "message_batch_deleted" {
		t.Errorf("delete: %d %s", a.status, a.raw)
	}
	for _, path := range []string{gone, gone + "/results"} {
		if a := r.ask("GET", messagesPath+"/"+path, nil); a.status != 404 || at(a.body, "error", "type") != "not_found_error" {
			t.Errorf("%s after delete: %d %s", path, a.status, a.raw)
		}
	}
	if a := r.ask("DELETE", messagesPath+"/"+gone, nil); a.status != 404 {
		t.Errorf("second delete: %d", a.status)
	}
	books, err := r.server.Books()
	if err != nil || len(books.Jobs) != 3 || books.Lines != 9 || books.CustomIDs.InMoreThanOneJob != 3 || books.Jobs[0].Status != "deleted" || books.Requests["delete_batch"] != 2 {
		t.Errorf("%+v, %v", books, err)
	}
}

// What the API checks of a create at once, with its words.
func TestMessagesCheckedAtOnce(t *testing.T) {
	r := newRig(t)
	good := messageOf("a-1", marker, nil)
	for want, body := range map[string]any{
		"The request body is not valid JSON.":                                                 `{"requests":[`,
		"Input should be a valid dictionary":                                                  `[]`,
		`"extra": Extra inputs are not permitted`:                                             `{"extra":1}`,
		"requests: Field required":                                                            `{}`,
		"requests: Input should be a valid list":                                              `{"requests":{}}`,
		"requests: List should have at least 1 item after validation, not 0":                  `{"requests":[]}`,
		"requests.0: Input should be a valid dictionary":                                      `{"requests":[7]}`,
		"requests.1: Extra inputs are not permitted":                                          messagesOf(good, map[string]any{"custom_id": "b", "params": map[string]any{}, "metadata": 1}),
		"requests.0.custom_id: Field required":                                                messagesOf(map[string]any{"params": map[string]any{}}),
		"requests.0.custom_id: Input should be a valid string":                                messagesOf(map[string]any{"custom_id": 7, "params": map[string]any{}}),
		"requests.0.custom_id: String should have at most 64 characters":                      messagesOf(messageOf(strings.Repeat("x", 65), "", nil)),
		"requests.1.custom_id: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'":           messagesOf(good, messageOf("a.b", "", nil)),
		"requests: custom_id's must be unique within a batch. Duplicate custom_id found: a-1": messagesOf(good, good),
		"requests.0.params: Field required":                                                   `{"requests":[{"custom_id":"a"}]}`,
		"requests.0.params: Input should be a valid dictionary":                               `{"requests":[{"custom_id":"a","params":[]}]}`,
	} {
		a := r.ask("POST", messagesPath, body)
		says, _ := at(a.body, "error", "message").(string)
		if a.status != 400 || a.body["type"] != "error" || at(a.body, "error", "type") != "invalid_request_error" || says != want {
			t.Errorf("HTTP %d %s, want %q", a.status, a.raw, want)
		}
	}
	if b, err := r.server.Books(); err != nil || len(b.Jobs) != 0 {
		t.Errorf("%+v, %v", b.Jobs, err)
	}
	// An Idempotency-Key means nothing.
	first := r.newMessages(messagesOf(good), "Idempotency-Key", "k")
	if second := r.newMessages(messagesOf(good), "Idempotency-Key", "k"); first == second {
		t.Error("a repeated create is one batch")
	}
}

// What shows in a result of a batch, and at once when a request comes alone.
func TestMessagesCheckedLater(t *testing.T) {
	r := newRig(t)
	bounded := map[string]any{"format": map[string]any{"type": "json_schema", "schema": json.RawMessage(answerSchema)}}
	open := map[string]any{"format": map[string]any{"type": "json_schema", "schema": json.RawMessage(`{"type":"object","properties":{}}`)}}
	for name, tc := range map[string]struct {
		change  map[string]any
		version string
		alone   int
	}{
		"no model":              {map[string]any{"model": nil}, "2023-06-01", 400},
		"no max_tokens":         {map[string]any{"max_tokens": nil}, "2023-06-01", 400},
		"max_tokens 0":          {map[string]any{"max_tokens": 0}, "2023-06-01", 400},
		"no messages":           {map[string]any{"messages": nil}, "2023-06-01", 400},
		"developer first":       {map[string]any{"messages": []any{map[string]any{"role": "developer", "content": "x"}}}, "2023-06-01", 400},
		"stream":                {map[string]any{"stream": true}, "2023-06-01", 400},
		"speed":                 {map[string]any{"speed": "fast"}, "2023-06-01", 200},
		"betas":                 {map[string]any{"betas": []string{"x"}}, "2023-06-01", 400},
		"temperature, new":      {map[string]any{"temperature": 1}, "2026-10-21", 400},
		"top_k, new":            {map[string]any{"top_k": 5}, "2026-10-21", 400},
		"bounds in the schema":  {map[string]any{"output_config": bounded}, "2023-06-01", 400},
		"an open object":        {map[string]any{"output_config": open}, "2023-06-01", 400},
		"messages of odd shape": {map[string]any{"messages": "x"}, "2023-06-01", 400},
	} {
		t.Run(name, func(t *testing.T) {
			m := messageOf("a-1", marker, tc.change)
			lines := r.messageLines(messagesOf(m, messageOf("b-1", "fine", nil)), "Anthropic-Version", tc.version)
			row := lines["a-1"]
			if at(row, "result", "type") != "errored" || at(row, "result", "error", "type") != "error" || at(row, "result", "error", "error", "type") != "invalid_request_error" {
				t.Errorf("%v", row)
			}
			if at(lines["b-1"], "result", "type") != "succeeded" {
				t.Errorf("%v", lines["b-1"])
			}
			a := r.ask("POST", "/v1/messages", m["params"], "Anthropic-Version", tc.version)
			if a.status != tc.alone {
				t.Errorf("alone: HTTP %d %s", a.status, a.raw)
			}
		})
	}
	for _, version := range []string{"2023-06-01", "2026-10-21"} {
		a := r.ask("POST", "/v1/messages", messageOf("", "click here", nil)["params"], "Anthropic-Version", version)
		if a.status != 200 || a.body["stop_reason"] != "end_turn" || a.body["model"] != "sandbox-stand-in" || a.body["type"] != "message" || at(a.body, "usage", "service_tier") != "standard" {
			t.Errorf("HTTP %d %s", a.status, a.raw)
		}
	}
	if a := r.ask("POST", "/v1/messages", messageOf("", "x", map[string]any{"temperature": 0})["params"]); a.status != 200 {
		t.Errorf("temperature, old: HTTP %d %s", a.status, a.raw)
	}
	if a := r.ask("POST", "/v1/messages", `{`); a.status != 400 {
		t.Errorf("no JSON: HTTP %d", a.status)
	}
}

func TestMessagesAuth(t *testing.T) {
	r := newRig(t, func(o *sandbox.Options) {
		o.Keys = map[string]string{"key-a": "wrkspc_1", "key-b": "wrkspc_1", "key-c": "wrkspc_2"}
	})
	for name, tc := range map[string]struct {
		headers []string
		status  int
		class   any
	}{
		"key":               {nil, 200, nil},
		"bearer":            {[]string{"X-Api-Key", "", "Authorization", "Bearer key-b"}, 200, nil},
		"one of both":       {[]string{"X-Api-Key", "wrong", "Authorization", "Bearer key-a"}, 200, nil},
		"neither":           {[]string{"X-Api-Key", ""}, 401, "authentication_error"},
		"both wrong":        {[]string{"X-Api-Key", "wrong", "Authorization", "Bearer wrong"}, 401, "authentication_error"},
		"its workspace":     {[]string{"Anthropic-Workspace-Id", "wrkspc_1"}, 200, nil},
		"another workspace": {[]string{"Anthropic-Workspace-Id", "wrkspc_2"}, 403, "permission_error"},
		"newer version":     {[]string{"Anthropic-Version", "2026-10-21"}, 200, nil},
		"no version":        {[]string{"Anthropic-Version", ""}, 400, "invalid_request_error"},
		"no such version":   {[]string{"Anthropic-Version", "new"}, 400, "invalid_request_error"},
	} {
		a := r.ask("GET", messagesPath, nil, tc.headers...)
		if a.status != tc.status || at(a.body, "error", "type") != tc.class {
			t.Errorf("%s: HTTP %d %s", name, a.status, a.raw)
		}
	}
	id := r.newMessages(threeMessages(nil))
	if a := r.ask("GET", messagesPath+"/"+id, nil, "X-Api-Key", "key-b"); a.status != 200 || a.header.Get("Anthropic-Workspace-Id") != "wrkspc_1" {
		t.Errorf("another key of the workspace: HTTP %d", a.status)
	}
	if a := r.ask("GET", messagesPath+"/"+id, nil, "X-Api-Key", "key-c"); a.status != 404 {
		t.Errorf("a key of another workspace: HTTP %d", a.status)
	}
	if a := r.ask("GET", messagesPath, nil, "X-Api-Key", "key-c"); a.status != 200 || a.raw != `{"data":[],"has_more":false,"first_id":null,"last_id":null}` {
		t.Errorf("its list: HTTP %d %s", a.status, a.raw)
	}
}

func TestMessagesList(t *testing.T) {
	r := newRig(t)
	var ids []string // newest first
	for range 5 {
		ids = slices.Insert(ids, 0, r.newMessages(threeMessages(nil)))
		r.clock.add(time.Second)
	}
	list := func(query string) (got []string, more any) {
		t.Helper()
		a := r.ask("GET", messagesPath+query, nil)
		data, _ := a.body["data"].([]any)
		for _, d := range data {
			got = append(got, at(d, "id").(string))
		}
		if len(got) > 0 && (a.body["first_id"] != got[0] || a.body["last_id"] != got[len(got)-1]) {
			t.Errorf("%s", a.raw)
		}
		return got, a.body["has_more"]
	}
	for query, want := range map[string][]string{
		"": ids, "?limit=2": ids[:2], "?limit=2&after_id=" + ids[1]: ids[2:4], "?limit=9&after_id=" + ids[3]: ids[4:],
		"?limit=2&before_id=" + ids[3]: ids[1:3], "?before_id=" + ids[1]: ids[:1], "?after_id=" + ids[4]: nil,
	} {
		more := len(want) == 2
		if got, says := list(query); !slices.Equal(got, want) || says != more {
			t.Errorf("%s: %v, %v, want %v", query, got, says, want)
		}
	}
	for _, query := range []string{"?limit=0", "?limit=1001", "?limit=x", "?after_id=none", "?before_id=none", "?after_id=" + ids[0] + "&before_id=" + ids[1]} {
		if a := r.ask("GET", messagesPath+query, nil); a.status != 400 {
			t.Errorf("%s: HTTP %d", query, a.status)
		}
	}
	for fault, want := range map[string][]string{
		"listing_lag:seconds=3":     ids[2:],
		"listing_cut:entries=2":     ids[:2],
		"listing_hole:id=" + ids[0]: ids[1:],
		"short_page:entries=1":      ids[:1],
	} {
		r.faults(fault)
		if got, _ := list(""); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", fault, got, want)
		}
	}
	r.faults("vanish:after=1s,times=1")
	gone := r.newMessages(threeMessages(nil))
	r.clock.add(time.Second)
	if got, _ := list(""); slices.Contains(got, gone) {
		t.Error("a batch that vanished is listed")
	}
	if a := r.ask("GET", messagesPath+"/"+gone, nil); a.status != 404 {
		t.Errorf("a batch that vanished: HTTP %d", a.status)
	}
	if _, out := r.call("GET", "/v1/batches", nil); len(out["data"].([]any)) != 0 {
		t.Error("the other API lists them")
	}
}

func TestMessagesTooMany(t *testing.T) {
	r := newRig(t)
	var b strings.Builder
	b.WriteString(`{"requests":[`)
	for i := range 100_001 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"custom_id":"w%d","params":{}}`, i)
	}
	b.WriteString(`]}`)
	if a := r.ask("POST", messagesPath, b.String()); a.status != 400 || at(a.body, "error", "message") != "requests: List should have at most 100000 items after validation" {
		t.Errorf("HTTP %d %s", a.status, a.raw)
	}
}

// What a killed process left half done goes at the next start, and nothing else.
func TestMessagesAfterAKill(t *testing.T) {
	r := newRig(t)
	ended := r.newMessages(threeMessages(nil))
	r.clock.add(2 * time.Minute)
	results := r.ask("GET", messagesPath+"/"+ended+"/results", nil).raw
	running := r.newMessages(threeMessages(nil))
	r.stop()
	dir := filepath.Join(r.dir, "messages")
	leftovers := []string{"msgbatch_none.input", "msgbatch_none.results", ended + ".input", running + ".results"}
	for _, name := range leftovers {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	for _, name := range leftovers {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there, or %v", name, err)
		}
	}
	if a := r.ask("GET", messagesPath+"/"+ended+"/results", nil); a.raw != results {
		t.Errorf("HTTP %d, %d bytes, want %d", a.status, len(a.raw), len(results))
	}
	r.clock.add(2 * time.Minute)
	if b := r.messages(running); b["processing_status"] != "ended" || at(b, "request_counts", "succeeded") != 3.0 {
		t.Errorf("%v", b)
	}
	if newest := r.newMessages(threeMessages(nil)); newest == ended || newest == running {
		t.Error("an id came twice")
	}
}
