package sandbox

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxLines    = 50_000
	maxProblems = 100 // how many the API reports is not known
)

// requestLine is one line of an input file.
type requestLine struct {
	CustomID *string        `json:"custom_id"`
	Method   *string        `json:"method"`
	URL      *string        `json:"url"`
	Body     jsontext.Value `json:"body"`
}

// checker validates an input file. It remembers a digest of each id, not the
// id, so its memory does not depend on how long they are.
type checker struct {
	endpoint string
	seen     map[[16]byte]struct{}
	out      checked
}

// check validates an input file line by line and writes the custom ids to ids,
// each as a JSON string on its own line.
func check(in io.Reader, endpoint string, ids io.Writer) (checked, error) {
	c := checker{endpoint: endpoint, seen: map[[16]byte]struct{}{}}
	w := bufio.NewWriter(ids)
	lines := newLineReader(in)
	for {
		line, long, err := lines.read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return checked{}, err
		}
		c.out.Lines++
		if c.out.Lines > maxLines {
			c.out.Problems = append(c.out.Problems, problem{Code: "too_many_tasks", Message: "The file has more than 50,000 lines."})
			break
		}
		id, p := c.line(line, long)
		if p != nil {
			p.Line = lines.no
			if c.out.Problems = append(c.out.Problems, *p); len(c.out.Problems) == maxProblems {
				break
			}
			continue
		}
		quoted, err := jsontext.AppendQuote(nil, id)
		if err != nil {
			return checked{}, err
		}
		w.Write(append(quoted, '\n')) // Flush reports an error
	}
	if c.out.Lines == 0 {
		c.out.Problems = []problem{{Code: "empty_file", Message: "The file is empty."}}
	}
	return c.out, w.Flush()
}

func (c *checker) line(line []byte, long bool) (customID string, p *problem) {
	if long {
		return "", &problem{Code: "invalid_json_line", Message: "The line is too long for the sandbox."}
	}
	var l requestLine
	if err := json.Unmarshal(line, &l); err != nil {
		return "", &problem{Code: "invalid_json_line", Message: "The line is not a JSON object with the documented fields."}
	}
	for _, f := range []struct {
		param string
		value *string
	}{{"custom_id", l.CustomID}, {"method", l.Method}, {"url", l.URL}} {
		if f.value == nil || *f.value == "" {
			return "", &problem{Code: "missing_required_parameter", Param: f.param, Message: "Missing required parameter."}
		}
	}
	switch {
	case *l.Method != "POST":
		return "", &problem{Code: "invalid_request", Param: "method", Message: "The method must be POST."}
	case *l.URL != c.endpoint:
		return "", &problem{Code: "url_mismatch", Param: "url", Message: "The URL is not the endpoint of the batch."}
	case kindOf(c.endpoint) == unanswered:
		return "", &problem{Code: "invalid_request", Param: "url", Message: "The sandbox answers chat completions, responses and moderations only."}
	}
	if p := c.body(l.Body); p != nil {
		return "", p
	}
	sum := sha256.Sum256([]byte(*l.CustomID))
	key := [16]byte(sum[:16])
	if _, twice := c.seen[key]; twice {
		return "", &problem{Code: "duplicate_custom_id", Param: "custom_id", Message: "The custom_id is used by an earlier line."}
	}
	c.seen[key] = struct{}{}
	return *l.CustomID, nil
}

func (c *checker) body(body jsontext.Value) *problem {
	if len(body) == 0 || bytes.Equal(body, []byte("null")) {
		return &problem{Code: "missing_required_parameter", Param: "body", Message: "Missing required parameter."}
	}
	q, missing, err := kindOf(c.endpoint).read(body)
	if err != nil {
		return &problem{Code: "invalid_request", Param: "body", Message: "The body is not a request for the endpoint."}
	}
	switch {
	case missing != "":
		return &problem{Code: "missing_required_parameter", Param: "body." + missing, Message: "Missing required parameter."}
	case q.stream:
		return &problem{Code: "invalid_request", Param: "body.stream", Message: "Streaming is not possible in a batch."}
	}
	if c.out.Model == "" {
		c.out.Model = q.model
	}
	if q.model != c.out.Model {
		return &problem{Code: "model_mismatch", Param: "body.model", Message: "All lines of a batch must name one model."}
	}
	return nil
}
