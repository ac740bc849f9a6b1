package webhook

import (
	"errors"
	"io"
	"net/http"
	"strings"
)

// Receive reads a request and says whether it is genuine, as Verify does. It
// looks at the headers before it reads a byte of the body, and reads at most
// MaxBody of it; how long that may take is the server's ReadTimeout. The body is
// not to be parsed, logged or kept when there is an error, and is not given then.
func (v *Verifier) Receive(w http.ResponseWriter, r *http.Request) (Delivery, []byte, error) {
	c, err := v.claimed(r.Header)
	if err != nil {
		return Delivery{}, nil, err
	}
	body, err := v.read(w, r)
	if err != nil {
		return Delivery{}, nil, err
	}
	d, err := v.prove(c, body)
	if err != nil {
		return Delivery{}, nil, err
	}
	return d, body, nil
}

func (v *Verifier) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	for _, e := range r.Header.Values("Content-Encoding") {
		if !strings.EqualFold(e, "identity") {
			return nil, Encoded
		}
	}
	if r.ContentLength > v.MaxBody {
		return nil, TooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, v.MaxBody))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, TooLarge
	case err != nil:
		return nil, Cut
	}
	return body, nil
}
