package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	purposeInput  = "batch"
	purposeOutput = "batch_output"

	// maxInput is the limit for an input file. Whether the API means MB or
	// MiB is not known; this is the stricter.
	maxInput = 200_000_000

	minExpiry     = time.Hour
	maxExpiry     = 30 * 24 * time.Hour
	defaultExpiry = maxExpiry

	cannotFindFile = "Cannot find file, or the project does not have access to it."
)

// file is a File object; its content is beside it on disk.
type file struct {
	ID      string    `json:"id"`
	Project string    `json:"project"`
	Seq     int64     `json:"seq"` // order of creation
	Name    string    `json:"name"`
	Purpose string    `json:"purpose"`
	Bytes   int64     `json:"bytes"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Lost    bool      `json:"lost"` // results_lost: the object is there, its content is not
}

func (f *file) body() fileBody {
	return fileBody{
		ID: f.ID, Object: "file", Bytes: f.Bytes, Filename: f.Name, Purpose: f.Purpose, Status: "processed",
		CreatedAt: f.Created.Unix(), ExpiresAt: f.Expires.Unix(),
	}
}

func (s *Server) restoreFiles() error {
	err := s.disk.each(fileDir, ".json", func(id, path string) error {
		var f file
		if err := load(path, &f); err != nil {
			return err
		}
		s.files[id] = &f
		s.seq = max(s.seq, f.Seq)
		return nil
	})
	if err != nil {
		return err
	}
	// Content without an object: killed between the two.
	return s.disk.each(fileDir, ".data", func(id, path string) error {
		if _, ok := s.files[id]; ok {
			return nil
		}
		return s.disk.remove(path)
	})
}

// upload streams the file part to disk; nothing of it is held in memory.
func (s *Server) upload(c *call) (answer, error) {
	mr, err := c.MultipartReader()
	if err != nil {
		return answer{}, badRequest("", "", "The request is not multipart/form-data.")
	}
	tmp, err := s.disk.temp()
	if err != nil {
		return answer{}, err
	}
	defer drop(tmp)
	form, err := readForm(mr, tmp)
	if err != nil {
		return answer{}, err
	}
	expiry, err := form.check(s.flavour)
	if err != nil {
		return answer{}, err
	}
	f := &file{
		ID: s.ids.next("file-"), Project: c.project, Name: form.name, Purpose: purposeInput,
		Bytes: form.size, Created: c.now, Expires: c.now.Add(expiry),
	}
	if err := s.keepFile(tmp, f); err != nil {
		return answer{}, err
	}
	return answer{id: f.ID, body: f.body()}, nil
}

// keepFile puts content and object in their places, the content first.
func (s *Server) keepFile(tmp *os.File, f *file) error {
	if err := s.disk.keep(tmp, s.disk.dataPath(f.ID)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Seq = s.nextSeq()
	if err := s.disk.save(s.disk.recordPath(fileDir, f.ID), f); err != nil {
		return err
	}
	s.files[f.ID] = f
	return nil
}

// uploadForm is the multipart form of an upload.
type uploadForm struct {
	fields map[string]string
	file   bool
	name   string
	size   int64
}

func readForm(mr *multipart.Reader, dst io.Writer) (uploadForm, error) {
	form := uploadForm{fields: map[string]string{}}
	for {
		part, err := mr.NextPart()
		if errors.Is(err, io.EOF) {
			return form, nil
		}
		if err != nil {
			return form, badRequest("", "", "The multipart body is broken or ended early.")
		}
		if part.FormName() == "file" {
			form.file, form.name = true, part.FileName()
			if form.size, err = io.Copy(dst, io.LimitReader(part, maxInput+1)); err != nil {
				return form, badRequest("", "", "The multipart body is broken or ended early.")
			}
			if form.size > maxInput {
				return form, badRequest("", "file", "File is too large.")
			}
			continue
		}
		value, err := io.ReadAll(io.LimitReader(part, 1<<10))
		if err != nil {
			return form, badRequest("", "", "The multipart body is broken or ended early.")
		}
		form.fields[part.FormName()] = string(value)
	}
}

// check returns how long the file is kept.
func (f uploadForm) check(fl Flavour) (time.Duration, error) {
	for name := range f.fields {
		switch name {
		case "purpose", "expires_after[anchor]", "expires_after[seconds]":
		default:
			return 0, badRequest("unknown_parameter", "", "Unknown form field.")
		}
	}
	switch {
	case !f.file:
		return 0, missingParam("file")
	case f.fields["purpose"] == "":
		return 0, missingParam("purpose")
	case f.fields["purpose"] != purposeInput:
		return 0, invalidParam("purpose", "the sandbox keeps files of purpose batch")
	case !strings.HasSuffix(f.name, ".jsonl"):
		return 0, badRequest("", "file", "Invalid file format for Batch API. Must be .jsonl")
	}
	anchor, hasAnchor := f.fields["expires_after[anchor]"]
	seconds, hasSeconds := f.fields["expires_after[seconds]"]
	if !hasAnchor && !hasSeconds {
		return defaultExpiry, nil
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return 0, invalidParam("expires_after.seconds", "not a whole number")
	}
	return fl.checkExpiry("expires_after", anchor, n)
}

// findFile is the file if the project may see it at an instant.
func (s *Server) findFile(project, id string, now time.Time) (*file, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.files[id]
	if !ok || f.Project != project || !now.Before(f.Expires) {
		return nil, notFound("File object")
	}
	return f, nil
}

// settle brings jobs and files up to date before a request sees or changes a
// file: first the jobs, because they read and write files on their way.
func (s *Server) settle(c *call) error {
	if err := s.advanceJobs(c.project, c.now); err != nil {
		return err
	}
	return s.expireFiles(c.now)
}

// requestedFile is the file that a request names.
func (s *Server) requestedFile(c *call) (*file, error) {
	if err := s.settle(c); err != nil {
		return nil, err
	}
	return s.findFile(c.project, c.PathValue("id"), c.now)
}

// expireFiles deletes what the retention asks for.
func (s *Server) expireFiles(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		if now.Before(f.Expires) {
			continue
		}
		if err := s.forgetFile(f); err != nil {
			return err
		}
	}
	return nil
}

// forgetFile deletes object and content, the object first. s.mu is held.
func (s *Server) forgetFile(f *file) error {
	if err := s.disk.remove(s.disk.recordPath(fileDir, f.ID)); err != nil {
		return err
	}
	delete(s.files, f.ID)
	return s.disk.remove(s.disk.dataPath(f.ID))
}

func (s *Server) getFile(c *call) (answer, error) {
	f, err := s.requestedFile(c)
	if err != nil {
		return answer{}, err
	}
	return answer{id: f.ID, body: f.body()}, nil
}

func (s *Server) getContent(c *call) (answer, error) {
	f, err := s.requestedFile(c)
	if err != nil {
		return answer{}, err
	}
	if f.Lost {
		return answer{}, notFound("File object")
	}
	data, err := os.Open(s.disk.dataPath(f.ID))
	if errors.Is(err, os.ErrNotExist) { // deleted meanwhile
		return answer{}, notFound("File object")
	}
	if err != nil {
		return answer{}, fmt.Errorf("open content: %w", err)
	}
	return answer{id: f.ID, content: &content{data, f.Bytes}}, nil
}

func (s *Server) deleteFile(c *call) (answer, error) {
	f, err := s.requestedFile(c)
	if err != nil {
		return answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.forgetFile(f); err != nil {
		return answer{}, err
	}
	return answer{id: f.ID, body: deletedBody{ID: f.ID, Object: "file", Deleted: true}}, nil
}

func (s *Server) listFiles(c *call) (answer, error) {
	q := c.URL.Query()
	limit, err := limitOf(c.Request, 10_000, 10_000)
	if err != nil {
		return answer{}, err
	}
	order := cmp.Or(q.Get("order"), "desc")
	if order != "asc" && order != "desc" {
		return answer{}, invalidParam("order", "must be asc or desc")
	}
	if err := s.settle(c); err != nil {
		return answer{}, err
	}
	var all []listed
	for _, f := range s.filesOf(c.project, order == "asc") {
		if p := q.Get("purpose"); p == "" || p == f.Purpose {
			all = append(all, listed{id: f.ID, created: f.Created, body: f.body()})
		}
	}
	return s.list(c, opListFiles, all, limit)
}

// filesOf are the files of a project, or of all when it is "".
func (s *Server) filesOf(project string, ascending bool) []*file {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*file
	for _, f := range s.files {
		if project == "" || f.Project == project {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b *file) int {
		if ascending {
			return cmp.Compare(a.Seq, b.Seq)
		}
		return cmp.Compare(b.Seq, a.Seq)
	})
	return out
}
