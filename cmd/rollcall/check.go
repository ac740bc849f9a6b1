package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"rollcall/reconcile"
)

// listedBreaches are how many offenders of an invariant are printed for people.
const listedBreaches = 10

func (a *app) checkCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "check",
		Short: "Call the roll: run the invariants, open and resolve findings",
		Long: `Asks of every accepted report where it is, and runs the invariants over the whole
ledger. Broken ones become findings, with the ids concerned and what to do; findings
whose cause is gone are resolved. A report past its review time gets its unclassified
record, where its policy says so.

Exit code 3 means that an invariant is broken, 4 that an operator must decide.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			r := d.offline()
			bar := a.passProgress(r)
			report, err := r.RunCheck(cmd.Context())
			bar.done()
			if err != nil {
				return err
			}
			if a.json {
				if err := a.printJSON(report); err != nil {
					return err
				}
			} else {
				a.printRoll(report)
			}
			return checkOutcome(report)
		},
	})
}

// checkOutcome is the exit code of a check.
func checkOutcome(c reconcile.CheckReport) error {
	if n := c.Broken(); n > 0 {
		return &exitError{exitBroken, fmt.Errorf("invariants are broken, with %s", plural(int(n), "offender", "offenders"))}
	}
	if n := c.Decisions(); n > 0 {
		return &exitError{exitDecision, fmt.Errorf("%s for an operator's decision", plural(int(n), "thing waits", "things wait"))}
	}
	return nil
}

func (a *app) printRoll(c reconcile.CheckReport) {
	p := painter(colours(a.out))
	roll := c.Roll
	fmt.Fprintf(a.out, "%s at %s\n", p.bold("roll call"), when(c.At))
	t := newTable(a.out)
	t.row("  reports accepted", roll.Accepted)
	t.row("  with one authoritative record", roll.Authoritative)
	for _, label := range slices.Sorted(maps.Keys(roll.Classified)) {
		t.row("    classified "+label, roll.Classified[label])
	}
	for _, reason := range slices.Sorted(maps.Keys(roll.Unclassified)) {
		t.row("    unclassified, "+string(reason), roll.Unclassified[reason])
	}
	t.row("  in flight", roll.InFlight)
	t.row("  held, no approved policy", roll.Held)
	_ = t.flush()

	var broken int
	for _, i := range c.Invariants {
		if i.Total > 0 {
			broken++
			a.printBroken(p, i)
		}
	}
	fmt.Fprintf(a.out, "\n%d of %d invariants hold", len(c.Invariants)-broken, len(c.Invariants))
	fmt.Fprintf(a.out, "; findings opened %d, resolved %d\n", c.Opened, c.Resolved)
	if broken == 0 {
		fmt.Fprintln(a.out, p.good("nobody is missing, nobody is counted twice"))
	}
	if len(c.Events) > 0 {
		fmt.Fprintf(a.out, "\n%s to look at:\n", plural(len(c.Events), "event", "events"))
		_ = a.printFindings(c.Events)
	}
}

func (a *app) printBroken(p painter, i reconcile.CheckedInvariant) {
	fmt.Fprintf(a.out, "\n%s %s: %s\n", p.bad("broken"), i.Name, i.Means)
	for n, b := range i.Breaches {
		if n == listedBreaches {
			fmt.Fprintf(a.out, "  and %d more; --json lists them\n", i.Total-listedBreaches)
			break
		}
		fmt.Fprintf(a.out, "  %s  %s\n", printable(b.Subject), printable(b.Detail))
	}
	fmt.Fprintf(a.out, "  to do: %s\n", i.Remedy)
}

// brokenInvariants tells whether a finding of an invariant is open that no
// operator's decision mends.
func brokenInvariants(found []reconcile.Finding, invariants []reconcile.Invariant) error {
	decision := map[string]bool{}
	for _, i := range invariants {
		decision[i.Name] = i.Decision
	}
	for _, f := range found {
		if f.Kind == "invariant" && !decision[f.Name] {
			return &exitError{exitBroken, errors.New("an invariant is broken; `rollcall check` names it")}
		}
	}
	return nil
}
