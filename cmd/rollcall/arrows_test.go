package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// pkg is what `go list -json` says of a package.
type pkg struct {
	ImportPath string
	Imports    []string
}

func listPackages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "rollcall/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestImportsPointInward holds the layers together:
//
//	cmd/rollcall → configs, sql, reconcile, batch/…
//	sql → reconcile → batch ← batch/…
func TestImportsPointInward(t *testing.T) {
	within := func(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }
	// Each package of a layer may import packages of the listed layers, and of its own.
	allowed := map[string][]string{
		"rollcall/batch":     {},
		"rollcall/reconcile": {"rollcall/batch"},
		"rollcall/sql":       {"rollcall/reconcile", "rollcall/batch"},
		"rollcall/configs":   {"rollcall/reconcile", "rollcall/batch"},
		"rollcall/cmd":       {"rollcall/configs", "rollcall/sql", "rollcall/reconcile", "rollcall/batch"},
	}
	// The core sees the contract, never an adapter.
	contractOnly := []string{"rollcall/reconcile", "rollcall/sql", "rollcall/configs"}
	database := []string{"database/sql", "github.com/jmoiron/sqlx", "github.com/lib/pq", "modernc.org/sqlite", "github.com/pressly/goose/v3"}

	seen := map[string]bool{}
	for _, p := range listPackages(t) {
		layer := strings.Join(strings.SplitN(p.ImportPath, "/", 3)[:2], "/")
		may, ok := allowed[layer]
		if !ok {
			t.Errorf("%s is in no layer", p.ImportPath)
			continue
		}
		seen[layer] = true
		for _, imp := range p.Imports {
			if slices.ContainsFunc(database, func(d string) bool { return within(imp, d) }) && layer != "rollcall/sql" {
				t.Errorf("%s imports %s: only rollcall/sql knows a database", p.ImportPath, imp)
			}
			if !strings.HasPrefix(imp, "rollcall/") || within(imp, layer) {
				continue
			}
			if !slices.ContainsFunc(may, func(r string) bool { return within(imp, r) }) {
				t.Errorf("%s imports %s, which points outward", p.ImportPath, imp)
			}
			if slices.Contains(contractOnly, layer) && strings.HasPrefix(imp, "rollcall/batch/") {
				t.Errorf("%s imports the adapter %s; it may know rollcall/batch only", p.ImportPath, imp)
			}
		}
	}
	for layer := range allowed {
		if !seen[layer] {
			t.Errorf("no package of layer %s was looked at", layer)
		}
	}
}
