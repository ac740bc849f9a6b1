package simulation

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mutant is a wrong design: the shipped code with one thought taken out of it. No
// build of the program holds any of it; a test puts it in the place of the code.
type mutant struct {
	name  string
	file  string   // from the module's root
	edits []string // what stands there once, and what stands there instead, in turn
}

// mutants are the mistakes that programs of this kind are known for.
var mutants = []mutant{
	{"another key for each repeat", "reconcile/resolve_means.go", []string{
		`	c, fault := again.creation(calling)`, `	c, fault := again.creation(calling)
	c.Key += v.now.String()`}},
	{"a work for each delivery", "reconcile/intake.go", []string{
		`return i.Keys.WorkID(d.ReportID, revision, p.ID, p.Version)`, `return i.Keys.WorkID(d.ReportID+i.Holder, revision, p.ID, p.Version)`}},
	{"two open members of one work", "sql/query/adopt_items.sql", []string{
		`WHERE w.stage = 'pending'`, `WHERE w.stage <> 'pending' OR w.stage = 'pending'`}},
	{"sent again without a look", "reconcile/resolve.go", []string{
		`	switch s := v.account.Capabilities().Settlement; {`, `	switch s := batch.SettleByRepeat; {`}},
	{"absent, by one list", "reconcile/resolve.go", []string{
		`	case !v.list.reaches(v.reach(s), v.known):`, `	case false:`,
		`	case s.FencedAt.IsZero():`, `	case false:`,
		`	return s.Looks >= 1 && !v.now.Before(s.SendBy.Add(v.r.Settings.AbsentAfter))`, `	return true`}},
	{"marked before it is written", "sql/apply.go", []string{
		"	var chunk reconcile.AppliedChunk\n	err := s.write(", "	var chunk reconcile.AppliedChunk\n	later := func() error { return nil }\n	err := s.write(",
		"	return chunk, nil\n}", "	return chunk, later()\n}",
		`		if err := t.writeRecords(ctx, now, works); err != nil {
			return err
		}
`, `		for _, w := range works {
			if _, err := t.ExecContext(ctx, "UPDATE works SET stage = 'recorded' WHERE work_id = $1", w.WorkID); err != nil {
				return err
			}
		}
		later = func() error {
			return s.write(context.WithoutCancel(ctx), "apply extracted", func(ctx context.Context, t *tx) error { return t.writeRecords(ctx, now, works) })
		}
`}},
	{"the first of two answers", "reconcile/adjudicate.go", []string{
		`return l.LineMAC != first.LineMAC`, `return false && l.LineMAC != first.LineMAC`}},
	{"asked for before the intent", "reconcile/submit.go", []string{
		`	s.sub, err = r.Store.CommitIntent(ctx, now, Intent{`, `	if s.account != nil {
		_, _ = s.account.Create(ctx, batch.Creation{FileID: "none", Key: id, Metadata: ledger.metadata(Submission{ID: id, JobID: job.ID})})
	}
	s.sub, err = r.Store.CommitIntent(ctx, now, Intent{`}},
	{"an intent of unknown commit is one", "sql/sql.go", []string{
		`		if err := s.readBack(ctx, name, token, err); err != nil {`, `		if name == "commit intent" {
			return nil
		}
		if err := s.readBack(ctx, name, token, err); err != nil {`}},
	{"an unknown outcome is a refusal", "reconcile/submit_answer.go", []string{
		`		return fmt.Errorf("submission %s: %s: %w", s.sub.ID, evidenceOf(err), errUncertain)
	}`, `		return s.refuse(ctx, err)
	}`}},
	{"a job that is not found is sent again", "reconcile/poll.go", []string{
		`		return failed, r.pollFailed(ctx, now, job, account, err)`, `		return failed, r.Store.EndJob(ctx, now, JobEnd{JobID: job.ID, Phase: batch.PhaseInvalid, Status: "gone"})`}},
	{"a receipt before the commit", "reconcile/intake.go", []string{
		`		return i.Store.AcceptReports(ctx, now, i.chunk)
	}
	return receipts, err`, `		return i.Store.AcceptReports(ctx, now, i.chunk)
	}
	if err != nil {
		receipts = nil
		for _, d := range i.chunk {
			receipts = append(receipts, Receipt{Line: d.Line, ReportID: d.ReportID, Revision: d.Revision, Verdict: Accepted})
		}
	}
	return receipts, nil`}},
	{"a part of the results is all of them", "reconcile/consume.go", []string{
		`	case c.Lines >= c.Told:
		return nil`, `	case c.Lines >= c.Told || true:
		return nil`}},
	{"authority without revisions", "reconcile/apply.go", []string{
		`	case !c.HasStanding, c.Revision > c.StandingRevision:`, `	case !c.HasStanding, c.Revision != c.StandingRevision:`}},
	{"another account when one fails", "reconcile/reconciler.go", []string{
		`		if a.Name != b.Account {
			continue
		}`, `		if a.Name != b.Account && r.Uptime()%7 != 0 {
			continue
		}
		b.Account = a.Name`}},
	{"a copy that nobody compares", "reconcile/witness.go", []string{
		`	err := r.Witness.Verify(ctx)
	switch {`, `	err := r.Witness.Verify(ctx)
	if errors.Is(err, ErrRewound) {
		err = r.Witness.Renew(ctx)
	}
	switch {`}},
	{"a first failure is the last", "reconcile/adjudicate.go", []string{
		`	case r.Outcome.UsesAttempt() && f.Counted+1 < caps.Attempts,`, `	case false && r.Outcome.UsesAttempt() && f.Counted+1 < caps.Attempts,`}},
	{"the same answer twice is none", "reconcile/adjudicate.go", []string{
		`		r.Accepted, r.Rest = &first, LineDupSame`, `		if r.Accepted, r.Rest = &first, LineDupSame; len(lines) > 1 {
			return Ruling{Outcome: ItemInvalid, Rest: LineItemError, Reason: InvalidOutput}
		}`}},
	{"a deadline that its sender does not heed", "reconcile/submit_send.go", []string{
		`	if s.remaining() < s.r.Settings.SendWithin/10 || now.After(s.sub.SendBy) {`, `	if now.IsZero() {`,
		`	creating, cancel := context.WithTimeout(ctx, s.remaining())`, `	creating, cancel := context.WithTimeout(ctx, s.r.Settings.SendWithin)`}},
	{"evidence that nobody keeps", "sql/query/record_insert.sql", []string{
		`  a.label, a.evidence,`, `  a.label, CASE WHEN a.evidence IS NULL THEN NULL ELSE '[]' END,`}},
	{"a contradiction that nobody is told of", "reconcile/report.go", []string{
		`		return Conflict, d.Revision`, `		return Unchanged, d.Revision`}},
	{"a refusal by a sender that woke up late", "sql/query/submission_close.sql", []string{
		` AND ($1 <> 'rejected' OR last_look_us IS NULL)`, ``}},
	{"a witness that knows of the intent only", "reconcile/submit_send.go", []string{
		`		return s.witness(ctx)
	}
	// Without it`, `		return nil
	}
	// Without it`}},
	{"unsent by the word of a copy", "reconcile/submit.go", []string{
		`	// A ledger that was put back takes for unsent what was sent.
`, `	for _, a := range r.Accounts {
		if err := r.closeUnsent(ctx, now, a.Account().Fingerprint); err != nil {
			return Tally{}, err
		}
	}
`}},
	{"a report that is due at once", "sql/query/overdue_find.sql", []string{
		`w.due_us <= $1 AND`, `w.due_us - 172800000000 <= $1 AND`}},
	{"a call without a committed claim", "sql/call.go", []string{
		`	if err != nil {
		return reconcile.CallGrant{}, err
	}
	return grant, nil`, `	_ = err
	return grant, nil`}},
	{"a pause that a claim does not heed", "sql/call.go", []string{
		`		if errors.Is(err, reconcile.ErrPaused) || errors.Is(err, reconcile.ErrNotApproved) {`, `		if errors.Is(err, reconcile.ErrPaused) {
			err = nil
		}
		if errors.Is(err, reconcile.ErrNotApproved) {`}},
	{"a processor's wish to be left alone is forgotten", "reconcile/call_rate.go", []string{
		`		return b, 0, b.NotBefore`, `		b.NotBefore = now`}},
	{"a pause that an intent does not heed", "sql/submit.go", []string{
		`"policy:"+key.ID); err != nil {`, `"policy:"+key.ID); err != nil && !errors.Is(err, reconcile.ErrPaused) {`}},
}

var failedSeed = regexp.MustCompile(`seed (\d+) fails: (.{0,200})`)

// TestMutantsAreCaught: a simulation that lets a wrong design pass proves nothing.
func TestMutantsAreCaught(t *testing.T) {
	if os.Getenv("ROLLCALL_TEST_SEEDS") != "" || os.Getenv("ROLLCALL_TEST_SEED") != "" {
		t.Skip("the seeds that are asked for are for TestSimulation")
	}
	if os.Getenv("ROLLCALL_TEST_LONG") == "" {
		t.Skip("each is built anew, so they run with ROLLCALL_TEST_LONG=1")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			out, err := m.run(t, filepath.Join("..", ".."))
			found := failedSeed.FindStringSubmatch(out)
			var exit *exec.ExitError
			switch {
			case err == nil:
				t.Errorf("nothing tells it from the right design:\n%s", out)
			case !errors.As(err, &exit) || found == nil:
				t.Fatalf("it cannot be run: %v\n%s", err, out)
			default:
				t.Logf("caught by seed %s: %s", found[1], found[2])
			}
		})
	}
}

// run runs the simulation over the mutant.
func (m mutant) run(t *testing.T, root string) (string, error) {
	t.Helper()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(root, m.file)
	code, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	wrong := string(code)
	for i := 0; i < len(m.edits); i += 2 {
		if n := strings.Count(wrong, m.edits[i]); n != 1 {
			t.Fatalf("what it changes stands %d times in %s: %s", n, m.file, m.edits[i])
		}
		wrong = strings.Replace(wrong, m.edits[i], m.edits[i+1], 1)
	}
	dir := t.TempDir()
	mutated, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(mutated, []byte(wrong), 0o600), os.WriteFile(overlay, list, 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-run", "^TestSimulation$", "-timeout", "20m", "./reconcile/simulation")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "ROLLCALL_TEST_SEEDS=1+200", firstOnly+"=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
