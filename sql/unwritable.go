package sql

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/lib/pq"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"rollcall/reconcile"
)

// explain makes an error that comes from a full or failing disk, or one that
// may not be written, an ErrUnwritable which says so: SQLite's own words for it
// are often but a number.
func (s *Store) explain(err error) error {
	why := unwritable(err, s.path)
	if why == nil {
		return err
	}
	return fmt.Errorf("%s %w: %w; what was committed stands: %w", s.name, reconcile.ErrUnwritable, why, err)
}

// unwritable is why a database takes no writes, as far as an error and the
// folder of its file tell; nil if it comes from something else.
func unwritable(err error, path string) error {
	var pe *pq.Error
	if errors.As(err, &pe) && pe.Code.Name() == "disk_full" {
		return syscall.ENOSPC
	}
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return nil
	}
	switch se.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return syscall.ENOSPC
	case sqlite3.SQLITE_IOERR: // also when its shared memory finds no space
		return cmp.Or(tryFolder(path), error(syscall.EIO))
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		return cmp.Or(tryFolder(path), errors.New("the file takes no writes"))
	}
	return nil
}

// probeBytes are as many as SQLite asks for at once, for its shared memory.
const probeBytes = 64 << 10

// tryFolder writes a file beside another one, and gives the system's reason why
// that cannot be done. The other file itself must not be opened: to close it
// again would give up the locks that this process has on it.
func tryFolder(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".probe*")
	if err == nil {
		_, err = f.Write(make([]byte, probeBytes))
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		return no
	}
	return nil
}
