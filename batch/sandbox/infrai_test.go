package sandbox_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"rollcall/batch/infrai"
	"rollcall/batch/sandbox"
)

// infraiPin serves the assumed pin.
func infraiPin(t *testing.T) func(*sandbox.Options) {
	t.Helper()
	raw, err := os.ReadFile("../infrai/testdata/assumed.pin.json")
	if err != nil {
		t.Fatal(err)
	}
	pin, err := infrai.ParsePin(raw)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *sandbox.Options) { o.Infrai = &pin }
}

const infraiItem = `{"body":{"max_tokens":400,"messages":[{"content":"{\"report\":\"` + marker + ` one\"}","role":"user"}],"model":"gpt-4.1-mini"},"capability":"ai.chat","ref":"w1-s1"}`

func infraiBody(key string) string {
	return `{"batch_timeout":"24h","idempotency_key":"` + key + `","requests":[` + infraiItem + "," + strings.Replace(infraiItem, "w1", "w2", 1) + "]}\n"
}

// native sends a call of the native API and returns the envelope; nil without an
// answer, or with one that is none.
func (r *rig) native(method, path, key, body string) (int, map[string]any) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	var out map[string]any
	if json.Unmarshal(raw, &out) != nil {
		return resp.StatusCode, map[string]any{"raw": string(raw)}
	}
	return resp.StatusCode, out
}

func (r *rig) submitted(key string) string {
	r.Helper()
	status, out := r.native("POST", "/v1/ai/batch/submit", key, infraiBody(key))
	id, _ := at(out, "data", "batch_id").(string)
	if status != 202 || id == "" {
		r.Fatalf("HTTP %d %v", status, out)
	}
	return id
}

// Without a pin there is what is documented, and the rest is 404.
func TestInfraiDocumented(t *testing.T) {
	r := newRig(t)
	id := r.submitted("k1")
	r.clock.add(2 * time.Minute)
	status, out := r.native("GET", "/v1/ai/batch/status/"+id, "", "")
	if status != 200 || out["ok"] != true || at(out, "data", "batch_id") != id || at(out, "data", "state") != "completed" || at(out, "metadata", "vendor") == nil {
		t.Errorf("HTTP %d %v", status, out)
	}
	for _, path := range []string{"results/" + id, "export/" + id, "cancel/" + id, "list", "status/b_nobody"} {
		if status, out := r.native("GET", "/v1/ai/batch/"+path, "", ""); status != 404 || out["ok"] != false || at(out, "error", "code") != "NOT_FOUND" {
			t.Errorf("%s: HTTP %d %v", path, status, out)
		}
	}
	r.key = ""
	if status, _ := r.native("GET", "/v1/ai/batch/status/"+id, "", ""); status != 401 {
		t.Errorf("HTTP %d without a key", status)
	}
}

// A key is a job for 24 hours of virtual time, over a restart too (F18).
func TestInfraiKeys(t *testing.T) {
	pin := infraiPin(t)
	r := newRig(t, pin)
	first := r.submitted("k1")
	r.clock.add(23 * time.Hour)
	r.kill(pin)
	if again := r.submitted("k1"); again != first {
		t.Errorf("job %s, want %s", again, first)
	}
	if other := r.submitted("k2"); other == first {
		t.Error("two keys, one job")
	}
	r.clock.add(time.Hour)
	if late := r.submitted("k1"); late == first {
		t.Error("the key was known behind its window")
	}
	if b := r.server.Infrai(); len(b.Jobs) != 3 || len(b.Violations) != 0 || b.Jobs[0].Items[1] != "w2-s1" {
		t.Errorf("%+v", b)
	}
}

func TestInfraiViolations(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path, key, body string
		status                  int
	}{
		"other bytes under one key":              {"POST", "/v1/ai/batch/submit", "k0", strings.Replace(infraiBody("k0"), "one", "two", 1), 409},
		"an item without an explicit model":      {"POST", "/v1/ai/batch/submit", "k1", strings.Replace(infraiBody("k1"), `"gpt-4.1-mini"`, `"auto"`, 1), 202},
		"a submit that is not canonical JSON":    {"POST", "/v1/ai/batch/submit", "k1", strings.TrimSpace(infraiBody("k1")), 202},
		"two keys in one submit":                 {"POST", "/v1/ai/batch/submit", "k2", infraiBody("k1"), 202},
		"a batch_timeout that is not documented": {"POST", "/v1/ai/batch/submit", "k1", strings.Replace(infraiBody("k1"), "24h", "1h", 1), 202},
		"call of the account's money: POST":      {"POST", "/v1/account/topup", "k1", "{}", 403},
	} {
		r := newRig(t, infraiPin(t))
		r.submitted("k0")
		status, out := r.native(tc.method, tc.path, tc.key, tc.body)
		if v := r.server.Infrai().Violations; status != tc.status || len(v) != 1 || v[0] != name {
			t.Errorf("%s: HTTP %d %v, violations %v", name, status, out, v)
		}
	}
	r := newRig(t, infraiPin(t))
	body := strings.Replace(infraiBody("k1"), `"idempotency_key":"k1",`, "", 1)
	if r.native("POST", "/v1/ai/batch/submit", "", body); len(r.server.Infrai().Violations) != 1 {
		t.Errorf("%v", r.server.Infrai().Violations)
	}
	if r.native("POST", "/v1/ai/batch/submit", "", body); len(r.server.Infrai().Jobs) != 1 {
		t.Error("the key that is derived from the body is not the same for the same body")
	}
}

// An assumed pin is for this machine.
func TestInfraiAssumedElsewhere(t *testing.T) {
	r := newRig(t, infraiPin(t))
	for addr, status := range map[string]int{"127.0.0.1:9": 404, "[::1]:9": 404, "192.0.2.7:9": 403, "": 403} {
		req := httptest.NewRequest("GET", "/v1/ai/batch/status/b_1", nil)
		req.Header.Set("Authorization", "Bearer "+r.key)
		req.RemoteAddr = addr
		w := httptest.NewRecorder()
		r.server.ServeHTTP(w, req)
		if w.Code != status {
			t.Errorf("%q: HTTP %d, want %d", addr, w.Code, status)
		}
	}
}

// infraiFaults: what a look at the results or an answer shows of each fault.
var infraiFaults = []struct {
	fault string
	see   func(r *rig) bool
}{
	{"infrai_drift", func(r *rig) bool {
		now := r.discovered()
		r.faults()
		return now != r.discovered()
	}},
	{"infrai_no_data", submitGives(func(status int, out map[string]any) bool {
		return status == 202 && out["ok"] == true && out["data"] == nil
	})},
	{"infrai_ok_false", submitGives(func(status int, out map[string]any) bool {
		return status == 200 && out["ok"] == false && out["error"] != nil
	})},
	{"infrai_ok_true", submitGives(func(status int, out map[string]any) bool {
		return status == 400 && out["ok"] == true && out["error"] != nil
	})},
	{"infrai_final", submitGives(func(status int, out map[string]any) bool {
		return status == 503 && at(out, "error", "retryable") == false
	})},
	{"infrai_total_count", submitGives(func(status int, out map[string]any) bool { return at(out, "data", "total_count") == 3.0 })},
	{"infrai_second_job", func(r *rig) bool {
		first := r.submitted("k1")
		return first != r.submitted("k1")
	}},
	{"infrai_other_body:gives=new", func(r *rig) bool {
		first := r.submitted("k1")
		_, out := r.native("POST", "/v1/ai/batch/submit", "k1", strings.Replace(infraiBody("k1"), "one", "two", 1))
		id := at(out, "data", "batch_id")
		return id != nil && id != first
	}},
	{"infrai_other_body:gives=old", func(r *rig) bool {
		first := r.submitted("k1")
		_, out := r.native("POST", "/v1/ai/batch/submit", "k1", strings.Replace(infraiBody("k1"), "one", "two", 1))
		return at(out, "data", "batch_id") == first
	}},
	{"infrai_page:entries=1", func(r *rig) bool {
		out := r.infraiResults()
		_, next := r.native("GET", "/v1/ai/batch/results/"+r.server.Infrai().Jobs[0].ID+"?cursor=at%2B1", "", "")
		return len(at(out, "data", "items").([]any)) == 1 && at(out, "data", "next_cursor") == "at+1" && at(next, "data", "next_cursor") == nil
	}},
	{"infrai_page_loop", func(r *rig) bool { return at(r.infraiResults(), "data", "next_cursor") == "at+0" }},
	{"infrai_regress", func(r *rig) bool {
		id := r.submitted("k1")
		r.clock.add(2 * time.Minute)
		_, first := r.native("GET", "/v1/ai/batch/status/"+id, "", "")
		_, second := r.native("GET", "/v1/ai/batch/status/"+id, "", "")
		return at(first, "data", "state") == "completed" && at(second, "data", "state") == "queued"
	}},
	{"infrai_results_once", func(r *rig) bool {
		out := r.infraiResults()
		status, _ := r.native("GET", "/v1/ai/batch/results/"+r.server.Infrai().Jobs[0].ID, "", "")
		return out["ok"] == true && status == 404
	}},
	{"infrai_vendor:prefix=w1", item("served_by", "vendor", "deepseek")},
	{"infrai_no_vendor:prefix=w1", item("served_by", "vendor", nil)},
	{"infrai_cache_hit:prefix=w1", item("served_by", "cache_hit", true)},
	{"infrai_item_word:prefix=w1", func(r *rig) bool {
		for _, i := range at(r.infraiResults(), "data", "items").([]any) {
			if at(i.(map[string]any), "ref") == "w1-s1" {
				return at(i.(map[string]any), "outcome") == "reviewing"
			}
		}
		return false
	}},
}

// discovered is a document, byte for byte.
func (r *rig) discovered() string {
	r.Helper()
	resp, err := r.client.Get(r.url + "/v1/discovery/ai.batch.submit")
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.Fatalf("HTTP %d, %v", resp.StatusCode, err)
	}
	return string(raw)
}

// submitGives looks at the answer to a submit.
func submitGives(ok func(status int, out map[string]any) bool) func(*rig) bool {
	return func(r *rig) bool { return ok(r.native("POST", "/v1/ai/batch/submit", "k1", infraiBody("k1"))) }
}

// item looks at a member of the first item, which the second must not have.
func item(object, name string, want any) func(*rig) bool {
	return func(r *rig) bool {
		got := map[string]any{}
		for _, i := range at(r.infraiResults(), "data", "items").([]any) {
			got[at(i.(map[string]any), "ref").(string)] = at(i.(map[string]any), object, name)
		}
		return got["w1-s1"] == want && got["w2-s1"] != want
	}
}

// infraiResults are the results of a job that has ended.
func (r *rig) infraiResults() map[string]any {
	r.Helper()
	id := r.submitted("k1")
	r.clock.add(2 * time.Minute)
	_, out := r.native("GET", "/v1/ai/batch/results/"+id, "", "")
	return out
}

func TestInfraiFaults(t *testing.T) {
	for _, c := range infraiFaults {
		t.Run(c.fault, func(t *testing.T) {
			r := newRig(t, infraiPin(t))
			r.faults(c.fault)
			if !c.see(r) {
				t.Error("the fault does not show")
			}
			plain := newRig(t, infraiPin(t))
			if c.see(plain) {
				t.Error("it shows without the fault")
			}
		})
	}
}
