package batchtest

import (
	"reflect"
	"slices"

	"rollcall/batch"
)

// capabilities: what the passes decide by does not contradict itself.
func capabilities(h *harness) {
	c := h.Provider.Capabilities()
	if !reflect.DeepEqual(c, h.Provider.Capabilities()) {
		h.Error("two calls, two answers")
	}
	l := c.Limits
	if l.Items < 0 || l.Bytes < 0 || l.ItemBytes < 0 || c.ResultsFor < 0 || l.Bytes > 0 && int64(l.ItemBytes) > l.Bytes {
		h.Errorf("limits %+v, results for %v", l, c.ResultsFor)
	}
	if c.Handover != batch.HandoverFile && c.Handover != batch.HandoverInline {
		h.Errorf("handed over by %q", c.Handover)
	}
	if c.Deletion.Input && c.Handover == batch.HandoverInline {
		h.Error("an input without an id cannot be deleted")
	}
	if _, ok := h.Provider.(batch.JobDeleter); c.Deletion.Job && !ok {
		h.Error("jobs are said to be deleted, and nothing deletes them")
	}
	settlement(h)
	classes(h)
}

// settlement: what is needed to settle a create of unknown outcome is there.
func settlement(h *harness) {
	s := h.Provider.Capabilities().Settlement
	if window := h.Provider.Capabilities().Limits.KeyWindow; (window > 0) != (s == batch.SettleByKey) || window < 0 {
		h.Errorf("settled by %s, with a window of %v", s, window)
	}
	switch s {
	case batch.SettleByListing, batch.SettleByResults:
		if _, ok := h.Provider.(batch.Inventory); !ok {
			h.Errorf("settled by %s without an inventory", s)
		}
	case batch.SettleByKey, batch.SettleByRepeat, batch.SettleByOperator:
	default:
		h.Errorf("settled by %q", s)
	}
}

// classes: known ones, each once, and whoever asks gets a list of his own.
func classes(h *harness) {
	known := []batch.DataClass{batch.DataSynthetic, batch.DataPersonal, batch.DataHealth, batch.DataUnstored}
	got := h.Provider.Capabilities().Classes
	if len(got) == 0 {
		h.Error("no kind of texts is permitted, not even made-up ones")
	}
	want := slices.Clone(got)
	for i, class := range got {
		if !slices.Contains(known, class) || slices.Contains(got[:i], class) {
			h.Errorf("classes %v", got)
		}
	}
	clear(got)
	if again := h.Provider.Capabilities().Classes; !slices.Equal(again, want) {
		h.Errorf("classes %v, were %v", again, want)
	}
}
