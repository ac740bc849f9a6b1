package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	_ "time/tzdata" // a schedule's zone must not depend on what is installed

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"rollcall/reconcile"
	"rollcall/sql"
)

const serveHelp = `Runs the passes at their schedules until it is told to stop. What is due is read from
the ledger, so a restart forgets nothing: runs that were missed while nothing ran are
made up for by one run. A run that was cut, or whose process died, is taken up again,
and one that failed is tried again after a growing wait, until the next one is due.

Several of them may run over one PostgreSQL: each instant of a schedule is run once.
Over a SQLite file there is one. ` + "`rollcall run`" + ` is safe beside it.

A schedule that is wrong in the configuration is refused by name, with a finding; the
others run.

Signals:
  SIGTERM, SIGINT  stop: what is under way ends between two steps, a request to create a
                   job is finished, and serve.stop_within bounds it all; a second one
                   ends the process at once, and the ledger is safe at any instant
  SIGHUP           read the configuration again; runs under way keep the old one. An
                   invalid file changes nothing. database, keyring, witness, lease and
                   serve.listen need a restart

HTTP, on serve.listen:
  GET /healthz     200 while the loop lives, however long a pass takes
  GET /readyz      200, or 503 with what is wrong, as JSON: the schema, whether the
                   database takes writes, schedules that are late or whose last runs
                   all failed, keys that cannot be read. Pauses, refused schedules and
                   runs that take long are shown and are no failure
  POST /hooks/provider/ACCOUNT
                   the provider's signed webhooks, for accounts with webhook.secrets: a
                   job that has ended is polled at the next run, and nothing else is
                   believed. It comes from outside, so put a proxy with TLS before it
                   that lets /hooks/ pass and nothing else

With systemd, as /etc/systemd/system/rollcall.service:
` + serveUnit + `
Exit codes:
  0  stopped in order
  1  failed, or something under way had to be cut
  2  wrong usage or configuration, or another one serves this SQLite file
  130  interrupted before it was ready, or a second time while it stopped`

const serveUnit = `
  [Unit]
  Description=rollcall
  After=network-online.target
  Wants=network-online.target

  [Service]
  Type=notify
  NotifyAccess=main
  User=rollcall
  WorkingDirectory=/etc/rollcall
  ExecStart=/usr/local/bin/rollcall serve --config /etc/rollcall/rollcall.yaml
  ExecReload=/bin/kill -HUP $MAINPID
  WatchdogSec=60
  TimeoutStopSec=35
  Restart=on-failure
  RestartPreventExitStatus=2

  [Install]
  WantedBy=multi-user.target
`

func (a *app) serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the passes at their schedules, until told to stop",
		Long:  serveHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hup := make(chan os.Signal, 1)
			signal.Notify(hup, syscall.SIGHUP)
			defer signal.Stop(hup)
			return a.serve(cmd.Context(), hup)
		},
	}
}

// serve runs the daemon until ctx ends.
func (a *app) serve(ctx context.Context, hup <-chan os.Signal) error {
	d, err := a.open(ctx)
	if err != nil {
		return err
	}
	release, err := d.store.LockExclusive()
	if errors.Is(err, sql.ErrServing) {
		err = &exitError{exitUsage, err}
	}
	if err != nil {
		d.close()
		return err
	}
	defer release()
	s := &server{app: a}
	s.beat.Store(int64(uptime()))
	g, err := s.generation(d, nil)
	if err == nil {
		err = s.start(ctx, g)
	}
	if err != nil {
		s.http.close()
		d.close()
		return err
	}
	if err := s.loop(ctx, hup); err != nil {
		return err // what is cut may still use the ledger, so it is left open
	}
	d.close()
	return nil
}

// server is a running daemon.
type server struct {
	app     *app
	current atomic.Pointer[generation]
	root    context.Context // of everything that is run
	cancel  context.CancelFunc
	cron    *cron.Cron
	entries []cron.EntryID // of the current generation; the loop's own
	// running are the runs that a heartbeat began. cron waits for its own.
	running  sync.WaitGroup
	http     probes
	stopping atomic.Bool
	beat     atomic.Int64                 // the uptime at the last heartbeat
	sent     atomic.Pointer[lastDispatch] // what the last run of submit did
	trouble  trouble
	writes   writeProbe
	hooks    hookDesk
}

func (s *server) log() *zerolog.Logger { return &s.current.Load().log }

// start brings everything up to where the schedules run.
func (s *server) start(ctx context.Context, g *generation) error {
	if err := s.verifyWitness(ctx, g); err != nil {
		return err
	}
	if err := s.arm(ctx, g); err != nil {
		return err
	}
	s.current.Store(g)
	if err := s.http.listen(g.config.Serve.Listen, s.handler()); err != nil {
		return err
	}
	s.root, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.cron = cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cronLog{s}))
	s.schedule(g)
	s.cron.Start()
	s.running.Go(g.heartbeat.Run) // what was missed need not wait for the first beat
	s.watchdog()
	s.notify(sd.SdNotifyReady)
	s.log().Info().Str("ledger", g.store.Name()).Str("listen", s.http.address).Int("schedules", len(g.schedules)).Msg("serving")
	return nil
}

// verifyWitness notices a ledger that was put back. The brakes are on then, and
// the passes that do no harm run all the same.
func (s *server) verifyWitness(ctx context.Context, g *generation) error {
	now, err := g.store.Now(ctx)
	if err != nil {
		return err
	}
	err = g.reconciler.VerifyWitness(ctx, now)
	if errors.Is(err, reconcile.ErrRewound) {
		g.log.Error().Err(err).Msg("dispatch and apply are paused; `rollcall doctor` says more")
		return nil
	}
	return err
}

// loop waits for signals.
func (s *server) loop(ctx context.Context, hup <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return s.stop()
		case <-hup:
			s.reload(ctx)
		case err := <-s.http.failed:
			return errors.Join(fmt.Errorf("serve.listen: %w", err), s.stop())
		}
	}
}

// stop waits for what is under way, for a bounded time.
func (s *server) stop() error {
	s.stopping.Store(true)
	s.notify(sd.SdNotifyStopping)
	within := s.current.Load().config.Serve.StopWithin.Std()
	s.log().Info().Stringer("within", within).Msg("stopping")
	begun := s.cron.Stop()
	s.cancel()
	ended := make(chan struct{})
	go func() {
		<-begun.Done() // no heartbeat begins another run behind this
		s.running.Wait()
		close(ended)
	}()
	defer s.http.close()
	select {
	case <-ended:
		s.log().Info().Msg("stopped")
		return nil
	case <-time.After(within):
		return fmt.Errorf("what was under way did not end within %s and is cut; the ledger is safe, and the next start goes on from there", within)
	}
}

// notify tells systemd, where it asks for it.
func (s *server) notify(state string) {
	if _, err := sd.SdNotify(false, state); err != nil {
		s.log().Warn().Err(err).Msg("systemd could not be told")
	}
}

// watchdog tells systemd that the loop lives, while it does.
func (s *server) watchdog() {
	every, err := sd.SdWatchdogEnabled(false)
	if err != nil || every <= 0 {
		return
	}
	s.running.Go(func() {
		tick := time.NewTicker(max(every/3, time.Millisecond))
		defer tick.Stop()
		for {
			if s.alive() {
				s.notify(sd.SdNotifyWatchdog)
			}
			select {
			case <-s.root.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// alive says whether the heartbeat came lately. It does not wait for passes.
func (s *server) alive() bool {
	every := s.current.Load().config.Serve.Heartbeat.Std()
	return uptime()-time.Duration(s.beat.Load()) <= 3*every+lookWithin
}
