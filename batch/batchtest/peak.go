package batchtest

import (
	"runtime"
	"sync"
	"testing"
)

// Peak watches how much memory is in use while a benchmark moves a large job.
type Peak struct {
	mu    sync.Mutex
	base  uint64
	above uint64
}

// Begin takes what is in use now for nothing.
func (p *Peak) Begin() {
	runtime.GC()
	p.base = inUse()
}

// Look is called by those who move the bytes, now and then: it stops the world.
func (p *Peak) Look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := inUse(); now > p.base {
		p.above = max(p.above, now-p.base)
	}
}

// Report tells the most that was in use, as peak-MiB.
func (p *Peak) Report(b *testing.B) {
	b.ReportMetric(float64(p.above)/(1<<20), "peak-MiB")
}

func inUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
