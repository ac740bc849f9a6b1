package configs

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

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
	case reflect.Map:
		d.decodeMap(n, v, path)
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

// decodeMap reads a mapping whose keys are names of the operator's own. They are
// not repeated in an error, nor part of a field's name.
func (d *document) decodeMap(n ast.Node, v reflect.Value, path string) {
	m, ok := n.(ast.MapNode)
	if !ok {
		d.failAt(n, path, "must be a mapping")
		return
	}
	out := reflect.MakeMap(v.Type())
	for it := m.MapRange(); it.Next(); {
		key, ok := it.Key().(ast.ScalarNode)
		if !ok || it.Key().Type() == ast.MergeKeyType {
			d.failAt(it.Key(), path, "holds a key that is not a plain word")
			continue
		}
		name := reflect.ValueOf(scalarText(key))
		if out.MapIndex(name).IsValid() {
			d.failAt(it.Key(), path, "holds a name twice")
			continue
		}
		value := reflect.New(v.Type().Elem()).Elem()
		d.decode(it.Value(), value, path)
		out.SetMapIndex(name, value)
	}
	v.Set(out)
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
