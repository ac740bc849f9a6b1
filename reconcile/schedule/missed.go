package schedule

import "time"

// Missed says which run to make when the one that was due at from has not been
// made, and how many that run stands for. latest is the last due instant up to
// now, and missed is the number of due instants from from on and before latest.
// from counts as due even if the schedule does not name it, since it may have
// been changed in between. latest is zero if from is after now.
//
// At most limit of them are counted, so that this ends soon after a stop of
// years; more says that there are others. The count of an @every schedule is
// always exact.
func (s *Schedule) Missed(from, now time.Time, limit int) (latest time.Time, missed int64, more bool) {
	if from.After(now) {
		return time.Time{}, 0, false
	}
	if s.every > 0 {
		latest, missed = s.missedEvery(from, now)
		return latest, missed, false
	}
	latest = s.last(from, now)
	for t := from; t.Before(latest); t = s.Next(t) {
		if missed >= int64(limit) {
			return latest, missed, true
		}
		missed++
	}
	return latest, missed, false
}

// missedEvery counts from itself and all but the last multiple after it.
func (s *Schedule) missedEvery(from, now time.Time) (latest time.Time, missed int64) {
	last := floorDiv(now.Unix(), s.every)
	if missed = last - floorDiv(from.Unix(), s.every); missed == 0 {
		return from.UTC(), 0
	}
	return time.Unix(last*s.every, 0).UTC(), missed
}

// last is the last due instant from from up to now. Next never falls when its
// argument grows, so that bisection finds it in about 40 steps over centuries.
func (s *Schedule) last(from, now time.Time) time.Time {
	found := from.UTC()
	low, high := from.Unix(), now.Unix()
	for low <= high {
		middle := low + (high-low)/2
		next := s.Next(time.Unix(middle, 0))
		if next.IsZero() || next.After(now) {
			high = middle - 1
			continue
		}
		found, low = next, next.Unix()
	}
	return found
}

// floorDiv rounds towards the past, also before 1970.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
