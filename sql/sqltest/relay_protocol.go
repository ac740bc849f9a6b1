package sqltest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
)

// Protocol makes the Framer of a new connection.
type Protocol func() Framer

// Framer finds the messages in the two streams of a connection.
type Framer interface {
	// Request is the length of the request at the beginning of what the client
	// sent, and of its head; 0 while not all of it is there.
	Request(b []byte) (head, whole int)
	// Answer is the same of the answer in what the server sent since the request.
	Answer(b []byte) (head, whole int)
}

// Postgres is PostgreSQL's protocol without TLS. Each message of the client is a
// request; an answer lasts until the server is ready again.
func Postgres() Framer { return &postgresFramer{} }

// postgresFramer knows whether the connection is past its first message, which
// has no type.
type postgresFramer struct{ started bool }

const (
	postgresHead   = 5        // type and length
	sslRequest     = 80877103 // and the one behind it come before the first message
	gssRequest     = 80877104
	untypedHead    = 8
	readyForQuery  = 'Z'
	simpleQuery    = 'Q'
	lengthOfLength = 4
)

// Request implements Framer.
func (p *postgresFramer) Request(b []byte) (head, whole int) {
	if p.started {
		return postgresHead, message(b)
	}
	if len(b) < untypedHead {
		return 0, 0
	}
	n := int(binary.BigEndian.Uint32(b))
	if len(b) < n {
		return 0, 0
	}
	code := binary.BigEndian.Uint32(b[lengthOfLength:])
	p.started = code != sslRequest && code != gssRequest
	return untypedHead, n
}

// message is the length of a message that is all there.
func message(b []byte) int {
	if len(b) < postgresHead {
		return 0
	}
	if n := 1 + int(binary.BigEndian.Uint32(b[1:])); len(b) >= n {
		return n
	}
	return 0
}

// Answer implements Framer.
func (p *postgresFramer) Answer(b []byte) (head, whole int) {
	for {
		n := message(b[head:])
		switch {
		case n == 0:
			return 0, 0
		case b[head] == readyForQuery:
			return head, head + n
		}
		head += n
	}
}

// IsQuery says whether a request to PostgreSQL is this statement, sent alone.
func IsQuery(request []byte, statement string) bool {
	return len(request) > postgresHead && request[0] == simpleQuery && string(request[postgresHead:len(request)-1]) == statement
}

// HTTP is HTTP/1.1 without TLS.
func HTTP() Framer { return httpFramer{} }

type httpFramer struct{}

// Request implements Framer.
func (httpFramer) Request(b []byte) (head, whole int) {
	r := bufio.NewReader(bytes.NewReader(b))
	req, err := http.ReadRequest(r)
	if err != nil {
		return 0, 0
	}
	return httpMessage(b, r, req.Body)
}

// Answer implements Framer.
func (httpFramer) Answer(b []byte) (head, whole int) {
	r := bufio.NewReader(bytes.NewReader(b))
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, 0
	}
	return httpMessage(b, r, resp.Body)
}

// httpMessage reads a body to its end, if that is there.
func httpMessage(b []byte, r *bufio.Reader, body io.ReadCloser) (head, whole int) {
	defer body.Close()
	if _, err := io.Copy(io.Discard, body); err != nil {
		return 0, 0
	}
	left, err := io.Copy(io.Discard, r)
	if err != nil {
		return 0, 0
	}
	return bytes.Index(b, []byte("\r\n\r\n")) + len("\r\n\r\n"), len(b) - int(left)
}
