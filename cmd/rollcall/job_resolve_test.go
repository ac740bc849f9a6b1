package main

import (
	"fmt"
	"strings"
	"testing"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// lostJob leaves an uncertain submission behind: the create failed as a fault
// of the sandbox says, and its send deadline has passed.
func (o *operator) lostJob(fault string) (jobID string) {
	o.t.Helper()
	o.resolveSoon()
	o.must(exitDone, "intake", o.file("r.jsonl", markedReports(3)))
	o.must(exitDone, "run", "collect")
	var view reconcile.Overview
	until(o.t, "a submission", func() bool {
		// A busy machine may let the send deadline pass before the create; then
		// nothing was asked for, and the job is sent again.
		o.misbehave(fault)
		o.run(nil, "run", "submit")
		o.misbehave()
		view = asJSON[reconcile.Overview](o, exitAny, "status")
		return len(view.Open)+len(view.Uncertain) > 0
	})
	until(o.t, "the send deadline", func() bool {
		view = asJSON[reconcile.Overview](o, exitAny, "status")
		return len(view.Uncertain) > 0
	})
	return view.Uncertain[0].JobID
}

// wantSaid fails unless each of the words is in what was printed.
func (r result) wantSaid(t *testing.T, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(r.out+r.err, w) {
			t.Errorf("%q is not in:\n%s%s", w, r.out, r.err)
		}
	}
}

// wantRoll runs the passes to the end and compares how often each text was sent.
func (o *operator) wantRoll(authoritative int64, jobs int) {
	o.t.Helper()
	o.run(nil, "run", "--until-idle")
	if c := asJSON[reconcile.CheckReport](o, exitAny, "check"); c.Roll.Authoritative != authoritative {
		o.t.Errorf("%d authoritative records, want %d", c.Roll.Authoritative, authoritative)
	}
	b, err := o.box.Books()
	if err != nil || b.AcceptedJobs != jobs || b.Works.InMoreThanOneJob != 0 { // a landmark is never accepted
		o.t.Errorf("%d jobs, %d works in more than one, %v", b.AcceptedJobs, b.Works.InMoreThanOneJob, err)
	}
	o.noMarker()
}

func TestF15_OperatorFindsTheJob(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			job := o.lostJob("drop_after:op=create")
			b, err := o.box.Books()
			if err != nil || len(b.Jobs) != 1 {
				t.Fatalf("%+v, %v", b.Jobs, err)
			}
			provider := b.Jobs[0].ID
			r := o.must(exitDecision, "job", "resolve", job)
			r.wantSaid(t, provider, "attempt 1, 3 lines", "the account's list shows 1 job", "--found "+provider, "its 3 texts are sent again", "nothing was changed")
			v := asJSON[resolvedView](o, exitDecision, "job", "resolve", job)
			if len(v.Evidence.Live.Matching) != 1 || v.Evidence.Live.Matching[0].ProviderJobID != provider || v.Recorded != "" {
				t.Errorf("evidence %+v", v.Evidence)
			}
			// Neither a job that is not there nor the contrary is believed.
			o.must(exitUsage, "job", "resolve", job, "--found", "batch_nobody", "--reason", "r").wantSaid(t, "has no job batch_nobody")
			o.must(exitUsage, "job", "resolve", job, "--absent", "--yes-send-again", "--reason", "r").wantSaid(t, "has the job of submission")
			o.must(exitDone, "job", "resolve", job, "--found", provider, "--by", "anna", "--reason", "seen in the dashboard").wantSaid(t, "recorded: job "+job+" is provider job "+provider)
			o.must(exitDone, "job", "resolve", job, "--found", provider, "--reason", "again").wantSaid(t, "as before")
			o.must(exitDone, "job", "show", job).wantSaid(t, "accepted", "operator anna: seen in the dashboard")
			o.must(exitDone, "job", "resolve", job).wantSaid(t, "nothing to decide")
			o.wantRoll(3, 1)
		})
	}
}

func TestF15_OperatorSaysThatThereIsNoJob(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			job := o.lostJob("drop_before:op=create")
			o.must(exitUsage, "job", "resolve", job, "--absent", "--reason", "r").wantSaid(t, "its 3 texts are sent again", "--yes-send-again")
			absent := []string{"job", "resolve", job, "--absent", "--yes-send-again", "--by", "anna", "--reason", "support says so"}
			o.misbehave("listing_cut")
			for strings.Contains(o.must(exitUsage, absent...).err, "may be on its way") { // a list proves nothing yet
			}
			o.must(exitUsage, absent...).wantSaid(t, "the list cannot prove that no job", "--give-up")
			o.misbehave()
			v := asJSON[resolvedView](o, exitDone, absent...)
			if v.Recorded != "absent" || v.Evidence == nil {
				t.Errorf("recorded %+v", v)
			}
			h := asJSON[reconcile.JobHistory](o, exitDone, "job", "show", job)
			if s := h.Submissions[0]; s.Outcome != "abandoned" || s.Evidence != "operator anna: support says so" || s.FencedAt == nil {
				t.Errorf("submission %+v", s)
			}
			o.edit("rollcall.yaml", "send_within: 300ms", "send_within: 30s")
			o.wantRoll(3, 1)
		})
	}
}

func TestF15_OperatorGivesUp(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			job := o.lostJob("drop_after:op=create")
			o.misbehave("bad_gateway:op=any") // the provider cannot be asked
			o.must(exitDecision, "job", "resolve", job).wantSaid(t, "it could not be read: list jobs: temporary")
			o.must(exitDecision, "job", "resolve", job, "--offline").wantSaid(t, "not asked")
			if r := o.must(exitFailed, "job", "resolve", job, "--absent", "--yes-send-again", "--reason", "r"); !strings.Contains(r.err, "nothing was recorded") {
				t.Errorf("%s", r.err)
			}
			o.must(exitDone, "job", "resolve", job, "--give-up", "--offline", "--reason", "nobody can tell").wantSaid(t, "3 reports are given to a person")
			h := asJSON[[]reconcile.ReportHistory](o, exitDone, "explain", "m-0")
			if r := h[0].Works[0].Record; r == nil || r.Reason != "routed" || !r.Authoritative {
				t.Errorf("record %+v", r)
			}
			if s := asJSON[reconcile.JobHistory](o, exitDone, "job", "show", job).Submissions[0]; s.Outcome != reconcile.SubmissionUncertain {
				t.Errorf("submission %+v", s)
			}
			o.misbehave()
			o.wantRoll(3, 1)
		})
	}
}

func TestJobResolveWantsOneWholeVerdict(t *testing.T) {
	o := newOperator(t, "sqlite")
	for _, tc := range []struct{ args, says string }{
		{"--found x --absent --reason r", "exclude"},
		{"--found x --give-up --reason r", "exclude"},
		{"--absent --yes-send-again", "--reason is missing"},
		{"--found x", "--reason is missing"},
		{"--give-up", "--reason is missing"},
		{"--give-up --yes-send-again --reason r", "goes with --absent"},
		{"--found x --offline --reason r", "goes with --give-up only"},
	} {
		o.must(exitUsage, append([]string{"job", "resolve", "JOB"}, strings.Fields(tc.args)...)...).wantSaid(t, tc.says)
	}
	o.must(exitFailed, "job", "resolve", "JOB").wantSaid(t, "JOB")
	o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
	o.must(exitDone, "run", "collect")
	job := asJSON[[]reconcile.JobView](o, exitDone, "jobs")[0].JobID
	o.must(exitDone, "job", "resolve", job).wantSaid(t, "nothing to decide")
	for _, verdict := range []string{"--found x", "--absent --yes-send-again"} {
		o.must(exitUsage, append([]string{"job", "resolve", job, "--reason", "r"}, strings.Fields(verdict)...)...).wantSaid(t, fmt.Sprintf("job %s was never sent", job))
	}
	o.must(exitFailed, "job", "resolve", job, "--give-up", "--reason", "r").wantSaid(t, "not found")
}
