package sandbox

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// The names by which the stand-in says in every answer that it is no model.
const (
	standInModel       = "sandbox-stand-in"
	standInFingerprint = "rollcall-sandbox-stand-in"
)

// rules, gravest first: where several fit, the graver label wins, and its first
// phrase in the text is quoted. A phrase counts in any ASCII case.
var rules = []struct {
	label   string
	phrases []string
}{
	{"self_harm", []string{
		"kill myself", "killing myself", "end my life", "end it all", "suicide", "suicidal", "self-harm", "self harm",
		"hurt myself", "hurting myself", "harm myself", "cut myself", "cutting myself", "want to die", "wish i was dead", "wish i were dead",
		"better off dead", "no reason to live", "don't want to live", "do not want to live", "take my own life", "ending my life", "ending it all",
	}},
	{"harassment", []string{
		"i hate you", "hate you", "you people", "idiot", "idiots", "moron", "stupid", "loser", "shut up", "go to hell", "worthless",
		"disgusting", "scum", "vermin", "subhuman", "trash", "ugly", "kill you", "hurt you", "beat you", "find you", "bitch", "freak", "freaks",
		"morons", "losers", "pathetic", "kill yourself", "nobody likes you", "waste of space",
	}},
	{"unsafe_advice", []string{
		"stop taking", "stop your", "quit your medication", "instead of chemo", "instead of insulin", "double the dose", "double your dose",
		"triple the dose", "bleach", "miracle cure", "cures cancer", "cure cancer", "no need for a doctor", "don't see a doctor",
		"skip your", "without a prescription", "turpentine", "colloidal silver", "ivermectin", "drink peroxide", "detox", "vaccines cause",
		"quit taking", "come off your", "throw away your", "flush your", "ignore your doctor", "don't listen to your doctor", "don't take your",
		"instead of your", "cures diabetes", "double up on", "megadose",
	}},
	{"spam", []string{
		"buy now", "click here", "free trial", "discount", "promo code", "limited offer", "limited time", "order now", "visit my",
		"work from home", "earn money", "dm me", "whatsapp", "telegram", "subscribe", "http://", "https://", "www.", "casino", "crypto",
		"buy it now", "buy yours", "discounts", "coupon", "% off", "percent off", "for sale", "special offer", "best price", "best prices",
		"free shipping", "order today", "order yours", "act now", "make money", "link in bio", "giveaway", "t.me/",
	}},
}

// harmless are the names of a label for nothing to report.
var harmless = []string{"ok", "none_of_the_above", "none of the above", "none", "safe", "other"}

// verdict is what the stand-in thinks of a text. The span is where the words
// are that decided it; it is empty when none did.
type verdict struct {
	label      string
	start, end int
}

// phrasesBy finds the phrases that begin with a byte. Telephones write the
// apostrophe as U+2019, so a phrase with one is there in both ways.
var phrasesBy = func() (by [256][]phrase) {
	for grade, r := range rules {
		for _, p := range r.phrases {
			by[p[0]] = append(by[p[0]], phrase{p, grade})
			if curly := strings.ReplaceAll(p, "'", "\u2019"); curly != p {
				by[p[0]] = append(by[p[0]], phrase{curly, grade})
			}
		}
	}
	return by
}()

type phrase struct {
	text  string
	grade int // index into rules
}

// classify judges a text by words alone, so nothing that the text says about
// how it should be judged can have an effect.
func classify(text string, labels []string) verdict {
	lower := asciiLower(text)
	best, v := len(rules), verdict{label: labelOfNone(labels)}
	for i := range len(lower) {
		if joins(lower, i-1, i) { // inside a word
			continue
		}
		for _, p := range phrasesBy[lower[i]] {
			if p.grade < best && begins(lower[i:], p.text) && slices.Contains(labels, rules[p.grade].label) {
				best, v = p.grade, verdict{rules[p.grade].label, i, i + len(p.text)}
			}
		}
	}
	return v
}

// labelOfNone is the label of a text in which no phrase stands.
func labelOfNone(labels []string) string {
	for _, l := range harmless {
		if slices.Contains(labels, l) {
			return l
		}
	}
	return labels[len(labels)-1]
}

// asciiLower keeps every byte where it is, so that an index into the result is
// an index into s.
func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// begins says whether s begins with phrase as whole words.
func begins(s, phrase string) bool {
	return strings.HasPrefix(s, phrase) && !joins(s, len(phrase)-1, len(phrase))
}

// joins says whether the bytes at i and k are parts of one word.
func joins(s string, i, k int) bool {
	return i >= 0 && k < len(s) && wordByte(s[i]) && wordByte(s[k])
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
}

// maxQuote is about how long a quote is, in bytes.
const maxQuote = 120

// quote cuts a verbatim piece out of text: the span with some words around it,
// or the first words when the span is empty. It is "" for a blank text.
func quote(text string, start, end int) string {
	if start == end {
		start = len(text) - len(strings.TrimLeft(text, " \t\r\n"))
		end = start
	}
	room := max(maxQuote-(end-start), 0)
	from, to := start, end
	if end > start {
		from = max(start-room/3, 0)
	}
	to = min(end+room-(start-from), len(text))
	for from > 0 && from < start && !boundary(text, from) {
		from++
	}
	for to < len(text) && to > end && !boundary(text, to) {
		to--
	}
	if to == from { // one word longer than a quote
		to = min(from+maxQuote, len(text))
		for to < len(text) && !utf8.RuneStart(text[to]) {
			to++
		}
	}
	return strings.TrimSpace(text[from:to])
}

// boundary says whether text may be cut before byte i.
func boundary(text string, i int) bool { return text[i-1] == ' ' || text[i] == ' ' }
