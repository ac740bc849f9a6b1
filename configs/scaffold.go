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
		more, err := sandboxFiles(opts.SandboxURL)
		for i := range files {
			files[i].data = bytes.Replace(files[i].data, []byte("\nmodel: gpt-"), []byte("\n"+sandboxModel+"\nmodel: gpt-"), 1)
		}
		return append(more, files...), err
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

func sandboxFiles(baseURL string) ([]scaffoldFile, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || !loopback(u.Hostname()) ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(baseURL, " #{}\"'\n\r\t") {
		return nil, errors.New("the sandbox must be on this machine, at an address such as http://127.0.0.1:8089/v1")
	}
	values := struct{ BaseURL, Host string }{baseURL, strings.ToLower(u.Host)}
	files := []scaffoldFile{{name: "sandbox.key", data: []byte("sandbox\n"), mode: 0o600}}
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
	return files, nil
}
