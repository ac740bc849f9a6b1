package simulation

import (
	"errors"

	"rollcall/batch"
	"rollcall/reconcile"
)

// judgeRecords compares the records that stand with those that stood.
func (o *oracle) judgeRecords() {
	rows, err := o.w.books.Query("SELECT report_id, work_id, revision, kind, COALESCE(label, reason), COALESCE(evidence, '') FROM review_records WHERE authoritative = 1")
	if err != nil {
		o.breach("the records cannot be read: %v", err)
		return
	}
	type standing struct {
		report, kind string
		recordBook
	}
	var all []standing
	for rows.Next() {
		var s standing
		if err := rows.Scan(&s.report, &s.work, &s.revision, &s.kind, &s.label, &s.evidence); err != nil {
			o.breach("a record cannot be read: %v", err)
		}
		all = append(all, s)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil { // before anything else is asked of the books
		o.breach("the records cannot be read: %v", err)
	}
	seen := map[string]bool{}
	for _, s := range all {
		report, kind, now := s.report, s.kind, s.recordBook
		if seen[report] {
			o.breach("report %s has two authoritative records", report)
		}
		seen[report] = true
		before, stood := o.standing[report]
		switch {
		case !stood || before.work != now.work:
			o.judgeRecord(report, kind, now)
		case before != now:
			o.breach("the record of work %s changed from %q to %q", now.work, before.label, now.label)
		}
		if stood && now.revision < before.revision {
			o.breach("authority of report %s went back from revision %d to %d", report, before.revision, now.revision)
		}
		o.standing[report] = now
	}
	for report := range o.standing {
		if !seen[report] {
			o.breach("the record of report %s is gone", report)
		}
	}
}

// judgeRecord judges a record by what was really returned.
func (o *oracle) judgeRecord(report, kind string, now recordBook) {
	book, known := o.works[now.work]
	if !known && now.label == string(reconcile.Routed) {
		o.judgeReason(report, now)
		return // a held report has a work under no policy of its source
	}
	if !known || book.report != report || book.revision != now.revision {
		o.breach("the record of report %s is that of no work of it", report)
		return
	}
	returned := map[fault]bool{}
	for _, j := range o.jobs {
		if kind, ok := o.truth[j.id][now.work]; ok {
			returned[kind] = true
		}
	}
	for kind := range o.calls.returned[now.work] {
		returned[kind] = true
	}
	right := false
	for text := range o.texts[now.work] {
		label, _ := rightAnswer(text)
		right = right || label == now.label
	}
	switch {
	case kind == "classified" && !right:
		o.breach("report %s is called %q, which is wrong", report, now.label)
	case kind == "classified" && !returned[""]:
		o.breach("report %s is classified, and no job answered it well", report)
	case kind == "classified":
		o.judgeEvidence(report, now)
	default:
		o.judgeReason(report, now)
	}
}

// atRest judges the whole when nothing is left to do.
func (o *oracle) atRest() error {
	if len(o.breaches) > 0 {
		return nil
	}
	o.judgeRecords()
	o.judgeFindings()
	for id, r := range o.reports {
		record, ok := o.standing[id]
		if !ok || record.revision != r.current {
			o.breach("report %s has revision %d, and the record that stands is of %d", r.name, r.current, record.revision)
		}
	}
	if n := o.count("SELECT COUNT(*) FROM reports"); n != len(o.reports) {
		o.breach("%d reports have a receipt, and the ledger holds %d", len(o.reports), n)
	}
	for _, rule := range o.w.fake.Breaches() {
		if o.w.Settles != batch.SettleByResults { // where what came late is not fenced off
			o.breach("the processor saw a broken rule: %s", rule)
		}
	}
	if o.w.Settles == batch.SettleByListing {
		o.judgeAccount()
	}
	if n := o.count("SELECT COUNT(*) FROM (SELECT subject FROM audit_events WHERE kind = 'job_end' GROUP BY subject HAVING COUNT(*) > 1)"); n > 0 {
		o.breach("%d jobs ended more than once", n)
	}
	return o.w.operate().check()
}

// judgeAccount compares the account with the ledger: each of our jobs is known,
// or found to be one too many and at its end.
func (o *oracle) judgeAccount() {
	for _, j := range o.w.fake.Jobs() {
		if j.Metadata["rc_probe"] != "" || o.vanished[j.ID] {
			continue
		}
		known := o.count("SELECT COUNT(*) FROM jobs WHERE provider_job_id = $1", j.ID)
		surplus := o.count("SELECT COUNT(*) FROM surplus_objects WHERE object_id = $1", j.ID)
		if known+surplus == 0 {
			o.breach("job %s is at the processor, and the ledger knows nothing of it", j.ID)
		}
		if surplus > 0 && j.Phase == batch.PhaseRunning {
			o.breach("job %s is one too many, and goes on", j.ID)
		}
	}
}
