package reconcile_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
)

// said is what an operator says about the bench's one job.
func (b *bench) said(reason string) reconcile.Statement {
	b.t.Helper()
	return reconcile.Statement{JobID: b.rows("SELECT job_id FROM submissions ORDER BY intent_us, submission_id")[0], Actor: "anna", Reason: reason}
}

// pastDeadline is when an open submission is uncertain.
func (b *bench) pastDeadline() { b.Clock.Advance(b.r.Settings.SendWithin) }

// decisive is when a list may prove that no job of it exists.
func (b *bench) decisive() {
	b.pastDeadline()
	b.Clock.Advance(b.r.Settings.AbsentAfter)
}

// wantFence fails unless the input file of the submission is gone, or is not.
func (b *bench) wantFence(gone bool) {
	b.t.Helper()
	if f := b.fake.Files()[0]; f.Present == gone {
		b.t.Errorf("file %s: present %v", f.ID, f.Present)
	}
}

func (b *bench) evidence() reconcile.Evidence {
	b.t.Helper()
	e, err := b.r.Evidence(b.t.Context(), b.Clock.Now(), b.said("").JobID, true)
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

func (b *bench) found(providerJobID string) (reconcile.Proof, error) {
	b.t.Helper()
	return b.r.StateFound(b.t.Context(), b.Clock.Now(), b.said("seen in the account"), providerJobID)
}

func (b *bench) absent() error {
	b.t.Helper()
	return b.r.StateAbsent(b.t.Context(), b.Clock.Now(), b.said("the provider says so"))
}

// wantRefused fails unless an error refuses, and says why.
func (b *bench) wantRefused(err error, why string) {
	b.t.Helper()
	if !errors.Is(err, reconcile.ErrRefused) || !strings.Contains(err.Error(), why) {
		b.t.Errorf("%v, want a refusal that says %q", err, why)
	}
}

func (b *bench) wantAuthoritative(n string) {
	b.t.Helper()
	if _, err := b.untilIdle(nil); err != nil {
		b.t.Fatal(err)
	}
	b.want("records", "SELECT COUNT(*) || '' FROM review_records WHERE authoritative = 1", n)
}

func TestF16_EvidenceShowsWhatTheAccountHas(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(3, true)
		b.foreignJob(2)
		b.pastDeadline()
		creates := b.fake.Calls(fake.OpCreate)
		e := b.evidence()
		if e.Submission.Lines != 3 || e.Submission.Outcome != reconcile.SubmissionUncertain || e.Account != "main" || e.Settlement != batch.SettleByListing {
			t.Errorf("evidence %+v", e)
		}
		l := e.Live
		if l == nil || !l.Read || !l.Complete || l.Listed != 2 || !strings.Contains(l.Doubt, "since the send deadline") {
			t.Fatalf("live evidence %+v", l)
		}
		if len(l.Matching) != 1 || l.Matching[0].ProviderJobID != "job-000001" || l.Matching[0].Submission != e.Submission.SubmissionID {
			t.Errorf("matching %+v", l.Matching)
		}
		if len(l.Candidates) != 1 || l.Candidates[0].ProviderJobID != "job-000002" || l.More != 0 {
			t.Errorf("candidates %+v and %d more", l.Candidates, l.More)
		}
		// A job that was certainly made since shows that the list reaches there.
		b.Clock.Advance(b.r.Settings.AbsentAfter)
		b.reports(1)
		b.collect()
		b.submit()
		if l := b.evidence().Live; l.Doubt != "" || len(l.Candidates) != 1 {
			t.Errorf("live evidence %+v", l)
		}
		b.hide(func(j fake.JobBook) bool { return len(j.CustomIDs) == 1 })
		if l := b.evidence().Live; l.Complete || !strings.Contains(l.Doubt, "it lacks 1 of the jobs") {
			t.Errorf("live evidence %+v", l)
		}
		b.hide(nil)
		b.fake.Hooks.List = func(string) (bool, error) { return false, answer("list jobs", batch.Temporary, 502, "") }
		if l := b.evidence().Live; l.Read || l.Complete || l.Doubt != "it could not be read: list jobs: temporary, HTTP 502" {
			t.Errorf("live evidence %+v", l)
		}
		if n := b.fake.Calls(fake.OpCreate); n != creates+1 {
			t.Errorf("%d jobs were asked for by looking", n-creates-1)
		}
		if e, err := b.r.Evidence(t.Context(), b.Clock.Now(), e.JobID, false); err != nil || e.Live != nil || e.Account != "main" {
			t.Errorf("without asking: %+v, %v", e, err)
		}
		b.r.Accounts = nil
		if e := b.evidence(); e.Live != nil || e.Account != "" {
			t.Errorf("without its account: %+v", e)
		}
	})
}

func TestEvidenceNamesNoMoreThanAPersonReads(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(1, false)
		for i := range 12 {
			b.made(batch.Creation{FileID: fmt.Sprint("file-of-theirs-", i)})
		}
		b.pastDeadline()
		if l := b.evidence().Live; len(l.Candidates) != 10 || l.More != 2 {
			t.Errorf("%d candidates and %d more", len(l.Candidates), l.More)
		}
	})
}

func TestF16_OperatorSaysThatItIsThere(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(2, true)
		// Its reference proves it, so nobody need wait for the send deadline.
		if proof, err := b.found("job-000001"); err != nil || proof != reconcile.ProofReference {
			t.Fatalf("%q, %v", proof, err)
		}
		b.wantJobs("submitted")
		b.wantSubmissions("accepted: operator anna: seen in the account")
		if proof, err := b.found("job-000001"); err != nil || proof != "" {
			t.Errorf("again: %q, %v", proof, err)
		}
		_, err := b.found("job-000009")
		b.wantRefused(err, "is accepted: operator anna")
		b.wantRefused(b.absent(), "is accepted: operator anna")
		b.wantAuthoritative("2")
		b.wantCreates(1)
	})
}

func TestF16_OperatorNamesTheWrongJob(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(b *bench) (providerJobID string)
		why     string
	}{
		"no job at all": {func(b *bench) string { return "job-000099" }, "has no job job-000099"},
		"of another submission": {func(b *bench) string {
			meta := maps.Clone(b.sentMetadata())
			meta["rc_submission"] = "another"
			return b.made(batch.Creation{FileID: b.fake.Files()[0].ID, Metadata: meta})
		}, "names submission another"},
		"of another ledger": {func(b *bench) string {
			meta := maps.Clone(b.sentMetadata())
			meta["rc_ledger"] = "another"
			return b.made(batch.Creation{FileID: b.fake.Files()[0].ID, Metadata: meta})
		}, "names another ledger"},
		"of nobody, over another file": {func(b *bench) string {
			b.foreignJob(1)
			return "job-000001"
		}, "runs over file"},
		"a landmark": {func(b *bench) string {
			return b.made(batch.Creation{FileID: b.fake.Files()[0].ID, Metadata: map[string]string{"rc_probe": "x"}})
		}, "is a landmark"},
		"of another job of the ledger": {func(b *bench) string {
			b.Clock.Advance(time.Minute)
			b.reports(1)
			b.collect()
			b.submit()
			// Its account forgets what it told about the job's origin.
			b.hide(func(fake.JobBook) bool { return true })
			return "job-000001"
		}, "is that of job"},
		"at an account that is not configured": {func(b *bench) string {
			b.r.Accounts = nil
			return "job-000001"
		}, "no configured account"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.uncertain(2, false)
				id := tc.prepare(b)
				b.pastDeadline()
				_, err := b.found(id)
				b.wantRefused(err, tc.why)
				b.want("open", "SELECT COUNT(*) || '' FROM submissions WHERE outcome IS NULL", "1")
			})
		})
	}
}

// made is a job that somebody makes.
func (b *bench) made(c batch.Creation) string {
	b.t.Helper()
	job, err := b.fake.Create(b.t.Context(), c)
	if err != nil {
		b.t.Fatal(err)
	}
	return job.ID
}

func TestOperatorsWordIsNotRecordedWithoutAnAnswer(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(1, true)
		b.pastDeadline()
		b.fake.Hooks.Status = func(string) (bool, error) { return false, answer("status", batch.Temporary, 503, "") }
		if _, err := b.found("job-000001"); err == nil || errors.Is(err, reconcile.ErrRefused) || batch.KindOf(err) != batch.Temporary {
			t.Errorf("%v", err)
		}
		b.decisive()
		b.fake.Hooks = fake.Hooks{List: func(string) (bool, error) { return false, answer("list jobs", batch.Temporary, 503, "") }}
		if err := b.absent(); err == nil || errors.Is(err, reconcile.ErrRefused) || !strings.Contains(err.Error(), "could not be read: list jobs: temporary") {
			t.Errorf("%v", err)
		}
		b.wantFence(false)
		// Its list could tell whose the job is. Once the job has ended, its results do.
		if _, err := b.found("job-000001"); err == nil || errors.Is(err, reconcile.ErrRefused) || !strings.Contains(err.Error(), "nothing was recorded") {
			t.Errorf("%v", err)
		}
		b.wantSubmissions("open")
		b.fake.EndAll()
		b.fake.Hooks.Download = func(string) (bool, error) { return false, answer("download", batch.Temporary, 503, "") }
		if _, err := b.found("job-000001"); err == nil || !strings.Contains(err.Error(), "could not be read, and nothing was recorded") {
			t.Errorf("%v", err)
		}
		b.wantSubmissions("open")
		b.fake.Hooks.Download = nil
		if proof, err := b.found("job-000001"); err != nil || proof != reconcile.ProofResults {
			t.Errorf("%q, %v", proof, err)
		}
	})
}

// F18, F19: what lists nothing is not asked for a list.
func TestEvidenceOfAnAccountThatListsNothing(t *testing.T) {
	for _, s := range []batch.Settlement{batch.SettleByKey, batch.SettleByRepeat, batch.SettleByOperator} {
		t.Run(string(s), func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.settleBy(s)
				b.uncertain(1, true)
				b.pastDeadline()
				if e := b.evidence(); e.Live != nil || e.Settlement != s {
					t.Errorf("evidence %+v", e)
				}
				if n := b.fake.Calls(fake.OpListJobs); n > 0 {
					t.Errorf("%d lists were read", n)
				}
				b.decisive()
				if s != batch.SettleByRepeat { // nothing can be compared with such a word
					b.wantRefused(b.absent(), map[batch.Settlement]string{
						batch.SettleByKey:      "account main lists no jobs; wait for resolve, or give the reports to people",
						batch.SettleByOperator: "and resolve never will: if you know its job, name it with --found; otherwise give the reports to people",
					}[s])
					b.wantSubmissions("open")
					return
				}
				if err := b.absent(); err != nil {
					t.Error(err)
				}
				b.wantSubmissions("abandoned: operator anna: the provider says so")
			})
		})
	}
}

// F17: where a list names no references, the ids of its results tell whose a job is.
func TestF17_ResultsAreComparedWithTheOperatorsWord(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByResults)
		b.uncertain(2, true)
		b.foreignJob(2)
		_, err := b.found("job-000001")
		b.wantRefused(err, "may still make a job")
		b.pastDeadline()
		if l := b.evidence().Live; len(l.Matching) != 0 || len(l.Candidates) != 2 {
			t.Errorf("evidence %+v", l)
		}
		b.decisive()
		b.wantRefused(b.absent(), "only its results will tell whose it is")
		b.fake.EndAll()
		_, err = b.found("job-000002")
		b.wantRefused(err, "has results that are not of submission")
		b.wantRefused(b.absent(), "the results of job job-000001 are those of submission")
		if n := b.fake.Calls(fake.OpDelete); n > 0 {
			t.Errorf("%d files were deleted", n)
		}
		if proof, err := b.found("job-000001"); err != nil || proof != reconcile.ProofResults {
			t.Fatalf("%q, %v", proof, err)
		}
		b.wantAuthoritative("2")
	})
}

// Where nothing tells, the operator's word stands, past the send deadline.
func TestF17_OperatorsWordAlone(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.settleBy(batch.SettleByResults)
		b.uncertain(1, true)
		b.pastDeadline()
		if proof, err := b.found("job-000001"); err != nil || proof != reconcile.ProofNone {
			t.Fatalf("%q, %v", proof, err)
		}
		b.wantAuthoritative("1")
	})
}

func TestF16_OperatorSaysThatItIsAbsent(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(2, false)
		file := b.fake.Files()[0].ID
		b.wantRefused(b.absent(), "may still make a job until")
		b.pastDeadline()
		b.wantRefused(b.absent(), "may be on its way until")
		b.decisive()
		b.fake.Hooks.Delete = func(id string) (bool, error) {
			if id != file {
				return true, nil // that of a landmark
			}
			return false, answer("delete file", batch.Temporary, 503, "")
		}
		if err := b.absent(); err == nil || errors.Is(err, reconcile.ErrRefused) || !strings.Contains(err.Error(), "could not be deleted") {
			t.Errorf("%v", err)
		}
		b.wantSubmissions("open")
		b.fake.Hooks.Delete = nil
		if err := b.absent(); err != nil {
			t.Fatal(err)
		}
		b.wantSubmissions("abandoned: operator anna: the provider says so")
		b.want("fenced", "SELECT COUNT(*) || '' FROM submissions WHERE fenced_us IS NOT NULL", "1")
		b.want("audit", "SELECT COUNT(*) || '' FROM audit_events WHERE kind = 'submission_absent' AND detail LIKE '%operator anna%'", "1")
		if got := b.inputs(); len(got) > 0 {
			t.Errorf("input files %v are still there", got)
		}
		if err := b.absent(); err != nil {
			t.Errorf("again: %v", err)
		}
		b.wantAuthoritative("2")
		for _, j := range b.fake.Jobs() {
			if j.FileID == file {
				t.Error("a job runs over the deleted file")
			}
		}
		b.wantRefused(b.absent(), "is accepted")
	})
}

// The job is in the list: the operator is wrong, or it came just now.
func TestF16_OperatorSaysThatItIsAbsentAndItIsNot(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %v", late), func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.uncertain(1, !late)
				b.decisive()
				if late { // it arrives after the first list and before its file is gone
					creation := batch.Creation{FileID: b.fake.Files()[0].ID, Metadata: b.sentMetadata()}
					b.fake.Hooks.Delete = func(id string) (bool, error) {
						if id == creation.FileID {
							b.made(creation)
						}
						return true, nil
					}
				}
				b.wantRefused(b.absent(), "has the job of submission")
				b.wantSubmissions("open")
				b.wantFence(late)
				b.lookUntilSettled(3)
				b.wantAuthoritative("1")
				if b.jobsWithItems() != 1 {
					t.Errorf("%d jobs with items", b.jobsWithItems())
				}
			})
		})
	}
}

// A list that hides jobs proves nothing, and an operator's word does not make up
// for it: the job exists, and its texts would be sent a second time.
func TestF16_OperatorsWordAgainstAListThatProvesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		hidden func(fake.JobBook) bool
		why    string
	}{
		"it lacks jobs": {func(fake.JobBook) bool { return true }, "it lacks 1 of the jobs"},
		"it lags":       {func(j fake.JobBook) bool { return j.ID != "job-000002" }, "since the send deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.uncertain(1, true) // job-000001
				b.Clock.Advance(time.Second)
				b.reports(1)
				b.collect()
				b.submit() // job-000002
				b.hide(tc.hidden)
				b.decisive()
				for range 2 {
					b.wantRefused(b.absent(), tc.why)
				}
				b.wantSubmissions("open", "accepted: job job-000002")
				b.wantFence(false)
				b.hide(nil)
				b.wantRefused(b.absent(), "has the job of submission")
			})
		})
	}
}

// After the fence the list must reach to the fence. A list that lags proves it
// once it shows the landmark, which is made once.
func TestF16_OperatorsWordBehindTheFence(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(1, false)
		b.decisive()
		file := b.fake.Files()[0].ID
		b.fake.Hooks.Delete = func(id string) (bool, error) {
			if id != file {
				return true, nil
			}
			b.Clock.Advance(time.Second) // the landmark of before is older than the fence
			shown := len(b.fake.Jobs())
			b.hide(func(j fake.JobBook) bool { return j.ID > fmt.Sprintf("job-%06d", shown) })
			return true, nil
		}
		b.wantRefused(b.absent(), "since the send deadline")
		b.fake.Hooks.Delete = nil
		creates := b.fake.Calls(fake.OpCreate)
		b.wantRefused(b.absent(), "since the send deadline")
		b.hide(nil)
		if err := b.absent(); err != nil {
			t.Fatal(err)
		}
		if n := b.fake.Calls(fake.OpCreate) - creates; n > 0 {
			t.Errorf("%d more landmarks were made", n)
		}
		b.wantSubmissions("abandoned: operator anna: the provider says so")
		b.wantAuthoritative("1")
	})
}

// An account that is not configured can be asked about nothing, and it may be
// the configuration that is wrong: no text is sent again on such a word.
func TestF15_AbsentWithoutItsAccount(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(2, false)
		b.pastDeadline()
		b.r.Accounts = nil
		b.wantRefused(b.absent(), "2 reports wait for its job")
		b.wantSubmissions("open")
		b.giveUp()
		if err := b.absent(); err != nil {
			t.Fatal(err)
		}
		b.wantSubmissions("abandoned: operator anna: the provider says so")
		b.settleBy(batch.SettleByListing)
		b.wantAuthoritative("2")
		b.wantJobs("abandoned")
		b.wantCreates(0)
	})
}

func (b *bench) giveUp() int {
	b.t.Helper()
	n, err := b.r.GiveUp(b.t.Context(), b.Clock.Now(), b.said("nobody can tell"))
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// The reports go to a person, and the job is recognised when it shows up.
func TestF16_GivenUpAndFoundLater(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(5, true) // over two pages
		b.edit(2, 2)
		b.hide(func(fake.JobBook) bool { return true })
		b.pastDeadline()
		if n := b.giveUp(); n != 4 {
			t.Errorf("%d reports were given, want 4: one was edited and waits for another job", n)
		}
		const routed = "SELECT COUNT(*) || '' FROM review_records WHERE authoritative = 1 AND reason = 'routed'"
		b.want("records", routed, "4")
		b.wantSubmissions("open")
		b.wantJobs("ready")
		if n := b.giveUp(); n != 0 {
			t.Errorf("%d reports were given again", n)
		}
		b.hide(nil)
		b.lookUntilSettled(3)
		b.wantAuthoritative("5")
		b.want("records", routed, "4")
		b.want("answers that came late", "SELECT COUNT(*) || '' FROM artifacts a JOIN works w ON w.work_id = a.work_id WHERE w.reason = 'routed'", "4")
	})
}

// Nothing is sent of a job that was given up and turns out absent.
func TestF16_GivenUpAndAbsent(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.uncertain(2, false)
		b.pastDeadline()
		if n := b.giveUp(); n != 2 {
			t.Errorf("%d reports were given", n)
		}
		if err := b.absent(); err != nil {
			t.Fatal(err)
		}
		b.wantAuthoritative("2")
		b.wantJobs("abandoned")
		b.wantCreates(1)
		if lines, _ := b.fake.TextsSeen(); lines != 2 {
			t.Errorf("%d texts were handed over, want 2", lines)
		}
	})
}

func TestGiveUpOfAJobWithoutAnOpenSubmission(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.ready(1)
		b.submit()
		if _, err := b.r.GiveUp(t.Context(), b.Clock.Now(), b.said("r")); !errors.Is(err, reconcile.ErrNotFound) {
			t.Errorf("%v", err)
		}
		b.want("stages", "SELECT DISTINCT stage FROM works", "collected")
	})
}
