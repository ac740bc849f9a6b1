// Package fake is a processor in memory, for tests of the passes and for the
// simulation. It is deterministic: it starts no goroutine, reads no clock, and
// a job moves only when the test says so.
//
// It misbehaves on request (Hooks), answers what the test wants (Answer,
// Script), and keeps books of its own (Jobs, Files, Uploaded, Breaches), so
// that a test can compare what really happened with what the ledger believes.
package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"rollcall/batch"
)

// Options make a Provider. The zero value works.
type Options struct {
	Account batch.Account // default: processor "fake", name "fake", host "fake.invalid"
	// Limits are what Capabilities says. Without a KeyWindow an account that settles
	// by key has one of 24 h.
	Limits batch.Limits
	// Handover is how bodies come; as files. An inline body is a file that no list
	// shows and no id names.
	Handover batch.Handover
	// DeletesJobs is whether DeleteJob does so; the capabilities say it.
	DeletesJobs bool
	// Settlement is how a create is settled; by listing. It decides what a listing
	// tells and what a repeated Create does:
	//
	//	listing  lists tell everything; a repeat makes another job, a breach
	//	results  lists tell no metadata and no file, and there are no files to list
	//	key      the same Creation under its Key gives the same job within the window
	//	repeat   a job has ended when Create returns, no list shows it, and another
	//	         one over the same body is no breach
	Settlement batch.Settlement
	// Page is how many entries a page of a list has; 100.
	Page int
	// Hide leaves jobs out of the list of jobs, and nothing else. It is called
	// without a lock held.
	Hide func(JobBook) bool
	// Now is the processor's clock; nil stands still at a fixed time.
	Now func() time.Time
	// Window is how long a job may take until it is given up; 24 h.
	Window time.Duration
	// Answer is the content of an answer; nil is {"label":"ok"}.
	Answer func(customID, text string) []byte
	// Script writes the result lines of an item in place of Answer: nil is
	// "as Answer says", an empty slice leaves the item out of the results.
	Script func(Item) []Line
	// Breach is told when a rule of the contract is broken; t.Error, say.
	Breach func(rule string)
}

// Hooks decide about calls. apply says whether the call is carried out, err
// what the caller sees of it, so that the two may differ:
//
//	true, nil    as without a hook
//	true, err    carried out, but the caller does not learn it; a Download
//	             yields half of its bytes and then err
//	false, err   not carried out
//	false, nil   a lie: a fresh id that nobody knows, a look-up that still
//	             shows a new job, an empty file, a file that is said to be deleted,
//	             a whole list without entries, a job that is said to be cancelled,
//	             an inspection that knows no job, a job that is said to be deleted
//
// A nil hook is (true, nil). Hooks are called without a lock held and may call
// the Provider. Set them before the calls that they are about.
type Hooks struct {
	Upload    func(name string) (apply bool, err error)
	Create    func(c batch.Creation) (apply bool, err error)
	Status    func(jobID string) (apply bool, err error)
	Download  func(fileID string) (apply bool, err error)
	Delete    func(fileID string) (apply bool, err error)
	List      func(after string) (apply bool, err error) // a page of jobs
	ListFiles func(after string) (apply bool, err error)
	Cancel    func(jobID string) (apply bool, err error)
	Inspect   func(jobID string) (apply bool, err error)
	DeleteJob func(jobID string) (apply bool, err error)
}

// Provider is the processor and its client in one.
type Provider struct {
	Hooks Hooks

	o Options

	mu       sync.Mutex
	lastFile int
	lastJob  int
	files    []*file // in the order in which they were made, deleted ones too
	jobs     []*job  // likewise
	fileByID map[string]*file
	jobByID  map[string]*job
	jobOver  map[string]string // by file: the last job over it
	uploaded map[string]int    // by text: how often it was handed over
	accepted map[string]bool   // custom ids of all jobs
	jobUnder map[string]*job   // by key: the first within the window
	calls    map[Op]int
	breaches []string
}

var (
	_ batch.Inventory  = (*Provider)(nil)
	_ batch.Inspector  = (*Provider)(nil)
	_ batch.JobDeleter = (*Provider)(nil)
)

// Op names a call in Calls.
type Op string

// The calls.
const (
	OpUpload    Op = "upload"
	OpCreate    Op = "create"
	OpStatus    Op = "status"
	OpDownload  Op = "download"
	OpDelete    Op = "delete file"
	OpListJobs  Op = "list jobs"
	OpListFiles Op = "list files"
	OpCancel    Op = "cancel"
	OpInspect   Op = "inspect"
	OpDeleteJob Op = "delete job"
)

// New returns a Provider without files or jobs.
func New(o Options) *Provider {
	if o.Account == (batch.Account{}) {
		o.Account = batch.Account{Processor: "fake", Name: "fake", Host: "fake.invalid", Fingerprint: "fake"}
	}
	if o.Now == nil {
		o.Now = func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
	}
	if o.Window <= 0 {
		o.Window = 24 * time.Hour
	}
	if o.Settlement == "" {
		o.Settlement = batch.SettleByListing
	}
	if o.Settlement == batch.SettleByKey && o.Limits.KeyWindow == 0 {
		o.Limits.KeyWindow = 24 * time.Hour
	}
	if o.Handover == "" {
		o.Handover = batch.HandoverFile
	}
	if o.Page <= 0 {
		o.Page = 100
	}
	if o.Answer == nil {
		o.Answer = func(string, string) []byte { return []byte(`{"label":"ok"}`) }
	}
	return &Provider{
		o:        o,
		fileByID: map[string]*file{},
		jobByID:  map[string]*job{},
		jobOver:  map[string]string{},
		uploaded: map[string]int{},
		accepted: map[string]bool{},
		jobUnder: map[string]*job{},
		calls:    map[Op]int{},
	}
}

// Account returns the configured account.
func (p *Provider) Account() batch.Account { return p.o.Account }

// Capabilities returns the configured ones.
func (p *Provider) Capabilities() batch.Capabilities {
	return batch.Capabilities{
		Settlement: p.o.Settlement, Handover: p.o.Handover, Limits: p.o.Limits,
		Deletion: batch.Deletion{Input: p.o.Handover == batch.HandoverFile, Results: true, Job: p.o.DeletesJobs},
		Classes:  []batch.DataClass{batch.DataSynthetic, batch.DataPersonal, batch.DataHealth},
	}
}

// before counts the call, and asks the context and the hook.
func (p *Provider) before(ctx context.Context, op Op, hook func() (bool, error)) (apply bool, err error) {
	p.mu.Lock()
	p.calls[op]++
	p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, &batch.Error{Op: string(op), Kind: batch.Temporary, Cause: err}
	}
	apply, err = hook()
	var e *batch.Error
	if err != nil && !errors.As(err, &e) {
		kind := batch.Temporary
		if op == OpCreate {
			kind = batch.UnknownOutcome
		}
		err = &batch.Error{Op: string(op), Kind: kind, Cause: err}
	}
	return apply, err
}

func ask[T any](hook func(T) (bool, error), v T) func() (bool, error) {
	return func() (bool, error) {
		if hook == nil {
			return true, nil
		}
		return hook(v)
	}
}

// Upload keeps the body. Where bodies come with their jobs it takes none.
func (p *Provider) Upload(ctx context.Context, in batch.Input) (string, error) {
	if p.o.Handover == batch.HandoverInline {
		return "", &batch.Error{Op: string(OpUpload), Kind: batch.Rejected, Code: "wrong_handover"}
	}
	apply, hookErr := p.before(ctx, OpUpload, ask(p.Hooks.Upload, in.Name))
	if !apply && hookErr != nil {
		return "", hookErr
	}
	var body bytes.Buffer
	if err := in.Write(&body); err != nil {
		return "", &batch.Error{Op: string(OpUpload), Kind: batch.Temporary, Cause: err}
	}
	if int64(body.Len()) != in.Size {
		return "", &batch.Error{Op: string(OpUpload), Kind: batch.Temporary, Code: "body_size_mismatch"}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	items, _ := parseBody(body.Bytes())
	for _, it := range items {
		p.uploaded[it.Text]++
	}
	f := p.newFile(in.Name, "", body.Bytes())
	if !apply {
		f.present = false
	}
	if hookErr != nil {
		return "", hookErr
	}
	return f.id, nil
}

// Create makes a job, even over a file that is not there: as at OpenAI, that
// shows in the job.
func (p *Provider) Create(ctx context.Context, c batch.Creation) (batch.Job, error) {
	if (c.Body != nil) != (p.o.Handover == batch.HandoverInline) || c.Body != nil && c.FileID != "" {
		return batch.Job{}, &batch.Error{Op: string(OpCreate), Kind: batch.Rejected, Code: "wrong_handover"}
	}
	apply, hookErr := p.before(ctx, OpCreate, ask(p.Hooks.Create, c))
	if !apply && hookErr != nil {
		return batch.Job{}, hookErr
	}
	inline, err := inline(c)
	if err != nil {
		return batch.Job{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Body != nil {
		c.FileID = p.keepInline(c.Body.Name, inline)
	}
	told, err := p.create(c, apply)
	if hookErr != nil {
		return batch.Job{}, hookErr
	}
	return told, err
}

// inline reads the body that comes with c, if one is to come with it.
func inline(c batch.Creation) ([]byte, error) {
	if c.Body == nil {
		return nil, nil
	}
	var body bytes.Buffer
	if err := c.Body.Write(&body); err != nil {
		return nil, &batch.Error{Op: string(OpCreate), Kind: batch.Temporary, Cause: err}
	}
	if int64(body.Len()) != c.Body.Size {
		return nil, &batch.Error{Op: string(OpCreate), Kind: batch.Temporary, Code: "body_size_mismatch"}
	}
	return body.Bytes(), nil
}

// keepInline keeps an inline body; the same bytes are the same file.
func (p *Provider) keepInline(name string, body []byte) (id string) {
	items, _ := parseBody(body)
	for _, it := range items {
		p.uploaded[it.Text]++
	}
	for _, f := range p.fileByID {
		if f.inline && f.present && bytes.Equal(f.body, body) {
			return f.id
		}
	}
	f := p.newFile(name, "", body)
	f.inline = true
	return f.id
}

// create makes the job, or says what it would have said without making one.
func (p *Provider) create(c batch.Creation, apply bool) (batch.Job, error) {
	if apply {
		if j, err := p.repeated(c); err != nil {
			return batch.Job{}, err
		} else if j != nil {
			return p.answer(j), nil
		}
	}
	p.lastJob++
	j := &job{
		id:       fmt.Sprintf("job-%06d", p.lastJob),
		fileID:   c.FileID,
		metadata: maps.Clone(c.Metadata),
		created:  p.o.Now(),
		phase:    batch.PhaseRunning,
		status:   "validating",
		known:    true,
	}
	told := p.answer(j)
	if !apply {
		return told, nil
	}
	p.accept(j)
	p.jobUnder[c.Key] = j
	if p.o.Settlement == batch.SettleByRepeat {
		p.end(j, "completed", p.o.Script)
		told = p.answer(j)
	}
	return told, nil
}

// repeated is the job that c asks for again, or nil when it asks for a new one.
func (p *Provider) repeated(c batch.Creation) (*job, error) {
	j := p.jobUnder[c.Key]
	switch {
	case p.o.Settlement != batch.SettleByKey, c.Key == "", j == nil, !p.o.Now().Before(j.created.Add(p.o.Limits.KeyWindow)):
		return nil, nil
	case j.fileID != c.FileID, !maps.Equal(j.metadata, c.Metadata):
		return nil, &batch.Error{Op: string(OpCreate), Kind: batch.Rejected, Code: "idempotency_conflict"}
	}
	return j, nil
}

// accept puts a job into the books and its body to the test.
func (p *Provider) accept(j *job) {
	again := p.o.Settlement == batch.SettleByRepeat // is no breach
	if other := p.jobOver[j.fileID]; other != "" && !again {
		p.breach("file %s is the body of %s and %s", j.fileID, other, j.id)
	}
	p.jobOver[j.fileID] = j.id
	p.jobs = append(p.jobs, j)
	p.jobByID[j.id] = j
	f := p.fileByID[j.fileID]
	if f == nil || !f.present {
		j.refuse(batch.Fault{Code: "input_file_not_found"})
		return
	}
	items, faults := parseBody(f.body)
	j.items = items
	if len(faults) > 0 {
		j.refuse(faults...)
		return
	}
	for i := range j.items {
		id := j.items[i].CustomID
		j.items[i].JobID = j.id
		if p.accepted[id] && !again {
			p.breach("custom id %s is in more than one job", id)
		}
		p.accepted[id] = true
	}
}

// Status shows the job.
func (p *Provider) Status(ctx context.Context, jobID string) (batch.Job, error) {
	apply, err := p.before(ctx, OpStatus, ask(p.Hooks.Status, jobID))
	if err != nil {
		return batch.Job{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	j := p.jobByID[jobID]
	if j == nil {
		return batch.Job{}, &batch.Error{Op: string(OpStatus), Kind: batch.NotFound}
	}
	if !apply {
		return p.answer(&job{id: j.id, created: j.created, phase: batch.PhaseRunning, status: "validating", known: true}), nil
	}
	return p.answer(j), nil
}

// Download opens a file.
func (p *Provider) Download(ctx context.Context, fileID string) (io.ReadCloser, int64, error) {
	apply, hookErr := p.before(ctx, OpDownload, ask(p.Hooks.Download, fileID))
	if !apply && hookErr != nil {
		return nil, 0, hookErr
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fileByID[fileID]
	if f == nil || !f.present {
		return nil, 0, &batch.Error{Op: string(OpDownload), Kind: batch.NotFound}
	}
	body := f.body
	switch {
	case !apply:
		body = nil
	case hookErr != nil:
		torn := io.MultiReader(bytes.NewReader(body[:len(body)/2]), broken{hookErr})
		return io.NopCloser(torn), int64(len(body)), nil
	}
	return io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// DeleteFile deletes a file.
func (p *Provider) DeleteFile(ctx context.Context, fileID string) error {
	apply, err := p.before(ctx, OpDelete, ask(p.Hooks.Delete, fileID))
	if apply {
		p.ForgetFile(fileID)
	}
	return err
}
