package reconcile_test

import (
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

// BenchmarkCalls is the way of 50,000 texts of 1.2 KB through the lane, to a
// processor that answers at once, 64 calls at a time. calls/s counts the calls with their commits,
// joined/s the making of one set of results; heap-MiB is the most in use.
//
//	go test ./reconcile -run '^$' -bench 'Calls$' -benchtime 1x
func BenchmarkCalls(b *testing.B) {
	for _, database := range sqltest.Databases {
		for _, n := range []int{5_000, 50_000} {
			b.Run(fmt.Sprintf("%s/%d", database, n), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					l := sqltest.Open(b, database)
					caller := fake.NewCaller(fake.CallerOptions{Account: callAccount, Forget: true,
						Answer: func(fake.Call) (batch.Result, error) { return fake.Answer(goodAnswer), nil }})
					bench := &bench{Ledger: l, t: b, policy: l.Approve(b, sqltest.Policy("p", 1)), log: &syncBuffer{}}
					r := bench.reconciler(l)
					r.Accounts, r.Callers = nil, []batch.Caller{caller}
					r.Settings = reconcile.DefaultSettings()
					r.Settings.JobTokens, r.Settings.CallFor, r.Settings.CallRate = 0, time.Hour, reconcile.Rate{AtOnce: 64}
					long := strings.Repeat("a text of some length. ", 52)
					for i := 0; i < n; i += 2000 {
						var chunk []reconcile.Delivery
						for j := range min(2000, n-i) {
							chunk = append(chunk, bench.delivery(fmt.Sprint(i+j), 1, long))
						}
						bench.accept(chunk...)
					}
					bench.r = r
					bench.collect()
					bench.submit()
					runtime.GC()
					stop := peakHeap()
					b.StartTimer()
					began := time.Now()
					var ended time.Time
					last := began
					r.Progress = func(reconcile.PassName, int64, int64) { last = time.Now() }
					tally, err := r.Call(b.Context(), l.Clock.Now())
					ended = time.Now()
					b.StopTimer()
					if calls, _ := caller.Total(); err != nil || calls != n || tally.Moved != int64(n+1) {
						b.Fatalf("%d calls, %+v, %v", calls, tally, err)
					}
					b.ReportMetric(float64(n)/last.Sub(began).Seconds(), "calls/s")
					b.ReportMetric(float64(n)/ended.Sub(last).Seconds(), "joined/s")
					b.ReportMetric(float64(stop())/(1<<20), "heap-MiB")
					b.StartTimer()
				}
			})
		}
	}
}
