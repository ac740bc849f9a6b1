package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
)

func TestResultsInAnyOrderAndEitherFile(t *testing.T) {
	for name, split := range map[string]int{"output only": 10, "error only": 0, "both": 6} {
		t.Run(name, func(t *testing.T) {
			variantResults(t, name == "both", func(x *resultTest) {
				j, works := x.prepare(10)
				lines := j.answers(works)
				rand.New(rand.NewPCG(1, 2)).Shuffle(len(lines), func(a, b int) { lines[a], lines[b] = lines[b], lines[a] })
				var output, errs []string // an absent file is nil, not empty
				if split > 0 {
					output = lines[:split]
				}
				if split < len(lines) {
					errs = lines[split:]
				}
				x.end(j, output, errs)
				x.consume(oneDone)
				x.items(j, repeat("succeeded", 10)...)
				x.lines(j, "accepted 10")
				x.works(works, repeat("extracted", 10)...)
				x.apply(moved(10))
				for n := range works {
					x.records(n, "1 spam *")
				}
				x.events()
				x.consume(nothing)
				x.apply(nothing)
			})
		})
	}
}

func TestArtifactIsEncryptedAndEvidenceIsPositions(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(1)
		x.end(j, j.answers(works), nil)
		x.consume(oneDone)
		var a struct {
			Label      string `db:"label"`
			Evidence   string `db:"evidence"`
			Encrypted  []byte `db:"encrypted"`
			KeyID      string `db:"key_id"`
			Model      string `db:"model"`
			Classifier string `db:"classifier"`
			Tokens     int64  `db:"input_tokens"`
		}
		x.must(x.db.Get(&a, "SELECT label, evidence, encrypted, key_id, model, classifier, input_tokens FROM artifacts WHERE work_id = $1", works[0]))
		if a.Label != "spam" || a.Evidence != "[[14,23],[26,37]]" || a.Model != "fake-1" || a.Classifier != "test/1" || a.Tokens != 100 {
			t.Errorf("label %s, evidence %s, model %s, classifier %s, %d tokens", a.Label, a.Evidence, a.Model, a.Classifier, a.Tokens)
		}
		plain, err := x.Keys.Decrypt(keyring.Encrypted{KeyID: a.KeyID, Bytes: a.Encrypted}, reconcile.AnswerPlace(works[0])...)
		if err != nil || !strings.Contains(string(plain), resultMarker) {
			t.Errorf("the answer cannot be read: %v", err)
		}
		if n := x.strings("SELECT 'x' FROM result_lines WHERE encrypted IS NOT NULL"); len(n) != 0 {
			t.Error("the answer stands in the ledger twice")
		}
	})
}

func TestEachOutcomeOfALine(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(14)
		x.end(j, []string{
			j.answered(works[0], "spam"), j.failed(works[1], batch.Refused, ""), j.failed(works[2], batch.Truncated, ""),
			j.failed(works[3], batch.BadShape, ""), j.failed(works[4], batch.Blocked, "content_filter"),
			j.answered(works[5], "no such label"), string(fake.Answered(works[6]+"-"+j.submission, []byte("no JSON "+resultMarker)).Raw),
		}, []string{
			j.failed(works[7], batch.ItemRejected, "context_length_exceeded"), j.failed(works[8], batch.ItemFailed, "server_error"),
			j.failed(works[9], batch.ItemDenied, "model_not_found"), j.failed(works[10], batch.ItemOutOfCredit, "insufficient_quota"),
			j.failed(works[11], batch.Expired, "batch_expired"), j.failed(works[12], batch.Cancelled, "batch_cancelled"),
			j.failed(works[13], batch.NotRun, "weird"),
		})
		x.consume(oneDone)
		x.items(j, "succeeded", "refused", "truncated", "invalid bad_shape", "blocked content_filter", "invalid schema", "invalid invalid_json",
			"rejected context_length_exceeded", "failed server_error", "denied model_not_found", "out_of_credit insufficient_quota",
			"expired batch_expired", "cancelled batch_cancelled", "not_run weird")
		x.works(works, "extracted", "extracted refused", "pending", "pending", "extracted blocked_by_provider", "pending", "pending",
			"extracted rejected_by_provider", "pending", "pending", "pending", "pending", "pending", "pending")
		x.lines(j, "accepted 1", "item_error 13")
		x.events("account_denied account:main: 1 items of job job1", "out_of_credit account:main: 1 items of job job1")
		pauses, err := x.Pauses(t.Context())
		x.must(err)
		if len(pauses) != 1 || pauses[0].Scope != "account:main" || pauses[0].Stage != reconcile.PauseDispatch {
			t.Errorf("pauses: %+v", pauses)
		}
		x.apply(moved(4))
		x.records(0, "1 spam *")
		x.records(1, "1 refused *")
		x.records(2)
		x.records(4, "1 blocked_by_provider *")
		x.records(7, "1 rejected_by_provider *")
	})
}

func TestF31_F32_F33_F34_F35_OddLinesOfOneFile(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		x.r.Settings.LineBytes = 4000
		j, works := x.prepare(6)
		other := sentJob{submission: "another"}
		same := j.answered(works[1], "spam")
		x.end(j, []string{
			j.answered(works[0], "spam"),
			same, "", same, "  \r", // F31, with blank lines
			j.answered(works[2], "spam"), j.answered(works[2], "ok"), // F32
			// nothing for works[3]: F33
			other.answered(works[0], "spam"),                       // F34: another submission
			j.answered(x.Keys.WorkID("r", 1, "p", 1), "spam"),      // F34: no member
			string(fake.Answered("we\u0000ird", []byte("{}")).Raw), // F34: no id of ours
			`{"custom_id":` + resultMarker,                         // F35
			strings.Repeat("x", 5000) + resultMarker,               // F35: too long
			j.answered(works[4], "harassment"), j.answered(works[5], "ok"),
		}, nil)
		x.consume(oneDone)
		x.items(j, "succeeded", "succeeded", "conflict results_differ", "missing", "succeeded", "succeeded")
		x.lines(j, "accepted 4", "dup_conflict 2", "dup_same 1", "malformed 2", "unknown_id 3")
		x.works(works, "extracted", "extracted", "extracted conflicting_results", "pending", "extracted", "extracted")
		x.events("result_conflict job:job1: 1 items", "unknown_result job:job1: output: 3 of 12 lines")
		if got := x.strings("SELECT CAST(line AS TEXT) || ' ' || code || ' ' || CAST(byte_count AS TEXT) FROM result_lines WHERE disposition = 'malformed' ORDER BY line"); !slices.Equal(got,
			[]string{"11 unreadable 24", "12 line_too_long 5011"}) {
			t.Errorf("malformed lines: %v", got)
		}
		if got := x.strings("SELECT 'x' FROM result_lines WHERE disposition = 'unknown_id' AND (encrypted IS NOT NULL OR work_id IS NOT NULL)"); len(got) > 0 {
			t.Error("of another's result there is more than the digest")
		}
		x.apply(moved(5))
		x.records(2, "1 conflicting_results *")
	})
}

func TestF35_MalformedLineIsKeptEncrypted(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(1)
		x.end(j, append(j.answers(works), "garbage "+resultMarker), nil)
		x.consume(oneDone)
		var row struct {
			Encrypted []byte `db:"encrypted"`
			KeyID     string `db:"key_id"`
		}
		x.must(x.db.Get(&row, "SELECT encrypted, key_id FROM result_lines WHERE disposition = 'malformed'"))
		plain, err := x.Keys.Decrypt(keyring.Encrypted{KeyID: row.KeyID, Bytes: row.Encrypted}, "line", j.id, "output", "2")
		if err != nil || string(plain) != "garbage "+resultMarker {
			t.Errorf("%d bytes, %v", len(plain), err)
		}
	})
}

func TestF35_ManyMalformedLinesAreTold(t *testing.T) {
	for name, tc := range map[string]struct {
		good, bad int
		told      bool
	}{
		"one in a hundred":           {99, 1, false},
		"more than one in a hundred": {98, 2, true},
		"few lines":                  {5, 2, false},
		"all of few lines":           {0, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			variantResults(t, false, func(x *resultTest) {
				x.r.Settings.Chunk = 1000
				j, works := x.prepare(max(tc.good, 1))
				x.end(j, append(j.answers(works)[:tc.good], repeat("{", tc.bad)...), nil)
				x.consume(oneDone)
				if tc.told {
					x.events(fmt.Sprintf("malformed_results job:job1: output: %d of %d lines", tc.bad, tc.good+tc.bad))
				} else {
					x.events()
				}
			})
		})
	}
}

func TestF33_MissingMembersBecomeUnclassified(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		x.deliver(0, 1)
		work := x.work(0, 1)
		for attempt := range 3 {
			j := x.send(work)
			x.end(j, []string{}, nil) // an empty file is a whole file
			x.consume(oneDone)
			x.items(j, "missing")
			if attempt < 2 {
				x.works([]string{work}, "pending")
				if due, err := x.DueWorks(t.Context(), x.Clock.Now().Add(9*time.Minute), x.policy.Key(), nil, 10); err != nil || len(due) != 0 {
					t.Errorf("tried again at once: %v, %v", due, err)
				}
			}
			x.Clock.Advance(24 * time.Hour)
			x.exec("UPDATE works SET due_us = due_us + $1", int64(24*time.Hour/time.Microsecond))
		}
		x.works([]string{work}, "extracted attempts_used_up")
		x.apply(moved(1))
		x.records(0, "1 attempts_used_up *")
	})
}

func TestF27_ExpiredWithPartialResults(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(4)
		x.end(j, j.answers(works[:2]), []string{j.failed(works[2], batch.Expired, "batch_expired")})
		x.consume(oneDone)
		x.items(j, "succeeded", "succeeded", "expired batch_expired", "missing")
		x.works(works, "extracted", "extracted", "pending", "pending")
		x.Clock.Advance(time.Hour)
		again := x.send(works[2:]...) // a new job, and custom ids of its own
		x.end(again, again.answers(works[2:]), nil)
		x.consume(oneDone)
		x.apply(moved(4))
		for n := range works {
			x.records(n, "1 spam *")
		}
	})
}

func TestF36_CompletedWithoutAnyFile(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(2)
		x.end(j, nil, nil)
		x.consume(oneDone)
		x.items(j, "missing", "missing")
		x.works(works, "pending", "pending")
	})
}

func TestF28_RefusedBody(t *testing.T) {
	invalid := func(faults ...batch.Fault) func() (batch.Job, error) {
		return func() (batch.Job, error) {
			return batch.Job{Phase: batch.PhaseInvalid, Status: "failed", Faults: faults}, nil
		}
	}
	for name, tc := range map[string]struct {
		faults []batch.Fault
		items  []string
		works  []string
		detail string
	}{
		"one line is named": {[]batch.Fault{{Line: 2, Code: "missing_required_parameter"}},
			[]string{"not_run job_refused", "rejected missing_required_parameter", "not_run job_refused"},
			[]string{"pending", "extracted rejected_by_provider", "pending"}, "missing_required_parameter 1"},
		"one line is named twice": {[]batch.Fault{{Line: 2, Code: "a"}, {Line: 2, Code: "b"}, {Line: 2, Code: "a"}},
			[]string{"not_run job_refused", "rejected a", "not_run job_refused"},
			[]string{"pending", "extracted rejected_by_provider", "pending"}, "a 2, b 1"},
		"token limit": {[]batch.Fault{{Code: "token_limit_exceeded"}},
			repeat("not_run job_refused", 3), repeat("pending", 3), "token_limit_exceeded 1"},
		"no reason": {nil, repeat("not_run job_refused", 3), repeat("pending", 3), "no reason given"},
		"a line that we did not send": {[]batch.Fault{{Line: 9, Code: "a"}},
			repeat("not_run job_refused", 3), repeat("pending", 3), "a 1"},
		"prose for a code": {[]batch.Fault{{Line: 1, Code: "the text " + resultMarker + " is bad"}},
			[]string{"rejected unprintable", "not_run job_refused", "not_run job_refused"},
			[]string{"extracted rejected_by_provider", "pending", "pending"}, "unprintable 1"},
	} {
		t.Run(name, func(t *testing.T) {
			variantResults(t, name == "one line is named twice", func(x *resultTest) {
				j, works := x.prepare(3)
				x.must(x.EndJob(t.Context(), x.Clock.Now(), reconcile.JobEnd{JobID: j.id, Phase: batch.PhaseInvalid, Status: "failed"}))
				x.provider.status = func() (batch.Job, error) {
					return batch.Job{}, &batch.Error{Op: "status", Kind: batch.Temporary}
				}
				x.consume(onePutOff)
				x.Clock.Advance(x.r.Settings.ConsumeRetry)
				x.provider.status = invalid(tc.faults...)
				x.consume(oneDone)
				x.items(j, tc.items...)
				x.works(works, tc.works...)
				x.events("job_refused job:job1: " + tc.detail)
			})
		})
	}
}

func TestF29_TornDownloadIsFetchedAgain(t *testing.T) {
	broken := &batch.Error{Op: "download", Kind: batch.Temporary, Cause: io.ErrUnexpectedEOF}
	for name, tear := range map[string]func(x *resultTest, file string){
		"connection broke":            func(x *resultTest, f string) { x.provider.fail[f] = broken },
		"ends within a line":          func(x *resultTest, f string) { x.provider.body[f] = strings.TrimSuffix(x.provider.body[f], "}\n") },
		"shorter than told":           func(x *resultTest, f string) { x.provider.size[f] = int64(len(x.provider.body[f]) + 1) },
		"longer than told":            func(x *resultTest, f string) { x.provider.size[f] = 1 },
		"within a line, size unknown": func(x *resultTest, f string) { x.provider.body[f] = x.provider.body[f][:2000]; x.provider.size[f] = -1 },
		"provider is busy": func(x *resultTest, f string) {
			delete(x.provider.body, f)
			x.provider.fail[f] = &batch.Error{Op: "download", Kind: batch.RateLimited}
		},
	} {
		t.Run(name, func(t *testing.T) {
			variantResults(t, name == "connection broke", func(x *resultTest) {
				j, works := x.prepare(11)
				x.end(j, j.answers(works), []string{})
				file, whole := "output-"+j.id, x.provider.body["output-"+j.id]
				tear(x, file)
				x.consume(onePutOff)
				x.consume(nothing) // not before its next turn
				x.items(j, repeat("-", 11)...)
				if sets := x.strings("SELECT channel || ' ' || state FROM result_sets ORDER BY channel"); !slices.Equal(sets, []string{"error whole", "output staging"}) {
					t.Errorf("sets: %v", sets)
				}
				x.Clock.Advance(x.r.Settings.ConsumeRetry)
				x.provider.body[file] = whole
				delete(x.provider.fail, file)
				delete(x.provider.size, file)
				x.consume(oneDone)
				x.items(j, repeat("succeeded", 11)...)
				x.lines(j, "accepted 11")
				x.events()
			})
		})
	}
}

func TestF29_LastLineWithoutEnd(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(2)
		x.end(j, j.answers(works), nil)
		x.provider.body["output-"+j.id] = strings.TrimSuffix(x.provider.body["output-"+j.id], "\n")
		x.consume(oneDone)
		x.items(j, "succeeded", "succeeded")
	})
}

// A file that never gets longer is taken as it is in the end: otherwise the
// whole job would wait for one item for ever.
func TestF29_LastLineIsCutForEver(t *testing.T) {
	variantResults(t, false, func(x *resultTest) {
		j, works := x.prepare(2)
		x.end(j, j.answers(works), nil)
		x.provider.body["output-"+j.id] = strings.TrimSuffix(x.provider.body["output-"+j.id], "}\n")
		x.consume(onePutOff)
		x.Clock.Advance(x.r.Settings.FilesGrace)
		x.consume(oneDone)
		x.items(j, "succeeded", "missing")
		x.lines(j, "accepted 1", "malformed 1")
	})
}

func TestMarkAtTheStartOfAFile(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(1)
		x.end(j, j.answers(works), nil)
		x.provider.body["output-"+j.id] = "\xEF\xBB\xBF" + x.provider.body["output-"+j.id]
		x.consume(oneDone)
		x.items(j, "succeeded")
	})
}

func TestFileBeyondTheLimitWaitsForAnOperator(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(5)
		x.end(j, j.answers(works), nil)
		x.r.Settings.SetBytes = 500
		x.consume(onePutOff)
		x.items(j, repeat("-", 5)...)
		x.events("results_unreadable job:job1: output has more than 500 bytes, or far more lines than 5 members")
		x.Clock.Advance(x.r.Settings.ConsumeRetry)
		x.r.Settings.SetBytes = 1 << 20
		x.consume(oneDone)
		x.items(j, repeat("succeeded", 5)...)
	})
}

// Each line becomes a row, so a file of tiny ones must not cost many times what
// it is long.
func TestF34_FileOfStrayLinesWaitsForAnOperator(t *testing.T) {
	variantResults(t, true, func(x *resultTest) {
		x.r.Settings.Chunk = 2000
		j, works := x.prepare(2)
		x.end(j, append(j.answers(works), slices.Repeat([]string{"{}"}, 20_000)...), nil)
		x.consume(onePutOff)
		x.items(j, repeat("-", 2)...)
		x.events(fmt.Sprintf("results_unreadable job:job1: output has more than %d bytes, or far more lines than 2 members", x.r.Settings.SetBytes))
	})
}

// A file that was there in between is not lost by one more answer that it is not.
func TestF37_FoundInBetweenBeginsAnew(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(3)
		x.end(j, j.answers(works), nil)
		file := "output-" + j.id
		whole := x.provider.body[file]
		look := func(body string, known bool) {
			delete(x.provider.body, file)
			if known {
				x.provider.body[file] = body
			}
			x.consume(onePutOff)
			x.Clock.Advance(x.r.Settings.LostGrace)
		}
		look("", false)
		look(whole[:len(whole)-10], true) // cut: it is there
		look("", false)
		if got := x.strings("SELECT state FROM result_sets"); !slices.Equal(got, []string{"staging"}) {
			t.Errorf("the set is %v", got)
		}
		x.provider.body[file] = whole
		x.consume(oneDone)
		x.items(j, repeat("succeeded", 3)...)
	})
}

func TestF37_LostResults(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(3)
		x.end(j, j.answers(works[:2]), []string{j.failed(works[2], batch.Refused, "")})
		lost := x.provider.body["output-"+j.id]
		delete(x.provider.body, "output-"+j.id)
		x.Clock.Advance(48 * time.Hour) // rollcall was away: one answer still proves nothing
		x.exec("UPDATE works SET due_us = due_us + $1", int64(48*time.Hour/time.Microsecond))
		x.consume(onePutOff)
		x.events()
		x.Clock.Advance(x.r.Settings.LostGrace / 2)
		x.consume(onePutOff)
		x.Clock.Advance(x.r.Settings.LostGrace / 2)
		x.consume(oneDone)
		x.items(j, "missing", "missing", "refused")
		x.works(works, "pending", "pending", "extracted refused")
		x.events("results_lost job:job1: output, unknown to the provider 3 times since 2026-03-04T01:00:00Z")
		x.provider.body["output-"+j.id] = lost
		x.consume(nothing)
	})
}

func TestF37_ResultsThatAreFoundAgain(t *testing.T) {
	variantResults(t, false, func(x *resultTest) {
		j, works := x.prepare(1)
		x.end(j, j.answers(works), nil)
		body := x.provider.body["output-"+j.id]
		delete(x.provider.body, "output-"+j.id)
		x.consume(onePutOff)
		x.Clock.Advance(time.Hour)
		x.provider.body["output-"+j.id] = body
		x.consume(oneDone)
		x.items(j, "succeeded")
		x.events()
	})
}

func TestAccountThatIsNotConfigured(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(1)
		x.end(j, j.answers(works), nil)
		x.provider.account.Fingerprint = "another key"
		x.consume(onePutOff)
		if x.provider.downloads != 0 {
			t.Error("another account was asked")
		}
		x.events("account_mismatch job:job1: its results cannot be read")
		x.provider.account.Fingerprint = "acct"
		x.Clock.Advance(x.r.Settings.ConsumeRetry)
		x.consume(oneDone)
		x.items(j, "succeeded")
	})
}

func TestDeniedDownloadPausesTheAccount(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(1)
		x.end(j, j.answers(works), nil)
		x.provider.fail["output-"+j.id] = &batch.Error{Op: "download", Kind: batch.Denied, HTTPStatus: 401}
		body := x.provider.body["output-"+j.id]
		delete(x.provider.body, "output-"+j.id)
		x.consume(onePutOff)
		x.events("account_denied account:main: results of a job cannot be read")
		x.provider.body["output-"+j.id] = body
		delete(x.provider.fail, "output-"+j.id)
		x.Clock.Advance(time.Hour)
		x.consume(oneDone) // a pause of dispatch does not hold up results
	})
}

func TestF50_MissingTextKeyPutsTheJobOff(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(2)
		x.end(j, j.answers(works), nil)
		x.exec("UPDATE texts SET key_id = 'gone'")
		x.consume(onePutOff)
		x.items(j, "-", "-")
		x.exec("UPDATE texts SET key_id = 'text-1'")
		x.Clock.Advance(x.r.Settings.ConsumeRetry)
		x.consume(oneDone)
		x.items(j, "succeeded", "succeeded")
	})
}

// failAfter ends a store's method with an error from its nth call on.
type failAfter struct {
	reconcile.Store
	stage, judge int
	err          error
}

func (f *failAfter) StageLines(ctx context.Context, jobID string, channel batch.Channel, lines []reconcile.ResultLine) error {
	if f.stage--; f.stage == 0 {
		return f.err
	}
	return f.Store.StageLines(ctx, jobID, channel, lines)
}

func (f *failAfter) JudgeItems(ctx context.Context, now time.Time, jobID string, after int64, limit int, judge func(reconcile.ItemFacts) reconcile.Ruling) (reconcile.JudgedChunk, error) {
	if f.judge--; f.judge < 0 {
		return reconcile.JudgedChunk{}, f.err
	}
	return f.Store.JudgeItems(ctx, now, jobID, after, limit, judge)
}

// noFindings is a ledger of a process that dies whenever it would open a finding
// by itself.
type noFindings struct{ reconcile.Store }

func (noFindings) OpenFinding(context.Context, time.Time, reconcile.Event) error {
	return errors.New("the process died")
}

// A conflict is told by the commit that judges it: a process that dies behind
// that commit would judge nothing again, and so never tell.
func TestF32_ConflictIsToldByTheCommitThatJudgesIt(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(2)
		x.end(j, []string{j.answered(works[0], "spam"), j.answered(works[1], "spam"), j.answered(works[1], "ok")}, nil)
		x.r.Store = noFindings{x.r.Store}
		x.consume(oneDone)
		x.items(j, "succeeded", "conflict results_differ")
		x.events("result_conflict job:job1: 1 items")
	})
}

func TestF38_DiesBetweenChunks(t *testing.T) {
	gone := errors.New("the process died")
	for stage := range 4 {
		for judge := range 3 {
			t.Run(fmt.Sprintf("stage %d, judge %d", stage, judge), func(t *testing.T) {
				variantResults(t, stage == 2 && judge == 1, func(x *resultTest) {
					j, works := x.prepare(8)
					x.end(j, j.answers(works), nil)
					x.r.Store = &failAfter{Store: x.Store, stage: stage, judge: judge, err: gone}
					x.consume(onePutOff)
					x.r.Store = x.Store
					x.Clock.Advance(x.r.Settings.ConsumeRetry)
					x.consume(oneDone)
					x.items(j, repeat("succeeded", 8)...)
					x.lines(j, "accepted 8")
					x.apply(moved(8))
				})
			})
		}
	}
}
