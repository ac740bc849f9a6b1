package sandbox

import (
	"bufio"
	"io"
)

// maxLine bounds one request line, in bytes. The API states no such limit; this
// one keeps memory flat.
const maxLine = 32 << 20

// lineReader splits on the byte 0x0A and on nothing else.
type lineReader struct {
	r     *bufio.Reader
	buf   []byte
	start int64 // where the current line begins, in bytes
	size  int64 // its length without the line feed
	no    int   // its number, from 1
	next  int64
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 256<<10)}
}

// read returns the next line without its line feed, valid until the next call,
// or io.EOF. long is true, and the line empty, when it is over maxLine.
func (l *lineReader) read() (line []byte, long bool, err error) {
	l.buf = l.buf[:0]
	l.start, l.size = l.next, 0
	for {
		part, err := l.r.ReadSlice('\n')
		l.next += int64(len(part))
		l.size += int64(len(part))
		if l.size > maxLine {
			long, l.buf = true, l.buf[:0]
		} else {
			l.buf = append(l.buf, part...)
		}
		switch err {
		case nil:
			l.no++
			l.size--
			return trimFeed(l.buf), long, nil
		case bufio.ErrBufferFull:
		case io.EOF:
			if l.size == 0 {
				return nil, false, io.EOF
			}
			l.no++
			return l.buf, long, nil
		default:
			return nil, false, err
		}
	}
}

func trimFeed(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		return b[:n-1]
	}
	return b
}
