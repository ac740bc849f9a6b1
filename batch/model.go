package batch

import (
	"slices"
	"strings"
	"time"
)

// SameModel is whether the model that an answer names is the one that was asked
// for. It is when
//
//   - the answer names none: nothing says that it was another one. An adapter
//     whose processor must name one gives no such answer as Answered;
//   - both names are equal;
//   - the answer names a snapshot of the asked one: the asked name with a date
//     behind it, as in gpt-4.1-mini and gpt-4.1-mini-2025-04-14;
//   - the asked name ends with -latest and the answer names a snapshot of what
//     stands before it, as in omni-moderation-latest and
//     omni-moderation-2024-09-26.
//
// A date is YYYY-MM-DD, YYYYMMDD, or the four digits of MMDD or YYMM that older
// names have. A name that was asked for with its date must come back as it is:
// neither another date nor the name without one is the same. Both names are as
// SafeName leaves them, so that one that it replaced is another model.
func SameModel(asked, served string) bool {
	if served == "" || served == asked {
		return served == "" || served != unprintable
	}
	stem := strings.TrimSuffix(asked, "-latest")
	date, ok := strings.CutPrefix(served, stem+"-")
	return ok && stem != "" && isDate(date)
}

// Approves says whether an answer that names this model may be used: the model that
// is asked for, by SameModel, or a name that was approved with it.
func (c *Classifier) Approves(model string) bool {
	return SameModel(c.Model, model) || slices.Contains(c.AnswersAs, model)
}

func isDate(s string) bool {
	switch len(s) {
	case len("2025-04-14"):
		return within(time.DateOnly, s)
	case len("20250414"):
		return within("20060102", s)
	case len("0613"):
		return within("0102", s) || within("0601", s)
	}
	return false
}

// within is whether s is a date of this form. Parse takes no date that does not
// exist, and nothing but digits in the place of digits.
func within(layout, s string) bool {
	_, err := time.Parse(layout, s)
	return err == nil
}
