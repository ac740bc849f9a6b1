package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"rollcall/reconcile"
)

func (a *app) findingsCommand() *cobra.Command {
	var all bool
	var limit int
	c := a.jsonFlag(&cobra.Command{
		Use:   "findings",
		Short: "What the invariants and the passes have found",
		Long: `Lists open findings, newest first. A finding of an invariant closes by itself when
check no longer sees it; one of an event stays until a person resolves it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			found, err := d.store.Findings(cmd.Context(), !all, limit)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(found)
			}
			return a.printFindings(found)
		},
	})
	c.Flags().BoolVar(&all, "all", false, "also resolved ones")
	c.Flags().IntVar(&limit, "limit", 100, "how many")
	c.AddCommand(a.findingsResolveCommand())
	return c
}

func (a *app) findingsResolveCommand() *cobra.Command {
	var by, reason string
	c := &cobra.Command{
		Use:   "resolve ID",
		Short: "Close the finding of an event, with a reason",
		Args:  oneText,
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usageError("--reason is missing: say what was done about it")
			}
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			now, err := d.store.Now(cmd.Context())
			if err != nil {
				return err
			}
			if err := d.store.ResolveFinding(cmd.Context(), now, args[0], by, reason); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "finding %s is resolved\n", args[0])
			return nil
		},
	}
	actorFlags(c, &by, &reason)
	return c
}

// remedies says what to do about a finding, by its name.
func remedies() map[string]string {
	out := map[string]string{}
	for _, e := range reconcile.EventKinds() {
		out[e.Name] = e.Remedy
	}
	for _, i := range reconcile.Invariants(time.Time{}, reconcile.Settings{}) {
		out[i.Name] = i.Remedy
	}
	return out
}

func (a *app) printFindings(found []reconcile.Finding) error {
	if len(found) == 0 {
		fmt.Fprintln(a.out, "no findings")
		return nil
	}
	t := newTable(a.out, "finding", "name", "severity", "subject", "detail", "since", "seen", "resolved")
	names := map[string]bool{}
	for _, f := range found {
		t.row(f.ID, f.Name, f.Severity, f.Subject, f.Detail, when(f.OpenedAt), f.Seen, whenp(f.ResolvedAt))
		if f.ResolvedAt == nil {
			names[f.Name] = true
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	remedy := remedies()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(a.out, "\n%s: %s\n", name, remedy[name])
	}
	return nil
}
