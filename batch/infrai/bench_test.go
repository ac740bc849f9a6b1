package infrai_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"rollcall/batch"
	"rollcall/batch/batchtest"
	"rollcall/batch/infrai"
)

// BenchmarkJobs sends 50,000 items in jobs of the size that the adapter allows,
// and tells the most that was in use after a job.
func BenchmarkJobs(b *testing.B) {
	const items, perJob = 50_000, 100
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, `{"ok":true,"data":{"batch_id":"b_1%s","state":"queued","total_count":%d},"error":null}`, r.Header.Get("Idempotency-Key"), perJob)
	}))
	b.Cleanup(web.Close)
	c := newClient(b, web.URL)
	text := batch.NewText(strings.Repeat("I stopped taking it, \"as told\".\n", 60))
	line, err := c.AppendRequest(nil, question, "w00000-s1", text)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(items * len(line)))
	b.ReportAllocs()
	watch := &batchtest.Peak{}
	watch.Begin()
	for n := range b.N {
		for job := range items / perJob {
			var buf []byte
			_, err := c.Create(b.Context(), batch.Creation{Key: fmt.Sprintf("k-%d-%d", n, job), Body: &batch.Input{Size: int64(perJob * len(line)), Write: func(w io.Writer) error {
				for i := range perJob {
					var err error
					if buf, err = c.AppendRequest(buf[:0], question, fmt.Sprintf("w%05d-s1", job*perJob+i), text); err != nil {
						return err
					}
					if _, err = w.Write(buf); err != nil {
						return err
					}
				}
				return nil
			}}})
			if err != nil {
				b.Fatal(err)
			}
			if job%50 == 0 {
				watch.Look()
			}
		}
	}
	watch.Report(b)
}

func BenchmarkParsePin(b *testing.B) {
	raw := testdata(b, "assumed.pin.json")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := infrai.ParsePin(raw); err != nil {
			b.Fatal(err)
		}
	}
}
