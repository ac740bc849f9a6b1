package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"rollcall/reconcile"
)

func (a *app) runCommand() *cobra.Command {
	var untilIdle, dryRun bool
	var limit time.Duration
	c := a.jsonFlag(&cobra.Command{
		Use:   "run [pass…]",
		Short: "Run the passes by hand, once or until nothing is left to do",
		Long: `Runs the named passes in the order of the pipeline, or all of them:
  collect  plans provider jobs from pending works
  resolve  finds out what became of submissions of unknown outcome
  submit   sends ready jobs
  call     asks about the texts of jobs whose processor knows no jobs, one by one
  poll     asks about jobs whose poll is due
  consume  reads and judges the results of ended jobs
  apply    makes the review records
  sweep    reads what the accounts hold, cancels and deletes what is surplus there
  check    calls the roll: runs the invariants, opens and resolves findings

Safe beside another rollcall: a pass that another process is running is left to it.
Ctrl-C stops between two steps; the next run goes on from there.`,
		ValidArgs: passWords(),
		Args:      cobra.OnlyValidArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 || limit > 0 && !untilIdle {
				return usageError("--limit is a positive duration and goes with --until-idle")
			}
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			if dryRun {
				return a.dryRun(cmd.Context(), d)
			}
			r, err := d.reconciler()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}
			now, err := d.store.Now(ctx)
			if err != nil {
				return err
			}
			if err := r.VerifyWitness(ctx, now); err != nil {
				return fmt.Errorf("%w; `rollcall doctor` says more", err)
			}
			return a.runPasses(ctx, d, r, chosenPasses(args), untilIdle)
		},
	})
	c.Flags().BoolVar(&untilIdle, "until-idle", false, "repeat until nothing is left to do now or later, waiting for the provider")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what the passes would find, and do nothing")
	c.Flags().DurationVar(&limit, "limit", 0, "stop --until-idle after this long, for example 30m")
	return c
}

func passWords() []string {
	var words []string
	for _, p := range reconcile.Passes() {
		words = append(words, string(p))
	}
	return words
}

// chosenPasses are the named ones in the order of the pipeline, or all.
func chosenPasses(args []string) []reconcile.PassName {
	if len(args) == 0 {
		return reconcile.Passes()
	}
	var out []reconcile.PassName
	for _, p := range reconcile.Passes() {
		if slices.Contains(args, string(p)) {
			out = append(out, p)
		}
	}
	return out
}

func (a *app) runPasses(ctx context.Context, d *deployment, r *reconcile.Reconciler, passes []reconcile.PassName, untilIdle bool) error {
	bar := a.passProgress(r)
	tallies, err := map[reconcile.PassName]reconcile.Tally{}, error(nil)
	if untilIdle {
		tallies, err = r.RunUntilIdle(ctx, passes, func(ctx context.Context, d time.Duration) error {
			bar.waiting(time.Now().Add(d))
			return reconcile.Sleep(ctx, d)
		})
	} else {
		err = a.runOnce(ctx, r, passes, tallies)
	}
	bar.done()
	if perr := a.printTallies(passes, tallies); perr != nil {
		return perr
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errLimit
	}
	if err != nil && !errors.Is(err, reconcile.ErrStuck) && !errors.Is(err, errLimit) {
		return err
	}
	return a.afterRun(context.WithoutCancel(ctx), d, tallies, untilIdle, err)
}

// errLimit: --limit ended the run. It is no fault, and yet work is left.
var errLimit = errors.New("the time limit ran out; what is committed stands, and the next run goes on from there")

func (a *app) runOnce(ctx context.Context, r *reconcile.Reconciler, passes []reconcile.PassName, tallies map[reconcile.PassName]reconcile.Tally) error {
	var errs []error
	for _, p := range passes {
		tally, err := r.Run(ctx, p)
		tallies[p] = tally
		switch {
		case errors.Is(err, reconcile.ErrHeld) && !errors.Is(err, reconcile.ErrUnknownCommit):
			fmt.Fprintf(a.errOut, "%s: another process is running it; left to it\n", p)
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			// The other passes have work of their own.
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (a *app) printTallies(passes []reconcile.PassName, tallies map[reconcile.PassName]reconcile.Tally) error {
	if a.json {
		return a.printJSON(tallies)
	}
	t := newTable(a.out, "pass", "looked at", "moved on", "put off")
	for _, p := range passes {
		tally := tallies[p]
		t.row(p, tally.Seen, tally.Moved, tally.Failed)
	}
	return t.flush()
}

// afterRun chooses the exit code: a broken invariant first, then what an
// operator must decide, then work that nothing moves.
func (a *app) afterRun(ctx context.Context, d *deployment, tallies map[reconcile.PassName]reconcile.Tally, untilIdle bool, stuck error) error {
	now, err := d.store.Now(ctx)
	if err != nil {
		return err
	}
	if tallies[reconcile.PassCheck].Failed > 0 {
		found, err := d.store.Findings(ctx, true, d.config.Settings().BreachLimit)
		if err != nil {
			return err
		}
		if err := brokenInvariants(found, reconcile.Invariants(now, d.config.Settings())); err != nil {
			return err
		}
	}
	waits, err := d.store.Decisions(ctx, now)
	if err != nil {
		return err
	}
	if err := decisionNeeded(waits); err != nil {
		return fmt.Errorf("%w; `rollcall status` names it", err)
	}
	if errors.Is(stuck, errLimit) {
		return stuck
	}
	if stuck != nil {
		return &exitError{exitDecision, stuck}
	}
	if open := len(waits.Open); untilIdle && open > 0 {
		return &exitError{exitDecision, fmt.Errorf("%s without an outcome: the provider may or may not have the job, so nothing is sent again; `rollcall status` says more once the send deadline has passed",
			plural(open, "submission is", "submissions are"))}
	}
	return nil
}

func (a *app) dryRun(ctx context.Context, d *deployment) error {
	now, err := d.store.Now(ctx)
	if err != nil {
		return err
	}
	w, err := d.store.Workload(ctx, now, d.config.Settings().UnsentMargin)
	if err != nil {
		return err
	}
	ready, err := d.estimateReady(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			reconcile.Workload
			ReadyJobs []readyJob `json:"ready_jobs"`
		}{w, ready})
	}
	t := newTable(a.out, "pass", "would find now", "later")
	t.row("collect", fmt.Sprintf("%d works, %d held reports", w.Pending, w.Held), fmt.Sprintf("%d works", w.Later))
	t.row("resolve", fmt.Sprintf("%d submissions without an outcome", w.Open), "")
	t.row("submit", fmt.Sprintf("%d jobs", w.Ready), fmt.Sprintf("%d jobs", w.ReadyLater))
	t.row("call", fmt.Sprintf("%d jobs", w.CallsDue), fmt.Sprintf("%d jobs", w.Called-w.CallsDue))
	t.row("poll", fmt.Sprintf("%d jobs", w.PollsDue), fmt.Sprintf("%d jobs", w.Submitted-w.PollsDue))
	t.row("consume", fmt.Sprintf("%d jobs", w.EndedDue), fmt.Sprintf("%d jobs", w.Ended-w.EndedDue))
	t.row("apply", fmt.Sprintf("%d works", w.Extracted), "")
	t.row("check", fmt.Sprintf("%d overdue works to give to a person", w.Overdue), "")
	if err := t.flush(); err != nil {
		return err
	}
	if err := a.printReady(ready); err != nil {
		return err
	}
	if len(w.Plan) == 0 {
		return nil
	}
	fmt.Fprintln(a.out, "\ntexts that would be sent, and where:")
	t = newTable(a.out, "policy", "account", "host", "region", "texts", "bytes")
	for _, l := range w.Plan {
		t.row(l.Policy, l.Account, l.Host, l.Region, l.Works, l.Bytes)
	}
	return t.flush()
}
