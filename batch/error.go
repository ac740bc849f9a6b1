package batch

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is why a call to a provider did not succeed. The set is closed: the
// passes choose what to do by Kind and by nothing else.
type Kind string

const (
	// Temporary: nothing was done or the call is a read; ask again later.
	Temporary Kind = "temporary"
	// RateLimited: as Temporary, with the provider's own waiting time.
	RateLimited Kind = "rate_limited"
	// Rejected: the provider refused this request, provably without acting
	// on it, and will refuse the same request again.
	Rejected Kind = "rejected"
	// Denied: the account may not do this (key, project, region). Nothing was
	// done. No other request of this account will fare better.
	Denied Kind = "denied"
	// OutOfCredit: the account's money or quota is used up. Nothing was done.
	OutOfCredit Kind = "out_of_credit"
	// NotFound: the provider does not know the object, or hides it from us.
	NotFound Kind = "not_found"
	// UnknownOutcome: the request may have been carried out. Only a look-up
	// can tell; sending it again would risk a second effect.
	UnknownOutcome Kind = "unknown_outcome"
	// BadAnswer: a read was answered with something that the contract does
	// not allow. Treated like Temporary, and shown to the operator.
	BadAnswer Kind = "bad_answer"
)

// Error is what every Provider method returns when it fails. It never holds a
// body, a key, a URL or report text: only the operation, the kind, the HTTP
// status and the provider's error code, reduced to a safe alphabet.
type Error struct {
	Op         string        // "create", "status", …
	Kind       Kind          //
	HTTPStatus int           // 0 when there was no answer
	Code       string        // the provider's machine-readable code, cleaned by SafeCode
	RetryAfter time.Duration // 0 when the provider did not say
	RequestID  string        // the provider's own reference for support, cleaned by SafeCode
	Cause      error         // a transport error without request data, or nil
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Op, e.Kind)
	if e.HTTPStatus != 0 {
		fmt.Fprintf(&b, ", HTTP %d", e.HTTPStatus)
	}
	if e.Code != "" {
		fmt.Fprintf(&b, ", code %s", e.Code)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, ", request %s", e.RequestID)
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Cause }

// KindOf is the Kind of err, or UnknownOutcome for an error that is not an
// *Error: what we do not recognise, we do not repeat.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return UnknownOutcome
}

// RetryAfter is the waiting time that the provider asked for, or 0.
func RetryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

const (
	maxCode = 64  // long enough for every documented code
	maxName = 128 // long enough for a fine-tuned model's name
)

// unprintable stands for a whole value that is not of its safe alphabet.
const unprintable = "unprintable"

// SafeCode reduces a string from a provider to something that may be logged
// and stored: at most 64 of [A-Za-z0-9_.-]. Anything else means that the
// provider put prose there, which could quote the request, so the whole value
// is replaced by "unprintable".
func SafeCode(s string) string { return safe(s, maxCode, "_.-") }

// SafeName is SafeCode for the names of models, such as "ft:gpt-4.1:org::id"
// and "org/model@2": at most 128 of [A-Za-z0-9_.:/@+-].
func SafeName(s string) string { return safe(s, maxName, "_.-:/@+") }

// safe is s when it is at most limit bytes of ASCII letters, digits and marks.
func safe(s string, limit int, marks string) string {
	if len(s) > limit {
		return unprintable
	}
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(marks, r):
		default:
			return unprintable
		}
	}
	return s
}
