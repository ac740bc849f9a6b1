package configs

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// FileName is what the configuration is called where nobody says otherwise.
const FileName = "rollcall.yaml"

//go:embed rollcall.yaml policies classifiers sandbox
var examples embed.FS

// ScaffoldOptions say which example is written.
type ScaffoldOptions struct {
	// SandboxURL is the base URL of a sandbox on this machine, such as
	// http://127.0.0.1:8089/v1. With it the policy's answers are given, so that
	// it can be approved at once. "" writes an example for a real account, whose
	// answers are unknown: nothing is sent until somebody has given them.
	SandboxURL string
	// Provider is whose API the sandbox is called by: "" for openai, anthropic,
	// infrai, azure-content-safety or inhouse. It goes with SandboxURL, which is
	// the base URL for that provider.
	Provider string
	// Pin is the pin that a sandbox of infrai was started with.
	Pin []byte
}

// scaffoldFile is a file to be written, by its name inside the folder.
type scaffoldFile struct {
	name string
	data []byte
	mode fs.FileMode
}

// sandboxModel lets a classifier take the answers of a sandbox, which never claims
// to be the model that it is asked for.
const sandboxModel = "answers_as: [sandbox-stand-in] # for the sandbox alone: its name for itself"

// Scaffold writes an example configuration into dir, which is made if need be,
// and returns the names of the files inside dir. Nothing is overwritten: if one
// of the files exists, nothing is written, and the error names it.
func Scaffold(dir string, opts ScaffoldOptions) ([]string, error) {
	files, err := exampleFiles(opts)
	if err != nil {
		return nil, err
	}
	var taken []error
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if _, err := os.Lstat(path); err == nil {
			taken = append(taken, fmt.Errorf("%s: %w; nothing was written", path, fs.ErrExist))
		} else if !errors.Is(err, fs.ErrNotExist) {
			taken = append(taken, err)
		}
	}
	if len(taken) > 0 {
		return nil, errors.Join(taken...)
	}
	var written []string
	for _, f := range files {
		if err := f.write(dir); err != nil {
			return written, err
		}
		written = append(written, f.name)
	}
	return written, nil
}

func (f scaffoldFile) write(dir string) error {
	path := filepath.Join(dir, f.name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
	if err != nil {
		return err
	}
	_, err = out.Write(f.data)
	return errors.Join(err, out.Close())
}

func exampleFiles(opts ScaffoldOptions) ([]scaffoldFile, error) {
	files, err := embeddedUnder("classifiers")
	if err != nil {
		return nil, err
	}
	if opts.SandboxURL != "" {
		return sandboxFiles(opts, files)
	}
	policies, err := embeddedUnder("policies")
	if err != nil {
		return nil, err
	}
	main, err := embeddedUnder(FileName)
	return append(append(main, policies...), files...), err
}

// embeddedUnder lists the embedded files at and under root, as they are.
func embeddedUnder(root string) ([]scaffoldFile, error) {
	var files []scaffoldFile
	err := fs.WalkDir(examples, root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := examples.ReadFile(path)
		files = append(files, scaffoldFile{filepath.FromSlash(path), data, 0o640})
		return err
	})
	return files, err
}

// sandboxModels are the models that the example's classifier asks for at each
// provider that takes a question. "" stands for the example's own.
var sandboxModels = map[string]string{
	"openai":    "",
	"anthropic": "claude-haiku-4-5-20251001",
	"infrai":    "gpt-4.1-mini", // of the pin
	"inhouse":   "sandbox-served",
}

const (
	classifierAsked    = "patient-community" // the example that asks a question
	classifierOfScores = "content-safety"    // the example that makes labels of scores
	exampleModel       = "model: gpt-4.1-mini-2025-04-14\n"
)

// sandboxValues are what the templates of a sandbox need.
type sandboxValues struct {
	Provider, BaseURL, Host    string
	Classifier                 string
	HasProject, Called, Pinned bool
}

func sandboxFiles(opts ScaffoldOptions, classifiers []scaffoldFile) ([]scaffoldFile, error) {
	provider := opts.Provider
	if provider == "" {
		provider = "openai"
	}
	a := Account{Provider: provider, BaseURL: opts.SandboxURL}
	model, asks := sandboxModels[provider]
	if !asks && a.Kind() != KindContentSafety {
		return nil, fmt.Errorf("a sandbox is called as openai, anthropic, infrai, azure-content-safety or inhouse, and not as %q", provider)
	}
	if err := checkSandboxURL(opts.SandboxURL); err != nil {
		return nil, err
	}
	values := sandboxValues{
		Provider: provider, BaseURL: opts.SandboxURL, Host: a.Host(), Classifier: classifierAsked,
		HasProject: a.Kind() == KindOpenAI || a.Kind() == KindInfrai, Called: a.Kind().Called(), Pinned: a.Kind() == KindInfrai,
	}
	files := []scaffoldFile{{name: "sandbox.key", data: []byte("sandbox\n"), mode: 0o600}}
	if values.Pinned {
		files = append(files, scaffoldFile{"sandbox.pin.json", opts.Pin, 0o640})
	}
	if !asks {
		values.Classifier = classifierOfScores
	}
	for _, f := range []struct{ from, to string }{
		{"sandbox/rollcall.yaml", FileName},
		{"sandbox/patient-community.yaml", "policies/patient-community.yaml"},
	} {
		t, err := template.ParseFS(examples, f.from)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, values); err != nil {
			return nil, err
		}
		files = append(files, scaffoldFile{filepath.FromSlash(f.to), b.Bytes(), 0o640})
	}
	for _, f := range classifiers {
		named := sandboxModel + "\n" + exampleModel
		if model != "" {
			named = sandboxModel + "\nmodel: " + model + "\n"
		}
		f.data = bytes.Replace(f.data, []byte(exampleModel), []byte(named), 1)
		files = append(files, f)
	}
	return files, nil
}

func checkSandboxURL(baseURL string) error {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || !loopback(u.Hostname()) ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(baseURL, " #{}\"'\n\r\t") {
		return errors.New("the sandbox must be on this machine, at an address such as http://127.0.0.1:8089/v1")
	}
	return nil
}
