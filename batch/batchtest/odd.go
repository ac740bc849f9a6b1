package batchtest

import (
	"reflect"
	"slices"

	"rollcall/batch"
)

// oddResults: what is wrong with one result is told as what it is, and takes none
// of the others with it.
func oddResults(h *harness) {
	as := func(want batch.Outcome) func(*harness, []batch.Result, []batch.Result) {
		return func(h *harness, own, rest []batch.Result) {
			if len(own) != 1 || len(rest) != 0 || own[0].Outcome != want || len(own[0].Content) != 0 {
				h.Errorf("%s, want one result that is %s", shown(own, rest), want)
			}
		}
	}
	for ending, check := range map[Ending]func(h *harness, own, rest []batch.Result){
		OneRefused:     as(batch.Refused),
		OneTruncated:   as(batch.Truncated),
		OneBlocked:     as(batch.Blocked),
		OneOtherVendor: as(batch.Unapproved),
		OneTwice: func(h *harness, own, rest []batch.Result) {
			if len(own) != 2 || len(rest) != 0 || !reflect.DeepEqual(own[0], own[1]) || own[0].Outcome != batch.Answered {
				h.Errorf("%s, want the answer twice", shown(own, rest))
			}
		},
		OneMissing: func(h *harness, own, rest []batch.Result) {
			if len(own)+len(rest) != 0 {
				h.Errorf("%s, want nothing", shown(own, rest))
			}
		},
		OneStray: func(h *harness, own, rest []batch.Result) {
			if len(own) != 1 || own[0].Outcome != batch.Answered || len(rest) != 1 || rest[0].CustomID == "" {
				h.Errorf("%s, want an answer, and a result of another id", shown(own, rest))
			}
		},
		OneNameless:  unreadable,
		OneMalformed: unreadable,
	} {
		h.each(string(ending), func(h *harness) {
			h.ends(ending)
			own, rest := h.oddEnded(ending)
			check(h, own, rest)
		})
	}
	h.each(string(OneOtherModel), otherModel)
}

// unreadable: a result that is none, or is nobody's, is never an answer. Its item
// may be named, and may have a result of its own.
func unreadable(h *harness, own, rest []batch.Result) {
	bad := 0
	for _, r := range slices.Concat(own, rest) {
		if r.Outcome == batch.Unreadable && len(r.Content) == 0 {
			bad++
		} else if r.Outcome != batch.Answered || r.CustomID != items[0] {
			bad = 2
		}
	}
	if bad != 1 || len(own)+len(rest) > 2 {
		h.Errorf("%s, want one that is unreadable", shown(own, rest))
	}
}

// otherModel: which model answered can be seen, so that the passes can compare it
// with the one that was asked.
func otherModel(h *harness) {
	h.ends(OneOtherModel)
	_, want := h.lines(h.finished())
	own, rest := h.oddEnded(OneOtherModel)
	if len(own) != 1 || len(rest) != 0 || own[0].Outcome != batch.Answered {
		h.Fatalf("%s, want an answer", shown(own, rest))
	}
	for _, r := range want {
		if r.Model == own[0].Model || own[0].Model == "" || batch.SameModel(r.Model, own[0].Model) {
			h.Errorf("the model is %q, as if nothing had happened: %q", own[0].Model, r.Model)
		}
	}
}

// oddEnded ends a job, checks that all items but the first are answered once, and
// returns the results of the first, and those that are of no item.
func (h *harness) oddEnded(e Ending) (own, rest []batch.Result) {
	h.Helper()
	job := h.ended(e)
	if job.Phase != batch.PhaseEnded || !job.Known {
		h.Errorf("job %+v", job)
	}
	answered := map[string]int{}
	for _, f := range job.Files {
		_, results := h.lines(f.ID)
		for _, r := range results {
			switch {
			case r.CustomID == items[0]:
				own = append(own, r)
			case slices.Contains(items, r.CustomID) && r.Outcome == batch.Answered:
				answered[r.CustomID]++
			default:
				rest = append(rest, r)
			}
		}
	}
	for _, id := range items[1:] {
		if answered[id] != 1 {
			h.Errorf("%s was answered %d times", id, answered[id])
		}
	}
	return own, rest
}

func shown(own, rest []batch.Result) (all []string) {
	for _, r := range slices.Concat(own, rest) {
		all = append(all, r.CustomID+" "+string(r.Outcome)+" "+r.Code)
	}
	return all
}
