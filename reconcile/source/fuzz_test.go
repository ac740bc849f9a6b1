package source_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"rollcall/reconcile/source"
)

func FuzzJSONL(f *testing.F) {
	for _, s := range []string{"", "\n", head + `"id":"a","text":"x"}`, "\xef\xbb\xbf{}\r\n{", `{"a":1}{"a":1}`, head + "\"text\":\"\\ud800\xff\"}", `{"text":"\u0000"}`} {
		f.Add([]byte(s), 64)
	}
	for _, v := range []string{`"MARKER"`, `null`, `true`, `1`, `-0`, `1.0`, `1e3`, `9223372036854775808`, `1e999`, `[]`, `{"a":1,"a":2}`, `""`, `" a "`, `"\u0000"`, `"\ud800"`, `"\ud83d\ude00"`,
		"\"\xff\"", "\"\xed\xa0\x80\"", "\"\u2028\"", `"\u202e\ufeff"`, "\"\x00\"", "\"a\tb\"", `"e\u0301"`, `"2026-03-01T02:00:00Z"`, `"0000-01-01T00:00:00Z"`, `"4611686018427387905"`} {
		for _, part := range []string{"id", "text", "revision", "urgent", "media", "tenant", "\\u0074ext", "other"} {
			f.Add([]byte(`{"system":"s","`+part+`":`+v+`,"a":"MARKER"}`), 256)
			f.Add([]byte(head+`"id":"a","text":"x"}`+"\r\n"+head+`"`+part+`":`+v+`}`), 256)
		}
	}
	for _, s := range []string{strings.Repeat("[", 400), strings.Repeat(`{"a":`, 400), head + `"text":"MARKER`, head + `"text":"MARKER\u12`, head + `"text":"x","MARKER":1,"MARKER":2}`, head + `"text":"x"} MARKER`,
		"\xef\xbb\xbf\xef\xbb\xbf{}", "{}\x00", "{}\r{}", "\x1e{}\n", "NaN", "{'a':1}", head + `"text":"x",}`, "\xff\xfe{\x00}\x00"} {
		f.Add([]byte(s), 511)
	}
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = 1 + max(limit, -(limit+1))%512
		got, _ := read(t, data, source.JSONL, limit)
		lines := bytes.Split(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), []byte("\n"))
		for _, r := range got {
			line := lines[r.Line-1]
			if int(r.Line) < len(lines) {
				line = bytes.TrimSuffix(line, []byte("\r"))
			}
			checkJSONLine(t, line, limit, r)
		}
	})
}

// checkJSONLine compares what became of a line with what the standard library
// finds on it.
func checkJSONLine(t *testing.T, line []byte, limit int, r reading) {
	t.Helper()
	isJSON := json.Valid(line)
	if r.refused != nil {
		// One value of a line, twice in it, or more behind it are our own rules.
		if ours := regexp.MustCompile("twice|more behind|not a JSON object"); r.refused.Field == "" && isJSON && len(line) <= limit && !ours.MatchString(r.refused.Reason) {
			t.Errorf("line %d is JSON: %v", r.Line, r.refused)
		}
		return
	}
	var m map[string]any
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil || !isJSON || len(line) > limit {
		t.Fatalf("line %d, of %d bytes, was taken: %v", r.Line, len(line), err)
	}
	if text, ok := m["text"].(string); !r.Damaged && ok && text != r.Text.Reveal() {
		t.Errorf("line %d: another reader finds another text", r.Line)
	}
	for name, id := range map[string]string{"tenant": r.Tenant, "system": r.System, "id": r.ID} {
		if v := m[name]; v != nil && fmt.Sprint(v) != id {
			t.Errorf("line %d: another reader finds another %s than %q", r.Line, name, id)
		}
	}
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{"", "\n", "t,s,a,x\n", "t,s,a,\"x\n\"\r\n", "t,s,a,\"x\"y\nt,s,a,\"", ",,,\n\"\"\"\",,\r"} {
		f.Add([]byte(s), 64)
	}
	for _, v := range []string{"MARKER", `"MARKER`, `"MARKER""`, `MARKER"`, `"MARKER"x`, "\"MARKER\"\r", "\"a\r\nb\"", "\"a\nb\"", "a\rb", "\x00", "\xff", "\u2028", "\ufeff", "\"\xff\"", "", " ", `""`, `""""`, "ａ，ｂ",
		"a;b", "a\tb", "'a,b'", `\"`, strings.Repeat("x", 300), "\"" + strings.Repeat("\n", 300) + "\""} {
		f.Add([]byte("t,s,a,"+v+"\nt,s,b,y\n"), 128)
		f.Add([]byte("t,s,"+v+",x\r\nt,s,b,y"), 400)
		f.Add([]byte("\n \n"+v+",s,a,x\n\n"), 20)
	}
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		data = append([]byte("tenant,system,id,text\n"), data...)
		limit = 32 + max(limit, -(limit+1))%512
		got, c := read(t, data, source.CSV, limit)
		checkRows(t, data, limit, got, c)
	})
}

// checkRows compares the rows with those that encoding/csv finds, where it finds
// no fault and means the same by a row.
func checkRows(t *testing.T, data []byte, limit int, got []reading, c source.Counts) {
	t.Helper()
	other := csv.NewReader(bytes.NewReader(data))
	other.FieldsPerRecord = -1
	rows, err := other.ReadAll()
	if err != nil || bytes.IndexByte(data, '\r') >= 0 || len(data) > limit {
		return
	}
	rows = slices.DeleteFunc(rows[1:], func(row []string) bool { return len(row) != 4 })
	var ours []reading
	for _, r := range got {
		if r.refused == nil || r.refused.Field != "" {
			ours = append(ours, r)
		} else if !strings.Contains(r.refused.Reason, "fields where the header has") {
			t.Errorf("encoding/csv reads it: %v", r.refused)
		}
	}
	if len(ours) != len(rows) {
		t.Fatalf("%d rows of four fields, encoding/csv finds %d; %+v", len(ours), len(rows), c)
	}
	for i, r := range ours {
		if r.refused != nil {
			continue
		}
		if diff := cmp.Diff(rows[i], []string{r.Tenant, r.System, r.ID, r.Text.Reveal()}); diff != "" {
			t.Errorf("row %d: %s", i, diff)
		}
	}
}

// reading is a record or a refused line.
type reading struct {
	source.Record
	refused *source.LineError
}

// read reads a stream to its end and holds what is true of every format: each
// line and each byte is accounted for, what is refused is told by its place and
// never quoted, a record is within its bounds, and how the stream is cut into
// reads does not matter.
func read(t *testing.T, data []byte, format source.Format, limit int) (got []reading, c source.Counts) {
	t.Helper()
	limits := source.Limits{LineBytes: limit}
	in, err := source.NewReader(bytes.NewReader(data), format, source.DefaultMapping(), limits)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for {
		rec, err := in.Next()
		r := reading{Record: rec}
		switch {
		case errors.Is(err, io.EOF):
			c = in.Counts()
			checkCounts(t, data, c)
			pieces, _ := all(t, iotest.OneByteReader(bytes.NewReader(data)), format, source.DefaultMapping(), limits)
			if diff := cmp.Diff(shown, pieces); diff != "" {
				t.Errorf("read byte by byte it is something else: %s", diff)
			}
			return got, c
		case errors.As(err, &r.refused):
			r.Line, r.Lines = r.refused.Line, r.refused.Lines
			checkRefusal(t, r.refused)
			shown = append(shown, err.Error())
		case err != nil:
			t.Fatal(err)
		default:
			checkRecord(t, rec, limit)
			shown = append(shown, show(rec))
		}
		got = append(got, r)
	}
}

func checkCounts(t *testing.T, data []byte, c source.Counts) {
	t.Helper()
	if c.Bytes != int64(len(data)) {
		t.Errorf("%d of %d bytes read", c.Bytes, len(data))
	}
	ends := int64(bytes.Count(data, []byte("\n")))
	if rest := bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")); len(rest) > 0 && rest[len(rest)-1] != '\n' {
		ends++
	}
	if c.Lines != ends {
		t.Errorf("%d lines counted, %d are there", c.Lines, ends)
	}
}

func checkRefusal(t *testing.T, e *source.LineError) {
	t.Helper()
	if e.Line < 1 || e.Lines < 1 || e.Reason == "" || !strings.HasPrefix(e.Error(), "line") {
		t.Errorf("no place or no reason: %+v", e)
	}
	if strings.Contains(e.Error(), "MARKER") || len(e.Error()) > 200 || !utf8.ValidString(e.Error()) {
		t.Errorf("the input is quoted: %q", e)
	}
}

func checkRecord(t *testing.T, r source.Record, limit int) {
	t.Helper()
	for _, id := range []string{r.Tenant, r.System, r.ID} {
		if len(id) > 512 || !utf8.ValidString(id) || strings.ContainsAny(id, "\x00\n\r\x1b\u0085\u2028\u2029") {
			t.Errorf("an id that can stand in no log: %q", id)
		}
	}
	if r.Tenant == "" || r.System == "" || r.Revision < 0 || r.Revision > source.MaxRevision || strings.ContainsAny(r.Media, " \n\x00") || len(r.Media) > 64 {
		t.Errorf("out of bounds: %s", show(r))
	}
	if text := r.Text.Reveal(); len(text) > 3*limit || !r.Damaged && !utf8.ValidString(text) {
		t.Errorf("%d bytes of text, damaged %v", len(text), r.Damaged)
	}
}
