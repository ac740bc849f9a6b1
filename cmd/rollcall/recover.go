package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"rollcall/batch"
	"rollcall/reconcile"
)

func (a *app) recoverCommand() *cobra.Command {
	var o reconcile.RecoverOptions
	c := a.jsonFlag(&cobra.Command{
		Use:   "recover",
		Short: "Make a ledger whole that was restored, or that lost commits; pauses dispatch and apply",
		Long: `Reads what the accounts hold, and makes jobs of the ledger out of those that it does not
know: a job is recognised by the ids of its requests. Nothing is sent, and nothing is
cancelled; request files that no job uses, and that the ledger does not know or takes for
not sent, are deleted, so that a request which is still on its way can make no job. It
pauses dispatch and apply, and they stay paused until they are resumed.

A job may hold reports that came in after the copy was made. It is incomplete until they
are delivered again, and is left as it is; then run recover again. --without-unknown
adopts such jobs without those reports: when they are delivered later, their texts are
sent a second time. It is also the way on where nothing more will come: from sources that
deliver the newest revision only, and under a policy that was revoked since the copy.

--without-unreadable gives up jobs of which nothing can be read any more, since their files
are gone; their texts may be sent again, too. Where the requests are gone and the results
hold fewer lines than the provider counts, it takes what is there. What was sent again after
an older job failed belongs to the newer one then, if the provider shows the older one no
more; otherwise that is waited for, since its answers are there, or will be: let poll and
consume run in between.

It may be run again at any time, also after an interruption. Exit code 4 means that jobs
are left that must be recovered.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Reason == "" {
				return usageError("--reason is missing: say which copy was restored, and why")
			}
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			r, err := d.reconciler()
			if err != nil {
				return err
			}
			return a.recover(cmd.Context(), r, o)
		},
	})
	c.Flags().BoolVar(&o.WithoutUnknown, "without-unknown", false, "adopt jobs without the reports that the ledger does not know")
	c.Flags().BoolVar(&o.WithoutUnreadable, "without-unreadable", false, "give up jobs whose requests and results are gone at the provider, whose texts may be sent again, and do not wait for older jobs that are gone")
	actorFlags(c, &o.Actor, &o.Reason)
	return c
}

func (a *app) recover(ctx context.Context, r *reconcile.Reconciler, o reconcile.RecoverOptions) error {
	now, err := r.Now(ctx)
	if err != nil {
		return err
	}
	bar := a.passProgress(r)
	out, err := r.Recover(ctx, now, o)
	bar.done()
	if err == nil && out.Complete {
		if err = r.RenewWitness(ctx); err != nil {
			err = fmt.Errorf("the ledger is whole, and its witness could not be renewed; run recover again: %w", err)
		}
	}
	// What was done before an error stands, and is worth to be known.
	if perr := a.printRecovery(out, err == nil, unlisted(r.Accounts, r.Callers)); err == nil {
		err = perr
	}
	if err != nil {
		return err
	}
	if !out.Complete {
		return &exitError{exitDecision, errors.New("jobs are left that must be recovered, or may be; dispatch and apply stay paused")}
	}
	return nil
}

// unlisted are the accounts that tell nothing about the origin of their jobs.
func unlisted(accounts []batch.Provider, callers []batch.Caller) (names []string) {
	for _, p := range accounts {
		if _, ok := p.(batch.Inventory); !ok || p.Capabilities().Settlement != batch.SettleByListing {
			names = append(names, p.Account().Name)
		}
	}
	for _, c := range callers {
		names = append(names, c.Account().Name)
	}
	return names
}

func (a *app) printRecovery(out reconcile.Recovery, whole bool, unlisted []string) error {
	if a.json {
		return a.printJSON(out)
	}
	if len(out.Jobs) > 0 {
		t := newTable(a.out, "account", "provider job", "provider says", "lines", "members", "done", "unknown", "became", "job")
		for _, j := range out.Jobs {
			t.row(j.Account, j.ProviderJobID, j.Status, j.Lines, j.Members, j.Done, j.Unknown, j.Became, j.JobID)
		}
		if err := t.flush(); err != nil {
			return err
		}
	} else if whole {
		fmt.Fprintln(a.out, "the accounts hold no job that the ledger does not know")
	}
	for _, name := range unlisted {
		fmt.Fprintf(a.out, "account %s tells nothing about the origin of its jobs: what was sent to it since the copy was made cannot be found out, and is sent again once dispatch is resumed\n", name)
	}
	if whole {
		a.printAfterRecovery(out)
	}
	return nil
}

// printAfterRecovery says what to do next, in order.
func (a *app) printAfterRecovery(out reconcile.Recovery) {
	became := map[string]int{}
	for _, j := range out.Jobs {
		became[j.Became]++
	}
	const again = `rollcall recover --reason "…"`
	if !out.Complete {
		fmt.Fprintln(a.out, "\nthe ledger is not whole yet. Next, in this order:")
		for _, doubt := range out.Doubts {
			fmt.Fprintf(a.out, "  wait: %s\n", doubt)
		}
		if n := became[reconcile.RecoveredIncomplete]; n > 0 {
			fmt.Fprintf(a.out, "  approve again what was approved since the copy was made, and deliver again what came in since: %s reports that the ledger does not know. rollcall policy list, rollcall intake FILE\n", plural(n, "job holds", "jobs hold"))
		}
		if n := became[reconcile.RecoveredWaiting]; n > 0 {
			fmt.Fprintf(a.out, "  read the results of older jobs first, since %s texts that were sent again after one of those failed. rollcall run poll consume --until-idle\n", plural(n, "job holds", "jobs hold"))
		}
		if n := became[reconcile.RecoveredUnreadable]; n > 0 {
			fmt.Fprintf(a.out, "  look at %s whose requests could not be read; once one has ended, its results tell what it was made of, unless they hold fewer lines than it counts; what is gone for good is given up with --without-unreadable. rollcall job inspect PROVIDER_JOB\n", plural(n, "job", "jobs"))
		}
		fmt.Fprintf(a.out, "  then run it again: %s\n", again)
		return
	}
	fmt.Fprintf(a.out, "\nthe ledger is whole, and in its generation %d. Next, in this order:\n", out.Generation)
	fmt.Fprintln(a.out, "  1. deliver again what came in since the copy was made; what the ledger has is left as it is. rollcall intake FILE")
	fmt.Fprintln(a.out, "  2. let results be applied: rollcall resume --scope all --stage apply --reason \"…\"")
	fmt.Fprintln(a.out, "  3. run what was adopted to its end: rollcall run poll consume apply --until-idle")
	fmt.Fprintln(a.out, "  4. let texts be sent: rollcall resume --scope all --stage dispatch --reason \"…\"")
	if n := became[reconcile.RecoveredSurplus]; n > 0 {
		fmt.Fprintf(a.out, "%s not needed: sweep cancels and deletes. rollcall run sweep\n", plural(n, "job is", "jobs are"))
	}
}
