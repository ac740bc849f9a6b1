package batchtest

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"rollcall/batch"
)

// Paged is a Server that can make its lists give few entries at once.
type Paged interface {
	// Page has every list give at most this many entries from now on.
	Page(entries int)
}

// inventory is the provider's, or skips the check.
func (h *harness) inventory() batch.Inventory {
	h.Helper()
	inv, ok := h.Provider.(batch.Inventory)
	if !ok {
		h.Skip("this provider lists nothing")
	}
	return inv
}

// byListing skips what holds only where a list tells the origin of an object.
func (h *harness) byListing() {
	h.Helper()
	if s := h.Provider.Capabilities().Settlement; s != batch.SettleByListing {
		h.Skipf("this account settles by %s", s)
	}
}

// jobLists skips what an account that keeps no job has no list for.
func (h *harness) jobLists() {
	h.Helper()
	h.inventory()
	if h.Provider.Capabilities().Settlement == batch.SettleByRepeat {
		h.Skip("this account keeps no job that a list could show")
	}
}

// numbered makes n jobs, each over a body of its own and with metadata of its
// own, and returns them with their creations, newest first.
func (h *harness) numbered(n int) (jobs []batch.Job, creations []batch.Creation) {
	h.Helper()
	for i := range n {
		c := h.creation()
		c.Metadata = map[string]string{"rc_job": fmt.Sprintf("job-%d", i), "rc_ledger": "l1"}
		jobs, creations = append(jobs, h.create(c)), append(creations, c)
	}
	slices.Reverse(jobs)
	slices.Reverse(creations)
	return jobs, creations
}

// listed follows the cursor from after to the end. between runs before every
// page but the first.
func (h *harness) listed(after string, between func()) (jobs []batch.ListedJob, pages int) {
	h.Helper()
	for seen := map[string]bool{}; ; {
		page, err := h.inventory().ListJobs(h.Context(), after)
		if err != nil {
			h.Fatal(err)
		}
		jobs, pages, after = append(jobs, page.Jobs...), pages+1, page.Next
		if after == "" {
			return jobs, pages
		}
		if seen[after] {
			h.Fatalf("the cursor %s came twice", after)
		}
		seen[after] = true
		between()
	}
}

func (h *harness) listedFiles(between func()) (files []batch.ListedFile, pages int) {
	h.Helper()
	after := ""
	for seen := map[string]bool{}; ; {
		page, err := h.inventory().ListFiles(h.Context(), after)
		if err != nil {
			h.Fatal(err)
		}
		files, pages, after = append(files, page.Files...), pages+1, page.Next
		if after == "" {
			return files, pages
		}
		if seen[after] {
			h.Fatalf("the cursor %s came twice", after)
		}
		seen[after] = true
		between()
	}
}

func nothing() {}

func ids[T any](all []T, id func(T) string) []string {
	out := make([]string, 0, len(all))
	for _, v := range all {
		out = append(out, id(v))
	}
	return out
}

func jobIDs(all []batch.ListedJob) []string {
	return ids(all, func(l batch.ListedJob) string { return l.ID })
}

func fileIDs(all []batch.ListedFile) []string {
	return ids(all, func(l batch.ListedFile) string { return l.ID })
}

// listJobs: a list shows what a look-up shows, and whose the job is (F16).
func listJobs(h *harness) {
	h.jobLists()
	if got, _ := h.listed("", nothing); len(got) != 0 {
		h.Errorf("a new account has %+v", got)
	}
	h.Server.Plan(AllAnswered)
	jobs, creations := h.numbered(3)
	h.Server.Finish(jobs[2].ID, AllAnswered)
	got, _ := h.listed("", nothing)
	if want := ids(jobs, func(j batch.Job) string { return j.ID }); !slices.Equal(jobIDs(got), want) {
		h.Fatalf("jobs %v, want %v", jobIDs(got), want)
	}
	told := h.Provider.Capabilities().Settlement == batch.SettleByListing
	for i, l := range got {
		if want := h.status(l.ID); !reflect.DeepEqual(l.Job, want) {
			h.Errorf("listed as %+v, looked up as %+v", l.Job, want)
		}
		if c := creations[i]; told && (l.FileID != c.FileID || !reflect.DeepEqual(l.Metadata, c.Metadata)) {
			h.Errorf("listed with %s and %v, created with %s and %v", l.FileID, l.Metadata, c.FileID, c.Metadata)
		}
		if i > 0 && l.Created.After(got[i-1].Created) {
			h.Errorf("%s is newer than %s", l.ID, got[i-1].ID)
		}
	}
	if h.Server.Jobs() != 3 || h.Server.Calls(OpCreate) != 3 {
		h.Error("a list created something")
	}
}

// listFiles: request bodies, and nothing else.
func listFiles(h *harness) {
	inv := h.inventory()
	if h.isInline() {
		h.created()
		if page, err := inv.ListFiles(h.Context(), ""); err != nil || len(page.Files) != 0 || page.Next != "" {
			h.Errorf("files %+v, %v, and none was uploaded", page, err)
		}
		return
	}
	h.byListing()
	if got, _ := h.listedFiles(nothing); len(got) != 0 {
		h.Errorf("a new account has %+v", got)
	}
	first, gone := h.uploaded(), h.uploaded()
	h.finished() // a body of its own, and a file of results
	if err := h.Provider.DeleteFile(h.Context(), gone); err != nil {
		h.Fatal(err)
	}
	got, _ := h.listedFiles(nothing)
	if len(got) != 2 || got[1].ID != first || got[0].ID == gone {
		h.Fatalf("files %+v, want the one of a job and %s", got, first)
	}
	want := input(h.body())
	for _, f := range got {
		if f.Name != want.Name || f.Bytes != want.Size {
			h.Errorf("%+v, want %s of %d bytes", f, want.Name, want.Size)
		}
	}
	if got[1].Created.After(got[0].Created) {
		h.Errorf("%+v is not the newest first", got)
	}
}

// listPages: nothing is left out between two pages, whatever comes in meanwhile.
func listPages(h *harness) {
	h.jobLists()
	server, ok := h.Server.(Paged)
	if !ok {
		h.Skip("this server's pages have one length")
	}
	server.Page(2)
	jobs, creations := h.numbered(5)
	want := ids(jobs, func(j batch.Job) string { return j.ID })
	got, pages := h.listed("", func() { h.numbered(1) })
	if !slices.Equal(jobIDs(got), want) || pages != 3 {
		h.Errorf("jobs %v on %d pages, want %v", jobIDs(got), pages, want)
	}
	if rest, _ := h.listed(want[1], nothing); !slices.Equal(jobIDs(rest), want[2:]) {
		h.Errorf("behind %s: %v, want %v", want[1], jobIDs(rest), want[2:])
	}
	h.byListing()
	h.byFile()
	files, pages := h.listedFiles(func() { h.uploaded() })
	old := files[len(files)-min(5, len(files)):]
	if want := ids(creations, func(c batch.Creation) string { return c.FileID }); !slices.Equal(fileIDs(old), want) || pages != 4 {
		h.Errorf("files %v on %d pages, want %v at the end", fileIDs(files), pages, want)
	}
}

// listFaults: a list that failed shows nothing that could be taken for the
// whole.
func listFaults(h *harness) {
	h.jobLists()
	for op, list := range map[Op]func(*harness) (shown int, err error){
		OpListJobs: func(h *harness) (int, error) {
			page, err := h.inventory().ListJobs(h.Context(), "")
			return len(page.Jobs) + len(page.Next), err
		},
		OpListFiles: func(h *harness) (int, error) {
			page, err := h.inventory().ListFiles(h.Context(), "")
			return len(page.Files) + len(page.Next), err
		},
	} {
		if op == OpListFiles && h.isInline() {
			continue
		}
		for _, tc := range wholeFaults {
			h.each(string(op)+" "+tc.fault.String(), func(h *harness) {
				h.created()
				want, err := list(h)
				if err != nil {
					h.Fatal(err)
				}
				h.arm(op, tc.fault)
				shown, err := list(h)
				tc.meets(h, err)
				if err != nil && shown != 0 {
					h.Error("a list that failed shows something")
				}
				if got, err := list(h); err != nil || got != want {
					h.Errorf("%d entries, then %d, %v", want, got, err)
				}
				if h.Server.Strayed() != 0 || h.Server.Calls(OpCreate) != 1 {
					h.Error("the call went elsewhere, or created something")
				}
			})
		}
	}
}

func cancel(h *harness) {
	inv := h.inventory()
	job := h.created()
	for range 2 {
		if err := inv.Cancel(h.Context(), job.ID); err != nil {
			h.Error(err)
		}
	}
	h.Server.Finish(job.ID, AllAnswered) // if it still has to
	if got := h.status(job.ID); got.Phase != batch.PhaseEnded {
		h.Errorf("a cancelled job is %+v", got)
	}
	ended := h.ended(AllAnswered)
	want, _ := h.lines(h.channel(ended, batch.ChannelOutput))
	for range 2 {
		if err := inv.Cancel(h.Context(), ended.ID); err != nil {
			h.Errorf("cancel of an ended job: %v", err)
		}
	}
	if got := h.status(ended.ID); !reflect.DeepEqual(got, ended) {
		h.Errorf("an ended job is %+v, was %+v", got, ended)
	}
	if got, _ := h.lines(h.channel(ended, batch.ChannelOutput)); !bytes.Equal(got, want) {
		h.Error("the results changed")
	}
	h.fails(inv.Cancel(h.Context(), "batch-nobody-knows"), batch.NotFound)
	if h.Server.Jobs() != 2 || h.Server.Calls(OpCreate) != 2 {
		h.Error("a cancel created something")
	}
}

// onceMore are the faults of calls that change something, and may be repeated.
var onceMore = []readFault{
	{Fault{Kind: LostRequest}, batch.Temporary, false}, {Fault{Kind: LostAnswer}, batch.Temporary, false}, {Fault{Kind: GatewayPage}, batch.Temporary, false},
	{Fault{Kind: ServerError}, batch.Temporary, false}, {Fault{Kind: Busy}, batch.Temporary, false}, {Fault{Kind: Torn}, batch.Temporary, false},
	{Fault{Kind: Blank}, batch.BadAnswer, false}, {Fault{Kind: Page}, batch.BadAnswer, false}, {Fault{Kind: Redirect}, batch.BadAnswer, false},
	{Fault{Kind: BadRequest}, batch.Rejected, false}, {Fault{Kind: Unauthorized}, batch.Denied, false}, {Fault{Kind: Forbidden}, batch.Denied, false},
	{Fault{Kind: Payment}, batch.OutOfCredit, false}, {Fault{Kind: TooMany}, batch.RateLimited, false},
	{Fault{Kind: TooMany, RetryAfter: wait}, batch.RateLimited, false}, {Fault{Kind: TooManyDate, RetryAfter: wait}, batch.RateLimited, false},
	{Fault{Kind: Conflict}, batch.Temporary, true}, // a look-up may show that it was carried out
}

// cancelFaults: a cancel whose outcome is unknown may be repeated.
func cancelFaults(h *harness) {
	h.inventory()
	for _, tc := range append(onceMore[:len(onceMore):len(onceMore)], readFault{Fault{Kind: Missing}, batch.NotFound, false}) {
		h.each(tc.fault.String(), func(h *harness) {
			job := h.created()
			h.arm(OpCancel, tc.fault)
			tc.meets(h, h.inventory().Cancel(h.Context(), job.ID))
			if err := h.inventory().Cancel(h.Context(), job.ID); err != nil {
				h.Errorf("again: %v", err)
			}
			if h.status(job.ID).ID != job.ID || h.Server.Strayed() != 0 || h.Server.Calls(OpCreate) != 1 {
				h.Error("the job is gone, the call went elsewhere, or it created something")
			}
		})
	}
}

// requestID: the id of a line that AppendRequest wrote, and of nothing else.
func requestID(h *harness) {
	inv := h.inventory()
	for _, text := range texts {
		line, err := h.Provider.AppendRequest(nil, h.question(), items[1], batch.NewText(text))
		if err != nil {
			h.Fatal(err)
		}
		for _, l := range [][]byte{line, bytes.TrimSuffix(line, []byte("\n"))} {
			if id, ok := inv.RequestID(l); id != items[1] || !ok {
				h.Errorf("%q: %q, %v", text, id, ok)
			}
		}
		for _, odd := range []string{"", "a b", "ä", "a.b", strings.Repeat("x", 65), "a\\u0000", "a\xff"} {
			l := bytes.Replace(line, []byte(items[1]), []byte(odd), 1)
			if id, ok := inv.RequestID(l); id != "" || ok {
				h.Errorf("custom id %q is read as %q", odd, id)
			}
		}
		id, _ := inv.RequestID(line)
		clear(line)
		if id != items[1] {
			h.Errorf("the id is part of the line: %q", id)
		}
	}
	line, err := h.Provider.AppendRequest(nil, h.question(), items[0], batch.NewText(Marker))
	if err != nil {
		h.Fatal(err)
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	for n := range line {
		if id, ok := inv.RequestID(line[:n]); id != "" || ok {
			h.Errorf("a line cut at %d of %d has id %q", n, len(line), id)
		}
	}
	for _, s := range []string{
		"\n", "null", "7", "[]", "{}", `"x"`, "\x00", Marker, "<html>" + Marker + "</html>", `{"custom_id":null}`, `{"custom_id":7}`,
		strings.Repeat("[", 100_000), "\ufeff" + string(line), string(line) + string(line), string(line) + "x",
	} {
		if id, ok := inv.RequestID([]byte(s)); id != "" || ok {
			h.Errorf("%.40q has id %q", s, id)
		}
	}
}
