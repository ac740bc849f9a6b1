package sql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lib/pq"
)

func TestScrubKeepsOurWordsAndDropsTheServers(t *testing.T) {
	server := &pq.Error{Code: "23505", Message: `duplicate key "MARKER"`, Detail: "Key (x)=(MARKER)", Table: "works", Constraint: "works_one_live"}
	got := scrub(fmt.Errorf("bind works: %w", server)).Error()
	for _, want := range []string{"bind works: ", "unique_violation", "23505", "works_one_live"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	// Where words of the server may stand in the middle, none are kept.
	mixed := scrub(fmt.Errorf("a: %w, and more", server)).Error()
	for _, s := range []string{got, mixed} {
		if strings.Contains(s, "MARKER") {
			t.Errorf("the server's words are in %q", s)
		}
	}
}
