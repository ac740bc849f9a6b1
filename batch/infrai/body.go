package infrai

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"strings"

	"rollcall/batch"
)

// The body of a submit is one JSON object. Its list takes the place of the
// lines: the line feed between two lines becomes a comma and the last one goes,
// so that the length of the whole is known before the first line is written.
//
// Metadata is not sent: nothing gives it back, and what an operator's restore
// changes in it would make a repeat another body.
func bodyHead(key string) string {
	return `{"batch_timeout":"24h","idempotency_key":"` + key + `","requests":[`
}

const bodyTail = "]}\n"

var (
	errBodySize  = errors.New("the body is not as long as announced")
	errBodyLines = errors.New("the body is not lines with one request each")
	errTooMany   = errors.New("the body has more items than one job may have")
	errOtherBody = errors.New("the body is not the one that went under this key before")
	errStopped   = errors.New("the create has ended")
)

// source runs an Input's Write in a goroutine of its own and yields the list's
// items or an error. What goes wrong breaks the request off before its last
// bytes, so that it is no JSON and shorter than announced.
type source struct {
	head string
	size int64 // of the list's items
	r    *io.PipeReader
	done chan struct{}

	// To be read after done.
	err   error
	whole bool
	items int
	sum   [sha256.Size]byte // of head and items
}

// startSource begins; want, unless it is zero, is the sum that the body must have.
func startSource(in *batch.Input, key string, want [sha256.Size]byte) *source {
	r, w := io.Pipe()
	s := &source{head: bodyHead(key), size: in.Size - 1, r: r, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		lines := &joiner{w: w, left: in.Size, sum: sha256.New()}
		io.WriteString(lines.sum, s.head)
		s.err = in.Write(lines)
		if s.err == nil {
			s.err = lines.end()
		}
		if lines.err != nil { // whatever Write made of it
			s.err = lines.err
		}
		s.items = lines.items
		lines.sum.Sum(s.sum[:0])
		if s.err == nil && want != [sha256.Size]byte{} && s.sum != want {
			s.err = errOtherBody
		}
		s.whole = s.err == nil
		w.CloseWithError(s.err) // nil is io.EOF
	}()
	return s
}

func (s *source) body() io.Reader {
	return io.MultiReader(strings.NewReader(s.head), s.r, strings.NewReader(bodyTail))
}

func (s *source) length() int64 { return int64(len(s.head)) + s.size + int64(len(bodyTail)) }

// stop ends Write if it still runs, waits for it, and returns its error unless
// stopping was the reason.
func (s *source) stop() error {
	s.r.CloseWithError(errStopped)
	<-s.done
	if errors.Is(s.err, errStopped) {
		return nil
	}
	return s.err
}

// joiner writes lines as the elements of a list. A line feed is held back until
// it is known whether a line follows it.
type joiner struct {
	w     io.Writer
	sum   hash.Hash
	left  int64
	items int
	feed  bool // a line feed is held back
	open  bool // a line has begun
	err   error
	buf   []byte
}

func (j *joiner) Write(p []byte) (int, error) {
	if j.err == nil && int64(len(p)) > j.left {
		j.err = errBodySize
	}
	for done := 0; j.err == nil && done < len(p); done += pieceSize {
		piece := p[done:min(done+pieceSize, len(p))]
		if err := j.piece(piece); err != nil {
			j.err = err
			return done, err
		}
		j.left -= int64(len(piece))
	}
	if j.err != nil {
		return 0, j.err
	}
	return len(p), nil
}

// pieceSize bounds what is copied at once.
const pieceSize = 32 << 10

func (j *joiner) piece(p []byte) error {
	j.buf = j.buf[:0]
	for len(p) > 0 {
		n := bytes.IndexByte(p, '\n')
		if n != 0 {
			if j.feed {
				j.buf = append(j.buf, ',')
			}
			j.feed, j.open = false, true
			if n < 0 {
				j.buf = append(j.buf, p...)
				break
			}
			j.buf = append(j.buf, p[:n]...)
		}
		if !j.open { // an empty line
			return errBodyLines
		}
		j.feed, j.open = true, false
		if j.items++; j.items > maxItems {
			return errTooMany
		}
		p = p[n+1:]
	}
	j.sum.Write(j.buf)
	_, err := j.w.Write(j.buf)
	return err
}

func (j *joiner) end() error {
	switch {
	case j.left != 0:
		return errBodySize
	case !j.feed:
		return errBodyLines
	}
	return nil
}
