package openai

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"rollcall/batch"
	"rollcall/batch/transport"
)

// Upload streams the body; no more than a few kilobytes of it are in memory.
// It never returns UnknownOutcome: what a lost answer can leave behind is a
// file, never a job, and the file expires.
func (c *Client) Upload(ctx context.Context, in batch.Input) (string, error) {
	const op = "upload"
	if !transport.PathSafe(in.Name) || !strings.HasSuffix(in.Name, ".jsonl") {
		return "", &batch.Error{Op: op, Kind: batch.Rejected, Code: codeInvalidName}
	}
	if err := c.key.Check(op); err != nil {
		return "", err
	}
	head, tail, contentType := c.envelope(in)
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TransferTimeout)
	defer cancel()

	src := startSource(in)
	req := c.request(ctx, http.MethodPost, "/files", io.MultiReader(bytes.NewReader(head), src, bytes.NewReader(tail)))
	req.ContentLength = int64(len(head)) + in.Size + int64(len(tail))
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", "application/json")
	resp, err := c.wire.Do(req, maxAnswer)
	// An answer may come before the body is read; Write must not outlive us.
	writeErr := src.stop()
	var a *answer
	if err == nil {
		defer resp.Body.Close()
		a = c.read(resp)
	}
	switch {
	case a != nil && a.status != http.StatusOK && a.status != http.StatusCreated:
		return "", a.fault(op, uploadKind)
	case writeErr != nil:
		e := &batch.Error{Op: op, Kind: batch.Temporary, Cause: writeErr}
		if errors.Is(writeErr, errBodySize) {
			e.Code = CodeBodySize
		}
		return "", e
	case err != nil:
		return "", &batch.Error{Op: op, Kind: batch.Temporary, Cause: err}
	case a.err != nil:
		return "", a.error(op, batch.Temporary, a.err)
	case !src.whole: // answered before the body was read
		return "", a.error(op, batch.BadAnswer, nil)
	}
	id, err := parseFile(a.body, in.Size)
	if err != nil {
		return "", a.error(op, batch.BadAnswer, err)
	}
	return id, nil
}

// envelope is the multipart text before and after the file's bytes.
func (c *Client) envelope(in batch.Input) (head, tail []byte, contentType string) {
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	field := func(name, value string) { w.WriteField(name, value) } // a Buffer never fails
	field("purpose", "batch")
	if e := c.cfg.Dialect.Expiry.of(in.Expiry); e != nil {
		field("expires_after[anchor]", e.Anchor)
		field("expires_after[seconds]", strconv.FormatInt(e.Seconds, 10))
	}
	w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="file"; filename="` + in.Name + `"`},
		"Content-Type":        {"application/jsonl"},
	})
	n := buf.Len()
	w.Close()
	return buf.Bytes()[:n:n], buf.Bytes()[n:], w.FormDataContentType()
}

var (
	errBodySize = errors.New("the body is not as long as announced")
	errStopped  = errors.New("the upload has ended")
)

// source runs an Input's Write in a goroutine of its own and yields exactly
// Size bytes or an error. A body of another length must not look complete:
// the error breaks the request off before its last byte.
type source struct {
	r     *io.PipeReader
	done  chan struct{}
	err   error // of Write; to be read after done, as is whole
	whole bool  // Write handed over exactly Size bytes
}

func startSource(in batch.Input) *source {
	r, w := io.Pipe()
	s := &source{r: r, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		counted := &counter{w: w, left: in.Size}
		s.err = in.Write(counted)
		if s.err == nil && counted.left != 0 {
			s.err = errBodySize
		}
		if counted.over {
			s.err = errBodySize
		}
		s.whole = s.err == nil
		w.CloseWithError(s.err) // nil is io.EOF
	}()
	return s
}

func (s *source) Read(p []byte) (int, error) { return s.r.Read(p) }

// stop ends Write if it still runs, waits for it, and returns its error unless
// stopping was the reason.
func (s *source) stop() error {
	s.r.CloseWithError(errStopped)
	<-s.done
	if errors.Is(s.err, errStopped) {
		return nil
	}
	return s.err
}

type counter struct {
	w    io.Writer
	left int64
	over bool
}

func (c *counter) Write(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		c.over = true
		return 0, errBodySize
	}
	n, err := c.w.Write(p)
	c.left -= int64(n)
	return n, err
}
