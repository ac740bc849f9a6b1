package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"rollcall/batch"
	"rollcall/reconcile"
)

// resolveAsk is what an operator says about a job, if anything.
type resolveAsk struct {
	jobID            string
	found            string
	absent, giveUp   bool
	sendAgain        bool
	offline          bool
	by, reason       string
	verdicts, needed int // how many were given, and how many of them ask the account
}

func (a *app) jobResolveCommand() *cobra.Command {
	var ask resolveAsk
	c := a.jsonFlag(&cobra.Command{
		Use:   "resolve JOB",
		Short: "Decide about a job of which nobody knows whether the provider has it",
		Long: `Shows what is known about the open submission of a job: by the ledger and, unless
--offline, by what the account's list of jobs shows now. It changes nothing, and ends
with exit code 4, since somebody must decide:

  --found ID   the provider has the job: it is the one by this id of the provider's. It must
               exist, and nothing about it may say that it is another one's. Poll goes on
               with it.
  --absent     the provider has no job of it, and none will come. Its input file is deleted,
               and its texts are sent again: say so with --yes-send-again. It is refused as
               long as the account's list does not prove it: the list must show every job
               that the provider has accepted, and reach to after the send deadline. An empty
               job without any text may be made, to have something that it must show.
  --give-up    nobody can tell. Its reports go to a person, and nothing is sent again. The
               submission stays open and is still looked for; an answer that comes is kept
               and not applied.

Each needs --reason, which stands in the ledger as the evidence, with --by.`,
		Args: oneText,
		RunE: func(cmd *cobra.Command, args []string) error {
			ask.jobID = args[0]
			if err := ask.check(); err != nil {
				return err
			}
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			return a.resolveJob(cmd.Context(), d, ask)
		},
	})
	textVar(c, &ask.found, "found", "", "the provider's id of the job")
	c.Flags().BoolVar(&ask.absent, "absent", false, "no job exists, and none will come")
	c.Flags().BoolVar(&ask.sendAgain, "yes-send-again", false, "with --absent: its texts are sent again")
	c.Flags().BoolVar(&ask.giveUp, "give-up", false, "its reports go to a person; nothing is sent again")
	c.Flags().BoolVar(&ask.offline, "offline", false, "do not ask the account")
	actorFlags(c, &ask.by, &ask.reason)
	return c
}

func (k *resolveAsk) check() error {
	for _, given := range []bool{k.found != "", k.absent} {
		if given {
			k.verdicts++
			k.needed++
		}
	}
	if k.giveUp {
		k.verdicts++
	}
	switch {
	case k.verdicts > 1:
		return usageError("--found, --absent and --give-up exclude each other")
	case k.verdicts == 1 && k.reason == "":
		return usageError("--reason is missing: it is the evidence that the next person reads")
	case k.sendAgain && !k.absent:
		return usageError("--yes-send-again goes with --absent")
	case k.offline && k.needed > 0:
		return usageError("--offline goes with --give-up only: any other verdict is compared with what the account shows")
	}
	return nil
}

// resolvedView is what --json prints.
type resolvedView struct {
	Evidence *reconcile.Evidence `json:"evidence,omitempty"` // as it was before; none when no submission is open
	Recorded string              `json:"recorded,omitempty"` // found, absent or given_up
	Proof    reconcile.Proof     `json:"proof,omitempty"`    // what --found was compared with
	Reports  int                 `json:"reports,omitempty"`  // how many --give-up gave to a person
}

func (a *app) resolveJob(ctx context.Context, d *deployment, ask resolveAsk) error {
	h, err := d.store.JobHistory(ctx, ask.jobID)
	if err != nil {
		return err
	}
	ask.jobID = h.JobID
	r := d.offline()
	if !ask.offline {
		if r, err = d.reconciler(); err != nil {
			return err
		}
	}
	now, err := r.Now(ctx)
	if err != nil {
		return err
	}
	var v resolvedView
	e, err := r.Evidence(ctx, now, ask.jobID, !ask.offline)
	switch {
	case err == nil:
		v.Evidence = &e
		a.printEvidence(e, ask.offline)
	case !errors.Is(err, reconcile.ErrNotFound):
		return err
	case ask.verdicts == 0:
		a.printNothingOpen(h)
	}
	err = a.recordVerdict(ctx, r, ask, &v)
	if a.json {
		err = errors.Join(a.printJSON(v), err)
	}
	if err == nil && ask.verdicts == 0 && v.Evidence != nil {
		return &exitError{exitDecision, fmt.Errorf("nobody knows yet whether the provider has job %s, and nothing was changed", ask.jobID)}
	}
	return err
}

// say prints a line for a person.
func (a *app) say(format string, args ...any) {
	if !a.json {
		fmt.Fprintf(a.out, format+"\n", args...)
	}
}

// recordVerdict records what the operator says.
func (a *app) recordVerdict(ctx context.Context, r *reconcile.Reconciler, ask resolveAsk, v *resolvedView) error {
	now, err := r.Now(ctx)
	if err != nil {
		return err
	}
	s := reconcile.Statement{JobID: ask.jobID, Actor: ask.by, Reason: ask.reason}
	switch {
	case ask.found != "":
		if v.Proof, err = r.StateFound(ctx, now, s, ask.found); err != nil {
			return err
		}
		v.Recorded = "found"
		a.say("recorded: job %s is provider job %s%s; poll goes on with it", s.JobID, printable(ask.found), proofWord(v.Proof))
	case ask.absent:
		if v.Evidence != nil && !ask.sendAgain {
			return usageError("--absent has a consequence: its %s sent again, and classified twice if the provider has a job of them all the same. Say so with --yes-send-again",
				plural(int(v.Evidence.Submission.Lines), "text is", "texts are"))
		}
		if err := r.StateAbsent(ctx, now, s); err != nil {
			return err
		}
		v.Recorded = "absent"
		a.say("recorded: the provider has no job %s; those of its texts that are still wanted are sent again by the next run of submit", s.JobID)
	case ask.giveUp:
		if v.Reports, err = r.GiveUp(ctx, now, s); err != nil {
			return err
		}
		v.Recorded = "given_up"
		a.say("recorded: %s given to a person; the submission of job %s stays open, and an answer that still comes is kept and not applied",
			plural(v.Reports, "report is", "reports are"), s.JobID)
	default:
		a.printChoices(ask, v.Evidence)
	}
	return nil
}

// proofWord tells what a verdict was compared with; nothing when it had been
// recorded before.
func proofWord(p reconcile.Proof) string {
	if p == "" {
		return ", as before"
	}
	return " (" + string(p) + ")"
}

func (a *app) printNothingOpen(h reconcile.JobHistory) {
	a.say("job %s is %s, and none of its submissions is open: there is nothing to decide", h.JobID, jobStateWord(h.JobView))
	if n := len(h.Submissions); n > 0 {
		last := h.Submissions[n-1]
		a.say("the last one, %s, is %s: %s", last.SubmissionID, last.Outcome, printable(last.Evidence))
	}
}

func (a *app) printEvidence(e reconcile.Evidence, offline bool) {
	if a.json {
		return
	}
	s := e.Submission
	t := newTable(a.out)
	t.row("job", e.JobID)
	t.row("policy", e.Policy)
	t.row("submission", fmt.Sprintf("%s, attempt %d, %s", s.SubmissionID, s.Attempt, plural(int(s.Lines), "line", "lines")))
	t.row("intent", when(s.IntentAt))
	t.row("send by", when(s.SendBy))
	t.row("input file", inputFileWord(s))
	t.row("looked for", lookedWord(s))
	t.row("next look", whenp(s.NextLook))
	t.row("obstacle", s.Obstacle)
	t.row("account", accountWord(e, offline))
	_ = t.flush()
	a.printLive(e.Live)
}

func inputFileWord(s reconcile.SubmissionView) string {
	switch {
	case s.InputFileID == "":
		return "none was noted: no job was asked for, and submit closes the submission after the send deadline"
	case s.FencedAt != nil:
		return s.InputFileID + ", deleted " + when(*s.FencedAt)
	}
	return s.InputFileID
}

func lookedWord(s reconcile.SubmissionView) string {
	if s.LastLook == nil {
		return "not yet"
	}
	return fmt.Sprintf("last %s; %s showed no job of it", when(*s.LastLook), plural(int(s.Looks), "complete list", "complete lists"))
}

func accountWord(e reconcile.Evidence, offline bool) string {
	switch {
	case offline:
		return "not asked"
	case e.Account == "":
		return "no configured account is the one that it was sent to"
	}
	how := map[batch.Settlement]string{
		batch.SettleByListing:  "its list of jobs tells whose they are",
		batch.SettleByResults:  "only the results of an ended job tell whose it is",
		batch.SettleByKey:      "the same request under the same key is the same job",
		batch.SettleByRepeat:   "it keeps no jobs",
		batch.SettleByOperator: "nothing there tells, so look at the provider for a job of the time when it was sent",
	}[e.Settlement]
	return e.Account + ": " + how
}

func (a *app) printLive(l *reconcile.LiveEvidence) {
	if l == nil {
		return
	}
	fmt.Fprintln(a.out)
	if l.Read {
		fmt.Fprintf(a.out, "the account's list shows %s of the time since the intent\n", plural(l.Listed, "job", "jobs"))
	}
	if l.Doubt != "" {
		fmt.Fprintf(a.out, "the list does not prove that a job is absent: %s\n", printable(l.Doubt))
	} else {
		fmt.Fprintln(a.out, "the list is complete, and reaches to after the send deadline")
	}
	a.printSeen("jobs of this submission, by the id that they name or their input file:", l.Matching)
	a.printSeen("jobs that were made while it was sent, and that name nothing:", l.Candidates)
	a.more(int64(l.More), "such job", "such jobs")
}

func (a *app) printSeen(title string, jobs []reconcile.SeenJob) {
	if len(jobs) == 0 {
		return
	}
	fmt.Fprintln(a.out, title)
	t := newTable(a.out, "provider job", "provider says", "requests", "made", "input file", "names submission")
	for _, j := range jobs {
		t.row(j.ProviderJobID, j.Status, j.Total, when(j.Created), j.FileID, j.Submission)
	}
	_ = t.flush()
}

// printChoices says how to decide.
func (a *app) printChoices(ask resolveAsk, e *reconcile.Evidence) {
	if e == nil {
		return
	}
	if e.Submission.Obstacle == "" {
		a.say("\nrollcall looks for it by itself; to wait is a way to decide. Otherwise:")
	} else {
		a.say("\nTo decide:")
	}
	found := "PROVIDER_JOB"
	if e.Live != nil && len(e.Live.Matching) > 0 {
		found = e.Live.Matching[0].ProviderJobID
	}
	a.say("  the provider has it:   rollcall job resolve %s --found %s --reason \"…\"", ask.jobID, printable(found))
	a.say("  it has none:           rollcall job resolve %s --absent --yes-send-again --reason \"…\"", ask.jobID)
	a.say("                         its %s sent again, and classified twice if a job is there all the same", plural(int(e.Submission.Lines), "text is", "texts are"))
	a.say("  nobody can tell:       rollcall job resolve %s --give-up --reason \"…\"", ask.jobID)
	a.say("                         its %s to a person; nothing is sent again", plural(int(e.Submission.Lines), "report goes", "reports go"))
	a.say("What the provider says of one of its jobs: rollcall job inspect PROVIDER_JOB")
}
