package sandbox

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// resultsKept is how long results are there, from the creation of a batch on.
const resultsKept = 29 * 24 * time.Hour

// messageBatch is a message batch. As with a job, what is stored are facts, and
// the status at an instant follows from them.
type messageBatch struct {
	mu sync.Mutex

	ID          string        `json:"id"`
	Workspace   string        `json:"workspace"`
	Seq         int64         `json:"seq"` // order of creation, of both APIs
	Version     string        `json:"version"`
	Requests    int           `json:"requests"`
	Created     time.Time     `json:"created"`
	Timing      timing        `json:"timing"`
	Faults      []Fault       `json:"faults,omitempty"` // job faults, fixed at creation
	CancelAsked *time.Time    `json:"cancel_asked,omitempty"`
	Ended       *messageCount `json:"ended,omitempty"`
	Deleted     bool          `json:"deleted,omitempty"` // only the record is left, for the books
}

// messageCount is how many requests are how far.
type messageCount struct {
	Processing int `json:"processing"`
	Succeeded  int `json:"succeeded"`
	Errored    int `json:"errored"`
	Canceled   int `json:"canceled"`
	Expired    int `json:"expired"`
}

// messageBatchBody is a batch as the API shows it. What does not apply is null.
type messageBatchBody struct {
	ID        string       `json:"id"`
	Type      string       `json:"type"`
	Status    string       `json:"processing_status"`
	Counts    messageCount `json:"request_counts"`
	Created   any          `json:"created_at"`
	Expires   any          `json:"expires_at"`
	Ended     any          `json:"ended_at"`
	Cancelled any          `json:"cancel_initiated_at"`
	Archived  any          `json:"archived_at"`
	Results   any          `json:"results_url"`
}

// job is the batch as a job, by which its course is worked out.
func (b *messageBatch) job() *job {
	return &job{ID: b.ID, Project: b.Workspace, Created: b.Created, Timing: b.Timing, Faults: b.Faults, CancelAsked: b.CancelAsked, Checked: &checked{Lines: b.Requests}}
}

func (b *messageBatch) isOver(now time.Time) bool { return !now.Before(b.job().course().at) }

func (b *messageBatch) archived(now time.Time) bool {
	return !now.Before(b.Created.Add(resultsKept))
}

// hidden says whether the API knows the batch no more.
func (b *messageBatch) hidden(now time.Time) bool { return b.Deleted || b.job().vanished(now) }

// statusAt is the word for where the batch stands, as its faults have it.
func (b *messageBatch) statusAt(now time.Time) string {
	j := b.job()
	own := j.statusAt(now)
	word := "in_progress"
	switch own {
	case statusCancelling:
		word = "canceling"
	case statusCompleted, statusExpired, statusCancelled:
		word = "ended"
	}
	if f, ok := j.fault("unknown_status"); ok && f.text("in") == own {
		return f.text("word")
	}
	return word
}

// body shows the batch at an instant. upToDate must have run for it.
func (b *messageBatch) body(base string, now time.Time) messageBatchBody {
	j := b.job()
	c := j.course()
	at := func(t time.Time) any {
		if t.IsZero() || t.After(now) {
			return nil
		}
		return microseconds(t)
	}
	out := messageBatchBody{
		ID: b.ID, Type: "message_batch", Status: b.statusAt(now), Created: microseconds(b.Created), Expires: microseconds(j.expiresAt()),
		Ended: at(c.at), Cancelled: at(c.cancelling), Archived: at(b.Created.Add(resultsKept)),
		Counts: messageCount{Processing: b.Requests},
	}
	if _, ok := j.fault("live_counts"); ok {
		out.Counts.Succeeded = int(float64(b.Requests) * min(j.progress(now), c.share))
		out.Counts.Processing -= out.Counts.Succeeded
	}
	if b.Ended != nil && b.isOver(now) {
		out.Counts = *b.Ended
		if !b.archived(now) {
			out.Results = base + "/v1/messages/batches/" + b.ID + "/results"
		}
	}
	return out
}

func microseconds(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

func (s *Server) messagePath(id, suffix string) string {
	return s.disk.path(messageDir, id+suffix)
}

func (s *Server) saveMessages(b *messageBatch) error {
	return s.disk.save(s.messagePath(b.ID, ".json"), b)
}

func (s *Server) restoreMessages() error {
	err := s.disk.each(messageDir, ".json", func(id, path string) error {
		b := new(messageBatch)
		if err := load(path, b); err != nil {
			return err
		}
		s.messages[id] = b
		s.seq = max(s.seq, b.Seq)
		return nil
	})
	if err != nil {
		return err
	}
	// What was written before a record that never came, or is not needed any
	// more, because the process was killed in between.
	keep := map[string]func(*messageBatch) bool{
		".input":   func(b *messageBatch) bool { return b.Ended == nil && !b.Deleted },
		".results": func(b *messageBatch) bool { return b.Ended != nil && !b.Deleted },
	}
	for suffix, needed := range keep {
		err := s.disk.each(messageDir, suffix, func(id, path string) error {
			if b, ok := s.messages[id]; ok && needed(b) {
				return nil
			}
			return s.disk.remove(path)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// messagesOf are the batches of a workspace, or of all when it is "", newest
// first.
func (s *Server) messagesOf(workspace string) []*messageBatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*messageBatch
	for _, b := range s.messages {
		if workspace == "" || b.Workspace == workspace {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *messageBatch) int { return cmp.Compare(b.Seq, a.Seq) })
	return out
}

// messageUpToDate writes the results of a batch that has ended, and removes
// those that have been archived. b.mu is held.
func (s *Server) messageUpToDate(b *messageBatch, now time.Time) error {
	if b.Deleted || !b.isOver(now) {
		return nil
	}
	if b.Ended == nil {
		if err := s.endMessages(b); err != nil {
			return fmt.Errorf("write results of %s: %w", b.ID, err)
		}
	}
	if b.archived(now) {
		return s.disk.remove(s.messagePath(b.ID, ".results"))
	}
	return nil
}

func (s *Server) messageEntry(b *messageBatch, now time.Time) (JobBook, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := JobBook{ID: b.ID, Project: b.Workspace, Status: b.statusAt(now), Accepted: true, Lines: b.Requests, Created: b.Created}
	if b.Deleted {
		e.Status = "deleted"
	}
	return e, s.messageUpToDate(b, now)
}
