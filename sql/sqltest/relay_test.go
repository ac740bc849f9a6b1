package sqltest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"rollcall/sql/sqltest"
)

const (
	relayRequest = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n0123456789"
	relayAnswer  = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nabcdefgh"
)

// talk sends a request through a cut and returns what reached each side, and
// how the client's stream ended.
func talk(t *testing.T, cut *sqltest.Cut) (atServer, atClient string, end error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	relay := sqltest.NewCutter(t, l.Addr().String(), sqltest.HTTP)
	relay.Cut(cut)
	client, err := net.Dial("tcp", relay.HostPort())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	patience := time.Now().Add(10 * time.Second)
	if cut.Fault == sqltest.FaultStall || cut.Fault == sqltest.FaultTrickle {
		patience = time.Now().Add(300 * time.Millisecond)
	}
	_, _ = server.SetDeadline(patience), client.SetDeadline(patience)
	if _, err := io.WriteString(client, relayRequest); err != nil {
		t.Fatal(err)
	}
	received := make(chan string)
	go func() {
		got := make([]byte, len(relayRequest))
		n, _ := io.ReadFull(server, got)
		if n == len(got) {
			_, _ = io.WriteString(server, relayAnswer)
		}
		received <- string(got[:n])
	}()
	got := make([]byte, len(relayAnswer))
	n, end := io.ReadFull(client, got)
	if end == nil && !cut.Struck() {
		t.Errorf("the fault did not strike")
	}
	return <-received, string(got[:n]), end
}

// reaches says how many bytes each side gets when nothing passes behind the
// place, with At 0.
func reaches(p sqltest.Place) (server, client int) {
	head := strings.Index(relayRequest, "0123")
	answerHead := strings.Index(relayAnswer, "abcd")
	switch p {
	case sqltest.BeforeRequest:
		return 0, 0
	case sqltest.InHead:
		return 1, 0
	case sqltest.InBody:
		return head, 0
	case sqltest.BehindRequest, sqltest.BeforeAnswer:
		return len(relayRequest), 0
	case sqltest.InAnswerHead:
		return len(relayRequest), 1
	case sqltest.InAnswerBody:
		return len(relayRequest), answerHead
	}
	return len(relayRequest), len(relayAnswer)
}

func TestRelayCutsWhereItIsTold(t *testing.T) {
	for _, p := range sqltest.Places() {
		for _, f := range sqltest.Faults() {
			t.Run(fmt.Sprintf("%s, %s", p, f), func(t *testing.T) {
				t.Parallel()
				atServer, atClient, end := talk(t, &sqltest.Cut{Place: p, Fault: f})
				server, client := reaches(p)
				switch f {
				case sqltest.FaultSlow:
					server, client = len(relayRequest), len(relayAnswer)
				case sqltest.FaultTrickle: // as far as it comes
					server, client = max(server, len(atServer)), max(client, len(atClient))
				}
				if len(atServer) != server || len(atClient) != client {
					t.Errorf("%d and %d bytes arrived, want %d and %d", len(atServer), len(atClient), server, client)
				}
				if !strings.HasPrefix(relayRequest, atServer) || !strings.HasPrefix(relayAnswer, atClient) {
					t.Errorf("other bytes arrived: %q, %q", atServer, atClient)
				}
				if client < len(relayAnswer) {
					wantEnd(t, f, end)
				}
			})
		}
	}
}

// wantEnd holds that the client sees the end that the fault makes.
func wantEnd(t *testing.T, f sqltest.Fault, end error) {
	t.Helper()
	switch f {
	case sqltest.FaultClose:
		if !errors.Is(end, io.EOF) && !errors.Is(end, io.ErrUnexpectedEOF) {
			t.Errorf("the stream ended with %v", end)
		}
	case sqltest.FaultReset:
		if !strings.Contains(fmt.Sprint(end), "reset") {
			t.Errorf("the stream ended with %v", end)
		}
	case sqltest.FaultStall, sqltest.FaultTrickle:
		if !errors.Is(end, os.ErrDeadlineExceeded) {
			t.Errorf("the stream ended with %v", end)
		}
	}
}

func TestRelayAtChoosesTheByte(t *testing.T) {
	head, body := strings.Index(relayRequest, "0123"), 10
	for at, want := range map[float64]int{0: head, 0.5: head + body/2, 1: head + body - 1} {
		if got, _, _ := talk(t, &sqltest.Cut{Place: sqltest.InBody, Fault: sqltest.FaultClose, At: at}); len(got) != want {
			t.Errorf("at %g: %d bytes, want %d", at, len(got), want)
		}
	}
}

// The messages of PostgreSQL's protocol.
func TestPostgresFramer(t *testing.T) {
	f := sqltest.Postgres()
	ssl := []byte{0, 0, 0, 8, 4, 210, 22, 47}
	startup := []byte{0, 0, 0, 9, 0, 3, 0, 0, 0}
	commit := []byte("Q\x00\x00\x00\x0bCOMMIT\x00")
	done := []byte("C\x00\x00\x00\x0bCOMMIT\x00")
	ready := []byte{'Z', 0, 0, 0, 5, 'I'}
	for _, step := range []struct {
		name        string
		frame       func([]byte) (int, int)
		b           []byte
		head, whole int
	}{
		{"a request for TLS", f.Request, ssl, 8, 8},
		{"half a first message", f.Request, startup[:8], 0, 0},
		{"the first message", f.Request, startup, 8, 9},
		{"half a statement", f.Request, commit[:11], 5, 0},
		{"a statement and more", f.Request, bytes.Repeat(commit, 2), 5, 12},
		{"half an answer", f.Answer, done, 0, 0},
		{"an answer", f.Answer, append(bytes.Clone(done), ready...), 12, 18},
	} {
		if head, whole := step.frame(step.b); head != step.head || whole != step.whole {
			t.Errorf("%s: %d, %d; want %d, %d", step.name, head, whole, step.head, step.whole)
		}
	}
	if !sqltest.IsQuery(commit, "COMMIT") || sqltest.IsQuery(commit, "COMMI") || sqltest.IsQuery(done, "COMMIT") {
		t.Error("IsQuery does not tell")
	}
}
