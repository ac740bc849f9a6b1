package sql

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lib/pq"
)

// target is where the driver would go.
type target struct {
	Name, User, Password, Database string
	Hosts                          []string
	Ports                          []uint16
	Attrs                          pq.TargetSessionAttrs
	BinaryParameters               bool
}

func targetOf(l location) target {
	c := l.config
	got := target{Name: l.name, User: c.User, Password: c.Password, Database: c.Database, Hosts: []string{c.Host}, Ports: []uint16{c.Port},
		Attrs: c.TargetSessionAttrs, BinaryParameters: c.BinaryParameters}
	for _, m := range c.Multi {
		got.Hosts, got.Ports = append(got.Hosts, m.Host), append(got.Ports, m.Port)
	}
	return got
}

func TestPostgresAddresses(t *testing.T) {
	const rw = pq.TargetSessionAttrsReadWrite
	for address, want := range map[string]target{
		"postgres://u:p@h:5433/db":          {"postgres://h:5433/db", "u", "p", "db", []string{"h"}, []uint16{5433}, "", true},
		"postgresql://u:p%2F%40@[::1]/db":   {"postgres://[::1]:5432/db", "u", "p/@", "db", []string{"::1"}, []uint16{5432}, "", true},
		"postgres://u:p@h1:5432,h2:5433/db": {"postgres://h1:5432,h2:5433/db", "u", "p", "db", []string{"h1", "h2"}, []uint16{5432, 5433}, rw, true},
		"postgres://u:p@h1,h2:5433,[::1]:7/db?sslmode=disable": {"postgres://h1:5432,h2:5433,[::1]:7/db", "u", "p", "db",
			[]string{"h1", "h2", "::1"}, []uint16{5432, 5433, 7}, rw, true},
		"postgres://u:a,b:c@h1,h2/db?target_session_attrs=primary": {"postgres://h1:5432,h2:5432/db", "u", "a,b:c", "db", []string{"h1", "h2"}, []uint16{5432, 5432},
			pq.TargetSessionAttrsPrimary, true},
		"postgres://u:p@/db?host=h1,h2&port=1,2":    {"postgres://h1:1,h2:2/db", "u", "p", "db", []string{"h1", "h2"}, []uint16{1, 2}, rw, true},
		"postgres://u:p@h1,h2/db?port=7,8":          {"postgres://h1:7,h2:8/db", "u", "p", "db", []string{"h1", "h2"}, []uint16{7, 8}, rw, true},
		"postgres://u:p@h1,h2/db?port=7":            {"postgres://h1:7,h2:7/db", "u", "p", "db", []string{"h1", "h2"}, []uint16{7, 7}, rw, true},
		"postgres://u:p@/db":                        {"postgres://localhost:5432/db", "u", "p", "db", []string{"localhost"}, []uint16{5432}, "", true},
		"postgres://u:p@/db?hostaddr=127.0.0.1,::1": {"postgres://127.0.0.1:5432,[::1]:5432/db", "u", "p", "db", []string{"localhost", ""}, []uint16{5432, 5432}, rw, true},
		"postgres://u@/db?host=/run/postgresql":     {"postgres:///run/postgresql/db", "u", "", "db", []string{"/run/postgresql"}, []uint16{5432}, "", true},
		"postgres://u:p@h/db?binary_parameters=yes": {"postgres://h:5432/db", "u", "p", "db", []string{"h"}, []uint16{5432}, "", true},
	} {
		l, err := parseLocation(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if diff := cmp.Diff(want, targetOf(l)); diff != "" {
			t.Errorf("%s:\n%s", address, diff)
		}
	}
}

func TestPostgresAddressesThatAreRefused(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://u:MARKER@h:x/db":                                   "cannot be parsed",
		"postgres://u:MARKER/1@h/db":                                   "cannot be parsed",
		"postgres://u:12/MARKER@h/db":                                  "cannot be parsed",
		"postgres://u:12@MARKER#3@h/db":                                "write special characters",
		"postgres://u:12@MARKER?3@h/db":                                "write special characters",
		"postgres://u:MARKER@h1,h2:x/db":                               "cannot be parsed",
		"postgres://u:MARKER@h1,,h2/db":                                "cannot be parsed",
		"postgres://u:MARKER@h/db?binary_parameters=no":                "take it out",
		"postgres://u:MARKER@h/db?binary_parameters=":                  "take it out",
		"postgres://u:MARKER@h/db?target_session_attrs=standby":        "use read-write",
		"postgres://u:MARKER@h/db?target_session_attrs=read-only":      "use read-write",
		"postgres://u:MARKER@h/db?target_session_attrs=prefer-standby": "use read-write",
		"postgres://u:MARKER@h1,h2/db?target_session_attrs=any":        "use read-write",
		"postgres://u:MARKER@h/db?target_session_attrs=nonsense":       "target_session_attrs",
		"postgres://u:MARKER@h/db?sslmode=nonsense":                    "sslmode",
	} {
		_, err := parseLocation(address)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "MARKER") {
			t.Errorf("%s: %v, want words %q and nothing of the password", address, err, want)
		}
	}
}

func TestSettingsOfAnAddress(t *testing.T) {
	for address, want := range map[string][]string{
		"postgres://h/db?sslmode=disable":                                               nil,
		"postgres://h/db?search_path=x&statement_timeout=5s":                            {"search_path", "statement_timeout"},
		"postgres://h/db?options=-c%20search_path%3Dx%20--work-mem%3D1MB%20-cjit%3Doff": {"jit", "search_path", "work_mem"},
	} {
		l, err := parseLocation(address)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, startSettings(l.config)); diff != "" {
			t.Errorf("%s: %s", address, diff)
		}
	}
}
