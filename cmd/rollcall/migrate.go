package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) migrateCommand() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database schema up to date",
		Long: `Runs the migrations that the database lacks, under a lock. A SQLite file is brought up
to date by every command; PostgreSQL waits for this one. Use a direct address, not that
of a pooler in transaction mode: the lock belongs to one server connection.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			cfg, err := a.loadConfig()
			if err != nil {
				return err
			}
			store, err := a.openStore(ctx, cfg)
			if err != nil {
				return err
			}
			defer func() { _ = store.Close() }()
			if !check {
				n, err := store.Migrate(ctx)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.out, "%s: %s run\n", store.Name(), plural(n, "migration", "migrations"))
			}
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
