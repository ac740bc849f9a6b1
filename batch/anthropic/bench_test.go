package anthropic_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"rollcall/batch"
	"rollcall/batch/batchtest"
)

const benchItems = 50_000

// BenchmarkCreate sends a body of 50,000 requests that are rendered as they go.
func BenchmarkCreate(b *testing.B) {
	watch := &batchtest.Peak{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err != nil || n != r.ContentLength {
			b.Errorf("%d bytes of %d, %v", n, r.ContentLength, err)
		}
		io.WriteString(w, jobBody)
	}))
	defer web.Close()
	c := newClient(b, web.URL)
	cl, text := question(), batch.NewText(strings.Repeat("A report with \"words\" in it. ", 40))
	line, err := c.AppendRequest(nil, cl, fmt.Sprintf("w%06d-s1", 0), text)
	if err != nil {
		b.Fatal(err)
	}
	size := int64(len(line)) * benchItems
	b.SetBytes(size)
	b.ReportAllocs()
	watch.Begin()
	for b.Loop() {
		_, err := c.Create(b.Context(), batch.Creation{Body: &batch.Input{Size: size, Write: func(w io.Writer) error {
			buf := bufio.NewWriterSize(w, 64<<10)
			var line []byte
			for i := range benchItems {
				var err error
				if line, err = c.AppendRequest(line[:0], cl, fmt.Sprintf("w%06d-s1", i), text); err != nil {
					return err
				}
				if _, err := buf.Write(line); err != nil {
					return err
				}
				if i%5000 == 0 {
					watch.Look()
				}
			}
			return buf.Flush()
		}}})
		if err != nil {
			b.Fatal(err)
		}
	}
	watch.Report(b)
}

// BenchmarkDownload reads 50,000 results.
func BenchmarkDownload(b *testing.B) {
	watch := &batchtest.Peak{}
	row := message(`"id":"msg_1","content":[{"type":"thinking","thinking":"` + strings.Repeat("x", 300) + `"},{"type":"text","text":"{\"label\":\"ok\",\"evidence\":[]}"}],` +
		`"stop_reason":"end_turn","stop_sequence":null,"stop_details":null,"usage":{"input_tokens":210,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":14,"service_tier":"batch"}`)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range benchItems {
			io.WriteString(w, row+"\n")
		}
	}))
	defer web.Close()
	c := newClient(b, web.URL)
	b.SetBytes(int64(len(row)+1) * benchItems)
	b.ReportAllocs()
	watch.Begin()
	for b.Loop() {
		body, _, err := c.Download(b.Context(), "msgbatch_1")
		if err != nil {
			b.Fatal(err)
		}
		lines := bufio.NewScanner(body)
		n := 0
		for lines.Scan() {
			if c.DecodeResult(lines.Bytes()).Outcome != batch.Answered {
				b.Fatal(lines.Text())
			}
			if n++; n%5000 == 0 {
				watch.Look()
			}
		}
		if err := body.Close(); lines.Err() != nil || err != nil || n != benchItems {
			b.Fatal(n, lines.Err(), err)
		}
	}
	watch.Report(b)
}

// TestMemory: neither a body nor a list of results is ever held whole.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it moves a hundred megabytes")
	}
	for name, bench := range map[string]func(*testing.B){"create": BenchmarkCreate, "download": BenchmarkDownload} {
		r := testing.Benchmark(bench)
		if got := r.Extra["peak-MiB"]; r.N == 0 || got > 24 {
			t.Errorf("%s: %v MiB at a time, %v", name, got, r)
		}
	}
}
