package batchtest

import (
	"bytes"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"rollcall/batch"
)

func status(h *harness) {
	job := h.created()
	first := h.status(job.ID)
	if second := h.status(job.ID); !reflect.DeepEqual(first, second) || first.ID != job.ID {
		h.Errorf("two look-ups of %s gave %+v and %+v", job.ID, first, second)
	}
	if h.Server.Jobs() != 1 || h.Server.Calls(OpCreate) != 1 {
		h.Error("a look-up created something")
	}
	_, err := h.Provider.Status(h.Context(), "batch-nobody-knows")
	h.fails(err, batch.NotFound)
}

// wait is a time that a server asks for.
const wait = 7 * time.Second

// readFaults are the faults of calls that may be repeated.
var readFaults = []readFault{
	// An HTTP stack may try a read again when an idle connection turns out to
	// be dead; only a call that creates something must not be repeated.
	{Fault{Kind: LostRequest}, batch.Temporary, true},
	{Fault{Kind: LostAnswer}, batch.Temporary, true},
	{Fault{Kind: GatewayPage}, batch.Temporary, false},
	{Fault{Kind: ServerError}, batch.Temporary, false},
	{Fault{Kind: Busy}, batch.Temporary, false},
	{Fault{Kind: Conflict}, batch.Temporary, false},
	{Fault{Kind: Redirect}, batch.BadAnswer, false},
	{Fault{Kind: Page}, batch.BadAnswer, false},
	{Fault{Kind: Unauthorized}, batch.Denied, false},
	{Fault{Kind: Forbidden}, batch.Denied, false},
	{Fault{Kind: Payment}, batch.OutOfCredit, false},
	{Fault{Kind: NoCredit}, batch.OutOfCredit, false},
	{Fault{Kind: Missing}, batch.NotFound, false},
	{Fault{Kind: TooMany}, batch.RateLimited, false},
	{Fault{Kind: TooMany, RetryAfter: wait}, batch.RateLimited, false},
	{Fault{Kind: TooManyDate, RetryAfter: wait}, batch.RateLimited, false},
}

type readFault struct {
	fault   Fault
	kind    batch.Kind
	mayPass bool
}

// meets checks what a call that met the fault came to.
func (tc readFault) meets(h *harness, err error) {
	h.Helper()
	if err == nil && tc.mayPass {
		return
	}
	h.fails(err, tc.kind)
	if got := batch.RetryAfter(err); got != tc.fault.RetryAfter {
		h.Errorf("waiting time %v, want %v", got, tc.fault.RetryAfter)
	}
}

// wholeFaults are those of an answer that is read whole before it is used.
var wholeFaults = append(slices.Clone(readFaults), readFault{Fault{Kind: Blank}, batch.BadAnswer, false}, readFault{Fault{Kind: Torn}, batch.Temporary, false})

// statusFaults: a failed look-up says nothing about the job (F24).
func statusFaults(h *harness) {
	for _, tc := range wholeFaults {
		h.each(tc.fault.String(), func(h *harness) {
			job := h.created()
			want := h.status(job.ID)
			h.arm(OpStatus, tc.fault)
			_, err := h.Provider.Status(h.Context(), job.ID)
			tc.meets(h, err)
			if got := h.status(job.ID); !reflect.DeepEqual(got, want) {
				h.Errorf("job is %+v, was %+v", got, want)
			}
			if h.Server.Strayed() != 0 || h.Server.Calls(OpCreate) != 1 {
				h.Error("the call went elsewhere, or created something")
			}
		})
	}
}

func endings(h *harness) {
	outcomes := func(h *harness, job batch.Job) map[batch.Outcome][]string {
		got := map[batch.Outcome][]string{}
		for _, f := range job.Files {
			_, results := h.lines(f.ID)
			for _, r := range results {
				got[r.Outcome] = append(got[r.Outcome], r.CustomID)
				if (r.Outcome == batch.Answered) != (len(r.Content) > 0) {
					h.Errorf("%s: %s with %d bytes of content", r.CustomID, r.Outcome, len(r.Content))
				}
			}
		}
		return got
	}
	for ending, want := range map[Ending]map[batch.Outcome]int{
		AllAnswered: {batch.Answered: len(items)},
		OneExpired:  {batch.Answered: len(items) - 1, batch.Expired: 1},
		AllFailed:   {batch.ItemFailed: len(items)},
	} {
		h.each(string(ending), func(h *harness) {
			h.ends(ending)
			job := h.ended(ending)
			if job.Phase != batch.PhaseEnded || !job.Known || len(job.Faults) != 0 {
				h.Errorf("job %+v", job)
			}
			got, ids := outcomes(h, job), []string{}
			for outcome, of := range got {
				ids = append(ids, of...)
				if len(of) != want[outcome] {
					h.Errorf("results %v, want %v", got, want)
				}
			}
			if slices.Sort(ids); !slices.Equal(ids, items) {
				h.Errorf("results for %v, want one for each of %v", ids, items)
			}
			// Where results are no files, there is one list of all of them.
			if ending == AllFailed && (len(job.Files) != 1 || !h.isInline() && job.Files[0].Channel != batch.ChannelError) {
				h.Errorf("files %v, want the error file alone", job.Files)
			}
			if ending == AllAnswered {
				h.channel(job, batch.ChannelOutput)
			}
		})
	}
	h.each(string(BodyRefused), func(h *harness) {
		h.ends(BodyRefused)
		job := h.ended(BodyRefused)
		if job.Phase != batch.PhaseInvalid || len(job.Faults) == 0 || len(job.Files) != 0 {
			h.Errorf("job %+v", job)
		}
		for _, f := range job.Faults {
			if f.Code != batch.SafeCode(f.Code) || f.Line < 0 {
				h.Errorf("fault %+v", f)
			}
		}
	})
}

// ends skips an ending that does not exist at this server.
func (h *harness) ends(e Ending) {
	h.Helper()
	if l, ok := h.Server.(Limited); ok && !l.Ends(e) {
		h.Skipf("no job ends as %q here", e)
	}
}

// ended returns a job of all items that has ended as e.
func (h *harness) ended(e Ending) batch.Job {
	h.Helper()
	h.Server.Plan(e)
	job := h.created()
	h.Server.Finish(job.ID, e)
	return h.status(job.ID)
}

// finished returns the output file of a job that was answered.
func (h *harness) finished() string {
	h.Helper()
	return h.channel(h.ended(AllAnswered), batch.ChannelOutput)
}

func downloads(h *harness) {
	file := h.finished()
	body, _, err := h.Provider.Download(h.Context(), file)
	if err != nil {
		h.Fatal(err)
	}
	if _, err := io.ReadFull(body, make([]byte, 5)); err != nil {
		h.Fatal(err)
	}
	body.Close() // given up early
	first, _ := h.lines(file)
	second, _ := h.lines(file)
	if len(first) == 0 || !bytes.Equal(first, second) {
		h.Errorf("%d bytes, then %d bytes", len(first), len(second))
	}
	_, err = h.download("file-nobody-knows")
	h.fails(err, batch.NotFound)
}

func downloadFaults(h *harness) {
	for _, tc := range readFaults {
		h.each(tc.fault.String(), func(h *harness) {
			file := h.finished()
			want, _ := h.lines(file)
			h.arm(OpDownload, tc.fault)
			_, err := h.download(file)
			tc.meets(h, err)
			if got, _ := h.lines(file); !bytes.Equal(got, want) || h.Server.Strayed() != 0 {
				h.Error("the next download is not whole, or the call went elsewhere")
			}
		})
	}
	h.each(string(Torn), func(h *harness) {
		file := h.finished()
		want, _ := h.lines(file)
		h.arm(OpDownload, Fault{Kind: Torn})
		part, err := h.download(file)
		if err == nil {
			h.Error("a torn download ended without an error")
		}
		h.discreet(err)
		if len(part) >= len(want) || !bytes.HasPrefix(want, part) {
			h.Errorf("%d bytes of %d", len(part), len(want))
		}
		if got, _ := h.lines(file); !bytes.Equal(got, want) {
			h.Error("the next download did not start at the first byte")
		}
	})
}

// junk: DecodeResult never fails, and never takes junk for an answer.
func junk(h *harness) {
	_, results := h.lines(h.finished())
	raw, _ := h.lines(h.finished())
	line, _, _ := bytes.Cut(raw, []byte("\n"))
	if len(results) != len(items) {
		h.Errorf("%d results of %d", len(results), len(items))
	}
	for n := range line {
		if r := h.Provider.DecodeResult(line[:n]); r.Outcome != batch.Unreadable || len(r.Content) != 0 {
			h.Errorf("a line cut at %d of %d is %s", n, len(line), r.Outcome)
		}
	}
	for _, s := range []string{
		"", " ", "null", "true", "7", "[]", "{}", `"x"`, "{", "\x00", "\xff\xfe", Marker, "<html>" + Marker + "</html>",
		`{"custom_id":null}`, `{"custom_id":7}`, `{"custom_id":["w0001-s1"]}`,
		strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 100_000), "\ufeff" + string(line), string(line) + string(line),
	} {
		if r := h.Provider.DecodeResult([]byte(s)); r.Outcome != batch.Unreadable || len(r.Content) != 0 {
			h.Errorf("%.40q is %s", s, r.Outcome)
		}
	}
}
