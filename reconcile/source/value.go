package source

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// kind is the type of a field in the input.
type kind byte

const (
	kindMissing kind = iota
	kindNull
	kindBool
	kindNumber
	kindString
	kindObject
	kindArray
)

func (k kind) String() string {
	return [...]string{"missing", "null", "a boolean", "a number", "a string", "an object", "an array"}[k]
}

// value is one field of a row: a string decoded, anything else as written.
type value struct {
	kind    kind
	text    string
	damaged bool // the input was no valid Unicode here
}

func (v value) missing() bool { return v.kind == kindMissing || v.kind == kindNull }

// identity is a part of an identity: a string, or an integer by its digits. It
// is taken as it is: trimming or folding would make one report of two. An
// optional one may be missing or empty.
func (v value) identity(required bool) (s, reason string) {
	switch {
	case v.missing():
		if required {
			return "", "is missing"
		}
		return "", ""
	case v.kind == kindNumber && !isInteger(v.text):
		return "", "is a number with a fraction or an exponent; only strings and integers can be compared safely"
	case v.kind != kindNumber && v.kind != kindString:
		return "", "is " + v.kind.String() + ", not a string or an integer"
	case v.damaged:
		return "", "is not valid Unicode, so it cannot be told from others"
	case v.text == "" && required:
		return "", "is empty"
	case len(v.text) > identityBytes:
		return "", "is longer than " + strconv.Itoa(identityBytes) + " bytes"
	case strings.ContainsFunc(v.text, breaksLines):
		return "", "contains a control character or a line separator; ids stand in logs and on terminals"
	}
	return v.text, ""
}

func breaksLines(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

func isInteger(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// revision is a number, or the time of the edit in microseconds since 1970.
func (v value) revision() (n int64, reason string) {
	switch {
	case v.missing():
		return 1, ""
	case v.kind != kindNumber && v.kind != kindString:
		return 0, "is " + v.kind.String() + ", not a number or a time"
	}
	if isInteger(v.text) {
		n, err := strconv.ParseInt(v.text, 10, 64)
		if err != nil || n < 0 || n > MaxRevision {
			return 0, "is not between 0 and " + strconv.FormatInt(MaxRevision, 10)
		}
		return n, ""
	}
	t, err := time.Parse(time.RFC3339Nano, v.text)
	if err != nil || v.kind == kindNumber {
		return 0, "is neither an integer nor a time in the form of RFC 3339"
	}
	if t.Unix() < 0 {
		return 0, "is a time before 1970"
	}
	return t.UnixMicro(), ""
}

// flag is a truth value, false when it is missing.
func (v value) flag() (set bool, reason string) {
	if v.missing() {
		return false, ""
	}
	switch {
	case v.kind == kindObject || v.kind == kindArray:
	case v.text == "true" || v.text == "1":
		return true, ""
	case v.text == "false" || v.text == "0":
		return false, ""
	}
	return false, "is not true, false, 1 or 0"
}

// token is a short word. The ledger keeps it as plain text, so nothing that
// could be report text may get in.
func (v value) token() (s, reason string) {
	switch {
	case v.missing():
		return "", ""
	case v.kind != kindString:
		return "", "is " + v.kind.String() + ", not a string"
	case len(v.text) > 64 || strings.ContainsFunc(v.text, notInToken):
		return "", "is not a word of at most 64 letters, digits and any of / + . _ -"
	}
	return v.text, ""
}

func notInToken(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/+._-", r)
}
