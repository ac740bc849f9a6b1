package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/loose"
	"rollcall/batch/transport"
)

const (
	// maxListing bounds a page of a list; 100 jobs, each with many faults.
	maxListing = 16 << 20
	// maxEntries is the most that any list may give, for a server that does not
	// obey the limit that it is asked for.
	maxEntries = 10_000
)

var errList = errors.New("the list contradicts itself")

// listing is a page of a list of W, of which T is kept.
type listing[W, T any] struct {
	Object  loose.Str         `json:"object"`
	Data    entries[W, T]     `json:"data"`
	LastID  loose.Str         `json:"last_id"`
	HasMore loose.Flag        `json:"has_more"`
	Paging  loose.Obj[paging] `json:"paging"`
}

// paging is how a dialect with Cursor continues a list.
type paging struct {
	NextCursor loose.Str `json:"next_cursor"`
}

// entries are the elements of a page. Each is turned into what is kept of it
// before the next is read, so that a long page costs little. What cannot be
// read is an error and never left out: it would be taken for absent.
type entries[W, T any] struct {
	read func(*W) (id string, v T, shown bool, err error)

	v    []T
	set  bool
	n    int    // elements, shown or not
	last string // id of the last element
}

func (e *entries[W, T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != jsontext.KindBeginArray {
		return errShape
	}
	e.set = true
	seen := map[string]bool{}
	return loose.EachElement(dec, func(i int) error {
		var w loose.Obj[W]
		if i == maxEntries {
			return errShape
		}
		if err := json.UnmarshalDecode(dec, &w); err != nil {
			return err
		}
		id, v, shown, err := e.read(&w.V)
		if err != nil || !w.Set || seen[id] {
			return errShape
		}
		seen[id] = true
		e.n, e.last = i+1, id
		if shown {
			e.v = append(e.v, v)
		}
		return nil
	})
}

// next is the cursor behind a page of which asked elements were wanted, or ""
// at the end of the list.
func (l *listing[W, T]) next(after string, asked int) (string, error) {
	switch {
	case !l.Data.set, l.HasMore.Odd, l.Object.Set && l.Object.V != "list":
		return "", errShape
	case l.HasMore.Set && !l.HasMore.V, !l.HasMore.Set && l.Data.n < asked:
		return "", nil
	case l.Data.n == 0, l.Data.last == after, l.LastID.Odd, l.LastID.V != "" && l.LastID.V != l.Data.last:
		return "", errList
	}
	return l.Data.last, nil
}

// cursor is next for a dialect with Cursor: the list says itself where it goes
// on, and ends where it does not. A full page that says nothing is no end.
func (l *listing[W, T]) cursor(after string, asked int) (string, error) {
	next := l.Paging.V.NextCursor
	switch {
	case !l.Data.set, l.Paging.Odd, next.Odd, l.Object.Set && l.Object.V != "list":
		return "", errShape
	case l.HasMore.V && next.V == "":
		return "", errList // more, and no way to it
	case next.V == "" && !l.Paging.Set && !l.HasMore.Set && l.Data.n >= asked:
		return "", errShape
	case next.V == "":
		return "", nil
	case !validCursor(next.V):
		return "", errShape
	case l.Data.n == 0, next.V == after:
		return "", errList
	}
	return next.V, nil
}

// validCursor is true for at most 512 visible characters of ASCII.
func validCursor(s string) bool { return transport.HeaderSafe(s) && len(s) <= 512 }

// pager is a listing of whatever type.
type pager interface {
	next(after string, asked int) (string, error)
	cursor(after string, asked int) (string, error)
}

// list reads one page, as it comes in.
func (c *Client) list(ctx context.Context, op, path string, query url.Values, after string, asked int, page pager) (next string, err error) {
	name, valid := "after", transport.PathSafe
	if c.cfg.Dialect.Cursor {
		name, valid = "cursor", validCursor
	}
	if after != "" {
		if !valid(after) {
			return "", &batch.Error{Op: op, Kind: batch.Rejected, Code: codeInvalidID}
		}
		query.Set(name, after)
	}
	query.Set("limit", strconv.Itoa(asked))
	if err := c.key.Check(op); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	req := c.request(ctx, http.MethodGet, path, nil)
	req.URL.RawQuery = c.query(query)
	req.Header.Set("Accept", "application/json")
	resp, err := c.wire.Do(req, maxListing)
	if err != nil {
		return "", &batch.Error{Op: op, Kind: readFault(err), Cause: err}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		resp.Body = io.NopCloser(io.LimitReader(resp.Body, maxAnswer))
		return "", c.read(resp).fault(op, readKind)
	}
	body := &loose.Tap{R: resp.Body}
	err = json.UnmarshalRead(body, page)
	switch {
	case body.Err != nil:
		return "", c.meta(resp).error(op, readFault(body.Err), body.Err)
	case err != nil: // it may quote the answer
		return "", c.meta(resp).error(op, batch.BadAnswer, errShape)
	}
	if c.cfg.Dialect.Cursor {
		next, err = page.cursor(after, asked)
	} else {
		next, err = page.next(after, asked)
	}
	if err != nil {
		return "", c.meta(resp).error(op, batch.BadAnswer, err)
	}
	return next, nil
}
