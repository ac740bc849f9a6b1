package sandbox

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// maxOffenders bounds each list of offenders in the books.
const maxOffenders = 100

// Books are what the sandbox accepted. An id counts as accepted when a job with
// it was created and passed validation, whatever became of the job then.
type Books struct {
	Now          time.Time        `json:"now"`  // virtual
	Jobs         []JobBook        `json:"jobs"` // newest first
	AcceptedJobs int              `json:"accepted_jobs"`
	Lines        int              `json:"lines"`     // of accepted jobs
	Files        int              `json:"files"`     // that exist now
	FilesNow     []FileBook       `json:"files_now"` // these files, newest first
	CustomIDs    Tally            `json:"custom_ids"`
	Works        Tally            `json:"works"`    // the part of each id before its last "-"
	Requests     map[string]int64 `json:"requests"` // by operation, since the process started
}

// JobBook is one job in the books.
type JobBook struct {
	ID        string            `json:"id"`
	Project   string            `json:"project"`
	Status    string            `json:"status"`
	Accepted  bool              `json:"accepted"`
	Lines     int               `json:"lines"`
	InputFile string            `json:"input_file"`
	HasInput  bool              `json:"has_input_file"` // whether the input file exists now
	Results   []string          `json:"result_files"`   // ids, of deleted files too
	Created   time.Time         `json:"created"`
	Metadata  map[string]string `json:"metadata"`
}

// FileBook is one file in the books.
type FileBook struct {
	ID      string    `json:"id"`
	Project string    `json:"project"`
	Name    string    `json:"name"` // as the client gave it
	Purpose string    `json:"purpose"`
	Bytes   int64     `json:"bytes"`
	Created time.Time `json:"created"`
	Jobs    []string  `json:"jobs"` // of which it is the input or a result
}

// Tally says how often ids were accepted.
type Tally struct {
	Distinct         int        `json:"distinct"`
	InMoreThanOneJob int        `json:"in_more_than_one_job"`
	RepeatedInOneJob int        `json:"repeated_in_one_job"`
	Offenders        []Offender `json:"offenders"` // at most 100 of those in more than one job
}

// Offender is an id that several jobs accepted.
type Offender struct {
	ID   string   `json:"id"`
	Jobs []string `json:"jobs"`
}

// Books adds up what the sandbox has accepted so far. It reads the stored ids
// as a stream and keeps 8 bytes for each.
func (s *Server) Books() (Books, error) {
	now := s.clock.now()
	b := Books{Now: now, Requests: s.requests.snapshot()}
	if err := errors.Join(s.advanceJobs("", now), s.expireFiles(now)); err != nil {
		return Books{}, err
	}
	entries, err := s.entries(now)
	if err != nil {
		return Books{}, err
	}
	for _, e := range entries {
		b.Jobs = append(b.Jobs, e)
		if e.Accepted {
			b.AcceptedJobs++
			b.Lines += e.Lines
		}
	}
	b.FilesNow = s.fileBooks(b.Jobs)
	b.Files = len(b.FilesNow)
	if b.CustomIDs, err = s.tally(b.Jobs, func(id string) string { return id }); err != nil {
		return Books{}, err
	}
	b.Works, err = s.tally(b.Jobs, workOf)
	return b, err
}

// entries are the jobs of both APIs, newest first.
func (s *Server) entries(now time.Time) ([]JobBook, error) {
	type numbered struct {
		seq  int64
		book JobBook
	}
	var all []numbered
	for _, j := range s.jobsOf("") {
		all = append(all, numbered{j.Seq, j.entry(now)})
	}
	for _, b := range s.messagesOf("") {
		e, err := s.messageEntry(b, now)
		if err != nil {
			return nil, err
		}
		all = append(all, numbered{b.Seq, e})
	}
	slices.SortFunc(all, func(a, b numbered) int { return cmp.Compare(b.seq, a.seq) })
	var books []JobBook
	for _, n := range all {
		books = append(books, n.book)
	}
	return books, nil
}

func (j *job) entry(now time.Time) JobBook {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := JobBook{ID: j.ID, Project: j.Project, Status: j.statusAt(now), InputFile: j.InputFile, Created: j.Created, Metadata: j.Metadata}
	if j.Checked != nil && len(j.Checked.Problems) == 0 {
		e.Accepted, e.Lines = true, j.Checked.Lines
	}
	if j.Ended != nil {
		e.Results = slices.DeleteFunc([]string{j.Ended.OutputFile, j.Ended.ErrorFile}, func(id string) bool { return id == "" })
	}
	return e
}

// fileBooks are the files that exist now, and marks the jobs whose input does.
func (s *Server) fileBooks(jobs []JobBook) []FileBook {
	books := []FileBook{}
	at := map[string]int{} // by id
	for _, f := range s.filesOf("", false) {
		at[f.ID] = len(books)
		books = append(books, FileBook{ID: f.ID, Project: f.Project, Name: f.Name, Purpose: f.Purpose, Bytes: f.Bytes, Created: f.Created, Jobs: []string{}})
	}
	for i := range jobs {
		j := &jobs[i]
		for _, id := range append([]string{j.InputFile}, j.Results...) {
			k, ok := at[id]
			if !ok || books[k].Project != j.Project {
				continue
			}
			books[k].Jobs = append(books[k].Jobs, j.ID)
			j.HasInput = j.HasInput || id == j.InputFile
		}
	}
	return books
}

// workOf is the part of a custom id before its last "-", or all of it.
func workOf(customID string) string {
	if i := strings.LastIndexByte(customID, '-'); i >= 0 {
		return customID[:i]
	}
	return customID
}

// tally counts in two passes: one over digests, to find which are there more
// than once, and one to name those.
func (s *Server) tally(jobs []JobBook, key func(string) string) (Tally, error) {
	var t Tally
	var all []uint64
	for _, j := range jobs {
		from := len(all)
		err := s.acceptedIn(j, func(id string) error {
			all = append(all, digest(key(id)))
			return nil
		})
		if err != nil {
			return Tally{}, err
		}
		slices.Sort(all[from:])
		once := slices.Compact(all[from:])
		t.RepeatedInOneJob += len(all) - from - len(once)
		all = all[:from+len(once)]
	}
	slices.Sort(all)
	several := map[uint64]bool{}
	for i, d := range all {
		if i == 0 || all[i-1] != d {
			t.Distinct++
		} else if !several[d] {
			several[d] = true
			t.InMoreThanOneJob++
		}
	}
	var err error
	t.Offenders, err = s.offenders(jobs, key, several)
	return t, err
}

func (s *Server) offenders(jobs []JobBook, key func(string) string, several map[uint64]bool) ([]Offender, error) {
	if len(several) == 0 {
		return nil, nil
	}
	byID := map[string]*Offender{}
	for _, j := range jobs {
		err := s.acceptedIn(j, func(id string) error {
			k := key(id)
			if !several[digest(k)] {
				return nil
			}
			o := byID[k]
			if o == nil {
				if len(byID) == maxOffenders {
					return nil
				}
				o = &Offender{ID: k}
				byID[k] = o
			}
			if !slices.Contains(o.Jobs, j.ID) {
				o.Jobs = append(o.Jobs, j.ID)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var out []Offender
	for _, o := range byID {
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b Offender) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

func digest(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.LittleEndian.Uint64(sum[:])
}

// Accepted calls f with every custom id of every accepted job, newest job
// first, until f returns an error.
func (s *Server) Accepted(f func(jobID, customID string) error) error {
	now := s.clock.now()
	if err := s.advanceJobs("", now); err != nil {
		return err
	}
	entries, err := s.entries(now)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := s.acceptedIn(e, func(id string) error { return f(e.ID, id) }); err != nil {
			return err
		}
	}
	return nil
}

// acceptedIn calls f with the custom ids of a job, if it was accepted.
func (s *Server) acceptedIn(j JobBook, f func(customID string) error) error {
	if !j.Accepted {
		return nil
	}
	in, err := os.Open(s.disk.idsPath(j.ID))
	if err != nil {
		return fmt.Errorf("open ids: %w", err)
	}
	defer in.Close()
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read ids: %w", err)
		}
		var id string
		if err := json.Unmarshal(line, &id); err != nil {
			return fmt.Errorf("read ids of %s: %w", j.ID, err)
		}
		if err := f(id); err != nil {
			return err
		}
	}
}
