package sandbox

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// list answers with a page of all, as the faults that are about lists have it.
func (s *Server) list(c *call, op string, all []listed, limit int) (answer, error) {
	body, err := page(all, c.URL.Query().Get("after"), s.disturb(c, op, all, limit))
	return answer{body: body}, err
}

// disturb hides entries as the faults that are about lists have it, and returns
// how many a page may have.
func (s *Server) disturb(c *call, op string, all []listed, limit int) int {
	if f, ok := s.faults.onAnswer("listing_lag", op); ok {
		visible := c.now.Add(-time.Duration(f.number("seconds")) * time.Second)
		hide(all, func(_ int, l listed) bool { return l.created.After(visible) })
	}
	if f, ok := s.faults.onAnswer("listing_cut", op); ok {
		hide(all, func(i int, _ listed) bool { return int64(i) >= f.number("entries") })
	}
	if f, ok := s.faults.onAnswer("listing_hole", op); ok {
		id, every := f.text("id"), max(f.number("every"), 1)
		hide(all, func(i int, l listed) bool { return (id == "" || id == l.id) && int64(i+1)%every == 0 })
	}
	if f, ok := s.faults.onAnswer("short_page", op); ok {
		limit = int(min(int64(limit), max(f.number("entries"), 1)))
	}
	return limit
}

func hide(all []listed, concerns func(i int, l listed) bool) {
	for i, l := range all {
		all[i].hidden = l.hidden || concerns(i, l)
	}
}

func limitOf(r *http.Request, def, most int) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, invalidParam("limit", fmt.Sprintf("must be from 1 to %d", most))
	}
	return n, nil
}
