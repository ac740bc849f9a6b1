package main

import (
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// isText is true for what the ledger can hold and be asked for.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

const noText = "is no text: it holds a byte that is not UTF-8, or NUL"

// oneText takes one argument, which must be text.
func oneText(cmd *cobra.Command, args []string) error {
	if err := cobra.ExactArgs(1)(cmd, args); err != nil {
		return err
	}
	if !isText(args[0]) {
		_, name, _ := strings.Cut(cmd.Use, " ")
		return usageError("%s %q %s", name, args[0], noText)
	}
	return nil
}

// textFlag is a flag whose value must be text.
type textFlag struct{ value *string }

func textVar(c *cobra.Command, p *string, name, value, usage string) {
	*p = value
	c.Flags().Var(textFlag{p}, name, usage)
}

func (f textFlag) String() string {
	if f.value == nil {
		return ""
	}
	return *f.value
}

func (f textFlag) Type() string { return "string" }

func (f textFlag) Set(s string) error {
	if !isText(s) {
		return usageError("it %s", noText)
	}
	*f.value = s
	return nil
}
