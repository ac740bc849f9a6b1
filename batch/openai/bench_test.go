package openai

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

func benchClient(b *testing.B, answer http.HandlerFunc) *Client {
	b.Helper()
	web := httptest.NewServer(answer)
	b.Cleanup(web.Close)
	c, err := New(config(web.URL))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.CloseIdleConnections)
	return c
}

// BenchmarkUpload sends a body of 50,000 requests that are rendered as they go.
func BenchmarkUpload(b *testing.B) {
	watch := &batchtest.Peak{}
	c := benchClient(b, func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err != nil || n != r.ContentLength {
			b.Errorf("%d bytes of %d, %v", n, r.ContentLength, err)
		}
		io.WriteString(w, `{"id":"file-1","object":"file"}`)
	})
	cl, text := testClassifier(), batch.NewText(strings.Repeat("A report with \"words\" in it. ", 40))
	line, err := c.AppendRequest(nil, cl, fmt.Sprintf("w%06d-s1", 0), text)
	if err != nil {
		b.Fatal(err)
	}
	size := int64(len(line)) * benchItems
	b.SetBytes(size)
	b.ReportAllocs()
	watch.Begin()
	for b.Loop() {
		_, err := c.Upload(b.Context(), batch.Input{Name: "rc.jsonl", Size: size, Write: func(w io.Writer) error {
			buf := bufio.NewWriterSize(w, 64<<10)
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
		}})
		if err != nil {
			b.Fatal(err)
		}
	}
	watch.Report(b)
}

// BenchmarkDownload reads 50,000 results.
func BenchmarkDownload(b *testing.B) {
	watch := &batchtest.Peak{}
	const row = `{"id":"batch_req_1","custom_id":"w000000-s1","response":{"status_code":200,"request_id":"req_1","body":{"id":"chatcmpl-1","object":"chat.completion","created":1772330400,` +
		`"model":"gpt-4.1-mini-2025-04-14","choices":[{"index":0,"message":{"role":"assistant","content":"{\"label\":\"ok\",\"evidence\":[]}","refusal":null},"logprobs":null,"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":210,"completion_tokens":14,"total_tokens":224},"system_fingerprint":"fp_1"}},"error":null}` + "\n"
	c := benchClient(b, func(w http.ResponseWriter, _ *http.Request) {
		for range benchItems {
			io.WriteString(w, row)
		}
	})
	b.SetBytes(int64(len(row)) * benchItems)
	b.ReportAllocs()
	watch.Begin()
	for b.Loop() {
		body, _, err := c.Download(b.Context(), "file-1")
		if err != nil {
			b.Fatal(err)
		}
		lines, n := bufio.NewScanner(body), 0
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

// TestMemory: neither a body nor a file of results is ever held whole.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it moves a hundred megabytes")
	}
	for name, bench := range map[string]func(*testing.B){"upload": BenchmarkUpload, "download": BenchmarkDownload} {
		r := testing.Benchmark(bench)
		if got := r.Extra["peak-MiB"]; r.N == 0 || got > 24 {
			t.Errorf("%s: %v MiB at a time, %v", name, got, r)
		}
	}
}
