package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rollcall/batch/sandbox"
)

// runs runs a command without a deployment of its own.
func runs(t *testing.T, code int, args ...string) (out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	if got := run(t.Context(), args, strings.NewReader(""), &o, &e); got != code {
		t.Fatalf("%v: exit code %d, want %d\n%s%s", args, got, code, o.String(), e.String())
	}
	return o.String(), e.String()
}

// onSandbox is a deployment that calls a sandbox of this test as a provider.
func onSandbox(t *testing.T, word string) (config string, box *runningSandbox, as sandboxed) {
	t.Helper()
	as, err := sandboxedAs(word)
	if err != nil {
		t.Fatal(err)
	}
	opts, err := as.options()
	if err != nil {
		t.Fatal(err)
	}
	opts.Dir, opts.Faults, opts.Log = t.TempDir(), nil, quiet
	if box, err = startSandbox("127.0.0.1:0", opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = box.stop() })
	dir := t.TempDir()
	runs(t, exitDone, "init", dir, "--sandbox", "http://"+box.address+as.path, "--provider", word)
	return filepath.Join(dir, "rollcall.yaml"), box, as
}

func TestProviderCheck(t *testing.T) {
	for word, want := range map[string]struct {
		plain  string
		op     string // that --try alone asks for
		denied string // how it is kept from being answered
	}{
		"openai":    {"it accepts the key and lists 0 jobs", "", ""},
		"anthropic": {"it accepts the key and lists 0 jobs", "message", "unauthorized:op=message"},
		"infrai":    {"each gate is open", "", ""},
		"azure":     {"rollcall provider check sandbox --try", "analyze", "unauthorized:op=analyze"},
		"inhouse":   {"rollcall provider check sandbox --try", "chat", "unauthorized:op=chat"},
	} {
		t.Run(word, func(t *testing.T) {
			config, box, _ := onSandbox(t, word)
			asked := func() (n int64) {
				t.Helper()
				books, err := box.Books()
				if err != nil {
					t.Fatal(err)
				}
				return books.Requests[want.op]
			}
			out, _ := runs(t, exitDone, "-c", config, "provider", "check")
			if !strings.Contains(out, want.plain) {
				t.Errorf("%q is not in:\n%s", want.plain, out)
			}
			if n := asked(); want.op != "" && n != 0 {
				t.Errorf("%d calls that cost something were made unasked", n)
			}
			out, _ = runs(t, exitDone, "-c", config, "provider", "check", "sandbox", "--try")
			if want.op == "" {
				return
			}
			if n := asked(); n != 1 || !strings.Contains(out, "a made-up text was answered as it must be") {
				t.Errorf("%d calls:\n%s", n, out)
			}
			fault, err := sandbox.ParseFault(want.denied)
			if err != nil {
				t.Fatal(err)
			}
			if err := box.SetFaults(fault); err != nil {
				t.Fatal(err)
			}
			out, _ = runs(t, exitDecision, "-c", config, "provider", "check", "--try", "--json")
			var said struct{ Checks []diagnosis }
			if err := json.Unmarshal([]byte(out), &said); err != nil {
				t.Fatal(err)
			}
			if last := said.Checks[len(said.Checks)-1]; last.State != healthBad || !strings.Contains(last.Found, "it refuses the key") {
				t.Errorf("found %+v", said.Checks)
			}
			if _, errOut := runs(t, exitUsage, "-c", config, "provider", "check", "other"); !strings.Contains(errOut, "has no account other") {
				t.Error(errOut)
			}
		})
	}
}

// TestProviderCheckNamesTheClosedGate: what opens it is said.
func TestProviderCheckNamesTheClosedGate(t *testing.T) {
	config, _, _ := onSandbox(t, "infrai")
	edit := func(old, new string) {
		t.Helper()
		raw, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(config, []byte(strings.Replace(string(raw), old, new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, gate := range []struct{ old, new, says, opens string }{
		{"data_class: synthetic", "data_class: health", "gate_data_class_not_permitted", "infrai.data_class"},
		{"vendors: [openai]", "vendors: []", "gate_vendors_empty", "infrai.vendors"},
		{"pin: sandbox.pin.json", `pin: ""`, "gate_pin_missing", "rollcall provider pin infrai"},
	} {
		edit(gate.old, gate.new)
		out, _ := runs(t, exitDone, "-c", config, "provider", "check")
		if !strings.Contains(out, gate.says) || !strings.Contains(out, gate.opens) {
			t.Errorf("%s and %q are not in:\n%s", gate.says, gate.opens, out)
		}
	}
	edit(`pin: ""`, "pin: no-such-file")
	if _, errOut := runs(t, exitUsage, "-c", config, "config", "check"); !strings.Contains(errOut, "rollcall.yaml:") || !strings.Contains(errOut, "accounts[0]: the pin cannot be read") {
		t.Errorf("config check says:\n%s", errOut)
	}
}

// TestEveryGateHasARemedy: a gate that is new must say what opens it.
func TestEveryGateHasARemedy(t *testing.T) {
	source, err := os.ReadFile("../../batch/infrai/gate.go")
	if err != nil {
		t.Fatal(err)
	}
	gates := regexp.MustCompile(`= "(gate_[a-z_]+)"`).FindAllSubmatch(source, -1)
	for _, g := range gates {
		if gateRemedies[string(g[1])] == "" {
			t.Errorf("nothing says what opens %s", g[1])
		}
	}
	if len(gates) != len(gateRemedies) {
		t.Errorf("%d gates, %d remedies", len(gates), len(gateRemedies))
	}
}

// TestConfigCheckTellsWhatTheClientKnows: a region that has another host.
func TestConfigCheckTellsWhatTheClientKnows(t *testing.T) {
	dir := t.TempDir()
	runs(t, exitDone, "init", dir)
	config := filepath.Join(dir, "rollcall.yaml")
	for name, change := range map[string][2]string{config: {"https://eu.api.openai.com/v1", "https://api.openai.com/v1"}, filepath.Join(dir, "policies", "patient-community.yaml"): {"eu.api.openai.com", "api.openai.com"}} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, bytes.Replace(raw, []byte(change[0]), []byte(change[1]), 1), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "openai.key"), []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errOut := runs(t, exitUsage, "-c", config, "config", "check"); !strings.Contains(errOut, "accounts[0]: openai: region is eu") || !strings.Contains(errOut, "rollcall.yaml:") {
		t.Errorf("config check says:\n%s", errOut)
	}
}

func TestProviderPin(t *testing.T) {
	const docs = "../../batch/infrai/testdata/"
	files := []string{docs + "reading.json", docs + "ai.batch.submit.json", docs + "ai.batch.status.json", docs + "ai.batch.results.json"}
	args := append([]string{"provider", "pin", "infrai"}, files...)
	out, _ := runs(t, exitDone, args...)
	path := filepath.Join(t.TempDir(), "pin.json")
	if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if pin, err := readPin(path); err != nil || len(pin.Documents) != 3 {
		t.Errorf("the pin on stdout: %v", err)
	}
	_, errOut := runs(t, exitUsage, append(args, "--out", path)...)
	if !strings.Contains(errOut, "exists") {
		t.Error(errOut)
	}
	other := filepath.Join(t.TempDir(), "other.json")
	if _, errOut := runs(t, exitDone, append(args, "--out", other)...); !strings.Contains(errOut, "ai.batch.results") {
		t.Error(errOut)
	}
	if pin, err := sandboxPin(other); err != nil || pin == nil {
		t.Errorf("the pin in a file: %v", err)
	}
	if _, errOut := runs(t, exitUsage, args[:4]...); !strings.Contains(errOut, "infrai: pin: ") {
		t.Error(errOut)
	}
}

// TestAssumedPinIsTheOneOfTheAdapter: both sides are tested with one pin.
func TestAssumedPinIsTheOneOfTheAdapter(t *testing.T) {
	raw, err := os.ReadFile(assumedPin)
	if err != nil || !bytes.Equal(raw, sandbox.AssumedPin) {
		t.Errorf("the sandbox's pin is another one (%v)", err)
	}
}

func TestSandboxAndInitRefuseWhatTheyDoNotKnow(t *testing.T) {
	for _, args := range [][]string{
		{"init", t.TempDir(), "--sandbox", "http://127.0.0.1:8089/v1", "--provider", "groq"},
		{"init", t.TempDir(), "--provider", "anthropic"},
		{"demo", "--provider", "groq"},
		{"sandbox", "--infrai-pin", "no-such-file"},
	} {
		runs(t, exitUsage, args...)
	}
}
