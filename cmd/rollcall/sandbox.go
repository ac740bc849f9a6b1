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

	"rollcall/batch/infrai"
	"rollcall/batch/sandbox"
)

const (
	// sandboxHeaders bounds how long a client may take to send its headers.
	sandboxHeaders = 10 * time.Second
	// sandboxStop bounds how long requests may go on after Ctrl-C.
	sandboxStop = 5 * time.Second
)

func (a *app) sandboxCommand() *cobra.Command {
	var listen, dir, flavour, pin string
	var speed float64
	var faults []string
	c := &cobra.Command{
		Use:   "sandbox",
		Short: "A local stand-in for the providers, with faults on request",
		Long: `Serves the providers' APIs on this machine, for drills and trials. It is not a model: a
short list of words stands in for one, and every answer says so. Its state is on disk and
survives a restart. Time in it can run faster.

The base URLs of accounts, with any key and allow_loopback: true:
  openai                http://ADDRESS/v1           Files and Batches
  azure-openai          http://ADDRESS/openai/v1    with --flavour azure, in the place of openai
  anthropic             http://ADDRESS              Message Batches
  infrai                http://ADDRESS              jobs, with a pin: see --infrai-pin
  azure-content-safety  http://ADDRESS              also as login_url of Entra
  inhouse               http://ADDRESS/v1           chat completions
` + "`rollcall init --sandbox BASE_URL --provider PROVIDER`" + ` writes a deployment that calls it.

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
			opts := sandbox.Options{Dir: dir, Speed: speed, Log: log, Flavour: sandbox.Flavour(flavour)}
			if opts.Infrai, err = sandboxPin(pin); err != nil {
				return err
			}
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
			fmt.Fprintf(a.out, "sandbox of the providers, not a model: http://%s/v1 for openai, others as --help says (any API key)\nstate in %s, time runs %g times as fast; Ctrl-C stops it\n", s.address, dir, speed)
			return s.wait(cmd.Context())
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8089", "address; keep it on a loopback address, since it asks for no password")
	c.Flags().StringVar(&dir, "dir", filepath.Join(os.TempDir(), "rollcall-sandbox"), "where its state is kept")
	c.Flags().Float64Var(&speed, "speed", 1, "how many times faster its time runs")
	c.Flags().StringArrayVar(&faults, "fault", nil, "misbehave, as listed above")
	c.Flags().StringVar(&flavour, "flavour", "", "whose copy of OpenAI's API: azure for Azure OpenAI; nothing for OpenAI's own")
	c.Flags().StringVar(&pin, "infrai-pin", pinAssumed, "what Infrai's API is served by: a pin file; "+pinAssumed+" for the one that init --provider infrai writes; "+pinNone+" for what its public documents say")
	return c
}

// The words of --infrai-pin that are no file.
const (
	pinAssumed = "assumed"
	pinNone    = "none"
)

// sandboxPin is the pin that a word or a file stands for.
func sandboxPin(word string) (*infrai.Pin, error) {
	switch word {
	case pinNone:
		return nil, nil
	case pinAssumed:
		pin, err := infrai.ParsePin(sandbox.AssumedPin)
		return &pin, err
	}
	pin, err := readPin(word)
	if err != nil {
		return nil, usageError("--infrai-pin: %w", err)
	}
	return pin, nil
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
