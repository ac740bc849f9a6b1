package configs

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	maxFile = 128 << 10 // bytes of one file
	// maxNesting is far above what any file needs. The parser calls itself for
	// each level, and takes quadratic time and memory for levels on one line:
	// a file of 128 KiB could take all memory of the machine.
	maxNesting = 32
)

// FieldError is one mistake in a file. It names the place and never quotes what
// stands there: people paste keys into the wrong line.
type FieldError struct {
	File    string // "" for a configuration that was not read from a file
	Line    int    // from 1; 0 when the field is not in the file
	Column  int
	Field   string // path of the field, such as accounts[0].base_url; "" for the whole file
	Message string // what is wrong and what to do
}

func (e *FieldError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
		}
		b.WriteString(": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	return b.String() + e.Message
}

// document is one YAML file: where each field stands, and what was wrong.
// go-yaml's own decoder stops at the first mistake and quotes the source, so
// the tree is walked here instead.
type document struct {
	file  string
	marks map[string]*token.Position // by path of the field
	errs  []*FieldError
	// broken: the file as a whole could not be read, so its fields say nothing.
	broken bool
}

// scalarField is a field that reads itself from one word.
type scalarField interface {
	// parseScalar takes the word as it was written, without its quotes. Its
	// error must not quote it.
	parseScalar(s string) error
}

var errNotYAML = errors.New("is not YAML")

// readDocument decodes data into the struct that into points to. Fields that
// the file does not mention keep their value. Mistakes are in errs afterwards.
func readDocument(file string, data []byte, into any) *document {
	d := &document{file: file, marks: map[string]*token.Position{}}
	if len(data) > maxFile {
		d.fail("", "is longer than %d KiB", maxFile>>10)
		d.broken = true
		return d
	}
	root := d.parse(data)
	if root != nil && root.Type() != ast.NullType && root.Type() != ast.CommentType {
		d.decode(root, reflect.ValueOf(into).Elem(), "")
	}
	return d
}

// parse returns the file's only document, nil when it has none.
func (d *document) parse(data []byte) (root ast.Node) {
	tree, err := parseTree(data)
	if err != nil {
		d.broken = true
		at := &FieldError{Message: err.Error()}
		var placed interface{ GetToken() *token.Token }
		if !errors.As(err, &at) && errors.As(err, &placed) {
			at.Message = errNotYAML.Error() + syntaxHint(err)
			if t := placed.GetToken(); t != nil && t.Position != nil {
				at.Line, at.Column = t.Position.Line, t.Position.Column
			}
		}
		at.File = d.file
		d.errs = append(d.errs, at)
		return nil
	}
	for _, doc := range tree.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			d.failAt(doc.Body, "", "holds more than one YAML document; remove the --- in between")
			d.broken = true
			return nil
		}
		root = doc.Body
	}
	return root
}

// parseTree turns a panic of the parser into an error: a mistake in a file must
// not look like a crash of the daemon.
func parseTree(data []byte) (tree *ast.File, err error) {
	defer func() {
		if recover() != nil {
			tree, err = nil, errNotYAML
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if t := tooDeep(tokens); t != nil {
		return nil, &FieldError{Line: t.Position.Line, Column: t.Position.Column, Message: "is nested too deep"}
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// tooDeep is the first token that is nested too deep, nil when none is. Levels
// that each need a line of their own with more and more spaces are bounded by
// the size of the file.
func tooDeep(tokens token.Tokens) *token.Token {
	brackets, line, onLine := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, onLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			onLine++
		}
		if brackets > maxNesting || onLine > maxNesting {
			return t
		}
	}
	return nil
}

// syntaxHint is the parser's message as far as it quotes nothing.
func syntaxHint(err error) string {
	m, ok := err.(interface{ GetMessage() string })
	if !ok {
		return ""
	}
	text, _, _ := strings.Cut(m.GetMessage(), `"`)
	if !plainHint.MatchString(text) {
		return ""
	}
	return ": " + strings.TrimSpace(text)
}

var plainHint = regexp.MustCompile(`^[a-zA-Z' ,.\-\[\]{}]{1,80}$`)

func (d *document) fail(field, format string, args ...any) {
	e := &FieldError{File: d.file, Field: field, Message: fmt.Sprintf(format, args...)}
	if p := d.markOf(field); p != nil {
		e.Line, e.Column = p.Line, p.Column
	}
	d.errs = append(d.errs, e)
}

// failOnce notes one mistake a field. A field that could not be read has its
// default or nothing in it, and a second complaint would only confuse.
func (d *document) failOnce() failFunc {
	told := map[string]bool{}
	for _, e := range d.errs {
		told[e.Field] = true
	}
	return func(field, format string, args ...any) {
		if !told[field] {
			told[field] = true
			d.fail(field, format, args...)
		}
	}
}

func (d *document) failAt(n ast.Node, field, format string, args ...any) {
	e := &FieldError{File: d.file, Field: field, Message: fmt.Sprintf(format, args...)}
	if p := position(n); p != nil {
		e.Line, e.Column = p.Line, p.Column
	}
	d.errs = append(d.errs, e)
}

// markOf is where a field stands, or else the nearest field around it.
func (d *document) markOf(field string) *token.Position {
	for field != "" {
		if p, ok := d.marks[field]; ok {
			return p
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return nil
}

func position(n ast.Node) *token.Position {
	if n == nil || n.GetToken() == nil {
		return nil
	}
	return n.GetToken().Position
}

// err joins the mistakes in the order of their lines; nil when there are none.
func (d *document) err() error {
	slices.SortStableFunc(d.errs, func(a, b *FieldError) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	errs := make([]error, len(d.errs))
	for i, e := range d.errs {
		errs[i] = e
	}
	return errors.Join(errs...)
}
