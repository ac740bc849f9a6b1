package main

import (
	"errors"
	"io"
	"os"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// app is what all commands share: the streams and the global flags.
type app struct {
	in     io.Reader
	out    io.Writer
	errOut io.Writer

	configPath string
	logLevel   string
	json       bool
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "rollcall",
		Short: "Bulk classification of reports that is safe to retry",
		Long: `rollcall takes reports in, sends them to an approved processor in batch jobs,
reads the results once, and calls the roll: every accepted report has exactly one
authoritative record, and whatever is missing or double is flagged.

New here?  rollcall demo            the whole job on synthetic reports, on this machine
           rollcall init            start a deployment in this folder
           rollcall explain ID      where one report is, and what happens next
` + exitCodesHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		// Without this a mistyped command would print the help and exit 0.
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVarP(&a.configPath, "config", "c", "rollcall.yaml", "configuration file")
	root.PersistentFlags().StringVar(&a.logLevel, "log-level", "", "trace, debug, info, warn or error; overrides the configuration")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError("%w; see --help", err) })
	root.AddGroup(
		&cobra.Group{ID: "start", Title: "Start:"},
		&cobra.Group{ID: "work", Title: "Work:"},
		&cobra.Group{ID: "look", Title: "Look:"},
		&cobra.Group{ID: "steer", Title: "Steer:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("start", a.demoCommand(), a.initCommand(), a.migrateCommand(), a.configCommand(), a.sandboxCommand())
	add("work", a.intakeCommand(), a.serveCommand(), a.runCommand(), a.checkCommand())
	add("look", a.statusCommand(), a.explainCommand(), a.jobsCommand(), a.jobCommand(), a.findingsCommand(), a.doctorCommand(), a.providerCommand())
	add("steer", a.policyCommand(), a.pauseCommand(), a.resumeCommand(), a.routeCommand(), a.recoverCommand())
	root.AddCommand(a.versionCommand())
	wrapUsage(root)
	return root
}

// wrapUsage makes every complaint about arguments a usage error.
func wrapUsage(c *cobra.Command) {
	if args := c.Args; args != nil {
		c.Args = func(cmd *cobra.Command, in []string) error {
			err := args(cmd, in)
			var e *exitError
			if err == nil || errors.As(err, &e) {
				return err
			}
			return usageError("%w; see %s --help", err, cmd.CommandPath())
		}
	}
	for _, sub := range c.Commands() {
		wrapUsage(sub)
	}
}

// jsonFlag gives a read command its --json.
func (a *app) jsonFlag(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&a.json, "json", false, "print JSON; its fields are a contract")
	return c
}

// logger writes to stderr: for people on a terminal, as JSON elsewhere.
func (a *app) logger(level string) (zerolog.Logger, error) {
	if a.logLevel != "" {
		level = a.logLevel
	}
	l, err := zerolog.ParseLevel(level)
	if err != nil {
		return zerolog.Logger{}, usageError("log level %q is none of trace, debug, info, warn, error", level)
	}
	w := a.errOut
	if isTerminal(w) {
		w = zerolog.ConsoleWriter{Out: a.errOut, NoColor: !colours(a.errOut), TimeFormat: "15:04:05"}
	}
	return zerolog.New(w).Level(l).With().Timestamp().Logger(), nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colours follows https://no-color.org and never colours a file or a pipe.
func colours(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}
