package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	strict "github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"rollcall/batch"
	"rollcall/batch/transport"
)

// hostile are forms that readers of JSON fall over: put in the place of any
// value of a line, an object or a page.
var hostile = []string{
	`""`, `" "`, `null`, `true`, `-0`, `1e400`, `-1e-400`, `200.0`, `2e2`, `99999999999999999999`, `9223372036854775807`, `[]`, `{}`, `[[[[[[]]]]]]`,
	`"\u0000"`, `"\ud800"`, `"\udc00\ud800"`, `"\ud83d\ude00"`, "\"\xff\"", "\"\xed\xa0\x80\"", "\"\u2028\u2029\u0085\"", `"\u202e\u200b\ufeff"`, "\"a\nb\"", "\"\x00\"",
	`"../../etc/passwd"`, `"a?b=c#d"`, `"ｂａｔｃｈ＿1"`, `"Ｋ"`, `"MARKER of a report"`, `{"MARKER":"MARKER"}`, `"0000-01-01T00:00:00+14:00"`, `"9999-12-31T23:59:59-14:00"`, `999999999999`,
}

// around puts hostile values into the holes of a text, and damages it as a
// broken transfer does.
func around(f *testing.F, withHole string) {
	f.Helper()
	for _, v := range hostile {
		f.Add([]byte(strings.ReplaceAll(withHole, "HOLE", v)))
	}
	whole := strings.ReplaceAll(withHole, "HOLE", `"x"`)
	for _, b := range []string{whole[:len(whole)/2], whole[:len(whole)-1], "\xef\xbb\xbf" + whole, whole + "\r", whole + whole, whole + "\x00", strings.ToUpper(whole),
		strings.Repeat("[", 20_000), strings.Repeat(`{"error":`, 5_000), strings.Replace(whole, "{", `{"id":"twice","custom_id":"twice",`, 1), strings.Replace(whole, "{", `{"Id":"other","CUSTOM_ID":"other",`, 1)} {
		f.Add([]byte(b))
	}
}

// member is a member of an object that another reader of JSON has read; nil for
// none. That reader takes the last of several of one name.
func member(object any, path ...string) any {
	for _, name := range path {
		members, ok := object.(map[string]any)
		if !ok {
			return nil
		}
		object = members[name]
	}
	return object
}

// otherwise reads JSON with the standard library.
func otherwise(t *testing.T, text []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		t.Fatalf("taken, and no JSON: %v", err)
	}
	return v
}

// checkAnswered holds that an accepted answer is what any other reader of the
// line would take for one.
func checkAnswered(t *testing.T, line []byte, r batch.Result) {
	t.Helper()
	v := otherwise(t, line)
	body := member(v, "response", "body")
	choices, _ := member(body, "choices").([]any)
	status, _ := member(v, "response", "status_code").(json.Number)
	if n, err := status.Float64(); err != nil || n != 200 || len(choices) != 1 || member(v, "custom_id") != r.CustomID ||
		member(choices[0], "finish_reason") != "stop" || member(choices[0], "message", "content") != string(r.Content) {
		t.Errorf("another reader does not find this answer: %s", r.CustomID)
	}
	if refusal := member(choices[0], "message", "refusal"); refusal != nil && refusal != "" {
		t.Error("a refusal was taken for an answer")
	}
}

// aTime is zero, or a time that every form of output can hold.
func aTime(t *testing.T, at time.Time) {
	t.Helper()
	if _, err := at.MarshalJSON(); err != nil || !at.IsZero() && at.Unix() < 0 {
		t.Errorf("no output can hold %v: %v", at, err)
	}
}

// FuzzJobList and FuzzFileList: of a page that is taken, nothing is left out,
// and what follows is asked for behind its last element.
func FuzzJobList(f *testing.F) {
	around(f, `{"object":"list","data":[{"id":"batch_1","status":"completed","input_file_id":HOLE,"metadata":{"rc_job":"j"}},{"id":"batch_2","status":"failed"}],"has_more":true}`)
	around(f, `{"object":"list","data":[{"id":HOLE,"status":"completed","created_at":1700000000}],"last_id":"batch_1","has_more":false}`)
	around(f, `{"object":"list","data":[{"id":"batch_1","status":"completed","expires_at":HOLE,"metadata":{"a":HOLE}}]}`)
	around(f, `{"object":"list","data":HOLE,"last_id":HOLE,"has_more":HOLE}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		read := func() *listing[wireJob, batch.ListedJob] {
			return &listing[wireJob, batch.ListedJob]{Data: entries[wireJob, batch.ListedJob]{read: listedJob}}
		}
		page := read()
		if err := readPage(t, body, page, read()); err != nil {
			return
		}
		checkPage(t, body, page, func(any) bool { return true }, func(l batch.ListedJob) string {
			if len(l.Metadata) > maxMetadata || l.FileID != "" && !transport.PathSafe(l.FileID) {
				t.Errorf("unsafe job %+v", l)
			}
			aTime(t, l.Created)
			aTime(t, l.Expires)
			return l.ID
		})
	})
}

func FuzzFileList(f *testing.F) {
	around(f, `{"object":"list","data":[{"id":"file-1","bytes":HOLE,"purpose":"batch","filename":"a.jsonl"},{"id":"file-2","purpose":"assistants"}],"has_more":true}`)
	around(f, `{"object":"list","data":[{"id":HOLE,"purpose":"batch"}],"has_more":false}`)
	around(f, `{"object":"list","data":[{"id":"file-1","purpose":HOLE,"filename":HOLE,"created_at":HOLE}]}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		read := func() *listing[wireFile, batch.ListedFile] {
			return &listing[wireFile, batch.ListedFile]{Data: entries[wireFile, batch.ListedFile]{read: listedFile}}
		}
		page := read()
		if err := readPage(t, body, page, read()); err != nil {
			return
		}
		ofBatches := func(element any) bool {
			purpose := member(element, "purpose")
			return purpose == nil || purpose == "" || purpose == "batch"
		}
		checkPage(t, body, page, ofBatches, func(l batch.ListedFile) string {
			if l.Bytes < 0 || !safeName(l.Name) {
				t.Errorf("unsafe file %+v", l)
			}
			aTime(t, l.Created)
			return l.ID
		})
	})
}

// readPage reads a page whole, and again byte by byte: how an answer is cut
// into packets must not matter.
func readPage[P pager](t *testing.T, body []byte, page, again P) error {
	t.Helper()
	err := strict.UnmarshalRead(bytes.NewReader(body), page)
	if inPieces := strict.UnmarshalRead(iotest.OneByteReader(bytes.NewReader(body)), again); (err == nil) != (inPieces == nil) {
		t.Errorf("read at once: %v; in pieces: %v", err, inPieces)
	}
	return err
}

// checkPage compares a page with what another reader finds in it.
func checkPage[W, T any](t *testing.T, body []byte, page *listing[W, T], shown func(element any) bool, idOf func(T) string) {
	t.Helper()
	elements, _ := member(otherwise(t, body), "data").([]any)
	var want, got []string
	for _, e := range elements {
		if id, _ := member(e, "id").(string); shown(e) {
			want = append(want, id)
		}
	}
	for _, v := range page.Data.v {
		got = append(got, idOf(v))
		if id := got[len(got)-1]; !transport.PathSafe(id) {
			t.Errorf("unsafe id %q", id)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || page.Data.n != len(elements) {
		t.Errorf("%d elements of %d:\n%s", page.Data.n, len(elements), diff)
	}
	next, err := page.next("", 100)
	switch {
	case err != nil && (next != "" || !errors.Is(err, errShape) && !errors.Is(err, errList)):
		t.Errorf("%q with %v", next, err)
	case err == nil && next != "" && next != page.Data.last:
		t.Errorf("the next page is behind %q, the last element is %q", next, page.Data.last)
	case err == nil && next == "" && page.HasMore.V:
		t.Error("the list ends where it says that there is more")
	}
	if _, err := page.next(page.Data.last, 0); err == nil && page.HasMore.V {
		t.Error("the same page again was taken for another")
	}
}

// errorWords is all that an error of a call may consist of.
var errorWords = regexp.MustCompile(`^(create|upload|list jobs): [a-z_ ]+(, HTTP -?\d+)?(, code [A-Za-z0-9_.-]{1,64})?(, request [A-Za-z0-9_.-]{1,64})?$`)

// FuzzErrorBody: no answer to a create proves that there is no job unless it is
// a documented refusal, and nothing of any answer but its codes is in an error.
func FuzzErrorBody(f *testing.F) {
	texts := []string{`{"error":{"message":"MARKER","type":"invalid_request_error","code":HOLE}}`, `{"error":{"message":HOLE,"type":HOLE}}`, `{"error":HOLE}`,
		`{"error":{"code":"content_filter","innererror":{"code":HOLE}}}`, `HOLE`, `<html>MARKER HOLE</html>`, `{"error":{"message":"Cannot find file MARKER","code":HOLE}}`}
	for i, text := range texts {
		for n, v := range hostile {
			f.Add([]byte(strings.ReplaceAll(text, "HOLE", v)), []int{400, 401, 402, 404, 408, 409, 413, 422, 429, 500, 503, 303}[(i+n)%12], "req_1")
		}
	}
	f.Add([]byte(`{"error":{"code":"insufficient_quota"}}`), 429, "MARKER of a report")
	f.Add([]byte(`{"error":{"message":"m"},"error":{}}`), 400, "")
	f.Fuzz(func(t *testing.T, body []byte, status int, requestID string) {
		a := &answer{status: status, body: body, requestID: batch.SafeCode(requestID)}
		for op, judge := range map[string]func(int, fault) batch.Kind{"create": createKind, "upload": uploadKind, "list jobs": readKind} {
			e := a.fault(op, judge)
			if !errorWords.MatchString(e.Error()) || e.Cause != nil {
				t.Errorf("%s: %q", op, e)
			}
			if op == "create" && e.Kind == batch.Temporary && e.Code != CodeFileNotFound {
				t.Errorf("HTTP %d, code %s: may be asked for again", status, e.Code)
			}
		}
		switch kind := a.fault("create", createKind).Kind; {
		case kind == batch.UnknownOutcome, status == 429:
			return
		case status < 400 || status > 499 || status == 408 || status == 409:
			t.Errorf("HTTP %d proves %s", status, kind)
		}
		envelope := member(otherwise(t, body), "error")
		for _, name := range []string{"message", "type", "code"} {
			if _, ok := member(envelope, name).(string); ok {
				return
			}
		}
		t.Errorf("a body that is no documented refusal proves that there is no job")
	})
}

// FuzzCustomIDThere: the id of an item goes into a request line and comes back
// out of it, and out of a result line, as it was.
func FuzzCustomIDThere(f *testing.F) {
	for _, id := range []string{"", "w1-s1", "-", "_", strings.Repeat("a", 64), strings.Repeat("a", 65), "a b", "a\"b", "a\\u0062", "ä", "a\x00", "a\n", "ｗ", "\xff"} {
		f.Add(id, "text of \"MARKER\"\n")
	}
	f.Add("w1-s1", `","custom_id":"w2-s1","x":"`)
	f.Add("w1-s1", `\","custom_id":"w2-s1"}`+"\n")
	f.Add("w1-s1", "\u2028\xed\xa0\x80\x00\xff\xfe")
	c, question := new(Client), testClassifier()
	f.Fuzz(func(t *testing.T, id, text string) {
		line, err := c.AppendRequest([]byte("before\n"), question, id, batch.NewText(text))
		if !batch.ValidCustomID(id) {
			if err == nil || string(line) != "before\n" || strings.Contains(err.Error(), text) && len(text) > 20 {
				t.Errorf("%q: %v", id, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		line = line[len("before\n"):]
		if got, ok := c.RequestID(bytes.TrimSuffix(line, []byte("\n"))); !ok || got != id {
			t.Errorf("%q came back as %q, %v", id, got, ok)
		}
		result := fmt.Appendf(nil, `{"id":"r","custom_id":%q,"response":null,"error":{"code":"batch_expired"}}`, id)
		if r := c.DecodeResult(result); r.CustomID != id || r.Outcome != batch.Expired {
			t.Errorf("%q came back as %+v", id, r)
		}
	})
}
