package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"rollcall/batch"
	"rollcall/reconcile/crashpoint"
	"rollcall/reconcile/keyring"
)

// calling is one job in a lane's turn. Its own goroutine claims and commits; each
// call has another one, which holds one text.
type calling struct {
	*lane
	job      *Job
	policy   *PolicyVersion
	question *batch.Classifier
	proof    *keyProof
	ends     chan callMade // has room for all that may be on their way

	out     int       // calls on their way
	halted  bool      // no further call of this job is begun in this turn
	why     error     // the first reason
	waiting bool      // nothing was due at the last look
	served  bool      // calls of this job were claimed in this turn
	fresh   bool      // a made-up text was answered in this turn
	rest    time.Time // this job is not looked at before; zero for none
}

// callMade is what one call came to.
type callMade struct {
	call     ClaimedCall
	segments int64
	result   *batch.Result
	content  keyring.Encrypted
	err      error
	unread   error // the text cannot be read; no call was made
	unmade   bool  // no call was made, and another claim may permit it
}

// run makes the calls of the job that are due, until none may be begun. What is
// on its way is always waited for and committed: it costs money.
func (c *calling) run(ctx context.Context) error {
	for {
		for c.mayBegin(ctx) {
			if err := c.begin(ctx); err != nil {
				c.halt(err)
			}
		}
		if c.out == 0 {
			return c.why
		}
		if err := c.record(ctx, c.gather()); err != nil {
			c.halt(err)
		}
	}
}

func (c *calling) halt(err error) {
	c.halted = true
	if c.why == nil {
		c.why = err
	}
}

func (c *calling) mayBegin(ctx context.Context) bool {
	if ctx.Err() != nil {
		c.halt(ctx.Err())
	}
	return !c.halted && !c.shut && !c.waiting && c.floor.IsZero() && c.out < cap(c.ends) && c.r.Uptime() < c.until
}

// begin claims calls that are due, and begins them.
func (c *calling) begin(ctx context.Context) error {
	began := c.r.Uptime() // before the claim is
	now, err := c.r.Now(ctx)
	if err != nil {
		return err
	}
	held := holding{began: began, until: now.Add(c.r.Settings.CallWithin + c.r.Settings.CallMargin)}
	horizon := callHorizon(&c.r.Settings)
	want := min(cap(c.ends)-c.out, max(c.r.Settings.Chunk, 1))
	grant, err := c.r.Store.ClaimCalls(ctx, now, CallClaim{
		JobID: c.job.ID, Account: c.account, Want: want,
		Until: held.until, Horizon: now.Add(horizon),
		Take: func(b Bucket) (Bucket, int64, time.Time) {
			return c.rate.take(b, now, int64(want), horizon)
		},
	})
	if err != nil {
		return err
	}
	c.tally.Add(Tally{Seen: int64(grant.Dropped), Moved: int64(grant.Dropped)})
	switch {
	case grant.Stopped != nil:
		return grant.Stopped
	case len(grant.Calls) == 0:
		c.waiting = grant.Dropped == 0
		if c.out == 0 {
			c.floor = grant.Next
		}
		return nil
	}
	c.served = true
	// The calls are claimed and nothing is sent. If the process dies here, they are
	// due again when the claim ends.
	c.r.step(crashpoint.CallClaimed)
	if err := c.probe(ctx, now); err != nil {
		return errors.Join(err, c.giveBack(ctx, now, grant.Calls))
	}
	for _, call := range grant.Calls {
		c.out++
		c.r.beside(func() { c.ends <- c.safely(ctx, call, held) })
	}
	return nil
}

// giveBack makes calls due again that were claimed and not made.
func (c *calling) giveBack(ctx context.Context, now time.Time, calls []ClaimedCall) error {
	j := judging{calling: c, now: now, rec: CallRecord{JobID: c.job.ID, Account: c.account.Fingerprint}}
	for _, call := range calls {
		j.rec.Ends = append(j.rec.Ends, j.back(call))
	}
	return c.r.Store.RecordCalls(withoutLease(context.WithoutCancel(ctx)), now, j.rec)
}

// holding is for how long calls were claimed.
type holding struct {
	began time.Duration // by the monotonic clock: the wall clock may be set back meanwhile
	until time.Time
}

// mayCall says whether a call that is begun now ends within its claim. A process
// that stood still since then knows neither whether its text is still wanted nor
// who else is sending it.
func (c *calling) mayCall(ctx context.Context, held holding) bool {
	now, err := c.r.Now(context.WithoutCancel(ctx))
	return err == nil && c.r.Uptime()-held.began <= c.r.Settings.CallMargin && !now.After(held.until.Add(-c.r.Settings.CallWithin))
}

// safely is make, which a panic of an adapter does not end the process of. Of the
// panic only its type is told: its value may quote the text.
func (c *calling) safely(ctx context.Context, call ClaimedCall, held holding) (made callMade) {
	defer func() {
		if p := recover(); p != nil {
			c.r.Log.Error().Str("pass", string(PassCall)).Str("job_id", c.job.ID).Str("work_id", call.Item.WorkID).Str("panic", fmt.Sprintf("%T", p)).Msg("a call panicked")
			made = callMade{call: call, segments: max(call.Segments, 1), err: &batch.Error{Op: "call", Kind: batch.UnknownOutcome, Code: codePanic}}
		}
	}()
	return c.make(ctx, call, held)
}

// make makes one call. The text is in memory for as long as it takes. A told end
// does not cut the call: its answer would have to be bought again.
func (c *calling) make(ctx context.Context, call ClaimedCall, held holding) callMade {
	made := callMade{call: call, segments: call.Segments}
	if call.Faults >= c.r.Settings.CallFaults {
		made.segments, made.result = max(call.Segments, 1), &batch.Result{Outcome: batch.ItemFailed, Code: codeNoTrace}
		return made
	}
	if call.Item.Text.KeyID == "" {
		made.unread = errNoText
		return made
	}
	text, err := openText(c.r.Keys, call.Item)
	if err != nil {
		made.unread = err
		return made
	}
	parts, err := c.caller.Split(c.question, text)
	if err != nil {
		made.err, made.segments = err, max(call.Segments, 1)
		if batch.KindOf(err) != batch.Rejected { // a pure function has no other reason
			made.err = &batch.Error{Op: "split", Kind: batch.Rejected, Code: "not_split"}
		}
		return made
	}
	if n := int64(len(parts)); n == 0 || call.Segments != 0 && call.Segments != n {
		made.segments = max(call.Segments, 1)
		made.result = &batch.Result{Outcome: batch.ItemFailed, Code: codeSplitChanged}
		return made
	}
	if !c.mayCall(ctx, held) {
		made.unmade = true
		return made
	}
	made.segments = int64(len(parts))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.r.Settings.CallWithin)
	defer cancel()
	res, err := c.caller.Call(ctx, c.question, CustomID(call.Item.WorkID, c.job.SubmissionID), parts[call.Segment-1])
	if err != nil {
		made.err = err
		return made
	}
	res = safeResult(res)
	if res.Outcome == batch.Answered {
		made.content, made.unread = c.r.Keys.Encrypt(res.Content, callPlace(c.job.ID, call.Item.WorkID, call.Segment)...)
	}
	res.Content, res.CustomID = nil, ""
	made.result = &res
	return made
}

// Codes of calls, in the place of a provider's code.
const (
	codeSplitChanged = "split_changed" // the text is cut otherwise than when its first segment was answered
	codeNotWanted    = "not_wanted"    // the member was withdrawn before it was asked about
	codePanic        = "panic"         // the adapter panicked
	codeNoTrace      = "no_trace"      // the processes that asked about it left no trace, too often
	codeOtherModel   = "other_model"   // an adapter's, of BadAnswer: another model answered than was asked for
)

var errNoText = errors.New("the ledger holds no text")

// callPlace is the place that the answer of a call is encrypted for.
func callPlace(jobID, workID string, segment int64) []string {
	return []string{"call", jobID, workID, strconv.FormatInt(segment, 10)}
}

// CallOutcomes lists the outcomes that a call may have.
func CallOutcomes() []batch.Outcome {
	return []batch.Outcome{batch.Answered, batch.Refused, batch.Blocked, batch.Truncated, batch.BadShape, batch.ItemRejected, batch.ItemFailed,
		batch.ItemDenied, batch.ItemOutOfCredit, batch.Expired, batch.Cancelled, batch.NotRun, batch.Unapproved}
}

// safeResult is an answer that may be stored. Another outcome than those of a
// call is no documented shape.
func safeResult(res batch.Result) batch.Result {
	if !slices.Contains(CallOutcomes(), res.Outcome) {
		res.Outcome = batch.BadShape
	}
	res.Code, res.Model = foreign(batch.SafeCode(res.Code)), batch.SafeName(res.Model)
	res.InputTokens, res.OutputTokens = max(res.InputTokens, 0), max(res.OutputTokens, 0)
	return res
}

// foreign is a processor's code; one that is a word of ours says nothing.
func foreign(code string) string {
	if slices.Contains([]string{codeNotWanted, codeSplitChanged, string(faultText)}, code) {
		return ""
	}
	return code
}

// gather waits for a call, and takes with it what else has come.
func (c *calling) gather() []callMade {
	made := []callMade{<-c.ends}
	c.out--
	for len(made) < max(c.r.Settings.Chunk, 1) {
		select {
		case m := <-c.ends:
			made = append(made, m)
			c.out--
		default:
			return made
		}
	}
	return made
}

// record commits what calls came to, and acts on what that means for the others.
// It does not depend on the lease: the answers are there, whoever holds it by now.
func (c *calling) record(ctx context.Context, made []callMade) error {
	// The processor has answered, and the ledger does not know it. If the process
	// dies here, the calls are made again.
	c.r.step(crashpoint.CallAnswered)
	ctx = withoutLease(context.WithoutCancel(ctx))
	now, err := c.r.Now(ctx)
	if err != nil {
		return err
	}
	j := judging{calling: c, now: now, rec: CallRecord{JobID: c.job.ID, Account: c.account.Fingerprint}}
	for i := range made {
		if err := j.end(ctx, &made[i]); err != nil {
			return err
		}
	}
	j.rec.Adjust = j.adjust
	j.rec.Findings = j.damaged.Events(j.job.ID)
	if j.noKey != "" {
		j.rec.Findings = append(j.rec.Findings, EventTextUnreadable.event("job:"+j.job.ID, "work:"+j.noKey))
	}
	for range 2 { // a broken connection is replaced at the second try; recording again changes nothing
		if err = c.r.Store.RecordCalls(ctx, now, j.rec); err == nil || errors.Is(err, ErrMoved) {
			break
		}
	}
	if err != nil {
		return err
	}
	// These answers are committed, and their texts are not sent again.
	c.r.step(crashpoint.CallNoted)
	c.tally.Add(j.tally)
	c.r.progress(PassCall, c.tally.Moved, c.job.Items)
	if j.more {
		c.waiting = false
	}
	return j.act(ctx)
}

// judging is what a few calls came to.
type judging struct {
	*calling
	now   time.Time
	rec   CallRecord
	tally Tally

	answered   bool
	refused    bool          // for being too fast
	retryAfter time.Duration // the longest that was asked for
	more       bool          // calls are due that were not before
	stop       error         // what stops every other call to the account
	bad        error         // something answered that is not the processor as configured
	damaged    UnreadableWorks
	noKey      string // a work whose text no key opens
}

// end judges one call.
func (j *judging) end(ctx context.Context, m *callMade) error {
	if m.unmade {
		j.rec.Ends = append(j.rec.Ends, j.back(m.call))
		return nil
	}
	j.tally.Seen++
	end := CallEnd{WorkID: m.call.Item.WorkID, Segment: m.call.Segment, Until: m.call.Until, Segments: m.segments, Result: m.result, Content: m.content}
	switch {
	case m.unread != nil:
		if err := j.unread(ctx, m, &end); err != nil {
			return err
		}
	case m.err != nil:
		j.failed(m, &end)
	}
	if m.err == nil && m.result != nil || batch.KindOf(m.err) == batch.Rejected {
		j.rejects(m.err != nil)
	}
	if end.Result != nil {
		j.answered = j.answered || m.err == nil && m.unread == nil
		j.more = j.more || end.Segments > 1
		j.tally.Moved++
	} else {
		j.tally.Failed++
	}
	j.rec.Ends = append(j.rec.Ends, end)
	return nil
}

// back makes a call due again that was not made.
func (j *judging) back(call ClaimedCall) CallEnd {
	return CallEnd{WorkID: call.Item.WorkID, Segment: call.Segment, Until: call.Until, Next: j.now, Unmade: true}
}

// failed says what becomes of a call that was not answered.
func (j *judging) failed(m *callMade, end *CallEnd) {
	end.Code = codeOf(m.err)
	j.retryAfter = max(j.retryAfter, batch.RetryAfter(m.err))
	switch batch.KindOf(m.err) {
	case batch.Rejected:
		end.Result = &batch.Result{Outcome: batch.ItemRejected, Code: end.Code}
	case batch.RateLimited:
		j.refused = true
		end.Next = j.now // the account's instant holds it back
	case batch.Denied, batch.OutOfCredit, batch.NotFound:
		j.stop, end.Next = m.err, j.now
	case batch.BadAnswer:
		if j.bad == nil || end.Code == codeOtherModel {
			j.bad = m.err
		}
		if end.Next = j.now; j.fresh && end.Code != codeOtherModel {
			j.fault(m, end) // the made-up text fared better, so that it may be the text's
		}
	default:
		j.fault(m, end)
	}
}

// fault counts a failure against a call. What the moment is to blame for ends by
// itself; so many of them are an answer.
func (j *judging) fault(m *callMade, end *CallEnd) {
	if m.call.Faults+1 >= j.r.Settings.CallFaults {
		end.Result = &batch.Result{Outcome: batch.ItemFailed, Code: end.Code}
		return
	}
	end.Fault = true
	end.Next = j.now.Add(max(callWait(&j.r.Settings, m.call.Faults), min(batch.RetryAfter(m.err), j.r.Settings.RetryCap)))
}

// codeOf is an error's code, or its kind when it has none.
func codeOf(err error) string {
	var e *batch.Error
	if errors.As(err, &e) && e.Code != "" {
		return foreign(batch.SafeCode(e.Code))
	}
	return string(batch.KindOf(err))
}

// unread says what becomes of a call whose text cannot be read: a damaged text
// gets an outcome, and where a key is missing or wrong the job waits.
func (j *judging) unread(ctx context.Context, m *callMade, end *CallEnd) error {
	end.Result, end.Segments = nil, max(m.segments, 1)
	damaged := errors.Is(m.unread, errNoText)
	if !damaged && j.proof.try(m.call.Item) {
		var err error
		if damaged, err = j.proof.ofKey(ctx, m.call.Item.Text.KeyID); err != nil {
			return err
		}
	}
	if damaged {
		end.Result = &batch.Result{Outcome: batch.BadShape, Code: string(faultText)}
		j.damaged = append(j.damaged, end.WorkID)
		return nil
	}
	j.noKey, end.Next, end.Unmade = end.WorkID, j.now.Add(j.r.Settings.SubmitRetry), true
	return nil
}

// adjust changes the account's bucket by what the processor said.
func (j *judging) adjust(b Bucket) (Bucket, bool) {
	had := b
	if j.answered && !j.refused {
		b.Refusals = 0
	}
	if j.refused || j.retryAfter > 0 {
		b = b.slow(&j.r.Settings, j.now, j.retryAfter, j.refused)
	}
	if b.NotBefore.After(j.now) {
		j.floor = b.NotBefore
	}
	return b, b != had
}

// act tells what a person must know, and stops what would fare no better. It
// comes behind the commit: what is told twice is counted, and what stops dispatch
// is met again.
func (j *judging) act(ctx context.Context) error {
	j.r.logEvents(j.rec.Findings...)
	if j.noKey != "" {
		j.halt(fmt.Errorf("the text of work %s cannot be read: %w", j.noKey, errNotSent))
	}
	var errs []error
	if j.stop != nil {
		j.shut = true
		kind, _ := brakeOf(j.stop)
		errs = append(errs, j.r.brake(ctx, j.now, kind, j.account.Name, evidenceOf(j.stop)))
	}
	if j.bad != nil {
		errs = append(errs, closedLane(j.astray(ctx)))
	}
	return errors.Join(errs...)
}

// astray stops what is called of the policy after an answer that no text is to
// blame for, and has each policy ask the made-up text first. The next texts would
// go to another model as well, so that a person has to decide about it.
func (j *judging) astray(ctx context.Context) error {
	j.doubt()
	j.rest = j.now.Add(j.r.Settings.SubmitRetry)
	if codeOf(j.bad) == codeOtherModel {
		j.shut = true
		return j.r.brake(ctx, j.now, EventAnotherModel, j.account.Name, evidenceOf(j.bad))
	}
	return j.close(ctx, j.now, j.bad)
}
