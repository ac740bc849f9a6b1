package configs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rollcall/reconcile"
)

// marker stands in the testdata wherever somebody might paste a secret.
const marker = "sk-MARKER-7f3A"

func TestLoadTellsMistakes(t *testing.T) {
	const none = "<none>"
	for name, want := range map[string][]string{
		"valid":                            {none},
		"unknown-field":                    {":1:1: databse: is no known field; known here: database, "},
		"unknown-nested-field":             {":5:5: accounts[0].regoin: is no known field; known here: name, ", ":2:5: accounts[0].region: is missing"},
		"field-twice":                      {":10:1: chunk: stands twice; it is on line 9 already"},
		"not-yaml":                         {":1:11: is not YAML: sequence end token ']' not found"},
		"two-documents":                    {"more than one YAML document; remove the ---"},
		"alias":                            {":5:13: accounts[0].region: anchors, aliases and tags are not supported"},
		"empty":                            {".yaml: accounts: is missing", ".yaml: sources: is missing"},
		"list-at-the-top":                  {":1:1: must be a mapping with the fields database, "},
		"inline-key":                       {":6:14: accounts[0].api_key: a secret does not stand in this file: put it into a file with mode 600 and write {file: NAME}"},
		"key-pasted-as-field":              {":6:15: accounts[0].api_key: is no known field; known here: file, env"},
		"key-pasted-as-variable":           {":6:15: accounts[0].api_key.env: must be the name of an environment variable"},
		"key-in-file-and-variable":         {":6:5: accounts[0].api_key: names both"},
		"key-missing":                      {":2:5: accounts[0].api_key: is missing; write {file: NAME} or {env: NAME}"},
		"key-in-url":                       {":4:5: accounts[0].base_url: must be scheme, host and path only"},
		"database-password":                {":1:1: database: a password does not stand in this file: put the whole address into a file with mode 600 and write {url: {file: NAME}}"},
		"database-password-in-query":       {":1:1: database: a password does not stand in this file"},
		"database-keywords":                {":1:1: database: must be written as postgres://USER@HOST/NAME"},
		"database-unreadable":              {":1:1: database: is not a postgres:// address that can be read"},
		"database-other":                   {":1:1: database: must be a SQLite file or a postgres:// address"},
		"database-inline-url":              {":1:17: database.url: a secret does not stand in this file"},
		"database-odd-name":                {":1:1: database: the name of a SQLite file must not hold ?, # or %"},
		"account-name":                     {":2:5: accounts[0].name: must be a name of lower-case letters"},
		"account-twice":                    {":7:5: accounts[1].name: is also the name of accounts[0]"},
		"account-provider":                 {":3:5: accounts[0].provider: must be one of: openai"},
		"account-without-url":              {":2:5: accounts[0].base_url: is missing; OpenAI's own is https://api.openai.com/v1"},
		"account-plain-http":               {":4:5: accounts[0].base_url: must begin with https://; plain http is for a sandbox"},
		"account-on-this-machine":          {":4:5: accounts[0].base_url: is on this machine; set allow_loopback: true"},
		"account-loopback-elsewhere":       {":4:5: accounts[0].base_url: must be on this machine"},
		"account-without-region":           {":5:5: accounts[0].region: is missing"},
		"account-project":                  {":7:5: accounts[0].project: must be an id without white space"},
		"account-range":                    {":7:37: accounts[0].permitted_ranges[1]: must be a range such as 10.20.0.0/16"},
		"account-own-name":                 {none},
		"account-inhouse-permitted":        {none},
		"account-own-name-without-dialect": {":3:5: accounts[0].provider: must be one of: openai, azure-openai, groq, anthropic, infrai, azure-content-safety, inhouse; or a name of your own"},
		"account-section-of-another":       {":7:5: accounts[0].anthropic: goes with another provider; the section of provider openai is openai"},
		"account-section-unknown-field":    {":7:14: accounts[0].openai.endpont: is no known field; known here: endpoint, "},
		"account-dialect-by-name-and-like": {":7:24: accounts[0].openai.dialect.like: goes with a provider of a name of your own"},
		"account-endpoint":                 {":7:14: accounts[0].openai.endpoint: must be one of: chat, responses, moderations"},
		"account-query":                    {":8:7: accounts[0].openai.query: must hold names", ":9:20: accounts[0].openai.deployments: must be a mapping"},
		"account-query-of-the-client":      {":8:7: accounts[0].openai.query: must not hold after", ":9:7: accounts[0].openai.deployments: must hold the names"},
		"account-query-twice":              {":10:9: accounts[0].openai.query: holds a name twice"},
		"account-dialect": {":9:9: accounts[0].openai.dialect.like: must be one of: openai, azure, groq", ":10:9: accounts[0].openai.dialect.key_header: must be a name in lower case",
			":11:9: accounts[0].openai.dialect.window: must be hours or days", ":12:18: accounts[0].openai.dialect.expiry.min: is longer than expiry.max",
			":13:9: accounts[0].openai.dialect.settlement: must be one of: listing, results", ":14:18: accounts[0].openai.dialect.limits.items: must be between 0",
			":15:32: accounts[0].openai.dialect.data_classes[1]: must be one of: synthetic, ", ":16:9: accounts[0].openai.dialect.role: must be a name",
			":17:9: accounts[0].openai.dialect.tokens_field: must be a name", ":18:9: accounts[0].openai.dialect.residency.domain: is missing",
			":18:31: accounts[0].openai.dialect.residency.regions[0]: must be a name in lower case"},
		"account-anthropic": {":8:7: accounts[0].anthropic.version: must be a date", ":9:7: accounts[0].anthropic.auth: must be one of: x-api-key, bearer",
			":10:7: accounts[0].anthropic.output: must be one of: json_schema, tool", ":11:7: accounts[0].anthropic.workspace: must be an id"},
		"account-anthropic-path": {":4:5: accounts[0].base_url: must not end with /v1"},
		"account-of-openai-only": {":7:5: accounts[0].organization: goes with services that have OpenAI's API only", ":8:5: accounts[0].project: goes with services"},
		"account-infrai": {":5:5: accounts[0].region: must not be auto", ":8:25: accounts[0].infrai.vendors[1]: must be a name as the provider gives it",
			":9:7: accounts[0].infrai.data_class: must be one of: synthetic, "},
		"account-infrai-path":    {":4:5: accounts[0].base_url: must be scheme and host only"},
		"account-content-safety": {":7:22: accounts[0].content_safety.api_version: must be a version", ":7:43: accounts[0].content_safety.segment: must be between 1000 and 10000"},
		"account-entra": {":7:7: accounts[0].content_safety.entra.secret: is missing", ":8:9: accounts[0].content_safety.entra.tenant: must be",
			":9:9: accounts[0].content_safety.entra.client_id: must be", ":10:9: accounts[0].content_safety.entra.login_url: must be scheme and host"},
		"account-entra-and-key":       {":6:5: accounts[0].api_key: is not used beside content_safety.entra"},
		"account-entra-inline-secret": {":7:48: accounts[0].content_safety.entra.secret: a secret does not stand in this file"},
		"account-inhouse": {":7:15: accounts[0].inhouse.schema_form: must be one of: nested, direct", ":7:34: accounts[0].inhouse.reasoning_effort: must be a word",
			":7:58: accounts[0].inhouse.max_text: must be at most 1GiB", ":7:89: accounts[0].inhouse.trust_context: must be true or false"},
		"account-inhouse-plain-http": {":4:5: accounts[0].base_url: must begin with https://; plain http needs the host's range in permitted_ranges"},
		"account-called": {":7:5: accounts[0].limits: goes with accounts that have jobs", ":8:5: accounts[0].transfer_timeout: goes with accounts that have jobs",
			":9:12: accounts[0].rate.calls: must be between 1 and", ":9:22: accounts[0].rate.interval: must be longer than 0", ":9:36: accounts[0].rate.at_once: must be between 1 and 1000"},
		"account-rate-of-jobs":     {":7:5: accounts[0].rate: goes with accounts that texts go to one by one"},
		"accounts-missing":         {".yaml: accounts: is missing"},
		"accounts-not-a-list":      {":1:11: accounts: must be a list"},
		"sources-missing":          {".yaml: sources: is missing"},
		"source-twice":             {":9:6: sources[1]: is for the same tenant and system as sources[0]"},
		"source-incomplete":        {`:8:6: sources[0].system: is missing; write "*" for any`, ":8:6: sources[0].policy: must be a name"},
		"source-rule":              {":8:48: sources[0].same_revision: must be conflict or new_revision"},
		"source-digest-of-nothing": {":8:6: sources[0].digest_of: is missing; name the input fields"},
		"source-digest-unasked":    {":8:48: sources[0].digest_of: goes with identity: digest only"},
		"source-digest-repeats":    {":8:84: sources[0].digest_of[1]: is empty or stands twice"},
		"intake-same-field":        {":10:3: intake.fields.text: is the same input field as intake.fields.id"},
		"duration":                 {":10:10: poll.first: must be a duration such as 90s, 15m, 24h or 7d"},
		"duration-negative":        {":9:8: lease: must be a duration"},
		"duration-zero":            {":9:1: lease: must be longer than 0"},
		"poll-order":               {":9:8: poll.first: is longer than poll.max"},
		"unread-too-late":          {": check.unread_after: is not shorter than submit.output_expiry"},
		"expiry":                   {":10:3: submit.output_expiry: must be between 1h and 30d, or 0"},
		"size":                     {":10:14: jobs.max_bytes: must be a size such as 190MB, 8MiB"},
		"whole-number":             {":10:14: jobs.max_items: must be a whole number"},
		"number-too-large":         {":10:14: jobs.max_items: must be a whole number"},
		"bounds":                   {":9:8: jobs.max_items: must be between 1 and 1000000", ":9:22: jobs.bytes_per_token: must be between 1 and 16"},
		"item-above-job":           {":9:26: jobs.max_item_tokens: is above jobs.max_tokens"},
		"not-a-switch":             {":7:21: accounts[0].allow_loopback: must be true or false"},
		"log-level":                {":9:7: log.level: must be trace, debug, info, warn or error"},
		"webhook-secret-inline":    {":7:25: accounts[0].webhook.secrets[0]: a secret does not stand in this file"},
		"webhook-secret-missing":   {":7:26: accounts[0].webhook.secrets[0]: is missing; write {file: NAME} or {env: NAME}"},
		"webhook-secret-twice":     {":7:50: accounts[0].webhook.secrets[1]: stands twice"},
		"webhook-unknown-field":    {":7:15: accounts[0].webhook.secret: is no known field; known here: secrets"},
		"webhook-of-another":       {":7:5: accounts[0].webhook: is for openai only"},
		"many": {":1:1: chunk: must be", ":3:5: accounts[0].name: must be", ":6:5: accounts[0].region: is missing",
			":9:33: sources[0].policy: must be", ":10:8: lease: must be a duration"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "config", name+".yaml")
			_, err := Load(file)
			if want[0] == none {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			checkMistakes(t, err, file, want)
		})
	}
	everyFileHasACase(t, "testdata/config", 85)
}

// checkMistakes wants one error for each fragment, each naming the file, and no
// other.
func checkMistakes(t *testing.T, err error, file string, want []string) {
	t.Helper()
	if err == nil {
		t.Fatal("no mistake was told")
	}
	told := parts(err)
	for _, e := range told {
		if !strings.HasPrefix(e.Error(), file) {
			t.Errorf("does not begin with the file's name: %v", e)
		}
	}
	for _, fragment := range want {
		if !strings.Contains(err.Error(), fragment) {
			t.Errorf("not told: %s\ntold:\n%v", fragment, err)
		}
	}
	if strings.Contains(err.Error(), "MARKER") {
		t.Errorf("a secret is quoted: %v", err)
	}
	if len(told) != len(want) {
		t.Errorf("told %d mistakes, want %d:\n%v", len(told), len(want), err)
	}
}

func everyFileHasACase(t *testing.T, dir string, cases int) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.yaml")
	if err != nil || len(files) != cases {
		t.Errorf("%s holds %d files for %d cases (%v)", dir, len(files), cases, err)
	}
}

// What the example says about a field left out must be true, and it must show
// every field.
func TestExampleShowsEveryFieldWithItsDefault(t *testing.T) {
	c, err := Load("rollcall.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	diff := cmp.Diff(want, c, cmpopts.IgnoreUnexported(Config{}, Secret{}), cmpopts.IgnoreFields(Config{}, "Accounts", "Sources"))
	if diff != "" {
		t.Errorf("the example differs from the defaults (-default +example):\n%s", diff)
	}
	bare := Source{Tenant: "acme-health", System: "*", Policy: "patient-community"}
	bare.fillIn()
	if diff := cmp.Diff(bare, c.Sources[0], cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the example's source differs from the defaults:\n%s", diff)
	}
	otherProviders := commentedAccounts(t)
	for _, field := range yamlFields(reflect.TypeFor[Config](), "") {
		switch field {
		case "database.url", "database.max_connections", "database.url.file", "database.url.env", "accounts[0].api_key.env", "accounts[0].content_safety.entra.secret.env": // alternatives, in comments
			continue
		}
		if strings.HasPrefix(field, "accounts[0].prices[0].") { // in comments too: nobody is to take over a price that is out of date
			continue
		}
		if otherProviders.shows(field) || strings.HasPrefix(field, "accounts[0].webhook.secrets[0].") { // in a comment: there is none by default
			continue
		}
		if _, ok := c.doc.marks[field]; !ok {
			t.Errorf("the example does not show %s", field)
		}
	}
}

// commentedAccounts are the accounts that the example shows in comments, as a
// reader has them who takes the comment signs away.
func commentedAccounts(t *testing.T) *Config {
	t.Helper()
	raw, err := os.ReadFile("rollcall.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "  # "); ok && (strings.HasPrefix(rest, "- name:") || strings.HasPrefix(rest, "  ")) {
			line = "  " + rest
		}
		lines = append(lines, line)
	}
	file := filepath.Join(t.TempDir(), "rollcall.yaml")
	write(t, file, strings.Join(lines, ""), 0o600)
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// shows is whether any account has a field, named as one of the first.
func (c *Config) shows(field string) bool {
	rest, ok := strings.CutPrefix(field, "accounts[0].")
	for i := range c.Accounts {
		if _, shown := c.doc.marks[fmt.Sprintf("accounts[%d].%s", i, rest)]; ok && shown {
			return true
		}
	}
	return false
}

// TestExampleShowsEachProvider: what a reader gets who takes the comment signs
// away is read as it is meant, and there is an account of each provider.
func TestExampleShowsEachProvider(t *testing.T) {
	c := commentedAccounts(t)
	var names []string
	for _, a := range c.Accounts {
		names = append(names, a.Provider)
	}
	for _, p := range providers {
		if !slices.Contains(names, p.name) {
			t.Errorf("no account of %s is shown", p.name)
		}
	}
}

func yamlFields(t reflect.Type, path string) []string {
	switch t.Kind() {
	case reflect.Pointer:
		return yamlFields(t.Elem(), path)
	case reflect.Slice:
		return yamlFields(t.Elem(), path+"[0]")
	case reflect.Struct:
		var out []string
		for name, i := range fieldsOf(t) {
			field := strings.TrimPrefix(path+"."+name, ".")
			out = append(append(out, field), yamlFields(t.Field(i).Type, field)...)
		}
		return out
	}
	return nil
}

func TestSettings(t *testing.T) {
	if diff := cmp.Diff(reconcile.DefaultSettings(), Default().Settings()); diff != "" {
		t.Errorf("defaults (-reconcile +configs):\n%s", diff)
	}
	// Every setting can be set: no field of the example's neighbour has its default.
	c, err := Load("testdata/all-changed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, def := reflect.ValueOf(c.Settings()), reflect.ValueOf(reconcile.DefaultSettings())
	for i := range got.NumField() {
		if got.Field(i).Interface() == def.Field(i).Interface() {
			t.Errorf("%s cannot be set by the file", got.Type().Field(i).Name)
		}
	}
}

func TestPathsStartAtTheFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rollcall.yaml")
	write(t, file, `
database: sqlite:ledger/rollcall.db
keyring: /etc/rollcall/keyring
accounts:
  - {name: main, provider: openai, base_url: "https://api.openai.com/v1", region: us, api_key: {file: keys/openai.key}, ca_file: ca.pem}
sources:
  - {tenant: "*", system: "*", policy: posts}
`, 0o600)
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		c.Database.Path: "ledger/rollcall.db", c.Policies: "policies", c.Classifiers: "classifiers",
		c.Accounts[0].APIKey.File: "keys/openai.key", c.Accounts[0].CAFile: "ca.pem",
	} {
		if got != filepath.Join(dir, want) {
			t.Errorf("%s, want %s inside %s", got, want, dir)
		}
	}
	if c.Keyring != "/etc/rollcall/keyring" {
		t.Errorf("an absolute path was changed to %s", c.Keyring)
	}
	if a, ok := c.Account("main"); !ok || a.Host() != "api.openai.com" {
		t.Errorf("account main: %v, host %s", ok, a.Host())
	}
	if _, ok := c.Account("other"); ok {
		t.Error("an account that is not there was found")
	}
}

func TestSourceFor(t *testing.T) {
	c := &Config{Sources: []Source{
		{Tenant: "*", System: "*", Policy: "any"},
		{Tenant: "*", System: "forum", Policy: "any-forum"},
		{Tenant: "acme", System: "*", Policy: "acme-any"},
		{Tenant: "acme", System: "forum", Policy: "acme-forum"},
		{Tenant: "birch", System: "*", Policy: "birch-any"},
	}}
	for _, tt := range []struct{ tenant, system, want string }{
		{"acme", "forum", "acme-forum"},
		{"acme", "chat", "acme-any"},
		{"birch", "forum", "birch-any"}, // a named tenant outweighs a named system
		{"cedar", "forum", "any-forum"},
		{"cedar", "chat", "any"},
		{"", "", "any"},
	} {
		if s, ok := c.SourceFor(tt.tenant, tt.system); !ok || s.Policy != tt.want {
			t.Errorf("%s/%s: %q, want %q", tt.tenant, tt.system, s.Policy, tt.want)
		}
	}
	c.Sources = c.Sources[2:4]
	if s, ok := c.SourceFor("cedar", "chat"); ok {
		t.Errorf("a report of no source got %q", s.Policy)
	}
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]string{
		"15m": "15m0s", "1h30m": "1h30m0s", "7d": "168h0m0s", "1d12h": "36h0m0s", "0": "0s", "0s": "0s", "1.5h": "1h30m0s",
		"": "", "5": "", "-5m": "", "d": "", "-1d": "", "1d-2h": "", "1dd": "", "99999d": "", "65535d9223372036s": "", "7 d": "",
	} {
		var d Duration
		if err := d.parseScalar(text); (err == nil) != (want != "") || err == nil && d.String() != want {
			t.Errorf("duration %q: %v, %v; want %q", text, d, err, want)
		}
	}
	for text, want := range map[string]Size{
		"4096": 4096, "1B": 1, "8MiB": 8 << 20, "190MB": 190e6, "4 GiB": 4 << 30, "2kB": 2000, "2KiB": 2048,
		"": -1, "MB": -1, "-1": -1, "1.5MB": -1, "1TB": -1, "8mib": -1, "999999999999999999GiB": -1, "1e6": -1,
	} {
		var s Size
		if err := s.parseScalar(text); (err == nil) != (want >= 0) || err == nil && s != want {
			t.Errorf("size %q: %d, %v; want %d", text, s, err, want)
		}
	}
}

func TestNamesThatLookLikeOtherTypesStayAsWritten(t *testing.T) {
	c := parse("rollcall.yaml", []byte("accounts:\n  - {name: 0123, region: no, project: 1e3}\n"))
	a := c.Accounts[0]
	if a.Name != "0123" || a.Region != "no" || a.Project != "1e3" {
		t.Errorf("got %q, %q, %q", a.Name, a.Region, a.Project)
	}
}

func TestWarnings(t *testing.T) {
	c, err := Load("testdata/warnings/rollcall.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policies, err := LoadPolicies("policies", "classifiers")
	if err != nil {
		t.Fatal(err)
	}
	policies[0].Review.DueSeconds = 3600
	policies[0].Classifier.Temperature = new(0.7)
	policies[0].Classifier.Model = "gpt-4.1-mini"
	want := []string{
		"sources[0].identity: is digest; an edit of text is then another report, not a new revision",
		"sources[0].same_revision: is new_revision; an edit back to an earlier wording is taken for a redelivery",
		"sources[0].policy: there is no file for policy posts; its reports are held, unless the ledger holds an approved version of it",
		"policy patient-community/1: no source uses it",
		"policy patient-community/1: cannot be approved, and its reports are held, while these answers are unknown: " +
			"terms.data_class, terms.deletion, terms.retention, terms.subprocessors, terms.training",
		"policy patient-community/1: review.due is shorter than the processors' window of 24h; reports may be due before their job ends",
		"policy patient-community/1: temperature is above 0; the same text may get another label on another day",
		"policy patient-community/1: model has no date in its name; the processor may put another model behind it without a new version here",
		"accounts[0]: no policy file names account main; only texts under a policy that the ledger holds as approved may still go to it",
		"accounts[0].project: is empty; after a change of the key, jobs that were made with the old key would be taken for another account's",
		"submit.input_expiry: is shorter than 48h; a job that waits to be sent again may lose its input at the processor",
		"submit.output_expiry: is shorter than 72h; results that nobody fetched over a weekend would be lost",
	}
	if diff := cmp.Diff(want, c.Warnings(policies)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
}

// TestAccountsOfEachKind: what is left out is what suits the provider.
func TestAccountsOfEachKind(t *testing.T) {
	c := commentedAccounts(t)
	for name, want := range map[string]reconcile.AccountLimits{
		"openai-eu": {OpenJobs: 100, EnqueuedTokens: 2_000_000, CreatesPerMinute: 30}, "groq": {OpenJobs: 100, EnqueuedTokens: 2_000_000, CreatesPerMinute: 30},
		"anthropic": {OpenJobs: 100, CreatesPerMinute: 30}, "infrai": {OpenJobs: 3, CreatesPerMinute: 30}, "inhouse": {},
	} {
		if got := c.AccountLimits(name); got != want {
			t.Errorf("limits of %s: %+v, want %+v", name, got, want)
		}
	}
	rates := map[string]reconcile.Rate{
		"safety-eu": {Calls: 60, Interval: time.Minute, AtOnce: 4}, "safety-entra": {Calls: 60, Interval: time.Minute, AtOnce: 4},
		"inhouse": {Calls: 10, Interval: time.Second, AtOnce: 8},
	}
	if diff := cmp.Diff(rates, c.Rates()); diff != "" {
		t.Errorf("rates (-want +got):\n%s", diff)
	}
	c, err := Load("testdata/config/account-inhouse-permitted.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Rates()["main"], (reconcile.Rate{Calls: 60, Interval: time.Minute, AtOnce: 8}); got != want {
		t.Errorf("a rate with a part left out is %+v, want %+v", got, want)
	}
	if a := c.Accounts[0]; a.Kind() != KindInhouse || a.ReadSecrets() != nil {
		t.Errorf("kind %s; a server that asks for no key: %v", a.Kind(), a.ReadSecrets())
	}
	if c, err = Load("testdata/config/account-own-name.yaml"); err != nil {
		t.Fatal(err)
	}
	if a := c.Accounts[0]; a.Kind() != KindOpenAI || a.Like() != LikeGroq || *a.OpenAI.Dialect.KeyHeader != "" || a.OpenAI.Deployments["gpt-4.1-mini"] != "7" {
		t.Errorf("a provider of a name of one's own: %s like %s, %+v", a.Kind(), a.Like(), a.OpenAI)
	}
}

// TestAccountError: what only the client finds is told where the account stands.
func TestAccountError(t *testing.T) {
	c, err := Load("testdata/config/account-own-name.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const want = "testdata/config/account-own-name.yaml:2:5: accounts[0]: it is so"
	if got := c.AccountError("main", errors.New("it is so")); got.Error() != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
