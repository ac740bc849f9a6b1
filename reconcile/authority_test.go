package reconcile

import (
	"testing"

	"pgregory.net/rapid"
)

func TestAuthority(t *testing.T) {
	for name, tc := range map[string]struct {
		c    Candidate
		want MarkerDecision
	}{
		"first record":                       {Candidate{Revision: 1, CurrentRevision: 1, Authority: HighestAccepted, Disposition: Live}, MarkAuthoritative},
		"F42 old revision, highest accepted": {Candidate{Revision: 1, CurrentRevision: 2, Authority: HighestAccepted, Disposition: Superseded}, MarkHistory},
		"F42 old revision, highest applied":  {Candidate{Revision: 1, CurrentRevision: 2, Authority: HighestApplied, Disposition: Superseded}, MarkAuthoritative},
		"F42 old after new": {Candidate{Revision: 1, CurrentRevision: 2, Authority: HighestApplied, Disposition: Superseded,
			HasStanding: true, StandingRevision: 2, StandingWork: Live}, MarkHistory},
		"edit": {Candidate{Revision: 2, CurrentRevision: 2, Authority: HighestAccepted, Disposition: Live,
			HasStanding: true, StandingRevision: 1, StandingWork: Superseded}, MarkAuthoritative},
		"edit after a decision": {Candidate{Revision: 2, CurrentRevision: 2, Authority: HighestApplied, Disposition: Live,
			HasStanding: true, StandingRevision: 1, StandingDecided: true, StandingWork: Superseded}, MarkHistory},
		"equal revision, from a withdrawn work": {Candidate{Revision: 2, CurrentRevision: 2, Authority: HighestAccepted, Disposition: Live,
			HasStanding: true, StandingRevision: 2, StandingWork: Withdrawn}, MarkAuthoritative},
		"equal revision, to a withdrawn work": {Candidate{Revision: 2, CurrentRevision: 2, Authority: HighestAccepted, Disposition: Withdrawn,
			HasStanding: true, StandingRevision: 2, StandingWork: Live}, MarkHistory},
		"equal revision, both live": {Candidate{Revision: 2, CurrentRevision: 2, Authority: HighestAccepted, Disposition: Live,
			HasStanding: true, StandingRevision: 2, StandingWork: Live}, MarkHistory},
	} {
		if got := Authority(tc.c); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// Whatever arrives in whatever order, authority only moves up, and stops at a
// person's decision.
func TestAuthorityOnlyMovesUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.SampledFrom([]AuthorityRule{HighestAccepted, HighestApplied}).Draw(t, "rule")
		current := rapid.Int64Range(1, 5).Draw(t, "current")
		var standing Candidate // only what stands is used
		for range rapid.IntRange(1, 12).Draw(t, "results") {
			current += rapid.Int64Range(0, 1).Draw(t, "edit")
			c := Candidate{
				Revision: rapid.Int64Range(1, current).Draw(t, "revision"), CurrentRevision: current, Authority: rule,
				Disposition: rapid.SampledFrom([]Disposition{Live, Superseded, Withdrawn}).Draw(t, "disposition"),
				HasStanding: standing.HasStanding, StandingRevision: standing.StandingRevision,
				StandingDecided: standing.StandingDecided, StandingWork: standing.StandingWork,
			}
			if Authority(c) == MarkAuthoritative {
				if standing.StandingDecided {
					t.Fatalf("a decided record lost its authority: %+v", c)
				}
				if c.HasStanding && c.Revision < standing.StandingRevision {
					t.Fatalf("authority moved down: %+v", c)
				}
				standing = Candidate{HasStanding: true, StandingRevision: c.Revision, StandingWork: c.Disposition}
			}
			if standing.HasStanding && rapid.IntRange(0, 5).Draw(t, "person") == 0 {
				standing.StandingDecided = true
			}
		}
	})
}
