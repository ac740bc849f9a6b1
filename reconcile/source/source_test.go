package source_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rollcall/reconcile/source"
)

// all reads a stream to its end and holds the sum of lines together.
func all(t testing.TB, r io.Reader, f source.Format, m source.Mapping, l source.Limits) (got []string, c source.Counts) {
	t.Helper()
	in, err := source.NewReader(r, f, m, l)
	if err != nil {
		t.Fatal(err)
	}
	var lines int64
	for {
		rec, err := in.Next()
		var refused *source.LineError
		switch {
		case errors.Is(err, io.EOF):
			if c = in.Counts(); lines+c.Blank+c.Header != c.Lines {
				t.Errorf("%d lines of records and refusals, %d blank, %d header, but %d in all", lines, c.Blank, c.Header, c.Lines)
			}
			return got, c
		case errors.As(err, &refused):
			lines += refused.Lines
			got = append(got, refused.Error())
		case err != nil:
			t.Fatal(err)
		default:
			lines += rec.Lines
			got = append(got, show(rec))
		}
	}
}

func show(r source.Record) string {
	s := fmt.Sprintf("%d %s/%s/%s r%d %q", r.Line, r.Tenant, r.System, r.ID, r.Revision, r.Text.Reveal())
	if r.Media != "" {
		s += " media " + r.Media
	}
	if r.Urgent {
		s += " urgent"
	}
	if r.Damaged {
		s += " damaged"
	}
	return s
}

const head = `{"tenant":"t","system":"s",`

func TestJSONLines(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"plain":                    {head + `"id":"a","text":"x"}` + "\n", []string{`1 t/s/a r1 "x"`}},
		"empty stream":             {"", nil},
		"byte order mark":          {"\xef\xbb\xbf" + head + `"id":"a","text":"x"}`, []string{`1 t/s/a r1 "x"`}},
		"byte order mark twice":    {"\xef\xbb\xbf\xef\xbb\xbf" + head + `"id":"a","text":"x"}`, []string{`line 1: is not valid JSON near byte 1`}},
		"CR LF":                    {head + `"id":"a","text":"x"}` + "\r\n" + head + `"id":"b","text":"y"}` + "\r\n", []string{`1 t/s/a r1 "x"`, `2 t/s/b r1 "y"`}},
		"blank lines":              {"\n  \t\r\n" + head + `"id":"a","text":"x"}` + "\n\n", []string{`3 t/s/a r1 "x"`}},
		"raw U+2028 in text":       {head + `"id":"a","text":"x` + "\u2028" + `y"}`, []string{`1 t/s/a r1 "x\u2028y"`}},
		"escaped name":             {`{"tenant":"t","system":"s","id":"a","\u0074ext":"x"}`, []string{`1 t/s/a r1 "x"`}},
		"other case":               {head + `"id":"a","Text":"x"}`, []string{`line 1: text is missing`}},
		"unknown fields":           {head + `"id":"a","text":"x","more":{"deep":[1,{"x":null}]}}`, []string{`1 t/s/a r1 "x"`}},
		"empty text":               {head + `"id":"a","text":""}`, []string{`1 t/s/a r1 ""`}},
		"no text":                  {head + `"id":"a"}`, []string{`line 1: text is missing`}},
		"null text":                {head + `"id":"a","text":null}`, []string{`line 1: text is missing`}},
		"audio":                    {head + `"id":"a","text":null,"media":"audio"}`, []string{`1 t/s/a r1 "" media audio`}},
		"media that is prose":      {head + `"id":"a","media":"what they said"}`, []string{`line 1: media is not a word of at most 64 letters, digits and any of / + . _ -`}},
		"number as text":           {head + `"id":"a","text":12}`, []string{`line 1: text is a number, not a string`}},
		"array as text":            {head + `"id":"a","text":["x"]}`, []string{`line 1: text is an array, not a string`}},
		"array":                    {`[1,2]`, []string{`line 1: is not a JSON object`}},
		"null":                     {`null`, []string{`line 1: is not a JSON object`}},
		"no JSON":                  {`hello`, []string{`line 1: is not valid JSON near byte 1`}},
		"NUL byte":                 {head + `"id":"a","text":"x` + "\x00" + `"}`, []string{`line 1: is not valid JSON near byte 46`}},
		"cut short":                {head + `"id":"a","te`, []string{`line 1: ends within its JSON object; it may be cut short`}},
		"two objects":              {`{} {}`, []string{`line 1: has more behind its JSON object, which ends at byte 2`}},
		"trailing word":            {`{"a":1} x`, []string{`line 1: has more behind its JSON object, which ends at byte 7`}},
		"field twice":              {head + `"text":"one","text":"two"}`, []string{`line 1: has a field twice; the second one begins behind byte 39`}},
		"field twice, escaped":     {head + `"text":"one","t\u0065xt":"two"}`, []string{`line 1: has a field twice; the second one begins behind byte 39`}},
		"lone surrogate in text":   {head + `"id":"a","text":"x\ud83d y"}`, []string{`1 t/s/a r1 "x� y" damaged`}},
		"reversed pair":            {head + `"id":"a","text":"\ude00\ud83d"}`, []string{`1 t/s/a r1 "��" damaged`}},
		"invalid UTF-8 in text":    {head + `"id":"a","text":"x` + "\xff\xc0" + `"}`, []string{`1 t/s/a r1 "x��" damaged`}},
		"invalid UTF-8 elsewhere":  {head + `"id":"a","text":"x","note":"` + "\xff" + `"}`, []string{`1 t/s/a r1 "x"`}},
		"invalid UTF-8 in id":      {head + `"id":"a` + "\xff" + `","text":"x"}`, []string{`line 1: id is not valid Unicode, so it cannot be told from others`}},
		"lone surrogate in tenant": {`{"tenant":"t\ud800","system":"s","id":"a","text":"x"}`, []string{`line 1: tenant is not valid Unicode, so it cannot be told from others`}},
		"replacement was there":    {head + `"id":"a","text":"x�"}`, []string{`1 t/s/a r1 "x�"`}},
		"missing tenant":           {`{"system":"s","id":"a","text":"x"}`, []string{`line 1: tenant is missing`}},
		"empty tenant":             {`{"tenant":"","system":"s","id":"a","text":"x"}`, []string{`line 1: tenant is empty`}},
		"integer id":               {head + `"id":12345678901234567890,"text":"x"}`, []string{`1 t/s/12345678901234567890 r1 "x"`}},
		"fraction id":              {head + `"id":1.5,"text":"x"}`, []string{`line 1: id is a number with a fraction or an exponent; only strings and integers can be compared safely`}},
		"boolean id":               {head + `"id":true,"text":"x"}`, []string{`line 1: id is a boolean, not a string or an integer`}},
		"spaces in id stay":        {head + `"id":" A ","text":"x"}`, []string{`1 t/s/ A  r1 "x"`}},
		"line feed in id":          {head + `"id":"a\nb","text":"x"}`, []string{`line 1: id contains a control character or a line separator; ids stand in logs and on terminals`}},
		"long id":                  {head + `"id":"` + strings.Repeat("é", 257) + `","text":"x"}`, []string{`line 1: id is longer than 512 bytes`}},
		"no id is left to the caller": {
			head + `"text":"x"}`, []string{`1 t/s/ r1 "x"`}},
	} {
		t.Run(name, func(t *testing.T) {
			// One byte at a time: nothing may depend on how the stream is cut.
			got, _ := all(t, iotest.OneByteReader(strings.NewReader(tc.in)), source.JSONL, source.DefaultMapping(), source.Limits{})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRevisionUrgent(t *testing.T) {
	for in, want := range map[string]string{
		`"revision":3`:                              `1 t/s/a r3 "x"`,
		`"revision":"007"`:                          `1 t/s/a r7 "x"`,
		`"revision":null`:                           `1 t/s/a r1 "x"`,
		`"revision":0`:                              `1 t/s/a r0 "x"`,
		`"revision":4611686018427387904`:            `1 t/s/a r4611686018427387904 "x"`,
		`"revision":4611686018427387905`:            `line 1: revision is not between 0 and 4611686018427387904`,
		`"revision":9223372036854775807`:            `line 1: revision is not between 0 and 4611686018427387904`,
		`"revision":9223372036854775808`:            `line 1: revision is not between 0 and 4611686018427387904`,
		`"revision":-1`:                             `line 1: revision is not between 0 and 4611686018427387904`,
		`"revision":"9999-12-31T23:59:59.999999Z"`:  `1 t/s/a r253402300799999999 "x"`,
		`"revision":"2026-03-02T01:00:00.25+01:00"`: `1 t/s/a r1772409600250000 "x"`,
		`"revision":"1969-01-01T00:00:00Z"`:         `line 1: revision is a time before 1970`,
		`"revision":"yesterday"`:                    `line 1: revision is neither an integer nor a time in the form of RFC 3339`,
		`"revision":1.0`:                            `line 1: revision is neither an integer nor a time in the form of RFC 3339`,
		`"revision":true`:                           `line 1: revision is a boolean, not a number or a time`,
		`"urgent":true`:                             `1 t/s/a r1 "x" urgent`,
		`"urgent":"1"`:                              `1 t/s/a r1 "x" urgent`,
		`"urgent":0`:                                `1 t/s/a r1 "x"`,
		`"urgent":null`:                             `1 t/s/a r1 "x"`,
		`"urgent":"yes"`:                            `line 1: urgent is not true, false, 1 or 0`,
		`"urgent":[]`:                               `line 1: urgent is not true, false, 1 or 0`,
	} {
		got, _ := all(t, strings.NewReader(head+`"id":"a","text":"x",`+in+"}"), source.JSONL, source.DefaultMapping(), source.Limits{})
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
}

func TestCSV(t *testing.T) {
	const header = "tenant,system,id,text,media,revision\n"
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"plain":               {header + "t,s,a,x,,2\n", []string{`2 t/s/a r2 "x"`}},
		"no last line end":    {header + "t,s,a,x,,", []string{`2 t/s/a r1 "x"`}},
		"CR LF":               {"tenant,system,id,text\r\nt,s,a,x\r\nt,s,b,\"y\"\r\n", []string{`2 t/s/a r1 "x"`, `3 t/s/b r1 "y"`}},
		"byte order mark":     {"\xef\xbb\xbf" + header + "t,s,a,x,,\n", []string{`2 t/s/a r1 "x"`}},
		"quoted line ends":    {header + "t,s,a,\"one\r\ntwo, \"\"three\"\"\n\",,\nt,s,b,y,,\n", []string{`2 t/s/a r1 "one\r\ntwo, \"three\"\n"`, `5 t/s/b r1 "y"`}},
		"blank lines":         {"\n" + header + "\n  \nt,s,a,x,,\n\r\n", []string{`5 t/s/a r1 "x"`}},
		"empty text":          {header + "t,s,a,,,\n", []string{`2 t/s/a r1 ""`}},
		"audio":               {header + "t,s,a,,audio,\n", []string{`2 t/s/a r1 "" media audio`}},
		"wrong field count":   {header + "t,s,a\nt,s,b,x,,\n", []string{`line 2: has 3 fields where the header has 6`, `3 t/s/b r1 "x"`}},
		"quote in bare field": {header + "t,s,a,5\" tall,,\nt,s,b,x,,\n", []string{`line 2: has a quote within a field that does not begin with one`, `3 t/s/b r1 "x"`}},
		"text behind quote":   {header + "t,s,a,\"x\"y,,\nt,s,b,x,,\n", []string{`line 2: has something behind the quote that closes a field`, `3 t/s/b r1 "x"`}},
		"CR behind quote":     {header + "t,s,a,\"x\"\ry,,\n", []string{`line 2: has something behind the quote that closes a field`}},
		"open quote":          {header + "t,s,a,\"x,,\nt,s,b,x,,\n", []string{`lines 2 to 3: has a quoted field that is never closed; the lines up to the end were read as part of it`}},
		"empty id":            {header + "t,s,,x,,\n", []string{`2 t/s/ r1 "x"`}},
		"empty tenant":        {header + ",s,a,x,,\n", []string{`line 2: tenant is missing`}},
		"NUL in text":         {header + "t,s,a,x\x00,,\n", []string{`2 t/s/a r1 "x\x00"`}},
		"NUL in id":           {header + "t,s,\x00,x,,\n", []string{`line 2: id contains a control character or a line separator; ids stand in logs and on terminals`}},
		"invalid UTF-8":       {header + "t,s,a,x\xff,,\nt,s,\xff,x,,\n", []string{`2 t/s/a r1 "x\xff" damaged`, `line 3: id is not valid Unicode, so it cannot be told from others`}},
		"header alone":        {header, nil},
		"empty stream":        {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := all(t, iotest.OneByteReader(strings.NewReader(tc.in)), source.CSV, source.DefaultMapping(), source.Limits{})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnusableHeaderEndsTheStream(t *testing.T) {
	m := source.DefaultMapping()
	if err := m.Take("revision=edited_at"); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"tenant,id\n":                              "the CSV header has no column system, edited_at, text",
		"tenant,system,tenant\n":                   "the CSV header has column 3 and an earlier one under the same name",
		"tenant,\"system\n":                        "the CSV header has a quoted field that is never closed; the lines up to the end were read as part of it",
		"tenant;system;id;text;edited_at\na;b;c\n": "the CSV header has no column tenant, system, edited_at, text",
	} {
		r, err := source.NewReader(strings.NewReader(in), source.CSV, m, source.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var refused *source.LineError
		if _, err := r.Next(); err == nil || errors.As(err, &refused) || err.Error() != want {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestMapping(t *testing.T) {
	m := source.DefaultMapping()
	for _, err := range []error{m.Take("id=report_id"), m.Take("text=body"), m.Fix("system=forum"), m.Fix("revision=4"), m.Fix("media=")} {
		if err != nil && !strings.HasPrefix(err.Error(), "must be PART=VALUE") {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{"text=x", "id=x", "nobody=x", "tenant"} {
		if m.Fix(bad) == nil {
			t.Errorf("Fix(%q) was taken", bad)
		}
	}
	in := `{"tenant":"t","report_id":7,"body":"x","system":"other","id":"other"}` + "\n" + `{"tenant":"t","report_id":{}}`
	got, _ := all(t, strings.NewReader(in), source.JSONL, m, source.Limits{})
	if diff := cmp.Diff([]string{`1 t/forum/7 r4 "x"`, `line 2: report_id is an object, not a string or an integer`}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := source.NewReader(nil, source.JSONL, source.Mapping{}, source.Limits{}); err == nil {
		t.Error("a mapping without a tenant was taken")
	}
	if _, err := source.NewReader(nil, "xml", source.DefaultMapping(), source.Limits{}); err == nil {
		t.Error("an unknown format was taken")
	}
}

func TestAnyFieldOfTheInputCanBeRead(t *testing.T) {
	in, err := source.NewReader(strings.NewReader(head+`"url":"a\u002fb","n":1.50,"o":{"k" : [1, 2]},"nil":null,"bad":"\ud800","text":"x"}`),
		source.JSONL, source.DefaultMapping(), source.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := in.Next()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"url": "a/b", "n": "1.50", "o": `{"k":[1,2]}`, "text": "x"} {
		if got, ok := rec.Field(name); !ok || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, ok)
		}
	}
	for _, name := range []string{"nil", "bad", "absent"} {
		if got, ok := rec.Field(name); ok {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// endless is a line of n bytes between two good ones, made as it is read.
func endless(before, after string, n int64) io.Reader {
	return io.MultiReader(strings.NewReader(before), io.LimitReader(xs{}, n), strings.NewReader(after))
}

type xs struct{}

func (xs) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestLongLineIsReadPastWithFlatMemory(t *testing.T) {
	const size, limit = 32 << 20, 64 << 10
	good := head + `"id":"a","text":"x"}` + "\n"
	for name, tc := range map[string]struct {
		format source.Format
		in     io.Reader
		want   []string
	}{
		"JSONL": {source.JSONL, endless(good+head+`"text":"`, `"}`+"\n"+good, size),
			[]string{`1 t/s/a r1 "x"`, `line 2: is longer than 65536 bytes`, `3 t/s/a r1 "x"`}},
		"CSV": {source.CSV, endless("tenant,system,id,text\nt,s,a,\"", "\n\"\nt,s,b,y\n", size/4),
			[]string{`lines 2 to 3: is longer than 65536 bytes`, `4 t/s/b r1 "y"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, c := all(t, tc.in, tc.format, source.DefaultMapping(), source.Limits{LineBytes: limit})
			runtime.ReadMemStats(&after)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if c.Bytes < size/4 {
				t.Errorf("%d bytes read", c.Bytes)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
				t.Errorf("%d bytes allocated", grown)
			}
		})
	}
}

func TestLineOfExactlyTheLimit(t *testing.T) {
	line := head + `"id":"a","text":"x"}`
	for _, end := range []string{"", "\n", "\r\n"} {
		got, _ := all(t, strings.NewReader(line+end), source.JSONL, source.DefaultMapping(), source.Limits{LineBytes: len(line)})
		if diff := cmp.Diff([]string{`1 t/s/a r1 "x"`}, got); diff != "" {
			t.Errorf("end %q: %s", end, diff)
		}
		got, _ = all(t, strings.NewReader(line+end), source.JSONL, source.DefaultMapping(), source.Limits{LineBytes: len(line) - 1})
		if diff := cmp.Diff([]string{fmt.Sprintf("line 1: is longer than %d bytes", len(line)-1)}, got); diff != "" {
			t.Errorf("end %q: %s", end, diff)
		}
	}
}

func TestReadErrorIsFatal(t *testing.T) {
	broken := errors.New("the disk is gone")
	for _, f := range []source.Format{source.JSONL, source.CSV} {
		r, err := source.NewReader(io.MultiReader(strings.NewReader("tenant,system,text\n{"), iotest.ErrReader(broken)), f, source.DefaultMapping(), source.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var refused *source.LineError
		for range 2 { // the first line of the JSONL reader is a refusal
			if _, err = r.Next(); !errors.As(err, &refused) {
				break
			}
		}
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// Whatever encoding/csv writes is read back as it was.
func TestCSVReadsWhatIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringOf(rapid.SampledFrom([]rune("a\",\n\r é;'"))), 1, 8).Draw(t, "texts")
		var buf bytes.Buffer
		w := csv.NewWriter(&buf)
		if err := w.Write([]string{"tenant", "system", "id", "text"}); err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			if err := w.Write([]string{"t", "s", fmt.Sprint(i), text}); err != nil {
				t.Fatal(err)
			}
		}
		w.Flush()
		in, err := source.NewReader(&buf, source.CSV, source.DefaultMapping(), source.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			rec, err := in.Next()
			if err != nil || rec.ID != fmt.Sprint(i) || rec.Text.Reveal() != text {
				t.Fatalf("row %d of %q: %v", i, texts, err)
			}
		}
		if _, err := in.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("behind the last row: %v", err)
		}
	})
}

// Every line of the shared sample files is a record, refused, or blank.
func TestSampleFiles(t *testing.T) {
	dir := sampleData(t)
	m := source.DefaultMapping()
	if err := errors.Join(m.Take("id=report_id"), m.Take("system=source")); err != nil {
		t.Fatal(err)
	}
	want := map[string]struct{ records, refused, blank int }{
		"tricky.jsonl": {133, 0, 0}, "hatecheck.jsonl": {1400, 0, 0}, "health-claims.jsonl": {1200, 0, 0}, "openai-moderation.jsonl": {676, 0, 0},
		"files/bad-utf8.jsonl": {2, 1, 0}, "files/blank-lines.jsonl": {3, 0, 5}, "files/bom.jsonl": {3, 0, 0}, "files/broken-middle.jsonl": {2, 1, 0},
		"files/crlf.jsonl": {3, 0, 0}, "files/duplicate-keys.jsonl": {0, 1, 0}, "files/duplicate-report-ids.jsonl": {4, 0, 0}, "files/empty.jsonl": {0, 0, 0},
		"files/missing-and-extra-fields.jsonl": {2, 8, 0}, "files/no-final-newline.jsonl": {3, 0, 0}, "files/odd-ids.jsonl": {13, 2, 0},
		"files/same-source-many-reports.jsonl": {5, 0, 0}, "files/truncated-end.jsonl": {2, 1, 0}, "files/two-objects-one-line.jsonl": {0, 2, 0},
	}
	for name, w := range want {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, c := all(t, file, source.JSONL, m, source.Limits{})
		if err := file.Close(); err != nil {
			t.Error(err)
		}
		refused := 0
		for _, g := range got {
			if strings.HasPrefix(g, "line ") {
				refused++
			}
		}
		if len(got)-refused != w.records || refused != w.refused || int(c.Blank) != w.blank {
			t.Errorf("%s: %d records, %d refused, %d blank; want %+v", name, len(got)-refused, refused, c.Blank, w)
		}
	}
}

// sampleData is the folder of sample files beside the repository, if it is there.
func sampleData(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if found := filepath.Join(dir, "..", "shared", "data"); exists(found) {
			return found
		}
	}
	t.Skip("the sample files are not here")
	return ""
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }
