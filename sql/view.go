package sql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"rollcall/reconcile"
)

//go:embed query/overview_counts.sql
var overviewCountsSQL string

//go:embed query/overview_held.sql
var overviewHeldSQL string

//go:embed query/overview_works.sql
var overviewWorksSQL string

//go:embed query/overview_jobs.sql
var overviewJobsSQL string

//go:embed query/overview_submissions.sql
var overviewSubmissionsSQL string

//go:embed query/overview_leases.sql
var overviewLeasesSQL string

//go:embed query/overview_decisions.sql
var overviewDecisionsSQL string

//go:embed query/view_workload.sql
var viewWorkloadSQL string

//go:embed query/view_next.sql
var viewNextSQL string

//go:embed query/view_overdue.sql
var viewOverdueSQL string

//go:embed query/view_plan.sql
var viewPlanSQL string

// How many open findings an overview lists: of one name, and in all.
const (
	decisionsOfName = 10
	decisionLimit   = 100
)

type nameCount struct {
	Name string `db:"name"`
	N    int64  `db:"n"`
}

// countBy reads a statement that counts rows by name.
func countBy[K ~string](ctx context.Context, tx *sqlx.Tx, query string, args ...any) (map[K]int64, error) {
	var rows []nameCount
	if err := tx.SelectContext(ctx, &rows, query, args...); err != nil {
		return nil, err
	}
	out := make(map[K]int64, len(rows))
	for _, r := range rows {
		out[K(r.Name)] = r.N
	}
	return out, nil
}

// Overview implements reconcile.ViewStore.
func (s *Store) Overview(ctx context.Context, now time.Time) (reconcile.Overview, error) {
	o := reconcile.Overview{At: now.UTC(), Records: map[string]int64{}}
	err := s.read(ctx, "overview", func(ctx context.Context, tx *sqlx.Tx) (err error) {
		if err := readOverviewCounts(ctx, tx, &o); err != nil {
			return err
		}
		if o.Works, err = countBy[reconcile.Stage](ctx, tx, overviewWorksSQL); err != nil {
			return err
		}
		if o.Jobs, err = countBy[reconcile.JobState](ctx, tx, overviewJobsSQL); err != nil {
			return err
		}
		records, err := countRecords(ctx, tx)
		if err != nil {
			return err
		}
		for _, r := range records {
			o.Records[orEmpty(r.What)] += r.N // a label may be called like a reason
		}
		if o.Decisions, err = readDecisions(ctx, tx, now); err != nil {
			return err
		}
		if o.Leases, err = readLeases(ctx, tx, now); err != nil {
			return err
		}
		if o.WaitingJobs, err = countBy[reconcile.LimitWord](ctx, tx, overviewWaitingSQL); err != nil {
			return err
		}
		if o.Spend, err = readSpend(ctx, tx, now); err != nil {
			return err
		}
		o.Schedules, err = readSchedules(ctx, tx, now)
		return err
	})
	return o, err
}

// Decisions implements reconcile.ViewStore.
func (s *Store) Decisions(ctx context.Context, now time.Time) (reconcile.Decisions, error) {
	var d reconcile.Decisions
	err := s.read(ctx, "decisions", func(ctx context.Context, tx *sqlx.Tx) (err error) {
		d, err = readDecisions(ctx, tx, now)
		return err
	})
	return d, err
}

func readDecisions(ctx context.Context, tx *sqlx.Tx, now time.Time) (d reconcile.Decisions, err error) {
	if err := tx.GetContext(ctx, &d.Held, overviewHeldSQL); err != nil {
		return d, err
	}
	if d.Uncertain, d.Open, err = readUnsettled(ctx, tx, now); err != nil {
		return d, err
	}
	if d.Pauses, err = readPauses(ctx, tx); err != nil {
		return d, err
	}
	var open []findingRow
	if err := tx.SelectContext(ctx, &open, overviewDecisionsSQL, decisionsOfName, decisionLimit); err != nil {
		return d, err
	}
	d.NeedsDecision = findings(open)
	return d, nil
}

func readOverviewCounts(ctx context.Context, tx *sqlx.Tx, o *reconcile.Overview) error {
	var id struct {
		LedgerID   string `db:"ledger_id"`
		Generation int64  `db:"generation"`
		KeyCheck   string `db:"key_check"`
	}
	if err := tx.GetContext(ctx, &id, ledgerGetSQL); err != nil && !errors.Is(err, errNoRows) {
		return err
	}
	var n struct {
		Reports    int64  `db:"reports"`
		Open       int64  `db:"open_findings"`
		NextPollUS *int64 `db:"next_poll_us"`
		NextCallUS *int64 `db:"next_call_us"`
	}
	if err := tx.GetContext(ctx, &n, overviewCountsSQL); err != nil {
		return err
	}
	o.LedgerID, o.Reports, o.OpenFindings, o.NextPoll, o.NextCall = id.LedgerID, n.Reports, n.Open, timePointer(n.NextPollUS), timePointer(n.NextCallUS)
	return nil
}

// readUnsettled lists the submissions without an outcome: those of which nobody
// knows whether the provider has a job, and the others.
func readUnsettled(ctx context.Context, tx *sqlx.Tx, now time.Time) (uncertain, open []reconcile.UncertainView, err error) {
	var rows []struct {
		ID         string  `db:"submission_id"`
		JobID      string  `db:"job_id"`
		IntentUS   int64   `db:"intent_us"`
		DeadlineUS int64   `db:"send_deadline_us"`
		FileID     *string `db:"input_file_id"`
		lookRow
	}
	if err := tx.SelectContext(ctx, &rows, overviewSubmissionsSQL); err != nil {
		return nil, nil, err
	}
	uncertain, open = []reconcile.UncertainView{}, []reconcile.UncertainView{}
	for _, r := range rows {
		v := reconcile.UncertainView{SubmissionID: r.ID, JobID: r.JobID, IntentAt: fromMicros(r.IntentUS), SendBy: fromMicros(r.DeadlineUS), InputFileID: orEmpty(r.FileID), LookView: r.lookRow.view()}
		if submissionOutcome(nil, r.FileID, r.DeadlineUS, micros(now)) == reconcile.SubmissionUncertain {
			uncertain = append(uncertain, v)
		} else {
			open = append(open, v)
		}
	}
	return uncertain, open, nil
}

// lookRow is how far the search for a submission's job is.
type lookRow struct {
	Looks      int64   `db:"looks"`
	NextLookUS *int64  `db:"next_look_us"`
	Obstacle   *string `db:"obstacle"`
}

func (r lookRow) view() reconcile.LookView {
	return reconcile.LookView{Looks: r.Looks, NextLook: timePointer(r.NextLookUS), Obstacle: orEmpty(r.Obstacle)}
}

func readLeases(ctx context.Context, tx *sqlx.Tx, now time.Time) ([]reconcile.LeaseView, error) {
	var rows []leaseRow
	if err := tx.SelectContext(ctx, &rows, overviewLeasesSQL, micros(now)); err != nil {
		return nil, err
	}
	out := make([]reconcile.LeaseView, 0, len(rows))
	for _, r := range rows {
		out = append(out, reconcile.LeaseView{Name: r.Name, Holder: r.Holder, Until: fromMicros(r.ExpiresUS)})
	}
	return out, nil
}

func readPauses(ctx context.Context, tx *sqlx.Tx) ([]reconcile.Pause, error) {
	var rows []pauseRow
	if err := tx.SelectContext(ctx, &rows, pauseListSQL); err != nil {
		return nil, err
	}
	return pausesOf(rows), nil
}

type workloadRow struct {
	Held       int64 `db:"held"`
	Pending    int64 `db:"pending"`
	Later      int64 `db:"pending_later"`
	Planning   int64 `db:"planning"`
	Ready      int64 `db:"ready"`
	ReadyLater int64 `db:"ready_later"`
	Open       int64 `db:"open"`
	CallsDue   int64 `db:"calls_due"`
	Called     int64 `db:"called"`
	PollsDue   int64 `db:"polls_due"`
	Submitted  int64 `db:"submitted"`
	EndedDue   int64 `db:"ended_due"`
	Ended      int64 `db:"ended"`
	Extracted  int64 `db:"extracted"`
}

// Workload implements reconcile.ViewStore.
func (s *Store) Workload(ctx context.Context, now time.Time, unsentMargin time.Duration) (reconcile.Workload, error) {
	var w reconcile.Workload
	err := s.read(ctx, "workload", func(ctx context.Context, tx *sqlx.Tx) (err error) {
		var r workloadRow
		if err := tx.GetContext(ctx, &r, viewWorkloadSQL, micros(now)); err != nil {
			return err
		}
		w = reconcile.Workload{
			Held: r.Held, Pending: r.Pending, Later: r.Later, Planning: r.Planning, Ready: r.Ready, ReadyLater: r.ReadyLater, Open: r.Open,
			CallsDue: r.CallsDue, Called: r.Called, PollsDue: r.PollsDue, Submitted: r.Submitted, EndedDue: r.EndedDue, Ended: r.Ended, Extracted: r.Extracted,
		}
		next, err := readNext(ctx, tx, now, unsentMargin)
		if err != nil {
			return err
		}
		w.Next, w.Overdue = next.At, next.Overdue
		w.Plan, err = readPlan(ctx, tx, now)
		return err
	})
	return w, err
}

// Next implements reconcile.ViewStore.
func (s *Store) Next(ctx context.Context, now time.Time, unsentMargin time.Duration) (reconcile.NextWork, error) {
	var n reconcile.NextWork
	err := s.read(ctx, "next", func(ctx context.Context, tx *sqlx.Tx) (err error) {
		n, err = readNext(ctx, tx, now, unsentMargin)
		return err
	})
	return n, err
}

func readNext(ctx context.Context, tx *sqlx.Tx, now time.Time, unsentMargin time.Duration) (n reconcile.NextWork, err error) {
	var at *int64
	if err := tx.GetContext(ctx, &at, viewNextSQL, unsentMargin.Microseconds()); err != nil {
		return n, err
	}
	if at != nil {
		due := fromMicros(max(*at, micros(now))) // what is due is due now
		n.At = &due
	}
	err = tx.GetContext(ctx, &n.Overdue, viewOverdueSQL, micros(now))
	return n, err
}

func readPlan(ctx context.Context, tx *sqlx.Tx, now time.Time) ([]reconcile.PolicyLoad, error) {
	var rows []struct {
		PolicyID string `db:"policy_id"`
		Version  int64  `db:"version"`
		Account  string `db:"account"`
		Host     string `db:"host"`
		Region   string `db:"region"`
		Works    int64  `db:"works"`
		Bytes    int64  `db:"bytes"`
	}
	if err := tx.SelectContext(ctx, &rows, viewPlanSQL, micros(now)); err != nil {
		return nil, err
	}
	out := make([]reconcile.PolicyLoad, 0, len(rows))
	for _, r := range rows {
		out = append(out, reconcile.PolicyLoad{Policy: policyName(r.PolicyID, r.Version), Account: r.Account, Host: r.Host, Region: r.Region, Works: r.Works, Bytes: r.Bytes})
	}
	return out, nil
}

func policyName(id string, version int64) string {
	return reconcile.PolicyKey{ID: id, Version: version}.String()
}

// workOfCustomID is the work's part of a custom id, or "" for what is none.
func workOfCustomID(id string) string {
	if i := strings.LastIndexByte(id, '-'); i > 0 {
		return id[:i]
	}
	return ""
}

// notFound says which row is not there.
func notFound(what, id string, err error) error {
	if errors.Is(err, errNoRows) {
		return fmt.Errorf("%s %q: %w", what, id, reconcile.ErrNotFound)
	}
	return err
}
