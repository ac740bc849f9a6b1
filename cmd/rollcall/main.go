// Command rollcall reconciles bulk text classification: it takes reports in,
// sends them to an approved processor in batch jobs, and calls the roll until
// every report has exactly one authoritative record.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"rollcall/reconcile"
	"rollcall/sql"
)

// Exit codes, a contract for scripts.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitBroken      = 3
	exitDecision    = 4
	exitInterrupted = 130
)

const exitCodesHelp = `
Exit codes:
  0  done
  1  failed
  2  wrong usage or configuration
  3  an invariant is broken
  4  an operator must decide
  130  interrupted`

// exitError is an error that chooses the exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageError is the user's mistake: in an argument, or in the configuration.
func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func main() {
	ctx, stop := untilSignal(context.Background())
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// untilSignal is a context that ends with the first signal to stop. The second
// signal ends the process at once: the ledger is safe at any instant. Both are
// received here to the end, because the runtime's own way to die of a signal
// faults when more of them arrive meanwhile.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
		<-signals
		fmt.Fprintln(os.Stderr, "rollcall: interrupted again, so it ends at once; everything that was committed stands")
		os.Exit(exitInterrupted)
	}()
	return ctx, stop
}

// run is main without the process: tests call it with buffers.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	a := &app{in: in, out: out, errOut: errOut}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(errOut, "rollcall: interrupted; everything that was committed stands, and the next run goes on from there")
		return exitInterrupted
	}
	if msg := err.Error(); msg != "" {
		fmt.Fprintln(errOut, "rollcall: "+msg)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var e *exitError
	switch {
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, sql.ErrSchemaBehind), errors.Is(err, sql.ErrSchemaAhead), errors.Is(err, sql.ErrOtherKeyring),
		errors.Is(err, sql.ErrNoLedger), errors.Is(err, sql.ErrPooler), errors.Is(err, sql.ErrOldServer),
		errors.Is(err, sql.ErrNetworkFileSystem), errors.Is(err, sql.ErrServing), errors.Is(err, reconcile.ErrRefused):
		return exitUsage
	case errors.Is(err, reconcile.ErrPaused), errors.Is(err, reconcile.ErrRewound):
		return exitDecision
	}
	return exitFailed
}
