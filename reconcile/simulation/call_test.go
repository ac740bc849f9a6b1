package simulation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
)

// caller is a process's way to a processor without jobs. A text comes in
// segments, each of which is answered with itself; joined they are the text, of
// which the answer is made. So an answer that is joined with those of another
// text, or in another order, is seen.
type caller struct {
	*fake.Caller
	p     *process
	other bool // no policy names it: nothing may reach it
}

func (w *world) callersFor(p *process) []batch.Caller {
	if !w.calls() {
		return nil
	}
	var all []batch.Caller
	for _, name := range []string{"other", "main"} {
		c := &caller{p: p, other: name == "other"}
		c.Caller = fake.NewCaller(fake.CallerOptions{Account: accountNamed(name), Segment: w.segment, Answer: c.answer, Forget: true})
		all = append(all, c)
	}
	return all
}

func (c *caller) Probe(ctx context.Context, q *batch.Classifier) error {
	w := c.p.w
	if c.other {
		w.oracle.breach("a probe goes to an account that no policy names")
	}
	if way, failed := c.p.ask(ctx, "probe", "the account"); way != arrives {
		return failed
	}
	if !c.p.direct && w.strikes(probeFailed, "the account") {
		return &batch.Error{Op: "probe", Kind: batch.BadAnswer, Code: "no_severity"}
	}
	return c.p.answered("probe")
}

// Call is one call on its way there, at the processor, and on its way back.
func (c *caller) Call(ctx context.Context, q *batch.Classifier, customID string, segment batch.Text) (batch.Result, error) {
	w := c.p.w
	if c.other {
		w.oracle.breach("a call goes to an account that no policy names")
	}
	way, failed := c.p.ask(ctx, "call", customID)
	if way == lost {
		return batch.Result{}, failed
	}
	id := w.oracle.called(c.p, customID, segment.Reveal())
	res, err := c.Caller.Call(context.WithoutCancel(ctx), q, customID, segment)
	switch {
	case failed != nil:
		return batch.Result{}, failed
	case !c.p.direct && w.strikes(callUnheard, customID):
		return batch.Result{}, unknownOutcome("call", errCut)
	case err != nil:
		if e := (*batch.Error)(nil); errors.As(err, &e) && e.Kind == batch.RateLimited {
			w.oracle.calls.refused[id] = refusalOf(w.now, e.RetryAfter)
		}
		return batch.Result{}, err
	}
	if lost := c.p.answered("call"); lost != nil {
		return batch.Result{}, lost
	}
	return res, nil
}

// answer is what the processor makes of a call.
func (c *caller) answer(call fake.Call) (batch.Result, error) {
	w, work := c.p.w, workOf(call.CustomID)
	no := func(kind batch.Kind, status int, wait time.Duration) (batch.Result, error) {
		return batch.Result{}, &batch.Error{Op: "call", Kind: kind, HTTPStatus: status, RetryAfter: wait}
	}
	fails := func(f fault, o batch.Outcome, code string) (batch.Result, error) {
		w.oracle.calls.returns(work, f)
		return batch.Result{Outcome: o, Code: code, Model: "fake-1", InputTokens: 5}, nil
	}
	if !c.p.direct {
		switch {
		case w.strikes(callFailed, call.CustomID):
			return no(batch.Temporary, 503, 0)
		case w.strikes(callTooFast, call.CustomID):
			return no(batch.RateLimited, 429, 0)
		case w.strikes(callHeldBack, call.CustomID):
			return no(batch.RateLimited, 429, time.Duration(1+w.rng.IntN(60))*quantum)
		case w.strikes(callRefused, call.CustomID):
			w.oracle.calls.returns(work, callRefused)
			return no(batch.Rejected, 400, 0)
		case w.strikes(callDenied, call.CustomID):
			return no(batch.Denied, 401, 0)
		case w.strikes(itemFailed, call.CustomID):
			return fails(itemFailed, batch.ItemFailed, "server_error")
		case w.strikes(itemRefused, call.CustomID):
			return fails(itemRefused, batch.Refused, "")
		case w.strikes(itemTruncated, call.CustomID):
			return fails(itemTruncated, batch.Truncated, "length")
		case w.strikes(itemInvalid, call.CustomID):
			return fails(itemInvalid, batch.BadShape, "")
		case w.strikes(callCrossed, call.CustomID):
			w.oracle.calls.returns(work, callCrossed)
			return fake.Answer([]byte(crossed)), nil
		}
	}
	w.oracle.calls.returns(work, "")
	return fake.Answer([]byte(call.Text)), nil
}

// crossed stands for the answer to another text.
const crossed = "\x00"

// Join makes the answer to a text of the answers to its segments.
func (c *caller) Join(q *batch.Classifier, segments []batch.Result) batch.Result {
	joined := c.Caller.Join(q, segments)
	if joined.Outcome != batch.Answered {
		return joined
	}
	var text strings.Builder
	for _, s := range segments {
		text.Write(s.Content)
	}
	joined.Content = answer("spam", "words-of-another-report")
	if s := text.String(); !strings.Contains(s, crossed) && len(strings.Fields(s)) > 2 {
		joined.Content = answer(rightAnswer(s))
	}
	return joined
}

func workOf(customID string) string {
	work, _, _ := strings.Cut(customID, "-")
	return work
}

// segmentsOf are the pieces of a text in which it is called.
func (w *world) segmentsOf(text string) (parts []string) {
	for part := range slices.Chunk([]byte(text), w.segment) {
		parts = append(parts, string(part))
	}
	return parts
}
