package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonl reads one JSON object a line.
type jsonl struct {
	lines lines
	dec   jsontext.Decoder
	obj   object
}

func newJSONL(r io.Reader, limit int) *jsonl {
	return &jsonl{lines: lines{input: newInput(r), limit: limit}}
}

func (j *jsonl) counts() Counts { return j.lines.n }

func (j *jsonl) next() (row, int64, int64, error) {
	for {
		line, tooLong, err := j.lines.next()
		if err != nil {
			return nil, 0, 0, err
		}
		n := j.lines.n.Lines
		if tooLong {
			return nil, 0, 0, &LineError{Line: n, Lines: 1, Reason: fmt.Sprintf("is longer than %d bytes", j.lines.limit)}
		}
		if len(bytes.Trim(line, " \t\r")) == 0 {
			j.lines.n.Blank++
			continue
		}
		if reason := j.parse(line); reason != "" {
			return nil, 0, 0, &LineError{Line: n, Lines: 1, Reason: reason}
		}
		return &j.obj, n, 1, nil
	}
}

// parse reads a line strictly. A line that is only no valid Unicode is read
// once more, and the values concerned are marked.
func (j *jsonl) parse(line []byte) (reason string) {
	err := j.members(line, false)
	if err != nil && !errors.Is(err, jsontext.ErrDuplicateName) {
		err = j.members(line, true)
	}
	if err == nil {
		return ""
	}
	return j.reason(err)
}

var (
	errNoObject = errors.New("no object")
	errMore     = errors.New("more than one value")
)

// members notes where the fields of the line's object are.
func (j *jsonl) members(line []byte, tolerant bool) error {
	j.obj = object{line: line, fields: j.obj.fields[:0]}
	j.dec.Reset(bytes.NewBuffer(line), jsontext.AllowInvalidUTF8(tolerant), jsontext.AllowDuplicateNames(false))
	if k := j.dec.PeekKind(); k != '{' {
		// Read it all the same: what is no JSON at all is told as such.
		if _, err := j.dec.ReadValue(); err != nil {
			return err
		}
		return errNoObject
	}
	if _, err := j.dec.ReadToken(); err != nil {
		return err
	}
	for j.dec.PeekKind() != '}' {
		name, err := j.dec.ReadValue()
		if err != nil {
			return err
		}
		// The decoder's slices do not outlive its next call; the line does.
		f := field{name: j.justRead(name)[1 : len(name)-1]}
		if tolerant || bytes.IndexByte(f.name, '\\') >= 0 {
			// An error means invalid Unicode, which stays in the name as U+FFFD.
			f.name, _ = jsontext.AppendUnquote(nil, name)
		}
		raw, err := j.dec.ReadValue()
		if err != nil {
			return err
		}
		f.raw = j.justRead(raw)
		j.obj.fields = append(j.obj.fields, f)
	}
	if _, err := j.dec.ReadToken(); err != nil {
		return err
	}
	j.obj.end = j.dec.InputOffset()
	if _, err := j.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errMore
	}
	return nil
}

// justRead is where the value that was read last stands in the line.
func (j *jsonl) justRead(v jsontext.Value) []byte {
	end := j.dec.InputOffset()
	return j.obj.line[end-int64(len(v)) : end]
}

// reason says what is wrong without the decoder's own words, which quote the
// input.
func (j *jsonl) reason(err error) string {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, errNoObject):
		return "is not a JSON object"
	case errors.Is(err, errMore):
		return fmt.Sprintf("has more behind its JSON object, which ends at byte %d", j.obj.end)
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Sprintf("has a field twice; the second one begins behind byte %d", j.dec.InputOffset())
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "ends within its JSON object; it may be cut short"
	case errors.As(err, &syntax):
		return fmt.Sprintf("is not valid JSON near byte %d", syntax.ByteOffset+1)
	}
	return "is not valid JSON"
}

// object is the fields of one line. They point into the line.
type object struct {
	line   []byte
	fields []field
	end    int64 // where it ends in the line
}

type field struct {
	name []byte // decoded
	raw  []byte
}

func (o *object) get(name string) value {
	for _, f := range o.fields {
		if string(f.name) == name {
			return decode(f.raw)
		}
	}
	return value{}
}

// decode gives a raw JSON value the form of a field.
func decode(raw []byte) value {
	switch k := jsontext.Value(raw).Kind(); k {
	case 'n':
		return value{kind: kindNull}
	case 't', 'f':
		return value{kind: kindBool, text: string(raw)}
	case '0':
		return value{kind: kindNumber, text: string(raw)}
	case '{', '[':
		// Equal values must have equal bytes; IsValid is false for invalid Unicode.
		v := jsontext.Value(bytes.Clone(raw))
		err := v.Compact()
		shape := kindObject
		if k == '[' {
			shape = kindArray
		}
		return value{kind: shape, text: string(v), damaged: err != nil}
	}
	if bytes.IndexByte(raw, '\\') < 0 && jsontext.Value(raw).IsValid() {
		return value{kind: kindString, text: string(raw[1 : len(raw)-1])}
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	return value{kind: kindString, text: string(text), damaged: err != nil}
}
