package sql

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jmoiron/sqlx"

	"rollcall/reconcile"
)

//go:embed query/view_find.sql
var viewFindSQL string

//go:embed query/view_find_external.sql
var viewFindExternalSQL string

//go:embed query/view_report.sql
var viewReportSQL string

//go:embed query/view_report_revisions.sql
var viewReportRevisionsSQL string

//go:embed query/view_report_works.sql
var viewReportWorksSQL string

//go:embed query/view_report_sends.sql
var viewReportSendsSQL string

//go:embed query/view_report_findings.sql
var viewReportFindingsSQL string

// FindReport implements reconcile.ViewStore. An id of ours is looked for first:
// the ids of a source have no index of their own, and are seldom asked for.
func (s *Store) FindReport(ctx context.Context, id string, limit int) ([]string, error) {
	found := []string{}
	if err := s.ro.SelectContext(ctx, &found, viewFindSQL, id, workOfCustomID(id)); err != nil {
		return nil, fmt.Errorf("find report: %w", scrub(err))
	}
	if len(found) > 0 {
		return found, nil
	}
	if err := s.ro.SelectContext(ctx, &found, viewFindExternalSQL, id, limit); err != nil {
		return nil, fmt.Errorf("find report: %w", scrub(err))
	}
	return found, nil
}

// ReportHistory implements reconcile.ViewStore.
func (s *Store) ReportHistory(ctx context.Context, reportID string) (reconcile.ReportHistory, error) {
	var h reconcile.ReportHistory
	err := s.read(ctx, "report history", func(ctx context.Context, tx *sqlx.Tx) error {
		var r struct {
			ID       string `db:"report_id"`
			Tenant   string `db:"tenant_id"`
			System   string `db:"source_system"`
			External string `db:"external_id"`
			Current  int64  `db:"current_revision"`
		}
		if err := tx.GetContext(ctx, &r, viewReportSQL, reportID); err != nil {
			return notFound("report", reportID, err)
		}
		h = reconcile.ReportHistory{ReportID: r.ID, Tenant: r.Tenant, System: r.System, ExternalID: r.External, CurrentRevision: r.Current}
		var err error
		if h.Revisions, err = readRevisions(ctx, tx, reportID); err != nil {
			return err
		}
		if h.Works, err = readWorks(ctx, tx, reportID); err != nil {
			return err
		}
		if err := readSends(ctx, tx, reportID, h.Works, micros(s.opts.Now())); err != nil {
			return err
		}
		var found []findingRow
		if err := tx.SelectContext(ctx, &found, viewReportFindingsSQL, reportID); err != nil {
			return err
		}
		h.Findings = findings(found)
		pauses, err := readPauses(ctx, tx)
		if err != nil {
			return err
		}
		h.Conclude(pauses)
		return nil
	})
	return h, err
}

func readRevisions(ctx context.Context, tx *sqlx.Tx, reportID string) ([]reconcile.RevisionView, error) {
	var rows []struct {
		Revision   int64  `db:"revision"`
		AcceptedUS int64  `db:"accepted_us"`
		Bytes      int64  `db:"content_bytes"`
		Cleaned    int64  `db:"cleaned"`
		Urgent     int64  `db:"urgent"`
		Media      string `db:"media"`
		Held       int64  `db:"held"`
	}
	if err := tx.SelectContext(ctx, &rows, viewReportRevisionsSQL, reportID); err != nil {
		return nil, err
	}
	out := make([]reconcile.RevisionView, 0, len(rows))
	for _, r := range rows {
		out = append(out, reconcile.RevisionView{
			Revision: r.Revision, AcceptedAt: fromMicros(r.AcceptedUS), Bytes: r.Bytes,
			Cleaned: r.Cleaned == 1, Urgent: r.Urgent == 1, Media: r.Media, Held: r.Held == 1,
		})
	}
	return out, nil
}

type workViewRow struct {
	WorkID        string  `db:"work_id"`
	Revision      int64   `db:"revision"`
	PolicyID      string  `db:"policy_id"`
	PolicyVersion int64   `db:"policy_version"`
	PolicyState   string  `db:"policy_state"`
	Account       string  `db:"account"`
	Host          string  `db:"host"`
	Region        string  `db:"region"`
	Disposition   string  `db:"disposition"`
	Stage         string  `db:"stage"`
	Reason        *string `db:"reason"`
	EligibleUS    int64   `db:"eligible_us"`
	DueUS         int64   `db:"due_us"`
	// The record, where there is one.
	Kind          *string `db:"kind"`
	Label         *string `db:"label"`
	RecordReason  *string `db:"record_reason"`
	Authoritative *int64  `db:"authoritative"`
	HumanState    *string `db:"human_state"`
	RecordUS      *int64  `db:"record_us"`
	Model         *string `db:"model"`
}

func (r workViewRow) view() reconcile.WorkView {
	w := reconcile.WorkView{
		WorkID: r.WorkID, Revision: r.Revision, Policy: policyName(r.PolicyID, r.PolicyVersion), PolicyState: reconcile.PolicyState(r.PolicyState),
		Account: r.Account, Host: r.Host, Region: r.Region, Disposition: reconcile.Disposition(r.Disposition), Stage: reconcile.Stage(r.Stage),
		Reason: reconcile.Reason(orEmpty(r.Reason)), EligibleAt: fromMicros(r.EligibleUS), DueAt: fromMicros(r.DueUS), Sent: []reconcile.SendView{},
	}
	if r.Kind != nil {
		w.Record = &reconcile.RecordView{
			Kind: *r.Kind, Label: orEmpty(r.Label), Reason: orEmpty(r.RecordReason), Authoritative: r.Authoritative != nil && *r.Authoritative == 1,
			HumanState: orEmpty(r.HumanState), Model: orEmpty(r.Model), At: fromNull(r.RecordUS),
		}
	}
	return w
}

func readWorks(ctx context.Context, tx *sqlx.Tx, reportID string) ([]reconcile.WorkView, error) {
	var rows []workViewRow
	if err := tx.SelectContext(ctx, &rows, viewReportWorksSQL, reportID); err != nil {
		return nil, err
	}
	out := make([]reconcile.WorkView, 0, len(rows))
	for _, r := range rows {
		out = append(out, r.view())
	}
	return out, nil
}

type sendRow struct {
	WorkID        string  `db:"work_id"`
	JobID         string  `db:"job_id"`
	State         string  `db:"state"`
	ProviderJobID *string `db:"provider_job_id"`
	Processor     string  `db:"processor"`
	Account       string  `db:"account"`
	Host          string  `db:"host"`
	Region        string  `db:"region"`
	Outcome       *string `db:"outcome"`
	Code          string  `db:"code"`
	Called        int64   `db:"called"`
	NextSubmitUS  *int64  `db:"next_submit_us"`
	WaitsFor      *string `db:"waits_for"`
	NextPollUS    *int64  `db:"next_poll_us"`
	NextConsumeUS *int64  `db:"next_consume_us"`
	// The submission, where there is one.
	SubmissionID *string `db:"submission_id"`
	Submission   *string `db:"submission_outcome"`
	Evidence     *string `db:"evidence"`
	IntentUS     *int64  `db:"intent_us"`
	DeadlineUS   *int64  `db:"send_deadline_us"`
	FileID       *string `db:"input_file_id"`
	TextLeft     *int64  `db:"text_left"`
	NextLookUS   *int64  `db:"next_look_us"`
	Obstacle     *string `db:"obstacle"`
	Vendor       *string `db:"vendor"`
	Latest       int64   `db:"latest"`
}

func (r sendRow) view(nowUS int64) reconcile.SendView {
	v := reconcile.SendView{
		JobID: r.JobID, JobState: reconcile.JobState(r.State), ProviderJobID: orEmpty(r.ProviderJobID),
		SubmissionID: orEmpty(r.SubmissionID), Evidence: orEmpty(r.Evidence), SendBy: timePointer(r.DeadlineUS), LeftAt: timePointer(r.IntentUS),
		NextLook: timePointer(r.NextLookUS), Obstacle: orEmpty(r.Obstacle),
		Processor: r.Processor, Account: r.Account, Host: r.Host, Region: r.Region, Called: r.Called == 1,
		NextSubmit: timePointer(r.NextSubmitUS), WaitsFor: reconcile.LimitWord(orEmpty(r.WaitsFor)), NextPoll: timePointer(r.NextPollUS), NextConsume: timePointer(r.NextConsumeUS),
	}
	if r.TextLeft != nil && *r.TextLeft == 0 {
		v.LeftAt = nil
	}
	if r.SubmissionID != nil {
		v.Submission = submissionOutcome(r.Submission, r.FileID, *r.DeadlineUS, nowUS)
	}
	if r.Latest == 1 {
		v.Outcome, v.Code = reconcile.ItemOutcome(orEmpty(r.Outcome)), r.Code
		v.Vendor = orEmpty(r.Vendor)
	}
	return v
}

// submissionOutcome is a submission's outcome, or what to call it without one.
// While no input file is noted, no job was asked for.
func submissionOutcome(outcome, fileID *string, deadlineUS, nowUS int64) string {
	switch {
	case outcome != nil:
		return *outcome
	case fileID != nil && deadlineUS <= nowUS:
		return reconcile.SubmissionUncertain
	default:
		return reconcile.SubmissionOpen
	}
}

// readSends adds to each work where it was sent, and counts its attempts.
func readSends(ctx context.Context, tx *sqlx.Tx, reportID string, works []reconcile.WorkView, nowUS int64) error {
	var rows []sendRow
	if err := tx.SelectContext(ctx, &rows, viewReportSendsSQL, reportID); err != nil {
		return err
	}
	byID := map[string]*reconcile.WorkView{}
	for i := range works {
		byID[works[i].WorkID] = &works[i]
	}
	for _, r := range rows {
		w, v := byID[r.WorkID], r.view(nowUS)
		w.Sent = append(w.Sent, v)
		if v.Outcome != "" && v.Outcome != reconcile.ItemNotSent && !v.Outcome.UsesRun() {
			w.Attempts++
		}
	}
	return nil
}
