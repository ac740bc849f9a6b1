package fake_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall/batch"
	"rollcall/batch/batchtest"
	"rollcall/batch/fake"
)

// server drives a fake as the far side that the contract suite wants.
type server struct {
	p       *fake.Provider
	planned batchtest.Ending
}

func TestContract(t *testing.T) {
	for _, h := range []batch.Handover{batch.HandoverFile, batch.HandoverInline} {
		for _, s := range []batch.Settlement{batch.SettleByListing, batch.SettleByResults, batch.SettleByKey, batch.SettleByRepeat} {
			t.Run(string(h)+" "+string(s), func(t *testing.T) {
				batchtest.Run(t, func(*testing.T) batchtest.Subject {
					return subject(fake.Options{Handover: h, Settlement: s, Page: 2, DeletesJobs: true})
				})
			})
		}
	}
	t.Run("without deletion", func(t *testing.T) {
		batchtest.Run(t, func(*testing.T) batchtest.Subject { return subject(fake.Options{Page: 2}) })
	})
}

func subject(o fake.Options) batchtest.Subject {
	refused := func(string) (bool, error) { return false, &batch.Error{Op: "dial", Kind: batch.Temporary} }
	down := fake.New(o)
	down.Hooks = fake.Hooks{
		Upload: refused, Status: refused, Download: refused, Delete: refused,
		Create: func(batch.Creation) (bool, error) { return refused("") },
		List:   refused, ListFiles: refused, Cancel: refused, Inspect: refused, DeleteJob: refused,
	}
	s := &server{}
	o.Script = s.script
	s.p = fake.New(o)
	return batchtest.Subject{Provider: s.p, Server: s, Unreachable: down, NoEcho: true}
}

// effect is what an adapter would make of a fault.
func effect(op batchtest.Op, f batchtest.Fault) (apply bool, err error) {
	e := &batch.Error{Op: string(op), RetryAfter: f.RetryAfter}
	lost := batch.Temporary
	odd := batch.BadAnswer
	if op == batchtest.OpCreate {
		lost, odd = batch.UnknownOutcome, batch.UnknownOutcome
	}
	switch f.Kind {
	case batchtest.LostRequest:
		e.Kind = lost
	case batchtest.LostAnswer, batchtest.GatewayPage, batchtest.Conflict:
		apply, e.Kind = true, lost
	case batchtest.Blank, batchtest.Page:
		apply, e.Kind = true, odd
	case batchtest.ServerError, batchtest.Busy:
		e.Kind = lost
	case batchtest.Redirect:
		e.Kind = odd
	case batchtest.BadRequest:
		e.Kind = batch.Rejected
	case batchtest.Unauthorized, batchtest.Forbidden:
		e.Kind = batch.Denied
	case batchtest.Missing:
		e.Kind = batch.NotFound
	case batchtest.TooMany, batchtest.TooManyDate:
		e.Kind = batch.RateLimited
	case batchtest.NoCredit, batchtest.Payment:
		e.Kind = batch.OutOfCredit
	case batchtest.Torn:
		apply, e.Kind, e.Cause = true, lost, io.ErrUnexpectedEOF
	}
	return apply, e
}

func (s *server) Arm(op batchtest.Op, f batchtest.Fault) bool {
	h := &s.p.Hooks
	once := func(string) (bool, error) {
		s.p.Hooks = fake.Hooks{}
		return effect(op, f)
	}
	switch op {
	case batchtest.OpUpload:
		h.Upload = once
	case batchtest.OpCreate:
		h.Create = func(batch.Creation) (bool, error) { return once("") }
	case batchtest.OpStatus:
		h.Status = once
	case batchtest.OpDownload:
		h.Download = once
	case batchtest.OpDelete:
		h.Delete = once
	case batchtest.OpListJobs:
		h.List = once
	case batchtest.OpListFiles:
		h.ListFiles = once
	case batchtest.OpCancel:
		h.Cancel = once
	case batchtest.OpDeleteJob:
		h.DeleteJob = once
	case batchtest.OpInspect: // an answer is no error, whatever it says
		h.Inspect = once
		return f.Kind == batchtest.LostRequest || f.Kind == batchtest.LostAnswer || f.Kind == batchtest.Torn
	}
	return true
}

// Page: two entries at a time from the beginning.
func (s *server) Page(entries int) {
	if entries != 2 {
		panic("the fake's pages have two entries")
	}
}

func (s *server) Calls(op batchtest.Op) int { return s.p.Calls(fake.Op(op)) }
func (s *server) Jobs() int                 { return len(s.p.Jobs()) }
func (s *server) Strayed() int              { return 0 }

func (s *server) Files() int {
	n := 0
	for _, f := range s.p.Files() {
		if f.Present {
			n++
		}
	}
	return n
}

// Ends: a job that has ended when Create returns cannot be refused after it, and
// the fake passes nothing on.
func (s *server) Ends(e batchtest.Ending) bool {
	return e != batchtest.OneOtherVendor && (e != batchtest.BodyRefused || s.p.Capabilities().Settlement != batch.SettleByRepeat)
}

func (s *server) Plan(e batchtest.Ending) { s.planned = e }

// script writes the lines of the ending that is planned.
func (s *server) script(it fake.Item) []fake.Line {
	switch {
	case s.planned == batchtest.AllFailed:
		return []fake.Line{fake.Failed(it.CustomID, batch.ItemFailed, "server_error")}
	case s.planned == batchtest.OneExpired && it.Line == 3:
		return []fake.Line{fake.Failed(it.CustomID, batch.Expired, "batch_expired")}
	case it.Line != 1:
		return nil
	}
	own := fake.Answered(it.CustomID, []byte("x"))
	return map[batchtest.Ending][]fake.Line{
		batchtest.OneRefused:   {fake.Failed(it.CustomID, batch.Refused, "")},
		batchtest.OneTruncated: {fake.Failed(it.CustomID, batch.Truncated, "")},
		batchtest.OneBlocked:   {fake.Failed(it.CustomID, batch.Blocked, "")},
		batchtest.OneTwice:     {own, own},
		batchtest.OneMissing:   {},
		batchtest.OneStray:     {own, fake.Answered("stranger", []byte("x"))},
		batchtest.OneNameless:  {fake.Answered("", []byte("x"))},
		batchtest.OneMalformed: {{Channel: batch.ChannelOutput, Raw: own.Raw[:len(own.Raw)/2]}},
		batchtest.OneOtherModel: {fake.Result(batch.ChannelOutput, batch.Result{
			CustomID: it.CustomID, Outcome: batch.Answered, Content: []byte("x"), Model: "another",
		})},
	}[s.planned]
}

func (s *server) Finish(jobID string, e batchtest.Ending) {
	s.planned = e
	switch e {
	case batchtest.BodyRefused:
		s.p.Refuse(jobID, batch.Fault{Line: 1, Code: "invalid_json_line"})
	case batchtest.OneExpired:
		s.p.EndAs(jobID, "expired", nil)
	default:
		s.p.End(jobID)
	}
}

// newJob uploads ids, each with the text "text of <id>", and makes a job.
func newJob(t *testing.T, p *fake.Provider, ids ...string) batch.Job {
	t.Helper()
	job, err := p.Create(t.Context(), batch.Creation{FileID: newFile(t, p, ids...), Metadata: map[string]string{"rc": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func newFile(t *testing.T, p *fake.Provider, ids ...string) string {
	t.Helper()
	var body []byte
	for _, id := range ids {
		var err error
		if body, err = p.AppendRequest(body, &batch.Classifier{Name: "c", Model: "m"}, id, batch.NewText("text of "+id)); err != nil {
			t.Fatal(err)
		}
	}
	id, err := p.Upload(t.Context(), batch.Input{Name: "in.jsonl", Size: int64(len(body)), Write: func(w io.Writer) error { _, err := w.Write(body); return err }})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func read(t *testing.T, p *fake.Provider, fileID string) []string {
	t.Helper()
	body, _, err := p.Download(t.Context(), fileID)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for l := range bytes.Lines(b) {
		lines = append(lines, string(bytes.TrimSuffix(l, []byte("\n"))))
	}
	return lines
}

func TestScript(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	p := fake.New(fake.Options{
		Now:    func() time.Time { return now },
		Answer: func(id, text string) []byte { return fmt.Appendf(nil, "%s: %s", id, text) },
		Script: func(it fake.Item) []fake.Line {
			switch it.Text {
			case "text of gone":
				return []fake.Line{}
			case "text of junk":
				return []fake.Line{{Channel: batch.ChannelError, Raw: []byte("junk")}}
			case "text of twice":
				l := fake.Answered(it.CustomID, []byte("x"))
				return []fake.Line{l, l}
			}
			return nil
		},
	})
	job := newJob(t, p, "a", "gone", "junk", "twice")
	if n := p.EndAll(); n != 1 || p.End(job.ID) {
		t.Errorf("%d jobs ended, or one twice", n)
	}
	job, err := p.Status(t.Context(), job.ID)
	if err != nil || len(job.Files) != 2 || !job.Expires.Equal(now.Add(24*time.Hour)) {
		t.Fatalf("%+v, %v", job, err)
	}
	var got []string
	for _, l := range read(t, p, job.Files[0].ID) {
		r := p.DecodeResult([]byte(l))
		got = append(got, r.CustomID+"="+string(r.Content))
	}
	if want := []string{"twice=x", "twice=x", "a=a: text of a"}; !slices.Equal(got, want) {
		t.Errorf("output %v, want %v", got, want)
	}
	if got := read(t, p, job.Files[1].ID); !slices.Equal(got, []string{"junk"}) {
		t.Errorf("error file %v", got)
	}
	if diff := cmp.Diff([]fake.JobBook{{ID: job.ID, FileID: "file-000001", Metadata: map[string]string{"rc": "1"}, Created: now,
		Phase: batch.PhaseEnded, Status: "completed", CustomIDs: []string{"a", "gone", "junk", "twice"}}}, p.Jobs()); diff != "" {
		t.Error(diff)
	}
	if lines, texts := p.TextsSeen(); lines != 4 || texts != 4 || p.Uploaded("text of a") != 1 {
		t.Errorf("%d lines, %d texts", lines, texts)
	}
}

func TestResultRoundTrip(t *testing.T) {
	p := fake.New(fake.Options{})
	for _, r := range []batch.Result{
		{CustomID: "a", Outcome: batch.Answered, Content: []byte("{\"x\":\"\u2028\"}"), Model: "org/m:1", InputTokens: 1, OutputTokens: 2},
		{CustomID: "a", Outcome: batch.ItemRejected, Code: "context_length_exceeded"},
	} {
		if diff := cmp.Diff(r, p.DecodeResult(fake.Result(batch.ChannelOutput, r).Raw)); diff != "" {
			t.Error(diff)
		}
	}
	if r := p.DecodeResult([]byte(`{"custom_id":"a","outcome":"made up"}`)); r.Outcome != batch.Unreadable {
		t.Errorf("%+v", r)
	}
}

func TestBreaches(t *testing.T) {
	var told []string
	p := fake.New(fake.Options{Breach: func(rule string) { told = append(told, rule) }})
	file := newFile(t, p, "a", "b")
	for range 2 {
		if _, err := p.Create(t.Context(), batch.Creation{FileID: file}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"file file-000001 is the body of job-000001 and job-000002",
		"custom id a is in more than one job",
		"custom id b is in more than one job",
	}
	if !slices.Equal(told, want) || !slices.Equal(p.Breaches(), want) {
		t.Errorf("told %v", told)
	}
}

func TestRefusedBodies(t *testing.T) {
	p := fake.New(fake.Options{})
	twice := newJob(t, p, "a", "b", "a")
	missing, err := p.Create(t.Context(), batch.Creation{FileID: "file-none"})
	if err != nil {
		t.Fatal(err)
	}
	empty := newJob(t, p)
	for id, want := range map[string]batch.Fault{
		twice.ID:   {Line: 3, Code: "duplicate_custom_id"},
		missing.ID: {Code: "input_file_not_found"},
		empty.ID:   {Code: "empty_file"},
	} {
		job, err := p.Status(t.Context(), id)
		if err != nil || job.Phase != batch.PhaseInvalid || !slices.Equal(job.Faults, []batch.Fault{want}) {
			t.Errorf("%+v, %v, want %v", job, err, want)
		}
		if p.End(id) {
			t.Error("a refused job ended")
		}
	}
}

func TestLies(t *testing.T) {
	p := fake.New(fake.Options{})
	ended := newJob(t, p, "a")
	p.End(ended.ID)
	job, _ := p.Status(t.Context(), ended.ID)
	file := job.Files[0].ID

	lie := func(string) (bool, error) { return false, nil }
	p.Hooks = fake.Hooks{Upload: lie, Status: lie, Download: lie, Delete: lie, Create: func(batch.Creation) (bool, error) { return false, nil }}
	ghost, err := p.Create(t.Context(), batch.Creation{FileID: "file-none"})
	if err != nil || ghost.ID == "" || len(p.Jobs()) != 1 {
		t.Errorf("%+v, %v, %d jobs", ghost, err, len(p.Jobs()))
	}
	if job, err := p.Status(t.Context(), ended.ID); err != nil || job.Phase != batch.PhaseRunning {
		t.Errorf("%+v, %v", job, err)
	}
	if lines := read(t, p, file); len(lines) != 0 {
		t.Errorf("%v", lines)
	}
	if err := p.DeleteFile(t.Context(), file); err != nil || !p.Files()[1].Present {
		t.Errorf("%v, %+v", err, p.Files()[1])
	}
	if id := newFile(t, p, "b"); slices.ContainsFunc(p.Files(), func(f fake.FileBook) bool { return f.ID == id && f.Present }) {
		t.Error("the upload was kept")
	}
	p.Hooks = fake.Hooks{Create: func(batch.Creation) (bool, error) { return true, errors.New("plain") }}
	if _, err := p.Create(t.Context(), batch.Creation{FileID: "file-none"}); batch.KindOf(err) != batch.UnknownOutcome {
		t.Error(err)
	}
	p.ForgetJob(ended.ID)
	if _, err := p.Status(t.Context(), ended.ID); batch.KindOf(err) != batch.NotFound {
		t.Error(err)
	}
}

func FuzzDecodeResult(f *testing.F) {
	f.Add(fake.Answered("a", []byte("x")).Raw)
	f.Add(fake.Failed("a", batch.Expired, "batch_expired").Raw)
	f.Add([]byte("junk"))
	p := fake.New(fake.Options{})
	f.Fuzz(func(t *testing.T, line []byte) {
		r := p.DecodeResult(line)
		if r.Outcome == "" || (r.Outcome == batch.Answered) != (len(r.Content) > 0) {
			t.Errorf("%+v", r)
		}
	})
}
