package reconcile

import (
	"cmp"
	"time"
)

// Rate bounds the calls to an account, for all processes together.
type Rate struct {
	Calls    int64         // in each Interval on the average, and at most so many at once; 0 for no bound
	Interval time.Duration // 0 means a minute
	AtOnce   int           // calls on their way; 0 means 1
}

// Bucket is how fast an account may be called at an instant, as the ledger keeps it.
type Bucket struct {
	Tokens     int64     // calls that may be begun
	RefilledAt time.Time // since when the next token has been coming
	NotBefore  time.Time // the processor wants no call before; zero for none
	Refusals   int64     // how often in a row it said so
	Out        int64     // calls that may be on their way
}

// refill adds the tokens that came since the last look, in whole ones: what is
// left of the time counts for the next.
func (r Rate) refill(b Bucket, now time.Time) Bucket {
	interval := cmp.Or(r.Interval, time.Minute)
	since := now.Sub(b.RefilledAt)
	switch {
	case r.Calls <= 0:
		return b
	case since < -interval: // noted by a clock that was wrong
		b.RefilledAt = now
	case since >= interval:
		b.Tokens, b.RefilledAt = r.Calls, now
	case since > 0:
		n := since.Microseconds() * r.Calls / interval.Microseconds()
		b.Tokens += n
		b.RefilledAt = b.RefilledAt.Add(time.Duration((n*interval.Microseconds() + r.Calls - 1) / r.Calls * int64(time.Microsecond)))
	}
	if b.Tokens >= r.Calls {
		b.Tokens = r.Calls // also after the rate was lowered
		if b.RefilledAt.Before(now) {
			b.RefilledAt = now
		}
	}
	return b
}

// take is how many of the calls that are wanted may be begun. next is when
// another look is worth while, if none may. longest is the longest wait that
// anybody plans: a later instant comes from a clock that was wrong.
func (r Rate) take(b Bucket, now time.Time, want int64, longest time.Duration) (left Bucket, n int64, next time.Time) {
	if b.NotBefore.After(now.Add(longest)) {
		b.NotBefore = time.Time{}
	}
	if b.NotBefore.After(now) {
		return b, 0, b.NotBefore
	}
	b = r.refill(b, now)
	n = max(min(want, int64(max(r.AtOnce, 1))-b.Out), 0)
	if r.Calls <= 0 {
		return b, n, now.Add(callTick)
	}
	n = min(n, b.Tokens)
	b.Tokens -= n
	next = b.RefilledAt.Add(cmp.Or(r.Interval, time.Minute)/time.Duration(r.Calls) + time.Microsecond)
	if b.Tokens > 0 { // others are calling, and it is their number that is bounded
		next = now.Add(callTick)
	}
	return b, n, next
}

// callTick is how soon a lane looks again while calls of another process, which
// may have died, use up what may be on its way.
const callTick = time.Second

// slow notes that the processor wants to be left alone: as long as it says, and
// longer each time when it does not say. Several refusals of calls that were on
// their way together count as one.
func (b Bucket) slow(s *Settings, now time.Time, retryAfter time.Duration, refused bool) Bucket {
	wait := min(retryAfter, s.RetryCap)
	if refused {
		if !b.NotBefore.After(now) || b.NotBefore.After(now.Add(max(s.RetryCap, s.CallRetry))) {
			b.Refusals++
			b.NotBefore = time.Time{}
		}
		if retryAfter <= 0 {
			wait = callWait(s, b.Refusals-1)
		}
	}
	if at := now.Add(wait); wait > 0 && at.After(b.NotBefore) {
		b.NotBefore = at
	}
	return b
}

// callWait is the wait after a number of earlier faults: it doubles with each,
// up to RetryCap.
func callWait(s *Settings, earlier int64) time.Duration {
	wait := s.CallRetry
	for ; earlier > 0 && wait < s.RetryCap; earlier-- {
		wait *= 2
	}
	return min(wait, max(s.RetryCap, s.CallRetry))
}

// callHorizon is the longest wait that a call or its job is planned for.
func callHorizon(s *Settings) time.Duration {
	return max(s.RetryCap, s.SubmitRetry, s.CallRetry, s.CallWithin+s.CallMargin)
}
