// Package webhook tells a genuine webhook from a forged one, by the rules of
// Standard Webhooks 1.0.0 with symmetric keys (signatures of version v1). It
// knows nothing of what a webhook says.
//
// What is signed is the id, the time and the body as they were received, so the
// body must be looked at as raw bytes, before anything parses it. A genuine
// request may come again: within the tolerance whoever saw it can repeat it, and
// the sender itself repeats what it takes for undelivered, under the same id and
// with a new time, for days. Whoever acts on a webhook must therefore either keep
// the ids, for longer than the sender repeats, or do nothing that may not be done
// twice.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a signed request.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const (
	// DefaultTolerance is how far the sender's time and ours may be apart.
	DefaultTolerance = 5 * time.Minute
	// MaxSignatures is how many signatures one request may carry: of several keys
	// while they are rotated, and of versions that are passed over.
	MaxSignatures = 16

	maxID           = 256
	maxTimestamp    = 12 // digits
	version         = "v1,"
	secretPrefix    = "whsec_"
	minKey, maxKey  = 24, 64 // bytes
	signatureLength = 44     // of 32 bytes in base64
)

// Refusal is why a request is not taken for genuine: an error that holds nothing of
// the request, and whose words may be counted. The sender must not be told which.
type Refusal string

// The refusals.
const (
	Unsigned  Refusal = "unsigned"  // one of the headers is missing, or stands there twice
	Malformed Refusal = "malformed" // a header does not have its form
	Stale     Refusal = "stale"     // it was signed too long ago
	Future    Refusal = "future"    // it was signed too far ahead: one of the clocks is wrong
	Forged    Refusal = "forged"    // no signature is of one of the keys
	TooLarge  Refusal = "too_large" // the body is longer than the limit
	Encoded   Refusal = "encoded"   // the body is compressed, by the sender or a proxy; what was signed is not what came
	Cut       Refusal = "cut"       // the body did not come whole, or not in time
)

// Error makes it one.
func (r Refusal) Error() string { return "the webhook is refused: " + string(r) }

// Key is a secret that signs. It cannot be printed; the zero Key signs nothing.
//
// The secret is behind a pointer, since fmt prints unexported fields without
// asking, and behind one to a string, since of other pointers it prints the target
// for a verb that does not suit.
type Key struct{ secret *string }

// ErrKey means that a text is no secret as senders show it. It does not hold the
// text.
var ErrKey = errors.New("must be whsec_ and the base64 of 24 to 64 bytes, as the sender shows it once, with nothing before or behind it")

// ParseKey reads a secret as senders show it: whsec_ and base64. Nothing is
// guessed. A secret without the prefix would be raw text for one sender and
// base64 for another, and an empty one would let anybody sign.
func ParseKey(s string) (Key, error) {
	text, ok := strings.CutPrefix(s, secretPrefix)
	if !ok || strings.ContainsAny(text, "\r\n") { // which the decoder passes over
		return Key{}, ErrKey
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < minKey || len(raw) > maxKey {
		return Key{}, ErrKey // the decoder's error would tell where it failed
	}
	return Key{new(string(raw))}, nil
}

// String tells nothing.
func (k Key) String() string { return "[webhook secret]" }

// GoString covers %#v.
func (k Key) GoString() string { return k.String() }

// MarshalText covers encoders.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// mac is over the text of the headers as received: a time that was read as a
// number and printed again may be other bytes.
func (k Key) mac(id, timestamp string, body []byte) []byte {
	m := hmac.New(sha256.New, []byte(*k.secret))
	_, _ = fmt.Fprintf(m, "%s.%s.", id, timestamp) // a hash takes everything
	_, _ = m.Write(body)
	return m.Sum(nil)
}

// Sign sets the three headers for a body. With several keys the request carries a
// signature of each, in their order, so that the receiver may know any of them.
// A retry of one event has the same id and a new time. It is an error to have no
// key, or an id or a time that Verify would refuse.
func Sign(h http.Header, id string, at time.Time, body []byte, keys ...Key) error {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	if !validID(id) || !validTimestamp(timestamp) {
		return fmt.Errorf("sign a webhook: the id must be 1 to %d visible characters without a full stop, and the time within the years 1970 to 33658", maxID)
	}
	if len(keys) == 0 || len(keys) > MaxSignatures {
		return fmt.Errorf("sign a webhook: with 1 to %d keys, not %d", MaxSignatures, len(keys))
	}
	var signatures []string
	for _, k := range keys {
		if k.secret == nil {
			return errors.New("sign a webhook: one of the keys is none")
		}
		signatures = append(signatures, version+base64.StdEncoding.EncodeToString(k.mac(id, timestamp, body)))
	}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, timestamp)
	h.Set(HeaderSignature, strings.Join(signatures, " "))
	return nil
}

// Verifier knows the keys of one sender. It may be used by several goroutines.
type Verifier struct {
	// Keys are the sender's: the one in use, and while it is changed the one
	// before or behind it. Without any, everything is refused.
	Keys []Key
	// Now is the clock that the sender's time is compared with.
	Now func() time.Time
	// Tolerance is how far the two may be apart, in both directions; 0 is
	// DefaultTolerance. It is also for how long a genuine request can be repeated
	// by somebody else.
	Tolerance time.Duration
	// MaxBody is the longest body that Receive reads, in bytes.
	MaxBody int64
}

// Delivery is one attempt of a sender to hand over an event.
type Delivery struct {
	// ID is the event's, and the same for each attempt. It is at most 256 visible
	// ASCII characters, and otherwise whatever the sender likes.
	ID string
	// SentAt is when this attempt was signed, to the second.
	SentAt time.Time
	// Key is the index of the key that signed it: once it is no longer that of the
	// old one, the old one can go.
	Key int
}

// Verify says whether somebody with one of the keys signed the body, and when. It
// gives a Refusal otherwise. body must be the bytes as they were received.
func (v *Verifier) Verify(h http.Header, body []byte) (Delivery, error) {
	c, err := v.claimed(h)
	if err != nil {
		return Delivery{}, err
	}
	return v.prove(c, body)
}

// claim is what the headers of a request say.
type claim struct {
	id, timestamp string
	sentAt        time.Time
	signatures    [][]byte // of our version
}

// claimed reads the headers and judges the time, which needs no body.
func (v *Verifier) claimed(h http.Header) (claim, error) {
	var values [3]string
	for i, name := range []string{HeaderID, HeaderTimestamp, HeaderSignature} {
		all := h.Values(name)
		if len(all) != 1 || all[0] == "" {
			return claim{}, Unsigned
		}
		values[i] = all[0]
	}
	c := claim{id: values[0], timestamp: values[1]}
	if !validID(c.id) || !validTimestamp(c.timestamp) {
		return claim{}, Malformed
	}
	seconds, err := strconv.ParseInt(c.timestamp, 10, 64)
	if err != nil {
		return claim{}, Malformed
	}
	c.sentAt = time.Unix(seconds, 0).UTC()
	if c.signatures, err = signaturesOf(values[2]); err != nil {
		return claim{}, err
	}
	tolerance := v.Tolerance
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	switch now := v.Now(); {
	case c.sentAt.Before(now.Add(-tolerance)):
		return claim{}, Stale
	case c.sentAt.After(now.Add(tolerance)):
		return claim{}, Future
	}
	return c, nil
}

// validID excludes the full stop, which parts the id from the time in what is
// signed: with it, one signature would stand for several ids, times and bodies.
func validID(id string) bool {
	for _, b := range []byte(id) {
		if b <= ' ' || b > '~' || b == '.' {
			return false
		}
	}
	return id != "" && len(id) <= maxID
}

// validTimestamp excludes what a number may also be written as.
func validTimestamp(s string) bool {
	for _, b := range []byte(s) {
		if b < '0' || b > '9' {
			return false
		}
	}
	return s != "" && len(s) <= maxTimestamp
}

// signaturesOf lists the signatures of our version. Others, and those that cannot
// be one, are passed over: a sender may use several versions at once.
func signaturesOf(header string) ([][]byte, error) {
	entries := strings.SplitN(header, " ", MaxSignatures+1)
	if len(entries) > MaxSignatures {
		return nil, Malformed
	}
	var out [][]byte
	for _, e := range entries {
		text, ours := strings.CutPrefix(e, version)
		if !ours || len(text) != signatureLength {
			continue
		}
		if s, err := base64.StdEncoding.Strict().DecodeString(text); err == nil {
			out = append(out, s)
		}
	}
	return out, nil
}

// prove compares every signature with that of every key, and takes the same time
// wherever they differ and whichever matches.
func (v *Verifier) prove(c claim, body []byte) (Delivery, error) {
	key := -1
	for i, k := range v.Keys {
		if k.secret == nil {
			continue
		}
		want := k.mac(c.id, c.timestamp, body)
		match := 0
		for _, s := range c.signatures {
			match |= subtle.ConstantTimeCompare(s, want)
		}
		key = subtle.ConstantTimeSelect(match&subtle.ConstantTimeEq(int32(key), -1), i, key)
	}
	if key < 0 {
		return Delivery{}, Forged
	}
	return Delivery{ID: c.id, SentAt: c.sentAt, Key: key}, nil
}
