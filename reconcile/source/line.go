package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// input is a stream that counts its bytes and lines. One byte order mark at
// its start is read past; anywhere else it is data.
type input struct {
	r       *bufio.Reader
	n       Counts
	started bool
}

func newInput(r io.Reader) *input { return &input{r: bufio.NewReaderSize(r, 64<<10)} }

func (in *input) start() error {
	if in.started {
		return nil
	}
	in.started = true
	head, err := in.r.Peek(len(byteOrderMark))
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read: %w", err)
	}
	if bytes.Equal(head, byteOrderMark) {
		in.n.Bytes += int64(len(head))
		_, err = in.r.Discard(len(head))
		return err
	}
	return nil
}

// lines splits a stream at byte 0x0A and nowhere else: U+2028 and its like are
// text.
type lines struct {
	*input
	limit int
	buf   []byte
}

// next is the next line without its end, valid until the next call. tooLong
// means that the line was read past. io.EOF ends the stream.
func (l *lines) next() (line []byte, tooLong bool, err error) {
	if err := l.start(); err != nil {
		return nil, false, err
	}
	l.buf = l.buf[:0]
	seen := false
	for {
		part, err := l.r.ReadSlice('\n')
		l.n.Bytes += int64(len(part))
		seen = seen || len(part) > 0
		part, ended := bytes.CutSuffix(part, []byte("\n"))
		// One byte more than the limit, for a CR before the end.
		if tooLong = tooLong || len(l.buf)+len(part) > l.limit+1; !tooLong {
			l.buf = append(l.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && !seen:
			return nil, false, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, false, fmt.Errorf("read behind line %d: %w", l.n.Lines, err)
		}
		l.n.Lines++
		line = l.buf
		if ended {
			line = bytes.TrimSuffix(line, []byte("\r"))
		}
		return line, tooLong || len(line) > l.limit, nil
	}
}
