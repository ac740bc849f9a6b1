package batch

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// MinFingerprintKey is how many bytes a key of Fingerprint has at least.
const MinFingerprintKey = 16

// Fingerprint is an Account's, made of parts that it does not reveal, none of
// which holds a zero byte. An adapter has the processor and the host among them.
func Fingerprint(key []byte, parts ...string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(parts, "\x00")))
	sum := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil))
	return strings.ToLower(sum[:26])
}

// ValidCustomID is whether s may be the custom id of a request, at every
// processor: 1 to 64 of [A-Za-z0-9_-].
func ValidCustomID(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
