package main

import (
	"context"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/reconcile"
)

// actorFlags are how a person signs for what is done.
func actorFlags(c *cobra.Command, by, reason *string) {
	name := "operator"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	textVar(c, by, "by", name, "who does this; it stands in the audit")
	textVar(c, reason, "reason", "", "why; it stands in the audit")
}

func stages() []reconcile.PausedStage {
	return []reconcile.PausedStage{reconcile.PauseIntake, reconcile.PauseDispatch, reconcile.PausePoll, reconcile.PauseApply}
}

func checkBrake(scope, stage, reason string) error {
	if reason == "" {
		return usageError("--reason is missing: it is what the next person reads")
	}
	if !slices.Contains(stages(), reconcile.PausedStage(stage)) {
		return usageError("--stage %q is none of %v", stage, stages())
	}
	if kind, _, _ := strings.Cut(scope, ":"); !slices.Contains(reconcile.PauseScopes(reconcile.PausedStage(stage)), kind) {
		return usageError("--stage %s can be stopped for %s only, not for --scope %q", stage, strings.Join(reconcile.PauseScopes(reconcile.PausedStage(stage)), ", "), scope)
	}
	return nil
}

// checkScope refuses a scope that names nothing: a pause of it would stop
// nothing, and say that it had.
func checkScope(ctx context.Context, d *deployment, scope string) error {
	if scope == reconcile.ScopeAll {
		return nil
	}
	var known []string
	for _, a := range d.config.Accounts {
		known = append(known, "account:"+a.Name)
	}
	stored, err := d.store.Policies(ctx)
	if err != nil {
		return err
	}
	for _, p := range stored {
		known = append(known, "policy:"+p.ID, "account:"+p.Boundary.Account)
	}
	for _, s := range d.config.Sources {
		known = append(known, "policy:"+s.Policy)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	if !slices.Contains(known, scope) {
		return usageError("--scope %q is neither all nor one of %s; a policy is named without its version, and all its versions are meant", scope, strings.Join(known, ", "))
	}
	return nil
}

// brake is what pause and resume have in common: where, by whom and why.
type brake struct {
	scope, by, reason string
	stage             reconcile.PausedStage
}

// brakeCommand adds to a command what sets or lifts a brake. act does it and
// prints what it did.
func (a *app) brakeCommand(c *cobra.Command, act func(ctx context.Context, d *deployment, now time.Time, b brake) error) *cobra.Command {
	var scope, stage, by, reason string
	c.Args = cobra.NoArgs
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkBrake(scope, stage, reason); err != nil {
			return err
		}
		d, err := a.open(cmd.Context())
		if err != nil {
			return err
		}
		defer d.close()
		if err := checkScope(cmd.Context(), d, scope); err != nil {
			return err
		}
		now, err := d.store.Now(cmd.Context())
		if err != nil {
			return err
		}
		return act(cmd.Context(), d, now, brake{scope, by, reason, reconcile.PausedStage(stage)})
	}
	c.Flags().StringVar(&scope, "scope", reconcile.ScopeAll, "all, account:NAME or policy:NAME")
	c.Flags().StringVar(&stage, "stage", string(reconcile.PauseDispatch), "intake, dispatch, poll or apply")
	actorFlags(c, &by, &reason)
	return c
}

func (a *app) pauseCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "pause",
		Short: "Stop a stage; when this returns, nothing of it commits any more",
		Long: `Stops a stage for everything, for an account or for a policy, until resume. When this
returns, nothing of that stage commits any more.

A pause of dispatch lists what is already out and is not stopped by it: submissions
without an outcome, which may still make a job or have made one, and jobs that the
provider has. Nothing is cancelled: poll, consume and apply go on with such a job. See
what was sent where with: rollcall job show JOB. To stop it, cancel it at the provider;
its items then count as cancelled, and wait until dispatch is resumed.

Pausing again changes nothing; it says since when and by whom the stage is paused, and
lists what is out by then.`,
	}
	return a.jsonFlag(a.brakeCommand(c, func(ctx context.Context, d *deployment, now time.Time, b brake) error {
		paused, err := d.store.Pause(ctx, now, reconcile.Pause{Scope: b.scope, Stage: b.stage, Actor: b.by, Reason: b.reason})
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(paused)
		}
		a.printPaused(paused, now)
		return nil
	}))
}

func (a *app) printPaused(p reconcile.Paused, now time.Time) {
	if p.Already {
		fmt.Fprintf(a.out, "%s of %s has been paused since %s by %s: %s. Nothing was changed\n",
			p.Stage, printable(p.Scope), when(p.SetAt), printable(p.Actor), printable(p.Reason))
	} else {
		fmt.Fprintf(a.out, "%s of %s is paused\n", p.Stage, printable(p.Scope))
	}
	if p.Stage != reconcile.PauseDispatch {
		return
	}
	if p.OutTotal+p.AtProviderTotal == 0 {
		fmt.Fprintln(a.out, "nothing of it is out")
		return
	}
	fmt.Fprintln(a.out, "already out, and not stopped by this:")
	for _, s := range p.Out {
		fmt.Fprintf(a.out, "  submission %s of job %s, begun %s: %s\n", s.SubmissionID, s.JobID, when(s.IntentAt), outWord(s, now))
	}
	a.more(p.OutTotal-int64(len(p.Out)), "submission", "submissions")
	for _, j := range p.AtProvider {
		fmt.Fprintf(a.out, "  job %s is at the provider as %s since %s, with %s\n",
			j.JobID, printable(j.ProviderJobID), when(j.SubmittedAt), plural(int(j.Items), "item", "items"))
	}
	a.more(p.AtProviderTotal-int64(len(p.AtProvider)), "job at the provider", "jobs at the provider")
	fmt.Fprintln(a.out, "nothing is cancelled; to see what was sent where: rollcall job show JOB")
}

// outWord says what may still come of a submission without an outcome.
func outWord(s reconcile.UncertainView, now time.Time) string {
	switch {
	case now.Before(s.SendBy):
		return "it may still make a job until " + when(s.SendBy)
	case s.InputFileID == "":
		return "its process ended before it asked for a job"
	default:
		return "nobody knows whether the provider has its job"
	}
}

// more says how many are not listed.
func (a *app) more(n int64, one, many string) {
	if n > 0 {
		fmt.Fprintf(a.out, "  and %s more\n", plural(int(n), one, many))
	}
}

// resume lifts a pause. While the ledger lacks what its witness has seen it refuses
// to let everything go on, unless the ledger is to be taken as it is: one of its own
// from there on, which no witness doubts.
func (d *deployment) resume(ctx context.Context, now time.Time, b brake, asItIs bool) error {
	lift := func() error { return d.store.Resume(ctx, now, b.scope, b.stage, b.by, b.reason) }
	if d.witness == nil || b.scope != reconcile.ScopeAll || b.stage != reconcile.PauseDispatch && b.stage != reconcile.PauseApply {
		return lift()
	}
	c, err := d.witness.Compare(ctx)
	if err != nil {
		return err
	}
	switch lacks := c.Rewound(); {
	case lacks == "":
		return lift()
	case !asItIs:
		return &exitError{exitDecision, fmt.Errorf("%w: %s. First: rollcall recover --reason \"…\"", reconcile.ErrRewound, lacks)}
	}
	if err := lift(); err != nil {
		return err
	}
	// If the process dies here, the next comparison pauses again.
	if err := d.store.RaiseGeneration(ctx, now, c.LedgerGeneration, b.by, "taken as it is: "+b.reason); err != nil {
		return err
	}
	return d.witness.Renew(ctx)
}

func (a *app) resumeCommand() *cobra.Command {
	unrecovered := false
	c := &cobra.Command{
		Use:   "resume",
		Short: "Lift a pause",
		Long: `Lifts a pause. While the ledger is older than its witness, dispatch and apply of
everything go on only behind a recovery (rollcall recover), or with --unrecovered: the
ledger is taken as it is then, and what was sent since the copy was made may be sent again.`,
	}
	c.Flags().BoolVar(&unrecovered, "unrecovered", false, "also while the ledger is known to be a copy that nobody has recovered")
	return a.brakeCommand(c, func(ctx context.Context, d *deployment, now time.Time, b brake) error {
		if err := d.resume(ctx, now, b, unrecovered); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "%s of %s goes on\n", b.stage, printable(b.scope))
		return nil
	})
}
