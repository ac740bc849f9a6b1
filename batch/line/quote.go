package line

import "unicode/utf8"

const hex = "0123456789abcdef"

// AppendQuoted appends s, which is valid UTF-8, as a JSON string without a
// control character and without U+2028 and U+2029, at which some readers of
// JSON lines break a line.
func AppendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		esc, size := escape(s[i:])
		if esc == none {
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, esc, 1)
		i += size
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendInside appends s as the inside of a JSON string that stands depth-1
// others deep. Bytes that are not UTF-8 become U+FFFD.
func appendInside(dst []byte, s string, depth int) []byte {
	start := 0
	for i := 0; i < len(s); {
		if plain[s[i]] {
			i++
			continue
		}
		esc, size := escape(s[i:])
		if esc == none {
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		if esc == utf8.RuneError {
			dst = append(dst, "\uFFFD"...)
		} else {
			dst = appendEscape(dst, esc, depth)
		}
		i += size
		start = i
	}
	return append(dst, s[start:]...)
}

// plain marks the bytes that stand for themselves in a JSON string.
var plain = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// none is escape's answer for a character that stands for itself.
const none rune = -1

// escape looks at the first character of s: the character when it needs an
// escape, RuneError when it is not UTF-8, else none; and its length in bytes.
func escape(s string) (r rune, size int) {
	if plain[s[0]] {
		return none, 1
	}
	if s[0] < utf8.RuneSelf {
		return rune(s[0]), 1
	}
	r, size = utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && size == 1, r == '\u2028', r == '\u2029':
		return r, size
	}
	return none, size
}

// appendEscape appends the escape for r as it reads depth strings deep: each
// level doubles the back slashes and escapes the quotes of the one inside.
func appendEscape(dst []byte, r rune, depth int) []byte {
	slashes := `\`
	if depth == 2 {
		slashes = `\\`
	}
	switch r {
	case '"':
		// Inside: \" . Outside again: \\\" .
		if depth == 2 {
			return append(dst, `\\\"`...)
		}
		return append(dst, `\"`...)
	case '\\':
		dst = append(dst, slashes...)
		return append(dst, slashes...)
	case '\n':
		return append(append(dst, slashes...), 'n')
	case '\r':
		return append(append(dst, slashes...), 'r')
	case '\t':
		return append(append(dst, slashes...), 't')
	case '\b':
		return append(append(dst, slashes...), 'b')
	case '\f':
		return append(append(dst, slashes...), 'f')
	}
	dst = append(append(dst, slashes...), 'u')
	return append(dst, hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

// Quoted is s as AppendQuoted appends it.
func Quoted(s string) string { return string(AppendQuoted(nil, s)) }
