package reconcile_test

import (
	"errors"
	"fmt"
	"hash"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
	"rollcall/reconcile/source"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// lieStory is a whole life of some reports, from intake to check, in which
// everything goes wrong once that the passes put right by themselves. It has
// every write transaction, so that a COMMIT of each can lie.
type lieStory struct {
	*bench
	l      *liar
	errors []string
	turns  map[string]int // by text: how often it was answered
	lost   string         // a result file that the processor loses
	short  string         // a result file that is cut the first time
	hard   string         // a job that is refused until a person is told
}

const (
	lieJob       = 4 // members of a job
	forumReports = 9 // of system forum
	tooLarge     = 8 // is one of them
	heldReports  = 4 // of system blog, whose policy is approved later
	routed       = 2 // is one of them, which a person is given before that
	damaged      = 3 // is one of them, whose stored text is damaged before that
	lieReports   = forumReports + heldReports
)

// appendOnly lifts the rule that audit events stay as they are, so that a lie
// can hide one.
var appendOnly = map[string]string{
	"sqlite":   "DROP TRIGGER audit_events_no_update",
	"postgres": "DROP TRIGGER audit_events_no_change ON audit_events",
}

func newLieStory(t *testing.T, database string, l *liar) *lieStory {
	t.Helper()
	ledger := sqltest.OpenWith(t, sqltest.Migrated(t, database), sql.Options{Commit: l.commit})
	s := lieStoryOver(t, ledger, ledger.Address, l)
	if l.how == lieUnsaid {
		s.change(appendOnly[database])
		l.forget = func() error {
			_, err := s.db.Exec("UPDATE audit_events SET op_id = NULL WHERE op_id IS NOT NULL")
			return err
		}
	}
	return s
}

// lieStoryOver is the story over a ledger whose COMMITs l runs. It looks at rows
// at another address than the ledger's.
func lieStoryOver(t *testing.T, ledger *sqltest.Ledger, rows string, l *liar) *lieStory {
	t.Helper()
	l.seen = map[string]int{}
	s := &lieStory{bench: newBenchOf(t, ledger, rows), l: l, turns: map[string]int{}}
	s.fake = fake.New(fake.Options{
		Account: s.fake.Account(), Now: ledger.Clock.Now, Breach: func(rule string) { t.Errorf("the processor saw a broken rule: %s", rule) },
		Limits: batch.Limits{Items: lieJob},
		Answer: func(string, string) []byte { return []byte(okAnswer) },
		Script: s.script,
	})
	s.fake.Hooks = fake.Hooks{Create: s.create, Status: s.status, Download: s.download}
	s.r = s.reconciler(ledger)
	s.r.Settings.ItemTokens = 200
	s.limited(reconcile.AccountLimits{CreatesPerMinute: 1})
	s.r.Prices = func(string, string) (reconcile.Price, bool) { // the first jobs are sent before anyone wrote them down
		return reconcile.Price{Input: 1_000_000, Output: 2_000_000, Currency: "EUR"}, s.fake.Calls(fake.OpStatus) >= 3
	}
	s.r.PolicyFor = func(_, system string) (string, bool) {
		return map[string]string{"forum": "p", "blog": "q"}[system], true
	}
	return s
}

const okAnswer = `{"label":"ok","evidence":[]}`

// script fails some items at their first turn, in every way that is retried.
func (s *lieStory) script(it fake.Item) []fake.Line {
	s.turns[it.Text]++
	first := s.turns[it.Text] == 1
	answer := func() fake.Line { return fake.Answered(it.CustomID, []byte(okAnswer)) }
	switch {
	case strings.Contains(it.Text, " l1/") && first:
		return []fake.Line{fake.Failed(it.CustomID, batch.ItemFailed, "server_error")}
	case strings.Contains(it.Text, " l2/") && first:
		return []fake.Line{} // missing
	case strings.Contains(it.Text, " l3/") && first:
		return []fake.Line{fake.Failed(it.CustomID, batch.Expired, "batch_expired")}
	case strings.Contains(it.Text, " l4/"):
		return []fake.Line{fake.Failed(it.CustomID, batch.Refused, "")}
	case strings.Contains(it.Text, " l5/"):
		return []fake.Line{answer(), answer()} // twice the same
	case strings.Contains(it.Text, " l6/"):
		return []fake.Line{answer(), fake.Answered(it.CustomID, []byte(`{"label":"spam","evidence":[]}`))} // a conflict
	}
	return nil
}

// create refuses the second job that is asked for, four times.
func (s *lieStory) create(c batch.Creation) (bool, error) {
	if c.Metadata["rc_probe"] != "" {
		return true, nil
	}
	if s.fake.Calls(fake.OpCreate) == 2 {
		s.hard = c.Metadata["rc_job"]
	}
	if c.Metadata["rc_job"] == s.hard && s.fake.Calls(fake.OpCreate) <= 5 {
		return false, &batch.Error{Op: "create", Kind: batch.RateLimited, HTTPStatus: 429}
	}
	return true, nil
}

func (s *lieStory) status(string) (bool, error) {
	switch s.fake.Calls(fake.OpStatus) {
	case 1, 4:
		return false, &batch.Error{Op: "status", Kind: batch.Temporary, HTTPStatus: 503}
	case 2, 5:
		return false, &batch.Error{Op: "status", Kind: batch.NotFound, HTTPStatus: 404}
	}
	return true, nil
}

// download loses the first file that is asked for, and once gives an empty one
// of another job.
func (s *lieStory) download(fileID string) (bool, error) {
	if s.lost == "" {
		s.lost = fileID
	}
	switch {
	case fileID == s.lost:
		return false, &batch.Error{Op: "download", Kind: batch.NotFound, HTTPStatus: 404}
	case s.short == "" && s.jobOf(fileID) != s.jobOf(s.lost):
		s.short = fileID
		return false, nil
	}
	return true, nil
}

// jobOf is the job that a result file is of.
func (s *lieStory) jobOf(fileID string) string {
	for _, f := range s.fake.Files() {
		if f.ID == fileID {
			return strings.TrimSuffix(strings.TrimSuffix(f.Name, "-output.jsonl"), "-error.jsonl")
		}
	}
	return ""
}

func (s *lieStory) note(what string, err error) {
	if err != nil {
		s.errors = append(s.errors, what+": "+err.Error())
	}
}

// again does something as a person does it: again after an error, until it is
// done or the ledger says that it was done already.
func (s *lieStory) again(what string, do func() error) {
	s.t.Helper()
	var err error
	for range 3 {
		if err = do(); err == nil || errors.Is(err, reconcile.ErrNotFound) || errors.Is(err, reconcile.ErrRefused) || errors.Is(err, reconcile.ErrMoved) {
			return
		}
		s.note(what, err)
	}
	s.t.Fatalf("%s never ends: %v", what, err)
}

// intake takes reports in, one by one: in a chunk their order would be that of
// random ids, and no two stories would be alike.
func (s *lieStory) intake(system string, revision int64, from, to int) {
	s.t.Helper()
	rules := func(string, string) (reconcile.SourceRules, bool) { return reconcile.SourceRules{}, true }
	for i := from; i < to; i++ {
		text := reportText(fmt.Sprint("l", i), revision) + " " + system
		if i == tooLarge {
			text += strings.Repeat(" long", 300)
		}
		line := fmt.Sprintf(`{"tenant":"acme","system":%q,"id":"%s-%d","revision":%d,"text":%q}`+"\n", system, system, i, revision, text)
		s.Clock.Advance(time.Millisecond)
		s.again("intake", func() error {
			in, err := source.NewReader(strings.NewReader(line), source.JSONL, source.DefaultMapping(), source.Limits{})
			if err != nil {
				s.t.Fatal(err)
			}
			_, err = s.r.Intake(s.t.Context(), in, rules, func(reconcile.Outcome) {})
			return err
		})
	}
}

// passes runs some passes once. One that fails is run again by the caller, like
// that of a process that was started anew.
func (s *lieStory) passes(names ...reconcile.PassName) (again bool) {
	for _, p := range names {
		_, err := s.r.Run(s.t.Context(), p)
		s.note(string(p), err)
		if errors.Is(err, reconcile.ErrHeld) { // a lease of which nobody knows expires by itself
			s.Clock.Advance(s.r.LeaseFor)
		}
		again = again || err != nil
	}
	return again
}

// lieStep is the least time between two rounds, so that a story has few of them.
const lieStep = 30 * time.Minute

// settle runs the passes until nothing is due, moving the clock, and then calls
// the roll.
func (s *lieStory) settle() {
	s.t.Helper()
	moving := []reconcile.PassName{reconcile.PassCollect, reconcile.PassResolve, reconcile.PassSubmit, reconcile.PassPoll, reconcile.PassConsume, reconcile.PassApply}
	for range 100 {
		again := s.passes(moving...)
		var load reconcile.Workload
		s.again("workload", func() (err error) {
			load, err = s.Workload(s.t.Context(), s.Clock.Now(), reconcile.DefaultSettings().UnsentMargin)
			return err
		})
		switch {
		case load.Next != nil:
			s.Clock.Advance(max(load.Next.Sub(s.Clock.Now()), lieStep))
		case load.Open > 0:
			s.resolve()
		case again || s.passes(reconcile.PassCheck):
		default:
			return
		}
		if s.fake.Calls(fake.OpStatus) >= 3 { // at first the jobs go on
			s.fake.EndAll()
		}
	}
	s.t.Errorf("nothing settles: %v", s.errors)
}

// resolve plays the operator: it looks an open submission up in the
// processor's own books, and says what is there.
func (s *lieStory) resolve() {
	s.t.Helper()
	s.Clock.Advance(time.Hour)
	ctx, now := s.t.Context(), s.Clock.Now()
	for _, id := range s.rows("SELECT submission_id FROM submissions WHERE outcome IS NULL") {
		var made string
		for _, j := range s.fake.Jobs() {
			if j.Metadata["rc_submission"] == id {
				made = j.ID
			}
		}
		s.again("resolve "+id, func() error {
			if made != "" {
				return s.RecordAccepted(ctx, now, reconcile.Acceptance{SubmissionID: id, ProviderJobID: made, Status: "validating", NextPoll: now})
			}
			return s.RecordRejected(ctx, now, reconcile.Rejection{SubmissionID: id, Evidence: "not listed", NextSubmit: now})
		})
	}
}

// dieAfterIntent leaves what a process leaves that dies behind an intent.
func (s *lieStory) dieAfterIntent() {
	s.t.Helper()
	ctx, now := s.t.Context(), s.Clock.Now()
	var jobs []reconcile.Job
	s.again("ready jobs", func() (err error) { jobs, err = s.ReadyJobs(ctx, now, 1); return err })
	if len(jobs) == 0 {
		s.t.Fatalf("no job is ready; %v", s.errors)
	}
	_, err := s.CommitIntent(ctx, now, reconcile.Intent{
		SubmissionID: "died", JobID: jobs[0].ID, Account: s.fake.Account(), SendBy: now.Add(time.Minute), Manifest: func() hash.Hash { return s.Keys.NewMAC(keyring.Manifest) },
	})
	s.note("the intent of a process that died", err)
}

// plan makes jobs of what is there. A lie may keep one pass from it.
func (s *lieStory) plan() {
	for range 2 {
		s.passes(reconcile.PassCollect)
	}
}

// misconfigured submits while the account is not configured, so that a job is
// put off and a person is told.
func (s *lieStory) misconfigured() {
	accounts := s.r.Accounts
	s.r.Accounts = nil
	for range 2 { // as in plan
		s.passes(reconcile.PassSubmit)
	}
	s.r.Accounts = accounts
}

// brake pauses dispatch and lifts the pause.
func (s *lieStory) brake() {
	s.t.Helper()
	ctx := s.t.Context()
	s.again("pause", func() error {
		_, err := s.Pause(ctx, s.Clock.Now(), reconcile.Pause{Scope: reconcile.ScopeAll, Stage: reconcile.PauseDispatch, Actor: "a person", Reason: "a drill"})
		return err
	})
	s.passes(reconcile.PassSubmit)
	s.again("resume", func() error {
		return s.Resume(ctx, s.Clock.Now(), reconcile.ScopeAll, reconcile.PauseDispatch, "a person", "the drill is over")
	})
}

// route gives a held report to a person by hand.
func (s *lieStory) route() {
	s.t.Helper()
	s.again("route", func() error {
		return s.r.Route(s.t.Context(), []string{fmt.Sprint("blog-", routed)}, "a person", "a drill", func(a reconcile.RouteAnswer) {
			if !a.Given {
				s.t.Errorf("%s is not routed: %s", a.ID, a.Says)
			}
		})
	})
}

// scheduled makes a schedule known and runs it twice, as the daemon does: whatever
// a commit says, each of its slots is done in the end.
func (s *lieStory) scheduled() {
	s.t.Helper()
	hourly := scheduled(s.t.(*testing.T), "hourly", "@hourly", reconcile.PassApply)
	s.again("put schedule", func() error {
		_, err := s.r.PutSchedule(s.t.Context(), hourly)
		return err
	})
	for range 2 {
		s.Clock.Advance(time.Hour)
		for range 8 { // what is held is tried again after a growing wait
			_, err := s.r.RunDue(s.t.Context(), hourly)
			s.note("hourly", err)
			s.Clock.Advance(s.r.LeaseFor) // a lease of which nobody knows expires by itself
		}
	}
	s.want("slots", "SELECT outcome FROM slots WHERE finished_us IS NOT NULL", "done", "done")
}

// damage puts another report's text in the place of one that is held.
func (s *lieStory) damage() {
	s.change("UPDATE texts SET encrypted = (SELECT o.encrypted FROM texts o WHERE o.report_id = $1) WHERE report_id = $2",
		s.Keys.ReportID("acme", "blog", "blog-0"), s.Keys.ReportID("acme", "blog", fmt.Sprint("blog-", damaged)))
}

// approve puts the policy of the held reports in force.
func (s *lieStory) approve() {
	s.t.Helper()
	v, err := reconcile.NewPolicyVersion(sqltest.Policy("q", 1), s.Keys)
	if err != nil {
		s.t.Fatal(err)
	}
	s.again("approve", func() error { return s.ApprovePolicy(s.t.Context(), s.Clock.Now(), v, "a person", "agreed", "none") })
}

// resolveFindings answers whatever a person was told of.
func (s *lieStory) resolveFindings() {
	s.t.Helper()
	var open []reconcile.Finding
	s.again("open events", func() (err error) { open, err = s.OpenEvents(s.t.Context(), 100); return err })
	for _, f := range open {
		s.again("resolve finding", func() error { return s.ResolveFinding(s.t.Context(), s.Clock.Now(), f.ID, "a person", "seen") })
	}
}

func (s *lieStory) run() {
	s.t.Helper()
	s.l.armed = true
	s.scheduled()
	s.intake("forum", 1, 0, lieJob)
	s.plan()
	s.intake("forum", 1, lieJob, forumReports)
	s.intake("blog", 1, 0, heldReports)
	s.plan()
	s.brake()
	s.misconfigured()
	s.resolveFindings()
	s.Clock.Advance(time.Hour)
	s.dieAfterIntent()
	s.settle()
	s.route()
	s.damage()
	s.approve()
	s.settle()
	s.intake("forum", 2, 0, 2) // two edits
	s.settle()
	s.resolveFindings()
	s.l.armed = false
	s.verify()
}

// retried are the outcomes behind which a work may be sent again.
const retried = "'failed','missing','expired','cancelled','not_run','truncated','invalid','denied','out_of_credit'"

// verify holds that every report has its record, that nothing was sent twice,
// and that a person was told of what a person must know.
func (s *lieStory) verify() {
	s.t.Helper()
	var report reconcile.CheckReport
	s.again("check", func() (err error) { report, err = s.r.RunCheck(s.t.Context()); return err })
	if report.Broken() != 0 || report.Roll.Accepted != lieReports || report.Roll.Authoritative != lieReports || report.Roll.Records != lieReports {
		s.t.Errorf("the roll: %+v, %d broken; %v", report.Roll, report.Broken(), s.errors)
	}
	for _, reason := range []reconcile.Reason{reconcile.Routed, reconcile.TextUnreadable} {
		if n := report.Roll.Unclassified[reason]; n != 1 {
			s.t.Errorf("%d records are %s; %v", n, reason, s.errors)
		}
	}
	bySubmission, byWork := map[string]int{}, map[string][]string{}
	for _, j := range s.fake.Jobs() {
		if bySubmission[j.Metadata["rc_submission"]]++; bySubmission[j.Metadata["rc_submission"]] > 1 {
			s.t.Errorf("submission %s made several jobs", j.Metadata["rc_submission"])
		}
		for _, c := range j.CustomIDs {
			work, _, _ := strings.Cut(c, "-")
			byWork[work] = append(byWork[work], j.Metadata["rc_job"])
		}
	}
	if len(byWork) != lieReports-3+2 { // all but one each that is too large, routed and damaged, and the edits
		s.t.Errorf("the processor saw %d works", len(byWork))
	}
	for work, jobs := range byWork {
		for _, job := range jobs[:len(jobs)-1] {
			if got := s.rows("SELECT outcome FROM items WHERE work_id = $1 AND job_id = $2 AND outcome IN ("+retried+")", work, job); len(got) != 1 {
				s.t.Errorf("work %s was sent again although its item of job %s did not fail; %v", work, job, s.errors)
			}
		}
	}
	// Whatever lied, each item that was answered is charged once: 100 tokens in and 10 out.
	if got := s.rows(`SELECT s.submission_id FROM submissions s WHERE s.outcome = 'accepted' AND s.cost_micros <> 120 *
		(SELECT COUNT(*) FROM items i WHERE i.job_id = s.job_id AND i.outcome IN ('succeeded', 'conflict') AND s.currency IS NOT NULL)`); len(got) > 0 {
		s.t.Errorf("submissions %v are charged with something else than their items cost; %v", got, s.errors)
	}
	for _, name := range []string{"result_conflict", "results_lost", "boundary_mismatch", "text_unreadable"} {
		if got := s.rows("SELECT DISTINCT name FROM findings WHERE name = $1", name); len(got) == 0 {
			s.t.Errorf("nobody was told of %s; %v", name, s.errors)
		}
	}
}
