package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
	"rollcall/sql/sqltest"
)

// onResultsOf runs a story on each database under a changed policy.
func onResultsOf(t *testing.T, change func(*reconcile.Policy), story func(x *resultTest)) {
	t.Helper()
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		x := newResultTest(t, l, change)
		story(x)
		x.sound()
	})
}

// named is how a finding names works.
func named(works ...string) string {
	return strings.Join(slices.Sorted(slices.Values(works)), ", work ")
}

func echoing(p *reconcile.Policy) { p.Classifier.Echo = true }

// scoring is a policy of a processor that gives scores.
func scoring(p *reconcile.Policy) {
	p.Classifier = reconcile.Classifier{
		Name: "scores/1", Model: p.Classifier.Model,
		Schema: []byte(`{"type":"object","properties":{"label":{"enum":["self_harm","spam","ok"]},"not_assessed":{"type":"array"},"scores":{"type":"object"},"flagged":{"type":"array"}},` +
			`"required":["label","not_assessed","scores","flagged"],"additionalProperties":false}`),
		Labels:     []reconcile.Label{{Name: "self_harm"}, {Name: "spam"}, {Name: "ok"}},
		Thresholds: []reconcile.Threshold{{Category: "SelfHarm", Score: 2, Label: "self_harm"}},
		Otherwise:  "ok",
	}
}

// repeating is an answer that repeats the token of a request.
func repeating(customID string) []byte {
	return fmt.Appendf(nil, `{"token":%q,"label":"spam","evidence":["%s"]}`, batch.EchoToken(customID), resultMarker)
}

// An answer under another text's id has the right shape, and quotes may even fit:
// only the token tells. It is never applied, somebody is told, and the item is
// tried again within the policy's attempts.
func TestF34_CrossedAnswersAreToldAndTriedAgain(t *testing.T) {
	onResultsOf(t, echoing, func(x *resultTest) {
		j, works := x.prepare(5)
		id := func(n int) string { return works[n] + "-" + j.submission }
		line := func(n int, content []byte) string { return string(fake.Answered(id(n), content).Raw) }
		crossed := []string{line(1, repeating(id(2))), line(2, repeating(id(1)))}
		x.end(j, append([]string{line(0, repeating(id(0)))}, append(crossed,
			line(3, []byte(`{"label":"spam","evidence":["`+resultMarker+`"]}`)), // as a model that leaves the token out
			line(4, []byte("no JSON "+resultMarker)),
		)...), nil)
		x.consume(oneDone)
		x.items(j, "succeeded", "invalid crossed_answer", "invalid crossed_answer", "invalid crossed_answer", "invalid invalid_json")
		x.works(works, "extracted", "pending", "pending", "pending", "pending")
		told := x.findings()
		if len(told) != 1 || told[0].Severity != reconcile.Critical {
			t.Errorf("findings: %+v", told)
		}
		x.events(fmt.Sprintf("crossed_answer job:%s: output: 3 items: work %s", j.id, named(works[1:4]...)))
		if !strings.Contains(x.logs.String(), works[2]) {
			t.Error("the log does not name the works")
		}
		// As often as the policy permits, and then a person gets the reports.
		for range 2 {
			x.Clock.Advance(48 * time.Hour)
			j = x.send(works[1:]...)
			var lines []string
			for n := 1; n < 5; n++ {
				lines = append(lines, line(n, repeating("another")))
			}
			x.end(j, lines, nil)
			x.consume(oneDone)
		}
		x.works(works, "extracted", "extracted invalid_output", "extracted invalid_output", "extracted invalid_output", "extracted invalid_output")
		x.apply(moved(5))
		x.records(0, "1 spam *")
		x.records(1, "1 invalid_output *")
	})
}

// Scores become a label once, by the policy's thresholds, and a category without
// a score makes none.
func TestScoresBecomeALabel(t *testing.T) {
	onResultsOf(t, scoring, func(x *resultTest) {
		j, works := x.prepare(3)
		scores := func(n int, s map[string]float64) string {
			content, err := batch.Scores{Scores: s}.Content()
			x.must(err)
			return string(fake.Answered(works[n]+"-"+j.submission, content).Raw)
		}
		x.end(j, []string{scores(0, map[string]float64{"SelfHarm": 2}), scores(1, map[string]float64{"SelfHarm": 1}), scores(2, map[string]float64{"Hate": 6})}, nil)
		x.consume(oneDone)
		x.items(j, "succeeded", "succeeded", "invalid category_missing")
		x.apply(moved(2))
		x.records(0, "1 self_harm *")
		x.records(1, "1 ok *")
		x.records(2)
	})
}

// The answers of calls are judged once as well, after they were joined.
func TestF34_CrossedAnswersOfCalls(t *testing.T) {
	onCallBench(t, fake.CallerOptions{Answer: func(c fake.Call) (batch.Result, error) {
		id := c.CustomID
		if strings.Contains(c.Text, "r2/") {
			id = "another"
		}
		return fake.Answer(fmt.Appendf(nil, `{"token":%q,"label":"ok","evidence":[]}`, batch.EchoToken(id))), nil
	}}, func(t *testing.T, b *callBench) {
		p := b.policy.Policy
		p.Version++
		p.Classifier.Echo = true
		b.policy = b.Approve(t, p)
		works := b.sent(3)
		b.call()
		b.done()
		b.want("items", "SELECT outcome || ' ' || code FROM items ORDER BY position", "succeeded ", "invalid crossed_answer", "succeeded ")
		b.want("findings", "SELECT name || ' ' || severity || ' ' || subject || ': ' || detail FROM findings",
			fmt.Sprintf("crossed_answer critical job:%s: output: 1 items: work %s", b.rows("SELECT job_id FROM jobs")[0], works[1]))
		b.wantClassified(2)
	})
}

func TestScoresOfCallsBecomeALabel(t *testing.T) {
	onCallBench(t, fake.CallerOptions{Answer: func(fake.Call) (batch.Result, error) {
		content, err := batch.Scores{Scores: map[string]float64{"SelfHarm": 6}}.Content()
		return fake.Answer(content), err
	}}, func(t *testing.T, b *callBench) {
		p := b.policy.Policy
		p.Version++
		scoring(&p)
		b.policy = b.Approve(t, p)
		b.sent(2)
		b.call()
		b.done()
		b.want("labels", "SELECT DISTINCT label FROM review_records WHERE authoritative = 1", "self_harm")
		b.wantClassified(2)
	})
}

// Texts that another vendor has served, or nobody knows who, are parked: nothing
// is applied and nothing is sent again, a person gets each report, the account is
// stopped, and somebody is told which texts are concerned and where they were.
func TestS7_UnapprovedVendorIsParkedAndTold(t *testing.T) {
	eachResults(t, func(x *resultTest) {
		j, works := x.prepare(4)
		served := func(n int, o batch.Outcome, vendor, code string) string {
			return string(fake.Result(batch.ChannelOutput, batch.Result{CustomID: works[n] + "-" + j.submission, Outcome: o, Vendor: vendor, Code: code,
				Content: map[bool][]byte{true: fmt.Appendf(nil, `{"label":"spam","evidence":["%s"]}`, resultMarker)}[o == batch.Answered], Model: "fake-1"}).Raw)
		}
		x.end(j, []string{
			served(0, batch.Answered, "acme", ""), served(1, batch.Unapproved, "elsewhere", ""), served(2, batch.Unapproved, "", "cache_hit"),
			served(3, batch.Unapproved, resultMarker+" and text", ""),
		}, nil)
		x.consume(oneDone)
		x.items(j, "succeeded", "unapproved unapproved_vendor", "unapproved cache_hit", "unapproved unapproved_vendor")
		x.lines(j, "accepted 1", "item_error 3")
		x.works(works, "extracted", "extracted unapproved_processor", "extracted unapproved_processor", "extracted unapproved_processor")
		x.events(fmt.Sprintf("unapproved_vendor job:%s: output: vendor elsewhere, unknown (cache_hit), unprintable: 3 items: work %s", j.id, named(works[1:4]...)))
		if f := x.findings(); len(f) != 1 || f[0].Severity != reconcile.Critical {
			t.Errorf("findings: %+v", f)
		}
		wantStopped(x)
		x.apply(moved(4))
		x.records(0, "1 spam *")
		for n := 1; n < 4; n++ {
			x.records(n, "1 unapproved_processor *")
		}
		for n, vendor := range []string{"acme", "elsewhere", "", "unprintable"} {
			h, err := x.ReportHistory(t.Context(), x.report(n))
			x.must(err)
			if got := h.Works[0].Sent[0].Vendor; got != vendor {
				t.Errorf("report %d was served by %q, want %q", n, got, vendor)
			}
		}
		x.consume(nothing)
		x.apply(nothing)
	})
}

func wantStopped(x *resultTest) {
	x.t.Helper()
	pauses, err := x.Pauses(x.t.Context())
	x.must(err)
	if len(pauses) != 1 || pauses[0].Scope != "account:main" || pauses[0].Stage != reconcile.PauseDispatch {
		x.t.Errorf("pauses: %+v", pauses)
	}
}

// An answer of another model than the approved one is as little applied. Its
// snapshot is no other model, and neither is a name that was approved with it.
func TestS7_AnswerOfAnotherModelIsParkedAndTold(t *testing.T) {
	onResultsOf(t, func(p *reconcile.Policy) { p.Classifier.AnswersAs = []string{"models/fake"} }, func(x *resultTest) {
		j, works := x.prepare(6)
		served := func(n int, model string) string {
			return string(fake.Result(batch.ChannelOutput, batch.Result{CustomID: works[n] + "-" + j.submission, Outcome: batch.Answered, Model: model,
				Content: fmt.Appendf(nil, `{"label":"spam","evidence":["%s"]}`, resultMarker)}).Raw)
		}
		x.end(j, []string{
			served(0, "fake-1"), served(1, ""), served(2, "fake-1-2026-11-30"), served(3, "models/fake"), served(4, "fake-2"), served(5, resultMarker+" {}"),
		}, nil)
		x.consume(oneDone)
		x.items(j, "succeeded", "succeeded", "succeeded", "succeeded", "unapproved another_model", "unapproved another_model")
		x.events(fmt.Sprintf("another_model job:%s: output: model fake-2, unprintable: 2 items: work %s", j.id, named(works[4:6]...)))
		wantStopped(x)
		x.apply(moved(6))
		for n := range 4 {
			x.records(n, "1 spam *")
		}
		x.records(4, "1 unapproved_processor *")
		x.records(5, "1 unapproved_processor *")
	})
}

func TestS7_UnapprovedCallsAreParkedAndNotRepeated(t *testing.T) {
	onCallBench(t, fake.CallerOptions{Answer: func(c fake.Call) (batch.Result, error) {
		switch {
		case strings.Contains(c.Text, "r1/"):
			return batch.Result{Outcome: batch.Unapproved, Vendor: "elsewhere"}, nil
		case strings.Contains(c.Text, "r2/"):
			res := fake.Answer(goodAnswer)
			res.Model = "fake-2"
			return res, nil
		}
		return fake.Answer(goodAnswer), nil
	}}, func(t *testing.T, b *callBench) {
		b.sent(3)
		b.call()
		b.done()
		b.want("items", "SELECT outcome || ' ' || code FROM items ORDER BY position", "unapproved unapproved_vendor", "unapproved another_model", "succeeded ")
		b.want("findings", "SELECT name || ' ' || severity FROM findings ORDER BY name", "another_model critical", "unapproved_vendor critical")
		b.want("records", "SELECT COALESCE(label, reason) FROM review_records ORDER BY COALESCE(label, reason)", "ok", "unapproved_processor", "unapproved_processor")
		b.Clock.Advance(100 * time.Hour)
		b.collect()
		b.call()
		b.wantCalls(3)
	})
}

// A label in another case is the label, and is stored as the schema spells it, in
// the artifact too. Where two labels differ by case alone, it is none of them.
func TestLabelInAnotherCase(t *testing.T) {
	line := func(j sentJob, work, label string) string {
		return string(fake.Answered(work+"-"+j.submission, fmt.Appendf(nil, `{"evidence":["%s"], "label" : %s }`, resultMarker, label)).Raw)
	}
	t.Run("one label of that spelling", func(t *testing.T) {
		eachResults(t, func(x *resultTest) {
			j, works := x.prepare(5)
			x.end(j, []string{
				line(j, works[0], `"SPAM"`), line(j, works[1], `"\u0053elf_Harm"`), line(j, works[2], `"Spam "`), line(j, works[3], `["SPAM"]`), line(j, works[4], `"Spa\u006d"`),
			}, nil)
			x.consume(oneDone)
			x.items(j, "succeeded", "succeeded", "invalid schema", "invalid schema", "succeeded")
			x.apply(moved(3))
			x.records(0, "1 spam *")
			x.records(1, "1 self_harm *")
			for n, want := range map[int]string{0: "spam", 1: "self_harm", 4: "spam"} {
				var a struct {
					Encrypted []byte `db:"encrypted"`
					KeyID     string `db:"key_id"`
				}
				x.must(x.db.Get(&a, "SELECT encrypted, key_id FROM artifacts WHERE work_id = $1", works[n]))
				plain, err := x.Keys.Decrypt(keyring.Encrypted{KeyID: a.KeyID, Bytes: a.Encrypted}, reconcile.AnswerPlace(works[n])...)
				if got := fmt.Sprintf(`{"evidence":["%s"], "label" : "%s" }`, resultMarker, want); err != nil || string(plain) != got {
					t.Errorf("the answer of report %d is not stored as the schema spells it (%v)", n, err)
				}
			}
		})
	})
	t.Run("two of them", func(t *testing.T) {
		onResultsOf(t, func(p *reconcile.Policy) {
			p.Classifier.Schema = []byte(strings.Replace(sqltest.AnswerSchema, `"spam"`, `"spam","Spam"`, 1))
			p.Classifier.Labels = append(p.Classifier.Labels, reconcile.Label{Name: "Spam"})
		}, func(x *resultTest) {
			j, works := x.prepare(3)
			x.end(j, []string{line(j, works[0], `"SPAM"`), line(j, works[1], `"Spam"`), line(j, works[2], `"OK"`)}, nil)
			x.consume(oneDone)
			x.items(j, "invalid schema", "succeeded", "succeeded")
			x.apply(moved(2))
			x.records(1, "1 Spam *")
			x.records(2, "1 ok *")
		})
	})
}
