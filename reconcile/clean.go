package reconcile

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes text that every database and processor takes: each byte that is
// no valid UTF-8, and each control character but TAB, LF and CR, becomes
// U+FFFD. Nothing else is touched: no trimming, no normalisation, so that the
// classifier sees what was reported. Cleaning twice is cleaning once.
func Clean(text string) (cleaned string, changed bool) {
	i := firstUnclean(text)
	if i < 0 {
		return text, false
	}
	var b strings.Builder
	b.Grow(len(text) + 2*utf8.UTFMax)
	b.WriteString(text[:i])
	for _, r := range text[i:] { // a range gives U+FFFD for each invalid byte
		if unclean(r) {
			r = utf8.RuneError
		}
		b.WriteRune(r)
	}
	return b.String(), true
}

func firstUnclean(text string) int {
	for i, r := range text {
		if unclean(r) {
			return i
		}
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return i
			}
		}
	}
	return -1
}

func unclean(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r' }

// Blank says whether nothing of the text can be seen: spaces, controls,
// invisible format characters, and what stands where broken bytes were. A
// character that this program does not know counts as seen.
func Blank(text string) bool {
	return !strings.ContainsFunc(text, visible)
}

func visible(r rune) bool {
	const brailleBlank = '\u2800'
	return r != utf8.RuneError && r != brailleBlank && !unicode.In(r, unicode.Z, unicode.Cc, unicode.Cf,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Noncharacter_Code_Point)
}

// jsonLength is the length of text as a JSON string with its quotes, as it
// stands in a request: U+2028 and U+2029 are escaped there too.
func jsonLength(text string) int64 {
	n := int64(len(text)) + 2
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\' || c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t':
			n++ // \n
		case c < ' ':
			n += 5 // \u0001
		case c == 0xe2 && strings.HasPrefix(text[i:], "\u2028"), c == 0xe2 && strings.HasPrefix(text[i:], "\u2029"):
			n += 3
		}
	}
	return n
}
