package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/reconcile"
)

func (a *app) routeCommand() *cobra.Command {
	var by, reason string
	var stdin bool
	c := &cobra.Command{
		Use:   "route ID…",
		Short: "Give reports to a person by hand, without a classification",
		Long: `Gives the current revision of each report to a person: it gets an unclassified record
with reason "routed", at once, whether it is held for want of an approved policy, waits
to be sent, or is at the provider. What was not sent is not sent any more; an answer
that still comes is kept and not applied. A later edit of the report is classified as
ever, and its record then replaces this one.

ID is what explain takes: the report's id at its source, its report id, or a work id.
A report with a record, or with an outcome that apply is about to record, is left as it
is. While apply is paused the record is made once apply is resumed.

Each id gets a line. Exit code 1 means that some were not routed; the others were.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usageError("--reason is missing: it is what the audit tells about it")
			}
			if stdin == (len(args) > 0) {
				return usageError("name reports by their ids, or with --stdin one a line, and not both")
			}
			ids := args
			if stdin {
				var err error
				if ids, err = a.readIDs(); err != nil {
					return err
				}
			}
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			refused := 0
			err = d.offline().Route(cmd.Context(), ids, by, reason, func(r reconcile.RouteAnswer) {
				if !r.Given {
					refused++
				}
				a.printRouted(r)
			})
			if err == nil && refused > 0 {
				err = fmt.Errorf("%d of %s not routed", refused, plural(len(ids), "id was", "ids were"))
			}
			return err
		},
	}
	actorFlags(c, &by, &reason)
	c.Flags().BoolVar(&stdin, "stdin", false, "read the ids from standard input, one a line")
	return c
}

// readIDs reads one id a line, without the space around it.
func (a *app) readIDs() ([]string, error) {
	var ids []string
	lines := bufio.NewScanner(a.in)
	for lines.Scan() {
		if id := strings.TrimSpace(lines.Text()); id != "" {
			ids = append(ids, id)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read ids from standard input: %w", err)
	}
	return ids, nil
}

func (a *app) printRouted(r reconcile.RouteAnswer) {
	fmt.Fprint(a.out, printable(r.ID))
	if r.ReportID != "" {
		fmt.Fprintf(a.out, " (report %s, revision %d)", r.ReportID, r.Revision)
	}
	if !r.Given {
		fmt.Fprint(a.out, ": not routed")
	}
	fmt.Fprintf(a.out, ": %s\n", printable(r.Says))
}
