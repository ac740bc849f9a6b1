package reconcile_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// sink takes bodies and keeps nothing. It looks at the heap now and then.
type sink struct {
	*fake.Provider
	lines, bytes int64
	heap         uint64
}

func (s *sink) Upload(_ context.Context, in batch.Input) (string, error) {
	return "file", in.Write(s)
}

func (s *sink) Write(p []byte) (int, error) {
	s.bytes += int64(len(p))
	if s.lines++; s.lines%5000 == 0 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s.heap = max(s.heap, m.HeapAlloc)
	}
	return len(p), nil
}

// BenchmarkCollectAndSubmit is the way of 50,000 reports of 1.2 KB into one job
// that is sent. heap-MiB is what is in use while the body is written: it must
// not grow with the job.
func BenchmarkCollectAndSubmit(b *testing.B) {
	for _, database := range sqltest.Databases {
		for _, n := range []int{5_000, 50_000} {
			b.Run(fmt.Sprintf("%s/%d", database, n), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					l := sqltest.Open(b, database)
					bench := &bench{Ledger: l, t: b, policy: l.Approve(b, sqltest.Policy("p", 1))}
					s := &sink{Provider: fake.New(fake.Options{Account: batch.Account{Processor: "fake", Name: "main", Host: "fake.test", Region: "test", Fingerprint: "fp"}})}
					bench.log = &syncBuffer{}
					r := bench.reconciler(l)
					r.Accounts = []batch.Provider{s}
					r.Settings = reconcile.DefaultSettings()
					r.Settings.JobTokens, r.Settings.Chunk = 0, 2000
					long := strings.Repeat("a text of some length. ", 52)
					for i := 0; i < n; i += 2000 {
						var chunk []reconcile.Delivery
						for j := range min(2000, n-i) {
							chunk = append(chunk, bench.delivery(fmt.Sprint(i+j), 1, long))
						}
						bench.accept(chunk...)
					}
					b.StartTimer()
					began := time.Now()
					if _, err := r.Collect(b.Context(), l.Clock.Now()); err != nil {
						b.Fatal(err)
					}
					collected := time.Now()
					if tally, err := r.Submit(b.Context(), l.Clock.Now()); err != nil || tally.Moved != 1 {
						b.Fatalf("%+v, %v", tally, err)
					}
					b.ReportMetric(float64(n)/collected.Sub(began).Seconds(), "collected/s")
					b.ReportMetric(float64(n)/time.Since(collected).Seconds(), "submitted/s")
					b.ReportMetric(float64(s.heap)/(1<<20), "heap-MiB")
					if s.lines != int64(n) {
						b.Fatalf("%d lines", s.lines)
					}
				}
			})
		}
	}
}
