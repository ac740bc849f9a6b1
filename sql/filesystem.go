package sql

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/gofrs/flock"
)

var (
	// ErrNetworkFileSystem: the SQLite file is where several hosts can reach it.
	ErrNetworkFileSystem = errors.New("a SQLite ledger needs a disk of one host: its write-ahead log is shared memory, and its locks do not hold across hosts, so that two of them would corrupt it; move the file to a local disk, or use PostgreSQL")
	// ErrServing: another process serves from this SQLite file.
	ErrServing = errors.New("another `rollcall serve` runs on this ledger; a SQLite ledger takes one, and PostgreSQL any number")
)

// fileSystem is where a file lies.
type fileSystem struct {
	name    string // such as "ext4", or a number; empty where the system does not tell
	network bool   // or by another program, which may be one
	free    int64  // bytes that this user may still write, -1 where not known
}

// statfs asks for the file system of a path that is there.
type statfs func(path string) (fileSystem, error)

// fileSystemOf is the file system of a path, which need not be there yet.
func fileSystemOf(path string, ask statfs) (fileSystem, error) {
	if ask == nil {
		ask = askFileSystem
	}
	for {
		f, err := ask(path)
		parent := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || parent == path {
			return f, err
		}
		path = parent
	}
}

// refuseNetwork refuses a path on a file system that other hosts may share.
// What the system does not tell is let pass: opening the file says the rest.
func refuseNetwork(path string, ask statfs) error {
	f, err := fileSystemOf(path, ask)
	if err == nil && f.network {
		return fmt.Errorf("lies on %s: %w", f.name, ErrNetworkFileSystem)
	}
	return nil
}

// LockExclusive makes this the only process that serves from a SQLite file,
// until release, or until the process ends; release may be called twice. It
// does not wait: ErrServing says that there is another. Other commands are not
// kept out. On PostgreSQL, where many may serve, it does nothing.
func (s *Store) LockExclusive() (release func(), err error) {
	if s.dialect == postgres {
		return func() {}, nil
	}
	l := flock.New(s.path + ".serve")
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", l.Path(), err)
	}
	if !ok {
		return nil, fmt.Errorf("%s: %w", s.name, ErrServing)
	}
	return func() { _ = l.Unlock() }, nil
}
