package simulation

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile/crashpoint"
)

// client is a process's way to the processor: every call may go wrong on its way
// there, and on its way back.
type client struct {
	*fake.Provider
	p *process
	// other is set for an account that no policy names: nothing may reach it.
	other bool
}

// way is what becomes of a call that changes something at the processor.
type way int

const (
	arrives way = iota
	lost        // nothing happens
	unheard     // it happens, and nobody is told
	late        // it happens later, and nobody is told
)

// mostMisses is how often in a row a file that is there may be denied. What a
// processor says once more is taken for true, by design.
const mostMisses = 2

// ask lets the world go on before a call, and says how the call fares.
func (c *client) ask(ctx context.Context, op, subject string) (way, error) {
	w := c.p.w
	if c.other && !slices.Contains([]string{"list jobs", "list files"}, op) {
		w.oracle.breach("%s %s goes to an account that no policy names", op, subject)
	}
	return c.p.ask(ctx, op, subject)
}

func (p *process) ask(ctx context.Context, op, subject string) (way, error) {
	w := p.w
	if err := ctx.Err(); err != nil { // its time was over before it began
		return lost, &batch.Error{Op: op, Kind: batch.Temporary, Cause: err}
	}
	if err := p.park(op + " " + subject); err != nil {
		return lost, unknownOutcome(op, err)
	}
	if p.direct {
		return arrives, nil
	}
	switch {
	case w.strikes(lostRequest, op):
		return lost, unknownOutcome(op, errCut)
	case w.strikes(lostAnswer, op):
		return unheard, unknownOutcome(op, errCut)
	}
	return arrives, nil
}

func (c *client) answered(op string) error { return c.p.answered(op) }

// answered lets the world go on while the answer is on its way.
func (p *process) answered(op string) error {
	if err := p.park(op + " is answered"); err != nil {
		return unknownOutcome(op, err)
	}
	return nil
}

// refusal is a clear no, or nil.
func (c *client) refusal(op string) error {
	w := c.p.w
	if c.p.direct || !w.strikes(refusedCall, op) {
		return nil
	}
	if w.rng.IntN(2) == 0 {
		return &batch.Error{Op: op, Kind: batch.RateLimited, HTTPStatus: 429, RetryAfter: time.Duration(w.rng.IntN(120)) * time.Second}
	}
	return &batch.Error{Op: op, Kind: batch.Rejected, HTTPStatus: 400, Code: "invalid_request"}
}

func (c *client) Upload(ctx context.Context, in batch.Input) (string, error) {
	way, failed := c.ask(ctx, "upload", in.Name)
	if way == lost {
		return "", failed
	}
	if err := c.refusal("upload"); err != nil {
		return "", err
	}
	c.p.w.oracle.handedOver(in.Name)
	id, err := c.Provider.Upload(context.WithoutCancel(ctx), in)
	if err != nil || failed != nil {
		return "", cmp.Or(err, failed)
	}
	return id, c.answered("upload")
}

func (c *client) Create(ctx context.Context, cr batch.Creation) (batch.Job, error) {
	w := c.p.w
	c.p.calling = cr.Metadata["rc_submission"]
	w.oracle.sentInTime(c.p, c.p.calling)
	defer func() { c.p.calling = "" }()
	way, failed := c.ask(ctx, "create", cmp.Or(cr.FileID, "with its body"))
	if way == lost {
		// What a process that dies, or a line that breaks, has sent may still be
		// on its way.
		if ctx.Err() == nil && !c.p.direct && w.strikes(lateRequest, "create") && onItsWay(&cr) {
			w.later(cr)
		}
		return batch.Job{}, failed
	}
	if err := c.refusal("create"); err != nil {
		return batch.Job{}, err
	}
	job, err := w.makeJob(cr)
	if err == nil && failed == nil {
		failed = c.answered("create")
	}
	if stand := w.standing(); len(stand) > 0 && !c.p.direct {
		if failed == nil && w.Faults[lostAnswer] && !w.calm && w.rng.IntN(2) == 0 {
			w.struck[lostAnswer]++
			w.note(c.p, "lost_answer: create, while a sender stands before its own")
			failed = unknownOutcome("create", errCut)
		}
		if failed != nil {
			for _, p := range stand {
				p.wake = w.now // it goes on just when a job was made and nobody knows of it
			}
		}
	}
	if err := cmp.Or(err, failed); err != nil {
		return batch.Job{}, err
	}
	return job, nil
}

// standing are the processes that stand still before their create.
func (w *world) standing() (all []*process) {
	for _, p := range w.processes {
		if p.alive && p.at == crashpoint.SubmitFileNoted && p.wake.After(w.now) {
			all = append(all, p)
		}
	}
	return all
}

// onItsWay gives a request its body as bytes: who sent it may be gone when it
// arrives.
func onItsWay(cr *batch.Creation) bool {
	if cr.Body == nil {
		return true
	}
	var sent bytes.Buffer
	if err := cr.Body.Write(&sent); err != nil {
		return false
	}
	body := *cr.Body
	body.Write = func(w io.Writer) error { _, err := w.Write(sent.Bytes()); return err }
	cr.Body = &body
	return true
}

func (c *client) Status(ctx context.Context, jobID string) (batch.Job, error) {
	if err := c.look(ctx, "status", jobID); err != nil {
		return batch.Job{}, err
	}
	w := c.p.w
	job, err := c.Provider.Status(context.WithoutCancel(ctx), jobID)
	switch {
	case err != nil || c.p.direct:
	case w.strikes(falseMiss, jobID):
		return batch.Job{}, &batch.Error{Op: "status", Kind: batch.NotFound, HTTPStatus: 404}
	case w.strikes(statusLag, jobID):
		return batch.Job{ID: job.ID, Phase: batch.PhaseRunning, Status: "validating", Known: true, Expires: job.Expires}, nil
	}
	if lost := c.answered("status"); lost != nil {
		return batch.Job{}, lost
	}
	return job, err
}

// look is a call that changes nothing.
func (c *client) look(ctx context.Context, op, subject string) error {
	if way, failed := c.ask(ctx, op, subject); way != arrives {
		return failed
	}
	if !c.p.direct && c.p.w.strikes(unavailable, op) {
		return &batch.Error{Op: op, Kind: batch.Temporary, HTTPStatus: 503}
	}
	return nil
}

// lineEnd is the end of some line of a file before its last one, or its beginning.
func (w *world) lineEnd(file []byte) int {
	end := 0
	for range w.rng.IntN(max(bytes.Count(file, []byte{'\n'}), 1)) {
		end += bytes.IndexByte(file[end:], '\n') + 1
	}
	return end
}

func (c *client) Download(ctx context.Context, fileID string) (io.ReadCloser, int64, error) {
	if err := c.look(ctx, "download", fileID); err != nil {
		return nil, 0, err
	}
	w := c.p.w
	if !c.p.direct && w.missing[fileID] < mostMisses && w.strikes(fileMissing, fileID) {
		w.missing[fileID]++
		return nil, 0, &batch.Error{Op: "download", Kind: batch.NotFound, HTTPStatus: 404}
	}
	w.missing[fileID] = 0
	body, size, err := c.Provider.Download(context.WithoutCancel(ctx), fileID)
	if err != nil || c.p.direct {
		return body, size, err
	}
	all, err := io.ReadAll(body)
	if err != nil {
		return nil, 0, err
	}
	switch {
	case w.strikes(tornDownload, fileID):
		// Within the first chunk: how many of several would be written before the
		// end is known depends on two goroutines, and not on the seed.
		short := all[:min(len(all)/2, w.rng.IntN(2+bytes.IndexByte(all, '\n')))]
		return io.NopCloser(bytes.NewReader(short)), int64(len(all)), nil
	case w.strikes(cleanCut, fileID):
		w.oracle.cut(fileID)
		return io.NopCloser(bytes.NewReader(all[:w.lineEnd(all)])), -1, nil
	}
	return io.NopCloser(bytes.NewReader(all)), int64(len(all)), nil
}

func (c *client) DeleteFile(ctx context.Context, fileID string) error {
	way, failed := c.ask(ctx, "delete file", fileID)
	if way == lost {
		return failed
	}
	if err := c.Provider.DeleteFile(context.WithoutCancel(ctx), fileID); err != nil || failed != nil {
		return cmp.Or(err, failed)
	}
	return c.answered("delete file")
}

func (c *client) Cancel(ctx context.Context, jobID string) error {
	way, failed := c.ask(ctx, "cancel", jobID)
	if way == lost {
		return failed
	}
	if err := c.Provider.Cancel(context.WithoutCancel(ctx), jobID); err != nil || failed != nil {
		return cmp.Or(err, failed)
	}
	return c.answered("cancel")
}

func (c *client) ListJobs(ctx context.Context, after string) (batch.JobPage, error) {
	if err := c.look(ctx, "list jobs", after); err != nil {
		return batch.JobPage{}, err
	}
	w := c.p.w
	if !c.p.direct {
		// Where jobs carry no reference, nothing tells a list that lags behind from
		// one without the job, but the time that was waited for it.
		lag := 40
		if w.Settles == batch.SettleByResults {
			lag = 8
		}
		if lag > 8 && w.strikes(emptyList, "list jobs") {
			return batch.JobPage{}, nil
		}
		if w.strikes(listLag, "list jobs") {
			w.shownUntil = w.now.Add(-time.Duration(w.rng.IntN(lag)) * time.Minute)
		}
	}
	if after == "" {
		c.p.listed, c.p.shown = w.now, w.now
	}
	if !w.shownUntil.IsZero() && w.shownUntil.Before(c.p.shown) {
		c.p.shown = w.shownUntil
	}
	page, err := c.Provider.ListJobs(context.WithoutCancel(ctx), after)
	w.shownUntil = time.Time{}
	return page, cmp.Or(err, c.answered("list jobs"))
}

func (c *client) ListFiles(ctx context.Context, after string) (batch.FilePage, error) {
	if err := c.look(ctx, "list files", after); err != nil {
		return batch.FilePage{}, err
	}
	if !c.p.direct && c.p.w.strikes(emptyList, "list files") {
		return batch.FilePage{}, nil
	}
	return c.Provider.ListFiles(context.WithoutCancel(ctx), after)
}
