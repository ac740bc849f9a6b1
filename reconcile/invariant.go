package reconcile

import "time"

// Invariants lists what must always be true, as of an instant. Those about
// time offend when something has lasted longer than the settings allow.
func Invariants(now time.Time, s Settings) []Invariant {
	return append(integrity(), punctuality(now, s)...)
}

// integrity are the invariants that hold at every commit. The schema forbids
// most breaches of them; they are checked all the same, because a constraint
// may be dropped, a backup may be restored in part, and an index may be corrupt.
func integrity() []Invariant {
	const pauseAll = `run: rollcall pause --scope all --stage dispatch --reason "…"; then `
	const restore = "run no pass before the cause is known: compare with a backup and with the audit events of the subject; to see what the ledger holds of a report, run: rollcall explain ID"
	return []Invariant{
		{Name: "report_unaccounted", Severity: Critical,
			Means:  "an accepted report has neither a work nor a hold for its current revision, so nothing would ever come of it",
			Remedy: "deliver the report again, with a higher revision if the ledger calls it unchanged"},
		{Name: "report_duplicate_authoritative", Severity: Critical,
			Means: "more than one record stands for a report", Remedy: restore},
		{Name: "marker_without_record", Severity: Critical,
			Means: "a work is marked as applied and has no record", Remedy: restore},
		{Name: "record_without_marker", Severity: Critical,
			Means: "a record was written outside of apply, which writes record and marker together", Remedy: restore},
		{Name: "authority_moved_back", Severity: Critical,
			Means: "an older revision stands for a report although a newer one was applied", Remedy: restore},
		{Name: "authority_against_marker", Severity: Critical,
			Means: "whether a record stands is not what apply decided", Remedy: restore},
		{Name: "artifact_of_non_member", Severity: Critical,
			Means: "an answer is kept for a work that was no successful member of the job that it came from", Remedy: restore},
		{Name: "success_without_artifact", Severity: Critical,
			Means: "an item succeeded and its answer is gone", Remedy: restore},
		{Name: "work_in_two_open_jobs", Severity: Critical,
			Means: "a text is an open member of more than one job, so it may be sent twice", Remedy: pauseAll + restore},
		{Name: "send_outside_boundary", Severity: Critical,
			Means:  "a text is a member of a job under another policy than the one that it was accepted under",
			Remedy: pauseAll + "to see where the text went, run: rollcall explain ID"},
		{Name: "job_against_submissions", Severity: Critical,
			Means: "a job's state contradicts what is known of its submissions", Remedy: restore},
		{Name: "job_closed_with_open_items", Severity: Critical,
			Means: "a job is over and members still wait for an outcome, so no pass would look at them again", Remedy: restore},
		{Name: "stage_against_facts", Severity: Critical,
			Means: "a work's stage says something else than its items, artifact and marker, so a pass may skip it or take it twice", Remedy: restore},
	}
}

// punctuality are the invariants about what should have happened by now.
func punctuality(now time.Time, s Settings) []Invariant {
	return []Invariant{
		{Name: "report_missing_record", Severity: Critical, Before: now,
			Means:  "a report is past its review due time and no record of its current revision stands",
			Remedy: "to see the stage that it is in and what happens next, run: rollcall explain ID; the policy's on_due: unclassified gives such reports to a person"},
		{Name: "work_unapplied", Severity: Warning, Before: now.Add(-s.StuckAfter),
			Means:  "an outcome is known and its record was not written",
			Remedy: "look for a pause of apply, with: rollcall status; then run: rollcall run apply"},
		{Name: "submission_uncertain", Severity: Critical, Decision: true, Before: now.Add(-s.UncertainAfter),
			Means: "nobody knows whether the provider has a job; its texts are not sent again until somebody does",
			Remedy: "to see what was found out, and to say what became of it, run: rollcall job resolve JOB; " +
				"until it is settled nothing is sent again, and its reports reach a person when they are due"},
		{Name: "job_overdue", Severity: Warning, Before: now.Add(-s.JobOverdue),
			Means:  "the provider has had a job for longer than its window",
			Remedy: "look at the job at the provider; its items are not sent again while it may still answer"},
		{Name: "job_stuck_ended", Severity: Warning, Before: now.Add(-s.StuckAfter),
			Means:  "a job has ended and its results are not consumed",
			Remedy: "run: rollcall run consume (it names the cause); the results expire at the provider"},
		{Name: "result_set_unread", Severity: Critical, Before: now.Add(-s.UnreadAfter),
			Means:  "result files are not read although half of their life at the provider is over",
			Remedy: "run: rollcall run consume (it names the cause); once the files expire the texts must be sent again"},
		{Name: "job_waits_for_limit", Severity: Warning, Before: now.Add(-s.LimitAfter),
			Means:  "a job is ready and waits for a limit of its account",
			Remedy: "if the provider permits more, raise the account's limits in the configuration; to see which one it waits for, run: rollcall job show JOB"},
		{Name: "policy_pending", Severity: Warning, Decision: true,
			Means:  "reports of a source are held because no approved policy says where they may go",
			Remedy: `answer the policy's open questions in its file, then run: rollcall policy approve NAME --reason "…"`},
	}
}
