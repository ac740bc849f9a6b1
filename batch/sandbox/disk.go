package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// disk is the folder of state. A file appears there whole or not at all: it is
// written under tmp and renamed. A process that is killed leaves what it wrote to
// the system; a machine that loses power may take the sandbox's state with it, which
// is not worth the wait for a disk at each request.
type disk struct{ root string }

const (
	tmpDir  = "tmp"
	fileDir = "files" // <id>.json, the object, and <id>.data, its content
	// messageDir: <id>.json, the record; <id>.input until it ends; <id>.results
	messageDir = "messages"
	jobDir     = "jobs" // <id>.json, the record; <id>.input while it runs; <id>.ids, what it accepted
)

// prepare makes the folders and removes what a killed process left half done.
func (d disk) prepare() error {
	if err := os.RemoveAll(d.path(tmpDir)); err != nil {
		return fmt.Errorf("clear temporary files: %w", err)
	}
	for _, dir := range []string{tmpDir, fileDir, jobDir, messageDir} {
		if err := os.MkdirAll(d.path(dir), 0o700); err != nil {
			return fmt.Errorf("make state folder: %w", err)
		}
	}
	return nil
}

func (d disk) path(elem ...string) string {
	return filepath.Join(append([]string{d.root}, elem...)...)
}

func (d disk) dataPath(fileID string) string    { return d.path(fileDir, fileID+".data") }
func (d disk) inputPath(jobID string) string    { return d.path(jobDir, jobID+".input") }
func (d disk) idsPath(jobID string) string      { return d.path(jobDir, jobID+".ids") }
func (d disk) recordPath(dir, id string) string { return d.path(dir, id+".json") }

// temp opens a file to be written and then kept or dropped.
func (d disk) temp() (*os.File, error) {
	f, err := os.CreateTemp(d.path(tmpDir), "part-*")
	if err != nil {
		return nil, fmt.Errorf("open temporary file: %w", err)
	}
	return f, nil
}

// drop closes and removes a temporary file. After keep it does nothing.
func drop(f *os.File) {
	if f.Close() == nil { // keep has closed it already, and it has another name
		os.Remove(f.Name())
	}
}

// keep puts a temporary file under path.
func (d disk) keep(f *os.File, path string) error {
	if err := f.Close(); err != nil {
		return fmt.Errorf("close %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("rename %s: %w", filepath.Base(path), err)
	}
	return nil
}

// save stores v as JSON under path.
func (d disk) save(path string, v any) error {
	f, err := d.temp()
	if err != nil {
		return err
	}
	defer drop(f)
	if err := json.MarshalWrite(f, v, jsontext.Multiline(true), json.Deterministic(true)); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return d.keep(f, path)
}

// load reads what save stored. A file that is not there is os.ErrNotExist.
func load(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read %s: state is damaged: %w", filepath.Base(path), err)
	}
	return nil
}

// remove deletes path; a path that is gone is success.
func (d disk) remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", filepath.Base(path), err)
	}
	return nil
}

// each calls f with the path of every file in dir whose name ends in suffix.
func (d disk) each(dir, suffix string, f func(id, path string) error) error {
	entries, err := os.ReadDir(d.path(dir))
	if err != nil {
		return fmt.Errorf("list state folder: %w", err)
	}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), suffix); ok {
			if err := f(id, d.path(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
