package infrai_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/infrai"
)

// A state of no set is running, and one that goes back is what it says now.
func TestStates(t *testing.T) {
	r := newRig(t, assumed(t))
	r.Faults("unknown_status:word=archived,times=1")
	odd := r.ended("k1")
	if odd.Phase != batch.PhaseRunning || odd.Known || odd.Status != "archived" || len(odd.Files) != 0 {
		t.Errorf("%+v: the documents have the word, and the pin does not say what it means", odd)
	}
	r.Faults("unknown_status:word=" + strings.Repeat("x", 70) + ",times=1")
	if got := r.ended("k2"); got.Known || got.Status != "unprintable" {
		t.Errorf("%+v", got)
	}
	r.Faults("infrai_regress:times=1")
	first := r.ended("k3")
	second, third := r.look(first.ID), r.look(first.ID)
	if first.Phase != batch.PhaseEnded || second.Phase != batch.PhaseRunning || len(second.Files) != 0 || third.Phase != batch.PhaseEnded || third.Files[0].ID != first.ID {
		t.Errorf("%+v, then %+v, then %+v", first, second, third)
	}
	r.Faults("cancel_midway:times=1")
	if got := r.ended("k4"); got.Phase != batch.PhaseEnded || got.Status != "cancelled" || got.Counts.Total != 3 {
		t.Errorf("%+v", got)
	}
	r.Faults("infrai_ok_false:op=status,times=1")
	_, err := r.Status(t.Context(), first.ID)
	wants(t, err, batch.BadAnswer, "UPSTREAM_REFUSED")
	r.Faults("infrai_ok_true:op=status,times=1")
	_, err = r.Status(t.Context(), first.ID)
	wants(t, err, batch.BadAnswer, "ok_is_true")
	r.Faults("insufficient_quota:op=status,times=1")
	_, err = r.Status(t.Context(), first.ID)
	wants(t, err, batch.OutOfCredit, "INSUFFICIENT_CREDIT")
	_, err = r.Status(t.Context(), "../account/balance")
	wants(t, err, batch.Rejected, "invalid_id")
	r.obeyed()
}

// The processor boundary: who served an item decides before what it says.
func TestVendorOfEachResult(t *testing.T) {
	for fault, want := range map[string]batch.Result{
		"":                                              {Outcome: batch.Answered, Vendor: "openai"},
		"infrai_vendor:prefix=w2":                       {Outcome: batch.Unapproved, Vendor: "deepseek"},
		"infrai_vendor:prefix=w2,name=OpenAI":           {Outcome: batch.Unapproved, Vendor: "OpenAI"},
		"infrai_vendor:prefix=w2,name=a b":              {Outcome: batch.Unapproved, Vendor: "unprintable"},
		"infrai_no_vendor:prefix=w2":                    {Outcome: batch.Unapproved},
		"infrai_cache_hit:prefix=w2":                    {Outcome: batch.Unapproved, Vendor: "openai", Code: "cache_hit"},
		"infrai_item_word:prefix=w2":                    {Outcome: batch.BadShape, Vendor: "openai", Code: "reviewing"},
		"refusal:prefix=w2":                             {Outcome: batch.Refused, Vendor: "openai"},
		"length:prefix=w2":                              {Outcome: batch.Truncated, Vendor: "openai"},
		"content_filter:prefix=w2":                      {Outcome: batch.Blocked, Vendor: "openai"},
		"item_error:prefix=w2":                          {Outcome: batch.ItemFailed, Vendor: "openai", Code: "RATE_LIMIT_EXCEEDED"},
		"item_error:prefix=w2,status=400":               {Outcome: batch.ItemRejected, Vendor: "openai", Code: "CONTEXT_LENGTH_EXCEEDED"},
		"item_error:prefix=w2,code=insufficient_credit": {Outcome: batch.ItemOutOfCredit, Vendor: "openai", Code: "INSUFFICIENT_CREDIT"},
	} {
		r := newRig(t, assumed(t))
		if fault != "" {
			r.Faults(fault)
		}
		got := r.results(r.ended("k1").ID)
		for _, id := range itemIDs {
			w := want
			if id != "w2-s1" {
				w = batch.Result{Outcome: batch.Answered, Vendor: "openai"}
			}
			if len(got[id]) != 1 {
				t.Fatalf("%q: %s has %d results", fault, id, len(got[id]))
			}
			g := got[id][0]
			if g.Outcome != w.Outcome || g.Vendor != w.Vendor || g.Code != w.Code || (len(g.Content) > 0) != (w.Outcome == batch.Answered) {
				t.Errorf("%q: %s is %+v, want %+v", fault, id, g, w)
			}
		}
	}
}

// Lines are given out as they came; that the set is the one that was sent is for
// the passes to see.
func TestLostAndForeignItems(t *testing.T) {
	for name, shape := range map[string]func(*infrai.Pin){"paged": func(*infrai.Pin) {}, "array": array, "jsonl": jsonl} {
		r := newRig(t, assumed(t, shape))
		r.Faults("missing_line:prefix=w1", "duplicate_line:prefix=w2", "unknown_custom_id:prefix=w3", "malformed_line:prefix=w3")
		got := r.results(r.ended("k1").ID)
		var ids []string
		for id, all := range got {
			for range all {
				ids = append(ids, strings.Split(id, "-")[0])
			}
		}
		slices.Sort(ids)
		if want := []string{"", "stranger", "w2", "w2", "w3"}; !slices.Equal(ids, want) || got[""][0].Outcome != batch.Unreadable {
			t.Errorf("%s: %v, want %v", name, ids, want)
		}
	}
}

func TestResultsVanish(t *testing.T) {
	r := newRig(t, assumed(t))
	r.Faults("infrai_results_once:times=1")
	job := r.ended("k1")
	if got := r.results(job.ID); len(got) != len(itemIDs) {
		t.Errorf("%v", got)
	}
	_, _, err := r.Download(t.Context(), job.ID)
	wants(t, err, batch.NotFound, "NO_RESULTS")
	r.Faults("redirect:op=content,to=" + r.Other)
	_, _, err = r.Download(t.Context(), job.ID)
	if batch.KindOf(err) != batch.BadAnswer || r.Strayed() != 0 {
		t.Errorf("%v, %d strayed", err, r.Strayed())
	}
}

// Items that were not finished in time are planned anew.
func TestTimedOutItems(t *testing.T) {
	r := newRig(t, assumed(t))
	r.Faults("expire:share=0.34,times=1")
	job := r.created("k1")
	r.Advance(25 * time.Hour)
	if got := r.look(job.ID); got.Status != "partially_completed" || got.Phase != batch.PhaseEnded {
		t.Errorf("%+v", got)
	}
	expired := 0
	for _, all := range r.results(job.ID) {
		if all[0].Outcome == batch.Expired && all[0].Code == "NOT_FINISHED" {
			expired++
		}
	}
	if expired != 2 {
		t.Errorf("%d expired", expired)
	}
}

func TestPages(t *testing.T) {
	r := newRig(t, assumed(t))
	job := r.ended("k1")
	whole, err := r.download(job.ID)
	if err != nil {
		t.Fatal(err)
	}
	r.Faults("infrai_page:entries=1")
	calls := r.Calls("download")
	if got, err := r.download(job.ID); err != nil || !bytes.Equal(got, whole) || r.Calls("download") != calls+3 {
		t.Errorf("%d bytes of %d by %d calls, %v", len(got), len(whole), r.Calls("download")-calls, err)
	}
	for name, tc := range map[string]struct {
		faults []string
		kind   batch.Kind
	}{
		"a loop":              {[]string{"infrai_page_loop"}, batch.BadAnswer},
		"no page":             {[]string{"drop_before:op=content"}, batch.Temporary},
		"a page without data": {[]string{"infrai_no_data:op=content"}, batch.BadAnswer},
		"ok is false":         {[]string{"infrai_ok_false:op=content"}, batch.BadAnswer},
		"a page is cut":       {[]string{"answer_cut:op=content"}, batch.Temporary},
	} {
		r.Faults(tc.faults...)
		got, err := r.download(job.ID)
		if err == nil || batch.KindOf(err) != tc.kind || !bytes.HasPrefix(whole, got) && name != "a loop" {
			t.Errorf("%s: %d bytes, %v, want %s", name, len(got), err, tc.kind)
		}
	}
}

// The answer of a server that says what it likes: an answer is whole, or it is
// an error, in whatever order its members come.
func TestResultsInTheEnvelope(t *testing.T) {
	var answer, kind string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "two" {
			io.WriteString(w, `{"ok":true,"data":{"items":[{"ref":"b"}],"next_cursor":null},"error":null}`)
			return
		}
		if r.URL.Query().Get("cursor") == "lost" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, answer)
	}))
	t.Cleanup(web.Close)
	paged, listed, lines := newClient(t, web.URL), newClient(t, web.URL, func(c *infrai.Config) { c.Pin = assumed(t, array) }), newClient(t, web.URL, func(c *infrai.Config) { c.Pin = assumed(t, jsonl) })
	bare := newClient(t, web.URL, func(c *infrai.Config) {
		c.Pin = assumed(t, array, func(p *infrai.Pin) { p.Contract.Results.ItemsPath = ""; forget(p, "results.items_path") })
	})
	for name, tc := range map[string]struct {
		c    *infrai.Client
		in   string
		want string // "" is an error
	}{
		"sorted":             {listed, `{"data":{"items":[{"ref":"a"},{ "ref" : "b" }]},"error":null,"ok":true}`, `{"ref":"a"}` + "\n" + `{"ref":"b"}` + "\n"},
		"ok first":           {listed, `{"ok":true,"metadata":{"items":[9],"ok":false},"data":{"x":{"items":[7]},"items":[1]},"error":null}` + "\n", "1\n"},
		"no items":           {listed, `{"ok":true,"data":{"items":[]}}`, "none"},
		"a list itself":      {bare, `{"ok":true,"data":[{"ref":"a"}]}`, `{"ref":"a"}` + "\n"},
		"two pages":          {paged, `{"data":{"next_cursor":"two","items":[{"ref":"a"}]},"ok":true}`, `{"ref":"a"}` + "\n" + `{"ref":"b"}` + "\n"},
		"lines":              {lines, "{\"ref\":\"a\"}\n{\"ref\":\"b\"}", "{\"ref\":\"a\"}\n{\"ref\":\"b\"}"},
		"ok is missing":      {listed, `{"data":{"items":[1]}}`, ""},
		"ok is false":        {listed, `{"data":{"items":[1]},"ok":false}`, ""},
		"ok is a word":       {listed, `{"data":{"items":[1]},"ok":"true"}`, ""},
		"an error":           {listed, `{"ok":true,"data":{"items":[1]},"error":{"code":"X","message":"` + marker + `"}}`, ""},
		"no data":            {listed, `{"ok":true}`, ""},
		"data is null":       {listed, `{"ok":true,"data":null}`, ""},
		"items are no list":  {listed, `{"ok":true,"data":{"items":{"a":1}}}`, ""},
		"bare":               {listed, `[{"ref":"a"}]`, ""},
		"two answers":        {listed, `{"ok":true,"data":{"items":[1]}}{"ok":true}`, ""},
		"cut":                {listed, `{"ok":true,"data":{"items":[1,{"ref":"` + marker, ""},
		"a name twice":       {listed, `{"ok":true,"ok":false,"data":{"items":[1]}}`, ""},
		"empty":              {listed, "", ""},
		"a page of an edge":  {listed, "<html>" + marker + "</html>", ""},
		"an odd cursor":      {paged, `{"ok":true,"data":{"items":[1],"next_cursor":"a\u0000b"}}`, ""},
		"the second is lost": {paged, `{"ok":true,"data":{"items":[1],"next_cursor":"lost"}}`, ""},
		"a loop":             {paged, `{"ok":true,"data":{"items":[1],"next_cursor":"one"}}`, ""},
		"lines that refuse":  {lines, `{"ok":false,"data":null,"error":{"code":"X","message":"` + marker + `"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer, kind = tc.in, "application/json"
			body, _, err := tc.c.Download(t.Context(), "b_1")
			var got []byte
			if err == nil {
				got, err = io.ReadAll(body)
				body.Close()
			}
			if tc.want == "" {
				if k := batch.KindOf(err); k != batch.BadAnswer && k != batch.Temporary {
					t.Errorf("%q, %v", got, err)
				}
				if err != nil && strings.Contains(err.Error(), marker) {
					t.Errorf("the error quotes the answer: %v", err)
				}
				return
			}
			if want := strings.TrimPrefix(tc.want, "none"); err != nil || string(got) != want {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
		})
	}
	answer, kind = "{}", "text/html"
	if _, _, err := lines.Download(t.Context(), "b_1"); batch.KindOf(err) != batch.BadAnswer {
		t.Error(err)
	}
}

// A status that is about another job, or about none, is no answer.
func TestStatusOfAnother(t *testing.T) {
	var answer string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, answer) }))
	t.Cleanup(web.Close)
	c := newClient(t, web.URL)
	for in, ok := range map[string]bool{
		`{"ok":true,"data":{"batch_id":"b_1","state":"queued"}}`:   true,
		`{"ok":true,"data":{"state":"queued"}}`:                    true,
		`{"ok":true,"data":{"batch_id":"b_2","state":"queued"}}`:   false,
		`{"ok":true,"data":{"batch_id":["b_1"],"state":"queued"}}`: false,
		`{"ok":true,"data":{"batch_id":"b_1"}}`:                    false,
		`{"ok":true,"state":"completed","data":{}}`:                false, // where a public sample looks for it
		`{"status":"completed"}`:                                   false,
		`{"ok":true,"data":{"state":"completed"},"error":{}}`:      false,
	} {
		answer = in
		if job, err := c.Status(t.Context(), "b_1"); (err == nil) != ok || err != nil && batch.KindOf(err) != batch.BadAnswer {
			t.Errorf("%s: %+v, %v", in, job, err)
		}
	}
}

func TestDecodeResult(t *testing.T) {
	c := newClient(t, "http://127.0.0.1:1")
	whole := `{"ref":"w1","outcome":"succeeded","served_by":{"vendor":"openai","cache_hit":false},"response":{"model":"gpt-4.1-mini-2025-04-14",` +
		`"usage":{"prompt_tokens":9,"completion_tokens":4},"choices":[{"finish_reason":"stop","message":{"content":"{}","refusal":null}}]}}`
	if r := c.DecodeResult([]byte(whole)); r.Outcome != batch.Answered || string(r.Content) != "{}" || r.Model != "gpt-4.1-mini-2025-04-14" || r.InputTokens != 9 || r.OutputTokens != 4 || r.Vendor != "openai" {
		t.Errorf("%+v", r)
	}
	for change, want := range map[string]batch.Outcome{
		`"finish_reason":"stop",|`:                    batch.BadShape,
		`"stop"|"tool_calls"`:                         batch.BadShape,
		`"content":"{}"|"content":" "`:                batch.BadShape,
		`"content":"{}"|"content":{}`:                 batch.BadShape,
		`"refusal":null|"refusal":"no"`:               batch.Refused,
		`"refusal":null|"refusal":7`:                  batch.BadShape,
		`"refusal":null}}|"refusal":null}},{}`:        batch.BadShape,
		`"choices":[|"choices":[{},`:                  batch.BadShape,
		`"response":{|"response":null,"answer":{`:     batch.BadShape,
		`"outcome":"succeeded",|`:                     batch.BadShape,
		`"outcome":"succeeded"|"outcome":"SUCCEEDED"`: batch.BadShape,
		`"outcome":"succeeded"|"outcome":"failed"`:    batch.ItemFailed,
		`"outcome":"succeeded"|"outcome":"timed_out"`: batch.Expired,
		`"outcome":"succeeded"|"outcome":"cancelled"`: batch.Cancelled,
		`"cache_hit":false|"cache_hit":"no"`:          batch.Unapproved,
		`"model":"gpt-4.1-mini-2025-04-14",|`:         batch.Unapproved,
		`"gpt-4.1-mini-2025-04-14"|""`:                batch.Unapproved,
		`"gpt-4.1-mini-2025-04-14"|null`:              batch.Unapproved,
		`"gpt-4.1-mini-2025-04-14"|["gpt-4.1-mini"]`:  batch.Unapproved,
		`"vendor":"openai"|"vendor":""`:               batch.Unapproved,
		`"vendor":"openai"|"vendor":["openai"]`:       batch.Unapproved,
		`"served_by":{|"x":{`:                         batch.Unapproved,
		`"ref":"w1"|"ref":7`:                          batch.Unreadable,
		`"ref":"w1"|"ref":"w1","ref":"w1"`:            batch.Unreadable,
	} {
		from, to, _ := strings.Cut(change, "|")
		line := strings.Replace(whole, from, to, 1)
		if r := c.DecodeResult([]byte(line)); line == whole || r.Outcome != want || len(r.Content) != 0 {
			t.Errorf("%s: %+v, want %s", change, r, want)
		}
	}
	// A failed item at a vendor that is not allowed has left the boundary as well.
	failed := strings.NewReplacer(`"succeeded"`, `"failed"`, `"openai"`, `"deepseek"`).Replace(whole)
	if r := c.DecodeResult([]byte(failed)); r.Outcome != batch.Unapproved || r.Vendor != "deepseek" {
		t.Errorf("%+v", r)
	}
}
