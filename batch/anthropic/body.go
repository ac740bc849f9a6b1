package anthropic

import (
	"errors"
	"io"
	"strings"

	"rollcall/batch"
)

// The body of a create is one JSON object. Its list takes the place of the
// lines: the line feed between two lines becomes a comma, so that the length
// of the whole is known before the first line is written.
const (
	bodyHead = `{"requests":[`
	bodyTail = `]}`
)

var (
	errBodySize = errors.New("the body is not as long as announced")
	errStopped  = errors.New("the create has ended")
)

// source runs an Input's Write in a goroutine of its own and yields exactly
// Size bytes or an error. A body of another length must not look complete: the
// error breaks the request off before its last bytes, so that it is no JSON.
type source struct {
	size  int64
	r     *io.PipeReader
	done  chan struct{}
	err   error // of Write; to be read after done, as is whole
	whole bool  // Write handed over exactly Size bytes
}

func startSource(in batch.Input) *source {
	r, w := io.Pipe()
	s := &source{size: in.Size, r: r, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		lines := &joiner{w: w, left: in.Size}
		s.err = in.Write(lines)
		if s.err == nil {
			s.err = lines.end()
		}
		if lines.over {
			s.err = errBodySize
		}
		s.whole = s.err == nil
		w.CloseWithError(s.err) // nil is io.EOF
	}()
	return s
}

// body is the whole body of the request, and length is how long it is.
func (s *source) body() io.Reader {
	return io.MultiReader(strings.NewReader(bodyHead), s.r, strings.NewReader(bodyTail))
}

func (s *source) length() int64 { return int64(len(bodyHead)) + s.size + int64(len(bodyTail)) }

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
	w    io.Writer
	left int64
	feed bool // a line feed is held back
	over bool // more was written than was announced
	buf  []byte
}

func (j *joiner) Write(p []byte) (int, error) {
	if int64(len(p)) > j.left {
		j.over = true
		return 0, errBodySize
	}
	for done := 0; done < len(p); done += pieceSize {
		piece := p[done:min(done+pieceSize, len(p))]
		if err := j.piece(piece); err != nil {
			return done, err
		}
		j.left -= int64(len(piece))
	}
	return len(p), nil
}

// pieceSize bounds what is copied at once.
const pieceSize = 32 << 10

func (j *joiner) piece(p []byte) error {
	j.buf = j.buf[:0]
	if j.feed {
		j.buf = append(j.buf, ',')
	}
	from := len(j.buf)
	j.buf = append(j.buf, p...)
	for i, c := range j.buf[from:] {
		if c == '\n' {
			j.buf[from+i] = ','
		}
	}
	if j.feed = p[len(p)-1] == '\n'; j.feed {
		j.buf = j.buf[:len(j.buf)-1]
	}
	_, err := j.w.Write(j.buf)
	return err
}

// end writes the last line feed as it is: white space within the list.
func (j *joiner) end() error {
	if j.left != 0 {
		return errBodySize
	}
	if j.feed {
		j.feed = false
		_, err := j.w.Write([]byte{'\n'})
		return err
	}
	return nil
}
