package simulation

import (
	"cmp"
	"slices"
	"time"

	"rollcall/reconcile"
)

// callBooks are what the oracle knows about calls.
type callBooks struct {
	returned map[string]map[fault]bool  // by work: what its calls were answered with; "" is a good answer
	jobs     map[string]map[string]bool // by work: the submissions under which it was called
	claims   map[callID]claim           // those that stand in the ledger
	lost     map[lostClaim]bool         // those that somebody else ended: their calls may come late
	begun    []time.Time                // when calls were claimed, since the clocks last jumped
	jump     time.Duration              // of the clocks, at the last look
	refused  map[callID]refusal         // what processes have heard about being called too fast, and not yet recorded
	held     time.Time                  // the processor wants no call before, and the ledger knows it
	attempts map[string]int             // by sealed policy pattern: calls that were, or may have been, made
}

type callID struct {
	job, work string
	segment   int64
}

// claim is who makes a call, and until when nobody else does.
type claim struct {
	by    *process
	until int64 // microseconds, by the clock of the process
}

type lostClaim struct {
	callID
	by *process
}

// refusal is what a processor said about being called too fast.
type refusal struct {
	until time.Time // the shortest wait where it named no instant
	told  bool      // it named one
}

func refusalOf(now time.Time, wait time.Duration) refusal {
	s := reconcile.DefaultSettings()
	return refusal{now.Add(min(cmp.Or(wait, s.CallRetry), s.RetryCap)), wait > 0}
}

// and is what several of them come to: an instant that was named counts.
func (r refusal) and(other refusal) refusal {
	if r.told != other.told && other.told || r.told == other.told && other.until.After(r.until) {
		return other
	}
	return r
}

func newCallBooks() callBooks {
	return callBooks{refused: map[callID]refusal{}, returned: map[string]map[fault]bool{}, jobs: map[string]map[string]bool{}, claims: map[callID]claim{}, lost: map[lostClaim]bool{}, attempts: map[string]int{}}
}

// forget forgets what an older copy of the ledger need not know. standing are the
// claims that the copy holds: nobody makes them.
func (b *callBooks) forget(standing map[callID]claim) {
	b.claims, b.refused, b.attempts, b.begun, b.held = standing, map[callID]refusal{}, map[string]int{}, nil, time.Time{}
}

func (b *callBooks) returns(work string, kind fault) {
	if b.returned[work] == nil {
		b.returned[work] = map[fault]bool{}
	}
	b.returned[work][kind] = true
}

// called judges a call that reaches the processor.
func (o *oracle) called(p *process, customID, text string) (id callID) {
	work, submission := workOf(customID), customID[len(workOf(customID))+1:]
	if o.calls.jobs[work] == nil {
		o.calls.jobs[work] = map[string]bool{}
	}
	o.calls.jobs[work][submission] = true
	segment := 0
	for whole := range o.texts[work] {
		segment = max(segment, 1+slices.Index(o.w.segmentsOf(whole), text))
	}
	if segment == 0 {
		o.breach("a text is called that is no part of the one of work %s", work)
		return id
	}
	if o.count("SELECT COUNT(*) FROM submissions WHERE submission_id = $1 AND outcome = 'accepted'", submission) == 0 {
		o.breach("work %s is called under submission %s, which is not committed", work, submission)
	}
	var job string
	if err := o.w.books.QueryRow("SELECT job_id FROM submissions WHERE submission_id = $1", submission).Scan(&job); err != nil {
		o.breach("submission %s: %v", submission, err)
	}
	id = callID{job, work, int64(segment)}
	now, claimed := o.calls.claims[id]
	switch {
	case claimed && now.by == p:
	case o.calls.lost[lostClaim{id, p}]: // it stood still until its claim was over
	default:
		o.breach("segment %d of work %s is called in job %s by %s, which has no claim", segment, work, job, p.name)
	}
	return id
}

// callsClaimed judges the claims that a process has just committed.
func (o *oracle) callsClaimed(p *process) {
	w, b := o.w, &o.calls
	if b.jump != w.jump {
		b.jump, b.begun, b.held = w.jump, nil, time.Time{}
	}
	// The claim was decided by what the clock said then.
	now, s := p.parked.UnixMicro(), reconcile.DefaultSettings()
	horizon := p.parked.Add(s.RetryCap).UnixMicro()
	fresh, out := 0, int64(0)
	for id, c := range o.claims(p) {
		if c.until > now && c.until <= horizon {
			out++
		}
		had, ok := b.claims[id]
		if ok && had.until == c.until {
			continue
		}
		if ok && had.until > now && had.until <= horizon {
			o.breach("segment %d of work %s is claimed by %s while %s has it", id.segment, id.work, p.name, had.by.name)
		}
		if n := o.count("SELECT COUNT(*) FROM items WHERE work_id = $1 AND outcome = 'succeeded'", id.work); n > 0 {
			o.breach("work %s is called in job %s although it is answered", id.work, id.job)
		}
		if ok {
			b.lost[lostClaim{id, had.by}] = true
		}
		delete(b.lost, lostClaim{id, p})
		delete(b.refused, id)
		b.claims[id] = c
		fresh++
	}
	if fresh == 0 {
		return
	}
	if out > int64(w.rate.AtOnce) {
		o.breach("%d calls are on their way, and %d may be", out, w.rate.AtOnce)
	}
	if w.now.Before(b.held.Add(-skews)) {
		o.breach("a call is begun at %s, and the processor wants none before %s", w.now, b.held)
	}
	for pattern, before := range b.attempts {
		if n := o.attempts(pattern); n > before {
			o.breach("a call of policy %q is begun behind a brake", pattern)
		}
	}
	o.judgeRate(fresh)
}

// skews is how far the clocks of two processes are apart.
const skews = 4 * time.Second

// judgeRate judges that calls were begun: at most so many at once as are
// permitted in an interval, and as many again within it.
func (o *oracle) judgeRate(fresh int) {
	w, b := o.w, &o.calls
	for range fresh {
		b.begun = append(b.begun, w.now)
	}
	b.begun = slices.DeleteFunc(b.begun, func(at time.Time) bool { return w.now.Sub(at) >= time.Minute })
	ahead := (w.rate.Calls*int64(skews/time.Second) + 59) / 60
	if n := int64(len(b.begun)); n > 2*w.rate.Calls+ahead {
		o.breach("%d calls are begun within a minute, and %d are permitted", n, w.rate.Calls)
	}
}

// callsRecorded looks at the claims that are left, and at what the ledger knows
// now about being called too fast.
func (o *oracle) callsRecorded(p *process) {
	b := &o.calls
	left, refused := o.claims(p), refusal{}
	for id, c := range b.claims {
		if now, ok := left[id]; !ok || now.until != c.until {
			delete(b.claims, id)
			if c.by != p {
				b.lost[lostClaim{id, c.by}] = true
			} else if r, ok := b.refused[id]; ok {
				refused = refused.and(r)
			}
			delete(b.refused, id)
		}
	}
	if refused.until.After(b.held) && b.jump == o.w.jump {
		b.held = refused.until
	}
	for pattern := range b.attempts { // a call that was not made is taken back
		b.attempts[pattern] = min(b.attempts[pattern], o.attempts(pattern))
	}
}

// claims are those in the ledger, as if all of them were made by p.
func (o *oracle) claims(p *process) map[callID]claim {
	all := map[callID]claim{}
	rows, err := o.w.books.Query("SELECT job_id, work_id, segment, next_call_us FROM calls WHERE state = 'claimed'")
	if err != nil {
		o.breach("the calls cannot be read: %v", err)
		return nil
	}
	defer rows.Close()
	for rows.Next() {
		id, c := callID{}, claim{by: p}
		if err := rows.Scan(&id.job, &id.work, &id.segment, &c.until); err != nil {
			o.breach("a call cannot be read: %v", err)
		}
		all[id] = c
	}
	return all
}

// attempts counts the calls of the policy versions that match a pattern.
func (o *oracle) attempts(pattern string) int {
	return o.count("SELECT COALESCE(SUM(c.attempts), 0) FROM calls c JOIN jobs j ON j.job_id = c.job_id WHERE j.policy_id || '/' || j.policy_version LIKE $1", pattern)
}

// unseal notes that a brake is off.
func (o *oracle) unseal(pattern string) {
	delete(o.sealed, pattern)
	delete(o.calls.attempts, pattern)
}

// seal notes what was sent when a brake was put on: nothing is begun behind it.
func (o *oracle) seal(pattern string) {
	o.sealed[pattern] = o.intents(pattern)
	if o.w.calls() {
		o.calls.attempts[pattern] = o.attempts(pattern)
	}
}
