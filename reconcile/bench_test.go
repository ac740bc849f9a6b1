package reconcile_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/rs/zerolog"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// textMarker stands in every report text of these tests. Whatever a test logs,
// returns or stores in clear must not hold it.
const textMarker = "MARKER-4f1c"

// bench is a ledger with a fake processor and the passes between them.
type bench struct {
	*sqltest.Ledger
	t        testing.TB
	r        *reconcile.Reconciler
	fake     *fake.Provider
	policy   *reconcile.PolicyVersion
	log      *syncBuffer
	db       *sqlx.DB
	accepted int // reports so far
	hidden   func(fake.JobBook) bool
	// fakeBreaches: the test itself breaks the processor's rules.
	fakeBreaches bool

	processes atomic.Int32
}

// onBench runs a test on each database.
func onBench(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) { test(t, newBench(t, l)) })
}

// onFaultyBench is onBench with COMMITs that fail on request: fail is asked
// about each transaction by name.
func onFaultyBench(t *testing.T, test func(t *testing.T, b *bench, commits *commits)) {
	t.Helper()
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			c := &commits{lose: map[string]loss{}}
			l := sqltest.OpenWith(t, sqltest.Migrated(t, database), sql.Options{Begin: c.beginning, Commit: c.commit})
			test(t, newBench(t, l), c)
		})
	}
}

// commits loses COMMITs of named transactions, once each.
type commits struct {
	mu      sync.Mutex
	lose    map[string]loss
	instead func(commit func() error) error // runs a COMMIT that is lost really
	begin   func(name string)               // runs before each transaction when set; not for tests with processes side by side
}

func (c *commits) beginning(name string) error {
	if c.begin != nil {
		c.begin(name)
	}
	return nil
}

type loss int

const (
	before loss = iota + 1 // the commit does not happen, and nobody knows
	after                  // it happens, and the answer is lost
	really                 // what its connection really does to it
)

func (c *commits) commit(name string, commit func() error) error {
	c.mu.Lock()
	how := c.lose[name]
	delete(c.lose, name)
	c.mu.Unlock()
	switch how {
	case before:
		return io.ErrUnexpectedEOF
	case after:
		if err := commit(); err != nil {
			return err
		}
		return io.ErrUnexpectedEOF
	case really:
		return c.instead(commit)
	default:
		return commit()
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newBench(t *testing.T, l *sqltest.Ledger) *bench {
	t.Helper()
	return newBenchOf(t, l, l.Address)
}

// newBenchOf looks at rows at another address than the ledger's.
func newBenchOf(t *testing.T, l *sqltest.Ledger, rows string) *bench {
	t.Helper()
	b := &bench{Ledger: l, t: t, log: &syncBuffer{}, db: openRows(t, rows)}
	b.policy = l.Approve(t, sqltest.Policy("p", 1))
	b.settleBy(batch.SettleByListing)
	t.Cleanup(b.noTextOutside)
	return b
}

// settleBy puts another processor in the place of the bench's, which tells by
// these means what became of a create. Its lists come in pages of one.
func (b *bench) settleBy(s batch.Settlement) {
	b.fake = fake.New(fake.Options{
		Account: batch.Account{Processor: "fake", Name: "main", Host: "fake.test", Region: "test", Fingerprint: "fp-main"},
		Now:     b.Clock.Now, Breach: b.breached,
		Answer:     func(string, string) []byte { return []byte(`{"label":"ok","evidence":[]}`) },
		Settlement: s, Handover: handoverOf(s), Page: 1, Hide: func(j fake.JobBook) bool { return b.hidden != nil && b.hidden(j) },
	})
	b.r = b.reconciler(b.Ledger)
}

// handoverOf is how the processors of a kind take their bodies.
func handoverOf(s batch.Settlement) batch.Handover {
	if s == batch.SettleByResults || s == batch.SettleByKey {
		return batch.HandoverInline
	}
	return batch.HandoverFile
}

func (b *bench) breached(rule string) {
	if !b.fakeBreaches {
		b.t.Errorf("the processor saw a broken rule: %s", rule)
	}
}

// hide leaves jobs out of the processor's list; nil shows them all.
func (b *bench) hide(hidden func(fake.JobBook) bool) { b.hidden = hidden }

// reconciler is a fresh process over a ledger.
func (b *bench) reconciler(store reconcile.Store) *reconcile.Reconciler {
	s := reconcile.DefaultSettings()
	s.Chunk = 3
	// Two processes never draw the same ids.
	seed := [32]byte{byte(b.processes.Add(1))}
	return &reconcile.Reconciler{
		Store: store, Keys: b.Keys, Accounts: []batch.Provider{b.fake}, Settings: s,
		Now:    func(context.Context) (time.Time, error) { return b.Clock.Now(), nil },
		Uptime: b.Clock.Uptime,
		Rand:   &lockedRand{src: rand.NewChaCha8(seed)}, Log: zerolog.New(b.log).Level(zerolog.TraceLevel),
		Holder: "test", LeaseFor: time.Minute,
		PolicyFor: func(tenant, system string) (string, bool) { return "p", tenant == "acme" && system == "forum" },
	}
}

type lockedRand struct {
	mu  sync.Mutex
	src *rand.ChaCha8
}

func (l *lockedRand) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.src.Read(p)
}

// delivery is a report of source acme/forum.
func (b *bench) delivery(id string, revision int64, text string) reconcile.Delivery {
	b.t.Helper()
	d := reconcile.Delivery{
		Identity: reconcile.Identity{Tenant: "acme", System: "forum", ExternalID: id}, ReportID: b.Keys.ReportID("acme", "forum", id),
		Revision: revision, Rule: reconcile.RevisionConflict, ContentMAC: b.Keys.MAC(keyring.Content, []byte(text)), MACKeyID: b.Keys.MACKeyID(),
		ContentBytes: int64(len(text)) + 2, Policy: b.policy,
	}
	d.WorkID = func(revision int64) string { return b.Keys.WorkID(d.ReportID, revision, b.policy.ID, b.policy.Version) }
	var err error
	if d.Text, err = b.Keys.Encrypt([]byte(text), "text", d.ReportID, d.ContentMAC); err != nil {
		b.t.Fatal(err)
	}
	return d
}

func (b *bench) accept(ds ...reconcile.Delivery) (works []string) {
	b.t.Helper()
	receipts, err := b.AcceptReports(b.t.Context(), b.Clock.Now(), ds)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, rc := range receipts {
		works = append(works, rc.WorkID)
	}
	return works
}

// text is the text of a report.
func reportText(id string, revision int64) string {
	return fmt.Sprintf("%s text %s/%d", textMarker, id, revision)
}

// reports accepts n more reports, one microsecond apart, and returns their works.
func (b *bench) reports(n int) (works []string) {
	b.t.Helper()
	for range n {
		b.accepted++
		b.Clock.Advance(time.Microsecond)
		id := fmt.Sprint("r", b.accepted)
		works = append(works, b.accept(b.delivery(id, 1, reportText(id, 1)))...)
	}
	return works
}

// edit accepts another revision of the n-th report.
func (b *bench) edit(n int, revision int64) string {
	b.t.Helper()
	id := fmt.Sprint("r", n)
	return b.accept(b.delivery(id, revision, reportText(id, revision)))[0]
}

// pass runs a pass, which must not fail, and returns its tally.
func (b *bench) pass(run func(context.Context, time.Time) (reconcile.Tally, error)) reconcile.Tally {
	b.t.Helper()
	tally, err := run(b.t.Context(), b.Clock.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	return tally
}

func (b *bench) collect() reconcile.Tally { b.t.Helper(); return b.pass(b.r.Collect) }
func (b *bench) submit() reconcile.Tally  { b.t.Helper(); return b.pass(b.r.Submit) }
func (b *bench) poll() reconcile.Tally    { b.t.Helper(); return b.pass(b.r.Poll) }

// openRows opens a second connection to a ledger, for looking at rows and for
// changes that no method makes.
func openRows(t *testing.T, address string) *sqlx.DB {
	t.Helper()
	driver, dsn := "sqlite", address+"?_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)"
	if strings.HasPrefix(address, "postgres://") {
		driver, dsn = "postgres", address
	}
	db, err := sqlx.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// rows reads one text column.
func (b *bench) rows(query string, args ...any) []string {
	b.t.Helper()
	var out []string
	if err := b.db.Select(&out, query, args...); err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
	return out
}

func (b *bench) change(query string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Exec(query, args...); err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
}

// want compares the rows of a query with what a test expects.
func (b *bench) want(what, query string, want ...string) {
	b.t.Helper()
	if got := b.rows(query); !slices.Equal(got, want) {
		b.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (b *bench) wantJobs(states ...string) {
	b.t.Helper()
	b.want("job states", "SELECT state FROM jobs ORDER BY job_id", states...)
}

func (b *bench) wantFindings(names ...string) {
	b.t.Helper()
	b.want("findings", "SELECT name FROM findings WHERE resolved_us IS NULL ORDER BY name", names...)
}

func (b *bench) wantTally(what string, got, want reconcile.Tally) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// noTextOutside looks for report text wherever none may be, and for breaches of
// the invariants.
func (b *bench) noTextOutside() {
	if log := b.log.String(); strings.Contains(log, textMarker) {
		b.t.Errorf("the log holds report text: %s", log)
	}
	for _, query := range []string{
		"SELECT detail FROM findings", "SELECT detail FROM audit_events", "SELECT COALESCE(evidence, '') FROM submissions",
	} {
		for _, row := range b.rows(query) {
			if strings.Contains(row, textMarker) {
				b.t.Errorf("%s holds report text", query)
			}
		}
	}
	for _, f := range b.fake.Files() {
		if strings.Contains(f.Name, textMarker) {
			b.t.Errorf("a file name holds report text")
		}
	}
}
