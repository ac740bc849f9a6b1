package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"rollcall/reconcile"
)

func (a *app) statusCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "status",
		Short: "What is where, and what an operator must decide",
		Long: `Counts reports, works, jobs and records, and names what an operator must decide:
submissions of unknown outcome, pauses, open findings, and a ledger that is older
than its witness.

Exit code 4 means that something needs a decision.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			now, err := d.store.Now(cmd.Context())
			if err != nil {
				return err
			}
			o, err := d.store.Overview(cmd.Context(), now)
			if err != nil {
				return err
			}
			doubt := d.witnessDoubt(cmd.Context())
			if a.json {
				if err := a.printJSON(struct {
					reconcile.Overview
					Witness string `json:"witness"` // why the ledger may not be whole, or ""
				}{o, doubt}); err != nil {
					return err
				}
			} else {
				a.printOverview(o, doubt)
				a.printSchedules(d.config, o)
			}
			n := waiting(o.Decisions)
			if doubt != "" {
				n++
			}
			return decisionsNeeded(n)
		},
	})
}

// witnessDoubt says why the ledger may not be whole, or "". It only compares.
func (d *deployment) witnessDoubt(ctx context.Context) string {
	if d.witness == nil {
		return ""
	}
	c, err := d.witness.Compare(ctx)
	if err != nil {
		return fmt.Sprintf("the ledger cannot be compared with its witness: %s", oneLine(err))
	}
	if lacks := c.Rewound(); lacks != "" {
		return fmt.Sprintf("%v: %s", reconcile.ErrRewound, lacks)
	}
	return ""
}

// decisionNeeded is exit code 4 where something waits for a person.
func decisionNeeded(d reconcile.Decisions) error { return decisionsNeeded(waiting(d)) }

func decisionsNeeded(n int) error {
	if n > 0 {
		return &exitError{exitDecision, fmt.Errorf("%s for an operator's decision", plural(n, "thing waits", "things wait"))}
	}
	return nil
}

// waiting counts what waits for a person.
func waiting(d reconcile.Decisions) int {
	n := len(stuck(d.Uncertain)) + len(d.Pauses) + len(d.NeedsDecision)
	if d.Held > 0 {
		n++
	}
	return n
}

// stuck are the uncertain submissions that no pass can settle any more.
func stuck(uncertain []reconcile.UncertainView) []reconcile.UncertainView {
	return slices.DeleteFunc(slices.Clone(uncertain), func(u reconcile.UncertainView) bool { return u.Obstacle == "" })
}

func (a *app) printOverview(o reconcile.Overview, doubt string) {
	fmt.Fprintf(a.out, "ledger %s at %s\n\n", o.LedgerID, when(o.At))
	t := newTable(a.out)
	t.row("reports", o.Reports)
	if o.Held > 0 {
		t.row("held, no approved policy", o.Held)
	}
	for _, s := range reconcile.Stages() {
		t.row("works "+string(s), o.Works[s])
	}
	for _, s := range reconcile.JobStates() {
		if o.Jobs[s] > 0 {
			t.row("jobs "+string(s), o.Jobs[s])
		}
	}
	labels := make([]string, 0, len(o.Records))
	for l := range o.Records {
		labels = append(labels, l)
	}
	slices.Sort(labels)
	for _, l := range labels {
		t.row("records "+l, o.Records[l])
	}
	for _, w := range reconcile.LimitWords() {
		if o.WaitingJobs[w] > 0 {
			t.row("jobs waiting for "+string(w), o.WaitingJobs[w])
		}
	}
	t.row("next poll", whenp(o.NextPoll))
	if o.NextCall != nil {
		t.row("next call", whenp(o.NextCall))
	}
	t.row("open findings", o.OpenFindings)
	_ = t.flush()
	a.printSpend(o.Spend)
	for _, u := range o.Uncertain {
		if u.Obstacle == "" {
			fmt.Fprintf(a.out, "submission %s of job %s: nobody knows yet whether the provider has it; resolve looks for it %s\n", u.SubmissionID, u.JobID, whenLook(u))
		}
	}

	paint := painter(colours(a.out))
	if waiting(o.Decisions) == 0 && doubt == "" {
		fmt.Fprintln(a.out, "\n"+paint.good("nothing waits for an operator"))
		return
	}
	fmt.Fprintln(a.out, "\n"+paint.bad("an operator must decide:"))
	if doubt != "" {
		fmt.Fprintf(a.out, "  %s. rollcall doctor says what to do\n", printable(doubt))
	}
	if o.Held > 0 {
		fmt.Fprintf(a.out, "  %s for an approved policy of their source. rollcall policy list\n", plural(int(o.Held), "report waits", "reports wait"))
	}
	for _, u := range stuck(o.Uncertain) {
		fmt.Fprintf(a.out, "  submission %s of job %s: nobody knows whether the provider has it (intent %s), and %s. It is not sent again. rollcall job resolve %s\n",
			u.SubmissionID, u.JobID, when(u.IntentAt), u.Obstacle, u.JobID)
	}
	for _, p := range o.Pauses {
		fmt.Fprintf(a.out, "  %s of %s is paused since %s by %s: %s. rollcall resume --scope %s --stage %s --reason \"…\"\n",
			p.Stage, printable(p.Scope), when(p.SetAt), printable(p.Actor), printable(p.Reason), printable(p.Scope), p.Stage)
	}
	for _, f := range o.NeedsDecision {
		fmt.Fprintf(a.out, "  finding %s: %s, %s, %s. rollcall findings says what to do\n", f.ID, f.Name, printable(f.Subject), printable(f.Detail))
	}
}

func whenLook(u reconcile.UncertainView) string {
	if u.NextLook == nil {
		return "at its next run"
	}
	return when(*u.NextLook)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
