package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"rollcall/batch/sandbox"
)

const (
	// sandboxHeaders bounds how long a client may take to send its headers.
	sandboxHeaders = 10 * time.Second
	// sandboxStop bounds how long requests may go on after Ctrl-C.
	sandboxStop = 5 * time.Second
)

func (a *app) sandboxCommand() *cobra.Command {
	var listen, dir string
	var speed float64
	var faults []string
	c := &cobra.Command{
		Use:   "sandbox",
		Short: "A local stand-in for the provider, with faults on request",
		Long: `Serves OpenAI's Files and Batches API on this machine, for drills and trials. It is
not a model: a short list of words stands in for one, and every answer says so. Its
state is on disk and survives a restart. Time in it can run faster.

What it accepted:    GET  http://ADDRESS/_sandbox/books
Faults that are set: GET  http://ADDRESS/_sandbox/faults
Set others instead:  POST http://ADDRESS/_sandbox/faults
                     {"faults": ["refusal:every=3,times=4", {"name": "delay", "params": {"by": "1s"}}]}
                     {"faults": []} ends them

Faults for --fault NAME[:key=value,…], which may be given several times:
` + sandbox.FaultHelp(),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := a.logger("info")
			if err != nil {
				return err
			}
			opts := sandbox.Options{Dir: dir, Speed: speed, Log: log}
			for _, f := range faults {
				fault, err := sandbox.ParseFault(f)
				if err != nil {
					return usageError("--fault: %w", err)
				}
				opts.Faults = append(opts.Faults, fault)
			}
			s, err := startSandbox(listen, opts)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "sandbox of the provider, not a model: http://%s/v1 (any API key)\nstate in %s, time runs %g times as fast; Ctrl-C stops it\n", s.address, dir, speed)
			return s.wait(cmd.Context())
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8089", "address; keep it on a loopback address, since it asks for no password")
	c.Flags().StringVar(&dir, "dir", filepath.Join(os.TempDir(), "rollcall-sandbox"), "where its state is kept")
	c.Flags().Float64Var(&speed, "speed", 1, "how many times faster its time runs")
	c.Flags().StringArrayVar(&faults, "fault", nil, "misbehave, as listed above")
	return c
}

// runningSandbox is a sandbox that serves.
type runningSandbox struct {
	*sandbox.Server
	address string
	server  *http.Server
	served  chan error
}

// startSandbox serves a sandbox until stop or wait.
func startSandbox(listen string, opts sandbox.Options) (*runningSandbox, error) {
	if err := loopbackOnly(listen); err != nil {
		return nil, err
	}
	box, err := sandbox.New(opts)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: %w", err), box.Close())
	}
	s := &runningSandbox{Server: box, address: l.Addr().String(), served: make(chan error, 1)}
	s.server = &http.Server{Handler: box, ReadHeaderTimeout: sandboxHeaders, ErrorLog: nil}
	go func() { s.served <- s.server.Serve(l) }()
	return s, nil
}

// loopbackOnly keeps texts of a drill from being asked for by other machines.
func loopbackOnly(listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return usageError("--listen %q is not host:port", listen)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usageError("--listen %q is not a loopback address; the sandbox asks for no password, so it serves this machine only", listen)
	}
	return nil
}

// wait serves until ctx is done.
func (s *runningSandbox) wait(ctx context.Context) error {
	select {
	case err := <-s.served:
		return errors.Join(fmt.Errorf("sandbox: %w", err), s.Close())
	case <-ctx.Done():
		return s.stop()
	}
}

func (s *runningSandbox) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxStop)
	defer cancel()
	return errors.Join(s.server.Shutdown(ctx), s.Close())
}

// quiet is a logger for a sandbox inside another command.
var quiet = zerolog.Nop()
