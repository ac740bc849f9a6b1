package reconcile

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"hash"
	"io"
)

// keptOfMalformed is how much of a line that cannot be used is kept, encrypted,
// for a person to look at.
const keptOfMalformed = 64 << 10

// rawLine is one line of a result file as received, without its line feed.
type rawLine struct {
	number int64  // from 1; blank lines count
	bytes  int64  // length of the whole line
	body   []byte // of a line that is too long only its beginning
	mac    string // of the whole line, with long only
	long   bool   // longer than the limit
	cut    bool   // the file ended here, without a line feed
}

// blank says whether there is nothing on the line. A provider's last line feed
// may stand twice; that is not a result.
func (l *rawLine) blank() bool {
	return !l.long && len(bytes.Trim(l.body, " \t\r")) == 0
}

// lineReader splits a result file on the byte 0x0A alone: a Unicode line
// separator is data. A line that is too long is read past in constant memory.
type lineReader struct {
	src    *bufio.Reader
	limit  int              // longest line in bytes
	newMAC func() hash.Hash // for a line that is too long to keep
	number int64
}

func newLineReader(src io.Reader, limit int, newMAC func() hash.Hash) *lineReader {
	return &lineReader{src: bufio.NewReaderSize(src, 64<<10), limit: limit, newMAC: newMAC}
}

// next is the next line, or io.EOF. Any other error means that the file was
// not read to its end, and is final.
func (r *lineReader) next() (rawLine, error) {
	if r.number == 0 {
		if err := r.skipMark(); err != nil {
			return rawLine{}, err
		}
	}
	r.number++
	line := rawLine{number: r.number}
	var digest hash.Hash
	for {
		part, err := r.src.ReadSlice('\n')
		if err == nil {
			part = part[:len(part)-1]
		}
		line.bytes += int64(len(part))
		if !line.long && len(line.body)+len(part) > r.limit {
			line.long, digest = true, r.newMAC()
			digest.Write(line.body)
			line.body = begin(line.body, part)
		} else if !line.long {
			line.body = append(line.body, part...)
		}
		if line.long {
			digest.Write(part)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && line.bytes == 0:
			return rawLine{}, io.EOF
		case err == io.EOF:
			line.cut = true
		case err != nil:
			return rawLine{}, err
		}
		if line.long {
			line.mac = hex.EncodeToString(digest.Sum(nil))
		}
		return line, nil
	}
}

// skipMark passes over one byte order mark at the start of the file. Anywhere
// else it is data.
func (r *lineReader) skipMark() error {
	head, err := r.src.Peek(3)
	if err != nil && err != io.EOF {
		return err
	}
	if bytes.Equal(head, []byte("\xEF\xBB\xBF")) {
		_, err := r.src.Discard(3)
		return err
	}
	return nil
}

// begin is what is kept of a line that is too long, in memory of its own: what
// was read of it so far may be megabytes.
func begin(body, part []byte) []byte {
	kept := append([]byte(nil), body[:min(len(body), keptOfMalformed)]...)
	return append(kept, part[:min(len(part), keptOfMalformed-len(kept))]...)
}
