// Package source reads reports from JSONL and CSV streams, one at a time and
// with flat memory. A line that is no report is refused with its number and a
// reason, and reading goes on: every line is a record, refused, or blank.
//
// Reasons name the line, the field and the kind of fault. They never quote a
// value, since the value may be report text.
package source

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"rollcall/batch"
)

// Format is how a stream is written.
type Format string

// The formats.
const (
	JSONL Format = "jsonl" // one JSON object a line
	CSV   Format = "csv"   // RFC 4180 with a header row
)

// Part is a part of a report. Its value is the name under which the part
// stands in the input unless the mapping says otherwise.
type Part string

// The parts.
const (
	Tenant   Part = "tenant"
	System   Part = "system" // the source system
	ID       Part = "id"     // the report's id in the source system
	Revision Part = "revision"
	Text     Part = "text"
	Urgent   Part = "urgent"
	Media    Part = "media"
)

// Parts lists every part.
func Parts() []Part { return []Part{Tenant, System, ID, Revision, Text, Urgent, Media} }

// Field says where a part comes from: a field of the input, or one value for
// the whole stream. The zero Field is a part that the input does not have.
type Field struct {
	Name  string // the field's name, exactly as in the input
	Fixed string // stands for every report; Name is ignored when it is set
}

// Mapping says where each part comes from.
type Mapping struct {
	Tenant, System, ID, Revision, Text, Urgent, Media Field
}

// DefaultMapping takes each part from the field of its own name.
func DefaultMapping() Mapping {
	var m Mapping
	for _, p := range Parts() {
		m.field(p).Name = string(p)
	}
	return m
}

func (m *Mapping) field(p Part) *Field {
	switch p {
	case Tenant:
		return &m.Tenant
	case System:
		return &m.System
	case ID:
		return &m.ID
	case Revision:
		return &m.Revision
	case Text:
		return &m.Text
	case Urgent:
		return &m.Urgent
	case Media:
		return &m.Media
	}
	return nil
}

// Take reads "part=name": the part comes from the input's field of that name.
func (m *Mapping) Take(assignment string) error {
	p, name, err := m.assignment(assignment)
	if err != nil {
		return err
	}
	*m.field(p) = Field{Name: name}
	return nil
}

// Fix reads "part=value": the part has this value in every report. The text
// and the id cannot be fixed, since they are what tells reports apart.
func (m *Mapping) Fix(assignment string) error {
	p, value, err := m.assignment(assignment)
	if err != nil {
		return err
	}
	if p == Text || p == ID {
		return fmt.Errorf("%s must come from the input and cannot be set to one value", p)
	}
	*m.field(p) = Field{Fixed: value}
	return nil
}

func (m *Mapping) assignment(s string) (Part, string, error) {
	name, value, ok := strings.Cut(s, "=")
	p := Part(name)
	if !ok || m.field(p) == nil || value == "" {
		return "", "", fmt.Errorf("must be PART=VALUE with one of the parts %v and a value", Parts())
	}
	return p, value, nil
}

// Limits bound what is read.
type Limits struct {
	// LineBytes is the longest line, or CSV row, that is read; 0 means
	// DefaultLineBytes. A longer one is refused and read past.
	LineBytes int
}

// DefaultLineBytes is ten times the longest text that any processor takes.
const DefaultLineBytes = 8 << 20

// MaxRevision is the highest revision that is read: beyond every counter and
// every time, and far from the end of int64, where a revision would have no
// successor.
const MaxRevision = 1 << 62

// identityBytes is the longest part of an identity. The three together must
// fit into one index entry of the database.
const identityBytes = 512

// Record is one report as the input has it. It is valid until the next call of
// Next.
type Record struct {
	Line  int64 // where it begins
	Lines int64 // how many lines it has; a quoted CSV field may hold line ends

	Tenant   string
	System   string
	ID       string // "" when the input has none
	Revision int64  // 1 when the input has none
	Text     batch.Text
	Damaged  bool // parts of the text are no valid Unicode; in JSON they are U+FFFD now, in CSV as they were
	Urgent   bool
	Media    string // what the source sent in place of text, such as "audio"

	row     row
	mapping *Mapping
}

// Field gives the bytes of any field of the input, mapped or not: a string
// without its quotes and escapes, everything else as it is written. It is
// false for a field that is missing, null, or no valid Unicode.
func (r *Record) Field(name string) ([]byte, bool) {
	v := r.row.get(name)
	if v.missing() || v.damaged {
		return nil, false
	}
	return []byte(v.text), true
}

// Refuse makes the refusal of a record that was read but cannot be taken in.
func (r *Record) Refuse(p Part, reason string) *LineError {
	return &LineError{Line: r.Line, Lines: r.Lines, Field: r.mapping.name(p), Reason: reason}
}

// name is what messages call a part: its field in the input.
func (m *Mapping) name(p Part) string {
	if f := m.field(p); f.Name != "" && f.Fixed == "" {
		return f.Name
	}
	return string(p)
}

// LineError refuses a line; the lines behind it can still be read. It holds
// nothing of the line's content.
type LineError struct {
	Line   int64 // where the refused line, or CSV row, begins
	Lines  int64 // how many lines are refused
	Field  string
	Reason string
}

func (e *LineError) Error() string {
	where := fmt.Sprintf("line %d", e.Line)
	if e.Lines > 1 {
		where = fmt.Sprintf("lines %d to %d", e.Line, e.Line+e.Lines-1)
	}
	if e.Field == "" {
		return where + ": " + e.Reason
	}
	return fmt.Sprintf("%s: %s %s", where, e.Field, e.Reason)
}

// Counts is how far a reader is. Lines = lines of records + refused lines +
// Blank + Header.
type Counts struct {
	Bytes  int64
	Lines  int64
	Blank  int64 // lines of white space only
	Header int64 // lines of the CSV header
}

// row is the fields of one record.
type row interface {
	// get is the field of that name; the zero value if there is none.
	get(name string) value
}

// decoder reads the rows of one format.
type decoder interface {
	// next is the next row and the lines that it stands on, a *LineError, io.EOF,
	// or an error after which nothing can be read.
	next() (r row, line, lines int64, err error)
	counts() Counts
}

// Reader reads the reports of one stream.
type Reader struct {
	decoder decoder
	mapping Mapping
}

// NewReader reads reports in a format from r. The mapping must have a tenant,
// a system, and a text or a medium.
func NewReader(r io.Reader, f Format, m Mapping, l Limits) (*Reader, error) {
	if l.LineBytes <= 0 {
		l.LineBytes = DefaultLineBytes
	}
	if m.Tenant == (Field{}) || m.System == (Field{}) {
		return nil, fmt.Errorf("the mapping must say where tenant and system come from")
	}
	if m.Text == (Field{}) && m.Media == (Field{}) {
		return nil, fmt.Errorf("the mapping must say where the text comes from")
	}
	for _, p := range Parts() {
		if !utf8.ValidString(m.field(p).Fixed) {
			return nil, fmt.Errorf("the mapping's %s is not valid UTF-8", p)
		}
	}
	in := &Reader{mapping: m}
	switch f {
	case JSONL:
		in.decoder = newJSONL(r, l.LineBytes)
	case CSV:
		in.decoder = newCSV(r, l.LineBytes, &in.mapping)
	default:
		return nil, fmt.Errorf("format %q is not one of %s and %s", f, JSONL, CSV)
	}
	return in, nil
}

// Next reads the next report. A *LineError refuses one line, and Next may be
// called again; io.EOF ends the stream; any other error means that the stream
// cannot be read on.
func (r *Reader) Next() (Record, error) {
	row, line, lines, err := r.decoder.next()
	if err != nil {
		return Record{}, err
	}
	rec := Record{Line: line, Lines: lines, row: row, mapping: &r.mapping}
	if err := rec.fill(); err != nil {
		return Record{}, err
	}
	return rec, nil
}

// Counts says how far the reader is.
func (r *Reader) Counts() Counts { return r.decoder.counts() }

// fill takes the parts out of the row.
func (r *Record) fill() error {
	for _, id := range []struct {
		part     Part
		into     *string
		required bool
	}{{Tenant, &r.Tenant, true}, {System, &r.System, true}, {ID, &r.ID, false}} {
		s, reason := r.value(id.part).identity(id.required)
		if reason != "" {
			return r.Refuse(id.part, reason)
		}
		*id.into = s
	}
	var reason string
	if r.Revision, reason = r.value(Revision).revision(); reason != "" {
		return r.Refuse(Revision, reason)
	}
	if r.Urgent, reason = r.value(Urgent).flag(); reason != "" {
		return r.Refuse(Urgent, reason)
	}
	if r.Media, reason = r.value(Media).token(); reason != "" {
		return r.Refuse(Media, reason)
	}
	text := r.value(Text)
	switch {
	case text.missing() && r.Media == "":
		return r.Refuse(Text, "is missing")
	case !text.missing() && text.kind != kindString:
		return r.Refuse(Text, "is "+text.kind.String()+", not a string")
	}
	r.Text, r.Damaged = batch.NewText(text.text), text.damaged
	return nil
}

// value is where the mapping says that a part comes from.
func (r *Record) value(p Part) value {
	f := r.mapping.field(p)
	switch {
	case f.Fixed != "":
		return value{kind: kindString, text: f.Fixed}
	case f.Name == "":
		return value{}
	}
	return r.row.get(f.Name)
}
