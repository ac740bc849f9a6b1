package configs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rollcall/reconcile"
)

// FuzzLoad: no file crashes the loader or holds it up, each mistake is told with
// its place, none repeats what stands in a file, and the passes can run with what
// is accepted.
func FuzzLoad(f *testing.F) {
	for _, text := range seedFiles(f, "rollcall.yaml", "sandbox/*.yaml", "policies/*.yaml", "testdata/config/*.yaml", "testdata/policy/*.yaml") {
		f.Add(text)
	}
	for _, text := range []string{
		marker + ": {" + marker + ": *" + marker + "}", "- " + marker, "? " + marker, "!" + marker + " x", "%" + marker + "\n---\n",
		"\"" + marker, "accounts: " + marker, "a: |" + marker, "accounts: [{name: " + marker + ", provider: " + marker + "}]",
		"sources: [{tenant: " + marker + ", digest_of: [" + marker + "]}]", "<<: {" + marker + ": 1}", "\xef\xbb\xbfchunk: 1", "chunk: .inf",
	} {
		f.Add([]byte(text))
	}
	const whole = "accounts: [{name: main, provider: openai, base_url: 'https://h.example/v1', region: eu, api_key: {env: KEY}}]\nsources: [{tenant: acme, system: forum, policy: posts}]\n"
	if err := parse("rollcall.yaml", []byte(whole)).Validate(); err != nil {
		f.Fatal(err)
	}
	for _, text := range strangeYAML {
		f.Add([]byte(text))
		f.Add([]byte(whole + text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		began := time.Now()
		c := parse("rollcall.yaml", data)
		err := c.Validate()
		checkPlaces(t, data, "rollcall.yaml", err)
		if err == nil {
			checkSettings(t, c)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%d bytes took %v", len(data), took)
		}
	})
}

// strangeYAML is what people and editors make of a file.
var strangeYAML = []string{
	"", "\n", "---\n", "--- \n...\n---\n", "null", "~", "[]", "{}", "\x00", "\xff\xfe#\x00", "\xef\xbb\xbf", "\xef\xbb\xbf\xef\xbb\xbfchunk: 1", "chunk: 1\r\nlease: 2m\r\n", "chunk: 1\rlease: 2m",
	"chunk: 1\nchunk: 2", "chunk: 0x10", "chunk: 1_000", "chunk: 010", "chunk: 9223372036854775808", "chunk: 1e3", "chunk: .nan", "chunk: !!int 5", "chunk: &a 5", "chunk: *a", "chunk: \"5\"", "chunk: yes",
	"lease: 99999999999999999999h", "lease: -1h", "lease: 1d1d", "lease: 65535d", "lease: 1e9s", "lease: ９0s", "intake: {max_line: 9223372036854775807GiB}", "intake: {max_line: 0}", "log: {level: \"\"}",
	"database: postgres://u:" + marker + "@h/db", "database: {url: {file: " + marker + "}}", "database: host=h password=" + marker, "database: postgres:u:" + marker + "@h/db", "database: PostgreSQL:/u:" + marker + "@h/db", "database: {url: " + marker + "}", "keyring: \"\\0\"", "keyring: \u2028",
	"accounts: [[[[[[[[[[]]]]]]]]]]", strings.Repeat("[", 1000), strings.Repeat("a: {", 100), strings.Repeat("- ", 100), "accounts:\n\t- name: a", "accounts: [{name: a, name: " + marker + "}]", "a: b: c", "? [a]\n: b",
	"schedules: [{name: n, cron: \"* * * * *\", zone: ../../etc/passwd, passes: [poll, poll]}]", "schedules: [{name: n, cron: \"@every 1ns\", passes: [" + marker + "]}]", "'" + marker, "\"\\x" + marker, "\"\\ud800\"",
	"serve: {listen: \"[::1\"}", "serve: {listen: \":\", heartbeat: 0}", "é: 1", "ｃｈｕｎｋ: 1", "chunk\u200b: 1", "CHUNK: 1",
}

// checkPlaces holds that each mistake names its place and none quotes the file.
func checkPlaces(t *testing.T, data []byte, file string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	lines := 1 + bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r"))
	for _, e := range parts(err) {
		var mistake *FieldError
		if !errors.As(e, &mistake) || mistake.File != file || mistake.Message == "" || mistake.Line < 0 || mistake.Line > lines || mistake.Line > 0 && mistake.Column < 1 {
			t.Errorf("no place in %d lines, or no words: %v", lines, e)
		}
	}
	if strings.Contains(err.Error(), "MARKER") {
		t.Errorf("the file is quoted: %v", err)
	}
}

// checkSettings holds that the passes can run with what was accepted.
func checkSettings(t *testing.T, c *Config) {
	t.Helper()
	s := c.Settings()
	for name, n := range map[string]int64{
		"chunk": int64(s.Chunk), "items": int64(s.JobItems), "bytes": s.JobBytes, "line": int64(s.LineBytes), "set": s.SetBytes, "per run": int64(s.JobsPerRun), "send within": int64(s.SendWithin),
		"poll": int64(s.PollFirst), "retry": int64(s.ConsumeRetry), "lease": int64(c.Lease), "input line": int64(c.Intake.MaxLine), "bytes per token": s.BytesPerToken, "heartbeat": int64(c.Serve.Heartbeat),
	} {
		if n <= 0 {
			t.Errorf("%s of %d was accepted", name, n)
		}
	}
	if !c.Database.IsPostgres() && strings.Contains(strings.ToLower(c.Database.Path), "postgres:") {
		t.Error("an address, with its password, was taken for the name of a file")
	}
	good, refused := c.Scheduled()
	if len(good)+len(refused) != len(c.Schedules) || (c.CheckSchedules() == nil) != (len(refused) == 0) {
		t.Errorf("of %d schedules %d can run and %d are refused", len(c.Schedules), len(good), len(refused))
	}
	c.Warnings(nil)
	c.SourceFor("acme", "forum")
}

// seedFiles are the texts of the files that match patterns, each of which some do.
func seedFiles(f *testing.F, patterns ...string) (texts [][]byte) {
	f.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			texts = append(texts, text)
		}
	}
	return texts
}

// FuzzPolicyFile: a policy is told to be wrong with its place and without its
// words, or it is one that reads back as it is from the text that is approved.
func FuzzPolicyFile(f *testing.F) {
	for _, text := range seedFiles(f, "policies/*.yaml", "testdata/policy/*.yaml") {
		f.Add(text)
		f.Add(bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")))
		f.Add(text[:len(text)/2])
		f.Add(append([]byte("\xef\xbb\xbf"), text...))
	}
	for _, text := range strangeYAML {
		f.Add([]byte(text))
	}
	for _, line := range []string{"version: 9223372036854775807", "version: -1", "attempts: 1e1", "policy: ../posts", "classifier: ../../etc", "classifier: patient-community/", "host: \"" + marker + "@h\"", "host: h/" + marker,
		"terms: " + marker, "terms: {" + marker + ": 1}", "review: {due: 1ns, on_due: wait}", "review: {due: 106751d}", "authority: " + marker, "region: \"\\u202eUNKNOWN\"", "region: \" Unknown \""} {
		f.Add([]byte("policy: posts\n" + line + "\n"))
	}
	path := filepath.Join(f.TempDir(), "posts.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := loadPolicy(path, "classifiers")
		checkPlaces(t, data, path, err)
		if err != nil {
			return
		}
		spec, err := p.Spec()
		if err != nil || p.Validate() != nil || p.ID != "posts" {
			t.Fatalf("accepted, and not valid: %v, %v", err, p.Validate())
		}
		back, err := reconcile.ParseSpec(spec)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := back.Spec(); err != nil || !bytes.Equal(again, spec) {
			t.Errorf("the approved text reads back as another one: %v", err)
		}
	})
}

// FuzzUnits: what is accepted is no less than 0, and is told in a form that is
// read as the same.
func FuzzUnits(f *testing.F) {
	for _, s := range []string{"", "0", "-0", "90s", "1h30m", "7d", "7d12h", "1d1d", "d", "65535d", "65536d", "106751d", "106752d", "9999999h", "1e3s", ".5s", "1.5d", "+1s", "-1s", "1 s", "１s", "1µs", "1\x00s", "\xff",
		"0x10", "190MB", "8MiB", "8 MiB", "9223372036854775807", "999999999999999999GiB", "8mb", "1b", "1KiBB", "٣"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var d, back Duration
		if err := d.parseScalar(s); err == nil {
			if err := back.parseScalar(d.String()); err != nil || back != d || d < 0 {
				t.Errorf("%q is %v, and that is %v: %v", s, d, back, err)
			}
		} else if err != errDuration {
			t.Errorf("%v may quote the file", err)
		}
		var n, again Size
		if err := n.parseScalar(s); err == nil {
			if err := again.parseScalar(strconv.FormatInt(int64(n), 10)); n < 0 || n < 1e18 && (err != nil || again != n) {
				t.Errorf("%q is %d, and that is %d: %v", s, n, again, err)
			}
		} else if err != errSize {
			t.Errorf("%v may quote the file", err)
		}
	})
}

// Without a bound on nesting the longest file would take the parser hours and
// all memory.
func TestLargeFilesAreReadOrRefusedQuickly(t *testing.T) {
	deep := func() string {
		var b strings.Builder
		for i := 0; b.Len() < maxFile-2000; i++ {
			b.WriteString(strings.Repeat(" ", i) + "a:\n")
		}
		return b.String()
	}()
	for name, text := range map[string]string{
		"lists on one line":    strings.Repeat("[", maxFile),
		"mappings on one line": strings.Repeat("{a: ", maxFile/4),
		"entries on one line":  strings.Repeat("- ", maxFile/2),
		"keys on one line":     strings.Repeat("? ", maxFile/2),
		"lists on many lines":  strings.Repeat("[\n", maxFile/2),
		"steps":                deep,
		"too long":             strings.Repeat("a", maxFile+1),
		"many sources":         "sources:\n" + strings.Repeat("  - {tenant: acme, system: '*', policy: posts}\n", maxFile/48),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			if err := parse("rollcall.yaml", []byte(text)).Validate(); err == nil {
				t.Error("was accepted")
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}
