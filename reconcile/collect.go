package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"rollcall/batch"
	"rollcall/reconcile/crashpoint"
)

// Collect gives held reports their works once a policy for them is approved,
// and gathers eligible works into jobs. A policy version whose works cannot be
// collected now is counted and passed over; the others go on.
func (r *Reconciler) Collect(ctx context.Context, now time.Time) (Tally, error) {
	tally, err := r.bindHeld(ctx, now)
	if err != nil {
		return tally, fmt.Errorf("bind held reports: %w", err)
	}
	loaded, err := r.Store.LoadedPolicies(ctx, now)
	if err != nil {
		return tally, err
	}
	for i := range loaded {
		t, err := r.collectPolicy(ctx, now, &loaded[i])
		tally.Add(t)
		switch {
		case err == nil:
		case stops(ctx, err):
			return tally, fmt.Errorf("collect for policy %s: %w", loaded[i].Key(), err)
		default:
			tally.Failed++
			r.Log.Warn().Err(err).Str("pass", string(PassCollect)).Str("policy", loaded[i].Key().String()).Msg("works are left for the next run")
		}
		r.progress(PassCollect, int64(i+1), int64(len(loaded)))
	}
	return tally, nil
}

// bindHeld makes the works of held reports whose source has an approved policy
// by now.
func (r *Reconciler) bindHeld(ctx context.Context, now time.Time) (Tally, error) {
	var tally Tally
	newest, err := r.approvedPolicies(ctx)
	if err != nil || len(newest) == 0 {
		return tally, err
	}
	after := ""
	for {
		held, err := r.Store.HeldReports(ctx, after, r.Settings.Chunk)
		if err != nil || len(held) == 0 {
			return tally, err
		}
		var works []NewWork
		for _, h := range held {
			if p := r.policyOf(newest, h.Identity); p != nil {
				works = append(works, NewWork{WorkID: r.Keys.WorkID(h.ReportID, h.Revision, p.ID, p.Version), Held: h, Policy: p, Reason: reasonOf(h)})
				continue
			}
			after = h.ReportID // those that are bound leave the list by themselves
		}
		tally.Seen += int64(len(held))
		if len(works) == 0 {
			continue
		}
		bound, err := r.Store.BindWorks(ctx, now, works)
		if err != nil {
			return tally, err
		}
		tally.Moved += int64(bound)
		if bound < len(works) {
			return tally, nil // another process binds them, or a policy was revoked; the next run sees what is left
		}
	}
}

// approvedPolicies is the newest approved version of each policy.
func (r *Reconciler) approvedPolicies(ctx context.Context) (map[string]*PolicyVersion, error) {
	all, err := r.Store.Policies(ctx)
	if err != nil {
		return nil, err
	}
	newest := map[string]*PolicyVersion{}
	for i, p := range all {
		if p.State != PolicyApproved {
			continue
		}
		if known := newest[p.ID]; known == nil || known.Version < p.Version {
			newest[p.ID] = &all[i]
		}
	}
	return newest, nil
}

func (r *Reconciler) policyOf(newest map[string]*PolicyVersion, id Identity) *PolicyVersion {
	policyID, ok := r.PolicyFor(id.Tenant, id.System)
	if !ok {
		return nil
	}
	return newest[policyID]
}

// reasonOf is why a held report will have no classification, or "".
func reasonOf(h HeldReport) Reason {
	switch {
	case !h.NoText:
		return ""
	case isAudio(h.Media):
		return AudioOnly
	default:
		return NoText
	}
}

// isAudio says whether a source calls a medium audio: by that word, or by a
// media type such as audio/ogg.
func isAudio(media string) bool {
	kind, _, _ := strings.Cut(media, "/")
	return strings.EqualFold(kind, "audio")
}

// errQuestion means that a policy's classifier cannot be put to its processor.
var errQuestion = errors.New("the processor's adapter refuses the policy's classifier")

// collectMoves is how often a policy version is begun again because another
// collector took works meanwhile, before it is left to that one.
const collectMoves = 3

// collectPolicy plans jobs for one policy version until nothing more is due.
func (r *Reconciler) collectPolicy(ctx context.Context, now time.Time, p *PolicyVersion) (Tally, error) {
	account, err := r.accountFor(p)
	if err != nil {
		return Tally{}, errors.Join(err, r.raise(ctx, now, EventBoundaryMismatch, "policy:"+p.Key().String(), err.Error()))
	}
	c := &collecting{Reconciler: r, now: now, policy: p, ids: ulid.Monotonic(r.Rand, 0)}
	if c.limits, c.line, err = r.jobLimits(account, p); err != nil {
		return Tally{}, err
	}
	moves := 0
	for jobs := 0; jobs < r.Settings.JobsPerRun; {
		more, err := c.planJob(ctx)
		switch {
		case errors.Is(err, ErrMoved) && moves < collectMoves:
			moves++
			c.after = nil // read again what is due now
		case err != nil || !more:
			return c.tally, err
		default:
			jobs++
		}
	}
	return c.tally, nil
}

// collecting is one run of collect over one policy version.
type collecting struct {
	*Reconciler
	now    time.Time
	policy *PolicyVersion
	limits jobLimits
	line   int64 // bytes of a request line without its text
	after  *DueWork
	ids    io.Reader // random bytes for job ids that ascend, so that jobs are sent in the order of their planning
	tally  Tally
}

// planJob fills one job, in chunks, and declares it ready when it is full or
// nothing more is due. A planning job that a crash left behind is filled on in
// the same way. It says whether more works are due than the job could hold.
func (c *collecting) planJob(ctx context.Context) (more bool, err error) {
	job, err := c.planningJob(ctx)
	if err != nil {
		return false, err
	}
	plan := jobPlan{limits: c.limits, line: c.line, items: job.Items, content: job.ContentBytes}
	for {
		due, err := c.Store.DueWorks(ctx, c.now, c.policy.Key(), c.after, c.Settings.Chunk)
		if err != nil {
			return false, err
		}
		taken, tooLarge, seen := plan.take(due)
		closed, err := c.Store.CloseWorks(ctx, c.now, tooLarge)
		if err != nil {
			return false, err
		}
		full := seen < len(due)
		ready := full || len(due) < c.Settings.Chunk
		if len(taken) > 0 || ready && plan.items > 0 {
			if job, err = c.Store.AddItems(ctx, c.now, PlanStep{JobID: job.ID, Policy: c.policy, Had: job.Items, Works: taken, Ready: ready}); err != nil {
				return false, err
			}
		}
		c.tally.Add(Tally{Seen: int64(seen), Moved: int64(closed + len(taken))})
		if seen > 0 {
			c.after = &due[seen-1]
		}
		if ready {
			// The job is committed as ready, and submit picks it up.
			c.step(crashpoint.CollectReady)
			return full, nil
		}
		// The members are committed and the job is planning on. If the process
		// dies here, the next collect finds the job and fills it on.
		c.step(crashpoint.CollectPlanned)
	}
}

// planningJob is the job that the policy version is planning, or a new one that
// is not in the ledger yet.
func (c *collecting) planningJob(ctx context.Context) (Job, error) {
	job, err := c.Store.PlanningJob(ctx, c.policy.Key())
	if !errors.Is(err, ErrNotFound) {
		return job, err
	}
	id, err := ulid.New(ulid.Timestamp(c.now), c.ids)
	if err != nil {
		return Job{}, fmt.Errorf("make a job id: %w", err)
	}
	return Job{ID: id.String()}, nil
}

// jobLimits bound one job. Zero is no bound.
type jobLimits struct {
	items, bytes, tokens   int64
	itemBytes, itemTokens  int64
	bytesPerToken, stretch int64 // stretch: how many bytes of a request one byte of text may become
}

// jobLimits are the tighter ones of the settings, the account's and the
// provider's, and the bytes of a request line without its text.
//
// How long a text becomes in a request is the adapter's business: one that
// nests JSON in JSON escapes twice. A quotation mark is what grows most, so one
// is rendered to learn how much. Bytes are then bounded for the worst text, so
// that a planned job is never too long to be sent; tokens, which are an
// estimate anyway, for the usual one.
func (r *Reconciler) jobLimits(account processor, p *PolicyVersion) (jobLimits, int64, error) {
	if caller, ok := account.(batch.Caller); ok {
		return r.callLimits(caller, p)
	}
	renders, ok := account.(batch.Provider)
	if !ok {
		return jobLimits{}, 0, fmt.Errorf("policy %s: %w", p.Key(), errQuestion)
	}
	id := CustomID(r.Keys.WorkID("", 0, p.ID, p.Version), strings.Repeat("a", submissionIDLength))
	length := func(text string) int64 {
		line, err := renders.AppendRequest(nil, p.Question(), id, batch.NewText(text))
		if err != nil {
			return -1
		}
		return int64(len(line))
	}
	empty, quote := length(""), length(`"`)
	if empty < 0 || quote < 0 {
		return jobLimits{}, 0, fmt.Errorf("policy %s: %w", p.Key(), errQuestion)
	}
	const quoteBytes = 2 // what a quotation mark counts as in ContentBytes
	s, l := &r.Settings, account.Capabilities().Limits
	return jobLimits{
		items:         tighter(int64(s.JobItems), int64(l.Items)),
		bytes:         tighter(s.JobBytes, l.Bytes),
		tokens:        tighter(s.JobTokens, r.limitsOf(account).EnqueuedTokens),
		itemBytes:     int64(l.ItemBytes),
		itemTokens:    s.ItemTokens,
		bytesPerToken: max(s.BytesPerToken, 1),
		stretch:       max((quote-empty+quoteBytes-1)/quoteBytes, 1),
	}, empty, nil
}

// callLimits are those of an account that is called text by text: no request
// body is made, and Split says what is too long. What each call repeats beside
// the text counts for the tokens.
func (r *Reconciler) callLimits(caller batch.Caller, p *PolicyVersion) (jobLimits, int64, error) {
	q := p.Question()
	if _, err := caller.Split(q, batch.NewText("x")); err != nil {
		return jobLimits{}, 0, fmt.Errorf("policy %s: %w", p.Key(), errQuestion)
	}
	s, l := &r.Settings, caller.Capabilities().Limits
	return jobLimits{
		items: tighter(int64(s.JobItems), int64(l.Items)), tokens: s.JobTokens, itemTokens: s.ItemTokens,
		bytesPerToken: max(s.BytesPerToken, 1), stretch: 1,
	}, int64(len(q.Instructions) + len(q.Schema)), nil
}

// tighter is the smaller of two bounds, where zero is none.
func tighter(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// jobPlan is how full a job is. What it holds is a sum over its members, so a
// job that is planned on after a crash counts like one planned in one go.
type jobPlan struct {
	limits  jobLimits
	line    int64 // bytes of a request line without its text
	items   int64
	content int64 // bytes of the texts
}

// take adds works in order until one does not fit any more. A work that fits
// into no job is left out as too large. seen is how many works were looked at.
func (p *jobPlan) take(due []DueWork) (taken []string, tooLarge []Closing, seen int) {
	for _, w := range due {
		switch {
		case !p.limits.holdItem(p.line, w.ContentBytes):
			tooLarge = append(tooLarge, Closing{WorkID: w.WorkID, Reason: TooLarge})
		case !p.limits.hold(p.line, p.items+1, p.content+w.ContentBytes):
			return taken, tooLarge, seen
		default:
			taken = append(taken, w.WorkID)
			p.items++
			p.content += w.ContentBytes
		}
		seen++
	}
	return taken, tooLarge, seen
}

// hold says whether a job may hold so many items with so many bytes of text.
func (l *jobLimits) hold(line, items, content int64) bool {
	return within(items, l.items) && within(l.lines(line, items, content), l.bytes) && within(l.tokensOf(line, items, content), l.tokens)
}

// holdItem says whether any job may hold a text of so many bytes.
func (l *jobLimits) holdItem(line, content int64) bool {
	return l.hold(line, 1, content) && within(l.lines(line, 1, content), l.itemBytes) && within(l.tokensOf(line, 1, content), l.itemTokens)
}

// lines is the most that so many request lines may take.
func (l *jobLimits) lines(line, items, content int64) int64 { return items*line + content*l.stretch }

// tokensOf estimates tokens, with those of the instructions, which every line
// repeats.
func (l *jobLimits) tokensOf(line, items, content int64) int64 {
	return (items*line + content + l.bytesPerToken - 1) / l.bytesPerToken
}

func within(n, limit int64) bool { return limit == 0 || n <= limit }
