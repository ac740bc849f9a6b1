package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"rollcall/configs"
	"rollcall/reconcile/keyring"
)

func (a *app) initCommand() *cobra.Command {
	var sandboxURL, provider string
	c := &cobra.Command{
		Use:   "init [FOLDER]",
		Short: "Start a deployment: configuration, keyring, an example policy",
		Long: `Writes a commented configuration, a new keyring, and an example policy with its
classifier into a folder, and overwrites nothing. Nothing is sent anywhere before a
policy is approved.

With --sandbox it is ready for a sandbox on this machine (see rollcall sandbox), which is
called as --provider says.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			opts := configs.ScaffoldOptions{}
			if sandboxURL != "" {
				as, err := sandboxedAs(provider)
				if err != nil {
					return err
				}
				opts = as.scaffold(sandboxURL)
			} else if cmd.Flags().Changed("provider") {
				return usageError("--provider goes with --sandbox; for a real account, rollcall.yaml shows each provider")
			}
			files, err := scaffold(dir, opts)
			if err != nil {
				return &exitError{exitUsage, err}
			}
			a.configPath = filepath.Join(dir, configs.FileName)
			cfg, err := a.loadConfig()
			if err != nil {
				return err
			}
			ledger, _, err := a.createLedger(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			for _, f := range files {
				fmt.Fprintln(a.out, filepath.Join(dir, f))
			}
			fmt.Fprintln(a.out, ledger)
			return a.printNext(cfg, sandboxURL == "")
		},
	}
	c.Flags().StringVar(&sandboxURL, "sandbox", "", "base URL of a sandbox on this machine, such as http://127.0.0.1:8089/v1; rollcall sandbox --help lists those of each provider")
	c.Flags().StringVar(&provider, "provider", "openai", "with --sandbox, whose API: "+sandboxedWords())
	return c
}

// printNext says how a new deployment is brought to work.
func (a *app) printNext(cfg *configs.Config, answersOpen bool) error {
	policies, err := configs.LoadPolicies(cfg.Policies, cfg.Classifiers)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	fmt.Fprintln(a.out, "\nKeep a copy of the keyring apart from the database: without it no stored text can be read.")
	if answersOpen {
		fmt.Fprintf(a.out, "First read %s, put the account's API key into the file that it names (mode 0600),\nand answer what is unknown in the policy.\n", a.configPath)
	}
	fmt.Fprintln(a.out, "\nNext:")
	me := "rollcall -c " + shellWord(a.configPath)
	fmt.Fprintf(a.out, "  %s config check\n", me)
	for _, p := range policies {
		fmt.Fprintf(a.out, "  %s policy approve %s --reason \"who agreed to what\"\n", me, p.ID)
	}
	fmt.Fprintf(a.out, "  %s intake FILE\n  %s run --until-idle\n", me, me)
	return nil
}

// scaffold writes the example and a new keyring, and returns the files' names
// inside dir.
func scaffold(dir string, opts configs.ScaffoldOptions) ([]string, error) {
	const keyringFile = "rollcall.keyring"
	path := filepath.Join(dir, keyringFile)
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("%s exists; a second keyring would give every known report a second identity; nothing was written", path)
	}
	files, err := configs.Scaffold(dir, opts)
	if err != nil {
		return nil, err
	}
	keys, err := keyring.Generate()
	if err != nil {
		return nil, err
	}
	if err := keys.Save(path); err != nil {
		return nil, err
	}
	return append(files, keyringFile), nil
}
