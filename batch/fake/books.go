package fake

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"rollcall/batch"
)

type file struct {
	id, name string
	channel  batch.Channel // "" for an input
	body     []byte
	created  time.Time
	present  bool
	inline   bool // it came with its job
}

type job struct {
	id, fileID string
	metadata   map[string]string
	created    time.Time
	phase      batch.Phase
	status     string
	known      bool
	items      []Item
	files      []batch.ResultFile
	faults     []batch.Fault
	counts     batch.Counts
}

func (j *job) refuse(faults ...batch.Fault) {
	j.phase, j.status, j.known, j.faults = batch.PhaseInvalid, "failed", true, faults
}

// answer is what a look-up shows.
func (p *Provider) answer(j *job) batch.Job {
	return batch.Job{
		ID: j.id, Phase: j.phase, Status: j.status, Known: j.known, Counts: j.counts,
		Files: slices.Clone(j.files), Faults: slices.Clone(j.faults), Expires: j.created.Add(p.o.Window),
	}
}

func (p *Provider) newFile(name string, c batch.Channel, body []byte) *file {
	p.lastFile++
	f := &file{id: fmt.Sprintf("file-%06d", p.lastFile), name: name, channel: c, body: body, created: p.o.Now(), present: true}
	p.files = append(p.files, f)
	p.fileByID[f.id] = f
	return f
}

func (p *Provider) breach(format string, args ...any) {
	rule := fmt.Sprintf(format, args...)
	p.breaches = append(p.breaches, rule)
	if p.o.Breach != nil {
		p.o.Breach(rule)
	}
}

// End ends a job as completed, with the lines of Script or Answer. Ending a job
// that is not running does nothing, and says so by false.
func (p *Provider) End(jobID string) bool { return p.EndAs(jobID, "completed", nil) }

// EndAs ends a job under a status of the test's choice, with script in place of
// the Provider's own when it is not nil.
func (p *Provider) EndAs(jobID, status string, script func(Item) []Line) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if script == nil {
		script = p.o.Script
	}
	return p.end(p.jobByID[jobID], status, script)
}

// end is EndAs; mu is held.
func (p *Provider) end(j *job, status string, script func(Item) []Line) bool {
	if j == nil || j.phase != batch.PhaseRunning {
		return false
	}
	bodies := map[batch.Channel][]byte{}
	// Backwards: who relies on the order of the request lines shall see it.
	for _, it := range slices.Backward(j.items) {
		for _, l := range p.lines(it, script) {
			bodies[l.Channel] = append(append(bodies[l.Channel], l.Raw...), '\n')
			if l.Channel == batch.ChannelOutput {
				j.counts.Completed++
			} else {
				j.counts.Failed++
			}
		}
	}
	j.counts.Total = int64(len(j.items))
	j.phase, j.status, j.known = batch.PhaseEnded, status, true
	for _, c := range []batch.Channel{batch.ChannelOutput, batch.ChannelError} {
		if len(bodies[c]) > 0 {
			f := p.newFile(j.id+"-"+string(c)+".jsonl", c, bodies[c])
			j.files = append(j.files, batch.ResultFile{Channel: c, ID: f.id})
		}
	}
	return true
}

func (p *Provider) lines(it Item, script func(Item) []Line) []Line {
	if script != nil {
		if lines := script(it); lines != nil {
			return lines
		}
	}
	return []Line{Answered(it.CustomID, p.o.Answer(it.CustomID, it.Text))}
}

// EndAll ends every job that is running, and returns how many.
func (p *Provider) EndAll() int {
	n := 0
	for _, j := range p.Jobs() {
		if p.End(j.ID) {
			n++
		}
	}
	return n
}

// SetStatus shows a running job under another word; known is false for a word
// that the adapter is to know nothing of.
func (p *Provider) SetStatus(jobID, status string, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j := p.jobByID[jobID]; j != nil && j.phase == batch.PhaseRunning {
		j.status, j.known = batch.SafeCode(status), known
	}
}

// Refuse ends a running job as invalid: nothing ran.
func (p *Provider) Refuse(jobID string, faults ...batch.Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j := p.jobByID[jobID]; j != nil && j.phase == batch.PhaseRunning {
		j.refuse(faults...)
	}
}

// ForgetJob makes look-ups of a job answer NotFound. It stays in the books.
func (p *Provider) ForgetJob(jobID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.jobByID, jobID)
}

// ForgetFile makes a file go away. It stays in the books.
func (p *Provider) ForgetFile(fileID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetFile(fileID)
}

// forgetFile is ForgetFile; mu is held.
func (p *Provider) forgetFile(fileID string) {
	if f := p.fileByID[fileID]; f != nil {
		f.present, f.body = false, nil
	}
}

// JobBook is a job as it really is.
type JobBook struct {
	ID, FileID string
	Metadata   map[string]string
	Created    time.Time
	Phase      batch.Phase
	Status     string
	CustomIDs  []string // in the order of the body
}

// Jobs are all jobs that were ever made, oldest first.
func (p *Provider) Jobs() []JobBook {
	p.mu.Lock()
	defer p.mu.Unlock()
	books := make([]JobBook, 0, len(p.jobs))
	for _, j := range p.jobs {
		books = append(books, j.book())
	}
	return books
}

func (j *job) book() JobBook {
	b := JobBook{ID: j.id, FileID: j.fileID, Metadata: maps.Clone(j.metadata), Created: j.created, Phase: j.phase, Status: j.status}
	for _, it := range j.items {
		b.CustomIDs = append(b.CustomIDs, it.CustomID)
	}
	return b
}

// FileBook is a file as it really is.
type FileBook struct {
	ID, Name string
	Channel  batch.Channel // "" for an input
	Created  time.Time
	Present  bool // false once deleted
	Bytes    int  // 0 once deleted
}

// Files are all files that were ever made, oldest first.
func (p *Provider) Files() []FileBook {
	p.mu.Lock()
	defer p.mu.Unlock()
	books := make([]FileBook, 0, len(p.files))
	for _, f := range p.files {
		books = append(books, FileBook{ID: f.id, Name: f.name, Channel: f.channel, Created: f.created, Present: f.present, Bytes: len(f.body)})
	}
	return books
}

// Uploaded is how many request lines with this text were handed over.
func (p *Provider) Uploaded(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.uploaded[text]
}

// TextsSeen is how many request lines were handed over, and how many different
// texts were in them.
func (p *Provider) TextsSeen() (lines, texts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.uploaded {
		lines += n
	}
	return lines, len(p.uploaded)
}

// Calls is how often op was called, whatever came of it.
func (p *Provider) Calls(op Op) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[op]
}

// Breaches are the rules that were broken: one body under two jobs, a custom
// id in two jobs.
func (p *Provider) Breaches() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.breaches)
}
