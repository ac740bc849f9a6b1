package reconcile

import (
	"context"
	"fmt"
	"strings"
	"time"

	"rollcall/reconcile/keyring"
)

// RouteStore gives reports to a person by hand.
type RouteStore interface {
	// RouteReports judges where the current revisions of reports are, and ends
	// the extraction of those that go to a person: their works are extracted with
	// reason routed, and apply makes their records. A member of a job stays one,
	// and an answer that still comes is kept as late. A held report gets a work
	// under NoPolicy and is held no more. Results are keyed by report id.
	// ErrNotFound if one of the reports is not in the ledger: none is routed.
	RouteReports(ctx context.Context, now time.Time, r Routing) (map[string]RouteResult, error)
}

// Routing asks for reports to be given to a person.
type Routing struct {
	Reports  []string // report ids, each once
	Actor    string
	Reason   string // the person's words, for the audit
	NoPolicy *PolicyVersion
	// WorkID gives the id of the work that a held revision gets.
	WorkID func(reportID string, revision int64) string
	Judge  func(RouteFacts) RouteVerdict
}

// RouteFacts is where the current revision of a report is.
type RouteFacts struct {
	ReportID string
	Revision int64
	Held     bool   // no approved policy
	WorkID   string // of the live work; "" for none
	Stage    Stage  // of the live work
	Reason   Reason // of the live work
}

// RouteVerdict is what becomes of a request to route a report.
type RouteVerdict string

// The verdicts. The first three mean that a person gets the report.
const (
	RouteOpen     RouteVerdict = "open"     // its work is not done, and ends now
	RouteHeld     RouteVerdict = "held"     // it has no work, and gets one
	RouteAgain    RouteVerdict = "again"    // it was routed before
	RouteKnown    RouteVerdict = "known"    // its outcome is known and not applied yet
	RouteRecorded RouteVerdict = "recorded" // its record is there
	RouteNowhere  RouteVerdict = "nowhere"  // neither work nor hold
)

// RouteResult is what became of one report. WorkID is that of the work which
// goes to a person, also where it was made for that.
type RouteResult struct {
	RouteFacts
	Verdict RouteVerdict
}

// Given says whether a person gets the report because of this or an earlier request.
func (v RouteVerdict) Given() bool { return v == RouteOpen || v == RouteHeld || v == RouteAgain }

// JudgeRoute decides whether there is something to give to a person. What has
// an outcome reaches one anyway, or is answered: its record is not replaced.
func JudgeRoute(f RouteFacts) RouteVerdict {
	switch {
	case f.WorkID == "" && f.Held:
		return RouteHeld
	case f.WorkID == "":
		return RouteNowhere
	case f.Reason == Routed:
		return RouteAgain
	case f.Stage == StagePending, f.Stage == StageCollected:
		return RouteOpen
	case f.Stage == StageExtracted:
		return RouteKnown
	}
	return RouteRecorded
}

// refusal is why a report is not routed.
func (v RouteVerdict) refusal() string {
	switch v {
	case RouteKnown:
		return "there is nothing to route: its outcome is known, and apply writes its record"
	case RouteRecorded:
		return "there is nothing to route: the record of its current revision is there"
	}
	return "the ledger holds neither a work nor a hold for its current revision"
}

// NoPolicyID names what stands in the place of a policy for the works of
// reports that were routed before their source had one. No policy file can use
// the name, it is never approved, and so nothing can be sent under it.
const NoPolicyID = "(none)"

// noPolicyDue is when the record of such a work is overdue. It is made at once,
// unless apply is paused.
const noPolicyDue = 24 * time.Hour

// noPolicy is the version of NoPolicyID. The record of a revision that was
// routed stands until one of a later revision is there, however many edits are
// accepted meanwhile: a person was to see the report.
func noPolicy(keys *keyring.Ring) (*PolicyVersion, error) {
	p := Policy{ID: NoPolicyID, Version: 1, Authority: HighestApplied, Attempts: 1, Runs: 1,
		Boundary: Boundary{Processor: NoPolicyID, Account: NoPolicyID, Host: NoPolicyID, Region: NoPolicyID},
		Review:   Review{DueSeconds: int64(noPolicyDue.Seconds()), OnDue: DueUnclassified}}
	spec, err := p.Spec()
	if err != nil {
		return nil, err
	}
	return &PolicyVersion{Policy: p, BoundaryID: NoPolicyID, State: PolicyDraft, SpecMAC: keys.MAC(keyring.Spec, spec)}, nil
}

// RouteAnswer is what became of one id.
type RouteAnswer struct {
	ID       string // as it was given
	ReportID string // "" where the id names no report, or several
	Revision int64
	Given    bool
	Says     string // in words
}

// routeMatches bounds how many reports one external id may bring up.
const routeMatches = 20

// Route gives reports to a person, with the actor's reason, and makes their
// records. An id is whatever FindReport takes. tell is told about each id in
// their order; one that cannot be routed does not keep the others from it.
// Again changes nothing.
func (r *Reconciler) Route(ctx context.Context, ids []string, actor, reason string, tell func(RouteAnswer)) error {
	none, err := noPolicy(r.Keys)
	if err != nil {
		return err
	}
	for len(ids) > 0 {
		n := min(len(ids), max(r.Settings.Chunk, 1))
		err := r.routeSome(ctx, ids[:n], Routing{
			Actor: actor, Reason: reason, NoPolicy: none, Judge: JudgeRoute,
			WorkID: func(report string, revision int64) string {
				return r.Keys.WorkID(report, revision, none.ID, none.Version)
			},
		}, tell)
		if err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

func (r *Reconciler) routeSome(ctx context.Context, ids []string, ask Routing, tell func(RouteAnswer)) error {
	answers := make([]RouteAnswer, len(ids))
	named := map[string]bool{}
	for i, id := range ids {
		answer, err := r.findToRoute(ctx, id)
		if err != nil {
			return err
		}
		answers[i] = answer
		if report := answer.ReportID; report != "" && !named[report] {
			named[report] = true
			ask.Reports = append(ask.Reports, report)
		}
	}
	results, err := r.routeAndApply(ctx, ask)
	if err != nil {
		return err
	}
	for _, answer := range answers {
		if result, ok := results[answer.ReportID]; ok {
			if err := r.conclude(ctx, &answer, result); err != nil {
				return err
			}
		}
		tell(answer)
	}
	return nil
}

// findToRoute finds the one report that an id names.
func (r *Reconciler) findToRoute(ctx context.Context, id string) (RouteAnswer, error) {
	found, err := r.Store.FindReport(ctx, id, routeMatches)
	if err != nil {
		return RouteAnswer{}, err
	}
	switch len(found) {
	case 0:
		return RouteAnswer{ID: id, Says: "no report, work or external id of this name is in this ledger"}, nil
	case 1:
		return RouteAnswer{ID: id, ReportID: found[0]}, nil
	}
	return RouteAnswer{ID: id, Says: "several reports have this external id; name one of them: " + strings.Join(found, ", ")}, nil
}

func (r *Reconciler) routeAndApply(ctx context.Context, ask Routing) (map[string]RouteResult, error) {
	if len(ask.Reports) == 0 {
		return nil, nil
	}
	now, err := r.Now(ctx)
	if err != nil {
		return nil, err
	}
	results, err := r.Store.RouteReports(ctx, now, ask)
	if err != nil {
		return nil, fmt.Errorf("route reports: %w", err)
	}
	// The works are extracted with their reason. If the process dies here, the
	// next run of apply makes their records.
	if _, err := r.Apply(ctx, now); err != nil {
		return nil, fmt.Errorf("the reports are routed, and apply is to write their records: %w", err)
	}
	return results, nil
}

// conclude says what became of a report. What is routed may not be recorded yet.
func (r *Reconciler) conclude(ctx context.Context, answer *RouteAnswer, result RouteResult) error {
	answer.Revision, answer.Given = result.Revision, result.Verdict.Given()
	if !answer.Given {
		answer.Says = result.Verdict.refusal()
		return nil
	}
	h, err := r.Store.ReportHistory(ctx, answer.ReportID)
	if err != nil {
		return err
	}
	answer.Says = "given to a person"
	if result.Verdict == RouteAgain {
		answer.Says += " before"
	}
	for _, w := range h.Works {
		if w.WorkID == result.WorkID && w.Stage == StageRecorded {
			answer.Says += ", and recorded"
			return nil
		}
	}
	answer.Says += "; recorded once apply goes on (" + h.Next + ")"
	return nil
}
