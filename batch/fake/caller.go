package fake

import (
	"context"
	"errors"
	"slices"
	"sync"

	"rollcall/batch"
)

// CallerOptions make a Caller. The zero value works.
type CallerOptions struct {
	Account batch.Account // default: processor "fake", name "caller", host "fake.invalid"
	Limits  batch.Limits
	// Segment is how many bytes of a text one call takes; 0 for any number.
	Segment int
	// Answer is what a call is answered with; nil is an answer {"label":"ok"}.
	// It is called without a lock held.
	Answer func(Call) (batch.Result, error)
	// Hook decides about a call as Hooks do. It is called without a lock held.
	Hook func(Call) (apply bool, err error)
	// Probe is what a probe comes to; nil is success.
	Probe func() error
	// Forget keeps no texts, for benchmarks.
	Forget bool
}

// Call is one call as the processor gets it.
type Call struct {
	CustomID string
	Text     string
	Nth      int // of this text, counted from 1
}

// Caller is a processor without jobs, in memory. It keeps books of its calls.
type Caller struct {
	o CallerOptions

	mu     sync.Mutex
	calls  map[string]int // by text
	total  int
	out    int
	most   int
	probes int
}

var _ batch.Caller = (*Caller)(nil)

// NewCaller returns a Caller that was never called.
func NewCaller(o CallerOptions) *Caller {
	if o.Account == (batch.Account{}) {
		o.Account = batch.Account{Processor: "fake", Name: "caller", Host: "fake.invalid", Fingerprint: "fake-caller"}
	}
	if o.Answer == nil {
		o.Answer = func(Call) (batch.Result, error) { return Answer([]byte(`{"label":"ok"}`)), nil }
	}
	return &Caller{o: o, calls: map[string]int{}}
}

// Answer is the Result of a call that is answered.
func Answer(content []byte) batch.Result {
	return batch.Result{Outcome: batch.Answered, Content: content, Model: "fake-1", InputTokens: 100, OutputTokens: 10}
}

// Account returns the configured account.
func (c *Caller) Account() batch.Account { return c.o.Account }

// Capabilities returns those of a processor without jobs.
func (c *Caller) Capabilities() batch.Capabilities {
	return batch.Capabilities{
		Settlement: batch.SettleByRepeat, Limits: c.o.Limits,
		Classes: []batch.DataClass{batch.DataSynthetic, batch.DataPersonal, batch.DataHealth},
	}
}

// Split cuts a text every Segment bytes.
func (c *Caller) Split(_ *batch.Classifier, text batch.Text) ([]batch.Text, error) {
	if c.o.Segment <= 0 || len(text.Reveal()) <= c.o.Segment {
		return []batch.Text{text}, nil
	}
	var out []batch.Text
	for part := range slices.Chunk([]byte(text.Reveal()), c.o.Segment) {
		out = append(out, batch.NewText(string(part)))
	}
	return out, nil
}

// Call answers as the options say, and keeps books.
func (c *Caller) Call(ctx context.Context, _ *batch.Classifier, customID string, segment batch.Text) (batch.Result, error) {
	call := Call{CustomID: customID, Text: segment.Reveal()}
	c.mu.Lock()
	c.total++
	c.out++
	c.most = max(c.most, c.out)
	if !c.o.Forget {
		c.calls[call.Text]++
		call.Nth = c.calls[call.Text]
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.out--
	}()
	apply, err := ask(c.o.Hook, call)()
	if !apply && err != nil {
		return batch.Result{}, asCallError(err)
	}
	res, answerErr := c.o.Answer(call)
	switch {
	case err != nil:
		return batch.Result{}, asCallError(err)
	case answerErr != nil:
		return batch.Result{}, asCallError(answerErr)
	case ctx.Err() != nil:
		return batch.Result{}, &batch.Error{Op: "call", Kind: batch.UnknownOutcome, Cause: ctx.Err()}
	}
	res.CustomID = customID
	return res, nil
}

func asCallError(err error) error {
	var e *batch.Error
	if errors.As(err, &e) {
		return err
	}
	return &batch.Error{Op: "call", Kind: batch.UnknownOutcome, Cause: err}
}

// Join is Answered with the content of the first segment when all segments are,
// and the first one that is not otherwise. Tokens are added up.
func (c *Caller) Join(_ *batch.Classifier, segments []batch.Result) batch.Result {
	if len(segments) == 0 {
		return batch.Result{Outcome: batch.BadShape}
	}
	joined := segments[0]
	for _, s := range segments[1:] {
		joined.InputTokens += s.InputTokens
		joined.OutputTokens += s.OutputTokens
		if joined.Outcome == batch.Answered && s.Outcome != batch.Answered {
			joined.Outcome, joined.Code, joined.Content = s.Outcome, s.Code, nil
		}
	}
	return joined
}

// Probe succeeds, or does what the options say.
func (c *Caller) Probe(context.Context, *batch.Classifier) error {
	c.mu.Lock()
	c.probes++
	c.mu.Unlock()
	if c.o.Probe == nil {
		return nil
	}
	if err := c.o.Probe(); err != nil {
		return asCallError(err)
	}
	return nil
}

// Called is how often a segment with this text was called.
func (c *Caller) Called(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[text]
}

// Total is how many calls there were, and the most that were on their way at once.
func (c *Caller) Total() (calls, atOnce int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total, c.most
}

// Probes is how many probes there were.
func (c *Caller) Probes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.probes
}
