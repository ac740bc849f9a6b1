package sql_test

import (
	"fmt"
	"testing"
	"time"

	"rollcall/reconcile"
)

// pause pauses dispatch, and shows what it lists in short.
func (p *planner) pause(scope string) (reconcile.Paused, string) {
	p.t.Helper()
	paused, err := p.Pause(p.t.Context(), p.Clock.Now(), reconcile.Pause{Scope: scope, Stage: reconcile.PauseDispatch, Actor: "anna", Reason: "r"})
	if err != nil {
		p.t.Fatal(err)
	}
	short := fmt.Sprint(paused.OutTotal)
	for _, s := range paused.Out {
		short += " " + s.SubmissionID
	}
	short += fmt.Sprint("; ", paused.AtProviderTotal)
	for _, j := range paused.AtProvider {
		short += " " + j.JobID
	}
	return paused, short
}

func TestPauseListsWhatIsOutInItsScope(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.insert("boundaries", row{"boundary_id": "b-other", "account": "other"})
		p.insert("policy_versions", row{"policy_id": "q", "boundary_id": "b-other"})
		at := func(policy string, set row) row {
			set["policy_id"], set["boundary_id"] = policy, map[string]string{"p": p.policy.BoundaryID, "q": "b-other"}[policy]
			return set
		}
		for i, policy := range []string{"p", "q"} {
			p.job("sending-"+policy, "ready", at(policy, row{}))
			p.insert("submissions", row{"submission_id": "s-" + policy, "job_id": "sending-" + policy, "intent_us": startUS - int64(i), "input_file_id": "file-" + policy})
			p.job("sent-"+policy, "submitted", at(policy, row{"submitted_us": startUS + int64(i), "item_count": 7}))
			p.job("ready-"+policy, "ready", at(policy, row{}))
			p.job("ended-"+policy, "ended", at(policy, row{}))
		}
		for scope, want := range map[string]string{
			"all": "2 s-q s-p; 2 sent-p sent-q", "account:main": "1 s-p; 1 sent-p", "account:other": "1 s-q; 1 sent-q",
			"policy:p": "1 s-p; 1 sent-p", "policy:q": "1 s-q; 1 sent-q", "account:elsewhere": "0; 0", "policy:other": "0; 0",
		} {
			paused, got := p.pause(scope)
			if got != want || paused.Already || paused.Scope != scope || paused.Actor != "anna" {
				t.Errorf("%s: %q, want %q: %+v", scope, got, want, paused)
			}
		}
		paused, _ := p.pause("policy:q")
		out := reconcile.UncertainView{SubmissionID: "s-q", JobID: "sending-q", IntentAt: p.Clock.Now().Add(-time.Microsecond), SendBy: p.Clock.Now().Add(15 * time.Minute), InputFileID: "file-q"}
		sent := reconcile.SentJob{JobID: "sent-q", ProviderJobID: "prov-sent-q", Items: 7, SubmittedAt: p.Clock.Now().Add(time.Microsecond)}
		if !paused.Already || len(paused.Out) != 1 || paused.Out[0] != out || len(paused.AtProvider) != 1 || paused.AtProvider[0] != sent {
			t.Errorf("%+v, want %+v and %+v", paused, out, sent)
		}
		other, err := p.Pause(t.Context(), p.Clock.Now(), reconcile.Pause{Scope: "all", Stage: reconcile.PausePoll, Actor: "anna", Reason: "r"})
		if err != nil || other.Out == nil || len(other.Out)+len(other.AtProvider) > 0 || other.OutTotal+other.AtProviderTotal > 0 {
			t.Errorf("a pause of poll lists %+v, %v", other, err)
		}
	})
}

func TestPauseListsTheOldestOfVeryMany(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		for i := range 12 {
			p.job(fmt.Sprint("sent-", i), "submitted", row{"boundary_id": p.policy.BoundaryID, "submitted_us": startUS - int64(i)})
		}
		if _, got := p.pause("all"); got != "0; 12 sent-11 sent-10 sent-9 sent-8 sent-7 sent-6 sent-5 sent-4 sent-3 sent-2" {
			t.Errorf("listed: %s", got)
		}
	})
}

// Pausing again says whose pause it is, and is no second entry in the audit.
func TestPauseAgainTellsThePauseThatStands(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		began := p.Clock.Now()
		first, _ := p.pause("all")
		p.Clock.Advance(time.Hour)
		again, err := p.Pause(t.Context(), p.Clock.Now(), reconcile.Pause{Scope: "all", Stage: reconcile.PauseDispatch, Actor: "ben", Reason: "another"})
		if err != nil || first.Already || !again.Already || again.Pause != first.Pause || again.Actor != "anna" || !again.SetAt.Equal(began) {
			t.Errorf("first %+v, again %+v, %v", first, again, err)
		}
		if got := p.strings("SELECT kind FROM audit_events WHERE kind = 'pause'"); len(got) != 1 {
			t.Errorf("%d pauses in the audit", len(got))
		}
		if err := p.Resume(t.Context(), p.Clock.Now(), "all", reconcile.PauseDispatch, "anna", "r"); err != nil {
			t.Fatal(err)
		}
		if third, _ := p.pause("all"); third.Already || third.ID == first.ID {
			t.Errorf("after a resume: %+v", third)
		}
	})
}

// An intent that passed the gate before the pause is waited for, and listed.
func TestPauseWaitsForAnIntentAndListsIt(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		if !p.postgres {
			t.Skip("SQLite has one writer at a time")
		}
		p.job("j", "ready", row{"boundary_id": p.policy.BoundaryID})
		intent := p.db.MustBegin()
		intent.MustExec("SELECT fence FROM leases WHERE name = 'gate:dispatch' FOR SHARE")
		done := make(chan string, 1)
		go func() {
			paused, err := p.Pause(t.Context(), p.Clock.Now(), reconcile.Pause{Scope: "all", Stage: reconcile.PauseDispatch, Actor: "a", Reason: "r"})
			done <- fmt.Sprintf("%d submissions, %v", len(paused.Out), err)
		}()
		for waiting := 0; waiting == 0; { // until the pause is at the gate
			if err := intent.Get(&waiting, "SELECT COUNT(*) FROM pg_locks WHERE NOT granted"); err != nil {
				t.Fatal(err)
			}
		}
		intent.MustExec("INSERT INTO submissions (submission_id, job_id, attempt, account, fence, manifest_mac, line_count, intent_us, send_deadline_us) " +
			"VALUES ('s', 'j', 1, 'fp', 1, 'm', 1, 1, 1)")
		if err := intent.Commit(); err != nil {
			t.Fatal(err)
		}
		if got := <-done; got != "1 submissions, <nil>" {
			t.Errorf("listed %s", got)
		}
	})
}
