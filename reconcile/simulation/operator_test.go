package simulation

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/reconcile/crashpoint"
	"rollcall/sql/sqltest"
)

// operation is what the operator does. Commands run to their end at once, while
// the processes stand wherever they stand.
type operation struct {
	*world
	ctx context.Context
}

func (w *world) operate() operation { return operation{w, context.Background()} }

func (o operation) store() reconcile.Store { return o.operator.store }

// meddle does something now and then.
func (o operation) meddle() error {
	switch {
	case o.rng.IntN(200) == 0 && !o.approved(laterOne, 1):
		return o.approve(laterOne)
	case o.strikes(braked, "by the operator"):
		return o.brake()
	case o.rng.IntN(200) == 0 && len(o.brakes()) > 0:
		return o.resumeAll()
	case !o.oracle.revoked && !o.copied && o.strikes(revoked, policy+"/1"): // a copy from before it would bind reports otherwise
		return o.revoke()
	case o.oracle.revoked && o.rng.IntN(200) == 0 && !o.approved(policy, 2):
		return o.approveVersion(policy, 2)
	case o.draws(routed):
		return o.route()
	case !o.copied && o.sendsMidway() && o.strikes(copiedMidway, "the ledger"):
		o.copiedMidway = true
		return o.copyLedger()
	case !o.copied && o.draws(restored):
		return o.copyLedger()
	case o.copied && (o.strikes(restored, "the ledger") || o.copiedMidway && o.sentSinceCopy() && o.rng.IntN(3) == 0):
		return o.restore()
	}
	return nil
}

// sendsMidway says whether somebody has committed an intent and not yet noted its body.
func (o operation) sendsMidway() bool {
	return slices.ContainsFunc(o.processes, func(p *process) bool {
		return p.alive && (p.at == crashpoint.SubmitIntent || p.at == crashpoint.SubmitUploaded)
	})
}

func (o operation) approve(id string) error { return o.approveVersion(id, 1) }

func (o operation) approveVersion(id string, version int64) error {
	p := sqltest.Policy(id, version)
	p.Authority = o.Authority
	v, err := reconcile.NewPolicyVersion(p, o.keys)
	if err != nil {
		return err
	}
	o.note(o.operator, fmt.Sprintf("approve %s/%d", id, version))
	o.oracle.renewed = o.oracle.renewed || id == policy && version == 2
	return o.store().ApprovePolicy(o.ctx, o.operator.clock(), v, "the operator", "agreed", "none")
}

func (o operation) approved(id string, version int64) bool {
	return o.oracle.count("SELECT COUNT(*) FROM policy_versions WHERE policy_id = $1 AND version >= $2", id, version) > 0
}

// brakes are the pauses that are on.
func (o operation) brakes() []reconcile.Pause {
	pauses, err := o.store().Pauses(o.ctx)
	if err != nil {
		o.oracle.breach("the pauses cannot be read: %v", err)
	}
	return pauses
}

// drill is why the operator pauses.
const drill = "a drill"

// brake pauses a stage. No intent is committed behind a pause of dispatch.
func (o operation) brake() error {
	stage := []reconcile.PausedStage{reconcile.PauseDispatch, reconcile.PauseDispatch, reconcile.PausePoll, reconcile.PauseApply, reconcile.PauseIntake}[o.rng.IntN(5)]
	scope, pattern := reconcile.ScopeAll, "%"
	if stage == reconcile.PauseDispatch && o.rng.IntN(2) == 0 {
		scope, pattern = "policy:"+policy, policy+"/%"
	}
	_, err := o.store().Pause(o.ctx, o.operator.clock(), reconcile.Pause{Scope: scope, Stage: stage, Actor: "the operator", Reason: drill})
	if err == nil && stage == reconcile.PauseDispatch {
		o.oracle.seal(pattern)
	}
	return err
}

func (o operation) resumeAll() error {
	for _, p := range o.brakes() {
		if p.Reason == reconcile.EventLedgerRewound.Name {
			return o.recover()
		}
	}
	return o.lift(func(reconcile.Pause) bool { return true })
}

// endDrills lifts what the operator paused.
func (o operation) endDrills() error {
	return o.lift(func(p reconcile.Pause) bool { return p.Reason == drill })
}

func (o operation) lift(which func(reconcile.Pause) bool) error {
	for _, p := range o.brakes() {
		if !which(p) {
			continue
		}
		if err := o.store().Resume(o.ctx, o.operator.clock(), p.Scope, p.Stage, "the operator", "it is over"); err != nil {
			return err
		}
		if p.Stage == reconcile.PauseDispatch {
			o.oracle.unseal(map[bool]string{true: "%", false: policy + "/%"}[p.Scope == reconcile.ScopeAll])
		}
	}
	return nil
}

// revoke withdraws a policy version while its works are wherever they are.
func (o operation) revoke() error {
	o.oracle.revoked = true
	if err := o.exec("UPDATE policy_versions SET state = 'revoked' WHERE policy_id = $1 AND version = 1", policy); err != nil {
		return err
	}
	o.oracle.seal(policy + "/1")
	return nil
}

// exec does to the ledger's file what no command does.
func (o operation) exec(statement string, args ...any) error {
	db, err := stdsql.Open("sqlite", o.ledgerPath())
	if err != nil {
		return err
	}
	_, err = db.Exec(statement, args...)
	return errors.Join(err, db.Close())
}

// route gives a report to a person.
func (o operation) route() error {
	d := o.source.all[o.rng.IntN(len(o.source.all))]
	o.note(o.operator, "route "+d.id)
	o.oracle.asked[o.keys.ReportID("acme", d.system, d.id)] = true
	err := o.operator.r.Route(o.ctx, []string{d.id}, "the operator", "a drill", func(a reconcile.RouteAnswer) {
		if a.Given {
			o.struck[routed]++
		}
	})
	if errors.Is(err, reconcile.ErrNotFound) {
		return nil // it did not come in yet
	}
	return err
}

// settle runs what is left to its end.
func (o operation) settle() error {
	if !o.approved(laterOne, 1) {
		if err := o.approve(laterOne); err != nil {
			return err
		}
	}
	if o.oracle.revoked && !o.approved(policy, 2) {
		if err := o.approveVersion(policy, 2); err != nil {
			return err
		}
	}
	for round := range 3000 {
		if err := o.resumeAll(); err != nil {
			return err
		}
		if err := o.round(); err != nil {
			return err
		}
		done, err := o.idle(round)
		if err != nil || done || len(o.oracle.breaches) > 0 {
			return err
		}
	}
	o.oracle.breach("nothing comes to rest: %s", o.left())
	return nil
}

// round runs every pass once.
func (o operation) round() error {
	for o.source.waits() {
		if _, err := o.source.deliver(o.ctx, o.operator); err != nil {
			return err
		}
	}
	next, err := o.store().Next(o.ctx, o.operator.clock(), o.operator.r.Settings.UnsentMargin)
	if err != nil {
		return err
	}
	moving := o.passes()
	if next.Overdue > 0 {
		moving = append(moving, reconcile.PassCheck)
	}
	for _, pass := range moving {
		_, err := o.operator.r.Run(o.ctx, pass)
		if errors.Is(err, reconcile.ErrHeld) { // by a process that died
			o.pass(o.operator.r.LeaseFor)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", pass, err)
		}
	}
	return nil
}

// idle lets time pass until something is due, or says that nothing is left.
func (o operation) idle(round int) (done bool, err error) {
	open := o.oracle.count("SELECT COUNT(*) FROM submissions WHERE outcome IS NULL")
	left := o.oracle.count("SELECT COUNT(*) FROM works WHERE disposition = 'live' AND stage <> 'recorded'") +
		o.oracle.count("SELECT COUNT(*) FROM works WHERE stage = 'extracted'") + o.oracle.count("SELECT COUNT(*) FROM holds")
	if open+left+len(o.coming) == 0 && o.unfinishedJobs() == 0 {
		return true, o.sweep()
	}
	if open > 0 && round%50 == 49 {
		if err := o.decide(); err != nil {
			return false, err
		}
	}
	next, err := o.store().Next(o.ctx, o.operator.clock(), o.operator.r.Settings.UnsentMargin)
	if err != nil {
		return false, err
	}
	wait := 10 * time.Minute
	if next.At != nil {
		wait = next.At.Sub(o.operator.clock())
	}
	o.pass(min(max(wait, time.Hour), 6*time.Hour).Truncate(quantum) + quantum)
	return false, nil
}

// unfinishedJobs counts the jobs that go on by themselves.
func (o operation) unfinishedJobs() (n int) {
	rows, err := o.books.Query(`SELECT COALESCE(j.provider_job_id, '') FROM jobs j JOIN policy_versions p ON p.policy_id = j.policy_id AND p.version = j.policy_version
		WHERE j.state IN ('submitted', 'ended') OR j.state IN ('planning', 'ready') AND p.state = 'approved'`)
	if err != nil {
		o.oracle.breach("the jobs cannot be read: %v", err)
		return 0
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			o.oracle.breach("a job cannot be read: %v", err)
		}
		if !o.oracle.vanished[id] {
			n++
		}
	}
	return n
}

// decide says what became of submissions that nothing else can tell: from the
// processor's own books, as somebody does who can ask the processor.
func (o operation) decide() error {
	if len(o.coming) > 0 {
		return nil // not even the processor knows yet
	}
	rows, err := o.books.Query("SELECT submission_id FROM submissions WHERE outcome IS NULL AND obstacle IS NOT NULL")
	if err != nil {
		return err
	}
	var open []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		open = append(open, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	now := o.operator.clock()
	for _, id := range open {
		o.struck["decided_by_hand"]++
		made := slices.IndexFunc(o.oracle.jobs, func(j *jobBook) bool { return j.submission == id })
		if made >= 0 {
			err = o.store().RecordAccepted(o.ctx, now, reconcile.Acceptance{SubmissionID: id, ProviderJobID: o.oracle.jobs[made].id, Status: "found", NextPoll: now, Evidence: "the processor says so"})
		} else {
			err = o.store().RecordAbsent(o.ctx, now, reconcile.Absence{SubmissionID: id, Evidence: "the processor says so", Abandoned: true, NextSubmit: now})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweep looks for what is left at the account.
func (o operation) sweep() error {
	if o.Settles != batch.SettleByListing {
		return nil
	}
	for range 2 { // what the first cancels has ended at the second
		_, err := o.operator.r.Run(o.ctx, reconcile.PassSweep)
		for ; errors.Is(err, reconcile.ErrHeld); _, err = o.operator.r.Run(o.ctx, reconcile.PassSweep) { // by a process that died
			o.pass(o.operator.r.LeaseFor)
		}
		if err != nil {
			return err
		}
		o.pass(time.Hour)
	}
	if pauses := o.brakes(); len(pauses) > 0 { // what came late from before a recovery
		return o.resumeAll()
	}
	return nil
}

// check calls the roll.
func (o operation) check() error {
	report, err := o.operator.r.RunCheck(o.ctx)
	for ; errors.Is(err, reconcile.ErrHeld); report, err = o.operator.r.RunCheck(o.ctx) { // by a process that died
		o.pass(o.operator.r.LeaseFor)
	}
	if err != nil {
		return err
	}
	for _, inv := range report.Invariants {
		for _, b := range inv.Breaches {
			if !inv.Decision && !o.vanishedJob(b.Subject) {
				o.oracle.breach("the roll is broken: %s %s %s", inv.Name, b.Subject, b.Detail)
			}
		}
	}
	return nil
}

// vanishedJob says whether a subject is a job that the processor has forgotten: a
// person must ask there what became of it, and the roll says so until then.
func (o operation) vanishedJob(subject string) bool {
	var id stdsql.NullString
	err := o.books.QueryRow("SELECT provider_job_id FROM jobs WHERE 'job:' || job_id = $1", subject).Scan(&id)
	return err == nil && o.oracle.vanished[id.String]
}

// left says what does not come to its end.
func (o operation) left() string {
	var all []string
	for _, q := range []string{
		"SELECT 'work ' || work_id || ' ' || stage || ' of ' || policy_id || '/' || policy_version FROM works WHERE disposition = 'live' AND stage <> 'recorded' OR stage = 'extracted'",
		"SELECT 'job ' || job_id || ' ' || state || ' ' || COALESCE(provider_job_id, '') FROM jobs WHERE state NOT IN ('consumed', 'abandoned')",
		"SELECT 'submission ' || submission_id || ' open, ' || COALESCE(obstacle, '') FROM submissions WHERE outcome IS NULL",
		"SELECT 'held ' || report_id FROM holds",
	} {
		rows, err := o.books.Query(q)
		if err != nil {
			return err.Error()
		}
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				return err.Error()
			}
			all = append(all, s)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err.Error()
		}
	}
	return strings.Join(all, "; ")
}
