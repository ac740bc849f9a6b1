package transport

import (
	"errors"
	"net/url"
	"strings"
)

// ParseBase reads the base URL of an account: scheme, host and path, and nothing
// else. The host comes in lower case, since it is part of who the account is,
// and the path without a slash at its end. The URL itself stays out of the
// errors: people put keys into URLs.
func ParseBase(s string) (*url.URL, error) {
	base, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("base URL: not a URL")
	}
	if base.User != nil || base.RawQuery != "" || base.Fragment != "" || base.Opaque != "" || base.Host == "" {
		return nil, errors.New("base URL: want scheme, host and path only")
	}
	base.Host = strings.ToLower(base.Host)
	base.Path = strings.TrimRight(base.Path, "/")
	return base, nil
}

// HeaderSafe is true for a value that a header may carry as it is: visible ASCII,
// and not empty.
func HeaderSafe(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return s != ""
}

// PathSafe is true for a provider's id that may stand in a path: at most 128 of
// [A-Za-z0-9_.-], the first one a letter or a digit.
func PathSafe(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}
