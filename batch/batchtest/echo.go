package batchtest

import (
	"bytes"
	"testing"

	"rollcall/batch"
)

// echo: a classifier with Echo has its token in each line, or is refused. An
// adapter that left it out would have every answer taken for a crossed one.
func echo(h *harness) {
	c := *h.question()
	c.Echo = true
	for _, id := range items {
		line, err := h.Provider.AppendRequest([]byte("kept"), &c, id, batch.NewText(Marker))
		if h.NoEcho {
			h.fails(err, batch.Rejected)
			if string(line) != "kept" {
				h.Errorf("dst is %q", line)
			}
			continue
		}
		if err != nil {
			h.Fatal(err)
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

// echoAnswers: the token comes back with each answer, so that two that were
// crossed are noticed, and is gone from what Judge makes of it.
func echoAnswers(h *harness) {
	if h.NoEcho {
		h.Skip("there is no place for a token here")
	}
	c := *h.question()
	c.Echo = true
	h.Subject.Question = &c
	_, results := h.lines(h.finished())
	if len(results) != len(items) {
		h.Fatalf("%d results of %d", len(results), len(items))
	}
	for i, r := range results {
		echoed(h.T, &c, r)
		if r.Content = results[(i+1)%len(results)].Content; batch.Judge(&c, r).Code != batch.CodeCrossed {
			h.Errorf("the answer to another text passes for that to %s", r.CustomID)
		}
	}
}

// echoed: an answer is judged as one, and without its token.
func echoed(t *testing.T, c *batch.Classifier, r batch.Result) {
	t.Helper()
	judged := batch.Judge(c, r)
	if judged.Outcome != batch.Answered || len(judged.Content) == 0 || bytes.Contains(judged.Content, []byte(batch.EchoToken(r.CustomID))) {
		t.Errorf("%s: %s, code %q, became %s, code %q", r.CustomID, r.Outcome, r.Code, judged.Outcome, judged.Code)
	}
}

// callEcho is both for a Caller.
func callEcho(h *callHarness) {
	c := *h.Classifier
	c.Echo = true
	n := h.calls(func() {
		r, err := h.Caller.Call(h.Context(), &c, items[0], batch.NewText(texts[0]))
		switch {
		case h.NoEcho:
			h.fails(err, batch.Rejected)
		case err != nil:
			h.Error(err)
		default:
			echoed(h.T, &c, r)
			if r.CustomID = items[1]; batch.Judge(&c, r).Code != batch.CodeCrossed {
				h.Error("the answer to another text passes")
			}
		}
	})
	if want := map[bool]int{true: 0, false: 1}[h.NoEcho]; n != want {
		h.Errorf("%d calls, want %d", n, want)
	}
}
