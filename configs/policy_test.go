package configs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall/batch"
	"rollcall/batch/contentsafety"
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
		"temperature":         {manifest, "temperature: 0", "temperature: 2.5", []string{":12:1: temperature: must be between 0 and 2"}},
		"temperature is NaN":  {manifest, "temperature: 0", "temperature: .nan", []string{":12:1: temperature: must be between 0 and 2"}},
		"no number":           {manifest, "temperature: 0", "temperature: cold", []string{":12:14: temperature: must be a number"}},
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

// scoring is a folder with a policy whose classifier is the example for scores.
func scoring(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if _, err := Scaffold(dir, ScaffoldOptions{}); err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(dir, "policies", "patient-community.yaml"), "classifier: patient-community", "classifier: content-safety")
	return dir
}

func TestLoadPoliciesTellsMistakesInThresholds(t *testing.T) {
	const manifest, schema, first = "classifier.yaml", "answer.schema.json", "{category: SelfHarm, score: 2, label: self_harm}"
	for name, tt := range map[string]struct {
		folder, file, old, new string
		want                   []string
	}{
		"unknown field":        {"content-safety", manifest, first, "{category: SelfHarm, severity: 2, label: self_harm}", []string{":43:6: thresholds[0].score: must be a number above 0", ":43:26: thresholds[0].severity: is no known field"}},
		"no category":          {"content-safety", manifest, first, "{score: 2, label: self_harm}", []string{":43:6: thresholds[0].category: is missing"}},
		"met by all":           {"content-safety", manifest, first, "{category: SelfHarm, score: 0, label: self_harm}", []string{":43:26: thresholds[0].score: must be a number above 0"}},
		"no number":            {"content-safety", manifest, first, "{category: SelfHarm, score: high, label: self_harm}", []string{":43:33: thresholds[0].score: must be a number"}},
		"no such label":        {"content-safety", manifest, first, "{category: SelfHarm, score: 2, label: suicide}", []string{`:43:36: thresholds[0].label: "suicide" is no label of the schema`}},
		"never looked at":      {"content-safety", manifest, "category: Violence", "category: Hate", []string{`:45:22: thresholds[2].score: is never looked at`}},
		"otherwise unknown":    {"content-safety", manifest, "otherwise: not_flagged", "otherwise: fine", []string{`:47:1: otherwise: "fine" is no label of the schema`}},
		"otherwise missing":    {"content-safety", manifest, "otherwise: not_flagged", "", []string{`: otherwise: "" is no label of the schema`}},
		"two cases":            {"content-safety", manifest, "category: Violence", "category: hate", []string{":50:1: schema: takes no answer that is made of scores (answer: duplicate_key)"}},
		"an echo":              {"content-safety", manifest, "otherwise:", "echo: true\notherwise:", []string{":47:1: echo: is not asked for with thresholds"}},
		"a question":           {"content-safety", manifest, "otherwise:", "max_output_tokens: 1\ninstructions: classifier.yaml\ntemperature: 0\notherwise:", []string{":47:1: max_output_tokens: is not asked for", ":48:1: instructions: is not asked for", ":49:1: temperature: is not asked for"}},
		"evidence":             {"content-safety", manifest, "  - name: harassment\n", "  - name: harassment\n    evidence_required: true\n", []string{": labels[1].evidence_required: must be false with thresholds", "schema: the file has no property evidence"}},
		"schema wants more":    {"content-safety", schema, `"required": [`, `"required": ["evidence", `, []string{":50:1: schema: takes no answer that is made of scores (answer: schema)"}},
		"schema takes less":    {"content-safety", schema, `"not_assessed": {`, `"unseen": {`, []string{":50:1: schema: takes no answer that is made of scores (answer: schema)"}},
		"scores are texts":     {"content-safety", schema, `"number", "minimum": 0, "maximum": 7`, `"string"`, []string{":50:1: schema: takes no answer that is made of scores (answer: schema)"}},
		"below a threshold":    {"content-safety", schema, `"maximum": 7`, `"maximum": 3`, []string{":50:1: schema: takes no answer that is made of scores (answer: schema)"}},
		"no thresholds":        {"patient-community", manifest, "echo: false", "otherwise: ok", []string{": otherwise: says nothing without thresholds"}},
		"a token of its own":   {"patient-community", schema, `"evidence": {`, `"token": {"type": "string"}, "evidence": {`, []string{": echo: the schema must be an object with properties and required, and have no property token"}},
		"nothing is required":  {"patient-community", schema, `"required": ["label", "evidence"],`, ``, []string{": echo: the schema must be an object with properties and required"}},
		"echo is not a switch": {"patient-community", manifest, "echo: false", "echo: yes please", []string{": echo: must be true or false"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := scoring(t)
			if tt.folder == "patient-community" {
				replace(t, filepath.Join(dir, "policies", "patient-community.yaml"), "classifier: content-safety", "classifier: patient-community")
			}
			folder := filepath.Join(dir, "classifiers", tt.folder)
			if tt.folder == "patient-community" && tt.file == schema {
				replace(t, filepath.Join(folder, manifest), "echo: false", "echo: true")
			}
			replace(t, filepath.Join(folder, tt.file), tt.old, tt.new)
			_, err := LoadPolicies(filepath.Join(dir, "policies"), filepath.Join(dir, "classifiers"))
			checkMistakes(t, err, filepath.Join(folder, manifest), tt.want)
		})
	}
}

// The example for scores gives the labels that it claims, names those that it
// cannot give, and none of its answers calls a text ok.
func TestExampleOfScores(t *testing.T) {
	dir := scoring(t)
	policies, err := LoadPolicies(filepath.Join(dir, "policies"), filepath.Join(dir, "classifiers"))
	if err != nil {
		t.Fatal(err)
	}
	question := policies[0].Question()
	for want, scores := range map[string]map[string]float64{
		"self_harm":   {"SelfHarm": 2, "Hate": 6, "Violence": 6, "Sexual": 6},
		"harassment":  {"SelfHarm": 1, "Hate": 4, "Violence": 0, "Sexual": 6},
		"sexual":      {"SelfHarm": 1, "Hate": 3, "Violence": 3, "Sexual": 4},
		"not_flagged": {"SelfHarm": 1, "Hate": 3, "Violence": 3, "Sexual": 3},
	} {
		content, err := batch.Scores{Scores: scores}.Content()
		if err != nil {
			t.Fatal(err)
		}
		got := batch.Judge(question, batch.Result{Outcome: batch.Answered, Content: content})
		if !strings.HasPrefix(string(got.Content), `{"label":"`+want+`","not_assessed":["unsafe_advice","spam","ok"],`) {
			t.Errorf("%v: %s, %s", scores, got.Outcome, got.Content)
		}
	}
	for _, category := range []string{contentsafety.Hate, contentsafety.SelfHarm, contentsafety.Sexual, contentsafety.Violence} {
		if !slices.ContainsFunc(question.Thresholds, func(x batch.Threshold) bool {
			return x.Category == category && x.Score <= contentsafety.MaxSeverity
		}) {
			t.Errorf("no threshold for %s", category)
		}
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

// A field that is new to policies must not make another text of those that do not
// use it: their MAC would no longer be the one that was approved.
func TestExamplePolicyKeepsItsMAC(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rollcall.keyring")
	key := func(b string) string { return strings.Repeat(b, 42) + "8=" }
	write(t, file, `{"comment":"","id_key":{"id":"id-1","key":"`+key("A")+`"},"mac_key":{"id":"mac-1","key":"`+key("B")+`"},"text_keys":[{"id":"text-1","key":"`+key("C")+`"}]}`, 0o600)
	ring, err := keyring.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	policies, err := LoadPolicies("policies", "classifiers")
	if err != nil {
		t.Fatal(err)
	}
	v, err := reconcile.NewPolicyVersion(policies[0], ring)
	if err != nil {
		t.Fatal(err)
	}
	const approved = "cc670529354f729838b9f87abd1d68b75017814b9403bca8b8926a33a47f0269"
	if v.SpecMAC != approved {
		t.Errorf("MAC %s, approved was %s; another one is right only where the example itself was changed", v.SpecMAC, approved)
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
