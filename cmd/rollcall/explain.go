package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/reconcile"
)

// explainMatches bounds how many reports one external id may bring up.
const explainMatches = 20

func (a *app) explainCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "explain ID",
		Short: "Where one report is: which stage, what was sent where, what happens next",
		Long: `Answers "which stage failed?" for one report. ID is the report's id at its source,
its report id, a work id, or the custom id of a request line.

The answer names revisions, policy, every time the text left this machine (when, to
which processor, host and region), jobs, attempts, and the next action. It never
shows the text.`,
		Args: oneText,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			ids, err := d.store.FindReport(cmd.Context(), args[0], explainMatches)
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				return fmt.Errorf("no report, work or external id %q in this ledger", printable(args[0]))
			}
			var all []reconcile.ReportHistory
			for _, id := range ids {
				h, err := d.store.ReportHistory(cmd.Context(), id)
				if err != nil {
					return err
				}
				all = append(all, h)
			}
			if a.json {
				return a.printJSON(all)
			}
			for i, h := range all {
				if i > 0 {
					fmt.Fprintln(a.out)
				}
				a.printReport(h)
			}
			return nil
		},
	})
}

func (a *app) printReport(h reconcile.ReportHistory) {
	p := painter(colours(a.out))
	fmt.Fprintf(a.out, "%s  %s / %s / %s\n", p.bold("report "+h.ReportID), printable(h.Tenant), printable(h.System), printable(h.ExternalID))
	fmt.Fprintf(a.out, "  stage    %s (revision %d)\n", p.bold(h.Stage), h.CurrentRevision)
	fmt.Fprintf(a.out, "  next     %s\n", h.Next)
	for _, r := range h.Revisions {
		var notes []string
		for note, on := range map[string]bool{"cleaned": r.Cleaned, "urgent": r.Urgent, "held": r.Held} {
			if on {
				notes = append(notes, note)
			}
		}
		if r.Media != "" {
			notes = append(notes, "media "+printable(r.Media))
		}
		fmt.Fprintf(a.out, "\n  revision %d  accepted %s, %d bytes%s\n", r.Revision, when(r.AcceptedAt), r.Bytes, joined(notes))
		for _, w := range h.Works {
			if w.Revision == r.Revision {
				a.printWork(w)
			}
		}
	}
	for _, f := range h.Findings {
		fmt.Fprintf(a.out, "\n  %s %s: %s (since %s)\n", p.bad("finding"), f.Name, printable(f.Detail), when(f.OpenedAt))
	}
}

func joined(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	return ", " + strings.Join(notes, ", ")
}

func (a *app) printWork(w reconcile.WorkView) {
	fmt.Fprintf(a.out, "    work %s  policy %s, %s, %s", w.WorkID, printable(w.Policy), w.Disposition, w.Stage)
	if w.Reason != "" {
		fmt.Fprintf(a.out, " (%s)", w.Reason)
	}
	fmt.Fprintf(a.out, ", attempts %d, due %s\n", w.Attempts, when(w.DueAt))
	for _, s := range w.Sent {
		fmt.Fprintf(a.out, "      job %s (%s)", s.JobID, s.JobState)
		if s.ProviderJobID != "" {
			fmt.Fprintf(a.out, ", provider job %s", printable(s.ProviderJobID))
		}
		fmt.Fprintln(a.out)
		if s.LeftAt != nil {
			fmt.Fprintf(a.out, "        text left %s to %s, account %s, host %s, region %s", when(*s.LeftAt), s.Processor, printable(s.Account), printable(s.Host), printable(s.Region))
		} else {
			fmt.Fprintf(a.out, "        text has not left; to go to %s, account %s, host %s, region %s", s.Processor, printable(s.Account), printable(s.Host), printable(s.Region))
		}
		if s.SubmissionID != "" {
			fmt.Fprintf(a.out, ", submission %s %s", s.SubmissionID, s.Submission)
		}
		fmt.Fprintln(a.out)
		if s.Outcome != "" {
			fmt.Fprintf(a.out, "        outcome %s %s\n", s.Outcome, printable(s.Code))
		}
		if s.Vendor != "" {
			fmt.Fprintf(a.out, "        served by %s\n", printable(s.Vendor))
		}
	}
	if r := w.Record; r != nil {
		kind := r.Kind + " " + r.Label + r.Reason
		if r.Authoritative {
			kind += ", authoritative"
		} else {
			kind += ", history"
		}
		fmt.Fprintf(a.out, "      record %s, %s, %s", kind, r.HumanState, when(r.At))
		if r.Model != "" {
			fmt.Fprintf(a.out, ", model %s", printable(r.Model))
		}
		fmt.Fprintln(a.out)
	}
}
