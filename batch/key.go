package batch

import (
	"errors"
	"sync/atomic"
)

// CodeNoKey: the key can no longer be read, or is no key; nothing was sent.
const CodeNoKey = "no_key"

var errNoKey = errors.New("the account's key can no longer be read; the log names its place")

// Key is the key of an account, read anew for each call, so that a rotated one is
// taken up without a restart. It may be used by several goroutines.
type Key struct {
	read   func() string
	usable func(string) bool
	last   atomic.Pointer[string]
}

// NewKey returns a Key that read gives; what is not usable is none.
func NewKey(read func() string, usable func(string) bool) *Key {
	k := &Key{read: read, usable: usable}
	k.refresh()
	return k
}

func (k *Key) refresh() bool {
	v := k.read()
	if !k.usable(v) {
		return false
	}
	k.last.Store(&v)
	return true
}

// Check reads the key for a call. Denied, with CodeNoKey, when there is none: a
// call would be refused, and would have handed over its body.
func (k *Key) Check(op string) error {
	if !k.refresh() {
		return &Error{Op: op, Kind: Denied, Code: CodeNoKey, Cause: errNoKey}
	}
	return nil
}

// Checked is the key as the last successful Check found it.
func (k *Key) Checked() string {
	if v := k.last.Load(); v != nil {
		return *v
	}
	return ""
}

// Current is the key as it is now, or the last one while it cannot be read: an
// account is no other because a file is away.
func (k *Key) Current() string {
	k.refresh()
	return k.Checked()
}
