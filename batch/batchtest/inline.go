package batchtest

import (
	"bytes"
	"errors"
	"io"

	"rollcall/batch"
)

func (h *harness) isInline() bool {
	return h.Provider.Capabilities().Handover == batch.HandoverInline
}

// byFile skips what is about uploads.
func (h *harness) byFile() {
	h.Helper()
	if h.isInline() {
		h.Skip("nothing is uploaded to this account")
	}
}

// byBody skips what is about bodies that come with a create.
func (h *harness) byBody() {
	h.Helper()
	if !h.isInline() {
		h.Skip("this account takes uploaded bodies")
	}
}

// createTwice: two creates are two jobs, even over the same bytes.
func createTwice(h *harness) {
	c, again := h.creation(), h.creation()
	c.Key, again.Key = "s1", "s2"
	first, second := h.create(c), h.create(again)
	if first.ID == second.ID || h.Server.Jobs() != 2 || h.Server.Calls(OpCreate) != 2 {
		h.Errorf("jobs %s and %s, %d in all, by %d creates", first.ID, second.ID, h.Server.Jobs(), h.Server.Calls(OpCreate))
	}
	if got := h.status(first.ID); got.ID != first.ID {
		h.Errorf("%s is shown as %+v", first.ID, got)
	}
}

// createUnderKey: the same creation under its key is the same job, whatever
// became of the answer (F18).
func createUnderKey(h *harness) {
	if s := h.Provider.Capabilities().Settlement; s != batch.SettleByKey {
		h.Skipf("this account settles by %s", s)
	}
	for _, fault := range []FaultKind{"", LostAnswer, LostRequest} {
		h.each("after "+string(fault), func(h *harness) {
			c := h.creation()
			c.Key = "s1"
			if fault != "" {
				h.arm(OpCreate, Fault{Kind: fault})
				_, err := h.Provider.Create(h.Context(), c)
				h.fails(err, batch.UnknownOutcome)
			}
			first, second := h.create(c), h.create(c)
			if first.ID != second.ID || h.Server.Jobs() != 1 {
				h.Errorf("jobs %s and %s, %d in all", first.ID, second.ID, h.Server.Jobs())
			}
		})
	}
}

// inlineBody: the body is written once for each create, in whatever pieces, and
// what arrives is what was written.
func inlineBody(h *harness) {
	h.byBody()
	body := h.body()
	for name, size := range map[string]int{"whole": len(body), "in bytes": 1, "in odd pieces": 7} {
		h.each(name, func(h *harness) {
			written := 0
			c := h.creation()
			c.Body.Write = func(w io.Writer) error {
				written++
				for rest := body; len(rest) > 0; {
					n := min(size, len(rest))
					if _, err := w.Write(rest[:n:n]); err != nil {
						return err
					}
					rest = rest[n:]
				}
				return nil
			}
			h.Server.Plan(AllAnswered)
			job := h.create(c)
			if written != 1 || h.Server.Jobs() != 1 || h.Server.Calls(OpCreate) != 1 {
				h.Errorf("written %d times for %d jobs by %d creates", written, h.Server.Jobs(), h.Server.Calls(OpCreate))
			}
			h.Server.Finish(job.ID, AllAnswered)
			if _, results := h.lines(h.channel(h.status(job.ID), batch.ChannelOutput)); len(results) != len(items) {
				h.Errorf("%d results of %d", len(results), len(items))
			}
		})
	}
	for _, fault := range []FaultKind{LostRequest, LostAnswer, GatewayPage, Redirect, Unauthorized, TooMany} {
		h.each("written once with "+string(fault), func(h *harness) {
			written := 0
			c := h.creation()
			write := c.Body.Write
			c.Body.Write = func(w io.Writer) error { written++; return write(w) }
			h.arm(OpCreate, Fault{Kind: fault})
			_, err := h.Provider.Create(h.Context(), c)
			h.discreet(err)
			if err == nil || written > 1 || h.Server.Calls(OpCreate) != 1 {
				h.Errorf("%v, written %d times, by %d creates", err, written, h.Server.Calls(OpCreate))
			}
		})
	}
}

// inlineLength: a body that is not whole makes no job, which is known.
func inlineLength(h *harness) {
	h.byBody()
	for name, in := range wrongLengths(h.body()) {
		job, err := h.Provider.Create(h.Context(), batch.Creation{Body: &in, Key: name})
		h.fails(err, batch.Temporary, batch.Rejected)
		if job.ID != "" {
			h.Errorf("%s: a job with an error", name)
		}
		if (name == "broken" || name == "late") && !errors.Is(err, errSource) {
			h.Errorf("%s: the source's own error is hidden: %v", name, err)
		}
	}
	if n := h.Server.Jobs(); n != 0 {
		h.Errorf("%d jobs over bodies that are not whole", n)
	}
	h.created() // the account is none the worse for it
}

// inlineAlone: what is not handed over inline is refused before any call.
func inlineAlone(h *harness) {
	h.byBody()
	both := h.creation()
	both.FileID = "file-1"
	for name, c := range map[string]batch.Creation{"no body": {Key: "s1"}, "a file": {FileID: "file-1", Key: "s2"}, "both": both} {
		job, err := h.Provider.Create(h.Context(), c)
		h.fails(err, batch.Rejected)
		if job.ID != "" {
			h.Errorf("%s: a job with an error", name)
		}
	}
	id, err := h.Provider.Upload(h.Context(), input(bytes.Clone(h.body())))
	h.fails(err, batch.Rejected)
	if id != "" || h.Server.Calls(OpCreate) != 0 || h.Server.Calls(OpUpload) != 0 || h.Server.Jobs() != 0 {
		h.Errorf("file %q, %d creates, %d uploads, %d jobs", id, h.Server.Calls(OpCreate), h.Server.Calls(OpUpload), h.Server.Jobs())
	}
}
