package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"rollcall/configs"
	"rollcall/reconcile/keyring"
	"rollcall/sql"
)

const mendConfig = "mend what is named; to see every mistake with its place, run: rollcall config check"

// configuration reads everything that the operator wrote, without a connection.
// It says whether there is a configuration to go on with.
func (x *examination) configuration(a *app) bool {
	var err error
	if x.config, err = a.loadConfig(); err != nil {
		x.wrong("configuration", mendConfig, err)
		return false
	}
	x.ok("configuration", "%s: %s, %s", a.configPath, plural(len(x.config.Accounts), "account", "accounts"), plural(len(x.config.Sources), "source", "sources"))
	x.policies, err = configs.LoadPolicies(x.config.Policies, x.config.Classifiers)
	errs := []error{err}
	for _, p := range x.policies {
		errs = append(errs, x.config.CheckPolicy(p))
	}
	if err := errors.Join(errs...); err != nil {
		x.wrong("policies", mendConfig, err)
	} else {
		x.ok("policies", "%s, and the classifiers that they name", plural(len(x.policies), "policy", "policies"))
	}
	if err := x.config.CheckSecrets(); err != nil {
		x.wrong("secrets", mendConfig, err)
	} else {
		x.ok("secrets", "each can be read, and by nobody else")
	}
	if x.keys, err = keyring.Load(x.config.Keyring); err != nil {
		x.wrong("keyring", "put the keyring of this ledger back from its own copy: without it no stored text can be read", err)
	}
	return true
}

// warnings are what is permitted and may surprise.
func (x *examination) warnings() {
	for _, w := range x.config.Warnings(x.policies) {
		x.warn("configuration", "if it is not meant, mend it; then run: rollcall config check", "%s", w)
	}
}

// open opens the ledger without bringing its schema up to date. It says whether
// the ledger can be examined.
func (x *examination) open(ctx context.Context, a *app) bool {
	began := time.Now()
	var err error
	x.store, err = a.openStore(ctx, x.config, sql.Options{})
	if errors.Is(err, sql.ErrNoLedger) {
		x.wrong("database", "name the file of this ledger in the configuration; for a new deployment run: rollcall init", err)
		return false
	}
	if errors.Is(err, sql.ErrNetworkFileSystem) {
		x.wrong("database", "move the file to a local disk, or name a PostgreSQL database in the configuration", err)
		return false
	}
	if err != nil {
		x.unknown("database", err)
		return false
	}
	x.ok("database", "%s answers, in %s", x.store.Name(), time.Since(began).Round(time.Millisecond))
	switch err := x.store.CheckSchema(ctx); {
	case errors.Is(err, sql.ErrSchemaBehind):
		x.wrong("schema", "run: rollcall migrate", err)
		return false
	case errors.Is(err, sql.ErrSchemaAhead):
		x.wrong("schema", "use the rollcall that migrated it, or a newer one", err)
		return false
	case err != nil:
		x.unknown("schema", err)
		return false
	}
	x.ok("schema", "is this program's")
	if x.keys != nil {
		switch err := x.store.VerifyKeyring(ctx, x.keys); {
		case errors.Is(err, sql.ErrOtherKeyring), errors.Is(err, sql.ErrNoLedger):
			x.wrong("keyring", "name the keyring that belongs to this ledger, and the database that belongs to this keyring", err)
			return false
		case err != nil:
			x.unknown("keyring", err)
			return false
		}
		x.ok("keyring", "belongs to this ledger")
	}
	if x.now, err = x.store.Now(ctx); err != nil {
		x.unknown("database", err)
		return false
	}
	return true
}

// oneLine is an error with several lines on one.
func oneLine(err error) string { return strings.Join(strings.Split(err.Error(), "\n"), "; ") }
