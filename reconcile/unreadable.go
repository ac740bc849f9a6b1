package reconcile

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"rollcall/reconcile/keyring"
)

// A text that does not open is damaged, or its key is missing or is not the one
// that it was encrypted under. A damaged text concerns one report: a person gets
// it, and the source still has the text. A wrong key concerns very many, and the
// right keyring mends it: nothing is closed, and the job waits. What tells the
// two apart is whether the key opens another text.

// UnreadableWorks are works that were closed because their text is damaged.
type UnreadableWorks []string

// Events are what a person must know of them, committed with what closes them.
func (w UnreadableWorks) Events(jobID string) []Event {
	out := make([]Event, len(w))
	for i, work := range w {
		out[i] = EventTextUnreadable.event("work:"+work, "its stored text is damaged; job "+jobID)
	}
	return out
}

// setAside closes the works of the job whose text is damaged, so that the job
// can be sent without them, and at once. Where a key is missing, or none of the
// texts is certainly damaged, the job waits under a finding.
func (s *sending) setAside(ctx context.Context, now time.Time, fault *renderFault) error {
	var damaged []string
	var err error
	if !errors.Is(fault, keyring.ErrKeyMissing) {
		damaged, err = s.damaged(ctx)
	}
	if err != nil || len(damaged) == 0 {
		return errors.Join(err, s.r.raise(ctx, now, EventTextUnreadable, "job:"+s.job.ID, "work:"+fault.workID))
	}
	for works := range slices.Chunk(damaged, max(s.r.Settings.Chunk, 1)) {
		closed, err := s.r.Store.CloseUnreadable(ctx, now, s.job.ID, works)
		if err != nil {
			return err
		}
		// These works are extracted with their reason, and apply makes their records.
		// The job is due, and its next intent drops them.
		s.r.logEvents(closed.Events(s.job.ID)...)
	}
	return nil
}

// damaged lists the works of the job whose text is certainly damaged. It reads
// all of the job, so that one further submission is enough.
func (s *sending) damaged(ctx context.Context) (works []string, err error) {
	proof := newKeyProof(s.r)
	shut := map[string][]string{} // works by the key that does not open their text
	for after := int64(0); ; {
		page, err := s.r.Store.RequestItems(ctx, s.job.ID, after, s.r.Settings.Chunk)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		for _, item := range page {
			if proof.try(item) {
				shut[item.Text.KeyID] = append(shut[item.Text.KeyID], item.WorkID)
			}
			after = item.Line
		}
	}
	for key, of := range shut {
		right, err := proof.ofKey(ctx, key)
		if err != nil {
			return nil, err
		}
		if right {
			works = append(works, of...)
		}
	}
	return works, nil
}

// keyProof finds out whether keys open what was encrypted under them. It may be
// used by several goroutines.
type keyProof struct {
	r     *Reconciler
	mu    sync.Mutex
	opens map[string]bool // by key: what is known
}

func newKeyProof(r *Reconciler) *keyProof { return &keyProof{r: r, opens: map[string]bool{}} }

// try opens a text, and says whether its key is there and does not open it.
func (p *keyProof) try(item RequestItem) (shut bool) {
	_, err := openText(p.r.Keys, item)
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.opens[item.Text.KeyID] = true
	}
	return err != nil && !errors.Is(err, keyring.ErrKeyMissing)
}

// Texts by which a key is proven: some of the first ones of the newest jobs.
const (
	proofJobs  = 20
	proofTexts = 50
)

// ofKey says whether a key has opened some text. If none is known, it looks for
// one in the newest jobs.
func (p *keyProof) ofKey(ctx context.Context, key string) (bool, error) {
	p.mu.Lock()
	right, known := p.opens[key]
	p.mu.Unlock()
	if known {
		return right, nil
	}
	jobs, err := p.r.Store.Jobs(ctx, nil, proofJobs)
	if err != nil {
		return false, err
	}
	for _, job := range jobs {
		items, err := p.r.Store.RequestItems(ctx, job.JobID, 0, proofTexts)
		if err != nil {
			return false, err
		}
		for _, item := range items {
			if item.Text.KeyID == key && !p.try(item) {
				return true, nil
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opens[key] = false
	return false, nil
}

// faultText is the fault of an answer that quotes a damaged text: nobody can
// tell whether the quotation is right.
const faultText answerFault = "text_unreadable"

// faultOfText tells apart why an answer could not be checked: a damaged text is
// a fault that concerns this answer alone, and for a key that is missing or
// wrong the job waits.
func (f *fileReading) faultOfText(ctx context.Context, item RequestItem, err error) error {
	var fault answerFault
	if err == nil || errors.As(err, &fault) || !f.proof.try(item) {
		return err
	}
	right, unknown := f.proof.ofKey(ctx, item.Text.KeyID)
	if unknown != nil || !right {
		return errors.Join(err, unknown)
	}
	return faultText
}
