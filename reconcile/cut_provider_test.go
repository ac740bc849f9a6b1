package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/openai"
	"rollcall/batch/sandbox"
	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// accountStory is a life of some reports with the real client at the sandbox, in
// which every kind of request comes up: a create is refused, another one's answer
// is lost, and a surplus job is cancelled and deleted.
type accountStory struct {
	*bench
	box    *sandbox.Server
	direct *openai.Client // that nothing cuts
	errors []string

	mu   sync.Mutex
	seen map[string]int // requests through the relay, by kind
}

const storyReports = 5

// requestKinds are how the requests of each kind begin.
var requestKinds = map[string]string{
	"upload": "POST /v1/files ", "create": "POST /v1/batches ", "status": "GET /v1/batches/", "list jobs": "GET /v1/batches?",
	"list files": "GET /v1/files?", "download": "GET /v1/files/", "delete": "DELETE /v1/files/", "cancel": "POST /v1/batches/",
}

// accountCut is one run of the story: the n-th request of a kind is cut.
type accountCut struct {
	kind  string
	nth   int
	place sqltest.Place
	fault sqltest.Fault
	at    float64
}

func (r accountCut) String() string {
	return fmt.Sprintf("%s/%d/%s/%s/%.2f", r.kind, r.nth, r.place, r.fault, r.at)
}

func newAccountStory(t *testing.T, database string, run accountCut) (*accountStory, *sqltest.Cut) {
	t.Helper()
	s := &accountStory{bench: newBench(t, sqltest.Open(t, database)), seen: map[string]int{}}
	var err error
	if s.box, err = sandbox.New(sandbox.Options{Dir: t.TempDir(), Seed: 7, Now: func() time.Time { return sqltest.Start }}); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.box)
	t.Cleanup(func() {
		if err := s.box.Close(); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	relay := sqltest.NewCutter(t, strings.TrimPrefix(web.URL, "http://"), sqltest.HTTP)
	client := s.client(relay.HostPort(), run.fault)
	s.direct = s.client(relay.To(), sqltest.FaultSlow)
	p := sqltest.Policy("cut", 1)
	p.Boundary.Processor, p.Boundary.Host = "openai", relay.HostPort()
	p.Classifier.AnswersAs = []string{"sandbox-stand-in"}
	s.policy = s.Approve(t, p)
	s.r.PolicyFor = func(string, string) (string, bool) { return p.ID, true }
	s.r.Accounts, s.r.Settings.JobItems = []batch.Provider{client}, 2
	cut := &sqltest.Cut{Place: run.place, Fault: run.fault, At: run.at, Request: func(b []byte) bool { return s.saw(b) == run.nth && is(b, run.kind) }}
	relay.Cut(cut)
	return s, cut
}

func is(request []byte, kind string) bool {
	return bytes.HasPrefix(request, []byte(requestKinds[kind]))
}

// saw counts a request and returns how many of its kind there were.
func (s *accountStory) saw(request []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind := range requestKinds {
		if is(request, kind) {
			s.seen[kind]++
			return s.seen[kind]
		}
	}
	s.t.Errorf("a request of no kind: %.20q", request)
	return 0
}

// client has timeouts as short as a fault needs in which nothing comes any more,
// and long enough for all other calls on a busy machine.
func (s *accountStory) client(host string, f sqltest.Fault) *openai.Client {
	s.t.Helper()
	timeout := time.Minute
	if f == sqltest.FaultStall || f == sqltest.FaultTrickle {
		timeout = 5 * time.Second
	}
	c, err := openai.New(openai.Config{
		Name: "main", Region: "test", BaseURL: "http://" + host + "/v1", APIKey: func() string { return "sk-test" }, FingerprintKey: bytes.Repeat([]byte("k"), 32),
		AllowLoopback: true, CallTimeout: timeout, TransferTimeout: timeout, Now: s.Clock.Now,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.(*testing.T).Cleanup(c.CloseIdleConnections)
	return c
}

// wait moves both clocks.
func (s *accountStory) wait(d time.Duration) {
	s.t.Helper()
	s.Clock.Advance(d)
	if err := s.box.Advance(d); err != nil {
		s.t.Fatal(err)
	}
}

func (s *accountStory) faults(texts ...string) {
	s.t.Helper()
	var all []sandbox.Fault
	for _, text := range texts {
		f, err := sandbox.ParseFault(text)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, f)
	}
	if err := s.box.SetFaults(all...); err != nil {
		s.t.Fatal(err)
	}
}

// unanswered is the create of the story whose answer the sandbox itself loses: a
// cut within that answer has no place.
const unanswered = 2

// run is the story.
func (s *accountStory) run() {
	s.t.Helper()
	s.faults("rate_limit:op=create,form=none,times=1", "drop_after:op=create,times=1")
	s.reports(storyReports)
	s.collect()
	s.submit()
	s.surplus()
	s.note(s.r.Run(s.t.Context(), reconcile.PassSweep)) // while it runs
	s.idle()
	for range 3 { // what was cut at an account's end is taken up by a later sweep
		s.wait(time.Hour)
		s.note(s.r.Run(s.t.Context(), reconcile.PassSweep))
	}
	s.idle()
	s.verify()
}

func (s *accountStory) note(_ reconcile.Tally, err error) {
	if err != nil {
		s.errors = append(s.errors, err.Error())
	}
}

// idle runs everything until nothing is left to do, as a person does it: again
// after an error.
func (s *accountStory) idle() {
	s.t.Helper()
	for range 4 {
		waits := 0
		_, err := s.r.RunUntilIdle(s.t.Context(), reconcile.Passes(), func(ctx context.Context, d time.Duration) error {
			if waits++; waits > 300 {
				return errors.New("waited 300 times")
			}
			s.wait(d)
			return ctx.Err()
		})
		if err == nil {
			return
		}
		s.note(reconcile.Tally{}, err)
	}
	s.t.Errorf("it is never idle: %v", s.errors)
}

// surplus makes a job that names a submission which was closed, over lines that
// no report has. There is none where the cut kept the refusal from us.
func (s *accountStory) surplus() {
	s.t.Helper()
	s.faults()
	closed := s.rows("SELECT submission_id || ' ' || job_id FROM submissions WHERE outcome = 'rejected' ORDER BY submission_id")
	if len(closed) == 0 {
		return
	}
	submission, job, _ := strings.Cut(closed[0], " ")
	ctx := s.t.Context()
	body, err := s.direct.AppendRequest(nil, s.policy.Question(), "surplus-"+submission, batch.NewText("x"))
	if err != nil {
		s.t.Fatal(err)
	}
	file, err := s.direct.Upload(ctx, batch.Input{Name: "rollcall_" + s.ledgerID() + "_" + job + "_" + submission + ".jsonl", Size: int64(len(body)),
		Write: func(w io.Writer) error { _, err := w.Write(body); return err }})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.direct.Create(ctx, batch.Creation{FileID: file, Metadata: map[string]string{"rc_ledger": s.ledgerID(), "rc_job": job, "rc_submission": submission}}); err != nil {
		s.t.Fatal(err)
	}
}

// verify holds that every report has one record, that no text is in two jobs,
// that the ledger knows each job for what it is, and that nothing is left over at
// the account.
func (s *accountStory) verify() {
	s.t.Helper()
	report, err := s.r.RunCheck(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if r := report.Roll; report.Broken() != 0 || r.Accepted != storyReports || r.Authoritative != storyReports || r.Records != storyReports {
		s.t.Errorf("the roll: %+v, %d broken; %v", r, report.Broken(), s.errors)
	}
	s.want("unclassified", "SELECT reason FROM review_records WHERE reason IS NOT NULL")
	books, err := s.box.Books()
	if err != nil {
		s.t.Fatal(err)
	}
	want := storyReports
	for _, j := range books.Jobs {
		switch {
		case !j.Accepted: // among them the probes
		case s.isSurplus(j):
			want += j.Lines
		default:
			s.wantAccepted(j)
		}
	}
	if books.Works.InMoreThanOneJob != 0 || books.Works.Distinct != want {
		s.t.Errorf("the sandbox has %d works, want %d, and %d are in more than one job; %v", books.Works.Distinct, want, books.Works.InMoreThanOneJob, s.errors)
	}
	s.want("open submissions", "SELECT submission_id FROM submissions WHERE outcome IS NULL")
	s.want("surplus that is there", "SELECT kind || ' ' || object_id FROM surplus_objects WHERE gone_us IS NULL")
	used := s.rows("SELECT input_file_id FROM submissions WHERE outcome = 'accepted'")
	for _, f := range books.FilesNow {
		if f.Purpose == "batch" && !slices.Contains(used, f.ID) {
			s.t.Errorf("the file %s, which no job uses, is still there; %v", f.Name, s.errors)
		}
	}
}

func (s *accountStory) isSurplus(j sandbox.JobBook) bool {
	return len(s.rows("SELECT object_id FROM surplus_objects WHERE object_id = $1", j.ID)) > 0
}

// wantAccepted holds that a create that made a job was not called refused.
func (s *accountStory) wantAccepted(j sandbox.JobBook) {
	s.t.Helper()
	if got := s.rows("SELECT outcome FROM submissions WHERE submission_id = $1", j.Metadata["rc_submission"]); !slices.Equal(got, []string{"accepted"}) {
		s.t.Errorf("a submission that made a job is %q; %v", got, s.errors)
	}
}

// accountCuts are each kind of request with each fault in each place.
func accountCuts(seen map[string]int, random *rand.Rand) []accountCut {
	var runs []accountCut
	for _, kind := range slices.Sorted(maps.Keys(seen)) {
		for _, p := range sqltest.Places() {
			if p == sqltest.InBody && kind != "upload" && kind != "create" {
				continue
			}
			within := p == sqltest.InAnswerHead || p == sqltest.InAnswerBody
			for _, f := range sqltest.Faults() {
				nth := 1 + random.IntN(seen[kind])
				for kind == "create" && within && nth == unanswered {
					nth = 1 + random.IntN(seen[kind])
				}
				runs = append(runs, accountCut{kind, nth, p, f, random.Float64()})
			}
		}
	}
	return runs
}

// TestF16_CutsAtEveryRequest runs the story of an account over connections one of
// which is cut at one request: closed, reset, silent or slow, before, within or
// behind the request or its answer.
//
// Without ROLLCALL_TEST_LONG=1 it runs a sample, which ROLLCALL_TEST_SEED repeats.
func TestF16_CutsAtEveryRequest(t *testing.T) {
	honest, _ := newAccountStory(t, "sqlite", accountCut{})
	honest.run()
	if len(honest.errors) > 0 || len(honest.seen) != len(requestKinds) {
		t.Fatalf("without a cut: errors %v, requests %v", honest.errors, honest.seen)
	}
	random := sqltest.Seeded(t)
	var strikes sqltest.Strikes
	t.Run("sqlite", func(t *testing.T) {
		for _, run := range sqltest.Sample(t, random, accountCuts(honest.seen, random), 4, nil) {
			t.Run(run.String(), func(t *testing.T) {
				t.Parallel()
				s, cut := newAccountStory(t, "sqlite", run)
				s.run()
				if !cut.Struck() {
					t.Errorf("the story has no such request; it has %v", s.seen)
				}
				strikes.Add(run.place, run.fault)
			})
		}
	})
	strikes.Complete(t)
}
