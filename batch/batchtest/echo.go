package batchtest

import (
	"bytes"

	"rollcall/batch"
)

// echo: a classifier with Echo has its token in each line, or is refused. An
// adapter that left it out would have every answer taken for a crossed one.
func echo(h *harness) {
	c := *h.question()
	c.Echo = true
	for _, id := range items {
		line, err := h.Provider.AppendRequest([]byte("kept"), &c, id, batch.NewText(Marker))
		if err != nil {
			h.fails(err, batch.Rejected)
			if string(line) != "kept" {
				h.Errorf("dst is %q", line)
			}
			continue
		}
		without, err := h.Provider.AppendRequest([]byte("kept"), h.question(), id, batch.NewText(Marker))
		if err != nil {
			h.Fatal(err)
		}
		if token := []byte(batch.EchoToken(id)); bytes.Count(line, token) != 1 || bytes.Contains(without, token) {
			h.Errorf("the token of %s is not in the line once with Echo, and never without: %q", id, line)
		}
	}
}
