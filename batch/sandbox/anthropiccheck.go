package sandbox

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxMessages  = 100_000
	maxMessageIn = 256 << 20 // bytes of a create
	maxMessageID = 64
)

// messageRequest is one request of a batch.
type messageRequest struct {
	CustomID jsontext.Value `json:"custom_id"`
	Params   jsontext.Value `json:"params"`
}

// requestReader reads the body of a create as it comes in.
type requestReader struct {
	dec   *jsontext.Decoder
	seen  map[[16]byte]struct{}
	input *bufio.Writer
	ids   *bufio.Writer
	n     int
}

// readRequests checks the body of a create and writes each request as a line of
// input, and each custom id, as a JSON string, as a line of ids.
func readRequests(body io.Reader, input, ids io.Writer) (int, error) {
	r := &requestReader{
		dec:  jsontext.NewDecoder(http.MaxBytesReader(nil, io.NopCloser(body), maxMessageIn)),
		seen: map[[16]byte]struct{}{}, input: bufio.NewWriterSize(input, 256<<10), ids: bufio.NewWriter(ids),
	}
	err := r.object()
	var told *messageError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return 0, &messageError{Status: http.StatusRequestEntityTooLarge, Type: "request_too_large", Message: "Request exceeds the maximum size"}
	case errors.As(err, &told):
		return 0, told
	case err != nil:
		return 0, invalidMessage("The request body is not valid JSON.")
	}
	return r.n, errors.Join(r.input.Flush(), r.ids.Flush())
}

func (r *requestReader) object() error {
	if tok, err := r.dec.ReadToken(); err != nil || tok.Kind() != jsontext.KindBeginObject {
		return errors.Join(err, invalidMessage("Input should be a valid dictionary"))
	}
	there := false
	for r.dec.PeekKind() == jsontext.KindString {
		name, err := r.dec.ReadToken()
		if err != nil {
			return err
		}
		if name.String() != "requests" {
			return invalidMessage("%.40q: Extra inputs are not permitted", name.String())
		}
		if there = true; r.dec.PeekKind() != jsontext.KindBeginArray {
			return invalidMessage("requests: Input should be a valid list")
		}
		if err := r.list(); err != nil {
			return err
		}
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return errors.Join(err, invalidMessage("The request body is not valid JSON."))
	}
	switch {
	case !there:
		return invalidMessage("requests: Field required")
	case r.n == 0:
		return invalidMessage("requests: List should have at least 1 item after validation, not 0")
	}
	return nil
}

func (r *requestReader) list() error {
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	for r.dec.PeekKind() != jsontext.KindEndArray {
		raw, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		if r.n == maxMessages {
			return invalidMessage("requests: List should have at most %d items after validation", maxMessages)
		}
		if err := r.request(raw); err != nil {
			return err
		}
		r.n++
	}
	_, err := r.dec.ReadToken()
	return err
}

func (r *requestReader) request(raw jsontext.Value) error {
	var req messageRequest
	if raw.Kind() != jsontext.KindBeginObject {
		return invalidMessage("requests.%d: Input should be a valid dictionary", r.n)
	}
	if err := json.Unmarshal(raw, &req, json.RejectUnknownMembers(true)); err != nil {
		return invalidMessage("requests.%d: Extra inputs are not permitted", r.n)
	}
	id, err := r.customID(req.CustomID)
	if err != nil {
		return err
	}
	switch req.Params.Kind() {
	case jsontext.KindBeginObject:
	case jsontext.KindInvalid:
		return invalidMessage("requests.%d.params: Field required", r.n)
	default:
		return invalidMessage("requests.%d.params: Input should be a valid dictionary", r.n)
	}
	line := raw.Clone()
	if err := line.Compact(); err != nil { // so that it is one line
		return err
	}
	r.input.Write(append(line, '\n')) // Flush reports an error
	quoted, err := jsontext.AppendQuote(nil, id)
	if err != nil {
		return err
	}
	r.ids.Write(append(quoted, '\n'))
	return nil
}

// customID applies the rules in the order in which the API names them.
func (r *requestReader) customID(raw jsontext.Value) (string, error) {
	var id string
	switch raw.Kind() {
	case jsontext.KindInvalid:
		return "", invalidMessage("requests.%d.custom_id: Field required", r.n)
	case jsontext.KindString:
		if err := json.Unmarshal(raw, &id); err != nil {
			return "", err
		}
	default:
		return "", invalidMessage("requests.%d.custom_id: Input should be a valid string", r.n)
	}
	if len(id) > maxMessageID {
		return "", invalidMessage("requests.%d.custom_id: String should have at most 64 characters", r.n)
	}
	if id == "" || strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return "", invalidMessage("requests.%d.custom_id: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'", r.n)
	}
	sum := sha256.Sum256([]byte(id))
	key := [16]byte(sum[:16])
	if _, twice := r.seen[key]; twice {
		return "", invalidMessage("requests: custom_id's must be unique within a batch. Duplicate custom_id found: %s", id)
	}
	r.seen[key] = struct{}{}
	return id, nil
}
