package sql_test

import (
	stdsql "database/sql"
	"net"
	"syscall"
	"testing"

	"rollcall/sql/sqltest"
)

// TestF46DeadServerIsNoticedByTheSocket: the kernel ends a connection whose
// other side is gone, with data on its way or without.
func TestF46DeadServerIsNoticedByTheSocket(t *testing.T) {
	l := sqltest.Open(t, "postgres")
	err := l.OnOneConn(t.Context(), func(_ *stdsql.Conn, socket net.Conn, _ int64) error {
		raw, err := socket.(*net.TCPConn).SyscallConn()
		if err != nil {
			return err
		}
		const tcpUserTimeout = 0x12
		for _, want := range []struct {
			name          string
			level, option int
			value         int
		}{
			{"SO_KEEPALIVE", syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
			{"TCP_KEEPIDLE", syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 15},
			{"TCP_KEEPINTVL", syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 15},
			{"TCP_KEEPCNT", syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 3},
			{"TCP_USER_TIMEOUT", syscall.IPPROTO_TCP, tcpUserTimeout, 30_000},
		} {
			var got int
			var failed error
			if err := raw.Control(func(fd uintptr) { got, failed = syscall.GetsockoptInt(int(fd), want.level, want.option) }); err != nil {
				return err
			}
			if failed != nil || got != want.value {
				t.Errorf("%s is %d, %v, want %d", want.name, got, failed, want.value)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
