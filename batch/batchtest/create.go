package batchtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"rollcall/batch"
)

func account(h *harness) {
	a := h.Provider.Account()
	if a != h.Provider.Account() {
		h.Error("two calls, two accounts")
	}
	if a.Processor == "" || a.Name == "" || a.Host == "" || a.Fingerprint == "" {
		h.Errorf("incomplete account %+v", a)
	}
	for _, s := range h.Secrets {
		if strings.Contains(a.Fingerprint, s) || strings.Contains(a.Host, s) {
			h.Error("the account shows a secret")
		}
	}
}

func appendRequest(h *harness) {
	prefix := []byte("before\n")
	seen := map[string]bool{}
	for _, text := range texts {
		render := func() []byte {
			b, err := h.Provider.AppendRequest(bytes.Clone(prefix), h.question(), items[0], batch.NewText(text))
			if err != nil {
				h.Fatalf("%q: %v", text, err)
			}
			return b
		}
		first := render()
		// Another classifier in between must not show.
		other := *h.question()
		other.Instructions += " Take your time."
		if _, err := h.Provider.AppendRequest(nil, &other, items[1], batch.NewText("x")); err != nil {
			h.Fatal(err)
		}
		if !bytes.Equal(first, render()) {
			h.Errorf("%q: the same arguments gave other bytes", text)
		}
		line, ok := bytes.CutPrefix(first, prefix)
		if !ok {
			h.Fatal("dst was not kept")
		}
		if bytes.IndexByte(line, '\n') != len(line)-1 {
			h.Errorf("%q: not one line: %q", text, line)
		}
		if !utf8.Valid(line) || bytes.ContainsAny(line, "\x00\r\u2028\u2029") || bytes.HasPrefix(line, []byte("\ufeff")) {
			h.Errorf("%q: bytes that a reader of lines may stumble over: %q", text, line)
		}
		seen[string(line)] = true
	}
	if len(seen) != len(texts) {
		h.Errorf("%d texts gave %d lines", len(texts), len(seen))
	}

	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, text := range texts {
				h.Provider.AppendRequest(nil, h.question(), items[0], batch.NewText(text))
			}
		})
	}
	wg.Wait()
}

func appendRefuses(h *harness) {
	for _, id := range []string{"", "a b", "a\"b", "a\nb", "ä", strings.Repeat("x", 65)} {
		dst, err := h.Provider.AppendRequest([]byte("kept"), h.question(), id, batch.NewText(Marker))
		h.fails(err, batch.Rejected)
		if string(dst) != "kept" {
			h.Errorf("custom id %q: dst is %q", id, dst)
		}
	}
}

func upload(h *harness) {
	h.byFile()
	first, second := h.uploaded(), h.uploaded()
	if first == second {
		h.Error("two uploads share one file")
	}
	if h.Server.Files() != 2 || h.Server.Jobs() != 0 {
		h.Errorf("%d files and %d jobs after two uploads", h.Server.Files(), h.Server.Jobs())
	}
}

func uploadLength(h *harness) {
	h.byFile()
	for name, in := range wrongLengths(h.body()) {
		id, err := h.Provider.Upload(h.Context(), in)
		h.fails(err, batch.Temporary, batch.Rejected)
		if id != "" {
			h.Errorf("%s: a file id with an error", name)
		}
		if name == "broken" && !errors.Is(err, errSource) {
			h.Errorf("the source's own error is hidden: %v", err)
		}
	}
	if n := h.Server.Files(); n != 0 {
		h.Errorf("%d files were taken that are not whole", n)
	}
}

var errSource = errors.New("broken source")

// wrongLengths are inputs whose body is not as long as it is said to be.
func wrongLengths(body []byte) map[string]batch.Input {
	writes := func(parts ...[]byte) func(io.Writer) error {
		return func(w io.Writer) error {
			for _, p := range parts {
				if _, err := w.Write(p); err != nil {
					return err
				}
			}
			return nil
		}
	}
	all := map[string]batch.Input{
		"short":   {Size: int64(len(body)) + 1, Write: writes(body)},
		"long":    {Size: int64(len(body)) - 1, Write: writes(body)},
		"surplus": {Size: int64(len(body)), Write: writes(body, []byte("\n"))},
		"deaf":    {Size: int64(len(body)), Write: func(w io.Writer) error { w.Write(body); w.Write([]byte("\n")); return nil }},
		"empty":   {Size: int64(len(body)), Write: writes()},
		"broken":  {Size: int64(len(body)), Write: func(w io.Writer) error { w.Write(body[:9]); return errSource }},
		"late":    {Size: int64(len(body)), Write: func(w io.Writer) error { w.Write(body); return errSource }},
	}
	for name, in := range all {
		in.Name = "rc-ledger-job-1.jsonl"
		all[name] = in
	}
	return all
}

func uploadFaults(h *harness) {
	h.byFile()
	for _, tc := range []struct {
		fault FaultKind
		kind  batch.Kind
	}{
		{LostRequest, batch.Temporary}, {LostAnswer, batch.Temporary}, {GatewayPage, batch.Temporary}, {Conflict, batch.Temporary},
		{ServerError, batch.Temporary}, {Busy, batch.Temporary}, {Torn, batch.Temporary},
		{Blank, batch.BadAnswer}, {Page, batch.BadAnswer}, {Redirect, batch.BadAnswer},
		{BadRequest, batch.Rejected}, {Unauthorized, batch.Denied}, {Forbidden, batch.Denied}, {TooMany, batch.RateLimited},
		{NoCredit, batch.OutOfCredit}, {Payment, batch.OutOfCredit},
	} {
		h.each(string(tc.fault), func(h *harness) {
			h.arm(OpUpload, Fault{Kind: tc.fault})
			_, err := h.Provider.Upload(h.Context(), input(h.body()))
			h.fails(err, tc.kind)
			if h.Server.Jobs() != 0 || h.Server.Strayed() != 0 {
				h.Errorf("%d jobs, %d calls strayed", h.Server.Jobs(), h.Server.Strayed())
			}
			h.uploaded() // it may be called again
		})
	}
}

func create(h *harness) {
	job := h.created()
	// What keeps no job has run it by the time it answers.
	phase := batch.PhaseRunning
	if h.Provider.Capabilities().Settlement == batch.SettleByRepeat {
		phase = batch.PhaseEnded
	}
	if job.ID == "" || job.Phase != phase || job.Status == "" || !job.Known || phase == batch.PhaseRunning && len(job.Files) != 0 {
		h.Errorf("new job %+v", job)
	}
	if h.Server.Jobs() != 1 || h.Server.Calls(OpCreate) != 1 {
		h.Errorf("%d jobs by %d creates", h.Server.Jobs(), h.Server.Calls(OpCreate))
	}
}

// createUnknown: whatever may have been carried out is of unknown outcome, and
// is sent exactly once (F15, F22).
func createUnknown(h *harness) {
	for _, tc := range []struct {
		fault FaultKind
		jobs  int
	}{
		{LostAnswer, 1}, {Torn, 1}, {GatewayPage, 1}, {Blank, 1}, {Page, 1}, {Conflict, 1},
		{LostRequest, 0}, {ServerError, 0}, {Busy, 0}, {Redirect, 0},
	} {
		h.each(string(tc.fault), func(h *harness) {
			c := h.creation()
			h.status(h.created().ID) // a connection that could be used again
			before, calls := h.Server.Jobs(), h.Server.Calls(OpCreate)
			h.arm(OpCreate, Fault{Kind: tc.fault})
			_, err := h.Provider.Create(h.Context(), c)
			h.fails(err, batch.UnknownOutcome)
			if n := h.Server.Calls(OpCreate) - calls; n != 1 {
				h.Errorf("the create was sent %d times", n)
			}
			if n := h.Server.Jobs() - before; n != tc.jobs {
				h.Errorf("%d jobs, want %d", n, tc.jobs)
			}
			if n := h.Server.Strayed(); n != 0 {
				h.Errorf("%d calls reached another host", n)
			}
		})
	}
}

func createRefused(h *harness) {
	for _, tc := range []struct {
		fault Fault
		kind  batch.Kind
	}{
		{Fault{Kind: BadRequest}, batch.Rejected},
		{Fault{Kind: Unauthorized}, batch.Denied},
		{Fault{Kind: Forbidden}, batch.Denied},
		{Fault{Kind: NoCredit}, batch.OutOfCredit},
		{Fault{Kind: Payment}, batch.OutOfCredit},
		{Fault{Kind: TooMany}, batch.RateLimited},
		{Fault{Kind: TooMany, RetryAfter: wait}, batch.RateLimited},
		{Fault{Kind: TooManyDate, RetryAfter: wait}, batch.RateLimited},
	} {
		h.each(tc.fault.String(), func(h *harness) {
			c := h.creation()
			h.arm(OpCreate, tc.fault)
			_, err := h.Provider.Create(h.Context(), c)
			h.fails(err, tc.kind)
			if got := batch.RetryAfter(err); got != tc.fault.RetryAfter {
				h.Errorf("waiting time %v, want %v", got, tc.fault.RetryAfter)
			}
			if h.Server.Jobs() != 0 || h.Server.Calls(OpCreate) != 1 {
				h.Errorf("%d jobs by %d creates", h.Server.Jobs(), h.Server.Calls(OpCreate))
			}
			// The body is still good for the attempt that follows.
			if _, err := h.Provider.Create(h.Context(), c); err != nil {
				h.Error(err)
			}
		})
	}
}

// unreachable: a request that never left is proof that nothing was done.
func unreachable(h *harness) {
	p := h.Unreachable
	if p == nil {
		h.Skip("this provider cannot be unreachable")
	}
	_, err := p.Create(h.Context(), h.creation())
	h.fails(err, batch.Temporary)
	h.unanswered(p, h.Context())
}

func cancelled(h *harness) {
	c := h.creation()
	ctx := cancelledContext()
	_, err := h.Provider.Create(ctx, c)
	h.fails(err, batch.Temporary, batch.UnknownOutcome)
	h.unanswered(h.Provider, ctx)
	if h.Server.Jobs() != 0 {
		h.Errorf("%d jobs", h.Server.Jobs())
	}
	if n := h.Server.Files(); !h.isInline() && n != 1 {
		h.Errorf("%d files", n)
	}
}

// unanswered makes every call but a create, of which none can be answered.
func (h *harness) unanswered(p batch.Provider, ctx context.Context) {
	h.Helper()
	_, err := p.Status(ctx, "batch-1")
	h.fails(err, batch.Temporary)
	_, _, err = p.Download(ctx, "file-1")
	h.fails(err, batch.Temporary)
	if !h.isInline() {
		_, err = p.Upload(ctx, input(h.body()))
		h.fails(err, batch.Temporary)
	}
	if h.deletesFiles() {
		h.fails(p.DeleteFile(ctx, "file-1"), batch.Temporary)
	}
	if inv, ok := p.(batch.Inventory); ok {
		_, err = inv.ListJobs(ctx, "")
		h.fails(err, batch.Temporary)
		h.fails(inv.Cancel(ctx, "batch-1"), batch.Temporary)
		if !h.isInline() {
			_, err = inv.ListFiles(ctx, "")
			h.fails(err, batch.Temporary)
		}
	}
	if i, ok := p.(batch.Inspector); ok {
		_, err = i.Inspect(ctx, "batch-1")
		h.fails(err, batch.Temporary)
	}
	if d, ok := p.(batch.JobDeleter); ok && p.Capabilities().Deletion.Job {
		h.fails(d.DeleteJob(ctx, "batch-1"), batch.Temporary)
	}
}
