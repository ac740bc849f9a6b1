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

func (d *document) decode(n ast.Node, v reflect.Value, path string) {
	switch n.Type() {
	case ast.AnchorType, ast.AliasType, ast.MergeKeyType, ast.TagType, ast.DirectiveType:
		d.failAt(n, path, "anchors, aliases and tags are not supported; write the value out")
		return
	case ast.NullType: // "field:" with nothing behind it keeps the default
		return
	}
	scalar, isScalar := n.(ast.ScalarNode)
	if self, ok := v.Addr().Interface().(scalarField); ok && isScalar {
		if err := self.parseScalar(scalarText(scalar)); err != nil {
			d.failAt(n, path, "%v", err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.decodeStruct(n, v, path)
	case reflect.Slice:
		d.decodeSlice(n, v, path)
	case reflect.Pointer: // a field for which leaving it out says something
		p := reflect.New(v.Type().Elem())
		d.decode(n, p.Elem(), path)
		v.Set(p)
	default:
		if !isScalar {
			d.failAt(n, path, "must be a single value")
			return
		}
		d.decodeScalar(scalar, v, path)
	}
}

func (d *document) decodeStruct(n ast.Node, v reflect.Value, path string) {
	m, ok := n.(ast.MapNode)
	if !ok {
		d.broken = d.broken || path == ""
		d.failAt(n, path, "must be a mapping with the fields %s", strings.Join(fieldNames(v.Type()), ", "))
		return
	}
	seen := map[string]bool{}
	for it := m.MapRange(); it.Next(); {
		key, ok := it.Key().(*ast.StringNode)
		if !ok {
			d.failAt(it.Key(), path, "holds a key that is not a plain word")
			continue
		}
		i, known := fieldIndex(v.Type(), key.Value)
		field := strings.TrimPrefix(path+"."+key.Value, ".")
		switch {
		case !known:
			d.unknownKey(key, v.Type(), path)
		case seen[key.Value]:
			d.failAt(key, field, "stands twice; it is on line %d already", d.marks[field].Line)
		default:
			seen[key.Value] = true
			d.marks[field] = key.Token.Position
			d.decode(it.Value(), v.Field(i), field)
		}
	}
}

// wordLike is a key that may be repeated in an error. A key pasted in the
// wrong place has digits or capitals.
var wordLike = regexp.MustCompile(`^[a-z_]{1,24}$`)

func (d *document) unknownKey(key *ast.StringNode, t reflect.Type, path string) {
	field := path
	if wordLike.MatchString(key.Value) {
		field = strings.TrimPrefix(path+"."+key.Value, ".")
	}
	d.failAt(key, field, "is no known field; known here: %s", strings.Join(fieldNames(t), ", "))
}

func (d *document) decodeSlice(n ast.Node, v reflect.Value, path string) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.failAt(n, path, "must be a list")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(s.Values), len(s.Values))
	for i, item := range s.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		if p := position(item); p != nil {
			d.marks[at] = p
		}
		if m, ok := item.(ast.MapNode); ok { // a mapping's own token is its first colon
			if it := m.MapRange(); it.Next() {
				d.marks[at] = position(it.Key())
			}
		}
		d.decode(item, out.Index(i), at)
	}
	v.Set(out)
}

func (d *document) decodeScalar(n ast.ScalarNode, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(scalarText(n))
	case reflect.Bool:
		b, ok := n.GetValue().(bool)
		if !ok {
			d.failAt(n, path, "must be true or false")
			return
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		i, ok := wholeNumber(n)
		if !ok || v.OverflowInt(i) {
			d.failAt(n, path, "must be a whole number")
			return
		}
		v.SetInt(i)
	case reflect.Float64:
		f, ok := n.GetValue().(float64)
		if i, whole := wholeNumber(n); whole {
			f, ok = float64(i), true
		}
		if !ok {
			d.failAt(n, path, "must be a number")
			return
		}
		v.SetFloat(f)
	default:
		panic("configs: no rule for fields of type " + v.Type().String())
	}
}

func wholeNumber(n ast.ScalarNode) (int64, bool) {
	switch i := n.GetValue().(type) {
	case int64:
		return i, true
	case uint64:
		return int64(i), i <= 1<<63-1
	}
	return 0, false
}

// scalarText is a scalar as it was written. A name that looks like a number,
// such as a project 0123, stays as it is.
func scalarText(n ast.ScalarNode) string {
	if l, ok := n.(*ast.LiteralNode); ok {
		return l.Value.Value
	}
	return n.GetToken().Value
}

// fieldNames lists the keys that a struct takes, in its order.
func fieldNames(t reflect.Type) []string {
	var names []string
	for f := range fieldsOf(t) {
		names = append(names, f)
	}
	return names
}

func fieldIndex(t reflect.Type, key string) (int, bool) {
	for name, i := range fieldsOf(t) {
		if name == key {
			return i, true
		}
	}
	return 0, false
}

func fieldsOf(t reflect.Type) func(yield func(string, int) bool) {
	return func(yield func(string, int) bool) {
		for i := range t.NumField() {
			name := t.Field(i).Tag.Get("yaml")
			if name != "" && !yield(name, i) {
				return
			}
		}
	}
}
