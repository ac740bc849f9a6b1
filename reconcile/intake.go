package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"rollcall/reconcile/crashpoint"
	"rollcall/reconcile/keyring"
	"rollcall/reconcile/source"
)

// PassIntake names intake in logs and progress. It is no pass that a schedule
// can run: it needs an input.
const PassIntake PassName = "intake"

// IdentityRule is what tells the reports of a source apart.
type IdentityRule string

const (
	// IdentityField: the source has ids of its own. It is the rule for "".
	IdentityField IdentityRule = "field"
	// IdentityDigest: a report is known by a keyed digest of some of its fields.
	// An edit of one of them is then another report.
	IdentityDigest IdentityRule = "digest"
)

// SourceRules is what is agreed with a source.
type SourceRules struct {
	Revision RevisionRule // "" is RevisionConflict
	Identity IdentityRule
	DigestOf []string // fields of the input, in order, for IdentityDigest
}

// Reports is a stream of reports; *source.Reader is one.
type Reports interface {
	Next() (source.Record, error)
	Counts() source.Counts
}

// Outcome is what became of one record or line: a receipt, or a refusal.
type Outcome struct {
	Receipt Receipt
	Refused *source.LineError // nil for a receipt
}

// IntakeTally is what one intake did.
type IntakeTally struct {
	Lines     int64 `json:"lines"`
	Bytes     int64 `json:"bytes"`
	Blank     int64 `json:"blank"`   // blank lines and the lines of a header
	Refused   int64 `json:"refused"` // lines, or CSV rows, that are no report
	Accepted  int64 `json:"accepted"`
	Revised   int64 `json:"revised"`
	Late      int64 `json:"late"`
	Unchanged int64 `json:"unchanged"`
	Conflict  int64 `json:"conflict"`
	Held      int64 `json:"held"`    // of the above: wait for an approved policy
	Cleaned   int64 `json:"cleaned"` // of the above: something in the text was replaced
}

// Answered is how many reports got a receipt.
func (t IntakeTally) Answered() int64 {
	return t.Accepted + t.Revised + t.Late + t.Unchanged + t.Conflict
}

// intakeBytes bounds the text of one chunk, so that memory stays flat however
// long the texts are.
const intakeBytes = 8 << 20

// Intake takes a stream of reports in. A line that is no report, or comes from
// a source without rules, is refused and the others go on. Each line is
// reported once, receipts after the commit that makes them true; refusals may
// overtake the receipts of earlier lines.
//
// The same stream again changes nothing: after any error, or a crash, it is to
// be sent again from its start.
func (r *Reconciler) Intake(ctx context.Context, in Reports, rules func(tenant, system string) (SourceRules, bool), report func(Outcome)) (IntakeTally, error) {
	began := r.Uptime()
	i := &intake{Reconciler: r, in: in, rules: rules, report: report, seen: map[string]bool{}}
	err := i.run(ctx)
	counts := in.Counts()
	i.tally.Lines, i.tally.Bytes, i.tally.Blank = counts.Lines, counts.Bytes, counts.Blank+counts.Header
	i.log(r.Uptime()-began, err)
	return i.tally, err
}

// intake is one run of Intake.
type intake struct {
	*Reconciler
	in     Reports
	rules  func(tenant, system string) (SourceRules, bool)
	report func(Outcome)
	tally  IntakeTally

	// The chunk that is being gathered.
	policies map[string]*PolicyVersion
	chunk    []Delivery
	seen     map[string]bool // report ids in it
	bytes    int64           // of its texts
}

func (i *intake) run(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		rec, err := i.in.Next()
		var refused *source.LineError
		switch {
		case errors.Is(err, io.EOF):
			return i.flush(ctx)
		case errors.As(err, &refused):
			i.refuse(refused)
			continue
		case err != nil:
			// What came before is whole; it need not be sent again.
			return errors.Join(fmt.Errorf("intake: %w", err), i.flush(ctx))
		}
		if err := i.take(ctx, &rec); err != nil {
			return err
		}
	}
}

func (i *intake) refuse(e *source.LineError) {
	i.tally.Refused++
	i.report(Outcome{Refused: e})
}

// take adds a record to the chunk, and stores the chunk when it is full. Two
// records of one report never share a chunk: the second is judged against what
// the first left in the ledger.
func (i *intake) take(ctx context.Context, rec *source.Record) error {
	d, refused, err := i.delivery(ctx, rec)
	if err != nil {
		return err
	}
	if refused != nil {
		i.refuse(refused)
		return nil
	}
	if i.seen[d.ReportID] || len(i.chunk) >= max(i.Settings.Chunk, 1) || i.bytes >= intakeBytes {
		if err := i.flush(ctx); err != nil {
			return err
		}
		// The chunk's policies may be out of date by now; bind again.
		if err := i.bind(ctx, d); err != nil {
			return err
		}
	}
	i.chunk = append(i.chunk, *d)
	i.seen[d.ReportID] = true
	i.bytes += int64(len(d.Text.Bytes))
	return nil
}

// delivery turns a record into a delivery: cleaned, identified, encrypted.
func (i *intake) delivery(ctx context.Context, rec *source.Record) (*Delivery, *source.LineError, error) {
	rules, ok := i.rules(rec.Tenant, rec.System)
	if !ok {
		return nil, rec.Refuse(source.System, "is not configured as a source for this tenant"), nil
	}
	id, refused := i.identity(rec, rules)
	if refused != nil {
		return nil, refused, nil
	}
	text, cleaned := Clean(rec.Text.Reveal())
	d := &Delivery{
		Line: int(rec.Line), Identity: id, ReportID: i.Keys.ReportID(id.Tenant, id.System, id.ExternalID),
		Revision: rec.Revision, Rule: rules.Revision, MACKeyID: i.Keys.MACKeyID(),
		ContentMAC:   i.Keys.MAC(keyring.Content, []byte(text), []byte(rec.Media)),
		ContentBytes: jsonLength(text), Cleaned: cleaned || rec.Damaged, Urgent: rec.Urgent, Media: rec.Media,
		Reason: reasonOf(HeldReport{NoText: Blank(text), Media: rec.Media}),
	}
	if d.Rule == "" {
		d.Rule = RevisionConflict
	}
	var err error
	// The place names the content, not the revision: that is the ledger's to decide.
	if d.Text, err = i.Keys.Encrypt([]byte(text), "text", d.ReportID, d.ContentMAC); err != nil {
		return nil, nil, err
	}
	return d, nil, i.bind(ctx, d)
}

// identity is what a record is about. With IdentityDigest the id comes from
// the bytes of fields that the source repeats when it delivers again.
func (i *intake) identity(rec *source.Record, rules SourceRules) (Identity, *source.LineError) {
	id := Identity{Tenant: rec.Tenant, System: rec.System, ExternalID: rec.ID}
	if rules.Identity == IdentityDigest {
		parts := make([][]byte, 0, len(rules.DigestOf))
		for _, name := range rules.DigestOf {
			part, ok := rec.Field(name)
			if !ok {
				return id, &source.LineError{Line: rec.Line, Lines: rec.Lines, Field: name,
					Reason: "is missing or no valid Unicode, and the source's reports are known by it"}
			}
			parts = append(parts, part)
		}
		if len(parts) == 0 {
			return id, rec.Refuse(source.ID, "cannot be made: the source's rules name no field")
		}
		id.ExternalID = i.Keys.MAC(keyring.Source, parts...)
	}
	if id.ExternalID == "" {
		return id, rec.Refuse(source.ID, "is missing or empty")
	}
	return id, nil
}

// bind names the policy version that the delivery's work will be done under,
// if one is approved. The store asks once more, in its transaction.
func (i *intake) bind(ctx context.Context, d *Delivery) error {
	if i.policies == nil {
		var err error
		if i.policies, err = i.approvedPolicies(ctx); err != nil {
			return err
		}
	}
	p := i.policyOf(i.policies, d.Identity)
	d.Policy, d.WorkID = p, nil
	if p != nil {
		d.WorkID = func(revision int64) string { return i.Keys.WorkID(d.ReportID, revision, p.ID, p.Version) }
	}
	return nil
}

// flush stores the chunk and answers it.
func (i *intake) flush(ctx context.Context) error {
	if len(i.chunk) == 0 {
		return nil
	}
	receipts, err := i.accept(ctx)
	if err != nil {
		return fmt.Errorf("intake: %w", err)
	}
	// The chunk is committed: each report has its revision, text and work, and
	// collect picks the works up. If the process dies here, the sender, who was
	// told nothing, sends it again and gets the same receipts.
	i.step(crashpoint.IntakeAccepted)
	for n, rc := range receipts {
		i.count(&i.chunk[n], rc)
		i.report(Outcome{Receipt: rc})
	}
	i.chunk, i.bytes, i.policies = i.chunk[:0], 0, nil
	clear(i.seen)
	i.progress(PassIntake, i.in.Counts().Bytes, 0)
	return nil
}

// accept stores the chunk. When nobody knows whether it is committed, it is
// stored once more, which changes nothing if it is.
func (i *intake) accept(ctx context.Context) ([]Receipt, error) {
	now, err := i.Now(ctx)
	if err != nil {
		return nil, err
	}
	receipts, err := i.Store.AcceptReports(ctx, now, i.chunk)
	if errors.Is(err, ErrUnknownCommit) {
		return i.Store.AcceptReports(ctx, now, i.chunk)
	}
	return receipts, err
}

func (i *intake) count(d *Delivery, rc Receipt) {
	switch rc.Verdict {
	case Accepted:
		i.tally.Accepted++
	case Revised:
		i.tally.Revised++
	case Late:
		i.tally.Late++
	case Unchanged:
		i.tally.Unchanged++
	case Conflict:
		i.tally.Conflict++
	}
	if rc.Held {
		i.tally.Held++
	}
	if d.Cleaned {
		i.tally.Cleaned++
	}
}

func (i *intake) log(took time.Duration, err error) {
	e := i.Log.Info()
	switch t := i.tally; {
	case err != nil && !errors.Is(err, context.Canceled):
		e = i.Log.Error().Err(err)
	case t.Refused > 0 || t.Conflict > 0:
		e = i.Log.Warn()
	}
	e.Str("pass", string(PassIntake)).Int64("seen", i.tally.Answered()+i.tally.Refused).
		Int64("moved", i.tally.Accepted+i.tally.Revised+i.tally.Late).Int64("failed", i.tally.Refused+i.tally.Conflict).
		Dur("dur_ms", took).Msg("intake")
}
