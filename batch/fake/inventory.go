package fake

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"rollcall/batch"
)

// ListJobs shows the jobs that can be looked up, newest first. The cursor is a
// job's id, and stays good when that job is hidden or forgotten.
func (p *Provider) ListJobs(ctx context.Context, after string) (batch.JobPage, error) {
	if apply, err := p.before(ctx, OpListJobs, ask(p.Hooks.List, after)); err != nil || !apply {
		return batch.JobPage{}, err
	}
	p.mu.Lock()
	older, ok := behind(p.jobs, after, func(j *job) string { return j.id })
	p.mu.Unlock()
	if !ok {
		return batch.JobPage{}, unknownCursor(OpListJobs)
	}
	var page batch.JobPage
	for _, j := range older {
		l, shown := p.listed(j)
		if !shown {
			continue
		}
		if len(page.Jobs) == p.o.Page {
			page.Next = page.Jobs[p.o.Page-1].ID
			break
		}
		page.Jobs = append(page.Jobs, l)
	}
	return page, nil
}

// listed is the job as a list tells of it, if lists show it.
func (p *Provider) listed(j *job) (l batch.ListedJob, shown bool) {
	p.mu.Lock()
	l = batch.ListedJob{Job: p.answer(j), Created: j.created}
	if p.o.Settlement != batch.SettleByResults {
		l.Metadata = maps.Clone(j.metadata)
		if p.o.Handover == batch.HandoverFile {
			l.FileID = j.fileID
		}
	}
	shown = p.jobByID[j.id] == j && p.o.Settlement != batch.SettleByRepeat
	if p.o.Hide == nil {
		p.mu.Unlock()
		return l, shown
	}
	book := j.book()
	p.mu.Unlock()
	return l, shown && !p.o.Hide(book)
}

// ListFiles shows the inputs that are present, newest first.
func (p *Provider) ListFiles(ctx context.Context, after string) (batch.FilePage, error) {
	if apply, err := p.before(ctx, OpListFiles, ask(p.Hooks.ListFiles, after)); err != nil || !apply {
		return batch.FilePage{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	older, ok := behind(p.files, after, func(f *file) string { return f.id })
	if !ok {
		return batch.FilePage{}, unknownCursor(OpListFiles)
	}
	var page batch.FilePage
	for _, f := range older {
		if f.channel != "" || !f.present || f.inline || p.o.Settlement == batch.SettleByResults {
			continue
		}
		if len(page.Files) == p.o.Page {
			page.Next = page.Files[p.o.Page-1].ID
			break
		}
		page.Files = append(page.Files, batch.ListedFile{ID: f.id, Name: listedName(f.name), Bytes: int64(len(f.body)), Created: f.created})
	}
	return page, nil
}

// behind is what was made before the object that the cursor names, newest first.
func behind[T any](all []T, after string, id func(T) string) (older []T, ok bool) {
	n := len(all)
	if after != "" {
		if n = slices.IndexFunc(all, func(v T) bool { return id(v) == after }); n < 0 {
			return nil, false
		}
	}
	older = slices.Clone(all[:n])
	slices.Reverse(older)
	return older, true
}

func unknownCursor(op Op) error {
	return &batch.Error{Op: string(op), Kind: batch.Rejected, Code: "unknown_cursor"}
}

func listedName(name string) string {
	if len(name) > 128 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
		return ""
	}
	return name
}

// Cancel ends a running job as cancelled, without results.
func (p *Provider) Cancel(ctx context.Context, jobID string) error {
	apply, err := p.before(ctx, OpCancel, ask(p.Hooks.Cancel, jobID))
	if !apply {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	j := p.jobByID[jobID]
	p.end(j, "cancelled", func(Item) []Line { return []Line{} })
	if err == nil && j == nil {
		return &batch.Error{Op: string(OpCancel), Kind: batch.NotFound}
	}
	return err
}

// RequestID reads what AppendRequest wrote.
func (p *Provider) RequestID(line []byte) (customID string, ok bool) {
	var r requestLine
	if json.Unmarshal(line, &r, json.RejectUnknownMembers(true)) != nil || !validID(r.CustomID) {
		return "", false
	}
	return r.CustomID, true
}

// inspected is what Inspect shows of a job.
type inspected struct {
	ID     string      `json:"id"`
	Phase  batch.Phase `json:"phase"`
	Status string      `json:"status"`
	FileID string      `json:"file_id"`
}

// Inspect shows a few members of the job, or a 404.
func (p *Provider) Inspect(ctx context.Context, jobID string) (batch.Inspection, error) {
	apply, err := p.before(ctx, OpInspect, ask(p.Hooks.Inspect, jobID))
	if err != nil {
		return batch.Inspection{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	j := p.jobByID[jobID]
	if j == nil || !apply {
		return batch.Inspection{HTTPStatus: http.StatusNotFound, Body: []byte(`{"error":"not found"}`)}, nil
	}
	body, err := json.Marshal(inspected{j.id, j.phase, j.status, j.fileID}, format)
	if err != nil {
		panic("fake: a job that cannot be marshalled") // there is none
	}
	return batch.Inspection{HTTPStatus: http.StatusOK, Body: body}, nil
}
