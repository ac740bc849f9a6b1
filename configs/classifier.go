package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/reconcile"
)

const (
	classifierName = "classifier.yaml"
	// labelsHere in the instructions is replaced by the labels with their
	// descriptions, so that they are written down once.
	labelsHere = "{{labels}}"
)

// classifierFile is classifier.yaml.
type classifierFile struct {
	Name            string      `yaml:"name"`
	Version         int64       `yaml:"version"`
	Model           string      `yaml:"model"`
	AnswersAs       []string    `yaml:"answers_as"`
	MaxOutputTokens int         `yaml:"max_output_tokens"`
	Temperature     *float64    `yaml:"temperature"` // not sent when it is left out
	Labels          []labelFile `yaml:"labels"`
	Instructions    string      `yaml:"instructions"` // a file in the same folder; none with thresholds
	Schema          string      `yaml:"schema"`       // a file in the same folder

	Thresholds []thresholdFile `yaml:"thresholds"`
	Otherwise  string          `yaml:"otherwise"`
	Echo       bool            `yaml:"echo"`
}

type labelFile struct {
	Name             string `yaml:"name"`
	Description      string `yaml:"description"`
	EvidenceRequired bool   `yaml:"evidence_required"`
}

type thresholdFile struct {
	Category string  `yaml:"category"`
	Score    float64 `yaml:"score"`
	Label    string  `yaml:"label"`
}

// classifierDir is a classifier as far as it could be read; its mistakes are in
// doc.
type classifierDir struct {
	doc   *document
	fail  failFunc
	asked reconcile.Classifier
}

// openClassifier reads the classifier in dir. The error is for a folder that
// is not there; mistakes in the files are in doc.
func openClassifier(dir, name string) (*classifierDir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("has no folder in the classifiers folder: %w", bare(err))
	}
	defer root.Close()
	data, err := root.ReadFile(classifierName)
	if err != nil {
		return nil, fmt.Errorf("its folder has no %s that can be read: %w", classifierName, bare(err))
	}
	var f classifierFile
	c := &classifierDir{doc: readDocument(filepath.Join(dir, classifierName), data, &f)}
	c.fail = c.doc.failOnce()
	if c.doc.broken {
		c.fail = func(string, string, ...any) {}
		return c, nil
	}
	if f.Name != name {
		c.fail("name", "must be the name of the folder")
	}
	if f.Version < 1 {
		c.fail("version", "must be 1 or more")
	}
	if t := f.Temperature; t != nil && !(*t >= 0 && *t <= 2) { // .nan is neither
		c.fail("temperature", "must be between 0 and 2")
	}
	c.asked = reconcile.Classifier{
		Name: fmt.Sprintf("%s/%d", f.Name, f.Version), Model: f.Model,
		MaxOutputTokens: f.MaxOutputTokens, Temperature: f.Temperature,
		Labels: f.labels(c.fail), AnswersAs: f.AnswersAs, Otherwise: f.Otherwise, Echo: f.Echo,
	}
	for _, t := range f.Thresholds {
		c.asked.Thresholds = append(c.asked.Thresholds, reconcile.Threshold(t))
	}
	if len(f.Thresholds) == 0 || f.Instructions != "" {
		c.asked.Instructions = f.instructions(root, c.fail)
	}
	c.asked.Schema = f.schema(root, c.fail)
	return c, nil
}

var labelPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

func (f *classifierFile) labels(fail failFunc) []reconcile.Label {
	var out []reconcile.Label
	for i, l := range f.Labels {
		at := fmt.Sprintf("labels[%d]", i)
		if !labelPattern.MatchString(l.Name) {
			fail(at+".name", "must be lower-case letters, digits and _, at most 63 characters")
		}
		if strings.TrimSpace(l.Description) == "" {
			fail(at+".description", "is missing; the model and the reviewers need to know what the label means")
		}
		out = append(out, reconcile.Label{Name: l.Name, EvidenceRequired: l.EvidenceRequired})
	}
	return out
}

// instructions are the text of the developer message, with the labels in it.
func (f *classifierFile) instructions(root *os.Root, fail failFunc) string {
	raw, ok := readBeside(root, "instructions", f.Instructions, fail)
	if !ok {
		return ""
	}
	var list strings.Builder
	for _, l := range f.Labels {
		fmt.Fprintf(&list, "- %s: %s\n", l.Name, strings.TrimSpace(l.Description))
	}
	// A file edited on Windows must not be another policy than the same file
	// edited elsewhere.
	text := strings.ReplaceAll(string(raw), "\r\n", "\n")
	text = strings.ReplaceAll(text, labelsHere, strings.TrimSuffix(list.String(), "\n"))
	text = strings.TrimSpace(text)
	for i, l := range f.Labels {
		if l.Name != "" && !strings.Contains(text, l.Name) {
			fail(fmt.Sprintf("labels[%d].name", i), "does not stand in the instructions; write %s there to have all labels listed", labelsHere)
		}
	}
	return text
}

// schema is the answer's schema, which must offer the labels and no others.
func (f *classifierFile) schema(root *os.Root, fail failFunc) jsontext.Value {
	raw, ok := readBeside(root, "schema", f.Schema, fail)
	if !ok {
		return nil
	}
	var s struct {
		Properties struct {
			Label struct {
				Enum []string `json:"enum"`
			} `json:"label"`
			Evidence jsontext.Value `json:"evidence"`
		} `json:"properties"`
	}
	v := jsontext.Value(raw)
	if err := json.Unmarshal(raw, &s); err != nil || v.Compact() != nil {
		fail("schema", "the file is no JSON Schema with the property label, a list of names under enum")
		return nil
	}
	var names []string
	evidence := false
	for _, l := range f.Labels {
		names = append(names, l.Name)
		evidence = evidence || l.EvidenceRequired
	}
	enum := slices.Clone(s.Properties.Label.Enum)
	slices.Sort(names)
	slices.Sort(enum)
	if !slices.Equal(names, enum) {
		fail("schema", "the file's properties.label.enum must hold the labels and nothing else")
	}
	if evidence && s.Properties.Evidence == nil {
		fail("schema", "the file has no property evidence, which labels with evidence_required need")
	}
	return v
}

// readBeside reads a file in the classifier's own folder.
func readBeside(root *os.Root, field, name string, fail failFunc) ([]byte, bool) {
	if name == "" {
		fail(field, "is missing; name a file in the same folder")
		return nil, false
	}
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		fail(field, "there is no such file in the same folder")
		return nil, false
	}
	if err != nil {
		fail(field, "must be a file in the same folder: %v", bare(err))
		return nil, false
	}
	defer f.Close()
	data, err := readAtMost(f, maxFile)
	if err != nil {
		fail(field, "the file %v", err)
		return nil, false
	}
	return data, true
}
