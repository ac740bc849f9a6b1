// Package inhouse speaks the chat completions of a server of one's own, such as
// vLLM, the server of llama.cpp, or Ollama: one text a call, and nothing is kept.
//
// Such a server may ignore what it is asked for, with HTTP 200: a schema, the
// end of a prompt that is too long, the name of a model. Probe and Call look for
// each, since no error will tell.
package inhouse

import (
	"context"
	"net/http"

	"rollcall/batch"
	"rollcall/batch/post"
)

// Codes of this adapter, in the place of a provider's code.
const (
	// CodeOtherModel: another model answered than was asked for, or the answer
	// names none. A server that has one model only may say so whatever it is
	// asked: write its name into the classifier, as answers_as.
	CodeOtherModel = "other_model"
	// CodeContextCut: the server read fewer tokens than the request must have,
	// so that the answer is not about the whole text.
	CodeContextCut = "context_truncated"
	// CodeSchemaIgnored: the server answered the test question in its own words.
	CodeSchemaIgnored = "schema_ignored"
	// CodeTextTooLong: the text is longer than MaxText.
	CodeTextTooLong = "text_too_long"

	codeInvalidClassifier = "invalid_classifier"
)

// Client is one server. It may be used by several goroutines.
type Client struct {
	cfg  Config
	key  *batch.Key // nil for a server that asks for none
	wire *post.Client
}

var _ batch.Caller = (*Client)(nil)

const processor = "inhouse"

// Account returns the account without a call. A key of a server of one's own is
// no account, so the fingerprint is of the address.
func (c *Client) Account() batch.Account {
	return batch.Account{
		Processor: processor, Name: c.cfg.Name, Host: c.wire.Host(), Region: c.cfg.Region,
		Fingerprint: batch.Fingerprint(c.cfg.FingerprintKey, processor, c.wire.Host(), c.wire.Path()),
	}
}

// Capabilities: on this machine and in the permitted ranges, which are private
// ones and the only ones that are called then, nothing is kept and no third party
// sees a text. Of a host with a public address nobody can know that.
func (c *Client) Capabilities() batch.Capabilities {
	classes := []batch.DataClass{batch.DataSynthetic, batch.DataPersonal}
	if c.cfg.AllowLoopback || len(c.cfg.PermittedRanges) > 0 {
		classes = append(classes, batch.DataHealth, batch.DataUnstored)
	}
	return batch.Capabilities{Settlement: batch.SettleByRepeat, Classes: classes}
}

// Split is the text as it is: a model must see all of it to answer.
func (c *Client) Split(_ *batch.Classifier, text batch.Text) ([]batch.Text, error) {
	if c.cfg.MaxText > 0 && text.Len() > c.cfg.MaxText {
		return nil, &batch.Error{Op: "split", Kind: batch.Rejected, Code: CodeTextTooLong}
	}
	return []batch.Text{text}, nil
}

// Join is the result of the one segment.
func (c *Client) Join(_ *batch.Classifier, segments []batch.Result) batch.Result {
	r, ok := post.Join(segments)
	if ok && len(segments) > 1 { // Split makes no such segments
		r.Outcome, r.Content = batch.BadShape, nil
	}
	return r
}

// Call asks about a text. The answer is not judged here. BadAnswer, when another
// model answered: what it says is no answer to this classifier, and no later
// text will fare better.
func (c *Client) Call(ctx context.Context, cl *batch.Classifier, customID string, segment batch.Text) (batch.Result, error) {
	const op = "call"
	body, ok := c.render(cl, customID, segment)
	if !ok {
		return batch.Result{}, &batch.Error{Op: op, Kind: batch.Rejected, Code: codeInvalidClassifier}
	}
	a, err := c.complete(ctx, op, body)
	if err != nil {
		return batch.Result{}, err
	}
	r := decode(a.Body)
	if !named(cl, r) {
		return batch.Result{}, a.Error(op, batch.BadAnswer, CodeOtherModel)
	}
	if r.Outcome == batch.Answered && !c.cfg.TrustContext && r.InputTokens > 0 && r.InputTokens < leastTokens(cl.Instructions, segment.Reveal()) {
		r.Outcome, r.Code, r.Content = batch.Truncated, CodeContextCut, nil
	}
	r.CustomID = customID
	return r, nil
}

// named is whether the model that a result names is one that was asked for. All
// of these servers name one; an answer that names none is of something else.
func named(cl *batch.Classifier, r batch.Result) bool {
	return cl.Approves(r.Model) && (r.Model != "" || r.Outcome != batch.Answered)
}

// complete makes the one call, and returns an answer with status 200.
func (c *Client) complete(ctx context.Context, op string, body []byte) (*post.Answer, error) {
	header := http.Header{}
	if c.key != nil {
		if err := c.key.Check(op); err != nil {
			return nil, err
		}
		header.Set("Authorization", "Bearer "+c.key.Checked())
	}
	a, err := c.wire.Send(ctx, op, post.Request{Path: "/chat/completions", Header: header, ContentType: "application/json", Body: body})
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, a.Fault(op)
	}
	return a, nil
}
