package sandbox

import (
	"math"
	"sync"
	"time"
)

// clock is the sandbox's virtual time. It never goes back, whatever the real
// clock does.
type clock struct {
	real  func() time.Time
	speed float64

	mu      sync.Mutex
	virtual time.Time // virtual time at the instant base
	base    time.Time // real time
	last    time.Time // the latest virtual time that was handed out
}

// clockState is the clock on disk. The speed is kept because the time that
// passes between two processes passes at the speed of the first.
type clockState struct {
	Virtual time.Time `json:"virtual"`
	Real    time.Time `json:"real"`
	Speed   float64   `json:"speed"`
}

// newClock goes on from saved, or starts at the real time when there is none.
// floor is the newest instant in the stored state.
func newClock(realNow func() time.Time, speed float64, saved *clockState, floor time.Time) *clock {
	base := realNow()
	start := base.UTC().Round(0)
	if saved != nil {
		start = saved.Virtual
		if d := base.Sub(saved.Real); d > 0 {
			start = start.Add(scale(d, saved.Speed))
		}
	}
	if floor.After(start) {
		start = floor
	}
	return &clock{real: realNow, speed: speed, virtual: start, base: base, last: start}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read(c.real())
}

func (c *clock) read(realNow time.Time) time.Time {
	if v := c.virtual.Add(scale(realNow.Sub(c.base), c.speed)); v.After(c.last) {
		c.last = v
	}
	return c.last
}

// advance puts the clock forward by d, at once.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	realNow := c.real()
	c.virtual = c.read(realNow).Add(d)
	c.base, c.last = realNow, c.virtual
}

// state is what must be on disk for the next process to go on.
func (c *clock) state() clockState {
	c.mu.Lock()
	defer c.mu.Unlock()
	realNow := c.real()
	return clockState{Virtual: c.read(realNow), Real: realNow.UTC().Round(0), Speed: c.speed}
}

func scale(d time.Duration, speed float64) time.Duration {
	f := float64(d) * speed
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(f)
}
