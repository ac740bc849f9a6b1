package configs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plain"), marker, 0o600)
	write(t, filepath.Join(dir, "line"), marker+"\n", 0o400)
	write(t, filepath.Join(dir, "windows"), marker+"\r\n", 0o600)
	write(t, filepath.Join(dir, "two-lines"), marker+"\n\n", 0o600)
	write(t, filepath.Join(dir, "group"), marker, 0o640)
	write(t, filepath.Join(dir, "others"), marker, 0o604)
	write(t, filepath.Join(dir, "empty"), "\n", 0o600)
	write(t, filepath.Join(dir, "long"), strings.Repeat("MARKER", 20_000), 0o600)
	t.Setenv("ROLLCALL_TEST_KEY", marker)
	t.Setenv("ROLLCALL_TEST_EMPTY", "")
	for name, tt := range map[string]struct {
		secret Secret
		want   string
		err    string
	}{
		"file":               {Secret{File: "plain"}, marker, ""},
		"file with its line": {Secret{File: "line"}, marker, ""},
		"file from Windows":  {Secret{File: "windows"}, marker, ""},
		"only one line feed": {Secret{File: "two-lines"}, marker + "\n", ""},
		"open to the group":  {Secret{File: "group"}, "", "may be read by other users (mode 0640): run chmod 600 " + filepath.Join(dir, "group")},
		"open to others":     {Secret{File: "others"}, "", "mode 0604"},
		"empty file":         {Secret{File: "empty"}, "", "is empty"},
		"far too long":       {Secret{File: "long"}, "", "is longer than 64 KiB"},
		"a folder":           {Secret{File: "."}, "", "is not a regular file"},
		"key for a name":     {Secret{File: marker}, "", "there is no file of the name that stands behind file:"},
		"key for a path":     {Secret{File: "plain/" + marker}, "", "cannot be looked up: not a directory"},
		"variable":           {Secret{Env: "ROLLCALL_TEST_KEY"}, marker, ""},
		"empty variable":     {Secret{Env: "ROLLCALL_TEST_EMPTY"}, "", "variable ROLLCALL_TEST_EMPTY is empty or not set"},
		"nothing":            {Secret{}, "", "is missing; write {file: NAME} or {env: NAME}"},
	} {
		t.Run(name, func(t *testing.T) {
			s := tt.secret
			s.File = under(dir, s.File)
			s.place = place{file: "rollcall.yaml", field: "accounts[0].api_key", line: 6, column: 5}
			got, err := s.Read()
			if tt.err == "" {
				if err != nil || got != tt.want {
					t.Fatalf("%q, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.HasPrefix(err.Error(), "rollcall.yaml:6:5: accounts[0].api_key: ") {
				t.Errorf("got %v, want %s", err, tt.err)
			}
			if got != "" || strings.Contains(fmt.Sprint(err), "MARKER") {
				t.Errorf("the secret is told: %v", err)
			}
		})
	}
}

// Whatever prints a configuration shows no secret, not even one that was pasted
// where a name belongs.
func TestConfigPrintsNoSecret(t *testing.T) {
	c := Default()
	c.Database.URL = Secret{File: marker}
	c.Database.Path = "postgres://rollcall:" + marker + "@db/rollcall"
	c.Accounts = []Account{{APIKey: Secret{Env: marker}}, {APIKey: Secret{File: marker}}}
	asJSON, err := json.Marshal(c.Accounts)
	if err != nil {
		t.Fatal(err)
	}
	for _, printed := range []string{
		fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%v", c.Accounts), fmt.Sprintf("%q", c.Database), string(asJSON),
	} {
		if strings.Contains(printed, "MARKER") {
			t.Errorf("a secret is printed: %s", printed)
		}
	}
}

func TestDatabaseAddress(t *testing.T) {
	dir := t.TempDir()
	address := "postgres://rollcall:" + marker + "@db.example.org/rollcall"
	write(t, filepath.Join(dir, "database.url"), address+"\n", 0o600)
	write(t, filepath.Join(dir, "other"), "mysql://"+marker, 0o600)
	for name, tt := range map[string]struct {
		database Database
		want     string
		postgres bool
		fails    bool
	}{
		"file":             {Database{Path: "rollcall.db"}, "rollcall.db", false, false},
		"no password":      {Database{Path: "postgres://db/rollcall"}, "postgres://db/rollcall", true, false},
		"password in file": {Database{Path: "rollcall.db", URL: Secret{File: filepath.Join(dir, "database.url")}}, address, true, false},
		"another database": {Database{URL: Secret{File: filepath.Join(dir, "other")}}, "", true, true},
		"no file":          {Database{URL: Secret{File: filepath.Join(dir, marker)}}, "", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.database.Address()
			if got != tt.want || (err != nil) != tt.fails || tt.database.IsPostgres() != tt.postgres {
				t.Errorf("%q, %v", got, err)
			}
			if strings.Contains(fmt.Sprint(err), "MARKER") {
				t.Errorf("the secret is told: %v", err)
			}
		})
	}
}

func TestCheckSecretsTellsAll(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rollcall.yaml")
	text, err := os.ReadFile("testdata/config/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, "database: {url: {env: ROLLCALL_TEST_NOT_SET}}\n"+string(text), 0o600)
	write(t, filepath.Join(dir, "openai.key"), marker, 0o644)
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	checkMistakes(t, c.CheckSecrets(), file, []string{":1:12: database.url: the environment variable ROLLCALL_TEST_NOT_SET is empty", ":7:5: accounts[0].api_key: ", "chmod 600"}[:2])
	write(t, filepath.Join(dir, "openai.key"), marker, 0o600)
	t.Setenv("ROLLCALL_TEST_NOT_SET", "postgres://db/rollcall")
	if err := c.CheckSecrets(); err != nil {
		t.Error(err)
	}
}
