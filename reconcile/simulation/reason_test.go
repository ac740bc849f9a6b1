package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

const (
	// due is when a person gets a report without a result, by the policies of a world.
	due = 48 * time.Hour
	// farthestWrong is how far the clock that stamped a report and the one by which
	// it is due may be apart: one an hour back, the other three hours ahead.
	farthestWrong = 4*time.Hour + time.Minute
	// attempts are the unusable answers after which a person takes over.
	attempts = 3
)

// reasons are those for which a person gets a report in these worlds.
var reasons = []reconcile.Reason{reconcile.AttemptsUsedUp, reconcile.ConflictingResults, reconcile.InvalidOutput, reconcile.Overdue,
	reconcile.Refused, reconcile.RejectedByProvider, reconcile.Routed, reconcile.Truncated}

// judgeReason judges that a person gets a report for a reason that there is. Who
// sends good answers to people loses nothing and does no work either.
func (o *oracle) judgeReason(report string, now recordBook) {
	why, work := reconcile.Reason(now.label), now.work
	o.reasons[why]++
	tries, said := o.tries(work)
	switch why {
	case reconcile.Overdue:
		if first, ok := o.offered[work]; !ok || o.w.now.Sub(first) < due-farthestWrong {
			o.breach("report %s is given up %s after it was first sent", report, o.w.now.Sub(first))
		}
	case reconcile.Routed:
		if !o.asked[report] {
			o.breach("report %s is routed, and nobody asked for it", report)
		}
	case reconcile.ConflictingResults:
		o.want(report, why, said[itemConflict] > 0)
	case reconcile.Refused:
		o.want(report, why, said[itemRefused] > 0)
	case reconcile.RejectedByProvider:
		o.want(report, why, o.inRefusedJob(work) || said[callRefused] > 0)
	case reconcile.Truncated:
		o.want(report, why, said[itemTruncated] > 0 && tries >= attempts)
	case reconcile.InvalidOutput:
		o.want(report, why, said[itemInvalid]+said[itemCrossed]+said[callCrossed] > 0 && tries >= attempts)
	case reconcile.AttemptsUsedUp:
		o.want(report, why, tries >= attempts)
	default:
		o.breach("report %s is %s, and nothing here makes it so", report, why)
	}
	if job := o.answeredWell(work); job != "" && slices.Contains([]reconcile.Reason{reconcile.Truncated, reconcile.InvalidOutput, reconcile.AttemptsUsedUp,
		reconcile.Refused, reconcile.RejectedByProvider, reconcile.ConflictingResults}, why) {
		o.breach("report %s is %s, although job %s answered it well", report, why, job)
	}
}

func (o *oracle) want(report string, why reconcile.Reason, so bool) {
	if !so {
		o.breach("report %s is %s, and the processor's answers do not say so", report, why)
	}
}

// tries is how many jobs had a work, and what was returned of it.
func (o *oracle) tries(work string) (n int, said map[fault]int) {
	n, said = len(o.calls.jobs[work]), map[fault]int{}
	for kind := range o.calls.returned[work] {
		said[kind]++
	}
	for _, j := range o.jobs {
		if !slices.Contains(j.works, work) {
			continue
		}
		n++
		if kind, ok := o.truth[j.id][work]; ok {
			said[kind]++
		}
	}
	return n, said
}

// answeredWell is a job that answered a work well, and whose results could be had
// and counted.
func (o *oracle) answeredWell(work string) string {
	for _, j := range o.jobs {
		kind, returned := o.truth[j.id][work]
		if returned && kind == "" && !j.stale && !o.lostSets[j.id] && !o.cutSets[j.id] && !o.vanished[j.id] && !o.abandoned(j.submission) {
			return j.id
		}
	}
	return ""
}

func (o *oracle) inRefusedJob(work string) bool {
	return slices.ContainsFunc(o.w.fake.Jobs(), func(j fake.JobBook) bool {
		book := o.byID[j.ID]
		return j.Phase == batch.PhaseInvalid && book != nil && slices.Contains(book.works, work)
	})
}

// judgeEvidence judges where the evidence of a classified report is said to stand.
func (o *oracle) judgeEvidence(report string, now recordBook) {
	for text := range o.texts[now.work] {
		label, word := rightAnswer(text)
		if label != now.label {
			continue
		}
		want := "[]"
		if word != "" {
			start := utf8.RuneCountInString(text[:strings.Index(text, word)])
			want = fmt.Sprintf("[[%d,%d]]", start, start+utf8.RuneCountInString(word))
		}
		if now.evidence == want {
			return
		}
	}
	o.breach("the evidence of report %s is %q, which is not in its text", report, now.evidence)
}

// judgeReceipt judges what a source was told of a delivery.
func (o *oracle) judgeReceipt(d delivery, rc reconcile.Receipt, r *reportBook) {
	work, known := o.works[rc.WorkID]
	// One that was routed while it was held has a work under no policy.
	if rc.WorkID != "" && work != (workBook{rc.ReportID, d.revision}) && (known || !o.asked[rc.ReportID]) {
		o.breach("the receipt of %s names work %s, which is not its own", d, rc.WorkID)
	}
	if rc.Verdict == reconcile.Conflict {
		r.contradicted = true
		return
	}
	// The ledger has one content of a revision. Two that both count would mean that
	// one was overwritten.
	if had, ok := r.content[d.revision]; ok && had != d.text {
		o.breach("%s has a receipt as %s, and the same revision had other content", d, rc.Verdict)
	}
	r.content[d.revision] = d.text
}

// judgeFindings judges that a person is told of what was contradicted.
func (o *oracle) judgeFindings() {
	for id, r := range o.reports {
		if r.contradicted && o.count("SELECT COUNT(*) FROM findings WHERE name = $1 AND subject = $2", reconcile.EventRevisionConflict.Name, "report:"+id) == 0 {
			o.breach("%s was contradicted, and no finding says so", r.name)
		}
	}
}

// sentInTime judges that a process asks for a job before the deadline of its
// submission. What a network holds up later is none of its doing.
func (o *oracle) sentInTime(p *process, submission string) {
	var deadline int64
	err := o.w.books.QueryRow("SELECT send_deadline_us FROM submissions WHERE submission_id = $1", submission).Scan(&deadline)
	if err == nil && o.w.Settles != batch.SettleByKey && p.clock().UnixMicro() > deadline {
		o.breach("submission %s is sent %s behind its deadline", submission, p.clock().Sub(time.UnixMicro(deadline)))
	}
}

// The oracle judges by the policies that its worlds have.
func TestOracleKnowsThePolicies(t *testing.T) {
	if p := sqltest.Policy(policy, 1); p.Review.DueSeconds != int64(due/time.Second) || p.Attempts != attempts {
		t.Errorf("reports are due after %d s and have %d attempts", p.Review.DueSeconds, p.Attempts)
	}
}
