package configs

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestKeepFixedNamesWhatNeedsARestart(t *testing.T) {
	for field, change := range map[string]func(c *Config){
		"":             func(*Config) {},
		"database":     func(c *Config) { c.Database.Path = "other.db" },
		"keyring":      func(c *Config) { c.Keyring = "other" },
		"witness":      func(c *Config) { c.Witness = "" },
		"lease":        func(c *Config) { c.Lease = Duration(time.Hour) },
		"serve.listen": func(c *Config) { c.Serve.Listen = "" },
	} {
		running, read := Default(), Default()
		change(read)
		read.Chunk = 7
		if got := strings.Join(read.KeepFixed(running), " "); got != field {
			t.Errorf("%s: named is %q", field, got)
		}
		want := Default()
		want.Chunk = 7
		if diff := cmp.Diff(want, read, cmp.AllowUnexported(Config{}, Secret{}, place{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
	running, read := Default(), Default()
	running.Database.URL, read.Database.URL = Secret{File: "a"}, Secret{Env: "A"}
	if got := read.KeepFixed(running); !cmp.Equal(got, []string{"database"}) || read.Database.URL.File != "a" {
		t.Errorf("another place of the address: %v, %+v", got, read.Database)
	}
}
