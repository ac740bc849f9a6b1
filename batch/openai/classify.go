package openai

import (
	"net/http"
	"strings"

	"rollcall/batch"
)

// Codes of this adapter, in the place of a provider's code.
const (
	// CodeFileNotFound: the provider cannot find the input file (yet). It says
	// so at times about files that exist, and then takes them a little later.
	CodeFileNotFound = "input_file_not_found"
	// CodeBodySize: the body was not as long as announced; nothing was made.
	CodeBodySize = "body_size_mismatch"

	codeInvalidID       = "invalid_id"
	codeInvalidMetadata = "invalid_metadata"
	codeInvalidName     = "invalid_file_name"
	codeOtherFile       = "other_input_file"
	codeOtherMetadata   = "other_metadata"
)

// fault is a documented error envelope, without its prose.
type fault struct {
	known       bool // false: the body was no such envelope
	code, typ   string
	missingFile bool
}

// word is the code to show: the provider's code, else its type.
func (f fault) word() string {
	switch {
	case f.missingFile:
		return CodeFileNotFound
	case f.code != "":
		return batch.SafeCode(f.code)
	}
	return batch.SafeCode(f.typ)
}

func (f fault) outOfCredit() bool { return aboutMoney(f.code) || aboutMoney(f.typ) }

// aboutMoney knows the documented codes and the two families they belong to.
func aboutMoney(code string) bool {
	switch code {
	case "insufficient_quota", "credit_balance_exhausted":
		return true
	}
	return strings.HasPrefix(code, "billing_") || strings.Contains(code, "spend_limit")
}

// createKind judges an answer to a create that is not 2xx. Only what is
// documented as a refusal is a refusal, and each is proof that no job exists.
//
//	4xx of the list with an error envelope   refused
//	the same without one                     unknown: an edge may have answered for a server that acted
//	429                                      refused, with or without: a limiter speaks before the server acts
//	3xx                                      unknown: none is documented, and 303 means that something was done
//	408, 409, 5xx and all else               unknown
func createKind(status int, f fault) batch.Kind {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden,
		http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		if !f.known {
			return batch.UnknownOutcome
		}
	case http.StatusTooManyRequests:
	default:
		return batch.UnknownOutcome
	}
	switch {
	case f.missingFile:
		return batch.Temporary
	case f.outOfCredit(), status == http.StatusPaymentRequired:
		return batch.OutOfCredit
	case status == http.StatusTooManyRequests:
		return batch.RateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
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
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return batch.Denied
	case status == http.StatusNotFound, status == http.StatusGone:
		return batch.NotFound
	case retriable(status):
		return batch.Temporary
	}
	return batch.Rejected
}

// uploadKind is readKind, where no object is asked for.
func uploadKind(status int, f fault) batch.Kind {
	kind := readKind(status, f)
	if kind == batch.NotFound {
		return batch.Rejected
	}
	return kind
}

// retriable is true for statuses that speak of the moment, not the request.
func retriable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}
