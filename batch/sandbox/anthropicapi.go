package sandbox

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
)

// baseOf is where the client found the sandbox.
func baseOf(r *http.Request) string { return "http://" + r.Host }

// createMessages checks what the API checks at once, and leaves the parameters
// of each request to its results.
func (s *Server) createMessages(c *call) (answer, error) {
	input, err := s.disk.temp()
	if err != nil {
		return answer{}, err
	}
	defer drop(input)
	ids, err := s.disk.temp()
	if err != nil {
		return answer{}, err
	}
	defer drop(ids)
	n, err := readRequests(c.Body, input, ids)
	if err != nil {
		return answer{}, err
	}
	faults := s.faults.takeAll(func(f Fault, sp spec) bool { return sp.stage == ofJob })
	b := &messageBatch{
		ID: s.ids.next("msgbatch_"), Workspace: c.project, Version: c.Header.Get("Anthropic-Version"), Requests: n, Created: s.clock.now(),
		Faults: faults, Timing: timingFor(s.latencies, faults),
	}
	if f, ok := b.job().fault("cancel_midway"); ok {
		j := b.job()
		at := j.checkedAt().Add(scale(j.ranAt().Sub(j.checkedAt()), f.fraction("share")))
		b.CancelAsked = &at
	}
	s.mu.Lock()
	b.Seq = s.nextSeq()
	s.mu.Unlock()
	// The record comes last: without it the others are removed at the next start.
	err = errors.Join(s.disk.keep(input, s.messagePath(b.ID, ".input")), s.disk.keep(ids, s.disk.idsPath(b.ID)))
	if err == nil {
		err = s.saveMessages(b)
	}
	if err != nil {
		return answer{}, err
	}
	s.mu.Lock()
	s.messages[b.ID] = b
	s.mu.Unlock()
	s.log.Info().Str("job", b.ID).Int("lines", n).Msg("accepted")
	return answer{id: b.ID, body: b.body(baseOf(c.Request), b.Created)}, nil
}

// requestedMessages is the batch that a request names, brought up to date. Its
// lock is held; the caller unlocks it.
func (s *Server) requestedMessages(c *call) (*messageBatch, error) {
	id := c.PathValue("id")
	missing := &messageError{Status: http.StatusNotFound, Type: "not_found_error", Message: "Message Batch not found."}
	s.mu.Lock()
	b, ok := s.messages[id]
	s.mu.Unlock()
	if !ok || b.Workspace != c.project {
		return nil, missing
	}
	b.mu.Lock()
	c.now = s.clock.now()
	if b.hidden(c.now) {
		b.mu.Unlock()
		return nil, missing
	}
	if err := s.messageUpToDate(b, c.now); err != nil {
		b.mu.Unlock()
		return nil, err
	}
	return b, nil
}

func (s *Server) getMessages(c *call) (answer, error) {
	b, err := s.requestedMessages(c)
	if err != nil {
		return answer{}, err
	}
	defer b.mu.Unlock()
	return answer{id: b.ID, body: b.body(baseOf(c.Request), c.now)}, nil
}

// cancelMessages cancels a batch that has not ended. What the API says about one
// that has is not known, and the sandbox says 400.
func (s *Server) cancelMessages(c *call) (answer, error) {
	b, err := s.requestedMessages(c)
	if err != nil {
		return answer{}, err
	}
	defer b.mu.Unlock()
	if b.isOver(c.now) {
		return answer{id: b.ID}, invalidMessage("The batch has ended and cannot be canceled.")
	}
	if b.job().statusAt(c.now) != statusCancelling {
		before, at := b.CancelAsked, c.now
		b.CancelAsked = &at
		if err := s.saveMessages(b); err != nil {
			b.CancelAsked = before
			return answer{}, err
		}
	}
	return answer{id: b.ID, body: b.body(baseOf(c.Request), c.now)}, nil
}

type deletedMessages struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

func (s *Server) deleteMessages(c *call) (answer, error) {
	b, err := s.requestedMessages(c)
	if err != nil {
		return answer{}, err
	}
	defer b.mu.Unlock()
	if !b.isOver(c.now) {
		return answer{id: b.ID}, invalidMessage("In progress batches cannot be deleted. Cancel the batch first.")
	}
	b.Deleted = true
	if err := s.saveMessages(b); err != nil {
		b.Deleted = false
		return answer{}, err
	}
	if err := s.disk.remove(s.messagePath(b.ID, ".results")); err != nil {
		return answer{}, err
	}
	return answer{id: b.ID, body: deletedMessages{b.ID, "message_batch_deleted"}}, nil
}

func (s *Server) getResults(c *call) (answer, error) {
	b, err := s.requestedMessages(c)
	if err != nil {
		return answer{}, err
	}
	defer b.mu.Unlock()
	_, lost := b.job().fault("results_lost")
	if b.Ended == nil || lost || b.archived(c.now) {
		return answer{id: b.ID}, &messageError{Status: http.StatusNotFound, Type: "not_found_error", Message: "The batch has no available results."}
	}
	f, err := os.Open(s.messagePath(b.ID, ".results"))
	if err != nil {
		return answer{}, fmt.Errorf("open results: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return answer{}, errors.Join(fmt.Errorf("look at results: %w", err), f.Close())
	}
	return answer{id: b.ID, content: &content{f, info.Size()}}, nil
}

type messageListBody struct {
	Data    []any `json:"data"`
	HasMore bool  `json:"has_more"`
	FirstID any   `json:"first_id"`
	LastID  any   `json:"last_id"`
}

func (s *Server) listMessages(c *call) (answer, error) {
	limit, err := messageLimit(c.Request)
	if err != nil {
		return answer{}, err
	}
	var all []listed
	for _, b := range s.messagesOf(c.project) {
		b.mu.Lock()
		hidden := b.hidden(c.now)
		err := s.messageUpToDate(b, c.now)
		l := listed{id: b.ID, created: b.Created, body: b.body(baseOf(c.Request), c.now), hidden: hidden}
		b.mu.Unlock()
		if err != nil {
			return answer{}, err
		}
		all = append(all, l)
	}
	limit = s.disturb(c, opListJobs, all, limit)
	body, err := messagePage(all, c.URL.Query().Get("after_id"), c.URL.Query().Get("before_id"), limit)
	return answer{body: body}, err
}

func messageLimit(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return 20, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1000 {
		return 0, invalidMessage("limit: must be from 1 to 1000")
	}
	return n, nil
}

// messagePage cuts a page out of all, which is newest first: what is older than
// after, or the nearest of what is newer than before.
func messagePage(all []listed, after, before string, limit int) (messageListBody, error) {
	at := func(id string) int { return slices.IndexFunc(all, func(l listed) bool { return l.id == id }) }
	switch {
	case after != "" && before != "":
		return messageListBody{}, invalidMessage("after_id and before_id cannot be given at once")
	case after != "":
		i := at(after)
		if i < 0 {
			return messageListBody{}, invalidMessage("after_id: no such batch")
		}
		all = all[i+1:]
	case before != "":
		i := at(before)
		if i < 0 {
			return messageListBody{}, invalidMessage("before_id: no such batch")
		}
		all = all[:i]
	}
	all = slices.DeleteFunc(slices.Clone(all), func(l listed) bool { return l.hidden })
	out := messageListBody{Data: []any{}, HasMore: len(all) > limit}
	if before != "" {
		all = all[max(0, len(all)-limit):]
	}
	all = all[:min(limit, len(all))]
	for _, l := range all {
		out.Data = append(out.Data, l.body)
	}
	if n := len(all); n > 0 {
		out.FirstID, out.LastID = all[0].id, all[n-1].id
	}
	return out, nil
}
