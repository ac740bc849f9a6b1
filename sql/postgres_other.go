//go:build !linux

package sql

import "syscall"

// setUserTimeout does nothing where there is no TCP_USER_TIMEOUT: a connection
// with data on its way then ends when the system gives up sending it again.
func setUserTimeout(string, string, syscall.RawConn) error { return nil }
