package sql_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/reconcile"
)

// readyJob makes a ready job "j" with the works.
func (p *planner) readyJob(works ...string) {
	p.t.Helper()
	for _, w := range works {
		p.pending(w, nil)
	}
	if _, err := p.add("j", true, works...); err != nil {
		p.t.Fatal(err)
	}
}

// tape is a digest that also keeps what it was fed.
type tape struct {
	hash.Hash
	fed strings.Builder
}

func (h *tape) Write(b []byte) (int, error) { h.fed.Write(b); return h.Hash.Write(b) }

func (p *planner) intent(id string) (reconcile.Submission, string, error) {
	h := &tape{Hash: sha256.New()}
	sub, err := p.CommitIntent(context.WithoutCancel(p.t.Context()), p.Clock.Now(), reconcile.Intent{SubmissionID: id, JobID: "j",
		Account: batch.Account{Name: "main", Fingerprint: "fp"}, SendBy: p.Clock.Now().Add(time.Minute), Manifest: func() hash.Hash { return h }})
	return sub, h.fed.String(), err
}

func (p *planner) mustIntent(id string) {
	p.t.Helper()
	if _, _, err := p.intent(id); err != nil {
		p.t.Fatal(err)
	}
}

func TestIntentFeedsTheManifestInOrderOfLines(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.readyJob("c", "a", "d", "b")
		p.exec("UPDATE works SET disposition = 'superseded' WHERE work_id = 'a'")
		sub, fed, err := p.intent("s1")
		if err != nil {
			t.Fatal(err)
		}
		if fed != "c\n1\nd\n1\nb\n1\n" {
			t.Errorf("manifest %q", fed)
		}
		want := reconcile.Submission{ID: "s1", JobID: "j", Attempt: 1, Lines: 3, IntentAt: p.Clock.Now(), SendBy: p.Clock.Now().Add(time.Minute),
			Manifest: fmt.Sprintf("%x", sha256.Sum256([]byte(fed)))}
		if sub != want {
			t.Errorf("submission %+v, want %+v", sub, want)
		}
		if got := p.strings("SELECT work_id || COALESCE(CAST(line AS TEXT), ' ' || outcome) FROM items ORDER BY position"); fmt.Sprint(got) != "[c1 a not_sent d2 b3]" {
			t.Errorf("items %v", got)
		}
		if got := p.strings("SELECT stage FROM works WHERE work_id = 'a'"); got[0] != "pending" {
			t.Errorf("the superseded work is %v", got)
		}
	})
}

// F47: members whose works a recovery gave to a newer job are not sent by the older
// one, and do not hold up the others.
func TestF47_OtherMembersGoOnWhereSomeWereTakenOver(t *testing.T) {
	for name, taken := range map[string]string{"first": "a", "in the middle": "b", "last": "c"} {
		t.Run(name, func(t *testing.T) {
			eachPlanner(t, func(t *testing.T, p *planner) {
				p.readyJob("a", "b", "c")
				p.mustIntent("s1") // and nobody knows what became of it
				p.Clock.Advance(time.Hour)
				adopted, err := p.AdoptJob(t.Context(), p.Clock.Now(), reconcile.Adoption{Account: "fp", ProviderJobID: "newer", Status: "completed",
					Created: p.Clock.Now(), JobID: "other", SubmissionID: "s-newer", Manifest: "m", FileID: "f", Works: []string{taken}, FromOlder: true})
				if err != nil || adopted.Members != 1 {
					t.Fatalf("%+v, %v", adopted, err)
				}
				if err := p.RecordAbsent(t.Context(), p.Clock.Now(), reconcile.Absence{SubmissionID: "s1", Evidence: "in no list", NextSubmit: p.Clock.Now()}); err != nil {
					t.Fatal(err)
				}
				_, fed, err := p.intent("s2")
				if want := strings.ReplaceAll("a\n1\nb\n1\nc\n1\n", taken+"\n1\n", ""); err != nil || fed != want {
					t.Errorf("manifest %q, %v", fed, err)
				}
				if got := p.strings("SELECT CAST(line AS TEXT) FROM items WHERE job_id = 'j' AND line IS NOT NULL ORDER BY line"); fmt.Sprint(got) != "[1 2]" {
					t.Errorf("lines %v", got)
				}
			})
		})
	}
}

// A report that a person has got meanwhile is not sent, and its work stays as it is.
func TestF12_OverdueMemberIsNotSent(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.readyJob("a", "b")
		p.exec("UPDATE works SET stage = 'extracted', reason = 'overdue' WHERE work_id = 'a'")
		p.mustIntent("s1")
		if got := p.strings("SELECT w.stage || ' ' || COALESCE(i.outcome, 'open') FROM works w JOIN items i ON i.work_id = w.work_id ORDER BY w.work_id"); fmt.Sprint(got) != "[extracted not_sent collected open]" {
			t.Errorf("works %v", got)
		}
	})
}

func TestLinesAreNumberedAgainWhenMembersAreGone(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.readyJob("a", "b", "c")
		p.mustIntent("s1")
		reject := reconcile.Rejection{SubmissionID: "s1", Evidence: "create: rejected", NextSubmit: p.Clock.Now()}
		for range 2 { // again changes nothing
			if err := p.RecordRejected(t.Context(), p.Clock.Now(), reject); err != nil {
				t.Fatal(err)
			}
		}
		p.exec("UPDATE works SET disposition = 'withdrawn' WHERE work_id = 'a'")
		_, fed, err := p.intent("s2")
		if err != nil || fed != "b\n1\nc\n1\n" {
			t.Fatalf("manifest %q, %v", fed, err)
		}
		if err := p.RecordRejected(t.Context(), p.Clock.Now(), reject); err != nil {
			t.Errorf("the first refusal once more: %v", err)
		}
		if got := p.strings("SELECT submission_id || ' ' || CAST(attempt AS TEXT) || ' ' || COALESCE(outcome, 'open') FROM submissions ORDER BY attempt"); fmt.Sprint(got) != "[s1 1 rejected s2 2 open]" {
			t.Errorf("submissions %v", got)
		}
	})
}

// F12: on PostgreSQL an intent waits for an edit that is being accepted, and
// then sees it.
func TestF12_IntentWaitsForAnEditThatIsBeingAccepted(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		if !p.postgres {
			t.Skip("SQLite has one writer at a time")
		}
		p.readyJob("a", "b")
		edit := p.db.MustBegin()
		edit.MustExec("SELECT 1 FROM reports WHERE report_id = 'r-a' FOR NO KEY UPDATE")
		type answer struct {
			fed string
			err error
		}
		done := make(chan answer, 1)
		go func() {
			_, fed, err := p.intent("s1")
			done <- answer{fed, err}
		}()
		for waiting := 0; waiting == 0; { // until the intent is at the lock
			if err := edit.Get(&waiting, "SELECT COUNT(*) FROM pg_locks WHERE NOT granted"); err != nil {
				t.Fatal(err)
			}
		}
		edit.MustExec("UPDATE works SET disposition = 'superseded' WHERE work_id = 'a'")
		if err := edit.Commit(); err != nil {
			t.Fatal(err)
		}
		if got := <-done; got.err != nil || got.fed != "b\n1\n" {
			t.Errorf("manifest %q, %v", got.fed, got.err)
		}
	})
}

// Two senders of one job, at the same time: one intent.
func TestOneIntentOfManySenders(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.readyJob("a", "b", "c")
		errs := make(chan error, 8)
		for i := range cap(errs) {
			go func() {
				_, _, err := p.intent(fmt.Sprint("s", i))
				errs <- err
			}()
		}
		won := 0
		for range cap(errs) {
			if err := <-errs; err == nil {
				won++
			} else if !errors.Is(err, reconcile.ErrMoved) {
				t.Error(err)
			}
		}
		if won != 1 {
			t.Errorf("%d intents", won)
		}
	})
}

func TestReadyJobsLeavesOutWhatMayNotBeSent(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		b := row{"boundary_id": p.policy.BoundaryID}
		with := func(set row) row {
			for k, v := range b {
				set[k] = v
			}
			return set
		}
		p.job("later", "ready", with(row{"next_submit_us": startUS + 1}))
		p.job("second", "ready", with(row{"next_submit_us": startUS - 1}))
		p.job("first", "ready", with(row{"next_submit_us": startUS - 2}))
		p.job("uncertain", "ready", with(row{"next_submit_us": startUS - 3}))
		p.insert("submissions", row{"submission_id": "open", "job_id": "uncertain"})
		p.job("sent", "submitted", with(row{}))
		p.job("planning", "planning", with(row{}))
		ready := func(limit int) (ids []string) {
			jobs, err := p.ReadyJobs(t.Context(), p.Clock.Now(), limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range jobs {
				ids = append(ids, j.ID)
			}
			return ids
		}
		if got := ready(9); fmt.Sprint(got) != "[first second]" {
			t.Errorf("ready %v", got)
		}
		if got := ready(1); fmt.Sprint(got) != "[first]" {
			t.Errorf("one of them: %v", got)
		}
		p.insert("pauses", row{"pause_id": "1", "scope": "account:other"})
		p.insert("pauses", row{"pause_id": "2", "scope": "account:main", "stage": "poll"})
		if got := ready(9); len(got) != 2 {
			t.Errorf("with pauses of something else: %v", got)
		}
		p.insert("pauses", row{"pause_id": "3", "scope": "account:main"})
		if got := ready(9); len(got) > 0 {
			t.Errorf("paused: %v", got)
		}
	})
}

func TestRequestItemsInSmallPages(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		works := []string{"a", "b", "c", "d", "e"}
		p.readyJob(works...)
		p.mustIntent("s1")
		p.exec("UPDATE works SET content_bytes = $1 WHERE work_id IN ('b', 'c')", 3<<20) // each is over what a page holds
		var pages []int
		var lines []string
		for after := int64(0); ; {
			page, err := p.RequestItems(t.Context(), "j", after, 2)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			pages = append(pages, len(page))
			for _, it := range page {
				lines = append(lines, fmt.Sprint(it.Line, it.WorkID, it.ReportID, it.ContentMAC, it.Text.KeyID, len(it.Text.Bytes)))
				after = it.Line
			}
		}
		if fmt.Sprint(pages) != "[2 1 2]" {
			t.Errorf("pages of %v", pages)
		}
		if fmt.Sprint(lines) != "[1ar-am0k1 2br-bm0k1 3cr-cm0k1 4dr-dm0k1 5er-em0k1]" {
			t.Errorf("lines %v", lines)
		}
	})
}

func TestF23_RecordingTwice(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.readyJob("a")
		p.mustIntent("s1")
		ctx, now := t.Context(), p.Clock.Now()
		up := reconcile.Upload{SubmissionID: "s1", FileID: "f1", Bytes: 9, BodyMAC: "m"}
		for range 2 {
			if err := p.RecordUpload(ctx, up); err != nil {
				t.Fatal(err)
			}
		}
		up.FileID = "f2"
		if err := p.RecordUpload(ctx, up); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("another file for one submission: %v", err)
		}
		a := reconcile.Acceptance{SubmissionID: "s1", ProviderJobID: "batch_1", Status: "validating", NextPoll: now.Add(time.Minute), Expires: now.Add(24 * time.Hour)}
		for range 2 {
			if err := p.RecordAccepted(ctx, now, a); err != nil {
				t.Fatal(err)
			}
		}
		other := a
		other.ProviderJobID = "batch_2"
		err := p.RecordAccepted(ctx, now, other)
		if !errors.Is(err, reconcile.ErrMoved) || !strings.Contains(err.Error(), "batch_1") || !strings.Contains(err.Error(), "batch_2") {
			t.Errorf("another job for one submission: %v", err)
		}
		if err := p.RecordRejected(ctx, now, reconcile.Rejection{SubmissionID: "s1", Evidence: "e", NextSubmit: now}); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("a refusal of an accepted one: %v", err)
		}
		if err := p.RecordUpload(ctx, reconcile.Upload{SubmissionID: "s1", FileID: "f1"}); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("an upload for a closed one: %v", err)
		}
		for _, err := range []error{p.RecordAccepted(ctx, now, reconcile.Acceptance{SubmissionID: "nobody"}), p.RecordRejected(ctx, now, reconcile.Rejection{SubmissionID: "nobody"})} {
			if !errors.Is(err, reconcile.ErrNotFound) {
				t.Errorf("a submission that is not there: %v", err)
			}
		}
		if got := p.strings("SELECT state || ' ' || provider_job_id || ' ' || account FROM jobs"); fmt.Sprint(got) != "[submitted batch_1 fp]" {
			t.Errorf("job %v", got)
		}
	})
}

// F15: an intent whose sender died is closed once its deadline has passed, if no
// input file is noted; its sender, if it lives after all, is refused.
func TestF15_CloseUnsent(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		b := row{"boundary_id": p.policy.BoundaryID, "next_submit_us": startUS + hour}
		for _, id := range []string{"a", "b", "c", "uploaded", "young", "refused"} {
			b["job_id"] = id
			p.job(id, "ready", b)
		}
		p.job("sent", "submitted", row{"boundary_id": p.policy.BoundaryID})
		for _, id := range []string{"a", "b", "c"} {
			p.insert("submissions", row{"submission_id": "s-" + id, "job_id": id, "send_deadline_us": startUS})
		}
		p.insert("submissions", row{"submission_id": "s-uploaded", "job_id": "uploaded", "send_deadline_us": startUS, "input_file_id": "f", "body_mac": "mac"})
		p.insert("submissions", row{"submission_id": "s-young", "job_id": "young", "send_deadline_us": startUS + 1})
		p.insert("submissions", row{"submission_id": "s-refused", "job_id": "refused", "send_deadline_us": startUS, "outcome": "rejected", "evidence": "e", "closed_us": startUS})
		ctx, now, before := t.Context(), p.Clock.Now().Add(time.Minute), p.Clock.Now()
		for _, want := range []string{"[a b]", "[c]", "[]"} {
			got, err := p.CloseUnsent(ctx, now, before, "", "nothing was asked for", 2)
			slices.Sort(got)
			if err != nil || fmt.Sprint(got) != want {
				t.Errorf("closed %v, want %s: %v", got, want, err)
			}
		}
		got := p.strings("SELECT job_id || ' ' || COALESCE(outcome || ': ' || evidence || COALESCE(CAST(text_left AS TEXT), ''), 'open') FROM submissions ORDER BY job_id")
		want := "[a proven_absent: nothing was asked for b proven_absent: nothing was asked for c proven_absent: nothing was asked for " +
			"refused rejected: e sent accepted: id sent uploaded open young open]"
		if fmt.Sprint(got) != want {
			t.Errorf("submissions %v", got)
		}
		if got := p.strings(fmt.Sprintf("SELECT job_id FROM jobs WHERE next_submit_us = %d ORDER BY job_id", now.UnixMicro())); fmt.Sprint(got) != "[a b c]" {
			t.Errorf("ready now: %v", got)
		}
		if err := p.RecordUpload(ctx, reconcile.Upload{SubmissionID: "s-a", FileID: "f", Bytes: 1, BodyMAC: "m"}); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("an upload for a closed submission: %v", err)
		}
	})
}

func TestProviderJobOfTwoJobs(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		p.job("sent", "submitted", row{"boundary_id": p.policy.BoundaryID, "account": "fp", "provider_job_id": "batch_1"})
		p.readyJob("a")
		p.mustIntent("s1")
		a := reconcile.Acceptance{SubmissionID: "s1", ProviderJobID: "batch_1", Status: "validating", NextPoll: p.Clock.Now()}
		if err := p.RecordAccepted(t.Context(), p.Clock.Now(), a); !errors.Is(err, reconcile.ErrMoved) || !strings.Contains(err.Error(), "batch_1") {
			t.Errorf("error %v", err)
		}
		if got := p.strings("SELECT COALESCE(outcome, 'open') FROM submissions WHERE submission_id = 's1'"); got[0] != "open" {
			t.Errorf("submission %v", got)
		}
	})
}
