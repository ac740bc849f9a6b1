package sql_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

func TestApprovedPolicyIsReadBackWhole(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		want := l.Approve(t, sqltest.Policy("forum", 1))
		for range 2 { // again by the same actor changes nothing
			l.Approve(t, sqltest.Policy("forum", 1))
		}
		got, err := l.Policy(t.Context(), want.Key())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(*want, got); diff != "" {
			t.Error(diff)
		}
		all, err := l.Policies(t.Context())
		if err != nil || len(all) != 1 {
			t.Errorf("policies: %v, %v", all, err)
		}
		if _, err := l.Policy(t.Context(), reconcile.PolicyKey{ID: "forum", Version: 2}); !errors.Is(err, reconcile.ErrNotFound) {
			t.Errorf("a version that is not there: %v", err)
		}
	})
}

// TestRefusedApprovals: each says what to do instead, and leaves the ledger as
// it was.
func TestRefusedApprovals(t *testing.T) {
	changed := sqltest.Policy("forum", 1)
	changed.Classifier.Model = "another-model"
	for name, c := range map[string]struct {
		before  []int64
		revoked int64
		approve reconcile.Policy
		want    string
	}{
		"changed text": {[]int64{1}, 0, changed, "policy forum/1 is in the ledger with another text; give the changed one a new version, 2"},
		"revoked":      {[]int64{1, 2}, 2, sqltest.Policy("forum", 2), "policy forum/2 was revoked; give it a new version, 3, to approve it again"},
		"older than the approved one": {[]int64{1, 3}, 0, sqltest.Policy("forum", 2),
			"policy forum/2: forum/3 is approved and stays in force; give the old text a new version, 4"},
		"approved before, and older": {[]int64{2, 3, 4}, 4, sqltest.Policy("forum", 2),
			"policy forum/2: forum/3 is approved and stays in force; give the old text a new version, 5"},
	} {
		t.Run(name, func(t *testing.T) {
			sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
				for _, version := range c.before {
					l.Approve(t, sqltest.Policy("forum", version))
				}
				openRaw(t, l.Address).exec("UPDATE policy_versions SET state = 'revoked' WHERE version = $1", c.revoked)
				before, err := l.Policies(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				v, err := reconcile.NewPolicyVersion(c.approve, l.Keys)
				if err != nil {
					t.Fatal(err)
				}
				err = l.ApprovePolicy(t.Context(), l.Clock.Now(), v, "berta", "a test", "none")
				if !errors.Is(err, reconcile.ErrRefused) || !strings.HasSuffix(err.Error(), "refused: "+c.want) {
					t.Errorf("%v\nwant refused: %s", err, c.want)
				}
				after, err := l.Policies(t.Context())
				if diff := cmp.Diff(before, after); err != nil || diff != "" {
					t.Errorf("%v, policies (-before +after):\n%s", err, diff)
				}
			})
		})
	}
}

// A higher version that is revoked is not in force, so an older one may be.
func TestOlderPolicyIsApprovedOnceTheNewerIsRevoked(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		l.Approve(t, sqltest.Policy("forum", 2))
		openRaw(t, l.Address).exec("UPDATE policy_versions SET state = 'revoked'")
		l.Approve(t, sqltest.Policy("forum", 1))
		if got, err := l.Policy(t.Context(), reconcile.PolicyKey{ID: "forum", Version: 1}); err != nil || got.State != reconcile.PolicyApproved {
			t.Errorf("%s, %v", got.State, err)
		}
	})
}
