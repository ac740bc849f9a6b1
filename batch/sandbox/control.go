package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// serveBooks answers GET /_sandbox/books.
func (s *Server) serveBooks(w http.ResponseWriter, _ *http.Request) {
	b, err := s.Books()
	if err != nil {
		s.controlFailed(w, err)
		return
	}
	writeJSON(w, http.StatusOK, b)
}

// serveAccepted answers GET /_sandbox/accepted: a line for every custom id that
// was accepted, with its job.
func (s *Server) serveAccepted(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/jsonl")
	out := bufio.NewWriter(w)
	err := s.Accepted(func(jobID, customID string) error {
		b, err := json.Marshal(struct {
			Job      string `json:"job"`
			CustomID string `json:"custom_id"`
		}{jobID, customID})
		if err != nil {
			return err
		}
		_, err = out.Write(append(b, '\n'))
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		s.log.Error().Err(err).Msg("sandbox failed")
		panic(http.ErrAbortHandler) // a list that is cut short must not look whole
	}
}

type faultsBody struct {
	Set   []armed  `json:"set"`
	Known []string `json:"known"`
}

// serveFaults answers GET /_sandbox/faults.
func (s *Server) serveFaults(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, faultsBody{s.faults.list(), FaultNames()})
}

// readFault reads a fault, as an object or as a command line writes it.
func readFault(raw jsontext.Value) (f Fault, err error) {
	if raw.Kind() != '"' {
		if json.Unmarshal(raw, &f, json.RejectUnknownMembers(true)) != nil {
			return f, errors.New(`it is neither "NAME:key=value,…" nor {"name": …, "params": {…}} with texts as values`)
		}
		return f, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return f, errors.New("it is no text in UTF-8")
	}
	return ParseFault(text)
}

// readControl reads the body of a request; shape is what it has to look like. The
// errors of the decoder name types of this program, so they are not told.
func readControl(w http.ResponseWriter, r *http.Request, body any, shape string) error {
	if json.UnmarshalRead(http.MaxBytesReader(w, r.Body, 1<<20), body, json.RejectUnknownMembers(true)) != nil {
		return errors.New("the body must be JSON of at most 1 MiB that looks like " + shape)
	}
	return nil
}

// changeFaults answers POST /_sandbox/faults: {"faults":[...]} replaces those
// that are set. Each is "name:key=value" or {"name":…,"params":{…}}.
func (s *Server) changeFaults(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Faults *[]jsontext.Value `json:"faults"`
	}
	err := readControl(w, r, &body, `{"faults": ["NAME:key=value,…"]}`)
	if err == nil && body.Faults == nil {
		err = missingParam("faults")
	}
	if err != nil {
		controlRefused(w, err)
		return
	}
	var faults []Fault
	for i, raw := range *body.Faults {
		f, err := readFault(raw)
		if err != nil {
			controlRefused(w, fmt.Errorf("fault %d of the list: %w", i+1, err))
			return
		}
		faults = append(faults, f)
	}
	if err := s.SetFaults(faults...); err != nil {
		controlRefused(w, err)
		return
	}
	s.serveFaults(w, r)
}

type clockBody struct {
	Now   time.Time `json:"now"`
	Speed float64   `json:"speed"`
}

// serveClock answers GET /_sandbox/clock.
func (s *Server) serveClock(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, clockBody{s.clock.now(), s.clock.speed})
}

// advanceClock answers POST /_sandbox/clock: {"advance":"24h"} puts virtual
// time forward.
func (s *Server) advanceClock(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Advance string `json:"advance"`
	}
	err := readControl(w, r, &body, `{"advance": "24h"}`)
	var d time.Duration
	if err == nil {
		if d, err = time.ParseDuration(body.Advance); err != nil {
			err = fmt.Errorf("advance %q is no duration such as 90s or 24h", body.Advance)
		}
	}
	if err == nil {
		err = s.Advance(d)
	}
	if err != nil {
		controlRefused(w, err)
		return
	}
	s.serveClock(w, r)
}

// controlRefused tells the operator of the sandbox what is wrong with a request
// to it. The requests under /_sandbox/ hold no report text.
func controlRefused(w http.ResponseWriter, err error) {
	writeJSON(w, http.StatusBadRequest, errorBody{&apiError{Type: "invalid_request_error", Message: err.Error()}})
}

func (s *Server) controlFailed(w http.ResponseWriter, err error) {
	s.log.Error().Err(err).Msg("sandbox failed")
	writeJSON(w, http.StatusInternalServerError, errorBody{&apiError{Type: "server_error", Message: "The sandbox failed; see its log."}})
}
