package batchtest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
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
	if l := h.Provider.Capabilities().Limits; l.Items < 0 || l.Bytes < 0 || l.ItemBytes < 0 {
		h.Errorf("limits %+v", l)
	}
	settlement(h)
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
	case batch.SettleByKey, batch.SettleByRepeat:
	default:
		h.Errorf("settled by %q", s)
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
		other.Model += "-2"
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
	first, second := h.uploaded(), h.uploaded()
	if first == second {
		h.Error("two uploads share one file")
	}
	if h.Server.Files() != 2 || h.Server.Jobs() != 0 {
		h.Errorf("%d files and %d jobs after two uploads", h.Server.Files(), h.Server.Jobs())
	}
}

func uploadLength(h *harness) {
	body := h.body()
	broken := errors.New("broken source")
	for name, in := range map[string]batch.Input{
		"short":  {Size: int64(len(body)) + 1, Write: input(body).Write},
		"long":   {Size: int64(len(body)) - 1, Write: input(body).Write},
		"empty":  {Size: int64(len(body)), Write: func(io.Writer) error { return nil }},
		"broken": {Size: int64(len(body)), Write: func(w io.Writer) error { w.Write(body[:9]); return broken }},
	} {
		in.Name = "rc-ledger-job-1.jsonl"
		id, err := h.Provider.Upload(h.Context(), in)
		h.fails(err, batch.Temporary, batch.Rejected)
		if id != "" {
			h.Errorf("%s: a file id with an error", name)
		}
		if name == "broken" && !errors.Is(err, broken) {
			h.Errorf("the source's own error is hidden: %v", err)
		}
	}
	if n := h.Server.Files(); n != 0 {
		h.Errorf("%d files were taken that are not whole", n)
	}
}

func uploadFaults(h *harness) {
	for _, tc := range []struct {
		fault FaultKind
		kind  batch.Kind
	}{
		{LostRequest, batch.Temporary}, {LostAnswer, batch.Temporary}, {GatewayPage, batch.Temporary}, {Conflict, batch.Temporary},
		{Blank, batch.BadAnswer}, {Redirect, batch.BadAnswer},
		{BadRequest, batch.Rejected}, {Unauthorized, batch.Denied}, {TooMany, batch.RateLimited}, {NoCredit, batch.OutOfCredit},
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
	file := h.uploaded()
	job, err := h.Provider.Create(h.Context(), creation(file))
	if err != nil {
		h.Fatal(err)
	}
	if job.ID == "" || job.Phase != batch.PhaseRunning || job.Status == "" || !job.Known || len(job.Files) != 0 {
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
		{LostAnswer, 1}, {GatewayPage, 1}, {Blank, 1}, {Conflict, 1}, {LostRequest, 0}, {Redirect, 0},
	} {
		h.each(string(tc.fault), func(h *harness) {
			file := h.uploaded()
			h.status(h.created().ID) // a connection that could be used again
			before, calls := h.Server.Jobs(), h.Server.Calls(OpCreate)
			h.arm(OpCreate, Fault{Kind: tc.fault})
			_, err := h.Provider.Create(h.Context(), creation(file))
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
	const wait = 7 * time.Second
	for _, tc := range []struct {
		name  string
		fault Fault
		kind  batch.Kind
	}{
		{"bad request", Fault{Kind: BadRequest}, batch.Rejected},
		{"unauthorized", Fault{Kind: Unauthorized}, batch.Denied},
		{"no credit", Fault{Kind: NoCredit}, batch.OutOfCredit},
		{"too many", Fault{Kind: TooMany}, batch.RateLimited},
		{"too many, with a time", Fault{Kind: TooMany, RetryAfter: wait}, batch.RateLimited},
	} {
		h.each(tc.name, func(h *harness) {
			file := h.uploaded()
			h.arm(OpCreate, tc.fault)
			_, err := h.Provider.Create(h.Context(), creation(file))
			h.fails(err, tc.kind)
			if got := batch.RetryAfter(err); got != tc.fault.RetryAfter {
				h.Errorf("waiting time %v, want %v", got, tc.fault.RetryAfter)
			}
			if h.Server.Jobs() != 0 || h.Server.Calls(OpCreate) != 1 {
				h.Errorf("%d jobs by %d creates", h.Server.Jobs(), h.Server.Calls(OpCreate))
			}
			// The file is still good for the attempt that follows.
			if _, err := h.Provider.Create(h.Context(), creation(file)); err != nil {
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
	_, err := p.Create(h.Context(), creation("file-1"))
	h.fails(err, batch.Temporary)
	_, err = p.Upload(h.Context(), input(h.body()))
	h.fails(err, batch.Temporary)
	_, err = p.Status(h.Context(), "batch-1")
	h.fails(err, batch.Temporary)
	_, _, err = p.Download(h.Context(), "file-1")
	h.fails(err, batch.Temporary)
	h.fails(p.DeleteFile(h.Context(), "file-1"), batch.Temporary)
	if inv, ok := p.(batch.Inventory); ok {
		_, err = inv.ListJobs(h.Context(), "")
		h.fails(err, batch.Temporary)
		_, err = inv.ListFiles(h.Context(), "")
		h.fails(err, batch.Temporary)
		h.fails(inv.Cancel(h.Context(), "batch-1"), batch.Temporary)
	}
	if i, ok := p.(batch.Inspector); ok {
		_, err = i.Inspect(h.Context(), "batch-1")
		h.fails(err, batch.Temporary)
	}
}

func cancelled(h *harness) {
	file := h.uploaded()
	ctx := cancelledContext()
	_, err := h.Provider.Create(ctx, creation(file))
	h.fails(err, batch.Temporary, batch.UnknownOutcome)
	_, err = h.Provider.Upload(ctx, input(h.body()))
	h.fails(err, batch.Temporary)
	_, err = h.Provider.Status(ctx, "batch-1")
	h.fails(err, batch.Temporary)
	_, _, err = h.Provider.Download(ctx, file)
	h.fails(err, batch.Temporary)
	h.fails(h.Provider.DeleteFile(ctx, file), batch.Temporary)
	if inv, ok := h.Provider.(batch.Inventory); ok {
		_, err = inv.ListJobs(ctx, "")
		h.fails(err, batch.Temporary)
		_, err = inv.ListFiles(ctx, "")
		h.fails(err, batch.Temporary)
		h.fails(inv.Cancel(ctx, "batch-1"), batch.Temporary)
	}
	if i, ok := h.Provider.(batch.Inspector); ok {
		_, err = i.Inspect(ctx, "batch-1")
		h.fails(err, batch.Temporary)
	}
	if h.Server.Jobs() != 0 || h.Server.Files() != 1 {
		h.Errorf("%d jobs, %d files", h.Server.Jobs(), h.Server.Files())
	}
}
