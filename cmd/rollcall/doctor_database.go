package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"rollcall/sql"
)

// database asks the database how it keeps what it acknowledges.
func (x *examination) database(ctx context.Context) {
	const check = "self-test"
	switch err := x.store.SelfTest(ctx); {
	case errors.Is(err, sql.ErrReadOnly):
		x.bad(check, "name the address of the server that writes in the configuration, or promote this one", "%v", err)
	case errors.Is(err, sql.ErrOldServer):
		x.bad(check, "upgrade the server", "%v", err)
	case errors.Is(err, sql.ErrPooler):
		x.bad(check, "name a direct address in the configuration, or set the pooler up as it says", "%v", err)
	case err != nil:
		x.unknown(check, err)
	default:
		x.ok(check, "the database does what a ledger needs")
	}
	facts, err := x.store.Facts(ctx)
	if err != nil {
		x.unknown("database", err)
		return
	}
	if facts.Server != nil {
		x.server(*facts.Server)
	}
	if facts.File != nil {
		x.file(*facts.File)
	}
	x.writable(ctx)
}

// writable tries a write and takes it back. A server that is read-only was told of.
func (x *examination) writable(ctx context.Context) {
	const check = "writes"
	switch err := x.store.TryWrite(ctx); {
	case err == nil:
		x.ok(check, "this user can write the ledger")
	case ctx.Err() != nil:
		x.unknown(check, err)
	default:
		x.bad(check, "make the database writable for this user: a SQLite file's owner and mode, and those of its folder, or the rights of the PostgreSQL role", "%s", oneLine(err))
	}
}

// server judges the settings of a PostgreSQL server.
func (x *examination) server(f sql.ServerFacts) {
	pooler := ""
	if f.Pooler {
		pooler = ", behind a pooler that shares its connections; migrate needs a direct address"
	}
	x.ok("server", "PostgreSQL %s%s", f.Version, pooler)
	if f.Superuser {
		x.warn("role", "connect as a role of its own, which owns this database and nothing else", "the role is a superuser: who has its password has the server")
	}
	x.durability(f)
	for _, leak := range f.Log.Leaks() {
		found, remedy, _ := strings.Cut(leak, ": ")
		x.warn("server log", remedy, "external ids get into the server's log: %s", found)
	}
	x.connections(f)
	x.clock(time.Duration(f.ClockAheadMS) * time.Millisecond)
}

// durability tells whether a COMMIT that was acknowledged may be lost.
func (x *examination) durability(f sql.ServerFacts) {
	const check = "durability"
	const remedy = "set synchronous_commit = on and synchronous_standby_names for two candidates; until then only the witness notices a loss"
	standbys := plural(int(f.Standbys), "standby is", "standbys are")
	switch commit := f.SynchronousCommit; {
	case commit == "off":
		x.bad(check, "set synchronous_commit = on, for rollcall's role at least", "synchronous_commit is off: acknowledged commits are lost when the server crashes")
	case f.Standbys == 0 && f.SynchronousStandbyNames == "":
		x.ok(check, "a commit waits for this server's disk; no standby is connected")
	case f.SynchronousStandbyNames == "" || commit == "local":
		x.warn(check, remedy, "acknowledged commits can be lost in a fail-over: %s connected, and no commit waits for one", standbys)
	case f.SynchronousStandbys+f.HiddenStandbys == 0:
		x.bad(check, "bring a standby of synchronous_standby_names back: until then no commit is acknowledged", "synchronous_standby_names is %q, and no such standby is connected", f.SynchronousStandbyNames)
	default:
		x.ok(check, "synchronous_commit is %s, a commit waits for a standby of %q; %s connected", commit, f.SynchronousStandbyNames, standbys)
	}
}

// connections compares what processes of ours take with what there is.
func (x *examination) connections(f sql.ServerFacts) {
	const check = "connections"
	const remedy = "raise max_connections, or put a pooler in between"
	pool := int64(f.PoolSize)
	switch {
	case f.MaxConnections <= pool:
		x.bad(check, remedy, "one process takes up to %d, and the server has %d", pool, f.MaxConnections)
	case f.MaxConnections < 4*pool:
		x.warn(check, remedy, "one process takes up to %d, and the server has %d for all its clients", pool, f.MaxConnections)
	default:
		x.ok(check, "one process takes up to %d of the server's %d", pool, f.MaxConnections)
	}
}

const (
	clockNear = 2 * time.Second
	clockFar  = time.Minute
)

// clock judges by how much the server's clock is ahead of this process's.
func (x *examination) clock(ahead time.Duration) {
	const check = "clock"
	const remedy = "keep the clocks of both machines in step, by NTP"
	off := max(ahead, -ahead)
	switch {
	case off > clockFar:
		x.bad(check, remedy, "the server's clock and this machine's differ by %s", off)
	case off > clockNear:
		x.warn(check, remedy, "the server's clock and this machine's differ by %s", off)
	default:
		x.ok(check, "the server's clock and this machine's differ by %s", off)
	}
}

const (
	freeWarn = 1 << 30
	freeBad  = 64 << 20 // a job of 50,000 lines needs about as much
)

// file judges how a SQLite file is kept.
func (x *examination) file(f sql.FileFacts) {
	const check = "durability"
	if f.JournalMode != "wal" || f.Synchronous != "full" && f.Synchronous != "extra" || !f.ForeignKeys {
		x.bad(check, "find out which other program opens the file, and keep it away", "journal mode %s, synchronous %s, foreign keys %t: commits can be lost, or rules broken", f.JournalMode, f.Synchronous, f.ForeignKeys)
	} else {
		x.ok(check, "a commit waits for the disk; file system %s", dash(f.FileSystem))
	}
	x.space(f.Path, f.FreeBytes)
}

// space judges the free bytes of a file system; -1 where nobody knows.
func (x *examination) space(path string, free int64) {
	const check = "disk space"
	const remedy = "make room: without any nothing is written, so nothing is sent"
	switch {
	case free < 0:
		x.ok(check, "the system does not tell")
	case free < freeBad:
		x.bad(check, remedy, "%s are free for %s", bytesWord(free), path)
	case free < freeWarn:
		x.warn(check, remedy, "%s are free for %s", bytesWord(free), path)
	default:
		x.ok(check, "%s are free for %s", bytesWord(free), path)
	}
}

func bytesWord(n int64) string {
	if n < freeWarn {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d GiB", n>>30)
}
