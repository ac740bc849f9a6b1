package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/configs"
	"rollcall/reconcile"
	"rollcall/reconcile/source"
)

// listedRefusals are how many refused lines are printed for people before the
// rest is only counted.
const listedRefusals = 100

func (a *app) intakeCommand() *cobra.Command {
	var format string
	var take, fix []string
	c := a.jsonFlag(&cobra.Command{
		Use:   "intake FILE…",
		Short: "Take reports in from JSONL or CSV files, or from standard input (-)",
		Long: `Reads reports and accepts them into the ledger. The same delivery again changes
nothing, so a file that was interrupted is simply read again. A line that is no report
is told by number and reason; the rest goes on.

Parts of a report: tenant, system (the source system), id (its id there), revision (a
number or an RFC 3339 time; missing means 1), text, urgent, media ("audio" and the
like, where there is no text). Each comes from the field that the configuration names,
or as these flags say:

  rollcall intake --field id=report_id --set system=forum reports.jsonl

Exit code 1 means that a line was refused, or that other content came under a known
revision.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			r := d.offline()
			in := a.newIntake(d, r)
			in.format, in.listRefused = source.Format(format), true
			if err := in.mapFields(take, fix); err != nil {
				return err
			}
			return in.readAll(cmd.Context(), args)
		},
	})
	c.Flags().StringVar(&format, "format", "", "jsonl or csv; by default by the file's name, and jsonl for standard input")
	c.Flags().StringArrayVar(&take, "field", nil, "PART=FIELD: take a part from this field of the input")
	c.Flags().StringArrayVar(&fix, "set", nil, "PART=VALUE: the part has this value in every report")
	return c
}

// intake reads files into the ledger of a deployment.
type intake struct {
	*app
	deployment  *deployment
	reconciler  *reconcile.Reconciler
	mapping     source.Mapping
	format      source.Format
	listRefused bool
	listed      int
}

func (a *app) newIntake(d *deployment, r *reconcile.Reconciler) *intake {
	return &intake{app: a, deployment: d, reconciler: r, mapping: configuredMapping(d.config.Intake.Fields)}
}

func configuredMapping(f configs.Fields) source.Mapping {
	return source.Mapping{
		Tenant: source.Field{Name: f.Tenant}, System: source.Field{Name: f.System}, ID: source.Field{Name: f.ID},
		Revision: source.Field{Name: f.Revision}, Text: source.Field{Name: f.Text}, Urgent: source.Field{Name: f.Urgent},
		Media: source.Field{Name: f.Media},
	}
}

func (in *intake) mapFields(take, fix []string) error {
	for _, s := range take {
		if err := in.mapping.Take(s); err != nil {
			return usageError("--field %q %w", s, err)
		}
	}
	for _, s := range fix {
		if err := in.mapping.Fix(s); err != nil {
			return usageError("--set %q %w", s, err)
		}
	}
	switch in.format {
	case "", source.JSONL, source.CSV:
		return nil
	}
	return usageError("--format %q is neither jsonl nor csv", in.format)
}

// fileTally is what became of one file.
type fileTally struct {
	File string `json:"file"`
	reconcile.IntakeTally
}

func (in *intake) readAll(ctx context.Context, names []string) error {
	var tallies []fileTally
	var errs []error
	var refused int64
	for _, name := range names {
		tally, err := in.readFile(ctx, name)
		if err == nil || tally.Lines > 0 {
			tallies = append(tallies, fileTally{name, tally})
		}
		refused += tally.Refused + tally.Conflict
		if !in.json && (err == nil || tally.Lines > 0) {
			fmt.Fprintf(in.out, "%s: %s\n", printable(name), tallyLine(tally))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		errs = append(errs, err)
	}
	if in.json {
		errs = append(errs, in.printJSON(tallies))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if refused > 0 {
		return fmt.Errorf("%s not taken in; the rest is", plural(int(refused), "line was", "lines were"))
	}
	return nil
}

func (in *intake) readFile(ctx context.Context, name string) (reconcile.IntakeTally, error) {
	if name == "-" {
		return in.read(ctx, "standard input", in.in)
	}
	f, err := os.Open(name)
	if err != nil {
		return reconcile.IntakeTally{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return in.read(ctx, name, f)
}

// read takes one stream in.
func (in *intake) read(ctx context.Context, name string, stream io.Reader) (reconcile.IntakeTally, error) {
	format := in.format
	if format == "" {
		format = source.JSONL
		if strings.EqualFold(filepath.Ext(name), ".csv") {
			format = source.CSV
		}
	}
	limits := source.Limits{LineBytes: int(in.deployment.config.Intake.MaxLine)}
	reader, err := source.NewReader(stream, format, in.mapping, limits)
	if err != nil {
		return reconcile.IntakeTally{}, &exitError{exitUsage, fmt.Errorf("%s: %w", printable(name), err)}
	}
	bar := in.passProgress(in.reconciler)
	in.listed = 0
	tally, err := in.reconciler.Intake(ctx, reader, in.rules, func(o reconcile.Outcome) { in.tell(name, o) })
	bar.done()
	if in.listed > listedRefusals {
		fmt.Fprintf(in.errOut, "%s: and %d more\n", printable(name), in.listed-listedRefusals)
	}
	if err != nil {
		return tally, fmt.Errorf("%s: %w", printable(name), err)
	}
	return tally, nil
}

// rules are what is agreed with a source.
func (in *intake) rules(tenant, system string) (reconcile.SourceRules, bool) {
	s, ok := in.deployment.config.SourceFor(tenant, system)
	return reconcile.SourceRules{Revision: s.SameRevision, Identity: reconcile.IdentityRule(s.Identity), DigestOf: s.DigestOf}, ok
}

// tell says what was not taken in, and why.
func (in *intake) tell(name string, o reconcile.Outcome) {
	var why string
	switch {
	case o.Refused != nil:
		why = o.Refused.Error()
	case o.Receipt.Verdict == reconcile.Conflict:
		why = fmt.Sprintf("line %d: other content under revision %d of report %s; refused, see rollcall findings", o.Receipt.Line, o.Receipt.Revision, o.Receipt.ReportID)
	default:
		return
	}
	if in.listed++; in.listRefused && in.listed <= listedRefusals {
		fmt.Fprintf(in.errOut, "%s: %s\n", printable(name), why)
	}
}

// tallyLine says in one line what became of a stream.
func tallyLine(t reconcile.IntakeTally) string {
	s := fmt.Sprintf("%d lines: %d accepted, %d revised, %d unchanged", t.Lines, t.Accepted, t.Revised, t.Unchanged)
	for _, c := range []struct {
		n    int64
		what string
	}{{t.Late, "late revisions kept as history"}, {t.Conflict, "conflicts refused"}, {t.Refused, "bad lines refused"},
		{t.Blank, "blank"}, {t.Cleaned, "cleaned"}, {t.Held, "held for want of an approved policy"}} {
		if c.n > 0 {
			s += fmt.Sprintf(", %d %s", c.n, c.what)
		}
	}
	return s
}
