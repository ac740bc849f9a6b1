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
	c.Flags().StringVar(by, "by", name, "who does this; it stands in the audit")
	c.Flags().StringVar(reason, "reason", "", "why; it stands in the audit")
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

// brakeCommand makes the command that sets or lifts a brake.
func (a *app) brakeCommand(use, short, done string, act func(ctx context.Context, d *deployment, now time.Time, b brake) error) *cobra.Command {
	var scope, stage, by, reason string
	c := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			if err := act(cmd.Context(), d, now, brake{scope, by, reason, reconcile.PausedStage(stage)}); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "%s of %s %s\n", stage, printable(scope), done)
			return nil
		},
	}
	c.Flags().StringVar(&scope, "scope", reconcile.ScopeAll, "all, account:NAME or policy:NAME")
	c.Flags().StringVar(&stage, "stage", string(reconcile.PauseDispatch), "intake, dispatch, poll or apply")
	actorFlags(c, &by, &reason)
	return c
}

func (a *app) pauseCommand() *cobra.Command {
	return a.brakeCommand("pause", "Stop a stage; when this returns, nothing of it commits any more", "is paused",
		func(ctx context.Context, d *deployment, now time.Time, b brake) error {
			return d.store.Pause(ctx, now, reconcile.Pause{Scope: b.scope, Stage: b.stage, Actor: b.by, Reason: b.reason})
		})
}

func (a *app) resumeCommand() *cobra.Command {
	return a.brakeCommand("resume", "Lift a pause", "goes on",
		func(ctx context.Context, d *deployment, now time.Time, b brake) error {
			return d.store.Resume(ctx, now, b.scope, b.stage, b.by, b.reason)
		})
}
