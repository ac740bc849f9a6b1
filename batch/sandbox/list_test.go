package sandbox_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"rollcall/batch/sandbox"
)

// walk follows a list to the end that it claims, and returns the pages.
func (r *rig) walk(path string) (pages [][]string) {
	r.Helper()
	for after := ""; ; {
		status, out := r.call("GET", path+after, nil)
		data, ok := out["data"].([]any)
		if status != 200 || !ok {
			r.Fatalf("HTTP %d %v", status, out)
		}
		var ids []string
		for _, d := range data {
			ids = append(ids, at(d, "id").(string))
		}
		pages = append(pages, ids)
		if out["has_more"] != true {
			return pages
		}
		if out["last_id"] != ids[len(ids)-1] || out["first_id"] != ids[0] {
			r.Fatalf("page is %v", out)
		}
		after = "&after=" + ids[len(ids)-1]
	}
}

// A list that leaves something out says that it is whole, and the books still
// have it.
func TestListFaults(t *testing.T) {
	r := newRig(t)
	var files, jobs []string
	for range 5 {
		files = append(files, r.upload(inputOf(1)))
		jobs = append(jobs, r.create(files[len(files)-1]))
	}
	slices.Reverse(files)
	slices.Reverse(jobs)
	for _, tc := range []struct {
		fault string
		jobs  []int // sizes of pages of at most 3
		files []int
		gone  []int // which jobs are in no list, from the newest
	}{
		{"short_page:entries=2", []int{2, 2, 1}, []int{2, 2, 1}, nil},
		{"short_page:op=list_files", []int{3, 2}, []int{1, 1, 1, 1, 1}, nil},
		{"short_page:entries=0", []int{1, 1, 1, 1, 1}, []int{1, 1, 1, 1, 1}, nil},
		{"listing_cut", []int{0}, []int{0}, []int{0, 1, 2, 3, 4}},
		{"listing_cut:entries=4,op=list_batches", []int{3, 1}, []int{3, 2}, []int{4}},
		{"listing_cut:entries=3", []int{3}, []int{3}, []int{3, 4}},
		{"listing_cut:entries=9", []int{3, 2}, []int{3, 2}, nil},
		{"listing_hole", []int{0}, []int{0}, []int{0, 1, 2, 3, 4}},
		{"listing_hole:every=2", []int{3}, []int{3}, []int{1, 3}},
		{"listing_hole:id=" + jobs[2], []int{3, 1}, []int{3, 2}, []int{2}},
		{"listing_hole:id=batch_none", []int{3, 2}, []int{3, 2}, nil},
		{"listing_cut:times=1", []int{0}, []int{3, 2}, []int{0, 1, 2, 3, 4}},
	} {
		t.Run(tc.fault, func(t *testing.T) {
			r.faults(tc.fault)
			sizes := func(pages [][]string) (n []int) {
				for _, p := range pages {
					n = append(n, len(p))
				}
				return n
			}
			jobPages, filePages := r.walk("/v1/batches?limit=3"), r.walk("/v1/files?limit=3")
			if got := sizes(jobPages); !slices.Equal(got, tc.jobs) {
				t.Errorf("pages of jobs %v, want %v", got, tc.jobs)
			}
			if got := sizes(filePages); !slices.Equal(got, tc.files) {
				t.Errorf("pages of files %v, want %v", got, tc.files)
			}
			var gone []int
			for i, id := range jobs {
				if !slices.Contains(slices.Concat(jobPages...), id) {
					gone = append(gone, i)
				}
			}
			if !slices.Equal(gone, tc.gone) {
				t.Errorf("jobs %v are not listed, want %v", gone, tc.gone)
			}
			if b, err := r.server.Books(); err != nil || len(b.Jobs) != 5 || b.Files != 5 {
				t.Errorf("%d jobs, %d files, %v", len(b.Jobs), b.Files, err)
			}
		})
	}
	// An entry that is hidden is good for a cursor: it was seen before.
	r.faults("listing_hole:id=" + jobs[1])
	if got := r.walk("/v1/batches?after=" + jobs[1]); !slices.Equal(slices.Concat(got...), jobs[2:]) {
		t.Errorf("behind a hidden job: %v", got)
	}
}

func TestAnswerCut(t *testing.T) {
	r := newRig(t)
	file := r.upload(inputOf(1))
	r.faults("answer_cut:times=1", "answer_cut:op=list_batches,at=0.2,times=1")
	for _, c := range []struct {
		method, path string
		body         any
	}{{"POST", "/v1/batches", creation(file)}, {"GET", "/v1/batches", nil}} {
		resp, err := r.do(c.method, c.path, "application/json", encoded(t, c.body))
		if err != nil {
			t.Fatal(err)
		}
		part, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 || !errors.Is(err, io.ErrUnexpectedEOF) || len(part) == 0 || int64(len(part)) >= resp.ContentLength {
			t.Errorf("%s: HTTP %d, %d bytes of %d, %v", c.method, resp.StatusCode, len(part), resp.ContentLength, err)
		}
	}
	if pages := r.walk("/v1/batches?limit=3"); len(pages[0]) != 1 {
		t.Errorf("the cut create made %v", pages)
	}
}

// Request faults know a cancel: one that was lost, and one that was carried out
// although the client could not learn it.
func TestFaultsOnCancel(t *testing.T) {
	for fault, want := range map[string]string{
		"drop_before:op=cancel":                          "in_progress",
		"drop_after:op=cancel":                           "cancelling",
		"server_error:op=cancel,status=503":              "in_progress",
		"server_error:op=cancel,status=409,acted=true":   "cancelling",
		"bad_gateway:op=cancel,acted=true":               "cancelling",
		"rate_limit:op=cancel":                           "in_progress",
		"not_found:op=cancel":                            "in_progress",
		"unauthorized:op=cancel":                         "in_progress",
		"redirect:op=cancel,to=http://elsewhere.invalid": "in_progress",
	} {
		t.Run(fault, func(t *testing.T) {
			r := newRig(t)
			id := r.create(r.upload(inputOf(1)))
			r.clock.add(10 * time.Second)
			r.faults(fault + ",times=1")
			if resp, err := r.do("POST", "/v1/batches/"+id+"/cancel", "", nil); err == nil {
				if resp.Body.Close(); resp.StatusCode == 200 {
					t.Error("no fault")
				}
			}
			if got := r.job(id)["status"]; got != want {
				t.Errorf("job is %v, want %s", got, want)
			}
			if status, _ := r.call("POST", "/v1/batches/"+id+"/cancel", nil); status != 200 {
				t.Errorf("again: HTTP %d", status)
			}
		})
	}
}

// The content of an input can be read back as long as it exists. Deleting it
// before validation ends the job there, whose texts have then not been read;
// afterwards it changes nothing.
func TestInputIsAFence(t *testing.T) {
	for name, c := range map[string]struct {
		after  time.Duration
		status string
		lines  int
	}{
		"before validation": {5*time.Second - 1, "failed", 0},
		"after validation":  {5 * time.Second, "completed", 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			input := inputOf(3)
			file := r.upload(input)
			id := r.create(file)
			r.clock.add(c.after)
			if got := r.content(file); got != input {
				t.Errorf("the input reads %.40q", got)
			}
			r.call("DELETE", "/v1/files/"+file, nil)
			if status, _ := r.call("GET", "/v1/files/"+file+"/content", nil); status != 404 {
				t.Errorf("content of a deleted input: HTTP %d", status)
			}
			r.clock.add(2 * time.Minute)
			if got := r.job(id)["status"]; got != c.status {
				t.Errorf("job is %v, want %s", got, c.status)
			}
			if b, err := r.server.Books(); err != nil || b.Lines != c.lines || b.Jobs[0].HasInput {
				t.Errorf("%d lines accepted, %+v, %v", b.Lines, b.Jobs[0], err)
			}
		})
	}
}

func TestBooksSayWhatFilesAreFor(t *testing.T) {
	r := newRig(t)
	unused := r.upload(inputOf(1))
	shared := r.upload(inputOf(2))
	first, second := r.create(shared), r.create(shared)
	own := r.key
	r.key = "key-b"
	foreign := r.create(shared) // it cannot see the file
	r.key = own
	r.clock.add(2 * time.Minute)
	books := func() (sandbox.Books, map[string]sandbox.FileBook) {
		t.Helper()
		b, err := r.server.Books()
		if err != nil || b.Files != len(b.FilesNow) {
			t.Fatalf("%d files, %d listed, %v", b.Files, len(b.FilesNow), err)
		}
		files := map[string]sandbox.FileBook{}
		for _, f := range b.FilesNow {
			files[f.ID] = f
		}
		return b, files
	}
	b, files := books()
	if f := files[unused]; f.Name != "in.jsonl" || f.Purpose != "batch" || f.Bytes != int64(len(inputOf(1))) || len(f.Jobs) != 0 || f.Project == "" || !f.Created.Equal(r.clock.now().Add(-2*time.Minute)) {
		t.Errorf("%+v", f)
	}
	if f := files[shared]; !slices.Equal(f.Jobs, []string{second, first}) {
		t.Errorf("%+v, want %s and %s", f, second, first)
	}
	for _, j := range b.Jobs {
		if j.HasInput != (j.ID != foreign) || len(j.Results) != 1 && j.ID != foreign {
			t.Errorf("%+v", j)
		}
		for _, id := range j.Results {
			if f := files[id]; f.Purpose != "batch_output" || !slices.Equal(f.Jobs, []string{j.ID}) {
				t.Errorf("result %+v of %s", f, j.ID)
			}
		}
	}
	for _, id := range append(b.Jobs[1].Results, shared, unused) {
		r.call("DELETE", "/v1/files/"+id, nil)
	}
	b, files = books()
	if len(files) != 1 || b.Jobs[1].HasInput || len(b.Jobs[1].Results) != 1 || !slices.Equal(b.FilesNow[0].Jobs, []string{b.Jobs[2].ID}) {
		t.Errorf("after the deletion: %+v", b.FilesNow)
	}
	if _, out := r.call("GET", "/_sandbox/books", nil); len(out["files_now"].([]any)) != 1 || fmt.Sprint(at(out["jobs"].([]any)[0], "has_input_file")) != "false" {
		t.Errorf("over HTTP: %v", out)
	}
}
