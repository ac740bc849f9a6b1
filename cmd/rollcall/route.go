package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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
			var ids []givenID
			for _, arg := range args {
				ids = append(ids, given(arg))
			}
			if stdin {
				var err error
				if ids, err = readIDs(a.in); err != nil {
					return err
				}
			}
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			return a.route(cmd.Context(), d, ids, by, reason)
		},
	}
	actorFlags(c, &by, &reason)
	c.Flags().BoolVar(&stdin, "stdin", false, "read the ids from standard input, one a line")
	return c
}

// route gives reports to a person and prints a line for each id, in their order.
func (a *app) route(ctx context.Context, d *deployment, ids []givenID, by, reason string) error {
	var good []string
	for _, id := range ids {
		if id.fault == "" {
			good = append(good, id.id)
		}
	}
	refused, next := 0, 0
	faults := func() { // those before the next id that is looked for
		for ; next < len(ids) && ids[next].fault != ""; next++ {
			refused++
			fmt.Fprintf(a.out, "%s: not routed: %s\n", visible(ids[next].id), ids[next].where+ids[next].fault)
		}
	}
	err := d.offline().Route(ctx, good, by, reason, func(r reconcile.RouteAnswer) {
		faults()
		next++
		if !r.Given {
			refused++
		}
		a.printRouted(r)
	})
	if err != nil {
		return err
	}
	faults()
	if refused > 0 {
		return fmt.Errorf("%d of %s not routed", refused, plural(len(ids), "id was", "ids were"))
	}
	return nil
}

// givenID is an id as it was given.
type givenID struct {
	id    string
	fault string // why it can be none; "" when it may be one
	where string // what the fault is said of
}

func given(id string) givenID {
	if !isText(id) {
		return givenID{id, noText, "it "}
	}
	return givenID{id: id}
}

// idBytes bounds a line of ids. No id is that long.
const idBytes = 64 << 10

// readIDs reads one id a line, without the space around it. A line that is none
// does not keep the others from being read.
func readIDs(in io.Reader) ([]givenID, error) {
	var ids []givenID
	lines := bufio.NewReaderSize(in, idBytes)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		long := false
		for errors.Is(err, bufio.ErrBufferFull) {
			long = true
			line, err = lines.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read ids from standard input: %w", err)
		}
		switch id := given(strings.TrimSpace(string(line))); {
		case long:
			ids = append(ids, givenID{fmt.Sprintf("line %d", n), fmt.Sprintf("is longer than %d KiB", idBytes>>10), "it "})
		case id.fault != "":
			id.where = fmt.Sprintf("line %d ", n)
			ids = append(ids, id)
		case id.id != "":
			ids = append(ids, id)
		}
		if err != nil {
			return ids, nil
		}
	}
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
