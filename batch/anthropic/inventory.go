package anthropic

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/line"
	"rollcall/batch/loose"
	"rollcall/batch/transport"
)

const (
	jobsPage = 100
	// maxListing bounds a page of a list, in bytes.
	maxListing = 4 << 20
	// maxEntries is the most that any list may give, for a server that does not
	// obey the limit that it is asked for. The API itself gives up to 1,000.
	maxEntries = 1_000
)

// listing is a page of the list of batches.
type listing struct {
	Data    entries    `json:"data"`
	HasMore loose.Flag `json:"has_more"`
	FirstID loose.Str  `json:"first_id"`
	LastID  loose.Str  `json:"last_id"`
}

// entries are the elements of a page. What cannot be read is an error and never
// left out: it would be taken for absent.
type entries struct {
	v   []batch.ListedJob
	set bool
}

func (e *entries) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != jsontext.KindBeginArray {
		return errShape
	}
	e.set = true
	seen := map[string]bool{}
	return loose.EachElement(dec, func(i int) error {
		var w loose.Obj[wireJob]
		if i == maxEntries {
			return errShape
		}
		if err := json.UnmarshalDecode(dec, &w); err != nil {
			return err
		}
		l, err := listedJob(&w.V)
		if err != nil || !w.Set || seen[l.ID] {
			return errShape
		}
		seen[l.ID] = true
		e.v = append(e.v, l)
		return nil
	})
}

// listedJob needs the time of creation: with the number of requests it is all
// that a list tells about whose a job may be.
func listedJob(w *wireJob) (batch.ListedJob, error) {
	job, err := jobOf(w)
	if err != nil || !w.Created.Set || !w.Counts.Set {
		return batch.ListedJob{}, errShape
	}
	return batch.ListedJob{Job: job, Created: w.Created.T}, nil
}

// next is the cursor behind a page, or "" at the end of the list.
func (l *listing) next(after string) (string, error) {
	n := len(l.Data.v)
	switch {
	case !l.Data.set, !l.HasMore.Set, l.FirstID.Odd, l.LastID.Odd:
		return "", errShape
	case n == 0 && l.HasMore.V:
		return "", errList
	case n == 0:
		return "", nil
	}
	first, last := l.Data.v[0].ID, l.Data.v[n-1].ID
	if l.FirstID.Set && l.FirstID.V != first || l.LastID.Set && l.LastID.V != last || last == after {
		return "", errList
	}
	if !l.HasMore.V {
		return "", nil
	}
	return last, nil
}

// ListJobs gives a page of the workspace's jobs, those of everybody who uses it,
// newest first. The API has no filter.
func (c *Client) ListJobs(ctx context.Context, after string) (batch.JobPage, error) {
	const op = "list jobs"
	query := url.Values{"limit": {strconv.Itoa(jobsPage)}}
	if after != "" {
		if !transport.PathSafe(after) {
			return batch.JobPage{}, invalidID(op)
		}
		query.Set("after_id", after)
	}
	if err := c.key.Check(op); err != nil {
		return batch.JobPage{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	req := c.request(ctx, http.MethodGet, batches, nil)
	req.URL.RawQuery = query.Encode()
	resp, err := c.wire.Do(req, maxListing)
	if err != nil {
		return batch.JobPage{}, &batch.Error{Op: op, Kind: readFault(err), Cause: err}
	}
	defer resp.Body.Close()
	a := c.meta(resp)
	if a.status != http.StatusOK {
		resp.Body = io.NopCloser(io.LimitReader(resp.Body, maxAnswer))
		return batch.JobPage{}, c.read(resp).fault(op, readKind)
	}
	if a.err != nil {
		return batch.JobPage{}, a.error(op, readFault(a.err), a.err)
	}
	var page listing
	body := &loose.Tap{R: resp.Body}
	err = json.UnmarshalRead(body, &page)
	switch {
	case body.Err != nil:
		return batch.JobPage{}, a.error(op, readFault(body.Err), body.Err)
	case err != nil: // it may quote the answer
		return batch.JobPage{}, a.error(op, batch.BadAnswer, errShape)
	}
	next, err := page.next(after)
	if err != nil {
		return batch.JobPage{}, a.error(op, batch.BadAnswer, err)
	}
	return batch.JobPage{Jobs: page.Data.v, Next: next}, nil
}

// ListFiles gives nothing: there are no files.
func (c *Client) ListFiles(context.Context, string) (batch.FilePage, error) {
	return batch.FilePage{}, nil
}

// RequestID reads no more of the line than its custom_id, and keeps no more.
func (c *Client) RequestID(request []byte) (customID string, ok bool) { return line.ReadID(request) }
