package simulation

import (
	"errors"
	"os"
	"slices"
	"time"

	"rollcall/reconcile"
)

// copyLedger makes a backup.
func (o operation) copyLedger() error {
	o.copied, o.oracle.copied = true, o.now
	return o.exec("VACUUM INTO '" + o.copyPath() + "'")
}

// sentSinceCopy says whether the processor got a job since the backup.
func (o operation) sentSinceCopy() bool {
	return slices.ContainsFunc(o.oracle.jobs, func(j *jobBook) bool { return j.made.After(o.oracle.copied) && !j.stale })
}

// restore puts the backup in the place of the ledger. Whoever has sent something
// since must be noticed.
func (o operation) restore() error {
	o.note(o.operator, "puts the copy in the place of the ledger")
	for _, p := range o.processes {
		o.kill(p)
	}
	err := o.closeLedger()
	for _, name := range []string{o.ledgerPath() + "-wal", o.ledgerPath() + "-shm"} {
		if rerr := os.Remove(name); !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	err = errors.Join(err, os.Rename(o.copyPath(), o.ledgerPath()), o.openLedger())
	if err != nil {
		return err
	}
	o.world.copied, o.world.copiedMidway = false, false
	o.oracle.wentBackTo()
	err = o.operator.r.VerifyWitness(o.ctx, o.operator.clock())
	// A copy that has the body of a submission looks for its job, whenever that was made.
	sent := slices.ContainsFunc(o.oracle.jobs, func(j *jobBook) bool {
		return j.made.After(o.oracle.copied) && !j.stale && o.oracle.count("SELECT COUNT(*) FROM submissions WHERE submission_id = $1 AND body_mac IS NOT NULL", j.submission) == 0
	})
	switch {
	case errors.Is(err, reconcile.ErrRewound) && o.rng.IntN(2) == 0:
		return nil // nobody looks at once, and the passes that do no harm go on
	case errors.Is(err, reconcile.ErrRewound):
		return o.recover()
	case err != nil:
		return err
	case sent, o.oracle.noted != "" && o.oracle.count("SELECT COUNT(*) FROM submissions WHERE submission_id = $1", o.oracle.noted) == 0:
		o.oracle.breach("the ledger was put back behind what was sent, and nobody notices")
	}
	o.oracle.lost = false
	// Reports may be missing all the same: the witness is written when something is
	// to be sent, and at checks, and not for each receipt.
	return errors.Join(o.endDrills(), o.redeliver())
}

// recover makes the ledger whole from what the account holds, as a person does:
// sources deliver again, policies are approved again, and dispatch goes on only
// when nothing is left to be recovered.
func (o operation) recover() error {
	o.note(o.operator, "recover")
	if err := o.endDrills(); err != nil {
		return err
	}
	if err := o.redeliver(); err != nil {
		return err
	}
	leaveOut := false
	for try := range 12 {
		r, err := o.operator.r.Recover(o.ctx, o.operator.clock(), reconcile.RecoverOptions{Actor: "the operator", Reason: "a copy was put back", WithoutUnreadable: try > 6, WithoutUnknown: leaveOut})
		if err != nil {
			return err
		}
		for _, j := range r.Jobs {
			o.note(o.operator, j.ProviderJobID+" "+j.Became)
			if book := o.oracle.byID[j.ProviderJobID]; book != nil && j.Became == reconcile.RecoveredSurplus {
				book.stale = true // given up: nothing of it is used
			}
		}
		if r.Complete {
			return o.recovered()
		}
		leaveOut = o.nobodyDelivers(r.Jobs)
		o.pass(time.Duration(1+try) * 15 * time.Minute) // in all longer than any wait for results
		for _, pass := range []reconcile.PassName{reconcile.PassPoll, reconcile.PassConsume} {
			if _, err := o.operator.r.Run(o.ctx, pass); err != nil && !errors.Is(err, reconcile.ErrHeld) {
				return err
			}
		}
	}
	o.oracle.breach("a recovery never ends")
	return nil
}

// nobodyDelivers says whether recovered jobs have works that the ledger does not know
// although all is delivered again, and will never know: of a revision that was
// superseded before it had a policy, or under a policy that was revoked since the
// copy. Any other work has to turn up.
func (o operation) nobodyDelivers(jobs []reconcile.RecoveredJob) (unknown bool) {
	for _, j := range jobs {
		book := o.oracle.byID[j.ProviderJobID]
		if j.Unknown == 0 || book == nil {
			continue
		}
		for _, work := range book.works {
			of := o.oracle.works[work]
			switch r := o.oracle.reports[of.report]; {
			case o.oracle.count("SELECT COUNT(*) FROM works WHERE work_id = $1", work) > 0:
			case o.oracle.revoked && work == o.keys.WorkID(of.report, of.revision, policy, 1), r != nil && of.revision < r.current:
				unknown = true
			default:
				return false
			}
		}
	}
	return unknown
}

// redeliver has the sources send all that they ever sent.
func (o operation) redeliver() error {
	if err := o.approve(policy); err != nil && !errors.Is(err, reconcile.ErrRefused) {
		return err
	}
	if o.oracle.revoked {
		if err := o.revoke(); err != nil {
			return err
		}
	}
	if o.oracle.renewed && !o.approved(policy, 2) {
		if err := o.approveVersion(policy, 2); err != nil {
			return err
		}
	}
	if !o.approved(laterOne, 1) {
		if err := o.approve(laterOne); err != nil {
			return err
		}
	}
	calm := o.calm
	o.world.calm = true
	defer func() { o.world.calm = calm }()
	o.source.again()
	for o.source.waits() {
		if _, err := o.source.deliver(o.ctx, o.operator); err != nil {
			return err
		}
	}
	return nil
}

func (o operation) recovered() error {
	o.oracle.lost, o.oracle.noted = false, ""
	for pattern := range o.oracle.sealed { // what was adopted has intents from before
		o.oracle.seal(pattern)
	}
	if err := o.operator.r.RenewWitness(o.ctx); err != nil {
		return err
	}
	for _, stage := range []reconcile.PausedStage{reconcile.PauseDispatch, reconcile.PauseApply} {
		err := o.store().Resume(o.ctx, o.operator.clock(), reconcile.ScopeAll, stage, "the operator", "recovered")
		if err != nil && !errors.Is(err, reconcile.ErrNotFound) {
			return err
		}
	}
	o.struck["recovered"]++
	o.oracle.unseal("%") // a drill on top of that pause is over with it
	return nil
}
