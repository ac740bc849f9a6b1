package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table reads CSV with a header row.
//
// encoding/csv would not do: a quote that is never closed makes it read the
// rest of the stream into memory, and it rewrites CR LF within quotes, where
// it is the reporter's text.
type table struct {
	*input
	limit   int
	mapping *Mapping
	columns map[string]int // nil before the header was read
	row     cells
}

func newCSV(r io.Reader, limit int, m *Mapping) *table {
	return &table{input: newInput(r), limit: limit, mapping: m}
}

func (t *table) counts() Counts { return t.n }

func (t *table) next() (row, int64, int64, error) {
	if err := t.start(); err != nil {
		return nil, 0, 0, err
	}
	for {
		line := t.n.Lines + 1
		reason, err := t.scan()
		if err != nil {
			return nil, 0, 0, err
		}
		lines := t.n.Lines - line + 1
		switch {
		case reason == "" && t.row.blank():
			t.n.Blank += lines
		case t.columns == nil:
			t.n.Header = lines
			if err := t.header(reason); err != nil {
				return nil, 0, 0, err
			}
		case reason != "":
			return nil, 0, 0, &LineError{Line: line, Lines: lines, Reason: reason}
		case len(t.row.ends) != len(t.columns):
			return nil, 0, 0, &LineError{Line: line, Lines: lines,
				Reason: fmt.Sprintf("has %d fields where the header has %d", len(t.row.ends), len(t.columns))}
		default:
			return &t.row, line, lines, nil
		}
	}
}

// header takes the names of the columns. Without a usable one nothing behind it
// can be read.
func (t *table) header(reason string) error {
	if reason != "" {
		return fmt.Errorf("the CSV header %s", reason)
	}
	t.columns = map[string]int{}
	for i := range t.row.ends {
		name := string(t.row.cell(i))
		if _, twice := t.columns[name]; twice {
			return fmt.Errorf("the CSV header has column %d and an earlier one under the same name", i+1)
		}
		t.columns[name] = i
	}
	var absent []string
	for _, p := range Parts() {
		f := t.mapping.field(p)
		_, there := t.columns[f.Name]
		// A name that somebody chose must be there; the default ones may be absent.
		if needed := p == Tenant || p == System || p == Text && t.mapping.Media.Fixed == "" || f.Name != string(p); needed &&
			!there && f.Fixed == "" && f.Name != "" {
			absent = append(absent, f.Name)
		}
	}
	if absent != nil {
		return fmt.Errorf("the CSV header has no column %s", strings.Join(absent, ", "))
	}
	t.row.columns, t.row.text = t.columns, t.mapping.Text.Name
	return nil
}

// place is where the scanner is within a row.
type place byte

const (
	atField  place = iota // before the first byte of a field
	bare                  // in a field without quotes
	quoted                // between quotes
	closed                // behind a quote that closes the field, or is the first of two
	closedCR              // behind a CR behind that
	broken                // in the rest of a line that is refused
)

// scan reads one row, and says why it is none. Memory is bounded by the limit.
// A broken row ends at the end of the line that breaks it.
func (t *table) scan() (reason string, err error) {
	t.row.buf, t.row.ends, t.row.quotes = t.row.buf[:0], t.row.ends[:0], false
	at, size, last := atField, 0, byte(0)
	for {
		c, err := t.r.ReadByte()
		if errors.Is(err, io.EOF) {
			if size == 0 {
				return "", io.EOF
			}
			if at != quoted || last != '\n' {
				t.n.Lines++
			}
			return t.last(at, reason), nil
		}
		if err != nil {
			return "", fmt.Errorf("read behind line %d: %w", t.n.Lines, err)
		}
		t.n.Bytes++
		last = c
		if c == '\n' {
			t.n.Lines++
			if at != quoted {
				return t.last(at, reason), nil
			}
		}
		if size++; size > t.limit && reason == "" {
			reason = fmt.Sprintf("is longer than %d bytes", t.limit)
		}
		var fault string
		if at, fault = t.row.step(at, c, reason == ""); reason == "" {
			reason = fault
		}
	}
}

// last ends the row's last field.
func (t *table) last(at place, reason string) string {
	if reason != "" {
		return reason
	}
	switch at {
	case quoted:
		return "has a quoted field that is never closed; the lines up to the end were read as part of it"
	case bare:
		t.row.buf = bytes.TrimSuffix(t.row.buf, []byte("\r"))
	}
	t.row.end()
	return ""
}

// cells is the fields of one row.
type cells struct {
	buf     []byte
	ends    []int // of each field in buf
	quotes  bool  // whether one was quoted
	columns map[string]int
	text    string // the column of the text
}

func (c *cells) end() { c.ends = append(c.ends, len(c.buf)) }

// step takes one byte of a row. Nothing is kept of a row that is refused.
func (c *cells) step(at place, b byte, keep bool) (place, string) {
	switch {
	case at == broken:
		return broken, ""
	case at == atField && b == '"':
		c.quotes = true
		return quoted, ""
	case at == quoted && b == '"':
		return closed, ""
	case at == bare && b == '"':
		return broken, "has a quote within a field that does not begin with one"
	case at != quoted && at != closedCR && b == ',':
		if keep {
			c.end()
		}
		return atField, ""
	case at == closed && b == '\r':
		return closedCR, ""
	case at == closedCR, at == closed && b != '"':
		return broken, "has something behind the quote that closes a field"
	case at == atField:
		at = bare
	case at == closed:
		at = quoted
	}
	if keep {
		c.buf = append(c.buf, b)
	}
	return at, ""
}

func (c *cells) cell(i int) []byte {
	from := 0
	if i > 0 {
		from = c.ends[i-1]
	}
	return c.buf[from:c.ends[i]]
}

func (c *cells) blank() bool {
	return !c.quotes && len(c.ends) == 1 && len(bytes.Trim(c.buf, " \t\r")) == 0
}

// get is a cell. An empty cell is a missing field, but an empty text.
func (c *cells) get(name string) value {
	i, ok := c.columns[name]
	if !ok {
		return value{}
	}
	s := string(c.cell(i))
	if s == "" && name != c.text {
		return value{}
	}
	return value{kind: kindString, text: s, damaged: !utf8.ValidString(s)}
}
