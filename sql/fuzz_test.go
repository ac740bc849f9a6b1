package sql

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lib/pq"
)

// FuzzParseLocation: a password is never shown, whatever stands around it; an
// address of PostgreSQL leads to a server that writes, with the settings that a
// pooler needs; and everything else is a file of just that name.
func FuzzParseLocation(f *testing.F) {
	for _, s := range [][2]string{
		{"postgres://u:", "@h:5433/db"}, {"postgresql://u:", "@[::1]/db"}, {"postgres://u:", "@h1,h2:5433/db?target_session_attrs=primary"}, {"postgres://u:", "@/db?host=/run/postgresql"},
		{"postgres://u:12/", "@h/db"}, {"postgres://u:12?", "@h/db"}, {"postgres://u:12#", "@h/db"}, {"postgres://u:12?a=", "@h/db"}, {"postgres://u:1@2", "@h/db"}, {"postgres://u:%", "@h/db"}, {"postgres://u:\x00", "@h"},
		{"postgres://u:", "@h/db?sslmode=nonsense"}, {"postgres://u:", "@h/db?sslmode=verify-full&sslrootcert=/nowhere"}, {"postgres://u:", "@h/db?binary_parameters=no"}, {"postgres://u:", "@h/db?port=x"},
		{"postgres://u:", "@h/db?connect_timeout=x"}, {"postgres://u:", "@h/%zz"}, {"postgres://u:", "@h/d b"}, {"postgres://u:", "@ä.example/db"}, {"postgres://u:", "@h\u2028/db"}, {"postgres://u:", "@[::1/db"}, {"postgres://u:", "@h:99999/db"},
		{"postgres://h", ""}, {"postgres://h:5433?dbname=", ""}, {"postgres://h1,h2:7?sslmode=disable&dbname=", ""}, {"postgres://u@h#", ""}, {"postgres://u:%89", "@h/db"}, {"postgres://h%89.", ".example/db"}, {"postgres://u@h/db?password=", ""}, {"postgres://u@h/db?sslpassword=", "&sslmode=disable"}, {"postgres://h/db?options=-c%20a=", ""}, {"postgres://:", "@"}, {"postgres:///", ""},
		{"POSTGRES://u:", "@h/db"}, {"postgres:u:", "@h/db"}, {"postgres:/u:", "@h/db"}, {"mysql://u:", "@h/db"}, {"sqlite:", ".db"}, {"sqlite:///tmp/", ""}, {"", ""}, {"a?", ""}, {"a#", "%41"}, {":memory:", ""}, {"\x00", ""}, {"host=h password=", " dbname=x"},
	} {
		f.Add(s[0], s[1])
	}
	const password = "MARKER-7f3A"
	f.Fuzz(func(t *testing.T, before, behind string) {
		address := before + password + behind
		l, err := parseLocation(address)
		switch {
		case err != nil:
			if isSecret(address, password) && strings.Contains(err.Error(), password) || !strings.HasPrefix(err.Error(), "database: ") {
				t.Errorf("%q: %v", address, err)
			}
		case isPostgres(address):
			checkServer(t, address, l, password)
		default:
			checkLedgerFile(t, address, l)
		}
	})
}

// isSecret says whether the password stands where one may stand: everywhere but
// in the host, in the name of the database and in the value of a setting.
func isSecret(address, password string) bool {
	_, text, _ := strings.Cut(address, "://")
	before, behind, _ := strings.Cut(text, password)
	setting, _, _ := strings.Cut(before[strings.LastIndexAny(before, "&?")+1:], "=")
	return !isPostgres(address) || strings.Contains(behind, "@") || strings.Contains(strings.ToLower(setting), "password") || !strings.ContainsAny(before, "@/?#")
}

func checkServer(t *testing.T, address string, l location, password string) {
	t.Helper()
	got := targetOf(l)
	_, text, _ := strings.Cut(address, "://")
	authority := text[:strings.IndexAny(text+"/", "/?#")]
	hosts := authority[strings.LastIndex(authority, "@")+1:]
	for i, host := range strings.Split(hosts, ",") {
		if u, err := url.Parse("//" + host); host != "" && (err != nil || i >= len(got.Hosts) || got.Hosts[i] != u.Hostname()) {
			t.Errorf("%q leads to %v", address, got.Hosts)
		}
	}
	// What stands before the @ is never shown: not in the name, and not as a setting.
	if at := strings.LastIndex(text, "@"); strings.Contains(text[:max(at, 0)], password) && !strings.Contains(text[at:], password) {
		for _, shown := range append(startSettings(l.config), l.name) {
			if strings.Contains(strings.ToLower(shown), strings.ToLower(password)) {
				t.Errorf("%q is shown as %q", address, shown)
			}
		}
	}
	several := len(l.config.Multi) > 0
	writes := l.config.TargetSessionAttrs == pq.TargetSessionAttrsReadWrite || l.config.TargetSessionAttrs == pq.TargetSessionAttrsPrimary
	if l.dialect != postgres || !l.config.BinaryParameters || several && !writes || l.path != "" {
		t.Errorf("%q: %+v", address, got)
	}
}

func checkLedgerFile(t *testing.T, address string, l location) {
	t.Helper()
	name := strings.TrimPrefix(address, "sqlite:")
	want, err := filepath.Abs(name)
	if err != nil || l.dialect != sqliteFile || l.path != want || strings.ContainsAny(l.path, "?#%") {
		t.Errorf("%q is the file %q: %v", address, l.path, err)
	}
	if lower := strings.ToLower(name); strings.Contains(lower, "://") || strings.HasPrefix(lower, "postgres:") || strings.HasPrefix(lower, "postgresql:") {
		t.Errorf("%q of a server is a file", address)
	}
}
