package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/configs"
	"rollcall/reconcile"
)

func (a *app) policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "policy", Short: "Where texts may go: policies and their approval", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.policyListCommand(), a.policyApproveCommand())
	return c
}

// policyView is one policy version, in the files, in the ledger, or in both.
type policyView struct {
	Policy    string   `json:"policy"`
	Version   int64    `json:"version"`
	State     string   `json:"state"` // new, draft, approved, revoked, or changed
	Processor string   `json:"processor"`
	Account   string   `json:"account"`
	Host      string   `json:"host"`
	Region    string   `json:"region"`
	Model     string   `json:"model"`
	Unknown   []string `json:"unknown"` // answers that nobody has given
}

func (a *app) policyListCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "list",
		Short: "Every policy version, in the files and in the ledger",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			files, err := configs.LoadPolicies(d.config.Policies, d.config.Classifiers)
			if err != nil {
				return &exitError{exitUsage, err}
			}
			stored, err := d.store.Policies(cmd.Context())
			if err != nil {
				return err
			}
			views, err := d.policyViews(files, stored)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(views)
			}
			t := newTable(a.out, "policy", "version", "state", "processor", "account", "host", "region", "model", "unknown")
			for _, v := range views {
				t.row(v.Policy, v.Version, v.State, v.Processor, v.Account, v.Host, v.Region, v.Model, strings.Join(v.Unknown, " "))
			}
			return t.flush()
		},
	})
}

// policyViews joins the files with the ledger. A file whose text differs from
// the version in the ledger is "changed": it needs a new version number.
func (d *deployment) policyViews(files []reconcile.Policy, stored []reconcile.PolicyVersion) ([]policyView, error) {
	var out []policyView
	view := func(p reconcile.Policy, state string) {
		out = append(out, policyView{p.ID, p.Version, state, p.Boundary.Processor, p.Boundary.Account, p.Boundary.Host, p.Boundary.Region, p.Classifier.Model, p.Pending()})
	}
	for _, s := range stored {
		view(s.Policy, string(s.State))
	}
	for _, f := range files {
		v, err := reconcile.NewPolicyVersion(f, d.keys)
		if err != nil {
			return nil, &exitError{exitUsage, err}
		}
		i := slices.IndexFunc(stored, func(s reconcile.PolicyVersion) bool { return s.Key() == v.Key() })
		switch {
		case i < 0:
			view(f, "new")
		case stored[i].SpecMAC != v.SpecMAC:
			view(f, "changed")
		}
	}
	slices.SortStableFunc(out, func(a, b policyView) int {
		if c := strings.Compare(a.Policy, b.Policy); c != 0 {
			return c
		}
		return int(a.Version - b.Version)
	})
	return out, nil
}

func (a *app) policyApproveCommand() *cobra.Command {
	var by, reason, evidence string
	c := &cobra.Command{
		Use:   "approve NAME",
		Short: "Let texts be sent under the policy in its file",
		Long: `Stores the policy's text, with its classifier, in the ledger and lets works be sent
under it. A policy with an unknown answer is refused. A changed file needs a new
version number. Works that are bound to an older version keep it.`,
		Args: oneText,
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usageError("--reason is missing: say why texts may go there")
			}
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			p, err := d.policyFile(args[0])
			if err != nil {
				return &exitError{exitUsage, err}
			}
			if open := p.Pending(); len(open) > 0 {
				return &exitError{exitDecision, fmt.Errorf("policy %s/%d cannot be approved: unknown is %s", p.ID, p.Version, strings.Join(open, ", "))}
			}
			v, err := reconcile.NewPolicyVersion(p, d.keys)
			if err != nil {
				return &exitError{exitUsage, err}
			}
			now, err := d.store.Now(cmd.Context())
			if err != nil {
				return err
			}
			if err := d.store.ApprovePolicy(cmd.Context(), now, v, by, reason, evidence); err != nil {
				return err
			}
			b := p.Boundary
			fmt.Fprintf(a.out, "policy %s/%d is approved: texts may go to %s, account %s, host %s, region %s, model %s\n",
				p.ID, p.Version, b.Processor, b.Account, b.Host, b.Region, p.Classifier.Model)
			return nil
		},
	}
	actorFlags(c, &by, &reason)
	textVar(c, &evidence, "evidence", "", "reference to the contract or assessment that the approval rests on")
	return c
}

// policyFile is the newest version of a policy in the files, checked against
// the accounts.
func (d *deployment) policyFile(name string) (reconcile.Policy, error) {
	files, err := configs.LoadPolicies(d.config.Policies, d.config.Classifiers)
	if err != nil {
		return reconcile.Policy{}, err
	}
	var newest *reconcile.Policy
	for i, f := range files {
		if f.ID == name && (newest == nil || f.Version > newest.Version) {
			newest = &files[i]
		}
	}
	if newest == nil {
		return reconcile.Policy{}, fmt.Errorf("no file in %s holds policy %q", d.config.Policies, name)
	}
	return *newest, errors.Join(d.config.CheckPolicy(*newest))
}
