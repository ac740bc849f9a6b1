package reconcile_test

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// said is a result line of a case, without the ids that differ between worlds.
type said struct {
	member int // of the job; none for a line of nobody
	kind   string
}

var kinds = []string{"spam", "harassment", "no label", "no evidence", "expired", "failed", "refused", "denied", "torn", "of another submission", "of nobody", "junk"}

// line is the line as the provider of a job writes it.
func (s said) line(x *resultTest, j sentJob, works []string) string {
	work := works[s.member]
	switch s.kind {
	case "spam", "harassment", "no label":
		return j.answered(work, s.kind)
	case "no evidence":
		return strings.Replace(j.answered(work, "spam"), "buy now", "buy later", 1)
	case "expired":
		return j.failed(work, batch.Expired, "batch_expired")
	case "failed":
		return j.failed(work, batch.ItemFailed, "server_error")
	case "refused":
		return j.failed(work, batch.Refused, "")
	case "denied":
		return j.failed(work, batch.ItemDenied, "no_model")
	case "torn":
		whole := j.answered(work, "spam")
		return whole[:len(whole)/2]
	case "of another submission":
		return sentJob{j.id, "other", j.providerID}.answered(work, "spam")
	case "of nobody":
		return j.answered("nobody", "spam")
	}
	return "junk " + resultMarker
}

// finished is what a job has left in the ledger, by the number of the report.
type finished struct {
	Items, Lines, Works, Records, Artifacts []string
	Braked                                  bool // dispatch to the account was stopped
}

// finish delivers reports, sends them in one job, and brings its results to
// records; in which order and files the lines come, in which chunks they are
// read and judged, and whether a download breaks on the way, is drawn.
func (x *resultTest) finish(rt *rapid.T, first, members int, lines []said) finished {
	x.t.Helper()
	var works []string
	for n := range members {
		x.deliver(first+n, 1)
		works = append(works, x.work(first+n, 1))
	}
	j := x.send(works...)
	var output, failed []string
	for _, s := range rapid.Permutation(lines).Draw(rt, "order") {
		if rapid.Bool().Draw(rt, "in the error file") {
			failed = append(failed, s.line(x, j, works))
		} else {
			output = append(output, s.line(x, j, works))
		}
	}
	x.end(j, output, failed)
	x.r.Settings.Chunk = rapid.IntRange(1, 5).Draw(rt, "chunk")
	if torn := rapid.SampledFrom([]batch.Channel{"", batch.ChannelOutput, batch.ChannelError}).Draw(rt, "torn"); torn != "" && x.provider.body[string(torn)+"-"+j.id] != "" {
		x.provider.fail[string(torn)+"-"+j.id] = io.ErrUnexpectedEOF
		x.consume(onePutOff)
		clear(x.provider.fail)
		x.Clock.Advance(x.r.Settings.ConsumeRetry)
	}
	x.consume(oneDone)
	if _, err := x.r.Apply(x.t.Context(), x.Clock.Now()); err != nil {
		rt.Fatal(err)
	}
	braked := x.release()
	return finished{
		Braked: braked,
		Items:  x.strings("SELECT COALESCE(outcome, '-') || ' ' || code FROM items WHERE job_id = $1 ORDER BY position", j.id),
		Lines: x.strings(`SELECT COALESCE(CAST(i.position AS TEXT), '-') || ' ' || l.disposition || ' ' || l.outcome || ' ' || l.code || ' ' || CAST(COUNT(*) AS TEXT) FROM result_lines l
			LEFT JOIN items i ON i.job_id = l.job_id AND i.work_id = l.work_id WHERE l.job_id = $1 GROUP BY i.position, l.disposition, l.outcome, l.code ORDER BY 1`, j.id),
		Works: x.strings(`SELECT w.stage || ' ' || COALESCE(w.reason, '') || ' ' || CAST(w.eligible_us > $2 AS INTEGER) FROM works w JOIN items i ON i.work_id = w.work_id
			WHERE i.job_id = $1 ORDER BY i.position`, j.id, x.Clock.Now().UnixMicro()),
		Records: x.strings(`SELECT CAST(i.position AS TEXT) || ' ' || v.kind || ' ' || COALESCE(v.label, v.reason) || ' ' || CAST(v.authoritative AS TEXT) FROM review_records v
			JOIN items i ON i.work_id = v.work_id WHERE i.job_id = $1 ORDER BY i.position`, j.id),
		Artifacts: x.strings("SELECT CAST(i.position AS TEXT) || ' ' || a.label || ' ' || a.evidence FROM artifacts a JOIN items i ON i.work_id = a.work_id WHERE i.job_id = $1 ORDER BY i.position", j.id),
	}
}

// release lifts what a denied item has stopped, and says whether one has.
func (x *resultTest) release() bool {
	x.t.Helper()
	pauses, err := x.Pauses(x.t.Context())
	x.must(err)
	for _, p := range pauses {
		x.must(x.Resume(x.t.Context(), x.Clock.Now(), p.Scope, p.Stage, "test", "for the next case"))
	}
	return len(pauses) > 0
}

// TestF31_ResultsDoNotDependOnOrder: from the same lines comes the same, in
// whatever order, files and chunks they are read.
func TestF31_ResultsDoNotDependOnOrder(t *testing.T) {
	x := newResultTest(t, sqltest.Open(t, "sqlite"), nil)
	reports := 100_000 // the number is in the text, and its digits move what is quoted
	withLedger(t, 20, func(rt *rapid.T) {
		members := rapid.IntRange(1, 4).Draw(rt, "members")
		one := rapid.Custom(func(rt *rapid.T) said {
			return said{rapid.IntRange(0, members-1).Draw(rt, "member"), rapid.SampledFrom(kinds).Draw(rt, "kind")}
		})
		lines := rapid.SliceOfN(one, 0, 8).Draw(rt, "lines")
		want := x.finish(rt, reports, members, lines)
		got := x.finish(rt, reports+members, members, lines)
		reports += 2 * members
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("of %v: %s", lines, diff)
		}
	})
	x.sound()
}

// standingRecord is the record that stands for a report.
type standingRecord struct {
	ReportID string `db:"report_id"`
	WorkID   string `db:"work_id"`
	Revision int64  `db:"revision"`
	Decided  int64  `db:"decided"`
	Content  string `db:"content"`
}

// roll is a case of the property below: two reports, and all that can happen.
type roll struct {
	*resultTest
	rt       *rapid.T
	first    int                 // number of the first report
	revision [2]int64            // highest that was delivered
	open     []sentJob           // not ended
	works    map[string][]string // of a job
	stands   map[string]standingRecord
	records  map[string]string // what each record says, for ever
}

func (r *roll) edit() {
	n := rapid.IntRange(0, 1).Draw(r.rt, "report")
	r.revision[n] += rapid.Int64Range(1, 2).Draw(r.rt, "higher by")
	r.deliver(r.first+n, r.revision[n])
}

// send makes a job of some of the works that are wanted.
func (r *roll) send() {
	var pending []string
	for n := range 2 {
		pending = append(pending, r.strings("SELECT work_id FROM works WHERE report_id = $1 AND stage = 'pending' AND disposition = 'live' AND eligible_us <= $2", r.report(r.first+n), r.Clock.Now().UnixMicro())...)
	}
	if len(pending) == 0 {
		return
	}
	works := pending[:rapid.IntRange(1, len(pending)).Draw(r.rt, "members")]
	j := r.resultTest.send(works...)
	r.open, r.works[j.id] = append(r.open, j), works
}

// result ends one of the jobs, not always the oldest, and reads its results.
func (r *roll) result() {
	if len(r.open) == 0 {
		return
	}
	i := rapid.IntRange(0, len(r.open)-1).Draw(r.rt, "job")
	j := r.open[i]
	r.open = slices.Delete(r.open, i, i+1)
	lines := []string{}
	for n, work := range r.works[j.id] {
		switch rapid.IntRange(0, 4).Draw(r.rt, "result") {
		case 0:
			lines = append(lines, j.failed(work, batch.ItemFailed, "server_error"))
		case 1:
			lines = append(lines, j.failed(work, batch.Refused, ""))
		default:
			lines = append(lines, j.answered(work, []string{"spam", "harassment"}[n%2]))
		}
	}
	r.end(j, lines, nil)
	r.consume(oneDone)
	r.Clock.Advance(r.r.Settings.ItemRetry)
}

// apply applies at most one work of each report, or all.
func (r *roll) apply() {
	limit := rapid.SampledFrom([]int{1, 100}).Draw(r.rt, "limit")
	if _, err := r.ApplyExtracted(r.t.Context(), r.Clock.Now(), limit, reconcile.Authority); err != nil {
		r.rt.Fatal(err)
	}
}

// overdue gives everything that is late to a person.
func (r *roll) overdue() {
	r.Clock.Advance(r.policy.Review.Due() + time.Minute)
	if _, err := r.CloseOverdue(r.t.Context(), r.Clock.Now(), 100); err != nil {
		r.rt.Fatal(err)
	}
}

func (r *roll) decide() {
	r.exec("UPDATE review_records SET human_state = 'decided' WHERE authoritative = 1 AND report_id = $1", r.report(r.first+rapid.IntRange(0, 1).Draw(r.rt, "decided")))
}

const recordsSQL = `SELECT v.report_id, v.work_id, v.revision, CASE v.human_state WHEN 'decided' THEN 1 ELSE 0 END AS decided,
	v.kind || ' ' || COALESCE(v.label, v.reason) || ' ' || COALESCE(v.evidence, '') || ' ' || COALESCE(a.payload_mac, '') AS content
	FROM review_records v LEFT JOIN artifacts a ON a.work_id = v.artifact_id WHERE v.report_id IN ($1, $2)`

// monotone holds that of each report at most one record stands, never one of a
// lower revision than before, that a decided one stands for ever, and that no
// record is lost or says something else than it said.
func (r *roll) monotone() {
	var all, standing []standingRecord
	ids := []any{r.report(r.first), r.report(r.first + 1)}
	if err := r.db.Select(&all, recordsSQL, ids...); err != nil {
		r.rt.Fatal(err)
	}
	if err := r.db.Select(&standing, recordsSQL+" AND v.authoritative = 1", ids...); err != nil {
		r.rt.Fatal(err)
	}
	known := map[string]string{}
	for _, v := range all {
		known[v.WorkID] = v.Content
	}
	for work, content := range r.records {
		if known[work] != content {
			r.rt.Fatalf("a record said %q and says %q", content, known[work])
		}
	}
	r.records = known
	now := map[string]standingRecord{}
	for _, v := range standing {
		before, stood := r.stands[v.ReportID]
		if _, two := now[v.ReportID]; two || stood && (v.Revision < before.Revision || v.Revision == before.Revision && v.Content != before.Content || before.Decided == 1 && v != before) {
			r.rt.Fatalf("%+v stands, before it %+v", v, before)
		}
		now[v.ReportID] = v
	}
	if len(now) < len(r.stands) {
		r.rt.Fatalf("nothing stands where %+v stood", r.stands)
	}
	r.stands = now
}

// settled holds that at the end what the ledger knows of the highest revision
// stands, unless a person has decided.
func (r *roll) settled() {
	for len(r.open) > 0 {
		r.result()
	}
	if _, err := r.r.Apply(r.t.Context(), r.Clock.Now()); err != nil {
		r.rt.Fatal(err)
	}
	r.monotone()
	for n := range 2 {
		highest := r.strings("SELECT work_id FROM review_records WHERE report_id = $1 AND revision = (SELECT current_revision FROM reports WHERE report_id = $1)", r.report(r.first+n))
		if stands := r.stands[r.report(r.first+n)]; len(highest) == 1 && stands.Decided == 0 && stands.WorkID != highest[0] {
			r.rt.Fatalf("%+v stands, and revision %d is recorded", stands, r.revision[n])
		}
	}
}

// TestF42_AuthorityIsMonotone: over any sequence of edits, jobs, results,
// applies, decisions and reports that become overdue.
func TestF42_AuthorityIsMonotone(t *testing.T) {
	for _, rule := range []reconcile.AuthorityRule{reconcile.HighestAccepted, reconcile.HighestApplied} {
		t.Run(string(rule), func(t *testing.T) {
			x := newResultTest(t, sqltest.Open(t, "sqlite"), func(p *reconcile.Policy) { p.Authority = rule })
			reports := 0
			withLedger(t, 15, func(rt *rapid.T) {
				r := &roll{resultTest: x, rt: rt, first: reports, works: map[string][]string{}}
				reports += 2
				steps := map[string]func(){"edit": r.edit, "send": r.send, "result": r.result, "apply": r.apply, "overdue": r.overdue, "decide": r.decide}
				names := []string{"edit", "edit", "send", "send", "send", "result", "result", "result", "apply", "apply", "apply", "overdue", "decide"}
				for n := range 2 {
					r.revision[n] = 1
					r.deliver(r.first+n, 1)
				}
				for range rapid.IntRange(4, 14).Draw(rt, "steps") {
					steps[rapid.SampledFrom(names).Draw(rt, "step")]()
					r.monotone()
				}
				r.settled()
			})
			x.sound()
		})
	}
}
