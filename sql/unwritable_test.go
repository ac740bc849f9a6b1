package sql_test

import (
	stdsql "database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/reconcile"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// fullDisk is what the driver of a database says of a full disk.
func fullDisk(t *testing.T, database, address string) error {
	t.Helper()
	db, err := stdsql.Open(database, address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	statement := `DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$`
	if database == "sqlite" {
		db.SetMaxOpenConns(1) // the bound is this connection's
		if _, err := db.Exec("PRAGMA max_page_count = 1"); err != nil {
			t.Fatal(err)
		}
		statement = "CREATE TABLE big AS SELECT zeroblob(1000000)"
	}
	if _, err = db.Exec(statement); err == nil {
		t.Fatal("the disk is not full")
	}
	return err
}

// F48: a full disk is said to be full, of which database, and a lease that could
// not be noted for it is not another process's.
func TestF48_FullDiskIsUnwritable(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			var full error
			l := sqltest.OpenWith(t, sqltest.Migrated(t, database), sql.Options{Commit: func(_ string, commit func() error) error {
				if full != nil {
					return full
				}
				return commit()
			}})
			full = fullDisk(t, database, l.Address)
			now := l.Clock.Now()
			_, lease := l.AcquireLease(t.Context(), "pass:poll", "a", now, now.Add(time.Minute))
			_, pause := l.Pause(t.Context(), now, reconcile.Pause{Scope: "all", Stage: reconcile.PausePoll, Actor: "a", Reason: "r"})
			for what, err := range map[string]error{"lease": lease, "pause": pause} {
				if !errors.Is(err, reconcile.ErrUnwritable) || !errors.Is(err, reconcile.ErrUnknownCommit) || !errors.Is(err, syscall.ENOSPC) || errors.Is(err, reconcile.ErrHeld) {
					t.Errorf("%s: %v", what, err)
				} else if want := l.Name() + " cannot be written: no space left on device; what was committed stands: "; !strings.HasPrefix(err.Error(), want) {
					t.Errorf("%s: %q does not begin with %q", what, err, want)
				}
			}
		})
	}
}

// What comes from no disk is left as it is.
func TestOtherErrorsAreNotOfTheDisk(t *testing.T) {
	lost := errors.New("the connection is lost")
	var fail error
	l := sqltest.OpenWith(t, sqltest.Migrated(t, "sqlite"), sql.Options{Commit: func(_ string, commit func() error) error {
		if fail != nil {
			return fail
		}
		return commit()
	}})
	fail = lost
	now := l.Clock.Now()
	if _, err := l.AcquireLease(t.Context(), "pass:poll", "a", now, now.Add(time.Minute)); !errors.Is(err, reconcile.ErrHeld) || errors.Is(err, reconcile.ErrUnwritable) {
		t.Error(err)
	}
}

// A ledger that lies where a folder should be cannot be opened, and the words
// say what is wrong in place of a number.
func TestUnopenableFileIsUnwritable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := sql.Open(t.Context(), sql.Options{Address: path})
	if !errors.Is(err, reconcile.ErrUnwritable) || !strings.Contains(err.Error(), path+" cannot be written: the file takes no writes") {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%d files are left beside it, %v", len(left), err)
	}
}
