package sql_test

import (
	"errors"
	"fmt"
	"hash"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// contest is what many workers want at the same time, all of them the same.
type contest struct {
	worker  func(q *planner, i int) error
	winners int   // how many are answered without an error
	refused error // the answer of the others
	then    func()
}

// TestRace lets 2, 8 and 32 workers of several processes race for one thing, on
// each database, a few rounds each and with ROLLCALL_TEST_LONG=1 a thousand.
// Each thing has exactly one winner, or one effect; the ids of a round are its
// own, and no invariant may be broken in what all of them leave.
func TestRace(t *testing.T) {
	storms := map[string]func(p *planner, id string, workers int) contest{
		"F3 for one delivery":                  raceOfOneDelivery,
		"F5 of edits":                          raceOfEdits,
		"F4 of contents under one revision":    raceOfContents,
		"F45 for a lease that has expired":     raceForALease,
		"F45 for a lease that nobody has had":  raceForANewLease,
		"F45 for a slot":                       raceForASlot,
		"for a finding":                        raceForAFinding,
		"to resolve a finding":                 raceToResolve,
		"F14 for an intent":                    raceForAnIntent,
		"F10 for a plan of works":              raceForAPlan,
		"F40 to apply":                         raceToApply,
		"for a job that is due to be asked of": raceForADueJob,
	}
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		shared, policy := openRaw(t, l.Address), l.Approve(t, sqltest.Policy("p", 1))
		processes := openReplicas(t, l)
		for n, name := range slices.Sorted(maps.Keys(storms)) {
			t.Run(name, func(t *testing.T) {
				shared.t = t
				p := &planner{Ledger: l, raw: shared, policy: policy}
				for _, workers := range []int{2, 8, 32} {
					rounds := map[int]int{2: 4, 8: 2, 32: 1}[workers]
					if os.Getenv("ROLLCALL_TEST_LONG") != "" {
						rounds = 1000
					}
					for round := range rounds {
						p.race(processes, workers, storms[name](p, fmt.Sprintf("%d-%d-%d-", n, workers, round), workers))
					}
				}
			})
		}
		if broken := offences(t, l); len(broken) > 0 {
			t.Errorf("broken invariants: %v", broken)
		}
	})
}

// openReplicas opens a ledger as several processes, which the workers share.
func openReplicas(t *testing.T, l *sqltest.Ledger) (stores []*sql.Store) {
	t.Helper()
	for i := range 4 {
		s, err := sql.Open(t.Context(), sql.Options{Address: l.Address, Actor: fmt.Sprint("replica ", i), Now: l.Clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		stores = append(stores, s)
	}
	return stores
}

// race starts all workers at once and counts who was answered what.
func (p *planner) race(processes []*sql.Store, workers int, c contest) {
	p.t.Helper()
	start, errs := make(chan struct{}), make([]error, workers)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			<-start
			errs[i] = c.worker(p.as(processes[i%len(processes)]), i)
		})
	}
	close(start)
	all.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case c.refused == nil || !errors.Is(err, c.refused):
			p.t.Fatalf("a worker of %d: %v", workers, err)
		}
	}
	if won != c.winners {
		p.t.Fatalf("%d of %d workers had their way, not %d", won, workers, c.winners)
	}
	c.then()
}

// take is a worker's delivery, and what became of it.
func (p *planner) take(d reconcile.Delivery, got *reconcile.Receipt) error {
	rs, err := p.AcceptReports(p.t.Context(), p.Clock.Now(), []reconcile.Delivery{d})
	if err == nil {
		*got = rs[0]
	}
	return err
}

// wantVerdicts counts the receipts by their verdict.
func (p *planner) wantVerdicts(receipts []reconcile.Receipt, want map[reconcile.Verdict]int) {
	p.t.Helper()
	got := map[reconcile.Verdict]int{}
	for _, rc := range receipts {
		got[rc.Verdict]++
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		p.t.Fatalf("verdicts %v, want %v", got, want)
	}
}

// wantReport holds that a report has so many revisions, each with its text, and
// one live work, of the current one.
func (p *planner) wantReport(report string, current, revisions int) {
	p.t.Helper()
	p.want(fmt.Sprintf("[%d %d %d %d]", current, revisions, revisions, current), fmt.Sprintf(`SELECT CAST(r.current_revision AS TEXT) || ' ' ||
		CAST((SELECT COUNT(*) FROM revisions v WHERE v.report_id = r.report_id) AS TEXT) || ' ' || CAST((SELECT COUNT(*) FROM texts x WHERE x.report_id = r.report_id) AS TEXT) || ' ' ||
		CAST(w.revision AS TEXT) FROM reports r JOIN works w ON w.report_id = r.report_id AND w.disposition = 'live' WHERE r.report_id = '%s'`, report))
}

func raceOfOneDelivery(p *planner, id string, workers int) contest {
	d, receipts := p.delivery(id, 1), make([]reconcile.Receipt, workers)
	return contest{
		worker: func(q *planner, i int) error { return q.take(d, &receipts[i]) }, winners: workers,
		then: func() {
			p.wantVerdicts(receipts, map[reconcile.Verdict]int{reconcile.Accepted: 1, reconcile.Unchanged: workers - 1})
			p.wantReport(d.ReportID, 1, 1)
			if slices.ContainsFunc(receipts, func(rc reconcile.Receipt) bool { return rc.WorkID != receipts[0].WorkID || rc.WorkID == "" }) {
				p.t.Fatalf("not all were answered one work: %+v", receipts)
			}
		},
	}
}

func raceOfEdits(p *planner, id string, workers int) contest {
	ds, receipts := make([]reconcile.Delivery, workers), make([]reconcile.Receipt, workers)
	for i := range ds {
		ds[i] = p.delivery(id, int64(i+2))
	}
	accept(p.t, p.Ledger, p.delivery(id, 1))
	return contest{
		worker: func(q *planner, i int) error { return q.take(ds[i], &receipts[i]) }, winners: workers,
		then: func() {
			p.wantReport(ds[0].ReportID, workers+1, workers+1)
			for i, rc := range receipts {
				// What comes behind a higher one is late; the highest is never.
				if revised := rc.Verdict == reconcile.Revised; !revised && rc.Verdict != reconcile.Late || rc.Revision != ds[i].Revision || revised != (rc.WorkID != "") || !revised && i == workers-1 {
					p.t.Fatalf("revision %d: %+v", ds[i].Revision, rc)
				}
			}
		},
	}
}

func raceOfContents(p *planner, id string, workers int) contest {
	ds, receipts := make([]reconcile.Delivery, workers), make([]reconcile.Receipt, workers)
	for i := range ds {
		ds[i] = delivered(p.t, p.Keys, p.policy, id, 2, fmt.Sprint("text ", i))
	}
	accept(p.t, p.Ledger, p.delivery(id, 1))
	return contest{
		worker: func(q *planner, i int) error { return q.take(ds[i], &receipts[i]) }, winners: workers,
		then: func() {
			p.wantVerdicts(receipts, map[reconcile.Verdict]int{reconcile.Revised: 1, reconcile.Conflict: workers - 1})
			p.wantReport(ds[0].ReportID, 2, 2)
			first := slices.IndexFunc(receipts, func(rc reconcile.Receipt) bool { return rc.Verdict == reconcile.Revised })
			p.want("["+ds[first].ContentMAC+"]", "SELECT content_mac FROM revisions WHERE revision = 2 AND report_id = '"+ds[0].ReportID+"'")
			p.want(fmt.Sprintf("[%d]", workers-1), "SELECT CAST(seen AS TEXT) FROM findings WHERE subject = 'report:"+ds[0].ReportID+"'")
		},
	}
}

func raceForALease(p *planner, id string, workers int) contest {
	name, now := "pass:"+id, sqltest.Start
	old, err := p.AcquireLease(p.t.Context(), name, "before", now, now.Add(time.Minute))
	p.must(err)
	leases := make([]reconcile.Lease, workers)
	return contest{
		worker: func(q *planner, i int) (err error) { // it has expired for all of them
			leases[i], err = q.AcquireLease(q.t.Context(), name, fmt.Sprint("worker ", i), now.Add(time.Hour), now.Add(2*time.Hour))
			return err
		},
		winners: 1, refused: reconcile.ErrHeld,
		then: func() {
			i := slices.IndexFunc(leases, func(l reconcile.Lease) bool { return l.Fence != 0 })
			p.want(fmt.Sprintf("[worker %d %d]", i, leases[i].Fence), "SELECT holder || ' ' || CAST(fence AS TEXT) FROM leases WHERE name = '"+name+"'")
			if leases[i].Fence <= old.Fence {
				p.t.Fatalf("fence went from %d to %d", old.Fence, leases[i].Fence)
			}
		},
	}
}

func raceForANewLease(p *planner, id string, _ int) contest {
	return contest{
		worker: func(q *planner, i int) error {
			_, err := q.AcquireLease(q.t.Context(), "pass:"+id, fmt.Sprint("worker ", i), sqltest.Start, sqltest.Start.Add(time.Minute))
			return err
		},
		winners: 1, refused: reconcile.ErrHeld,
		then: func() { p.want("[1]", "SELECT CAST(COUNT(*) AS TEXT) FROM leases WHERE name = 'pass:"+id+"'") },
	}
}

func raceForASlot(p *planner, id string, workers int) contest {
	name, due, slots := "s"+id, sqltest.Start.Add(-time.Minute), make([]*reconcile.Slot, workers)
	_, err := p.PutSchedule(p.t.Context(), p.Clock.Now(), reconcile.SchedulePlan{Name: name, Expression: "@daily", Zone: "UTC", NextDue: due})
	p.must(err)
	return contest{
		worker: func(q *planner, i int) (err error) {
			now := q.Clock.Now()
			slots[i], err = q.ClaimSlot(q.t.Context(), now, name, func(v reconcile.ScheduleView) (reconcile.SlotRuling, error) {
				if v.NextDue.After(now) {
					return reconcile.SlotRuling{NextDue: v.NextDue}, nil
				}
				return reconcile.SlotRuling{NextDue: now.Add(time.Hour), Begin: v.NextDue}, nil
			})
			return err
		},
		winners: workers,
		then: func() {
			begun := slices.DeleteFunc(slots, func(s *reconcile.Slot) bool { return s == nil })
			if len(begun) != 1 || !begun[0].At.Equal(due) {
				p.t.Fatalf("%d workers begin the slot", len(begun))
			}
			p.want("[1 open]", slotsSQL+" WHERE schedule = '"+name+"'")
		},
	}
}

func raceForAFinding(p *planner, id string, workers int) contest {
	e := reconcile.Event{Name: reconcile.EventLateResult.Name, Severity: reconcile.EventLateResult.Severity, Subject: "report:" + id, Detail: "d"}
	return contest{
		worker: func(q *planner, _ int) error { return q.OpenFinding(q.t.Context(), q.Clock.Now(), e) }, winners: workers,
		then: func() {
			p.want(fmt.Sprintf("[%d]", workers), "SELECT CAST(seen AS TEXT) FROM findings WHERE subject = 'report:"+id+"'")
			p.want("[1]", "SELECT CAST(COUNT(*) AS TEXT) FROM audit_events WHERE kind = 'finding_open' AND subject = 'report:"+id+"'")
		},
	}
}

func raceToResolve(p *planner, id string, _ int) contest {
	subject := "report:" + id
	p.must(p.OpenFinding(p.t.Context(), p.Clock.Now(), reconcile.Event{Name: "late_result", Severity: reconcile.EventLateResult.Severity, Subject: subject, Detail: "d"}))
	found := p.strings("SELECT finding_id FROM findings WHERE subject = $1", subject)[0]
	return contest{
		worker: func(q *planner, i int) error {
			return q.ResolveFinding(q.t.Context(), q.Clock.Now(), found, fmt.Sprint("person ", i), "seen")
		},
		winners: 1, refused: reconcile.ErrRefused,
		then: func() {
			p.want("[1]", "SELECT CAST(COUNT(*) AS TEXT) FROM audit_events WHERE kind = 'finding_resolve' AND subject = '"+subject+"'")
		},
	}
}

// ready takes reports in and makes them the members of a ready job.
func (p *planner) ready(job string, reports int) (works []string) {
	p.t.Helper()
	for n := range reports {
		works = append(works, accept(p.t, p.Ledger, p.delivery(fmt.Sprint(job, n), 1))[0].WorkID)
	}
	_, err := p.add(job, true, works...)
	p.must(err)
	return works
}

func raceForAnIntent(p *planner, id string, _ int) contest {
	p.ready(id, 2)
	return contest{
		worker: func(q *planner, i int) error {
			_, err := q.CommitIntent(q.t.Context(), q.Clock.Now(), reconcile.Intent{SubmissionID: fmt.Sprint("sub", id, i), JobID: id,
				Account: batch.Account{Name: "main", Fingerprint: "fp"}, SendBy: q.Clock.Now().Add(time.Minute), Manifest: func() hash.Hash { return q.Keys.NewMAC(keyring.Manifest) }})
			return err
		},
		winners: 1, refused: reconcile.ErrMoved,
		then: func() {
			p.want("[1 2]", "SELECT CAST(COUNT(*) AS TEXT) || ' ' || CAST(MAX(line_count) AS TEXT) FROM submissions WHERE job_id = '"+id+"'")
		},
	}
}

func raceForAPlan(p *planner, id string, _ int) contest {
	var works []string
	for n := range 3 {
		works = append(works, accept(p.t, p.Ledger, p.delivery(fmt.Sprint(id, n), 1))[0].WorkID)
	}
	return contest{
		worker: func(q *planner, i int) error { return collect(fmt.Sprint("job", id, i), 0, works...)(q) }, winners: 1, refused: reconcile.ErrMoved,
		then: func() {
			p.want("[1 3]", "SELECT CAST(COUNT(*) AS TEXT) || ' ' || CAST(MAX(item_count) AS TEXT) FROM jobs WHERE job_id LIKE 'job"+id+"%'")
			p.want("[3 3]", "SELECT CAST(COUNT(*) AS TEXT) || ' ' || CAST(COUNT(DISTINCT i.work_id) AS TEXT) FROM items i WHERE i.job_id LIKE 'job"+id+"%'")
		},
	}
}

func raceToApply(p *planner, id string, workers int) contest {
	const reports = 3
	for n := range reports { // nothing to classify: extracted from the start
		accept(p.t, p.Ledger, delivered(p.t, p.Keys, p.policy, fmt.Sprint(id, n), 1, ""))
	}
	chunks := make([]reconcile.AppliedChunk, workers)
	return contest{
		worker: func(q *planner, i int) error { return applyChunk(&chunks[i])(q) }, winners: workers,
		then: func() {
			applied := 0
			for _, c := range chunks {
				applied += c.Authoritative + c.History
			}
			if applied != reports {
				p.t.Fatalf("%d works were applied, of %d", applied, reports)
			}
			p.want("[3 3]", "SELECT CAST(COUNT(*) AS TEXT) || ' ' || CAST(SUM(authoritative) AS TEXT) FROM review_records v JOIN reports r ON r.report_id = v.report_id WHERE r.external_id LIKE '"+id+"%'")
		},
	}
}

func raceForADueJob(p *planner, id string, workers int) contest {
	now := p.Clock.Now()
	p.ready(id, 1)
	_, err := p.CommitIntent(p.t.Context(), now, reconcile.Intent{SubmissionID: "sub" + id, JobID: id, Account: batch.Account{Name: "main", Fingerprint: "fp"},
		SendBy: now.Add(time.Minute), Manifest: func() hash.Hash { return p.Keys.NewMAC(keyring.Manifest) }})
	p.must(err, p.RecordUpload(p.t.Context(), reconcile.Upload{SubmissionID: "sub" + id, FileID: "file-" + id, Bytes: 1, BodyMAC: "m"}),
		p.RecordAccepted(p.t.Context(), now, reconcile.Acceptance{SubmissionID: "sub" + id, ProviderJobID: "batch" + id, Status: "s", NextPoll: now}))
	claimed := make([][]reconcile.Job, workers)
	return contest{
		worker: func(q *planner, i int) (err error) {
			claimed[i], err = q.ClaimDueJobs(q.t.Context(), now, now.Add(time.Hour), now.Add(24*time.Hour), 10)
			return err
		},
		winners: workers,
		then: func() {
			if all := slices.Concat(claimed...); len(all) != 1 || all[0].ID != id {
				p.t.Fatalf("%d claims of one job", len(all))
			}
		},
	}
}
