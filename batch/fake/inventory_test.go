package fake_test

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall/batch"
	"rollcall/batch/fake"
)

// clock is a processor's clock that the test moves.
type clock struct{ now time.Time }

func newClock() *clock                 { return &clock{time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)} }
func (c *clock) Now() time.Time        { return c.now }
func (c *clock) step(by time.Duration) { c.now = c.now.Add(by) }

// jobPages follows the cursor to the end.
func jobPages(t *testing.T, p *fake.Provider) (pages [][]string) {
	t.Helper()
	for after, more := "", true; more; {
		page, err := p.ListJobs(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		pages = append(pages, ids)
		after, more = page.Next, page.Next != ""
	}
	return pages
}

func TestLists(t *testing.T) {
	now := newClock()
	hidden := ""
	var p *fake.Provider
	p = fake.New(fake.Options{Now: now.Now, Page: 2, Hide: func(b fake.JobBook) bool {
		return b.ID == hidden && slices.Equal(b.CustomIDs, []string{"b"}) && p.Calls(fake.OpListJobs) > 0 // no lock is held
	}})
	for _, id := range []string{"a", "b", "c", "d"} {
		now.step(time.Minute)
		newJob(t, p, id)
	}
	p.End("job-000001")

	page, err := p.ListJobs(t.Context(), "job-000002")
	if err != nil || page.Next != "" || len(page.Jobs) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	want := batch.ListedJob{FileID: "file-000001", Metadata: map[string]string{"rc": "1"}, Created: now.now.Add(-3 * time.Minute)}
	want.Job, _ = p.Status(t.Context(), "job-000001")
	if diff := cmp.Diff(want, page.Jobs[0]); diff != "" {
		t.Error(diff)
	}
	for _, tc := range []struct {
		hide, forget string
		want         [][]string
	}{
		{"", "", [][]string{{"job-000004", "job-000003"}, {"job-000002", "job-000001"}}},
		{"job-000002", "", [][]string{{"job-000004", "job-000003"}, {"job-000001"}}},
		{"", "job-000003", [][]string{{"job-000004", "job-000002"}, {"job-000001"}}},
	} {
		hidden = tc.hide
		p.ForgetJob(tc.forget)
		if diff := cmp.Diff(tc.want, jobPages(t, p)); diff != "" {
			t.Errorf("hidden %q, forgotten %q: %s", tc.hide, tc.forget, diff)
		}
	}
	if page, err := p.ListJobs(t.Context(), "job-000003"); err != nil || len(page.Jobs) != 2 {
		t.Errorf("behind a forgotten job: %+v, %v", page, err)
	}
	if _, err := p.ListJobs(t.Context(), "job-none"); batch.KindOf(err) != batch.Rejected {
		t.Error(err)
	}
	if len(p.Jobs()) != 4 {
		t.Error("the books hide a job")
	}

	p.ForgetFile("file-000003")
	if _, err := p.Upload(t.Context(), batch.Input{Name: "of a person.jsonl", Write: func(io.Writer) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	files, err := p.ListFiles(t.Context(), "")
	if diff := cmp.Diff(batch.FilePage{Next: "file-000004", Files: []batch.ListedFile{
		{ID: "file-000006", Created: now.now}, // the fifth holds results
		{ID: "file-000004", Name: "in.jsonl", Bytes: int64(p.Files()[3].Bytes), Created: now.now},
	}}, files); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := p.ListFiles(t.Context(), "file-none"); batch.KindOf(err) != batch.Rejected {
		t.Error(err)
	}
}

func TestListsLieAndFail(t *testing.T) {
	p := fake.New(fake.Options{})
	newJob(t, p, "a")
	lie := func(string) (bool, error) { return false, nil }
	p.Hooks = fake.Hooks{List: lie, ListFiles: lie}
	jobs, err1 := p.ListJobs(t.Context(), "")
	files, err2 := p.ListFiles(t.Context(), "")
	if len(jobs.Jobs)+len(files.Files) != 0 || jobs.Next+files.Next != "" || err1 != nil || err2 != nil {
		t.Errorf("%+v, %v, %+v, %v", jobs, err1, files, err2)
	}
	fail := func(string) (bool, error) { return true, errors.New("plain") }
	p.Hooks = fake.Hooks{List: fail, ListFiles: fail}
	jobs, err1 = p.ListJobs(t.Context(), "")
	files, err2 = p.ListFiles(t.Context(), "")
	if len(jobs.Jobs)+len(files.Files) != 0 || batch.KindOf(err1) != batch.Temporary || batch.KindOf(err2) != batch.Temporary {
		t.Errorf("%+v, %v, %+v, %v", jobs, err1, files, err2)
	}
}

func TestCancel(t *testing.T) {
	p := fake.New(fake.Options{})
	running, ended := newJob(t, p, "a"), newJob(t, p, "b")
	p.End(ended.ID)
	before, _ := p.Status(t.Context(), ended.ID)
	p.Hooks.Cancel = func(string) (bool, error) { return false, nil }
	if err := p.Cancel(t.Context(), running.ID); err != nil || p.Jobs()[0].Phase != batch.PhaseRunning {
		t.Errorf("a lie ended the job, or %v", err)
	}
	p.Hooks.Cancel = func(string) (bool, error) { return true, errors.New("plain") }
	if err := p.Cancel(t.Context(), running.ID); batch.KindOf(err) != batch.Temporary {
		t.Error(err)
	}
	p.Hooks.Cancel = nil
	for _, id := range []string{running.ID, ended.ID} {
		if err := p.Cancel(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	job, _ := p.Status(t.Context(), running.ID)
	if job.Status != "cancelled" || job.Phase != batch.PhaseEnded || len(job.Files) != 0 || job.Counts != (batch.Counts{Total: 1}) {
		t.Errorf("%+v", job)
	}
	if after, _ := p.Status(t.Context(), ended.ID); !cmp.Equal(before, after) {
		t.Errorf("%+v was %+v", after, before)
	}
	if err := p.Cancel(t.Context(), "job-none"); batch.KindOf(err) != batch.NotFound {
		t.Error(err)
	}
}

// F17: the listing tells nothing about the origin of a job, its results do.
func TestSettleByResults(t *testing.T) {
	p := fake.New(fake.Options{Settlement: batch.SettleByResults})
	job := newJob(t, p, "a")
	p.End(job.ID)
	page, err := p.ListJobs(t.Context(), "")
	if err != nil || len(page.Jobs) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	if l := page.Jobs[0]; l.FileID != "" || l.Metadata != nil || l.ID != job.ID || l.Counts.Completed != 1 || len(l.Files) != 1 {
		t.Errorf("%+v", l)
	}
	if r := p.DecodeResult([]byte(read(t, p, page.Jobs[0].Files[0].ID)[0])); r.CustomID != "a" {
		t.Errorf("%+v", r)
	}
	if files, err := p.ListFiles(t.Context(), ""); err != nil || len(files.Files) != 0 {
		t.Errorf("%+v, %v", files, err)
	}
}

// F18: within the window a repeat is the same job, and nothing else is.
func TestSettleByKey(t *testing.T) {
	now := newClock()
	p := fake.New(fake.Options{Settlement: batch.SettleByKey, Limits: batch.Limits{KeyWindow: time.Hour}, Now: now.Now})
	c := batch.Creation{FileID: newFile(t, p, "a"), Key: "s1", Metadata: map[string]string{"rc": "1"}}
	p.Hooks.Create = func(batch.Creation) (bool, error) { return true, errors.New("the answer is lost") }
	if _, err := p.Create(t.Context(), c); batch.KindOf(err) != batch.UnknownOutcome {
		t.Fatal(err)
	}
	p.Hooks.Create = nil
	create := func(c batch.Creation) string {
		t.Helper()
		job, err := p.Create(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		return job.ID
	}
	now.step(time.Hour - 1)
	if id := create(c); id != "job-000001" || len(p.Jobs()) != 1 || len(p.Breaches()) != 0 {
		t.Errorf("%s, %d jobs", id, len(p.Jobs()))
	}
	p.End("job-000001")
	if job, err := p.Create(t.Context(), c); err != nil || job.Phase != batch.PhaseEnded {
		t.Errorf("%+v, %v", job, err)
	}
	otherFile, otherMetadata := c, c
	otherFile.FileID, otherMetadata.Metadata = newFile(t, p, "b"), map[string]string{"rc": "2"}
	for _, c := range []batch.Creation{otherFile, otherMetadata} {
		_, err := p.Create(t.Context(), c)
		var e *batch.Error
		if !errors.As(err, &e) || e.Kind != batch.Rejected || e.Code != "idempotency_conflict" || len(p.Jobs()) != 1 {
			t.Errorf("%v, %d jobs", err, len(p.Jobs()))
		}
	}
	otherKey := otherFile
	otherKey.Key = "s2"
	if id := create(otherKey); id != "job-000002" || len(p.Breaches()) != 0 {
		t.Errorf("%s, %v", id, p.Breaches())
	}
	now.step(1)
	if id := create(c); id != "job-000003" || len(p.Breaches()) != 2 {
		t.Errorf("behind the window: %s, %v", id, p.Breaches())
	}
	c.Key = ""
	if first, second := create(c), create(c); first == second {
		t.Error("without a key two creations are one job")
	}
	if l := fake.New(fake.Options{Settlement: batch.SettleByKey}).Capabilities().Limits; l.KeyWindow != 24*time.Hour {
		t.Errorf("%+v", l)
	}
}

// F19: a job has ended when Create returns, and a repeat is permitted.
func TestSettleByRepeat(t *testing.T) {
	p := fake.New(fake.Options{Settlement: batch.SettleByRepeat})
	c := batch.Creation{FileID: newFile(t, p, "a")}
	for n := range 2 {
		job, err := p.Create(t.Context(), c)
		if err != nil || job.Phase != batch.PhaseEnded || len(job.Files) != 1 || len(p.Jobs()) != n+1 {
			t.Fatalf("%+v, %v", job, err)
		}
		if status, err := p.Status(t.Context(), job.ID); err != nil || !cmp.Equal(status, job) {
			t.Errorf("%+v, %v", status, err)
		}
		if r := p.DecodeResult([]byte(read(t, p, job.Files[0].ID)[0])); r.Outcome != batch.Answered {
			t.Errorf("%+v", r)
		}
	}
	if page, err := p.ListJobs(t.Context(), ""); err != nil || len(page.Jobs) != 0 || len(p.Breaches()) != 0 {
		t.Errorf("%+v, %v, %v", page, err, p.Breaches())
	}
	if job, err := p.Create(t.Context(), batch.Creation{FileID: "file-none"}); err != nil || job.Phase != batch.PhaseInvalid {
		t.Errorf("%+v, %v", job, err)
	}
}

func TestInspect(t *testing.T) {
	p := fake.New(fake.Options{})
	job := newJob(t, p, "a")
	want := `{"id":"job-000001","phase":"running","status":"validating","file_id":"file-000001"}`
	if got, err := p.Inspect(t.Context(), job.ID); err != nil || got.HTTPStatus != 200 || string(got.Body) != want {
		t.Errorf("%d %s, %v", got.HTTPStatus, got.Body, err)
	}
	p.Hooks.Inspect = func(string) (bool, error) { return false, nil }
	if got, err := p.Inspect(t.Context(), job.ID); err != nil || got.HTTPStatus != 404 {
		t.Errorf("%d %s, %v", got.HTTPStatus, got.Body, err)
	}
	p.Hooks.Inspect = func(string) (bool, error) { return true, errors.New("plain") }
	if _, err := p.Inspect(t.Context(), job.ID); batch.KindOf(err) != batch.Temporary {
		t.Error(err)
	}
}

func TestInlineBodyIsAJobOfItsOwn(t *testing.T) {
	p := fake.New(fake.Options{Handover: batch.HandoverInline, Settlement: batch.SettleByKey})
	body := func(id string, cut int64) *batch.Input {
		line, err := p.AppendRequest(nil, &batch.Classifier{}, id, batch.NewText("text "+id))
		if err != nil {
			t.Fatal(err)
		}
		return &batch.Input{Name: "a.jsonl", Size: int64(len(line)) - cut, Write: func(w io.Writer) error { _, err := w.Write(line); return err }}
	}
	one, err := p.Create(t.Context(), batch.Creation{Body: body("a", 0), Key: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.Create(t.Context(), batch.Creation{Body: body("a", 0), Key: "s1"}); err != nil || again.ID != one.ID {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, err := p.Create(t.Context(), batch.Creation{Body: body("b", 0), Key: "s1"}); batch.KindOf(err) != batch.Rejected {
		t.Errorf("another body under the same key: %v", err)
	}
	for name, c := range map[string]batch.Creation{"no body": {Key: "s2"}, "a file": {FileID: "file-000001", Key: "s3"}} {
		if _, err := p.Create(t.Context(), c); batch.KindOf(err) != batch.Rejected {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.Create(t.Context(), batch.Creation{Body: body("c", 1), Key: "s4"}); batch.KindOf(err) != batch.Temporary {
		t.Errorf("a body of another length: %v", err)
	}
	if page, err := p.ListFiles(t.Context(), ""); err != nil || len(page.Files) != 0 {
		t.Errorf("files %+v, %v", page, err)
	}
	if n := p.Uploaded("text a"); n != 2 || len(p.Jobs()) != 1 {
		t.Errorf("%d jobs, the text was handed over %d times", len(p.Jobs()), n)
	}
}
