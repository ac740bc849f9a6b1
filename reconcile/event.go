package reconcile

import (
	"context"
	"time"
)

// EventKind describes an event that a pass may see: what it means and what a
// person can do.
type EventKind struct {
	Name     string
	Severity Severity
	Means    string
	Remedy   string
}

// How a finding of an event is closed: each remedy ends with one of them, as it
// is to be typed.
const (
	thenResolve      = `; then run: rollcall findings resolve ID --reason "…"`
	thenWitness      = `; the finding closes by itself once the witness can be used again`
	thenProbe        = `; the finding closes by itself once the made-up text is answered`
	thenResume       = `; then run: rollcall resume --scope account:NAME --stage dispatch --reason "…" (it closes this finding)`
	thenAccount      = `; then run: rollcall resume --scope account:NAME --stage dispatch --reason "…"` + thenResolve
	thenResumePolicy = `; then run: rollcall resume --scope policy:NAME --stage dispatch --reason "…" (it closes this finding)`
)

// The events, by name.
var (
	EventRevisionConflict = EventKind{"revision_conflict", Warning,
		"a source sent other content under a revision that the ledger already has; the new content was refused",
		"ask the source for a higher revision, or configure it with same_revision: new_revision" + thenResolve}
	EventAccountDenied = EventKind{"account_denied", Critical,
		"the provider refuses this account; dispatch to it is paused",
		"check the key, the project and the region of the account" + thenResume}
	EventOutOfCredit = EventKind{"out_of_credit", Critical,
		"the account's money or quota is used up; dispatch to it is paused",
		"top the account up" + thenResume}
	EventBudgetSpent = EventKind{"budget_spent", Critical,
		"a policy's budget of the day does not hold its next job; dispatch of the policy is paused, and a new day alone does not resume it",
		"to see what is spent, run: rollcall status; raise budget.per_day in a new version of the policy and approve it, or wait for the next UTC day" + thenResumePolicy}
	EventBudgetUnpriced = EventKind{"budget_unpriced", Critical,
		"a policy has a budget, and the configuration has no price of its model in the budget's currency; its jobs are not sent",
		"add the price to the account's prices in the configuration, or give the policy a new version with budget: none" + thenResolve}
	EventAccountMismatch = EventKind{"account_mismatch", Critical,
		"no configured account is the one that this job was sent to, so it cannot be asked about; nothing is sent again",
		"was the account's key exchanged, where no project is configured, or its project? put the old one back, " +
			"or configure it as another account beside the new one, until its jobs are consumed" + thenResolve}
	EventBoundaryMismatch = EventKind{"boundary_mismatch", Critical,
		"a policy's boundary does not match the configured account; its works are not sent",
		`correct the account in the configuration, or give the policy a new version and run: rollcall policy approve NAME --reason "…"` + thenResolve}
	EventTextUnreadable = EventKind{"text_unreadable", Critical,
		"a text in the ledger cannot be decrypted: that of a work is damaged, and a person gets its report unclassified; for a job a key is missing or wrong, and it is not sent",
		"of a job: restore the keyring that belongs to this ledger; of a work: its source still has the text, and another program or a failing disk changed the database" + thenResolve}
	EventJobVanished = EventKind{"job_vanished", Critical,
		"the provider no longer knows a job that it accepted; its items stay open and are not sent again",
		"was the account's key or project exchanged? put the old one back; otherwise ask the provider; " +
			"the job is asked about all the same, and its reports reach a person when they are due" + thenResolve}
	EventUnknownStatus = EventKind{"unknown_status", Warning,
		"the provider reports a job status that rollcall does not know; the job is polled on",
		"look at the job at the provider; if the status is documented, a newer version is needed" + thenResolve}
	EventResultsIncomplete = EventKind{"results_incomplete", Warning,
		"a job ended without the result files, or with fewer result lines, than its counts promise; it is looked at again",
		"the finding closes by itself once a reading is complete; after a grace time items without a result are tried again: look at the job at the provider" + thenResolve}
	EventResultsLost = EventKind{"results_lost", Critical,
		"result files are gone at the provider before they were read",
		"find out why consume did not run in time; items without a result count as missing and are tried again within the policy's attempts" + thenResolve}
	EventResultsUnreadable = EventKind{"results_unreadable", Critical,
		"a result file is larger than rollcall reads, or has far more lines than its job has members; its job waits, and its reports become overdue",
		"look at the file at the provider; if it is genuine, raise consume.max_set in the configuration" + thenResolve}
	EventResultConflict = EventKind{"result_conflict", Critical,
		"a job returned different answers for one item; none was used, and a person gets the report",
		"report the job to the provider" + thenResolve}
	EventUnknownResult = EventKind{"unknown_result", Critical,
		"a job returned a result for an item that is not its own; it was not used",
		"report the job to the provider: results of different jobs may have been mixed up" + thenResolve}
	EventCrossedAnswer = EventKind{"crossed_answer", Critical,
		"a job returned answers that do not repeat the token of their request, so that they may be about other texts; they were not used",
		"report the job to the provider: answers may stand under the wrong ids; the items concerned are tried again within the policy's attempts" + thenResolve}
	EventUnapprovedVendor = EventKind{"unapproved_vendor", Critical,
		"texts were served by a vendor that is not allowed, or by nobody knows whom; what came back was not used, a person gets the reports, and dispatch to the account is paused",
		"the texts have been there already: tell whoever answers for them; ask the processor why, and correct the account's vendors or revoke the policy" + thenAccount}
	EventAnotherModel = EventKind{"another_model", Critical,
		"answers name another model than the one that was asked for; they were not used, a person gets the reports, and dispatch to the account is paused; texts that are called one by one wait",
		"ask the processor which model served them; if it is the same one, name it under answers_as in a new version of the classifier and its policy" + thenAccount}
	EventMalformedResults = EventKind{"malformed_results", Warning,
		"more than one in a hundred lines of a result file could not be read",
		"look at the job at the provider; the items concerned are tried again within the policy's attempts" + thenResolve}
	EventLateResult = EventKind{"late_result", Notice,
		"a result came after its report had been given to a person without one; it is kept and was not applied",
		"nothing must be done; the reviewer may want to know" + thenResolve}
	EventEditedAfterDecision = EventKind{"edited_after_decision", Warning,
		"a report was edited after a person had decided about it; the decision stands, the new result is history",
		"have a person look at the newer revision" + thenResolve}
	EventApplyFailed = EventKind{"apply_failed", Critical,
		"the ledger refused review records; their extraction is complete and is not repeated",
		"look at the error in the log of the apply pass and at the rights of its database role; apply goes on by itself once the cause is gone" + thenResolve}
	EventJobRefused = EventKind{"job_refused", Warning,
		"the provider refused a job as a whole: either to make it, and it is sent again later, or its request file, and its items are tried again or given to a person",
		"see the provider's codes, with: rollcall job show JOB" + thenResolve}
	EventJobNotSent = EventKind{"job_not_sent", Warning,
		"a job could not be handed over to the provider several times in a row; it is tried again with growing waits",
		"check the provider's status, the account's base_url and the network; to see the last answers, run: rollcall job show JOB" +
			"; the finding closes by itself once a submission is accepted or the job is given up"}
	EventSurplusJob = EventKind{"surplus_job", Warning,
		"an account holds a job that no submission stands for; it is cancelled and its files are deleted, and nothing of it is used",
		"find out who sent it: a process that was stopped for long while another took over, or a copy of this deployment" + thenResolve}
	EventSurplusFile = EventKind{"surplus_file", Notice,
		"an account held a request file that no job uses, which a process left that was ended in between; it is deleted",
		"nothing must be done" + thenResolve}
	EventCommitUnreplicated = EventKind{"commit_unreplicated", Critical,
		"the database gave up waiting for its synchronous standby: what it committed meanwhile is lost if it is",
		"look after the standby, and see the database's state with: rollcall doctor" + thenResolve}
	EventLedgerRewound = EventKind{"ledger_rewound", Critical,
		"the ledger is older than what is known of it elsewhere: a copy was restored, or a fail-over lost commits; dispatch and apply are paused, since what it takes for unsent may have been sent",
		"see what is missing, with: rollcall doctor; deliver again what came in since the copy was made; adopt what was sent, with: rollcall recover --reason \"…\"; " +
			"then run: rollcall resume --scope all --stage apply --reason \"…\"; then run: rollcall resume --scope all --stage dispatch --reason \"…\" (it closes this finding)"}
	EventLaneClosed = EventKind{"lane_closed", Critical,
		"the account did not answer as rollcall needs it, so no text of the policy is sent to it",
		"check the account's model, region and base_url, and the provider's status" + thenProbe}
	EventWitnessUnusable = EventKind{"witness_unusable", Critical,
		"the witness cannot be read or written, so nobody knows whether the ledger is whole: nothing is sent until it can",
		"see what is wrong with its file, and what to do, with: rollcall doctor" + thenWitness}
)

// EventKinds lists every event.
func EventKinds() []EventKind {
	return []EventKind{EventRevisionConflict, EventAccountDenied, EventOutOfCredit, EventBudgetSpent, EventBudgetUnpriced, EventAccountMismatch, EventBoundaryMismatch, EventTextUnreadable,
		EventJobVanished, EventUnknownStatus, EventResultsIncomplete, EventResultsLost, EventResultsUnreadable, EventResultConflict, EventUnknownResult, EventCrossedAnswer, EventUnapprovedVendor, EventAnotherModel,
		EventMalformedResults, EventLateResult, EventEditedAfterDecision, EventApplyFailed, EventJobRefused, EventJobNotSent,
		EventSurplusJob, EventSurplusFile, EventLaneClosed, EventLedgerRewound, EventWitnessUnusable, EventCommitUnreplicated, EventScheduleRefused}
}

// BrakeKinds are the events with which dispatch is paused. Their subject is the
// pause's scope, and resuming dispatch there is their answer.
func BrakeKinds() []EventKind {
	return []EventKind{EventAccountDenied, EventOutOfCredit, EventBudgetSpent, EventLedgerRewound}
}

func (k EventKind) event(subject, detail string) Event {
	return Event{Name: k.Name, Subject: subject, Severity: k.Severity, Detail: detail}
}

// raise opens a finding for an event and logs it.
func (r *Reconciler) raise(ctx context.Context, now time.Time, kind EventKind, subject, detail string) error {
	e := kind.event(subject, detail)
	r.logEvents(e)
	return r.Store.OpenFinding(ctx, now, e)
}

// settle resolves the open finding of an event whose cause is gone, if there is
// one. A person need not look any more.
func (r *Reconciler) settle(ctx context.Context, now time.Time, kind EventKind, subject, resolution string) error {
	settled, err := r.Store.SettleEvent(ctx, now, kind.Name, subject, resolution)
	if settled {
		r.Log.Info().Str("finding", kind.Name).Str("subject", subject).Msg("resolved: " + resolution)
	}
	return err
}

// logEvents logs what was, or is about to be, opened as findings.
func (r *Reconciler) logEvents(events ...Event) {
	for _, e := range events {
		r.Log.Warn().Str("finding", e.Name).Str("subject", e.Subject).Str("detail", e.Detail).Msg(meaningOf(e.Name))
	}
}

// meaningOf is what an event means, by its name.
func meaningOf(name string) string {
	for _, k := range EventKinds() {
		if k.Name == name {
			return k.Means
		}
	}
	return name
}

// brake pauses dispatch to an account and says why.
func (r *Reconciler) brake(ctx context.Context, now time.Time, kind EventKind, account, detail string) error {
	if err := r.pauseAccount(ctx, now, account, kind.Name); err != nil {
		return err
	}
	return r.raise(ctx, now, kind, "account:"+account, detail)
}

// pauseAccount pauses dispatch to an account. One that is paused stays so.
func (r *Reconciler) pauseAccount(ctx context.Context, now time.Time, account, reason string) error {
	_, err := r.Store.Pause(ctx, now, Pause{Scope: "account:" + account, Stage: PauseDispatch, Actor: "rollcall", Reason: reason})
	return err
}
