package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"rollcall/configs"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
	"rollcall/sql"
)

func (a *app) doctorCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "doctor",
		Short: "Examine the whole deployment, and say what to do about what is wrong",
		Long: `Looks at everything that rollcall depends on and changes nothing: the configuration and
its secrets, the database and how it keeps what it acknowledged, the ledger and what
waits in it, the witness, and every account, of which one page of jobs is read.

Each line says ok, warn, bad or unknown, what was found, and what to do. unknown means
that the check could not run.

Exit code 2 means that the configuration is wrong, 4 that something is bad and an
operator must decide, 1 that a check could not run. Warnings alone are 0.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			x := &examination{}
			x.run(cmd.Context(), a)
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if a.json {
				if err := a.printJSON(struct {
					Checks []diagnosis `json:"checks"`
				}{x.found}); err != nil {
					return err
				}
			} else if err := a.printDiagnoses(x.found); err != nil {
				return err
			}
			return verdictOf(x.found)
		},
	})
}

// health is what a check came to.
type health string

const (
	healthOK      health = "ok"
	healthWarn    health = "warn"
	healthBad     health = "bad"
	healthUnknown health = "unknown" // the check could not run
)

// diagnosis is one line of doctor.
type diagnosis struct {
	Check  string `json:"check"`
	State  health `json:"state"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`

	configuration bool // it is bad, and what is wrong was written by the operator
}

// examination looks at a deployment. What a later check needs is nil where an
// earlier one could not get it.
type examination struct {
	found    []diagnosis
	config   *configs.Config
	policies []reconcile.Policy
	keys     *keyring.Ring
	store    *sql.Store // open, and of a schema that can be read
	now      time.Time  // by the ledger

	only []string // the accounts that are looked at; none for all
	try  bool     // a made-up text is asked about, which costs a little
}

func (x *examination) note(check string, state health, remedy, format string, args ...any) {
	x.found = append(x.found, diagnosis{Check: check, State: state, Found: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (x *examination) ok(check, format string, args ...any) {
	x.note(check, healthOK, "", format, args...)
}

func (x *examination) warn(check, remedy, format string, args ...any) {
	x.note(check, healthWarn, remedy, format, args...)
}

func (x *examination) bad(check, remedy, format string, args ...any) {
	x.note(check, healthBad, remedy, format, args...)
}

// unknown notes that a check could not run.
func (x *examination) unknown(check string, err error) {
	x.note(check, healthUnknown, "see what keeps the check from running; then run: rollcall doctor", "%s", oneLine(err))
}

// wrong notes what is bad about what the operator wrote.
func (x *examination) wrong(check, remedy string, err error) {
	x.note(check, healthBad, remedy, "%s", oneLine(err))
	x.found[len(x.found)-1].configuration = true
}

func (x *examination) run(ctx context.Context, a *app) {
	if !x.configuration(a) {
		return
	}
	x.warnings()
	if x.open(ctx, a) {
		for _, check := range []func(context.Context){x.database, x.witnessed, x.leases, x.schedules, x.decisions, x.jobs, x.approvals} {
			check(ctx)
		}
	}
	if x.store != nil {
		defer func() { _ = x.store.Close() }() // nothing was written
	}
	x.accounts(ctx)
}

// verdictOf chooses the exit code.
func verdictOf(found []diagnosis) error {
	count := func(is func(diagnosis) bool) int {
		return len(slices.DeleteFunc(slices.Clone(found), func(d diagnosis) bool { return !is(d) }))
	}
	wrong := count(func(d diagnosis) bool { return d.configuration })
	bad := count(func(d diagnosis) bool { return d.State == healthBad })
	unknown := count(func(d diagnosis) bool { return d.State == healthUnknown })
	switch {
	case wrong > 0:
		return usageError("the configuration is wrong: %s", plural(wrong, "check says so", "checks say so"))
	case bad > 0:
		return &exitError{exitDecision, fmt.Errorf("%s for an operator's decision", plural(bad, "check waits", "checks wait"))}
	case unknown > 0:
		return &exitError{exitFailed, fmt.Errorf("%s not run", plural(unknown, "check could", "checks could"))}
	}
	return nil
}

func (a *app) printDiagnoses(found []diagnosis) error {
	t := newTable(a.out, "check", "state", "found", "what to do")
	for _, d := range found {
		t.row(d.Check, d.State, d.Found, d.Remedy)
	}
	return t.flush()
}
