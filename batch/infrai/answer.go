package infrai

import (
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"rollcall/batch"
	"rollcall/batch/transport"
)

var errShape = errors.New("answer is not in the pinned shape")

// answer is an answer to a call, whatever its status.
type answer struct {
	status     int
	body       []byte
	err        error // why body is not whole
	retryAfter time.Duration
}

func (c *Client) read(resp *http.Response) *answer {
	a := c.meta(resp)
	a.body, a.err = io.ReadAll(resp.Body)
	return a
}

// meta is the answer without its body.
func (c *Client) meta(resp *http.Response) *answer {
	return &answer{status: resp.StatusCode, retryAfter: transport.RetryAfter(resp.Header, c.cfg.Now)}
}

// envelope is what every native answer is in. Its prose is left where it is.
type envelope struct {
	read      bool // it is an object of JSON
	ok        any
	data      any
	fault     any // the member error
	requestID string
}

func (a *answer) envelope() envelope {
	var root map[string]any
	if json.Unmarshal(a.body, &root) != nil || root == nil {
		return envelope{}
	}
	id, _ := lookup(root, "metadata.request_id").(string)
	return envelope{read: true, ok: root["ok"], data: root["data"], fault: root["error"], requestID: batch.SafeCode(id)}
}

// refusal is why an answer of 2xx is none, or "". A missing ok or data is a
// fault of the protocol, and not an empty result.
func (e envelope) refusal() string {
	switch {
	case !e.read:
		return codeNoEnvelope
	case e.ok == any(false):
		if code := e.code(); code != "" {
			return code
		}
		return codeOKFalse
	case e.ok != any(true), e.data == nil, e.fault != nil:
		return codeNoEnvelope
	}
	return ""
}

func (e envelope) code() string {
	code, _ := lookup(e.fault, "code").(string)
	return batch.SafeCode(code)
}

// known: the provider itself says that it refuses. An edge's page is not that,
// and neither is an error that claims success.
func (e envelope) known() bool {
	_, isObject := e.fault.(map[string]any)
	message, _ := lookup(e.fault, "message").(string)
	return isObject && e.ok != any(true) && (e.code() != "" || message != "")
}

// final: the error says that another try is of no use. The opposite is not
// believed: it would make an unknown refusal a reason to send again.
func (e envelope) final() bool { return lookup(e.fault, "retryable") == any(false) }

func (a *answer) requestID() string { return a.envelope().requestID }

// error is what a method returns about this answer. It keeps no prose.
func (a *answer) error(op string, kind batch.Kind, cause error) *batch.Error {
	return &batch.Error{Op: op, Kind: kind, HTTPStatus: a.status, RequestID: a.requestID(), Cause: cause}
}

func (a *answer) coded(op string, kind batch.Kind, code string) *batch.Error {
	e := a.error(op, kind, nil)
	e.Code = code
	return e
}

// fault reads the error and lets kind judge it.
func (a *answer) fault(op string, kind func(status int, e envelope) batch.Kind) *batch.Error {
	e := a.envelope()
	code := e.code()
	if e.ok == any(true) {
		code = codeOKTrue
	}
	out := a.coded(op, kind(a.status, e), code)
	out.RetryAfter = a.retryAfter
	return out
}

// createKind judges an answer to a create that is not 2xx.
//
//	4xx in the provider's envelope   refused, for good
//	402 likewise                     the one wallet is empty; nothing fills it from here
//	429                              refused, with an envelope or without: a limiter speaks before the server acts
//	408, 409, 425                    unknown: what a key that is known with another body, or is in use, gives is not documented
//	4xx otherwise, ok: true          unknown: an edge may have answered for a server that acted
//	3xx, 5xx                         unknown
func createKind(status int, e envelope) batch.Kind {
	switch {
	case status == http.StatusTooManyRequests && e.ok != any(true):
		return batch.RateLimited
	case status < 400 || status > 499, !e.known(), retriable(status):
		return batch.UnknownOutcome
	case status == http.StatusPaymentRequired:
		return batch.OutOfCredit
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return batch.Denied
	}
	return batch.Rejected
}

// readKind judges an answer to a call that may be repeated: not 200.
func readKind(status int, e envelope) batch.Kind {
	switch {
	case status < 400, e.ok == any(true):
		return batch.BadAnswer
	case status == http.StatusPaymentRequired:
		return batch.OutOfCredit
	case status == http.StatusTooManyRequests:
		return batch.RateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return batch.Denied
	case status == http.StatusNotFound, status == http.StatusGone:
		return batch.NotFound
	case retriable(status):
		return batch.Temporary
	}
	return batch.Rejected
}

// retriable is true for statuses that speak of the moment, not the request.
func retriable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// readFault is the kind of a read that got no answer, or not all of it.
func readFault(err error) batch.Kind {
	if errors.Is(err, transport.ErrEncoded) || errors.Is(err, transport.ErrTooLarge) {
		return batch.BadAnswer
	}
	return batch.Temporary
}

// phase compares words as they are: none is taken for another.
func (s States) phase(state string) (p batch.Phase, known bool) {
	switch {
	case slices.Contains(s.Pending, state):
		return batch.PhaseRunning, true
	case slices.Contains(s.all(), state):
		return batch.PhaseEnded, true
	}
	return batch.PhaseRunning, false
}

// count is a whole number at a path; 0 when there is none.
func count(data any, path string) int64 {
	if path == "" {
		return 0
	}
	f, ok := lookup(data, path).(float64)
	if !ok || f != math.Trunc(f) || f < 0 || f > 1<<53 {
		return 0
	}
	return int64(f)
}
