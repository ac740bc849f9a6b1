package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzLoad: no file crashes the loader or holds it up, and no error repeats
// what stands in a file.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"rollcall.yaml", "sandbox/*.yaml", "policies/*.yaml", "testdata/config/*.yaml", "testdata/policy/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	for _, text := range []string{
		marker + ": {" + marker + ": *" + marker + "}", "- " + marker, "? " + marker, "!" + marker + " x", "%" + marker + "\n---\n",
		"\"" + marker, "accounts: " + marker, "a: |" + marker, "accounts: [{name: " + marker + ", provider: " + marker + "}]",
		"sources: [{tenant: " + marker + ", digest_of: [" + marker + "]}]", "<<: {" + marker + ": 1}", "\xef\xbb\xbfchunk: 1", "chunk: .inf",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		began := time.Now()
		c := parse("rollcall.yaml", data)
		if err := c.Validate(); err != nil {
			if strings.Contains(err.Error(), "MARKER") {
				t.Errorf("the file is quoted: %v", err)
			}
		} else {
			c.Settings()
			c.Warnings(nil)
			c.SourceFor("acme", "forum")
		}
		var p policyFile
		if err := readDocument("posts.yaml", data, &p).err(); err != nil && strings.Contains(err.Error(), "MARKER") {
			t.Errorf("the file is quoted: %v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%d bytes took %v", len(data), took)
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
