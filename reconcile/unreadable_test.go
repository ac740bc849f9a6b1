package reconcile_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
)

// damage changes stored texts, as another program or a failing disk does.
func (b *bench) damage(ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		b.change("UPDATE texts SET encrypted = $1 WHERE report_id = $2", bytes.Repeat([]byte{7}, 90), b.Keys.ReportID("acme", "forum", id))
	}
}

// otherTextKey is a keyring that tells the ledger's reports apart, and has
// another key under the name of the one that texts are encrypted with.
func otherTextKey(t testing.TB, keys *keyring.Ring) *keyring.Ring {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keyring")
	if err := keys.Save(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	file["text_keys"].([]any)[0].(map[string]any)["key"] = bytes.Repeat([]byte{9}, 32)
	if raw, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := keyring.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// A damaged text costs its own report the classification, and the others one
// submission that never left.
func TestF50_DamagedTextsAreSetAsideAndTheJobGoesOn(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.answering()
		works := b.ready(7) // over three pages
		b.damage("r2", "r3", "r7")
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		if lines, _ := b.fake.TextsSeen(); lines > 0 {
			t.Errorf("%d texts of a job that was not sent have left", lines)
		}
		b.want("closed", "SELECT work_id FROM works WHERE stage = 'extracted' AND reason = 'text_unreadable' ORDER BY created_us", works[1], works[2], works[6])
		told := []string{"work:" + works[1], "work:" + works[2], "work:" + works[6]}
		b.want("findings", "SELECT subject FROM findings WHERE name = 'text_unreadable' ORDER BY subject", slices.Sorted(slices.Values(told))...)

		b.wantTally("submit at once", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
		b.want("items", "SELECT COALESCE(outcome, 'line ' || CAST(line AS TEXT)) FROM items ORDER BY position",
			"line 1", "not_sent", "not_sent", "line 2", "line 3", "line 4", "not_sent")
		if _, err := b.untilIdle(nil); err != nil {
			t.Fatal(err)
		}
		b.wantRecords("r1", "1 classified ok *")
		b.wantRecords("r2", "1 unclassified text_unreadable *")
		c, offenders := b.callRoll()
		b.wantOffenders(offenders, map[string]int64{})
		if c.Roll.Authoritative != 7 || c.Roll.Unclassified[reconcile.TextUnreadable] != 3 {
			t.Errorf("the roll: %+v", c.Roll)
		}
		b.wantCreates(1)
	})
}

// An edit that came in between has superseded a damaged text: nobody is told of it.
func TestF50_DamagedTextThatWasEditedIsOnlyDropped(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		works := b.ready(3)
		b.damage("r2")
		b.edit(2, 2)
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
		b.wantFindings()
		closed, err := b.CloseUnreadable(t.Context(), b.Clock.Now(), b.rows("SELECT job_id FROM jobs")[0], works[1:2])
		if err == nil || len(closed) > 0 {
			t.Errorf("of a job that is sent %v were closed, %v", closed, err)
		}
	})
}

// No text opens: that is the key, and no report is given away for it.
func TestF50_WrongTextKeyClosesNothing(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.r.Settings.JobItems = 3
		b.reports(5)
		b.collect()
		right := b.r.Keys
		b.r.Keys = otherTextKey(t, right)
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 2, Failed: 2})
		b.want("works", "SELECT DISTINCT stage FROM works", "collected")
		b.want("findings", "SELECT name || ' ' || SUBSTR(subject, 1, 4) FROM findings", "text_unreadable job:", "text_unreadable job:")
		b.wantTally("put off", b.submit(), reconcile.Tally{})
		b.r.Keys = right
		b.Clock.Advance(b.r.Settings.SubmitRetry)
		b.wantTally("with the right one", b.submit(), reconcile.Tally{Seen: 2, Moved: 2})
	})
}

// A key that is missing says nothing about the texts.
func TestF50_MissingKeyClosesNothingBesideIt(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		works := b.ready(3)
		b.change("UPDATE texts SET key_id = 'text-lost' WHERE report_id = $1", b.Keys.ReportID("acme", "forum", "r1"))
		b.damage("r2")
		b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
		b.want("works", "SELECT DISTINCT stage FROM works", "collected")
		b.want("finding", "SELECT SUBSTR(subject, 1, 4) || detail FROM findings", "job:work:"+works[0])
	})
}

// In a job of one there is no other text that proves the key; those of earlier
// jobs do. Without any, nobody can tell, and the job waits.
func TestF50_DamagedTextOfAJobOfOne(t *testing.T) {
	for name, earlier := range map[string]int{"behind other jobs": 2, "in the first job": 0} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				if earlier > 0 {
					b.ready(earlier)
					b.submit()
				}
				works := b.reports(1)
				b.damage([]string{"r1", "", "r3"}[earlier])
				b.collect()
				b.wantTally("submit", b.submit(), reconcile.Tally{Seen: 1, Failed: 1})
				if earlier == 0 {
					b.want("works", "SELECT stage FROM works", "collected")
					b.want("finding", "SELECT SUBSTR(subject, 1, 4) || detail FROM findings", "job:work:"+works[0])
					return
				}
				b.want("finding", "SELECT subject FROM findings", "work:"+works[0])
				b.wantTally("again", b.submit(), reconcile.Tally{Seen: 1, Moved: 1})
				b.want("its job", "SELECT j.state FROM jobs j JOIN items i ON i.job_id = j.job_id WHERE i.outcome = 'not_sent'", "abandoned")
			})
		})
	}
}

// An answer that quotes a text which was damaged meanwhile cannot be checked. A
// person gets that report, and the others their answers.
func TestF50_AnswerToADamagedText(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(3)
		x.end(j, j.answers(works), nil)
		x.exec("UPDATE texts SET encrypted = $1 WHERE report_id = $2", bytes.Repeat([]byte{7}, 90), x.report(1))
		x.consume(oneDone)
		x.items(j, "succeeded", "invalid text_unreadable", "succeeded")
		x.works(works, "extracted", "extracted text_unreadable", "extracted")
		x.apply(moved(3))
		x.records(1, "1 text_unreadable *")
		x.events("text_unreadable work:" + works[1] + ": its stored text is damaged; job job1")
	})
}

func TestF50_WrongTextKeyPutsResultsOff(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(3)
		x.end(j, j.answers(works), nil)
		right := x.r.Keys
		x.r.Keys = otherTextKey(x.t, right)
		x.consume(onePutOff)
		x.items(j, "-", "-", "-")
		x.r.Keys = right
		x.Clock.Advance(x.r.Settings.ConsumeRetry)
		x.consume(oneDone)
		x.items(j, "succeeded", "succeeded", "succeeded")
		x.events()
	})
}
