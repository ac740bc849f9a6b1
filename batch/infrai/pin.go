package infrai

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/transport"
)

// The formats of the two files. A reading becomes a pin when the documents that
// it was read from are put in.
const (
	FormatPin     = "rollcall-infrai-pin/1"
	FormatReading = "rollcall-infrai-reading/1"
)

// Pin is what an operator has read out of the provider's discovery documents,
// with those documents. The public documentation leaves out what an item is
// called, which states there are and what a result looks like; so nothing of
// that is in this program, and a pin has it with a place in a document for each
// name. What a pin does not have, the account cannot do.
type Pin struct {
	Format string `json:"format"`
	// Assumed: made up for a sandbox. Such a pin is refused at any host but
	// loopback.
	Assumed bool `json:"assumed,omitzero"`
	// Classes are the texts that may be sent, synthetic ones when there are none
	// here: retention, deletion and sub-processors are documented nowhere, so
	// that more needs an Agreement, in the operator's words.
	Classes   []batch.DataClass `json:"data_classes,omitzero"`
	Agreement string            `json:"agreement,omitzero"`
	Contract  Contract          `json:"contract"`
	// Evidence names for each claim of the contract where it is written, as
	// "document#/json/pointer".
	Evidence  map[string]string `json:"evidence"`
	Fetched   time.Time         `json:"fetched_at,omitzero"`
	Documents []Document        `json:"documents,omitzero"`
}

// Document is a discovery document as it was fetched.
type Document struct {
	ID     string `json:"id"` // as "ai.batch.submit"
	SHA256 string `json:"sha256"`
	Raw    string `json:"raw"`
}

const (
	maxPin       = 8 << 20
	maxDocument  = 1 << 20
	maxDocuments = 32
)

// strict reads what people write: a member that is not known is a mistake.
var strict = json.RejectUnknownMembers(true)

// ParsePin reads a pin and checks it against the documents inside: their
// hashes, and that every claim of the contract stands where the evidence says.
// Its errors name claims and places, and quote no document.
func ParsePin(raw []byte) (Pin, error) {
	p, err := readPin(raw, FormatPin)
	if err != nil {
		return Pin{}, err
	}
	if p.Fetched.IsZero() {
		return Pin{}, errors.New("infrai: pin: fetched_at is missing: make the pin again from the documents")
	}
	return p, p.check()
}

// MakePin makes a pin from files: discovery documents as they were fetched at an
// instant, and one reading of them. It makes no call.
func MakePin(fetched time.Time, files ...[]byte) (Pin, error) {
	var p Pin
	var documents []Document
	for i, raw := range files {
		if formatOf(raw) == FormatReading {
			if p.Format != "" {
				return Pin{}, errors.New("infrai: pin: two of the files are readings; give one")
			}
			var err error
			if p, err = readPin(raw, FormatReading); err != nil {
				return Pin{}, err
			}
			continue
		}
		d, err := newDocument(raw)
		if err != nil {
			return Pin{}, fmt.Errorf("infrai: pin: file %d: %w", i+1, err)
		}
		documents = append(documents, d)
	}
	if p.Format == "" {
		return Pin{}, fmt.Errorf("infrai: pin: none of the files is a reading of the documents; write one with the format %q", FormatReading)
	}
	p.Format, p.Fetched, p.Documents = FormatPin, fetched.UTC().Truncate(time.Second), documents
	return p, p.check()
}

// Encode is the pin as a file.
func (p Pin) Encode() ([]byte, error) {
	b, err := json.Marshal(p, jsontext.Multiline(true), json.Deterministic(true))
	if err != nil {
		return nil, errors.New("infrai: pin: a document is not UTF-8")
	}
	return append(b, '\n'), nil
}

func formatOf(raw []byte) string {
	var f struct {
		Format string `json:"format"`
	}
	if json.Unmarshal(raw, &f) != nil {
		return ""
	}
	return f.Format
}

func readPin(raw []byte, format string) (Pin, error) {
	if len(raw) > maxPin {
		return Pin{}, fmt.Errorf("infrai: pin: more than %d bytes", maxPin)
	}
	var p Pin
	if err := json.Unmarshal(raw, &p, strict); err != nil {
		return Pin{}, fmt.Errorf("infrai: pin: not in the format %q%s", format, place(err))
	}
	if p.Format != format {
		return Pin{}, fmt.Errorf("infrai: pin: the format is not %q", format)
	}
	if format == FormatReading && (len(p.Documents) > 0 || !p.Fetched.IsZero()) {
		return Pin{}, errors.New("infrai: pin: a reading has no documents and no fetched_at; they come from the files beside it")
	}
	return p, nil
}

// place is where in a file an error is, without the file's words.
func place(err error) string {
	var e *json.SemanticError
	if errors.As(err, &e) && e.JSONPointer != "" {
		return ": at " + batch.SafeName(string(e.JSONPointer))
	}
	return ": not JSON, or a name twice"
}

// newDocument takes a document as it is, bare or in the provider's envelope.
func newDocument(raw []byte) (Document, error) {
	if len(raw) > maxDocument {
		return Document{}, fmt.Errorf("more than %d bytes", maxDocument)
	}
	root, err := documentRoot(raw)
	if err != nil {
		return Document{}, err
	}
	id, _ := lookup(root, "id").(string)
	if id == "" {
		id, _ = lookup(root, "data.id").(string)
	}
	if !transport.PathSafe(id) {
		return Document{}, errors.New("a discovery document has an id such as ai.batch.submit, at the top or in data")
	}
	return Document{ID: id, SHA256: sumOf(raw), Raw: string(raw)}, nil
}

func documentRoot(raw []byte) (any, error) {
	var root any
	if json.Unmarshal(raw, &root) != nil {
		return nil, errors.New("it is not JSON in UTF-8, or has a name twice")
	}
	return root, nil
}

func sumOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func (p *Pin) check() error {
	if err := p.checkClasses(); err != nil {
		return err
	}
	roots, err := p.roots()
	if err != nil {
		return err
	}
	if err := p.Contract.check(); err != nil {
		return err
	}
	claims := p.Contract.claims()
	for key := range p.Evidence {
		if !slices.ContainsFunc(claims, func(c claim) bool { return c.key == key }) {
			return fmt.Errorf("infrai: pin: evidence for %s, which the contract does not claim", batch.SafeName(key))
		}
	}
	for _, c := range claims {
		if err := p.prove(c, roots); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pin) checkClasses() error {
	for _, class := range p.Classes {
		switch class {
		case batch.DataSynthetic:
		case batch.DataPersonal, batch.DataHealth, batch.DataUnstored:
			if strings.TrimSpace(p.Agreement) == "" {
				return fmt.Errorf("infrai: pin: data class %s needs an agreement: the provider documents neither retention nor deletion", class)
			}
		default:
			return errors.New("infrai: pin: data_classes are synthetic, personal, health or unstored")
		}
	}
	return nil
}

// roots are the documents by id.
func (p *Pin) roots() (map[string]any, error) {
	if len(p.Documents) == 0 || len(p.Documents) > maxDocuments {
		return nil, fmt.Errorf("infrai: pin: %d documents; from 1 to %d are needed", len(p.Documents), maxDocuments)
	}
	roots := map[string]any{}
	for _, d := range p.Documents {
		switch _, twice := roots[d.ID]; {
		case !transport.PathSafe(d.ID):
			return nil, errors.New("infrai: pin: the id of a document is missing or odd")
		case twice:
			return nil, fmt.Errorf("infrai: pin: document %s is there twice", d.ID)
		case len(d.Raw) > maxDocument || sumOf([]byte(d.Raw)) != d.SHA256:
			return nil, fmt.Errorf("infrai: pin: document %s is not the one that its sha256 names: fetch it again and make the pin anew", d.ID)
		}
		root, err := documentRoot([]byte(d.Raw))
		if err != nil {
			return nil, fmt.Errorf("infrai: pin: document %s: %w", d.ID, err)
		}
		roots[d.ID] = root
	}
	return roots, nil
}

// prove holds a claim against the place that the evidence names.
func (p *Pin) prove(c claim, roots map[string]any) error {
	where, ok := p.Evidence[c.key]
	if !ok {
		return fmt.Errorf("infrai: pin: %s has no evidence: name the place in a document, or make it null", c.key)
	}
	id, pointer, ok := strings.Cut(where, "#")
	root, known := roots[id]
	if !ok || !known {
		return fmt.Errorf("infrai: pin: the evidence of %s is not in a document of the pin; write DOCUMENT#/POINTER", c.key)
	}
	value, last, ok := resolve(root, pointer)
	if !ok {
		return fmt.Errorf("infrai: pin: %s: document %s has nothing where the evidence points", c.key, id)
	}
	if !c.holds(last, value) {
		return fmt.Errorf("infrai: pin: %s: document %s says something else where the evidence points", c.key, id)
	}
	return nil
}

// resolve follows a JSON pointer of RFC 6901 through objects.
func resolve(v any, pointer string) (value any, last string, ok bool) {
	rest, ok := strings.CutPrefix(pointer, "/")
	if !ok {
		return nil, "", false
	}
	for token := range strings.SplitSeq(rest, "/") {
		last = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		object, isObject := v.(map[string]any)
		if !isObject {
			return nil, "", false
		}
		if v, ok = object[last]; !ok {
			return nil, "", false
		}
	}
	return v, last, true
}

// lookup follows a dotted path through objects; nil when it leads nowhere.
func lookup(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[name]
	}
	return v
}
