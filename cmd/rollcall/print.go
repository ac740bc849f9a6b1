package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// printJSON writes a value as indented JSON.
func (a *app) printJSON(v any) error {
	out, err := json.Marshal(v, jsontext.WithIndent("  "), json.Deterministic(true), json.FormatNilSliceAsNull(false))
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	_, err = a.out.Write(append(out, '\n'))
	return err
}

// table writes aligned columns.
type table struct {
	w    *tabwriter.Writer
	head []string
}

func newTable(out io.Writer, head ...string) *table {
	t := &table{w: tabwriter.NewWriter(out, 0, 4, 2, ' ', 0), head: head}
	if len(head) > 0 {
		fmt.Fprintln(t.w, strings.ToUpper(strings.Join(head, "\t")))
	}
	return t
}

func (t *table) row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = printable(fmt.Sprint(c))
		if text[i] == "" {
			text[i] = "-"
		}
	}
	fmt.Fprintln(t.w, strings.Join(text, "\t"))
}

func (t *table) flush() error { return t.w.Flush() }

// printable keeps a source's ids and an operator's words from steering the
// terminal: whatever is not a graphic character is shown as its escape.
func printable(s string) string {
	clean := func(r rune) bool { return unicode.IsGraphic(r) }
	if strings.IndexFunc(s, func(r rune) bool { return !clean(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if clean(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

// shellWord quotes a path so that a printed command can be copied.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+:,@%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// when shows an instant as RFC 3339, in UTC.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func whenp(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return when(*t)
}

// painter colours words where colours are wanted.
type painter bool

func (p painter) paint(code, s string) string {
	if !p {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p painter) good(s string) string { return p.paint("32", s) }
func (p painter) bad(s string) string  { return p.paint("31", s) }
func (p painter) bold(s string) string { return p.paint("1", s) }
