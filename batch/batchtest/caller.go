package batchtest

import (
	"bytes"
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"

	"rollcall/batch"
)

// CallerSubject is one Caller and its far side, fresh.
type CallerSubject struct {
	Caller batch.Caller
	Server CallServer
	// Classifier is a question that the Caller can ask.
	Classifier *batch.Classifier
	// Secrets must appear in no error: the key, and what else is hidden.
	Secrets []string
	// Unreachable is a Caller of the same kind whose far side cannot be connected
	// to.
	Unreachable batch.Caller
	// Renews: the Caller calls with a token that it fetches itself, so that the
	// first refusal of one may be Temporary: the next one may be let in.
	Renews bool
	// NoEcho: what answers has no place for a token, and a classifier with Echo is
	// refused before a call.
	NoEcho bool
	// TooLong is a text that Split refuses; "" when it refuses none.
	TooLong string
}

// CallServer is the far side of a Caller as the suite drives it.
type CallServer interface {
	// Arm lets the next call of op meet f. It returns false when this server
	// cannot do so, and the check is skipped.
	Arm(op Op, f Fault) bool
	// Calls is how many calls of op have reached the server.
	Calls(op Op) int
	// Strayed is how many calls reached the host that Redirect points at.
	Strayed() int
}

// OpCall is a Call or a Probe, which look the same to a server.
const OpCall Op = "call"

// Faults of calls that ask a model, beside those of all.
const (
	Refusal    FaultKind = "refusal"        // it declines
	CutShort   FaultKind = "cut short"      // its answer hits a limit of length
	Filtered   FaultKind = "content filter" // a filter stops it
	OtherModel FaultKind = "other model"    // another one says that it answered
)

// RunCaller runs the suite of batch.Caller. Each check has a Subject of its own.
func RunCaller(t *testing.T, newSubject func(t *testing.T) CallerSubject) {
	for _, c := range []struct {
		name  string
		check func(*callHarness)
	}{
		{"account", callAccount},
		{"split", split},
		{"split of a long text", splitLong},
		{"call", call},
		{"call of a long text", callLong},
		{"call with a token", callEcho},
		{"call faults", callFaults},
		{"answers that are none", callShapes},
		{"answers of a model", callModel},
		{"nothing reachable", callUnreachable},
		{"cancelled context", callCancelled},
		{"several at once", callTogether},
		{"join", join},
		{"probe", probe},
		{"probe faults", probeFaults},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(newCallHarness(t, newSubject)) })
	}
}

// callHarness is one check with its subject; the harness in it knows how errors
// are judged.
type callHarness struct {
	*harness
	CallerSubject
	newSubject func(t *testing.T) CallerSubject
}

func newCallHarness(t *testing.T, newSubject func(t *testing.T) CallerSubject) *callHarness {
	t.Helper()
	s := newSubject(t)
	return &callHarness{&harness{T: t, Subject: Subject{Secrets: s.Secrets}}, s, newSubject}
}

func (h *callHarness) each(name string, check func(*callHarness)) {
	h.Helper()
	h.Run(name, func(t *testing.T) { check(newCallHarness(t, h.newSubject)) })
}

func (h *callHarness) arm(f Fault) {
	h.Helper()
	if !h.Server.Arm(OpCall, f) {
		h.Skipf("this server has no %q", f.Kind)
	}
}

// kinds are the kinds that an error under a fault may have.
func (h *callHarness) kinds(tc callFault) []batch.Kind {
	if h.Renews && tc.fault.Kind == Unauthorized {
		return []batch.Kind{tc.kind, batch.Temporary}
	}
	return []batch.Kind{tc.kind}
}

// calls is how many calls f makes.
func (h *callHarness) calls(f func()) int {
	before := h.Server.Calls(OpCall)
	f()
	return h.Server.Calls(OpCall) - before
}

func (h *callHarness) ask(ctx context.Context, text string) (batch.Result, error) {
	return h.Caller.Call(ctx, h.Classifier, items[0], batch.NewText(text))
}

// answer asks and wants an answer.
func (h *callHarness) answer(text string) batch.Result {
	h.Helper()
	r, err := h.ask(h.Context(), text)
	if err != nil {
		h.Fatalf("call: %v", err)
	}
	if r.Outcome != batch.Answered || len(r.Content) == 0 || r.CustomID != items[0] || r.InputTokens < 0 || r.OutputTokens < 0 {
		h.Fatalf("result %s, code %q, of %q with %d bytes", r.Outcome, r.Code, r.CustomID, len(r.Content))
	}
	if judged := batch.Judge(h.Classifier, r); judged.Outcome != batch.Answered {
		h.Fatalf("judged as %s, code %q", judged.Outcome, judged.Code)
	}
	return r
}

// callAccount: a Caller claims nothing about jobs, which it does not have.
func callAccount(h *callHarness) {
	a := h.Caller.Account()
	if a != h.Caller.Account() {
		h.Error("two calls, two accounts")
	}
	if a.Processor == "" || a.Name == "" || a.Host == "" || a.Fingerprint == "" {
		h.Errorf("incomplete account %+v", a)
	}
	for _, s := range h.Secrets {
		if strings.Contains(a.Fingerprint, s) || strings.Contains(a.Host, s) {
			h.Error("the account shows a secret")
		}
	}
	c := h.Caller.Capabilities()
	if c.Settlement != batch.SettleByRepeat || c.Handover != "" || c.Deletion != (batch.Deletion{}) || c.ResultsFor != 0 || c.Limits.KeyWindow != 0 {
		h.Errorf("capabilities of something with jobs: %+v", c)
	}
	if l := c.Limits; l.Items < 0 || l.Bytes < 0 || l.ItemBytes < 0 {
		h.Errorf("limits %+v", l)
	}
	if n := h.calls(func() {}); n != 0 || h.Server.Calls(OpCall) != 0 {
		h.Error("a call was made to say so")
	}
}

// longText is of many words, no two of which are the same, so that a piece of it
// stands in one place only. n is its length in bytes, about.
func longText(n int) string {
	b := []byte(Marker)
	for i := 0; len(b) < n; i++ {
		b = append(b, " wörd-"...)
		for k := i; k > 0; k /= 10 {
			b = append(b, byte('0'+k%10))
		}
	}
	return string(b)
}

func split(h *callHarness) {
	for _, text := range texts {
		segments, err := h.Caller.Split(h.Classifier, batch.NewText(text))
		if err != nil {
			h.fails(err, batch.Rejected)
			continue
		}
		if len(segments) != 1 || segments[0].Reveal() != text {
			h.Errorf("%q became %d pieces, or another text", text, len(segments))
		}
	}
	if h.TooLong != "" {
		segments, err := h.Caller.Split(h.Classifier, batch.NewText(h.TooLong))
		h.fails(err, batch.Rejected)
		if len(segments) != 0 {
			h.Errorf("%d pieces with an error", len(segments))
		}
	}
	if n := h.Server.Calls(OpCall); n != 0 {
		h.Errorf("%d calls were made to split", n)
	}
}

// splitLong: the pieces are the text, in order, and nothing between two of them
// is left out.
func splitLong(h *callHarness) {
	text := longText(100_000)
	first, err := h.Caller.Split(h.Classifier, batch.NewText(text))
	if err != nil {
		h.fails(err, batch.Rejected)
		return
	}
	second, err := h.Caller.Split(h.Classifier, batch.NewText(text))
	if err != nil || len(first) != len(second) || len(first) == 0 {
		h.Fatalf("%d pieces, then %d and %v", len(first), len(second), err)
	}
	end := 0
	for i, s := range first {
		piece := s.Reveal()
		at := strings.Index(text, piece)
		switch {
		case piece != second[i].Reveal():
			h.Errorf("piece %d is another one the second time", i)
		case piece == "" || at < 0:
			h.Fatalf("piece %d is none of the text", i)
		case at > end || at+len(piece) <= end:
			h.Errorf("piece %d is from %d to %d, after one that ends at %d", i, at, at+len(piece), end)
		}
		end = at + len(piece)
	}
	if end != len(text) {
		h.Errorf("the last piece ends at %d of %d", end, len(text))
	}
}

func call(h *callHarness) {
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue // whether an empty text is taken is up to the processor
		}
		if n := h.calls(func() { h.answer(text) }); n != 1 {
			h.Errorf("%q: %d calls", text, n)
		}
	}
	// It may be called again, and the question is not changed by it.
	before := *h.Classifier
	before.Schema = bytes.Clone(h.Classifier.Schema)
	a, b := h.answer(texts[0]), h.answer(texts[0])
	if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(before, *h.Classifier) {
		h.Error("the same call was answered otherwise, or the classifier was changed")
	}
}

// callLong: what Split makes, Call takes, and Join makes one answer of.
func callLong(h *callHarness) {
	segments, err := h.Caller.Split(h.Classifier, batch.NewText(longText(30_000)))
	if err != nil {
		h.fails(err, batch.Rejected)
		return
	}
	var results []batch.Result
	for _, s := range segments {
		results = append(results, h.answer(s.Reveal()))
	}
	r := h.Caller.Join(h.Classifier, results)
	if r = batch.Judge(h.Classifier, r); r.Outcome != batch.Answered || len(r.Content) == 0 || r.CustomID != items[0] {
		h.Errorf("joined to %s of %q with %d bytes", r.Outcome, r.CustomID, len(r.Content))
	}
}

// callFault is an error that a call meets, and what it is about.
type callFault struct {
	fault Fault
	kind  batch.Kind
}

var callFaultList = []callFault{
	{Fault{Kind: BadRequest}, batch.Rejected},
	{Fault{Kind: Unauthorized}, batch.Denied},
	{Fault{Kind: Payment}, batch.OutOfCredit},
	{Fault{Kind: Forbidden}, batch.Denied},
	{Fault{Kind: Missing}, batch.NotFound},
	{Fault{Kind: Conflict}, batch.Temporary},
	{Fault{Kind: TooMany}, batch.RateLimited},
	{Fault{Kind: TooMany, RetryAfter: wait}, batch.RateLimited},
	{Fault{Kind: TooManyDate, RetryAfter: wait}, batch.RateLimited},
	{Fault{Kind: ServerError}, batch.Temporary},
	{Fault{Kind: Busy}, batch.Temporary},
	{Fault{Kind: LostRequest}, batch.Temporary},
	{Fault{Kind: LostAnswer}, batch.Temporary},
	{Fault{Kind: GatewayPage}, batch.Temporary},
	{Fault{Kind: Torn}, batch.Temporary},
	{Fault{Kind: Redirect}, batch.BadAnswer},
}

// callFaults: each fault is of one kind, is met by one call (F22), and passes. A
// lost answer is one of the moment, because a repeat does no harm (F19).
func callFaults(h *callHarness) {
	for _, tc := range callFaultList {
		h.each(tc.fault.String(), func(h *callHarness) {
			h.answer(texts[0]) // a connection that could be used again
			h.arm(tc.fault)
			n := h.calls(func() {
				r, err := h.ask(h.Context(), texts[0])
				h.fails(err, h.kinds(tc)...)
				if got := batch.RetryAfter(err); got != tc.fault.RetryAfter {
					h.Errorf("waiting time %v, want %v", got, tc.fault.RetryAfter)
				}
				if !reflect.DeepEqual(r, batch.Result{}) {
					h.Errorf("a result with an error: %s", r.Outcome)
				}
			})
			if n != 1 || h.Server.Strayed() != 0 {
				h.Errorf("%d calls, %d of which went elsewhere", n, h.Server.Strayed())
			}
			h.answer(texts[0]) // it may be called again
		})
	}
}

// callShapes: an answer that is none is a result, and never an answer.
func callShapes(h *callHarness) {
	for _, fault := range []FaultKind{Blank, Page} {
		h.each(string(fault), func(h *callHarness) { h.answeredAs(fault, batch.BadShape) })
	}
}

// answeredAs: a call that meets fault has a result without content, and the next
// one is answered.
func (h *callHarness) answeredAs(fault FaultKind, want batch.Outcome) {
	h.Helper()
	h.arm(Fault{Kind: fault})
	r, err := h.ask(h.Context(), texts[0])
	if err != nil || r.Outcome != want || len(r.Content) != 0 || r.CustomID != items[0] {
		h.Errorf("%s of %q with %d bytes, %v", r.Outcome, r.CustomID, len(r.Content), err)
	}
	h.answer(texts[0])
}

// callModel: why a model did not answer is told apart, and that another one did
// is noticed.
func callModel(h *callHarness) {
	for fault, want := range map[FaultKind]batch.Outcome{Refusal: batch.Refused, CutShort: batch.Truncated, Filtered: batch.Blocked} {
		h.each(string(fault), func(h *callHarness) { h.answeredAs(fault, want) })
	}
	h.each(string(OtherModel), func(h *callHarness) {
		h.arm(Fault{Kind: OtherModel})
		_, err := h.ask(h.Context(), texts[0])
		h.fails(err, batch.BadAnswer)
		h.answer(texts[0])
	})
}

func callUnreachable(h *callHarness) {
	_, err := h.Unreachable.Call(h.Context(), h.Classifier, items[0], batch.NewText(Marker))
	h.fails(err, batch.Temporary)
	h.fails(h.Unreachable.Probe(h.Context(), h.Classifier), batch.Temporary)
}

func callCancelled(h *callHarness) {
	n := h.calls(func() {
		_, err := h.ask(cancelledContext(), texts[0])
		h.fails(err, batch.Temporary)
		h.fails(h.Caller.Probe(cancelledContext(), h.Classifier), batch.Temporary)
	})
	if n != 0 {
		h.Errorf("%d calls were made after the end", n)
	}
	h.answer(texts[0])
}

func callTogether(h *callHarness) {
	want := h.answer(texts[0])
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			r, err := h.ask(context.Background(), texts[0])
			if err != nil || !reflect.DeepEqual(r, want) {
				h.Errorf("at the same time: %s, %v", r.Outcome, err)
			}
			if _, err := h.Caller.Split(h.Classifier, batch.NewText(texts[0])); err != nil {
				h.Error(err)
			}
		})
	}
	wg.Wait()
}

// join: only answers make an answer.
func join(h *callHarness) {
	good := h.answer(texts[0])
	if r := h.Caller.Join(h.Classifier, []batch.Result{good}); !reflect.DeepEqual(r, good) {
		h.Errorf("one result became another: %s", r.Outcome)
	}
	for _, outcome := range []batch.Outcome{
		batch.Refused, batch.Blocked, batch.Truncated, batch.BadShape, batch.ItemRejected, batch.ItemFailed, batch.ItemDenied, batch.NotRun, batch.Unreadable,
	} {
		bad := batch.Result{CustomID: items[0], Outcome: outcome, Code: "why", InputTokens: 3, OutputTokens: 1}
		worse := batch.Result{CustomID: items[0], Outcome: batch.Cancelled, Code: "later"}
		for _, all := range [][]batch.Result{{bad}, {bad, good}, {good, bad}, {good, bad, worse, good}} {
			given := make([]batch.Result, len(all))
			for i, r := range all {
				given[i] = r
				given[i].Content = bytes.Clone(r.Content)
			}
			r := h.Caller.Join(h.Classifier, all)
			if r.Outcome != outcome || r.Code != "why" || len(r.Content) != 0 || r.CustomID != items[0] {
				h.Errorf("%d results, the first bad one %s, became %s, code %q, with %d bytes", len(all), outcome, r.Outcome, r.Code, len(r.Content))
			}
			if !reflect.DeepEqual(given, all) {
				h.Error("the results were changed")
			}
			var in, out int64
			for _, s := range all {
				in, out = in+s.InputTokens, out+s.OutputTokens
			}
			if r.InputTokens != in || r.OutputTokens != out {
				h.Errorf("%d and %d tokens, want %d and %d", r.InputTokens, r.OutputTokens, in, out)
			}
		}
	}
	if r := h.Caller.Join(h.Classifier, nil); r.Outcome == batch.Answered {
		h.Error("no segment is an answer")
	}
}

func probe(h *callHarness) {
	for range 2 {
		if err := h.Caller.Probe(h.Context(), h.Classifier); err != nil {
			h.Error(err)
		}
	}
}

// probeFaults: whatever goes wrong keeps the lane closed, and the next one may
// open it.
func probeFaults(h *callHarness) {
	for _, tc := range append(callFaultList[:len(callFaultList):len(callFaultList)], callFault{Fault{Kind: Blank}, batch.BadAnswer}, callFault{Fault{Kind: Page}, batch.BadAnswer}) {
		h.each(tc.fault.String(), func(h *callHarness) {
			h.arm(tc.fault)
			n := h.calls(func() { h.fails(h.Caller.Probe(h.Context(), h.Classifier), h.kinds(tc)...) })
			if n != 1 || h.Server.Strayed() != 0 {
				h.Errorf("%d calls, %d of which went elsewhere", n, h.Server.Strayed())
			}
			if err := h.Caller.Probe(h.Context(), h.Classifier); err != nil {
				h.Error(err)
			}
		})
	}
}
