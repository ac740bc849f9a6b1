package main

import (
	"fmt"
	"rollcall/sql"

	"github.com/spf13/cobra"
)

func (a *app) migrateCommand() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Make the ledger, or bring its schema up to date",
		Long: `Runs the migrations that the database lacks, under a lock, and makes the ledger in an
empty database. No other command makes one, so that a mislaid database is noticed.

A SQLite file is brought up to date by every command; PostgreSQL waits for this one. Use
a direct address, not that of a pooler in transaction mode: the lock belongs to one
server connection.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			cfg, err := a.loadConfig()
			if err != nil {
				return err
			}
			if !check {
				name, n, err := a.createLedger(ctx, cfg)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.out, "%s: %s run, the schema is up to date\n", name, plural(n, "migration", "migrations"))
				return nil
			}
			store, err := a.openStore(ctx, cfg, sql.Options{})
			if err != nil {
				return err
			}
			defer func() { _ = store.Close() }()
			if err := store.CheckSchema(ctx); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "%s: the schema is up to date\n", store.Name())
			return nil
		},
	}
	c.Flags().BoolVar(&check, "check", false, "only say whether the schema is up to date; exit 2 if not")
	return c
}
