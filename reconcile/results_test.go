package reconcile_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/rs/zerolog"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
	"rollcall/sql/sqltest"
)

// resultMarker stands in every text, answer and line of these tests. Outside of
// ciphertext it must not be seen again.
const resultMarker = "MARKER-7f3a"

// resultFiles is a provider of which a test sets every answer about a finished
// job, byte by byte. A file is read from its first byte on each download.
type resultFiles struct {
	*fake.Provider // decodes lines
	account        batch.Account
	body           map[string]string
	size           map[string]int64 // where the provider tells another length; -1 for none
	fail           map[string]error // what ends the download, or prevents it
	status         func() (batch.Job, error)
	downloads      int
}

func (p *resultFiles) Account() batch.Account { return p.account }

func (p *resultFiles) Download(_ context.Context, fileID string) (io.ReadCloser, int64, error) {
	p.downloads++
	body, ok := p.body[fileID]
	err := p.fail[fileID]
	if !ok && err == nil {
		err = &batch.Error{Op: "download", Kind: batch.NotFound, HTTPStatus: 404}
	}
	if !ok {
		return nil, 0, err
	}
	size, told := p.size[fileID]
	if !told {
		size = int64(len(body))
	}
	var src io.Reader = strings.NewReader(body)
	if err != nil {
		src = io.MultiReader(src, failing{err})
	}
	return io.NopCloser(src), size, nil
}

func (p *resultFiles) Status(context.Context, string) (batch.Job, error) { return p.status() }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// resultTest is a ledger with jobs at a provider that has finished them.
type resultTest struct {
	*sqltest.Ledger
	t        testing.TB
	policy   *reconcile.PolicyVersion
	provider *resultFiles
	r        *reconcile.Reconciler
	logs     *bytes.Buffer
	db       *sqlx.DB
	jobs     int
	counts   batch.Counts // what the provider tells of the next jobs that end
}

func newResultTest(t testing.TB, l *sqltest.Ledger, change func(*reconcile.Policy)) *resultTest {
	t.Helper()
	p := sqltest.Policy("forum", 1)
	if change != nil {
		change(&p)
	}
	x := &resultTest{Ledger: l, t: t, policy: l.Approve(t, p), logs: &bytes.Buffer{}}
	x.provider = &resultFiles{Provider: fake.New(fake.Options{}), body: map[string]string{}, size: map[string]int64{}, fail: map[string]error{},
		account: batch.Account{Processor: "fake", Name: "main", Host: "fake.test", Region: "test", Fingerprint: "acct"}}
	settings := reconcile.DefaultSettings()
	settings.Chunk = 3
	x.r = &reconcile.Reconciler{
		Store: l.Store, Keys: l.Keys, Accounts: []batch.Provider{x.provider}, Now: l.Now, Uptime: l.Clock.Uptime, Rand: rand.Reader,
		Log: zerolog.New(x.logs).Level(zerolog.TraceLevel), Settings: settings, Holder: "test", LeaseFor: time.Hour,
	}
	driver, dsn := "sqlite", l.Address+"?_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)"
	if strings.HasPrefix(l.Address, "postgres") {
		driver, dsn = "postgres", l.Address
	}
	x.db = sqlx.MustOpen(driver, dsn)
	t.Cleanup(func() {
		_ = x.db.Close()
		if strings.Contains(x.logs.String(), resultMarker) {
			t.Error("text is in the log")
		}
	})
	return x
}

// eachResults runs a story on each database, with a log at trace level, and
// calls the roll at its end.
func eachResults(t *testing.T, story func(x *resultTest)) {
	t.Helper()
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		x := newResultTest(t, l, nil)
		story(x)
		x.sound()
	})
}

// variantResults runs one of many variants of a story: each on SQLite, which
// opens at once, and those that are told to on both databases.
func variantResults(t *testing.T, both bool, story func(x *resultTest)) {
	t.Helper()
	if both {
		eachResults(t, story)
		return
	}
	x := newResultTest(t, sqltest.Open(t, "sqlite"), nil)
	story(x)
	x.sound()
}

// sound checks the invariants that hold at every commit, and that no text is
// in any column that is not encrypted.
func (x *resultTest) sound() {
	x.t.Helper()
	report, err := x.r.CallRoll(x.t.Context(), x.Clock.Now())
	if err != nil {
		x.t.Fatal(err)
	}
	for _, inv := range report.Invariants {
		if inv.Total > 0 && !inv.Decision {
			x.t.Errorf("invariant %s: %v", inv.Name, inv.Breaches)
		}
	}
	for _, f := range x.findings() {
		if strings.Contains(fmt.Sprintf("%+v", f), resultMarker) {
			x.t.Errorf("text is in finding %s", f.Name)
		}
	}
	for _, column := range []string{"code FROM result_lines", "COALESCE(evidence, '') FROM result_lines", "model FROM result_lines",
		"COALESCE(label, '') FROM result_lines", "detail FROM audit_events", "evidence FROM artifacts"} {
		for _, v := range x.strings("SELECT " + column) {
			if strings.Contains(v, resultMarker) {
				x.t.Errorf("text is in the column %s", column)
			}
		}
	}
}

func (x *resultTest) strings(query string, args ...any) []string {
	x.t.Helper()
	var out []string
	if err := x.db.Select(&out, query, args...); err != nil {
		x.t.Fatalf("%s: %v", query, err)
	}
	return out
}

func (x *resultTest) exec(query string, args ...any) {
	x.t.Helper()
	if _, err := x.db.Exec(query, args...); err != nil {
		x.t.Fatalf("%s: %v", query, err)
	}
}

func (x *resultTest) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// report is a report of the test by its number.
func (x *resultTest) report(n int) string {
	return x.Keys.ReportID("acme", "forum", fmt.Sprint(n))
}

func (x *resultTest) work(n int, revision int64) string {
	return x.Keys.WorkID(x.report(n), revision, x.policy.ID, x.policy.Version)
}

func resultText(n int) string {
	return fmt.Sprintf("report %d says “buy now” 💊 %s", n, resultMarker)
}

// deliver accepts a revision of a report.
func (x *resultTest) deliver(n int, revision int64) {
	x.t.Helper()
	id, body := x.report(n), resultText(n)
	mac := x.Keys.MAC(keyring.Content, []byte(fmt.Sprint(n, revision)))
	sealed, err := x.Keys.Encrypt([]byte(body), "text", id, mac)
	x.must(err)
	receipts, err := x.AcceptReports(x.t.Context(), x.Clock.Now(), []reconcile.Delivery{{
		Identity: reconcile.Identity{Tenant: "acme", System: "forum", ExternalID: fmt.Sprint(n)}, ReportID: id, Revision: revision,
		Rule: reconcile.RevisionConflict, ContentMAC: mac, MACKeyID: x.Keys.MACKeyID(), ContentBytes: int64(len(body)), Text: sealed,
		Policy: x.policy, WorkID: func(revision int64) string { return x.work(n, revision) },
	}})
	x.must(err)
	if receipts[0].WorkID != x.work(n, revision) {
		x.t.Fatalf("report %d was not accepted: %+v", n, receipts[0])
	}
}

// sentJob is a job that the provider has finished.
type sentJob struct{ id, submission, providerID string }

// send makes a job of works and hands it over.
func (x *resultTest) send(works ...string) sentJob {
	x.t.Helper()
	ctx, now := x.t.Context(), x.Clock.Now()
	x.jobs++
	j := sentJob{fmt.Sprintf("job%d", x.jobs), fmt.Sprintf("sub%d", x.jobs), fmt.Sprintf("batch_%d", x.jobs)}
	_, err := x.AddItems(ctx, now, reconcile.PlanStep{JobID: j.id, Policy: x.policy, Works: works, Ready: true})
	x.must(err)
	_, err = x.CommitIntent(ctx, now, reconcile.Intent{SubmissionID: j.submission, JobID: j.id, Account: x.provider.account,
		SendBy: now.Add(time.Minute), Manifest: func() hash.Hash { return x.Keys.NewMAC(keyring.Manifest) }})
	x.must(err)
	x.must(x.RecordUpload(ctx, reconcile.Upload{SubmissionID: j.submission, FileID: "file-in-" + j.id, Bytes: 1, BodyMAC: "m"}))
	x.must(x.RecordAccepted(ctx, now, reconcile.Acceptance{SubmissionID: j.submission, ProviderJobID: j.providerID, Status: "validating",
		NextPoll: now.Add(time.Minute)}))
	return j
}

// end ends a job with result files of these lines; nil for no file.
func (x *resultTest) end(j sentJob, output, errors []string) {
	x.t.Helper()
	var files []batch.ResultFile
	add := func(channel batch.Channel, lines []string) {
		if lines != nil {
			files = append(files, batch.ResultFile{Channel: channel, ID: string(channel) + "-" + j.id})
			x.provider.body[string(channel)+"-"+j.id] = joined(lines)
		}
	}
	add(batch.ChannelOutput, output)
	add(batch.ChannelError, errors)
	x.must(x.EndJob(x.t.Context(), x.Clock.Now(), reconcile.JobEnd{JobID: j.id, Phase: batch.PhaseEnded, Status: "completed", Files: files, Counts: x.counts}))
}

func joined(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
	return b.String()
}

// prepare delivers n reports and sends them in one job.
func (x *resultTest) prepare(n int) (j sentJob, works []string) {
	x.t.Helper()
	for i := range n {
		x.deliver(i, 1)
		works = append(works, x.work(i, 1))
	}
	return x.send(works...), works
}

// answered is a result line with an answer, for which there is always proof.
func (j sentJob) answered(work, label string) string {
	return string(fake.Answered(work+"-"+j.submission, fmt.Appendf(nil, `{"label":%q,"evidence":["“buy now”","%s"]}`, label, resultMarker)).Raw)
}

func (j sentJob) answers(works []string) []string {
	var lines []string
	for _, w := range works {
		lines = append(lines, j.answered(w, "spam"))
	}
	return lines
}

func (j sentJob) failed(work string, o batch.Outcome, code string) string {
	return string(fake.Failed(work+"-"+j.submission, o, code).Raw)
}

// consume runs the pass and compares its tally.
func (x *resultTest) consume(want reconcile.Tally) {
	x.t.Helper()
	got, err := x.r.Consume(x.t.Context(), x.Clock.Now())
	x.must(err)
	if got != want {
		x.t.Fatalf("consume: %+v, want %+v\n%s", got, want, x.logs)
	}
}

func (x *resultTest) apply(want reconcile.Tally) {
	x.t.Helper()
	got, err := x.r.Apply(x.t.Context(), x.Clock.Now())
	x.must(err)
	if got != want {
		x.t.Fatalf("apply: %+v, want %+v", got, want)
	}
}

var (
	oneDone   = reconcile.Tally{Seen: 1, Moved: 1}
	onePutOff = reconcile.Tally{Seen: 1, Failed: 1}
	nothing   = reconcile.Tally{}
)

func moved(n int64) reconcile.Tally { return reconcile.Tally{Seen: n, Moved: n} }

// items are the outcomes of a job's members by the number of their report.
func (x *resultTest) items(j sentJob, want ...string) {
	x.t.Helper()
	got := x.strings("SELECT COALESCE(outcome, '-') || CASE WHEN code = '' THEN '' ELSE ' ' || code END FROM items WHERE job_id = $1 ORDER BY position", j.id)
	if diff := cmp.Diff(want, got); diff != "" {
		x.t.Errorf("items (-want +got):\n%s", diff)
	}
}

// lines counts a job's lines by what became of them.
func (x *resultTest) lines(j sentJob, want ...string) {
	x.t.Helper()
	got := x.strings("SELECT disposition || ' ' || CAST(COUNT(*) AS TEXT) FROM result_lines WHERE job_id = $1 GROUP BY disposition ORDER BY disposition", j.id)
	if diff := cmp.Diff(want, got); diff != "" {
		x.t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// works are the stages and reasons of works.
func (x *resultTest) works(works []string, want ...string) {
	x.t.Helper()
	var got []string
	for _, w := range works {
		got = append(got, x.strings("SELECT stage || CASE WHEN reason IS NULL THEN '' ELSE ' ' || reason END FROM works WHERE work_id = $1", w)...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		x.t.Errorf("works (-want +got):\n%s", diff)
	}
}

// records are the records of a report, lowest revision first; the
// authoritative one bears a star.
func (x *resultTest) records(n int, want ...string) {
	x.t.Helper()
	got := x.strings(`SELECT CAST(revision AS TEXT) || ' ' || COALESCE(label, reason) || CASE WHEN authoritative = 1 THEN ' *' ELSE '' END
		FROM review_records WHERE report_id = $1 ORDER BY revision, work_id`, x.report(n))
	if diff := cmp.Diff(want, got); diff != "" {
		x.t.Errorf("records of report %d (-want +got):\n%s", n, diff)
	}
}

func (x *resultTest) findings() []reconcile.Finding {
	x.t.Helper()
	found, err := x.Findings(x.t.Context(), true, 100)
	x.must(err)
	return found
}

// events are the open events as "name subject: detail".
func (x *resultTest) events(want ...string) {
	x.t.Helper()
	var got []string
	for _, f := range x.findings() {
		if f.Kind == "event" {
			got = append(got, f.Name+" "+f.Subject+": "+f.Detail)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		x.t.Errorf("events (-want +got):\n%s", diff)
	}
}

func repeat(s string, n int) []string { return slices.Repeat([]string{s}, n) }
