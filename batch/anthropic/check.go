package anthropic

import (
	"bytes"
	"context"
	"net/http"

	"github.com/go-json-experiment/json"

	"rollcall/batch"
	"rollcall/batch/line"
	"rollcall/batch/loose"
)

// canary is the made-up text that Check asks about, and canaryID stands for the
// custom id that its token is made of.
const (
	canary   = "This sentence was made up to try out a request. It is about nobody."
	canaryID = "check"
)

// Check tries the shape of the requests of cl with a made-up text, in one call
// that answers at once. A batch tells about a schema, a model or a length that
// the API does not take only when it has ended, for each of its requests.
//
// It is nil when the answer is one that a batch could use, with Echo one that
// repeats its token. It costs a little
// money and leaves no job, and may be called again. Anything but nil keeps the
// account from a first batch: Rejected is about the classifier, Denied and
// OutOfCredit about the account, BadAnswer, with the outcome or the stop reason
// in Code, about how the model answered.
func (c *Client) Check(ctx context.Context, cl *batch.Classifier) error {
	const op = "check"
	params, err := c.params(cl)
	if err != nil {
		return err
	}
	if err := c.key.Check(op); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	body := bytes.NewReader(line.NewFrame(params).Append(nil, canaryID, batch.NewText(canary)))
	resp, err := c.wire.Do(c.request(ctx, http.MethodPost, "/v1/messages", body), maxAnswer)
	if err != nil {
		return &batch.Error{Op: op, Kind: readFault(err), Cause: err}
	}
	defer resp.Body.Close()
	a := c.read(resp)
	switch {
	case a.status != http.StatusOK:
		return a.fault(op, checkKind)
	case a.err != nil:
		return a.error(op, readFault(a.err), a.err)
	}
	var m loose.Obj[wireMessage]
	if json.Unmarshal(a.body, &m) != nil {
		return a.error(op, batch.BadAnswer, errShape)
	}
	r := batch.Result{CustomID: canaryID}
	decodeMessage(&r, &m)
	if r = batch.Judge(cl, r); r.Outcome != batch.Answered {
		e := a.error(op, batch.BadAnswer, errShape)
		if e.Code = r.Code; e.Code == "" {
			e.Code = string(r.Outcome)
		}
		return e
	}
	return nil
}
