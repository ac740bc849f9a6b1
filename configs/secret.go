package configs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Secret says where a secret is: in a file that only its owner may read, or in
// an environment variable. The secret itself is not in the configuration.
type Secret struct {
	File string `yaml:"file"`
	Env  string `yaml:"env"`

	place place
}

// place is where a field stands, for errors that come up later.
type place struct {
	file, field  string
	line, column int
}

func (p place) fail(format string, args ...any) error {
	return &FieldError{File: p.file, Line: p.line, Column: p.column, Field: p.field, Message: fmt.Sprintf(format, args...)}
}

// maxSecret is far above the length of any key or address.
const maxSecret = 64 << 10

// IsSet says whether the configuration names a place.
func (s Secret) IsSet() bool { return s.File != "" || s.Env != "" }

// Read reads the secret now, so that a rotated one is taken up by the next
// read. One line feed at the end is not part of it. Errors name the field and
// never hold the secret.
func (s Secret) Read() (string, error) {
	if s.Env != "" {
		v := os.Getenv(s.Env)
		if v == "" {
			return "", s.place.fail("the environment variable %s is empty or not set", s.Env)
		}
		return v, nil
	}
	if s.File == "" {
		return "", s.place.fail("is missing; write {file: NAME} or {env: NAME}")
	}
	raw, err := s.readFile()
	if err != nil {
		return "", err
	}
	v := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	if v == "" {
		return "", s.place.fail("the file %s is empty", s.File)
	}
	return v, nil
}

func (s Secret) readFile() ([]byte, error) {
	info, err := os.Stat(s.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Not even the name: it may be a key that was pasted behind file:.
		return nil, s.place.fail("there is no file of the name that stands behind file: (in the folder of the configuration file, unless it begins with /)")
	case err != nil:
		return nil, s.place.fail("the file that stands behind file: cannot be looked up: %v", bare(err))
	case !info.Mode().IsRegular():
		return nil, s.place.fail("%s is not a regular file", s.File)
	}
	f, err := os.Open(s.File)
	if err != nil {
		return nil, s.place.fail("%s cannot be opened: %v", s.File, bare(err))
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, s.place.fail("%s: %v", s.File, bare(err))
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, s.place.fail("%s may be read by other users (mode %04o): run chmod 600 %s", s.File, mode, s.File)
	}
	raw, err := readAtMost(f, maxSecret)
	if err != nil {
		return nil, s.place.fail("%s %v", s.File, err)
	}
	return raw, nil
}

// readAtMost reads all of r. Its errors follow the name of what was read.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", bare(err))
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("is longer than %d KiB", limit>>10)
	}
	return raw, nil
}

// bare is a file error without the path.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// A Secret shows that it is there and nothing else: what stands behind file: or
// env: may be the key itself, pasted into the wrong place.

func (s Secret) String() string {
	switch {
	case s.Env != "":
		return "[secret in the environment]"
	case s.File != "":
		return "[secret in a file]"
	}
	return "[no secret]"
}

// GoString covers %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText covers encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s *Secret) parseScalar(string) error {
	return errors.New("a secret does not stand in this file: put it into a file with mode 600 and write {file: NAME}, or write {env: NAME}")
}

var envName = regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,127}$`)

// check adds what is wrong with where the secret is said to be.
func (s Secret) check(field string, fail failFunc) {
	switch {
	case !s.IsSet():
		fail(field, "is missing; write {file: NAME} or {env: NAME}")
	case s.File != "" && s.Env != "":
		fail(field, "names both a file and an environment variable; keep one")
	case s.Env != "" && !envName.MatchString(s.Env):
		fail(field+".env", "must be the name of an environment variable, in capitals")
	}
}

// Database is where the ledger is.
type Database struct {
	// Path is the SQLite file, or a postgres:// address without a password.
	Path string
	// URL is a postgres:// address that holds a password.
	URL Secret `yaml:"url"`
	// MaxConnections bounds the pool of one process on PostgreSQL; 0 for 8.
	MaxConnections int `yaml:"max_connections"`
}

func (d *Database) parseScalar(s string) error {
	d.Path = s
	return nil
}

// IsPostgres says whether the ledger is in PostgreSQL.
func (d Database) IsPostgres() bool { return d.URL.IsSet() || isPostgres(d.Path) }

// Address is what sql.Open takes. It may hold a password.
func (d Database) Address() (string, error) {
	if !d.URL.IsSet() {
		return d.Path, nil
	}
	address, err := d.URL.Read()
	if err != nil {
		return "", err
	}
	if !isPostgres(address) {
		return "", d.URL.place.fail("must hold a postgres:// address")
	}
	return address, nil
}

// GoString covers %#v; Path is shown only where it is a file.
func (d Database) GoString() string { return d.String() }

func (d Database) String() string {
	if d.IsPostgres() {
		return "[postgres]"
	}
	return d.Path
}

func isPostgres(s string) bool {
	return strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://")
}

func (d Database) check(fail failFunc) {
	const put = "put the whole address into a file with mode 600 and write {url: {file: NAME}}, or write {url: {env: NAME}}"
	switch {
	case d.URL.IsSet():
		d.URL.check("database.url", fail)
		if n := d.MaxConnections; n != 0 && (n < 2 || n > 1000) {
			fail("database.max_connections", "must be between 2 and 1000")
		}
	case d.Path == "":
		fail("database", "is missing; name a SQLite file, or write {url: {file: NAME}} for PostgreSQL")
	case isPostgres(d.Path):
		u, err := url.Parse(d.Path)
		if err != nil {
			fail("database", "is not a postgres:// address that can be read")
			return
		}
		_, inline := u.User.Password()
		if inline || u.Query().Has("password") || u.Query().Has("sslpassword") {
			fail("database", "a password does not stand in this file: %s", put)
		}
	case strings.Contains(d.Path, "://"):
		fail("database", "must be a SQLite file or a postgres:// address")
	case keywordDSN.MatchString(d.Path):
		fail("database", "must be written as postgres://USER@HOST/NAME; if it holds a password, %s", put)
	case strings.ContainsAny(d.Path, "?#%"):
		fail("database", "the name of a SQLite file must not hold ?, # or %%")
	}
}

// keywordDSN is the other spelling of a PostgreSQL address, or one without its
// slashes, which would be taken for a file name, password and all.
var keywordDSN = regexp.MustCompile(`(?i)(^|[\s/])((host|user|password|dbname|port)\s*=|postgres(ql)?:)`)

// under is name inside dir, unless it is absolute or empty.
func under(dir, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}
