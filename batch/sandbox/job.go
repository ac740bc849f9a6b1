package sandbox

import (
	"sync"
	"time"
)

// The statuses of a batch.
const (
	statusValidating = "validating"
	statusFailed     = "failed"
	statusRunning    = "in_progress"
	statusFinalizing = "finalizing"
	statusCompleted  = "completed"
	statusExpired    = "expired"
	statusCancelling = "cancelling"
	statusCancelled  = "cancelled"
)

var statuses = []string{
	statusValidating, statusFailed, statusRunning, statusFinalizing,
	statusCompleted, statusExpired, statusCancelling, statusCancelled,
}

const (
	window = 24 * time.Hour
	// forever is 285 years in nanoseconds, of the 292 that a duration holds.
	forever = 9e18
)

// job is a Batch object. What is stored are facts: when it was created, whether
// it passed validation, when somebody cancelled it, what it ended with. The
// status at an instant follows from them.
type job struct {
	mu sync.Mutex

	ID           string            `json:"id"`
	Project      string            `json:"project"`
	Seq          int64             `json:"seq"` // order of creation
	Endpoint     string            `json:"endpoint"`
	InputFile    string            `json:"input_file"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	OutputExpiry int64             `json:"output_expiry"` // seconds
	Created      time.Time         `json:"created"`
	Timing       timing            `json:"timing"`
	Faults       []Fault           `json:"faults,omitempty"` // job faults, fixed at creation
	CancelAsked  *time.Time        `json:"cancel_asked,omitempty"`
	Checked      *checked          `json:"checked,omitempty"`
	Ended        *ended            `json:"ended,omitempty"`
}

// timing is how long each phase takes, in virtual nanoseconds.
type timing struct {
	Validating int64 `json:"validating"`
	Running    int64 `json:"running"`
	Finalizing int64 `json:"finalizing"`
	Cancelling int64 `json:"cancelling"`
	Window     int64 `json:"window"`
}

// checked is the outcome of validation.
type checked struct {
	Lines    int       `json:"lines"`
	Model    string    `json:"model"`
	Problems []problem `json:"problems,omitempty"`
}

// problem is one entry of errors.data. Line counts from 1.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   any    `json:"param"` // string or nil
	Line    any    `json:"line"`  // int or nil
}

// ended is the outcome of a job that ran. A file id is empty without a file.
type ended struct {
	OutputFile string    `json:"output_file"`
	ErrorFile  string    `json:"error_file"`
	Completed  int       `json:"completed"` // lines with HTTP 200
	Failed     int       `json:"failed"`
	Usage      usageBody `json:"usage"`
}

func (j *job) fault(name string) (Fault, bool) {
	for _, f := range j.Faults {
		if f.Name == name {
			return f, true
		}
	}
	return Fault{}, false
}

// timingFor is the timing of a new job with these faults.
func timingFor(l Latencies, faults []Fault) timing {
	t := timing{
		Validating: int64(l.Validating), Running: int64(l.Running), Finalizing: int64(l.Finalizing),
		Cancelling: int64(l.Cancelling), Window: int64(window),
	}
	for _, f := range faults {
		switch f.Name {
		case "slow":
			*map[string]*int64{
				statusValidating: &t.Validating, statusRunning: &t.Running,
				statusFinalizing: &t.Finalizing, statusCancelling: &t.Cancelling,
			}[f.text("phase")] = int64(f.duration("for"))
		case "slow_cancel":
			t.Cancelling = int64(f.duration("for"))
		case "expire":
			// The window is set, and the work made so slow that this share
			// of it is done by then.
			t.Window = max(int64(f.duration("after")), t.Validating+1)
			t.Running = int64(min(float64(t.Window-t.Validating)/max(f.fraction("share"), 1e-6), forever)) + 1
		}
	}
	return t
}

// The instants of a job that nothing happens to.
func (j *job) checkedAt() time.Time { return j.Created.Add(time.Duration(j.Timing.Validating)) }
func (j *job) ranAt() time.Time     { return j.checkedAt().Add(time.Duration(j.Timing.Running)) }
func (j *job) expiresAt() time.Time { return j.Created.Add(time.Duration(j.Timing.Window)) }
func (j *job) completedAt() time.Time {
	return j.ranAt().Add(time.Duration(j.Timing.Finalizing))
}

// course is what becomes of a job: how and when it ends as things stand, and
// the share of its lines that is done by then.
type course struct {
	status     string // terminal
	at         time.Time
	share      float64
	finalizing time.Time // zero when it does not get there
	cancelling time.Time // zero when nobody cancels
}

// course works out where the job is going. Someone who cancels later changes it.
func (j *job) course() course {
	if j.Checked != nil && len(j.Checked.Problems) > 0 {
		return course{status: statusFailed, at: j.checkedAt()}
	}
	c := course{status: statusCompleted, at: j.completedAt(), share: 1, finalizing: j.ranAt()}
	if j.ranAt().After(j.expiresAt()) {
		c = course{status: statusExpired, at: j.expiresAt(), share: j.progress(j.expiresAt())}
	}
	if j.CancelAsked == nil || !j.CancelAsked.Before(c.at) {
		return c
	}
	if _, loses := j.fault("cancel_loses"); loses {
		c.cancelling = *j.CancelAsked
		return c
	}
	asked := *j.CancelAsked
	out := course{status: statusCancelled, at: asked.Add(time.Duration(j.Timing.Cancelling)), share: j.progress(asked), cancelling: asked}
	if !c.finalizing.IsZero() && !c.finalizing.After(asked) {
		out.finalizing = c.finalizing
	}
	return out
}

// progress is the share of lines that are done at an instant.
func (j *job) progress(at time.Time) float64 {
	share := float64(at.Sub(j.checkedAt())) / float64(j.Timing.Running)
	return min(max(share, 0), 1)
}

// statusAt is the status at an instant at or after creation.
func (j *job) statusAt(now time.Time) string {
	c := j.course()
	switch {
	case !now.Before(c.at):
		return c.status
	case !c.cancelling.IsZero() && !now.Before(c.cancelling):
		return statusCancelling
	case now.Before(j.checkedAt()):
		return statusValidating
	case !c.finalizing.IsZero() && !now.Before(c.finalizing):
		return statusFinalizing
	default:
		return statusRunning
	}
}

// stoppedUnchecked says whether the job ends, or is cancelled, before
// validation gets to it.
func (j *job) stoppedUnchecked() bool {
	c := j.course()
	return c.at.Before(j.checkedAt()) || c.status == statusCancelled && c.cancelling.Before(j.checkedAt())
}

// vanished says whether the batch is gone as far as a client can tell.
func (j *job) vanished(now time.Time) bool {
	f, ok := j.fault("vanish")
	return ok && !now.Before(j.Created.Add(f.duration("after")))
}

// body shows the job as it stands at an instant. advance must have run for it.
func (j *job) body(now time.Time) jobBody {
	_, odd := j.fault("other_spelling")
	status, c := j.statusAt(now), j.course()
	at := func(t time.Time) any {
		if t.After(now) {
			return nil
		}
		return stamp(t, odd)
	}
	b := jobBody{
		ID: j.ID, Object: "batch", Endpoint: j.Endpoint, InputFile: j.InputFile, Window: "24h",
		Status: j.spelled(status), CreatedAt: at(j.Created), ExpiresAt: stamp(j.expiresAt(), odd),
		FinalizingAt: at(c.finalizing), CancellingAt: at(c.cancelling), Counts: &countsBody{},
	}
	if j.Metadata != nil {
		b.Metadata = j.Metadata
	}
	switch status {
	case statusFailed:
		b.FailedAt = at(c.at)
		b.Errors = problemList{Object: "list", Data: j.Checked.Problems}
		if _, ok := j.fault("errors_array"); ok {
			b.Errors = j.Checked.Problems
		}
		if _, ok := j.fault("failed_file_ids"); ok {
			b.OutputFile, b.ErrorFile = "file-none-"+j.ID, "file-none-"+j.ID
		}
		return b
	case statusCompleted:
		b.CompletedAt = at(c.at)
	case statusExpired:
		b.ExpiredAt = at(c.at)
	case statusCancelled:
		b.CancelledAt = at(c.at)
	}
	if j.Checked == nil || status == statusValidating {
		return b
	}
	b.Model, b.InProgressAt = j.Checked.Model, at(j.checkedAt())
	counts := countsBody{Total: j.Checked.Lines, Completed: int(float64(j.Checked.Lines) * min(j.progress(now), c.share))}
	b.Counts = &counts
	if j.Ended != nil && !now.Before(c.at) {
		j.showEnd(&b, now)
	}
	if _, ok := j.fault("null_counts"); ok {
		b.Counts = nil
	}
	return b
}

// showEnd adds what is known when a job that ran has ended.
func (j *job) showEnd(b *jobBody, now time.Time) {
	b.Counts = &countsBody{Total: j.Checked.Lines, Completed: j.Ended.Completed, Failed: j.Ended.Failed}
	b.Usage = j.Ended.Usage
	if f, ok := j.fault("late_file_ids"); ok && now.Before(j.course().at.Add(f.duration("for"))) {
		return
	}
	if j.Ended.OutputFile != "" {
		b.OutputFile = j.Ended.OutputFile
	}
	if j.Ended.ErrorFile != "" {
		b.ErrorFile = j.Ended.ErrorFile
	} else if _, ok := j.fault("empty_error_id"); ok {
		b.ErrorFile = ""
	}
}

// spelled is the word for a status, as the job's faults have it.
func (j *job) spelled(status string) string {
	if f, ok := j.fault("unknown_status"); ok && f.text("in") == status {
		return f.text("word")
	}
	if _, ok := j.fault("other_spelling"); ok {
		return string(status[0]-'a'+'A') + status[1:]
	}
	return status
}
