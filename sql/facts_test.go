package sql_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"rollcall/sql"
	"rollcall/sql/sqltest"
)

func TestFactsOfASQLiteFile(t *testing.T) {
	l := sqltest.Open(t, "sqlite")
	f, err := l.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := *f.File
	if got.FreeBytes <= 0 || got.FileSystem == "" {
		t.Errorf("file system %q with %d bytes free", got.FileSystem, got.FreeBytes)
	}
	got.FreeBytes, got.FileSystem = 0, ""
	if want := (sql.FileFacts{Path: l.Address, JournalMode: "wal", Synchronous: "full", ForeignKeys: true}); got != want || f.Dialect != "sqlite" || f.Server != nil {
		t.Errorf("facts are %+v of %s", got, f.Dialect)
	}
	if timeline, err := l.Timeline(t.Context()); timeline != "" || err != nil {
		t.Errorf("the timeline is %q, %v", timeline, err)
	}
	if err := l.SelfTest(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFactsOfAServer(t *testing.T) {
	c := sqltest.NewCluster(t, "max_connections=33")
	c.Standby(true)
	sqltest.OpenWith(t, c.URL(), sql.Options{})
	c.Exec("CREATE ROLE plain LOGIN")
	for role, seen := range map[string]struct {
		superuser           bool
		synchronous, hidden int64
	}{"rollcall": {true, 1, 0}, "plain": {false, 0, 1}} {
		l := open(t, sql.Options{Address: strings.Replace(c.URL(), "rollcall@", role+"@", 1), MaxConns: 3})
		got, err := l.Facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f := *got.Server
		if f.ClockAheadMS < -2000 || f.ClockAheadMS > 2000 {
			t.Errorf("the clock of the same machine is ahead by %d ms", f.ClockAheadMS)
		}
		if !strings.HasPrefix(f.Version, "1") && !strings.HasPrefix(f.Version, "2") {
			t.Errorf("version %q", f.Version)
		}
		f.ClockAheadMS, f.Version = 0, ""
		want := sql.ServerFacts{Timeline: "00000001", Superuser: seen.superuser, SynchronousCommit: "on", SynchronousStandbyNames: "standby",
			Standbys: 1, SynchronousStandbys: seen.synchronous, HiddenStandbys: seen.hidden, MaxConnections: 33, PoolSize: 3,
			Log: sql.LogFacts{Statement: "none", MinDurationStatement: "-1", MinErrorStatement: "error", ErrorVerbosity: "default",
				ParameterMaxLength: "-1", ParameterMaxLengthError: "0"}}
		if f != want {
			t.Errorf("facts for %s are\n%+v, want\n%+v", role, f, want)
		}
		text, err := json.Marshal(got)
		if err != nil || !strings.Contains(string(text), `"synchronous_commit":"on"`) || strings.Contains(string(text), `"file"`) {
			t.Errorf("as JSON: %s, %v", text, err)
		}
	}
}

// TestLogLeaksAreToldAsTheyAre: an id reaches the server's log under exactly
// those settings of which LogFacts says so.
func TestLogLeaksAreToldAsTheyAre(t *testing.T) {
	c := sqltest.NewCluster(t, "log_destination=stderr")
	sqltest.OpenWith(t, c.URL(), sql.Options{})
	l := open(t, sql.Options{Address: c.URL()})
	none := [][2]string{{"log_error_verbosity", "default"}, {"log_statement", "none"}, {"log_min_duration_statement", "-1"},
		{"log_parameter_max_length", "-1"}, {"log_parameter_max_length_on_error", "0"}}
	const row, values, failed = "the key or the row", "statements are logged with", "statements that fail are logged"
	for name, test := range map[string]struct {
		set  [][2]string
		want []string
	}{
		"as installed":         {nil, []string{row}},
		"terse":                {[][2]string{{"log_error_verbosity", "terse"}, {"log_statement", "all"}, {"log_parameter_max_length_on_error", "-1"}}, nil},
		"all statements":       {[][2]string{{"log_statement", "all"}}, []string{row, values}},
		"slow statements":      {[][2]string{{"log_min_duration_statement", "0"}}, []string{row, values}},
		"without parameters":   {[][2]string{{"log_statement", "all"}, {"log_parameter_max_length", "0"}}, []string{row}},
		"parameters on errors": {[][2]string{{"log_parameter_max_length_on_error", "-1"}}, []string{row, failed}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range append(none, test.set...) {
				c.Configure(s[0], s[1])
			}
			f, err := l.Facts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			from := len(c.Log())
			if _, err := l.MissingTokens(t.Context(), []string{"MARKER-parameter"}); err != nil {
				t.Fatal(err)
			}
			c.TryExec("SELECT 1 / (length($1) - 12)", "MARKER-error") // of 12 letters
			c.TryExec("INSERT INTO leases (name, holder, fence, expires_us) VALUES ('MARKER-' || 'key', '', 0, 0), ('MARKER-' || 'key', '', 0, 0)")
			log, told := c.Log()[from:], strings.Join(f.Server.Log.Leaks(), "; ")
			for marker, leak := range map[string]string{"(MARKER-key)": row, "MARKER-parameter": values, "MARKER-error": failed} {
				want := slices.Contains(test.want, leak)
				// What fails is logged with the others, too.
				if got := strings.Contains(log, marker); got != want && !(leak == failed && slices.Contains(test.want, values)) {
					t.Errorf("%s is in the log: %t, want %t:\n%s", marker, got, want, log)
				}
				if got := strings.Contains(told, leak); got != want {
					t.Errorf("%q is told: %t, want %t", leak, got, want)
				}
			}
		})
	}
}

// TestNetworkFileSystemIsRefused also where the file is not there yet.
func TestNetworkFileSystemIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger.db")
	for magic, want := range map[uint32]struct {
		name    string
		network bool
	}{
		0x6969: {"NFS", true}, 0x517B: {"SMB", true}, 0xFF534D42: {"CIFS", true}, 0xFE534D42: {"SMB", true}, 0x65735546: {"FUSE", true},
		0x5346414F: {"AFS", true}, 0x00C36400: {"Ceph", true}, 0x01021997: {"9P", true},
		0xEF53: {"ext4", false}, 0x58465342: {"xfs", false}, 0x9123683E: {"btrfs", false}, 0x01021994: {"tmpfs", false}, 0x794C7630: {"overlayfs", false},
	} {
		name, network := sql.KindOfFileSystem(magic)
		if name != want.name || network != want.network {
			t.Errorf("%X is %q, %t", magic, name, network)
		}
		var asked []string
		opts := sql.Options{Address: path}.WithFileSystem(name, network, func(p string) error {
			asked = append(asked, p)
			if p == path {
				return fs.ErrNotExist
			}
			return nil
		})
		_, err := sql.Open(t.Context(), opts)
		if got := errors.Is(err, sql.ErrNetworkFileSystem); got != network {
			t.Errorf("on %s Open gave %v", name, err)
		} else if network && !strings.Contains(err.Error(), "lies on "+name+": ") {
			t.Errorf("%q does not name %s", err, name)
		}
		if !network && !errors.Is(err, sql.ErrNoLedger) {
			t.Errorf("on %s Open gave %v, want ErrNoLedger", name, err)
		}
		if want := []string{path, dir}; !slices.Equal(asked, want) {
			t.Errorf("asked for %q, want %q", asked, want)
		}
	}
}

func TestOneServeOnASQLiteFile(t *testing.T) {
	l := sqltest.Open(t, "sqlite")
	second := open(t, sql.Options{Address: l.Address})
	release, err := l.LockExclusive()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.LockExclusive(); !errors.Is(err, sql.ErrServing) {
		t.Errorf("a second one got %v", err)
	}
	if err := pauseNow(t, second, "all"); err != nil {
		t.Errorf("another command beside it: %v", err)
	}
	release()
	release()
	again, err := second.LockExclusive()
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestManyServeOnPostgres(t *testing.T) {
	l := sqltest.Open(t, "postgres")
	for range 2 {
		release, err := l.LockExclusive()
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
}
