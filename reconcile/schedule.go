package reconcile

import (
	"encoding/binary"
	"io"
	"time"
)

// pollWait is how long to wait before the next look at a job of this age: a
// quarter of its age, between PollFirst and PollMax. A job that was refused as
// a whole is noticed soon, and one that runs for hours is not asked all the
// time. Some of the wait is taken off at random, so that jobs that were sent
// together are not all asked about together.
func pollWait(s *Settings, age time.Duration, random io.Reader) time.Duration {
	wait := max(s.PollFirst, min(age/4, s.PollMax))
	return wait - jitter(random, (wait-s.PollFirst)/4)
}

// delayedPollWait is the wait after a look that failed: never shorter than the
// regular one, and as long as the provider asked for, up to RetryCap.
func delayedPollWait(s *Settings, age, retryAfter time.Duration, random io.Reader) time.Duration {
	return max(pollWait(s, age, random), min(retryAfter, s.RetryCap))
}

// pollHorizon is the longest wait that these functions give.
func pollHorizon(s *Settings) time.Duration { return max(s.PollFirst, s.PollMax, s.RetryCap) }

// submitWait is the wait after the given attempt was refused: it doubles with
// each attempt up to RetryCap, and is at least what the provider asked for, up
// to the same cap.
func submitWait(s *Settings, attempt int64, retryAfter time.Duration) time.Duration {
	longest := max(s.SubmitRetry, s.RetryCap)
	wait := s.SubmitRetry
	for ; attempt > 1 && wait < longest; attempt-- {
		wait *= 2
	}
	return max(min(wait, longest), min(retryAfter, s.RetryCap))
}

// lookWait is the wait after a look for the job of an uncertain submission that
// settled nothing: as long as its send deadline has passed, so that the distance
// of the looks doubles, between ResolveFirst and ResolveMax.
func lookWait(s *Settings, age time.Duration) time.Duration {
	return max(s.ResolveFirst, min(age, s.ResolveMax))
}

// jitter is a random duration below limit. Without random bytes it is 0:
// spreading is a courtesy, not a need.
func jitter(random io.Reader, limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return 0
	}
	return time.Duration(binary.BigEndian.Uint64(b[:]) % uint64(limit))
}
