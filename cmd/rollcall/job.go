package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"rollcall/reconcile"
)

func (a *app) jobsCommand() *cobra.Command {
	var states []string
	var limit int
	c := a.jsonFlag(&cobra.Command{
		Use:   "jobs",
		Short: "Provider batch jobs, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usageError("--limit must be 1 or more")
			}
			var want []reconcile.JobState
			for _, s := range states {
				if !slices.Contains(reconcile.JobStates(), reconcile.JobState(s)) {
					return usageError("--state %q is none of %v", s, reconcile.JobStates())
				}
				want = append(want, reconcile.JobState(s))
			}
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			jobs, err := d.store.Jobs(cmd.Context(), want, limit)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(jobs)
			}
			t := newTable(a.out, "job", "state", "items", "policy", "account", "provider job", "provider says", "created", "next")
			for _, j := range jobs {
				t.row(j.JobID, jobStateWord(j), j.Items, j.Policy, j.Account, j.ProviderJobID, providerSays(j), when(j.CreatedAt), nextOfJob(j))
			}
			return t.flush()
		},
	})
	c.Flags().StringSliceVar(&states, "state", nil, "only jobs in this state; may be given several times")
	c.Flags().IntVar(&limit, "limit", 50, "how many")
	return c
}

func (a *app) jobCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "job", Short: "One provider batch job", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.jsonFlag(&cobra.Command{
		Use:   "show ID",
		Short: "A job with its submissions, result sets and outcomes; ID is ours or the provider's",
		Args:  oneText,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			h, err := d.store.JobHistory(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := d.addEstimate(cmd.Context(), &h); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(h)
			}
			return a.printJob(h)
		},
	}))
	c.AddCommand(a.jobInspectCommand(), a.jobResolveCommand())
	return c
}

func (a *app) printJob(h reconcile.JobHistory) error {
	t := newTable(a.out)
	t.row("job", h.JobID)
	t.row("state", jobStateWord(h.JobView))
	t.row("policy", h.Policy)
	t.row("goes to", fmt.Sprintf("%s, account %s, host %s, region %s", h.Processor, h.Account, h.Host, h.Region))
	t.row("items", h.Items)
	t.row("provider job", h.ProviderJobID)
	t.row("provider says", providerSays(h.JobView))
	t.row("created", when(h.CreatedAt))
	t.row("submitted", whenp(h.SubmittedAt))
	t.row("ended", whenp(h.EndedAt))
	t.row("consumed", whenp(h.ConsumedAt))
	t.row("next", nextOfJob(h.JobView))
	if h.Estimate != nil {
		t.row("estimate", costLine(*h.Estimate))
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	t = newTable(a.out, "submission", "attempt", "lines", "bytes", "intent", "send by", "input file", "outcome", "evidence", "estimate", "used")
	for _, s := range h.Submissions {
		t.row(s.SubmissionID, s.Attempt, s.Lines, s.Bytes, when(s.IntentAt), when(s.SendBy), s.InputFileID, s.Outcome, s.Evidence, costLine(s.Money), usedLine(s.Money))
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	t = newTable(a.out, "results", "state", "file", "lines", "bytes", "lines became")
	for _, s := range h.Sets {
		t.row(s.Channel, s.State, s.FileID, s.Lines, s.Bytes, countsLine(s.Became))
	}
	if err := t.flush(); err != nil {
		return err
	}
	outcomes := map[string]int64{}
	for o, n := range h.Outcomes {
		if o == "" {
			o = "open"
		}
		outcomes[string(o)] = n
	}
	fmt.Fprintf(a.out, "\noutcomes: %s\n", countsLine(outcomes))
	for _, f := range h.Findings {
		fmt.Fprintf(a.out, "finding %s: %s (since %s)\n", f.Name, printable(f.Detail), when(f.OpenedAt))
	}
	return nil
}

// countsLine shows counts by name, in the order of the names.
func countsLine(counts map[string]int64) string {
	var names []string
	for n := range counts {
		names = append(names, n)
	}
	slices.Sort(names)
	var s string
	for i, n := range names {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%s %d", n, counts[n])
	}
	return s
}

func jobStateWord(j reconcile.JobView) string {
	if j.Uncertain {
		return string(j.State) + ", submission uncertain"
	}
	return string(j.State)
}

func providerSays(j reconcile.JobView) string {
	if j.Status == "" {
		return ""
	}
	return fmt.Sprintf("%s, %d of %d done, %d failed", j.Status, j.Completed, j.Total, j.Failed)
}

func nextOfJob(j reconcile.JobView) string {
	switch {
	case j.NextSubmit != nil && j.WaitsFor != "":
		return fmt.Sprintf("submit %s, waits for %s", when(*j.NextSubmit), j.WaitsFor)
	case j.NextSubmit != nil:
		return "submit " + when(*j.NextSubmit)
	case j.NextPoll != nil && j.Called:
		return "call " + when(*j.NextPoll)
	case j.NextPoll != nil:
		return "poll " + when(*j.NextPoll)
	}
	return ""
}
