// Package transport is the one HTTP transport that all provider clients share.
//
// Report text leaves the process through this package and nowhere else, so it
// is strict: one host, over TLS, at addresses that are not inside somebody's
// network; no proxy, no redirect, no cookie, no second try of anything but a
// GET. It tells a request that provably never left from one that may have been
// carried out, because for a call that creates a job that is the difference
// between sending it again and looking for it first.
package transport
