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
	var sandboxURL string
	c := &cobra.Command{
		Use:   "init [FOLDER]",
		Short: "Start a deployment: configuration, keyring, an example policy",
		Long: `Writes a commented configuration, a new keyring, and an example policy with its
classifier into a folder, and overwrites nothing. Nothing is sent anywhere before a
policy is approved.

With --sandbox it is ready for a sandbox on this machine (see rollcall sandbox).`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			files, err := scaffold(dir, configs.ScaffoldOptions{SandboxURL: sandboxURL})
			if err != nil {
				return &exitError{exitUsage, err}
			}
			for _, f := range files {
				fmt.Fprintln(a.out, filepath.Join(dir, f))
			}
			at := filepath.Join(dir, configs.FileName)
			if sandboxURL == "" {
				fmt.Fprintf(a.out, "\nFirst: read %s, put the account's API key into the file that it names (mode 0600),\nand answer what is unknown in the policy.\n", at)
			}
			fmt.Fprintf(a.out, `
Keep a copy of the keyring apart from the database: without it no stored text can be read.
Next:
  rollcall -c %[1]s config check
  rollcall -c %[1]s policy list
  rollcall -c %[1]s policy approve NAME --reason …
  rollcall -c %[1]s intake FILE
  rollcall -c %[1]s run --until-idle
`, at)
			return nil
		},
	}
	c.Flags().StringVar(&sandboxURL, "sandbox", "", "base URL of a sandbox on this machine, such as http://127.0.0.1:8089/v1")
	return c
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
