package sql

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"rollcall/reconcile"
)

//go:embed query/report_insert.sql
var reportInsertSQL string

//go:embed query/report_lock_intake.sql
var reportLockIntakeSQL string

//go:embed query/report_advance.sql
var reportAdvanceSQL string

//go:embed query/revision_known.sql
var revisionKnownSQL string

//go:embed query/intake_unchanged.sql
var intakeUnchangedSQL string

//go:embed query/intake_supersede.sql
var intakeSupersedeSQL string

//go:embed query/intake_lock_works.sql
var intakeLockWorksSQL string

//go:embed query/hold_drop.sql
var holdDropSQL string

// AcceptReports implements reconcile.IntakeStore.
func (s *Store) AcceptReports(ctx context.Context, now time.Time, ds []reconcile.Delivery) ([]reconcile.Receipt, error) {
	if len(ds) == 0 {
		return nil, nil
	}
	var receipts []reconcile.Receipt
	err := s.write(ctx, "accept reports", func(ctx context.Context, t *tx) error {
		c := newChunk(t, now, ds)
		if err := c.take(ctx); err != nil {
			return err
		}
		receipts = c.receipts()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return receipts, nil
}

// chunk is one transaction of intake.
type chunk struct {
	*tx
	now      time.Time
	approved map[reconcile.PolicyKey]bool
	ds       []*delivery // in the order in which rows are locked
	input    []*delivery // in the order in which they came
}

// delivery is one delivery on its way to a verdict.
type delivery struct {
	*reconcile.Delivery
	known    reconcile.KnownReport
	verdict  reconcile.Verdict
	revision int64 // in the ledger
	workID   string
	held     bool
}

func newChunk(t *tx, now time.Time, ds []reconcile.Delivery) *chunk {
	c := &chunk{tx: t, now: now}
	for i := range ds {
		c.input = append(c.input, &delivery{Delivery: &ds[i]})
	}
	c.ds = slices.SortedFunc(slices.Values(c.input), func(a, b *delivery) int { return cmp.Compare(a.ReportID, b.ReportID) })
	return c
}

// take judges and writes the chunk, with its locks in the ledger's order: gate,
// policies, reports, works.
func (c *chunk) take(ctx context.Context) error {
	policies := map[reconcile.PolicyKey]bool{}
	var scopes []string
	for _, d := range c.ds {
		if d.Policy != nil && !policies[d.Policy.Key()] {
			policies[d.Policy.Key()] = true
			scopes = append(scopes, "policy:"+d.Policy.ID)
		}
	}
	if err := c.gate(ctx, reconcile.PauseIntake, scopes...); err != nil {
		return err
	}
	var err error
	if c.approved, err = c.approvedPolicies(ctx, policies); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{c.lockReports, c.readKnown, c.judge, c.recall, c.supersede, c.write} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// approvedPolicies says which policy versions are approved, and keeps them so
// until the transaction ends.
func (t *tx) approvedPolicies(ctx context.Context, keys map[reconcile.PolicyKey]bool) (map[reconcile.PolicyKey]bool, error) {
	approved := map[reconcile.PolicyKey]bool{}
	sorted := slices.SortedFunc(maps.Keys(keys), func(a, b reconcile.PolicyKey) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Version, b.Version))
	})
	for _, k := range sorted {
		var r policyRow
		err := t.GetContext(ctx, &r, t.store.dialect.locked(policyGetSQL, forShare), k.ID, k.Version)
		if err != nil && !errors.Is(err, errNoRows) {
			return nil, fmt.Errorf("policy %s: %w", k, err)
		}
		approved[k] = r.State == string(reconcile.PolicyApproved)
	}
	return approved, nil
}

// lockReports makes the reports that are new and locks the others, so that
// nothing about them changes until the transaction ends.
func (c *chunk) lockReports(ctx context.Context) error {
	err := c.store.dialect.temporary(ctx, c.Tx, "intake_deliveries", "report_id TEXT PRIMARY KEY, tenant_id TEXT NOT NULL, "+
		"source_system TEXT NOT NULL, external_id TEXT NOT NULL, revision BIGINT NOT NULL, content_mac TEXT NOT NULL")
	if err != nil {
		return err
	}
	err = c.store.dialect.load(ctx, c.Tx, "intake_deliveries",
		[]string{"report_id", "tenant_id", "source_system", "external_id", "revision", "content_mac"}, len(c.ds), func(i int) []any {
			d := c.ds[i]
			return []any{d.ReportID, d.Identity.Tenant, d.Identity.System, d.Identity.ExternalID, d.Revision, d.ContentMAC}
		})
	if err != nil {
		return err
	}
	var made []string
	if err := c.SelectContext(ctx, &made, reportInsertSQL, micros(c.now)); err != nil {
		return fmt.Errorf("make reports: %w", err)
	}
	if len(made) == len(c.ds) {
		return nil
	}
	var rows []struct {
		ReportID        string `db:"report_id"`
		CurrentRevision int64  `db:"current_revision"`
	}
	if err := c.SelectContext(ctx, &rows, c.store.dialect.locked(reportLockIntakeSQL, forUpdate)); err != nil {
		return fmt.Errorf("lock reports: %w", err)
	}
	if len(rows) != len(c.ds) {
		return fmt.Errorf("%d reports are known under another report id; the keyring does not belong to this ledger", len(c.ds)-len(rows))
	}
	slices.Sort(made)
	byID := c.byReport()
	for _, r := range rows {
		if _, isNew := slices.BinarySearch(made, r.ReportID); !isNew {
			byID[r.ReportID].known = reconcile.KnownReport{Exists: true, CurrentRevision: r.CurrentRevision}
		}
	}
	return nil
}

func (c *chunk) byReport() map[string]*delivery {
	m := make(map[string]*delivery, len(c.ds))
	for _, d := range c.ds {
		m[d.ReportID] = d
	}
	return m
}

// readKnown reads what the ledger holds about the reports that are not new. It
// is a statement of its own behind the lock, since only a later statement sees
// what a transaction wrote that the lock waited for.
func (c *chunk) readKnown(ctx context.Context) error {
	if !slices.ContainsFunc(c.ds, func(d *delivery) bool { return d.known.Exists }) {
		return nil
	}
	var rows []struct {
		ReportID    string  `db:"report_id"`
		RevisionMAC *string `db:"revision_mac"`
		SameContent *int64  `db:"same_content"`
	}
	if err := c.SelectContext(ctx, &rows, revisionKnownSQL); err != nil {
		return fmt.Errorf("read known revisions: %w", err)
	}
	byID := c.byReport()
	for _, r := range rows {
		k := &byID[r.ReportID].known
		k.RevisionMAC = orEmpty(r.RevisionMAC)
		if r.SameContent != nil {
			k.SameContent, k.HasSameContent = *r.SameContent, true
		}
	}
	return nil
}

// judge asks for the verdicts and binds what is current to its policy.
func (c *chunk) judge(ctx context.Context) error {
	for _, d := range c.ds {
		d.verdict, d.revision = d.Judge(d.known)
		switch d.verdict {
		case reconcile.Accepted, reconcile.Revised:
			if d.held = d.Policy == nil || !c.approved[d.Policy.Key()]; !d.held {
				d.workID = d.WorkID(d.revision)
			}
		case reconcile.Conflict:
			kind := reconcile.EventRevisionConflict
			err := c.openFinding(ctx, c.now, reconcile.Event{Name: kind.Name, Severity: kind.Severity, Subject: "report:" + d.ReportID,
				Detail: fmt.Sprintf("revision %d from %s/%s", d.Revision, d.Identity.Tenant, d.Identity.System)})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// recall tells the database which reports were edited or delivered again, and
// reads what the latter were answered the first time.
func (c *chunk) recall(ctx context.Context) error {
	settled := c.with(reconcile.Revised, reconcile.Unchanged)
	if len(settled) == 0 {
		return nil
	}
	err := c.store.dialect.temporary(ctx, c.Tx, "intake_settled", "report_id TEXT PRIMARY KEY, revision BIGINT NOT NULL, verdict TEXT NOT NULL")
	if err != nil {
		return err
	}
	err = c.store.dialect.load(ctx, c.Tx, "intake_settled", []string{"report_id", "revision", "verdict"}, len(settled), func(i int) []any {
		return []any{settled[i].ReportID, settled[i].revision, string(settled[i].verdict)}
	})
	if err != nil {
		return err
	}
	var rows []struct {
		ReportID    string  `db:"report_id"`
		WorkID      *string `db:"work_id"`
		Disposition *string `db:"disposition"`
		HeldUS      *int64  `db:"held_us"`
	}
	if err := c.SelectContext(ctx, &rows, intakeUnchangedSQL); err != nil {
		return fmt.Errorf("read earlier answers: %w", err)
	}
	byID := c.byReport()
	live := map[string]bool{}
	for _, r := range rows {
		d := byID[r.ReportID]
		d.held = r.HeldUS != nil
		// Of several works under several policies, the live one or the newest.
		if r.WorkID != nil && !live[r.ReportID] {
			d.workID = *r.WorkID
			live[r.ReportID] = orEmpty(r.Disposition) == string(reconcile.Live)
		}
	}
	return nil
}

// supersede makes history of what the edits replace. It comes before the new
// works are written, so that it cannot meet them.
func (c *chunk) supersede(ctx context.Context) error {
	if len(c.with(reconcile.Revised)) == 0 {
		return nil
	}
	// In order of their ids, as every other transaction takes works.
	if err := c.lockRows(ctx, forUpdate, intakeLockWorksSQL); err != nil {
		return fmt.Errorf("lock works of older revisions: %w", err)
	}
	for _, query := range []string{reportAdvanceSQL, intakeSupersedeSQL, holdDropSQL} {
		if _, err := c.ExecContext(ctx, query); err != nil {
			return fmt.Errorf("supersede older revisions: %w", err)
		}
	}
	return nil
}

// with are the deliveries that have one of the verdicts.
func (c *chunk) with(verdicts ...reconcile.Verdict) []*delivery {
	var out []*delivery
	for _, d := range c.ds {
		if slices.Contains(verdicts, d.verdict) {
			out = append(out, d)
		}
	}
	return out
}

// write stores what is new: revisions with their texts, and a work or a hold
// for each that is current.
func (c *chunk) write(ctx context.Context) error {
	stored := c.with(reconcile.Accepted, reconcile.Revised, reconcile.Late)
	if len(stored) == 0 {
		return nil // nothing is written, not even an audit event
	}
	now, load := micros(c.now), c.store.dialect.load
	err := load(ctx, c.Tx, "revisions", []string{"report_id", "revision", "content_mac", "mac_key_id", "content_bytes", "cleaned", "urgent",
		"media", "no_text", "accepted_us"}, len(stored), func(i int) []any {
		d := stored[i]
		return []any{d.ReportID, d.revision, d.ContentMAC, d.MACKeyID, d.ContentBytes, flag(d.Cleaned), flag(d.Urgent),
			d.Media, flag(d.Reason != ""), now}
	})
	if err != nil {
		return err
	}
	err = load(ctx, c.Tx, "texts", []string{"report_id", "revision", "encrypted", "key_id"}, len(stored), func(i int) []any {
		d := stored[i]
		return []any{d.ReportID, d.revision, d.Text.Bytes, d.Text.KeyID}
	})
	if err != nil {
		return err
	}
	current := c.with(reconcile.Accepted, reconcile.Revised)
	works := slices.DeleteFunc(slices.Clone(current), func(d *delivery) bool { return d.held })
	err = load(ctx, c.Tx, "works", workColumns, len(works), func(i int) []any { return works[i].workRow(now) })
	if err != nil {
		return err
	}
	holds := slices.DeleteFunc(current, func(d *delivery) bool { return !d.held })
	err = load(ctx, c.Tx, "holds", []string{"report_id", "revision", "reason", "held_us"}, len(holds), func(i int) []any {
		return []any{holds[i].ReportID, holds[i].revision, "policy_pending", now}
	})
	if err != nil {
		return err
	}
	c.audit("intake", "reports", fmt.Sprintf("accepted %d, revised %d, late %d, held %d, conflicts %d", len(c.with(reconcile.Accepted)),
		len(c.with(reconcile.Revised)), len(c.with(reconcile.Late)), len(holds), len(c.with(reconcile.Conflict))))
	return nil
}

var workColumns = []string{"work_id", "tenant_id", "report_id", "revision", "policy_id", "policy_version", "boundary_id",
	"disposition", "stage", "reason", "urgent", "content_bytes", "created_us", "eligible_us", "due_us"}

// workRow is a new work. With nothing to classify it is extracted from the
// start, so that nothing is sent and a person gets the report.
func (d *delivery) workRow(now int64) []any {
	stage := reconcile.StagePending
	if d.Reason != "" {
		stage = reconcile.StageExtracted
	}
	p := d.Policy
	return []any{d.workID, d.Identity.Tenant, d.ReportID, d.revision, p.ID, p.Version, p.BoundaryID,
		string(reconcile.Live), string(stage), nullIfEmpty(string(d.Reason)), flag(d.Urgent), d.ContentBytes, now, now, now + p.Review.Due().Microseconds()}
}

// receipts answers the deliveries in the order in which they came.
func (c *chunk) receipts() []reconcile.Receipt {
	out := make([]reconcile.Receipt, 0, len(c.input))
	for _, d := range c.input {
		out = append(out, reconcile.Receipt{Line: d.Line, ReportID: d.ReportID, WorkID: d.workID, Revision: d.revision, Verdict: d.verdict, Held: d.held})
	}
	return out
}
