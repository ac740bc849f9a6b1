package fake

import (
	"context"
	"net/http"

	"rollcall/batch"
)

// DeleteJob makes an ended job go away with its results and the body that came
// with it. It stays in the books.
func (p *Provider) DeleteJob(ctx context.Context, jobID string) error {
	if !p.o.DeletesJobs {
		return &batch.Error{Op: string(OpDeleteJob), Kind: batch.Rejected, Code: "no_deletion"}
	}
	apply, err := p.before(ctx, OpDeleteJob, ask(p.Hooks.DeleteJob, jobID))
	if !apply {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	j := p.jobByID[jobID]
	switch {
	case j == nil && err == nil:
		return &batch.Error{Op: string(OpDeleteJob), Kind: batch.NotFound, HTTPStatus: http.StatusNotFound}
	case j == nil:
		return err
	case j.phase == batch.PhaseRunning && err == nil:
		return &batch.Error{Op: string(OpDeleteJob), Kind: batch.Rejected, HTTPStatus: http.StatusBadRequest, Code: "in_progress"}
	case j.phase == batch.PhaseRunning:
		return err
	}
	delete(p.jobByID, jobID)
	for _, f := range j.files {
		p.forgetFile(f.ID)
	}
	if f := p.fileByID[j.fileID]; f != nil && f.inline && p.jobOver[f.id] == jobID {
		p.forgetFile(f.id)
	}
	return err
}
