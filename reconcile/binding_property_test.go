package reconcile_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	"pgregory.net/rapid"

	"rollcall/reconcile"
	"rollcall/reconcile/source"
	"rollcall/sql/sqltest"
)

// binding is a case of the property below, with policies of its own.
type binding struct {
	*intakeTest
	t        *testing.T
	rt       *rapid.T
	db       *sqlx.DB
	prefix   string           // of everything of this case
	approved map[string]int64 // newest approved version of each policy
	versions int64
}

// policyOfSystem is the policy that a system of a case is configured with. One
// system has none, and one is no source at all.
func (b *binding) policyOfSystem(_, system string) (string, bool) {
	return system, strings.HasPrefix(system, b.prefix) && !strings.HasSuffix(system, "none")
}

func (b *binding) deliver() {
	var file strings.Builder
	lines := rapid.IntRange(1, 6).Draw(b.rt, "lines")
	for range lines {
		system := b.prefix + rapid.SampledFrom([]string{"first", "second", "none", "stranger"}).Draw(b.rt, "system")
		id := rapid.SampledFrom([]string{`"1"`, `"2"`, `3`, `""`, `1.5`, `null`, `{}`}).Draw(b.rt, "id")
		text := rapid.SampledFrom([]string{`"some text"`, `"another"`, `" "`, `null`, `7`}).Draw(b.rt, "text")
		end := rapid.SampledFrom([]string{"}", "}", "}", "}", "", `,"text":"twice"}`}).Draw(b.rt, "end")
		fmt.Fprintf(&file, `{"tenant":"acme","source":%q,"report_id":%s,"revision":%d,"text":%s%s`+"\n", system, id, rapid.IntRange(0, 3).Draw(b.rt, "revision"), text, end)
	}
	b.Settings.Chunk = rapid.IntRange(1, 4).Draw(b.rt, "chunk")
	rules := func(_, system string) (reconcile.SourceRules, bool) {
		return reconcile.SourceRules{}, !strings.HasSuffix(system, "stranger")
	}
	seen := map[int]int{}
	_, err := b.Intake(b.t.Context(), readReports(b.t, strings.NewReader(file.String())), rules, func(o reconcile.Outcome) {
		if o.Refused != nil {
			seen[int(o.Refused.Line)]++
			b.refused(o.Refused)
			return
		}
		seen[o.Receipt.Line]++
		b.answered(o.Receipt)
	})
	if err != nil {
		b.rt.Fatal(err)
	}
	for line := range lines {
		if seen[line+1] != 1 {
			b.rt.Fatalf("line %d has %d answers, in\n%s", line+1, seen[line+1], file.String())
		}
	}
}

func (b *binding) refused(e *source.LineError) {
	if e.Line < 1 || e.Reason == "" {
		b.rt.Fatalf("refused without a place or a reason: %+v", e)
	}
}

// answered holds that a receipt says where the delivery stands, and that the
// ledger says the same.
func (b *binding) answered(rc reconcile.Receipt) {
	bound, held := rc.WorkID != "", rc.Held
	switch rc.Verdict {
	case reconcile.Accepted, reconcile.Revised:
		if bound == held {
			b.rt.Fatalf("%s, and bound %v, held %v: %+v", rc.Verdict, bound, held, rc)
		}
	case reconcile.Late, reconcile.Conflict:
		if bound || held {
			b.rt.Fatalf("%s, and bound %v, held %v: %+v", rc.Verdict, bound, held, rc)
		}
	case reconcile.Unchanged:
		if bound && held {
			b.rt.Fatalf("bound and held: %+v", rc)
		}
	default:
		b.rt.Fatalf("no verdict: %+v", rc)
	}
	if rc.Verdict == reconcile.Conflict { // refused: what stands under the revision is another delivery's
		return
	}
	var is struct{ Works, Holds int }
	if err := b.db.Get(&is, `SELECT (SELECT COUNT(*) FROM works WHERE work_id = $1 AND report_id = $2 AND revision = $3) AS works,
		(SELECT COUNT(*) FROM holds WHERE report_id = $2 AND revision = $3) AS holds`, rc.WorkID, rc.ReportID, rc.Revision); err != nil {
		b.rt.Fatal(err)
	}
	if is.Works > 0 != bound || is.Holds > 0 != held {
		b.rt.Fatalf("the ledger holds %+v, the receipt says %+v", is, rc)
	}
}

// approve puts the next version of a policy in force.
func (b *binding) approve() {
	id := b.prefix + rapid.SampledFrom([]string{"first", "second"}).Draw(b.rt, "policy")
	b.versions++
	b.ledger.Approve(b.t, sqltest.Policy(id, b.versions))
	b.approved[id] = b.versions
}

// revoke takes an approval back, as an operator will.
func (b *binding) revoke() {
	id := b.prefix + rapid.SampledFrom([]string{"first", "second"}).Draw(b.rt, "policy")
	if _, err := b.db.Exec("UPDATE policy_versions SET state = 'revoked' WHERE policy_id = $1", id); err != nil {
		b.rt.Fatal(err)
	}
	delete(b.approved, id)
}

func (b *binding) collect() {
	if _, err := b.Collect(b.t.Context(), b.ledger.Clock.Now()); err != nil {
		b.rt.Fatal(err)
	}
}

// total holds that what is current of each report is bound or held, one of the
// two; that nothing older is; and that no work is under a policy that is not its
// source's.
func (b *binding) total() {
	for what, query := range map[string]string{
		"neither bound nor held, or both": `SELECT r.external_id FROM reports r WHERE r.source_system LIKE $1 AND 1 <>
			(SELECT COUNT(*) FROM works w WHERE w.report_id = r.report_id AND w.revision = r.current_revision AND w.disposition = 'live') +
			(SELECT COUNT(*) FROM holds h WHERE h.report_id = r.report_id AND h.revision = r.current_revision)`,
		"an older revision is wanted": `SELECT r.external_id FROM reports r JOIN works w ON w.report_id = r.report_id WHERE r.source_system LIKE $1 AND w.disposition = 'live' AND w.revision <> r.current_revision
			UNION ALL SELECT r.external_id FROM reports r JOIN holds h ON h.report_id = r.report_id WHERE r.source_system LIKE $1 AND h.revision <> r.current_revision`,
		"bound to another policy than its source's": `SELECT r.external_id FROM reports r JOIN works w ON w.report_id = r.report_id WHERE r.source_system LIKE $1 AND w.policy_id <> r.source_system`,
	} {
		var found []string
		if err := b.db.Select(&found, query, b.prefix+"%"); err != nil {
			b.rt.Fatal(err)
		}
		if len(found) > 0 {
			b.rt.Fatalf("%s: %v", what, found)
		}
	}
}

// settled holds that nothing of a source with an approved policy is held once
// collect has run, and that everything of the others is.
func (b *binding) settled() {
	b.collect()
	b.total()
	var held []string
	if err := b.db.Select(&held, "SELECT DISTINCT r.source_system FROM holds h JOIN reports r ON r.report_id = h.report_id WHERE r.source_system LIKE $1", b.prefix+"%"); err != nil {
		b.rt.Fatal(err)
	}
	if i := slices.IndexFunc(held, func(system string) bool { return b.approved[system] > 0 }); i >= 0 {
		b.rt.Fatalf("held, and its policy is approved: %s", held[i])
	}
}

// TestF7_BindingIsTotal: whatever is delivered, approved, revoked and collected
// in whatever order, each delivery is bound to its source's policy, held, or
// refused with a reason, and so it stays until somebody changes a policy.
func TestF7_BindingIsTotal(t *testing.T) {
	l := sqltest.Open(t, "sqlite")
	it := newIntakeTest(l)
	it.Rand = rand.Reader
	db, n := it.connect(t), 0
	withLedger(t, 30, func(rt *rapid.T) {
		n++
		b := &binding{intakeTest: it, t: t, rt: rt, db: db, prefix: fmt.Sprintf("c%d-", n), approved: map[string]int64{}}
		it.PolicyFor = b.policyOfSystem
		steps := map[string]func(){"deliver": b.deliver, "deliver more": b.deliver, "approve": b.approve, "revoke": b.revoke, "collect": b.collect}
		names := []string{"deliver", "deliver more", "approve", "revoke", "collect"}
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			steps[rapid.SampledFrom(names).Draw(rt, "step")]()
			b.total()
		}
		b.settled()
	})
}
