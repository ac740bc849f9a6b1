package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"rollcall/configs"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
)

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "The configuration", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "check",
		Short: "Read configuration, policies, classifiers and secrets, and say what is wrong",
		Long: `Reads everything that a deployment needs and tells every mistake with file, line and
field. Makes no connection. Secrets are read and never shown.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.loadConfig()
			if err != nil {
				return err
			}
			policies, err := checkConfig(cfg)
			if err != nil {
				return &exitError{exitUsage, err}
			}
			for _, w := range cfg.Warnings(policies) {
				fmt.Fprintf(a.errOut, "warning: %s\n", w)
			}
			fmt.Fprintf(a.out, "%s: good; %s, %s, %s\n", a.configPath, plural(len(cfg.Accounts), "account", "accounts"),
				plural(len(cfg.Sources), "source", "sources"), plural(len(policies), "policy", "policies"))
			for _, p := range policies {
				if open := p.Pending(); len(open) > 0 {
					fmt.Fprintf(a.out, "policy %s/%d cannot be approved as its file stands: unknown is %s (`rollcall policy list` says what is approved)\n", p.ID, p.Version, strings.Join(open, ", "))
				}
			}
			return nil
		},
	})
	return c
}

// checkConfig reads everything that the configuration names.
func checkConfig(cfg *configs.Config) ([]reconcile.Policy, error) {
	policies, err := configs.LoadPolicies(cfg.Policies, cfg.Classifiers)
	secrets := cfg.CheckSecrets()
	errs := []error{err, secrets, cfg.CheckSchedules()}
	for _, p := range policies {
		errs = append(errs, cfg.CheckPolicy(p))
	}
	keys, err := keyring.Load(cfg.Keyring)
	errs = append(errs, err)
	if err == nil && secrets == nil {
		// What only a client knows of its provider, such as the hosts of its regions.
		_, err = (&deployment{config: cfg, keys: keys, log: zerolog.Nop()}).clients()
		errs = append(errs, err)
	}
	return policies, errors.Join(errs...)
}
