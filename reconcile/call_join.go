package reconcile

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"time"

	"rollcall/batch"
	"rollcall/reconcile/crashpoint"
	"rollcall/reconcile/keyring"
)

// end joins the answers of a job, stages them as its one set of results, and ends
// the job. What an earlier run staged stays: a call's answer never changes.
func (c *calling) end(ctx context.Context, now time.Time) error {
	after, err := c.r.Store.BeginCallResults(ctx, c.job.ID)
	if err != nil {
		return err
	}
	check, err := newAnswerCheck(&c.policy.Classifier)
	if err != nil {
		return fmt.Errorf("schema of policy %s: %w", c.policy.Key(), err)
	}
	f := &fileReading{channel: batch.ChannelOutput, jobReading: &jobReading{
		consuming: &consuming{Reconciler: c.r, now: now, proof: c.proof}, job: c.job, policy: c.policy, question: c.question, check: check,
	}}
	for page := f.chunkLines(); after < c.job.Items; after += int64(page) { // lines are numbered from 1 on
		if err := ctx.Err(); err != nil {
			return err
		}
		members, err := c.r.Store.CallAnswers(ctx, c.job.ID, after, page)
		if err != nil {
			return err
		}
		if len(members) == 0 { // none of them was sent
			continue
		}
		if err := c.stage(ctx, f, members); err != nil {
			return err
		}
	}
	if err := c.r.Store.EndCalls(ctx, now, c.job.ID, func() hash.Hash { return c.r.Keys.NewMAC(keyring.Body) }); err != nil {
		return err
	}
	// The results are whole, and consume judges them.
	c.r.step(crashpoint.CallEnded)
	return nil
}

// stage stages the lines of some members.
func (c *calling) stage(ctx context.Context, f *fileReading, members []CalledMember) error {
	works := make([]string, len(members))
	for i := range members {
		works[i] = members[i].WorkID
	}
	texts, err := c.r.Store.MemberTexts(ctx, c.job.ID, works)
	if err != nil {
		return err
	}
	lines := make([]ResultLine, 0, len(members))
	if err := c.open(ctx, f.now, members); err != nil {
		return err
	}
	for i := range members {
		line, err := c.line(ctx, f, &members[i], texts[members[i].WorkID])
		if err != nil {
			return fmt.Errorf("line %d: %w", members[i].Line, err)
		}
		lines = append(lines, line)
	}
	f.count(lines)
	// A finding comes first: in the other order a process that dies in between
	// would tell nobody.
	if err := f.tellWorks(ctx); err != nil {
		return err
	}
	if err := c.r.Store.StageLines(ctx, c.job.ID, batch.ChannelOutput, lines); err != nil {
		return err
	}
	// These lines are staged, and the job has not ended. If the process dies here,
	// the next run stages the others.
	c.r.step(crashpoint.CallStaged)
	return nil
}

// open decrypts the answers about members. One that is damaged becomes an answer
// that cannot be used, and is told of before it is staged. Where a key is missing
// or wrong nothing is decided, and the job waits.
func (c *calling) open(ctx context.Context, now time.Time, members []CalledMember) error {
	for i := range members {
		m := &members[i]
		for n := range m.Segments {
			res, err := &m.Segments[n].Result, error(nil)
			if res.Content, err = c.openAnswer(m, n); err == nil {
				continue
			}
			right, unknown := c.proven(ctx, members, m.Segments[n].Content.KeyID, err)
			if unknown != nil {
				return unknown
			}
			if !right {
				return errors.Join(fmt.Errorf("answer about work %s: %w", m.WorkID, err),
					c.r.raise(ctx, now, EventTextUnreadable, "job:"+c.job.ID, "an answer about work:"+m.WorkID))
			}
			res.Outcome, res.Code = batch.BadShape, string(faultText)
			if err := c.r.raise(ctx, now, EventTextUnreadable, "work:"+m.WorkID, "the stored answer of a call is damaged; job "+c.job.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// proven says whether a key that did not open an answer opens others, or texts.
func (c *calling) proven(ctx context.Context, members []CalledMember, key string, cause error) (bool, error) {
	if errors.Is(cause, keyring.ErrKeyMissing) {
		return false, nil
	}
	for i := range members {
		for n, s := range members[i].Segments {
			if s.Result.Outcome != batch.Answered || s.Content.KeyID != key {
				continue
			}
			if _, err := c.openAnswer(&members[i], n); err == nil {
				return true, nil
			}
		}
	}
	return c.proof.ofKey(ctx, key)
}

// openAnswer decrypts the answer about one segment of a member; none for a call
// that was not answered.
func (c *calling) openAnswer(m *CalledMember, n int) ([]byte, error) {
	s := &m.Segments[n]
	if s.Result.Outcome != batch.Answered {
		return nil, nil
	}
	return c.r.Keys.Decrypt(s.Content, callPlace(c.job.ID, m.WorkID, int64(n+1))...)
}

// line is the result line of a member, from the answers of its calls.
func (c *calling) line(ctx context.Context, f *fileReading, m *CalledMember, item RequestItem) (ResultLine, error) {
	res, err := c.joined(m)
	if err != nil {
		return ResultLine{}, err
	}
	item.WorkID = m.WorkID
	digest := f.newLineMAC()
	fmt.Fprintf(digest, "%s\n%s\n%s\n", m.WorkID, res.Outcome, res.Code)
	digest.Write(res.Content)
	raw := rawLine{number: m.Line, bytes: int64(len(res.Content)), mac: hex.EncodeToString(digest.Sum(nil))}
	line, err := f.memberLine(ctx, raw, res, item)
	if res.Code == string(faultText) { // says what is wrong better than its outcome does
		line.Code = res.Code
	}
	return line, err
}

// joined is what all calls about a member come to.
func (c *calling) joined(m *CalledMember) (batch.Result, error) {
	parts := make([]batch.Result, 0, len(m.Segments))
	for i := range m.Segments {
		s := &m.Segments[i]
		if s.Segments != int64(len(m.Segments)) && s.Result.Code != codeNotWanted {
			return batch.Result{}, fmt.Errorf("%d answers of %d segments of work %s", len(m.Segments), s.Segments, m.WorkID)
		}
		res := s.Result
		switch res.Code { // ours, of which the adapter knows nothing
		case codeNotWanted, codeSplitChanged, string(faultText):
			return withTokens(batch.Result{Outcome: res.Outcome, Code: res.Code, Model: res.Model}, m), nil
		}
		parts = append(parts, res)
	}
	res := c.caller.Join(c.question, parts)
	res.CustomID = CustomID(m.WorkID, c.job.SubmissionID) // which is not stored with a call
	res = safeResult(batch.Judge(c.question, res))
	if res.Outcome != batch.Answered {
		res.Content = nil
	}
	return res, nil
}

// withTokens is a result that counts the tokens of all calls about a member.
func withTokens(res batch.Result, m *CalledMember) batch.Result {
	for i := range m.Segments {
		res.InputTokens += m.Segments[i].Result.InputTokens
		res.OutputTokens += m.Segments[i].Result.OutputTokens
	}
	return res
}
