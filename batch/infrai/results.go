package infrai

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/loose"
	"rollcall/batch/transport"
)

// maxPages bounds a chain of pages; each page has one item at least.
const maxPages = 10 * maxItems

// Download opens the results of a job, whose id is their file's id, as one line
// for each item, however they come. The list is not whole, and the body ends in
// an error, unless each answer says ok and, where there are pages, the last one
// has been read. The provider promises no time for which it can be called again.
func (c *Client) Download(ctx context.Context, fileID string) (io.ReadCloser, int64, error) {
	const op = "download"
	if !transport.PathSafe(fileID) {
		return nil, 0, &batch.Error{Op: op, Kind: batch.Rejected, Code: codeInvalidID}
	}
	if c.contract.Results == nil {
		return nil, 0, &batch.Error{Op: op, Kind: batch.Denied, Code: codeGateResults}
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TransferTimeout)
	r := &results{c: c, ctx: ctx, cancel: cancel, route: at(c.contract.Results.Route, fileID), left: maxResults, seen: map[string]bool{}}
	size, err := r.open("")
	if err != nil {
		r.Close()
		return nil, 0, err
	}
	if c.contract.Results.Shape != ShapeJSONL {
		size = -1
	}
	return r, size, nil
}

// results reads the items of one answer after another as lines. No more than an
// item is held.
type results struct {
	c      *Client
	ctx    context.Context
	cancel context.CancelFunc
	route  string
	left   int64 // bytes that may still come
	seen   map[string]bool

	body  *watched
	list  *list     // of the answer being read; nil for lines
	lines io.Reader // the answer as it is, for lines
	buf   []byte    // a line that has not been taken yet
	err   error     // for good
}

// watched is an answer's body.
type watched struct {
	loose.Tap
	io.Closer
}

// open asks for the answer behind a cursor.
func (r *results) open(cursor string) (size int64, err error) {
	const op = "download"
	path := r.route
	if cursor != "" {
		path += "?" + url.QueryEscape(r.c.contract.Results.PageParameter) + "=" + url.QueryEscape(cursor)
	}
	if err := r.c.key.Check(op); err != nil {
		return 0, err
	}
	req := r.c.request(r.ctx, http.MethodGet, path, nil)
	resp, err := r.c.wire.Do(req, r.left)
	if err != nil {
		return 0, &batch.Error{Op: op, Kind: readFault(err), Cause: err}
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return 0, r.c.read(resp).fault(op, readKind)
	}
	// A page of an edge must not be taken for results.
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || resp.ContentLength > r.left {
		defer resp.Body.Close()
		return 0, r.c.meta(resp).error(op, batch.BadAnswer, nil)
	}
	r.body = &watched{loose.Tap{R: resp.Body}, resp.Body}
	if r.c.contract.Results.Shape == ShapeJSONL {
		return resp.ContentLength, r.openLines(r.c.meta(resp))
	}
	r.list = newList(r.body, r.c.contract.Results)
	return resp.ContentLength, nil
}

// maxRefusal is how long an error may be that is looked for in place of lines.
const maxRefusal = 64 << 10

// openLines tells lines from an error that came with status 200.
func (r *results) openLines(a *answer) error {
	head, err := io.ReadAll(io.LimitReader(r.body, maxRefusal))
	if err != nil {
		return &batch.Error{Op: "download", Kind: readFault(err), Cause: err}
	}
	first, _, _ := bytes.Cut(head, []byte("\n"))
	a.body = first
	if e := a.envelope(); e.read && e.ok == any(false) {
		return a.coded("download", batch.BadAnswer, e.refusal())
	}
	r.lines = io.MultiReader(bytes.NewReader(head), r.body)
	return nil
}

func (r *results) Read(p []byte) (int, error) {
	if r.lines != nil {
		return r.lines.Read(p)
	}
	for len(r.buf) == 0 && r.err == nil {
		r.err = r.next()
	}
	if len(r.buf) == 0 {
		return 0, r.err
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}

// next puts the next item into buf, or is io.EOF when all have come.
func (r *results) next() error {
	item, err := r.list.next()
	switch {
	case err == io.EOF:
		return r.turn()
	case err != nil:
		return r.fault(err)
	}
	if item.Compact(jsontext.EscapeForJS(true)) != nil {
		return r.fault(errShape)
	}
	r.buf = append(item, '\n')
	return nil
}

// turn goes on to the next page.
func (r *results) turn() error {
	r.left -= r.body.N
	r.body.Close()
	next := r.list.cursor
	if next == "" {
		return io.EOF
	}
	// A cursor that comes back would never end.
	if r.seen[next] || len(r.seen) >= maxPages || r.left <= 0 {
		return r.fault(errShape)
	}
	r.seen[next] = true
	_, err := r.open(next)
	return err
}

// fault hides what a decoder says, which quotes what it reads.
func (r *results) fault(err error) error {
	cause, kind, code := errShape, batch.BadAnswer, ""
	var refused errRefused
	switch {
	case r.body.Err != nil:
		cause, kind = r.body.Err, readFault(r.body.Err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		cause, kind = io.ErrUnexpectedEOF, batch.Temporary
	case errors.Is(err, transport.ErrTooLarge):
		cause = transport.ErrTooLarge
	case errors.As(err, &refused):
		cause, code = nil, string(refused)
	}
	return &batch.Error{Op: "download", Kind: kind, HTTPStatus: http.StatusOK, Code: code, Cause: cause}
}

func (r *results) Close() error {
	r.cancel()
	if r.body == nil {
		return nil
	}
	return r.body.Close()
}

// errRefused is the code of an answer that is none, though its status is 200.
type errRefused string

func (e errRefused) Error() string { return string(e) }

// list reads one answer in the envelope, in whatever order its members come: the
// items are given out as they are met, and whether the answer was one is known
// at its end.
type list struct {
	dec                   *jsontext.Decoder
	items, next_, ok, err jsontext.Pointer
	in                    bool // within the items
	met                   bool // the items were there
	said                  bool // ok is true
	cursor                string
}

func newList(body io.Reader, r *Results) *list {
	pointer := func(path string) jsontext.Pointer {
		p := jsontext.Pointer("/data")
		for name := range strings.SplitSeq(path, ".") {
			if name != "" {
				p = p.AppendToken(name)
			}
		}
		return p
	}
	l := &list{dec: jsontext.NewDecoder(body), items: pointer(r.ItemsPath), ok: "/ok", err: "/error"}
	if r.NextPagePath != "" {
		l.next_ = pointer(r.NextPagePath)
	}
	return l
}

// next is the next item, or io.EOF at the end of an answer that says ok.
func (l *list) next() (jsontext.Value, error) {
	for {
		switch kind := l.dec.PeekKind(); {
		case l.in && kind != jsontext.KindEndArray && kind != jsontext.KindInvalid:
			return l.dec.ReadValue()
		case l.in:
			if _, err := l.dec.ReadToken(); err != nil {
				return nil, err
			}
			l.in = false
		default:
			done, err := l.step()
			if err != nil {
				return nil, err
			}
			if done {
				return nil, l.end()
			}
		}
	}
}

// step reads a brace, or a name with what belongs to it.
func (l *list) step() (done bool, err error) {
	tok, err := l.dec.ReadToken()
	if err != nil {
		if err == io.EOF { // before the first brace
			err = errShape
		}
		return false, err
	}
	switch tok.Kind() {
	case jsontext.KindBeginObject:
		return false, nil
	case jsontext.KindEndObject:
		return l.dec.StackDepth() == 0, nil
	case jsontext.KindString:
		return false, l.member()
	}
	return false, errShape
}

// member reads the value of the name that was read last.
func (l *list) member() error {
	where, kind := l.dec.StackPointer(), l.dec.PeekKind()
	switch {
	case where == l.items && kind == jsontext.KindBeginArray:
		_, err := l.dec.ReadToken()
		l.in, l.met = err == nil, true
		return err
	case where == l.ok:
		l.said = kind == jsontext.KindTrue
	case where == l.err && kind != jsontext.KindNull:
		return l.refusal()
	case where == l.next_ && kind == jsontext.KindString:
		tok, err := l.dec.ReadToken()
		if err == nil {
			l.cursor = tok.String()
		}
		return err
	case kind == jsontext.KindBeginObject && (where.Contains(l.items) || l.next_ != "" && where.Contains(l.next_)):
		return nil // its brace is read by step
	}
	return l.dec.SkipValue()
}

func (l *list) refusal() error {
	raw, err := l.dec.ReadValue()
	if err != nil {
		return err
	}
	root, _ := documentRoot(raw)
	code, _ := lookup(root, "code").(string)
	if code = batch.SafeCode(code); code == "" {
		code = codeOKFalse
	}
	return errRefused(code)
}

// end judges an answer that has been read to its last brace.
func (l *list) end() error {
	switch _, err := l.dec.ReadToken(); {
	case err == nil:
		return errShape // something follows
	case err != io.EOF:
		return err
	case !l.said:
		return errRefused(codeOKFalse)
	case !l.met, len(l.cursor) > 256, !printable(l.cursor):
		return errShape
	}
	return io.EOF
}
