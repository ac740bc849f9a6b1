package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/batch/sandbox"
	"rollcall/sql/sqltest"
)

// beMain makes the test binary behave as rollcall, so that a test can run the
// real program as a process of its own without building it first.
const beMain = "ROLLCALL_TEST_BE_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(beMain) != "" {
		main()
	}
	os.Exit(sqltest.Main(m))
}

// operator runs commands against one deployment and keeps what they printed.
type operator struct {
	t       *testing.T
	dir     string
	box     *runningSandbox
	printed bytes.Buffer // everything that any command wrote
}

// newOperator starts a deployment over a sandbox of its own, its policy approved.
func newOperator(t *testing.T, database string, faults ...string) *operator {
	t.Helper()
	o := &operator{t: t, dir: t.TempDir()}
	opts := sandbox.Options{Dir: filepath.Join(o.dir, "sandbox"), Speed: 600, Seed: 1, Log: quiet}
	for _, f := range faults {
		fault, err := sandbox.ParseFault(f)
		if err != nil {
			t.Fatal(err)
		}
		opts.Faults = append(opts.Faults, fault)
	}
	var err error
	if o.box, err = startSandbox("127.0.0.1:0", opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.box.stop(); err != nil {
			t.Error(err)
		}
	})
	o.deploy(database, "http://"+o.box.address+"/v1")
	return o
}

// deploy writes the configuration and approves its policy.
func (o *operator) deploy(database, url string) {
	o.t.Helper()
	o.must(exitDone, "init", "--sandbox", url, o.dir)
	o.edit("rollcall.yaml", "item_retry: 2s", "item_retry: 20ms", "retry: 2s", "retry: 20ms", "first: 1s", "first: 20ms", "max: 5s", "max: 100ms", "files_grace: 5s", "files_grace: 200ms")
	if database == "postgres" {
		const env = "ROLLCALL_TEST_DATABASE"
		o.t.Setenv(env, sqltest.Address(o.t, database))
		o.edit("rollcall.yaml", "database: rollcall.db", "database: {url: {env: "+env+"}}")
		o.must(exitUsage, "status") // PostgreSQL waits for migrate
		o.must(exitDone, "migrate")
	}
	o.must(exitDone, "policy", "approve", "patient-community", "--reason", "a test")
}

// edit replaces text in a file of the deployment, pair by pair.
func (o *operator) edit(name string, pairs ...string) {
	o.t.Helper()
	path := filepath.Join(o.dir, name)
	raw, err := os.ReadFile(path)
	if err != nil {
		o.t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !bytes.Contains(raw, []byte(pairs[i])) {
			o.t.Fatalf("%s does not hold %q", name, pairs[i])
		}
		raw = bytes.ReplaceAll(raw, []byte(pairs[i]), []byte(pairs[i+1]))
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// result is what a command did.
type result struct {
	code     int
	out, err string
}

// run runs a command with the deployment's configuration.
func (o *operator) run(stdin io.Reader, args ...string) result {
	o.t.Helper()
	var out, errOut bytes.Buffer
	args = append([]string{"-c", filepath.Join(o.dir, "rollcall.yaml")}, args...)
	code := run(o.t.Context(), args, stdin, &out, &errOut)
	o.printed.Write(out.Bytes())
	o.printed.Write(errOut.Bytes())
	return result{code, out.String(), errOut.String()}
}

// exitAny accepts every exit code.
const exitAny = -1

// must runs a command that has to end with this exit code.
func (o *operator) must(code int, args ...string) result {
	o.t.Helper()
	r := o.run(strings.NewReader(""), args...)
	if r.code != code && code != exitAny {
		o.t.Fatalf("rollcall %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.out, r.err)
	}
	return r
}

// asJSON runs a command with --json and decodes what it prints.
func asJSON[T any](o *operator, code int, args ...string) T {
	o.t.Helper()
	var v T
	r := o.must(code, append(args, "--json")...)
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		o.t.Fatalf("rollcall %s --json: %v\n%s", strings.Join(args, " "), err, r.out)
	}
	return v
}

// file writes a file into the deployment's folder.
func (o *operator) file(name, content string) string {
	o.t.Helper()
	path := filepath.Join(o.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		o.t.Fatal(err)
	}
	return path
}

func TestExitCodesAndUsage(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		args []string
		code int
		want string // in what is printed
	}{
		"help":                  {[]string{"--help"}, exitDone, "rollcall demo"},
		"no command":            {nil, exitDone, "Exit codes:"},
		"unknown command":       {[]string{"explode"}, exitUsage, "unknown command"},
		"unknown flag":          {[]string{"status", "--explode"}, exitUsage, "--explode"},
		"missing argument":      {[]string{"explain"}, exitUsage, "arg"},
		"unknown pass":          {[]string{"run", "explode"}, exitUsage, "explode"},
		"no configuration":      {[]string{"-c", dir + "/none.yaml", "status"}, exitUsage, "rollcall init"},
		"job without id":        {[]string{"job", "show"}, exitUsage, "arg"},
		"version":               {[]string{"version"}, exitDone, "rollcall"},
		"completion":            {[]string{"completion", "bash"}, exitDone, "complete"},
		"sandbox for the world": {[]string{"sandbox", "--listen", "0.0.0.0:0"}, exitUsage, "loopback"},
		"sandbox fault":         {[]string{"sandbox", "--fault", "explode"}, exitUsage, "explode"},
		"pause without reason":  {[]string{"pause"}, exitUsage, "--reason"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := run(t.Context(), tc.args, strings.NewReader(""), &out, &errOut)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if all := out.String() + errOut.String(); !strings.Contains(all, tc.want) {
				t.Errorf("%q is not in:\n%s", tc.want, all)
			}
		})
	}
}

// A pause that names nothing would stop nothing and say that it had.
func TestPauseOfNothingIsRefused(t *testing.T) {
	o := newOperator(t, "sqlite")
	for _, scope := range []string{"account:sandbx", "policy:patient-community/1", "policy:"} {
		if r := o.must(exitUsage, "pause", "--scope", scope, "--reason", "r"); !strings.Contains(r.err, "policy:patient-community") {
			t.Errorf("%s: the message does not list what there is: %s", scope, r.err)
		}
	}
	for _, args := range [][]string{{"tenant:x", "dispatch"}, {"everything", "dispatch"}, {"account:sandbox", "apply"}, {"policy:patient-community", "apply"},
		{"account:sandbox", "intake"}} {
		o.must(exitUsage, "pause", "--scope", args[0], "--stage", args[1], "--reason", "r")
	}
	for _, scope := range []string{"all", "account:sandbox", "policy:patient-community"} {
		o.must(exitDone, "pause", "--scope", scope, "--reason", "r")
	}
	o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
	o.must(exitDecision, "run")
	if b, err := o.box.Books(); err != nil || len(b.Jobs) > 0 {
		t.Errorf("jobs %v went out under a pause, %v", b.Jobs, err)
	}
}

// A mislaid database must not become an empty ledger: its reports would be
// taken for new and sent again.
func TestMislaidLedgerIsRefused(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
	db := filepath.Join(o.dir, "rollcall.db")
	if err := os.Rename(db, db+".away"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"status"}, {"intake", filepath.Join(o.dir, "r.jsonl")}, {"run"}, {"policy", "approve", "patient-community", "--reason", "r"}} {
		if r := o.must(exitUsage, args...); !strings.Contains(r.err, "no ledger") {
			t.Errorf("%v: %s", args, r.err)
		}
	}
	if _, err := os.Stat(db); err == nil {
		t.Error("a new database was made")
	}
}

func TestInterruptedCommandSaysSo(t *testing.T) {
	o := newOperator(t, "sqlite")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut bytes.Buffer
	if code := run(ctx, []string{"-c", filepath.Join(o.dir, "rollcall.yaml"), "run"}, strings.NewReader(""), &out, &errOut); code != exitInterrupted {
		t.Errorf("exit code %d, want %d: %s", code, exitInterrupted, errOut.String())
	}
}
