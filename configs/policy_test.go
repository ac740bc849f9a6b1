package configs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
)

func TestLoadPoliciesTellsMistakes(t *testing.T) {
	for name, want := range map[string][]string{
		"valid":           nil,
		"unknown-field":   {": runs: must be between 1 and 100", ":16:1: run: is no known field; known here: policy, "},
		"other-name":      {":1:1: policy: must be the name of the file"},
		"version-zero":    {":2:1: version: must be 1 or more"},
		"version-word":    {":2:10: version: must be a whole number"},
		"answer-missing":  {`:7:1: terms.retention: is missing; write "unknown" if nobody knows yet`},
		"answer-empty":    {`:12:3: terms.training: is missing; write "unknown"`},
		"host-as-url":     {":5:1: host: must be a host name"},
		"host-missing":    {`: host: is missing; write "unknown"`},
		"authority":       {":14:1: authority: must be highest_accepted or highest_applied"},
		"attempts":        {":15:1: attempts: must be between 1 and 20"},
		"due":             {":18:8: review.due: must be a duration such as"},
		"on-due":          {":19:3: review.on_due: must be unclassified or wait"},
		"no-classifier":   {":13:1: classifier: has no folder in the classifiers folder"},
		"classifier-path": {":13:1: classifier: must be a name of lower-case letters"},
		"not-yaml":        {":20:8: is not YAML"},
		"many":            {":2:1: version: must be", ":7:1: terms.training: is missing", ":15:1: runs: must be between"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "policy", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "patient-community.yaml")
			write(t, file, string(text), 0o600)
			policies, err := LoadPolicies(filepath.Dir(file), "classifiers")
			if want == nil {
				if err != nil || len(policies) != 1 {
					t.Fatalf("%d policies, %v", len(policies), err)
				}
				return
			}
			checkMistakes(t, err, file, want)
			if policies != nil {
				t.Error("policies are returned beside an error")
			}
		})
	}
	everyFileHasACase(t, "testdata/policy", 17)
}

func TestLoadPoliciesTellsMistakesInClassifiers(t *testing.T) {
	const manifest, schema, instructions = "classifier.yaml", "answer.schema.json", "instructions.md"
	for name, tt := range map[string]struct {
		file, old, new string
		want           []string
	}{
		"unknown field":       {manifest, "max_output_tokens: 400", "max_tokens: 400", []string{": max_tokens: is no known field", ": max_output_tokens: must be 1 or more"}},
		"other name":          {manifest, "name: patient-community #", "name: posts #", []string{":3:1: name: must be the name of the folder"}},
		"version":             {manifest, "version: 1", "version: 0", []string{":4:1: version: must be 1 or more"}},
		"model":               {manifest, "gpt-4.1-mini-2025-04-14", "auto", []string{":7:1: model: must name one model"}},
		"temperature":         {manifest, "temperature: 0", "temperature: 2.5", []string{":9:1: temperature: must be between 0 and 2"}},
		"temperature is NaN":  {manifest, "temperature: 0", "temperature: .nan", []string{":9:1: temperature: must be between 0 and 2"}},
		"no number":           {manifest, "temperature: 0", "temperature: cold", []string{":9:14: temperature: must be a number"}},
		"label":               {manifest, "name: spam", "name: Spam!", []string{"labels[3].name: must be lower-case letters", "schema: the file's properties.label.enum"}},
		"label twice":         {manifest, "name: spam", "name: harassment", []string{`labels: "harassment" is empty or stands twice`, "schema: the file's properties.label.enum"}},
		"not YAML":            {manifest, "labels:", "labels: [", []string{"is not YAML"}},
		"instructions gone":   {manifest, "instructions.md", "other.md", []string{": instructions: there is no such file in the same folder"}},
		"outside the folder":  {manifest, "instructions.md", "../../policies/patient-community.yaml", []string{": instructions: must be a file in the same folder"}},
		"labels not listed":   {instructions, "{{labels}}", "unsafe_advice, harassment, self_harm, ok", []string{"labels[3].name: does not stand in the instructions"}},
		"schema is not JSON":  {schema, `"type": "object",`, `"type": "object"`, []string{": schema: the file is no JSON Schema with the property label"}},
		"schema field twice":  {schema, `"type": "object",`, `"type": "object", "type": "object",`, []string{": schema: the file is no JSON Schema"}},
		"schema lacks one":    {schema, `"spam", `, ``, []string{": schema: the file's properties.label.enum must hold the labels"}},
		"schema has one more": {schema, `"spam", `, `"spam", "other", `, []string{": schema: the file's properties.label.enum must hold the labels"}},
		"no evidence":         {schema, `"evidence": {`, `"quotes": {`, []string{": schema: the file has no property evidence"}},
		"not a JSON Schema":   {schema, `"maxItems": 3`, `"maxItems": "three"`, []string{": schema: is not a JSON Schema"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := Scaffold(dir, ScaffoldOptions{}); err != nil {
				t.Fatal(err)
			}
			folder := filepath.Join(dir, "classifiers", "patient-community")
			replace(t, filepath.Join(folder, tt.file), tt.old, tt.new)
			_, err := LoadPolicies(filepath.Join(dir, "policies"), filepath.Join(dir, "classifiers"))
			checkMistakes(t, err, filepath.Join(folder, manifest), tt.want)
		})
	}
}

// Leaving the temperature out is not the same as 0: it is not sent.
func TestTemperatureIsOptional(t *testing.T) {
	for line, want := range map[string]*float64{
		"temperature: 0":    new(0.0),
		"temperature: 0.25": new(0.25),
		"temperature:":      nil,
		"":                  nil,
	} {
		dir := t.TempDir()
		if _, err := Scaffold(dir, ScaffoldOptions{}); err != nil {
			t.Fatal(err)
		}
		replace(t, filepath.Join(dir, "classifiers", "patient-community", "classifier.yaml"), "temperature: 0 #", line+" #")
		policies, err := LoadPolicies(filepath.Join(dir, "policies"), filepath.Join(dir, "classifiers"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, policies[0].Classifier.Temperature); diff != "" {
			t.Errorf("%q (-want +got):\n%s", line, diff)
		}
	}
}

func replace(t *testing.T, file, old, with string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), old) == 0 {
		t.Fatalf("%s does not hold %q", file, old)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), old, with, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLoadPoliciesFolder(t *testing.T) {
	text, err := os.ReadFile("testdata/policy/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	named := func(name string) string { return strings.Replace(string(text), "patient-community", name, 1) }
	dir := t.TempDir()
	write(t, filepath.Join(dir, "zebra.yaml"), named("zebra"), 0o600)
	write(t, filepath.Join(dir, "ant.yaml"), named("ant"), 0o600)
	write(t, filepath.Join(dir, "README.md"), "not a policy", 0o600)
	write(t, filepath.Join(dir, "old.yaml", "posts.yaml"), "not a policy either", 0o600)
	policies, err := LoadPolicies(dir, "classifiers")
	if err != nil || len(policies) != 2 || policies[0].ID != "ant" || policies[1].ID != "zebra" {
		t.Fatalf("%d policies, %v", len(policies), err)
	}
	write(t, filepath.Join(dir, "bee.yml"), named("bee"), 0o600)
	_, err = LoadPolicies(dir, "classifiers")
	checkMistakes(t, err, filepath.Join(dir, "bee.yml"), []string{"must end with .yaml"})

	// A mistake that two policies share is told once, and those of both files.
	_, err = LoadPolicies(dir, filepath.Join(dir, "nowhere"))
	if n := len(parts(err)); n != 3 {
		t.Errorf("%d mistakes, want one for each file:\n%v", n, err)
	}
	if _, err := LoadPolicies(filepath.Join(dir, "nowhere"), "classifiers"); err == nil {
		t.Error("a folder that is not there is no error")
	}
}

// A line feed more or less, or from another system, is not another policy.
func TestPolicyIsTheSameFromAnySystem(t *testing.T) {
	spec := func(change func(string) string) string {
		dir := t.TempDir()
		if _, err := Scaffold(dir, ScaffoldOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"instructions.md", "answer.schema.json", "classifier.yaml"} {
			file := filepath.Join(dir, "classifiers", "patient-community", name)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			write(t, file, change(string(text)), 0o600)
		}
		policies, err := LoadPolicies(filepath.Join(dir, "policies"), filepath.Join(dir, "classifiers"))
		if err != nil {
			t.Fatal(err)
		}
		out, err := policies[0].Spec()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	want := spec(func(s string) string { return s })
	if got := spec(func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }); got != want {
		t.Error("files with CRLF are another policy")
	}
	if got := spec(func(s string) string { return s + "\n\n" }); got != want {
		t.Error("files with a blank line more are another policy")
	}
}

func TestExamplePolicy(t *testing.T) {
	c, err := Load("rollcall.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policies, err := LoadPolicies("policies", "classifiers")
	if err != nil || len(policies) != 1 {
		t.Fatalf("%d policies, %v", len(policies), err)
	}
	p := policies[0]
	if err := c.CheckPolicy(p); err != nil {
		t.Error(err)
	}
	if _, ok := c.SourceFor("acme-health", "forum"); !ok {
		t.Error("no source uses the policy")
	}
	if open := p.Pending(); len(open) != 5 {
		t.Errorf("an operator must answer all five terms before anything is sent; unknown are %v", open)
	}
	if !strings.Contains(p.Classifier.Instructions, "- harassment: Insults,") {
		t.Error("the labels are not in the instructions")
	}
	for _, l := range p.Classifier.Labels {
		if l.EvidenceRequired != (l.Name != "ok") {
			t.Errorf("label %s: evidence required is %v", l.Name, l.EvidenceRequired)
		}
	}
	ring, err := keyring.Generate()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reconcile.NewPolicyVersion(p, ring); err != nil {
		t.Error(err)
	}
}

// OpenAI refuses a job whose schema is outside of the strict subset.
func TestExampleSchemaIsStrict(t *testing.T) {
	policies, err := LoadPolicies("policies", "classifiers")
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(policies[0].Classifier.Schema, &root); err != nil {
		t.Fatal(err)
	}
	if root["type"] != "object" {
		t.Error("the root is no object")
	}
	checkStrict(t, "root", root)
}

func checkStrict(t *testing.T, at string, s map[string]any) {
	t.Helper()
	for key := range s {
		if !slices.Contains([]string{"type", "description", "enum", "properties", "required", "additionalProperties", "items", "maxItems"}, key) {
			t.Errorf("%s: %s is not in the strict subset", at, key)
		}
	}
	if items, ok := s["items"].(map[string]any); ok {
		checkStrict(t, at+".items", items)
	}
	if s["type"] != "object" {
		return
	}
	if s["additionalProperties"] != false {
		t.Errorf("%s: additionalProperties must be false", at)
	}
	required, _ := s["required"].([]any)
	for name, property := range s["properties"].(map[string]any) {
		if !slices.Contains(required, any(name)) {
			t.Errorf("%s: %s is not required", at, name)
		}
		checkStrict(t, at+"."+name, property.(map[string]any))
	}
}

func TestCheckPolicy(t *testing.T) {
	c := &Config{Accounts: []Account{{Name: "main", Provider: "openai", BaseURL: "https://EU.api.openai.com/v1", Region: "eu"}}}
	for name, tt := range map[string]struct {
		boundary reconcile.Boundary
		want     []string
	}{
		"same":    {reconcile.Boundary{Account: "main", Processor: "openai", Host: "eu.api.openai.com", Region: "eu"}, nil},
		"unknown": {reconcile.Boundary{Account: "main", Processor: "unknown", Host: "Unknown", Region: "unknown"}, nil},
		"pending": {reconcile.Boundary{Account: "unknown", Processor: "openai", Host: "x", Region: "y"}, nil},
		"gone":    {reconcile.Boundary{Account: "other", Processor: "openai", Host: "x", Region: "y"}, []string{"account: the configuration has no account"}},
		"differs": {reconcile.Boundary{Account: "main", Processor: "acme", Host: "api.openai.com", Region: "us"}, []string{
			`processor: is "acme", but account main has "openai"`, `host: is "api.openai.com", but account main has "eu.api.openai.com"`,
			`region: is "us", but account main has "eu"`}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.CheckPolicy(reconcile.Policy{ID: "posts", Version: 2, Boundary: tt.boundary})
			if tt.want == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			checkMistakes(t, err, "policy posts/2: ", tt.want)
		})
	}
}
