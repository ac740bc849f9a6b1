package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"rollcall/configs"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
	"rollcall/reconcile/witness"
	"rollcall/sql"
)

// deployment is what one configuration describes: the only place where
// configuration, ledger, keys, accounts and passes meet.
type deployment struct {
	config  *configs.Config
	store   *sql.Store
	witness *witness.File // nil for none
	keys    *keyring.Ring
	log     zerolog.Logger
	// unreplicated counts commits that a synchronous standby did not get.
	unreplicated *atomic.Int64
}

// close lets the witness remember what was committed, and closes the ledger.
func (d *deployment) close() {
	if d.witness != nil {
		if err := d.witness.Close(context.Background()); err != nil {
			d.log.Warn().Err(err).Msg("the witness file was not brought up to date; see rollcall doctor")
		}
	}
	_ = d.store.Close()
}

// committed tells the witness of an acknowledged transaction.
func (d *deployment) committed(token string, generation int64) {
	if d.witness != nil {
		d.witness.Committed(token, generation)
	}
}

// open loads the configuration and opens its ledger, with the schema in order.
func (a *app) open(ctx context.Context) (*deployment, error) {
	cfg, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	log, err := a.logger(cfg.Log.Level)
	if err != nil {
		return nil, err
	}
	keys, err := keyring.Load(cfg.Keyring)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	d := &deployment{config: cfg, keys: keys, log: log, unreplicated: new(atomic.Int64)}
	store, err := a.openStore(ctx, cfg, sql.Options{Committed: d.committed, Notice: d.noticed})
	if err != nil {
		return nil, err
	}
	d.store = store
	if cfg.Witness != "" {
		d.witness = witness.New(cfg.Witness, store, time.Now)
	}
	if err := d.prepare(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return d, nil
}

func (a *app) loadConfig() (*configs.Config, error) {
	cfg, err := configs.Load(a.configPath)
	if errors.Is(err, os.ErrNotExist) {
		return nil, usageError("%s does not exist: `rollcall init` writes one, --config names another; `rollcall demo` needs none", a.configPath)
	}
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return cfg, nil
}

// noticed keeps in mind that the server gave up waiting for its standby. The
// next pass raises it: the transaction at hand is in no state to.
func (d *deployment) noticed(kind string) {
	d.log.Error().Str("notice", kind).Msg("a commit was not replicated; it is taken for unknown")
	d.unreplicated.Add(1)
}

// openStore opens the configured ledger; options say what is special about it.
func (a *app) openStore(ctx context.Context, cfg *configs.Config, o sql.Options) (*sql.Store, error) {
	address, err := cfg.Database.Address()
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	o.Address, o.Actor, o.LeaseFor, o.MaxConns = address, holder(), cfg.Lease.Std(), cfg.Database.MaxConnections
	return sql.Open(ctx, o)
}

// prepare refuses a database that cannot be relied on, such as one behind a
// pooler that mixes up its clients; brings a SQLite file up to date, refuses a
// PostgreSQL database that is not, and proves that keyring and ledger belong
// together.
func (d *deployment) prepare(ctx context.Context) error {
	if err := d.store.SelfTest(ctx); err != nil {
		return err
	}
	err := d.store.CheckSchema(ctx)
	if errors.Is(err, sql.ErrSchemaBehind) && d.store.MigratesItself() {
		_, err = d.store.Migrate(ctx)
	}
	if err != nil {
		return err
	}
	return d.store.VerifyKeyring(ctx, d.keys)
}

// createLedger makes the ledger that the configuration names, or brings an
// existing one up to date. It returns how many migrations ran.
func (a *app) createLedger(ctx context.Context, cfg *configs.Config) (name string, migrations int, err error) {
	keys, err := keyring.Load(cfg.Keyring)
	if err != nil {
		return "", 0, &exitError{exitUsage, err}
	}
	store, err := a.openStore(ctx, cfg, sql.Options{Create: true})
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if migrations, err = store.Migrate(ctx); err != nil {
		return store.Name(), migrations, err
	}
	now, err := store.Now(ctx)
	if err != nil {
		return store.Name(), migrations, err
	}
	return store.Name(), migrations, store.CreateLedger(ctx, now, keys)
}

// reconciler is the passes over this deployment.
func (d *deployment) reconciler() (*reconcile.Reconciler, error) {
	all, err := d.clients()
	if err != nil {
		return nil, err
	}
	r := d.offline()
	r.Accounts, r.Callers, r.Rates = all.accounts, all.callers, d.config.Rates()
	return r, nil
}

// offline is a reconciler without accounts, for what needs the ledger only: it
// can send nothing, and needs no provider's key.
func (d *deployment) offline() *reconcile.Reconciler {
	r := &reconcile.Reconciler{
		Store: d.store, Keys: d.keys, Now: d.store.Now, Uptime: uptime, Rand: rand.Reader, Log: d.log,
		Unreplicated: func() int64 { return d.unreplicated.Swap(0) },
		Settings:     d.config.Settings(), Holder: holder(), LeaseFor: d.config.Lease.Std(),
		Limits: d.config.AccountLimits, Prices: d.config.Price,
		PolicyFor: func(tenant, system string) (string, bool) {
			s, ok := d.config.SourceFor(tenant, system)
			return s.Policy, ok
		},
	}
	if d.witness != nil {
		r.Witness = d.witness
	}
	return r
}

// uptime is the monotonic clock of this process.
func uptime() time.Duration { return time.Since(started) }

var started = time.Now()

// holder names this process in leases and in the audit.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("rollcall@%s:%d", host, os.Getpid())
}
