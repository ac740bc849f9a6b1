package anthropic

import (
	"errors"
	"net/http"
	"strings"

	"rollcall/batch"
)

// Codes of this adapter, in the place of a provider's code.
const (
	// CodeBodySize: the body was not as long as announced; nothing was made.
	CodeBodySize = "body_size_mismatch"
	// CodeTooLarge: the body was over the limit of the API or of what is in
	// front of it. Fewer requests in a job may pass.
	CodeTooLarge = "request_too_large"
	// CodeTemperature: the version of the API takes no temperature. The policy's
	// classifier must not state one.
	CodeTemperature = "temperature_not_supported"

	codeInvalidID = "invalid_id"
	codeNoFiles   = "no_files"
	codeNoBody    = "body_missing"
)

var (
	errShape     = errors.New("answer is not in the documented shape")
	errList      = errors.New("the list contradicts itself")
	errWorkspace = errors.New("answer is of another workspace than the configured one")
)

// fault is a documented error envelope, without its prose.
type fault struct {
	known bool // false: the body was no such envelope
	class string
	code  string // error.details.error_code, which tells some classes apart
}

// word is the code to show: the finer one, else the class.
func (f fault) word() string {
	if f.code != "" {
		return batch.SafeCode(f.code)
	}
	return batch.SafeCode(f.class)
}

// outOfCredit knows the class for money, and a code that names a spend limit: the
// one of the tier is documented, with 429. For a limit that the operator set
// himself nothing but 400 invalid_request_error is promised, without a code, as
// for any request that is wrong: such a create is Rejected, nothing exists of it,
// and it is told from a fault of the body only by the next ones that fare alike.
func (f fault) outOfCredit() bool {
	return f.class == "billing_error" || strings.Contains(f.code, "spend_limit") || strings.HasPrefix(f.code, "billing_")
}

// onHold knows the codes that are about the organisation and not the request,
// although they come with 400.
func (f fault) onHold() bool {
	switch f.code {
	case "organization_on_hold", "cmek_key_disabled", "workspace_human_review_disabled":
		return true
	}
	return false
}

// createKind judges an answer to a create that is not 2xx. Only what is
// documented as a refusal is a refusal, and each is proof that no job exists.
//
//	400 401 402 403 404 with an error envelope   refused
//	the same without one                         unknown: an edge may have answered for a server that acted
//	413                                          refused, in any form: it comes from the edge, before the API
//	429                                          refused, in any form: a limiter speaks before the server acts
//	3xx                                          unknown: none is documented
//	408, 409, 5xx (529 too) and all else         unknown
func createKind(status int, f fault) batch.Kind {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound:
		if !f.known {
			return batch.UnknownOutcome
		}
	case http.StatusRequestEntityTooLarge:
		return batch.Rejected
	case http.StatusTooManyRequests:
	default:
		return batch.UnknownOutcome
	}
	switch {
	case f.outOfCredit(), status == http.StatusPaymentRequired:
		return batch.OutOfCredit
	case status == http.StatusTooManyRequests:
		return batch.RateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden, f.onHold():
		return batch.Denied
	}
	return batch.Rejected
}

// readKind judges an answer to a call that may be repeated: not 200.
func readKind(status int, f fault) batch.Kind {
	switch {
	case status < 400:
		return batch.BadAnswer
	case f.outOfCredit(), status == http.StatusPaymentRequired:
		return batch.OutOfCredit
	case status == http.StatusTooManyRequests:
		return batch.RateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden, f.onHold():
		return batch.Denied
	case status == http.StatusNotFound, status == http.StatusGone:
		return batch.NotFound
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500:
		return batch.Temporary
	}
	return batch.Rejected
}

// checkKind is readKind, where no object of ours is asked for: what is not found
// is the model, or the path.
func checkKind(status int, f fault) batch.Kind {
	kind := readKind(status, f)
	if kind == batch.NotFound {
		return batch.Rejected
	}
	return kind
}
